/* Inside a collection: what lookup.c, row_uses.c and apply_gradients.c share. */
#ifndef RK_EMBEDDING_LOCAL_COLLECTION_INTERNAL_H
#define RK_EMBEDDING_LOCAL_COLLECTION_INTERNAL_H

#include "embedding/local/collection.h"
#include "base/thread/partition.h"
#include "embedding/local/batch_context.h"
#include "base/text/name_index.h"

/* Gradients of some of a table's rows, summed. */
typedef struct rk_row_gradients {
    int64_t n;
    int64_t *rows; /* [n], ascending */
    float *sums;   /* [n, dim] */
    size_t rows_capacity, sums_capacity;
} rk_row_gradients;

/* What backwards have left for the next step (pending_gradients.c). */
typedef struct rk_pending_table {
    rk_row_gradients sum, added, merged; /* of all backwards; of the current one; memory for both together */
    int64_t n_added;
} rk_pending_table;

typedef struct rk_pending_gradients {
    int64_t n_backwards;
    rk_pending_table *tables; /* [n_tables] */
    rk_update *updates;       /* [n_tables], of the current step */
    size_t *task_begins;      /* [n_tables+1] */
    size_t *counts;           /* rows of each task */
    size_t counts_capacity;
} rk_pending_gradients;

/* Values of a table's rows first .. first+n-1: the rows themselves, or a slot of their optimizer. */
enum { RK_ROW_VALUES = -1 };
typedef struct rk_row_range {
    int32_t table;
    int slot;      /* RK_ROW_VALUES: the rows themselves */
    int32_t width; /* values a row: the table's dim; 1, of a slot that has one a row */
    int64_t first, n;
} rk_row_range;

/* What the public calls do: with rows that are all here (collection.c), or on several ranks
 * (collection/sharded_embeddings.c). `batch` is an rk_lookup's. */
typedef struct rk_embeddings_ops {
    void (*free)(rk_embeddings *embeddings);
    uint64_t (*bytes)(const rk_embeddings *embeddings);
    rk_status (*create_batch)(const rk_embeddings *embeddings, void **out);
    void (*free_batch)(const rk_embeddings *embeddings, void *batch);
    rk_status (*lookup_eval)(const rk_embeddings *embeddings, void *batch, int64_t n, const rk_ids *ids,
                             const rk_activation *activations);
    rk_status (*look_up)(rk_embeddings *embeddings, void *batch, int64_t n, const rk_ids *ids,
                         const rk_activation *activations);
    rk_status (*backward)(rk_embeddings *embeddings, void *batch, const rk_activation *gradients);
    rk_status (*apply_gradients)(rk_embeddings *embeddings, void *batch,
                                 const rk_activation *gradients); /* backward, then a step */
    rk_status (*step)(rk_embeddings *embeddings);
    void (*zero_gradients)(rk_embeddings *embeddings);
    void (*scale_learning_rate)(rk_embeddings *embeddings, double factor);
    /* Of dynamic tables: rows stay that the lookup of this number, or one since, has used; returns the next
     * one's. */
    int64_t (*pin_rows)(rk_embeddings *embeddings, int64_t oldest);
    rk_status (*read_rows)(const rk_embeddings *embeddings, const rk_row_range *range, float *out);
    rk_status (*write_rows)(rk_embeddings *embeddings, const rk_row_range *range, const float *rows);
    rk_status (*read_step)(const rk_embeddings *embeddings, int32_t table, int64_t *out);
    void (*write_step)(rk_embeddings *embeddings, int32_t table, int64_t step);
} rk_embeddings_ops;
extern const rk_embeddings_ops rk_local_embeddings;

struct rk_embeddings {
    rk_pool *pool; /* NULL: the process's */
    const rk_embeddings_ops *ops;
    void *ranks;      /* over ranks: where the rows are, which the tables here are without */
    rk_table *tables; /* [n_tables] */
    int32_t n_tables;
    rk_name_index table_names;
    rk_feature_config *features; /* [n_features], names their own */
    int32_t *feature_tables;     /* [n_features] */
    int32_t n_features;
    int32_t *
        by_table; /* [n_features] features sorted by table, then number; table t's begin at table_begins[t] */
    int32_t *table_begins; /* [n_tables+1] */
    rk_batch_context
        batch_contexts[2];       /* the current batch, and the one before it, whose update may be running */
    int now;                     /* the index of the current one */
    rk_batch_context eval_batch; /* ids alone, of the last lookup that is not for training */
    rk_row_use *scratch;         /* [threads, RK_USES_SCRATCH] what is sorted */
    size_t scratch_capacity;
    size_t cache_bytes; /* of the last level, which tables may stay in */
    double learning_rate_factor;
    int64_t timestamp; /* of the next batch for training, or RK_NO_TIMESTAMP */
    rk_pending_gradients pending;
    rk_micro_batches *micro_batches; /* [n_features] */
    rk_row_source *source;           /* of rows that are only read; NULL: all are the tables' own */
    bool pins_rows;       /* lookups of dynamic tables may wait for their backwards: it is the public one */
    atomic_int n_waiting; /* lookups that do, */
    rk_lookup *first_waiting, *last_waiting; /* and which (collection/embeddings_lookup.c); */
    int64_t oldest_pending;                  /* the least number of those whose backwards wait for a step */
    bool takes_rows; /* what it gets for a dynamic table's keys are the rows that these have */
};

/* Whether table t has a plan: a feature uses it and it is not frozen. Rows that are elsewhere are fetched by
 * the plan, frozen or not. */
