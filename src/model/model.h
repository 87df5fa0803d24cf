/* Behind <reckon/model.h>: a model from its parts. */
#ifndef RK_MODEL_MODEL_H
#define RK_MODEL_MODEL_H

#include <reckon/model.h>

#include <reckon/comm.h>

#include "base/state_dict.h"
#include "comm/comm.h"
#include "data/dataset/interactions.h"
#include "data/transform/transforms.h"
#include "embedding/config/embedding_config.h"
#include "embedding/planner/sharding_planner.h"
#include "kernels/inline/metric_rules.h"
#include "model/step/rank_batch.h"
#include "model/cuda/gpu_options.h"
#include "model/model_config.h"
#include "nn/dense_optimizer.h"
#include "nn/ranking_positions.h"

static inline void rk_model_auto_free(rk_model **model) { /* for RK_AUTO */
    rk_model_free(*model);
}

/* What dense gradients travel as between trainers: rounded; or, with vectors, by PowerSGD
 * (model/step/powersgd.h). */
typedef struct rk_dense_wire {
    rk_sum_wire rounding;
    int32_t n_vectors;
} rk_dense_wire;
const char *rk_dense_wire_name(rk_dense_wire wire); /* as `cluster.wire_dense` has it */
/* Whether a step keeps something back of them, and adds it to the next step's. */
static inline bool rk_dense_wire_keeps_residual(rk_dense_wire wire) {
    return wire.rounding == RK_SUM_INT8 || wire.n_vectors > 0;
}

/* The ranks over which a model is sharded. */
typedef struct rk_model_cluster {
    rk_comm *comm;              /* of all of them */
    rk_planner_request request; /* all but tables, features, optimizer */
    const rk_batch
        *sample; /* of the data: tables are asked for what it asks for; NULL: for one id of each feature */
    bool asynchronous; /* dense gradients are applied `staleness` batches late, too */
    rk_dense_wire dense_wire;
} rk_model_cluster;

typedef struct rk_model_options {
    const rk_model_section *model;
    const rk_embedding_section *embedding;
    const rk_yaml *yaml; /* for messages; may be NULL */
    const rk_data_schema *schema;
    rk_dense_optimizer_config dense_optimizer;
    int64_t max_batch;
    int64_t step_batch; /* samples of a training step at most, from which its bits follow; max_batch may be
                           more, for predictions. 0: max_batch */
    rk_dtype dtype;
    uint64_t seed;
    bool skip_not_finite; /* a step whose loss or gradients are not finite is counted and skipped, not an
                             error; its loss is NaN */
    int64_t staleness; /* 0: a step sees every update before it; more: rows are updated beside the next step's
                          dense part */
    int64_t
        n_micro_batches; /* that a batch is cut into (rk_graph_set_micro_batches); 0: as many as trainers */
    const rk_model_cluster *cluster;          /* NULL: one process */
    const rk_planner_constraint *constraints; /* [n_constraints] of the run file: each names a table that
                                                 there is, in one process too */
    int32_t n_constraints;
    const rk_model_device *device; /* a GPU; NULL: the CPU */
    rk_interactions *interactions; /* two_tower: pairs of the training data, which the model then holds too;
                                      may be NULL where it needs none */
    bool is_outline; /* sizes alone, no memory for rows, slots and batches: the model may be described and
                        freed, no more; of one process, without a device */
    /* For prediction, the dtype that a table's rows are held in; NULL: the configured one. */
    rk_dtype (*row_dtype)(const void *context, const char *table, rk_dtype configured);
    const void *row_context;
    rk_row_source **row_source; /* likewise, of one process on the CPU: where rows are that the model is not
                                   to have in its memory. The model's afterwards, and NULL here. NULL: none */
    bool rows_are_read;         /* all of them after the model is built, which leaves them zeros */
    bool has_missing_rows;      /* likewise, of a dynamic table the row of keys without one, too */
    bool converts;              /* with training: a checkpoint becomes another one, and no step is made */
    const char *output; /* the run's folder; NULL: none. Rows on a disk are there, if not said otherwise */
    bool training; /* false: no gradients, no slots (prediction); the state's names are some of the trained
                 model's */
} rk_model_options;

