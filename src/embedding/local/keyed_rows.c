/* Dynamic tables: from keys to rows, and the state of rows that have keys. */
#include <string.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "embedding/local/collection_internal.h"

static rk_status reserve_rows(rk_feature_use *use) {
    return rk_reserve(&use->rows, &use->rows_capacity, (size_t)use->n_ids, sizeof *use->rows);
}

rk_status rk_keyed_rows_find(const rk_table *table, rk_feature_use *use) {
    RK_TRY(reserve_rows(use));
    rk_dynamic_find(table->dynamic, use->ids, use->n_ids, use->rows);
    use->ids = use->rows;
    return RK_OK;
}

/* A training batch on its way through all dynamic tables. */
typedef struct assignment {
    rk_embeddings *embeddings;
    rk_batch_context *batch_context;
    rk_failure failure;
} assignment;

static bool is_dynamic(const rk_embeddings *e, size_t t) {
    return e->tables[t].dynamic && e->table_begins[t + 1] > e->table_begins[t];
}

static rk_feature_use *use_of(const assignment *a, int32_t k) {
    return &a->batch_context->uses[a->embeddings->by_table[k]];
}

static void begin_table(void *context, size_t t, int thread) {
    (void)thread;
    assignment *a = context;
    const rk_embeddings *e = a->embeddings;
    if (!is_dynamic(e, t)) return;
    int32_t first = e->table_begins[t], last = e->table_begins[t + 1];
    rk_status status = RK_OK;
    for (int32_t k = first; k < last && status == RK_OK; k++) {
        rk_feature_use *use = use_of(a, k);
        status = reserve_rows(use);
        a->batch_context->keys[k] = (rk_key_uses){use->ids, use->rows, use->n_ids};
    }
    if (status == RK_OK)
        status = rk_dynamic_begin(e->tables[t].dynamic, a->batch_context->keys + first, last - first);
    rk_failure_record(&a->failure, (int64_t)t, status);
}

static rk_table *group_of(const assignment *a, size_t task, size_t *group) {
    const size_t *begins = a->batch_context->task_begins;
    size_t t = rk_partition_item(begins, (size_t)a->embeddings->n_tables, task);
    *group = task - begins[t];
    return &a->embeddings->tables[t];
}

static void decide_group(void *context, size_t task, int thread) {
    (void)thread;
    assignment *a = context;
    size_t group;
    const rk_table *table = group_of(a, task, &group);
    rk_failure_record(&a->failure, (int64_t)task, rk_dynamic_decide(table->dynamic, group));
}

static void apply_group(void *context, size_t task, int thread) {
    (void)thread;
    const assignment *a = context;
    size_t number;
    rk_table *table = group_of(a, task, &number);
    rk_dynamic_apply(table->dynamic, number);
    const rk_key_group *group = &table->dynamic->groups[number];
    for (size_t k = 0; k < group->n_created; k++)
        if (group->created[k].row) rk_table_init_row(table, group->created[k].row);
}

static rk_status reserve_table(rk_table *table) {
    int64_t wanted, most = table->dynamic->n_places;
    RK_TRY(rk_dynamic_reserve(table->dynamic, &wanted));
    if (wanted <= most) return RK_OK;
    return rk_table_grow(table, wanted > most + most / 4 ? wanted : most + most / 4);
}

rk_status rk_keyed_rows_assign(rk_embeddings *e, rk_batch_context *batch_context) {
    assignment a = {e, batch_context, RK_FAILURE_INIT};
    size_t n_tables = (size_t)e->n_tables, *begins = batch_context->task_begins;
    bool any = false;
    for (size_t t = 0; t < n_tables; t++) any |= is_dynamic(e, t);
    if (!any) return RK_OK;
    rk_parallel_for(n_tables, begin_table, &a);
    RK_TRY(rk_failure_status(&a.failure));
    for (size_t t = 0; t < n_tables; t++)
        begins[t + 1] = begins[t] + (is_dynamic(e, t) ? e->tables[t].dynamic->n_groups : 0);
    rk_parallel_for(begins[n_tables], decide_group, &a);
    RK_TRY(rk_failure_status(&a.failure));
    for (size_t t = 0; t < n_tables; t++)
        if (is_dynamic(e, t)) RK_TRY(reserve_table(&e->tables[t]));
    rk_parallel_for(begins[n_tables], apply_group, &a);
    for (size_t t = 0; t < n_tables; t++) {
        if (!is_dynamic(e, t)) continue;
        rk_dynamic_end(e->tables[t].dynamic);
        e->tables[t].config.n_rows = e->tables[t].dynamic->n_used;
        for (int32_t k = e->table_begins[t]; k < e->table_begins[t + 1]; k++)
            use_of(&a, k)->ids = use_of(&a, k)->rows;
    }
    return RK_OK;
}

/* A tensor of values that stand at the rows' places, `width` of them a row (0: one, and no dimension for
 * it). */
typedef struct keyed_tensor {
    const char *name;
    rk_dtype type;
    int64_t width;
    void *data;
} keyed_tensor;

static rk_status add_tensor(const rk_table *table, rk_state_dict *state, const char *prefix, const char *name,
                            rk_dtype type, int64_t dim0, int64_t dim1, void *data) {
    RK_AUTO(rk_buffer_release) rk_buffer full = {0};
    rk_buffer_printf(&full, "table/%s/%s%s", table->part.name, prefix, name);
    RK_TRY(full.status);
    return rk_state_dict_add(state, full.data, type, dim0, dim1, data);
}

