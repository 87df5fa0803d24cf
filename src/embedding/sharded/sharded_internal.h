/* Inside a sharded collection: what its trainer's side, its owner's side and the pipeline share. */
#ifndef RK_EMBEDDING_SHARDED_SHARDED_INTERNAL_H
#define RK_EMBEDDING_SHARDED_SHARDED_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "embedding/sharded/scratch_buffer.h"
#include "embedding/local/collection_internal.h"
#include "embedding/sharded/sharded_store.h"
#include "embedding/local/state/row_before_images.h"
#include "base/integers.h"

/* A part of a table, on one rank or on all trainers. */
typedef struct rk_table_shard {
    int32_t table, slice, part, n_parts;
    int32_t owner; /* -1: every trainer */
    int32_t first_column, dim;
    int64_t n_rows; /* of this part */
    int32_t stored; /* number in this rank's store; -1: not here */
} rk_table_shard;

/* What goes to a shard in a batch: the different rows of its table, or one feature's bags. */
typedef struct rk_table_shard_stream {
    int32_t shard, feature; /* feature -1: rows */
    int32_t n_features;     /* of a dynamic table, whose keys travel with their uses, so many; else 0 */
    bool oov;     /* keys without a row share one, which is asked of the first part, behind its keys; */
    bool cold;    /* or they share cold rows, which are in the parts of their keys */
    int id_bytes; /* 2, 4 or 8 */
    rk_dtype rows_wire, gradients_wire;
    bool trainable;
    bool on_disk; /* of keys some of whose rows are on a disk: those of the batch to come travel ahead */
} rk_table_shard_stream;

/* A table's different rows in a trainer's batch, in the order of the parts that they are in; of a dynamic
 * table its different keys, those of a part in the order of their first uses. */
typedef struct rk_unique_rows {
    int64_t n;
    int64_t *begins;          /* [n_parts+1] */
    rk_scratch_buffer rows;   /* int64 [n]: the row's number within its part, or the key */
    rk_scratch_buffer uses;   /* uint32 [n]: of keys, how often each is used */
    int64_t *n_first;         /* [n_parts, n_features]: of keys, how many each feature is the first to use */
    rk_scratch_buffer absent; /* uint8 [n]: of keys, whether each has no row and shares one, */
    int64_t shared;           /* which is there, if all share one */
    bool shares;              /* some do */
    rk_unique_keys cold;      /* the different cold rows that keys share: scratch, as */
    rk_scratch_buffer cold_rows; /* int64: the cold rows of keys without one of their own */
    rk_scratch_buffer targets;   /* int64 [n_uses]: of each use of the table, in the order of occurrences, its
                         place among them; of bags that are combined elsewhere: 0, 1, 2, ... A batch's own,
                         which lookups read until it is finished, when the next ones have grown theirs */
    rk_scratch_buffer order;  /* int64 [n]: scratch; where some keys share rows, of each key the place whose
                      gradients are its own, too */
    rk_scratch_buffer values; /* float [n, dim], or the bags' of the table's features one after the other;
                                   gradients on the way back */
    int64_t *bag_begins;      /* [n_features of the table + 1] */
} rk_unique_rows;

/* A trainer's different keys of the batch to come, of a table with rows on a disk (prefetch_keys.c). */
typedef struct rk_prefetch_keys {
    int32_t n_parts; /* 0: of another table */
    rk_unique_keys different;
    rk_key_list uses; /* of each key; then the different ones: part p's are begins[p] .. begins[p+1]-1 */
    int64_t *begins;  /* [n_parts + 2] */
} rk_prefetch_keys;

typedef enum rk_in_flight_batch_state {
    RK_IN_FLIGHT_FREE,
    RK_IN_FLIGHT_IDS_SENT,
    RK_IN_FLIGHT_SERVED,
    RK_IN_FLIGHT_READY,
    RK_IN_FLIGHT_RETURNED
} rk_in_flight_batch_state;
typedef enum rk_in_flight_batch_kind {
    RK_IN_FLIGHT_TRAIN,
    RK_IN_FLIGHT_EVAL,
    RK_IN_FLIGHT_CONTROL
} rk_in_flight_batch_kind;

