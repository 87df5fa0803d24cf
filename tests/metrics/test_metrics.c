/* Metrics against their definitions, written naively, and values worked out by hand. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "base/rng.h"
#include "metrics/metrics.h"

enum { MAX = 400 };
typedef struct samples {
    int64_t n;
    float predictions[MAX], labels[MAX], weights[MAX];
    int64_t groups[MAX];
} samples;

static void assert_near(double got, double wanted) {
    if (isnan(wanted) ? !isnan(got) : !(fabs(got - wanted) <= 1e-12 * (1 + fabs(wanted))))
        fail_msg("%.17g, not %.17g", got, wanted);
}

/* Few distinct predictions, so that many tie; every 16th weight is zero. */
static samples draw(uint64_t seed, int64_t n, bool soft) {
    rk_rng rng = {seed, 0, 0};
    samples s = {.n = n};
    for (int64_t i = 0; i < n; i++) {
        s.predictions[i] = (float)rk_rng_below(&rng, seed % 2 ? 12 : 100000) / 100000.0f;
        s.labels[i] = soft ? (float)rk_rng_uniform(&rng) : (float)(rk_rng_below(&rng, 3) == 0);
        s.weights[i] = rk_rng_below(&rng, 16) ? (float)rk_rng_uniform(&rng) * 3 : 0;
        s.groups[i] = ((int64_t)rk_rng_below(&rng, 3) - 1) * (INT64_C(1) << 32) +
                      (int64_t)rk_rng_below(&rng, 3); /* alike in either half */
    }
    return s;
}

/* The definition: over all pairs of a positive and a negative. */
static double naive_auc(const samples *s, bool weighted, const int64_t *group) {
    double ordered = 0, pairs = 0;
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t j = 0; j < s->n; j++) {
            if (group && (s->groups[i] != *group || s->groups[j] != *group)) continue;
            double weight = (weighted ? (double)s->weights[i] * s->weights[j] : 1) * s->labels[i] *
                            (1 - (double)s->labels[j]);
            pairs += weight;
            if (s->predictions[i] > s->predictions[j]) ordered += weight;
            if (s->predictions[i] == s->predictions[j]) ordered += weight / 2;
        }
    return pairs > 0 ? ordered / pairs : NAN;
}

static double naive_gauc(const samples *s, bool weighted) {
    double sum = 0, total = 0;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t first = 0;
        while (s->groups[first] != s->groups[i]) first++;
        double auc = naive_auc(s, weighted, &s->groups[i]);
        if (first != i || isnan(auc)) continue;
        double weight = 0;
        for (int64_t j = 0; j < s->n; j++)
            if (s->groups[j] == s->groups[i]) weight += weighted ? s->weights[j] : 1;
        sum += weight * auc;
        total += weight;
    }
    return total > 0 ? sum / total : NAN;
}

static void compute(const samples *s, bool binary, bool weighted, int64_t batch, double *values) {
    rk_metrics *metrics;
    OK(rk_metrics_create(binary, false, &metrics));
    for (int64_t i = 0; i < s->n; i += batch) {
        int64_t n = s->n - i < batch ? s->n - i : batch;
        OK(rk_metrics_add(metrics, n, s->predictions + i, s->labels + i, 1, weighted ? s->weights + i : NULL,
                          s->groups + i));
    }
    OK(rk_metrics_compute(metrics, values));
    rk_metrics_free(metrics);
}

static void test_auc_by_definition(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        bool weighted = seed / 2 % 2, soft = seed / 4 % 3 == 2;
        samples s = draw(seed, seed < 20 ? 1 + (int64_t)seed : MAX, soft);
        double values[RK_METRIC_COUNT];
        compute(&s, true, weighted, 7, values);
        assert_near(values[RK_METRIC_auc], naive_auc(&s, weighted, NULL));
        assert_near(values[RK_METRIC_gauc], naive_gauc(&s, weighted));
    }
}

