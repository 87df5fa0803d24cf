/* All products by batch_invariant.c: for builds without oneDNN, and for the f64 build of the gradient tests.
 */
#include "base/float16.h"
#include "base/memory.h"
#include "gemm/gemm.h"
#include "gemm/batch_invariant.h"

struct rk_packed_matrix {
    int64_t in, out, max_rows;
    rk_dtype dtype;
    rk_batch_invariant_matrix batch_invariant, transposed; /* W', for the gradient of x */
    rk_real *rounded;                                      /* [in, out]: W rounded to bf16 */
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
    rk_status status = rk_batch_invariant_matrix_init(&matrix->batch_invariant, in, out);
    if (status == RK_OK) status = rk_batch_invariant_matrix_init(&matrix->transposed, out, in);
    if (status == RK_OK && dtype == RK_BF16)
        status = rk_alloc((size_t)(in * out), sizeof *matrix->rounded, &matrix->rounded);
    if (status == RK_OK)
        *result = matrix;
    else
        rk_packed_matrix_free(matrix);
    return status;
}

void rk_packed_matrix_free(rk_packed_matrix *matrix) {
    if (!matrix) return;
    rk_batch_invariant_matrix_release(&matrix->batch_invariant);
    rk_batch_invariant_matrix_release(&matrix->transposed);
    RK_FREE_ALL(matrix->rounded, matrix);
}

rk_status rk_packed_matrix_set_weights(rk_packed_matrix *matrix, const rk_real *w, bool training) {
    const rk_real *values = round_operand_to_bf16(matrix, w, matrix->in * matrix->out, matrix->rounded);
    rk_batch_invariant_matrix_set_weights(&matrix->batch_invariant, values);
    if (training) rk_batch_invariant_matrix_set_transposed_weights(&matrix->transposed, values);
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

rk_status rk_packed_matrix_backward(const rk_packed_matrix *matrix, int64_t m, const rk_real *x,
                                    const rk_real *dy, bool add_dw, rk_real *dw, bool add_dx, rk_real *dx,
                                    void *workspace) {
    x = round_operand_to_bf16(matrix, x, m * matrix->in, workspace);
    dy = round_operand_to_bf16(matrix, dy, m * matrix->out, (rk_real *)workspace + m * matrix->in);
    rk_batch_invariant_matrix_gradients(&matrix->transposed, m, x, dy, add_dw, dw, add_dx, dx);
    return RK_OK;
}
