/* Kernels of the dense part: what layers are computed with. */
#include "kernels/kernel_testing.h"

#include <math.h>

#include "kernels/inline/lane_sum.h"

static void test_dropout(void **state) {
    (void)state;
    tried("rk_dropout_mask", true);
    enum { N = 203 };
    static float from[N], expected[N], out[N];
    static uint8_t expected_kept[N], kept[N];
    randomize(from, N);
    for (int64_t place = 0; place < 7; place++)
        for (int64_t n = 0; n <= N; n += n < 40 ? 1 : 7)
            for (int add = 0; add < 2; add++) {
                rk_dropout_mask_args args = {.seed = 9,
                                             .step = 3,
                                             .place = place + ((int64_t)1 << 34),
                                             .n = n,
                                             .limit = 0x40000000u,
                                             .keep = 4.0f / 3,
                                             .from = from,
                                             .to = expected,
                                             .kept = expected_kept,
                                             .add = add};
                memset(expected_kept, 7, sizeof kept);
                for (int64_t i = 0; i < N; i++) expected[i] = out[i] = (float)i;
                rk_dropout_mask_scalar(&args);
                for (int64_t i = 0; i < N; i++) {
                    uint32_t words[4];
                    rk_rng_draw_four_words(9, 3, (uint64_t)(args.place + i) / 4, words);
                    float y = words[(args.place + i) % 4] >= args.limit ? from[i] * args.keep : 0;
                    assert_true(expected[i] == (i >= n ? (float)i : add ? (float)i + y : y));
                    assert_int_equal(expected_kept[i],
                                     i >= n ? 7 : words[(args.place + i) % 4] >= args.limit);
                }
                args.to = out;
                args.kept = kept;
                for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
                    for (int64_t i = 0; i < N; i++) out[i] = (float)i;
                    memset(kept, 7, sizeof kept);
                    rk_dropout_mask_on[isa](&args);
                    assert_memory_equal(out, expected, sizeof out);
                    assert_memory_equal(kept, expected_kept, sizeof kept);
                    rk_dropout_mask_args alone = args;
                    alone.from = alone.to = NULL;
                    memset(kept, 7, sizeof kept);
                    rk_dropout_mask_on[isa](&alone);
                    assert_memory_equal(kept, expected_kept, sizeof kept);
                }
            }
}

static void test_dropout_again(void **state) {
    (void)state;
    tried("rk_dropout_apply_mask", true);
    enum { N = 203 };
    static float from[N], expected[N], out[N];
    static uint8_t kept[N];
    randomize(from, N);
    from[1] = -0.0f;
    for (int64_t i = 0; i < N; i++) kept[i] = i % 3 != 0;
    for (int64_t n = 0; n <= N; n += n < 40 ? 1 : 7)
        for (int add = 0; add < 2; add++) {
            for (int64_t i = 0; i < N; i++) {
                float y = kept[i] ? from[i] * 1.25f : 0, before = (float)(i + 1);
                expected[i] = i >= n ? before : (add ? before : 0) + y;
            }
            for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
                for (int64_t i = 0; i < N; i++) out[i] = (float)(i + 1);
                rk_dropout_apply_mask_on[isa](from, kept, n, 1.25f, add, out);
                assert_memory_equal(out, expected, sizeof out);
            }
        }
}

enum { NORM_ROWS = 9 };

typedef struct norm_case {
    float x[NORM_ROWS * MAX_DIM], dy[NORM_ROWS * MAX_DIM], of_columns[6][MAX_DIM];
    float out[NORM_ROWS * MAX_DIM]; /* or two sums of columns */
    uint8_t kept[NORM_ROWS * MAX_DIM];
} norm_case;

/* What follows the norm. */
enum { NOTHING, RELU, RELU_AND_DROPOUT, N_FOLLOWING };

static rk_batch_norm_args norm_args(norm_case *c, int64_t n, int64_t width, bool add, int following) {
    for (int i = 0; i < NORM_ROWS * MAX_DIM; i++) c->kept[i] = i % 3 != 1;
    for (int i = 0; i < NORM_ROWS * MAX_DIM; i++) c->out[i] = (float)(i % 5) - 2;
    return (rk_batch_norm_args){.n = n,
                                .width = width,
                                .x = c->x,
                                .dy = c->dy,
                                .mean = c->of_columns[0],
                                .scale = c->of_columns[1],
                                .gamma = c->of_columns[2],
                                .beta = c->of_columns[3],
                                .dots = c->of_columns[4],
                                .sums = c->of_columns[5],
                                .inverse = 1.0f / 7,
                                .add = add,
                                .out = c->out,
                                .relu = following >= RELU,
                                .kept = following == RELU_AND_DROPOUT ? c->kept : NULL,
                                .keep = 1.25f};
}

