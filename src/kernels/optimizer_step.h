/* One optimizer step on one row (an embedding's row, or a dense parameter). Equations: docs/optimizers.md. */
#ifndef RK_KERNELS_OPTIMIZER_STEP_H
#define RK_KERNELS_OPTIMIZER_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include <reckon/optimizer.h>

/* The numbers that the update of one step needs, worked out once a step: schedule and bias correction folded
 * in. */
typedef struct rk_update {
    rk_optimizer_kind kind;
    float learning_rate;
    float epsilon, momentum, beta1, beta2;
    float m_scale, v_scale; /* 1/(1-beta1^t), 1/(1-beta2^t), or 1 without bias correction; t = step + 1 */
    float l1, l2, beta, power, exponent, trust_coefficient; /* power: ftrl's learning_rate_power, -0.5 */
    float weight_decay;                                     /* of lamb and lars, inside their ratio */
    float decay; /* decoupled: w -= decay * w before the update; 0 = none */
    float clip_gradient_min, clip_gradient_max, clip_weight_min, clip_weight_max;
    bool nesterov, sum_inside_sqrt, clips_gradient, clips_weight;
} rk_update;

/* w [dim]; slot0, slot1: [dim] or [1] as rk_optimizer_list_slots says, NULL if the kind has none; g [dim] is
 * clipped in place.
 *
 *     g = clip(g);  w -= decay * w;  (the kind's rule);  w = clip(w)
 *
 * Denormal values count as zeros (kernels/inline/flush_denormals.h). */
void rk_optimizer_step(const rk_update *update, float *w, float *slot0, float *slot1, float *g, int64_t dim);

#endif
