/* What this machine can do, measured with the loops that training uses, on all threads. */
#ifndef RK_TRAIN_LIMITS_H
#define RK_TRAIN_LIMITS_H

#include <stdint.h>

#include "base/error.h"

/* Bytes a second of random f32 rows of `dim`, one a bag, out of a table far larger than the caches, with the bags written. */
rk_status rk_limit_gather(int32_t dim, double *out);
/* Flops a second of products of a layer [in, out] in blocks of 256 rows. */
rk_status rk_limit_gemm(int64_t in, int64_t out_units, double *out);

#endif
