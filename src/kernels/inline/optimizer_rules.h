/* One step of one row by the rule of its optimizer: included by the kernels that update rows, once for each
 * instruction set, and by those on GPUs. Equations: docs/optimizers.md.
 *
 * Rules of single values take any part of a row, one value too. Those of whole rows (apply_rowwise_adagrad,
 * apply_rowwise_adam, lamb, lars) come in two parts, so that whoever shares a row out among threads can add
 * up its squares in a way of its own: what follows from the row's sums, and the rule for its values. */
#ifndef RK_KERNELS_INLINE_OPTIMIZER_RULES_H
#define RK_KERNELS_INLINE_OPTIMIZER_RULES_H

#include <math.h>

#include "base/device_code.h"
#include "kernels/optimizer_step.h"

/* In f32 lanes, as kernels/inline/lane_sum.h. (Rows stay f32 in the f64 build, so rk_dot_product_by_lanes
 * does not serve.) */
RK_DEVICE_CODE static inline float sum_squares_of_block(const float *x, int64_t n) {
    float lanes[16] = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++) lanes[l] += x[i + l] * x[i + l];
    for (int l = 0; l < 16 && i < n; i++, l++) lanes[l] += x[i] * x[i];
    float eight[8], four[4];
    for (int l = 0; l < 8; l++) eight[l] = lanes[l] + lanes[l + 8];
    for (int l = 0; l < 4; l++) four[l] = eight[l] + eight[l + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

/* Blocks are added in f64: where a "row" is a whole dense tensor, a sum in f32 would lose what it grows
 * by. An embedding's row is one block, summed with neither f64 nor a second loop. */
RK_DEVICE_CODE static inline float sum_of_squares(const float *x, int64_t n) {
    const int64_t block = 4096;
    if (n <= block) return sum_squares_of_block(x, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i += block)
        sum += (double)sum_squares_of_block(x + i, n - i < block ? n - i : block);
    return (float)sum;
}

RK_DEVICE_CODE static inline void apply_sgd(const rk_update *u, float *w, const float *g, int64_t n) {
    for (int64_t k = 0; k < n; k++) w[k] -= u->learning_rate * g[k];
}

RK_DEVICE_CODE static inline void apply_momentum(const rk_update *u, float *w, float *m, const float *g,
                                                 int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        m[k] = u->momentum * m[k] + g[k];
        w[k] -= u->learning_rate * (u->nesterov ? u->momentum * m[k] + g[k] : m[k]);
    }
}

RK_DEVICE_CODE static inline void apply_adagrad(const rk_update *u, float *RK_RESTRICT w,
                                                float *RK_RESTRICT a, const float *RK_RESTRICT g, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        a[k] += g[k] * g[k];
        float below = sqrtf(a[k]) + u->epsilon;
        w[k] -= u->learning_rate * g[k] / (below > 0 ? below : 1.0f); /* 0 below: g is 0 too */
    }
}

/* a: the row's, with this step's squares. */
RK_DEVICE_CODE static inline void rowwise_adagrad_update_values(const rk_update *u, float *w, float a,
                                                                const float *g, int64_t n) {
    float below = sqrtf(a) + u->epsilon;
    float rate = u->learning_rate / (below > 0 ? below : 1.0f);
    for (int64_t k = 0; k < n; k++) w[k] -= rate * g[k];
}

RK_DEVICE_CODE static inline void apply_rowwise_adagrad_of_squares(const rk_update *u, float *w, float *a,
                                                                   float squares, const float *g, int64_t n) {
    a[0] += squares / (float)n;
    rowwise_adagrad_update_values(u, w, a[0], g, n);
}

RK_DEVICE_CODE static inline void apply_rowwise_adagrad(const rk_update *u, float *w, float *a,
                                                        const float *g, int64_t n) {
    apply_rowwise_adagrad_of_squares(u, w, a, sum_of_squares(g, n), g, n);
}

RK_DEVICE_CODE static inline float adam_divisor(const rk_update *u, float v) {
    float v_hat = v * u->v_scale;
    return u->sum_inside_sqrt ? sqrtf(v_hat + u->epsilon * u->epsilon) : sqrtf(v_hat) + u->epsilon;
}

RK_DEVICE_CODE static inline void apply_adam(const rk_update *u, float *RK_RESTRICT w, float *RK_RESTRICT m,
                                             float *RK_RESTRICT v, const float *RK_RESTRICT g, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        m[k] = u->beta1 * m[k] + (1.0f - u->beta1) * g[k];
        v[k] = u->beta2 * v[k] + (1.0f - u->beta2) * (g[k] * g[k]);
        float v_hat = v[k] * u->v_scale;
        float below = u->sum_inside_sqrt ? sqrtf(v_hat + u->epsilon * u->epsilon) : sqrtf(v_hat) + u->epsilon;
        w[k] -= u->learning_rate * (m[k] * u->m_scale) / below;
    }
}

