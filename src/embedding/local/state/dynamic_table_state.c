/* The state of a dynamic table: its keys, their rows and what is counted of them, as named tensors; and its
 * keys out of a checkpoint. */
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "embedding/local/collection_internal.h"

/* A tensor of values that stand at the rows' places, or the candidates', `width` of them a key (0: one, and
 * no dimension for it), and keys `stride` bytes apart (0: packed). */
typedef struct keyed_tensor {
    const char *name;
    rk_dtype type;
    int64_t width;
    void *data;
    rk_state_dict_kind kind;
    size_t stride;
    rk_read_state_row read_row; /* as an entry of the state has it */
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
    state->entries[state->n - 1].read_row = tensor->read_row;
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
    if (t->disk_keys) return false;
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
    const keyed_tensor tensors[] = {
        {"candidate_keys", RK_I64, 0, t->candidate_keys, RK_STATE_OTHER, 0, NULL},
        {"candidate_counts", RK_I32, 0, t->candidate_counts, RK_STATE_OTHER, 0, NULL}};
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
        {name[0], RK_U8, (int64_t)t->sketch_bytes, t->sketches, RK_STATE_OTHER, 0, NULL},
        {name[1], RK_I64, 0, t->sketch_loads, RK_STATE_OTHER, 0, NULL}};
    const keyed_range range = {
        {t->first_bucket, t->end_bucket - t->first_bucket, 0}, t->config.n_buckets, NULL};
    for (int i = 0; i < 2; i++) RK_TRY(add_tensor_of_range(table, state, &tensors[i], &range));
    return RK_OK;
}

/* The name is the whole table's in every part, all of which read it. */
static rk_status add_clock_tensor(const rk_table *table, rk_state_dict *state) {
    RK_AUTO(rk_buffer_release) rk_buffer name = {0};
    const keyed_tensor clock = {RK_STREAM_CLOCK_TENSOR, RK_I64, 0,   &table->dynamic->clock,
                                RK_STATE_OTHER,         0,      NULL};
    rk_buffer_printf(&name, "table/%s/%s", table->part.name, clock.name);
    return add_state_entry(state, &name, &clock, RK_STREAM_CLOCK_VALUES, clock.data, NULL);
}

/* What is of the whole table: the first part writes it, and the totals are the first part's; all parts read
 * the counters. */
static rk_status add_counter_tensors(rk_table *table, rk_state_dict *state) {
    rk_dynamic_table *t = table->dynamic;
    bool is_first = t->config.part == 0, sums = t->config.n_parts > 1 && !t->is_loading;
    const keyed_tensor batches = {"batches", RK_I64, 0, &t->n_batches, RK_STATE_OTHER, 0, NULL},
                       totals = {"totals",       RK_I64, 0,   sums ? &t->share.totals : &t->totals,
                                 RK_STATE_OTHER, 0,      NULL},
                       step = {"step", RK_I64, 0, &table->step, RK_STATE_OTHER, 0, NULL};
    if (is_first || t->is_loading) RK_TRY(add_tensor_of_keys(table, state, &batches, 1));
    if (is_first) RK_TRY(add_tensor_of_keys(table, state, &totals, 3));
    if (t->config.ttl && (is_first || t->is_loading)) RK_TRY(add_clock_tensor(table, state));
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

static int describe_keys(const rk_dynamic_table *t, keyed_tensor *tensors) {
    rk_key_info *info = t->info;
    tensors[0] = (keyed_tensor){"keys", RK_I64, 0, &info->key, RK_STATE_KEYS, sizeof *info, NULL};
    tensors[1] =
        (keyed_tensor){"last_batches", RK_I32, 0, &info->last_batch, RK_STATE_OTHER, sizeof *info, NULL};
    tensors[2] = (keyed_tensor){"counts", RK_I32, 0, &info->count, RK_STATE_OTHER, sizeof *info, NULL};
    return 3;
}

static void read_key_of_row(const void *table, int64_t row, void *to) {
    int64_t key = rk_dynamic_key_of_row(table, row);
    memcpy(to, &key, sizeof key);
}
static void read_last_batch_of_row(const void *table, int64_t row, void *to) {
    memcpy(to, rk_dynamic_last_batch(table, row), sizeof(int32_t));
}
static void read_count_of_row(const void *table, int64_t row, void *to) {
    int32_t count = rk_dynamic_count_of_row(table, row);
    memcpy(to, &count, sizeof count);
}

/* Of rows on a disk these stand in no array. */
static int describe_disk_keys(rk_dynamic_table *t, keyed_tensor *tensors) {
    tensors[0] = (keyed_tensor){"keys", RK_I64, 0, t, RK_STATE_KEYS, 0, read_key_of_row};
    tensors[1] = (keyed_tensor){"last_batches", RK_I32, 0, t, RK_STATE_OTHER, 0, read_last_batch_of_row};
    tensors[2] = (keyed_tensor){"counts", RK_I32, 0, t, RK_STATE_OTHER, 0, read_count_of_row};
    return 3;
}

rk_status rk_dynamic_table_state_dict(rk_table *table, rk_state_dict *state) {
    rk_dynamic_table *t = table->dynamic;
    keyed_tensor tensors[RK_MAX_SLOTS + 4];
    int n = 0;
    RK_TRY(rk_dynamic_list_keys(t));
    tensors[n++] = (keyed_tensor){
        "rows", table->config.dtype, table->config.dim, table->rows.data, RK_STATE_ROWS, 0, NULL};
    for (int s = 0; s < table->n_slots; s++)
        tensors[n++] = (keyed_tensor){table->slots[s].name,
                                      RK_F32,
                                      table->slots[s].per_row ? 0 : table->config.dim,
                                      table->slot_values[s],
                                      RK_STATE_OTHER,
                                      0,
                                      NULL};
    int n_values = n;
    n += t->disk_keys && !t->is_loading ? describe_disk_keys(t, tensors + n) : describe_keys(t, tensors + n);
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
    if (table->tier) rk_disk_row_cache_finish_background(table->tier);
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

rk_status rk_embeddings_finish_loading(rk_embeddings *e) {
    for (int32_t t = 0; t < e->n_tables; t++)
        if (e->tables[t].dynamic) RK_TRY(rk_dynamic_finish_loading(e->tables[t].dynamic));
    return RK_OK;
}

void rk_embeddings_find_keys(const rk_embeddings *e, const char *table, const int64_t *keys, int64_t n,
                             bool *has_row) {
    for (int32_t t = 0; t < e->n_tables; t++) {
        const rk_table *part = &e->tables[t];
        if (strcmp(part->part.name, table) != 0) continue;
        for (int64_t i = 0; i < n; i++)
            has_row[i] |= part->sorted_keys ? rk_sorted_keys_contain(part->sorted_keys, keys[i])
                          : part->dynamic   ? rk_dynamic_has_row(part->dynamic, keys[i])
                                            : false;
    }
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
