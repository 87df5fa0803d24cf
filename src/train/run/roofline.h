/* What this machine can do, measured with the loops that training uses, on all threads. */
#ifndef RK_TRAIN_RUN_ROOFLINE_H
#define RK_TRAIN_RUN_ROOFLINE_H

#include <stdint.h>

#include "base/error.h"

/* Bytes a second of random f32 rows of `dim`, one a bag, out of a table far larger than the caches, with the
 * bags written. */
rk_status rk_roofline_gather(int32_t dim, double *out);
/* Flops a second of products of a layer [in, out] in blocks of 256 rows. */
rk_status rk_roofline_gemm(int64_t in, int64_t out_units, double *out);

/* The same in turns with other work: so that what is compared with a limit met the same machine,
 * with whatever else runs on it. Of tables of so many bytes, which caches hold if they are few. A turn takes
 * some hundredths of a second; run_turn times one and adds it to those before. */
typedef struct rk_roofline rk_roofline;
rk_status rk_roofline_create_gather(int32_t dim, uint64_t table_bytes, rk_roofline **out);
rk_status rk_roofline_create_gemm(int64_t in, int64_t out_units, rk_roofline **out);
rk_status rk_roofline_run_turn(rk_roofline *roofline);
double rk_roofline_mean_rate(const rk_roofline *roofline); /* work a second, of one turn or more */
double rk_roofline_spread(const rk_roofline *roofline); /* the longest turn's time over the shortest one's */
void rk_roofline_free(rk_roofline *roofline);

#endif
