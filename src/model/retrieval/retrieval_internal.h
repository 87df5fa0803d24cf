/* Inside a two_tower; for the files retrieval*.c. */
#ifndef RK_MODEL_RETRIEVAL_RETRIEVAL_INTERNAL_H
#define RK_MODEL_RETRIEVAL_RETRIEVAL_INTERNAL_H

#include "model/retrieval/retrieval.h"
#include "model/retrieval/retrieval_batch.h"
#include "model/retrieval/negative_sampler.h"

/* Over ranks: vectors of the whole batch, as all trainers have found them, and gradients before they are
 * shared out (retrieval_ranks.c). */
typedef struct rk_retrieval_ranks {
    rk_real *users, *user_gradient; /* [max_batch, dim] */
    rk_real *items, *item_gradient; /* [max_batch + n_sampled, dim] */
} rk_retrieval_ranks;

struct rk_retrieval {
    rk_retrieval_section section; /* but for its names */
    rk_data_schema schema;        /* its features only, with names of its own */
    rk_data_feature_info *infos;  /* schema.features */
    rk_interactions *known;       /* may be NULL */
    rk_pair_features pair;
    char *item_table;
    int32_t *features;             /* [n_lookups]: of the batch, the history's is schema.n_features */
    rk_data_feature_info *lookups; /* [n_lookups]: the same, the item last */
    int32_t n_lookups;
    uint64_t seed;
    rk_value user, item;          /* vectors */
    rk_negative_sampler *sampler; /* of training, with all below but the last */
    rk_candidate_loss *loss;
    int64_t n_micro_batches;    /* of the loss, on all trainers */
    double *micro_batch_losses; /* [n_micro_batches] */
    rk_real *log_q;             /* [max_batch + n_sampled] */
    rk_retrieval_ranks ranks;
    rk_retrieval_batch batch;
};

/* Of rk_retrieval_losses; bytes of a step, and of the known pairs. */
uint64_t rk_retrieval_memory_bytes(const rk_model *model);
rk_status rk_retrieval_create_loss(rk_model *model, const rk_model_options *options);

rk_status rk_retrieval_ranks_init(const rk_model *model, rk_retrieval_ranks *ranks);
void rk_retrieval_ranks_release(rk_retrieval_ranks *ranks);
/* The arguments' vectors and gradients over the whole batch of n samples, from those of the trainers' local
 * batches. */
rk_status rk_retrieval_all_gather_vectors(const rk_model *model, int64_t n, rk_candidate_loss_args *args);
/* Gradients to the samples' own trainers, the losses of all micro-batches to all. */
rk_status rk_retrieval_return_gradients(const rk_model *model, int64_t n, const rk_candidate_loss_args *args);

#endif
