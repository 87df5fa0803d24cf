#include <math.h>
#include <stdio.h>
#include <string.h>

#include <reckon/reckon.h>

#include "command.h"
#include "terminal.h"
#include "trained_model.h"

enum { OPT_FORMAT, OPT_LIMIT, OPT_LABELS, OPT_ROWS, OPT_DEVICE };

typedef struct printer {
    trained model;
    bool json, labels, has_header;
    long limit; /* 0: none */
} printer;

/* A field of a line of CSV: in quotes where it needs them. */
static void print_csv_field(const char *name, const char *suffix) {
    const char *quote = name[strcspn(name, ",\"\r\n")] ? "\"" : "";
    fputs(quote, stdout);
    for (; *name; name++) printf("%s%c", *name == '"' ? "\"" : "", *name);
    printf("%s%s", suffix, quote);
}

/* With a comma before it: "NAME": of a JSON object. */
static void print_json_key(const char *name, const char *suffix) {
    fputs(",\"", stdout);
    for (; *name; name++) {
        if ((unsigned char)*name < ' ')
            printf("\\u%04x", (unsigned)*name);
        else
            printf("%s%c", *name == '"' || *name == '\\' ? "\\" : "", *name);
    }
    printf("%s\":", suffix);
}

/* Before the first prediction, so that nothing stands before an error in opening the data. */
static void print_csv_header(printer *state) {
    if (state->json || state->has_header || !state->model.speaks) return;
    state->has_header = true;
    fputs("row", stdout);
    for (int32_t t = 0; t < rk_predictor_n_tasks(state->model.predictor); t++) {
        const char *name = rk_predictor_task_name(state->model.predictor, t);
        fputc(',', stdout);
        print_csv_field(name, "");
        if (!state->labels) continue;
        fputc(',', stdout);
        print_csv_field(name, "_true");
    }
    fputc('\n', stdout);
}

static rk_status print_prediction_row(void *user, int64_t row, const float *predictions,
                                      const float *labels) {
    printer *state = user;
    if (state->limit && row >= state->limit) return RK_END;
    if (!state->model.speaks) return RK_OK;
    print_csv_header(state);
    printf(state->json ? "{\"row\":%lld" : "%lld", (long long)row);
    for (int32_t t = 0; t < rk_predictor_n_tasks(state->model.predictor); t++) {
        const char *name = rk_predictor_task_name(state->model.predictor, t);
        const char *comma = state->json ? "" : ",";
        if (state->json) print_json_key(name, "");
        printf("%s%.7g", comma, (double)predictions[t]);
        if (!state->labels) continue;
        bool known = labels && !isnan(labels[t]);
        if (state->json) print_json_key(name, "_true");
        known ? printf("%s%.7g", comma, (double)labels[t]) : printf("%s", state->json ? "null" : comma);
    }
    fputs(state->json ? "}\n" : "\n", stdout);
    return ferror(stdout) ? RK_IO : RK_OK;
}

static int run_predict(const arguments *args) {
    printer state = {
        .json = args->options[OPT_FORMAT].given && strcmp(args->options[OPT_FORMAT].text, "jsonl") == 0,
        .labels = args->options[OPT_LABELS].given,
        .limit = args->options[OPT_LIMIT].number,
    };
    int code = trained_model_open(args->positional[0], args->options[OPT_DEVICE].text,
                                  row_format_from_name(args->options[OPT_ROWS].text), &state.model);
    if (code != EXIT_OK) return code;
    rk_status status =
        rk_predictor_file(state.model.predictor, args->positional[1], print_prediction_row, &state);
    if (status == RK_OK) print_csv_header(&state);
    return trained_model_close(&state.model, status == RK_END || ferror(stdout) ? RK_OK : status);
}

const command command_predict = {
    .name = "predict",
    .summary = "print a trained model's predictions for a file",
    .positional = "RUN FILE",
    .min_positional = 2,
    .max_positional = 2,
    .description =
        "Prints one line a row of FILE, in its order: the row's number from 0 and each task's prediction. "
        "FILE has the columns of the run's\n"
        "data; labels may be missing. RUN is a checkpoint, a run's directory, its run file, or what 'reckon "
        "export' has written; FILE may also be 'valid' or 'test'.\n"
        "Under mpirun or srun the tables are sharded over the ranks, which predict together; the first one "
        "prints.",
    .options =
        {
            [OPT_FORMAT] = {"format", 'f', OPTION_TEXT, "FORMAT", "csv|jsonl",
                            "how lines look; csv by default"},
            [OPT_LIMIT] = {"limit", 'n', OPTION_INT, "N", NULL, "only the first N rows; 0: all"},
            [OPT_LABELS] = {"labels", 'l', OPTION_FLAG, NULL, NULL,
                            "print the labels beside the predictions, as TASK_true"},
            [OPT_ROWS] = {"rows", 0, OPTION_TEXT, "DTYPE", OPTION_ROWS_CHOICES,
                          "predict with tables' rows in this format, as an export with it does"},
            [OPT_DEVICE] = OPTION_DEVICE,
        },
    .examples =
        "reckon predict runs/adult data/adult/adult.test.gz > predictions.csv\nreckon predict --format jsonl "
        "--limit 5 runs/adult test",
    .run = run_predict,
};
