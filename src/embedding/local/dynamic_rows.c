/* Dynamic tables: from the keys of a batch to their rows. */
#include "base/thread/parallel_failure.h"
#include "base/integers.h"
#include "base/memory.h"
#include "batch/ids.h"
#include "base/thread/parallel.h"
#include "embedding/local/collection_internal.h"

static rk_status reserve_feature_rows(rk_feature_bags *use) {
    return rk_reserve(&use->rows, &use->rows_capacity, (size_t)use->n_ids, sizeof *use->rows);
}

/* Behind the rows of sorted keys are those that other keys share. */
static void find_rows_of_sorted_keys(const rk_table *table, rk_feature_bags *use) {
    const rk_dynamic_config *config = &table->dynamic_config;
    rk_sorted_keys_find(table->sorted_keys, use->ids, use->n_ids, use->rows);
    for (int64_t i = 0; config->n_cold && i < use->n_ids; i++)
        if (use->rows[i] == table->sorted_keys->n)
            use->rows[i] += rk_dynamic_cold_row_of_hash(config, rk_key_hash(use->ids[i]));
}

rk_status rk_dynamic_rows_find(const rk_table *table, rk_feature_bags *use) {
    RK_TRY(reserve_feature_rows(use));
    if (table->sorted_keys)
        find_rows_of_sorted_keys(table, use);
    else
        rk_dynamic_find_rows(table->dynamic, use->ids, use->n_ids, use->rows);
    use->ids = use->rows;
    return RK_OK;
}

rk_status rk_dynamic_rows_load_from_disk(const rk_embeddings *e, rk_batch_context *batch_context) {
    for (int32_t t = 0; t < e->n_tables; t++) {
        int32_t first = e->table_begins[t], last = e->table_begins[t + 1];
        if (!e->tables[t].tier) continue;
        for (int32_t k = first; k < last; k++) {
            const rk_feature_bags *use = &batch_context->uses[e->by_table[k]];
            batch_context->keys[k] = (rk_key_uses){.rows = use->rows, .n = use->n_ids};
        }
        RK_TRY(rk_table_load_rows_from_disk(&e->tables[t], batch_context->keys + first, last - first, false));
    }
    return RK_OK;
}

/* Keys on their way through all dynamic tables. */
typedef struct assignment {
    rk_embeddings *embeddings;
    const rk_key_uses *uses;
    const int32_t *begins; /* [n_tables + 1] */
    size_t *task_begins;   /* [n_tables + 1] */
    rk_parallel_failure failure;
} assignment;

static bool table_has_uses(const assignment *a, size_t t) {
    return a->embeddings->tables[t].dynamic && a->begins[t + 1] > a->begins[t];
}

static void begin_batch_of_table(void *context, size_t t, int thread) {
    (void)thread;
    assignment *a = context;
    if (!table_has_uses(a, t)) return;
    rk_status status = rk_dynamic_begin_batch(a->embeddings->tables[t].dynamic, a->uses + a->begins[t],
                                              a->begins[t + 1] - a->begins[t], a->embeddings->timestamp);
    rk_parallel_failure_record(&a->failure, (int64_t)t, status);
}

static void cancel_assignment(const assignment *a) {
    for (size_t t = 0; t < (size_t)a->embeddings->n_tables; t++)
        if (table_has_uses(a, t)) rk_dynamic_cancel_batch(a->embeddings->tables[t].dynamic);
}

/* Run `task` for each part of each table's batch, all tables in one loop. */
static void parallel_for_parts(assignment *a, size_t (*n_parts)(const rk_dynamic_table *t), rk_task task) {
    size_t n_tables = (size_t)a->embeddings->n_tables;
    for (size_t t = 0; t < n_tables; t++)
        a->task_begins[t + 1] =
            a->task_begins[t] + (table_has_uses(a, t) ? n_parts(a->embeddings->tables[t].dynamic) : 0);
    rk_parallel_for(a->task_begins[n_tables], task, a);
}

static size_t count_chunks(const rk_dynamic_table *t) {
    return t->n_chunks;
}
static size_t count_groups(const rk_dynamic_table *t) {
    return t->n_groups;
}
static size_t count_chunks_and_groups(const rk_dynamic_table *t) {
    return t->n_chunks + t->n_groups;
}

static rk_table *table_of_task(const assignment *a, size_t task, size_t *part) {
    size_t t = rk_partition_find_item(a->task_begins, (size_t)a->embeddings->n_tables, task);
    *part = task - a->task_begins[t];
    return &a->embeddings->tables[t];
}

