/* y = x Phi(x), Phi the normal distribution (Hendrycks and Gimpel 2016), in its exact form by erf. */
#include "kernels/inline/scalar_functions.h"
#include "nn/ops/op_unary.h"

RK_UNARY_OP(gelu, x *(rk_real)rk_normal_cdf((double)x),
            (rk_real)rk_normal_cdf((double)x) + x * (rk_real)rk_normal_density((double)x))
