#include "report/report_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { N_BINS = 10 };
const int32_t rk_report_cuts[RK_REPORT_CUTS] = {1, 2, 5, 10, 20, 50, 100};
const char *const rk_report_rankings[RK_REPORT_RANKINGS] = {"recall", "ndcg", "hit"};
static const double roc_resolution = 1.0 / 400; /* about a pixel */

void rk_report_run_release(rk_report_run *run) {
    for (int32_t k = 0; k < run->n_tasks; k++) {
        rk_free(run->tasks[k].name);
        rk_roc_curve_release(&run->tasks[k].roc);
        rk_free(run->tasks[k].bins);
    }
    RK_FREE_ALL(run->tasks, run->name);
    rk_run_metrics_log_release(&run->record);
    rk_settings_release(&run->settings);
    rk_importance_release(&run->importance);
    for (int32_t i = 0; i < run->ranking.n_shown; i++) rk_free(run->ranking.shown[i].name);
    rk_free(run->ranking.shown);
    *run = (rk_report_run){0};
}

static rk_status make_name_of_run(const char *directory, char **out) {
    size_t n = strlen(directory), first;
    while (n > 1 && directory[n - 1] == '/') n--;
    for (first = n; first > 0 && directory[first - 1] != '/';) first--;
    return rk_strndup(directory + first, n - first, out);
}

static rk_status count_parameters(rk_predictor *predictor, uint64_t *out) {
    const rk_model_parameter *parameters;
    int32_t n;
    RK_TRY(rk_model_parameters(rk_predictor_model(predictor), &parameters, &n));
    *out = 0;
    for (int32_t i = 0; i < n; i++) *out += (uint64_t)rk_tensor_n_values(&parameters[i].tensor);
    return RK_OK;
}

static double last_logged_value(const rk_run_metrics_log *record, const char *name) {
    const rk_curve *curve = rk_run_metrics_log_find_curve(record, name);
    return curve && curve->n ? curve->values[curve->n - 1] : NAN;
}

/* From the speed of each entry's steps: the wall clock also counts the time between a run and its
 * resumption. */
static void compute_training_time_from_log(rk_report_run *run, double batch_size) {
    const rk_curve *rate = rk_run_metrics_log_find_curve(&run->record, "train/samples_per_second");
    double before = 0;
    for (size_t i = 0; rate && i < rate->n; i++) {
        if (rate->values[i] > 0) run->seconds += (rate->steps[i] - before) * batch_size / rate->values[i];
        before = rate->steps[i];
    }
    run->n_steps = before;
    run->n_epochs = last_logged_value(&run->record, "train/epoch") + 1;
}

static rk_status read_settings(const rk_predictor *predictor, rk_settings *out) {
    RK_AUTOFREE char *text = NULL;
    RK_TRY(rk_config_to_yaml(rk_predictor_config(predictor), &text));
    return rk_settings_read(text, out);
}

static rk_status compute_metrics_and_curves_of_task(const rk_samples *samples, int32_t k,
                                                    rk_report_task *task) {
    RK_AUTO(rk_predicted_release) rk_predicted predicted = {0};
    RK_TRY(rk_samples_select_task(samples, samples->predictions, k, &predicted));
    RK_TRY(rk_predicted_compute_metrics(&predicted, task->binary, task->metrics));
    if (task->binary) RK_TRY(rk_roc_curve_make(&predicted, roc_resolution, &task->roc));
    return rk_calibration_bins_make(&predicted, task->binary, N_BINS, &task->bins, &task->n_bins);
}

static rk_status copy_task_names(const rk_predictor *predictor, rk_report_run *run) {
    int32_t n = rk_predictor_n_tasks(predictor);
    RK_TRY(rk_alloc((size_t)n, sizeof *run->tasks, &run->tasks));
    for (int32_t k = 0; k < n; k++) {
        rk_report_task *task = &run->tasks[k];
        for (int m = 0; m < RK_METRIC_COUNT; m++) task->metrics[m] = NAN;
        task->binary = strcmp(rk_predictor_task_loss(predictor, k), "mse") != 0;
        RK_TRY(rk_strdup(rk_predictor_task_name(predictor, k), &task->name));
        run->n_tasks = k + 1;
    }
    return RK_OK;
}

