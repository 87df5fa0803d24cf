/* ROC curves and bins against plain definitions; logs and settings; all of them without memory. */
#include "testing.h"

#include <math.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "report/prediction_curves.h"
#include "report/run_metrics_log.h"
#include "report/run_settings.h"

enum { N = 300 };
static float predictions[N], labels[N], weights[N];

/* Few different predictions, so that many are equal. */
static rk_predicted make(uint64_t seed, bool weighted, bool soft) {
    rk_rng rng = {seed, 1, 0};
    for (int i = 0; i < N; i++) {
        predictions[i] = (float)rk_rng_below(&rng, 40) / 40;
        labels[i] = soft ? (float)rk_rng_below(&rng, 5) / 4 : rk_rng_uniform(&rng) < predictions[i];
        weights[i] = (float)(1 + rk_rng_below(&rng, 3));
    }
    return (rk_predicted){
        .n = N, .predictions = predictions, .labels = labels, .weights = weighted ? weights : NULL};
}

static double share_above(const rk_predicted *p, float threshold, bool positives) {
    double above = 0, all = 0;
    for (size_t i = 0; i < p->n; i++) {
        double weight = (p->weights ? (double)p->weights[i] : 1) *
                        (positives ? (double)p->labels[i] : 1 - (double)p->labels[i]);
        all += weight;
        if (p->predictions[i] >= threshold) above += weight;
    }
    return above / all;
}

static void test_roc(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        rk_predicted p = make(7 + (uint64_t)kind, kind & 1, kind & 2);
        rk_roc roc;
        OK(rk_roc_curve_make(&p, 0, &roc));
        size_t at = 0;
        assert_true(roc.false_rates[at] == 0 && roc.true_rates[at] == 0);
        for (int k = 39; k >= 0; k--) {
            float threshold = (float)k / 40;
            bool there = false;
            for (size_t i = 0; i < p.n; i++) there = there || p.predictions[i] == threshold;
            if (!there) continue;
            at++;
            assert_float_equal(roc.false_rates[at], share_above(&p, threshold, false), 1e-9);
            assert_float_equal(roc.true_rates[at], share_above(&p, threshold, true), 1e-9);
        }
        assert_int_equal(roc.n, at + 1);
        rk_roc thin;
        OK(rk_roc_curve_make(&p, 0.2, &thin));
        assert_true(thin.n < roc.n && thin.true_rates[0] == 0 && thin.true_rates[thin.n - 1] == 1 &&
                    thin.false_rates[thin.n - 1] == 1);
        rk_roc_curve_release(&thin);
        rk_roc_curve_release(&roc);
    }
    rk_predicted one_class = make(3, false, false);
    for (int i = 0; i < N; i++) labels[i] = 1;
    rk_roc roc;
    OK(rk_roc_curve_make(&one_class, 0, &roc));
    assert_int_equal(roc.n, 0);
    rk_roc_curve_release(&roc);
}

static void test_bins(void **state) {
    (void)state;
    rk_predicted p = make(11, true, false);
    rk_bin *bins;
    size_t n;
    OK(rk_calibration_bins_make(&p, true, 10, &bins, &n));
    assert_in_range(n, 5, 10);
    int64_t samples = 0;
    float above = -1;
    for (size_t b = 0; b < n; b++) {
        /* The samples of the bin are those whose predictions lie above the bin before, so many in order. */
        double weight = 0, predicted = 0, observed = 0;
        int64_t taken = 0;
        float highest = above;
        while (taken < bins[b].n) {
            float next = 2;
            for (size_t i = 0; i < p.n; i++)
                next = p.predictions[i] > highest && p.predictions[i] < next ? p.predictions[i] : next;
            for (size_t i = 0; i < p.n; i++) {
                if (p.predictions[i] != next) continue;
                taken++;
                weight += (double)p.weights[i];
                predicted += (double)(p.weights[i] * p.predictions[i]);
                observed += (double)(p.weights[i] * p.labels[i]);
            }
            highest = next;
        }
        assert_int_equal(taken, bins[b].n);
        above = highest;
        samples += taken;
        assert_float_equal(bins[b].predicted, predicted / weight, 1e-6);
        assert_float_equal(bins[b].observed, observed / weight, 1e-6);
        assert_true(bins[b].low <= bins[b].observed && bins[b].observed <= bins[b].high && bins[b].low >= 0 &&
                    bins[b].high <= 1);
    }
    assert_int_equal(samples, N);
    rk_free(bins);
    for (int i = 0; i < N; i++) predictions[i] = 0.5f;
    OK(rk_calibration_bins_make(&p, false, 10, &bins, &n));
    assert_int_equal(n, 1);
    assert_int_equal(bins[0].n, N);
    rk_free(bins);
}

