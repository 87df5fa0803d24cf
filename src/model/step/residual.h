/* What a trainer has kept back of the dense gradients, where their sums travel as int8 (rk_sum_rounding) or
 * by PowerSGD: it is added to the next step's. A step that fails or is skipped keeps nothing back. */
#ifndef RK_MODEL_STEP_RESIDUAL_H
#define RK_MODEL_STEP_RESIDUAL_H

#include "base/state_dict.h"

typedef struct rk_residual {
    float *values; /* [n]: of the steps so far; n 0: nothing is ever kept back */
    float *next;   /* [n]: of the step that is under way */
    size_t n;
    int32_t trainer, n_trainers;
} rk_residual;

rk_status rk_residual_init(rk_residual *residual, size_t n, int32_t trainer, int32_t n_trainers);
void rk_residual_release(rk_residual *residual); /* a zeroed one is fine */
/* The step that was under way changes the parameters. */
void rk_residual_accept(rk_residual *residual);

/* A checkpoint's tensor of each trainer's residual: RK_RESIDUAL_PREFIX<trainer>:<trainers>. */
#define RK_RESIDUAL_PREFIX "residual/"
rk_status rk_residual_state_dict(rk_residual *residual, rk_state_dict *state);
/* From such a tensor, into a residual of zeros: each trainer takes its own. From another number of trainers
 * the first one takes all of them, added up, so that what was kept back is still added to the gradients.
 * values: at any byte. RK_CONFIG: of another number of parameters; RK_BAD_DATA: the name is none. */
rk_status rk_residual_read(rk_residual *residual, const char *name, size_t n, const void *values);

#endif
