/* rk_packed_matrix: products of training and of predictions, and gradients, against sums in f64, and that a
 * row's prediction is the same in a block of any length. */
#include "testing.h"

#include <math.h>

#include "base/float16.h"
#include "base/memory.h"
#include "base/rng.h"
#include "gemm/gemm.h"

enum { MOST_ROWS = 150 };

static float *random_values(rk_rng *rng, int64_t n) {
    float *values;
    OK(rk_alloc((size_t)n, sizeof *values, &values));
    for (int64_t i = 0; i < n; i++) values[i] = (float)rk_rng_normal(rng);
    return values;
}

static double operand(float value, rk_dtype dtype) {
    return (double)(dtype == RK_BF16 ? rk_bf16_to_f32(rk_bf16_from_f32(value)) : value);
}

/* Rounding errors of a sum of n products of about 1. */
static void check_row(const float *y, const float *x, const float *w, const float *b, int64_t in, int64_t out,
                      rk_dtype dtype) {
    for (int64_t c = 0; c < out; c++) {
        double sum = (double)b[c];
        for (int64_t i = 0; i < in; i++) sum += operand(x[i], dtype) * operand(w[i * out + c], dtype);
        if (sum < 0) sum = 0;
        assert_true(fabs((double)y[c] - sum) < 2e-6 * (double)(in + 8));
    }
}

static void check(int64_t in, int64_t out, rk_dtype dtype) {
    rk_rng rng = {3, (uint64_t)in, (uint64_t)out};
    float *x = random_values(&rng, MOST_ROWS * in), *w = random_values(&rng, in * out),
          *b = random_values(&rng, out), *whole = random_values(&rng, MOST_ROWS * out),
          *part = random_values(&rng, MOST_ROWS * out);
    rk_packed_matrix *matrix;
    void *workspace;
    OK(rk_packed_matrix_create(in, out, dtype, MOST_ROWS, &matrix));
    OK(rk_pages_alloc(rk_packed_matrix_workspace_bytes(matrix) + 1, &workspace));
    for (int training = 1; training >= 0; training--) {
        OK(rk_packed_matrix_set_weights(matrix, w, training));
        OK(rk_packed_matrix_forward(matrix, MOST_ROWS, x, b, true, whole, workspace));
        for (int64_t s = 0; s < MOST_ROWS; s += 7)
            check_row(whole + s * out, x + s * in, w, b, in, out, dtype);
    }
    for (int64_t n = 1; n < MOST_ROWS; n += 1 + n / 9)
        for (int64_t s = 0; s + n <= MOST_ROWS; s += 1 + MOST_ROWS / 3) {
            OK(rk_packed_matrix_forward(matrix, n, x + s * in, b, true, part, workspace));
            assert_memory_equal(part, whole + s * out, (size_t)(n * out) * sizeof *part);
        }
    float *begun = random_values(&rng, out);
    for (int64_t cut = 0; cut <= in; cut += 1 + in / 3) { /* what a first part gives, as the rest's bias */
        OK(rk_packed_matrix_forward_input_lines(matrix, (rk_lines){0, cut}, 1, x, b, false, begun,
                                                workspace));
        OK(rk_packed_matrix_forward_input_lines(matrix, (rk_lines){cut, in}, 1, x, begun, true, part,
                                                workspace));
        assert_memory_equal(part, whole, (size_t)out * sizeof *part);
    }
    rk_free(begun);
    rk_pages_free(workspace, rk_packed_matrix_workspace_bytes(matrix) + 1);
    rk_packed_matrix_free(matrix);
    float *const arrays[] = {x, w, b, whole, part};
    for (int i = 0; i < 5; i++) rk_free(arrays[i]);
}

static void check_gradient(const float *found, int64_t n, const double *sums, int64_t n_terms) {
    for (int64_t i = 0; i < n; i++)
        assert_true(fabs((double)found[i] - sums[i]) < 2e-6 * (double)(n_terms + 8));
}

/* dw = x' dy and dx = dy W', written and added. */
static void check_gradients(int64_t in, int64_t out, rk_dtype dtype, int64_t n) {
    rk_rng rng = {4, (uint64_t)in, (uint64_t)out};
    float *x = random_values(&rng, n * in), *w = random_values(&rng, in * out),
          *dy = random_values(&rng, n * out), *dw = random_values(&rng, in * out),
          *dx = random_values(&rng, n * in);
    double *w_sums, *x_sums;
    rk_packed_matrix *matrix;
    void *workspace;
    OK(rk_alloc((size_t)(in * out), sizeof *w_sums, &w_sums));
    OK(rk_alloc((size_t)(n * in), sizeof *x_sums, &x_sums));
    OK(rk_packed_matrix_create(in, out, dtype, MOST_ROWS, &matrix));
    OK(rk_pages_alloc(rk_packed_matrix_workspace_bytes(matrix) + 1, &workspace));
    OK(rk_packed_matrix_set_weights(matrix, w, true));
    for (int add = 0; add < 4; add++) {
        bool adds_w = add & 1, adds_x = add & 2;
        for (int64_t i = 0; i < in * out; i++) w_sums[i] = adds_w ? (double)dw[i] : 0;
        for (int64_t i = 0; i < n * in; i++) x_sums[i] = adds_x ? (double)dx[i] : 0;
        for (int64_t s = 0; s < n; s++)
            for (int64_t i = 0; i < in; i++)
                for (int64_t o = 0; o < out; o++) {
                    double slope = operand(dy[s * out + o], dtype);
                    w_sums[i * out + o] += operand(x[s * in + i], dtype) * slope;
                    x_sums[s * in + i] += operand(w[i * out + o], dtype) * slope;
                }
        OK(rk_packed_matrix_backward(matrix, n, x, dy, adds_w, dw, adds_x, dx, workspace));
        check_gradient(dw, in * out, w_sums, n);
        check_gradient(dx, n * in, x_sums, out);
    }
    rk_pages_free(workspace, rk_packed_matrix_workspace_bytes(matrix) + 1);
    rk_packed_matrix_free(matrix);
    void *const arrays[] = {x, w, dy, dw, dx, w_sums, x_sums};
    for (int i = 0; i < 7; i++) rk_free(arrays[i]);
}

static void test_products(void **state) {
    (void)state;
    const int64_t shapes[][2] = {{1, 1},    {5, 1},     {64, 1},    {300, 1},  {2000, 1},  {13, 16},
                                 {100, 33}, {256, 128}, {130, 600}, {600, 70}, {2500, 48}, {64, 2000}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        check(shapes[s][0], shapes[s][1], RK_F32);
        check(shapes[s][0], shapes[s][1], RK_BF16);
        for (int64_t n = 1; n <= MOST_ROWS; n += n < 64 ? 63 : MOST_ROWS - 64) {
            check_gradients(shapes[s][0], shapes[s][1], RK_F32, n);
            check_gradients(shapes[s][0], shapes[s][1], RK_BF16, n);
        }
    }
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
