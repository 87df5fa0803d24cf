/* Inside of a collection's tables on a GPU: what the device_tables_*.c files share. */
#ifndef RK_EMBEDDING_CUDA_DEVICE_TABLES_INTERNAL_H
#define RK_EMBEDDING_CUDA_DEVICE_TABLES_INTERNAL_H

#include "cuda/libraries/sort.h"
#include "cuda/tables/table.h"
#include "embedding/local/collection_internal.h"
#include "embedding/cuda/device_tables.h"

enum { RK_NO_FEATURE = -1, RK_UNKNOWN_FEATURE = -2 };

/* A batch under way, and its memory, which is kept from batch to batch. */
typedef struct rk_device_batch_context {
    bool is_prepared;
    bool training;
    int64_t n_samples, n_uses, n_bags, n_tiles, n_ids;
    uint32_t number;
    rk_stream *stream; /* that it was prepared for */
    rk_stream_event *deduped, *done;
    /* What is uploaded, in pinned memory and on the device: the batch, feature_ids, offsets, weights, ids. */
    char *host, *upload;
    size_t upload_bytes;
    rk_cuda_feature_ids *feature_ids; /* these five: in `host` */
    uint32_t *offsets;
    float *weights;
    void *ids;
    rk_cuda_batch *batch;
    bool wide;   /* ids are int64_t; else int32_t */
    char *arena; /* of the device: all that is per use or bag */
    int64_t uses_capacity, bags_capacity;
    void *scratch; /* of the sort */
    size_t scratch_bytes;
    rk_cuda_counts *counts, *host_counts;
    rk_cuda_step *host_steps; /* [n_tables] */
    uint32_t n_new_rows;      /* of dynamic tables, which are not created on the device yet */
    size_t new_value_bytes;
} rk_device_batch_context;

/* Where activations or gradients are, as the device reads it; kept for launch graphs. */
typedef struct rk_device_activations {
    rk_activation *given;       /* [n_features] */
    rk_cuda_activation *places; /* on the device */
} rk_device_activations;

/* A feature's keys of a batch, on their way to rows. Memory is kept from batch to batch. */
typedef struct rk_device_keys {
    int64_t *rows;   /* [n_ids] of all its ids, 0 of those that no bag has; what the device gets for ids */
    int64_t *kept;   /* [n_kept] keys that bags have, and then their rows, where those are not all */
    int64_t *places; /* [n_kept] their ids' numbers */
    int64_t n_kept;
    size_t rows_capacity, kept_capacity, places_capacity;
} rk_device_keys;

struct rk_device_tables {
    rk_embeddings *embeddings;
    rk_device *device;
    rk_stream *stream; /* for what is not in a step */
    int64_t max_batch;
    uint64_t bytes; /* of device memory */
    int32_t n_tables, n_features;
    int32_t *numbers; /* [n_tables] of the collection's table t: its number on the device, where they are in
                         order of their class */
    rk_table **homes; /* [n_tables] by number on the device, as all below */
    rk_cuda_table *tables;     /* [n_tables] */
    rk_cuda_feature *features; /* [n_features] */
    rk_cuda_table *device_tables;
    rk_cuda_feature *device_features;
    rk_cuda_batch *at_hand; /* on the device */
    rk_cuda_step *steps;    /* on the device */
    uint64_t n_keys;
    bool caches;
    bool of_ranks, lent, wide_keys;
    int32_t width; /* of partial sums */
    rk_device_batch_context batch_contexts[2];
    int oldest, n_under_way;       /* batch contexts[oldest], and then the other one */
    uint32_t n_batches;            /* ever prepared by dedup */
    rk_feature_bags *uses;         /* [n_features], for the checks of rk_feature_bags_set_ids */
    int32_t *same_ids;             /* [n_features] the first that had the same ids, or one of the two below */
    bool has_dynamic;              /* tables */
    bool lacks_rows;               /* that keys have got, since a batch could not be sent */
    rk_device_keys *keys;          /* [n_features], of dynamic tables */
    rk_stream *last_stream;        /* that a batch was prepared for; NULL: none was */
    rk_device_activations *places; /* [n_places] */
    size_t n_places, places_capacity;
};

static inline rk_device_batch_context *rk_device_tables_oldest_batch(rk_device_tables *tables) {
    return &tables->batch_contexts[tables->oldest];
}

/* Device memory that rk_device_tables_bytes counts; at least one byte. */
rk_status rk_device_tables_alloc(rk_device_tables *tables, size_t n_bytes, void *out);
void rk_device_tables_dealloc(rk_device_tables *tables, size_t n_bytes, void *memory);

/* Which tables are on the device as a whole, and how large the others' caches are: fills in frames' counts
 * (n_places, n_sets, n_tags), keys, classes. */
rk_status rk_device_tables_plan_memory(rk_device_tables *tables, uint64_t budget_bytes);
void rk_device_tables_assign_sort_keys(rk_device_tables *tables);
uint64_t rk_device_tables_bytes_of_table(
    const rk_cuda_table *table); /* rows, slots and frames of its places */
static inline bool rk_cuda_table_is_cached(const rk_cuda_table *table) {
    return table->n_sets > 0;
}

/* Dynamic tables (device_keys.c). Of a batch whose uses have begun: its keys become rows, in training those
 * that they have from now on. Errors, with nothing given to keys: a batch's ids that are no rows or have
 * wrong weights, in training. Then the device has as many rows as the host. */
rk_status rk_device_tables_map_keys_to_rows(rk_device_tables *tables, const rk_ids *ids, bool training);
void rk_device_keys_release(rk_device_keys *keys);
/* Rows that the training batch at hand is the first to use: how many, and into pinned memory. */
void rk_device_tables_count_new_rows(const rk_device_tables *tables, rk_device_batch_context *batch_context);
void rk_device_tables_pack_new_rows(const rk_device_tables *tables, rk_cuda_new_row *rows, char *values);
rk_status rk_device_tables_check_no_rows_lost(const rk_device_tables *tables); /* that none are missing */
/* Device memory for as many rows of dynamic tables as the host has memory for. */
rk_status rk_device_tables_grow(rk_device_tables *tables);

/* Until all that streams were given for the batch that had it last is done. */
rk_status rk_device_batch_context_wait(const rk_device_batch_context *batch_context);
rk_status rk_device_batch_context_init(rk_device_tables *tables, rk_device_batch_context *batch_context);
void rk_device_batch_context_release(rk_device_tables *tables, rk_device_batch_context *batch_context);
/* Room for a batch as the batch context's counts say; and rk_cuda_batch's pointers. */
rk_status rk_device_batch_context_reserve(rk_device_tables *tables, rk_device_batch_context *batch_context,
                                          size_t upload_bytes);

#endif