/* What fails is tried again by begin_batch. */
static void rebuild_stale_bucket(void *context, size_t task, int thread) {
    (void)thread;
    size_t number;
    const rk_table *table = table_of_task(context, task, &number);
    (void)rk_dynamic_rebuild_stale_bucket(table->dynamic, number);
}

static void find_rows_of_chunk(void *context, size_t task, int thread) {
    (void)thread;
    size_t chunk;
    const rk_table *table = table_of_task(context, task, &chunk);
    rk_dynamic_find_rows_of_chunk(table->dynamic, chunk);
}

static void decide_admissions_of_group(void *context, size_t task, int thread) {
    (void)thread;
    assignment *a = context;
    size_t group;
    const rk_table *table = table_of_task(a, task, &group);
    rk_parallel_failure_record(&a->failure, (int64_t)task,
                               rk_dynamic_decide_admissions(table->dynamic, group));
}

static void apply_admissions_of_group(rk_table *table, size_t number) {
    rk_dynamic_apply_admissions(table->dynamic, number);
    const rk_key_group *group = &table->dynamic->groups[number];
    for (size_t k = 0; k < group->n_created && !table->tier; k++)
        if (group->created[k].row) rk_table_init_row(table, group->created[k].row);
}

static void count_chunk_or_apply_group(void *context, size_t task, int thread) {
    (void)thread;
    size_t part;
    rk_table *table = table_of_task(context, task, &part);
    if (part < table->dynamic->n_chunks)
        rk_dynamic_count_uses_of_chunk(table->dynamic, part);
    else
        apply_admissions_of_group(table, part - table->dynamic->n_chunks);
}

static rk_status reserve_new_rows(rk_table *table) {
    int64_t wanted, most = table->dynamic->n_places, grown = rk_min_i64(most + most / 4, RK_MOST_KEY_ROWS);
    RK_TRY(rk_dynamic_reserve_new_rows(table->dynamic, &wanted));
    if (wanted <= most) return RK_OK;
    return rk_table_grow(table, wanted > grown ? wanted : grown);
}

/* All that may fail; then the tables are as they were, but for memory. */
static rk_status prepare_assignment(assignment *a) {
    size_t n_tables = (size_t)a->embeddings->n_tables;
    parallel_for_parts(a, rk_dynamic_count_stale_buckets, rebuild_stale_bucket);
    rk_parallel_for(n_tables, begin_batch_of_table, a);
    RK_TRY(rk_parallel_failure_status(&a->failure));
    parallel_for_parts(a, count_chunks, find_rows_of_chunk);
    parallel_for_parts(a, count_groups, decide_admissions_of_group);
    RK_TRY(rk_parallel_failure_status(&a->failure));
    for (size_t t = 0; t < n_tables; t++)
        if (table_has_uses(a, t)) RK_TRY(reserve_new_rows(&a->embeddings->tables[t]));
    return RK_OK;
}

rk_status rk_dynamic_rows_assign_uses(rk_embeddings *e, const rk_key_uses *uses, const int32_t *begins,
                                      size_t *task_begins) {
    assignment a = {e, uses, begins, task_begins, RK_FAILURE_INIT};
    size_t n_tables = (size_t)e->n_tables;
    for (size_t t = 0; t < n_tables; t++)
        if (e->tables[t].tier) rk_disk_row_cache_finish_background(e->tables[t].tier);
    rk_status status = prepare_assignment(&a);
    if (status != RK_OK) {
        cancel_assignment(&a);
        return status;
    }
    parallel_for_parts(&a, count_chunks_and_groups, count_chunk_or_apply_group);
    for (size_t t = 0; t < n_tables; t++) {
        if (!table_has_uses(&a, t)) continue;
        rk_table *table = &e->tables[t];
        rk_dynamic_end_batch(table->dynamic);
        if (table->tier)
            rk_disk_row_cache_drop_evicted(table->tier);
        else
            table->config.n_rows = table->dynamic->n_used;
    }
    for (size_t t = 0; t < n_tables; t++) /* which may fail, and by then all tables have ended the batch */
        if (table_has_uses(&a, t) && e->tables[t].tier)
            RK_TRY(rk_table_load_rows_from_disk(&e->tables[t], uses + begins[t], begins[t + 1] - begins[t],
                                                true));
    return RK_OK;
}

