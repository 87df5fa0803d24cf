/* Wide & Deep (Cheng et al. 2016): the sum of the features' dim-1 weights + a multilayer perceptron over
 * [vectors, dense]. */
#include "model/presets/preset_blocks.h"

static rk_value build_wide_deep(rk_graph *graph, const rk_model_section *section,
                                const rk_preset_inputs *inputs) {
    static const int64_t units[] = {256, 128, 64};
    rk_value wide = rk_block_linear_terms(graph, inputs, false);
    rk_value deep = rk_block_deep_mlp(graph, section, inputs, rk_block_features(graph, inputs), units, 3);
    return rk_block_add_two(graph, wide, rk_block_logits(graph, inputs, "logits", deep));
}

const rk_preset rk_preset_wide_deep = {.name = "wide_deep",
                                       .keys = RK_KEYS_DEEP,
                                       .vectors = true,
                                       .linear = true,
                                       .needs_features = true,
                                       .one_task = true,
                                       .build = build_wide_deep};