/* A batch on its way. */
typedef struct rk_in_flight_batch {
    atomic_int state;                       /* rk_in_flight_batch_state */
    int64_t kind, word;                     /* word: of training, the batch's timestamp */
    rk_batch_context batch_context;         /* of the trainer's tables */
    rk_unique_rows *unique;                 /* [n_tables] */
    rk_scratch_buffer *ask, *answer, *give; /* [size]: messages that this rank sends */
    rk_all_to_all *ids, *rows, *gradients;
    int64_t applies;            /* its gradients: trainers have decided so, */
    rk_all_to_all *step_status; /* to owners that do not train; else NULL */
    /* an owner's view of it: */
    rk_scratch_buffer *local;   /* [store->n_features]: ids, int64 */
    rk_scratch_buffer *offsets; /* [store->n_features]: of bags, int64 [n_bags+1] */
    rk_ids *stored_ids;         /* [store->n_features] */
    int64_t *counts;            /* [store->n_features]: bags */
    rk_scratch_buffer *uses;    /* [store->n_features]: of keys, uint32; */
    rk_scratch_buffer *n_first; /* [store->n_features]: likewise, int64 [n_features of the stream] */
    rk_key_list *ahead;         /* [store->n_features]: keys of the batch to come, where they came */
    bool is_read;               /* those are filled in */
    rk_key_counts keys;         /* of all owners, when they served it */
} rk_in_flight_batch;

struct rk_sharded {
    rk_store as_store;
    rk_comm *comm;
    rk_roles roles;
    int32_t rank, size;
    bool trains, owns; /* owns: may hold rows */
    int64_t micro_batch_samples, staleness;
    rk_embeddings *trainer_tables; /* tables without rows, all features; NULL on ranks that do not train */
    rk_embeddings *store;          /* the shards here; a feature for each trainer and stream */
    rk_table_shard *shards;        /* [n_shards] */
    int32_t n_shards;
    rk_table_shard_stream *streams; /* [n_streams] */
    int32_t n_streams;
    int32_t **streams_of;             /* [size][n_streams_of[r]]: streams whose shard rank r holds */
    int32_t *n_streams_of;            /* [size] */
    bool *trainers, *owners, *nobody; /* [size]: which ranks take part in an all_to_all; nobody: none */
    bool *servers, *first;            /* [size]: owners that do not train; the first trainer */
    rk_activation *activations;       /* [store->n_features]: scratch of the owner's side */
    int64_t *asked;                   /* [store->n_features]: bags that are looked up, of */
    rk_ids *asked_ids;                /* [store->n_features] */
    rk_scratch_buffer
        *scratch;            /* [store->n_features]: rows or gradients in f32 where the wire has fewer bits */
    rk_prefetch_keys *ahead; /* [n_tables]: of a trainer, */
    struct {
        int64_t first, n;
        const rk_ids *ids;                 /* [n_features]; NULL: it is not known */
    } next;                                /* what prefetch said */
    int64_t timestamp;                     /* and set_timestamp */
    rk_message *messages;                  /* [size]: scratch of begin, and */
    rk_message *answers;                   /* [size], of the communication thread */
    rk_in_flight_batch *in_flight_batches; /* [n_in_flight_batches] */
    size_t n_in_flight_batches;
    char **names; /* [n_tables] */
    int32_t n_tables;
    int32_t n_dynamic;  /* of them; where there are any, owners tell of their keys */
    bool has_row_files; /* one of those has rows on a disk, here or on another rank */
    rk_key_uses
        *key_uses; /* [trainers * features of streams here]: what the store's dynamic tables get, scratch */
    int32_t *key_begins;                /* [store->n_tables + 1]: those of each */
    size_t *key_task_begins;            /* [store->n_tables + 1] */
    rk_key_counts keys;                 /* as the caller's last batch came to know them */
    _Atomic int64_t begun;              /* by the caller, as */
    int64_t finished;                   /* are these */
    _Atomic int64_t next_updated;       /* by whoever moves batches in flight on, as */
    int64_t next_served;                /* are these */
    int64_t n_trained;                  /* batches whose updates are done, of training, */
    rk_row_before_images before_images; /* and what later ones are to see of the store: likewise by whoever
                                 moves batches in flight on */
    _Atomic uint64_t bytes_served;
    _Atomic int64_t rows_served, gradients_taken;
    _Atomic int64_t staleness_sum, staleness_most; /* by whoever moves batches in flight on */
    rk_sharded_counts seen;
    /* where staleness > 0, a thread moves batches in flight on */
    bool has_comm_thread;
    pthread_t comm_thread;
    pthread_mutex_t lock;
    pthread_cond_t moved, woken; /* tells the caller; tells the communication thread */
    int n_waiting;               /* callers */
    bool stops;
    rk_status status; /* of the communication thread */
    char error[2048];
};

