/* The time of a batch is the latest of its rows. */
#include "testing.h"

#include <math.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/timestamp.h"
#include "batch/ids.h"
#include "data/file_output.h"
#include "data/section.h"

enum { ROWS = 1000 };
static char directory[] = "/tmp/reckon-timestamps-XXXXXX";

static const char *const run_text =
    "train: a.csv\n"
    "labels: [{name: y}]\n"
    "shuffle_window: 200\n"
    "seed: 5\n"
    "features:\n"
    "  - {name: n, identity: 1000}\n"
    "  - {name: word, hash: 50}\n";

static rk_status open_text(const char *text, const char *more, const char *split, int64_t batch_size,
                           bool shuffle, opened *o) {
    char whole[2048];
    snprintf(whole, sizeof whole, "%s%s", text, more);
    RK_TRY(open_section(o, directory, whole));
    return rk_dataset_create(
        &o->section, o->transforms,
        &(rk_dataset_options){
            .directory = directory, .split = split, .batch_size = batch_size, .seed = 9, .shuffle = shuffle},
        &o->dataset);
}

/* Rows' timestamps are their numbers. */
static void check_timestamps(const char *more, bool shuffle, int64_t batch_size) {
    opened o;
    const rk_batch *b;
    rk_status status;
    OK(open_text(run_text, more, "train", batch_size, shuffle, &o));
    assert_true(isnan(rk_dataset_timestamp(o.dataset)));
    for (int epoch = 0; epoch < 3; epoch++) {
        while ((status = rk_dataset_next(o.dataset, &b)) == RK_OK) {
            int64_t most = -1;
            for (int64_t i = 0; i < b->n; i++) {
                int64_t row = b->features[0].ids[rk_ids_begin_of_sample(&b->features[0], i)];
                if (row > most) most = row;
            }
            assert_int_equal(rk_dataset_batch_timestamp(o.dataset), most * RK_MICROSECONDS);
            assert_true(rk_dataset_timestamp(o.dataset) == (double)most);
        }
        assert_int_equal(status, RK_END);
        assert_true(isnan(rk_dataset_timestamp(o.dataset)));
    }
    close_section(&o);
}

static void test_timestamps(void **state) {
    (void)state;
    for (int64_t batch_size = 7; batch_size <= 700; batch_size *= 10)
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            check_timestamps("timestamp: n\n", shuffle, batch_size);
            check_timestamps("timestamp: n\ncache_bytes: 0\n", shuffle, batch_size);
            check_timestamps("timestamp: n\ncache_bytes: 20000\nreader_threads: 3\n", shuffle, batch_size);
        }
    opened o;
    const rk_batch *b;
    OK(open_text(run_text, "timestamp: word\nvalid: {path: a.csv}\n", "valid", 10, false, &o));
    OK(rk_dataset_next(o.dataset, &b)); /* which is not trained on */
    assert_true(isnan(rk_dataset_timestamp(o.dataset)));
    close_section(&o);
}

/* A column of f32 has the seconds of a short stream, and not those since the epoch. */
static void test_timestamps_of_f32(void **state) {
    (void)state;
    static const char *const names[] = {"n", "y", "time"};
    static const rk_column_type types[] = {RK_COLUMN_I64, RK_COLUMN_I64, RK_COLUMN_F32};
    char path[300];
    for (int is_long = 0; is_long < 2; is_long++) {
        rk_columns rows;
        rk_file_output *out;
        OK(rk_columns_init(&rows, 3, names, types));
        for (int row = 0; row < 20; row++) {
            OK(rk_column_add_i64(&rows.columns[0], row));
            OK(rk_column_add_i64(&rows.columns[1], row % 2));
            OK(rk_column_add_f32(&rows.columns[2], (float)(row * 0.5 + (is_long ? 1.7e9 : 0))));
            OK(rk_columns_end_row(&rows));
        }
        snprintf(path, sizeof path, "%s/times.rkb", directory);
        OK(rk_file_output_open(path, RK_DATA_RKB, NULL, 0, &out));
        OK(rk_file_output_add_rows(out, &rows));
        OK(rk_file_output_commit(out));
        rk_file_output_free(out);
        rk_columns_release(&rows);
        opened o;
        const rk_batch *b;
        OK(
            open_text("train: times.rkb\nlabels: [{name: y}]\ntimestamp: time\n"
                      "features: [{name: n, identity: 20}]\n",
                      "", "train", 8, false, &o));
        if (is_long) {
            assert_int_equal(rk_dataset_next(o.dataset, &b), RK_BAD_DATA);
            assert_non_null(strstr(rk_last_error(), "line 1: column 'time': f32 has no digits left"));
        } else {
            OK(rk_dataset_next(o.dataset, &b));
            assert_true(rk_dataset_timestamp(o.dataset) == 3.5);
        }
        close_section(&o);
    }
}

static int write_rows(void **state) {
    (void)state;
    char path[300];
    rk_buffer text = {0};
    assert_non_null(mkdtemp(directory));
    rk_buffer_append_text(&text, "n,word,y\n");
    for (int i = 0; i < ROWS; i++) rk_buffer_printf(&text, "%d,%s,%d\n", i, i % 3 ? "even so" : "", i % 2);
    OK(text.status);
    snprintf(path, sizeof path, "%s/a.csv", directory);
    OK(rk_file_write(path, text.data, text.n_bytes));
    rk_buffer_release(&text);
    return 0;
}

static int remove_rows(void **state) {
    (void)state;
    return rk_remove_tree(directory) != RK_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_timestamps),
                                       cmocka_unit_test(test_timestamps_of_f32)};
    return cmocka_run_group_tests(tests, write_rows, remove_rows);
}
