/* Shared bottom (Caruana 1997): one MLP over [vectors, dense], and a tower a task. */
#include "model/presets/preset_experts.h"

static rk_value build_shared_bottom(rk_graph *graph, const rk_model_section *section,
                                    const rk_preset_inputs *inputs) {
    static const int64_t units[] = {256, 128};
    rk_value x[RK_MAX_TOWERS + 1];
    if (!rk_block_repeat_for_tasks(
            graph, inputs,
            rk_block_deep_mlp(graph, section, inputs, rk_block_features(graph, inputs), units, 2), x))
        return -1;
    return rk_block_task_towers(graph, section, inputs, x);
}

const rk_preset rk_preset_shared_bottom = {.name = "shared_bottom",
                                           .keys = RK_KEYS_DEEP | RK_KEYS_TOWERS,
                                           .vectors = true,
                                           .build = build_shared_bottom};
