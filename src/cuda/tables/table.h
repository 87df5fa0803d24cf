/* Lookups into and updates of embedding tables on the device, for all features of a batch at once.
 *
 * The steps of a batch: dedup checks its ids and names each use of a row. The uses are sorted by row and cut
 * into segments, one a row. Rows of cached tables are brought into the cache. Then come the lookup and, in
 * training, the check of gradients and the update. All that changes from batch to batch is in device memory
 * (rk_cuda_batch), so that one CUDA graph of lookup and update serves every batch. */
#ifndef RK_CUDA_TABLES_TABLE_H
#define RK_CUDA_TABLES_TABLE_H

#include "base/device_code.h"
#include "cuda/launch.h"
#include "kernels/optimizer_step.h"
#include "kernels/rows.h"

#define RK_CUDA_NONE 0xFFFFFFFFu

enum {
    RK_CUDA_CHUNK = 128, /* Terms that are added one after the other. Longer sums are cut into chunks, whose
                            sums are then added one after the other. */
    RK_CUDA_CLASSES = 6, /* tables by the lanes that share a row: 2^0 .. 2^5, four values each */
    RK_CUDA_WAYS = 32,   /* places of a cache that a row may be in */
    RK_CUDA_TILE = 4     /* bags that a group of lanes looks up beside each other */
};

/* A row's place in a cache. */
typedef struct rk_cuda_frame {
    uint64_t row;      /* + 1; 0: none */
    uint32_t batch;    /* number of the last batch that used it */
    uint32_t is_dirty; /* updated since it was brought here */
} rk_cuda_frame;

/* Tables are in order of their class. Row r of one that is all here is at place r. In a cache it is at one of
 * the ways of set r % n_sets, and its key is first_key + r % n_sets * n_tags + r / n_sets, so that rows
 * sorted by key are sorted by set. */
typedef struct rk_cuda_table {
    void *rows;      /* [n_places, dim] of dtype */
    float *slots[2]; /* [n_places, slot_widths[s]] or NULL */
    int32_t slot_widths[2];
    int32_t dtype, dim;
    int32_t class_;         /* log2 of the lanes that share a row */
    bool is_trained;        /* or, where rows are lent, their gradients are summed */
    bool checks_finite;     /* gradients must be finite */
    uint32_t n_parts, part; /* row r is row r * n_parts + part of the whole table, */
    int32_t first_column;   /* its columns from this one on */
    uint64_t n_rows, n_places;
    bool is_dynamic;         /* rows have keys, which the host finds (embedding/dynamic); all of it is here */
    bool trains_shared_rows; /* keys without a row train one that they share; else they have row 0, whose
                                gradients are dropped */
    bool has_cold_rows;      /* a row that is new begins with the values of one that is shared */
    int64_t *keys;           /* [n_places] of a dynamic table: what `row r` is above; else NULL */
    float slot_initial[2];   /* of a row that is new */
    uint64_t first_key, n_keys;
    rk_cuda_frame *frames; /* [n_places] of a cache, or NULL */
    uint64_t n_sets, n_tags;
    void *home_rows; /* in the host's memory, of a cache */
    float *home_slots[2];
} rk_cuda_table;

typedef struct rk_cuda_feature {
    int32_t table;
    int32_t length; /* of a sequence; 0: bags */
    int32_t combiner;
    bool validates; /* negative ids and, but for sums, weights that are not above 0 are dropped */
} rk_cuda_feature;

/* A feature's part of a batch: n samples. It has n bags, or n * length of a sequence: a position each. Its
 * uses are its ids, or its positions. */
typedef struct rk_cuda_feature_ids {
    uint32_t n, first_sample; /* samples of one feature after those of the other */
    uint32_t first_id, first_use;
    uint32_t ids_at;       /* where its ids are: features with the same ones share them */
    uint32_t first_offset; /* its [n+1] among the offsets; RK_CUDA_NONE: ids_per_sample each */
    uint32_t ids_per_sample;
    uint32_t first_weight; /* RK_CUDA_NONE: no weights */
    uint32_t first_bag;    /* of scales and bag_partials; sequences have none */
    uint32_t first_tile;   /* of the lookup's: (32 >> class) * RK_CUDA_TILE bags each */
} rk_cuda_feature_ids;

/* A use of a row: what is added to the row's gradient is coefficient * (gradients of the feature)[sample *
 * stride + column ...]. Read and written at once. */
typedef struct rk_cuda_use {
    uint32_t feature, sample, column;
    float coefficient;
} __attribute__((aligned(16))) rk_cuda_use;

/* A row that the batch uses: sorted uses begin .. (begin of the next one)-1. */
typedef struct rk_cuda_segment {
    uint32_t begin;
    uint32_t table, place;
    uint32_t partial; /* first of its chunks', if it has more than RK_CUDA_CHUNK uses */
} rk_cuda_segment;

/* Terms begin .. end-1 of a sum: of uses of a table's row, or of a feature's bag. */
typedef struct rk_cuda_chunk {
    uint32_t begin, end, owner;
} rk_cuda_chunk;

/* A row to bring into a cache. */
typedef struct rk_cuda_fill {
    uint64_t row, old_row; /* old_row + 1: to be written home first; 0: none */
    uint32_t table, place;
} rk_cuda_fill;

/* A row of a dynamic table that a batch is the first to use. */
typedef struct rk_cuda_new_row {
    int64_t key;
    uint64_t from; /* first values: bytes from new_values on; or the place of the cold row with them */
    uint32_t table, place;
} rk_cuda_new_row;