/* Rows whose order is 1, 2, ... are together as they stand, and may be written to. */
static bool stand_in_order(const rk_dynamic_table *t) {
    for (int64_t i = 0; i < t->n_keys && !t->is_loading; i++)
        if (t->order[i] != i + 1) return false;
    return true;
}

static rk_status add_keyed(const rk_table *table, rk_state_dict *state, const keyed_tensor *tensor,
                           bool in_order) {
    const rk_dynamic_table *t = table->dynamic;
    size_t row_bytes = rk_dtype_bytes(tensor->type) * (size_t)(tensor->width ? tensor->width : 1);
    RK_TRY(add_tensor(table, state, "", tensor->name, tensor->type, t->n_keys, tensor->width,
                      (char *)tensor->data + (in_order ? row_bytes : 0)));
    if (!in_order) state->entries[state->n - 1].order = t->order;
    return RK_OK;
}

static rk_status add_shared_row(const rk_table *table, rk_state_dict *state, const keyed_tensor *tensor) {
    return add_tensor(table, state, "oov_", tensor->name, tensor->type, 1, tensor->width, tensor->data);
}

rk_status rk_keyed_table_state_dict(rk_table *table, rk_state_dict *state) {
    rk_dynamic_table *t = table->dynamic;
    keyed_tensor tensors[RK_MAX_SLOTS + 4];
    int n_values = 0, n;
    RK_TRY(rk_dynamic_list(t));
    tensors[n_values++] = (keyed_tensor){"rows", table->config.dtype, table->config.dim, table->rows.data};
    for (int s = 0; s < table->n_slots; s++)
        tensors[n_values++] =
            (keyed_tensor){table->slots[s].name, RK_F32, table->slots[s].per_row ? 0 : table->config.dim,
                           table->slot_values[s]};
    n = n_values;
    tensors[n++] = (keyed_tensor){"keys", RK_I64, 0, t->keys};
    tensors[n++] = (keyed_tensor){"last_batches", RK_I64, 0, t->last_batches};
    tensors[n++] = (keyed_tensor){"counts", RK_I32, 0, t->counts};
    bool in_order = stand_in_order(t);
    for (int i = 0; i < n; i++) RK_TRY(add_keyed(table, state, &tensors[i], in_order));
    for (int i = 0; i < n_values && table->dynamic_config.oov; i++)
        RK_TRY(add_shared_row(table, state, &tensors[i]));
    if (table->dynamic_config.min_count > 1) {
        RK_TRY(add_tensor(table, state, "", "candidate_keys", RK_I64, t->n_candidates, 0, t->candidate_keys));
        RK_TRY(add_tensor(table, state, "", "candidate_counts", RK_I32, t->n_candidates, 0,
                          t->candidate_counts));
    }
    RK_TRY(add_tensor(table, state, "", "batches", RK_I64, 1, 0, &t->n_batches));
    RK_TRY(add_tensor(table, state, "", "totals", RK_I64, 3, 0, &t->totals));
    return add_tensor(table, state, "", "step", RK_I64, 1, 0, &table->step);
}

/* Whether the name is "table/<table>/<tensor>". */
static bool is_tensor(const char *name, const rk_table *table, const char *tensor) {
    size_t n = strlen(table->part.name);
    return strncmp(name, "table/", 6) == 0 && strncmp(name + 6, table->part.name, n) == 0 &&
           name[6 + n] == '/' && strcmp(name + 7 + n, tensor) == 0;
}

static rk_status load_keys(rk_table *table, int64_t n, const int64_t *keys) {
    table->config.n_rows = 1; /* of those that are here now, none is kept */
    if (n + 1 > table->dynamic->n_places) RK_TRY(rk_table_grow(table, n + 1));
    RK_TRY(rk_dynamic_load(table->dynamic, keys, n));
    table->config.n_rows = table->dynamic->n_used;
    return RK_OK;
}

rk_status rk_embeddings_load_keys(rk_embeddings *e, const char *name, int64_t n, const int64_t *keys) {
    rk_status status = RK_OK;
    for (int32_t t = 0; t < e->n_tables && status == RK_OK; t++) {
        rk_table *table = &e->tables[t];
        if (!table->dynamic) continue;
        if (is_tensor(name, table, "keys")) status = load_keys(table, n, keys);
        if (is_tensor(name, table, "candidate_keys"))
            status = rk_dynamic_load_candidates(table->dynamic, keys, n);
    }
    return status == RK_OK ? RK_OK : rk_error_context(status, "tensor '%s'", name);
}

void rk_embeddings_loaded(rk_embeddings *e) {
    for (int32_t t = 0; t < e->n_tables; t++)
        if (e->tables[t].dynamic) rk_dynamic_loaded(e->tables[t].dynamic);
}

rk_key_counts rk_embeddings_count_keys(const rk_embeddings *e) {
    rk_key_counts counts = {0};
    for (int32_t t = 0; t < e->n_tables; t++) {
        const rk_dynamic_table *d = e->tables[t].dynamic;
        if (!d) continue;
        counts.n_tables++;
        counts.n_rows += d->n_keys;
        counts.n_admitted += d->totals.n_admitted;
        counts.n_evicted += d->totals.n_evicted;
        counts.n_refused += d->totals.n_refused;
        counts.n_missing += atomic_load_explicit(&d->n_missing, memory_order_relaxed);
    }
    return counts;
}
