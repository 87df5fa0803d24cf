/* A collection whose tables are spread over ranks. A trainer makes its batch's ids unique, asks the owners of
 * the rows for them, looks up in what comes back, sums its gradients a row and sends them; owners update.
 * Exactly as if all were one collection, where staleness is 0.
 *
 * A store (embedding/store.h), of which up to staleness + 1 batches may be begun and not ended. What begin
 * refuses was not sent, and the other trainers must not go on either; backward takes finite gradients and
 * sends their sums, and they may change when it returns; in end, no row is updated that not all trainers
 * agree upon. */
#ifndef RK_EMBEDDING_SHARDED_SHARDED_STORE_H
#define RK_EMBEDDING_SHARDED_SHARDED_STORE_H

#include <reckon/embeddings.h>

#include "comm/comm.h"
#include "embedding/dynamic_config.h"
#include "embedding/planner/sharding.h"
#include "embedding/store.h"

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
    const rk_dynamic_config *dynamic; /* [n_tables], where max_capacity is 0 of static ones; NULL: all are */
} rk_sharded_options;

/* RK_CONFIG on every rank, where the ranks' placements [n_tables] differ: each has chosen by itself, with
 * floating-point arithmetic that another libm may round otherwise. */
rk_status rk_table_placements_check_same(rk_comm *comm, const rk_table_placement *placements, int32_t n);

/* Errors: what rk_embeddings_create returns; RK_INVALID_ARGUMENT for placements that do not fit the tables or
 * the ranks. */
rk_status rk_sharded_create(const rk_sharded_options *options, rk_sharded **out);
/* Its other half: all of a store's calls, and its end (ops->free). */
rk_store *rk_sharded_as_store(rk_sharded *sharded);

rk_status rk_sharded_set_l2(rk_sharded *sharded, const char *table, double l2, double l2_full);

/* What has happened so far. */
typedef struct rk_sharded_counts {
    int64_t n_batches;     /* finished */
    int64_t staleness_sum; /* of training batches: updates that were begun before a batch and missing from its
                              lookup */
    int64_t staleness_most;
    int64_t rows_served, gradients_taken; /* as an owner: rows read (ids, where it combines bags), and rows'
                                             or bags' gradients applied; its own among them */
    uint64_t bytes_served;                /* of answers, its own among them */
    double wait_s;                        /* in wait and end */
} rk_sharded_counts;
rk_sharded_counts rk_sharded_read_counts(const rk_sharded *sharded);

#endif
