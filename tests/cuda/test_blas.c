/* rk_cuda_gemm: all transposes at odd sizes, leading dimensions, batches, epilogues and roundings, against
 * sums in double; and against the CPU engine's products. */
#include "cuda/device_testing.h"

#include <float.h>
#include <math.h>

#include "base/float16.h"
#include "base/rng.h"
#include "cuda/libraries/blas.h"
#include "cuda/test_blas.h"
#include "gemm/gemm.h"

static float rounded(float x, rk_cuda_math math) {
    return math == RK_CUDA_BF16 ? rk_bf16_to_f32(rk_bf16_from_f32(x)) : x;
}

/* c as it should be; `before` is what it was. */
static void reference(const rk_cuda_gemm_args *g, const float *a, const float *b, const float *bias,
                      const float *before, double *c, int64_t batch) {
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < g->k; l++) {
                float left = a[batch * g->stride_a + (g->a_transposed ? l * g->lda + i : i * g->lda + l)];
                float right = b[batch * g->stride_b + (g->b_transposed ? j * g->ldb + l : l * g->ldb + j)];
                sum += (double)rounded(left, g->math) * rounded(right, g->math);
            }
            int64_t at = batch * g->stride_c + i * g->ldc + j;
            double value = g->alpha * sum + (g->beta != 0 ? g->beta * before[at] : 0) + (bias ? bias[j] : 0);
            c[at] = g->relu && !(value > 0) ? 0 : value;
        }
}

static float *random_values(int64_t n, uint64_t stream_number) {
    float *values = malloc((size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++) {
        uint32_t words[4];
        rk_rng_draw_four_words(7, stream_number, (uint64_t)i, words);
        values[i] = (float)words[0] / 4294967296.0f - 0.45f;
    }
    return values;
}

/* Normalized mean square errors. f32: rounding. tf32: operands may be cut to 11 bits, not rounded, which is
 * up to 2^-10 of each. bf16: operands are exact, but tensor cores cut what they add, always to the same
 * side. */
static double tolerance_of(rk_cuda_math math) {
    return math == RK_CUDA_TF32 ? 1e-5 : math == RK_CUDA_BF16 ? 1e-9 : 1e-12;
}

typedef void multiply_function(rk_stream *stream, const rk_cuda_gemm_args *args);

/* What lies between the rows of c must not be written. */
static void check_gemm_by(multiply_function *multiply, rk_cuda_gemm_args g) {
    int64_t n_batch = g.batch ? g.batch : 1, a_rows = g.a_transposed ? g.k : g.m,
            b_rows = g.b_transposed ? g.n : g.k;
    int64_t n_a = (n_batch - 1) * g.stride_a + a_rows * g.lda,
            n_b = (n_batch - 1) * g.stride_b + b_rows * g.ldb, n_c = (n_batch - 1) * g.stride_c + g.m * g.ldc;
    bool has_bias = g.bias != NULL;
    float *a = random_values(n_a, 1), *b = random_values(n_b, 2), *c = random_values(n_c, 3),
          *bias = random_values(g.n, 4);
    if (g.beta == 0)
        for (int64_t i = 0; i < n_c; i++) c[i] = NAN; /* must not be read */
    double *wanted = malloc((size_t)n_c * sizeof *wanted);
    for (int64_t i = 0; i < n_c; i++) wanted[i] = c[i];
    for (int64_t i = 0; i < n_batch; i++) reference(&g, a, b, has_bias ? bias : NULL, c, wanted, i);
    float *d_a = on_device(a, (size_t)n_a * 4), *d_b = on_device(b, (size_t)n_b * 4),
          *d_c = on_device(c, (size_t)n_c * 4), *d_bias = on_device(bias, (size_t)g.n * 4);
    g.a = d_a;
    g.b = d_b;
    g.c = d_c;
    if (has_bias) g.bias = d_bias;
    multiply(stream, &g);
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, c, d_c, (size_t)n_c * 4));
    double error = 0, all = 0;
    for (int64_t i = 0; i < n_c; i++) {
        if (isnan(wanted[i])) {
            assert_true(isnan(c[i]));
            continue;
        }
        error += (c[i] - wanted[i]) * (c[i] - wanted[i]);
        all += wanted[i] * wanted[i];
    }
    if (!(error <= tolerance_of(g.math) * all))
        fail_msg("[%d, %d, %d], math %d: error %g of %g", (int)g.m, (int)g.n, (int)g.k, (int)g.math, error,
                 all);
    rk_device_free(device, d_a);
    rk_device_free(device, d_b);
    rk_device_free(device, d_c);
    rk_device_free(device, d_bias);
    free(a);
    free(b);
    free(c);
    free(bias);
    free(wanted);
}

