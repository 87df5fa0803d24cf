/* Losses of tasks on the device against rk_loss_compute: two kinds, weights, absent labels, learned weights;
 * predictions; what is not finite. */
#include "cuda/device_testing.h"
#include "cuda/dense/dense_optimizer_step.h"
#include "nn/cuda/device_loss.h"

#include <math.h>

enum { N_TASKS = 3, MAX_N = 70001 };

static const rk_device_task tasks[N_TASKS] = {
    {.kind = RK_LOSS_SIGMOID_CROSS_ENTROPY, .learned = true},
    {.kind = RK_LOSS_MSE, .optional = true, .learned = true},
    {.kind = RK_LOSS_SIGMOID_CROSS_ENTROPY, .optional = true, .smoothing = 0.1},
};
static const double task_weights[N_TASKS] = {1, 0.7, 0.3};
static const float variances[N_TASKS] = {0.4f, -0.3f, 0.9f};

/* A batch in the host's memory and on the device. */
typedef struct batch {
    int64_t n;
    float *logits, *labels, *weights;
    double scales[N_TASKS], shares[N_TASKS];
} batch;

static float fraction(int64_t i, int64_t k) {
    return (float)((i * 7919 + k * 104729) % 1000) / 1000;
}

static batch make(int64_t n, bool weighted) {
    batch b = {.n = n,
               .logits = malloc((size_t)n * N_TASKS * sizeof(float)),
               .labels = malloc((size_t)n * N_TASKS * sizeof(float)),
               .weights = weighted ? malloc((size_t)n * sizeof(float)) : NULL};
    for (int64_t i = 0; i < n; i++) {
        if (weighted) b.weights[i] = fraction(i, 5) * 2;
        for (int t = 0; t < N_TASKS; t++) {
            b.logits[i * N_TASKS + t] = 12 * fraction(i, t) - 6;
            b.labels[i * N_TASKS + t] = tasks[t].optional && (i + t) % 3 == 0 ? NAN
                                        : tasks[t].kind == RK_LOSS_MSE        ? 3 * fraction(i, 9)
                                                                              : (float)(i * i % 5 < 2);
        }
    }
    for (int t = 0; t < N_TASKS; t++) {
        double here = rk_loss_sum_weights(n, b.weights, tasks[t].optional ? b.labels + t : NULL, N_TASKS),
               elsewhere = n % 2 ? 0 : t * 3.5; /* in other ranks' parts of the batch */
        b.shares[t] = here > 0 ? here / (here + elsewhere) : 0;
        b.scales[t] = here > 0 ? task_weights[t] / (here + elsewhere) : 0;
    }
    return b;
}

static void release(batch *b) {
    free(b->logits);
    free(b->labels);
    free(b->weights);
}

typedef struct results {
    double losses[N_TASKS];
    float *gradient, *slopes; /* [n, N_TASKS] */
    uint32_t stop;
} results;

static results on_cpu(const batch *b, bool learns) {
    results r = {.gradient = calloc((size_t)b->n * N_TASKS, sizeof(float)),
                 .slopes = calloc((size_t)b->n * N_TASKS, sizeof(float))};
    for (int t = 0; t < N_TASKS; t++) {
        bool learned = learns && tasks[t].learned && b->shares[t] > 0;
        double precision =
            learned ? exp(-(double)variances[t]) * (tasks[t].kind == RK_LOSS_MSE ? 0.5 : 1) : 1;
        rk_loss_compute(&(rk_loss_args){.kind = tasks[t].kind,
                                        .n = b->n,
                                        .n_tasks = N_TASKS,
                                        .task = t,
                                        .logits = b->logits,
                                        .labels = b->labels,
                                        .weights = b->weights,
                                        .optional = tasks[t].optional,
                                        .smoothing = tasks[t].smoothing,
                                        .scale = b->scales[t] * precision,
                                        .gradient = r.gradient},
                        &r.losses[t]);
        if (!learned) continue;
        r.slopes[t] = (float)(b->shares[t] / 2 - r.losses[t]);
        r.losses[t] += b->shares[t] * (double)variances[t] / 2;
    }
    return r;
}

