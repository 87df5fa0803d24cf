/* Arrays of more values than 31 bits count, where the GPU has 40 GB free and the host 16; else the same with
 * small ones. All sums are of whole numbers, and exact. */
#include "cuda/device_testing.h"

#include <unistd.h>

#include "cuda/launch_list.h"
#include "embedding/cuda/device_tables.h"

enum { COLS = 4099, OUT = 3, DIM = 128, SAMPLES = 64 };

static bool is_large(void) {
    rk_device_info info;
    OK(rk_device_query(device, &info));
    return info.free_bytes > 40e9 && (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) > 16e9;
}

static void expect_row(const char *what, const float *x, int64_t row, const float *wanted, float factor) {
    static float got[COLS];
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, got, x + row * COLS, sizeof got));
    for (int c = 0; c < COLS; c++)
        if (got[c] != factor * wanted[c])
            fail_msg("%s: row %lld, column %d: %g, not %g", what, (long long)row, c, got[c],
                     factor * wanted[c]);
}

/* The first row, the last, and the one that 2^31 values come before. */
static void expect_rows(const char *what, const float *x, int64_t rows, const float *wanted, float factor) {
    int64_t some[] = {0, ((int64_t)1 << 31) / COLS, rows - 1};
    for (int i = 0; i < 3; i++)
        if (some[i] < rows) expect_row(what, x, some[i], wanted, factor);
}

static void expect_all(const char *what, const float *device_values, int64_t n, float wanted) {
    float *got = malloc((size_t)n * sizeof *got);
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, got, device_values, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++)
        if (got[i] != wanted) fail_msg("%s: value %lld: %g, not %g", what, (long long)i, got[i], wanted);
    free(got);
}

static void test_operations(void **state) {
    (void)state;
    int64_t rows = is_large() ? 524288 : 300, n = rows * COLS;
    float b[COLS], squares[COLS], sum = 0, dot = 0;
    for (int c = 0; c < COLS; c++) {
        b[c] = (float)(c % 7 - 2);
        squares[c] = b[c] * b[c];
        sum += b[c];
        dot += squares[c];
    }
    float *d_b = on_device(b, sizeof b), *x = on_device(NULL, (size_t)n * sizeof *x),
          *y = on_device(NULL, (size_t)n * sizeof *y);
    float *few = on_device(NULL, (size_t)(rows * OUT) * sizeof *few);
    float one = 1, *d_one = on_device(&one, sizeof one);
    int64_t n_ones = (rows > COLS ? rows : COLS) * OUT;
    float *ones = on_device(NULL, (size_t)n_ones * sizeof *ones),
          *partials = on_device(NULL, (size_t)rk_cuda_sum_scratch_floats(rows, COLS) * sizeof *partials);
    rk_cuda_add_bias(stream, rows, COLS, NULL, d_b, x);
    expect_rows("bias", x, rows, b, 1);
    rk_cuda_add_two(stream, n, x, x, y);
    expect_rows("add_two", y, rows, b, 2);
    rk_cuda_multiply(stream, n, x, x, y, true);
    expect_rows("multiply", y, rows, squares, 1);
    rk_cuda_copy_columns(stream, rows, COLS, x, COLS, y, COLS, true);
    expect_rows("copy_columns", y, rows, b, 1);
    rk_cuda_rowwise_dot(stream, rows, COLS, x, d_b, 1, few, true);
    expect_all("row_dots", few, rows, dot);
    rk_cuda_sum_args sums = {
        .kind = RK_CUDA_PLAIN, .rows = rows, .cols = COLS, .x = x, .out = y, .partials = partials};
    rk_cuda_column_sums(stream, &sums);
    expect_row("column_sums", y, 0, b, (float)rows);

    rk_cuda_add_bias(stream, n_ones, 1, NULL, d_one, ones);
    rk_cuda_gemm(stream, &(rk_cuda_gemm_args){.m = rows,
                                              .n = OUT,
                                              .k = COLS,
                                              .a = x,
                                              .b = ones,
                                              .c = few,
                                              .lda = COLS,
                                              .ldb = OUT,
                                              .ldc = OUT,
                                              .alpha = 1});
    expect_all("x w", few, rows * OUT, sum);
    rk_cuda_gemm(stream, &(rk_cuda_gemm_args){.m = OUT,
                                              .n = COLS,
                                              .k = rows,
                                              .a = ones,
                                              .b = x,
                                              .c = y,
                                              .lda = OUT,
                                              .ldb = COLS,
                                              .ldc = COLS,
                                              .a_transposed = true,
                                              .alpha = 1});
    for (int i = 0; i < OUT; i++) expect_row("dy^T x", y, i, b, (float)rows);
    void *const memory[] = {d_b, d_one, x, y, few, ones, partials};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) rk_device_free(device, memory[i]);
}

