/* Whole reports of small runs: importance by permutation, the page, and what is said of runs that cannot be
 * looked at. */
#include "testing.h"

#include <math.h>
#include <unistd.h>

#include <reckon/experimental/report.h>
#include <reckon/trainer.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "report/html_check.h"
#include "report/importance.h"
#include "report/report_page.h"
#include "serve/predictor_internal.h"

static char directory[] = "/tmp/reckon-report-XXXXXX";
static char first_run[64], second_run[64];

/* `told` and `x` tell the label, `noise` tells nothing; `still` has a table that stays zero, so the model
 * makes nothing of it. */
static const char *const run_text =
    "data:\n"
    "  train: a.csv\n"
    "  valid: {fraction: 0.4}\n"
    "  labels: [{name: y}, {name: <z>, column: z, loss: mse}]\n"
    "  features:\n"
    "    - {name: noise, hash: 20}\n"
    "    - {name: told, separator: \"|\", hash: 300}\n"
    "    - {name: still, hash: 20}\n"
    "    - {name: x, dense: true}\n"
    "    - {name: same, dense: true}\n"
    "embedding:\n"
    "  dim: 4\n"
    "  tables:\n"
    "    - {name: noise, rows: 20}\n"
    "    - {name: told, rows: 300}\n"
    "    - {name: still, rows: 20, initializer: zeros, trainable: false}\n"
    "  features:\n"
    "    - {name: noise, table: noise}\n"
    "    - {name: told, table: told}\n"
    "    - {name: still, table: still}\n"
    "model: {kind: dnn, deep: [8]}\n"
    "train: {batch_size: 64, epochs: 6, optimizer: {kind: adam, learning_rate: 0.02}}\n";

static void make_data(void) {
    char path[256];
    snprintf(path, sizeof path, "%s/a.csv", directory);
    FILE *file = fopen(path, "w");
    rk_rng rng = {1, 1, 0};
    fprintf(file, "noise,told,still,x,same,y,z\n");
    for (int i = 0; i < 1500; i++) {
        int y = (int)rk_rng_below(&rng, 2);
        double x = y + rk_rng_normal(&rng);
        fprintf(file, "n%d,t%d|u%d,s%d,%.3f,7,%d,%.3f\n", (int)rk_rng_below(&rng, 9), y,
                (int)rk_rng_below(&rng, 4), (int)rk_rng_below(&rng, 9), x, y, 2 * x);
    }
    fclose(file);
}

static void train(const char *output, const char *setting) {
    char override[200];
    snprintf(override, sizeof override, "train.output=%s", output);
    const char *overrides[] = {override, setting};
    rk_config *config;
    rk_trainer *trainer;
    const rk_metric *metrics;
    int32_t n;
    OK(rk_config_parse(run_text, "run.yaml", directory, overrides, setting ? 2 : 1, &config));
    OK(rk_trainer_create(config, NULL, &trainer));
    OK(rk_trainer_run(trainer));
    assert_int_equal(rk_trainer_evaluate(trainer, "test", &metrics, &n), RK_NOT_FOUND);
    rk_trainer_free(trainer);
    rk_config_free(config);
}

static int set_up(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    make_data();
    snprintf(first_run, sizeof first_run, "%s/first", directory);
    snprintf(second_run, sizeof second_run, "%s/second", directory);
    train(first_run, NULL);
    train(second_run, "embedding.dim=2");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    rk_remove_tree(directory);
    return 0;
}

static double importance_of(const rk_importance *importance, const char *name, int32_t task) {
    for (int32_t f = 0; f < importance->n_features; f++)
        if (strcmp(importance->names[f], name) == 0) return importance->mean[f * importance->n_tasks + task];
    fail_msg("no feature '%s'", name);
    return NAN;
}

