/* Windows of rows from all over the files: of every format, of several files, any number of threads and
 * shares, from any row on; and what is said where that cannot be. */
#include "testing.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "data/convert.h"
#include "data/section.h"

enum { ROWS = 10000, BATCH = 50, MAX_SHARES = 5 };
static char directory[] = "/tmp/reckon-interleaving-XXXXXX";

static const char *path_of(const char *name) {
    static char paths[2][256];
    static int turn;
    turn = !turn;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", directory, name);
    return paths[turn];
}

/* Rows first .. last-1: their number, a text that may hold a line end, and a label by which they are sorted.
 */
static void write_csv(const char *name, int first, int last, int n_rows, bool quotes) {
    rk_buffer text = {0};
    rk_buffer_append_text(&text, "n,t,y\n");
    for (int row = first; row < last; row++) {
        rk_buffer_printf(&text, quotes && row % 7 == 0 ? "%d,\"a, \"\"b\"\"\n%d,c\",%d\n" : "%d,b%d,%d\n",
                         row, row % 5, row >= n_rows / 2);
        if (row % 501 == 0) rk_buffer_append_text(&text, "\n");
    }
    OK(text.status);
    OK(rk_file_write(path_of(name), text.data, text.n_bytes));
    rk_buffer_release(&text);
}

static void convert(const char *from, const char *to) {
    int64_t n_rows, n_skipped;
    OK(rk_data_convert(path_of(from), path_of(to), &(rk_convert_options){0}, NULL, &n_rows, &n_skipped));
}

static void open_lines(const char *lines, int window, opened *o) {
    char text[1024];
    snprintf(text, sizeof text,
             "%s\nlabels: [{name: y}]\nshuffle_window: %d\nfeatures: [{name: n, identity: 1000000}, {name: "
             "t, hash: 9}]\n",
             lines, window);
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

typedef struct epoch {
    int64_t n, order[2 * ROWS];
    float labels[2 * ROWS];
} epoch;

/* An epoch from a row on, of all shares, each asked in its turn. */
static void read_epoch(const opened *o, rk_dataset_position at, int n_shares, epoch *out) {
    rk_dataset *shares[MAX_SHARES];
    for (int s = 0; s < n_shares; s++) {
        shares[s] = open_share(o, true, s, n_shares);
        OK(rk_dataset_seek(shares[s], at));
    }
    out->n = 0;
    const rk_batch *batch;
    rk_status status;
    int64_t row = at.row, window_rows = rk_dataset_window_rows(shares[0], BATCH);
    while ((status = rk_dataset_next(shares[row / window_rows % n_shares], &batch)) == RK_OK) {
        assert_int_equal(batch->first_row, row);
        for (int64_t i = 0; i < batch->n; i++, row++) {
            out->labels[out->n] = batch->labels[i];
            out->order[out->n++] = batch->features[0].ids[i];
        }
    }
    if (status != RK_END) print_error("%s\n", rk_last_error());
    assert_int_equal(status, RK_END);
    for (int s = 0; s < n_shares; s++) rk_dataset_free(shares[s]);
}

static void expect_mixed(const epoch *e, int64_t window, int64_t n_rows) {
    for (int64_t first = 0; first + window <= e->n; first += window) {
        double mean = 0, label = 0;
        for (int64_t i = first; i < first + window; i++) {
            mean += (double)e->order[i] / (double)(n_rows * window);
            label += (double)e->labels[i] / (double)window;
        }
        if (fabs(mean - 0.5) > 0.1 || fabs(label - 0.5) > 0.15)
            print_error("window at %d: row %.3f, label %.3f\n", (int)first, mean, label);
        assert_true(fabs(mean - 0.5) < 0.1 && fabs(label - 0.5) < 0.15);
    }
}

static void expect_each_once(const epoch *e, int64_t n_rows) {
    static char seen[2 * ROWS];
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < e->n; i++) {
        assert_true(e->order[i] >= 0 && e->order[i] < n_rows && !seen[e->order[i]]);
        seen[e->order[i]] = 1;
    }
}

static void expect_same(const epoch *a, int64_t from, const epoch *b) {
    assert_int_equal(a->n - from, b->n);
    assert_memory_equal(a->order + from, b->order, (size_t)b->n * sizeof *b->order);
}

