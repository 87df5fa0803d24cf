/* Labels that rows may be without: through every format, reader and conversion they are the same NaN, and
 * where they may not be absent the row is named. */
#include "testing.h"

#include <math.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "data/convert.h"
#include "data/dataset/dataset.h"
#include "format/rkb/rkb.h"

enum { ROWS = 5000 };
static char directory[] = "/tmp/reckon-absent-XXXXXX";

static bool is_absent(int64_t row) {
    return row < 700 || row % 3 == 0; /* of the first pieces all */
}

static const char *path_of(const char *name) {
    static char paths[4][200];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof paths[next], "%s/%s", directory, name);
    return paths[next];
}

/* id,always,sometimes,word: the third and fourth are absent together. */
static void write_csv(const char *name, const char *absent, bool with_bad_row) {
    rk_buffer text = {0};
    rk_buffer_append_text(&text, "id,always,sometimes,word\n");
    for (int row = 0; row < ROWS; row++) {
        char value[32];
        snprintf(value, sizeof value, "%.9g", (row % 5) / 4.0);
        if (with_bad_row && row == 2000) rk_buffer_append_text(&text, "7\n");
        rk_buffer_printf(&text, "%d,%d,%s,%s\n", row, row % 2, is_absent(row) ? absent : value,
                         is_absent(row) ? absent
                         : row % 7      ? "yes"
                                        : "no");
    }
    OK(text.status);
    OK(rk_file_write(path_of(name), text.data, text.n_bytes));
    rk_buffer_release(&text);
}

static rk_status read_labels(const char *files, const char *labels, float *out, int64_t *n) {
    char text[1000];
    rk_yaml yaml;
    rk_data_section section;
    rk_transforms *transforms;
    rk_dataset *dataset;
    const rk_batch *batch;
    snprintf(text, sizeof text, "%s\nlabels: [%s]\nfeatures: [{name: id, identity: 5000}]", files, labels);
    OK(rk_yaml_parse("d.yaml", text, strlen(text), &yaml));
    OK(rk_schema_bind(&rk_data_schema_table, &yaml, yaml.root, &section));
    OK(rk_transforms_fit_section(&section, &yaml, &(rk_fit_options){.directory = directory}, &transforms));
    OK(rk_dataset_create(&section, transforms,
                         &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 300},
                         &dataset));
    rk_status status;
    for (*n = 0; (status = rk_dataset_next(dataset, &batch)) == RK_OK; *n += batch->n) {
        assert_true(*n + batch->n <= ROWS);
        memcpy(out + *n * batch->n_tasks, batch->labels, (size_t)(batch->n * batch->n_tasks) * sizeof *out);
    }
    rk_dataset_free(dataset);
    rk_transforms_free(transforms);
    rk_schema_release(&rk_data_schema_table, &section);
    rk_yaml_release(&yaml);
    return status;
}

static void check(const char *files, bool with_word) {
    static float labels[3 * ROWS];
    static const char *const two = "{name: always}, {name: sometimes, optional: true}";
    static const char *const three =
        "{name: always}, {name: sometimes, optional: true}, {name: word, positive: [\"yes\"], optional: "
        "true}";
    int n_tasks = with_word ? 3 : 2;
    int64_t n;
    assert_int_equal(read_labels(files, with_word ? three : two, labels, &n), RK_END);
    assert_int_equal(n, ROWS);
    for (int64_t row = 0; row < ROWS; row++) {
        const float *l = &labels[row * n_tasks];
        assert_true(l[0] == (float)(row % 2));
        if (is_absent(row) ? !isnan(l[1]) : l[1] != (float)(row % 5) / 4)
            fail_msg("%s: label of row %d is %g", files, (int)row, (double)l[1]);
        if (with_word) assert_true(is_absent(row) ? isnan(l[2]) : l[2] == (float)(row % 7 != 0));
    }
}

static void test_formats(void **state) {
    (void)state;
    int64_t n;
    rk_convert_options options = RK_CONVERT_OPTIONS_INIT;
    write_csv("empty.csv", "", false);
    write_csv("bad.csv", "", true);
    write_csv("marked.csv", "?", false);
    check("train: empty.csv", true);
    check("train: empty.csv\nreader_threads: 3\ncache_bytes: 0", true);
    check("train: bad.csv\non_bad_row: skip", true); /* a piece with a bad row goes row by row */
    check("train: marked.csv\nmissing: [\"?\"]", true);
    static const char *const chain[] = {"empty.csv", "a.rkb", "b.tfrecord", "c.rkb",
                                        "d.csv"}; /* from each to the next */
    for (int i = 0; i + 1 < 5; i++) {
        char files[100];
        OK(rk_data_convert(path_of(chain[i]), path_of(chain[i + 1]), &options, NULL, &n, &n));
        snprintf(files, sizeof files, "train: %s", chain[i + 1]);
        check(files, true);
    }
}

