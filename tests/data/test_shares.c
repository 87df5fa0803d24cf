/* Datasets that share the reading of an epoch, window by window: together they give what one gives, and of
 * rkb files each parses its own pieces. */
#include "testing.h"

#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "data/section.h"
#include "format/rkb/rkb.h"

enum { ROWS = 10000, BLOCK = 300, BATCH = 64, MAX_SHARES = 5 };
static char directory[] = "/tmp/reckon-shares-XXXXXX";

static const char *path_of(const char *name) {
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

/* Rows first .. last-1: their number, and a label if there are two columns. */
static void write_rkb(const char *name, int32_t n_columns, int first, int last) {
    static const char *const names[] = {"n", "y"};
    static const rk_column_type types[] = {RK_COLUMN_I64, RK_COLUMN_F32};
    rk_columns rows;
    rk_rkb_writer *writer;
    OK(rk_rkb_writer_open(path_of(name), 0, &writer));
    OK(rk_columns_init(&rows, n_columns, names, types));
    for (int row = first; row < last; row++) {
        OK(rk_column_add_i64(&rows.columns[0], row));
        if (n_columns > 1) OK(rk_column_add_f32(&rows.columns[1], (float)(row % 2)));
        OK(rk_columns_end_row(&rows));
        if (rows.n_rows < BLOCK && row + 1 < last) continue;
        OK(rk_rkb_writer_add(writer, &rows));
        rk_columns_clear(&rows);
    }
    OK(rk_rkb_writer_commit(writer));
    rk_rkb_writer_free(writer);
    rk_columns_release(&rows);
}

static void write_csv(void) {
    rk_buffer text = {0};
    rk_buffer_append_text(&text, "n,y\n");
    for (int row = 0; row < ROWS; row++) rk_buffer_printf(&text, "%d,%d\n", row, row % 2);
    OK(text.status);
    OK(rk_file_write(path_of("a.csv"), text.data, text.n_bytes));
    rk_buffer_release(&text);
}

static void open_lines(const char *lines, opened *o) {
    char text[1024];
    snprintf(text, sizeof text,
             "%s\nlabels: [{name: y}]\nshuffle_window: 200\nfeatures: [{name: n, identity: %d}]\n", lines,
             ROWS);
    OK(open_section(o, directory, text));
}

static rk_dataset *open_share(const opened *o, bool shuffle, int share, int n_shares) {
    rk_dataset *d;
    rk_dataset_options options = {.directory = directory,
                                  .split = "train",
                                  .batch_size = BATCH,
                                  .seed = 9,
                                  .shuffle = shuffle,
                                  .share = share,
                                  .n_shares = n_shares};
    OK(rk_dataset_create(&o->section, o->transforms, &options, &d));
    return d;
}

/* What is left of the epoch at hand, of all shares, each asked in its turn as who trains on it would; every
 * share then says that it has ended. */
static int64_t read_epoch(rk_dataset **shares, int n_shares, int64_t *order) {
    rk_dataset_position at = rk_dataset_current_position(shares[0]);
    int64_t n = 0, row = at.row, window_rows = rk_dataset_window_rows(shares[0], BATCH);
    const rk_batch *batch;
    rk_status status;
    assert_int_equal(rk_dataset_batch_size(shares[0]), BATCH);
    for (;;) {
        rk_dataset *share = shares[row / window_rows % n_shares];
        if ((status = rk_dataset_next(share, &batch)) != RK_OK) break;
        assert_int_equal(batch->first_row, row);
        row += batch->n;
        assert_int_equal(rk_dataset_current_position(share).row, row);
        for (int64_t i = 0; i < batch->n; i++) order[n++] = batch->features[0].ids[i];
    }
    if (status != RK_END) print_error("%s\n", rk_last_error());
    for (int s = 0; s < n_shares; s++) {
        if (rk_dataset_current_position(shares[s]).epoch == at.epoch)
            assert_int_equal(rk_dataset_next(shares[s], &batch), RK_END);
        rk_dataset_position end = rk_dataset_current_position(shares[s]);
        assert_true(end.epoch == at.epoch + 1 && end.row == 0);
        assert_int_equal(rk_dataset_n_rows(shares[s]), row);
    }
    return n;
}

/* Two epochs, the first one from `row` on. */
static int64_t read_two(const opened *o, bool shuffle, int n_shares, int64_t row, int64_t *order) {
    rk_dataset *shares[MAX_SHARES];
    for (int s = 0; s < n_shares; s++) {
        shares[s] = open_share(o, shuffle, s, n_shares);
        OK(rk_dataset_seek(shares[s], (rk_dataset_position){2, row}));
    }
    int64_t n = read_epoch(shares, n_shares, order);
    n += read_epoch(shares, n_shares, order + n);
    for (int s = 0; s < n_shares; s++) rk_dataset_free(shares[s]);
    return n;
}

static void test_together_they_give_what_one_gives(void **state) {
    (void)state;
    static const char *const files[] = {
        "train: a.csv", "train: {path: [a.rkb, b.rkb]}",
        "train: {path: [a.rkb, b.rkb]}\nvalid: {fraction: 0.3}\ncache_bytes: 0",
        "train: {path: [odd.rkb, a.rkb]}\non_bad_row: skip",
        "train: {path: [a.rkb, b.rkb]}\nreader_threads: 3\ncache_bytes: 0"};
    static int64_t whole[4 * ROWS], shared[4 * ROWS];
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++)
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            opened o;
            open_lines(files[f], &o);
            for (int64_t row = 0; row < ROWS / 2; row += BATCH * 37) {
                int64_t n = read_two(&o, shuffle, 1, row, whole);
                for (int n_shares = 2; n_shares <= MAX_SHARES; n_shares += 3) {
                    assert_int_equal(read_two(&o, shuffle, n_shares, row, shared), n);
                    assert_memory_equal(whole, shared, (size_t)n * sizeof *whole);
                }
            }
            close_section(&o);
        }
    rk_dataset *none;
    FAILS(rk_dataset_create(NULL, NULL, &(rk_dataset_options){.batch_size = 1, .share = 2, .n_shares = 2},
                            &none),
          RK_INVALID_ARGUMENT, "share 2 of 2");
}