/* A batch whose keys are named by numbers or rows. */
typedef struct naming {
    rk_embeddings *embeddings;
    rk_batch_context *batch_context;
    rk_parallel_failure failure;
} naming;

static bool is_used_dynamic_table(const rk_embeddings *e, size_t t) {
    return rk_table_is_dynamic(&e->tables[t]) && e->table_begins[t + 1] > e->table_begins[t];
}

/* Where the rows are elsewhere, a key's number among the batch's stands for its row. */
static rk_status number_unique_keys(rk_embeddings *e, rk_batch_context *batch_context, size_t t) {
    int32_t first = e->table_begins[t], last = e->table_begins[t + 1];
    for (int32_t k = first; k < last; k++) {
        rk_feature_bags *use = &batch_context->uses[e->by_table[k]];
        RK_TRY(reserve_feature_rows(use));
        batch_context->keys[k] = (rk_key_uses){.keys = use->ids, .rows = use->rows, .n = use->n_ids};
    }
    if (e->tables[t].dynamic) return RK_OK;
    rk_unique_keys *keys = &batch_context->batch_keys[t];
    RK_TRY(rk_unique_keys_find(keys, batch_context->keys + first, last - first));
    e->tables[t].config.n_rows = keys->n ? keys->n : 1;
    return RK_OK;
}

static void number_keys_of_table(void *context, size_t t, int thread) {
    (void)thread;
    naming *n = context;
    if (is_used_dynamic_table(n->embeddings, t))
        rk_parallel_failure_record(&n->failure, (int64_t)t,
                                   number_unique_keys(n->embeddings, n->batch_context, t));
}

rk_status rk_dynamic_rows_assign_batch(rk_embeddings *e, rk_batch_context *batch_context) {
    naming n = {e, batch_context, RK_FAILURE_INIT};
    size_t n_tables = (size_t)e->n_tables;
    bool any = false;
    for (size_t t = 0; t < n_tables; t++) any |= is_used_dynamic_table(e, t);
    if (!any) return RK_OK;
    rk_parallel_for(n_tables, number_keys_of_table, &n);
    RK_TRY(rk_parallel_failure_status(&n.failure));
    RK_TRY(rk_dynamic_rows_assign_uses(e, batch_context->keys, e->table_begins, batch_context->task_begins));
    for (size_t t = 0; t < n_tables; t++)
        for (int32_t k = e->table_begins[t]; k < e->table_begins[t + 1] && is_used_dynamic_table(e, t); k++) {
            rk_feature_bags *use = &batch_context->uses[e->by_table[k]];
            use->ids = use->rows;
        }
    return RK_OK;
}

static rk_status list_keys_of_feature(const rk_feature_config *feature, int64_t first, int64_t n,
                                      const rk_ids *ids, rk_key_list *out) {
    int64_t most = feature->max_sequence_length, begin = rk_ids_begin_of_sample(ids, first);
    if (!most) {
        int64_t length = rk_ids_begin_of_sample(ids, first + n) - begin;
        return length ? rk_key_list_add(out, ids->ids + begin, (size_t)length) : RK_OK;
    }
    for (int64_t s = first; s < first + n; s++) {
        int64_t length = rk_ids_begin_of_sample(ids, s + 1) - begin;
        if (length) RK_TRY(rk_key_list_add(out, ids->ids + begin, (size_t)rk_min_i64(length, most)));
        begin += length;
    }
    return RK_OK;
}

rk_status rk_embeddings_list_keys_of_table(const rk_embeddings *e, int32_t t, int64_t first, int64_t n,
                                           const rk_ids *ids, rk_key_list *out) {
    for (int32_t k = e->table_begins[t]; k < e->table_begins[t + 1]; k++)
        RK_TRY(list_keys_of_feature(&e->features[e->by_table[k]], first, n, &ids[e->by_table[k]], out));
    return RK_OK;
}

void rk_embeddings_prefetch(rk_embeddings *e, int64_t first, int64_t n, const rk_ids *ids) {
    for (int32_t t = 0; t < e->n_tables; t++) {
        if (!e->tables[t].tier) continue;
        rk_key_list *keys = rk_disk_row_cache_prefetch_keys(e->tables[t].tier);
        if (rk_embeddings_list_keys_of_table(e, t, first, n, ids, keys) != RK_OK)
            keys->n = 0; /* the batch will read them */
    }
}
