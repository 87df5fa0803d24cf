/* What a model is made of; for the files of this folder. */
#ifndef RK_MODEL_MODEL_INTERNAL_H
#define RK_MODEL_MODEL_INTERNAL_H

#include <stdatomic.h>

#include "embedding/local/collection.h"
#include "embedding/local/stale_rows.h"
#include "model/model.h"
#include "model/presets/preset.h"
#include "nn/loss.h"

/* One feature of the collection: whose ids it reads, and its columns of a graph input. */
typedef struct rk_model_lookup {
    int32_t source;        /* the batch's feature */
    rk_value input;        /* "vectors" or "linear" */
    int32_t first;         /* column */
    int32_t length;        /* of a sequence whose lengths the graph reads, else 0; */
    int32_t length_column; /* of the input "lengths" */
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

typedef struct rk_pairs rk_pairs; /* retrieval.h */

/* One run of the graph over a batch, or over a piece or share of it. */
typedef struct rk_model_run {
    rk_model *model;
    const rk_batch *batch;
    const rk_ids *ids;          /* [n_lookups]: of the run's samples */
    const double *task_samples; /* [n_tasks], in training: the weight of all samples of the whole batch that
                                   take part in the task */
    const rk_pairs *pairs;      /* in training of a two_tower */
    float *predictions;         /* [n, n_tasks] of the piece, in prediction */
    atomic_bool not_finite;     /* a gradient of an embedding */
    atomic_size_t n_updated;    /* pieces of the batch before */
} rk_model_run;

typedef struct rk_data_parallel rk_data_parallel;
typedef struct rk_device_step rk_device_step;

struct rk_model {
    const rk_preset *preset;         /* NULL: a graph that the run file writes out */
    rk_embeddings *embeddings;       /* NULL where the model has no tables, or they are spread */
    rk_data_parallel *data_parallel; /* NULL in one process */
    rk_device_step *device_step;     /* NULL on the CPU */
    rk_retrieval *retrieval;         /* of a two_tower, else NULL */
    rk_graph *graph;
    rk_dense_optimizer *optimizer; /* NULL if built for prediction */
    rk_value dense, lengths;       /* -1 where there are none */
    rk_value logits;               /* of the preset or the layers; of all tasks, once these have joined */
    rk_value log_variances;        /* [1, n_tasks] where weights of tasks are learned, else -1 */
    int32_t n_dense, n_features, n_tasks, n_lookups;
    rk_model_lookup *lookups; /* [n_lookups] */
    rk_model_task *tasks;     /* [n_tasks] */
    double *task_samples;     /* [n_tasks]: scratch of a step in one process */
    rk_ids *ids;              /* [n_lookups]: scratch */
    /* Each feature's gradients of a whole batch, [max_batch, width], together: an update reads one feature's
     * at a time. The second set is for the batch whose update is under way, where updates are stale; then
     * activations of the whole batch are kept too. Else those that are looked up early stand in the place of
     * their gradients until their block takes them. */
    rk_activation *gradients[2]; /* [n_lookups] */
    rk_activation *activations;  /* [n_lookups] in training here; data NULL: looked up a block at a time */
    struct rk_model_memory {
        void *pages;
        size_t n_bytes;
    } memory[4]; /* what those point into */
    int now;     /* the set of the batch at hand */
    bool stale;
    rk_stale_rows stale_rows;   /* where stale: what the next step is to see of rows that were brought up to
                                   date before it */
    double *losses;             /* [n_blocks, n_tasks] of the step under way */
    double *micro_batch_losses; /* [n_shards, n_tasks] */
    rk_model_statistic *statistics; /* [n_statistics] */
    size_t n_statistics;
    int64_t max_batch, max_here; /* samples of a batch; that go through the graph here: this rank's share, or
                                    a batch with drawn items */
    int64_t step, n_not_finite;
    bool skip_not_finite;
    bool is_outline; /* no memory: only to be described */
};

static inline const char *rk_model_kind(const rk_model *model) {
    return model->preset ? model->preset->name : "graph";
}
static inline bool rk_model_learns_pairs(const rk_model *model) {
    return model->preset && model->preset->pairs;
}

/* Tasks (tasks.c): as the schema has them; logits that the preset or the layers have to make; outputs of the
 * graph from those. Nodes that are made here have names that no layer may have. */
#define RK_LOG_VARIANCES_NAME "task_log_variances"
rk_status rk_model_tasks_init(rk_model *model, const rk_data_schema *schema);
int32_t rk_model_n_logits(const rk_model *model);
rk_status rk_model_join_tasks(rk_model *model, bool learns_weights);
double rk_model_task_weight(const rk_model_task *task, int64_t step);
/* The weight of each task's samples, [n_tasks]: what its mean loss is over. */
void rk_model_count_samples(const rk_model *model, const rk_batch_part *part, double *weights);
/* A block's share of each task's loss, in model->losses, and the gradients of the graph's outputs. */
void rk_model_block_losses(const rk_model_run *run, const rk_run *block);

/* The model's graph before tasks join it and it is finished, and the plan of its tables, without their
 * memory. Both are the caller's, whatever happens. */
rk_status rk_model_sketch(const rk_model_options *options, rk_model **out, rk_collection_config *plan);

/* A step's parts (step_parts.c). hooks of the graph over a batch or share, but for `read`. */
rk_status rk_model_check_batch(const rk_model *model, const rk_batch_part *part, bool labelled);
void rk_model_read_lengths(const rk_model_run *run,
                           const rk_run *block); /* of the sequences of a block, into the graph's input */
void rk_model_write_lengths(const rk_model *model, const rk_ids *ids, int64_t first, int64_t n,
                            rk_real *out); /* likewise, of samples of a batch; out: of the first of them */
rk_graph_hooks rk_model_hooks(rk_model_run *run, bool training);
/* A batch of at most max_here samples through the graph, with hooks whose context is a run of this model. */
rk_status rk_model_forward(rk_model *model, const rk_batch *batch, rk_graph_hooks hooks);
rk_status rk_model_vectors_of_device(rk_model *model, const rk_batch *batch, rk_value value,
                                     rk_real *out); /* a row of the graph by a GPU; out [n, cols] */
/* Each shard's share of each task's loss, in model->shard_losses; then their sum over n shards. */
void rk_model_sum_blocks(const rk_model *model, int64_t n);
rk_status rk_model_sum_micro_batches(const rk_model *model, const rk_batch *batch, const double *losses,
                                     size_t n, double *loss);
void rk_model_keep_statistics(rk_model *model);
/* After a step that failed: statistics as they were; RK_OK with *loss NaN if the step is to be skipped. */
rk_status rk_model_undo(rk_model *model, rk_status status, double *loss);
rk_status rk_model_skip(rk_model *model, rk_status status, double *loss); /* the second half of that */

#endif