static float *look_up(rk_device_tables *tables, const rk_ids *ids, bool training, float *out) {
    OK(rk_device_tables_dedup(tables, stream, stream, SAMPLES, NULL, ids, training));
    OK(rk_device_tables_check_ids(tables));
    OK(rk_device_tables_prepare_batch(tables, stream));
    OK(rk_device_tables_lookup(tables, stream, &(rk_activation){out, DIM, NULL}));
    OK(rk_stream_sync(stream));
    return out;
}

/* A step of the last rows; those that 2^31 and 2^32 bytes, and 2^31 values, lie before them stay as they
 * were. */
static void test_table(void **state) {
    (void)state;
    int64_t n_rows = is_large() ? ((int64_t)1 << 24) + 1000 : 3 * SAMPLES,
            apart[] = {(int64_t)1 << 22, (int64_t)1 << 23, (int64_t)1 << 24, SAMPLES}, list[SAMPLES];
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    rk_feature_config feature = RK_FEATURE_CONFIG_INIT;
    rk_optimizer sgd;
    OK(rk_optimizer_init(&sgd, RK_OPTIMIZER_SGD));
    sgd.learning_rate = 0.5;
    table.name = feature.name = feature.table = "t";
    table.n_rows = n_rows;
    table.dim = DIM;
    table.initializer = (rk_initializer){.kind = RK_INIT_CONSTANT, .value = 3};
    feature.combiner = RK_COMBINER_SUM;
    rk_embeddings *home;
    rk_device_tables *tables;
    OK(rk_embeddings_create(
        &(rk_embeddings_config){sizeof(rk_embeddings_config), 1, &table, 1, &feature, 1, &sgd, NULL, NULL},
        &home));
    OK(rk_device_tables_create(home, device, &(rk_device_tables_options){.max_batch = SAMPLES}, &tables));
    float ones[SAMPLES * DIM], *out = on_device(NULL, sizeof ones), *gradients;
    for (int i = 0; i < SAMPLES * DIM; i++) ones[i] = 1;
    gradients = on_device(ones, sizeof ones);
    rk_ids ids = {.ids = list, .ids_per_sample = 1};
    for (int i = 0; i < SAMPLES; i++) list[i] = n_rows - 1 - i;
    expect_all("before", look_up(tables, &ids, true, out), SAMPLES * DIM, 3);
    OK(rk_device_tables_apply_gradients(tables, stream, &(rk_activation){gradients, DIM, NULL}, NULL));
    rk_device_tables_end_batch(tables, true);
    expect_all("after", look_up(tables, &ids, false, out), SAMPLES * DIM, 2.5f);
    rk_device_tables_end_batch(tables, false);
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < SAMPLES; i++)
            list[i] = n_rows - 1 - i - apart[k] > 0 ? n_rows - 1 - i - apart[k] : i;
        expect_all("others", look_up(tables, &ids, false, out), SAMPLES * DIM, 3);
        rk_device_tables_end_batch(tables, false);
    }
    rk_device_tables_free(tables);
    rk_embeddings_free(home);
    rk_device_free(device, out);
    rk_device_free(device, gradients);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_operations), cmocka_unit_test(test_table)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