/* By the letter of kernels/batch_norm.h. */
static float expected_norm(const rk_batch_norm_args *a, int kernel, int64_t s, int64_t c, float before,
                           float *gradient) {
    float x = a->x[s * a->width + c], dy = a->dy[s * a->width + c], centered = x - a->mean[c],
          hat = centered * a->scale[c], y = a->gamma[c] * hat + a->beta[c];
    bool kept = !a->kept || a->kept[s * a->width + c];
    if (a->kept) dy = 0 + (kept ? dy * a->keep : 0);
    if (a->relu) dy = 0 + dy * (y > 0 ? 1.0f : 0.0f);
    if (a->relu && y <= 0) y = 0;
    if (a->kept) y = kept ? y * a->keep : 0;
    *gradient = dy;
    if (kernel == 0) return before + centered * centered;
    if (kernel == 1) return y;
    if (kernel == 2) return before + dy * hat;
    float dx = a->gamma[c] * a->scale[c] * (dy - a->inverse * (a->sums[c] + hat * a->dots[c]));
    return (a->add ? before : 0) + dx;
}

static void check_norm(norm_case *c, int kernel, int isa, int64_t n, int64_t width, bool add, int following) {
    void (*const *const all[])(const rk_batch_norm_args *) = {
        rk_batch_norm_squares_on, rk_batch_norm_forward_on, rk_batch_norm_gradient_sums_on,
        rk_batch_norm_backward_on};
    static float expected[NORM_ROWS * MAX_DIM];
    rk_batch_norm_args args = norm_args(c, n, width, add, following);
    memcpy(expected, c->out, sizeof expected);
    for (int64_t s = 0; s < n; s++)
        for (int64_t k = 0; k < width; k++) {
            float *to = &expected[kernel % 2 ? s * width + k : k];
            float gradient;
            *to = expected_norm(&args, kernel, s, k, *to, &gradient);
            if (kernel == 2) expected[width + k] += gradient;
        }
    all[kernel][isa](&args);
    assert_memory_equal(c->out, expected, sizeof expected);
}

static void test_batch_norm(void **state) {
    (void)state;
    static norm_case c;
    tried("rk_batch_norm_squares", true);
    tried("rk_batch_norm_forward", true);
    tried("rk_batch_norm_gradient_sums", true);
    tried("rk_batch_norm_backward", true);
    randomize(c.x, NORM_ROWS * MAX_DIM);
    randomize(c.dy, NORM_ROWS * MAX_DIM);
    randomize(c.of_columns[0], 6 * MAX_DIM);
    for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++)
        for (int d = 0; d < N_DIMS; d++)
            for (int64_t n = 0; n <= NORM_ROWS; n += 3)
                for (int trial = 0; trial < 8 * N_FOLLOWING; trial++) {
                    int kernel = trial % 4, add = trial / 4 % 2;
                    if (n > 1 || kernel != 2) check_norm(&c, kernel, isa, n, dims[d], add, trial / 8);
                }
}

static void test_relu_and_column_sums(void **state) {
    (void)state;
    tried("rk_relu_forward", true);
    tried("rk_relu_backward", true);
    tried("rk_column_sums", true);
    enum { N = 203, ROWS = 5 };
    static float x[ROWS * N], dy[N], expected[N], out[N];
    randomize(x, ROWS * N);
    randomize(dy, N);
    x[1] = 0, x[2] = -0.0f, x[3] = NAN, dy[0] = -0.0f;
    for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++)
        for (int64_t n = 0; n <= N; n += n < 40 ? 1 : 7)
            for (int kernel = 0; kernel < 4; kernel++) { /* forward; backward, first and later; sums */
                for (int64_t i = 0; i < N; i++) {
                    float before = out[i] = (float)(i + 1), y = x[i] <= 0 ? 0 : x[i],
                          dx = dy[i] * (x[i] > 0 ? 1.0f : 0.0f), sum = before;
                    for (int64_t s = 0; s < ROWS && i < n; s++) sum += x[s * n + i];
                    expected[i] = i >= n        ? before
                                  : kernel == 0 ? y
                                  : kernel == 3 ? sum
                                                : (kernel == 2 ? before : 0) + dx;
                }
                if (kernel == 0)
                    rk_relu_forward_on[isa](x, n, out);
                else if (kernel == 3)
                    rk_column_sums_on[isa](x, ROWS, n, out);
                else
                    rk_relu_backward_on[isa](x, dy, n, kernel == 2, out);
                assert_memory_equal(out, expected, sizeof out);
            }
}

