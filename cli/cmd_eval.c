#include <math.h>
#include <stdio.h>

#include <jansson.h>
#include <reckon/reckon.h>

#include "command.h"
#include "progress.h"
#include "terminal.h"
#include "trained.h"

enum { OPT_DATA, OPT_JSON, OPT_DEVICE };

/* One JSON object on one line; an undefined metric is null. */
static int print_json(const char *checkpoint, const char *split, int64_t n_rows, const rk_metric *metrics,
                      int32_t n_metrics) {
    json_t *values = json_object();
    for (int32_t i = 0; i < n_metrics; i++)
        json_object_set_new(values, metrics[i].name,
                            isfinite(metrics[i].value) ? json_real(metrics[i].value) : json_null());
    json_t *object = json_pack("{s:s, s:s, s:I, s:o}", "checkpoint", checkpoint, "data", split, "rows",
                               (json_int_t)n_rows, "metrics", values);
    if (!object) return failed_because("the metrics could not be written as JSON");
    json_dumpf(object, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(object);
    return EXIT_OK;
}

static int run(const arguments *args) {
    const char *split = args->options[OPT_DATA].given ? args->options[OPT_DATA].text : "test";
    trained model;
    int code = trained_open(args->positional[0], args->options[OPT_DEVICE].text, &model);
    if (code != EXIT_OK) return code;
    const rk_metric *metrics;
    int32_t n_metrics;
    int64_t n_rows;
    rk_status status = rk_predictor_evaluate(model.predictor, split, &metrics, &n_metrics, &n_rows);
    if (status == RK_OK && model.speaks && args->options[OPT_JSON].given) {
        code = print_json(rk_predictor_path(model.predictor), split, n_rows, metrics, n_metrics);
    } else if (status == RK_OK && model.speaks) {
        printf("%s: %lld rows\n", split, (long long)n_rows);
        print_metrics(metrics, n_metrics, true);
    }
    int closed = trained_close(&model, status);
    return code == EXIT_OK ? closed : code;
}

const command command_eval = {
    .name = "eval",
    .summary = "print the metrics of a trained model on a labelled file",
    .positional = "RUN",
    .min_positional = 1,
    .max_positional = 1,
    .description =
        "RUN is a checkpoint, a run's directory (the checkpoint that the run ends with is taken) or its run "
        "file.\n"
        "Under mpirun or srun the tables are sharded over the ranks, which evaluate together, however many "
        "trained.",
    .options =
        {
            [OPT_DATA] = {"data", 'd', OPTION_TEXT, "DATA", NULL,
                          "test (the default), valid, or a file of the same columns"},
            [OPT_JSON] = {"json", 'j', OPTION_FLAG, NULL, NULL, "one JSON object on standard output"},
            [OPT_DEVICE] = OPTION_DEVICE,
        },
    .examples =
        "reckon eval runs/adult\nreckon eval --json --data valid runs/adult\nreckon eval --data more.csv "
        "runs/adult/checkpoints/step-000000128",
    .run = run,
};
