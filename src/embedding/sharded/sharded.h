/* A collection whose tables are spread over ranks. A trainer makes its batch's ids unique, asks the owners of
 * the rows for them, looks up in what comes back, sums its gradients a row and sends them; owners update.
 * Exactly as if all were one collection, where staleness is 0.
 *
 * Batches go through in the order in which they are begun: begin, await, look_up, give, finish; up to
 * staleness + 1 may be begun and not finished. All trainers make the same calls in the same order. Thread
 * rule: one thread at a time; look_up by any number of them. */
#ifndef RK_EMBEDDING_SHARDED_SHARDED_H
#define RK_EMBEDDING_SHARDED_SHARDED_H

#include <reckon/embeddings.h>

#include "base/state.h"
#include "comm/comm.h"
#include "embedding/planner/sharding.h"

typedef struct rk_sharded rk_sharded;

typedef struct rk_sharded_options {
    const rk_embeddings_config *config;
    const rk_table_placement *placements; /* [n_tables] */
    rk_comm *comm;                        /* must outlive it */
    rk_roles roles;
    const int64_t *first_micro_batches; /* [n_trainers + 1]: trainer r has the batch's shards first_shards[r]
                                           .. first_shards[r+1]-1 */
    int64_t micro_batch_samples;
    rk_dtype wire;     /* of rows and gradients on their way */
    int64_t staleness; /* updates of so many batches may be missing from a lookup; 0: of none */
} rk_sharded_options;

/* Errors: what rk_embeddings_create returns; RK_INVALID_ARGUMENT for placements that do not fit the tables or
 * the ranks. */
rk_status rk_sharded_create(const rk_sharded_options *options, rk_sharded **out);
void rk_sharded_free(rk_sharded *sharded);

/* Samples of this trainer's share of a batch. Ids are checked; on failure nothing was sent and the other
 * trainers must not go on either. ids stay until finish. training false: nothing is updated, and every update
 * before it is seen. */
rk_status rk_sharded_begin(rk_sharded *sharded, int64_t n, const rk_ids *ids, bool training);
/* Until the rows of the oldest batch that is not finished are here. */
rk_status rk_sharded_await(rk_sharded *sharded);
/* Samples first .. last-1 of feature f of that batch; `to` is where sample `first` goes. */
void rk_sharded_look_up(const rk_sharded *sharded, int32_t feature, int64_t first, int64_t last,
                        const rk_activation *to);
/* That batch's gradients [n_features], all finite, are summed a row and set off to the owners; they may
 * change when it returns. */
rk_status rk_sharded_give(rk_sharded *sharded, const rk_activation *gradients);
/* Owners apply them, or do not (agreed upon by all trainers; then no row is updated, and none need be given).
 * With staleness 0 the rows of this rank are updated when it returns. */
rk_status rk_sharded_finish(rk_sharded *sharded, bool applies);
/* All updates that were begun are done on this rank's rows. */
rk_status rk_sharded_flush(rk_sharded *sharded);

/* A word from the trainers to the owners that do not train; settles. */
rk_status rk_sharded_send_control(rk_sharded *sharded, int64_t word);
/* On an owner that does not train: serve until the next word. */
rk_status rk_sharded_serve(rk_sharded *sharded, int64_t *word);

/* Parts of tables that are here, and their steps, and rows as the next batches are to see them
 * (embedding/local/stale_rows.h); what is replicated is marked as shared. Settled before. */
rk_status rk_sharded_state(rk_sharded *sharded, rk_state *state);
/* The rows were written to: the next batches see them, however stale; but for what is read then,
 * embedding/local/stale_rows.h. */
void rk_sharded_forget(rk_sharded *sharded);
rk_status rk_sharded_read_stale(rk_sharded *sharded, const char *name, int64_t n, int64_t record_bytes,
                                const void *records);
rk_status rk_sharded_set_l2(rk_sharded *sharded, const char *table, double l2, double l2_full);
rk_status rk_sharded_scale_learning_rate(rk_sharded *sharded, double factor);
uint64_t rk_sharded_bytes(const rk_sharded *sharded); /* of rows and slots here */

/* What has happened so far. */
typedef struct rk_sharded_counts {
    int64_t n_batches;     /* finished */
    int64_t staleness_sum; /* of training batches: updates that were begun before a batch and missing from its
                              lookup */
    int64_t staleness_most;
    int64_t rows_served, gradients_taken; /* as an owner: rows read (ids, where it combines bags), and rows'
                                             or bags' gradients applied; its own among them */
    uint64_t bytes_served;                /* of answers, its own among them */
    double wait_s;                        /* in rk_sharded_await and rk_sharded_finish */
} rk_sharded_counts;
rk_sharded_counts rk_sharded_count(const rk_sharded *sharded);

#endif
