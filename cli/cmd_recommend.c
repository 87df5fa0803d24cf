#include <stdint.h>
#include <string.h>

#include <reckon/experimental/recommend.h>
#include <reckon/reckon.h>

#include "command.h"
#include "terminal.h"
#include "trained_model.h"

enum {
    OPT_K,
    OPT_USERS,
    OPT_ITEMS,
    OPT_WITHOUT,
    OPT_KNOWN,
    OPT_INDEX,
    OPT_CANDIDATES,
    OPT_GROUP,
    OPT_ITEM,
    OPT_TASK,
    OPT_VECTORS,
    OPT_FORMAT,
    OPT_OUTPUT,
    OPT_DEVICE
};

/* One of three commands in one: what is asked of the model. */
typedef struct request {
    rk_recommend_options recommend;
    rk_rerank_options rerank;
    const char *candidates; /* NULL: not asked for */
    const char *vectors;    /* "user", "item", or NULL */
    double index_recall;    /* written */
} request;

/* The first of the options from `first` to `last` that is given, or -1. */
static int find_given_option(const arguments *args, int first, int last) {
    for (int i = first; i <= last; i++)
        if (args->options[i].given) return i;
    return -1;
}

static bool check_arguments(const arguments *args, const request *r) {
    const option *options = command_recommend.options;
    long k = args->options[OPT_K].number;
    int of_rows = find_given_option(args, OPT_GROUP, OPT_TASK),
        of_items = find_given_option(args, OPT_USERS, OPT_INDEX);
    if (args->options[OPT_K].given && (k < 1 || k > INT32_MAX))
        report_usage_error(&command_recommend, "-k takes a number of items from 1 to %d, not '%s'", INT32_MAX,
                           args->options[OPT_K].text);
    else if (r->candidates && r->vectors)
        report_usage_error(&command_recommend, "--candidates and --vectors do not go together");
    else if (r->candidates && of_items >= 0)
        report_usage_error(&command_recommend,
                           "--candidates are all that is ranked: --%s does not go with them",
                           options[of_items].name);
    else if (!r->candidates && of_rows >= 0)
        report_usage_error(&command_recommend, "--%s is of --candidates, which are not given",
                           options[of_rows].name);
    else if (r->vectors && r->recommend.index)
        report_usage_error(&command_recommend, "--vectors and --index do not go together");
    else if (r->vectors && !r->recommend.output)
        report_usage_error(&command_recommend, "--vectors needs --output, a file .npy or .safetensors");
    else
        return true;
    return false;
}

static bool read_arguments(const arguments *args, request *r) {
    bool is_jsonl = args->options[OPT_FORMAT].given && strcmp(args->options[OPT_FORMAT].text, "jsonl") == 0;
    *r = (request){.recommend = RK_RECOMMEND_OPTIONS_INIT,
                   .rerank = RK_RERANK_OPTIONS_INIT,
                   .candidates = args->options[OPT_CANDIDATES].text,
                   .vectors = args->options[OPT_VECTORS].text,
                   .index_recall = 1};
    r->recommend.users = args->options[OPT_USERS].text;
    r->recommend.items = args->options[OPT_ITEMS].text;
    r->recommend.without_items = args->options[OPT_WITHOUT].text;
    r->recommend.with_known = args->options[OPT_KNOWN].given;
    r->recommend.index = args->options[OPT_INDEX].text;
    r->recommend.index_recall = &r->index_recall;
    r->rerank.group = args->options[OPT_GROUP].text;
    r->rerank.item = args->options[OPT_ITEM].text;
    r->rerank.task = args->options[OPT_TASK].text;
    r->recommend.k = r->rerank.k = (int32_t)args->options[OPT_K].number;
    r->recommend.output = r->rerank.output = args->options[OPT_OUTPUT].text;
    r->recommend.format = r->rerank.format = is_jsonl ? RK_RECOMMEND_JSONL : RK_RECOMMEND_CSV;
    return check_arguments(args, r);
}

