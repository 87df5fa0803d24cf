#include <limits.h>
#include <stdio.h>

#include <reckon/experimental/plan.h>
#include <reckon/reckon.h>

#include "command.h"
#include "terminal.h"

enum { OPT_SET, OPT_CLUSTER, OPT_RANKS, OPT_SAMPLE, OPT_MEASURE, OPT_WRITE, OPT_JSON };

/* A plan that does not fit is shown all the same; as text it says why, and what would fit. */
static int print_plan(const rk_plan *plan, const arguments *args) {
    char *text;
    bool json = args->options[OPT_JSON].given;
    if ((json ? rk_plan_to_json(plan, &text) : rk_plan_to_text(plan, &text)) != RK_OK)
        return report_last_error();
    print_text(stdout, text);
    if (json) fputc('\n', stdout);
    rk_text_free(text);
    fflush(stdout); /* before what goes to stderr */
    if (rk_plan_check(plan) != RK_OK)
        return json ? report_last_error() : report_error("the run does not fit");
    if (args->options[OPT_WRITE].given && rk_plan_write(plan, args->options[OPT_WRITE].text) != RK_OK)
        return report_last_error();
    return EXIT_OK;
}

static int run_plan(const arguments *args) {
    rk_plan_options options = RK_PLAN_OPTIONS_INIT;
    options.cluster = args->options[OPT_CLUSTER].text;
    options.measure = args->options[OPT_MEASURE].given;
    options.sample = args->options[OPT_SAMPLE].given;
    options.sample_rows = args->options[OPT_SAMPLE].number;
    if (args->options[OPT_RANKS].number > INT_MAX) {
        report_usage_error(&command_plan, "--ranks %ld is more than any cluster has",
                           args->options[OPT_RANKS].number);
        return EXIT_USAGE;
    }
    options.n_ranks = (int32_t)args->options[OPT_RANKS].number;
    rk_config *config;
    if (rk_config_load(args->positional[0], args->options[OPT_SET].list, args->options[OPT_SET].n_list,
                       &config) != RK_OK)
        return report_last_error();
    rk_plan *plan = NULL;
    int code = rk_plan_make(config, &options, &plan) == RK_OK ? print_plan(plan, args) : report_last_error();
    rk_plan_free(plan);
    rk_config_free(config);
    return code;
}

const command command_plan = {
    .name = "plan",
    .summary = "make a sharding plan for a cluster and predict its speed",
    .positional = "RUN.yaml",
    .min_positional = 1,
    .max_positional = 1,
    .description =
        "Prints which ranks would hold which part of which table, what each rank's memory would be taken by, "
        "and how long a step would last, part\n"
        "by part. Refuses with the reason and what would help where it does not fit. docs/planning.md has "
        "the cluster file and the equations.",
    .options =
        {
            [OPT_SET] = {"set", 's', OPTION_LIST, "KEY=VALUE", NULL,
                         "override a key of the run file; may be repeated"},
            [OPT_CLUSTER] = {"cluster", 'c', OPTION_TEXT, "FILE", NULL,
                             "the hosts; by default this machine, which is then measured"},
            [OPT_RANKS] = {"ranks", 'r', OPTION_INT, "N", NULL,
                           "the cluster's first N ranks; by default all, or one on this machine"},
            [OPT_SAMPLE] =
                {"sample", 'n', OPTION_INT, "N", NULL,
                 "count ids over N rows of the training data, 0: all; without it loads are assumed"},
            [OPT_MEASURE] = {"measure", 'm', OPTION_FLAG, NULL, NULL,
                             "time steps on this machine, for what the cluster file does not give"},
            [OPT_WRITE] = {"write", 'w', OPTION_TEXT, "FILE", NULL,
                           "write the plan for cluster.plan of a run file"},
            [OPT_JSON] = {"json", 'j', OPTION_FLAG, NULL, NULL, "one JSON object"},
        },
    .examples =
        "reckon plan --ranks 4 run.yaml\nreckon plan --cluster cluster.yaml --sample 1000000 --write "
        "plan.yaml run.yaml",
    .run = run_plan,
};
