/* Rows and transforms that are kept on the disk from one run to the next. */
#include "testing.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "batch/ids.h"
#include "data/cache/cached_transforms.h"
#include "data/section.h"

enum { ROWS = 60, CRC_BYTES = 4 };
static char directory[] = "/tmp/reckon-cache-XXXXXX";
static int n_stages, n_warnings;

static const char *const section_text =
    "train: a.csv\n"
    "test: b.csv\n"
    "valid: {fraction: 0.2}\n"
    "labels: [{name: y}]\n"
    "sample_weight: w\n"
    "group: n\n"
    "timestamp: x\n"
    "seed: 5\n"
    "joins: [{path: join.csv, key: n}]\n"
    "features:\n"
    "  - {name: n, identity: 1000000}\n"
    "  - {name: word, vocabulary: {min_count: 2}}\n"
    "  - {name: tags, separator: \"|\", hash: 50}\n"
    "  - {name: colour, vocabulary: {}}\n"
    "  - {name: key, column: n, key: true}\n"
    "  - {name: parts, column: x, quantiles: 4}\n"
    "  - {name: x, dense: true, normalize: true}\n";

static void path_of(const char *name, char *out) {
    snprintf(out, 512, "%s/%s", directory, name);
}

static void write_text(const char *name, const char *text, size_t n_bytes) {
    char path[512];
    path_of(name, path);
    OK(rk_file_write(path, text, n_bytes));
}

/* Files that were just written may still change. */
static void let_files_settle(void) {
    nanosleep(&(struct timespec){.tv_nsec = 70000000}, NULL);
}

static int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* more_names: of columns of ones, each after a comma. */
static void write_rows_and(const char *name, const char *more_names, int first, int shift) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    rk_buffer_printf(&text, "n,word,tags,x,y,w%s\n", more_names);
    for (int i = first; i < first + ROWS; i++)
        rk_buffer_printf(&text, "%d,%s,%s,%d,%d,%d%s\n", 100000 + i,
                         i % 3   ? "even so"
                         : i % 2 ? ""
                                 : "rare",
                         i % 2 ? "a|b" : "c", 100 + i * (7 + 4 * shift) % 90, i % 2, 1 + i % 4,
                         *more_names ? ",1" : "");
    OK(text.status);
    write_text(name, text.data, text.n_bytes);
}

static void write_rows(const char *name, int first, int shift) {
    write_rows_and(name, "", first, shift);
}

static void write_joined(const char *other) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    rk_buffer_append_text(&text, "n,colour\n");
    for (int i = 0; i < 2 * ROWS; i++) rk_buffer_printf(&text, "%d,%s\n", 100000 + i, i % 5 ? "red" : other);
    OK(text.status);
    write_text("join.csv", text.data, text.n_bytes);
}

static void count_stage(void *user, const char *message) {
    (void)user;
    (void)message;
    n_stages++;
}

static void count_warning(void *user, rk_log_level level, const char *message) {
    (void)user;
    (void)level;
    assert_non_null(strstr(message, "is damaged"));
    n_warnings++;
}

static rk_buffer all_of(rk_dataset *d, int n_epochs) {
    rk_buffer out = {0};
    const rk_batch *b;
    for (int epoch = 0; epoch < n_epochs; epoch++) {
        rk_status status;
        while ((status = rk_dataset_next(d, &b)) == RK_OK) {
            size_t n = (size_t)b->n;
            rk_buffer_append(&out, b->dense, n * sizeof(float));
            rk_buffer_append(&out, b->labels, n * sizeof(float));
            rk_buffer_append(&out, b->sample_weights, n * sizeof(float));
            rk_buffer_append(&out, b->groups, n * sizeof(int64_t));
            rk_buffer_append_u64le(&out, (uint64_t)rk_dataset_batch_timestamp(d));
            for (int32_t f = 0; f < b->n_features; f++) {
                const rk_ids *ids = &b->features[f];
                int64_t begin = rk_ids_begin_of_sample(ids, 0), end = rk_ids_begin_of_sample(ids, b->n);
                for (int64_t i = 0; i <= b->n; i++)
                    rk_buffer_append_u64le(&out, (uint64_t)rk_ids_begin_of_sample(ids, i));
                rk_buffer_append(&out, ids->ids + begin, (size_t)(end - begin) * sizeof *ids->ids);
            }
        }
        assert_int_equal(status, RK_END);
    }
    OK(out.status);
    return out;
}

