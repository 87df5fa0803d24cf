/* What a pass over the training data finds: of all values, in any order, and nothing of those that are no
 * numbers. */
#include "testing.h"

#include <math.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "data/file_output.h"
#include "data/section.h"
#include "data/transform/transforms_internal.h"

enum { ROWS = 1000, SPOILT = 500 };
static char directory[] = "/tmp/reckon-fit-XXXXXX";

static char *path_of(const char *name) {
    static char paths[2][300];
    static int at;
    char *path = paths[at++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static const char *const features_text =
    "labels: [{name: y}]\nfeatures:\n"
    "  - {name: plain, column: x, dense: true, normalize: true}\n"
    "  - {name: log, column: x, dense: true, log1p: true, normalize: true}\n"
    "  - {name: share, column: x, quantiles: 10}\n"
    "  - {name: or, column: x, dense: true, normalize: true, default_value: \"3\"}\n";

/* Numbers of one column, one in each row, with one of them spoilt, or left out where it is 0. */
static void write_rows(const char *name, rk_data_format format, float spoilt) {
    static const char *const names[] = {"x", "y"};
    static const rk_column_type types[] = {RK_COLUMN_F32, RK_COLUMN_I64};
    rk_rng rng = {1, 2, 0};
    rk_columns rows;
    rk_file_output *out;
    OK(rk_columns_init(&rows, 2, names, types));
    for (int row = 0; row < ROWS; row++) {
        float x = (float)(rk_rng_normal(&rng) * 10);
        if (row == SPOILT && spoilt == 0) continue;
        OK(rk_column_add_f32(&rows.columns[0], row == SPOILT ? spoilt : x));
        OK(rk_column_add_i64(&rows.columns[1], row % 2));
        OK(rk_columns_end_row(&rows));
    }
    OK(rk_file_output_open(path_of(name), format, NULL, 0, &out));
    OK(rk_file_output_add_rows(out, &rows));
    OK(rk_file_output_commit(out));
    rk_file_output_free(out);
    rk_columns_release(&rows);
}

/* All dense numbers and ids of an epoch, as bytes. */
static rk_status read_all(const char *files, rk_buffer *out, int64_t *n_rows) {
    opened o;
    const rk_batch *b;
    char text[1000];
    snprintf(text, sizeof text, "train: %s\n%s", files, features_text);
    *n_rows = 0;
    rk_status status = open_section(&o, directory, text);
    if (status == RK_OK)
        status = rk_dataset_create(
            &o.section, o.transforms,
            &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 64}, &o.dataset);
    while (status == RK_OK && (status = rk_dataset_next(o.dataset, &b)) == RK_OK) {
        *n_rows += b->n;
        rk_buffer_append(out, b->dense, (size_t)(b->n * b->n_dense) * sizeof(float));
        for (int64_t i = 0; i < b->n; i++) rk_buffer_append(out, &b->features[0].ids[i], sizeof(int64_t));
    }
    close_section(&o);
    return status;
}

/* A value that is no number, in each format, spoils its own row and no statistics. */
static void test_no_numbers(void **state) {
    (void)state;
    static const struct {
        const char *name;
        rk_data_format format;
        int first_line;
    } files[] = {{"x.csv", RK_DATA_CSV, 2},
                 {"x.tsv", RK_DATA_TSV, 2},
                 {"x.tfrecord", RK_DATA_TFRECORD, 1},
                 {"x.rkb", RK_DATA_RKB, 1}};
    static const float spoilt[] = {NAN, INFINITY, -INFINITY};
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        rk_buffer expected = {0};
        char with[300], message[400];
        int64_t n;
        write_rows(files[f].name, files[f].format, 0);
        assert_int_equal(read_all(files[f].name, &expected, &n), RK_END);
        assert_int_equal(n, ROWS - 1);
        for (size_t i = 0; i < 3; i++) {
            rk_buffer got = {0};
            write_rows(files[f].name, files[f].format, spoilt[i]);
            snprintf(with, sizeof with, "%s\non_bad_row: skip", files[f].name);
            assert_int_equal(read_all(with, &got, &n), RK_END);
            assert_int_equal(n, ROWS - 1);
            assert_int_equal(got.n_bytes, expected.n_bytes);
            assert_memory_equal(got.data, expected.data, got.n_bytes);
            snprintf(message, sizeof message, "'%s': line %d: column 'x': '%s' is not a number",
                     path_of(files[f].name), SPOILT + files[f].first_line,
                     i == 0   ? "nan"
                     : i == 1 ? "inf"
                              : "-inf");
            FAILS(read_all(files[f].name, &got, &n), RK_BAD_DATA, message);
            rk_buffer_release(&got);
        }
        rk_buffer_release(&expected);
    }
}