static void notify_stage(const rk_report_options *options, const rk_report_run *run, const char *what) {
    char message[512];
    snprintf(message, sizeof message, "%s: %s", run->name, what);
    if (options->on_stage) options->on_stage(options->user, message);
}

static rk_status evaluate_samples(rk_predictor *predictor, const rk_report_options *options,
                                  const char *split, rk_report_run *run) {
    RK_AUTO(rk_samples_release) rk_samples samples = {0};
    notify_stage(options, run, "predicting");
    RK_TRY(rk_samples_collect(predictor, split, options->n_rows, &samples));
    run->n_rows = samples.n;
    for (int32_t k = 0; k < run->n_tasks; k++)
        RK_TRY(compute_metrics_and_curves_of_task(&samples, k, &run->tasks[k]));
    if (options->n_features == 0) return RK_OK;
    notify_stage(options, run, "exchanging the values of its features");
    rk_importance_options exchanges = {.n_repeats = options->n_repeats, .seed = options->seed};
    return rk_importance_measure(predictor, &samples, &exchanges, &run->importance);
}

static rk_status copy_ranking_metrics(const rk_metric *metrics, int32_t n, rk_report_ranking *out) {
    RK_TRY(rk_alloc((size_t)n, sizeof *out->shown, &out->shown));
    for (int32_t i = 0; i < n; i++) {
        out->shown[i].value = metrics[i].value;
        RK_TRY(rk_strdup(metrics[i].name, &out->shown[i].name));
        out->n_shown = i + 1;
    }
    return RK_OK;
}

static rk_status evaluate_rankings(rk_predictor *predictor, const rk_report_options *options,
                                   const char *split, rk_report_run *run) {
    enum { N = RK_REPORT_RANKINGS * RK_REPORT_CUTS };
    char texts[N][32];
    const char *names[N];
    const rk_metric *metrics;
    int32_t n_metrics;
    for (int i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "%s@%d", rk_report_rankings[i / RK_REPORT_CUTS],
                 rk_report_cuts[i % RK_REPORT_CUTS]);
        names[i] = texts[i];
    }
    notify_stage(options, run, "ranking all items");
    RK_TRY(rk_predictor_rankings(predictor, split, names, N, &run->ranking.values[0][0], &metrics, &n_metrics,
                                 &run->n_rows));
    return copy_ranking_metrics(metrics, n_metrics, &run->ranking);
}

/* A run without validation data still has its log. */
static bool is_without_split(const rk_predictor *predictor, const char *split) {
    return strcmp(split, "valid") == 0 && !rk_predictor_has_split(predictor, split);
}

static rk_status evaluate_run(const char *directory, rk_predictor *predictor,
                              const rk_report_options *options, rk_report_run *run) {
    const char *split = options->split ? options->split : "valid";
    RK_TRY(make_name_of_run(directory, &run->name));
    run->ranks = rk_predictor_can_retrieve(predictor);
    if (!run->ranks) RK_TRY(copy_task_names(predictor, run));
    RK_TRY(read_settings(predictor, &run->settings));
    RK_TRY(count_parameters(predictor, &run->n_parameters));
    const char *batch_size = rk_settings_find(&run->settings, "train.batch_size");
    compute_training_time_from_log(run, batch_size ? strtod(batch_size, NULL) : NAN);
    if (is_without_split(predictor, split)) return RK_OK;
    return run->ranks ? evaluate_rankings(predictor, options, split, run)
                      : evaluate_samples(predictor, options, split, run);
}

rk_status rk_report_run_open(const char *directory, const rk_report_options *options, rk_report_run *out) {
    rk_report_run run = {0};
    rk_predictor *predictor = NULL;
    rk_predictor_options how = RK_PREDICTOR_OPTIONS_INIT;
    how.device = options->device;
    rk_status status;
    RK_GOTO(rk_run_metrics_log_read(directory, &run.record));
    RK_GOTO(rk_predictor_open(directory, &how, &predictor));
    status = evaluate_run(directory, predictor, options, &run);
    if (status != RK_OK) {
        rk_error_context(status, "'%s'", directory);
        goto done;
    }
    *out = run;
    run = (rk_report_run){0};
done:
    rk_predictor_free(predictor);
    rk_report_run_release(&run);
    return status;
}
