/* A model over ranks: each trainer has the dense part whole and a share of every batch; rows are where their
 * placements say. */
#ifndef RK_MODEL_STEP_DATA_PARALLEL_H
#define RK_MODEL_STEP_DATA_PARALLEL_H

#include "batch/ids.h"
#include "comm/progress_thread.h"
#include "embedding/sharded/sharded.h"
#include "model/model_internal.h"

/* A trainer's samples of a batch: a view of it, or a copy where batches wait in a queue while the reader goes
 * on. */
typedef struct rk_local_batch {
    rk_batch batch;       /* first_row is the local batch's */
    int64_t total, base;  /* samples of the whole batch, and the number of the share's first */
    double *task_samples; /* [n_tasks]: of the whole batch, as rk_model_run */
    rk_ids *ids;          /* [n_lookups] */
    rk_ids *features;     /* [n_features] */
    rk_pairs *pairs;      /* of a two_tower, else NULL: the whole batch's */
    bool copies;
    rk_id_list *lists; /* [n_features], with the history of a two_tower: copies, or a view's offsets */
    struct rk_local_batch_column {
        float *values;
        size_t capacity;
    } columns[3]; /* copies of dense numbers, labels, sample weights */
} rk_local_batch;

/* Samples first .. first+n-1 of the whole batch, of which they must be in the part. labelled: with labels and
 * weights. */
rk_status rk_local_batch_fill(const rk_model *model, const rk_batch_part *part, int64_t first, int64_t n,
                              bool labelled, rk_local_batch *local_batch);
/* This trainer's share of a two_tower's batch, of which all is here, and the items that step `step` draws. */
rk_status rk_local_batch_fill_pairs(rk_model *model, const rk_batch_part *part, int64_t step,
                                    rk_local_batch *local_batch);
rk_status rk_local_batch_init(const rk_model *model, bool copies, rk_local_batch *local_batch);
void rk_local_batch_release(const rk_model *model, rk_local_batch *local_batch);

/* What trainers gather after each step. */
typedef struct rk_verdict {
    int32_t status; /* rk_status */
    int32_t stop;   /* the rank was asked to */
    char error[496];
    uint64_t bytes_sent; /* so far */
    double losses[];     /* [shards of the rank, n_tasks] */
} rk_verdict;

enum {
    RK_MAX_BUCKETS = 64,       /* whose sums each take two exchanges */
    RK_BUCKET_VALUES = 1 << 19 /* at least, but in the last: 2 MB */
};

/* A batch's dense gradients on their way to being summed over trainers, and applied. */
typedef struct rk_reduction {
    float *values;                /* [n]: the graph's own, where they are applied before the next batch */
    rk_sum *sums[RK_MAX_BUCKETS]; /* [n_sums]: begun, from the last bucket on */
    size_t n_sums;
    rk_verdict *step_status;
    rk_all_to_all *step_statuses;
} rk_reduction;

struct rk_data_parallel {
    rk_comm *comm, *trainers; /* all ranks; those that train (the same, if all do) */
    rk_roles roles;
    int32_t rank;
    bool narrow; /* dense gradients travel as bf16 */
    int64_t n_micro_batches;
    int64_t *first_micro_batches; /* [n_trainers + 1] */
    int64_t *cuts;          /* [n_trainers + 1]: the same in samples, up to those of the longest batch */
    rk_sharded *sharded;    /* NULL where the model has no tables */
    rk_local_batch *shares; /* [n_shares]: batches begun */
    size_t n_shares;
    rk_local_batch peek;
    rk_message *messages; /* [n_trainers]: scratch */
    int64_t staleness, n_begun, n_trained, n_applied;
    rk_reduction *reductions; /* [n_reductions]: 1, or staleness + 1 where the dense part is stale too */
    size_t n_reductions;
    size_t bucket; /* dense gradients that are summed together; the first ones may be fewer */
    rk_progress_thread
        progress_thread; /* runs where there are several buckets: they are summed beside backward */
    bool asks_to_stop, stop_received;
    double bytes_sent, bytes_sent_most; /* as all trainers said last */
    double sum_wait_s;
};

rk_graph_local_part rk_data_parallel_local_batch(const rk_data_parallel *data_parallel); /* of this rank */
/* The spread of a model whose graph is about to be built: which shards are whose. */
rk_status rk_data_parallel_create(rk_model *model, const rk_model_options *options);
/* Once the graph is there, on trainers: memory, and the collection. */
rk_status rk_data_parallel_finish(rk_model *model, const rk_model_options *options,
                                  const rk_collection_config *plan);
void rk_data_parallel_free(rk_model *model);

/* What trainer after trainer has said of itself at a step: begin, then hear each. */
static inline void rk_data_parallel_begin_receiving(rk_data_parallel *sp) {
    sp->bytes_sent = sp->bytes_sent_most = 0;
}
void rk_data_parallel_receive(rk_data_parallel *data_parallel, int32_t stop, uint64_t bytes_sent);

/* Where trainer r's samples begin, of n that begin where the first trainer's do. */
int64_t rk_data_parallel_split(const rk_data_parallel *data_parallel, int32_t r, int64_t n);
rk_status rk_data_parallel_train(rk_model *model, const rk_batch_part *part, double *loss);
rk_status rk_data_parallel_predict(rk_model *model, const rk_batch_part *part, float *predictions);
/* Samples first .. first+n-1 of a batch, this trainer's share of a piece, through the graph for prediction.
 * The hooks' context is a rk_model_run, whose samples are filled in. All trainers call it. */
rk_status rk_data_parallel_forward(rk_model *model, const rk_batch_part *part, int64_t first, int64_t n,
                                   rk_graph_hooks hooks);
/* `width` numbers for each of the first n samples of `total`, from the trainers whose samples they are to
 * all; mine: of this one's. */
rk_status rk_data_parallel_gather(const rk_data_parallel *data_parallel, const float *mine, int64_t n,
                                  int64_t total, int64_t width, float *out);

#endif
