/* What GPUs of several ranks need beside their communicator: rows on the wire, and the step statuses of all
 * ranks. */
#ifndef RK_CUDA_TABLES_ROW_EXCHANGE_H
#define RK_CUDA_TABLES_ROW_EXCHANGE_H

#include "cuda/launch.h"

/* n rows of dim values each, their first values `stride` apart. */
typedef struct rk_cuda_rows_at {
    void *data;
    int64_t stride;
    int32_t dtype; /* rk_dtype */
} rk_cuda_rows_at;

// clang-format off
#define RK_CUDA_RANKS_LIST(X)                                                                              \
    X(rk_cuda_convert_rows,                                                                                \
      (rk_stream *stream, int64_t n, int32_t dim, const rk_cuda_rows_at *from, const rk_cuda_rows_at *to)) \
    X(rk_cuda_combine_step_statuses,                                                                       \
      (rk_stream *stream, int32_t n_ranks, int32_t n_losses, const double *step_statuses, double *out))
// clang-format on
RK_CUDA_RANKS_LIST(RK_CUDA_PROTOTYPE)

#endif