/* Needs none of the options' arrays afterwards. The collection of a model of dense numbers alone, or of one
 * whose tables are over ranks, has no tables. */
rk_status rk_model_build(const rk_model_options *options, rk_model **out);

typedef struct rk_retrieval rk_retrieval;

enum { RK_USERS_AT_ONCE = 16 }; /* that an evaluation ranks items for, on each thread */

/* The tables and features that a section wants for the schema's features. fallback: the dense part's
 * optimizer. */
rk_status rk_model_make_collection_config(const rk_model_section *section,
                                          const rk_embedding_section *embedding, const rk_yaml *yaml,
                                          const rk_data_schema *schema, const rk_optimizer *fallback,
                                          rk_collection_config *out);

/* The model's graph as a `model:` section of `kind: graph`, or as graphviz text. Free with rk_free. */
rk_status rk_model_graph_text(const rk_model_options *options, bool dot, char **out);

/* Brings the rows up to date where updates are stale, and rows and parameters to host memory where a GPU has
 * them. Call it before the state or rows are read, after every batch was drained. */
rk_status rk_model_flush(rk_model *model);
/* After what rk_model_state_dict or rk_model_embeddings hand out was written to: to the GPU, where there is
 * one. The next steps see it, however stale their rows may be. */
rk_status rk_model_reload(rk_model *model);

bool rk_model_has_device(const rk_model *model); /* a GPU */
/* By the GPU, between steps: an rk_metrics_offload_function (metrics/metrics.h). */
rk_status rk_model_compute_metrics(void *model, bool binary, int64_t n, const rk_metric_sample *samples,
                                   const int64_t *groups, rk_metric_totals *out);

/* Of a two_tower, by the GPU, between steps: nn/ranking_positions.h. */
rk_status rk_model_compute_ranking_positions(rk_model *model, const rk_ranking_positions *args);

/* cuts [trainers + 1]: of a batch, trainer r needs samples cuts[r] .. cuts[r+1]-1, as far as there are any,
 * and no other; a batch of no more samples than the last cut. */
void rk_model_rank_boundaries(const rk_model *model, int64_t *cuts);
/* As rk_model_train and rk_model_predict of the whole batch; predictions [total, n_tasks]. */
rk_status rk_model_train_rank_batch(rk_model *model, const rk_rank_batch *rank_batch, double *loss);
/* What will most likely be the batch of the call after the next one, until that returns: rows that take long
 * to get are read beside the step. NULL: it is not known. */
void rk_model_set_next_batch(rk_model *model, const rk_rank_batch *next);
rk_status rk_model_predict_rank_batch(rk_model *model, const rk_rank_batch *rank_batch, float *predictions);

/* Over ranks with staleness, and on a GPU where rk_model_device says late, rk_model_train begins a batch and
 * trains on one that was begun before; its loss is NaN while there is none. Train on the oldest that is left:
 * *left false, and *loss untouched, if there is none. */
rk_status rk_model_finish_oldest_batch(rk_model *model, double *loss, bool *left);
/* Control messages from trainers to embedding servers: rk_model_serve_rows returns there what
 * rk_model_send_control_to_servers sends. Without embedding servers sending does nothing. */
rk_status rk_model_send_control_to_servers(rk_model *model, int64_t word);
rk_status rk_model_serve_rows(rk_model *model, int64_t *word);
bool rk_model_is_trainer_rank(const rk_model *model);  /* this rank */
rk_comm *rk_model_trainer_comm(const rk_model *model); /* those that do */
/* Over ranks: have all of them know, with the next step's results, that this one is to stop; whether one said
 * so, the same after each step on all. */
void rk_model_ask_to_stop(rk_model *model);
bool rk_model_received_stop(const rk_model *model);
/* What a trainer has exchanged with the others so far: bytes sent and time waited, not bytes moved in memory
 * (rk_memory_traffic). */
