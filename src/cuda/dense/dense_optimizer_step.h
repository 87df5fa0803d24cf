/* What losses and the dense optimizer read: structs that the host fills in. */
#ifndef RK_CUDA_DENSE_DENSE_OPTIMIZER_STEP_H
#define RK_CUDA_DENSE_DENSE_OPTIMIZER_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/optimizer_step.h"

/* Why a step updates nothing: bits of a word in device memory, for a loss, a row's gradient or a
 * parameter's that is not finite. */
enum { RK_CUDA_STOP_LOSS = 1, RK_CUDA_STOP_ROWS = 2, RK_CUDA_STOP_DENSE = 4 };

typedef struct rk_cuda_task {
    bool is_mse;      /* else the sigmoid's cross-entropy */
    bool optional;    /* labels may be absent (NaN) */
    double smoothing; /* of labels */
    bool learned;     /* its weight is: exp(-s), or exp(-s) / 2 of squares, s its log variance */
} rk_cuda_task;

enum { RK_CUDA_LOSS_BLOCKS = 256 };
typedef struct rk_cuda_loss_args {
    int64_t n;
    int32_t n_tasks;
    const rk_cuda_task *tasks;    /* [n_tasks]; device, as all pointers here */
    const float *logits, *labels; /* [n, n_tasks] */
    const float *weights;         /* [n] or NULL */
    const double *scales; /* [n_tasks]: the task's weight over its samples' weight in the batch; 0: no loss */
    const double *shares; /* [n_tasks]: the part of that weight that these samples have */
    const float *log_variances; /* [n_tasks], or NULL */
    float *gradient;            /* [n, n_tasks]: of the logits */
    float *slopes;              /* [n_tasks]: of log_variances */
    double *partials;           /* [RK_CUDA_LOSS_BLOCKS, n_tasks] */
    double *losses;             /* [n_tasks]: the tasks' shares of the batch's loss */
    uint32_t *stop, stop_bit;   /* *stop |= stop_bit where one is not finite */
} rk_cuda_loss_args;

/* A piece of the parameters: a chunk of a tensor, or one of its rows, by the optimizer's kind. */
typedef struct rk_cuda_dense_piece {
    int64_t first, count;               /* values, of the arrays of all parameters */
    int64_t row;                        /* of the slots that are kept a row */
    int32_t tensor_first, tensor_count; /* the pieces of its tensor */
    bool is_bias;
} rk_cuda_dense_piece;

typedef struct rk_cuda_dense_state {
    float gradient_scale; /* by the norm of all gradients */
    uint32_t bad_piece;   /* the first whose gradient is not finite, or n_pieces */
} rk_cuda_dense_state;

typedef struct rk_cuda_dense {
    int64_t n_pieces;
    const rk_cuda_dense_piece *pieces; /* [n_pieces]; device, as all pointers here */
    rk_optimizer_kind kind;
    const rk_update *update; /* of this step */
    float l2;
    double max_norm;           /* 0: none */
    float *values, *gradients; /* of all parameters */
    float *slots[2];           /* the same, or a number a row, or NULL */
    double *squares;           /* [2, n_pieces] */
    rk_cuda_dense_state *state;
} rk_cuda_dense;

#endif
