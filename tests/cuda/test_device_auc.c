/* AUC on the device: the very number of the CPU's metrics, with ties, absent labels and several tasks side by side; close to it with weights and parts of labels. */
#include "cuda/device_testing.h"
#include "metrics/metrics.h"
#include "nn/device_auc.h"

#include <math.h>

enum { STRIDE = 3, MAX_N = 5003 };

typedef struct batch {
    int64_t n;
    float predictions[MAX_N * STRIDE], labels[MAX_N * STRIDE], weights[MAX_N];
} batch;

/* levels: of the predictions, so that there are ties. */
static void fill(batch *b, int64_t n, int levels, bool whole) {
    b->n = n;
    for (int64_t i = 0; i < n * STRIDE; i++) {
        uint32_t draw = (uint32_t)i * 2654435761u;
        b->predictions[i] = (float)(draw >> 8 & 0xffff) / 0xffff;
        if (levels) b->predictions[i] = floorf(b->predictions[i] * (float)levels) / (float)levels;
        b->labels[i] = whole ? (float)((draw >> 5 & 7) < 3) : (float)(draw >> 4 & 3) / 3;
        if (draw % 11 == 0) b->labels[i] = NAN;
        b->weights[i / STRIDE] = (float)(draw >> 12 & 15) / 4;
    }
}

static double on_cpu(const batch *b, int task, bool weighted) {
    rk_metrics *metrics;
    double values[RK_METRIC_COUNT];
    OK(rk_metrics_create(true, true, &metrics));
    OK(rk_metrics_add(metrics, b->n, b->predictions + task, b->labels + task, STRIDE, weighted ? b->weights : NULL, NULL));
    OK(rk_metrics_compute(metrics, values));
    rk_metrics_free(metrics);
    return values[RK_METRIC_auc];
}

static double on_gpu(const batch *b, int task, bool weighted) {
    rk_device_auc *auc;
    double out;
    OK(rk_device_auc_create(device, MAX_N, &auc));
    float *predictions = on_device(b->predictions, sizeof b->predictions), *labels = on_device(b->labels, sizeof b->labels), *weights = on_device(b->weights, sizeof b->weights);
    OK(rk_device_auc_compute(auc, stream, &(rk_cuda_auc_args){.n = b->n, .stride = STRIDE, .predictions = predictions + task, .labels = labels + task,
                                                              .weights = weighted ? weights : NULL}, &out));
    rk_device_free(device, predictions);
    rk_device_free(device, labels);
    rk_device_free(device, weights);
    rk_device_auc_free(auc);
    return out;
}

static void compare(int64_t n, int levels, bool whole, bool weighted, double tolerance) {
    static batch b;
    fill(&b, n, levels, whole);
    for (int task = 0; task < STRIDE; task++) {
        double expected = on_cpu(&b, task, weighted), got = on_gpu(&b, task, weighted);
        if (isnan(expected) ? !isnan(got) : !(fabs(got - expected) <= tolerance)) fail_msg("n %lld, levels %d: %.17g, on the CPU %.17g", (long long)n, levels, got, expected);
    }
}

static void test_whole_labels(void **state) {
    (void)state;
    int64_t sizes[] = {2, 3, 100, 1024, 1025, MAX_N};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int levels = 0; levels <= 20; levels += 10) compare(sizes[i], levels, true, false, 0);
}

static void test_weights(void **state) {
    (void)state;
    compare(MAX_N, 0, true, true, 1e-13);
    compare(MAX_N, 30, false, true, 1e-13);
}

static void test_refusals(void **state) {
    (void)state;
    rk_device_auc *auc;
    double out;
    FAILS(rk_device_auc_create(device, 0, &auc), RK_INVALID_ARGUMENT, "an AUC of up to 0 samples");
    OK(rk_device_auc_create(device, 5, &auc));
    FAILS(rk_device_auc_compute(auc, stream, &(rk_cuda_auc_args){.n = 6}, &out), RK_INVALID_ARGUMENT, "an AUC of 6 samples where there is room for 5");
    rk_device_auc_free(auc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_labels),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