/* What dedup counts and finds; zeroed before. */
typedef struct rk_cuda_counts {
    uint32_t n_segments;
    uint32_t class_segments[RK_CUDA_CLASSES +
                            1]; /* class c has segments class_segments[c] .. class_segments[c+1]-1 */
    uint32_t n_bag_chunks, n_use_chunks, n_fills;
    uint32_t bad_id;       /* ~(number of the first id that is refused); 0: none */
    uint32_t short_table;  /* 1 + a table whose cache is too small */
    uint32_t short_ways;   /* the ways that it would need */
    uint32_t bad_gradient; /* ~(first_sample of the feature + sample) of the first gradient that is not
                              finite; 0: none */
} rk_cuda_counts;

/* A batch under way. Pointers to the device's memory. */
typedef struct rk_cuda_batch {
    const rk_cuda_table *tables;
    const rk_cuda_feature *features;
    const rk_cuda_feature_ids *feature_ids;
    const uint32_t *offsets;
    const void *ids; /* int32_t, or int64_t if wide */
    const float *weights;
    const rk_cuda_new_row *new_rows; /* [n_new_rows] */
    const char *new_values;          /* as the tables have rows; of those without cold rows */
    uint32_t n_new_rows;
    uint32_t n_samples, n_features, n_tables, n_uses, n_tiles; /* n_samples: of all features */
    bool wide, training, caches;
    bool folded; /* weights are what a row is multiplied by: their combiner's divisor is in them */
    uint32_t number, oldest;   /* of this batch, and of the oldest one whose rows may not leave the cache */
    int32_t width;             /* values of a partial sum */
    bool has_narrow_keys;      /* keys are uint32_t; else uint64_t */
    uint64_t none_key;         /* of uses that are not sorted; above all others */
    uint32_t *places;          /* [n_uses] row's place, RK_CUDA_NONE: no row */
    rk_cuda_use *uses;         /* [n_uses] */
    float *scales;             /* [n_bags] of bags' sums */
    uint32_t *bag_partials;    /* [n_bags], of those with more than RK_CUDA_CHUNK ids */
    void *keys, *sorted_keys;  /* [n_uses] */
    uint32_t *order, *sorted;  /* [n_uses] uses in the order of the batch, and of their keys */
    uint32_t *heads, *numbers; /* [n_uses] 1 where a segment begins; segments so far */
    rk_cuda_use *sorted_uses;  /* [n_uses] */
    rk_cuda_segment *segments; /* [n_uses + 1] */
    rk_cuda_chunk *bag_chunks, *use_chunks; /* [n_uses * 2 / RK_CUDA_CHUNK] */
    float *partials;                        /* [.., width] */
    rk_cuda_fill *fills;                    /* [n_uses] */
    rk_cuda_counts *counts;
} rk_cuda_batch;

/* Of a table, in one step. */
typedef struct rk_cuda_step {
    rk_update update;
    float l2, l2_full;
    uint64_t seed; /* of rounding */
} rk_cuda_step;

/* Whether a rule needs sums over the row. */
RK_DEVICE_CODE static inline bool rk_cuda_needs_sums(rk_optimizer_kind kind) {
    return kind == RK_OPTIMIZER_ROWWISE_ADAGRAD || kind == RK_OPTIMIZER_ROWWISE_ADAM ||
           kind == RK_OPTIMIZER_LAMB || kind == RK_OPTIMIZER_LARS;
}

/* Where a feature's activations or gradients are. */
typedef struct rk_cuda_activation {
    float *data;
    int64_t stride;
    bool is_aligned; /* to 16 bytes, all its rows' columns */
} rk_cuda_activation;

/* `sums`: of tables whose rules need sums over the row (rowwise ones, lamb, lars), or of the others.
 * `n_most`: the most items there may be, from which the number of blocks follows; the batch itself says how
 * many there are. */
// clang-format off
#define RK_CUDA_TABLE_LIST(X)                                                                               \
    X(rk_cuda_ids_to_row_uses, (rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch))            \
    X(rk_cuda_create_rows, (rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch))                \
    X(rk_cuda_mark_segments, (rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch))              \
    X(rk_cuda_make_segments, (rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch))              \
    X(rk_cuda_find_rows_in_caches, (rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch))        \
    X(rk_cuda_fill_caches_from_host, (rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch))      \
    X(rk_cuda_write_back_cache,                                                                             \
      (rk_stream *stream, const rk_cuda_table *tables, uint32_t table, uint64_t n_places, bool invalidate)) \
    X(rk_cuda_lookup, (rk_stream *stream, uint32_t n_most_tiles, uint32_t n_most_chunks,                    \
                        const rk_cuda_batch *batch, const rk_cuda_activation *to))                           \
    X(rk_cuda_flag_gradients_not_finite,                                                                    \
      (rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch, const rk_cuda_activation *gradients,  \
       uint32_t *stop))                                                                                     \
    X(rk_cuda_sum_frequent_rows, (rk_stream *stream, uint32_t n_most_chunks, const rk_cuda_batch *batch,    \
                                  const rk_cuda_activation *gradients, const uint32_t *stop))                \
    X(rk_cuda_update_rows,                                                                                  \
      (rk_stream *stream, uint32_t n_most, bool sums, const rk_cuda_batch *batch,                           \
       const rk_cuda_step *steps, const rk_cuda_activation *gradients, const uint32_t *stop))                \
    X(rk_cuda_update_all_rows,                                                                              \
      (rk_stream *stream, uint64_t n_rows, bool sums, const rk_cuda_batch *batch, uint32_t table,           \
       const rk_cuda_step *steps, const rk_cuda_activation *gradients, const uint32_t *stop))                \
    X(rk_cuda_sum_row_gradients,                                                                            \
      (rk_stream *stream, uint32_t n_most, const rk_cuda_batch *batch, const rk_cuda_activation *gradients))
// clang-format on
RK_CUDA_TABLE_LIST(RK_CUDA_PROTOTYPE)

#endif
