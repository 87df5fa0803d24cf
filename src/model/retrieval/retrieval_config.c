#include "model/retrieval/retrieval_config.h"

#include <math.h>

#include "nn/candidate_loss.h"

static const char *const similarities[] = {"dot", "cosine"};
static const char *const losses[] = {"softmax", "bpr", "cosine_contrastive"}; /* as rk_candidate_loss_kind */
static const char *const samplings[] = {"uniform", "popularity"};

static const rk_field fields[] = {
    RK_FIELD_TEXT(rk_retrieval_section, user, false, NULL, "the feature with the user's id"),
    RK_FIELD_TEXT(rk_retrieval_section, item, false, NULL,
                  "the feature with the item's id; the item tower's input"),
    RK_FIELD_ARRAY(TEXTS, rk_retrieval_section, user_tower, n_user_tower, 0, 0,
                   "features of the user tower; by default all but the item, and the history"),
    RK_FIELD_BOOL(rk_retrieval_section, history, false,
                  "adds a feature `history`: the user's items in the training data, in training without the "
                  "pair's own"),
    RK_FIELD_I64(rk_retrieval_section, max_history, 0, 0, 1e9,
                 "at most so many items of a history, sampled for each pair; 0 = all"),
    RK_FIELD_BOOL(
        rk_retrieval_section, history_linear, false,
        "multiplies the history's vector by a learned matrix before the user's other vectors are added"),
    RK_FIELD_ENUM(rk_retrieval_section, similarity, RK_SIMILARITY_DOT, similarities,
                  "similarity of a user's vector and an item's"),
    RK_FIELD_ENUM(rk_retrieval_section, loss, RK_CANDIDATES_SOFTMAX, losses,
                  "the loss over a pair's item and its negatives"),
    RK_FIELD_F64(rk_retrieval_section, temperature, 1, 1e-6, 1e6,
                 "softmax, bpr: the temperature: scores are divided by it"),
    RK_FIELD_F64(rk_retrieval_section, margin, 0.5, -1, 1,
                 "cosine_contrastive: the margin: negatives of lower similarity have no loss"),
    RK_FIELD_F64(rk_retrieval_section, negative_weight, 1, 0, INFINITY,
                 "cosine_contrastive: weight of the negatives' mean"),
    RK_FIELD_I64(rk_retrieval_section, negatives, 256, 0, 1 << 20,
                 "number of sampled negatives a batch, shared by all its pairs"),
    RK_FIELD_ENUM(rk_retrieval_section, sampling, RK_SAMPLING_UNIFORM, samplings,
                  "the distribution that negatives are sampled from"),
    RK_FIELD_F64(rk_retrieval_section, popularity_exponent, 0.75, 0, 4,
                 "popularity: sampling probabilities are the item's number of pairs to this power"),
    RK_FIELD_I64(rk_retrieval_section, hard, 1, 1, 1 << 20,
                 "hard negatives: of each so many sampled items only the one with the highest score is used"),
    RK_FIELD_BOOL(rk_retrieval_section, in_batch, false,
                  "in-batch negatives: the other pairs' items are candidates too"),
    RK_FIELD_BOOL(rk_retrieval_section, log_q, true,
                  "softmax: log-Q correction: subtracts from an item's score the logarithm of its "
                  "probability to be a candidate"),
};
const rk_schema rk_retrieval_schema = RK_SECTION_SCHEMA("retrieval", rk_retrieval_section, fields, NULL);

const char *rk_retrieval_loss_name(const rk_retrieval_section *section) {
    return losses[section->loss];
}

rk_status rk_retrieval_section_check(const rk_retrieval_section *s, const rk_yaml *yaml,
                                     const rk_yaml_node *node) {
    bool contrastive = s->loss == RK_CANDIDATES_COSINE_CONTRASTIVE;
    if (!s->user || !s->item)
        return rk_yaml_error(yaml, node,
                             "a two_tower needs 'retrieval.user' and 'retrieval.item'\nhint: they name the "
                             "features with a pair's user id and item id");
    if (contrastive && s->similarity != RK_SIMILARITY_COSINE)
        return rk_yaml_error(
            yaml, node,
            "the loss cosine_contrastive needs cosine similarity\nhint: set similarity to cosine");
    if (contrastive && s->temperature != 1)
        return rk_yaml_error(
            yaml, node,
            "the loss cosine_contrastive has no temperature\nhint: it has a margin and a negative_weight");
    if (s->negatives == 0 && !s->in_batch)
        return rk_yaml_error(yaml, node, "a pair needs negatives\nhint: set negatives, or in_batch: true");
    if (s->negatives % s->hard)
        return rk_yaml_error(yaml, node, "negatives (%lld) must be a multiple of hard (%lld)",
                             (long long)s->negatives, (long long)s->hard);
    if (s->max_history && !s->history)
        return rk_yaml_error(yaml, node, "max_history needs a history\nhint: set history: true");
    if (s->history_linear && !s->history)
        return rk_yaml_error(yaml, node, "history_linear needs a history\nhint: set history: true");
    return RK_OK;
}