static rk_status write_recommendations(rk_predictor *predictor, const request *r, int64_t *n) {
    if (r->candidates) return rk_predictor_rerank(predictor, r->candidates, &r->rerank, n);
    if (!r->vectors) return rk_predictor_recommend(predictor, &r->recommend, n);
    return rk_predictor_write_vectors(predictor, strcmp(r->vectors, "item") == 0, &r->recommend, n);
}

static int run_recommend(const arguments *args) {
    request r;
    trained model;
    int64_t n = 0;
    if (!read_arguments(args, &r)) return EXIT_USAGE;
    int code = trained_model_open(args->positional[0], args->options[OPT_DEVICE].text, RK_EXPORT_ROWS_TRAINED,
                                  &model);
    if (code != EXIT_OK) return code;
    rk_status status = write_recommendations(model.predictor, &r, &n);
    const char *what = r.candidates ? "groups"
                       : r.vectors  ? "vectors"
                                    : "users",
               *output = r.recommend.output;
    if (status == RK_OK && model.speaks && output && strcmp(output, "-") != 0)
        print_note("wrote %s: %lld %s", output, (long long)n, what);
    if (status == RK_OK && model.speaks && r.recommend.index)
        print_note("%s found %.2f%% of the best items, measured on the first 1,000 users", r.recommend.index,
                   100 * r.index_recall);
    return trained_model_close(&model, status);
}

const command command_recommend = {
    .name = "recommend",
    .summary = "list the best items for users, or the best of candidates",
    .positional = "RUN",
    .min_positional = 1,
    .max_positional = 1,
    .description =
        "Prints the k items that a two_tower scores highest for each user, out of all of its training data: "
        "a line for each,\n"
        "user,rank,item,score, or with --format jsonl a line a user. Items that the user has in the training "
        "or validation data are\n"
        "left out. With --vectors its users' or items' vectors are written instead.\n"
        "Any other model ranks the rows of --candidates, those of each user or query (--group) for "
        "themselves, by its predictions.\n"
        "RUN is a checkpoint, a run's directory or its run file; docs/retrieval.md says more. Under mpirun "
        "or srun the tables are sharded\n"
        "over the ranks, which rank together; the first one writes.",
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
            [OPT_CANDIDATES] = {"candidates", 'c', OPTION_TEXT, "DATA", NULL,
                                "rows to rank: test, valid, or a file of the run's columns"},
            [OPT_GROUP] = {"group", 'g', OPTION_TEXT, "COLUMN", NULL,
                           "candidates with the same value are ranked together; data.group by default"},
            [OPT_ITEM] = {"item", 0, OPTION_TEXT, "COLUMN", NULL,
                          "names a candidate in the output, beside the number of its row"},
            [OPT_TASK] = {"task", 't', OPTION_TEXT, "NAME", NULL,
                          "the label whose prediction ranks candidates, where there are several"},
            [OPT_VECTORS] = {"vectors", 0, OPTION_TEXT, "TOWER", "user|item",
                             "write vectors to --output FILE.npy or FILE.safetensors, and FILE.ids.txt"},
            [OPT_FORMAT] = {"format", 'f', OPTION_TEXT, "FORMAT", "csv|jsonl",
                            "how lines look; csv by default"},
            [OPT_OUTPUT] = {"output", 'o', OPTION_TEXT, "FILE", NULL,
                            "written whole or not at all, compressed by its name (.gz, .zst); standard "
                            "output by default"},
            [OPT_DEVICE] = OPTION_DEVICE,
        },
    .examples =
        "reckon recommend -k 10 runs/movielens > films.csv\nreckon recommend --users new.csv --items "
        "in_stock.txt --format jsonl --output best.jsonl.gz runs/shop\nreckon recommend -k 10 --candidates "
        "found.csv --group user --item ad --task click runs/ads\nreckon recommend --vectors item --output "
        "items.npy runs/movielens",
    .run = run_recommend,
};
