/* Rows with fewer numbers than a feature takes, or without a weight: bad rows with their place, or what the
 * run file puts in the place of what is missing. */
#include "testing.h"

#include <math.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "data/convert.h"
#include "data/section.h"

static char directory[] = "/tmp/reckon-incomplete-XXXXXX";

static char *path_of(const char *name) {
    static char paths[2][300];
    static int at;
    char *path = paths[at++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static const struct {
    const char *text, *section;
    float values[8]; /* dense numbers of all rows, or their weights */
    int n;
    const char *message; /* NULL: none */
} cases[] = {
    {"x,y\n1|2|3,1\n4|5|6,0\n",
     "features: [{name: x, dense: true, width: 3, separator: \"|\"}]",
     {1, 2, 3, 4, 5, 6},
     6,
     NULL},
    {"x,y\n1|2|3,1\n,0\n",
     "features: [{name: x, dense: true, width: 3, separator: \"|\"}]",
     {1, 2, 3, 0, 0, 0},
     6,
     NULL},
    {"x,y\n1|2|3,1\n,0\n",
     "features: [{name: x, dense: true, width: 3, separator: \"|\", default_value: \"7\"}]",
     {1, 2, 3, 7, 7, 7},
     6,
     NULL},
    {"x,y\n1|2|3,1\n4|5,0\n",
     "features: [{name: x, dense: true, width: 3, separator: \"|\"}]",
     {0},
     0,
     "line 3: column 'x': 2 numbers, but the feature's 'width' is 3"},
    {"x,y\n1|2|3,1\n4||5,0\n",
     "features: [{name: x, dense: true, width: 3, separator: \"|\"}]",
     {0},
     0,
     "line 3: column 'x': 2 numbers, but the feature's 'width' is 3"},
    {"x,y\n4,0\n",
     "features: [{name: x, dense: true, width: 3, separator: \"|\"}]",
     {0},
     0,
     "line 2: column 'x': 1 numbers, but the feature's 'width' is 3"},
    {"x,y\n4,0\n",
     "features: [{name: x, dense: true, width: 2}]",
     {0},
     0,
     "line 2: column 'x': 1 numbers, but the feature's 'width' is 2"},
    {"x,y\n1|2|3|4,1\n",
     "features: [{name: x, dense: true, width: 3, separator: \"|\"}]",
     {0},
     0,
     "line 2: column 'x': more than 3 numbers"},
    {"x,y\n1|2,1\n1,1\n3|4,0\n",
     "on_bad_row: skip\nfeatures: [{name: x, dense: true, width: 2, separator: \"|\"}]",
     {1, 2, 3, 4},
     4,
     NULL},
    {"x,w,y\n1,0.5,1\n2,2,0\n", "sample_weight: w\nfeatures: [{name: x, hash: 5}]", {0.5F, 2}, 2, NULL},
    {"x,w,y\n1,0.5,1\n2,,0\n",
     "sample_weight: w\nfeatures: [{name: x, hash: 5}]",
     {0},
     0,
     "line 3: column 'w': the sample weight is missing\nhint: to give such rows a weight, set "
     "default_sample_weight: 1"},
    {"x,w,y\n1,,1\n2,,0\n",
     "sample_weight: w\nfeatures: [{name: x, hash: 5}]",
     {0},
     0,
     "line 2: column 'w': the sample weight is missing"},
    {"x,w,y\n1,0.5,1\n2,,0\n",
     "sample_weight: w\ndefault_sample_weight: 1\nfeatures: [{name: x, hash: 5}]",
     {0.5F, 1},
     2,
     NULL},
    {"x,w,y\n1,,1\n2,?,0\n",
     "sample_weight: w\ndefault_sample_weight: 0\nmissing: [\"?\"]\nfeatures: [{name: x, hash: 5}]",
     {0, 0},
     2,
     NULL},
    {"x,w,y\n1,-1,1\n",
     "sample_weight: w\ndefault_sample_weight: 1\nfeatures: [{name: x, hash: 5}]",
     {0},
     0,
     "line 2: column 'w': a sample weight must be a number of 0 or more"},
    {"x,w,y\n1,1,1\n",
     "default_sample_weight: 1\nfeatures: [{name: x, hash: 5}]",
     {0},
     0,
     "'default_sample_weight': needs sample_weight, the weights' column"},
};

/* The numbers of all rows, dense or weights; what is wrong is in rk_last_error. */
static rk_status read_numbers(const char *file, const char *section, float *out, int *n) {
    opened o;
    const rk_batch *b;
    char text[500];
    *n = 0;
    snprintf(text, sizeof text, "train: %s\nlabels: [{name: y}]\n%s", file, section);
    rk_status status = open_section(&o, directory, text);
    if (status == RK_OK)
        status = rk_dataset_create(
            &o.section, o.transforms,
            &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 10}, &o.dataset);
    while (status == RK_OK && (status = rk_dataset_next(o.dataset, &b)) == RK_OK)
        for (int64_t i = 0; i < b->n * (b->sample_weights ? 1 : b->n_dense); i++)
            out[(*n)++] = b->sample_weights ? b->sample_weights[i] : b->dense[i];
    close_section(&o);
    return status == RK_END ? RK_OK : status;
}

static void test_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float values[16];
        int n;
        OK(rk_file_write(path_of("a.csv"), cases[i].text, strlen(cases[i].text)));
        rk_status status = read_numbers("a.csv", cases[i].section, values, &n);
        if ((status != RK_OK) != (cases[i].message != NULL) ||
            (cases[i].message && !strstr(rk_last_error(), cases[i].message)))
            fail_msg("case %zu: %s", i, status == RK_OK ? "no error" : rk_last_error());
        if (cases[i].message) continue;
        assert_int_equal(n, cases[i].n);
        assert_memory_equal(values, cases[i].values, (size_t)n * sizeof *values);
    }
}

/* The same of values that are numbers already. */
static void test_typed_rows(void **state) {
    (void)state;
    int64_t n_rows;
    rk_convert_options options = RK_CONVERT_OPTIONS_INIT;
    static const char *const text = "1 1:1 2:1\n0 3:1 4:1\n1\n0 5:1\n";
    OK(rk_file_write(path_of("a.libsvm"), text, strlen(text)));
    OK(rk_data_convert(path_of("a.libsvm"), path_of("a.rkb"), &options, NULL, &n_rows, &n_rows));
    char expected[400];
    opened o;
    OK(open_section(&o, directory,
                    "train: a.rkb\nfeatures: [{name: ids, dense: true, width: 2}]\nlabels: [{name: label}]"));
    const rk_batch *b;
    OK(rk_dataset_create(&o.section, o.transforms,
                         &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 10},
                         &o.dataset));
    snprintf(expected, sizeof expected,
             "'%s': line 4: column 'ids': 1 numbers, but the feature's 'width' is 2", path_of("a.rkb"));
    FAILS(rk_dataset_next(o.dataset, &b), RK_BAD_DATA, expected);
    close_section(&o);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_typed_rows)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