static void check_gemm(rk_cuda_gemm_args g) {
    check_gemm_by(rk_cuda_gemm, g);
}

static const float bias_mark; /* its address says: with a bias */

static rk_cuda_gemm_args args_of(int64_t m, int64_t n, int64_t k, int transposes, rk_cuda_math math,
                                 int pad) {
    bool ta = transposes & 1, tb = transposes & 2;
    return (rk_cuda_gemm_args){.m = m,
                               .n = n,
                               .k = k,
                               .lda = (ta ? m : k) + pad,
                               .ldb = (tb ? k : n) + pad,
                               .ldc = n + pad,
                               .a_transposed = ta,
                               .b_transposed = tb,
                               .alpha = 1,
                               .math = math};
}

static void test_sizes(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},    {3, 5, 7},     {33, 1, 17},  {1, 40, 9},
                                       {64, 48, 32}, {130, 67, 65}, {16, 16, 400}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int transposes = 0; transposes < 4; transposes++)
            for (rk_cuda_math math = RK_CUDA_F32; math <= RK_CUDA_BF16; math++)
                for (int pad = 0; pad <= 4; pad += 2)
                    check_gemm(args_of(sizes[s][0], sizes[s][1], sizes[s][2], transposes, math, pad));
}

static void test_epilogues(void **state) {
    (void)state;
    for (int way = 0; way < 16; way++)
        for (rk_cuda_math math = RK_CUDA_F32; math <= RK_CUDA_BF16; math++) {
            rk_cuda_gemm_args g = args_of(37, 19, 23, way % 4, math, 1);
            g.relu = way & 4;
            g.bias = way & 8 ? &bias_mark : NULL;
            check_gemm(g);
            g.beta = 1;
            check_gemm(g);
            g.alpha = -0.5f;
            g.beta = 0.25f;
            check_gemm(g);
        }
}

static void test_batches(void **state) {
    (void)state;
    for (int transposes = 0; transposes < 4; transposes++)
        for (rk_cuda_math math = RK_CUDA_F32; math <= RK_CUDA_BF16; math++) {
            rk_cuda_gemm_args g = args_of(13, 11, 5, transposes, math, 0);
            g.batch = 9;
            g.stride_a = 13 * 5 + 3;
            g.stride_b = 11 * 5;
            g.stride_c = 13 * 11 + 1;
            check_gemm(g);
            g.stride_b = 0; /* one for all */
            g.beta = 1;
            check_gemm(g);
        }
}

/* More matrices than are multiplied at once. */
static void test_many(void **state) {
    (void)state;
    for (rk_cuda_math math = RK_CUDA_F32; math <= RK_CUDA_BF16; math += RK_CUDA_BF16) {
        rk_cuda_gemm_args g = args_of(2, 3, 2, 2, math, 0);
        g.batch = 70001;
        g.stride_a = 5;
        g.stride_b = 6;
        g.stride_c = 7;
        g.beta = 1;
        check_gemm(g);
    }
}

static void check_plain(int64_t m, int64_t n, int64_t k) {
    for (int way = 0; way < 16; way++) {
        rk_cuda_gemm_args g = args_of(m, n, k, way % 4, RK_CUDA_F32, 1);
        g.relu = way & 4;
        g.bias = way & 8 ? &bias_mark : NULL;
        g.batch = 3;
        g.stride_a = (m + 1) * (k + 1);
        g.stride_b = (n + 1) * (k + 1);
        g.stride_c = m * (n + 1);
        check_gemm_by(test_multiply_plainly, g);
        g.alpha = -0.5f;
        g.beta = 0.25f;
        check_gemm_by(test_multiply_plainly, g);
    }
}

