#include <reckon/reckon.h>

#include "command.h"
#include "progress.h"
#include "stop.h"
#include "terminal.h"

enum { OPT_CONFIG, OPT_FROM, OPT_TO, OPT_SKIP, OPT_LEVEL, OPT_QUIET };
#define FORMATS "csv|tsv|libsvm|tfrecord|rkb"

static bool on_progress(void *user, int64_t n_rows, double fraction) {
    progress_rows(user, "converted", n_rows, fraction);
    return stop_signal() != 0;
}

static int run(const arguments *args) {
    progress state;
    progress_init(&state, args->options[OPT_QUIET].given);
    rk_config *config = NULL;
    if (args->options[OPT_CONFIG].given &&
        rk_config_load(args->options[OPT_CONFIG].text, NULL, 0, &config) != RK_OK)
        return failed();
    rk_convert_options options = RK_CONVERT_OPTIONS_INIT;
    options.from = args->options[OPT_FROM].text;
    options.to = args->options[OPT_TO].text;
    options.config = config;
    options.skip_bad_rows = args->options[OPT_SKIP].given;
    if (args->options[OPT_LEVEL].given)
        options.compression_level =
            args->options[OPT_LEVEL].number ? (int)args->options[OPT_LEVEL].number : -1;
    options.on_progress = on_progress;
    options.user = &state;
    stop_hear(NULL);
    int64_t n_rows, n_skipped;
    rk_status status = rk_convert(args->positional[0], args->positional[1], &options, &n_rows, &n_skipped);
    progress_end(&state);
    int code = EXIT_OK;
    if (status != RK_OK)
        code = status == RK_INTERRUPTED ? (failed(), stop_code()) : failed();
    else if (!state.quiet)
        note("wrote %s: %lld rows%s", args->positional[1], (long long)n_rows,
             n_skipped ? "" : ", none skipped");
    if (status == RK_OK && n_skipped) note("skipped %lld bad rows", (long long)n_skipped);
    rk_config_free(config);
    return code;
}

const command command_convert = {
    .name = "convert",
    .summary = "rewrite a data file in another format",
    .positional = "INPUT OUTPUT",
    .min_positional = 2,
    .max_positional = 2,
    .description =
        "Formats: csv, tsv, libsvm, tfrecord (tf.train.Example) and rkb (columnar, compressed, memory "
        "mapped), told by the names; parquet\n"
        "is read. gzip and zstd files are read, and written for text formats, by their endings. INPUT may be "
        "a "
        "directory or a pattern:\n"
        "all files of it, one after the other. OUTPUT appears whole or not at all.",
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
        "reckon convert train.rkb train.tfrecord",
    .run = run,
};
