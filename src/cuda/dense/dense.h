/* The dense operations, losses and dense optimizers on the device.
 *
 * Arrays are f32, row-major and aligned to 16 bytes. `overwrite` goes with a gradient: the first of its value
 * is written, later ones are added (a value that is two inputs of one operation has its gradient there twice;
 * every function then adds up right). Sums run in a fixed order, by the sizes alone. */
#ifndef RK_CUDA_DENSE_DENSE_H
#define RK_CUDA_DENSE_DENSE_H

#include "cuda/libraries/blas.h"
#include "cuda/dense/dense_optimizer_step.h"
#include "cuda/launch.h"

typedef enum rk_cuda_unary_kind {
    RK_CUDA_RELU,
    RK_CUDA_GELU,
    RK_CUDA_SIGMOID,
    RK_CUDA_TANH
} rk_cuda_unary_kind;

/* Sums over the rows of x [rows, cols]: out[c] = sum_r f(x_rc) / divisor, by kind:
 *     PLAIN        x_rc
 *     SCALED       x_rc y[r * (cols / span) + c / span]: of parameters that multiply numbers; span 1: of two
 *                  arrays' products
 *     RELU         x_rc, or 0 where y_rc <= 0: a gradient before a relu
 *     SQUARES      (x_rc - a[c])^2
 *     BY_COLUMN    x_rc (y_rc - a[c]) b[c]: of batch norm's gamma
 *     BY_ROW       x_rc (y_rc - m) s with (m, s) = a[2 q], a[2 q + 1], q = r * (cols / span) + c / span: of
 *                  layer norm's gamma
 * and out_plain[c] = sum_r x_rc, where it is not NULL. */
typedef enum rk_cuda_sum_kind {
    RK_CUDA_PLAIN,
    RK_CUDA_SCALED,
    RK_CUDA_RELU_SUM,
    RK_CUDA_SQUARES,
    RK_CUDA_BY_COLUMN,
    RK_CUDA_BY_ROW
} rk_cuda_sum_kind;
typedef struct rk_cuda_sum_args {
    rk_cuda_sum_kind kind;
    int64_t rows, cols, span;
    const float *x, *y, *a, *b;
    float *masked;     /* RELU: where x is written as it is then; may be x, or NULL */
    uint16_t *rounded; /* PLAIN, RELU: the same in bf16 [rows, rk_cuda_aligned_ld(cols)], but for what lies
                          behind the columns; or NULL */
    double divisor;    /* 0: 1 */
    float *out;        /* or NULL */
    float *out_plain;
    float *partials; /* rk_cuda_sum_scratch_floats(rows, cols) */
} rk_cuda_sum_args;

/* Rows are summed in pieces, whose sums are added in order. */
enum { RK_CUDA_SUM_ROWS = 64, RK_CUDA_SUM_PIECES = 256 };
static inline int64_t rk_cuda_sum_rows_per_piece(int64_t rows) {
    int64_t piece = (rows + RK_CUDA_SUM_PIECES - 1) / RK_CUDA_SUM_PIECES;
    return piece < RK_CUDA_SUM_ROWS ? (int64_t)RK_CUDA_SUM_ROWS : piece;
}
static inline int64_t rk_cuda_sum_piece_count(int64_t rows) {
    return (rows + rk_cuda_sum_rows_per_piece(rows) - 1) / rk_cuda_sum_rows_per_piece(rows);
}
/* Enough for fewer rows too. */
static inline int64_t rk_cuda_sum_scratch_floats(int64_t rows, int64_t cols) {
    int64_t pieces = (rows + RK_CUDA_SUM_ROWS - 1) / RK_CUDA_SUM_ROWS;
    return 2 * (pieces < RK_CUDA_SUM_PIECES ? pieces : (int64_t)RK_CUDA_SUM_PIECES) * cols;
}

/* Batch norm's numbers, [cols] each. */
typedef struct rk_cuda_batch_norm {
    float *mean, *scale; /* of the batch, or the running ones */
    float *running_mean, *running_variance;
    double epsilon, momentum;
} rk_cuda_batch_norm;

typedef struct rk_cuda_dropout_args {
    int64_t n;
    int64_t group;       /* so many values in a row share their fate */
    uint64_t seed;       /* of the graph and the node */
    uint32_t limit;      /* rate * 2^32 */
    float keep;          /* 1 / (1 - rate) */
    int64_t per_sample;  /* groups of a sample */
    const int64_t *step; /* the step, and the number of the first sample, by which masks go; (that number *
                            per_sample) % 4 == 0 */
} rk_cuda_dropout_args;

