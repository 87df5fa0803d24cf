/* What state an optimizer keeps beside each row (sparse) or parameter tensor (dense): the one list that
 * storage, checkpoints and update rules read. */
#ifndef RK_OPTIM_OPTIMIZER_SLOTS_H
#define RK_OPTIM_OPTIMIZER_SLOTS_H

#include <reckon/optimizer.h>

#include "kernels/optimizer_step.h"

enum { RK_MAX_SLOTS = 2 };

typedef struct rk_slot {
    const char *name; /* "accumulator", "momentum", "m", "v", "n", "z" */
    bool per_row;     /* one f32 a row; else one a value */
    float initial;
} rk_slot;

/* The slots of an optimizer; returns their number, 0..RK_MAX_SLOTS. */
int rk_optimizer_list_slots(const rk_optimizer *optimizer, rk_slot out[RK_MAX_SLOTS]);

/* `step` counts the optimizer's updates so far (0 at the first). `factor`: an outside factor on the learning
 * rate. */
void rk_optimizer_set_step_coefficients(const rk_optimizer *optimizer, int64_t step, double factor,
                                        rk_update *out);

#endif
