/* Dynamic tables on a GPU: the host finds the rows of a batch's keys and decides which keys get one; the
 * device has the rows' values. */
#include <string.h>

#include "base/integers.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "base/thread/parallel_failure.h"
#include "embedding/cuda/device_tables_internal.h"

void rk_device_keys_release(rk_device_keys *keys) {
    RK_FREE_ALL(keys->rows, keys->kept, keys->places);
}

/* A batch on its way through all features. */
typedef struct key_batch {
    rk_device_tables *tables;
    const rk_ids *ids;
    rk_parallel_failure failure;
} key_batch;

static rk_table *table_of_feature(const rk_device_tables *d, size_t f) {
    return &d->embeddings->tables[d->embeddings->feature_tables[f]];
}

/* As the collection does it before keys get rows: a batch that is refused changes no table. */
static void check_ids_of_feature(void *context, size_t f, int thread) {
    (void)thread;
    key_batch *b = context;
    const rk_device_tables *d = b->tables;
    rk_feature_bags *use = &d->uses[f];
    const rk_table *table = table_of_feature(d, f);
    bool drops;
    if (!table->dynamic) rk_feature_bags_scan_ids(use, table, 0, use->n_ids);
    rk_parallel_failure_record(
        &b->failure, (int64_t)f,
        rk_feature_bags_check_ids(use, &d->embeddings->features[f], table, &b->ids[f], &drops));
}

/* Whether bags have less than all ids: sequences are cut, and ids without a weight dropped. */
static bool may_drop_ids(const rk_feature_config *feature, const rk_ids *ids) {
    return feature->max_sequence_length ||
           (ids->weights && !feature->skip_validation && feature->combiner != RK_COMBINER_SUM);
}

static bool is_id_kept(const rk_feature_config *feature, const rk_ids *ids, int64_t i, int64_t position) {
    return feature->max_sequence_length ? position < feature->max_sequence_length : ids->weights[i] > 0;
}

static rk_status collect_kept_keys(const rk_feature_bags *use, const rk_feature_config *feature,
                                   const rk_ids *ids, rk_device_keys *keys) {
    RK_TRY(rk_reserve(&keys->kept, &keys->kept_capacity, (size_t)use->n_ids, sizeof *keys->kept));
    RK_TRY(rk_reserve(&keys->places, &keys->places_capacity, (size_t)use->n_ids, sizeof *keys->places));
    keys->n_kept = 0;
    for (int64_t s = 0; s < use->n; s++)
        for (int64_t i = use->offsets[s]; i < use->offsets[s + 1]; i++) {
            if (!is_id_kept(feature, ids, i, i - use->offsets[s])) continue;
            keys->kept[keys->n_kept] = ids->ids[i];
            keys->places[keys->n_kept++] = i;
        }
    return RK_OK;
}

/* What the table gets of a feature: the keys that bags have, in the order of the batch. */
static rk_status list_keys_of_feature(const rk_device_tables *d, size_t f, const rk_ids *ids,
                                      rk_key_uses *out) {
    const rk_feature_bags *use = &d->uses[f];
    const rk_feature_config *feature = &d->embeddings->features[f];
    rk_device_keys *keys = &d->keys[f];
    RK_TRY(rk_reserve(&keys->rows, &keys->rows_capacity, (size_t)use->n_ids, sizeof *keys->rows));
    *out = (rk_key_uses){.keys = ids->ids, .rows = keys->rows, .n = use->n_ids};
    if (!may_drop_ids(feature, ids)) return RK_OK;
    RK_TRY(collect_kept_keys(use, feature, ids, keys));
    *out = (rk_key_uses){.keys = keys->kept, .rows = keys->kept, .n = keys->n_kept};
    return RK_OK;
}

/* Rows to where the ids were. */
static void scatter_rows_to_ids(const rk_device_tables *d, size_t f, const rk_ids *ids) {
    rk_feature_bags *use = &d->uses[f];
    const rk_device_keys *keys = &d->keys[f];
    if (may_drop_ids(&d->embeddings->features[f], ids)) {
        if (use->n_ids) memset(keys->rows, 0, (size_t)use->n_ids * sizeof *keys->rows);
        for (int64_t i = 0; i < keys->n_kept; i++) keys->rows[keys->places[i]] = keys->kept[i];
    }
    use->ids = keys->rows;
}

/* by_table: as the collection numbers the features that a table's keys come from. */
static size_t feature_in_table_order(const rk_device_tables *d, size_t k) {
    return (size_t)d->embeddings->by_table[k];
}

