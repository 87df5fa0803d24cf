/* A program that has set a locale with a comma in its numbers: files, logs, configurations and predictions
 * are the same to the byte. Where no such locale is there, localedef makes one; where that cannot, nothing is
 * tested, and said so. */
#include "testing.h"

#include <locale.h>
#include <unistd.h>

#include <jansson.h>
#include <reckon/experimental/report.h>
#include <reckon/reckon.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/text.h"

static char directory[] = "/tmp/reckon-locale-XXXXXX";

static bool has_comma(void) {
    return strcmp(localeconv()->decimal_point, ",") == 0;
}

static bool set_comma_locale(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (setlocale(LC_ALL, names[i]) && has_comma()) return true;
    char source[100], command[300];
    static const char *const text =
        "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n";
    snprintf(source, sizeof source, "%s/comma.locale", directory);
    snprintf(command, sizeof command,
             "localedef -c --no-archive -i %s -f ANSI_X3.4-1968 %s/xx_XX >/dev/null 2>&1", source, directory);
    OK(rk_file_write(source, text, strlen(text)));
    if (system(command) != 0) print_message("localedef: warnings or none\n");
    setenv("LOCPATH", directory, 1);
    return setlocale(LC_NUMERIC, "xx_XX") && has_comma();
}

static char *path_of(const char *run, const char *name) {
    static char paths[4][300];
    static int at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s/%s", directory, run, name);
    return path;
}

static void add_file(rk_buffer *out, const char *path) {
    char *text;
    size_t n;
    OK(rk_file_read(path, &text, &n));
    rk_buffer_append(out, text, n);
    rk_free(text);
}

static rk_status add_prediction(void *user, int64_t row, const float *predictions, const float *labels) {
    (void)labels;
    rk_buffer_append(user, &row, sizeof row);
    rk_buffer_append(user, predictions, sizeof *predictions);
    return RK_OK;
}

/* Losses of the log, which must be JSON in every locale. */
static void add_losses(rk_buffer *out, const char *path) {
    char *text, *rest;
    size_t n;
    OK(rk_file_read(path, &text, &n));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        json_t *entry = json_loads(line, 0, NULL);
        assert_non_null(entry);
        double loss = json_number_value(json_object_get(entry, "loss"));
        rk_buffer_append(out, &loss, sizeof loss);
        json_decref(entry);
    }
    rk_free(text);
}

static void write_data(const char *run) {
    rk_buffer csv = {0};
    rk_buffer_append_text(&csv, "x,word,y\n");
    for (int i = 0; i < 200; i++)
        rk_buffer_printf(&csv, "%d.%03d,%d.5,%d\n", i % 7, i * 37 % 1000, i % 5, (i * 7 + i / 3) % 2);
    OK(csv.status);
    OK(rk_make_directories(path_of(run, "")));
    OK(rk_file_write(path_of(run, "data.csv"), csv.data, csv.n_bytes));
    rk_buffer_release(&csv);
}

/* Trains, converts, predicts; everything that must not depend on the locale, but for the run's name. */
static rk_buffer everything(const char *run) {
    static const char *const format =
        "data:\n  train: data.csv\n  valid: {fraction: 0.25}\n  labels: [{name: y, smoothing: 0.125}]\n"
        "  features: [{name: x, dense: true, normalize: true}, {name: q, column: x, quantiles: 7}, {name: b, "
        "column: x, bucketize: [0.5, 2.25]}, {name: word, vocabulary: {}}]\n"
        "embedding: {dim: 4}\nmodel: {kind: dnn, deep: [8]}\n"
        "train: {batch_size: 20, epochs: 2, output: %s, log_every: 1, optimizer: {kind: adam, learning_rate: "
        "0.0125}}\n";
    rk_buffer out = {0};
    rk_config *config;
    rk_trainer *trainer;
    rk_predictor *predictor;
    char *text;
    int64_t n;
    char output[300];
    snprintf(output, sizeof output, "%s", path_of(run, "out"));
    const char *runs[] = {output};
    char yaml[1000];
    snprintf(yaml, sizeof yaml, format, runs[0]);
    write_data(run);
    OK(rk_file_write(path_of(run, "run.yaml"), yaml, strlen(yaml)));
    OK(rk_config_load(path_of(run, "run.yaml"), NULL, 0, &config));
    OK(rk_trainer_create(config, &(rk_trainer_options)RK_TRAINER_OPTIONS_INIT, &trainer));
    OK(rk_trainer_run(trainer));
    rk_trainer_free(trainer);
    OK(rk_config_to_yaml(config, &text));
    *strstr(text, "output:") = 0; /* the run's name stands there */
    rk_buffer_append_text(&out, text);
    rk_text_free(text);
    rk_config_free(config);
    add_losses(&out, path_of(run, "out/metrics.jsonl"));
    OK(rk_convert(path_of(run, "data.csv"), path_of(run, "data.rkb"), NULL, &n, &n));
    OK(rk_convert(path_of(run, "data.rkb"), path_of(run, "again.csv"), NULL, &n, &n));
    add_file(&out, path_of(run, "again.csv"));
    OK(rk_predictor_open(runs[0], NULL, &predictor));
    OK(rk_predictor_file(predictor, path_of(run, "data.rkb"), add_prediction, &out));
    char transforms[400];
    snprintf(transforms, sizeof transforms, "%s/transforms.json", rk_predictor_path(predictor));
    add_file(&out, transforms);
    rk_predictor_free(predictor);
    OK(rk_report_write(runs, 1, NULL, path_of(run, "report.html")));
    return out;
}

/* No number of an SVG's coordinates, or of a table, has a comma. */
static void check_report(const char *run) {
    rk_buffer page = {0};
    add_file(&page, path_of(run, "report.html"));
    for (size_t i = 1; i + 1 < page.n_bytes; i++) {
        bool is_decimal = page.data[i] == ',' && page.data[i - 1] == '0' && page.data[i + 1] >= '0' &&
                          page.data[i + 1] <= '9' && i > 1 &&
                          (page.data[i - 2] == '>' || page.data[i - 2] == '"');
        if (is_decimal) fail_msg("the report has '%.30s'", page.data + i - 2);
    }
    rk_buffer_release(&page);
}

static void test_comma(void **state) {
    (void)state;
    char number[20];
    rk_buffer plain = everything("plain");
    if (!set_comma_locale()) {
        print_message("skipped: there is no locale with a decimal comma, and localedef makes none\n");
        rk_buffer_release(&plain);
        skip();
    }
    snprintf(number, sizeof number, "%.1f", 0.5);
    assert_string_equal(number, "0,5");
    rk_snprintf(number, sizeof number, "%.1f", 0.5);
    assert_string_equal(number, "0.5");
    rk_buffer comma = everything("comma");
    assert_true(has_comma()); /* it stays as it was */
    assert_int_equal(comma.n_bytes, plain.n_bytes);
    assert_memory_equal(comma.data, plain.data, plain.n_bytes);
    check_report("comma");
    assert_int_equal(rk_error(RK_CONFIG, "%g", 0.25), RK_CONFIG);
    assert_string_equal(rk_last_error(), "0.25");
    rk_buffer_release(&plain);
    rk_buffer_release(&comma);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[300];
    setlocale(LC_ALL, "C");
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_comma)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
