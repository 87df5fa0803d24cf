/* xDeepFM (Lian et al. 2018): weights of the features, a compressed interaction network over their vectors,
 * and a multilayer perceptron. */
#include <stdio.h>

#include "model/presets/preset_blocks.h"

/* Every layer's maps, summed over the vectors' columns, to one linear layer. The maps are kept transposed,
 * [dim, maps]: a column's products stand together. */
static rk_value add_compressed_interaction_network(rk_graph *graph, const rk_model_section *section,
                                                   const rk_preset_inputs *inputs) {
    static const int64_t units[] = {128, 128};
    const int64_t *maps = section->cin ? section->cin : units;
    int32_t n = section->cin ? (int32_t)section->n_cin : 2;
    if (n == 0) return -1;
    rk_value x0 = rk_transpose(graph, inputs->vector_rows), x = x0, sums[RK_MAX_LAYERS];
    for (int32_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "cin_%d", i);
        x = rk_cin(graph, name, x0, x, (int32_t)maps[i], inputs->dtype);
        sums[i] = rk_sum_rows(graph, x);
    }
    return rk_linear(graph, "logits_cin", rk_concat(graph, sums, n), 1, false, RK_F32);
}

static rk_value build_xdeepfm(rk_graph *graph, const rk_model_section *section,
                              const rk_preset_inputs *inputs) {
    static const int64_t units[] = {256, 128, 64};
    rk_value first = rk_block_linear_terms(graph, inputs, true);
    rk_value cin = add_compressed_interaction_network(graph, section, inputs);
    rk_value deep = rk_block_logits(
        graph, inputs, "logits",
        rk_block_deep_mlp(graph, section, inputs, rk_block_features(graph, inputs), units, 3));
    return cin < 0 ? rk_block_add_two(graph, first, deep) : rk_add(graph, (rk_value[]){first, cin, deep}, 3);
}

const rk_preset rk_preset_xdeepfm = {.name = "xdeepfm",
                                     .keys = RK_KEYS_DEEP | RK_KEYS_CIN,
                                     .vectors = true,
                                     .linear = true,
                                     .equal_dims = true,
                                     .needs_features = true,
                                     .one_task = true,
                                     .build = build_xdeepfm};