/* Two epochs of a split's rows, as bytes, by a run of its own. */
static rk_buffer read_split(const char *split, const char *more) {
    opened o = {0};
    char text[2048];
    snprintf(text, sizeof text, "%s%s", section_text, more);
    OK(rk_yaml_parse("d.yaml", text, strlen(text), &o.yaml));
    OK(rk_schema_bind(&rk_data_schema_table, &o.yaml, o.yaml.root, &o.section));
    OK(rk_cached_transforms_fit(&o.section, &o.yaml,
                                &(rk_fit_options){.directory = directory, .on_stage = count_stage},
                                &o.transforms));
    rk_dataset_options options = {.directory = directory,
                                  .split = split,
                                  .batch_size = 16,
                                  .seed = 9,
                                  .shuffle = strcmp(split, "train") == 0};
    OK(rk_dataset_create(&o.section, o.transforms, &options, &o.dataset));
    rk_buffer out = all_of(o.dataset, 2);
    close_section(&o);
    return out;
}

static bool is_equal(const rk_buffer *a, const rk_buffer *b) {
    return a->n_bytes == b->n_bytes && memcmp(a->data, b->data, a->n_bytes) == 0;
}

static void expect_rows(const rk_buffer *wanted, const char *split, const char *more) {
    RK_AUTO(rk_buffer_release) rk_buffer rows = read_split(split, more);
    assert_true(is_equal(&rows, wanted));
}

#define WITH    "cache: kept\n"
#define WITHOUT "cache: {max_bytes: 0}\n"

static size_t list_entries(rk_text_list *names, uint64_t *n_bytes) {
    char folder[512];
    *names = (rk_text_list){0};
    *n_bytes = 0;
    path_of("kept", folder);
    if (!rk_file_exists(folder)) return 0;
    OK(rk_list_directory(folder, names));
    for (size_t i = 0; i < names->n; i++) {
        char path[1024];
        uint64_t size;
        snprintf(path, sizeof path, "%s/%s", folder, names->texts[i]);
        OK(rk_file_size(path, &size));
        *n_bytes += size;
    }
    return names->n;
}

static size_t count_entries(void) {
    rk_text_list names;
    uint64_t n_bytes;
    size_t n = list_entries(&names, &n_bytes);
    rk_text_list_release(&names);
    return n;
}

static int set_up(void **state) {
    (void)state;
    char folder[512];
    path_of("kept", folder);
    OK(rk_remove_tree(folder));
    write_rows("a.csv", 0, 0);
    write_rows("b.csv", ROWS, 0);
    write_joined("blue");
    let_files_settle();
    n_stages = n_warnings = 0;
    rk_log_set(count_warning, NULL, RK_LOG_WARNING);
    return 0;
}

/* Entries, each changed by `change`, with a checksum that is right. */
static void change_entries(void (*change)(char *data, size_t n_bytes)) {
    rk_text_list names;
    uint64_t all;
    list_entries(&names, &all);
    for (size_t i = 0; i < names.n; i++) {
        char path[1024], *data;
        size_t n_bytes;
        snprintf(path, sizeof path, "%s/kept/%s", directory, names.texts[i]);
        OK(rk_file_read(path, &data, &n_bytes));
        change(data, n_bytes);
        uint32_t crc = rk_crc32c(0, data, n_bytes - CRC_BYTES);
        memcpy(data + n_bytes - CRC_BYTES, &crc, sizeof crc);
        OK(rk_file_write(path, data, n_bytes));
        rk_free(data);
    }
    rk_text_list_release(&names);
}

/* Of the last feature that is saved, the last id of the last row. */
static void change_last_byte(char *data, size_t n_bytes) {
    data[n_bytes - CRC_BYTES - 1] ^= 1;
}

