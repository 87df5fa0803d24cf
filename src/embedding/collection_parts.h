/* Inside a collection: what lookup.c, update_plan.c and apply.c share. */
#ifndef RK_EMBEDDING_COLLECTION_PARTS_H
#define RK_EMBEDDING_COLLECTION_PARTS_H

#include "embedding/collection.h"
#include "embedding/cut.h"
#include "embedding/feature_use.h"
#include "embedding/name_index.h"
#include "embedding/update_plan.h"

struct rk_embeddings {
    rk_table *tables;            /* [n_tables] */
    rk_update_plan *plans;       /* [n_tables] */
    rk_update *updates;          /* [n_tables] of the step being applied */
    int32_t n_tables;
    rk_name_index table_names;
    rk_feature_config *features; /* [n_features], names their own */
    int32_t *feature_tables;     /* [n_features] */
    int32_t n_features;
    int32_t *by_table;           /* [n_features] features sorted by table, then number; table t's begin at table_begins[t] */
    int32_t *table_begins;       /* [n_tables+1] */
    rk_feature_use *uses, *peeks; /* [n_features]: of the last lookup, of the last peek */
    size_t *task_begins;         /* [max(n_tables, n_features)+1]: how a loop over features or tables is cut (embedding/cut.h) */
    bool has_lookup;             /* apply_gradients may be called */
    double learning_rate_factor;
};

/* Whether apply_gradients has anything to do with table t: a feature uses it and it is not frozen. */
static inline bool rk_takes_updates(const rk_embeddings *e, int32_t t) {
    return !e->tables[t].config.frozen && e->table_begins[t + 1] > e->table_begins[t];
}

#endif
