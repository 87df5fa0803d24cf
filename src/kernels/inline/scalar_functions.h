/* Functions of single numbers that operations and losses are made of, in f64: one source for the CPU and
 * GPUs. */
#ifndef RK_KERNELS_INLINE_SCALAR_FUNCTIONS_H
#define RK_KERNELS_INLINE_SCALAR_FUNCTIONS_H

#include <math.h>

#include "base/device_code.h"

RK_DEVICE_CODE static inline double rk_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* The normal distribution's, for gelu. */
RK_DEVICE_CODE static inline double rk_normal_cdf(double x) {
    return 0.5 * (1 + erf(x * 0.70710678118654752440));
}
RK_DEVICE_CODE static inline double rk_normal_density(double x) {
    return 0.39894228040143267794 * exp(-0.5 * x * x);
}

/* -y log p - (1-y) log(1-p) with p = sigmoid(x), written so that no exponential can overflow. */
RK_DEVICE_CODE static inline double rk_cross_entropy_of_logit(double x, double y) {
    return fmax(x, 0.0) - x * y + log1p(exp(-fabs(x)));
}

/* Label smoothing: Szegedy et al., 2016, of two classes. 0 leaves every label as it is. */
RK_DEVICE_CODE static inline double rk_smoothed_label(double y, double smoothing) {
    return smoothing > 0 ? y * (1 - smoothing) + 0.5 * smoothing : y;
}

/* The logit of a product of two probabilities (op_product_logit.c): its three exponentials, of one sum, over
 * the largest; returns -log of their sum. */
RK_DEVICE_CODE static inline double rk_product_logit_terms(double a, double b, double out[3]) {
    double most = fmax(fmax(-a, -b), -a - b);
    out[0] = exp(-a - most);
    out[1] = exp(-b - most);
    out[2] = exp(-a - b - most);
    return -most - log(out[0] + out[1] + out[2]);
}

#endif
