#include "report/samples.h"

#include <math.h>

#include "base/memory.h"
#include "metrics/metrics.h"
#include "serve/predictor_internal.h"

void rk_samples_release(rk_samples *samples) {
    if (samples->rows.schema) rk_window_release(&samples->rows);
    rk_free(samples->predictions);
    *samples = (rk_samples){0};
}

static rk_status keep_batch(rk_predictor *p, const rk_batch *batch, const rk_data_schema *schema,
                            int64_t max_rows, rk_samples *s) {
    RK_FAIL_IF(!batch->labels, RK_BAD_DATA, "the data has no labels to report on");
    if (!s->rows.schema) RK_TRY(rk_window_init(&s->rows, schema, true, batch->sample_weights != NULL, false));
    int64_t n = batch->n, before = s->rows.n_rows, n_tasks = batch->n_tasks;
    if (max_rows && n > max_rows - before) n = max_rows - before;
    RK_TRY(rk_window_append_batch(&s->rows, batch, n));
    RK_TRY(rk_reserve(&s->predictions, &s->predictions_capacity, (size_t)((before + batch->n) * n_tasks),
                      sizeof *s->predictions));
    return rk_model_predict(p->model, batch, s->predictions + before * n_tasks);
}

rk_status rk_samples_keep(rk_predictor *p, const char *split, int64_t max_rows, rk_samples *out) {
    RK_AUTO(rk_dataset_auto) rk_dataset *dataset = NULL;
    RK_AUTO(rk_samples_release) rk_samples samples = {0};
    RK_TRY(rk_predictor_open_data(p, split, false, &dataset));
    while (!(max_rows && samples.rows.n_rows >= max_rows)) {
        const rk_batch *batch;
        rk_status status = rk_dataset_next(dataset, &batch);
        if (status == RK_END) break;
        RK_TRY(status);
        samples.batch_size = batch->n > samples.batch_size ? batch->n : samples.batch_size;
        /* the transforms, and so their schema, are the predictor's */
        RK_TRY(keep_batch(p, batch, rk_dataset_schema(dataset), max_rows, &samples));
    }
    RK_FAIL_IF(samples.rows.n_rows == 0, RK_BAD_DATA, "the '%s' data has no rows", split);
    *out = samples;
    samples = (rk_samples){0};
    return RK_OK;
}

void rk_predicted_release(rk_predicted *predicted) {
    rk_free((void *)(size_t)predicted->predictions); /* one piece of memory holds all three */
    *predicted = (rk_predicted){0};
}

rk_status rk_samples_of_task(const rk_samples *samples, const float *predictions, int32_t task,
                             rk_predicted *out) {
    const rk_window *rows = &samples->rows;
    size_t all = (size_t)rows->n_rows, n_tasks = (size_t)rows->schema->n_tasks, n = 0;
    float *memory;
    RK_TRY(rk_alloc(3 * all, sizeof *memory, &memory));
    for (size_t i = 0; i < all; i++) {
        float label = rows->labels[i * n_tasks + (size_t)task];
        if (!isfinite(label)) continue;
        memory[n] = predictions[i * n_tasks + (size_t)task];
        memory[all + n] = label;
        if (rows->has_weights) memory[2 * all + n] = rows->sample_weights[i];
        n++;
    }
    *out = (rk_predicted){.n = n,
                          .predictions = memory,
                          .labels = memory + all,
                          .weights = rows->has_weights ? memory + 2 * all : NULL};
    return RK_OK;
}

rk_status rk_predicted_metrics(const rk_predicted *p, bool binary, double *values) {
    rk_metrics *metrics;
    RK_TRY(rk_metrics_create(binary, false, &metrics));
    rk_status status = rk_metrics_add(metrics, (int64_t)p->n, p->predictions, p->labels, 1, p->weights, NULL);
    if (status == RK_OK) status = rk_metrics_compute(metrics, values);
    rk_metrics_free(metrics);
    return status;
}
