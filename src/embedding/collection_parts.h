/* Inside a collection: what lookup.c and apply.c share. */
#ifndef RK_EMBEDDING_COLLECTION_PARTS_H
#define RK_EMBEDDING_COLLECTION_PARTS_H

#include "embedding/collection.h"
#include "embedding/feature_use.h"

/* The unique rows of a table's last batch and who used them; memory kept from batch to batch. */
typedef struct rk_update_plan {
    size_t n, capacity;          /* occurrences, of all features of the table */
    int64_t *ids;                /* [n] */
    rk_occurrence *unsorted, *occurrences; /* [n]; by (row, feature, bag) in `occurrences` */
    uint32_t *order, *starts;    /* [n], [n_unique+1] */
    int64_t *unique;             /* [n_unique] rows, ascending */
    size_t n_unique;
    void *scratch;
} rk_update_plan;

struct rk_embeddings {
    rk_table *tables;            /* [n_tables] */
    rk_update_plan *plans;       /* [n_tables] */
    int32_t n_tables;
    rk_feature_config *features; /* [n_features], names their own */
    int32_t *feature_tables;     /* [n_features] */
    int32_t n_features;
    int32_t *by_table;           /* [n_features] features sorted by table, then number; table t's begin at table_begins[t] */
    int32_t *table_begins;       /* [n_tables+1] */
    rk_feature_use *uses, *peeks; /* [n_features]: of the last lookup, of the last peek */
    bool has_lookup;             /* apply_gradients may be called */
    double learning_rate_factor;
    float *thread_rows;          /* two rows of the largest dim a thread */
    size_t thread_rows_capacity;
    int32_t max_dim;
};

enum { RK_SAMPLE_BLOCK = 256 }; /* samples of a lookup task */

#endif