static void test_second_run(void **state) {
    (void)state;
    static const char *const splits[] = {"train", "valid", "test"};
    for (int s = 0; s < 3; s++) {
        RK_AUTO(rk_buffer_release) rk_buffer plain = read_split(splits[s], WITHOUT);
        assert_true(plain.n_bytes > 0);
        expect_rows(&plain, splits[s], WITH);
        assert_int_equal(count_entries(), 2 + s); /* the first has transforms, too */
        int before = n_stages;
        expect_rows(&plain, splits[s], WITH);
        assert_int_equal(n_stages, before);
    }
    assert_int_equal(n_warnings, 0);
}

/* The rows of a second run are the entry's. */
static void test_rows_are_taken(void **state) {
    (void)state;
    RK_AUTO(rk_buffer_release) rk_buffer plain = read_split("test", WITH);
    change_entries(change_last_byte);
    RK_AUTO(rk_buffer_release) rk_buffer again = read_split("test", WITH);
    assert_int_equal(again.n_bytes, plain.n_bytes);
    assert_false(is_equal(&again, &plain));
}

/* As many bytes, and times put back. */
static void test_other_content(void **state) {
    (void)state;
    struct stat before, after;
    char path[512];
    path_of("a.csv", path);
    RK_AUTO(rk_buffer_release) rk_buffer first = read_split("train", WITH);
    assert_int_equal(stat(path, &before), 0);
    write_rows("a.csv", 0, 1);
    const struct timespec times[2] = {before.st_atim, before.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    let_files_settle();
    RK_AUTO(rk_buffer_release) rk_buffer plain = read_split("train", WITHOUT);
    assert_false(is_equal(&first, &plain));
    expect_rows(&plain, "train", WITH);
    expect_rows(&plain, "train", WITH);
    write_joined("pink");
    RK_AUTO(rk_buffer_release) rk_buffer joined = read_split("train", WITHOUT);
    expect_rows(&joined, "train", WITH);
}

static void test_other_settings(void **state) {
    (void)state;
    RK_AUTO(rk_buffer_release) rk_buffer first = read_split("train", WITH);
    RK_AUTO(rk_buffer_release) rk_buffer plain = read_split("train", "shuffle_window: 20\n" WITHOUT);
    assert_false(is_equal(&first, &plain));
    expect_rows(&plain, "train", "shuffle_window: 20\n" WITH);
    expect_rows(&first, "train", WITH);
    expect_rows(&first, "train", "reader_threads: 2\n" WITH);
    assert_int_equal(n_stages, 3); /* the first run's, the plain one's, the other window's */
}

static void damage_each_byte(const char *path, const rk_buffer *plain) {
    char *data;
    size_t n_bytes;
    OK(rk_file_read(path, &data, &n_bytes));
    for (size_t at = 0; at < n_bytes; at += 1 + n_bytes / 60) {
        data[at] ^= 0x41;
        OK(rk_file_write(path, data, n_bytes));
        expect_rows(plain, "test", WITH);
        data[at] ^= 0x41;
        OK(rk_file_write(path, data, at));
        expect_rows(plain, "test", WITH);
    }
    rk_free(data);
}

static void test_damaged_entries(void **state) {
    (void)state;
    rk_text_list names;
    uint64_t all;
    char path[1024];
    RK_AUTO(rk_buffer_release) rk_buffer plain = read_split("test", WITH);
    assert_int_equal(list_entries(&names, &all), 2);
    for (size_t i = 0; i < names.n; i++) {
        snprintf(path, sizeof path, "%s/kept/%s", directory, names.texts[i]);
        damage_each_byte(path, &plain);
    }
    rk_text_list_release(&names);
    assert_true(n_warnings > 100);
    n_warnings = 0;
    expect_rows(&plain, "test", WITH);
    assert_int_equal(n_warnings, 0);
}

static void test_bound(void **state) {
    (void)state;
    rk_text_list names;
    uint64_t all, bound = 16000;
    char more[128];
    for (int window = 20; window < 60; window += 3) {
        snprintf(more, sizeof more, "shuffle_window: %d\ncache: {path: kept, max_bytes: %d}\n", window,
                 (int)bound);
        rk_buffer rows = read_split("train", more);
        rk_buffer_release(&rows);
        size_t n = list_entries(&names, &all);
        rk_text_list_release(&names);
        assert_true(all <= bound && n >= 2);
    }
}

static void test_what_is_not_kept(void **state) {
    (void)state;
    RK_AUTO(rk_buffer_release) rk_buffer plain = read_split("train", WITHOUT);
    expect_rows(&plain, "train", "cache: {path: kept, max_bytes: 100}\n"); /* larger data */
    assert_int_equal(count_entries(), 0);
    expect_rows(&plain, "train", "cache_bytes: 0\n" WITH);
    assert_int_equal(count_entries(), 1); /* of transforms */
    int64_t begin = monotonic_ns();
    write_rows("a.csv", 0, 2);
    rk_buffer changed = read_split("train", WITH); /* not yet settled, unless the machine was slow */
    if (monotonic_ns() - begin < 50000000) assert_int_equal(count_entries(), 1);
    rk_buffer_release(&changed);
}

static void count_header_warning(void *user, rk_log_level level, const char *message) {
    (void)user;
    (void)level;
    n_warnings += strstr(message, "the first line is taken for a header") != NULL;
}

static void test_warnings_are_told_again(void **state) {
    (void)state;
    write_rows_and("a.csv", ",7", 0, 0);
    let_files_settle();
    rk_log_set(count_header_warning, NULL, RK_LOG_WARNING);
    RK_AUTO(rk_buffer_release) rk_buffer plain = read_split("train", WITHOUT);
    for (int run = 0; run < 3; run++) {
        n_warnings = 0;
        expect_rows(&plain, "train", WITH);
        assert_true(n_warnings > 0);
    }
}

/* An entry has what the files have, so who may not read all of them may not read it. */
static void test_who_may_read(void **state) {
    (void)state;
    rk_text_list names;
    uint64_t all;
    struct stat info;
    char path[1024];
    const mode_t before = umask(022);
    path_of("join.csv", path);
    for (int is_private = 0; is_private < 2; is_private++) {
        assert_int_equal(chmod(path, is_private ? 0600 : 0644), 0);
        let_files_settle();
        rk_buffer rows = read_split("test", is_private ? "shuffle_window: 20\n" WITH : WITH);
        rk_buffer_release(&rows);
        size_t n_private = 0, n = list_entries(&names, &all);
        for (size_t i = 0; i < n; i++) {
            char entry[1024];
            snprintf(entry, sizeof entry, "%s/kept/%s", directory, names.texts[i]);
            assert_int_equal(stat(entry, &info), 0);
            n_private += (info.st_mode & 0777) == 0600;
        }
        rk_text_list_release(&names);
        assert_int_equal(n, 2 + 2 * is_private);
        assert_int_equal(n_private, 2 * is_private);
    }
    umask(before);
}

static void test_folder_of_environment(void **state) {
    (void)state;
    char folder[512];
    path_of("kept", folder);
    RK_AUTO(rk_buffer_release) rk_buffer plain = read_split("test", WITHOUT);
    setenv("RK_CACHE", folder, 1);
    expect_rows(&plain, "test", "");
    assert_int_equal(count_entries(), 2);
    OK(rk_remove_tree(folder));
    setenv("RK_CACHE", "off", 1);
    expect_rows(&plain, "test", "");
    assert_int_equal(count_entries(), 0);
}

int main(void) {
    assert_non_null(mkdtemp(directory));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_second_run, set_up),
        cmocka_unit_test_setup(test_rows_are_taken, set_up),
        cmocka_unit_test_setup(test_other_content, set_up),
        cmocka_unit_test_setup(test_other_settings, set_up),
        cmocka_unit_test_setup(test_damaged_entries, set_up),
        cmocka_unit_test_setup(test_bound, set_up),
        cmocka_unit_test_setup(test_what_is_not_kept, set_up),
        cmocka_unit_test_setup(test_warnings_are_told_again, set_up),
        cmocka_unit_test_setup(test_who_may_read, set_up),
        cmocka_unit_test_setup(test_folder_of_environment, set_up),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rk_remove_tree(directory);
    return failed;
}
