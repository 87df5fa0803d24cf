/* Metrics on the device: the very AUCs of the CPU where labels are whole, with ties and groups; all else
 * close to the CPU's. */
#include "cuda/device_testing.h"
#include "metrics/metrics.h"
#include "nn/cuda/device_metrics.h"

#include <math.h>

enum { MAX_N = 5003 };

typedef struct batch {
    int64_t n;
    rk_metric_sample samples[MAX_N];
    int64_t groups[MAX_N];
} batch;

/* What one comparison is of. */
typedef struct shape {
    int64_t n;
    int seed;
    int levels;    /* of the predictions, so that there are ties; 0: as many as there are */
    int64_t group; /* samples a group, about; 0: none */
    bool whole;    /* labels of 0 and 1, and no weights */
    bool regression;
} shape;

static void fill(batch *b, shape of) {
    b->n = of.n;
    for (int64_t i = 0; i < of.n; i++) {
        uint32_t draw = ((uint32_t)i + (uint32_t)of.seed) * 2654435761u;
        rk_metric_sample *s = &b->samples[i];
        s->prediction = (float)(draw >> 8 & 0xffff) / 0xffff;
        if (of.levels) s->prediction = floorf(s->prediction * (float)of.levels) / (float)of.levels;
        s->label = of.whole ? (float)((draw >> 5 & 7) < 3) : (float)(draw >> 4 & 3) / 3;
        s->weight = of.whole ? 1 : (float)(draw >> 12 & 15) / 4;
        if (of.regression) s->prediction = 100 * s->prediction - 50;
        /* beyond 32 bits and below 0, which sort by both halves and as no number does */
        b->groups[i] =
            of.group ? ((int64_t)(draw >> 3) % ((of.n + of.group - 1) / of.group) - 2) * 3000000019 : 0;
    }
}

static rk_status device_metrics(void *context, bool binary, int64_t n, const rk_metric_sample *samples,
                                const int64_t *groups, rk_metric_totals *out) {
    (void)context;
    return rk_device_compute_metrics(device, stream, binary, n, samples, groups, out);
}

static void compute(const batch *b, shape of, rk_metrics_offload_function *function, double *values) {
    rk_metrics *metrics;
    OK(rk_metrics_create(!of.regression, false, &metrics));
    for (int64_t i = 0; i < b->n; i++) {
        const rk_metric_sample *s = &b->samples[i];
        OK(rk_metrics_add(metrics, 1, &s->prediction, &s->label, 1, &s->weight,
                          of.group ? &b->groups[i] : NULL));
    }
    rk_metrics_set_offload(metrics, function, NULL);
    OK(rk_metrics_compute(metrics, values));
    rk_metrics_free(metrics);
}

static bool is_near(double got, double expected, double tolerance) {
    return isnan(expected) ? isnan(got) : fabs(got - expected) <= tolerance * fabs(expected);
}

/* Sums are added in another order than the CPU's: relative to them, 1e-13. AUCs of whole labels are counts of
 * pairs, the same in any order. */
static void compare(shape of) {
    static batch b;
    double expected[RK_METRIC_COUNT], got[RK_METRIC_COUNT];
    fill(&b, of);
    compute(&b, of, NULL, expected);
    compute(&b, of, device_metrics, got);
    for (int m = 0; m < RK_METRIC_COUNT; m++)
        if (!is_near(got[m], expected[m], m == RK_METRIC_auc && of.whole ? 0 : 1e-13))
            fail_msg("%s of %lld, levels %d, groups of %lld: %.17g, on the CPU %.17g", rk_metric_name(m),
                     (long long)of.n, of.levels, (long long)of.group, got[m], expected[m]);
    assert_true(of.n < 100 || !isnan(got[of.regression ? RK_METRIC_rmse
                                         : of.group    ? RK_METRIC_gauc
                                                       : RK_METRIC_auc]));
}

static void test_whole_labels(void **state) {
    (void)state;
    int64_t sizes[] = {1, 2, 3, 100, 1024, 1025, MAX_N};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int levels = 0; levels <= 20; levels += 10)
            for (int seed = 0; seed < 3; seed++)
                compare((shape){.n = sizes[i], .seed = seed, .levels = levels, .whole = true});
}

static void test_weights(void **state) {
    (void)state;
    compare((shape){.n = MAX_N});
    compare((shape){.n = MAX_N, .seed = 1, .levels = 30});
}

static void test_groups(void **state) {
    (void)state;
    int64_t sizes[] = {1, 2, 100, 1025, MAX_N}, groups[] = {1, 2, 7, 300, MAX_N};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t g = sizes[i] < 100 ? 0 : 1; g < sizeof groups / sizeof groups[0]; g++)
            for (int whole = 0; whole < 2; whole++)
                compare((shape){.n = sizes[i],
                                .seed = (int)g,
                                .levels = 10 * (int)(g % 3),
                                .group = groups[g],
                                .whole = whole});
}

static void test_regression(void **state) {
    (void)state;
    int64_t sizes[] = {1, 255, 257, MAX_N};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        compare((shape){.n = sizes[i], .regression = true});
}

static void test_refusals(void **state) {
    (void)state;
    rk_metric_sample sample = {0};
    rk_metric_totals out;
    FAILS(rk_device_compute_metrics(device, stream, true, 0, &sample, NULL, &out), RK_INVALID_ARGUMENT,
          "metrics need at least one sample, not 0");
    FAILS(rk_device_compute_metrics(device, stream, true, (int64_t)1 << 31, &sample, NULL, &out),
          RK_NO_MEMORY, "metrics on a GPU support fewer than 2^31 samples");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_labels), cmocka_unit_test(test_weights),  cmocka_unit_test(test_groups),
        cmocka_unit_test(test_regression),   cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
