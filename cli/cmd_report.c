#include <limits.h>
#include <stdio.h>

#include <reckon/experimental/report.h>
#include <reckon/reckon.h>

#include "command.h"
#include "terminal.h"
#include "trained_model.h"

enum { OPT_OUTPUT, OPT_SPLIT, OPT_ROWS, OPT_FEATURES, OPT_REPEATS, OPT_SEED, OPT_DEVICE, OPT_QUIET };

static void print_stage(void *user, const char *message) {
    (void)user;
    print_note("%s", message);
}

static long option_number_or_default(const arguments *args, int index, long usual) {
    return args->options[index].given ? args->options[index].number : usual;
}

static int run_report(const arguments *args) {
    rk_report_options options = RK_REPORT_OPTIONS_INIT;
    char path[4096];
    long n_features = option_number_or_default(args, OPT_FEATURES, options.n_features),
         n_repeats = option_number_or_default(args, OPT_REPEATS, options.n_repeats);
    if (n_features > INT_MAX || n_repeats > INT_MAX || n_repeats == 0) {
        report_usage_error(&command_report,
                           "--features and --repeats take numbers up to %d, --repeats from 1 on", INT_MAX);
        return EXIT_USAGE;
    }
    options.split = args->options[OPT_SPLIT].text;
    options.n_rows = option_number_or_default(args, OPT_ROWS, (long)options.n_rows);
    options.n_features = (int32_t)n_features;
    options.n_repeats = (int32_t)n_repeats;
    options.seed = (uint64_t)option_number_or_default(args, OPT_SEED, (long)options.seed);
    options.device = args->options[OPT_DEVICE].text;
    options.on_stage = args->options[OPT_QUIET].given ? NULL : print_stage;
    snprintf(path, sizeof path, "%s/report.html", args->positional[0]);
    if (args->options[OPT_OUTPUT].given) snprintf(path, sizeof path, "%s", args->options[OPT_OUTPUT].text);
    if (rk_report_write(args->positional, (size_t)args->n_positional, &options, path) != RK_OK)
        return report_last_error();
    printf("%s\n", path);
    return EXIT_OK;
}

const command command_report = {
    .name = "report",
    .summary = "write a page about one run, or several side by side",
    .positional = "RUN_DIR...",
    .min_positional = 1,
    .max_positional = MAX_ARGUMENTS,
    .description =
        "Writes one HTML file that needs nothing beside itself, and prints its path: a table of the runs and "
        "of the settings in which they differ, learning\n"
        "curves, ROC curve, calibration, and the importance of features. docs/reports.md says what each "
        "picture shows.",
    .options =
        {
            [OPT_OUTPUT] = {"output", 'o', OPTION_TEXT, "FILE", NULL,
                            "where the page goes; report.html in the first run's directory by default"},
            [OPT_SPLIT] = {"split", 'd', OPTION_TEXT, "DATA", NULL,
                           "valid (the default), test, or a labelled file of the same columns"},
            [OPT_ROWS] = {"rows", 'n', OPTION_INT, "N", NULL,
                          "the first N rows of it; 100000 by default, 0: all"},
            [OPT_FEATURES] = {"features", 'f', OPTION_INT, "N", NULL,
                              "show the N most important features; 30 by default, 0: none are measured"},
            [OPT_REPEATS] = {"repeats", 0, OPTION_INT, "N", NULL,
                             "permutations of each feature; 3 by default"},
            [OPT_SEED] = {"seed", 0, OPTION_INT, "N", NULL, "of the permutations; 1 by default"},
            [OPT_DEVICE] = OPTION_DEVICE,
            [OPT_QUIET] = {"quiet", 'q', OPTION_FLAG, NULL, NULL, "no progress, only the path and errors"},
        },
    .examples =
        "reckon report runs/adult\nreckon report --split test --output compare.html runs/adult "
        "runs/adult-wide",
    .run = run_report,
};
