/* y = tanh(x). */
#include "nn/ops/op_unary.h"

RK_UNARY_OP(tanh, (rk_real)tanh((double)x), 1 - y * y)