static void test_importance(void **state) {
    (void)state;
    rk_predictor *predictor;
    rk_samples samples;
    rk_importance importance, again;
    rk_importance_options options = {.n_repeats = 3, .seed = 5};
    OK(rk_predictor_open(first_run, NULL, &predictor));
    OK(rk_samples_collect(predictor, "valid", 0, &samples));
    OK(rk_importance_measure(predictor, &samples, &options, &importance));
    assert_int_equal(importance.n_features, 5);
    assert_int_equal(importance.n_tasks, 2);
    double told = importance_of(&importance, "told", 0), noise = importance_of(&importance, "noise", 0);
    if (!(told > 0.05 && told > 5 * fabs(noise) && fabs(noise) < 0.03))
        fail_msg("told %g, noise %g", told, noise);
    assert_true(importance_of(&importance, "x", 1) > 0.5 &&
                importance_of(&importance, "x", 1) > 5 * fabs(importance_of(&importance, "noise", 1)));
    for (int32_t task = 0; task < 2; task++) {
        assert_true(importance_of(&importance, "still", task) == 0);
        assert_true(importance_of(&importance, "same", task) == 0);
    }
    for (int32_t i = 0; i < 10; i++)
        assert_true(importance.low[i] <= importance.mean[i] + 1e-12 &&
                    importance.mean[i] <= importance.high[i] + 1e-12);
    OK(rk_importance_measure(predictor, &samples, &options, &again));
    assert_memory_equal(importance.mean, again.mean, 10 * sizeof *again.mean);
    rk_importance_release(&again);
    rk_importance_release(&importance);
    rk_samples_release(&samples);
    rk_predictor_free(predictor);
}

/* The samples kept are those that the predictor tells of, first to last. */
typedef struct told {
    const rk_samples *samples;
    int64_t n;
} told;

static rk_status compare_row(void *user, int64_t row, const float *predictions, const float *labels) {
    told *t = user;
    if (row >= t->samples->n) return RK_END;
    assert_memory_equal(predictions, t->samples->predictions + row * 2, 2 * sizeof *predictions);
    assert_memory_equal(labels, t->samples->labels + row * 2, 2 * sizeof *labels);
    t->n++;
    return RK_OK;
}

static void test_samples(void **state) {
    (void)state;
    rk_predictor *predictor;
    OK(rk_predictor_open(first_run, NULL, &predictor));
    for (int64_t most = 0; most <= 130; most += 65) {
        rk_samples samples;
        OK(rk_samples_collect(predictor, "valid", most, &samples));
        if (most)
            assert_int_equal(samples.n, most);
        else
            assert_in_range(samples.n, 500, 700);
        told t = {.samples = &samples};
        rk_status status = rk_predictor_file(predictor, "valid", compare_row, &t);
        assert_true(status == RK_OK || status == RK_END);
        assert_int_equal(t.n, samples.n);
        rk_samples_release(&samples);
    }
    rk_predictor_free(predictor);
}

static char *page_of(const char *const *runs, size_t n, const rk_report_options *options) {
    char path[100], *text;
    size_t n_bytes;
    snprintf(path, sizeof path, "%s/page.html", directory);
    OK(rk_report_write(runs, n, options, path));
    OK(rk_file_read(path, &text, &n_bytes));
    return text;
}

static void test_page(void **state) {
    (void)state;
    const char *runs[] = {first_run, second_run};
    char title[200];
    rk_report_options options = RK_REPORT_OPTIONS_INIT;
    options.n_features = 2;
    char *text = page_of(runs, 2, &options);
    static const char *const held[] = {"<title>first and second</title>",
                                       "embedding.dim",
                                       "ROC curve",
                                       "Calibration: share of positives",
                                       "Calibration: mean label",
                                       "Importance of features",
                                       "3 more features are at or below",
                                       "validation &lt;z&gt;/rmse",
                                       "best of each metric while training"};
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++)
        if (!strstr(text, held[i])) fail_msg("the page does not hold '%s'", held[i]);
    static const char *const missing[] = {"<z>",     "nan",          "inf ",     "http",
                                          "<script", "train.output", "test data"};
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++)
        if (strstr(text, missing[i])) fail_msg("the page holds '%s'", missing[i]);
    rk_free(text);
    const char *twice[] = {first_run, first_run};
    text = page_of(twice, 2, &options);
    snprintf(title, sizeof title, "<title>first and %s</title>", first_run);
    assert_non_null(strstr(text, title));
    assert_null(strstr(text, "settings that differ"));
    rk_free(text);
    options.n_features = 0;
    text = page_of(runs, 1, &options);
    assert_null(strstr(text, "Importance"));
    assert_null(strstr(text, "settings that differ"));
    rk_free(text);
}

