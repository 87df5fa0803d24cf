/* The body of rk_optimizer_step (kernels/optimizer_step.h), compiled once for each instruction set. */
#include "kernels/kernel_list.h"
#include "kernels/inline/flush_denormals.h"
#include "kernels/inline/optimizer_rules.h"

static __attribute__((noinline)) void step_row(const rk_update *update, float *w, float *slot0, float *slot1,
                                               float *g, int64_t dim) {
    apply_rule_to_row(update, w, slot0, slot1, g, dim);
}

void RK_KERNEL_NAME(rk_optimizer_step)(const rk_update *update, float *w, float *slot0, float *slot1,
                                       float *g, int64_t dim) {
    unsigned mode = begin_flushing_denormals(true);
    step_row(update, w, slot0, slot1, g, dim);
    end_flushing_denormals(mode);
}