static inline bool rk_table_takes_updates(const rk_embeddings *e, int32_t t) {
    const rk_table *table = &e->tables[t];
    return (table->part.absent ? !table->part.unplanned : !table->config.frozen) &&
           e->table_begins[t + 1] > e->table_begins[t];
}

rk_status rk_embeddings_find_table(const rk_embeddings *e, const char *name, rk_table **out);

/* A feature's number among those of its table. */
static inline int32_t rk_embeddings_feature_number_in_table(const rk_embeddings *e, int32_t feature) {
    const int32_t *features = e->by_table + e->table_begins[e->feature_tables[feature]];
    int32_t k = 0;
    while (features[k] != feature) k++;
    return k;
}

/* rk_embeddings_dedup into a batch context; counts [n_features]: samples of each feature, or NULL: n of
 * all. */
rk_status rk_batch_context_dedup(rk_embeddings *embeddings, rk_batch_context *batch_context, int64_t n,
                                 const int64_t *counts, const rk_ids *ids);
/* Ids alone, checked; or, with checks false, taken for rows, but for those of sequences. */
rk_status rk_batch_context_prepare_bags(const rk_embeddings *embeddings, rk_batch_context *batch_context,
                                        int64_t n, const int64_t *counts, const rk_ids *ids, bool checks);
/* Of dynamic tables (dynamic_rows.c): a feature's checked keys become the rows that they have; those of a
 * training batch the rows that they have from now on, whatever comes of it. */
rk_status rk_dynamic_rows_find(const rk_table *table, rk_feature_bags *use);
/* Adds the keys of a table's features in samples first .. first+n-1: those that sequences keep. Weights may
 * drop some. ids [n_features]. */
rk_status rk_embeddings_list_keys_of_table(const rk_embeddings *embeddings, int32_t t, int64_t first,
                                           int64_t n, const rk_ids *ids, rk_key_list *out);
/* Rows that were found become places, of tables that have rows on a disk; those are read. */
rk_status rk_dynamic_rows_load_from_disk(const rk_embeddings *embeddings, rk_batch_context *batch_context);
rk_status rk_dynamic_rows_assign_batch(rk_embeddings *embeddings, rk_batch_context *batch_context);
/* The same of keys from anywhere: table t's are uses[begins[t]] .. uses[begins[t+1]-1], in the order of the
 * batch. task_begins [n_tables+1]: scratch. */
rk_status rk_dynamic_rows_assign_uses(rk_embeddings *embeddings, const rk_key_uses *uses,
                                      const int32_t *begins, size_t *task_begins);
/* Samples first .. last-1 of a feature with these rows; `to` is of sample `first`. n_rows: 0, where ids were
 * checked, or false is returned at an id that is no row, and some samples have no activations. */
bool rk_feature_bags_lookup(const rk_feature_bags *use, int64_t sequence_length, const rk_rows *rows,
                            int64_t n_rows, int64_t first, int64_t last, rk_activation to);
/* Features without activations (data NULL) are left out. checks: ids were not, and uses of ids that are no
 * rows have `strays` afterwards. */
void rk_batch_context_lookup_all(const rk_embeddings *embeddings, rk_batch_context *batch_context,
                                 const rk_activation *activations, bool checks);
/* Samples first .. last-1 of a feature; `to` is where sample `first` goes. */
void rk_batch_context_lookup(const rk_embeddings *embeddings, const rk_batch_context *batch_context,
                             int32_t feature, int64_t first, int64_t last, const rk_activation *to);
/* Whether there is room for what a lookup of n samples writes. */
rk_status rk_embeddings_check_activations(const rk_embeddings *embeddings, int64_t n, const rk_ids *ids,
                                          const rk_activation *activations);
/* From gradients to updated rows, as rk_embeddings_begin_update and rk_embeddings_update_piece do it, of any
 * batch context. RK_NOT_FINITE names the feature and the sample. rk_batch_context_set_gradients says where
 * plans read gradients, and cuts the update of all tables into pieces. */
rk_status rk_batch_context_check_gradients_finite(const rk_embeddings *embeddings,
                                                  const rk_batch_context *batch_context,
                                                  const rk_activation *gradients);
void rk_batch_context_set_gradients(const rk_embeddings *embeddings, rk_batch_context *batch_context,
                                    const rk_activation *gradients);
rk_status rk_batch_context_begin_update(const rk_embeddings *embeddings, rk_batch_context *batch_context,
                                        const rk_activation *gradients, bool known_finite);
void rk_batch_context_update_piece(const rk_embeddings *embeddings, const rk_batch_context *batch_context,
                                   size_t piece);
/* What a step does to a table's rows, without the rows and their gradients. */
rk_fused_update_args rk_table_make_update_args(const rk_table *table, const rk_update *update);
void rk_embeddings_set_update_coefficients(const rk_embeddings *embeddings,
                                           rk_update *updates); /* [n_tables] */
void rk_embeddings_increment_step(rk_embeddings *embeddings);   /* of each table that takes updates */
/* Adds the rows' gradients of a batch context whose gradients are set; nothing, if memory runs out. */
rk_status rk_pending_gradients_add(rk_embeddings *embeddings, const rk_batch_context *batch_context);
rk_status rk_pending_gradients_apply(rk_embeddings *embeddings); /* from them to updated rows */
void rk_pending_gradients_zero(rk_embeddings *embeddings);
rk_status rk_pending_gradients_init(rk_pending_gradients *pending, size_t n_tables);
void rk_pending_gradients_release(rk_pending_gradients *pending, int32_t n_tables);
rk_status rk_batch_context_init(rk_batch_context *batch_context, size_t n_tables, size_t n_features);
void rk_batch_context_release(rk_batch_context *batch_context, int32_t n_tables, int32_t n_features);

#endif
