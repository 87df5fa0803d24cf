/* The embedding collection: tables and features by name; lookup and update. Usable without the rest of the
 * library.
 *
 * Training: rk_embeddings_lookup, the caller's forward and backward, rk_lookup_backward, rk_embeddings_step.
 * Evaluation: rk_embeddings_lookup_eval. examples/c/embedding_loop.c is a whole program.
 *
 * Thread rule: one thread at a time makes the calls that train (rk_embeddings_lookup, rk_lookup_backward and
 * all that take a collection that is not const). Any number of threads may call what takes a const
 * collection, also beside rk_embeddings_lookup (where no table is dynamic) and rk_lookup_backward, but not
 * while a step, apply_gradients, write_rows or write_state changes rows. The library's pool works inside.
 * Stable (docs/api.md). */
#ifndef RECKON_EMBEDDINGS_H
#define RECKON_EMBEDDINGS_H

#include <stddef.h>
#include <stdint.h>

#include <reckon/batch.h>
#include <reckon/comm.h>
#include <reckon/optimizer.h>
#include <reckon/pool.h>
#include <reckon/table.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_embeddings rk_embeddings;

typedef struct rk_embeddings_config {
    size_t struct_size;
    uint64_t seed;
    const rk_table_config *tables; /* [n_tables] */
    int32_t n_tables;
    const rk_feature_config *features; /* [n_features] */
    int32_t n_features;
    const rk_optimizer *optimizer; /* for tables without one of their own; NULL: adagrad with its defaults */
    rk_pool *pool; /* of create, lookups, backward and step, in place of the process's. NULL: the
                      process's. Must outlive the collection */
    rk_comm
        *comm; /* ranks that hold the tables together; NULL: this process alone. Outlives the collection */
} rk_embeddings_config;
#define RK_EMBEDDINGS_CONFIG_INIT \
    { sizeof(rk_embeddings_config), 0, 0, 0, 0, 0, 0, 0, 0 }

/* Copies the config. Errors: RK_INVALID_ARGUMENT (duplicate or unknown names, bad sizes), RK_NO_MEMORY; over
 * ranks also RK_CONFIG (their configs differ) and RK_PEER_LOST.
 *
 * Over ranks (comm), tables of fewer than 10,000 rows are on every rank; of larger ones each rank holds a
 * part. Every rank has a local batch of its own, of any number of samples. All ranks make the calls that look
 * up, go backward, step, drop gradients, scale the learning rate, and read or write rows, slots or
 * steps, in the same order and from one thread at a time, eval lookups included; a call that is refused on
 * one rank is refused on all. The gradients of all ranks are added (to train on the mean over all samples,
 * each divides by their number), in the order of the ranks' tree, ((0 + 1) + (2 + 3)).
 *
 * Tables with `dynamic` are given keys for ids, over ranks each key by any of them. rk_embeddings_lookup is
 * what counts uses, gives keys rows and takes others' away; an eval lookup changes nothing. Rows of a lookup
 * stay until its backward and the next step are done: while lookups or backwards wait, tables may exceed
 * their capacity. */
RK_API rk_status rk_embeddings_create(const rk_embeddings_config *config, rk_embeddings **out);
RK_API void rk_embeddings_free(rk_embeddings *embeddings);

RK_API int32_t rk_embeddings_n_features(const rk_embeddings *embeddings);
/* Values a sample of feature f's activation: dim, or max_sequence_length * dim. */
RK_API int32_t rk_embeddings_width(const rk_embeddings *embeddings, int32_t feature);
/* Bytes of all rows and slots; over ranks, of those on this one. */
RK_API uint64_t rk_embeddings_bytes(const rk_embeddings *embeddings);

/* Where feature f's activations (or their gradients) of sample s stand: data + s * stride. */
typedef struct rk_activation {
    float *data;
    int64_t stride;   /* values from one sample to the next, >= width */
    int32_t *lengths; /* [n] or NULL; lookup writes the used length of each sequence */
} rk_activation;

/* A batch of ids on their way through a collection, with the memory that this takes, which grows to the
 * largest batch and stays. It belongs to the caller and to one thread at a time, serves any number of batches
 * one after another, and is freed before the collection. */
typedef struct rk_lookup rk_lookup;
/* Errors: RK_INVALID_ARGUMENT (no collection), RK_NO_MEMORY. */
RK_API rk_status rk_lookup_create(const rk_embeddings *embeddings, rk_lookup **out);
RK_API void rk_lookup_free(rk_lookup *lookup);

