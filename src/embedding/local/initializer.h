/* Initial values of rows: pure functions of (seed, table, id, column). */
#ifndef RK_EMBEDDING_LOCAL_INITIALIZER_H
#define RK_EMBEDDING_LOCAL_INITIALIZER_H

#include "kernels/rows.h"

rk_status rk_initializer_validate(const rk_initializer *initializer);

/* Row `id` (below 2^47) of the table whose name hashes to `table`, into out [dim], dim up to RK_MAX_DIM. */
void rk_initialize_row(const rk_initializer *initializer, uint64_t seed, uint64_t table, int64_t id,
                       int32_t dim, float *out);

#endif