/* A block in the middle is damaged, which whoever parses it would notice. */
static void test_others_pieces_are_not_parsed(void **state) {
    (void)state;
    opened o;
    char *bytes;
    size_t n_bytes;
    open_lines("train: damaged.rkb", &o);
    OK(rk_file_read(path_of("damaged.rkb"), &bytes, &n_bytes));
    bytes[n_bytes / 2] ^= 1;
    OK(rk_file_write(path_of("damaged.rkb"), bytes, n_bytes));
    rk_free(bytes);
    int n_failed = 0;
    for (int s = 0; s < MAX_SHARES; s++) {
        const rk_batch *batch;
        rk_status status;
        rk_dataset *share =
            open_share(&o, false, s, MAX_SHARES); /* small windows of shuffled rows are from all blocks */
        while ((status = rk_dataset_next(share, &batch)) == RK_OK) {
        }
        assert_true(status == RK_END || status == RK_BAD_DATA);
        n_failed += status == RK_BAD_DATA;
        rk_dataset_free(share);
    }
    assert_true(n_failed >= 1 && n_failed <= 3); /* a block has rows of at most three windows */
    close_section(&o);
}

/* Whether there are labels is seen in the first rows, whosever they are. */
static void test_labels_may_be_missing(void **state) {
    (void)state;
    opened o;
    rk_dataset *share;
    const rk_batch *batch;
    open_lines("train: a.rkb", &o);
    rk_dataset_options options = {.split = path_of("unlabeled.rkb"),
                                  .batch_size = BATCH,
                                  .labels_optional = true,
                                  .share = 1,
                                  .n_shares = 2};
    OK(rk_dataset_create(&o.section, o.transforms, &options, &share));
    OK(rk_dataset_next(share, &batch));
    assert_true(batch->first_row > 0 && batch->labels == NULL);
    rk_dataset_free(share);
    close_section(&o);
}

static int set_up(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    write_csv();
    write_rkb("a.rkb", 2, 0, 6100);
    write_rkb("b.rkb", 2, 6100, ROWS);
    write_rkb("odd.rkb", 2, 9000, ROWS + 3); /* three ids that are none */
    write_rkb("damaged.rkb", 2, 0, ROWS);
    write_rkb("unlabeled.rkb", 1, 0, ROWS);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return rk_remove_tree(directory) != RK_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together_they_give_what_one_gives),
        cmocka_unit_test(test_others_pieces_are_not_parsed),
        cmocka_unit_test(test_labels_may_be_missing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
