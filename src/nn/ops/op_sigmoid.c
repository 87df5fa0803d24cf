/* y = 1 / (1 + exp(-x)). */
#include "kernels/inline/scalar_functions.h"
#include "nn/ops/op_unary.h"

RK_UNARY_OP(sigmoid, (rk_real)rk_sigmoid((double)x), y *(1 - y))
