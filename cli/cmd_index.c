#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reckon/experimental/predictor_index.h>
#include <reckon/reckon.h>

#include "command.h"
#include "terminal.h"
#include "trained_model.h"

enum {
    OPT_KIND,
    OPT_RECALL,
    OPT_K,
    OPT_CODES,
    OPT_LISTS,
    OPT_USERS,
    OPT_ITEMS,
    OPT_KNOWN,
    OPT_OUTPUT,
    OPT_DEVICE
};

static bool option_has_value(const arguments *args, int number, const char *value) {
    return args->options[number].given && strcmp(args->options[number].text, value) == 0;
}

static void print_index_info(const rk_index *index, const rk_index_recall *found) {
    rk_index_info info = RK_INDEX_INFO_INIT;
    if (rk_index_get_info(index, &info) != RK_OK) return;
    printf("%s index of %lld items, vectors of %d\n", info.kind == RK_INDEX_IVF ? "ivf" : "exact",
           (long long)info.n, info.dim);
    if (info.kind == RK_INDEX_IVF)
        printf("looks at %lld of %lld lists\n", (long long)info.n_probe, (long long)info.n_lists);
    printf(
        "recall@%lld %.4f, %.0f queries/s on one thread, measured on %lld users that it was not tuned on\n",
        (long long)info.tuned_k, found->recall, found->queries_per_second, (long long)found->n_queries);
}

static rk_status build_and_write_index(const trained *model, const rk_predictor_index_options *o,
                                       const char *path) {
    rk_index *index;
    rk_index_recall found = RK_INDEX_RECALL_INIT;
    rk_status status = rk_predictor_build_index(model->predictor, o, &index, &found);
    if (status != RK_OK) return status;
    if (model->speaks) status = rk_index_save(index, path);
    if (model->speaks && status == RK_OK) {
        print_index_info(index, &found);
        print_note("wrote %s", path);
    }
    rk_index_free(index);
    return status;
}

static int run_index(const arguments *args) {
    rk_index_options layout = RK_INDEX_OPTIONS_INIT;
    rk_predictor_index_options o = RK_PREDICTOR_INDEX_OPTIONS_INIT;
    char *end = NULL;
    layout.kind = option_has_value(args, OPT_KIND, "ivf") ? RK_INDEX_IVF : RK_INDEX_EXACT;
    layout.codes = option_has_value(args, OPT_CODES, "f32") ? RK_INDEX_F32 : RK_INDEX_INT8;
    layout.n_lists = args->options[OPT_LISTS].number;
    o.index = &layout;
    o.users = args->options[OPT_USERS].text;
    o.items = args->options[OPT_ITEMS].text;
    o.with_known = args->options[OPT_KNOWN].given;
    o.k = (int32_t)args->options[OPT_K].number;
    if (args->options[OPT_RECALL].given) {
        o.recall = strtod(args->options[OPT_RECALL].text, &end);
        if (*end || !(o.recall > 0 && o.recall <= 1)) {
            report_usage_error(&command_index, "--recall takes a number above 0, 1 at most, not '%s'",
                               args->options[OPT_RECALL].text);
            return EXIT_USAGE;
        }
    }
    if (args->options[OPT_K].given && (o.k < 1 || o.k != args->options[OPT_K].number)) {
        report_usage_error(&command_index, "-k takes a number of items from 1 to 2147483647, not '%s'",
                           args->options[OPT_K].text);
        return EXIT_USAGE;
    }
    trained model;
    int code = trained_model_open(args->positional[0], args->options[OPT_DEVICE].text, RK_EXPORT_ROWS_TRAINED,
                                  &model);
    if (code != EXIT_OK) return code;
    const char *path = args->options[OPT_OUTPUT].given ? args->options[OPT_OUTPUT].text : "items.faiss";
    return trained_model_close(&model, build_and_write_index(&model, &o, path));
}

const command command_index = {
    .name = "index",
    .summary = "write a two_tower's items as a nearest-neighbour index",
    .positional = "RUN",
    .min_positional = 1,
    .max_positional = 1,
    .description =
        "Writes the vectors of a two_tower's items as an index, which 'reckon recommend --index' searches "
        "and "
        "FAISS reads. An exact one\n"
        "finds the best of all items; an ivf one looks at some lists of them, as many as the recall needs: "
        "that "
        "is tuned on users of the\n"
        "run and measured on others. RUN is a checkpoint, a run's directory or its run file; docs/index.md "
        "says "
        "more.",
    .options =
        {
            [OPT_KIND] = {"kind", 0, OPTION_TEXT, "KIND", "exact|ivf", "exact by default"},
            [OPT_RECALL] = {"recall", 0, OPTION_TEXT, "PART", NULL,
                            "the part of a user's k best items that ivf is to find; 0.95 by default"},
            [OPT_K] = {"top-k", 'k', OPTION_INT, "N", NULL, "of so many; 100 by default"},
            [OPT_CODES] = {"codes", 0, OPTION_TEXT, "DTYPE", "int8|f32",
                           "what an exact search reads first; int8 by default, which is faster, and costs no "
                           "recall"},
            [OPT_LISTS] = {"lists", 0, OPTION_INT, "N", NULL,
                           "of ivf; two and a half times the square root of the items by default"},
            [OPT_USERS] = {"users", 'u', OPTION_TEXT, "DATA", NULL,
                           "whose vectors it is tuned and measured on, the first 2,000: those of train (the "
                           "default), valid, test or a file"},
            [OPT_ITEMS] = {"items", 'i', OPTION_TEXT, "FILE", NULL,
                           "only the items of this file, one a line"},
            [OPT_KNOWN] = {"with-known", 0, OPTION_FLAG, NULL, NULL,
                           "it is to find items that the user is known to have, too"},
            [OPT_OUTPUT] = {"output", 'o', OPTION_TEXT, "FILE", NULL,
                            "written whole or not at all; items.faiss by default"},
            [OPT_DEVICE] = OPTION_DEVICE,
        },
    .examples =
        "reckon index --kind ivf --recall 0.95 runs/shop\nreckon index --output films.faiss "
        "runs/movielens",
    .run = run_index,
};
