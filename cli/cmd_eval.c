#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>
#include <reckon/reckon.h>

#include "command.h"
#include "progress.h"
#include "terminal.h"
#include "trained_model.h"

enum { OPT_DATA, OPT_ROWS, OPT_JSON, OPT_DEVICE };

typedef struct evaluation {
    const char *split;
    const char *rows; /* the format that rows are tried in; NULL: as they were trained */
    int64_t n_rows;
    const rk_metric *metrics; /* [n], the predictor's */
    int32_t n;
    double *trained; /* [n], with `rows`: what they were before */
} evaluation;

static rk_status evaluate_split(trained *model, evaluation *e) {
    return rk_predictor_evaluate(model->predictor, e->split, &e->metrics, &e->n, &e->n_rows);
}

/* One model at a time is in memory. */
static rk_status evaluate_both_row_formats(trained *model, const char *device, evaluation *e) {
    rk_status status = evaluate_split(model, e);
    if (status != RK_OK || !e->rows) return status;
    e->trained = calloc((size_t)e->n + 1, sizeof *e->trained);
    if (!e->trained) return RK_NO_MEMORY;
    for (int32_t i = 0; i < e->n; i++) e->trained[i] = e->metrics[i].value;
    status = trained_model_reopen_with_rows(model, device, row_format_from_name(e->rows));
    return status == RK_OK ? evaluate_split(model, e) : status;
}

static double metric_difference(const evaluation *e, int32_t i) {
    return e->metrics[i].value - e->trained[i];
}
static double relative_metric_difference(const evaluation *e, int32_t i) {
    return metric_difference(e, i) / fabs(e->trained[i]);
}
static double metric_of_trained_rows(const evaluation *e, int32_t i) {
    return e->trained[i];
}
static double measured_metric(const evaluation *e, int32_t i) {
    return e->metrics[i].value;
}

static json_t *metric_values_to_json(const evaluation *e, double (*value)(const evaluation *e, int32_t i)) {
    json_t *values = json_object();
    for (int32_t i = 0; i < e->n; i++) {
        double x = value(e, i);
        json_object_set_new(values, e->metrics[i].name, isfinite(x) ? json_real(x) : json_null());
    }
    return values;
}

/* One JSON object on one line; an undefined metric is null. */
static int print_metrics_as_json(const char *checkpoint, const evaluation *e) {
    json_t *object = json_pack("{s:s, s:s, s:I, s:o}", "checkpoint", checkpoint, "data", e->split, "rows",
                               (json_int_t)e->n_rows, "metrics", metric_values_to_json(e, measured_metric));
    if (object && e->rows) {
        json_object_set_new(object, "row_format", json_string(e->rows));
        json_object_set_new(object, "trained_metrics", metric_values_to_json(e, metric_of_trained_rows));
        json_object_set_new(object, "difference", metric_values_to_json(e, metric_difference));
        json_object_set_new(object, "relative_difference",
                            metric_values_to_json(e, relative_metric_difference));
    }
    if (!object) return report_error("the metrics could not be written as JSON");
    json_dumpf(object, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(object);
    return EXIT_OK;
}

static void print_metric_value(const char *format, double x) {
    if (isfinite(x))
        printf(format, x);
    else
        printf("%12s", "undefined");
}

static void print_comparison_table(const evaluation *e) {
    int width = 6;
    for (int32_t i = 0; i < e->n; i++) {
        int n = snprintf(NULL, 0, "%s", e->metrics[i].name);
        if (n > width) width = n;
    }
    printf("%-*s%12s%12s%12s%12s\n", width, "metric", "trained", e->rows, "difference", "relative");
    for (int32_t i = 0; i < e->n; i++) {
        print_text(stdout, e->metrics[i].name);
        printf("%*s", width - snprintf(NULL, 0, "%s", e->metrics[i].name), "");
        print_metric_value("%12.5f", metric_of_trained_rows(e, i));
        print_metric_value("%12.5f", measured_metric(e, i));
        print_metric_value("%+12.2g", metric_difference(e, i));
        print_metric_value("%+11.3g%%", 100 * relative_metric_difference(e, i));
        putchar('\n');
    }
}

static int print_evaluation(const trained *model, const evaluation *e, bool as_json) {
    if (as_json) return print_metrics_as_json(rk_predictor_path(model->predictor), e);
    printf("%s: %lld rows\n", e->split, (long long)e->n_rows);
    if (e->rows)
        print_comparison_table(e);
    else
        print_metrics(e->metrics, e->n, true);
    return EXIT_OK;
}

static int run_eval(const arguments *args) {
    evaluation e = {.split = args->options[OPT_DATA].given ? args->options[OPT_DATA].text : "test",
                    .rows = args->options[OPT_ROWS].text};
    const char *device = args->options[OPT_DEVICE].text;
    trained model;
    int code = trained_model_open(args->positional[0], device, RK_EXPORT_ROWS_TRAINED, &model);
    if (code != EXIT_OK) return code;
    rk_status status = evaluate_both_row_formats(&model, device, &e);
    if (status == RK_OK && model.speaks) code = print_evaluation(&model, &e, args->options[OPT_JSON].given);
    free(e.trained);
    int closed = trained_model_close(&model, status);
    return code == EXIT_OK ? closed : code;
}

const command command_eval = {
    .name = "eval",
    .summary = "print the metrics of a trained model on a labelled file",
    .positional = "RUN",
    .min_positional = 1,
    .max_positional = 1,
    .description =
        "RUN is a checkpoint, a run's directory (the checkpoint that the run ends with is taken), its run "
        "file, or what 'reckon export' has written.\n"
        "Under mpirun or srun the tables are sharded over the ranks, which evaluate together, however many "
        "trained.",
    .options =
        {
            [OPT_DATA] = {"data", 'd', OPTION_TEXT, "DATA", NULL,
                          "test (the default), valid, or a file of the same columns"},
            [OPT_ROWS] = {"rows", 0, OPTION_TEXT, "DTYPE", OPTION_ROWS_CHOICES,
                          "what tables' rows in this format would cost: metrics beside those of the trained "
                          "rows"},
            [OPT_JSON] = {"json", 'j', OPTION_FLAG, NULL, NULL, "one JSON object on standard output"},
            [OPT_DEVICE] = OPTION_DEVICE,
        },
    .examples =
        "reckon eval runs/adult\nreckon eval --json --data valid runs/adult\nreckon eval --rows int8 "
        "runs/adult\nreckon eval --data more.csv runs/adult/checkpoints/step-000000128",
    .run = run_eval,
};