/* Each with values before and behind those that it may touch. */
static void test_sums_and_products(void **state) {
    (void)state;
    tried("rk_relu_mask_gradient", true);
    tried("rk_values_add", true);
    tried("rk_values_multiply", true);
    tried("rk_values_multiply_add", true);
    enum { N = 203, KERNELS = 5 };
    static float a[N], b[N], c[N], expected[N], out[N];
    randomize(a, N);
    randomize(b, N);
    randomize(c, N);
    a[1] = 0, a[2] = -0.0f, a[3] = NAN, a[4] = INFINITY, b[5] = -0.0f, c[6] = NAN;
    for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++)
        for (int64_t n = 0; n <= N; n += n < 40 ? 1 : 7)
            for (int kernel = 0; kernel < KERNELS; kernel++) {
                for (int64_t i = 0; i < N; i++) {
                    float before = out[i] = c[N - 1 - i], product = a[i] * b[i];
                    const float results[KERNELS] = {a[i] > 0 ? before : 0, before + a[i], product,
                                                    before + product, product + c[i]};
                    expected[i] = i < n ? results[kernel] : before;
                }
                if (kernel == 0) rk_relu_mask_gradient_on[isa](a, n, out);
                if (kernel == 1) rk_values_add_on[isa](a, n, out);
                if (kernel == 2 || kernel == 3) rk_values_multiply_on[isa](a, b, n, kernel == 3, out);
                if (kernel == 4) rk_values_multiply_add_on[isa](a, b, c, n, out);
                assert_memory_equal(out, expected, sizeof out);
            }
}

/* Of a matrix that is part of a wider one, into one that is. */
static void test_transpose(void **state) {
    (void)state;
    tried("rk_values_transpose", true);
    enum { MOST = 27, STRIDE = 29 };
    static float x[MOST * STRIDE], expected[MOST * STRIDE], out[MOST * STRIDE];
    randomize(x, MOST * STRIDE);
    for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++)
        for (int64_t rows = 0; rows <= MOST; rows++)
            for (int64_t cols = 0; cols <= MOST; cols++) {
                for (int64_t i = 0; i < MOST * STRIDE; i++) out[i] = expected[i] = (float)i;
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t c = 0; c < cols; c++) expected[c * STRIDE + r] = x[r * STRIDE + c];
                rk_values_transpose_on[isa](x, rows, cols, STRIDE, out, STRIDE);
                assert_memory_equal(out, expected, sizeof out);
            }
}

enum {
    LOW_RANK_ROWS = 7,
    LOW_RANK_COLS = 75,
    MOST_VECTORS = 5,
    LOW_RANK_VALUES = LOW_RANK_ROWS * LOW_RANK_COLS
};

/* By the letter of kernels/low_rank.h, over what p, q and out had. */
static void expect_low_rank(const rk_low_rank_args *a, int kernel, float *p, float *q, float *out) {
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++) out[i * a->m_stride + j] = a->m[i * a->m_stride + j];
    for (int32_t k = 0; k < a->n_vectors; k++) {
        float *pk = p + k * a->p_stride, *qk = q + k * a->q_stride;
        for (int64_t i = 0; kernel == 0 && i < a->rows; i++)
            pk[i] = rk_dot_product_by_lanes(a->m + i * a->m_stride, qk, a->cols);
        for (int64_t j = 0; kernel == 1 && j < a->cols; j++) {
            qk[j] = 0;
            for (int64_t i = 0; i < a->rows; i++) qk[j] += a->m[i * a->m_stride + j] * pk[i];
        }
        for (int64_t i = 0; i < a->rows; i++)
            for (int64_t j = 0; j < a->cols; j++) out[i * a->m_stride + j] += a->scale * pk[i] * qk[j];
    }
}

