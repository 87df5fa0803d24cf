/* Forward by batch_invariant.c, backward by plain loops: for builds without oneDNN, and for the f64 build of
 * the gradient tests. */
#include <string.h>

#include "base/float16.h"
#include "base/memory.h"
#include "gemm/gemm.h"
#include "gemm/batch_invariant.h"

struct rk_packed_matrix {
    int64_t in, out, max_rows;
    rk_dtype dtype;
    rk_real *w; /* [in, out], rounded if bf16 */
    rk_batch_invariant_matrix batch_invariant;
};

static void round_to_bf16(const rk_real *from, rk_real *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = (rk_real)rk_bf16_to_f32(rk_bf16_from_f32((float)from[i]));
}

/* The values that products read: rounded into scratch, or as they are. */
static const rk_real *round_operand_to_bf16(const rk_packed_matrix *matrix, const rk_real *values, int64_t n,
                                            rk_real *scratch) {
    if (matrix->dtype != RK_BF16) return values;
    round_to_bf16(values, scratch, n);
    return scratch;
}

size_t rk_packed_matrix_workspace_bytes(const rk_packed_matrix *matrix) {
    return matrix->dtype == RK_BF16
               ? (size_t)((matrix->in + matrix->out) * matrix->max_rows) * sizeof(rk_real)
               : 0;
}

rk_status rk_packed_matrix_create(int64_t in, int64_t out, rk_dtype dtype, int64_t max_rows,
                                  rk_packed_matrix **result) {
    rk_packed_matrix *matrix;
    RK_TRY(rk_alloc(1, sizeof *matrix, &matrix));
    *matrix = (rk_packed_matrix){.in = in, .out = out, .max_rows = max_rows, .dtype = dtype};
    rk_status status = rk_alloc((size_t)(in * out), sizeof *matrix->w, &matrix->w);
    if (status == RK_OK) status = rk_batch_invariant_matrix_init(&matrix->batch_invariant, in, out);
    if (status == RK_OK)
        *result = matrix;
    else
        rk_packed_matrix_free(matrix);
    return status;
}

void rk_packed_matrix_free(rk_packed_matrix *matrix) {
    if (!matrix) return;
    rk_batch_invariant_matrix_release(&matrix->batch_invariant);
    RK_FREE_ALL(matrix->w, matrix);
}

rk_status rk_packed_matrix_set_weights(rk_packed_matrix *matrix, const rk_real *w, bool training) {
    (void)training;
    if (matrix->dtype == RK_BF16)
        round_to_bf16(w, matrix->w, matrix->in * matrix->out);
    else
        memcpy(matrix->w, w, (size_t)(matrix->in * matrix->out) * sizeof *w);
    rk_batch_invariant_matrix_set_weights(&matrix->batch_invariant, matrix->w);
    return RK_OK;
}

rk_status rk_packed_matrix_forward_input_lines(const rk_packed_matrix *matrix, rk_lines lines, int64_t m,
                                               const rk_real *x, const rk_real *b, bool relu, rk_real *y,
                                               void *workspace) {
    const rk_real *rows = round_operand_to_bf16(matrix, x, m * matrix->in, workspace);
    rk_batch_invariant_matrix_multiply(&matrix->batch_invariant, lines, m, rows, b, relu, y);
    return RK_OK;
}

rk_status rk_packed_matrix_forward(const rk_packed_matrix *matrix, int64_t m, const rk_real *x,
                                   const rk_real *b, bool relu, rk_real *y, void *workspace) {
    return rk_packed_matrix_forward_input_lines(matrix, (rk_lines){0, matrix->in}, m, x, b, relu, y,
                                                workspace);
}

static void compute_input_gradient(const rk_packed_matrix *matrix, int64_t m, const rk_real *dy, bool add,
                                   rk_real *dx) {
    int64_t in = matrix->in, out = matrix->out;
    for (int64_t s = 0; s < m; s++, dx += in, dy += out)
        for (int64_t i = 0; i < in; i++) {
            rk_real sum = add ? dx[i] : 0;
            for (int64_t o = 0; o < out; o++) sum += dy[o] * matrix->w[i * out + o];
            dx[i] = sum;
        }
}

static void compute_weight_gradient(const rk_packed_matrix *matrix, int64_t m, const rk_real *x,
                                    const rk_real *dy, bool add, rk_real *dw) {
    int64_t in = matrix->in, out = matrix->out;
    if (!add) memset(dw, 0, (size_t)(in * out) * sizeof *dw);
    for (int64_t s = 0; s < m; s++, x += in, dy += out)
        for (int64_t i = 0; i < in; i++)
            for (int64_t o = 0; o < out; o++) dw[i * out + o] += x[i] * dy[o];
}

rk_status rk_packed_matrix_backward(const rk_packed_matrix *matrix, int64_t m, const rk_real *x,
                                    const rk_real *dy, bool add_dw, rk_real *dw, bool add_dx, rk_real *dx,
                                    void *workspace) {
    x = round_operand_to_bf16(matrix, x, m * matrix->in, workspace);
    dy = round_operand_to_bf16(matrix, dy, m * matrix->out, (rk_real *)workspace + m * matrix->in);
    compute_weight_gradient(matrix, m, x, dy, add_dw, dw);
    compute_input_gradient(matrix, m, dy, add_dx, dx);
    return RK_OK;
}
