/* What a two_tower has beside the other models: histories, drawn items, a loss over a whole batch (docs/retrieval.md). */
#ifndef RK_MODEL_RETRIEVAL_H
#define RK_MODEL_RETRIEVAL_H

#include "model/model_parts.h"

/* Which features the towers see. Before the graph. */
rk_status rk_retrieval_create(const rk_model_options *options, rk_retrieval **out);
void rk_retrieval_free(rk_retrieval *retrieval);
/* What is looked up, [rk_retrieval_n_sources], the item last; and the batch's feature that source s is (after the data's own: the history). */
int32_t rk_retrieval_n_sources(const rk_retrieval *retrieval);
rk_embedding_source rk_retrieval_source(const rk_retrieval *retrieval, int32_t s);
int32_t rk_retrieval_feature(const rk_retrieval *retrieval, int32_t s);
int64_t rk_retrieval_n_drawn(const rk_retrieval *retrieval); /* samples that a batch is lengthened by */
uint64_t rk_retrieval_bytes(const rk_retrieval *retrieval);          /* of a step, and of the pairs that are known */
double rk_retrieval_history_length(const rk_retrieval *retrieval);   /* of a pair of the training data, on average */
const char *rk_retrieval_loss(const rk_retrieval *retrieval);
/* Before the graph is finished: the vectors are outputs, of the whole batch. */
void rk_retrieval_mark_outputs(rk_graph *graph);
/* Once the graph is there. */
rk_status rk_retrieval_finish(rk_model *model, const rk_model_options *options);

/* The batch with histories, and in training with a sample for each drawn item; valid until the next call. */
rk_status rk_retrieval_extend(rk_model *model, const rk_batch *batch, bool training, rk_batch *out);
/* Samples of items first .. first+n-1, whose users are empty. */
rk_status rk_retrieval_items(rk_model *model, int64_t first, int64_t n, rk_batch *out);
/* The hook of the graph: the loss of the extended batch, into model->losses. context: the run. */
rk_status rk_retrieval_whole(void *context);

#endif
