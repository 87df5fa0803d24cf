#include <stdlib.h>
#include <string.h>

#include <reckon/reckon.h>

#include "command.h"
#include "terminal.h"
#include "trained_model.h"

enum {
    OPT_FORMAT,
    OPT_TABLES,
    OPT_NO_TABLES,
    OPT_ROWS,
    OPT_BAGS,
    OPT_IDS,
    OPT_INPUTS,
    OPT_SHARD,
    OPT_LICENSE,
    OPT_TO
};

typedef struct exporting {
    rk_export_options options;
    const char *directory;
    bool onnx;
} exporting;

static rk_status export_checkpoint(void *user, const char *path) {
    const exporting *e = user;
    return (e->onnx ? rk_export_onnx : rk_export_safetensors)(path, &e->options, e->directory);
}

/* "a,b" cut at its commas, in place; names [strlen(text) + 1]. */
static size_t split_names_at_commas(char *text, const char **names) {
    size_t n = 0;
    for (char *at = strtok(text, ","); at; at = strtok(NULL, ",")) names[n++] = at;
    return n;
}

static int run_export(const arguments *args) {
    exporting e = {.options = RK_EXPORT_OPTIONS_INIT, .directory = args->positional[1]};
    char *text = args->options[OPT_TABLES].given ? strdup(args->options[OPT_TABLES].text) : NULL;
    const char **names = text ? calloc(strlen(text) + 1, sizeof *names) : NULL;
    if (text && names) {
        e.options.n_tables = split_names_at_commas(text, names);
        e.options.tables = names;
    }
    e.onnx = args->options[OPT_FORMAT].given && strcmp(args->options[OPT_FORMAT].text, "onnx") == 0;
    e.options.no_tables = args->options[OPT_NO_TABLES].given;
    if (args->options[OPT_ROWS].given) e.options.rows = row_format_from_name(args->options[OPT_ROWS].text);
    if (args->options[OPT_BAGS].given && strcmp(args->options[OPT_BAGS].text, "padded") == 0)
        e.options.bags = RK_EXPORT_BAGS_PADDED;
    if (args->options[OPT_IDS].given) e.options.id_bits = atoi(args->options[OPT_IDS].text + strlen("int"));
    e.options.values =
        args->options[OPT_INPUTS].given && strcmp(args->options[OPT_INPUTS].text, "values") == 0;
    e.options.shard_bytes = (uint64_t)args->options[OPT_SHARD].number;
    e.options.license = args->options[OPT_LICENSE].text;
    e.options.rows_to = args->options[OPT_TO].text;
    int code = call_with_checkpoint_path(args->positional[0], export_checkpoint, &e) == RK_OK
                   ? EXIT_OK
                   : report_last_error();
    if (code == EXIT_OK) print_note("wrote %s", e.directory);
    free(names);
    free(text);
    return code;
}

const command command_export = {
    .name = "export",
    .summary = "write a trained model for other programs",
    .positional = "RUN DIRECTORY",
    .min_positional = 2,
    .max_positional = 2,
    .description =
        "Writes DIRECTORY, whole or not at all: safetensors files in which every tensor is whole, whatever "
        "ranks trained it, the run file,\n"
        "the fitted transforms and a model card. RUN is a checkpoint, a run's directory or its run file. The "
        "memory that it takes does not\n"
        "grow with the tables. docs/export.md says what loads it where.",
    .options =
        {
            [OPT_FORMAT] = {"format", 'f', OPTION_TEXT, "FORMAT", "safetensors|onnx",
                            "safetensors by default; onnx: those files, and a model that computes with them"},
            [OPT_TABLES] = {"tables", 0, OPTION_TEXT, "A,B", NULL, "these tables alone"},
            [OPT_NO_TABLES] = {"no-tables", 0, OPTION_FLAG, NULL, NULL, "the dense part alone"},
            [OPT_ROWS] = {"rows", 0, OPTION_TEXT, "DTYPE", "trained|" OPTION_ROWS_CHOICES,
                          "how rows of tables are written; as they were trained by default"},
            [OPT_BAGS] = {"bags", 0, OPTION_TEXT, "FORM", "ragged|padded",
                          "how an ONNX model takes a batch's ids: one behind another, with offsets, by "
                          "default; or [batch, most ids] with -1 behind them"},
            [OPT_IDS] = {"ids", 0, OPTION_TEXT, "DTYPE", "int64|int32",
                         "of an ONNX model's ids and offsets; int64 by default"},
            [OPT_INPUTS] =
                {"inputs", 0, OPTION_TEXT, "WHAT", "ids|values",
                 "of an ONNX model: ids and numbers, by default; or columns' values, from which the "
                 "model makes them"},
            [OPT_SHARD] = {"shard-bytes", 0, OPTION_INT, "N", NULL,
                           "a file ends before it grows larger; 5000000000 by default"},
            [OPT_LICENSE] = {"license", 0, OPTION_TEXT, "SPDX", NULL,
                             "the license that the model card names"},
            [OPT_TO] = {"to", 0, OPTION_TEXT, "redis://HOST:PORT/PREFIX", NULL,
                        "rows of tables go to Redis, and DIRECTORY says so (docs/redis.md)"},
        },
    .examples =
        "reckon export runs/adult adult-model\nreckon export --rows int8 --tables user,item runs/ads "
        "ads-tables\nreckon export --format onnx runs/adult adult-onnx",
    .run = run_export,
};
