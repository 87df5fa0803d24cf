#include "model/retrieval/retrieval_config.h"

#include <math.h>

#include "nn/candidate_loss.h"

static const char *const similarities[] = {"dot", "cosine"};
static const char *const losses[] = {"softmax", "bpr", "cosine_contrastive"}; /* as rk_candidate_loss_kind */
static const char *const samplings[] = {"uniform", "popularity"};

static const rk_field fields[] = {
    RK_FIELD_TEXT(rk_retrieval_section, user, false, NULL, "the feature that says who the user of a pair is"),
    RK_FIELD_TEXT(rk_retrieval_section, item, false, NULL,
                  "the feature that says which item it is; the item tower's"),
    RK_FIELD_ARRAY(TEXTS, rk_retrieval_section, user_tower, n_user_tower, 0, 0,
                   "features of the user tower; by default all but the item, and the history"),
    RK_FIELD_BOOL(
        rk_retrieval_section, history, false,
        "the user's items of the training data as a feature `history`, in training without the pair's own"),
    RK_FIELD_I64(rk_retrieval_section, max_history, 0, 0, 1e9,
                 "train on so many of them at most, drawn for each pair; 0 = all"),
    RK_FIELD_BOOL(rk_retrieval_section, history_linear, false,
                  "the history's vector times a learned matrix, before the user's others are added"),
    RK_FIELD_ENUM(rk_retrieval_section, similarity, RK_SIMILARITY_DOT, similarities,
                  "of a user's vector and an item's"),
    RK_FIELD_ENUM(rk_retrieval_section, loss, RK_CANDIDATES_SOFTMAX, losses,
                  "over a pair's item and its negatives"),
    RK_FIELD_F64(rk_retrieval_section, temperature, 1, 1e-6, 1e6, "softmax, bpr: divides the scores"),
    RK_FIELD_F64(rk_retrieval_section, margin, 0.5, -1, 1,
                 "cosine_contrastive: negatives below this similarity are left alone"),
    RK_FIELD_F64(rk_retrieval_section, negative_weight, 1, 0, INFINITY,
                 "cosine_contrastive: of the negatives' mean"),
    RK_FIELD_I64(rk_retrieval_section, negatives, 256, 0, 1 << 20,
                 "items drawn for a batch, candidates of all its pairs"),
    RK_FIELD_ENUM(rk_retrieval_section, sampling, RK_SAMPLING_UNIFORM, samplings, "how they are drawn"),
    RK_FIELD_F64(rk_retrieval_section, popularity_exponent, 0.75, 0, 4,
                 "popularity: chances go by the item's pairs to this power"),
    RK_FIELD_I64(rk_retrieval_section, hard, 1, 1, 1 << 20,
                 "of each so many drawn items only the one of the highest score counts"),
    RK_FIELD_BOOL(rk_retrieval_section, in_batch, false, "the other pairs' items are candidates too"),
    RK_FIELD_BOOL(rk_retrieval_section, log_q, true,
                  "softmax: the logarithm of an item's chance to be a candidate is taken off its score"),
};
const rk_schema rk_retrieval_schema = {.name = "retrieval",
                                       .struct_bytes = sizeof(rk_retrieval_section),
                                       .fields = fields,
                                       .n_fields = sizeof fields / sizeof fields[0],
                                       .has_line = true,
                                       .line_offset = offsetof(rk_retrieval_section, line)};

const char *rk_retrieval_loss_name(const rk_retrieval_section *section) {
    return losses[section->loss];
}

rk_status rk_retrieval_section_check(const rk_retrieval_section *s, const rk_yaml *yaml,
                                     const rk_yaml_node *node) {
    bool contrastive = s->loss == RK_CANDIDATES_COSINE_CONTRASTIVE;
    if (!s->user || !s->item)
        return rk_yaml_error(yaml, node,
                             "a two_tower needs 'retrieval.user' and 'retrieval.item'\nhint: they name the "
                             "features that a pair's ids are in");
    if (contrastive && s->similarity != RK_SIMILARITY_COSINE)
        return rk_yaml_error(yaml, node,
                             "the loss cosine_contrastive is of cosines\nhint: set similarity to cosine");
    if (contrastive && s->temperature != 1)
        return rk_yaml_error(
            yaml, node,
            "the loss cosine_contrastive has no temperature\nhint: it has a margin and a negative_weight");
    if (s->negatives == 0 && !s->in_batch)
        return rk_yaml_error(
            yaml, node,
            "a pair needs other items to be held against\nhint: set negatives, or in_batch: true");
    if (s->negatives % s->hard)
        return rk_yaml_error(
            yaml, node, "%lld negatives cannot be dealt out by %lld\nhint: make negatives a multiple of hard",
            (long long)s->negatives, (long long)s->hard);
    if (s->max_history && !s->history)
        return rk_yaml_error(yaml, node, "max_history is for a history\nhint: set history: true");
    if (s->history_linear && !s->history)
        return rk_yaml_error(yaml, node, "history_linear is for a history\nhint: set history: true");
    return RK_OK;
}
