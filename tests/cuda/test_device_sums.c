/* rk_cuda_column_sums: to the last bit the order in which it adds, and what it writes of a gradient on its
 * way. */
#include "cuda/device_testing.h"

#include "base/float16.h"
#include "cuda/dense/dense.h"

enum { LINES = 8 /* rows that a block adds side by side */ };

static float *random_values(int64_t n, uint64_t seed) {
    rk_rng rng = {seed, 1, 0};
    float *values = malloc((size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = (float)rk_rng_normal(&rng);
    return values;
}

static float sum_of_column(const float *x, int64_t rows, int64_t cols, int64_t c) {
    int64_t piece = rk_cuda_sum_rows_per_piece(rows);
    double totals[LINES] = {0};
    for (int64_t p = 0; p < rk_cuda_sum_piece_count(rows); p++) {
        float sums[LINES] = {0};
        for (int64_t r = p * piece; r < rows && r < (p + 1) * piece; r++)
            sums[(r - p * piece) % LINES] += x[r * cols + c];
        for (int l = 1; l < LINES; l++) sums[0] += sums[l];
        totals[p % LINES] += (double)sums[0];
    }
    for (int l = 1; l < LINES; l++) totals[0] += totals[l];
    return (float)totals[0];
}

static void expect_bits(const char *what, int64_t rows, int64_t cols, const void *device_values,
                        const void *wanted, size_t n_bytes) {
    void *got = malloc(n_bytes);
    OK(rk_device_download(device, got, device_values, n_bytes));
    if (memcmp(got, wanted, n_bytes) != 0) fail_msg("%s of [%d, %d]", what, (int)rows, (int)cols);
    free(got);
}

/* Sums of x, or of what a relu lets through, which is then written over x, beside it or nowhere. */
typedef enum way { PLAIN, OVER, BESIDE, NOWHERE } way;

/* And in bf16; what lies behind the columns stays as it was. */
static void check_rounded(rk_cuda_sum_args args, const float *masked) {
    int64_t ld = rk_cuda_aligned_ld(args.cols), n = args.rows * ld;
    uint16_t *wanted = malloc((size_t)n * sizeof *wanted);
    for (int64_t i = 0; i < n; i++)
        wanted[i] = i % ld < args.cols ? rk_bf16_from_f32(masked[i / ld * args.cols + i % ld]) : 0x5A5A;
    args.rounded = on_device(NULL, (size_t)n * sizeof *wanted);
    rk_stream_fill(stream, args.rounded, 0x5A, (size_t)n * sizeof *wanted);
    rk_cuda_column_sums(stream, &args);
    OK(rk_stream_sync(stream));
    expect_bits("rounded", args.rows, args.cols, args.rounded, wanted, (size_t)n * sizeof *wanted);
    rk_device_free(device, args.rounded);
    free(wanted);
}

static void check_sums(int64_t rows, int64_t cols, way w, bool rounds) {
    int64_t n = rows * cols;
    float *x = random_values(n, 1), *y = random_values(n, 2), *masked = malloc((size_t)n * sizeof *masked),
          *sums = malloc((size_t)cols * sizeof *sums);
    for (int64_t i = 0; i < n; i += 3) y[i] = 0;
    for (int64_t i = 0; i < n; i++) masked[i] = w == PLAIN || y[i] > 0 ? x[i] : 0;
    for (int64_t c = 0; c < cols; c++) sums[c] = sum_of_column(masked, rows, cols, c);
    size_t n_bytes = (size_t)n * sizeof *x;
    float *d_x = on_device(x, n_bytes), *d_y = on_device(y, n_bytes), *d_beside = on_device(y, n_bytes),
          *d_out = on_device(NULL, (size_t)cols * sizeof *sums);
    float *partials = on_device(NULL, (size_t)rk_cuda_sum_scratch_floats(rows, cols) * sizeof *partials);
    rk_cuda_sum_args args = {.kind = w == PLAIN ? RK_CUDA_PLAIN : RK_CUDA_RELU_SUM,
                             .rows = rows,
                             .cols = cols,
                             .x = d_x,
                             .out = d_out,
                             .partials = partials};
    if (w != PLAIN) args.y = d_y;
    if (w == OVER || w == BESIDE) args.masked = w == OVER ? d_x : d_beside;
    if (rounds)
        check_rounded(args, masked);
    else
        rk_cuda_column_sums(stream, &args);
    OK(rk_stream_sync(stream));
    expect_bits("sums", rows, cols, d_out, sums, (size_t)cols * sizeof *sums);
    expect_bits("x", rows, cols, d_x, w == OVER ? masked : x, n_bytes);
    expect_bits("the gradient beside", rows, cols, d_beside, w == BESIDE ? masked : y, n_bytes);
    void *const device_memory[] = {d_x, d_y, d_beside, d_out, partials}, *const memory[] = {x, y, masked,
                                                                                            sums};
    for (size_t i = 0; i < sizeof device_memory / sizeof device_memory[0]; i++)
        rk_device_free(device, device_memory[i]);
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) free(memory[i]);
}

static void test_bits(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 7, 8, 37, 61, 64, 65, 103, 20000}, cols[] = {1, 8, 33, 41};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (size_t c = 0; c < sizeof cols / sizeof cols[0]; c++)
            for (way w = PLAIN; w <= NOWHERE; w++)
                for (int rounds = 0; rounds < 2; rounds++) check_sums(rows[r], cols[c], w, rounds);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
