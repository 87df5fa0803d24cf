/* Multi-gate mixture of experts (Ma et al. 2018): y_k = tower_k(sum_i softmax(W_k x)_i f_i(x)), x = [vectors,
 * dense]. */
#include "model/presets/preset_experts.h"

static rk_value build_mmoe(rk_graph *graph, const rk_model_section *section, const rk_preset_inputs *inputs) {
    rk_ple_level level = {
        .prefix = "", .n_shared = (int32_t)(section->experts ? section->experts : 4), .is_last = true};
    rk_value x[RK_MAX_TOWERS + 1];
    level.units = rk_block_expert_units(section, &level.n_units);
    if (!rk_block_repeat_for_tasks(graph, inputs, rk_block_features(graph, inputs), x)) return -1;
    rk_block_ple_level(graph, section, inputs, &level, x);
    return rk_block_task_towers(graph, section, inputs, x);
}

const rk_preset rk_preset_mmoe = {
    .name = "mmoe", .keys = RK_KEYS_TOWERS | RK_KEYS_EXPERTS, .vectors = true, .build = build_mmoe};
