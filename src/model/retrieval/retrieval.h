/* What a two_tower has beside the other models: histories, sampled negatives, a loss over the whole batch
 * (docs/retrieval.md). */
#ifndef RK_MODEL_RETRIEVAL_RETRIEVAL_H
#define RK_MODEL_RETRIEVAL_RETRIEVAL_H

#include "model/model_internal.h"
#include "model/retrieval/retrieval_batch.h"
#include "nn/candidate_loss.h"

/* The features of a pair. yaml: for messages, may be NULL. */
rk_status rk_retrieval_find_pair_features(const rk_retrieval_section *section, const rk_yaml *yaml,
                                          const rk_data_schema *schema, rk_pair_features *out);
/* Chooses the towers' features. Before the graph. */
rk_status rk_retrieval_create(const rk_model_options *options, rk_retrieval **out);
void rk_retrieval_free(rk_retrieval *retrieval);
/* What is looked up, in place of the data's features, the item last; views. */
rk_data_schema rk_retrieval_lookup_schema(const rk_retrieval *retrieval);
/* Of tables that were made for those: from numbers of theirs to the batch's, where the history is after the
 * data's own. */
rk_status rk_retrieval_set_sources(rk_retrieval *retrieval, rk_collection_config *tables);
int64_t rk_retrieval_n_negatives(const rk_retrieval *retrieval); /* samples that extend a batch */
int64_t rk_retrieval_n_local_negatives(const rk_model *model, int64_t n_pairs,
                                       int64_t n); /* of the n samples of this process, pairs first */
double rk_retrieval_ranking_memory_bytes(const rk_retrieval *retrieval,
                                         int32_t dim); /* of an evaluation at most: vectors of users and
                                                          items, these once more as a matrix, and scores */
double rk_retrieval_mean_history_length(
    const rk_retrieval *retrieval); /* of a pair of the training data, on average */
/* Ids a pair of the batch's feature f, with sampled items; sample: a batch of the data. */
double rk_retrieval_ids_per_sample(const rk_retrieval *retrieval, int32_t f, const rk_batch *sample,
                                   int64_t batch);
bool rk_retrieval_corrects_log_q(const rk_retrieval *retrieval);
/* [n + n_sampled]: logarithms of the items' probabilities to be candidates, valid until the next call; NULL
 * without correction. */
const rk_real *rk_retrieval_log_q_of_candidates(rk_retrieval *retrieval, const rk_pairs *pairs);
rk_candidate_loss_config rk_retrieval_loss_config(const rk_model *model); /* without its micro-batches */
rk_status rk_retrieval_loss_not_finite_error(const rk_model *model, double loss);
/* Samples of items with these ids [n] and empty users; a view of what is built in `memory`. */
rk_status rk_retrieval_make_item_batch(const rk_model *model, const int64_t *ids, int64_t n,
                                       rk_retrieval_batch *memory, rk_batch *out);
/* The table that the item's feature reads, once the tables are configured. */
const char *rk_retrieval_item_table(const rk_retrieval *retrieval);
/* Of the extended batch as a whole. */
extern const rk_loss_ops rk_retrieval_losses;

#endif