static void run_list_keys(void *context, size_t k, int thread) {
    (void)thread;
    key_batch *b = context;
    const rk_device_tables *d = b->tables;
    size_t f = feature_in_table_order(d, k);
    if (table_of_feature(d, f)->dynamic)
        rk_parallel_failure_record(
            &b->failure, (int64_t)f,
            list_keys_of_feature(d, f, &b->ids[f], &d->embeddings->eval_batch.keys[k]));
}

static void run_find_rows(void *context, size_t k, int thread) {
    (void)thread;
    const key_batch *b = context;
    size_t f = feature_in_table_order(b->tables, k);
    if (table_of_feature(b->tables, f)->dynamic)
        rk_dynamic_find_rows_and_count(table_of_feature(b->tables, f)->dynamic,
                                       &b->tables->embeddings->eval_batch.keys[k]);
}

static void run_scatter_rows(void *context, size_t k, int thread) {
    (void)thread;
    const key_batch *b = context;
    size_t f = feature_in_table_order(b->tables, k);
    if (table_of_feature(b->tables, f)->dynamic) scatter_rows_to_ids(b->tables, f, &b->ids[f]);
}

rk_status rk_device_tables_map_keys_to_rows(rk_device_tables *d, const rk_ids *ids, bool training) {
    rk_embeddings *e = d->embeddings;
    key_batch b = {d, ids, RK_FAILURE_INIT};
    size_t n_features = (size_t)d->n_features;
    if (!d->has_dynamic || e->takes_rows) return RK_OK;
    if (training) rk_parallel_for(n_features, check_ids_of_feature, &b);
    RK_TRY(rk_parallel_failure_status(&b.failure));
    rk_parallel_for(n_features, run_list_keys, &b);
    RK_TRY(rk_parallel_failure_status(&b.failure));
    if (training)
        RK_TRY(
            rk_dynamic_rows_assign_uses(e, e->eval_batch.keys, e->table_begins, e->eval_batch.task_begins));
    else
        rk_parallel_for(n_features, run_find_rows, &b);
    rk_parallel_for(n_features, run_scatter_rows, &b);
    return RK_OK;
}

static size_t row_bytes(const rk_cuda_table *table) {
    return (size_t)table->dim * rk_dtype_bytes((rk_dtype)table->dtype);
}

/* Of a new row: values that the device has not got. What follows them may be f32. */
static size_t new_value_bytes(const rk_cuda_table *table) {
    return table->has_cold_rows ? 0 : rk_round_up(row_bytes(table), sizeof(float));
}

/* Of table t, the groups of buckets that the batch was dealt to. */
static size_t count_bucket_groups(const rk_device_tables *d, int32_t t) {
    return d->tables[t].is_dynamic ? d->homes[t]->dynamic->n_groups : 0;
}

void rk_device_tables_count_new_rows(const rk_device_tables *d, rk_device_batch_context *batch_context) {
    size_t n = 0, n_bytes = 0;
    for (int32_t t = 0; t < d->n_tables && batch_context->training; t++)
        for (size_t g = 0; g < count_bucket_groups(d, t); g++) {
            n += d->homes[t]->dynamic->groups[g].n_admitted;
            n_bytes += d->homes[t]->dynamic->groups[g].n_admitted * new_value_bytes(&d->tables[t]);
        }
    batch_context->n_new_rows = (uint32_t)n;
    batch_context->new_value_bytes = n_bytes;
}

void rk_device_tables_pack_new_rows(const rk_device_tables *d, rk_cuda_new_row *rows, char *values) {
    uint64_t at = 0;
    for (int32_t t = 0; t < d->n_tables; t++)
        for (size_t g = 0; g < count_bucket_groups(d, t); g++) {
            const rk_table *home = d->homes[t];
            const rk_key_group *group = &home->dynamic->groups[g];
            size_t bytes = new_value_bytes(&d->tables[t]), n = row_bytes(&d->tables[t]);
            for (size_t k = 0; k < group->n_created; k++) {
                const rk_new_key *key = &group->created[k];
                if (!key->row) continue;
                if (bytes) memcpy(values + at, (const char *)home->rows.data + (size_t)key->row * n, n);
                *rows++ = (rk_cuda_new_row){
                    key->key, bytes ? at : (uint64_t)rk_dynamic_shared_row(home->dynamic, key->key),
                    (uint32_t)t, (uint32_t)key->row};
                at += bytes;
            }
        }
}