static void test_windows_are_mixed(void **state) {
    (void)state;
    static const char *const files[] = {"train: a.csv",
                                        "train: quotes.csv",
                                        "train: a.rkb",
                                        "train: a.tfrecord",
                                        "train: {path: [first.csv, second.csv]}",
                                        "train: {path: [first.rkb, second.rkb]}",
                                        "train: a.csv\nvalid: {fraction: 0.3}",
                                        "train: quotes.csv\nvalid: {fraction: 0.3}\non_bad_row: skip",
                                        "train: a.rkb\nvalid: {fraction: 0.3}"};
    static epoch whole, other;
    static const int windows[] = {100, 300, 2000};
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++)
        for (size_t w = 0; w < 3; w++) {
            opened o, varied;
            char lines[256];
            open_lines(files[f], windows[w], &o);
            read_epoch(&o, (rk_dataset_position){0, 0}, 1, &whole);
            bool is_split = strstr(files[f], "fraction") != NULL;
            if (is_split)
                assert_true(whole.n > 0.65 * ROWS && whole.n < 0.75 * ROWS);
            else
                assert_int_equal(whole.n, ROWS);
            expect_each_once(&whole, ROWS);
            expect_mixed(&whole, windows[w], ROWS);
            for (int64_t row = 0; row < whole.n; row += 37 * BATCH)
                for (int n_shares = 1; n_shares <= MAX_SHARES; n_shares += 2) {
                    read_epoch(&o, (rk_dataset_position){0, row}, n_shares, &other);
                    expect_same(&whole, row, &other);
                }
            snprintf(lines, sizeof lines, "%s\nreader_threads: 3\ncache_bytes: 0", files[f]);
            open_lines(lines, windows[w], &varied);
            read_epoch(&varied, (rk_dataset_position){0, 0}, 1, &other);
            expect_same(&whole, 0, &other);
            close_section(&varied);
            close_section(&o);
        }
}

static char heard[4][1024];
static int n_heard;

static void hear(void *user, rk_log_level level, const char *message) {
    (void)user;
    if (level == RK_LOG_WARNING && n_heard < 4) snprintf(heard[n_heard++], sizeof heard[0], "%s", message);
}

static void listen_to(const char *lines, int window) {
    opened o;
    const rk_batch *batch;
    n_heard = 0;
    rk_log_set(hear, NULL, RK_LOG_WARNING);
    open_lines(lines, window, &o);
    rk_dataset *d = open_share(&o, true, 0, 1);
    for (int e = 0; e < 2; e++)
        while (rk_dataset_next(d, &batch) == RK_OK) {
        }
    rk_dataset_free(d);
    close_section(&o);
    rk_log_set(NULL, NULL, RK_LOG_WARNING);
}

/* Files that are each sorted in the same way, such as one a day: their windows are mixed too. */
static void test_files_that_are_alike(void **state) {
    (void)state;
    static epoch whole, late;
    enum { FILES = 32, OF_FILE = 312 };
    OK(rk_make_directories(path_of("days")));
    for (int f = 0; f < FILES; f++) {
        char name[32];
        rk_buffer text = {0};
        rk_buffer_append_text(&text, "n,t,y\n");
        for (int i = 0; i < OF_FILE; i++)
            rk_buffer_printf(&text, "%d,a,%d\n", f * OF_FILE + i, i >= OF_FILE / 2);
        OK(text.status);
        snprintf(name, sizeof name, "days/%02d.csv", f);
        OK(rk_file_write(path_of(name), text.data, text.n_bytes));
        rk_buffer_release(&text);
    }
    for (int window = 400; window <= 6400; window *= 4) {
        opened o;
        open_lines("train: days/*.csv", window, &o);
        read_epoch(&o, (rk_dataset_position){0, 0}, 1, &whole);
        expect_each_once(&whole, FILES * OF_FILE);
        expect_mixed(&whole, window, FILES * OF_FILE);
        read_epoch(&o, (rk_dataset_position){0, 37 * BATCH}, 3, &late);
        expect_same(&whole, 37 * BATCH, &late);
        close_section(&o);
    }
    listen_to("train: days/*.csv", 500);
    assert_int_equal(n_heard, 0);
}

/* Epochs differ, and are the same whether rows are kept in memory or not. */
static void test_epochs(void **state) {
    (void)state;
    static epoch epochs[3], again[3];
    for (int cached = 0; cached < 2; cached++) {
        opened o;
        const rk_batch *batch;
        open_lines(cached ? "train: a.rkb" : "train: a.rkb\ncache_bytes: 0", 300, &o);
        rk_dataset *d = open_share(&o, true, 0, 1);
        for (int e = 0; e < 3; e++) {
            epoch *to = cached ? &again[e] : &epochs[e];
            while (rk_dataset_next(d, &batch) == RK_OK)
                for (int64_t i = 0; i < batch->n; i++) to->order[to->n++] = batch->features[0].ids[i];
            if (cached) expect_same(&epochs[e], 0, to);
        }
        rk_dataset_free(d);
        close_section(&o);
    }
    assert_memory_not_equal(epochs[0].order, epochs[1].order, sizeof epochs[0].order);
}