static void check_low_rank(const rk_low_rank_args *args, int kernel, int isa, const float *from) {
    static float p[2][MOST_VECTORS * LOW_RANK_ROWS], q[2][MOST_VECTORS * LOW_RANK_COLS],
        out[2][LOW_RANK_VALUES];
    void (*const *const all[])(const rk_low_rank_args *) = {rk_low_rank_times_columns_on,
                                                            rk_low_rank_times_rows_on, rk_low_rank_add_on};
    for (int copy = 0; copy < 2; copy++) {
        memcpy(p[copy], from, sizeof *p);
        memcpy(q[copy], from + 11, sizeof *q);
        memset(out[copy], 0, sizeof *out);
    }
    rk_low_rank_args a = *args;
    a.p = p[0], a.q = q[0], a.out = out[0];
    all[kernel][isa](&a);
    expect_low_rank(args, kernel, p[1], q[1], out[1]);
    if (kernel < 2) memset(out[1], 0, sizeof *out);
    assert_memory_equal(p[0], p[1], sizeof *p);
    assert_memory_equal(q[0], q[1], sizeof *q);
    assert_memory_equal(out[0], out[1], sizeof *out);
}

static void test_low_rank(void **state) {
    (void)state;
    tried("rk_low_rank_times_columns", true);
    tried("rk_low_rank_times_rows", true);
    tried("rk_low_rank_add", true);
    static float m[LOW_RANK_VALUES], from[MOST_VECTORS * LOW_RANK_COLS + 11];
    randomize(m, LOW_RANK_VALUES);
    randomize(from, sizeof from / sizeof *from);
    for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++)
        for (int64_t cols = 1; cols <= LOW_RANK_COLS; cols++)
            for (int trial = 0; trial < 3 * MOST_VECTORS; trial++)
                check_low_rank(&(rk_low_rank_args){.rows = 1 + (cols + trial) % LOW_RANK_ROWS,
                                                   .cols = cols,
                                                   .n_vectors = 1 + trial / 3,
                                                   .m = m,
                                                   .m_stride = LOW_RANK_COLS,
                                                   .p_stride = LOW_RANK_ROWS,
                                                   .q_stride = LOW_RANK_COLS,
                                                   .scale = cols % 2 ? 1 : -1},
                               trial % 3, isa, from);
}

static void test_squares_sum(void **state) {
    (void)state;
    tried("rk_squares_sum", true);
    enum { N = 203 };
    float x[N];
    randomize(x, N);
    x[7] = 3e38f; /* whose square is no float */
    for (int64_t n = 0; n <= N; n++) {
        double lanes[RK_LANES] = {0}, expected = 0, sum;
        for (int64_t i = 0; i < n; i++) lanes[i % RK_LANES] += (double)x[i] * (double)x[i];
        for (int l = 0; l < RK_LANES; l++) expected += lanes[l];
        for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
            rk_squares_sum_on[isa](x, n, &sum);
            assert_memory_equal(&sum, &expected, sizeof sum);
        }
    }
}

static void test_interaction(void **state) {
    (void)state;
    tried("rk_interaction_forward", true);
    tried("rk_interaction_backward", true);
    enum { N = 3, VECTORS = 5, PAIRS = 10 };
    static float x[N * VECTORS * MAX_DIM], out[2][N * PAIRS], dx[2][N * VECTORS * MAX_DIM];
    randomize(x, N * VECTORS * MAX_DIM);
    for (int d = 0; d < N_DIMS; d++)
        for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
            rk_interaction_forward_scalar(x, N, VECTORS, dims[d], out[0]);
            rk_interaction_forward_on[isa](x, N, VECTORS, dims[d], out[1]);
            assert_memory_equal(out[0], out[1], sizeof out[0]);
            memset(dx, 0, sizeof dx);
            rk_interaction_backward_scalar(x, out[0], N, VECTORS, dims[d], dx[0]);
            rk_interaction_backward_on[isa](x, out[0], N, VECTORS, dims[d], dx[1]);
            assert_memory_equal(dx[0], dx[1], sizeof dx[0]);
        }
}