/* What is left for shapes that the library refuses. */
static void test_plain(void **state) {
    (void)state;
    check_plain(37, 19, 23);
}

/* Few values with long sums, in pieces: of which the last has one term; has less than the others; and so many
 * that one f32's rounding would be over the tolerance. */
static void test_plain_pieces(void **state) {
    (void)state;
    check_plain(5, 1, 257);
    check_plain(37, 3, 5003);
    check_plain(3, 1, 70001);
}

/* A sum of no terms: what a rank without samples has of a weight's gradient. */
static void test_no_terms(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++)
        for (rk_cuda_math math = RK_CUDA_F32; math <= RK_CUDA_BF16; math++) {
            rk_cuda_gemm_args g = args_of(7, 5, 0, way, math, 0);
            check_gemm(g);
            g.beta = 1;
            check_gemm(g);
        }
}

static void test_nothing(void **state) {
    (void)state;
    rk_cuda_gemm_args g = args_of(0, 3, 4, 0, RK_CUDA_F32, 0);
    rk_cuda_gemm(stream, &g);
    g = args_of(3, 0, 4, 0, RK_CUDA_BF16, 0);
    rk_cuda_gemm(stream, &g);
    OK(rk_stream_sync(stream));
}

/* [rows, cols], rows ld apart, in bf16 as the host rounds; `between` behind each. */
static uint16_t *rounded_matrix(const float *values, int64_t rows, int64_t cols, int64_t ld,
                                uint16_t between) {
    int64_t to_ld = rk_cuda_aligned_ld(cols);
    uint16_t *halves = malloc((size_t)(rows * to_ld) * sizeof *halves);
    for (int64_t i = 0; i < rows * to_ld; i++)
        halves[i] = i % to_ld < cols ? rk_bf16_from_f32(values[i / to_ld * ld + i % to_ld]) : between;
    return halves;
}

static void test_rounding(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},    {5, 7, 7}, {37, 19, 23},
                                       {64, 32, 32}, {3, 8, 9}, {9, 41, 44}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t rows = sizes[s][0], cols = sizes[s][1], ld = sizes[s][2];
        size_t n_values = (size_t)(rows * ld),
               n_bytes = (size_t)(rows * rk_cuda_aligned_ld(cols)) * sizeof(uint16_t);
        float *x = random_values(rows * ld, 1);
        if (rows > 1) x[0] = NAN, x[1] = INFINITY, x[2] = -FLT_MAX, x[3] = 1e-40f;
        uint16_t *wanted = rounded_matrix(x, rows, cols, ld, 0), *got = malloc(n_bytes),
                 *to = on_device(NULL, n_bytes);
        float *d_x = on_device(x, n_values * sizeof *x);
        rk_stream_fill(stream, to, 0xFF, n_bytes);
        rk_cuda_round_bf16(stream, rows, cols, d_x, ld, to);
        OK(rk_stream_sync(stream));
        OK(rk_device_download(device, got, to, n_bytes));
        if (memcmp(got, wanted, n_bytes) != 0)
            fail_msg("[%d, %d] of %d columns", (int)rows, (int)cols, (int)ld);
        rk_device_free(device, d_x);
        rk_device_free(device, to);
        free(x);
        free(wanted);
        free(got);
    }
}

/* One operand or both are rounded already: the bits of the product that rounds them. What lies behind their
 * rows is NaN, and not read. */
