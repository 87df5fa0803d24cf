/* What a model is made of; for the files of this folder. */
#ifndef RK_MODEL_MODEL_INTERNAL_H
#define RK_MODEL_MODEL_INTERNAL_H

#include <stdatomic.h>

#include "batch/context_columns.h"
#include "embedding/store.h"
#include "model/model.h"
#include "model/presets/preset.h"
#include "nn/loss.h"

/* One feature of the collection: whose ids it reads, and its columns of a graph input. */
typedef struct rk_model_lookup {
    int32_t source;        /* the batch's feature */
    rk_value input;        /* the model's vectors or linear */
    int32_t first, width;  /* columns */
    int32_t length;        /* of a sequence whose lengths the graph reads, else 0; */
    int32_t length_column; /* of the input "lengths" */
    bool keys;             /* of a dynamic table, to which no id is negative */
} rk_model_lookup;

typedef struct rk_model_task {
    char *name;
    rk_loss_kind loss;
    double weight, weight_decay_rate; /* at step t: weight (1 - rate)^t */
    double smoothing;                 /* of labels (nn/loss.h) */
    bool optional;                    /* labels may be absent (NaN) */
    bool is_product;                  /* its probability is that of two other tasks together, */
    int32_t factors[2];               /* these */
} rk_model_task;

/* A tensor that a training forward changes (running means and variances), and its value before the step. */
typedef struct rk_model_statistic {
    void *live, *kept;
    size_t n_bytes;
} rk_model_statistic;

typedef struct rk_pairs rk_pairs;     /* step/local_batch.h */
typedef struct rk_sharded rk_sharded; /* embedding/sharded/sharded_store.h */

/* One run of the graph over a batch, a piece of it or a local batch. */
typedef struct rk_model_run {
    const rk_model *model;
    rk_store *store; /* of the rows */
    const rk_batch *batch;
    const rk_ids *ids;          /* [n_lookups]: of the run's samples */
    const double *task_samples; /* [n_tasks], in training: the weight of all samples of the whole batch that
                                   take part in the task */
    const rk_pairs *pairs;      /* in training of a two_tower */
    const rk_context_columns *context; /* in prediction, or NULL */
    atomic_bool not_finite;            /* a gradient of an embedding */
    atomic_size_t n_updated;           /* pieces of the batch before */
} rk_model_run;

typedef struct rk_ranks rk_ranks;
typedef struct rk_local_batch rk_local_batch;
typedef struct rk_inference rk_inference;
typedef struct rk_retrieval_batch rk_retrieval_batch;
typedef struct rk_reducer rk_reducer;
typedef struct rk_engine_ops rk_engine_ops;
typedef struct rk_cuda_engine rk_cuda_engine;

/* What a training step minimizes: the tasks' losses, sample by sample (step/task_losses.c), or a two_tower's,
 * of the whole batch (retrieval/). */
typedef struct rk_loss_ops {
    bool extends; /* batches get samples or ids that the data has not */
    const char *(*name)(const rk_model *model, int32_t task);
    uint64_t (*bytes)(const rk_model *model); /* that it keeps, beside the graph's */
    void (*mark_outputs)(rk_model *model);    /* beside the logits, before the graph is finished */
    /* For training, once the graph is finished. */
    rk_status (*create)(rk_model *model, const rk_model_options *options);
    /* What of a batch is here, for training step `step`. */
    rk_status (*fill)(rk_model *model, const rk_rank_batch *rank_batch, int64_t step, rk_local_batch *batch);
    void (*hook)(const rk_model_run *run, rk_graph_hooks *hooks); /* whose context is the run */
    /* Samples first .. first+n-1, as a batch of their own for prediction; views, also of `memory`. */
    rk_status (*piece)(const rk_model *model, const rk_rank_batch *rank_batch, int64_t first, int64_t n,
                       rk_retrieval_batch *memory, rk_rank_batch *out);
} rk_loss_ops;

/* Training batches on their way (step/step.c). */
typedef struct rk_model_queue {
    rk_local_batch *slots; /* [n_slots]: begun; a batch waits until all are taken */
    size_t n_slots;
    int64_t n_begun, n_launched, n_finished;
    int64_t depth;             /* that may be launched and not finished */
    bool exclusive;            /* one is finished before the next is launched */
    const rk_rank_batch *next; /* what rk_model_set_next_batch said */
    rk_ids *next_ids;          /* [n_lookups] */
} rk_model_queue;