/* The ids of tensors features[f], [n_features], as the functions below take them, of 32 or 64 bits. Those of
 * 64 bits stay where they are, others are widened into the lookup's memory: *ids, [n_features], is valid
 * until the next call on this lookup of this function, as long as the tensors are. No id is looked at yet.
 * This call is not collective: over ranks, one that is refused is this rank's alone. Errors, which name the
 * feature by its number: RK_INVALID_ARGUMENT (a dtype, shape or device, tensors that are not contiguous,
 * offsets beyond the ids), RK_NO_MEMORY. */
RK_API rk_status rk_lookup_ids(rk_lookup *lookup, int64_t n, const rk_id_tensors *features,
                               const rk_ids **ids);
/* The same of keys that stand one behind the other in the same tensors, as in TorchRec's KeyedJaggedTensor:
 * tensors->ids [total]; tensors->offsets [n_keys * n + 1], of key 0's bags first; tensors->weights [total] or
 * NULL. Feature f is key keys[f], [n_features]; a key may be several features, or none. Ids of 64 bits are
 * not copied. */
RK_API rk_status rk_lookup_keyed_ids(rk_lookup *lookup, int64_t n, int32_t n_keys,
                                     const rk_id_tensors *tensors, const int32_t *keys, const rk_ids **ids);

/* To train: look up features ids[f] (as declared at create, in that order) of n samples into activations[f],
 * [n_features]. `lookup` keeps which rows were used, for the one backward that may follow; ids and
 * activations are not needed afterwards. Several lookups may wait for their backwards at once. Everything is
 * validated first: on failure nothing is written, and no backward can follow; only where memory runs out may
 * keys of dynamic tables have got rows. Ids beyond a table's last row are RK_BAD_DATA, naming the feature,
 * the sample and the id. */
RK_API rk_status rk_embeddings_lookup(rk_embeddings *embeddings, int64_t n, const rk_ids *ids,
                                      rk_lookup *lookup, const rk_activation *activations);

/* The time of the batches that rk_embeddings_lookup gets from now on, in seconds since the epoch: by it
 * `ttl` of dynamic tables counts. NaN: they have none, as before the first call. Over ranks each says that of
 * its own batches, and a lookup has the latest one. Errors: RK_INVALID_ARGUMENT (beyond 10^11); the time
 * stays. */
RK_API rk_status rk_embeddings_set_timestamp(rk_embeddings *embeddings, double seconds);

/* To evaluate: as rk_embeddings_lookup, but no backward can follow, and the collection is only read. Any
 * number of threads may do so at once, each with a lookup of its own, while no other call changes rows. Ids
 * are checked as they are looked up: when one is refused, activations were written, with whatever values. */
RK_API rk_status rk_embeddings_lookup_eval(const rk_embeddings *embeddings, int64_t n, const rk_ids *ids,
                                           rk_lookup *lookup, const rk_activation *activations);

/* Takes gradients[f] with respect to the activations of the lookup: the gradient of each row that it used is
 * summed, duplicate ids in the order of the batch, and added to what earlier backwards have left for the next
 * rk_embeddings_step. Gradients and lookup are free for other use afterwards. Every value is checked first:
 * RK_NOT_FINITE names the feature and the sample; then nothing was added, what earlier backwards left is
 * kept, and the lookup still waits for its backward. RK_INVALID_ARGUMENT: no rk_embeddings_lookup came
 * before. */
RK_API rk_status rk_lookup_backward(rk_lookup *lookup, const rk_activation *gradients);

/* One optimizer step from all backwards since the last one: each touched row is updated once, from the sum of
 * the backwards' gradients in the order of the backwards. RK_INVALID_ARGUMENT: there were none. */
RK_API rk_status rk_embeddings_step(rk_embeddings *embeddings);

/* rk_lookup_backward and rk_embeddings_step in one, with the same results to the bit. Where no other backward
 * waits for a step, each row's gradient is summed where it is used, which saves memory and time. On failure
 * no row was written. */
RK_API rk_status rk_lookup_apply_gradients(rk_lookup *lookup, const rk_activation *gradients);

/* Drops what backwards have left for the next step. */
RK_API void rk_embeddings_zero_gradients(rk_embeddings *embeddings);

/* Multiplies every table's learning rate (on top of the schedules) from the next step on; 1 at create. */
RK_API rk_status rk_embeddings_scale_learning_rate(rk_embeddings *embeddings, double factor);

/* Rows [first, first+n) of a table as f32 into out [n, dim], and back. These and the functions of slots and
 * steps below are of static tables: RK_UNSUPPORTED of a dynamic one, whose rows have keys
 * (rk_embeddings_read_state). */