typedef struct rk_model_comm_traffic {
    int64_t n_batches;                  /* trained on */
    double bytes_sent, bytes_sent_most; /* by a trainer: on average, and by the one with most */
    double rows_wait_s,
        sum_wait_s;        /* of this one: for rows and room to send, for the sum of the dense gradients */
    int64_t staleness_sum; /* as rk_sharded_counts */
} rk_model_comm_traffic;
rk_model_comm_traffic rk_model_count_comm_traffic(const rk_model *model);

/* Everything that training changes, as named tensors: embeddings, dense parameters, statistics, optimizer
 * slots, "step", "steps_not_finite"; and where updates are stale, with names that begin with
 * RK_BEFORE_IMAGE_PREFIX, rows as the next steps are to see them. Those are there until the next step, and go
 * back by rk_model_read_before_images, after rk_model_reload. */
rk_status rk_model_state_dict(rk_model *model, rk_state_dict *state);
rk_status rk_model_read_before_images(rk_model *model, const char *name, int64_t n, int64_t record_bytes,
                                      const void *records);
/* That dense gradients of a step take as they travel, before any cut into buckets. */
size_t rk_model_dense_wire_bytes(const rk_model *model, rk_dense_wire wire);
/* What this trainer keeps of dense gradients from step to step (model/step/reducer.h), as tensors beside
 * those of the state, where there are such; and back from a checkpoint's, of each trainer. */
rk_status rk_model_residual_state_dict(rk_model *model, rk_state_dict *state);
rk_status rk_model_read_residual(rk_model *model, const char *name, size_t n, const void *values);
/* Of a checkpoint's tensor of 64-bit integers, before the state is made that values are read into: keys of a
 * dynamic table get their rows (embedding/store.h); other names are passed over. */
rk_status rk_model_load_keys(rk_model *model, const rk_stored_keys *keys);
/* Rows on a disk, which are not in the state: into a checkpoint's folder after the state is made, and out of
 * it after the state was read. */
bool rk_model_has_row_files(const rk_model *model);
rk_status rk_model_save_rows(rk_model *model, const char *directory);
rk_status rk_model_load_rows(rk_model *model, const char *directory);
/* Over ranks, before a state that is to be written, and after one was loaded (embedding/store.h). */
rk_status rk_model_number_keys_over_ranks(rk_model *model);
rk_key_counts rk_model_key_counts(const rk_model *model);
void rk_model_scale_learning_rate(rk_model *model,
                                  double factor);        /* dense and sparse, on top of the schedules */
int64_t rk_model_n_skipped_steps(const rk_model *model); /* steps skipped so far */
/* What the last training batch took: rows by the collection's count, flops of the dense part. */
typedef struct rk_model_work {
    uint64_t lookup_bytes, update_bytes;
    int64_t n_ids, n_rows;
    double flops;
    int64_t layer_in, layer_out; /* the largest linear layer */
    uint64_t table_bytes;        /* rows and slots of all tables */
    int32_t row_dim;             /* a usual row: the dim of the table that most bytes come from */
} rk_model_work;
rk_model_work rk_model_estimate_work(const rk_model *model, int64_t n);

/* Bytes by part: tables, slots, dense parameters with their slots, arena. */
typedef struct rk_model_bytes {
    uint64_t tables, slots, dense, arena;
} rk_model_bytes;
rk_model_bytes rk_model_count_bytes(const rk_model *model);

/* Of a two_tower: its vectors' width (0: another kind), the users' of a batch's samples, and those of items
 * with these ids [n]. */
int32_t rk_model_vector_dim(const rk_model *model);
rk_status rk_model_user_vectors(rk_model *model, const rk_batch *batch, rk_real *out); /* [batch->n, dim] */
rk_status rk_model_item_vectors(rk_model *model, const int64_t *ids, int64_t n, rk_real *out); /* [n, dim] */
/* Which items have a row of their own in the dynamic table of the item's feature: has_row [n]. All ranks call
 * it, and all must be trainers. */
rk_status rk_model_find_item_rows(rk_model *model, const int64_t *keys, int64_t n, bool *has_row);

#endif