struct rk_model {
    const rk_preset *preset; /* NULL: a graph that the run file writes out */
    rk_ranks *ranks;
    rk_store *store;           /* of its tables */
    rk_embeddings *embeddings; /* the store's, in one process; over ranks without tables */
    char *rows_folder;         /* where rows on a disk are, if the run file does not say */
    rk_sharded *sharded;       /* the store's, over ranks; else NULL */
    rk_reducer *reducer;       /* of training on the CPU */
    const rk_engine_ops *engine;
    rk_cuda_engine *cuda; /* the engine's, on a GPU */
    const rk_loss_ops *loss;
    rk_model_queue queue;
    int64_t timestamp;       /* of batches for rk_model_train, as rk_model_set_timestamp said */
    rk_inference *inference; /* its own: predictions between steps */
    rk_retrieval *retrieval; /* of a two_tower, else NULL */
    rk_graph *graph;
    rk_dense_optimizer *optimizer; /* NULL if built for prediction */
    rk_value vectors, linear;      /* the graph's inputs as they are looked up; -1 where there are none */
    rk_value dense, lengths;       /* likewise */
    rk_value logits;               /* of the preset or the layers; of all tasks, once these have joined */
    rk_value log_variances;        /* [1, n_tasks] where weights of tasks are learned, else -1 */
    int32_t n_dense, n_features, n_tasks, n_lookups;
    int32_t n_batch_features; /* with a two_tower's history, behind the data's own */
    rk_model_lookup *lookups; /* [n_lookups] */
    rk_model_task *tasks;     /* [n_tasks] */
    /* Each feature's gradients of a whole batch, [max_batch, width], together: an update reads one feature's
     * at a time. The second set is for the batch whose update is under way, where updates are stale; then
     * activations of the whole batch are kept too. Else those that are looked up early stand in the place of
     * their gradients until their block takes them. */
    rk_activation *gradients[2]; /* [n_lookups] */
    rk_activation *activations;  /* [n_lookups] in training here; data NULL: looked up a block at a time */
    struct rk_model_memory {
        void *pages;
        size_t n_bytes;
    } memory[4];    /* what those point into */
    int now;        /* the set of the current batch */
    bool stale;     /* rows are updated beside the next step's dense part, which does not see them */
    double *losses; /* [n_blocks, n_tasks] of the step under way */
    double *micro_batch_losses;     /* [n_micro_batches, n_tasks] */
    rk_model_statistic *statistics; /* [n_statistics] */
    size_t n_statistics;
    int64_t max_batch, max_here; /* samples of a batch; that go through the graph here: this rank's local
                                    batch, or a batch with sampled items */
    int64_t step_batch;          /* samples of a training step at most */
    int64_t step, n_not_finite;
    bool skip_not_finite;
    rk_state_dict parameter_state; /* whose names and values `parameters` shows */
    rk_model_parameter *parameters;
    char *parameter_copies; /* of those that have no place of their own */
    bool is_outline;        /* no memory: only to be described */
};

static inline const char *rk_model_kind_name(const rk_model *model) {
    return model->preset ? model->preset->name : "graph";
}
static inline bool rk_model_is_two_tower(const rk_model *model) {
    return model->preset && model->preset->pairs;
}

/* Tasks (model_tasks.c): as the schema has them; logits that the preset or the layers have to make; outputs
 * of the graph from those. Nodes that are made here have names that no layer may have. */
#define RK_LOG_VARIANCES_NAME "task_log_variances"
rk_status rk_model_tasks_init(rk_model *model, const rk_data_schema *schema);
int32_t rk_model_n_logits(const rk_model *model);
rk_status rk_model_concat_task_logits(rk_model *model, bool learns_weights);

/* The model's graph before tasks join it and it is finished, and the config of its tables, without their
 * memory. Both are the caller's, whatever happens. */
rk_status rk_model_build_graph_only(const rk_model_options *options, rk_model **out,
                                    rk_collection_config *collection);

/* A batch on its way (step/local_batch.c): whether it is one of this model's; the lengths of the sequences of
 * a block, into the graph's input; likewise, of samples of a batch, `out` being of the first of them. */
rk_status rk_model_check_batch(const rk_model *model, const rk_rank_batch *rank_batch, bool labelled);
void rk_model_fill_lengths(const rk_model_run *run, const rk_run *block);
void rk_model_compute_lengths(const rk_model *model, const rk_ids *ids, int64_t first, int64_t n,
                              rk_real *out);

/* The losses of tasks (step/task_losses.c). The weight of each task's samples, [n_tasks]: what its mean loss
 * is over. */
extern const rk_loss_ops rk_task_losses;
double rk_model_task_weight(const rk_model_task *task, int64_t step);
void rk_model_sum_sample_weights(const rk_model *model, const rk_rank_batch *rank_batch, double *weights);
/* Each micro-batch's part of each task's loss, in model->micro_batch_losses; then their sum over n
 * micro-batches. */
void rk_model_sum_losses_of_blocks(const rk_model *model, int64_t n);
rk_status rk_model_sum_losses_of_micro_batches(const rk_model *model, const rk_batch *batch,
                                               const double *losses, size_t n, double *loss);

/* A step that fails (step/step_rollback.c): statistics, kept before it, as they were; returns `status`. */
void rk_model_save_statistics(rk_model *model);
rk_status rk_model_restore_statistics(rk_model *model, rk_status status);
/* Of the batch that is launched, from 0 on. */
int64_t rk_model_launched_step(const rk_model *model);
/* Returns `status`; RK_NOT_FINITE names the step, which logs count from 1 on. */
rk_status rk_model_name_step(int64_t step, rk_status status);
/* RK_OK with *loss NaN if the step is to be skipped. */
rk_status rk_model_skip_non_finite_step(rk_model *model, rk_status status, double *loss);

/* The store of a model's tables over ranks (model_sharded_store.c). */
rk_status rk_model_create_sharded(rk_model *model, const rk_model_options *options,
                                  const rk_collection_config *collection);

#endif