static void test_by_hand(void **state) {
    (void)state;
    samples s = {4, {0.9f, 0.4f, 0.4f, 0.1f}, {1, 0, 1, 0}, {1, 2, 3, 4}, {7, 7, -1, -1}};
    double v[RK_METRIC_COUNT];
    compute(&s, true, false, 4, v);
    assert_near(v[RK_METRIC_auc], 3.5 / 4);
    assert_near(v[RK_METRIC_gauc], 1);
    double loss = -(log(0.9f) + log(1 - (double)0.4f) + log(0.4f) + log(1 - (double)0.1f)) / 4;
    assert_near(v[RK_METRIC_logloss], loss);
    assert_near(v[RK_METRIC_normalized_entropy], loss / log(2));
    assert_near(v[RK_METRIC_calibration], ((double)0.9f + 2 * (double)0.4f + (double)0.1f) / 2);
    assert_near(v[RK_METRIC_accuracy], 0.75);
    assert_true(isnan(v[RK_METRIC_rmse]) && isnan(v[RK_METRIC_mae]));
    compute(&s, true, true, 1, v);
    assert_near(v[RK_METRIC_auc], (1 * (2 + 4) + 3 * (1 + 4)) / 24.0);
    assert_near(v[RK_METRIC_accuracy], 7 / 10.0);
    double entropy = -(0.4 * log(0.4) + 0.6 * log(0.6));
    loss = -(log(0.9f) + 2 * log(1 - (double)0.4f) + 3 * log(0.4f) + 4 * log(1 - (double)0.1f)) / 10;
    assert_near(v[RK_METRIC_normalized_entropy], loss / entropy);
}

static void test_regression(void **state) {
    (void)state;
    samples s = {3, {3, 5, -1}, {4, 3, -1.5f}, {1, 2, 4}, {0}};
    double v[RK_METRIC_COUNT];
    compute(&s, false, false, 3, v);
    assert_near(v[RK_METRIC_rmse], sqrt((1 + 4 + 0.25) / 3));
    assert_near(v[RK_METRIC_mae], 3.5 / 3);
    assert_true(isnan(v[RK_METRIC_auc]) && isnan(v[RK_METRIC_logloss]) && isnan(v[RK_METRIC_gauc]));
    compute(&s, false, true, 2, v);
    assert_near(v[RK_METRIC_rmse], sqrt((1 + 8 + 1) / 7.0));
    assert_near(v[RK_METRIC_mae], (1 + 4 + 2) / 7.0);
}

static void test_edges(void **state) {
    (void)state;
    double v[RK_METRIC_COUNT];
    samples one = {2, {0, 1}, {1, 1}, {0, 0}, {0}};
    compute(&one, true, false, 2, v);
    assert_true(isnan(v[RK_METRIC_auc]) && isnan(v[RK_METRIC_gauc]) &&
                isnan(v[RK_METRIC_normalized_entropy]));
    assert_near(v[RK_METRIC_logloss], (-log(1e-15) - log1p(-1e-15)) / 2); /* clamped */
    assert_near(v[RK_METRIC_calibration], 0.5);
    compute(&one, true, true, 2, v); /* no weight at all */
    for (int i = 0; i < RK_METRIC_COUNT; i++) assert_true(isnan(v[i]));
    one.n = 0;
    compute(&one, true, false, 1, v);
    for (int i = 0; i < RK_METRIC_COUNT; i++) assert_true(isnan(v[i]));
    samples zeros = {2, {0.0f, -0.0f}, {1, 0}, {1, 1}, {0}};
    compute(&zeros, true, false, 2, v);
    assert_near(v[RK_METRIC_auc], 0.5); /* -0 and 0 tie */
}

static void test_stride_and_missing_groups(void **state) {
    (void)state;
    samples s = draw(5, 100, false);
    float predictions[300], labels[300];
    for (int i = 0; i < 100; i++) predictions[3 * i] = s.predictions[i], labels[3 * i] = s.labels[i];
    double direct[RK_METRIC_COUNT], v[RK_METRIC_COUNT];
    compute(&s, true, false, 100, direct);
    rk_metrics *metrics;
    OK(rk_metrics_create(true, false, &metrics));
    OK(rk_metrics_add(metrics, 100, predictions, labels, 3, NULL, s.groups));
    OK(rk_metrics_compute(metrics, v));
    assert_memory_equal(v, direct, sizeof v);
    OK(rk_metrics_compute(metrics, v)); /* computing changes nothing */
    assert_memory_equal(v, direct, sizeof v);
    OK(rk_metrics_add(metrics, 1, predictions, labels, 3, NULL, NULL));
    OK(rk_metrics_add(metrics, 1, predictions, labels, 3, NULL, s.groups));
    OK(rk_metrics_compute(metrics, v));
    assert_true(isnan(v[RK_METRIC_gauc]) && !isnan(v[RK_METRIC_auc]));
    rk_metrics_free(metrics);
}

