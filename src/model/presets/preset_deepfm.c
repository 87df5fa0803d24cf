/* DeepFM (Guo et al. 2017): a factorization machine and a multilayer perceptron over the same vectors. */
#include "model/presets/preset_blocks.h"

static rk_value build_deepfm(rk_graph *graph, const rk_model_section *section,
                             const rk_preset_inputs *inputs) {
    static const int64_t units[] = {256, 128, 64};
    rk_value first = rk_block_linear_terms(graph, inputs, true);
    rk_value second = rk_fm(graph, inputs->vector_rows);
    rk_value deep = rk_block_deep_mlp(graph, section, inputs, rk_block_features(graph, inputs), units, 3);
    return rk_add(graph, (rk_value[]){first, second, rk_block_logits(graph, inputs, "logits", deep)}, 3);
}

const rk_preset rk_preset_deepfm = {.name = "deepfm",
                                    .keys = RK_KEYS_DEEP,
                                    .vectors = true,
                                    .linear = true,
                                    .equal_dims = true,
                                    .vector_pairs = true,
                                    .needs_features = true,
                                    .one_task = true,
                                    .build = build_deepfm};
