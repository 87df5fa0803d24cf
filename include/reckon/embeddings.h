/* The embedding collection: tables and features by name; lookup and update. Usable without the rest of the
 * library.
 *
 * Thread rule: one thread at a time calls functions that take a collection that is not const. Those that take
 * a const one may be called by any number of threads meanwhile as long as no row changes. The library's pool
 * works inside.
 * Stable (docs/api.md). */
#ifndef RECKON_EMBEDDINGS_H
#define RECKON_EMBEDDINGS_H

#include <stddef.h>
#include <stdint.h>

#include <reckon/batch.h>
#include <reckon/optimizer.h>
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
} rk_embeddings_config;
#define RK_EMBEDDINGS_CONFIG_INIT \
    { sizeof(rk_embeddings_config), 0, 0, 0, 0, 0, 0 }

/* Copies the config. Errors: RK_INVALID_ARGUMENT (duplicate or unknown names, bad sizes), RK_NO_MEMORY. */
RK_API rk_status rk_embeddings_create(const rk_embeddings_config *config, rk_embeddings **out);
RK_API void rk_embeddings_free(rk_embeddings *embeddings);

RK_API int32_t rk_embeddings_n_features(const rk_embeddings *embeddings);
/* Values a sample of feature f's activation: dim, or max_sequence_length * dim. */
RK_API int32_t rk_embeddings_width(const rk_embeddings *embeddings, int32_t feature);
/* Bytes of all rows and slots. */
RK_API uint64_t rk_embeddings_bytes(const rk_embeddings *embeddings);

/* Where feature f's activations (or their gradients) of sample s stand: data + s * stride. */
typedef struct rk_activation {
    float *data;
    int64_t stride;   /* values from one sample to the next, >= width */
    int32_t *lengths; /* [n] or NULL; lookup writes the used length of each sequence */
} rk_activation;

/* Look up features ids[f] (as declared at create, in that order) of n samples into activations[f],
 * [n_features]. Keeps the plan (unique rows) for apply_gradients. Everything is validated first: on failure
 * nothing is written. Ids beyond a table's last row are RK_BAD_DATA, naming the feature, the sample and the
 * id. */
RK_API rk_status rk_embeddings_lookup(rk_embeddings *embeddings, int64_t n, const rk_ids *ids,
                                      const rk_activation *activations);

/* A batch of ids on their way through a collection, with the memory that this takes, which grows to the
 * largest batch and stays. It belongs to the caller and to one thread at a time. The collection outlives
 * it. */
typedef struct rk_lookup rk_lookup;
/* Errors: RK_INVALID_ARGUMENT (no collection), RK_NO_MEMORY. */
RK_API rk_status rk_lookup_create(const rk_embeddings *embeddings, rk_lookup **out);
RK_API void rk_lookup_free(rk_lookup *lookup);

/* As lookup, for evaluation: no update can follow, and the collection is only read. Any number of threads may
 * peek at once, each with a lookup of its own, while none changes rows. Ids are checked as they are looked
 * up: when one is refused, activations were written, with whatever values. */
RK_API rk_status rk_embeddings_peek(const rk_embeddings *embeddings, int64_t n, const rk_ids *ids,
                                    rk_lookup *lookup, const rk_activation *activations);

/* One optimizer step from gradients[f] with respect to the activations of the last lookup. Duplicate ids are
 * summed first, in a fixed order; each touched row is updated once. A gradient that is not finite fails with
 * RK_NOT_FINITE before anything is written. */
RK_API rk_status rk_embeddings_apply_gradients(rk_embeddings *embeddings, const rk_activation *gradients);

/* Multiplies every table's learning rate (on top of the schedules); 1 at create. */
RK_API rk_status rk_embeddings_scale_learning_rate(rk_embeddings *embeddings, double factor);

/* Rows [first, first+n) of a table as f32 into out [n, dim], and back. */
RK_API rk_status rk_embeddings_read_rows(const rk_embeddings *embeddings, const char *table, int64_t first,
                                         int64_t n, float *out);
RK_API rk_status rk_embeddings_write_rows(rk_embeddings *embeddings, const char *table, int64_t first,
                                          int64_t n, const float *rows);

#ifdef __cplusplus
}
#endif
#endif
