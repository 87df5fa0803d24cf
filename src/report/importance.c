#include "report/importance.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "metrics/metrics.h"
#include "serve/predictor_internal.h"

/* Where a feature is in a batch. */
typedef struct place {
    bool dense;
    int32_t first, width; /* dense columns, or first the number among the categorical features */
} place;

typedef struct trial {
    rk_predictor *predictor;
    const rk_samples *samples;
    uint32_t *order;              /* [n_rows] a permutation */
    rk_batch_memory plain, moved; /* a batch as it is, and with all values of the permuted samples */
    float *dense, *predictions;   /* [batch_size, n_dense]; [n_rows, n_tasks] */
    rk_ids *ids;                  /* [n_features] of the batch */
} trial;

static void trial_release(trial *t) {
    rk_batch_memory_release(&t->plain);
    rk_batch_memory_release(&t->moved);
    rk_free(t->order);
    rk_free(t->dense);
    rk_free(t->predictions);
    rk_free(t->ids);
}

static rk_status trial_init(rk_predictor *predictor, const rk_samples *samples, trial *t) {
    const rk_window *rows = &samples->rows;
    *t = (trial){.predictor = predictor, .samples = samples};
    RK_FAIL_IF(rows->n_rows > UINT32_MAX, RK_UNSUPPORTED, "importance takes up to %u samples", UINT32_MAX);
    RK_TRY(rk_alloc((size_t)rows->n_rows, sizeof *t->order, &t->order));
    RK_TRY(rk_alloc((size_t)(samples->batch_size * rows->schema->n_dense), sizeof *t->dense, &t->dense));
    RK_TRY(rk_alloc((size_t)(rows->n_rows * rows->schema->n_tasks), sizeof *t->predictions, &t->predictions));
    RK_TRY(rk_alloc((size_t)rows->schema->n_features, sizeof *t->ids, &t->ids));
    RK_TRY(rk_batch_memory_init(&t->plain, rows));
    return rk_batch_memory_init(&t->moved, rows);
}

/* The batch with one feature's values from the permuted samples. */
static void exchange(trial *t, place at, rk_batch *batch) {
    const rk_batch *moved = &t->moved.batch;
    if (!at.dense) {
        memcpy(t->ids, batch->features, (size_t)batch->n_features * sizeof *t->ids);
        t->ids[at.first] = moved->features[at.first];
        batch->features = t->ids;
        return;
    }
    memcpy(t->dense, batch->dense, (size_t)(batch->n * batch->n_dense) * sizeof *t->dense);
    for (int64_t i = 0; i < batch->n; i++)
        memcpy(t->dense + i * batch->n_dense + at.first, moved->dense + i * batch->n_dense + at.first,
               (size_t)at.width * sizeof *t->dense);
    batch->dense = t->dense;
}

static rk_status predict(trial *t, place at) {
    const rk_window *rows = &t->samples->rows;
    for (int64_t first = 0; first < rows->n_rows; first += t->samples->batch_size) {
        int64_t n =
            rows->n_rows - first < t->samples->batch_size ? rows->n_rows - first : t->samples->batch_size;
        RK_TRY(rk_batch_view(&t->plain, rows, first, n));
        RK_TRY(rk_batch_gather(&t->moved, rows, t->order, first, n));
        rk_batch batch = t->plain.batch;
        exchange(t, at, &batch);
        RK_TRY(rk_model_predict(t->predictor->model, &batch, t->predictions + first * rows->schema->n_tasks));
    }
    return RK_OK;
}

/* What of a task larger is better: AUC, or RMSE below zero. */
static rk_status score(const trial *t, const float *predictions, int32_t task, double *out) {
    bool binary = t->predictor->config->data.labels[task].loss == 0;
    double values[RK_METRIC_COUNT];
    RK_AUTO(rk_predicted_release) rk_predicted predicted = {0};
    RK_TRY(rk_samples_of_task(t->samples, predictions, task, &predicted));
    RK_TRY(rk_predicted_metrics(&predicted, binary, values));
    *out = binary ? values[RK_METRIC_auc] : -values[RK_METRIC_rmse];
    return RK_OK;
}

static rk_status measure_feature(trial *t, place at, const rk_importance_options *options,
                                 const double *before, int32_t n_tasks, double *mean, double *low,
                                 double *high) {
    for (int32_t r = 0; r < options->n_repeats; r++) {
        rk_rng_permutation(options->seed, (uint64_t)r, t->order, (uint32_t)t->samples->rows.n_rows);
        RK_TRY(predict(t, at));
        for (int32_t k = 0; k < n_tasks; k++) {
            double after;
            RK_TRY(score(t, t->predictions, k, &after));
            double loss = before[k] - after;
            mean[k] += loss / options->n_repeats;
            low[k] = r ? fmin(low[k], loss) : loss;
            high[k] = r ? fmax(high[k], loss) : loss;
        }
    }
    return RK_OK;
}

static rk_status measure(trial *t, const rk_importance_options *options, const double *before,
                         rk_importance *out) {
    const rk_data_section *data = &t->predictor->config->data;
    int32_t n_dense = 0, n_ids = 0, n_tasks = out->n_tasks;
    for (int32_t f = 0; f < (int32_t)data->n_features; f++) {
        const rk_data_feature *feature = &data->features[f];
        place at = {.dense = feature->dense,
                    .first = feature->dense ? n_dense : n_ids,
                    .width = (int32_t)feature->width};
        n_dense += feature->dense ? (int32_t)feature->width : 0;
        n_ids += !feature->dense;
        RK_TRY(rk_strdup(feature->name, &out->names[f]));
        out->n_features = f + 1;
        RK_TRY(measure_feature(t, at, options, before, n_tasks, out->mean + f * n_tasks,
                               out->low + f * n_tasks, out->high + f * n_tasks));
    }
    return RK_OK;
}

void rk_importance_release(rk_importance *importance) {
    for (int32_t f = 0; f < importance->n_features; f++) rk_free(importance->names[f]);
    rk_free(importance->names);
    rk_free(importance->mean);
    rk_free(importance->low);
    rk_free(importance->high);
    *importance = (rk_importance){0};
}

rk_status rk_importance_measure(rk_predictor *predictor, const rk_samples *samples,
                                const rk_importance_options *options, rk_importance *out) {
    size_t n_features = (size_t)predictor->config->data.n_features,
           n_tasks = (size_t)samples->rows.schema->n_tasks;
    RK_AUTO(rk_importance_release) rk_importance found = {.n_tasks = (int32_t)n_tasks};
    RK_AUTOFREE double *before = NULL;
    RK_AUTO(trial_release) trial t = {0};
    RK_TRY(rk_alloc(n_features, sizeof *found.names, &found.names));
    RK_TRY(rk_alloc(n_features * n_tasks, sizeof *found.mean, &found.mean));
    RK_TRY(rk_alloc(n_features * n_tasks, sizeof *found.low, &found.low));
    RK_TRY(rk_alloc(n_features * n_tasks, sizeof *found.high, &found.high));
    RK_TRY(rk_alloc(n_tasks, sizeof *before, &before));
    RK_TRY(trial_init(predictor, samples, &t));
    for (int32_t k = 0; k < (int32_t)n_tasks; k++) RK_TRY(score(&t, samples->predictions, k, &before[k]));
    RK_TRY(measure(&t, options, before, &found));
    *out = found;
    found = (rk_importance){0};
    return RK_OK;
}
