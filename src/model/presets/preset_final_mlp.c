/* FinalMLP (Mao et al. 2023): two multilayer perceptrons over gated features, and a bilinear fusion of their
 * outputs with several heads. */
#include <math.h>
#include <stdio.h>

#include "model/presets/preset_blocks.h"

/* Features by name: those that a gate looks at. */
typedef struct feature_names {
    char **names;
    int64_t n;
} feature_names;

static rk_value concat_feature_vectors(rk_graph *graph, const rk_preset_inputs *inputs, feature_names list) {
    rk_value parts[RK_MAX_CONTEXT];
    for (int64_t i = 0; i < list.n; i++) {
        const rk_preset_feature *feature = rk_preset_find_feature(inputs, list.names[i]);
        if (!feature) {
            rk_graph_set_error(
                graph, rk_error(RK_CONFIG, "a gate context names '%s', which is not a categorical feature",
                                list.names[i]));
            return -1;
        }
        parts[i] = rk_slice(graph, inputs->vectors, feature->first, feature->width);
    }
    return rk_concat(graph, parts, (int32_t)list.n);
}

/* What the streams read: all but the gates' contexts. */
static rk_value select_stream_features(rk_graph *graph, const rk_preset_inputs *inputs,
                                       const feature_names contexts[2]) {
    const char *names[2 * RK_MAX_CONTEXT];
    int32_t n = 0;
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < contexts[k].n; i++) names[n++] = contexts[k].names[i];
    rk_value x = rk_block_features_except(graph, inputs, names, n);
    if (x < 0)
        rk_graph_set_error(graph,
                           rk_error(RK_CONFIG,
                                    "every feature is in a gate context, so the streams have no "
                                    "input\nhint: remove a feature from gate_context or gate_context2"));
    return x;
}

/* A stream, gated and through its layers. The gate's logits come from its context; without one they would be
 * the same for every sample, so they are learned. */
typedef struct stream {
    const char *gate, *deep;
    feature_names context;
    const int64_t *units;
    int64_t n;
    double dropout;
} stream;

static rk_value apply_feature_gate(rk_graph *graph, const rk_model_section *section,
                                   const rk_preset_inputs *inputs, const stream *s, rk_value x) {
    static const int64_t units[] = {64};
    if (!s->context.n) return rk_gate(graph, s->gate, x, -1);
    char name[32];
    rk_mlp mlp = {.units = section->gate_deep ? section->gate_deep : units,
                  .n = section->gate_deep ? section->n_gate_deep : 1,
                  .activation = "relu",
                  .dtype = inputs->dtype};
    rk_value context = rk_mlp_build(graph, s->gate, concat_feature_vectors(graph, inputs, s->context), &mlp);
    snprintf(name, sizeof name, "%s/linear", s->gate);
    return rk_gate(graph, s->gate, x,
                   rk_linear(graph, name, context, rk_graph_shape(graph, x).cols, true, inputs->dtype));
}

static rk_value build_stream_mlp(rk_graph *graph, const rk_model_section *section,
                                 const rk_preset_inputs *inputs, const stream *s, rk_value x) {
    rk_mlp mlp = {.units = s->units,
                  .n = s->n,
                  .activation = section->activation ? section->activation : "relu",
                  .batch_norm = section->batch_norm,
                  .dropout = s->dropout,
                  .dtype = inputs->dtype};
    return rk_mlp_build(graph, s->deep, section->gates ? apply_feature_gate(graph, section, inputs, s, x) : x,
                        &mlp);
}

/* sum over heads of x_h W_h y_h, with a task's own W */
static rk_value add_bilinear_fusion(rk_graph *graph, const rk_preset_inputs *inputs, rk_value x, rk_value y,
                                    int32_t heads, int32_t task) {
    int32_t from = rk_graph_shape(graph, x).cols / heads, to = rk_graph_shape(graph, y).cols / heads;
    rk_op_options options = {
        .units = to,
        .no_bias = true,
        .dtype = inputs->dtype,
        .has_initializer = true,
        .initializer = {.kind = RK_INIT_NORMAL,
                        .stddev = sqrt(2.0 / ((double)heads * from * to +
                                              1))}}; /* Glorot's, of all products to one logit */
    rk_value parts[RK_MAX_HEADS];
    for (int32_t h = 0; h < heads; h++) {
        char name[32];
        snprintf(name, sizeof name, "fusion_%d_%d", task, h);
        parts[h] = rk_slice(graph, x, h * from, from);
        parts[h] = rk_graph_add_op(graph, "linear", name, &options, &parts[h], 1);
    }
    return rk_sum_all(graph, rk_multiply(graph, rk_concat(graph, parts, heads), y));
}

static rk_value fuse_streams(rk_graph *graph, const rk_preset_inputs *inputs, rk_value x, rk_value y,
                             int32_t heads) {
    int32_t units = rk_graph_shape(graph, x).cols, units2 = rk_graph_shape(graph, y).cols;
    if (units % heads || units2 % heads) {
        rk_error(RK_CONFIG, "fusion_heads (%d) must divide the units of the streams' last layers (%d and %d)",
                 heads, units, units2);
        rk_graph_set_error(
            graph,
            rk_error_hint(RK_CONFIG, "change fusion_heads, or the last numbers of 'deep' and 'deep2'"));
        return -1;
    }
    rk_value products = -1;
    for (int32_t t = 0; t < inputs->n_tasks; t++)
        products = rk_block_concat_two(graph, products, add_bilinear_fusion(graph, inputs, x, y, heads, t));
    return rk_block_add_two(graph, rk_block_logits(graph, inputs, "logits", rk_block_concat_two(graph, x, y)),
                            products);
}

static rk_value build_final_mlp(rk_graph *graph, const rk_model_section *section,
                                const rk_preset_inputs *inputs) {
    static const int64_t units[] = {256, 128, 64};
    const feature_names contexts[] = {{section->gate_context, section->n_gate_context},
                                      {section->gate_context2, section->n_gate_context2}};
    stream one = {"gate",
                  "deep",
                  contexts[0],
                  section->deep ? section->deep : units,
                  section->deep ? section->n_deep : 3,
                  section->dropout};
    stream two = {"gate2",
                  "deep2",
                  contexts[1],
                  section->deep2 ? section->deep2 : one.units,
                  section->deep2 ? section->n_deep2 : one.n,
                  section->dropout2 >= 0 ? section->dropout2 : section->dropout};
    rk_value x = select_stream_features(graph, inputs, contexts);
    rk_value first = build_stream_mlp(graph, section, inputs, &one, x),
             second = build_stream_mlp(graph, section, inputs, &two, x);
    return fuse_streams(graph, inputs, first, second,
                        section->fusion_heads ? (int32_t)section->fusion_heads : 1);
}

const rk_preset rk_preset_final_mlp = {
    .name = "final_mlp", .keys = RK_KEYS_DEEP | RK_KEYS_STREAMS, .vectors = true, .build = build_final_mlp};