/* Sums of another's making, of exactly the samples and groups; the metrics' own where that one has no
 * room. */
static rk_status elsewhere(void *context, bool binary, int64_t n, const rk_metric_sample *rows,
                           const int64_t *groups, rk_metric_totals *out) {
    const samples *s = context;
    if (n != 100) return rk_error(RK_NO_MEMORY, "no room");
    assert_true(binary);
    for (int i = 0; i < 100; i++) {
        assert_true(rows[i].prediction == s->predictions[i] && rows[i].label == s->labels[i] &&
                    rows[i].weight == s->weights[i]);
        assert_true(!groups || groups[i] == s->groups[i]);
    }
    *out = (rk_metric_totals){.auc = 7, .gauc = groups ? 8 : out->gauc, .sums = {4, 6, 2, 1, 3}};
    return RK_OK;
}

static void test_sums_of_another(void **state) {
    (void)state;
    samples s = draw(7, 100, false);
    double v[RK_METRIC_COUNT], own[RK_METRIC_COUNT];
    rk_metrics *metrics;
    OK(rk_metrics_create(true, false, &metrics));
    rk_metrics_set_offload(metrics, elsewhere, &s);
    OK(rk_metrics_compute(metrics, v));
    for (int m = 0; m < RK_METRIC_COUNT; m++) assert_true(isnan(v[m]));
    OK(rk_metrics_add(metrics, 100, s.predictions, s.labels, 1, s.weights, NULL));
    OK(rk_metrics_compute(metrics, v));
    assert_true(v[RK_METRIC_auc] == 7 && isnan(v[RK_METRIC_gauc]) && v[RK_METRIC_logloss] == 1.5 &&
                v[RK_METRIC_calibration] == 0.5 && v[RK_METRIC_accuracy] == 0.75);
    rk_metrics_set_offload(metrics, NULL, NULL);
    OK(rk_metrics_compute(metrics, own));
    OK(rk_metrics_add(metrics, 1, s.predictions, s.labels, 1, &(float){0}, NULL)); /* of no weight */
    rk_metrics_set_offload(metrics, elsewhere, &s);
    OK(rk_metrics_compute(metrics, v));
    assert_memory_equal(v, own, sizeof v);
    rk_metrics_free(metrics);
    OK(rk_metrics_create(true, false, &metrics));
    rk_metrics_set_offload(metrics, elsewhere, &s);
    OK(rk_metrics_add(metrics, 100, s.predictions, s.labels, 1, s.weights, s.groups));
    OK(rk_metrics_compute(metrics, v));
    assert_true(v[RK_METRIC_auc] == 7 && v[RK_METRIC_gauc] == 8);
    rk_metrics_free(metrics);
}

static void test_refusals_change_nothing(void **state) {
    (void)state;
    samples s = draw(6, 20, false);
    double before[RK_METRIC_COUNT], v[RK_METRIC_COUNT];
    rk_metrics *metrics;
    OK(rk_metrics_create(true, false, &metrics));
    OK(rk_metrics_add(metrics, 20, s.predictions, s.labels, 1, s.weights, s.groups));
    OK(rk_metrics_compute(metrics, before));
    const float fine[] = {0.5f, 1}, nan[] = {0.5f, NAN}, two[] = {0.5f, 2}, negative[] = {1, -1};
    FAILS(rk_metrics_add(metrics, 2, nan, fine, 1, NULL, NULL), RK_NOT_FINITE,
          "row 21: the prediction is nan");
    FAILS(rk_metrics_add(metrics, 2, fine, nan, 1, NULL, NULL), RK_NOT_FINITE, "row 21: the label is nan");
    FAILS(rk_metrics_add(metrics, 2, fine, fine, 1, nan, NULL), RK_NOT_FINITE,
          "row 21: the sample weight is nan");
    FAILS(rk_metrics_add(metrics, 2, fine, fine, 1, negative, NULL), RK_BAD_DATA,
          "row 21: the sample weight -1 is negative");
    FAILS(rk_metrics_add(metrics, 2, fine, two, 1, NULL, NULL), RK_BAD_DATA,
          "row 21: the label 2 of a binary task is not between 0 and 1");
    FAILS(rk_metrics_add(metrics, 2, two, fine, 1, NULL, NULL), RK_INVALID_ARGUMENT,
          "row 21: the prediction 2 is not between 0 and 1");
    FAILS(rk_metrics_add(metrics, 1, NULL, fine, 1, NULL, NULL), RK_INVALID_ARGUMENT,
          "metrics need predictions and labels");
    OK(rk_metrics_compute(metrics, v));
    assert_memory_equal(v, before, sizeof v);
    rk_metrics_free(metrics);
}