static inline rk_in_flight_batch *rk_sharded_batch_at(const rk_sharded *s, int64_t number) {
    return &s->in_flight_batches[number % (int64_t)s->n_in_flight_batches];
}
static inline int32_t rk_sharded_n_local_streams(const rk_sharded *s) {
    return s->n_streams_of[s->rank];
}
static inline int32_t rk_sharded_stored_feature(const rk_sharded *s, int32_t trainer, int32_t stream) {
    return trainer * rk_sharded_n_local_streams(s) + stream;
}
static inline const rk_table_shard_stream *rk_sharded_stream_of_stored_feature(const rk_sharded *s,
                                                                               int32_t f) {
    return &s->streams[s->streams_of[s->rank][f % rk_sharded_n_local_streams(s)]];
}
/* Rows that are asked of a stream's shard beside its keys. */
static inline int64_t rk_stream_n_shared_rows(const rk_sharded *s, const rk_table_shard_stream *stream) {
    return stream->oov && s->shards[stream->shard].part == 0;
}
/* Behind the rows of a stream whose keys may share some: which of them do, a byte each. */
static inline size_t rk_stream_absent_flag_bytes(const rk_table_shard_stream *stream, int64_t n) {
    return stream->oov || stream->cold ? ((size_t)n + 63) / 64 * 64 : 0;
}
/* Before the gradients of n keys that may share rows: whether the row that all share has one, int64; or which
 * keys have one, a byte each. */
static inline size_t rk_stream_shared_row_flag_bytes(const rk_sharded *s, const rk_table_shard_stream *stream,
                                                     int64_t n) {
    return stream->cold                         ? rk_stream_absent_flag_bytes(stream, n)
           : rk_stream_n_shared_rows(s, stream) ? 64
                                                : 0;
}
/* Rows of a replicated shard are read where they are. */
static inline bool rk_table_shard_stream_answers(const rk_sharded *s, const rk_table_shard_stream *stream,
                                                 int32_t trainer, int32_t owner) {
    return s->shards[stream->shard].owner >= 0 || trainer == owner;
}

extern const rk_store_ops rk_sharded_ops;
void rk_sharded_free(rk_store *store);

/* A message of ids: a header, and for each stream its part. */
typedef struct rk_ids_header {
    int64_t kind, word;
} rk_ids_header;
typedef struct rk_ids_entry {
    int64_t n_bags, n_ids; /* n_bags: of answers and gradients */
} rk_ids_entry;
/* What follows a stream's keys: how many each feature is the first to use, int64 [n_features], and each key's
 * uses, uint32 [n_ids]. */
