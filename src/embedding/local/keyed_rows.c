/* Dynamic tables: from keys to rows, and the state of rows that have keys. */
#include <string.h>

#include "base/buffer.h"
#include "base/failure.h"
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
    rk_failure failure;
} assignment;

static bool table_has_uses(const assignment *a, size_t t) {
    return a->embeddings->tables[t].dynamic && a->begins[t + 1] > a->begins[t];
}

static void begin_batch_of_table(void *context, size_t t, int thread) {
    (void)thread;
    assignment *a = context;
    if (!table_has_uses(a, t)) return;
    rk_status status = rk_dynamic_begin_batch(a->embeddings->tables[t].dynamic, a->uses + a->begins[t],
                                              a->begins[t + 1] - a->begins[t]);
    rk_failure_record(&a->failure, (int64_t)t, status);
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
    rk_failure_record(&a->failure, (int64_t)task, rk_dynamic_decide_admissions(table->dynamic, group));
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
    int64_t wanted, most = table->dynamic->n_places;
    RK_TRY(rk_dynamic_reserve_new_rows(table->dynamic, &wanted));
    if (wanted <= most) return RK_OK;
    return rk_table_grow(table, wanted > most + most / 4 ? wanted : most + most / 4);
}

/* All that may fail; then the tables are as they were, but for memory. */
static rk_status prepare_assignment(assignment *a) {
    size_t n_tables = (size_t)a->embeddings->n_tables;
    rk_parallel_for(n_tables, begin_batch_of_table, a);
    RK_TRY(rk_failure_status(&a->failure));
    parallel_for_parts(a, count_chunks, find_rows_of_chunk);
    parallel_for_parts(a, count_groups, decide_admissions_of_group);
    RK_TRY(rk_failure_status(&a->failure));
    for (size_t t = 0; t < n_tables; t++)
        if (table_has_uses(a, t)) RK_TRY(reserve_new_rows(&a->embeddings->tables[t]));
    return RK_OK;
}

rk_status rk_dynamic_rows_assign_uses(rk_embeddings *e, const rk_key_uses *uses, const int32_t *begins,
                                      size_t *task_begins) {
    assignment a = {e, uses, begins, task_begins, RK_FAILURE_INIT};
    size_t n_tables = (size_t)e->n_tables;
    for (size_t t = 0; t < n_tables; t++)
        if (e->tables[t].tier) rk_disk_row_cache_finish_prefetch(e->tables[t].tier);
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
    rk_failure failure;
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
        rk_failure_record(&n->failure, (int64_t)t, number_unique_keys(n->embeddings, n->batch_context, t));
}

rk_status rk_dynamic_rows_assign_batch(rk_embeddings *e, rk_batch_context *batch_context) {
    naming n = {e, batch_context, RK_FAILURE_INIT};
    size_t n_tables = (size_t)e->n_tables;
    bool any = false;
    for (size_t t = 0; t < n_tables; t++) any |= is_used_dynamic_table(e, t);
    if (!any) return RK_OK;
    rk_parallel_for(n_tables, number_keys_of_table, &n);
    RK_TRY(rk_failure_status(&n.failure));
    RK_TRY(rk_dynamic_rows_assign_uses(e, batch_context->keys, e->table_begins, batch_context->task_begins));
    for (size_t t = 0; t < n_tables; t++)
        for (int32_t k = e->table_begins[t]; k < e->table_begins[t + 1] && is_used_dynamic_table(e, t); k++) {
            rk_feature_bags *use = &batch_context->uses[e->by_table[k]];
            use->ids = use->rows;
        }
    return RK_OK;
}

/* A feature's keys in the batch to come: those that sequences keep. Weights may drop some, whose rows are
 * then read for nothing. */
