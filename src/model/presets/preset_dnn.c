/* A multilayer perceptron over [vectors, dense]. */
#include "model/presets/preset_blocks.h"

static rk_value build_dnn(rk_graph *graph, const rk_model_section *section, const rk_preset_inputs *inputs) {
    static const int64_t units[] = {256, 128, 64};
    rk_value deep = rk_block_deep_mlp(graph, section, inputs, rk_block_features(graph, inputs), units, 3);
    return rk_block_logits(graph, inputs, "logits", deep);
}

const rk_preset rk_preset_dnn = {.name = "dnn", .keys = RK_KEYS_DEEP, .vectors = true, .build = build_dnn};
