/* Logistic (or linear) regression: logit = sum of the features' weights + w . dense + b. */
#include "model/presets/preset_blocks.h"

static rk_value build_lr(rk_graph *graph, const rk_model_section *section, const rk_preset_inputs *inputs) {
    (void)section;
    return rk_bias(graph, "bias", rk_block_linear_terms(graph, inputs, true));
}

const rk_preset rk_preset_lr = {.name = "lr", .linear = true, .one_task = true, .build = build_lr};