/* The metrics of the samples that have a label; the others may come with anything. */
static void test_absent_labels(void **state) {
    (void)state;
    samples s = draw(8, 200, false), there = {0}, all = s;
    for (int i = 0; i < 200; i++) {
        if (i % 3 == 0 || i < 30) {
            all.labels[i] = all.predictions[i] = NAN;
            continue;
        }
        there.predictions[there.n] = s.predictions[i];
        there.labels[there.n] = s.labels[i];
        there.weights[there.n] = s.weights[i];
        there.groups[there.n++] = s.groups[i];
    }
    double wanted[RK_METRIC_COUNT], v[RK_METRIC_COUNT];
    compute(&there, true, true, 50, wanted);
    rk_metrics *metrics;
    OK(rk_metrics_create(true, true, &metrics));
    OK(rk_metrics_add(metrics, 30, all.predictions, all.labels, 1, all.weights,
                      NULL)); /* none of them, so that no group is missing */
    for (int i = 30; i < 200; i += 10)
        OK(rk_metrics_add(metrics, 10, all.predictions + i, all.labels + i, 1, all.weights + i,
                          all.groups + i));
    OK(rk_metrics_compute(metrics, v));
    assert_memory_equal(v, wanted, sizeof v);
    const float fine[] = {0.5f, 1}, half[] = {NAN, 2};
    FAILS(rk_metrics_add(metrics, 2, fine, half, 1, NULL, NULL), RK_BAD_DATA,
          "row 201: the label 2 of a binary task is not between 0 and 1");
    OK(rk_metrics_compute(metrics, v));
    assert_memory_equal(v, wanted, sizeof v);
    rk_metrics_free(metrics);
    OK(rk_metrics_create(true, true, &metrics));
    OK(rk_metrics_add(metrics, 3, all.predictions, all.labels, 1, NULL, NULL));
    OK(rk_metrics_compute(metrics, v));
    for (int i = 0; i < RK_METRIC_COUNT; i++) assert_true(isnan(v[i]));
    rk_metrics_free(metrics);
}

static void test_list(void **state) {
    (void)state;
    assert_string_equal(rk_metric_name(RK_METRIC_normalized_entropy), "normalized_entropy");
    assert_int_equal(rk_metric_find("gauc"), RK_METRIC_gauc);
    assert_int_equal(rk_metric_find("f1"), -1);
    assert_true(rk_metric_larger_is_better(RK_METRIC_auc) && !rk_metric_larger_is_better(RK_METRIC_rmse));
    assert_true(rk_metric_applies(RK_METRIC_auc, true) && !rk_metric_applies(RK_METRIC_auc, false) &&
                rk_metric_applies(RK_METRIC_mae, false));
}

static rk_status everything(void) {
    samples s = draw(1, 50, false);
    rk_metrics *metrics;
    double v[RK_METRIC_COUNT];
    RK_TRY(rk_metrics_create(true, false, &metrics));
    rk_status status = rk_metrics_add(metrics, 20, s.predictions, s.labels, 1, NULL, s.groups);
    if (status == RK_OK)
        status = rk_metrics_add(metrics, 30, s.predictions + 20, s.labels + 20, 1, NULL, s.groups + 20);
    if (status == RK_OK) status = rk_metrics_compute(metrics, v);
    rk_metrics_free(metrics);
    return status;
}

static void test_no_memory(void **state) {
    (void)state;
    int n = 0;
    rk_status status;
    do {
        rk_alloc_fail_after(++n, false);
        status = everything();
        assert_true(status == RK_OK || status == RK_NO_MEMORY);
        assert_int_equal(rk_alloc_live(), 0);
    } while (status != RK_OK);
    rk_alloc_fail_after(0, false);
    assert_true(n > 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auc_by_definition),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_regression),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_stride_and_missing_groups),
        cmocka_unit_test(test_sums_of_another),
        cmocka_unit_test(test_refusals_change_nothing),
        cmocka_unit_test(test_absent_labels),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