static void check_rounded(int64_t m, int64_t n, int64_t k, int transposes, int64_t batch) {
    rk_cuda_gemm_args g = args_of(m, n, k, transposes, RK_CUDA_BF16, 0);
    int64_t a_rows = batch * (g.a_transposed ? k : m), b_rows = batch * (g.b_transposed ? n : k);
    size_t n_bytes = (size_t)(batch * m * n) * sizeof(float);
    float *a = random_values(batch * m * k, 1), *b = random_values(batch * k * n, 2),
          *first = malloc(n_bytes), *again = malloc(n_bytes);
    uint16_t *a_halves = rounded_matrix(a, a_rows, g.lda, g.lda, 0xFFFF),
             *b_halves = rounded_matrix(b, b_rows, g.ldb, g.ldb, 0xFFFF);
    int64_t a_ld = rk_cuda_aligned_ld(g.lda), b_ld = rk_cuda_aligned_ld(g.ldb);
    void *d_a = on_device(a, (size_t)(batch * m * k) * sizeof *a),
         *d_b = on_device(b, (size_t)(batch * k * n) * sizeof *b), *d_c = on_device(NULL, n_bytes);
    void *d_a_halves = on_device(a_halves, (size_t)(a_rows * a_ld) * sizeof *a_halves),
         *d_b_halves = on_device(b_halves, (size_t)(b_rows * b_ld) * sizeof *b_halves);
    g.c = d_c;
    g.batch = batch;
    g.stride_c = m * n;
    for (int way = 0; way < 4; way++) {
        rk_cuda_gemm_args h = g;
        h.a_rounded = way & 1;
        h.b_rounded = way & 2;
        h.a = h.a_rounded ? d_a_halves : d_a;
        h.b = h.b_rounded ? d_b_halves : d_b;
        if (h.a_rounded) h.lda = a_ld;
        if (h.b_rounded) h.ldb = b_ld;
        h.stride_a = a_rows / batch * h.lda;
        h.stride_b = b_rows / batch * h.ldb;
        rk_stream_fill(stream, d_c, 0xFF, n_bytes);
        rk_cuda_gemm(stream, &h);
        OK(rk_stream_sync(stream));
        OK(rk_device_download(device, way ? again : first, d_c, n_bytes));
        if (way && memcmp(first, again, n_bytes) != 0)
            fail_msg("[%d, %d, %d], transposes %d, way %d", (int)m, (int)n, (int)k, transposes, way);
    }
    void *const device_memory[] = {d_a, d_b, d_c, d_a_halves, d_b_halves}, *const memory[] = {
                                                                               a,     b,        first,
                                                                               again, a_halves, b_halves};
    for (size_t i = 0; i < sizeof device_memory / sizeof device_memory[0]; i++)
        rk_device_free(device, device_memory[i]);
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) free(memory[i]);
}

static void test_rounded_operands(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {37, 19, 23}, {16, 8, 32}, {130, 67, 65}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int transposes = 0; transposes < 4; transposes++)
            for (int64_t batch = 1; batch <= 3; batch += 2)
                check_rounded(sizes[s][0], sizes[s][1], sizes[s][2], transposes, batch);
}

/* The same bits each time, alone and in a graph of launches. */
static void test_same_bits(void **state) {
    (void)state;
    enum { M = 48, N = 24, K = 3000 };
    float *a = random_values(M * K, 1), *b = random_values(N * K, 2), first[M * N], again[M * N];
    float *d_a = on_device(a, sizeof(float) * M * K), *d_b = on_device(b, sizeof(float) * N * K),
          *d_c = on_device(NULL, sizeof first);
    for (rk_cuda_math math = RK_CUDA_F32; math <= RK_CUDA_BF16; math++) {
        rk_cuda_gemm_args g = args_of(M, N, K, 3, math, 0);
        g.a = d_a;
        g.b = d_b;
        g.c = d_c;
        rk_cuda_gemm(stream, &g);
        OK(rk_stream_sync(stream));
        OK(rk_device_download(device, first, d_c, sizeof first));
        rk_launch_graph *graph;
        OK(rk_stream_capture_begin(stream));
        rk_cuda_gemm(stream, &g);
        OK(rk_stream_capture_end(stream, &graph));
        for (int run = 0; run < 3; run++) {
            rk_stream_fill(stream, d_c, 0xFF, sizeof first);
            rk_launch_graph_run(graph, stream);
            OK(rk_stream_sync(stream));
            OK(rk_device_download(device, again, d_c, sizeof again));
            assert_memory_equal(first, again, sizeof first);
        }
        rk_launch_graph_free(graph);
    }
    rk_device_free(device, d_a);
    rk_device_free(device, d_b);
    rk_device_free(device, d_c);
    free(a);
    free(b);
}