/* The row's v after a step of this mean square. */
RK_DEVICE_CODE static inline float rowwise_adam_next_v(const rk_update *u, float v, float mean_square) {
    return u->beta2 * v + (1.0f - u->beta2) * mean_square;
}

RK_DEVICE_CODE static inline void rowwise_adam_update_values(const rk_update *u, float *w, float *m, float v,
                                                             const float *g, int64_t n) {
    float below = adam_divisor(u, v);
    for (int64_t k = 0; k < n; k++) {
        m[k] = u->beta1 * m[k] + (1.0f - u->beta1) * g[k];
        w[k] -= u->learning_rate * (m[k] * u->m_scale) / below;
    }
}

RK_DEVICE_CODE static inline void apply_rowwise_adam(const rk_update *u, float *w, float *m, float *v,
                                                     const float *g, int64_t n) {
    v[0] = rowwise_adam_next_v(u, v[0], sum_of_squares(g, n) / (float)n);
    rowwise_adam_update_values(u, w, m, v[0], g, n);
}

/* x^power for x > 0, with the usual -0.5 by square root. */
RK_DEVICE_CODE static inline float inverse_power(float x, float power) {
    return power == -0.5f ? sqrtf(x) : powf(x, -power);
}

RK_DEVICE_CODE static inline void apply_ftrl(const rk_update *u, float *w, float *squares, float *z,
                                             const float *g, int64_t n) {
    if (!(u->learning_rate > 0)) return; /* a schedule that ended at 0: the rule divides by the rate */
    for (int64_t k = 0; k < n; k++) {
        float before = inverse_power(squares[k], u->power);
        squares[k] += g[k] * g[k];
        float after = inverse_power(squares[k], u->power);
        z[k] += g[k] - (after - before) / u->learning_rate * w[k];
        float below = (after + u->beta) / u->learning_rate + 2.0f * u->l2;
        w[k] = fabsf(z[k]) <= u->l1 || !(below > 0) ? 0.0f : (copysignf(u->l1, z[k]) - z[k]) / below;
    }
}

RK_DEVICE_CODE static inline void apply_adagrad_momentum(const rk_update *u, float *w, float *a, float *m,
                                                         const float *g, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        a[k] = u->beta2 == 1.0f ? a[k] + g[k] * g[k] : u->beta2 * a[k] + (1.0f - u->beta2) * (g[k] * g[k]);
        float base = a[k] + u->epsilon;
        float root = u->exponent == 2.0f ? sqrtf(base) : powf(base, 1.0f / u->exponent);
        float step = g[k] / (root > 0 ? root : 1.0f);
        m[k] = u->momentum * m[k] + step;
        w[k] -= u->learning_rate * (u->nesterov ? u->momentum * m[k] + step : m[k]);
    }
}

/* One step of lamb for one value, before the trust ratio. */
RK_DEVICE_CODE static inline float lamb_step_of_value(const rk_update *u, float w, float m, float v) {
    return m * u->m_scale / adam_divisor(u, v) + u->weight_decay * w;
}

/* The moments; returns the sum of squares of the steps. */
RK_DEVICE_CODE static inline float lamb_update_moments(const rk_update *u, const float *w, float *m, float *v,
                                                       const float *g, int64_t n) {
    double steps = 0;
    for (int64_t k = 0; k < n; k++) {
        m[k] = u->beta1 * m[k] + (1.0f - u->beta1) * g[k];
        v[k] = u->beta2 * v[k] + (1.0f - u->beta2) * (g[k] * g[k]);
        float step = lamb_step_of_value(u, w[k], m[k], v[k]);
        steps += (double)(step * step);
    }
    return (float)steps;
}

RK_DEVICE_CODE static inline void lamb_update_values(const rk_update *u, float w_squares, float step_squares,
                                                     float *w, const float *m, const float *v, int64_t n) {
    float norm = sqrtf(w_squares), step_norm = sqrtf(step_squares);
    float trust = norm > 0 && step_norm > 0 ? norm / step_norm : 1.0f;
    for (int64_t k = 0; k < n; k++)
        w[k] -= u->learning_rate * trust * lamb_step_of_value(u, w[k], m[k], v[k]);
}

