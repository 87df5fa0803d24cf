#include <string.h>

#include <reckon/reckon.h>

#include "command.h"
#include "progress.h"
#include "stop_signals.h"
#include "terminal.h"
#include "trained_model.h"

enum { OPT_CONFIG, OPT_FROM, OPT_TO, OPT_SKIP, OPT_LEVEL, OPT_QUIET };
#define FORMATS "csv|tsv|libsvm|tfrecord|rkb"

static bool print_conversion_progress(void *user, int64_t n_rows, double fraction) {
    progress_print_rows(user, "converted", n_rows, fraction);
    return received_stop_signal() != 0;
}

static bool is_run_file(const char *path) {
    const char *end = strrchr(path, '.');
    return end && (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0);
}

typedef struct conversion {
    rk_config *config;
    char *checkpoint;
} conversion;

static rk_status convert_checkpoint_at(void *user, const char *path) {
    conversion *c = user;
    return rk_checkpoint_convert(path, c->config, &c->checkpoint);
}

/* A run's checkpoint for another run file. */
static int convert_run_checkpoint(const arguments *args) {
    conversion c = {0};
    for (int i = OPT_CONFIG; i <= OPT_LEVEL; i++) {
        if (!args->options[i].given) continue;
        report_usage_error(&command_convert, "'--%s' is of data, and '%s' is a run file",
                           command_convert.options[i].name, args->positional[1]);
        return EXIT_USAGE;
    }
    if (rk_config_load(args->positional[1], NULL, 0, &c.config) != RK_OK) return report_last_error();
    rk_status status = call_with_checkpoint_path(args->positional[0], convert_checkpoint_at, &c);
    rk_config_free(c.config);
    if (status != RK_OK) return report_last_error();
    if (!args->options[OPT_QUIET].given)
        print_note("wrote %s, from which 'reckon train --resume %s' goes on", c.checkpoint,
                   args->positional[1]);
    rk_text_free(c.checkpoint);
    return EXIT_OK;
}

static int run_convert(const arguments *args) {
    if (is_run_file(args->positional[1])) return convert_run_checkpoint(args);
    progress state;
    progress_init(&state, args->options[OPT_QUIET].given);
    rk_config *config = NULL;
    if (args->options[OPT_CONFIG].given &&
        rk_config_load(args->options[OPT_CONFIG].text, NULL, 0, &config) != RK_OK)
        return report_last_error();
    rk_convert_options options = RK_CONVERT_OPTIONS_INIT;
    options.from = args->options[OPT_FROM].text;
    options.to = args->options[OPT_TO].text;
    options.config = config;
    options.skip_bad_rows = args->options[OPT_SKIP].given;
    if (args->options[OPT_LEVEL].given)
        options.compression_level =
            args->options[OPT_LEVEL].number ? (int)args->options[OPT_LEVEL].number : -1;
    options.on_progress = print_conversion_progress;
    options.user = &state;
    stop_signals_install(NULL);
    int64_t n_rows, n_skipped;
    rk_status status = rk_convert(args->positional[0], args->positional[1], &options, &n_rows, &n_skipped);
    progress_end(&state);
    int code = EXIT_OK;
    if (status != RK_OK)
        code = status == RK_INTERRUPTED ? (report_last_error(), stop_exit_status()) : report_last_error();
    else if (!state.quiet)
        print_note("wrote %s: %lld rows%s", args->positional[1], (long long)n_rows,
                   n_skipped ? "" : ", none skipped");
    if (status == RK_OK && n_skipped) print_note("skipped %lld bad rows", (long long)n_skipped);
    rk_config_free(config);
    return code;
}

const command command_convert = {
    .name = "convert",
    .summary = "rewrite a data file in another format, or a checkpoint for other tables",
    .positional = "INPUT OUTPUT",
    .min_positional = 2,
    .max_positional = 2,
    .description =
        "Formats: csv, tsv, libsvm, tfrecord (tf.train.Example) and rkb (columnar, compressed, memory "
        "mapped), told by the names; parquet\n"
        "is read. gzip and zstd files are read, and written for text formats, by their endings. INPUT may be "
        "a "
        "directory or a pattern:\n"
        "all files of it, one after the other. OUTPUT appears whole or not at all.\n\n"
        "Where OUTPUT is a run file, INPUT is a run or a checkpoint, whose tables become those of the run "
        "file: "
        "static or dynamic, with\n"
        "another max_capacity or other buckets. It is written to the run file's train.output.",
    .options =
        {
            [OPT_CONFIG] = {"config", 'c', OPTION_TEXT, "RUN.yaml", NULL,
                            "read INPUT as this run file's data section says"},
            [OPT_FROM] = {"from", 0, OPTION_TEXT, "FORMAT", FORMATS "|parquet", "INPUT's format"},
            [OPT_TO] = {"to", 0, OPTION_TEXT, "FORMAT", FORMATS, "OUTPUT's format"},
            [OPT_SKIP] = {"skip-bad-rows", 0, OPTION_FLAG, NULL, NULL, "count bad rows and go on"},
            [OPT_LEVEL] = {"level", 0, OPTION_INT, "N", NULL,
                           "rkb: zstd level; 0 = not compressed, 3 by default"},
            [OPT_QUIET] = {"quiet", 'q', OPTION_FLAG, NULL, NULL, "no progress"},
        },
    .examples =
        "reckon convert train.csv train.rkb\nreckon convert --config examples/adult.yaml "
        "data/adult/adult.data.gz adult.rkb\n"
        "reckon convert train.rkb train.tfrecord\nreckon convert runs/old new.yaml",
    .run = run_convert,
};
