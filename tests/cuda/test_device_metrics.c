/* AUC on the device: the very number of the CPU's metrics, with ties; close to it with weights and parts of labels. */
#include "cuda/device_testing.h"
#include "metrics/metrics.h"
#include "nn/device_auc.h"

#include <math.h>

enum { MAX_N = 5003 };

typedef struct batch {
    int64_t n;
    float samples[MAX_N][3]; /* prediction, label, weight */
} batch;

/* levels: of the predictions, so that there are ties; whole: labels of 0 and 1, and no weights. */
static void fill(batch *b, int64_t n, int seed, int levels, bool whole) {
    b->n = n;
    for (int64_t i = 0; i < n; i++) {
        uint32_t draw = ((uint32_t)i + (uint32_t)seed) * 2654435761u;
        float prediction = (float)(draw >> 8 & 0xffff) / 0xffff;
        if (levels) prediction = floorf(prediction * (float)levels) / (float)levels;
        b->samples[i][0] = prediction;
        b->samples[i][1] = whole ? (float)((draw >> 5 & 7) < 3) : (float)(draw >> 4 & 3) / 3;
        b->samples[i][2] = whole ? 1 : (float)(draw >> 12 & 15) / 4;
    }
}

static rk_status device_auc(void *context, int64_t n, const float *samples, double *out) {
    (void)context;
    return rk_device_auc(device, stream, n, samples, out);
}

static double auc_of(const batch *b, rk_auc_function *auc) {
    rk_metrics *metrics;
    double values[RK_METRIC_COUNT];
    OK(rk_metrics_create(true, false, &metrics));
    for (int64_t i = 0; i < b->n; i++) OK(rk_metrics_add(metrics, 1, &b->samples[i][0], &b->samples[i][1], 1, &b->samples[i][2], NULL));
    rk_metrics_set_auc(metrics, auc, NULL);
    OK(rk_metrics_compute(metrics, values));
    rk_metrics_free(metrics);
    return values[RK_METRIC_auc];
}

static void compare(int64_t n, int seed, int levels, bool whole, double tolerance) {
    static batch b;
    fill(&b, n, seed, levels, whole);
    double expected = auc_of(&b, NULL), got = auc_of(&b, device_auc);
    if (isnan(expected) ? !isnan(got) : !(fabs(got - expected) <= tolerance)) fail_msg("n %lld, levels %d: %.17g, on the CPU %.17g", (long long)n, levels, got, expected);
}

static void test_whole_labels(void **state) {
    (void)state;
    int64_t sizes[] = {1, 2, 3, 100, 1024, 1025, MAX_N};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int levels = 0; levels <= 20; levels += 10)
            for (int seed = 0; seed < 3; seed++) compare(sizes[i], seed, levels, true, 0);
}

static void test_weights(void **state) {
    (void)state;
    compare(MAX_N, 0, 0, false, 1e-13);
    compare(MAX_N, 1, 30, false, 1e-13);
}

static void test_refusals(void **state) {
    (void)state;
    float samples[3] = {0};
    double out;
    FAILS(rk_device_auc(device, stream, 0, samples, &out), RK_INVALID_ARGUMENT, "an AUC of 0 samples");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_labels),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