/* Rows of x, one by one and all at once. */
static void check_panel_product(int64_t in, int64_t out, int64_t n, int with) {
    enum { ROWS = 29, IN = 530, COLUMNS = 80 };
    static float x[ROWS * IN], w[COLUMNS * IN], bias[COLUMNS], expected[ROWS * COLUMNS],
        y[ROWS * COLUMNS + 1];
    if (!w[0]) {
        randomize(x, ROWS * IN);
        randomize(w, COLUMNS * IN);
        randomize(bias, COLUMNS);
        x[3] = NAN;
    }
    rk_panel_product_args args = {.n = n, .in = in, .out = out, .lines = in, .x = x, .w = w, .y = y};
    args.relu = with & 1;
    args.bias = with & 2 ? bias : NULL;
    args.begin = with & 4 ? y : NULL;
    for (int64_t s = 0; s < n; s++)
        for (int64_t c = 0; c < out; c++) {
            float sum = with & 2 ? bias[c] : 0;
            if (with & 4) sum = with & 2 ? 7 + bias[c] : 7;
            for (int64_t i = 0; i < in; i++)
                sum = fmaf(x[s * in + i],
                           w[(c / RK_PANEL_COLUMNS * in + i) * RK_PANEL_COLUMNS + c % RK_PANEL_COLUMNS], sum);
            expected[s * out + c] = with & 1 && sum < 0 ? 0 : sum;
        }
    for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
        for (int64_t i = 0; i <= n * out; i++) y[i] = 7;
        rk_panel_product_on[isa](&args);
        assert_memory_equal(y, expected, (size_t)(n * out) * sizeof *y);
        assert_true(y[n * out] == 7);
    }
}

/* At sizes around those of tiles and panels. */
static void test_panel_product(void **state) {
    (void)state;
    tried("rk_panel_product", true);
    const int64_t outs[] = {1, 7, 8, 9, 15, 16, 17, 24, 32, 33, 40, 48, 63, 80};
    for (size_t o = 0; o < sizeof outs / sizeof *outs; o++)
        for (int with = 0; with < 8; with++)
            for (int64_t n = 0; n <= 29; n += n < 13 ? 1 : 4) check_panel_product(37, outs[o], n, with);
    for (int64_t in = 0; in <= 530; in += in < 3 ? 1 : 100) check_panel_product(in, 40, 15, 6);
}

static void check_weight_gradient(int64_t in, int64_t out, int64_t n, bool add) {
    enum { ROWS = 9, MOST = 80 };
    static float x[ROWS * MOST], dy[ROWS * MOST], expected[MOST * MOST], dw[MOST * MOST + 1];
    if (!x[0]) {
        randomize(x, ROWS * MOST);
        randomize(dy, ROWS * MOST);
        dy[5] = NAN;
    }
    const rk_weight_gradient_args args = {
        .n = n, .in = in, .out = out, .x = x, .dy = dy, .add = add, .dw = dw};
    for (int64_t i = 0; i < in; i++)
        for (int64_t c = 0; c < out; c++) {
            float sum = add ? 7 : 0;
            for (int64_t s = 0; s < n; s++) sum = fmaf(x[s * in + i], dy[s * out + c], sum);
            expected[i * out + c] = sum;
        }
    for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
        for (int64_t i = 0; i <= in * out; i++) dw[i] = 7;
        rk_weight_gradient_on[isa](&args);
        assert_memory_equal(dw, expected, (size_t)(in * out) * sizeof *dw);
        assert_true(dw[in * out] == 7);
    }
}

/* At sizes around those of tiles, and one column, which is summed as a row. */
static void test_weight_gradient(void **state) {
    (void)state;
    tried("rk_weight_gradient", true);
    const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 15, 16, 17, 24, 31, 32, 33, 40, 63, 80};
    enum { N_SIZES = sizeof sizes / sizeof *sizes };
    for (int i = 0; i < N_SIZES; i++)
        for (int o = 0; o < N_SIZES; o++)
            for (int64_t n = 0; n <= 9; n += n < 2 ? 1 : 7)
                for (int add = 0; add < 2; add++) check_weight_gradient(sizes[i], sizes[o], n, add);
}

static void test_no_kernel_escapes(void **state) {
    (void)state;
    check_all_tried(DENSE_KERNELS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropout),           cmocka_unit_test(test_dropout_again),
        cmocka_unit_test(test_batch_norm),        cmocka_unit_test(test_relu_and_column_sums),
        cmocka_unit_test(test_sums_and_products), cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_low_rank),          cmocka_unit_test(test_squares_sum),
        cmocka_unit_test(test_interaction),       cmocka_unit_test(test_panel_product),
        cmocka_unit_test(test_weight_gradient),   cmocka_unit_test(test_no_kernel_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
