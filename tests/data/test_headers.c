/* First lines that are headers and first lines that are rows: none is taken for the other without a word, and
 * each split has its own way. */
#include "testing.h"

#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "data/convert.h"
#include "data/section.h"

static char directory[] = "/tmp/reckon-headers-XXXXXX";
static int n_warnings;

static char *path_of(const char *name) {
    static char paths[2][300];
    static int at;
    char *path = paths[at++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static void write_text(const char *name, const char *text) {
    OK(rk_file_write(path_of(name), text, strlen(text)));
}

/* Rows of a split; what is wrong is in rk_last_error. */
static rk_status count_rows(const char *section, const char *split, int64_t *n_rows) {
    opened o;
    const rk_batch *b;
    char text[1000];
    snprintf(
        text, sizeof text,
        "%s\nlabels: [{name: y, positive: [\"1\"]}]\nfeatures: [{name: a, hash: 9}, {name: b, hash: 9}]\n",
        section);
    rk_status status = open_section(&o, directory, text);
    *n_rows = 0;
    if (status == RK_OK)
        status = rk_dataset_create(
            &o.section, o.transforms,
            &(rk_dataset_options){.directory = directory, .split = split, .batch_size = 3}, &o.dataset);
    if (status == RK_OK) status = rk_dataset_check(o.dataset);
    while (status == RK_OK && (status = rk_dataset_next(o.dataset, &b)) == RK_OK) *n_rows += b->n;
    close_section(&o);
    return status == RK_END ? RK_OK : status;
}

static const struct {
    const char *text, *section;
    int n_rows;
    const char *message; /* part of it; NULL: none */
} cases[] = {
    {"a,b,y\n5,6,1\n7,8,0\n", "", 2, NULL},
    {"a,b,y\n5,6,1\n", "columns: [a, b, y]\nheader: true", 1, NULL},
    {"5,6,1\n7,8,0\n", "columns: [a, b, y]", 2, NULL},
    {"5,6,1\n7,8,0\n", "columns: [a, b, y]\nheader: false", 2, NULL},
    {"# 1,2,3\n\na,b,y\n5,6,1\n", "comment: \"#\"\ncolumns: [a, b, y]\nheader: true", 1, NULL},
    {"A,B,label\n5,6,1\n", "columns: [a, b, y]\nheader: true", 1, "warning"},
    {"A,b,Y\n5,6,1\n", "columns: [a, b, y]\nheader: true", 1, NULL},
    {"0,1,2\n5,6,1\n", "columns: [a, b, y]\nheader: true", 1, NULL},
    {"w,w,y\n5,6,1\n", "columns: [a, b, y]\nheader: true", 1, NULL},
    {"5,6,1\n7,8,0\n", "columns: [a, b, y]\nheader: true", 0,
     "the first line is no header: it has the number '5', and none of the names of data.columns\nhint: "
     "header: false, or header beside the split's path, says that the first line is a row"},
    {"five,six,1\n7,8,0\n", "columns: [a, b, y]\nheader: true", 0,
     "the first line is no header: it has the number '1'"},
    {"five,six,yes\n7,8,0\n", "columns: [a, b, y]\nheader: true", 1, "warning"},
    {"y,a,b\n1,5,6\n", "columns: [a, b, y]\nheader: true", 0,
     "the header line calls column 1 'y', which data.columns calls 'a'\nhint: without data.columns"},
    {"a,b\n5,6\n", "columns: [a, b, y]\nheader: true", 0,
     "the header line has 2 fields, and data.columns 3 names"},
    {"a,b,y\n5,6,1\n", "columns: [a, b, y]", 0,
     "the first line is a header: 3 of its fields are names of data.columns\nhint: header: true"},
    {"# x\n\n\"a\",b,label\n5,6,1\n", "comment: \"#\"\ncolumns: [a, b, y]\nheader: false", 0,
     "the first line is a header: 2 of its fields"},
    {"a,6,1\n7,8,0\n", "columns: [a, b, y]", 2, NULL},
    {"a,b,y,7\n5,6,1,0\n", "", 1, "warning"},
    {"a,b,y\n", "header: false", 0,
     "has no header line (header: false), and no columns are listed\nhint: name them: columns: [...]"},
    {"", "columns: [a, b, y]", 0, "has no rows"},
    {"", "columns: [a, b, y]\nheader: true", 0, "is empty: it has no header line"},
};

static void count_warnings(void *user, rk_log_level level, const char *message) {
    (void)user;
    n_warnings += level == RK_LOG_WARNING && strstr(message, "the first line is taken for a header");
}

static void test_first_lines(void **state) {
    (void)state;
    rk_log_set(count_warnings, NULL, RK_LOG_WARNING);
    write_text("train.rkb.csv", "a,b,y\n1,2,1\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char section[300];
        int64_t n;
        bool warns = cases[i].message && strcmp(cases[i].message, "warning") == 0,
             fails = cases[i].message && !warns;
        write_text("f.csv", cases[i].text);
        snprintf(section, sizeof section, "train: {path: train.rkb.csv, header: true}\ntest: f.csv\n%s",
                 cases[i].section);
        n_warnings = 0;
        rk_status status = count_rows(section, "test", &n);
        if ((status != RK_OK) != fails || (fails && !strstr(rk_last_error(), cases[i].message)))
            fail_msg("case %zu: %d rows; %s", i, (int)n, status == RK_OK ? "no error" : rk_last_error());
        assert_int_equal(n_warnings > 0, warns);
        if (!fails) assert_int_equal(n, cases[i].n_rows);
    }
    rk_log_set(NULL, NULL, RK_LOG_WARNING);
}

/* Each split in another manner, and the files that are joined to all of them in the data's. */
static void test_splits(void **state) {
    (void)state;
    static const char *const section =
        "train: {path: train.data, format: tsv, header: true}\n"
        "valid: {path: valid.data, separator: \";\", columns: [y, b, key]}\n"
        "test: {path: [test.txt], header: true, separator: \"|\"}\n"
        "columns: [key, b, y]\njoins: [{path: join.csv, key: key, columns: [key, a]}]";
    int64_t n;
    write_text("join.csv", "k1,x\nk2,z\n");
    write_text("train.data", "y\tkey\tb\n1\tk1\t5\n0\tk2\t6\n1\tk1\t7\n");
    write_text("valid.data", "1;5;k1\n0;6;k2\n");
    write_text("test.txt", "b|y|key\n5|0|k1\n");
    write_text("alone.csv", "k1,5,1\nk1,5,1\nk2,5,0\nk2,5,0\n");
    OK(count_rows(section, "train", &n));
    assert_int_equal(n, 3);
    OK(count_rows(section, "valid", &n));
    assert_int_equal(n, 2);
    OK(count_rows(section, "test", &n));
    assert_int_equal(n, 1);
    OK(count_rows(section, path_of("alone.csv"), &n)); /* in the data's manner */
    assert_int_equal(n, 4);
    OK(count_rows(section, path_of("valid.data"), &n)); /* one of the split's is in the split's */
    assert_int_equal(n, 2);
}

/* Typed training data, text to test on, packed or not. */
static void test_formats(void **state) {
    (void)state;
    static const char *const tests[] = {"t.csv", "{path: t.tsv.data, format: tsv, columns: [a, b, y]}",
                                        "t.tfrecord",
                                        "{path: t.unknown, format: csv, header: false, columns: [a, b, y]}"};
    int64_t n;
    write_text("t.csv", "a,b,y\n5,6,1\n7,8,0\n");
    write_text("t.tsv.data", "5\t6\t1\n7\t8\t0\n");
    write_text("t.unknown", "5,6,1\n7,8,0\n");
    rk_convert_options options = RK_CONVERT_OPTIONS_INIT;
    OK(rk_data_convert(path_of("t.csv"), path_of("t.rkb"), &options, NULL, &n, &n));
    OK(rk_data_convert(path_of("t.csv"), path_of("t.tfrecord"), &options, NULL, &n, &n));
    for (size_t i = 0; i < 4; i++) {
        char section[300];
        snprintf(section, sizeof section, "train: {path: t.rkb, format: rkb}\ntest: %s", tests[i]);
        OK(count_rows(section, "test", &n));
        assert_int_equal(n, 2);
    }
    FAILS(count_rows("train: t.csv\ntest: {fraction: 0.5, header: false}", "test", &n), RK_CONFIG,
          "d.yaml:2: 'test': format, separator, header and columns belong to files of its own; a fraction is "
          "of train's");
    assert_int_equal(count_rows("train: t.csv\ntest: {path: t.csv, separator: \"::\"}", "test", &n),
                     RK_CONFIG);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_lines), cmocka_unit_test(test_splits),
                                       cmocka_unit_test(test_formats)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