/* Wilson's range of 3 in 10, from his equation worked out by hand. */
static void test_range(void **state) {
    (void)state;
    rk_predicted p = {.n = 10, .predictions = predictions, .labels = labels};
    for (int i = 0; i < 10; i++) {
        predictions[i] = 0.25f;
        labels[i] = i < 3;
    }
    rk_bin *bins;
    size_t n;
    OK(rk_calibration_bins_make(&p, true, 4, &bins, &n));
    assert_int_equal(n, 1);
    assert_float_equal(bins[0].low, 0.1078, 1e-4);
    assert_float_equal(bins[0].high, 0.6032, 1e-4);
    rk_free(bins);
}

static char directory[] = "/tmp/reckon-report-XXXXXX";

static void write_log(const char *text) {
    char path[100];
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    OK(rk_file_write(path, text, strlen(text)));
}

static void test_record(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    rk_run_metrics_log record;
    char expected[500];
    snprintf(expected, sizeof expected,
             "'%s' is not a run's directory: it has no metrics.jsonl\nhint: give the directory that 'reckon "
             "train' wrote: its train.output",
             directory);
    FAILS(rk_run_metrics_log_read(directory, &record), RK_NOT_FOUND, expected);
    write_log(
        "{\"kind\":\"train\",\"epoch\":0,\"step\":5,\"loss\":0.5}\n{\"kind\":\"valid\",\"step\":5,\"auc\":"
        "null}\n{\"kind\":\"valid\",\"step\":9,\"auc\":0.75}\n"
        "{\"kind\":\"valid\",\"step\":12,\"auc\":0.7}\n");
    OK(rk_run_metrics_log_read(directory, &record));
    const rk_curve *auc = rk_run_metrics_log_find_curve(&record, "valid/auc"),
                   *loss = rk_run_metrics_log_find_curve(&record, "train/loss");
    assert_int_equal(auc->n, 3);
    assert_true(isnan(auc->values[0]) && auc->values[1] == 0.75 && auc->steps[1] == 9);
    assert_int_equal(rk_curve_find_best(auc, 1), 1);
    assert_int_equal(rk_curve_find_best(auc, 0), 2);
    assert_true(loss->n == 1 && loss->values[0] == 0.5);
    assert_null(rk_run_metrics_log_find_curve(&record, "valid/step"));
    rk_run_metrics_log_release(&record);
    const char *hint =
        "\nhint: the run's log is damaged there; 'reckon train --resume' rewrites it from the last "
        "checkpoint on";
    write_log("{\"kind\":\"train\",\"step\":5}\n{\"kind\":\"tra");
    snprintf(expected, sizeof expected,
             "'%s/metrics.jsonl', line 2: it is not JSON: premature end of input near '\"tra'%s", directory,
             hint);
    FAILS(rk_run_metrics_log_read(directory, &record), RK_BAD_DATA, expected);
    write_log("{\"kind\":\"train\",\"step\":5}\n[1]\n");
    snprintf(expected, sizeof expected, "'%s/metrics.jsonl', line 2: it is not a JSON object%s", directory,
             hint);
    FAILS(rk_run_metrics_log_read(directory, &record), RK_BAD_DATA, expected);
    write_log("{\"kind\":\"train\"}\n");
    snprintf(expected, sizeof expected, "'%s/metrics.jsonl', line 1: 'kind' or 'step' is missing%s",
             directory, hint);
    FAILS(rk_run_metrics_log_read(directory, &record), RK_BAD_DATA, expected);
}