static inline size_t rk_stream_key_uses_bytes(const rk_table_shard_stream *stream, int64_t n_ids) {
    return stream->n_features ? (size_t)stream->n_features * sizeof(int64_t) +
                                    rk_round_up((size_t)n_ids * sizeof(uint32_t), 8)
                              : 0;
}
/* A message of gradients begins with this, and they follow at 64 bytes. */
typedef struct rk_gradients_header {
    int64_t
        begun; /* batches that trainers had begun then: those are served before these gradients are applied */
} rk_gradients_header;
enum { RK_GRADIENTS_HEAD = 64 };
/* An answer begins with the owner's rk_key_counts where there are dynamic tables. */
static inline size_t rk_answer_header_bytes(const rk_sharded *s) {
    return s->n_dynamic ? 64 : 0;
}
static inline size_t rk_wire_values_bytes(int64_t n, int32_t dim, rk_dtype wire) {
    return rk_round_up((size_t)n * (size_t)dim * rk_dtype_bytes(wire), 64);
}

/* To and from the dtype on the wire, rounded to the nearest; finite numbers stay finite, since gradients are
 * checked before they are sent. */
void rk_wire_pack(void *to, rk_dtype wire, const float *from, int64_t n);
void rk_wire_unpack(float *to, rk_dtype wire, const void *from, int64_t n);

/* Memory, without what grows with batches. */
rk_status rk_in_flight_batch_init(const rk_sharded *s, rk_in_flight_batch *j);
void rk_in_flight_batch_release(const rk_sharded *s, rk_in_flight_batch *j);

/* The trainer's side (sharded_trainer.c). */
rk_status rk_in_flight_batch_input_dist(rk_sharded *s, rk_in_flight_batch *j, int64_t n, const rk_ids *ids);
/* What goes to a stream: so many rows or bags, of the table's (rk_unique_rows.values) those from this one
 * on. */
int64_t rk_in_flight_batch_stream_count(const rk_sharded *s, rk_in_flight_batch *j,
                                        const rk_table_shard_stream *stream);
int64_t rk_in_flight_batch_stream_offset(const rk_sharded *s, const rk_in_flight_batch *j,
                                         const rk_table_shard_stream *stream);
rk_status rk_in_flight_batch_output_dist(rk_sharded *s, rk_in_flight_batch *j);
/* By the caller, once rows are taken: keys without one look up the row that they share, and its gradients are
 * summed as one row's. */
rk_status rk_in_flight_batch_share_rows(rk_sharded *s, rk_in_flight_batch *j);
/* Samples first .. last-1 of a feature, once its rows are taken; `to` is of sample `first`. */
void rk_in_flight_batch_lookup(const rk_sharded *s, const rk_in_flight_batch *j, int32_t feature,
                               int64_t first, int64_t last, const rk_activation *to);
rk_status rk_in_flight_batch_send_gradients(rk_sharded *s, rk_in_flight_batch *j,
                                            const rk_activation *gradients);
rk_status rk_in_flight_batch_send_step_status(rk_sharded *s, rk_in_flight_batch *j, bool applies);
/* Keys and the rows that some share (key_answers.c). A message of rows begins with an owner's counts, which
 * are added to j->keys. */
rk_status rk_in_flight_batch_read_key_counts(const rk_sharded *s, rk_in_flight_batch *j, int32_t owner,
                                             const rk_message *from);
/* By an owner, behind the rows of a feature: which of its keys have none of their own; returns the bytes, 0
 * where such keys share no row. By a trainer: reads it from `at` on. */
size_t rk_in_flight_batch_pack_absent_flags(const rk_sharded *s, const rk_in_flight_batch *j, int32_t f,
                                            char *to);
rk_status rk_in_flight_batch_read_absent_flags(const rk_sharded *s, rk_in_flight_batch *j,
                                               const rk_table_shard_stream *stream, int32_t owner,
                                               const rk_message *from, size_t *at);
