/* y = 1 / (1 + exp(-x)). */
#include "nn/op_unary.h"

RK_UNARY_OP(sigmoid, (rk_real)(1 / (1 + exp(-(double)x))), y *(1 - y))