static void test_settings(void **state) {
    (void)state;
    const char *texts[] = {
        "model:\n  kind: fm\n  deep: [8, 4]\ndata:\n  features:\n    - name: age\n      dense: true\n    - "
        "name: job\n      hash: 9\ntrain: {output: a}\n",
        "model:\n  kind: fm\n  deep: [8]\ndata:\n  features:\n    - name: job\n      hash: 9\n    - name: "
        "age\n      dense: true\ntrain: {output: b, l2: 1}\n"};
    rk_settings settings[2];
    for (int i = 0; i < 2; i++) OK(rk_settings_read(texts[i], &settings[i]));
    assert_string_equal(rk_settings_find(&settings[0], "data.features[job].hash"), "9");
    rk_text_list keys = {0};
    OK(rk_settings_list_differing(settings, 2, &keys));
    assert_int_equal(keys.n, 2);
    assert_string_equal(keys.texts[0], "model.deep");
    assert_string_equal(keys.texts[1], "train.l2");
    assert_string_equal(rk_settings_find(&settings[0], "model.deep"), "[8, 4]");
    assert_null(rk_settings_find(&settings[0], "train.l2"));
    rk_text_list_release(&keys);
    for (int i = 0; i < 2; i++) rk_settings_release(&settings[i]);
    /* Entries that one list lacks are one row, whatever each of them says. */
    static const char *const lists[] = {
        "data:\n  features:\n    - {name: a, hash: 1, seed: 2}\n    - {name: b, hash: 1}\n    - {name: c, "
        "hash: 1}\n    - {name: d, hash: 1}\n"
        "    - {name: e, hash: 1}\n    - {name: f, hash: 3}\n",
        "data:\n  features:\n    - {name: f, hash: 4}\n"};
    static const char *const said[2][2] = {{"a, b, c, d and 1 more", "3"}, {"", "4"}};
    for (int i = 0; i < 2; i++) OK(rk_settings_read(lists[i], &settings[i]));
    OK(rk_settings_list_differing(settings, 2, &keys));
    assert_int_equal(keys.n, 2);
    assert_string_equal(keys.texts[0], "data.features[]");
    assert_string_equal(keys.texts[1], "data.features[f].hash");
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 2; k++) {
            rk_buffer text = {0};
            rk_buffer_append_text(&text, "");
            rk_settings_write_value(settings, 2, i, keys.texts[k], &text);
            assert_string_equal(text.n_bytes ? text.data : "", said[i][k]);
            rk_buffer_release(&text);
        }
    rk_text_list_release(&keys);
    for (int i = 0; i < 2; i++) rk_settings_release(&settings[i]);
    FAILS(rk_settings_read("3", &settings[0]), RK_BAD_DATA, "settings are a mapping");
}

static rk_status all_of_it(void) {
    rk_predicted p = {.n = N, .predictions = predictions, .labels = labels};
    rk_roc roc;
    rk_bin *bins;
    size_t n;
    rk_run_metrics_log record;
    rk_settings settings;
    rk_text_list keys = {0};
    rk_status status = rk_roc_curve_make(&p, 0, &roc);
    if (status != RK_OK) return status;
    rk_roc_curve_release(&roc);
    if ((status = rk_calibration_bins_make(&p, true, 5, &bins, &n)) != RK_OK) return status;
    rk_free(bins);
    if ((status = rk_run_metrics_log_read(directory, &record)) != RK_OK) return status;
    rk_run_metrics_log_release(&record);
    if ((status = rk_settings_read("a: 1\nb: [1, 2]\nc:\n  - name: x\n    y: 2\n", &settings)) != RK_OK)
        return status;
    status = rk_settings_list_differing(&settings, 1, &keys);
    rk_text_list_release(&keys);
    rk_settings_release(&settings);
    return status;
}

static void test_out_of_memory(void **state) {
    (void)state;
    make(5, false, false);
    write_log(
        "{\"kind\":\"train\",\"epoch\":0,\"step\":5,\"loss\":0.5}\n{\"kind\":\"valid\",\"step\":9,\"auc\":0."
        "75}\n");
    long live = rk_alloc_live();
    for (long n = 1;; n++) {
        rk_alloc_fail_after(n, n % 2);
        rk_status status = all_of_it();
        rk_alloc_fail_after(0, false);
        assert_int_equal(rk_alloc_live(), live);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
    }
    rk_remove_tree(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roc),    cmocka_unit_test(test_bins),     cmocka_unit_test(test_range),
        cmocka_unit_test(test_record), cmocka_unit_test(test_settings), cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