/* By a trainer: keys without a row look up the one that they share, and it gets their gradients. */
rk_status rk_in_flight_batch_map_absent_keys(const rk_sharded *s, rk_in_flight_batch *j);
/* By a trainer, before a stream's gradients: which of them there are; returns the bytes. By an owner: reads
 * it from `at` on, and ids without a gradient are no rows from then on. */
size_t rk_in_flight_batch_pack_shared_row_flags(const rk_sharded *s, rk_in_flight_batch *j,
                                                const rk_table_shard_stream *stream, char *to);
rk_status rk_in_flight_batch_drop_gradients_of_absent_keys(const rk_sharded *s, const rk_in_flight_batch *j,
                                                           int32_t f, int32_t trainer, const rk_message *from,
                                                           size_t *at);
/* All of it at once, where rows and gradients go another way (cuda_sharded), between the owner's keys_to_rows
 * and its lookup. */
rk_status rk_in_flight_batch_exchange_key_answers(rk_sharded *s, rk_in_flight_batch *j);
/* Keys of the batch to come (prefetch_keys.c). By a trainer: finds them; so many bytes for an owner, and what
 * they are. By an owner: reads what a trainer sent from `at` on, and tells tables of it before the batch
 * begins. */
rk_status rk_prefetch_keys_find(rk_sharded *s);
size_t rk_prefetch_keys_bytes(const rk_sharded *s, int32_t owner);
void rk_prefetch_keys_pack(const rk_sharded *s, int32_t owner, char *to);
rk_status rk_prefetch_keys_read(const rk_sharded *s, rk_in_flight_batch *j, int32_t trainer,
                                const rk_message *message, size_t at);
void rk_prefetch_keys_give(const rk_sharded *s, const rk_in_flight_batch *j);
/* The part of a dynamic table that a key is in. */
static inline int32_t rk_part_of_key(const rk_sharded *s, int32_t table, int64_t key, int32_t n_parts) {
    const rk_dynamic_config *config = &s->trainer_tables->tables[table].dynamic_config;
    return rk_dynamic_part_of_bucket(config, rk_dynamic_bucket_of_key(config, key), n_parts);
}

/* The owner's (sharded_server.c). */
rk_status rk_message_too_short_error(int32_t trainer, const char *what, size_t n_bytes);
rk_status rk_in_flight_batch_read_ids(rk_sharded *s, rk_in_flight_batch *j);
/* The keys that came become rows of the tables here; behind them may be the one that others share. serve does
 * it, too. */
rk_status rk_in_flight_batch_keys_to_rows(rk_sharded *s, rk_in_flight_batch *j);
rk_status rk_in_flight_batch_serve_rows(rk_sharded *s, rk_in_flight_batch *j);
rk_status rk_in_flight_batch_read_gradients_header(const rk_in_flight_batch *j, int32_t trainer,
                                                   rk_gradients_header *out);
/* Of all trainers, into s->activations, with the plan of their update in the store's context at hand. */
rk_status rk_in_flight_batch_receive_gradients(rk_sharded *s, rk_in_flight_batch *j);
rk_status rk_in_flight_batch_update_rows(rk_sharded *s, rk_in_flight_batch *j);
/* Batches in flight are moved on by the caller or by a communication thread (sharded_pipeline.c). enqueue:
 * the batch's ids are sent; mark_gradients_sent: all that it needs of the trainer is sent. */
void rk_sharded_enqueue_batch(rk_sharded *s, rk_in_flight_batch *j);
void rk_sharded_mark_gradients_sent(rk_sharded *s, rk_in_flight_batch *j);
rk_status rk_sharded_wait_for_batch_state(rk_sharded *s, const rk_in_flight_batch *j,
                                          rk_in_flight_batch_state state);
/* All that are begun, without a communication thread. */
rk_status rk_sharded_wait_until_all_served(rk_sharded *s);
rk_status rk_sharded_start_comm_thread(rk_sharded *s);
void rk_sharded_stop_comm_thread(rk_sharded *s);

#endif