static rk_status add_prefetch_keys(rk_disk_row_cache *tier, const rk_feature_config *feature, int64_t n,
                                   const rk_ids *ids) {
    int64_t most = feature->max_sequence_length;
    if (!most)
        return rk_disk_row_cache_add_prefetch_keys(tier, ids->ids,
                                                   (size_t)(rk_ids_begin(ids, n) - rk_ids_begin(ids, 0)));
    for (int64_t s = 0; s < n; s++) {
        int64_t begin = rk_ids_begin(ids, s), length = rk_ids_begin(ids, s + 1) - begin;
        RK_TRY(rk_disk_row_cache_add_prefetch_keys(tier, ids->ids + begin, (size_t)rk_min_i64(length, most)));
    }
    return RK_OK;
}

static rk_status prefetch_rows_of_table(rk_embeddings *e, int32_t t, int64_t n, const rk_ids *ids) {
    rk_disk_row_cache *tier = e->tables[t].tier;
    rk_disk_row_cache_finish_prefetch(tier);
    for (int32_t k = e->table_begins[t]; k < e->table_begins[t + 1]; k++)
        RK_TRY(add_prefetch_keys(tier, &e->features[e->by_table[k]], n, &ids[e->by_table[k]]));
    return rk_disk_row_cache_start_prefetch(tier);
}

void rk_embeddings_prefetch(rk_embeddings *e, int64_t n, const rk_ids *ids) {
    for (int32_t t = 0; t < e->n_tables; t++)
        if (e->tables[t].tier && prefetch_rows_of_table(e, t, n, ids) != RK_OK)
            rk_disk_row_cache_finish_prefetch(e->tables[t].tier); /* the batch will read them */
}

/* A tensor of values that stand at the rows' places, or the candidates', `width` of them a key (0: one, and
 * no dimension for it), and keys `stride` bytes apart (0: packed). */
typedef struct keyed_tensor {
    const char *name;
    rk_dtype type;
    int64_t width;
    void *data;
    rk_state_dict_kind kind;
    size_t stride;
} keyed_tensor;

/* Of `total` keys, those of a range; order: where their values stand, NULL: one after the other. */
typedef struct keyed_range {
    rk_key_range keys;
    int64_t total;
    const int64_t *order;
} keyed_range;

/* n values that move as the table grows. */
static rk_status add_state_entry(rk_state_dict *state, const rk_buffer *name, const keyed_tensor *tensor,
                                 int64_t n, void *data, const int64_t *order) {
    RK_TRY(name->status);
    RK_TRY(rk_state_dict_add(state, name->data, tensor->type, n, tensor->width, data));
    state->entries[state->n - 1].order = order;
    state->entries[state->n - 1].stride = tensor->stride;
    state->entries[state->n - 1].moves = true;
    rk_state_dict_set_kind(state, tensor->kind);
    return RK_OK;
}

static rk_status add_tensor_of_keys(const rk_table *table, rk_state_dict *state, const keyed_tensor *tensor,
                                    int64_t n) {
    RK_AUTO(rk_buffer_release) rk_buffer full = {0};
    const rk_dynamic_config *config = &table->dynamic->config;
    rk_buffer_printf(&full, "table/%s/%s", table->part.name, tensor->name);
    if (config->part) /* of which a rank may have several */
        rk_buffer_printf(&full, "[%d:%d:%d]", (int)config->part, (int)config->n_parts, (int)config->n_parts);
    return add_state_entry(state, &full, tensor, n, tensor->data, NULL);
}

/* "table/<name>/<tensor>[120..340:1000]" for keys 120 to 339 of 1000. Of none, only the first part: several
 * on one rank would have one name. */
static rk_status add_tensor_of_range(const rk_table *table, rk_state_dict *state, const keyed_tensor *tensor,
                                     const keyed_range *range) {
    RK_AUTO(rk_buffer_release) rk_buffer full = {0};
    if (range->keys.n == 0 && table->dynamic->config.part) return RK_OK;
    long long first = range->keys.first, end = first + range->keys.n, total = range->total;
    size_t row_bytes = rk_dtype_bytes(tensor->type) * (size_t)(tensor->width ? tensor->width : 1),
           stride = tensor->stride ? tensor->stride : row_bytes;
    rk_buffer_printf(&full, "table/%s/%s", table->part.name, tensor->name);
    if (range->keys.n < total) rk_buffer_printf(&full, "[%lld..%lld:%lld]", first, end, total);
    char *data = (char *)tensor->data;
    if (!range->order && range->keys.n) data += (size_t)range->keys.at * stride;
    return add_state_entry(state, &full, tensor, range->keys.n, data, range->order);
}