static results on_gpu(const batch *b, bool learns) {
    size_t n_bytes = (size_t)b->n * N_TASKS * sizeof(float);
    results r = {.gradient = malloc(n_bytes), .slopes = calloc((size_t)b->n * N_TASKS, sizeof(float))};
    rk_device_tasks *t;
    OK(rk_device_tasks_create(device, N_TASKS, tasks, &t));
    float *repeated = malloc(n_bytes);
    for (int64_t i = 0; i < b->n * N_TASKS; i++) repeated[i] = variances[i % N_TASKS];
    float *logits = on_device(b->logits, n_bytes), *labels = on_device(b->labels, n_bytes),
          *gradient = on_device(NULL, n_bytes), *slopes = on_device(repeated, n_bytes);
    float *weights = b->weights ? on_device(b->weights, (size_t)b->n * sizeof(float)) : NULL,
          *log_variances = on_device(repeated, n_bytes);
    double *scales = on_device(b->scales, sizeof b->scales), *shares = on_device(b->shares, sizeof b->shares),
           *losses = on_device(NULL, sizeof r.losses);
    uint32_t *stop = on_device(&(uint32_t){RK_CUDA_STOP_ROWS}, sizeof *stop);
    rk_device_compute_losses(t, stream,
                             &(rk_device_loss_args){.n = b->n,
                                                    .logits = logits,
                                                    .gradient = gradient,
                                                    .labels = labels,
                                                    .weights = weights,
                                                    .scales = scales,
                                                    .shares = shares,
                                                    .log_variances = learns ? log_variances : NULL,
                                                    .log_variance_gradient = learns ? slopes : NULL,
                                                    .losses = losses,
                                                    .stop = stop,
                                                    .stop_bit = RK_CUDA_STOP_LOSS});
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, r.losses, losses, sizeof r.losses));
    OK(rk_device_download(device, r.gradient, gradient, n_bytes));
    if (learns) OK(rk_device_download(device, r.slopes, slopes, n_bytes));
    OK(rk_device_download(device, &r.stop, stop, sizeof r.stop));
    void *const memory[] = {logits,        labels, gradient, slopes, weights,
                            log_variances, scales, shares,   losses, stop};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) rk_device_free(device, memory[i]);
    rk_device_tasks_free(t);
    free(repeated);
    return r;
}

static void compare(int64_t n, bool weighted, bool learns) {
    batch b = make(n, weighted);
    results a = on_cpu(&b, learns), g = on_gpu(&b, learns);
    for (int t = 0; t < N_TASKS; t++)
        if (!(fabs(a.losses[t] - g.losses[t]) <= 1e-12 * fabs(a.losses[t])))
            fail_msg("n %lld: task %d: loss %.17g, on the CPU %.17g", (long long)n, t, g.losses[t],
                     a.losses[t]);
    for (int64_t i = 0; i < n * N_TASKS; i++) {
        if (!(fabsf(a.gradient[i] - g.gradient[i]) <= 1e-6f * fabsf(a.gradient[i])))
            fail_msg("n %lld: gradient %lld: %g, on the CPU %g", (long long)n, (long long)i, g.gradient[i],
                     a.gradient[i]);
        if (!(fabsf(a.slopes[i] - g.slopes[i]) <= 1e-6f))
            fail_msg("n %lld: slope %lld: %g, on the CPU %g", (long long)n, (long long)i, g.slopes[i],
                     a.slopes[i]);
    }
    assert_int_equal(g.stop, RK_CUDA_STOP_ROWS); /* as it was */
    free(a.gradient), free(a.slopes), free(g.gradient), free(g.slopes);
    release(&b);
}

static void test_losses(void **state) {
    (void)state;
    int64_t sizes[] = {1, 31, 257, MAX_N};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int k = 0; k < 4; k++) compare(sizes[i], k % 2, k / 2);
}

static void test_not_finite(void **state) {
    (void)state;
    batch b = make(300, true);
    b.logits[299 * N_TASKS] = INFINITY;
    results r = on_gpu(&b, false);
    assert_int_equal(r.stop, RK_CUDA_STOP_ROWS | RK_CUDA_STOP_LOSS);
    free(r.gradient), free(r.slopes);
    release(&b);
}

static void test_predictions(void **state) {
    (void)state;
    enum { N = 257 };
    batch b = make(N, false);
    rk_device_tasks *t;
    OK(rk_device_tasks_create(device, N_TASKS, tasks, &t));
    float *logits = on_device(b.logits, N * N_TASKS * sizeof(float)),
          *out = on_device(NULL, N * N_TASKS * sizeof(float)), got[N * N_TASKS];
    rk_device_compute_predictions(t, stream, N, logits, out);
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, got, out, sizeof got));
    for (int i = 0; i < N * N_TASKS; i++) {
        float expected = rk_loss_prediction_of_logit(tasks[i % N_TASKS].kind, b.logits[i]);
        if (!(fabsf(got[i] - expected) <= 1e-6f * fabsf(expected)))
            fail_msg("prediction %d: %g, on the CPU %g", i, got[i], expected);
    }
    rk_device_free(device, logits);
    rk_device_free(device, out);
    rk_device_tasks_free(t);
    release(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_predictions),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
