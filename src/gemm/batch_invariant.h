/* A batch-invariant matrix product: its rows do not depend on one another. Predictions are made by it, so
 * that a sample's is the same in any batch, on any instruction set (rk_panel_product, kernels/kernels.h). */
#ifndef RK_GEMM_BATCH_INVARIANT_H
#define RK_GEMM_BATCH_INVARIANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gemm/gemm.h"
#include "kernels/real.h"

/* W [in, out] in panels; untouched pages until rk_batch_invariant_matrix_set_weights. */
typedef struct rk_batch_invariant_matrix {
    int64_t in, out;
    rk_real *values;
    size_t n_bytes;
} rk_batch_invariant_matrix;

rk_status rk_batch_invariant_matrix_init(rk_batch_invariant_matrix *matrix, int64_t in, int64_t out);
void rk_batch_invariant_matrix_release(rk_batch_invariant_matrix *matrix);

/* Take W [in, out]; not while products run. */
void rk_batch_invariant_matrix_set_weights(rk_batch_invariant_matrix *matrix, const rk_real *w);
/* W' for products by it: W [out, in]. */
void rk_batch_invariant_matrix_set_transposed_weights(rk_batch_invariant_matrix *matrix, const rk_real *w);

/* y = x W + b of those lines of W and columns of x alone, and max(., 0) if relu: x [m, in], b [out] or NULL,
 * y [m, out]. Any number of threads at once. */
void rk_batch_invariant_matrix_multiply(const rk_batch_invariant_matrix *matrix, rk_lines lines, int64_t m,
                                        const rk_real *x, const rk_real *b, bool relu, rk_real *y);
/* y = (begin + b) + x W, and max(., 0) if relu: begin [m, out], which may be y, and b [out]; or NULL. */
void rk_batch_invariant_matrix_multiply_add(const rk_batch_invariant_matrix *matrix, int64_t m,
                                            const rk_real *x, const rk_real *begin, const rk_real *b,
                                            bool relu, rk_real *y);
/* dw = x' dy, or that is added, and dx = dy W', or that is added: transposed is of W', dy [m, out], x and dx
 * [m, in], dw [in, out]. Any number of threads at once. */
void rk_batch_invariant_matrix_gradients(const rk_batch_invariant_matrix *transposed, int64_t m,
                                         const rk_real *x, const rk_real *dy, bool add_dw, rk_real *dw,
                                         bool add_dx, rk_real *dx);

#endif
