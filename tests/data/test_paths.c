/* Directories and patterns in place of files, and columns whose values are parts of a path. */
#include "testing.h"

#include <unistd.h>

#include "base/memory.h"
#include "data/section.h"
#include "data/source/source.h"

static char directory[] = "/tmp/reckon-paths-XXXXXX";

#include "data/written_file.h"

static void make_directory(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    OK(rk_make_directories(path));
}

static int setup(void **state) {
    (void)state;
    static const char *const days[] = {"log/day=1/hour=a%20b", "log/day=2/hour=c", "log/day=10/hour=d",
                                       "none/.at", "log/day=__HIVE_DEFAULT_PARTITION__"};
    if (!mkdtemp(directory)) return -1;
    for (size_t i = 0; i < sizeof days / sizeof days[0]; i++) make_directory(days[i]);
    write_file("log/day=1/hour=a%20b/2.csv", "x\n3\n");
    write_file("log/day=1/hour=a%20b/1.csv", "x\n1\n2\n");
    write_file("log/day=2/hour=c/0.csv", "x\n4\n");
    write_file("log/day=10/hour=d/0.csv", "x,hour\n5,own\n");
    write_file("log/day=__HIVE_DEFAULT_PARTITION__/0.csv", "x,hour\n6,\n");
    write_file("log/_SUCCESS", "");
    write_file("log/.0.csv.crc", "");
    write_file("none/.at/0.csv", "x\n1\n");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    return rk_remove_tree(directory) != RK_OK || rk_alloc_live() != 0;
}

/* The paths below the directory that a path or a pattern stands for. */
static void check_paths(const char *pattern, const char *const *wanted, size_t n) {
    rk_text_list found = {0};
    char *given = (char *)(size_t)pattern;
    OK(rk_expand_paths(directory, &given, 1, &found));
    assert_int_equal(found.n, n);
    for (size_t i = 0; i < n; i++) assert_string_equal(found.texts[i] + strlen(directory) + 1, wanted[i]);
    rk_text_list_release(&found);
}

static void test_directories(void **state) {
    (void)state;
    static const char *const all[] = {"log/day=1/hour=a%20b/1.csv", "log/day=1/hour=a%20b/2.csv",
                                      "log/day=10/hour=d/0.csv", "log/day=2/hour=c/0.csv",
                                      "log/day=__HIVE_DEFAULT_PARTITION__/0.csv"};
    static const char *const first[] = {"log/day=1/hour=a%20b/1.csv", "log/day=1/hour=a%20b/2.csv",
                                        "log/day=10/hour=d/0.csv"};
    static const char *const zeros[] = {"log/day=10/hour=d/0.csv", "log/day=2/hour=c/0.csv"};
    check_paths("log", all, 5);
    check_paths("log/", all, 5);
    check_paths("log/day=1*", first, 3);
    check_paths("log/day=1*/", first, 3);
    check_paths("log/*/*/0.csv", zeros, 2);
    rk_text_list found = {0};
    char *pattern = "none";
    assert_int_equal(rk_expand_paths(directory, &pattern, 1, &found), RK_NOT_FOUND);
    assert_non_null(strstr(rk_last_error(), "there is no file in the directory '"));
    rk_text_list_release(&found);
}

/* The rows of a split as "x/day/hour;", by a source of these columns. */
static rk_status show_rows(const char *path, rk_data_section *section, char out[512]) {
    static const char *const wanted[] = {"x", "day", "hour"};
    RK_AUTO(rk_text_list_release) rk_text_list paths = {0};
    RK_AUTO(rk_source_auto_free) rk_source *source = NULL;
    char *given = (char *)(size_t)path;
    const rk_chunk *chunk;
    *out = 0;
    RK_TRY(rk_expand_paths(directory, &given, 1, &paths));
    const rk_source_options options = {.section = section,
                                       .paths = (const char *const *)paths.texts,
                                       .n_paths = paths.n,
                                       .wanted = wanted,
                                       .n_wanted = 3};
    RK_TRY(rk_source_open(&options, &source));
    while (true) {
        RK_TRY(rk_source_read_chunk(source, &chunk));
        if (chunk->columns.n_rows == 0) return RK_OK;
        for (int64_t row = 0; row < chunk->columns.n_rows; row++)
            for (int c = 0; c < 3; c++) {
                const rk_column *column = &chunk->columns.columns[c];
                assert_true(column->offsets[row + 1] - column->offsets[row] <= 1);
                if (column->offsets[row + 1] > column->offsets[row]) {
                    rk_span text = rk_column_text(column, column->offsets[row]);
                    strncat(out, text.data, text.n_bytes);
                }
                strcat(out, c < 2 ? "/" : ";");
            }
    }
}

static void test_columns_of_paths(void **state) {
    (void)state;
    char rows[512], *missing[] = {"2", "d"};
    rk_data_section section = {.trim = true};
    OK(show_rows("log", &section, rows));
    assert_string_equal(rows, "1/1/a b;2/1/a b;3/1/a b;5/10/own;4/2/c;6//;");
    section.missing = missing;
    section.n_missing = 2;
    OK(show_rows("log", &section, rows));
    assert_string_equal(rows, "1/1/a b;/1/a b;3/1/a b;5/10/own;4//c;6//;");
    write_file("log/day=2/1.csv", "x\n7\n");
    assert_int_equal(show_rows("log", &section, rows), RK_CONFIG);
    assert_non_null(strstr(rk_last_error(), "log/day=2/1.csv' has no column 'hour'"));
}

/* A model of them: transforms see them as any other column. */
static void test_features(void **state) {
    (void)state;
    opened o;
    const rk_batch *batch;
    OK(open_section(&o, directory,
                    "train: log/day=1*\nlabels: [{name: y, column: x, loss: mse}]\nshuffle: false\n"
                    "features: [{name: day, identity: 100}, {name: hour, vocabulary: {}}]\n"));
    const rk_dataset_options options = {.directory = directory, .split = "train", .batch_size = 8};
    OK(rk_dataset_create(&o.section, o.transforms, &options, &o.dataset));
    OK(rk_dataset_next(o.dataset, &batch));
    assert_int_equal(batch->n, 4);
    static const int64_t days[] = {1, 1, 1, 10}, hours[] = {1, 1, 1, 2};
    assert_memory_equal(batch->features[0].ids, days, sizeof days);
    assert_memory_equal(batch->features[1].ids, hours, sizeof hours);
    close_section(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directories),
        cmocka_unit_test(test_features),
        cmocka_unit_test(test_columns_of_paths),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
