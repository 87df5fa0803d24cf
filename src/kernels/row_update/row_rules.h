/* One step of one row by the rule of its optimizer: included by the kernels that update rows, once for each instruction set. Equations:
 * docs/optimizers.md. */
#ifndef RK_KERNELS_ROW_RULES_H
#define RK_KERNELS_ROW_RULES_H

#include <math.h>

#include "kernels/row_update/row_update.h"

/* Sums of squares in f32 lanes, as kernels/lanes.h. (Rows stay f32 in the f64 build, so rk_lanes_dot does not serve.) */
static float sum_of_squares(const float *x, int64_t n) {
    float lanes[16] = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++) lanes[l] += x[i + l] * x[i + l];
    for (int l = 0; i < n; i++, l++) lanes[l] += x[i] * x[i];
    for (int width = 8; width; width /= 2)
        for (int l = 0; l < width; l++) lanes[l] += lanes[l + width];
    return lanes[0];
}

static void sgd(const rk_update *u, float *w, const float *g, int64_t n) {
    for (int64_t k = 0; k < n; k++) w[k] -= u->learning_rate * g[k];
}

static void momentum(const rk_update *u, float *w, float *m, const float *g, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        m[k] = u->momentum * m[k] + g[k];
        w[k] -= u->learning_rate * (u->nesterov ? u->momentum * m[k] + g[k] : m[k]);
    }
}

static void adagrad(const rk_update *u, float *restrict w, float *restrict a, const float *restrict g, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        a[k] += g[k] * g[k];
        float below = sqrtf(a[k]) + u->epsilon;
        w[k] -= u->learning_rate * g[k] / (below > 0 ? below : 1.0f); /* 0 below: g is 0 too */
    }
}

static void rowwise_adagrad(const rk_update *u, float *w, float *a, const float *g, int64_t n) {
    a[0] += sum_of_squares(g, n) / (float)n;
    float below = sqrtf(a[0]) + u->epsilon;
    float rate = u->learning_rate / (below > 0 ? below : 1.0f);
    for (int64_t k = 0; k < n; k++) w[k] -= rate * g[k];
}

static float adam_divisor(const rk_update *u, float v) {
    float v_hat = v * u->v_scale;
    return u->sum_inside_sqrt ? sqrtf(v_hat + u->epsilon * u->epsilon) : sqrtf(v_hat) + u->epsilon;
}

static void adam(const rk_update *u, float *restrict w, float *restrict m, float *restrict v, const float *restrict g, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        m[k] = u->beta1 * m[k] + (1.0f - u->beta1) * g[k];
        v[k] = u->beta2 * v[k] + (1.0f - u->beta2) * (g[k] * g[k]);
        float v_hat = v[k] * u->v_scale;
        float below = u->sum_inside_sqrt ? sqrtf(v_hat + u->epsilon * u->epsilon) : sqrtf(v_hat) + u->epsilon;
        w[k] -= u->learning_rate * (m[k] * u->m_scale) / below;
    }
}

static void rowwise_adam(const rk_update *u, float *w, float *m, float *v, const float *g, int64_t n) {
    v[0] = u->beta2 * v[0] + (1.0f - u->beta2) * (sum_of_squares(g, n) / (float)n);
    float below = adam_divisor(u, v[0]);
    for (int64_t k = 0; k < n; k++) {
        m[k] = u->beta1 * m[k] + (1.0f - u->beta1) * g[k];
        w[k] -= u->learning_rate * (m[k] * u->m_scale) / below;
    }
}

/* x^power for x > 0, with the usual -0.5 by square root. */
static float inverse_power(float x, float power) {
    return power == -0.5f ? sqrtf(x) : powf(x, -power);
}

static void ftrl(const rk_update *u, float *w, float *squares, float *z, const float *g, int64_t n) {
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

static void adagrad_momentum(const rk_update *u, float *w, float *a, float *m, const float *g, int64_t n) {
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
static float lamb_step(const rk_update *u, float w, float m, float v) {
    return m * u->m_scale / adam_divisor(u, v) + u->weight_decay * w;
}

static void lamb(const rk_update *u, float *w, float *m, float *v, const float *g, int64_t n) {
    float steps = 0;
    for (int64_t k = 0; k < n; k++) {
        m[k] = u->beta1 * m[k] + (1.0f - u->beta1) * g[k];
        v[k] = u->beta2 * v[k] + (1.0f - u->beta2) * (g[k] * g[k]);
        float step = lamb_step(u, w[k], m[k], v[k]);
        steps += step * step;
    }
    float norm = sqrtf(sum_of_squares(w, n)), step_norm = sqrtf(steps);
    float trust = norm > 0 && step_norm > 0 ? norm / step_norm : 1.0f;
    for (int64_t k = 0; k < n; k++) w[k] -= u->learning_rate * trust * lamb_step(u, w[k], m[k], v[k]);
}

static void lars(const rk_update *u, float *w, float *m, const float *g, int64_t n) {
    float norm = sqrtf(sum_of_squares(w, n)), g_norm = sqrtf(sum_of_squares(g, n));
    float below = g_norm + u->weight_decay * norm + u->epsilon;
    float rate = u->learning_rate * (norm > 0 && g_norm > 0 ? u->trust_coefficient * norm / below : 1.0f);
    for (int64_t k = 0; k < n; k++) {
        m[k] = u->momentum * m[k] + rate * (g[k] + u->weight_decay * w[k]);
        w[k] -= m[k];
    }
}

static void clip(float *x, int64_t n, float min, float max) {
    for (int64_t k = 0; k < n; k++) x[k] = x[k] < min ? min : x[k] > max ? max : x[k];
}

static void step_row(const rk_update *update, float *w, float *slot0, float *slot1, float *g, int64_t dim) {
    if (update->clips_gradient) clip(g, dim, update->clip_gradient_min, update->clip_gradient_max);
    if (update->decay != 0)
        for (int64_t k = 0; k < dim; k++) w[k] -= update->decay * w[k];
    switch (update->kind) {
        case RK_OPTIMIZER_SGD: sgd(update, w, g, dim); break;
        case RK_OPTIMIZER_MOMENTUM: momentum(update, w, slot0, g, dim); break;
        case RK_OPTIMIZER_ADAGRAD: adagrad(update, w, slot0, g, dim); break;
        case RK_OPTIMIZER_ROWWISE_ADAGRAD: rowwise_adagrad(update, w, slot0, g, dim); break;
        case RK_OPTIMIZER_ADAM:
        case RK_OPTIMIZER_ADAMW: adam(update, w, slot0, slot1, g, dim); break;
        case RK_OPTIMIZER_ROWWISE_ADAM: rowwise_adam(update, w, slot0, slot1, g, dim); break;
        case RK_OPTIMIZER_FTRL: ftrl(update, w, slot0, slot1, g, dim); break;
        case RK_OPTIMIZER_ADAGRAD_MOMENTUM: adagrad_momentum(update, w, slot0, slot1, g, dim); break;
        case RK_OPTIMIZER_LAMB: lamb(update, w, slot0, slot1, g, dim); break;
        case RK_OPTIMIZER_LARS: lars(update, w, slot0, g, dim); break;
        case RK_OPTIMIZER_COUNT: break;
    }
    if (update->clips_weight) clip(w, dim, update->clip_weight_min, update->clip_weight_max);
}

#endif