/* Rows that fit in one window are shuffled as they stand in the files, as if there were no pieces. */
static void test_one_window(void **state) {
    (void)state;
    static epoch e;
    static uint32_t order[ROWS];
    opened o;
    open_lines("train: {path: [first.csv, second.csv]}", 2 * ROWS, &o);
    read_epoch(&o, (rk_dataset_position){1, 0}, 1, &e);
    rk_rng_permutation(9, (uint64_t)1 << 32, order, ROWS);
    assert_int_equal(e.n, ROWS);
    for (int64_t i = 0; i < ROWS; i++) assert_int_equal(e.order[i], order[i]);
    close_section(&o);
}

enum { MANY = 400000, WINDOW = 1 << 17 };

/* Sums that tell the order of the rows after row `from`, of all shares; each window's labels are mixed: it
 * has some 32 whole pieces, most of one label, so that one piece more of a label is .03. */
static uint64_t read_many(const opened *o, int64_t from, int64_t hash_from, int n_shares) {
    rk_dataset *shares[MAX_SHARES];
    for (int s = 0; s < n_shares; s++) {
        shares[s] = open_share(o, true, s, n_shares);
        OK(rk_dataset_seek(shares[s], (rk_dataset_position){0, from}));
    }
    int64_t row = from, window_rows = rk_dataset_window_rows(shares[0], BATCH);
    uint64_t hash = 0;
    double sum = 0, n = 0;
    const rk_batch *batch;
    while (rk_dataset_next(shares[row / window_rows % n_shares], &batch) == RK_OK) {
        for (int64_t i = 0; i < batch->n; i++, row++) {
            sum += (double)batch->labels[i];
            if (row >= hash_from) hash = hash * 31 + (uint64_t)batch->features[0].ids[i];
        }
        n += (double)batch->n;
        if (row % window_rows) continue;
        assert_true(n < (double)window_rows || fabs(sum / n - 0.5) < 0.05);
        sum = n = 0;
    }
    assert_int_equal(row, MANY);
    for (int s = 0; s < n_shares; s++) rk_dataset_free(shares[s]);
    return hash;
}

/* Windows that are larger than many pieces have whole ones, and those of others, or of before, are not
 * parsed. */
static void test_large_windows(void **state) {
    (void)state;
    static const char *const files[] = {"train: many.csv\nreader_threads: 2", "train: many.rkb"};
    write_csv("many.csv", 0, MANY, MANY, false);
    convert("many.csv", "many.rkb");
    for (int f = 0; f < 2; f++) {
        opened o;
        open_lines(files[f], WINDOW, &o);
        const int64_t late = (WINDOW + BATCH - 1) / BATCH * BATCH * 2 + 10 * BATCH;
        uint64_t all = read_many(&o, 0, 0, 1), end = read_many(&o, 0, late, 1);
        assert_true(read_many(&o, 0, 0, 2) == all);
        assert_true(read_many(&o, late, late, 1) == end);
        assert_true(read_many(&o, late, late, 3) == end);
        close_section(&o);
    }
}

static void test_line_of_a_bad_row(void **state) {
    (void)state;
    char *text, expected[512];
    size_t n_bytes;
    opened o;
    OK(rk_file_read(path_of("quotes.csv"), &text, &n_bytes));
    char *at = strstr(text, "\n9000,");
    int line = 1;
    for (char *c = text; c <= at; c++) line += *c == '\n';
    at[2] = 'x';
    OK(rk_file_write(path_of("bad.csv"), text, n_bytes));
    rk_free(text);
    open_lines("train: bad.csv", 500, &o);
    rk_dataset *d = open_share(&o, true, 0, 1);
    const rk_batch *batch;
    rk_status status;
    while ((status = rk_dataset_next(d, &batch)) == RK_OK) {
    }
    snprintf(expected, sizeof expected, "'%s': line %d: column 'n': '9x00' is not a whole number",
             path_of("bad.csv"), line);
    assert_int_equal(status, RK_BAD_DATA);
    assert_memory_equal(rk_last_error(), expected, strlen(expected));
    rk_dataset_free(d);
    close_section(&o);
}

static void test_files_that_change(void **state) {
    (void)state;
    opened o;
    const rk_batch *batch;
    write_csv("changing.csv", 0, ROWS, ROWS, false);
    open_lines("train: changing.csv\ncache_bytes: 0", 500, &o);
    rk_dataset *d = open_share(&o, true, 0, 1);
    OK(rk_dataset_next(d, &batch));
    write_csv("changing.csv", 0, ROWS - 100, ROWS, false);
    rk_status status;
    while ((status = rk_dataset_next(d, &batch)) == RK_OK) {
    }
    char expected[512];
    snprintf(expected, sizeof expected, "'%s' changed while the run was using it", path_of("changing.csv"));
    FAILS(status, RK_IO, expected);
    rk_dataset_free(d);
    close_section(&o);
}

