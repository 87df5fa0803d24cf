/* Every function of this layer that gives work to a stream, once: the stub is made from this list. X(name,
 * parameters)
 *
 * A function's .cu file has its doc comment: the serial loop that it stands for. Pointers are to the device's
 * memory unless they say `host`. */
#ifndef RK_CUDA_LAUNCH_LIST_H
#define RK_CUDA_LAUNCH_LIST_H

#include "cuda/libraries/blas.h"
#include "cuda/dense/candidate_loss.h"
#include "cuda/device/device_copy.h"
#include "cuda/dense/dense.h"
#include "cuda/metrics/ranking_positions.h"
#include "cuda/metrics/metrics.h"
#include "cuda/tables/row_exchange.h"
#include "cuda/libraries/sort.h"
#include "cuda/tables/table.h"

#define RK_CUDA_LAUNCH_LIST(X)        \
    RK_CUDA_BLAS_LIST(X)              \
    RK_CUDA_CANDIDATES_LIST(X)        \
    RK_CUDA_COPY_LIST(X)              \
    RK_CUDA_SORT_LIST(X)              \
    RK_CUDA_TABLE_LIST(X)             \
    RK_CUDA_DENSE_LIST(X)             \
    RK_CUDA_METRICS_LIST(X)           \
    RK_CUDA_RANKING_POSITIONS_LIST(X) \
    RK_CUDA_RANKS_LIST(X)

#endif
