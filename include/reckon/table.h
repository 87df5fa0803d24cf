/* Embedding tables and the features that are looked up in them. Terms follow TensorFlow's TPUEmbedding.
 * Stable (docs/api.md). */
#ifndef RECKON_TABLE_H
#define RECKON_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/optimizer.h>
#include <reckon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rk_initializer_kind {
    RK_INIT_TRUNCATED_NORMAL, /* the default: mean 0, stddev 1/sqrt(dim), redrawn beyond 2 deviations */
    RK_INIT_NORMAL,
    RK_INIT_UNIFORM,
    RK_INIT_ZEROS,
    RK_INIT_ONES,
    RK_INIT_CONSTANT,
    RK_INIT_COUNT
} rk_initializer_kind;

typedef struct rk_initializer {
    rk_initializer_kind kind;
    double mean, stddev; /* normal, truncated_normal; stddev 0 means 1/sqrt(dim) */
    double min, max;     /* uniform */
    double value;        /* constant */
} rk_initializer;

/* What a full bucket of keys does when new ones come: the rows go that were used longest ago, or least often;
 * or none does, and new keys are refused. */
typedef enum rk_eviction_policy {
    RK_EVICTION_LRU = 0,
    RK_EVICTION_LFU = 1,
    RK_EVICTION_NONE = 2
} rk_eviction_policy;

/* How uses of keys without a row are counted: each key's, or in sketches of fixed size. */
typedef enum rk_key_counter {
    RK_COUNTER_EXACT = 0,
    RK_COUNTER_COUNT_MIN = 1, /* min_count up to 255 */
    RK_COUNTER_BLOOM = 2      /* min_count up to 15 */
} rk_key_counter;

/* A dynamic table: rows for the keys that it meets in training, 64 bits each, all of them legal
 * (docs/dynamic_tables.md). */
typedef struct rk_dynamic_options {
    size_t struct_size;   /* sizeof(rk_dynamic_options) */
    int64_t max_capacity; /* rows, > 0 */
    int64_t buckets;      /* of keys that are decided on together; 0: max_capacity / 4096, or 1 */
    rk_eviction_policy eviction;
    double evict_to;        /* of a bucket's capacity, above 0 and at most 1: what eviction leaves it */
    int64_t ttl_steps;      /* lookups in training without a use after which a row goes; 0: none does */
    int64_t keep;           /* rows below which no row goes */
    int64_t min_count;      /* uses with which a key gets a row, >= 1 */
    double probability;     /* with which it does then, above 0 and at most 1; drawn anew in each lookup */
    rk_key_counter counter; /* of min_count above 1 */
    bool oov;               /* keys without a row share one, which is trained; else they have zeros */
    int64_t cold_rows; /* keys without a row share so many by their hashes, made a multiple of `buckets`, and
                          an admitted key begins as its one; not with oov. 0: none */
    int64_t ttl; /* seconds, by rk_embeddings_set_timestamp, without a use after which a row goes; 0: none
                    does */
} rk_dynamic_options;
#define RK_DYNAMIC_OPTIONS_INIT \
    { sizeof(rk_dynamic_options), 0, 0, RK_EVICTION_LRU, 0.95, 0, 0, 1, 1, RK_COUNTER_EXACT, false, 0, 0 }

/* A value of a row is a pure function of (seed, table name, id, column): the same whatever the shards or
 * threads. */
typedef struct rk_table_config {
    size_t struct_size; /* sizeof(rk_table_config) */
    const char *name;
    int64_t n_rows; /* > 0; 0 of a dynamic table */
    int32_t dim;    /* > 0 */
    rk_dtype dtype; /* of the rows: f32, bf16 or f16; slots are f32. bf16 and f16 rows are rounded
                       stochastically, seeded */
    rk_initializer initializer;
    const rk_optimizer *optimizer;     /* NULL: the collection's */
    bool frozen;                       /* takes no update */
    const rk_dynamic_options *dynamic; /* ids are keys; NULL: a static table, whose ids are its rows */
} rk_table_config;
#define RK_TABLE_CONFIG_INIT \
    { sizeof(rk_table_config), 0, 0, 0, RK_F32, {RK_INIT_TRUNCATED_NORMAL, 0, 0, 0, 0, 0}, 0, false, 0 }

/* How rows of tables are exported (reckon/export.h), or rounded for an evaluation (reckon/predictor.h); the
 * dense part keeps its dtype. */
typedef enum rk_export_rows {
    RK_EXPORT_ROWS_TRAINED = 0, /* each table in its own dtype */
    RK_EXPORT_ROWS_F32 = 1,
    RK_EXPORT_ROWS_F16 = 2, /* rounded to nearest even; what is too large becomes the largest finite value */
    RK_EXPORT_ROWS_BF16 = 3,
    RK_EXPORT_ROWS_INT8 = 4, /* FBGEMM's fused 8-bit rowwise rows: dim codes, f32 scale, f32 least value */
    RK_EXPORT_ROWS_INT4 = 5  /* FBGEMM's fused 4-bit rowwise rows: codes two a byte, f16 scale, f16 least */
} rk_export_rows;

typedef enum rk_combiner {
    RK_COMBINER_MEAN,
    RK_COMBINER_SUM,
    RK_COMBINER_SQRTN,
    RK_COMBINER_COUNT
} rk_combiner;
RK_API const char *rk_combiner_name(rk_combiner combiner);

/* Combining, with weights w (1 where there are none):
 *     sum: sum w e    mean: sum w e / sum w    sqrtn: sum w e / sqrt(sum w^2)
 * An empty bag gives zeros, and so does a zero denominator. */
typedef struct rk_feature_config {
    size_t struct_size;
    const char *name;
    const char *table;
    rk_combiner combiner;
    int32_t max_sequence_length; /* > 0: no combining; [n, max_sequence_length, dim], cut and zero-padded;
                                    weights refused */
    bool skip_validation; /* false: ids < 0 (and, for mean and sqrtn, weights <= 0) are dropped; true: they
                             are errors */
    bool weighted;        /* its ids may carry weights, so that no other rank combines its bags */
} rk_feature_config;
#define RK_FEATURE_CONFIG_INIT \
    { sizeof(rk_feature_config), 0, 0, RK_COMBINER_MEAN, 0, false, false }

#ifdef __cplusplus
}
#endif
#endif
