/* Progressive layered extraction (Tang et al. 2020): levels of the tasks' own experts and shared ones, each
 * with its gates; then a tower a task. One level is the paper's customized gate control. */
#include <stdio.h>

#include "model/presets/preset_experts.h"

static rk_value build_ple(rk_graph *graph, const rk_model_section *section, const rk_preset_inputs *inputs) {
    int64_t n_levels = section->levels ? section->levels : 2;
    char prefix[32];
    rk_ple_level level = {
        .prefix = prefix,
        .n_own = (int32_t)(section->task_experts ? section->task_experts : 1),
        .n_shared = (int32_t)(section->shared_experts ? section->shared_experts : 1),
    };
    rk_value x[RK_MAX_TOWERS + 1];
    level.units = rk_block_expert_units(section, &level.n_units);
    if (!rk_block_repeat_for_tasks(graph, inputs, rk_block_features(graph, inputs), x)) return -1;
    for (int64_t i = 0; i < n_levels; i++) {
        snprintf(prefix, sizeof prefix, "level_%d/", (int)i);
        level.is_last = i + 1 == n_levels;
        rk_block_ple_level(graph, section, inputs, &level, x);
    }
    return rk_block_task_towers(graph, section, inputs, x);
}

const rk_preset rk_preset_ple = {
    .name = "ple", .keys = RK_KEYS_TOWERS | RK_KEYS_LEVELS, .vectors = true, .build = build_ple};
