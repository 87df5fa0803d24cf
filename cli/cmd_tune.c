#include <stdio.h>

#include <reckon/experimental/tune.h>
#include <reckon/reckon.h>

#include "command.h"
#include "progress.h"
#include "stop_signals.h"
#include "terminal.h"

enum {
    OPT_GRID,
    OPT_RANDOM,
    OPT_RANGE,
    OPT_METRIC,
    OPT_OUTPUT,
    OPT_RESUME,
    OPT_SEED,
    OPT_SET,
    OPT_THREADS,
    OPT_VERBOSE,
    OPT_QUIET
};

static void stop_tuning(void *tune) {
    rk_tune_stop(tune);
}

static void print_trial(void *user, int64_t trial, int64_t n_trials, const char *settings, bool done) {
    progress *state = user;
    progress_end(state);
    if (!done) print_note("trial %lld of %lld: %s", (long long)trial + 1, (long long)n_trials, settings);
}

/* The table says what was reached even where the search did not come to its end. */
static int run_trials(rk_tune *tune, const char *run_file, bool quiet) {
    stop_signals_install(&(stoppable){stop_tuning, tune});
    rk_status status = rk_tune_run(tune);
    stop_signals_uninstall();
    char reason[1024], *text;
    snprintf(reason, sizeof reason, "%s", rk_last_error());
    if (rk_tune_to_text(tune, &text) != RK_OK) return report_last_error();
    print_text(stdout, text);
    rk_text_free(text);
    fflush(stdout); /* before what goes to stderr */
    if (status == RK_INTERRUPTED) {
        print_note("stopped on request; 'reckon tune --resume ... %s' goes on from here", run_file);
        return stop_exit_status();
    }
    if (status != RK_OK) return report_error("%s", reason);
    if (!quiet)
        print_note("%s/tune.csv and %s/tune.svg show all of it", rk_tune_output(tune), rk_tune_output(tune));
    return EXIT_OK;
}

static int run_tune(const arguments *args) {
    progress state;
    rk_tune_options options = RK_TUNE_OPTIONS_INIT;
    options.grids = args->options[OPT_GRID].list;
    options.n_grids = args->options[OPT_GRID].n_list;
    options.ranges = args->options[OPT_RANGE].list;
    options.n_ranges = args->options[OPT_RANGE].n_list;
    options.n_random = args->options[OPT_RANDOM].number;
    options.overrides = args->options[OPT_SET].list;
    options.n_overrides = args->options[OPT_SET].n_list;
    options.metric = args->options[OPT_METRIC].text;
    options.output = args->options[OPT_OUTPUT].text;
    options.resume = args->options[OPT_RESUME].given;
    if (args->options[OPT_SEED].given) options.seed = (uint64_t)args->options[OPT_SEED].number;
    progress_init(&state, args->options[OPT_QUIET].given);
    options.on_trial = args->options[OPT_QUIET].given ? NULL : print_trial;
    options.on_event = args->options[OPT_VERBOSE].given ? progress_print_event : NULL;
    options.user = &state;
    if (args->options[OPT_THREADS].given && rk_set_threads((int)args->options[OPT_THREADS].number) != RK_OK)
        return report_last_error();
    rk_tune *tune;
    if (rk_tune_create(args->positional[0], &options, &tune) != RK_OK) return report_last_error();
    int code = run_trials(tune, args->positional[0], args->options[OPT_QUIET].given);
    rk_tune_free(tune);
    return code;
}

const command command_tune = {
    .name = "tune",
    .summary = "search settings of a run file by training with each",
    .positional = "RUN.yaml",
    .min_positional = 1,
    .max_positional = 1,
    .description =
        "Trains once for each combination of the grids, or with --random N for N draws from grids and "
        "ranges, and prints the trials, best first, by the\n"
        "best value of a metric on the validation data; test data are never looked at. Every trial is an "
        "ordinary run, in OUTPUT/trial-001 and so on;\n"
        "tune.csv, tune.json and tune.svg beside them are kept up to date. A trial that fails is noted, and "
        "the search goes on. Ctrl-C ends the trial\n"
        "after its step, saves, and exits with 130 (SIGTERM: 143). docs/reports.md.",
    .options =
        {
            [OPT_GRID] = {"grid", 'g', OPTION_LIST, "KEY=A,B,...", NULL, "values of a key; may be repeated"},
            [OPT_RANDOM] = {"random", 'n', OPTION_INT, "N", NULL,
                            "N random trials in place of all combinations"},
            [OPT_RANGE] = {"range", 'r', OPTION_LIST, "KEY=LOW..HIGH", NULL,
                           "a range to draw numbers from; :log or :int may follow; may be repeated"},
            [OPT_METRIC] = {"metric", 'm', OPTION_TEXT, "METRIC", NULL,
                            "the metric to rank by, 'auc' or 'task/auc'; by default early stopping's"},
            [OPT_OUTPUT] = {"output", 'o', OPTION_TEXT, "DIR", NULL,
                            "where the search is kept; by default train.output with '-tune' behind it"},
            [OPT_RESUME] = {"resume", 0, OPTION_FLAG, NULL, NULL, "keep the trials that are done, and go on"},
            [OPT_SEED] = {"seed", 0, OPTION_INT, "N", NULL, "of the values drawn; 1 by default"},
            [OPT_SET] = {"set", 's', OPTION_LIST, "KEY=VALUE", NULL,
                         "override a key of the run file in all trials; may be repeated"},
            [OPT_THREADS] = {"threads", 't', OPTION_INT, "N", NULL, "threads; 0 = all processors"},
            [OPT_VERBOSE] = {"verbose", 'v', OPTION_FLAG, NULL, NULL, "show the progress of each training"},
            [OPT_QUIET] = {"quiet", 'q', OPTION_FLAG, NULL, NULL, "only the table and errors"},
        },
    .examples =
        "reckon tune --grid train.optimizer.learning_rate=0.01,0.001 --grid embedding.dim=8,16 run.yaml\n"
        "reckon tune --random 20 --range train.optimizer.learning_rate=1e-4..1e-1:log --range "
        "model.dropout=0..0.5 run.yaml",
    .run = run_tune,
};
