#include "report/predicted_samples.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "metrics/metrics.h"

void rk_samples_release(rk_samples *s) {
    for (int32_t f = 0; f < s->n_features && s->features; f++) rk_id_list_release(&s->features[f]);
    RK_FREE_ALL(s->features, s->dense, s->labels, s->weights, s->predictions);
    *s = (rk_samples){0};
}

/* Another n of `width` numbers each. */
static rk_status append_float_rows(float **to, size_t *capacity, int64_t before, const float *from, int64_t n,
                                   int64_t width) {
    if (!from) return RK_OK;
    RK_TRY(rk_reserve(to, capacity, (size_t)((before + n) * width), sizeof **to));
    memcpy(*to + before * width, from, (size_t)(n * width) * sizeof *from);
    return RK_OK;
}

static rk_status append_batch_of_samples(rk_predictor *p, const rk_batch *batch, int64_t max_rows,
                                         rk_samples *s) {
    RK_FAIL_IF(!batch->labels, RK_BAD_DATA, "the data has no labels to report on");
    if (!s->features) {
        s->n_dense = batch->n_dense;
        s->n_features = batch->n_features;
        s->n_tasks = batch->n_tasks;
        RK_TRY(rk_alloc((size_t)s->n_features, sizeof *s->features, &s->features));
    }
    int64_t before = s->n, n = max_rows && batch->n > max_rows - before ? max_rows - before : batch->n;
    RK_TRY(append_float_rows(&s->dense, &s->dense_capacity, before, batch->dense, n, s->n_dense));
    RK_TRY(append_float_rows(&s->labels, &s->labels_capacity, before, batch->labels, n, s->n_tasks));
    RK_TRY(append_float_rows(&s->weights, &s->weights_capacity, before, batch->sample_weights, n, 1));
    for (int32_t f = 0; f < s->n_features; f++)
        RK_TRY(rk_id_list_append(&s->features[f], &batch->features[f], 0, n));
    RK_TRY(rk_reserve(&s->predictions, &s->predictions_capacity, (size_t)((before + batch->n) * s->n_tasks),
                      sizeof *s->predictions));
    RK_TRY(rk_model_predict(rk_predictor_model(p), batch, s->predictions + before * s->n_tasks));
    s->n += n;
    return RK_OK;
}

static void free_dataset(rk_dataset **dataset) {
    rk_dataset_free(*dataset);
}

rk_status rk_samples_collect(rk_predictor *p, const char *split, int64_t max_rows, rk_samples *out) {
    RK_AUTO(free_dataset) rk_dataset *dataset = NULL;
    RK_AUTO(rk_samples_release) rk_samples samples = {0};
    RK_TRY(rk_predictor_open_data(p, split, false, &dataset));
    while (!(max_rows && samples.n >= max_rows)) {
        const rk_batch *batch;
        rk_status status = rk_dataset_next(dataset, &batch);
        if (status == RK_END) break;
        RK_TRY(status);
        samples.batch_size = batch->n > samples.batch_size ? batch->n : samples.batch_size;
        RK_TRY(append_batch_of_samples(p, batch, max_rows, &samples));
    }
    RK_FAIL_IF(samples.n == 0, RK_BAD_DATA, "the '%s' data has no rows", split);
    *out = samples;
    samples = (rk_samples){0};
    return RK_OK;
}

void rk_predicted_release(rk_predicted *predicted) {
    rk_free((void *)(size_t)predicted->predictions); /* one piece of memory holds all three */
    *predicted = (rk_predicted){0};
}

rk_status rk_samples_select_task(const rk_samples *samples, const float *predictions, int32_t task,
                                 rk_predicted *out) {
    size_t all = (size_t)samples->n, n_tasks = (size_t)samples->n_tasks, n = 0;
    float *memory;
    RK_TRY(rk_alloc(3 * all, sizeof *memory, &memory));
    for (size_t i = 0; i < all; i++) {
        float label = samples->labels[i * n_tasks + (size_t)task];
        if (!isfinite(label)) continue;
        memory[n] = predictions[i * n_tasks + (size_t)task];
        memory[all + n] = label;
        if (samples->weights) memory[2 * all + n] = samples->weights[i];
        n++;
    }
    *out = (rk_predicted){.n = n,
                          .predictions = memory,
                          .labels = memory + all,
                          .weights = samples->weights ? memory + 2 * all : NULL};
    return RK_OK;
}

rk_status rk_predicted_compute_metrics(const rk_predicted *p, bool binary, double *values) {
    rk_metrics *metrics;
    RK_TRY(rk_metrics_create(binary, false, &metrics));
    rk_status status = rk_metrics_add(metrics, (int64_t)p->n, p->predictions, p->labels, 1, p->weights, NULL);
    if (status == RK_OK) status = rk_metrics_compute(metrics, values);
    rk_metrics_free(metrics);
    return status;
}
