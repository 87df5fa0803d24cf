#include "report/importance.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "metrics/metrics.h"

typedef struct trial {
    rk_predictor *predictor;
    const rk_samples *samples;
    uint32_t *order; /* [n] a permutation */
    rk_ids *ids;     /* [n_features] of the batch, */
    rk_id_list *slices,
        moved; /* [n_features] whose offsets may be here; one feature's from the permutation */
    float *dense, *predictions; /* [batch_size, n_dense]; [n, n_tasks] */
} trial;

static void permutation_trial_release(trial *t) {
    for (int32_t f = 0; t->slices && f < t->samples->n_features; f++) rk_id_list_release(&t->slices[f]);
    rk_id_list_release(&t->moved);
    RK_FREE_ALL(t->slices, t->order, t->dense, t->predictions, t->ids);
}

static rk_status permutation_trial_init(rk_predictor *predictor, const rk_samples *samples, trial *t) {
    *t = (trial){.predictor = predictor, .samples = samples};
    RK_FAIL_IF(samples->n > UINT32_MAX, RK_UNSUPPORTED, "importance takes up to %u samples", UINT32_MAX);
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)samples->n, t->order),
                        RK_ARRAY((size_t)(samples->batch_size * samples->n_dense), t->dense),
                        RK_ARRAY((size_t)(samples->n * samples->n_tasks), t->predictions),
                        RK_ARRAY((size_t)samples->n_features, t->ids)));
    return rk_alloc((size_t)samples->n_features, sizeof *t->slices, &t->slices);
}

/* One feature's values in a batch of samples first .. first+n-1 become those of the permuted samples. */
static rk_status permute_feature(trial *t, const rk_predictor_feature *at, int64_t first, int64_t n,
                                 rk_batch *batch) {
    const rk_samples *s = t->samples;
    int64_t n_dense = s->n_dense;
    if (!at->dense) {
        rk_ids all = rk_id_list_view(&s->features[at->first]);
        rk_id_list_truncate(&t->moved, 0);
        RK_TRY(rk_id_list_gather(&t->moved, &all, t->order + first, n));
        t->ids[at->first] = rk_id_list_view(&t->moved);
        return RK_OK;
    }
    memcpy(t->dense, batch->dense, (size_t)(n * n_dense) * sizeof *t->dense);
    for (int64_t i = 0; i < n; i++)
        memcpy(t->dense + i * n_dense + at->first, s->dense + t->order[first + i] * n_dense + at->first,
               (size_t)at->width * sizeof *t->dense);
    batch->dense = t->dense;
    return RK_OK;
}

static rk_status predict_batch_with_permuted_feature(trial *t, const rk_predictor_feature *at, int64_t first,
                                                     int64_t n) {
    const rk_samples *s = t->samples;
    for (int32_t f = 0; f < s->n_features; f++) {
        rk_ids all = rk_id_list_view(&s->features[f]);
        RK_TRY(rk_id_list_slice(&t->slices[f], &all, first, n, &t->ids[f]));
    }
    rk_batch batch = {.n = n,
                      .n_dense = s->n_dense,
                      .n_features = s->n_features,
                      .n_tasks = (int32_t)s->n_tasks,
                      .dense = s->dense ? s->dense + first * s->n_dense : NULL,
                      .features = t->ids,
                      .first_row = first};
    RK_TRY(permute_feature(t, at, first, n, &batch));
    return rk_model_predict(rk_predictor_model(t->predictor), &batch, t->predictions + first * s->n_tasks);
}

static rk_status predict_with_permuted_feature(trial *t, const rk_predictor_feature *at) {
    int64_t n = t->samples->n, step = t->samples->batch_size;
    for (int64_t first = 0; first < n; first += step)
        RK_TRY(predict_batch_with_permuted_feature(t, at, first, n - first < step ? n - first : step));
    return RK_OK;
}

/* What of a task larger is better: AUC, or RMSE below zero. */
static rk_status score_predictions(const trial *t, const float *predictions, int32_t task, double *out) {
    bool binary = strcmp(rk_predictor_task_loss(t->predictor, task), "mse") != 0;
    double values[RK_METRIC_COUNT];
    RK_AUTO(rk_predicted_release) rk_predicted predicted = {0};
    RK_TRY(rk_samples_select_task(t->samples, predictions, task, &predicted));
    RK_TRY(rk_predicted_compute_metrics(&predicted, binary, values));
    *out = binary ? values[RK_METRIC_auc] : -values[RK_METRIC_rmse];
    return RK_OK;
}

static rk_status measure_importance_of_feature(trial *t, const rk_predictor_feature *at,
                                               const rk_importance_options *options, const double *before,
                                               int32_t n_tasks, double *mean, double *low, double *high) {
    for (int32_t r = 0; r < options->n_repeats; r++) {
        rk_rng_permutation(options->seed, (uint64_t)r, t->order, (uint32_t)t->samples->n);
        RK_TRY(predict_with_permuted_feature(t, at));
        for (int32_t k = 0; k < n_tasks; k++) {
            double after;
            RK_TRY(score_predictions(t, t->predictions, k, &after));
            double loss = before[k] - after;
            mean[k] += loss / options->n_repeats;
            low[k] = r ? fmin(low[k], loss) : loss;
            high[k] = r ? fmax(high[k], loss) : loss;
        }
    }
    return RK_OK;
}

static rk_status measure_importance_of_features(trial *t, const rk_importance_options *options,
                                                const double *before, rk_importance *out) {
    int32_t n_tasks = out->n_tasks;
    for (int32_t f = 0; f < rk_predictor_n_features(t->predictor); f++) {
        rk_predictor_feature feature = rk_predictor_get_feature(t->predictor, f);
        RK_TRY(rk_strdup(feature.name, &out->names[f]));
        out->n_features = f + 1;
        RK_TRY(measure_importance_of_feature(t, &feature, options, before, n_tasks, out->mean + f * n_tasks,
                                             out->low + f * n_tasks, out->high + f * n_tasks));
    }
    return RK_OK;
}

void rk_importance_release(rk_importance *importance) {
    for (int32_t f = 0; f < importance->n_features; f++) rk_free(importance->names[f]);
    RK_FREE_ALL(importance->names, importance->mean, importance->low, importance->high);
    *importance = (rk_importance){0};
}

rk_status rk_importance_measure(rk_predictor *predictor, const rk_samples *samples,
                                const rk_importance_options *options, rk_importance *out) {
    size_t n_features = (size_t)rk_predictor_n_features(predictor), n_tasks = (size_t)samples->n_tasks;
    RK_AUTO(rk_importance_release) rk_importance found = {.n_tasks = (int32_t)n_tasks};
    RK_AUTOFREE double *before = NULL;
    RK_AUTO(permutation_trial_release) trial t = {0};
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_features, found.names), RK_ARRAY(n_features * n_tasks, found.mean),
                        RK_ARRAY(n_features * n_tasks, found.low), RK_ARRAY(n_features * n_tasks, found.high),
                        RK_ARRAY(n_tasks, before)));
    RK_TRY(permutation_trial_init(predictor, samples, &t));
    for (int32_t k = 0; k < (int32_t)n_tasks; k++)
        RK_TRY(score_predictions(&t, samples->predictions, k, &before[k]));
    RK_TRY(measure_importance_of_features(&t, options, before, &found));
    *out = found;
    found = (rk_importance){0};
    return RK_OK;
}
