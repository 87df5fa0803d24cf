#include <string.h>

#include <reckon/experimental/recommend.h>
#include <reckon/reckon.h>

#include "command.h"
#include "terminal.h"
#include "trained.h"

enum { OPT_K, OPT_USERS, OPT_ITEMS, OPT_WITHOUT, OPT_KNOWN, OPT_INDEX, OPT_FORMAT, OPT_OUTPUT, OPT_DEVICE };

static const char *text_of(const arguments *args, int number) {
    return args->options[number].given ? args->options[number].text : NULL;
}

static int run(const arguments *args) {
    rk_recommend_options o = RK_RECOMMEND_OPTIONS_INIT;
    o.users = text_of(args, OPT_USERS);
    o.items = text_of(args, OPT_ITEMS);
    o.without_items = text_of(args, OPT_WITHOUT);
    o.with_known = args->options[OPT_KNOWN].given;
    double recall = 1;
    o.index = text_of(args, OPT_INDEX);
    o.index_recall = &recall;
    o.k = (int32_t)args->options[OPT_K].number;
    o.output = text_of(args, OPT_OUTPUT);
    if (args->options[OPT_FORMAT].given && strcmp(args->options[OPT_FORMAT].text, "jsonl") == 0)
        o.format = RK_RECOMMEND_JSONL;
    if (args->options[OPT_K].given && (o.k < 1 || o.k != args->options[OPT_K].number)) {
        usage_error(&command_recommend, "-k takes a number of items from 1 to 2147483647, not '%s'",
                    args->options[OPT_K].text);
        return EXIT_USAGE;
    }
    trained model;
    int64_t n_users = 0;
    int code = trained_open(args->positional[0], args->options[OPT_DEVICE].text, &model);
    if (code != EXIT_OK) return code;
    rk_status status = rk_predictor_recommend(model.predictor, &o, &n_users);
    if (status == RK_OK && model.speaks && o.output && strcmp(o.output, "-") != 0)
        note("wrote %s: %lld users", o.output, (long long)n_users);
    if (status == RK_OK && model.speaks && o.index)
        note("%s found %.2f%% of the best items, measured on the first 1,000 users", o.index, 100 * recall);
    return trained_close(&model, status);
}

const command command_recommend = {
    .name = "recommend",
    .summary = "list the best items for users",
    .positional = "RUN",
    .min_positional = 1,
    .max_positional = 1,
    .description =
        "Prints the k items that a two_tower scores highest for each user, out of all of its training data: "
        "a line for each,\n"
        "user,rank,item,score, or with --format jsonl a line a user. Items that the user has in the training "
        "or validation data are\n"
        "left out. RUN is a checkpoint, a run's directory or its run file; docs/retrieval.md says more.\n"
        "Under mpirun or srun the tables are sharded over the ranks, which rank together; the first one "
        "writes.",
    .options =
        {
            [OPT_K] = {"top-k", 'k', OPTION_INT, "N", NULL, "items of a user, at most; 100 by default"},
            [OPT_USERS] = {"users", 'u', OPTION_TEXT, "DATA", NULL,
                           "the users of train (the default), valid, test, or a file of the run's columns, "
                           "of which the item's may be missing"},
            [OPT_ITEMS] = {"items", 'i', OPTION_TEXT, "FILE", NULL,
                           "only the items of this file, one a line"},
            [OPT_WITHOUT] = {"without-items", 0, OPTION_TEXT, "FILE", NULL, "none of the items of this file"},
            [OPT_KNOWN] = {"with-known", 0, OPTION_FLAG, NULL, NULL,
                           "items that the user is known to have, too"},
            [OPT_INDEX] = {"index", 0, OPTION_TEXT, "FILE", NULL,
                           "by an index that 'reckon index' wrote, not by looking at all items; says what "
                           "part of the best it found"},
            [OPT_FORMAT] = {"format", 'f', OPTION_TEXT, "FORMAT", "csv|jsonl",
                            "how lines look; csv by default"},
            [OPT_OUTPUT] = {"output", 'o', OPTION_TEXT, "FILE", NULL,
                            "written whole or not at all, compressed by its name (.gz, .zst); standard "
                            "output by default"},
            [OPT_DEVICE] = OPTION_DEVICE,
        },
    .examples =
        "reckon recommend -k 10 runs/movielens > films.csv\nreckon recommend --users new.csv --items "
        "in_stock.txt --format jsonl --output best.jsonl.gz runs/shop",
    .run = run,
};
