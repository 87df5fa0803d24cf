/* Building blocks of the multi-task presets: stacks of layers side by side, levels of experts and gates,
 * towers. */
#ifndef RK_MODEL_PRESETS_PRESET_EXPERTS_H
#define RK_MODEL_PRESETS_PRESET_EXPERTS_H

#include "model/presets/preset_blocks.h"

/* One level of customized gate control (Tang et al. 2020). Where tasks have no experts of their own it is a
 * mixture of experts with a gate a task (Ma et al. 2018). */
typedef struct rk_ple_level {
    const char *prefix;   /* of its nodes' names */
    const int64_t *units; /* [n_units]: an expert's layers */
    int64_t n_units;
    int32_t n_own, n_shared; /* experts of each task, and of all */
    bool is_last;            /* no gate for what the next level's shared experts read */
} rk_ple_level;

/* x: [n_tasks + 1], what each task's experts and gate read, and last what the shared ones read; becomes what
 * the next level's, or the towers, read.
 *
 *     x_k' = softmax(gate_k x_k) [experts of k; shared experts]
 *     x_s' = softmax(gate_s x_s) [experts of all tasks; shared experts], unless it is the last level */
void rk_block_ple_level(rk_graph *graph, const rk_model_section *section, const rk_preset_inputs *inputs,
                        const rk_ple_level *level, rk_value *x);

/* Each task's own hidden layers over x[task], and its logit: [1, n_tasks]. */
rk_value rk_block_task_towers(rk_graph *graph, const rk_model_section *section,
                              const rk_preset_inputs *inputs, const rk_value *x);

/* An expert's units as the section has them, or the default. */
const int64_t *rk_block_expert_units(const rk_model_section *section, int64_t *n);

/* x for all tasks and for what they share; false: more tasks than these presets take, which the graph has
 * been told. */
bool rk_block_repeat_for_tasks(rk_graph *graph, const rk_preset_inputs *inputs, rk_value value,
                               rk_value x[RK_MAX_TOWERS + 1]);

#endif
