/* MaskNet (Wang et al. 2021): blocks that multiply their input by a mask computed from all features. */
#include <stdio.h>

#include "model/presets/preset_blocks.h"

typedef struct mask_blocks {
    rk_graph *graph;
    const rk_model_section *section;
    const rk_preset_inputs *inputs;
    rk_value features;    /* masks are made of them */
    const int64_t *units; /* [n] */
    int32_t n;
} mask_blocks;

/* Two layers, the first `reduction_ratio` times as wide as the mask. */
static rk_value add_instance_guided_mask(const mask_blocks *b, int32_t number, int32_t width) {
    char name[64];
    double ratio = b->section->reduction_ratio > 0 ? b->section->reduction_ratio : 2;
    int64_t wide = (int64_t)(ratio * width) > 1 ? (int64_t)(ratio * width) : 1;
    rk_mlp aggregation = {.units = &wide, .n = 1, .activation = "relu", .dtype = b->inputs->dtype};
    snprintf(name, sizeof name, "block_%d/mask", number);
    rk_value x = rk_mlp_build(b->graph, name, b->features, &aggregation);
    snprintf(name, sizeof name, "block_%d/mask/projection", number);
    return rk_linear(b->graph, name, x, width, true, b->inputs->dtype);
}

/* activation(layer norm(W (mask * x))) */
static rk_value build_mask_block(const mask_blocks *b, int32_t number, rk_value x) {
    char name[64];
    rk_value masked =
        rk_multiply(b->graph, x, add_instance_guided_mask(b, number, rk_graph_shape(b->graph, x).cols));
    snprintf(name, sizeof name, "block_%d/linear", number);
    x = rk_linear(b->graph, name, masked, (int32_t)b->units[number], false, b->inputs->dtype);
    snprintf(name, sizeof name, "block_%d/norm", number);
    x = rk_activation_by_name(b->graph, rk_layer_norm(b->graph, name, x),
                              b->section->activation ? b->section->activation : "relu");
    return rk_dropout(b->graph, x, b->section->dropout);
}

static rk_value build_mask_blocks(const mask_blocks *b, rk_value x, bool stacked) {
    rk_value outputs[RK_MAX_LAYERS];
    for (int32_t i = 0; i < b->n; i++) {
        outputs[i] = build_mask_block(b, i, x);
        if (stacked) x = outputs[i];
    }
    return stacked ? x : rk_concat(b->graph, outputs, b->n);
}

static rk_value build_masknet(rk_graph *graph, const rk_model_section *section,
                              const rk_preset_inputs *inputs) {
    static const int64_t block_units[] = {128, 128, 128}, units[] = {256, 128, 64};
    bool stacked = section->structure == RK_STRUCTURE_STACKED;
    mask_blocks b = {graph, section, inputs, rk_block_features(graph, inputs), block_units, 3};
    if (section->mask_blocks) {
        b.units = section->mask_blocks;
        b.n = (int32_t)section->n_mask_blocks;
    }
    rk_value rows = rk_layer_norm_rows(graph, "norm", inputs->vector_rows),
             there = rk_block_sequence_mask(graph, inputs, inputs->n_vectors);
    if (there >= 0)
        rows = rk_multiply(graph, rows, there); /* padding stays zeros, whatever the norm's beta */
    rk_value normed = rk_block_concat_two(graph, rk_reshape(graph, rows, 1, inputs->n_vectors * inputs->dim),
                                          inputs->dense);
    rk_value x = build_mask_blocks(&b, normed, stacked);
    if (!stacked || section->n_deep) x = rk_block_deep_mlp(graph, section, inputs, x, units, 3);
    return rk_block_logits(graph, inputs, "logits", x);
}

const rk_preset rk_preset_masknet = {.name = "masknet",
                                     .keys = RK_KEYS_DEEP | RK_KEYS_STRUCTURE | RK_KEYS_MASK,
                                     .vectors = true,
                                     .equal_dims = true,
                                     .lengths = true,
                                     .needs_features = true,
                                     .build = build_masknet};
