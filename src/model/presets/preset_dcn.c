/* DCN (Wang et al. 2017), cross layers of one vector each: x' = x0 (x . w) + b + x. */
#include <stdio.h>

#include "model/presets/preset_blocks.h"

static rk_value build_dcn(rk_graph *graph, const rk_model_section *section, const rk_preset_inputs *inputs) {
    rk_value x0 = rk_block_features(graph, inputs), x = x0;
    for (int64_t i = 0; i < rk_block_n_cross_layers(section); i++) {
        char name[32];
        snprintf(name, sizeof name, "cross_%d", (int)i);
        x = rk_cross_v1(graph, name, x0, x);
    }
    return rk_block_cross_and_deep(graph, section, inputs, x0, x);
}

const rk_preset rk_preset_dcn = {.name = "dcn",
                                 .keys = RK_KEYS_DEEP | RK_KEYS_CROSS | RK_KEYS_STRUCTURE,
                                 .vectors = true,
                                 .build = build_dcn};
