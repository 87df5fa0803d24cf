/* y = max(x, 0), and NaN of NaN, which a comparison the other way round would hide; the slope at 0 is 0. */
#include "nn/ops/op_unary.h"

RK_UNARY_OP(relu, x <= 0 ? 0 : x, x > 0 ? (rk_real)1 : (rk_real)0)