/* Numbers of a text that only a double holds. */
static void test_large_numbers(void **state) {
    (void)state;
    static const struct {
        const char *value, *section, *message; /* NULL: taken */
    } cases[] = {
        {"1e300", "features: [{name: x, dense: true, normalize: true}]\nlabels: [{name: y}]",
         "column 'x': 1e+300 is too large for f32"},
        {"-1e39", "features: [{name: x, dense: true}]\nlabels: [{name: y}]",
         "column 'x': -1e+39 is too large for f32"},
        {"1e300", "features: [{name: x, dense: true, log1p: true, normalize: true}]\nlabels: [{name: y}]",
         NULL},
        {"1e300", "features: [{name: x, quantiles: 4}]\nlabels: [{name: y}]", NULL},
        {"1e300", "features: [{name: y, hash: 4}]\nlabels: [{name: x, loss: mse}]",
         "the label 'x' is 1e+300, which is too large for f32"},
        {"1e300", "features: [{name: y, hash: 4}]\nlabels: [{name: x, threshold: 1}]", NULL},
        {"1e300", "features: [{name: y, hash: 4}]\nlabels: [{name: y}]\nsample_weight: x",
         "column 'x': a sample weight must be a number of 0 or more"},
        {"1e300", "features: [{name: y, hash: 4, weights: x}]\nlabels: [{name: y}]",
         "column 'x': '1e300' is not a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int many = 0; many < 2; many++) { /* a row that is read alone, and a column of many */
            opened o;
            const rk_batch *b;
            char text[400], expected[400];
            rk_buffer rows = {0};
            rk_buffer_append_text(&rows, "x,y\n");
            for (int row = 0; row < (many ? 100 : 1); row++)
                rk_buffer_printf(&rows, "%s,1\n", row == (many ? 60 : 0) ? cases[i].value : "2");
            OK(rk_file_write(path_of("large.csv"), rows.data, rows.n_bytes));
            rk_buffer_release(&rows);
            snprintf(text, sizeof text, "train: large.csv\n%s", cases[i].section);
            OK(open_section(&o, directory, text));
            OK(rk_dataset_create(
                &o.section, o.transforms,
                &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 1000},
                &o.dataset));
            rk_status status = rk_dataset_next(o.dataset, &b);
            snprintf(expected, sizeof expected, "'%s': line %d: %s", path_of("large.csv"), many ? 62 : 2,
                     cases[i].message ? cases[i].message : "");
            if (cases[i].message)
                FAILS(status, RK_BAD_DATA, expected);
            else
                OK(status);
            for (int64_t k = 0; status == RK_OK && k < b->n * b->n_dense; k++)
                assert_true(isfinite(b->dense[k]));
            close_section(&o);
        }
}

/* The k-th of 10 boundaries lies where a share k of all values does, though they ascend and are more than are
 * kept. */
static void check_quantiles(const char *name, int64_t n_rows, int64_t each, double tolerance) {
    static const char *const names[] = {"x", "y"};
    static const rk_column_type types[] = {RK_COLUMN_I64, RK_COLUMN_I64};
    rk_columns rows;
    rk_file_output *out;
    opened first, again;
    char text[300];
    double n = (double)(n_rows * each);
    OK(rk_columns_init(&rows, 2, names, types));
    OK(rk_file_output_open(path_of(name), RK_DATA_RKB, NULL, -1, &out));
    for (int64_t row = 0; row < n_rows; row++) {
        for (int64_t i = 0; i < each; i++) OK(rk_column_add_i64(&rows.columns[0], row * each + i));
        OK(rk_column_add_i64(&rows.columns[1], row % 2));
        OK(rk_columns_end_row(&rows));
        if (row % 100 != 99 && row + 1 < n_rows) continue;
        OK(rk_file_output_add_rows(out, &rows));
        rk_columns_clear(&rows);
    }
    OK(rk_file_output_commit(out));
    rk_file_output_free(out);
    rk_columns_release(&rows);
    snprintf(text, sizeof text,
             "train: %s\nlabels: [{name: y}]\nfeatures: [{name: x, quantiles: 10}]\nreader_threads: 1", name);
    OK(open_section(&first, directory, text));
    text[strlen(text) - 1] = '5';
    OK(open_section(&again, directory, text));
    const rk_fitted *fitted = &first.transforms->fitted[0];
    assert_int_equal(fitted->n_boundaries, 9);
    for (int k = 0; k < 9; k++) assert_true(fabs(fitted->boundaries[k] - n * (k + 1) / 10) <= tolerance * n);
    assert_memory_equal(fitted->boundaries, again.transforms->fitted[0].boundaries, 9 * sizeof(double));
    close_section(&first);
    close_section(&again);
}

static void test_quantiles(void **state) {
    (void)state;
    check_quantiles("few.rkb", 1000, 1, 0);
    check_quantiles("many.rkb", 5000, 1000, 1e-3);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    assert_int_equal(rk_alloc_live(), 0);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_numbers),
                                       cmocka_unit_test(test_large_numbers),
                                       cmocka_unit_test(test_quantiles)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
