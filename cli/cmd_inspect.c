#include <stdio.h>
#include <string.h>

#include <reckon/reckon.h>

#include "command.h"
#include "terminal.h"

enum { OPT_SET, OPT_CONFIG_ONLY, OPT_GRAPH, OPT_DOT };

enum { ROWS_LOOKED_AT = 1 << 20 };

/* What memory takes, by what the first rows look like. */
typedef struct need {
    uint64_t of_model, of_data;
    bool is_most; /* there are more rows than were looked at */
} need;

static void add_split_to_peak_memory(const rk_model *model, rk_dataset *dataset, need *sum) {
    const rk_batch *batch;
    uint64_t bytes = 0;
    int64_t n_rows = 0;
    rk_status status = RK_OK;
    while (n_rows < ROWS_LOOKED_AT && (status = rk_dataset_next(dataset, &batch)) == RK_OK) {
        if (!sum->of_model) sum->of_model = rk_model_peak_bytes(model, batch);
        if (n_rows == 0) bytes = rk_dataset_peak_bytes(dataset, batch, -1);
        n_rows += batch->n;
    }
    if (status == RK_END && n_rows && rk_dataset_next(dataset, &batch) == RK_OK)
        bytes = rk_dataset_peak_bytes(dataset, batch, n_rows);
    sum->is_most |= status != RK_END;
    sum->of_data += bytes;
}

/* All splits: what is read of one stays while others are. */
static void print_peak_memory(const rk_config *config, const rk_transforms *transforms, const rk_model *model,
                              rk_dataset *train) {
    static const char *const others[] = {"valid", "test"};
    need all = {0};
    add_split_to_peak_memory(model, train, &all);
    for (int i = 0; i < 2; i++) {
        rk_dataset *other;
        if (rk_dataset_open_transformed(config, transforms, others[i], &other) != RK_OK) continue;
        add_split_to_peak_memory(model, other, &all);
        rk_dataset_free(other);
    }
    if (all.of_model)
        printf("peak memory of training: %.1f MiB (model and steps %.1f MiB, data %s%.1f MiB)\n",
               (double)(all.of_model + all.of_data) / 1048576, (double)all.of_model / 1048576,
               all.is_most ? "up to " : "", (double)all.of_data / 1048576);
}

static int print_model_summary(const rk_config *config) {
    rk_transforms *transforms;
    rk_dataset *dataset = NULL;
    rk_model *model = NULL;
    char *text = NULL;
    int code = EXIT_OK;
    if (rk_transforms_fit(config, &transforms) != RK_OK) return report_last_error();
    if (rk_dataset_open_transformed(config, transforms, "train", &dataset) != RK_OK ||
        rk_model_outline(config, dataset, &model) != RK_OK || rk_model_describe(model, &text) != RK_OK)
        code = report_last_error();
    else
        print_text(stdout, text);
    if (code == EXIT_OK) print_peak_memory(config, transforms, model, dataset);
    rk_text_free(text);
    rk_model_free(model);
    rk_dataset_free(dataset);
    rk_transforms_free(transforms);
    return code;
}

/* The graph alone, as a section of a run file or for graphviz. */
static int print_graph(const rk_config *config, bool dot) {
    rk_dataset *dataset;
    char *text = NULL;
    if (rk_dataset_open(config, "train", &dataset) != RK_OK) return report_last_error();
    int code = (dot ? rk_model_graph_dot : rk_model_graph_yaml)(config, dataset, &text) == RK_OK
                   ? EXIT_OK
                   : report_last_error();
    if (code == EXIT_OK) print_text(stdout, text);
    rk_text_free(text);
    rk_dataset_free(dataset);
    return code;
}

static int print_config_and_model(const rk_config *config, bool config_only) {
    char *text;
    if (rk_config_to_yaml(config, &text) != RK_OK) return report_last_error();
    print_text(stdout, text);
    rk_text_free(text);
    if (config_only) return EXIT_OK;
    fputc('\n', stdout);
    return print_model_summary(config);
}

static int run_inspect(const arguments *args) {
    rk_config *config;
    bool config_only = args->options[OPT_CONFIG_ONLY].given, graph = args->options[OPT_GRAPH].given,
         dot = args->options[OPT_DOT].given;
    if (config_only + graph + dot > 1) {
        report_usage_error(&command_inspect, "--config-only, --graph and --dot: give one of them");
        return EXIT_USAGE;
    }
    if (rk_config_load(args->positional[0], args->options[OPT_SET].list, args->options[OPT_SET].n_list,
                       &config) != RK_OK)
        return report_last_error();
    int code = graph || dot ? print_graph(config, dot) : print_config_and_model(config, config_only);
    rk_config_free(config);
    return code;
}

const command command_inspect = {
    .name = "inspect",
    .summary = "show what a run file resolves to: configuration, tables, graph",
    .positional = "RUN.yaml",
    .min_positional = 1,
    .max_positional = 1,
    .description =
        "Prints the resolved configuration, the tables with rows, dim and bytes, and the graph with shapes "
        "and parameter counts. Reads the\n"
        "training data where vocabularies or normalization need it.",
    .options =
        {
            [OPT_SET] = {"set", 's', OPTION_LIST, "KEY=VALUE", NULL,
                         "override a key of the run file; may be repeated"},
            [OPT_CONFIG_ONLY] = {"config-only", 0, OPTION_FLAG, NULL, NULL,
                                 "only the configuration; reads no data"},
            [OPT_GRAPH] = {"graph", 0, OPTION_FLAG, NULL, NULL,
                           "only the model, written out as a graph that a run file may hold"},
            [OPT_DOT] = {"dot", 0, OPTION_FLAG, NULL, NULL, "only the graph, for graphviz"},
        },
    .examples =
        "reckon inspect examples/adult.yaml\nreckon inspect --set model.kind=dcn_v2 --config-only "
        "run.yaml\nreckon inspect --graph run.yaml\n"
        "reckon inspect --dot run.yaml | dot -Tsvg -o model.svg",
    .run = run_inspect,
};
