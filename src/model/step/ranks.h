/* The ranks that a model is trained on, and which rank has which samples of a batch. Each trainer has the
 * whole dense part and some of the batch's micro-batches. One process is one rank. */
#ifndef RK_MODEL_STEP_RANKS_H
#define RK_MODEL_STEP_RANKS_H

#include "comm/comm.h"
#include "model/model.h"
#include "nn/graph/graph.h"

typedef struct rk_ranks {
    rk_comm *comm, *trainers; /* all ranks; those that train (the same one if all do) */
    bool is_distributed;      /* else one process, whose communicator is its own */
    rk_roles roles;
    int32_t rank;
    int64_t n_micro_batches;
    int64_t *first_micro_batches; /* [n_trainers + 1] */
    int64_t *splits;      /* [n_trainers + 1]: the same in samples, up to those of the longest batch */
    rk_message *messages; /* [n_trainers]: scratch */
    bool asks_to_stop, stop_received;
    double bytes_sent, bytes_sent_most; /* of all trainers, at the last step */
} rk_ranks;

/* Before the graph is finished: which rank has which micro-batches. */
rk_status rk_ranks_create(const rk_model_options *options, rk_ranks **out);
/* After the graph is finished, which gives the samples of a micro-batch. longest: most samples of a batch. */
void rk_ranks_set_sample_splits(rk_ranks *ranks, int64_t micro_batch_samples, int64_t longest);
void rk_ranks_free(rk_ranks *ranks);

static inline bool rk_ranks_is_trainer(const rk_ranks *ranks) { /* this one */
    return ranks->rank < ranks->roles.n_trainers;
}
static inline int64_t rk_ranks_n_micro_batches(const rk_ranks *ranks, int32_t trainer) {
    return ranks->first_micro_batches[trainer + 1] - ranks->first_micro_batches[trainer];
}
/* What the graph runs here; on an embedding server any part, for its shapes. */
rk_graph_local_part rk_ranks_local_micro_batches(const rk_ranks *ranks);
/* Where trainer r's samples begin, among the n samples of a batch. */
int64_t rk_ranks_first_sample(const rk_ranks *ranks, int32_t r, int64_t n);
/* Samples *begin .. *end-1 of n are this rank's. */
void rk_ranks_local_samples(const rk_ranks *ranks, int64_t n, int64_t *begin, int64_t *end);

/* all_gather of `width` numbers for each of the first n samples of `total`, from the trainers with these
 * samples. mine: this trainer's; may already be in its place in `out`. */
rk_status rk_ranks_all_gather(const rk_ranks *ranks, const float *mine, int64_t n, int64_t total,
                              int64_t width, float *out);

/* The step statuses of all trainers: begin, then receive each. */
static inline void rk_ranks_clear_received_status(rk_ranks *ranks) {
    ranks->bytes_sent = ranks->bytes_sent_most = 0;
}
void rk_ranks_add_received_status(rk_ranks *ranks, int32_t stop, uint64_t bytes_sent);

#endif