RK_DEVICE_CODE static inline void apply_lamb(const rk_update *u, float *w, float *m, float *v, const float *g,
                                             int64_t n) {
    float steps = lamb_update_moments(u, w, m, v, g, n);
    lamb_update_values(u, sum_of_squares(w, n), steps, w, m, v, n);
}

RK_DEVICE_CODE static inline void lars_update_values(const rk_update *u, float w_squares, float g_squares,
                                                     float *w, float *m, const float *g, int64_t n) {
    float norm = sqrtf(w_squares), g_norm = sqrtf(g_squares);
    float below = g_norm + u->weight_decay * norm + u->epsilon;
    float rate = u->learning_rate * (norm > 0 && g_norm > 0 ? u->trust_coefficient * norm / below : 1.0f);
    for (int64_t k = 0; k < n; k++) {
        m[k] = u->momentum * m[k] + rate * (g[k] + u->weight_decay * w[k]);
        w[k] -= m[k];
    }
}

RK_DEVICE_CODE static inline void apply_lars(const rk_update *u, float *w, float *m, const float *g,
                                             int64_t n) {
    lars_update_values(u, sum_of_squares(w, n), sum_of_squares(g, n), w, m, g, n);
}

/* What comes before the rule, and after it. */
RK_DEVICE_CODE static inline void clip_values(float *x, int64_t n, float min, float max) {
    for (int64_t k = 0; k < n; k++) x[k] = x[k] < min ? min : x[k] > max ? max : x[k];
}

RK_DEVICE_CODE static inline void clip_gradient_and_decay(const rk_update *update, float *w, float *g,
                                                          int64_t n) {
    if (update->clips_gradient) clip_values(g, n, update->clip_gradient_min, update->clip_gradient_max);
    if (update->decay != 0)
        for (int64_t k = 0; k < n; k++) w[k] -= update->decay * w[k];
}

RK_DEVICE_CODE static inline void clip_weights(const rk_update *update, float *w, int64_t n) {
    if (update->clips_weight) clip_values(w, n, update->clip_weight_min, update->clip_weight_max);
}

/* Those that most tables have; false: it is another. */
RK_DEVICE_CODE static inline bool apply_usual_rule(const rk_update *update, float *w, float *slot0,
                                                   float *slot1, float *g, int64_t dim) {
    switch (update->kind) {
        case RK_OPTIMIZER_SGD:
            apply_sgd(update, w, g, dim);
            return true;
        case RK_OPTIMIZER_ADAGRAD:
            apply_adagrad(update, w, slot0, g, dim);
            return true;
        case RK_OPTIMIZER_ROWWISE_ADAGRAD:
            apply_rowwise_adagrad(update, w, slot0, g, dim);
            return true;
        case RK_OPTIMIZER_ADAM:
        case RK_OPTIMIZER_ADAMW:
            apply_adam(update, w, slot0, slot1, g, dim);
            return true;
        default:
            return false;
    }
}

RK_DEVICE_CODE static inline void apply_rare_rule(const rk_update *update, float *w, float *slot0,
                                                  float *slot1, float *g, int64_t dim) {
    switch (update->kind) {
        case RK_OPTIMIZER_MOMENTUM:
            apply_momentum(update, w, slot0, g, dim);
            break;
        case RK_OPTIMIZER_ROWWISE_ADAM:
            apply_rowwise_adam(update, w, slot0, slot1, g, dim);
            break;
        case RK_OPTIMIZER_FTRL:
            apply_ftrl(update, w, slot0, slot1, g, dim);
            break;
        case RK_OPTIMIZER_ADAGRAD_MOMENTUM:
            apply_adagrad_momentum(update, w, slot0, slot1, g, dim);
            break;
        case RK_OPTIMIZER_LAMB:
            apply_lamb(update, w, slot0, slot1, g, dim);
            break;
        case RK_OPTIMIZER_LARS:
            apply_lars(update, w, slot0, g, dim);
            break;
        case RK_OPTIMIZER_SGD:
        case RK_OPTIMIZER_ADAGRAD:
        case RK_OPTIMIZER_ROWWISE_ADAGRAD:
        case RK_OPTIMIZER_ADAM:
        case RK_OPTIMIZER_ADAMW:
        case RK_OPTIMIZER_COUNT:
            break;
    }
}

RK_DEVICE_CODE static inline void apply_rule_to_row(const rk_update *update, float *w, float *slot0,
                                                    float *slot1, float *g, int64_t dim) {
    clip_gradient_and_decay(update, w, g, dim);
    if (!apply_usual_rule(update, w, slot0, slot1, g, dim)) apply_rare_rule(update, w, slot0, slot1, g, dim);
    clip_weights(update, w, dim);
}

#endif
