/* The area under the ROC curve of one task's predictions, on the device: equal to the metrics' own, ties by half, labels between 0 and 1 by their parts. */
#ifndef RK_CUDA_AUC_H
#define RK_CUDA_AUC_H

#include "cuda/sort.h"

enum { RK_CUDA_AUC_TILE = 1024, RK_CUDA_AUC_BLOCKS = 256 };

/* Device memory for n samples, by its pieces. */
typedef struct rk_cuda_auc_memory {
    uint64_t *keys, *sorted;    /* [n] */
    uint32_t *places, *order;   /* [n] */
    double *below;              /* [n]: negatives before a sample within its tile, in the order of predictions */
    double *tiles;              /* [n / RK_CUDA_AUC_TILE + 2]: before each tile, and of all */
    double *partials;           /* [2, RK_CUDA_AUC_BLOCKS] */
    void *scratch;              /* of rk_cuda_sort_scratch_bytes(n) */
    size_t scratch_bytes;
} rk_cuda_auc_memory;

typedef struct rk_cuda_auc_args {
    int64_t n;
    const float *samples;       /* [n, 3]: prediction, label, weight */
    double *auc;                /* one; NaN if all labels are of one kind */
} rk_cuda_auc_args;

#define RK_CUDA_AUC_LIST(X) X(rk_cuda_auc, (rk_stream * stream, const rk_cuda_auc_args *args, const rk_cuda_auc_memory *memory))
RK_CUDA_AUC_LIST(RK_CUDA_PROTOTYPE)

#endif
