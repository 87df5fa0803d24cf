#include "model/presets/preset_blocks.h"

#include "base/text/find_text.h"

const rk_preset_feature *rk_preset_find_feature(const rk_preset_inputs *inputs, const char *name) {
    return RK_FIND_BY(name, name, inputs->features, inputs->n_features);
}

rk_value rk_block_add_two(rk_graph *graph, rk_value a, rk_value b) {
    return rk_add(graph, (rk_value[]){a, b}, 2);
}

rk_value rk_block_concat_two(rk_graph *graph, rk_value a, rk_value b) {
    if (a < 0 || b < 0) return a < 0 ? b : a;
    return rk_concat(graph, (rk_value[]){a, b}, 2);
}

rk_value rk_block_features(rk_graph *graph, const rk_preset_inputs *inputs) {
    return rk_block_concat_two(graph, inputs->vectors, inputs->dense);
}

/* A slice where several features stand together. */
rk_value rk_block_features_except(rk_graph *graph, const rk_preset_inputs *inputs, const char *const *names,
                                  int32_t n) {
    rk_value parts[2 * RK_MAX_CONTEXT + 2];
    int32_t n_parts = 0, first = 0, end = 0;
    if (n == 0) return rk_block_features(graph, inputs);
    for (int32_t f = 0; f <= inputs->n_features; f++) {
        const rk_preset_feature *feature = f < inputs->n_features ? &inputs->features[f] : NULL;
        bool ends = !feature || rk_text_is_one_of(feature->name, names, (size_t)n);
        if (ends && end > first) parts[n_parts++] = rk_slice(graph, inputs->vectors, first, end - first);
        if (feature) end = feature->first + feature->width;
        if (ends) first = end;
    }
    if (inputs->dense >= 0) parts[n_parts++] = inputs->dense;
    return n_parts ? rk_concat(graph, parts, n_parts) : -1;
}

rk_value rk_block_sequence_mask(rk_graph *graph, const rk_preset_inputs *inputs, int32_t n_rows) {
    rk_value mask = -1;
    int32_t done = 0;
    if (inputs->lengths < 0) return -1;
    for (int32_t f = 0; f < inputs->n_features; f++) {
        const rk_preset_feature *feature = &inputs->features[f];
        if (!feature->length) continue;
        int32_t count = feature->first / inputs->dim - done,
                rows = count + feature->length; /* what stands before a sequence is there */
        mask = rk_block_concat_two(graph, mask,
                                   rk_mask(graph, inputs->lengths, feature->length_column, count, rows));
        done += rows;
    }
    if (done < n_rows)
        mask = rk_block_concat_two(graph, mask,
                                   rk_mask(graph, inputs->lengths, 0, n_rows - done, n_rows - done));
    return rk_reshape(graph, mask, n_rows, 1);
}

rk_value rk_block_linear_terms(rk_graph *graph, const rk_preset_inputs *inputs, bool with_dense) {
    rk_value features = inputs->linear < 0 ? -1 : rk_sum_all(graph, inputs->linear);
    if (!with_dense || inputs->dense < 0) return features;
    rk_op_options options = {.units = 1,
                             .no_bias = true,
                             .dtype = RK_F32,
                             .has_initializer = true,
                             .initializer = {.kind = RK_INIT_ZEROS}}; /* as the features' */
    rk_value dense = rk_graph_add_op(graph, "linear", "linear_dense", &options, &inputs->dense, 1);
    return features < 0 ? dense : rk_block_add_two(graph, features, dense);
}

rk_value rk_block_deep_mlp(rk_graph *graph, const rk_model_section *section, const rk_preset_inputs *inputs,
                           rk_value x, const int64_t *units, int64_t n) {
    rk_mlp mlp = {
        .units = section->deep ? section->deep : units,
        .n = section->deep ? section->n_deep : n,
        .activation = section->activation ? section->activation : "relu",
        .batch_norm = section->batch_norm,
        .dropout = section->dropout,
        .dtype = inputs->dtype,
    };
    return rk_mlp_build(graph, "deep", x, &mlp);
}

rk_value rk_block_bottom_mlp(rk_graph *graph, const rk_model_section *section,
                             const rk_preset_inputs *inputs) {
    int64_t units[RK_MAX_LAYERS] = {128, 0}, n = section->bottom ? section->n_bottom : 2;
    for (int64_t i = 0; i < section->n_bottom; i++) units[i] = section->bottom[i];
    if (n && units[n - 1] == 0) units[n - 1] = inputs->dim;
    rk_mlp mlp = {.units = units,
                  .n = n,
                  .activation = section->activation ? section->activation : "relu",
                  .dtype = inputs->dtype};
    return rk_mlp_build(graph, "bottom", inputs->dense, &mlp);
}

rk_value rk_block_logits(rk_graph *graph, const rk_preset_inputs *inputs, const char *name, rk_value x) {
    return rk_linear(graph, name, x, inputs->n_tasks, true, RK_F32);
}

int64_t rk_block_n_cross_layers(const rk_model_section *section) {
    return section->cross_layers ? section->cross_layers : 3;
}

rk_value rk_block_cross_and_deep(rk_graph *graph, const rk_model_section *section,
                                 const rk_preset_inputs *inputs, rk_value x0, rk_value crossed) {
    static const int64_t units[] = {256, 128, 64};
    bool stacked = section->structure == RK_STRUCTURE_STACKED;
    rk_value deep = rk_block_deep_mlp(graph, section, inputs, stacked ? crossed : x0, units, 3);
    return rk_block_logits(graph, inputs, "logits",
                           stacked ? deep : rk_block_concat_two(graph, crossed, deep));
}