/* Rows whose order is 1, 2, ... are together as they stand, and may be written to. */
static bool are_rows_in_key_order(const rk_dynamic_table *t) {
    for (int64_t i = 0; i < t->n_keys; i++)
        if (t->order[i] != i + t->n_shared) return false;
    return true;
}

/* The ranges of what was read, where nothing of it may be none. */
static rk_status add_tensors_of_loaded_ranges(const rk_table *table, rk_state_dict *state,
                                              const keyed_tensor *tensors, int n,
                                              const rk_key_ranges *loaded) {
    const rk_key_range none = {0};
    RK_FAIL_IF(loaded->n_read != loaded->total, RK_BAD_DATA,
               "tensor 'table/%s/%s': %lld of its %lld keys are there", table->part.name, tensors[0].name,
               (long long)loaded->n_read, (long long)loaded->total);
    for (size_t r = 0; r < (loaded->n ? loaded->n : 1); r++) {
        keyed_range range = {loaded->n ? loaded->list[r] : none, loaded->total, NULL};
        for (int i = 0; i < n; i++) RK_TRY(add_tensor_of_range(table, state, &tensors[i], &range));
    }
    return RK_OK;
}

/* tensors [n], the first of which names them all: all keys that are here. */
static rk_status add_tensors_of_all_keys(const rk_table *table, rk_state_dict *state,
                                         const keyed_tensor *tensors, int n) {
    const rk_dynamic_table *t = table->dynamic;
    if (t->is_loading) return add_tensors_of_loaded_ranges(table, state, tensors, n, &t->loaded);
    bool is_part = t->config.n_parts > 1;
    keyed_range range = {{is_part ? t->share.keys_before : 0, t->n_keys, t->n_shared},
                         is_part ? t->share.n_keys : t->n_keys,
                         are_rows_in_key_order(t) ? NULL : t->order};
    for (int i = 0; i < n; i++) RK_TRY(add_tensor_of_range(table, state, &tensors[i], &range));
    return RK_OK;
}

static rk_status add_candidate_tensors(const rk_table *table, rk_state_dict *state) {
    const rk_dynamic_table *t = table->dynamic;
    const keyed_tensor tensors[] = {{"candidate_keys", RK_I64, 0, t->candidate_keys, RK_STATE_OTHER, 0},
                                    {"candidate_counts", RK_I32, 0, t->candidate_counts, RK_STATE_OTHER, 0}};
    if (t->is_loading) return add_tensors_of_loaded_ranges(table, state, tensors, 2, &t->loaded_candidates);
    bool is_part = t->config.n_parts > 1;
    keyed_range range = {{is_part ? t->share.candidates_before : 0, t->n_candidates, 0},
                         is_part ? t->share.n_candidates : t->n_candidates,
                         NULL};
    for (int i = 0; i < 2; i++) RK_TRY(add_tensor_of_range(table, state, &tensors[i], &range));
    return RK_OK;
}

/* Of the buckets that are here. */
static rk_status add_sketch_tensors(const rk_table *table, rk_state_dict *state) {
    static const char *const names[][2] = {[RK_COUNTER_COUNT_MIN] = {"count_min_sketch", "count_min_loads"},
                                           [RK_COUNTER_BLOOM] = {"bloom_sketch", "bloom_loads"}};
    const rk_dynamic_table *t = table->dynamic;
    const char *const *name = names[t->config.counter];
    const keyed_tensor tensors[] = {
        {name[0], RK_U8, (int64_t)t->sketch_bytes, t->sketches, RK_STATE_OTHER, 0},
        {name[1], RK_I64, 0, t->sketch_loads, RK_STATE_OTHER, 0}};
    const keyed_range range = {
        {t->first_bucket, t->end_bucket - t->first_bucket, 0}, t->config.n_buckets, NULL};
    for (int i = 0; i < 2; i++) RK_TRY(add_tensor_of_range(table, state, &tensors[i], &range));
    return RK_OK;
}

