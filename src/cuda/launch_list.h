/* Every function of this layer that gives work to a stream, once: the stub is made from this list. X(name, parameters)
 *
 * A function's .cu file has its doc comment: the serial loop that it stands for. Pointers are to the device's memory unless they say `host`. */
#ifndef RK_CUDA_LAUNCH_LIST_H
#define RK_CUDA_LAUNCH_LIST_H

#include "cuda/blas.h"
#include "cuda/candidates.h"
#include "cuda/copy.h"
#include "cuda/dense.h"
#include "cuda/item_places.h"
#include "cuda/metrics.h"
#include "cuda/ranks.h"
#include "cuda/sort.h"
#include "cuda/table.h"

#define RK_CUDA_LAUNCH_LIST(X) \
    RK_CUDA_BLAS_LIST(X)       \
    RK_CUDA_CANDIDATES_LIST(X) \
    RK_CUDA_COPY_LIST(X)       \
    RK_CUDA_SORT_LIST(X)       \
    RK_CUDA_TABLE_LIST(X)      \
    RK_CUDA_DENSE_LIST(X)      \
    RK_CUDA_METRICS_LIST(X)    \
    RK_CUDA_ITEM_PLACES_LIST(X) \
    RK_CUDA_RANKS_LIST(X)

#endif