RK_API rk_status rk_embeddings_read_rows(const rk_embeddings *embeddings, const char *table, int64_t first,
                                         int64_t n, float *out);
RK_API rk_status rk_embeddings_write_rows(rk_embeddings *embeddings, const char *table, int64_t first,
                                          int64_t n, const float *rows);

/* The state of a table's optimizer, for checkpoints of one's own: with its rows, its slots and its count of
 * steps written back, a collection goes on to the bits that it would have had (docs/embeddings.md).
 *
 * The name of slot 0, 1, ... ("accumulator", "m", "v", "momentum", "n", "z": docs/optimizers.md), which
 * belongs to the library; NULL, if the table is unknown or its optimizer has no such slot, as of a frozen
 * table. *width (which may be NULL): values a row, dim or 1. */
RK_API const char *rk_embeddings_slot_name(const rk_embeddings *embeddings, const char *table, int32_t slot,
                                           int32_t *width);
/* A slot of rows [first, first+n) into out [n, width], and back. RK_INVALID_ARGUMENT: there is no such slot,
 * or no such row. RK_NOT_FOUND: no such table. */
RK_API rk_status rk_embeddings_read_slot(const rk_embeddings *embeddings, const char *table, int32_t slot,
                                         int64_t first, int64_t n, float *out);
RK_API rk_status rk_embeddings_write_slot(rk_embeddings *embeddings, const char *table, int32_t slot,
                                          int64_t first, int64_t n, const float *values);
/* How many steps the table has taken, which corrections of bias, schedules of learning rates and the rounding
 * of 16-bit rows go by. */
RK_API rk_status rk_embeddings_read_step(const rk_embeddings *embeddings, const char *table, int64_t *step);
RK_API rk_status rk_embeddings_write_step(rk_embeddings *embeddings, const char *table, int64_t step);

/* Of a dynamic table: keys that have a row now; since it was created, or as its state was written, keys that
 * got and that lost one, and uses in training that found none; and uses in eval lookups that found none. */
typedef struct rk_key_totals {
    size_t struct_size;
    int64_t n_rows, n_admitted, n_evicted, n_refused, n_missing;
} rk_key_totals;
#define RK_KEY_TOTALS_INIT \
    { sizeof(rk_key_totals), 0, 0, 0, 0, 0 }
/* RK_NOT_FOUND: no such table. RK_INVALID_ARGUMENT: it is static. Over ranks all call it. */
RK_API rk_status rk_embeddings_count_keys(const rk_embeddings *embeddings, const char *table,
                                          rk_key_totals *out);

/* All of a dynamic table's state: "keys", "rows", slots by their names, "last_batches", "counts", ...,
 * "step", with the shapes that a checkpoint has (docs/dynamic_tables.md); rows in the order of keys. With it
 * written back, a collection goes on to the bits that it would have had. A copy, which the caller frees; its
 * tensors last as long. Over ranks all call it, and each has all of it. Errors: RK_NOT_FOUND,
 * RK_INVALID_ARGUMENT (a static table), RK_NO_MEMORY. */
typedef struct rk_table_state rk_table_state;
RK_API rk_status rk_embeddings_read_state(rk_embeddings *embeddings, const char *table, rk_table_state **out);
RK_API void rk_table_state_free(rk_table_state *state);
RK_API int32_t rk_table_state_n_tensors(const rk_table_state *state);
/* NULL: there is no such tensor. */
RK_API const char *rk_table_state_name(const rk_table_state *state, int32_t tensor);
RK_API const rk_tensor *rk_table_state_tensor(const rk_table_state *state, int32_t tensor);
/* A state of a table with the same dim, dtype, optimizer and `dynamic`, but for max_capacity where counts are
 * not in sketches: tensors [n] of these names, on the CPU and contiguous. Lookups and backwards of before
 * must not go on. Over ranks all ranks give the same. Errors, with nothing changed: RK_NOT_FOUND (a table, or
 * a tensor that it needs), RK_INVALID_ARGUMENT (a static table; a tensor that it has not, or of another dtype
 * or shape; lookups that wait for a backward, or backwards for a step). With the table empty: RK_BAD_DATA (a
 * key is there twice), RK_NO_MEMORY. */
RK_API rk_status rk_embeddings_write_state(rk_embeddings *embeddings, const char *table, int32_t n,
                                           const char *const *names, const rk_tensor *tensors);

#ifdef __cplusplus
}
#endif
#endif