/* What is of the whole table: the first part writes it, and the totals are the first part's; all parts read
 * the counters. */
static rk_status add_counter_tensors(rk_table *table, rk_state_dict *state) {
    rk_dynamic_table *t = table->dynamic;
    bool is_first = t->config.part == 0, sums = t->config.n_parts > 1 && !t->is_loading;
    const keyed_tensor batches = {"batches", RK_I64, 0, &t->n_batches, RK_STATE_OTHER, 0},
                       totals = {"totals",       RK_I64, 0, sums ? &t->share.totals : &t->totals,
                                 RK_STATE_OTHER, 0},
                       step = {"step", RK_I64, 0, &table->step, RK_STATE_OTHER, 0};
    if (is_first || t->is_loading) RK_TRY(add_tensor_of_keys(table, state, &batches, 1));
    if (is_first) RK_TRY(add_tensor_of_keys(table, state, &totals, 3));
    return is_first || t->is_loading ? add_tensor_of_keys(table, state, &step, 1) : RK_OK;
}

/* By another name: n values, or those of a range. */
static rk_status add_prefixed_tensor(const rk_table *table, rk_state_dict *state, const char *prefix,
                                     const keyed_tensor *tensor, int64_t n, const keyed_range *range) {
    RK_AUTO(rk_buffer_release) rk_buffer name = {0};
    keyed_tensor prefixed = *tensor;
    rk_buffer_printf(&name, "%s%s", prefix, tensor->name);
    RK_TRY(name.status);
    prefixed.name = name.data;
    return range ? add_tensor_of_range(table, state, &prefixed, range)
                 : add_tensor_of_keys(table, state, &prefixed, n);
}

/* The rows that keys without one share, and their slots: one, which the first part has, or cold ones, which
 * stand at the beginning. */
static rk_status add_tensors_of_shared_rows(const rk_table *table, rk_state_dict *state,
                                            const keyed_tensor *tensors, int n) {
    const rk_dynamic_table *t = table->dynamic;
    const keyed_range cold = {{t->first_cold, t->n_shared, 0}, t->config.n_cold, NULL};
    if (!t->config.n_cold && (!t->config.oov || t->config.part > 0)) return RK_OK;
    for (int i = 0; i < n; i++)
        RK_TRY(add_prefixed_tensor(table, state, "oov_", &tensors[i], 1, t->config.n_cold ? &cold : NULL));
    return RK_OK;
}

rk_status rk_dynamic_table_state_dict(rk_table *table, rk_state_dict *state) {
    rk_dynamic_table *t = table->dynamic;
    keyed_tensor tensors[RK_MAX_SLOTS + 4];
    int n = 0;
    RK_TRY(rk_dynamic_list_keys(t));
    tensors[n++] =
        (keyed_tensor){"rows", table->config.dtype, table->config.dim, table->rows.data, RK_STATE_ROWS, 0};
    for (int s = 0; s < table->n_slots; s++)
        tensors[n++] = (keyed_tensor){
            table->slots[s].name,  RK_F32,         table->slots[s].per_row ? 0 : table->config.dim,
            table->slot_values[s], RK_STATE_OTHER, 0};
    int n_values = n;
    rk_key_info *info = t->info;
    tensors[n++] = (keyed_tensor){"keys", RK_I64, 0, &info->key, RK_STATE_KEYS, sizeof *info};
    tensors[n++] = (keyed_tensor){"last_batches", RK_I32, 0, &info->last_batch, RK_STATE_OTHER, sizeof *info};
    tensors[n++] = (keyed_tensor){"counts", RK_I32, 0, &info->count, RK_STATE_OTHER, sizeof *info};
    bool are_files = table->tier || (table->dynamic_config.storage && t->is_loading);
    int first = are_files ? n_values : 0; /* rows and slots; rk_embeddings_load_rows reads them */
    RK_TRY(add_tensors_of_all_keys(table, state, tensors + first, n - first));
    for (int i = 0; i < first && t->config.part == 0; i++)
        RK_TRY(
            add_prefixed_tensor(table, state, RK_DISK_PREFIX, &tensors[i], 0, NULL)); /* what a record has */
    RK_TRY(add_tensors_of_shared_rows(table, state, tensors, n_values));
    if (t->sketches)
        RK_TRY(add_sketch_tensors(table, state));
    else if (t->config.min_count > 1 && !rk_dynamic_has_sketches(&t->config))
        RK_TRY(add_candidate_tensors(table, state));
    return add_counter_tensors(table, state);
}