// clang-format off
#define RK_CUDA_ELEMENTWISE_LIST(X)                                                                     \
    X(rk_cuda_unary, (rk_stream *stream, rk_cuda_unary_kind kind, int64_t n, const float *x, float *y)) \
    X(rk_cuda_unary_backward, (rk_stream *stream, rk_cuda_unary_kind kind, int64_t n, const float *x,   \
                               const float *y, const float *dy, float *dx, bool overwrite))             \
    X(rk_cuda_add_to, (rk_stream *stream, int64_t n, const float *x, float *y, bool overwrite))         \
    X(rk_cuda_add_two, (rk_stream *stream, int64_t n, const float *a, const float *b, float *y))        \
    X(rk_cuda_multiply,                                                                                 \
      (rk_stream *stream, int64_t n, const float *a, const float *b, float *y, bool overwrite))         \
    X(rk_cuda_cross_combine,                                                                            \
      (rk_stream *stream, int64_t n, const float *x0, const float *y, const float *x, float *z))        \
    X(rk_cuda_cross_combine_backward,                                                                   \
      (rk_stream *stream, int64_t n, const float *x0, const float *y, const float *dz, float *dx0,      \
       bool overwrite0, float *dy, bool overwrite1, float *dx, bool overwrite2))                        \
    X(rk_cuda_product_logit, (rk_stream *stream, int64_t n, const float *a, const float *b, float *z))  \
    X(rk_cuda_product_logit_backward,                                                                   \
      (rk_stream *stream, int64_t n, const float *a, const float *b, const float *dz, float *da,        \
       bool overwrite_a, float *db, bool overwrite_b))                                                  \
    X(rk_cuda_add_bias,                                                                                 \
      (rk_stream *stream, int64_t rows, int64_t cols, const float *x, const float *b, float *y))        \
    X(rk_cuda_apply_gate,                                                                               \
      (rk_stream *stream, int64_t rows, int64_t cols, const float *x, const float *g,                   \
       bool shared, float *y, bool overwrite))                                                          \
    X(rk_cuda_gate_backward, (rk_stream *stream, int64_t n, const float *x, const float *g,             \
                              const float *dy, float *dg, bool overwrite))                              \
    X(rk_cuda_multiply_gate_derivatives, (rk_stream *stream, int64_t n, const float *g, float *dg))     \
    X(rk_cuda_dropout,                                                                                  \
      (rk_stream *stream, const rk_cuda_dropout_args *args, const float *from, float *to, bool overwrite))

#define RK_CUDA_ROWS_LIST(X)                                                                                 \
    X(rk_cuda_copy_columns, (rk_stream *stream, int64_t rows, int64_t cols, const float *from,               \
                             int64_t from_stride, float *to, int64_t to_stride, bool overwrite))             \
    X(rk_cuda_zero_columns,                                                                                  \
      (rk_stream *stream, int64_t rows, int64_t cols, float *to, int64_t to_stride))                         \
    X(rk_cuda_scatter_columns, (rk_stream *stream, int64_t rows, int64_t cols, int64_t begin, int64_t count, \
                              const float *dy, float *dx))                                                   \
    X(rk_cuda_transpose,                                                                                     \
      (rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *x, float *y, bool overwrite))  \
    X(rk_cuda_sum_rows,                                                                                      \
      (rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *x, float *y))                  \
    X(rk_cuda_broadcast_rows,                                                                                \
      (rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *dy, float *dx,                 \
       bool overwrite))                                                                                      \
    X(rk_cuda_rowwise_dot, (rk_stream *stream, int64_t rows, int64_t cols, const float *a, const float *b,   \
                            int64_t b_rows, float *y, bool overwrite))                                       \
    X(rk_cuda_rowwise_scale, (rk_stream *stream, int64_t rows, int64_t cols, const float *scale,             \
                              const float *v, int64_t v_rows, float *y, bool overwrite))                     \
    X(rk_cuda_target_pairs,                                                                                  \
      (rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *q, const float *k, float *y))  \
    X(rk_cuda_target_pairs_backward,                                                                         \
      (rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *q, const float *k,             \
       const float *dy, float *dq, bool overwrite_q, float *dk, bool overwrite_k))                           \
    X(rk_cuda_column_sums, (rk_stream *stream, const rk_cuda_sum_args *args))

#define RK_CUDA_NORM_LIST(X)                                                                                 \
    X(rk_cuda_softmax, (rk_stream *stream, int64_t rows, int64_t cols, const float *x, float *y))            \
    X(rk_cuda_softmax_backward, (rk_stream *stream, int64_t rows, int64_t cols, const float *y,              \
                                 const float *dy, float *dx, bool overwrite))                                \
    X(rk_cuda_l2_normalize,                                                                                  \
      (rk_stream *stream, int64_t rows, int64_t cols, double epsilon, const float *x, float *y))             \
    X(rk_cuda_l2_normalize_backward,                                                                         \
      (rk_stream *stream, int64_t rows, int64_t cols, double epsilon, const float *x, const float *y,        \
       const float *dy, float *dx, bool overwrite))                                                          \
    X(rk_cuda_layer_norm,                                                                                    \
      (rk_stream *stream, int64_t rows, int64_t cols, int64_t scale_rows, double epsilon, const float *x,    \
       const float *gamma, const float *beta, float *y, float *saved))                                       \
    X(rk_cuda_layer_norm_backward,                                                                           \
      (rk_stream *stream, int64_t rows, int64_t cols, int64_t scale_rows, const float *x,                    \
       const float *gamma, const float *saved, const float *dy, float *dx, bool overwrite))                  \
    X(rk_cuda_batch_norm_statistics,                                                                         \
      (rk_stream *stream, int64_t n, int64_t cols, const rk_cuda_batch_norm *norm))                          \
    X(rk_cuda_batch_norm_use_running, (rk_stream *stream, int64_t cols, const rk_cuda_batch_norm *norm))     \
    X(rk_cuda_batch_norm_forward,                                                                            \
      (rk_stream *stream, int64_t n, int64_t cols, const float *mean, const float *scale,                    \
       const float *gamma, const float *beta, const float *x, float *y))                                     \
    X(rk_cuda_batch_norm_backward,                                                                           \
      (rk_stream *stream, int64_t n, int64_t total, int64_t cols, const float *mean, const float *scale,     \
       const float *gamma, const float *dots, const float *sums, const float *x, const float *dy, float *dx, \
       bool overwrite))