/* y = max(x W + b, 0) as the CPU engine's. */
static void test_as_cpu(void **state) {
    (void)state;
    enum { ROWS = 29, IN = 45, OUT = 31 };
    float *x = random_values(ROWS * IN, 1), *w = random_values(IN * OUT, 2), *bias = random_values(OUT, 3),
          cpu[ROWS * OUT], gpu[ROWS * OUT];
    float *d_x = on_device(x, sizeof(float) * ROWS * IN), *d_w = on_device(w, sizeof(float) * IN * OUT),
          *d_bias = on_device(bias, sizeof(float) * OUT), *d_y = on_device(NULL, sizeof gpu);
    for (int i = 0; i < 2; i++) {
        rk_packed_matrix *matrix;
        OK(rk_packed_matrix_create(IN, OUT, i ? RK_BF16 : RK_F32, ROWS, &matrix));
        OK(rk_packed_matrix_set_weights(matrix, w, false));
        void *workspace = aligned_alloc(64, (rk_packed_matrix_workspace_bytes(matrix) + 64) / 64 * 64);
        OK(rk_packed_matrix_forward(matrix, ROWS, x, bias, true, cpu, workspace));
        rk_cuda_gemm(stream, &(rk_cuda_gemm_args){.m = ROWS,
                                                  .n = OUT,
                                                  .k = IN,
                                                  .a = d_x,
                                                  .b = d_w,
                                                  .c = d_y,
                                                  .lda = IN,
                                                  .ldb = OUT,
                                                  .ldc = OUT,
                                                  .relu = true,
                                                  .alpha = 1,
                                                  .bias = d_bias,
                                                  .math = i ? RK_CUDA_BF16 : RK_CUDA_F32});
        OK(rk_stream_sync(stream));
        OK(rk_device_download(device, gpu, d_y, sizeof gpu));
        double error = 0, all = 0;
        for (int k = 0; k < ROWS * OUT; k++) {
            error += (gpu[k] - cpu[k]) * (gpu[k] - cpu[k]);
            all += cpu[k] * cpu[k];
        }
        assert_true(error <= tolerance_of(i ? RK_CUDA_BF16 : RK_CUDA_F32) * all);
        free(workspace);
        rk_packed_matrix_free(matrix);
    }
    rk_device_free(device, d_x);
    rk_device_free(device, d_w);
    rk_device_free(device, d_bias);
    rk_device_free(device, d_y);
    free(x);
    free(w);
    free(bias);
}

/* On a device of its own, which fails from then on. */
static void check_captured_first(rk_cuda_math math, const char *message) {
    rk_device *fresh_device;
    rk_stream *fresh;
    rk_launch_graph *graph = NULL;
    void *x;
    OK(rk_device_open(0, &fresh_device));
    OK(rk_stream_create(fresh_device, &fresh));
    OK(rk_device_alloc(fresh_device, 16 * sizeof(float), &x));
    OK(rk_stream_capture_begin(fresh));
    rk_cuda_gemm_args g = args_of(4, 4, 4, 0, math, 0);
    g.a = g.b = g.c = x;
    rk_cuda_gemm(fresh, &g);
    FAILS(rk_stream_capture_end(fresh, &graph), RK_INTERNAL, message);
    assert_null(graph);
    rk_stream_free(fresh);
    rk_device_free(fresh_device, x);
    rk_device_close(fresh_device);
}

/* What needs an algorithm or scratch must have run once before it is captured; the device says so. */
static void test_capture_first(void **state) {
    (void)state;
    check_captured_first(
        RK_CUDA_F32,
        "product of [4, 4] and [4, 4]: a CUDA graph captures a matrix product that was never run before");
    check_captured_first(
        RK_CUDA_BF16,
        "a CUDA graph captures work that needs 64 bytes of scratch memory, which was never run before");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),         cmocka_unit_test(test_epilogues),
        cmocka_unit_test(test_batches),       cmocka_unit_test(test_many),
        cmocka_unit_test(test_plain),         cmocka_unit_test(test_plain_pieces),
        cmocka_unit_test(test_no_terms),      cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_rounding),      cmocka_unit_test(test_rounded_operands),
        cmocka_unit_test(test_same_bits),     cmocka_unit_test(test_as_cpu),
        cmocka_unit_test(test_capture_first),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