/* Wherever memory runs out, it is said, nothing is lost, and another try goes well. */
static void test_out_of_memory(void **state) {
    (void)state;
    static const char *const files[] = {"train: first.csv\ncache_bytes: 0",
                                        "train: a.rkb\nvalid: {fraction: 0.3}"};
    for (int f = 0; f < 2; f++) {
        opened o;
        const rk_batch *batch;
        open_lines(files[f], 300, &o);
        long live = rk_alloc_live();
        bool failed = true;
        for (long n = 1; failed; n += 1 + n / 16) {
            rk_dataset *d = open_share(&o, true, 0, 1);
            rk_status status;
            rk_alloc_fail_after(n, false);
            while ((status = rk_dataset_next(d, &batch)) == RK_OK) {
            }
            rk_alloc_fail_after(0, false);
            failed = status == RK_NO_MEMORY;
            assert_true(failed || status == RK_END);
            if (failed) OK(rk_dataset_seek(d, (rk_dataset_position){0, 0}));
            while (failed && (status = rk_dataset_next(d, &batch)) == RK_OK) {
            }
            assert_int_equal(status, RK_END);
            rk_dataset_free(d);
            assert_int_equal(rk_alloc_live(), live);
        }
        close_section(&o);
    }
}

/* A packed stream cannot be read from many places: it is said once, and again if that shows in the labels. */
static void test_warnings(void **state) {
    (void)state;
    char expected[512];
    listen_to("train: a.csv.gz", 500);
    assert_int_equal(n_heard, 2);
    snprintf(expected, sizeof expected,
             "'%s' can only be read from beginning to end, so rows are shuffled only within windows of 500 ",
             path_of("a.csv.gz"));
    assert_memory_equal(heard[0], expected, strlen(expected));
    snprintf(expected, sizeof expected,
             "'%s': the mean of label 'y' is 1 in rows 5001 to 5500, but 0 before: the rows seem sorted",
             path_of("a.csv.gz"));
    assert_memory_equal(heard[1], expected, strlen(expected));
    listen_to("train: shuffled.csv.gz", 50);
    assert_int_equal(n_heard, 1);
    listen_to("train: a.csv.gz", ROWS);
    assert_int_equal(n_heard, 0);
    listen_to("train: a.csv", 50);
    assert_int_equal(n_heard, 0);
}

/* Rare labels, in shuffled rows. */
static void test_no_false_alarms(void **state) {
    (void)state;
    rk_rng rng = {5, 6, 0};
    for (int rarity = 2; rarity <= 2000; rarity *= 10) {
        rk_buffer text = {0};
        rk_buffer_append_text(&text, "n,t,y\n");
        for (int row = 0; row < 2 * ROWS; row++)
            rk_buffer_printf(&text, "%d,a,%d\n", row, rk_rng_below(&rng, (uint64_t)rarity) == 0);
        OK(text.status);
        OK(rk_file_write(path_of("rare.csv"), text.data, text.n_bytes));
        rk_buffer_release(&text);
        listen_to("train: rare.csv", 50);
        assert_int_equal(n_heard, 0);
    }
}

static int set_up(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    write_csv("a.csv", 0, ROWS, ROWS, false);
    write_csv("quotes.csv", 0, ROWS, ROWS, true);
    write_csv("first.csv", 0, ROWS / 2, ROWS, false);
    write_csv("second.csv", ROWS / 2, ROWS, ROWS, true);
    convert("a.csv", "a.rkb");
    convert("a.csv", "a.tfrecord");
    convert("a.csv", "a.csv.gz");
    convert("first.csv", "first.rkb");
    convert("second.csv", "second.rkb");
    rk_buffer text = {0};
    static uint32_t order[ROWS];
    rk_rng_permutation(1, 1, order, ROWS);
    rk_buffer_append_text(&text, "n,t,y\n");
    for (int row = 0; row < ROWS; row++)
        rk_buffer_printf(&text, "%d,a,%d\n", (int)order[row], order[row] >= ROWS / 2);
    OK(rk_file_write(path_of("shuffled.csv"), text.data, text.n_bytes));
    rk_buffer_release(&text);
    convert("shuffled.csv", "shuffled.csv.gz");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return rk_remove_tree(directory) != RK_OK || rk_alloc_live() != 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_are_mixed),
        cmocka_unit_test(test_files_that_are_alike),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_one_window),
        cmocka_unit_test(test_large_windows),
        cmocka_unit_test(test_line_of_a_bad_row),
        cmocka_unit_test(test_files_that_change),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_no_false_alarms),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