/* Whether the name is "table/<table>/<tensor>". */
static bool is_named_tensor(const char *name, const rk_table *table, const char *tensor) {
    size_t n = strlen(table->part.name);
    return strncmp(name, "table/", 6) == 0 && strncmp(name + 6, table->part.name, n) == 0 &&
           name[6 + n] == '/' && strcmp(name + 7 + n, tensor) == 0;
}

static void begin_loading_keys(rk_table *table) {
    if (table->tier) rk_disk_row_cache_finish_prefetch(table->tier);
    rk_dynamic_begin_loading(table->dynamic);
    if (!table->tier)
        table->config.n_rows = table->dynamic->n_shared; /* of keys that are here now, none is kept */
}

static rk_status load_row_keys(rk_table *table, const rk_stored_keys *keys) {
    int64_t wanted =
        table->dynamic->n_used + rk_dynamic_count_local_keys(table->dynamic, keys->keys, keys->n);
    RK_TRY(rk_table_grow(table, wanted));
    RK_TRY(rk_dynamic_load_keys(table->dynamic, keys->first, keys->total, keys->keys, keys->n));
    if (!table->tier) table->config.n_rows = table->dynamic->n_used;
    return RK_OK;
}

static rk_status load_keys_of_table(rk_table *table, const rk_stored_keys *keys) {
    bool has_rows = is_named_tensor(keys->name, table, "keys"),
         has_counts = is_named_tensor(keys->name, table, "candidate_keys") &&
                      !rk_dynamic_has_sketches(&table->dynamic_config);
    if (!has_rows && !has_counts) return RK_OK;
    if (!table->dynamic->is_loading) begin_loading_keys(table);
    return has_rows
               ? load_row_keys(table, keys)
               : rk_dynamic_load_candidates(table->dynamic, keys->first, keys->total, keys->keys, keys->n);
}

rk_status rk_embeddings_load_keys(rk_embeddings *e, const rk_stored_keys *keys) {
    rk_status status = RK_OK;
    for (int32_t t = 0; t < e->n_tables && status == RK_OK; t++) {
        if (!e->tables[t].dynamic) continue;
        if (keys)
            status = load_keys_of_table(&e->tables[t], keys);
        else
            begin_loading_keys(&e->tables[t]);
    }
    return status == RK_OK ? RK_OK : rk_error_context(status, "tensor '%s'", keys->name);
}

void rk_embeddings_finish_loading(rk_embeddings *e) {
    for (int32_t t = 0; t < e->n_tables; t++)
        if (e->tables[t].dynamic) rk_dynamic_finish_loading(e->tables[t].dynamic);
}

rk_key_counts rk_embeddings_sum_key_counts(const rk_embeddings *e) {
    rk_key_counts counts = {0};
    for (int32_t t = 0; t < e->n_tables; t++) {
        const rk_dynamic_table *d = e->tables[t].dynamic;
        const rk_sorted_keys *sorted = e->tables[t].sorted_keys;
        counts.n_tables += d || sorted;
        if (sorted) {
            counts.n_rows += sorted->n;
            counts.n_missing += atomic_load_explicit(&sorted->n_missing, memory_order_relaxed);
        }
        if (!d) continue;
        counts.n_rows += d->n_keys;
        counts.n_admitted += d->totals.n_admitted;
        counts.n_evicted += d->totals.n_evicted;
        counts.n_refused += d->totals.n_refused;
        counts.n_missing += atomic_load_explicit(&d->n_missing, memory_order_relaxed);
    }
    return counts;
}