/* Names, settings and tasks of any bytes. */
static void test_any_bytes(void **state) {
    (void)state;
    static const char *const bad[] = {"<p>",
                                      "<p></b>",
                                      "<script></script>",
                                      "<p onclick=\"x\"></p>",
                                      "<p class=x></p>",
                                      "a & b",
                                      "\xff",
                                      "\033[m",
                                      "<p title=\"<\"></p>",
                                      "a < b"};
    static char texts[][40] = {"<script>alert(1)</script>",        "\" onload=\"x", "'&amp;<!--",
                               "\033[31m\xff\xc2\x9b\xed\xa0\x80", "]]>[a].b][",    "größe 日本"};
    enum { N_TEXTS = sizeof texts / sizeof texts[0] };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_non_null(html_check(bad[i], strlen(bad[i])));
    for (size_t i = 0; i < N_TEXTS; i++) {
        rk_report_task task = {.name = texts[i], .binary = true};
        rk_setting settings[] = {{texts[(i + 1) % N_TEXTS], texts[i]},
                                 {texts[(i + 2) % N_TEXTS], texts[(i + 3) % N_TEXTS]}};
        rk_report_run runs[] = {
            {.name = texts[i], .n_rows = 1, .tasks = &task, .n_tasks = 1, .settings = {settings, 1, 1}},
            {.name = texts[(i + 1) % N_TEXTS], .settings = {settings + 1, 1, 1}}};
        rk_buffer page = {0};
        OK(rk_report_write_page(runs, 2, texts[(i + 4) % N_TEXTS], 0, &page));
        const char *wrong = html_check(page.data, page.n_bytes);
        if (wrong) fail_msg("%s: %s", texts[i], wrong);
        rk_buffer_release(&page);
    }
}

static void test_errors(void **state) {
    (void)state;
    char expected[600], path[100];
    snprintf(path, sizeof path, "%s/not-made.html", directory);
    const char *none = directory, *first = first_run;
    snprintf(expected, sizeof expected,
             "'%s' is not a run's directory: it has no metrics.jsonl\nhint: give the directory that 'reckon "
             "train' wrote: its train.output",
             directory);
    FAILS(rk_report_write(&none, 1, NULL, path), RK_NOT_FOUND, expected);
    rk_report_options options = RK_REPORT_OPTIONS_INIT;
    options.split = "test";
    snprintf(expected, sizeof expected, "'%s': the run file has no 'data.test'", first_run);
    FAILS(rk_report_write(&first, 1, &options, path), RK_NOT_FOUND, expected);
    FAILS(rk_report_write(NULL, 0, NULL, path), RK_INVALID_ARGUMENT, "a report needs at least one run");
    assert_false(rk_file_exists(path));
}

static void test_out_of_memory(void **state) {
    (void)state;
    const char *runs[] = {first_run};
    char path[100];
    snprintf(path, sizeof path, "%s/page.html", directory);
    rk_report_options options = RK_REPORT_OPTIONS_INIT;
    options.n_rows = 80;
    options.n_repeats = 1;
    OK(rk_report_write(runs, 1, &options, path));
    long live = rk_alloc_live();
    for (long n = 1;; n += 1 + n / 12) {
        rk_alloc_fail_after(n, n % 2);
        rk_status status = rk_report_write(runs, 1, &options, path);
        rk_alloc_fail_after(0, false);
        assert_int_equal(rk_alloc_live(), live);
        if (status == RK_OK) break;
        if (status != RK_NO_MEMORY && status != RK_NOT_FOUND)
            fail_msg("allocation %ld: %s", n,
                     rk_last_error()); /* NOT_FOUND: no checkpoint could be looked at */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_importance), cmocka_unit_test(test_samples),
        cmocka_unit_test(test_page),       cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_errors),     cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
