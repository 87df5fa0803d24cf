/* y = x Phi(x), Phi the normal distribution (Hendrycks and Gimpel 2016), in its exact form by erf. */
#include "nn/op_unary.h"

static rk_real normal_cdf(rk_real x) {
    return (rk_real)(0.5 * (1 + erf((double)x * 0.70710678118654752440)));
}
static rk_real normal_density(rk_real x) {
    return (rk_real)(0.39894228040143267794 * exp(-0.5 * (double)x * (double)x));
}

RK_UNARY_OP(gelu, x *normal_cdf(x), normal_cdf(x) + x * normal_density(x))
