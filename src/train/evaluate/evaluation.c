#include "train/evaluate/evaluation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "train/evaluate/evaluation_rankings.h"

static bool is_binary_task(const rk_config *c, int32_t task) {
    return c->data.labels[task].loss == 0;
}

/* A mean over tasks is shown only where it is named, or the first of its kind. */
bool rk_evaluation_shows_metric(const rk_config *c, int task, int metric) {
    bool ranks = rk_config_has_pairs(c);
    if (ranks && (metric == c->watched_metric || metric == c->plateau_metric)) return true;
    if (!ranks && !rk_config_has_metric(c, task, metric)) return false;
    for (int64_t i = 0; i < c->train.n_metrics; i++) {
        int t, m;
        if (rk_config_find_metric(c, c->train.metrics[i], "train.metrics", &t, &m) == RK_OK && t == task &&
            m == metric)
            return true;
    }
    if (ranks) return c->train.n_metrics == 0 && rk_ranking_metric_k(metric) == RK_USUAL_CUT;
    return c->train.n_metrics == 0 &&
           (task < c->data.n_labels || metric == RK_METRIC_auc || metric == RK_METRIC_rmse);
}

rk_status rk_trainer_metric(const rk_config *c, const char *wanted, const char *place, char **out,
                            bool *larger_is_better) {
    int task = c->watched_task, metric = c->watched_metric;
    char name[256];
    RK_FAIL_IF(!c->has_valid, RK_NOT_FOUND, "the run has no validation data");
    if (wanted) RK_TRY(rk_config_find_metric(c, wanted, place, &task, &metric));
    rk_config_metric_name(c, task, metric, name, sizeof name);
    if (!rk_evaluation_shows_metric(c, task, metric))
        return rk_error_hint(rk_error(RK_CONFIG, "'%s' is not among train.metrics", name),
                             "add it there, so that evaluations compute it");
    *larger_is_better = rk_metric_larger_is_better(metric);
    return rk_strdup(name, out);
}

static rk_status choose_shown_metrics(const rk_config *c, rk_evaluation *e) {
    for (int t = 0; t <= e->n_tasks; t++)
        for (int m = 0; m < RK_METRIC_COUNT; m++) {
            if (!rk_evaluation_shows_metric(c, t, m)) continue;
            char name[256];
            rk_config_metric_name(c, t, m, name, sizeof name);
            RK_TRY(rk_evaluation_add_shown_metric(e, name, e->values[t * RK_METRIC_COUNT + m]));
        }
    return RK_OK;
}

/* The mean of each metric over the tasks that have it; NaN if one of them is. */
static void add_mean_metrics(const rk_config *c, const rk_evaluation *e) {
    for (int m = 0; m < RK_METRIC_COUNT; m++) {
        double sum = 0;
        int n = 0;
        for (int t = 0; t < e->n_tasks; t++) {
            if (!rk_config_has_metric(c, t, m)) continue;
            sum += e->values[t * RK_METRIC_COUNT + m];
            n++;
        }
        e->values[e->n_tasks * RK_METRIC_COUNT + m] = n ? sum / n : NAN;
    }
}

/* A prediction that is no number says which data's it is. */
static rk_status add_split_and_task_to_error(rk_status status, const char *split, const char *task) {
    if (status != RK_NOT_FINITE) return status;
    rk_error_context(status, "'%s': '%s'", split, task);
    return rk_error_hint(status, "its dense features may be far larger than those of the training data");
}

static rk_status evaluate_batches(const rk_config *c, rk_model *model, rk_batch_source *source,
                                  rk_metrics **metrics, rk_evaluation *e) {
    RK_AUTOFREE float *predictions = NULL;
    size_t capacity = 0;
    const rk_source_batch *fed;
    rk_status status;
    while ((status = rk_batch_source_next(source, &fed)) == RK_OK) {
        const rk_batch *batch = &fed->whole;
        RK_TRY(rk_reserve(&predictions, &capacity, (size_t)(batch->n * e->n_tasks), sizeof *predictions));
        RK_FAIL_IF(!batch->labels || batch->n_tasks != e->n_tasks, RK_BAD_DATA,
                   "the data to evaluate on has no labels");
        RK_TRY(rk_model_predict_rank_batch(model, &fed->rank_batch, predictions));
        for (int32_t t = 0; t < e->n_tasks; t++)
            RK_TRY(add_split_and_task_to_error(
                rk_metrics_add(metrics[t], batch->n, predictions + t, batch->labels + t, e->n_tasks,
                               batch->sample_weights, batch->groups),
                source->split, c->data.labels[t].name));
        e->n_rows += batch->n;
    }
    return status == RK_END ? RK_OK : status;
}

static rk_status evaluate_tasks_or_rankings(rk_config *config, rk_model *model, rk_batch_source *source,
                                            rk_evaluation *out) {
    if (rk_config_has_pairs(config))
        return rk_evaluate_rankings(config, model, source->dataset, source->split, NULL, out);
    int32_t n_tasks = rk_model_n_tasks(model);
    rk_evaluation e = {.n_tasks = n_tasks};
    rk_metrics **metrics = NULL;
    rk_status status;
    RK_GOTO(rk_batch_source_seek(source, (rk_dataset_position){0, 0}));
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY((size_t)e.n_tasks, metrics),
                         RK_ARRAY((size_t)(e.n_tasks + 1) * RK_METRIC_COUNT, e.values)));
    for (int32_t t = 0; t < e.n_tasks; t++) {
        RK_GOTO(rk_metrics_create(is_binary_task(config, t), config->data.labels[t].optional, &metrics[t]));
        if (rk_model_has_device(model)) rk_metrics_set_offload(metrics[t], rk_model_compute_metrics, model);
    }
    RK_GOTO(evaluate_batches(config, model, source, metrics, &e));
    if (e.n_rows == 0)
        RK_GOTO(rk_error(RK_BAD_DATA, "the data to evaluate on, '%s', has no rows", source->split));
    for (int32_t t = 0; t < e.n_tasks; t++)
        RK_GOTO(rk_metrics_compute(metrics[t], e.values + t * RK_METRIC_COUNT));
    add_mean_metrics(config, &e);
    RK_GOTO(choose_shown_metrics(config, &e));
    *out = e;
    e = (rk_evaluation){0};
done:
    for (int32_t t = 0; metrics && t < n_tasks; t++) rk_metrics_free(metrics[t]);
    rk_free(metrics);
    rk_evaluation_release(&e);
    return status;
}

rk_status rk_evaluate(rk_config *config, rk_model *model, rk_batch_source *source, rk_evaluation *out) {
    int64_t n_missing = rk_model_key_counts(model).n_missing;
    RK_TRY(evaluate_tasks_or_rankings(config, model, source, out));
    rk_key_counts keys = rk_model_key_counts(model);
    if (!keys.n_tables) return RK_OK;
    rk_status status =
        rk_evaluation_add_shown_metric(out, "dynamic_missing", (double)(keys.n_missing - n_missing));
    if (status != RK_OK) rk_evaluation_release(out);
    return status;
}
