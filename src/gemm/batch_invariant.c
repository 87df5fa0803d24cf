#include "gemm/batch_invariant.h"

#include <string.h>

#include "base/integers.h"
#include "base/memory.h"
#include "kernels/kernels.h"

rk_status rk_batch_invariant_matrix_init(rk_batch_invariant_matrix *matrix, int64_t in, int64_t out) {
    int64_t n_panels = (out + RK_PANEL_COLUMNS - 1) / RK_PANEL_COLUMNS;
    *matrix = (rk_batch_invariant_matrix){
        .in = in, .out = out, .n_bytes = (size_t)(n_panels * in * RK_PANEL_COLUMNS) * sizeof(rk_real)};
    return rk_pages_alloc(matrix->n_bytes, &matrix->values);
}

void rk_batch_invariant_matrix_release(rk_batch_invariant_matrix *matrix) {
    rk_pages_free(matrix->values, matrix->n_bytes);
}

void rk_batch_invariant_matrix_set_weights(rk_batch_invariant_matrix *matrix, const rk_real *w) {
    rk_real *to = matrix->values;
    for (int64_t c = 0; c < matrix->out; c += RK_PANEL_COLUMNS) {
        const rk_real *from = w + c;
        size_t left = (size_t)(matrix->out - c);
        for (int64_t i = 0; i < matrix->in; i++, from += matrix->out, to += RK_PANEL_COLUMNS)
            if (left >= RK_PANEL_COLUMNS)
                memcpy(to, from, RK_PANEL_COLUMNS * sizeof *to); /* of a length that compilers know */
            else
                memcpy(to, from, left * sizeof *to); /* the pages began as zeros */
    }
}

void rk_batch_invariant_matrix_set_transposed_weights(rk_batch_invariant_matrix *matrix, const rk_real *w) {
    const int64_t in = matrix->in;
    rk_real *to = matrix->values;
    for (int64_t c = 0; c < matrix->out; c += RK_PANEL_COLUMNS, to += in * RK_PANEL_COLUMNS)
        rk_values_transpose(w + c * in, rk_min_i64(matrix->out - c, RK_PANEL_COLUMNS), in, in, to,
                            RK_PANEL_COLUMNS);
}

static rk_panel_product_args make_panel_product_args(const rk_batch_invariant_matrix *matrix, rk_lines lines,
                                                     int64_t m, const rk_real *x, bool relu, rk_real *y) {
    return (rk_panel_product_args){.n = m,
                                   .in = lines.last - lines.first,
                                   .out = matrix->out,
                                   .lines = matrix->in,
                                   .x = x + lines.first,
                                   .w = matrix->values + lines.first * RK_PANEL_COLUMNS,
                                   .relu = relu,
                                   .y = y};
}

/* Rows of a product at a time: what is read and written of them stays in the caches, since each strip of W's
 * columns, or of dw, goes by all of them; but enough of them for what is read of a large W. Sums go on where
 * they were, so bits do not depend on it. */
static int64_t choose_rows_at_a_time(int64_t in, int64_t out) {
    enum { TILE_ROWS = 12, LEAST = 4 * TILE_ROWS, CACHED_REALS = 1 << 14, WEIGHTS_A_ROW = 1 << 12 };
    int64_t cached = CACHED_REALS / (in + out), worth = in * out / WEIGHTS_A_ROW;
    int64_t rows = (cached > worth ? cached : worth) / TILE_ROWS * TILE_ROWS;
    return rows > LEAST ? rows : LEAST;
}

static void multiply_some_rows_at_a_time(rk_panel_product_args args) {
    const int64_t most = choose_rows_at_a_time(args.lines, args.out);
    for (int64_t left = args.n; left > 0; left -= most) {
        args.n = left < most ? left : most;
        rk_panel_product(&args);
        args.x += most * args.lines;
        args.y += most * args.out;
        if (args.begin) args.begin += most * args.out;
    }
}

void rk_batch_invariant_matrix_multiply(const rk_batch_invariant_matrix *matrix, rk_lines lines, int64_t m,
                                        const rk_real *x, const rk_real *b, bool relu, rk_real *y) {
    rk_panel_product_args args = make_panel_product_args(matrix, lines, m, x, relu, y);
    args.bias = b;
    multiply_some_rows_at_a_time(args);
}

void rk_batch_invariant_matrix_multiply_add(const rk_batch_invariant_matrix *matrix, int64_t m,
                                            const rk_real *x, const rk_real *begin, const rk_real *b,
                                            bool relu, rk_real *y) {
    rk_panel_product_args args = make_panel_product_args(matrix, (rk_lines){0, matrix->in}, m, x, relu, y);
    args.begin = begin;
    args.bias = b;
    multiply_some_rows_at_a_time(args);
}

void rk_batch_invariant_matrix_gradients(const rk_batch_invariant_matrix *transposed, int64_t m,
                                         const rk_real *x, const rk_real *dy, bool add_dw, rk_real *dw,
                                         bool add_dx, rk_real *dx) {
    const int64_t in = transposed->out, out = transposed->in, most = choose_rows_at_a_time(in, out);
    int64_t first = 0;
    do {
        const rk_weight_gradient_args of_weights = {.n = m - first < most ? m - first : most,
                                                    .in = in,
                                                    .out = out,
                                                    .x = x + first * in,
                                                    .dy = dy + first * out,
                                                    .add = add_dw || first > 0,
                                                    .dw = dw};
        rk_weight_gradient(&of_weights);
        first += most;
    } while (first < m); /* of no rows, too: dw is zeros */
    rk_batch_invariant_matrix_multiply_add(transposed, m, dy, add_dx ? dx : NULL, NULL, false, dx);
}
