/* Metrics of one task's predictions, on the device: equal to the CPU's, whose rules they share
 * (kernels/inline/metric_rules.h). */
#ifndef RK_CUDA_METRICS_METRICS_H
#define RK_CUDA_METRICS_METRICS_H

#include "cuda/libraries/sort.h"
#include "kernels/inline/metric_rules.h"

enum { RK_CUDA_AUC_TILE = 1024, RK_CUDA_METRIC_BLOCKS = 256 };

/* Device memory for n samples, by its pieces; sums need the partials alone. */
typedef struct rk_cuda_metric_memory {
    uint64_t *keys, *sorted;  /* [n] */
    uint32_t *places, *order; /* [n] */
    double *below;    /* [n]: negatives before a sample within its tile, in the order of predictions */
    double *tiles;    /* [n / RK_CUDA_AUC_TILE + 2]: before each tile, and of all */
    double *partials; /* [RK_METRIC_SUMS, RK_CUDA_METRIC_BLOCKS] */
    void *scratch;    /* of rk_cuda_sort_scratch_bytes(n) */
    size_t scratch_bytes;
} rk_cuda_metric_memory;

typedef struct rk_cuda_metric_args {
    int64_t n;
    bool binary;
    const rk_metric_sample *samples; /* [n] */
    const int64_t *groups;           /* [n] */
    rk_metric_totals *totals;        /* one, out: what the function is named after */
} rk_cuda_metric_args;

/* rk_cuda_gauc goes on from the order that rk_cuda_auc has left in the memory. */
// clang-format off
#define RK_CUDA_METRICS_LIST(X)                                                                  \
    X(rk_cuda_auc,                                                                               \
      (rk_stream *stream, const rk_cuda_metric_args *args, const rk_cuda_metric_memory *memory)) \
    X(rk_cuda_gauc,                                                                              \
      (rk_stream *stream, const rk_cuda_metric_args *args, const rk_cuda_metric_memory *memory)) \
    X(rk_cuda_metric_sums,                                                                       \
      (rk_stream *stream, const rk_cuda_metric_args *args, const rk_cuda_metric_memory *memory))
// clang-format on
RK_CUDA_METRICS_LIST(RK_CUDA_PROTOTYPE)

#endif