/* A NaN of an f32 column says the same as no value. */
static void test_nan_in_rkb(void **state) {
    (void)state;
    static const char *const names[] = {"id", "always", "sometimes"};
    static const rk_column_type types[] = {RK_COLUMN_I64, RK_COLUMN_I64, RK_COLUMN_F32};
    static float labels[2 * ROWS];
    rk_columns rows;
    rk_rkb_writer *writer;
    OK(rk_columns_init(&rows, 3, names, types));
    for (int row = 0; row < ROWS; row++) {
        OK(rk_column_add_i64(&rows.columns[0], row));
        OK(rk_column_add_i64(&rows.columns[1], row % 2));
        OK(rk_column_add_f32(&rows.columns[2], is_absent(row) ? NAN : (float)(row % 5) / 4));
        OK(rk_columns_end_row(&rows));
    }
    OK(rk_rkb_writer_open(path_of("nan.rkb"), 0, &writer));
    OK(rk_rkb_writer_add(writer, &rows));
    OK(rk_rkb_writer_commit(writer));
    rk_rkb_writer_free(writer);
    rk_columns_release(&rows);
    check("train: nan.rkb", false);
    int64_t n;
    char expected[300];
    snprintf(expected, sizeof expected, "'%s': line 1: the label 'sometimes' is 'nan', not a number",
             path_of("nan.rkb"));
    FAILS(read_labels("train: nan.rkb", "{name: always}, {name: sometimes}", labels, &n), RK_BAD_DATA,
          expected);
}

static void test_refusals(void **state) {
    (void)state;
    static float labels[2 * ROWS];
    int64_t n;
    char expected[400];
    write_csv("empty.csv", "", false);
    write_csv("marked.csv", "?", false);
    snprintf(expected, sizeof expected, "'%s': line 2: the label 'sometimes' is '?', not a number",
             path_of("marked.csv"));
    FAILS(read_labels("train: marked.csv", "{name: always}, {name: sometimes, optional: true}", labels, &n),
          RK_BAD_DATA, expected);
    OK(rk_file_write(path_of("late.csv"), "id,y\n1,1\n2,\n", 12));
    snprintf(
        expected, sizeof expected,
        "'%s': line 3: the label 'y' is missing\nhint: if rows may lack this label, set its 'optional: true'",
        path_of("late.csv"));
    FAILS(read_labels("train: late.csv", "{name: y}", labels, &n), RK_BAD_DATA, expected);
}

static void refused(const char *labels, const char *message) {
    char text[500];
    rk_yaml yaml;
    rk_data_section section;
    snprintf(text, sizeof text, "train: a.csv\nfeatures: [{name: id, identity: 5}]\nlabels:\n%s", labels);
    OK(rk_yaml_parse("d.yaml", text, strlen(text), &yaml));
    OK(rk_schema_bind(&rk_data_schema_table, &yaml, yaml.root, &section));
    if (message)
        FAILS(rk_data_section_check(&section, &yaml), RK_CONFIG, message);
    else
        OK(rk_data_section_check(&section, &yaml));
    rk_schema_release(&rk_data_schema_table, &section);
    rk_yaml_release(&yaml);
}

static void test_products(void **state) {
    (void)state;
    refused("  - {name: a}\n  - {name: ab, product_of: [a, b]}\n  - {name: b}", NULL);
    refused(
        "  - {name: a}\n  - {name: ab, product_of: [a]}",
        "d.yaml:5: 'ab': product_of names two labels\nhint: as in product_of: [click, bought_if_clicked]");
    refused(
        "  - {name: a}\n  - {name: ab, product_of: [a, a]}",
        "d.yaml:5: 'ab': product_of names two labels\nhint: as in product_of: [click, bought_if_clicked]");
    refused("  - {name: a}\n  - {name: ab, product_of: [a, c]}", "d.yaml:5: 'ab': there is no label 'c'");
    refused("  - {name: a}\n  - {name: ab, product_of: [a, ab]}",
            "d.yaml:5: 'ab': 'ab' is no label with a probability of its own");
    refused("  - {name: a, smoothing: 0.1}\n  - {name: b, loss: mse}", NULL);
    refused("  - {name: a}\n  - {name: b, loss: mse, smoothing: 0.1}",
            "d.yaml:5: 'b': smoothing is for labels of 0 and 1, not for mse");
    refused("  - {name: a}\n  - {name: b, loss: mse}\n  - {name: ab, product_of: [a, b]}",
            "d.yaml:6: 'ab': 'b' is no label with a probability of its own");
    refused("  - {name: a}\n  - {name: b}\n  - {name: ab, product_of: [a, b], loss: mse}",
            "d.yaml:6: 'ab': a product of probabilities is a probability: its loss is sigmoid_cross_entropy");
    refused("  - {name: a}\n  - {name: a}", "d.yaml:5: 'a': a second label of this name");
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formats), cmocka_unit_test(test_nan_in_rkb),
                                       cmocka_unit_test(test_refusals), cmocka_unit_test(test_products)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