#define RK_CUDA_INTERACTION_LIST(X)                                                                       \
    X(rk_cuda_dot_interaction,                                                                            \
      (rk_stream *stream, int64_t n, int32_t rows, int32_t cols, const float *x, float *y))               \
    X(rk_cuda_dot_interaction_backward, (rk_stream *stream, int64_t n, int32_t rows, int32_t cols,        \
                                         const float *x, const float *dy, float *dx, bool overwrite))     \
    X(rk_cuda_fm,                                                                                         \
      (rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *x, float *y, float *sums))  \
    X(rk_cuda_fm_backward, (rk_stream *stream, int64_t n, int64_t rows, int64_t cols, const float *x,     \
                            const float *sums, const float *dy, float *dx, bool overwrite))               \
    X(rk_cuda_cross_v1, (rk_stream *stream, int64_t n, int64_t cols, const float *x0, const float *x,     \
                         const float *w, const float *b, float *y, float *dots))                          \
    X(rk_cuda_cross_v1_backward,                                                                          \
      (rk_stream *stream, int64_t n, int64_t cols, const float *w, const float *dots, const float *ddots, \
       const float *dy, float *dx0, bool overwrite0, float *dx, bool overwrite1))                         \
    X(rk_cuda_cin_products, (rk_stream *stream, int64_t n, int64_t fields, int64_t maps, const float *x0, \
                             const float *x, float *products))                                            \
    X(rk_cuda_cin_products_backward,                                                                      \
      (rk_stream *stream, int64_t n, int64_t fields, int64_t maps, const float *x0, const float *x,       \
       const float *dproducts, float *dx0, bool overwrite0, float *dx, bool overwrite1))                  \
    X(rk_cuda_length_mask,                                                                                \
      (rk_stream *stream, int64_t n, int64_t rows, int64_t count, const float *lengths,                   \
       int64_t stride, float *y))                                                                         \
    X(rk_cuda_masked_softmax,                                                                             \
      (rk_stream *stream, int64_t n, int64_t heads, int64_t rows, const float *there, float *a))          \
    X(rk_cuda_attention_pool,                                                                             \
      (rk_stream *stream, int64_t n, int64_t rows, int64_t cols, bool softmax, const float *w,            \
       const float *k, const float *lengths, int64_t lengths_stride, float *y, float *used))              \
    X(rk_cuda_attention_pool_backward,                                                                    \
      (rk_stream *stream, int64_t n, int64_t rows, int64_t cols, bool softmax, const float *used,         \
       const float *k, const float *lengths, int64_t lengths_stride, const float *dy, float *dused,       \
       float *dw, bool overwrite_w, float *dk, bool overwrite_k))

#define RK_CUDA_LOSS_LIST(X)                                                                          \
    X(rk_cuda_loss, (rk_stream *stream, const rk_cuda_loss_args *args))                               \
    X(rk_cuda_predictions, (rk_stream *stream, int64_t n, int32_t n_tasks, const rk_cuda_task *tasks, \
                            const float *logits, float *predictions))

#define RK_CUDA_UPDATE_LIST(X)                                                                             \
    X(rk_cuda_dense_gradient_norm, (rk_stream *stream, const rk_cuda_dense *dense, uint32_t *stop))        \
    X(rk_cuda_dense_optimizer_step, (rk_stream *stream, const rk_cuda_dense *dense, const uint32_t *stop)) \
    X(rk_cuda_copy_if,                                                                                     \
      (rk_stream *stream, int64_t n, const uint32_t *condition, const float *from, float *to))
// clang-format on

#define RK_CUDA_DENSE_LIST(X)   \
    RK_CUDA_ELEMENTWISE_LIST(X) \
    RK_CUDA_ROWS_LIST(X)        \
    RK_CUDA_NORM_LIST(X)        \
    RK_CUDA_INTERACTION_LIST(X) \
    RK_CUDA_LOSS_LIST(X)        \
    RK_CUDA_UPDATE_LIST(X)
RK_CUDA_DENSE_LIST(RK_CUDA_PROTOTYPE)

#endif
