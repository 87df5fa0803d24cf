/* Where a model's embedding rows are, behind one protocol: in this process (local/local_store.h), over ranks
 * (sharded/sharded_store.h), or nowhere, if a model has no tables. A new kind of store is a table of these
 * functions and a line in tests/embedding/test_store.c.
 *
 * A batch:
 *     begin      checks its ids and sends them off; they must stay until end
 *     wait       waits until the rows of the oldest batch that has not ended are here
 *     lookup     looks up samples of it, by any number of threads at once
 *     backward   in training: takes its gradients, which must stay until end; with stale updates, until the
 *                next wait
 *     end        updates its rows, or does not
 *
 * Batches end in the order in which they begin. Over ranks, all trainers make the same calls in the same
 * order. Thread rule: one thread at a time, except for lookup and update_piece. */
#ifndef RK_EMBEDDING_STORE_H
#define RK_EMBEDDING_STORE_H

#include <reckon/embeddings.h>
#include <stdatomic.h>

#include "base/state_dict.h"

typedef struct rk_store rk_store;

/* All dynamic tables together: keys that have rows, and that were given and lost them; uses that found none,
 * in training and otherwise. The last is this process's, the others are the table's. */
typedef struct rk_key_counts {
    int32_t n_tables;
    int64_t n_rows, n_admitted, n_evicted, n_refused, n_missing;
} rk_key_counts;

/* Keys first .. first+n-1 of the `total` that a tensor of a checkpoint has, as a whole or as a part. */
typedef struct rk_stored_keys {
    const char *name; /* of the whole tensor */
    int64_t first, n, total;
    const int64_t *keys; /* [n] */
} rk_stored_keys;

/* What a store has done so far. */
typedef struct rk_store_counts {
    double wait_s; /* in wait and end */
    int64_t
        staleness_sum; /* of training batches: updates that began before a batch and its lookup did not see */
    rk_key_counts keys;
} rk_store_counts;

typedef struct rk_store_ops {
    void (*free)(rk_store *store);
    /* ids [n_features] of n samples. Errors, with nothing begun: RK_BAD_DATA names feature, sample and id. */
    rk_status (*begin)(rk_store *store, int64_t n, const rk_ids *ids, bool training);
    rk_status (*wait)(rk_store *store);
    /* Before a batch for training begins, samples first .. first+n-1 of the one that will most likely begin
     * after it: what takes long to get may be got beside the first. The ids stay until begin has returned. */
    void (*prefetch)(rk_store *store, int64_t first, int64_t n, const rk_ids *ids);
    /* The largest timestamp of the batch for training that begins next, in microseconds, or RK_NO_TIMESTAMP:
     * by it dynamic tables know how long rows were not used (dynamic/stream_clock.h). */
    void (*set_timestamp)(rk_store *store, int64_t timestamp);
    /* From now on wait gives up with RK_INTERRUPTED once another thread has set *cancel, which may be NULL.
     */
    void (*set_cancel_flag)(rk_store *store, const atomic_bool *cancel);
    /* In training, after wait: looks up features for the whole batch at once, where that is faster, into
     * activations [n_features]; those of the other features come back without data. */
    void (*lookup_early)(rk_store *store, rk_activation *activations);
    /* Samples first .. last-1 of a feature; `to` is where sample `first` goes. */
    void (*lookup)(const rk_store *store, bool training, int32_t feature, int64_t first, int64_t last,
                   const rk_activation *to);
    /* The update of the batch before, if it runs beside this one's dense part: pieces in any order, by any
     * thread; complete when all are done. */
    size_t (*n_pieces)(const rk_store *store);
    void (*update_piece)(rk_store *store, size_t piece);
    void (*complete)(rk_store *store);
    rk_status (*backward)(rk_store *store, const rk_activation *gradients, bool known_finite);
    /* RK_NOT_FINITE, with nothing updated, only from stores that find_not_finite. */
    rk_status (*end)(rk_store *store, bool applies);

    rk_status (*flush)(rk_store *store);  /* all updates are done: rows may be read */
    rk_status (*reload)(rk_store *store); /* rows were written to: the next batch sees them */
    /* Before the values of a checkpoint are read into the state: NULL empties the dynamic tables; then all of
     * the checkpoint's tensors of 64-bit integers, of which those of such tables give keys their rows
     * (rk_embeddings_load_keys). */
    rk_status (*load_keys)(rk_store *store, const rk_stored_keys *keys);
    /* Over ranks, before a state that is to be written, and after one was loaded: how many keys other ranks
     * have. All ranks call it. */
    rk_status (*number_keys)(rk_store *store);
    /* Rows, slots and steps of the tables that are here, as named tensors; views. After flush. */
    rk_status (*state)(rk_store *store, rk_state_dict *state);
    rk_status (*read_before_images)(rk_store *store, const char *name, int64_t n, int64_t record_bytes,
                                    const void *records); /* embedding/local/state/row_before_images.h */
    /* Rows that are on a disk: whether any table, on any rank, has such; into a checkpoint's folder and,
     * after all else of it was read, out of it. */
    bool (*has_row_files)(const rk_store *store);
    rk_status (*save_rows)(rk_store *store, const char *directory);
    rk_status (*load_rows)(rk_store *store, const char *directory);
    /* Sets has_row[i] for each of keys [n] that has a row of its own in a part of the dynamic table here. */
    void (*find_keys)(const rk_store *store, const char *table, const int64_t *keys, int64_t n,
                      bool *has_row);
    void (*scale_learning_rate)(rk_store *store, double factor); /* of all tables, on top of schedules */
    uint64_t (*bytes)(const rk_store *store);                    /* of rows and slots here */
    rk_store_counts (*count)(const rk_store *store);
    /* From trainers to embedding servers: a control message that `serve` returns there. A store without
     * servers ignores it. */
    rk_status (*send_to_servers)(rk_store *store, int64_t word);
    rk_status (*serve)(rk_store *store, int64_t *word); /* on a server: until the next message */
    bool find_not_finite; /* backward takes gradients that are not finite, and end names them */
} rk_store_ops;

/* A store begins with its functions. */
struct rk_store {
    const rk_store_ops *ops;
};

/* The store of a model without tables; free does nothing. */
rk_store *rk_store_none(void);

/* Functions for stores that have nothing to do there. */
rk_status rk_store_noop(rk_store *store);
void rk_store_noop_void(rk_store *store);
void rk_store_noop_prefetch(rk_store *store, int64_t first, int64_t n, const rk_ids *ids);
void rk_store_noop_set_timestamp(rk_store *store, int64_t timestamp);
void rk_store_noop_set_cancel_flag(rk_store *store,
                                   const atomic_bool *cancel); /* it waits for nobody outside */
size_t rk_store_zero_pieces(const rk_store *store);
void rk_store_noop_update_piece(rk_store *store, size_t piece);
rk_store_counts rk_store_zero_counts(const rk_store *store);
rk_status rk_store_noop_load_keys(rk_store *store, const rk_stored_keys *keys);
rk_status rk_store_noop_send_to_servers(rk_store *store, int64_t word);

#endif
