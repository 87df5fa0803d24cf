/* The matrix products of a linear layer, y = x W + b, for a block of rows on one thread. Those of training
 * are oneDNN's (gemm_onednn.c) or plain (gemm_plain.c): the results of a row do not depend on threads, but
 * may on the number of rows in its block. Those of predictions are batch-invariant (batch_invariant.h): a row
 * depends on nothing but itself. */
#ifndef RK_GEMM_GEMM_H
#define RK_GEMM_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/table.h>

#include "base/error.h"
#include "kernels/real.h"

/* W [in, out], in the layouts that the products want. */
typedef struct rk_packed_matrix rk_packed_matrix;

/* dtype bf16: x, W and dy are rounded to bf16 (nearest even) and their products summed in f32. For blocks of
 * up to max_rows rows. */
rk_status rk_packed_matrix_create(int64_t in, int64_t out, rk_dtype dtype, int64_t max_rows,
                                  rk_packed_matrix **result);
void rk_packed_matrix_free(rk_packed_matrix *matrix);

/* Take W [in, out], for training or for predictions, which have no rk_packed_matrix_backward. Not while
 * products run. */
rk_status rk_packed_matrix_set_weights(rk_packed_matrix *matrix, const rk_real *w, bool training);

/* Any number of threads at once; each has a workspace of its own of rk_packed_matrix_workspace_bytes bytes,
 * aligned to a cache line. forward            y = x W + b, and max(., 0) if relu;   x [m, in], b [out] or
 * NULL, y [m, out] backward           dw = x^T dy, added to dw if add_dw;   dy [m, out], dw [in, out] dx = dy
 * W^T, added to dx if add_dx;   dx [m, in] */
rk_status rk_packed_matrix_forward(const rk_packed_matrix *matrix, int64_t m, const rk_real *x,
                                   const rk_real *b, bool relu, rk_real *y, void *workspace);
rk_status rk_packed_matrix_backward(const rk_packed_matrix *matrix, int64_t m, const rk_real *x,
                                    const rk_real *dy, bool add_dw, rk_real *dw, bool add_dx, rk_real *dx,
                                    void *workspace);
size_t rk_packed_matrix_workspace_bytes(const rk_packed_matrix *matrix);

/* Lines first .. last-1 of W, which the same columns of x meet. */
typedef struct rk_lines {
    int64_t first, last;
} rk_lines;
/* rk_packed_matrix_forward for predictions by some lines alone. A product of the first ones, without relu, is
 * the bias by which that of the others gives the bits of the whole. */
rk_status rk_packed_matrix_forward_input_lines(const rk_packed_matrix *matrix, rk_lines lines, int64_t m,
                                               const rk_real *x, const rk_real *b, bool relu, rk_real *y,
                                               void *workspace);

#endif
