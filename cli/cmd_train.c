#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reckon/reckon.h>

#include "command.h"
#include "progress.h"
#include "rank_failure.h"
#include "stop_signals.h"
#include "terminal.h"

enum {
    OPT_RESUME,
    OPT_ALLOW_CHANGED_DATA,
    OPT_OVERWRITE,
    OPT_SET,
    OPT_OUTPUT,
    OPT_TRACE,
    OPT_THREADS,
    OPT_QUIET
};

static void stop_trainer(void *trainer) {
    rk_trainer_stop(trainer);
}

/* Test metrics, where the run file names test data. */
static rk_status print_test_metrics(rk_trainer *trainer, const rk_comm *comm) {
    const rk_metric *metrics;
    int32_t n_metrics;
    rk_status status = rk_trainer_evaluate(trainer, "test", &metrics, &n_metrics);
    if (status == RK_NOT_FOUND) return RK_OK;
    if (status != RK_OK || rk_comm_rank(comm) > 0) return status;
    fputs("test  ", stdout);
    print_metrics(metrics, n_metrics, true);
    return RK_OK;
}

/* train.output=PATH, the path as it is: quoted, for to the parser of values '[x]' or 'a #b' would be more
 * than text. */
static char *make_output_override(const char *path) {
    static const char key[] = "train.output=\"";
    char *text = malloc(sizeof key + 2 * strlen(path) + 1);
    if (!text) return NULL;
    char *at = text + sprintf(text, "%s", key);
    for (; *path; path++) {
        if (strchr("\"\\\n", *path)) *at++ = '\\';
        *at++ = *path == '\n' ? 'n' : *path;
    }
    strcpy(at, "\"");
    return text;
}

static int train_model(const rk_config *config, const arguments *args, rk_comm *comm) {
    progress state;
    progress_init(&state, args->options[OPT_QUIET].given);
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    options.resume = args->options[OPT_RESUME].given;
    options.allow_changed_data = args->options[OPT_ALLOW_CHANGED_DATA].given;
    options.overwrite = args->options[OPT_OVERWRITE].given;
    options.trace_path = args->options[OPT_TRACE].text;
    options.on_event = progress_print_event;
    options.user = &state;
    options.comm = comm;
    rk_trainer *trainer;
    rk_status status = rk_trainer_create(config, &options, &trainer);
    if (status != RK_OK) {
        progress_end(&state);
        return report_refused_ranks(comm, status);
    }
    stop_signals_install(&(stoppable){stop_trainer, trainer});
    status = rk_trainer_run(trainer);
    stop_signals_uninstall();
    progress_end(&state);
    bool stopped = status == RK_INTERRUPTED;
    int code = EXIT_OK;
    if (stopped && rk_comm_rank(comm) == 0)
        print_note("stopped on request; the same command with --resume goes on from here");
    else if (!stopped && (status != RK_OK || print_test_metrics(trainer, comm) != RK_OK))
        code = abort_all_ranks(comm);
    rk_trainer_free(trainer);
    return code == EXIT_OK ? stop_exit_status_over_ranks(comm, stopped) : code;
}

static int load_config(const arguments *args, rk_config **out) {
    const char *overrides[MAX_LIST + 1];
    char *output = NULL;
    size_t n = 0;
    for (; n < args->options[OPT_SET].n_list; n++) overrides[n] = args->options[OPT_SET].list[n];
    if (args->options[OPT_OUTPUT].given) {
        output = make_output_override(args->options[OPT_OUTPUT].text);
        if (!output) return report_error("out of memory");
        overrides[n++] = output;
    }
    rk_status status = rk_config_load(args->positional[0], overrides, n, out);
    free(output);
    return status == RK_OK ? EXIT_OK : report_last_error();
}

static int run_train(const arguments *args) {
    if (args->options[OPT_RESUME].given && args->options[OPT_OVERWRITE].given) {
        report_usage_error(&command_train, "--resume and --overwrite cannot be given together");
        return EXIT_USAGE;
    }
    if (args->options[OPT_THREADS].given && rk_set_threads((int)args->options[OPT_THREADS].number) != RK_OK)
        return report_last_error();
    rk_config *config;
    int code = load_config(args, &config);
    if (code != EXIT_OK) return code;
    rk_comm *comm;
    rk_comm_options ranks = RK_COMM_OPTIONS_INIT;
    ranks.timeout_s = rk_config_timeout_s(config);
    code = rk_comm_world(&ranks, &comm) == RK_OK ? EXIT_OK : report_last_error();
    if (code == EXIT_OK) {
        code = train_model(config, args, comm);
        rk_comm_free(comm);
    }
    rk_config_free(config);
    return code;
}

const command command_train = {
    .name = "train",
    .summary = "train the model of a run file",
    .positional = "RUN.yaml",
    .min_positional = 1,
    .max_positional = 1,
    .description =
        "Trains, evaluates, and saves checkpoints, metrics and logs under train.output. Ends with the "
        "metrics of the test data, if\n"
        "the run file names any. Ctrl-C finishes the step, saves, and exits with 130 (SIGTERM: 143); "
        "--resume goes on from the\n"
        "newest checkpoint.\n"
        "Under mpirun or srun the ranks train together, as the run file's 'cluster' says; they read and "
        "write the same paths.",
    .options =
        {
            [OPT_RESUME] = {"resume", 'r', OPTION_FLAG, NULL, NULL,
                            "continue from the newest checkpoint, if there is one"},
            [OPT_ALLOW_CHANGED_DATA] = {"allow-changed-data", 0, OPTION_FLAG, NULL, NULL,
                                        "resume even if data files changed"},
            [OPT_OVERWRITE] = {"overwrite", 0, OPTION_FLAG, NULL, NULL,
                               "start over: remove the checkpoints and logs of the run in that directory"},
            [OPT_SET] = {"set", 's', OPTION_LIST, "KEY=VALUE", NULL,
                         "override a key of the run file; may be repeated"},
            [OPT_OUTPUT] = {"output", 'o', OPTION_TEXT, "DIR", NULL, "where the run is kept (train.output)"},
            [OPT_TRACE] = {"trace", 0, OPTION_TEXT, "FILE", NULL, "write a Chrome trace (opens in Perfetto)"},
            [OPT_THREADS] = {"threads", 't', OPTION_INT, "N", NULL, "threads; 0 = all processors"},
            [OPT_QUIET] = {"quiet", 'q', OPTION_FLAG, NULL, NULL, "no progress, only results and errors"},
        },
    .examples =
        "reckon train examples/adult.yaml\n"
        "reckon train --set train.epochs=2 --set train.optimizer.learning_rate=0.01 run.yaml\n"
        "reckon train --resume run.yaml\n"
        "reckon train --trace trace.json run.yaml\n"
        "mpirun -np 4 reckon train run.yaml",
    .run = run_train,
};
