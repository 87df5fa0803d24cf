#include <math.h>
#include <string.h>

#include "base/thread/instruction_set.h"
#include "base/memory.h"
#include "embedding/local/collection_internal.h"
#include "embedding/local/local_lookup.h"
#include "embedding/local/initializer.h"

/* Beyond these a table would not fit an address space; the second is the initializers' too. */
static const int64_t max_values = (int64_t)1 << 56, max_rows = (int64_t)1 << 47;

static rk_status check_table(const rk_table_config *t) {
    RK_FAIL_IF(!t->name || !*t->name, RK_INVALID_ARGUMENT, "a table needs a name");
    RK_FAIL_IF(t->n_rows < 1, RK_INVALID_ARGUMENT, "table '%s': n_rows must be 1 or more, not %lld", t->name,
               (long long)t->n_rows);
    RK_FAIL_IF(t->dim < 1 || t->dim > RK_MAX_DIM, RK_INVALID_ARGUMENT,
               "table '%s': dim must be 1 to %d, not %d", t->name, RK_MAX_DIM, t->dim);
    RK_FAIL_IF(t->n_rows > max_rows || t->n_rows > max_values / t->dim, RK_INVALID_ARGUMENT,
               "table '%s' is too large for memory addresses", t->name);
    RK_FAIL_IF((unsigned)t->dtype >= RK_ROW_DTYPE_COUNT, RK_INVALID_ARGUMENT,
               "table '%s': 'dtype' must be f32, bf16 or f16, not %s", t->name, rk_dtype_name(t->dtype));
    rk_status status = rk_initializer_validate(&t->initializer);
    if (status == RK_OK && t->optimizer) status = rk_optimizer_validate(t->optimizer);
    return status == RK_OK ? RK_OK : rk_error_context(status, "table '%s'", t->name);
}

static rk_status check_feature(const rk_feature_config *f, const rk_embeddings_config *config,
                               const rk_name_index *tables, int32_t *table) {
    RK_FAIL_IF(!f->name || !*f->name, RK_INVALID_ARGUMENT, "a feature needs a name");
    RK_FAIL_IF((unsigned)f->combiner >= RK_COMBINER_COUNT, RK_INVALID_ARGUMENT,
               "feature '%s': invalid combiner %d", f->name, (int)f->combiner);
    RK_FAIL_IF(f->max_sequence_length < 0, RK_INVALID_ARGUMENT,
               "feature '%s': max_sequence_length must be 0 or more, not %d", f->name,
               f->max_sequence_length);
    int32_t t = f->table ? rk_name_index_find(tables, f->table) : -1;
    RK_FAIL_IF(t < 0, RK_INVALID_ARGUMENT, "feature '%s': there is no table '%s'", f->name,
               f->table ? f->table : "");
    RK_FAIL_IF(f->max_sequence_length > INT32_MAX / config->tables[t].dim, RK_INVALID_ARGUMENT,
               "feature '%s': max_sequence_length %d times dim %d is too large", f->name,
               f->max_sequence_length, config->tables[t].dim);
    *table = t;
    return RK_OK;
}

static rk_status check_feature_names(const rk_embeddings_config *config) {
    rk_name_index names;
    RK_TRY(rk_name_index_init(&names, config->features, sizeof *config->features,
                              offsetof(rk_feature_config, name), config->n_features));
    int32_t twin = rk_name_index_find_duplicate(&names);
    rk_name_index_release(&names);
    RK_FAIL_IF(twin >= 0, RK_INVALID_ARGUMENT, "two features are named '%s'", config->features[twin].name);
    return RK_OK;
}

/* Everything but memory, before any is taken for tables. feature_tables: [n_features]. */
static rk_status check_embeddings_config(const rk_embeddings_config *config, int32_t *feature_tables) {
    for (int32_t t = 0; t < config->n_tables; t++) RK_TRY(check_table(&config->tables[t]));
    rk_name_index tables;
    RK_TRY(rk_name_index_init(&tables, config->tables, sizeof *config->tables,
                              offsetof(rk_table_config, name), config->n_tables));
    rk_status status = RK_OK;
    int32_t twin = rk_name_index_find_duplicate(&tables);
    if (twin >= 0)
        status = rk_error(RK_INVALID_ARGUMENT, "two tables are named '%s'", config->tables[twin].name);
    for (int32_t f = 0; status == RK_OK && f < config->n_features; f++)
        status = check_feature(&config->features[f], config, &tables, &feature_tables[f]);
    rk_name_index_release(&tables);
    return status == RK_OK ? check_feature_names(config) : status;
}

static rk_status add_features(rk_embeddings *e, const rk_embeddings_config *config) {
    for (int32_t f = 0; f < config->n_features; f++) {
        char *name;
        RK_TRY(rk_strdup(config->features[f].name, &name));
        e->features[f] = config->features[f];
        e->features[f].name = name;
        e->features[f].table = e->tables[e->feature_tables[f]].config.name;
        e->n_features = f + 1;
        e->table_begins[e->feature_tables[f] + 1]++;
    }
    for (int32_t t = 0; t < e->n_tables; t++) e->table_begins[t + 1] += e->table_begins[t];
    int32_t *next;
    RK_TRY(rk_alloc((size_t)e->n_tables, sizeof *next, &next));
    for (int32_t f = 0; f < e->n_features; f++)
        e->by_table[e->table_begins[e->feature_tables[f]] + next[e->feature_tables[f]]++] = f;
    rk_free(next);
    return RK_OK;
}

static rk_status add_tables(rk_embeddings *e, const rk_embeddings_config *config,
                            const rk_optimizer *optimizer, const rk_table_part *parts) {
    for (int32_t t = 0; t < config->n_tables; t++) {
        const rk_table_config *table = &config->tables[t];
        RK_TRY(rk_table_init(&e->tables[t], table, table->optimizer ? table->optimizer : optimizer,
                             config->seed, parts ? &parts[t] : NULL));
        e->n_tables = t + 1;
    }
    return rk_name_index_init(&e->table_names, e->tables, sizeof *e->tables, offsetof(rk_table, config.name),
                              e->n_tables);
}

rk_status rk_batch_context_init(rk_batch_context *batch_context, size_t n_tables, size_t n_features) {
    RK_TRY(RK_ALLOC_ALL(
        RK_ARRAY(n_tables, batch_context->plans), RK_ARRAY(n_tables, batch_context->updates),
        RK_ARRAY(n_tables, batch_context->batch_keys), RK_ARRAY(n_tables + 1, batch_context->piece_begins),
        RK_ARRAY((n_tables > n_features ? n_tables : n_features) + 1, batch_context->task_begins)));
    return RK_ALLOC_ALL(RK_ARRAY(n_features, batch_context->uses), RK_ARRAY(n_features, batch_context->keys));
}

void rk_batch_context_release(rk_batch_context *batch_context, int32_t n_tables, int32_t n_features) {
    for (int32_t f = 0; f < n_features && batch_context->uses; f++)
        rk_feature_bags_release(&batch_context->uses[f]);
    for (int32_t t = 0; t < n_tables && batch_context->plans; t++)
        rk_row_uses_release(&batch_context->plans[t]);
    for (int32_t t = 0; t < n_tables && batch_context->batch_keys; t++)
        rk_unique_keys_release(&batch_context->batch_keys[t]);
    RK_FREE_ALL(batch_context->uses, batch_context->keys, batch_context->plans, batch_context->updates,
                batch_context->batch_keys, batch_context->piece_begins, batch_context->task_begins);
}

static rk_status allocate_collection(rk_embeddings *e, size_t n_tables, size_t n_features) {
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_tables, e->tables), RK_ARRAY(n_tables + 1, e->table_begins),
                        RK_ARRAY(n_features, e->features), RK_ARRAY(n_features, e->feature_tables),
                        RK_ARRAY(n_features, e->by_table)));
    for (int i = 0; i < 2; i++) RK_TRY(rk_batch_context_init(&e->batch_contexts[i], n_tables, n_features));
    RK_TRY(rk_batch_context_init(&e->eval_batch, n_tables, n_features));
    RK_TRY(rk_pending_gradients_init(&e->pending, n_tables));
    return rk_alloc(n_features, sizeof *e->micro_batches, &e->micro_batches);
}

rk_status rk_embeddings_create_with_parts(const rk_embeddings_config *config, const rk_table_part *parts,
                                          rk_embeddings **out) {
    rk_optimizer optimizer;
    RK_TRY(rk_optimizer_init(&optimizer, RK_OPTIMIZER_ADAGRAD));
    if (config->optimizer) optimizer = *config->optimizer;
    RK_TRY(rk_optimizer_validate(&optimizer));
    rk_embeddings *e = NULL;
    rk_status status;
    RK_GOTO(rk_alloc(1, sizeof *e, &e));
    *e = (rk_embeddings){.ops = &rk_local_embeddings,
                         .pool = config->pool,
                         .learning_rate_factor = 1,
                         .timestamp = RK_NO_TIMESTAMP,
                         .cache_bytes = rk_cpu_cache_bytes()};
    RK_GOTO(allocate_collection(e, (size_t)config->n_tables, (size_t)config->n_features));
    RK_GOTO(check_embeddings_config(config, e->feature_tables));
    RK_GOTO(add_tables(e, config, &optimizer, parts));
    RK_GOTO(add_features(e, config));
    *out = e;
    e = NULL;
done:
    rk_embeddings_free(e);
    return status;
}

/* Of a dynamic table: its keys, and that its rows are those, and the ones that other keys share. */
static rk_status set_keys_from_source(const rk_table_config *table, const rk_dynamic_config *dynamic,
                                      const rk_row_source *source, rk_table_part *part) {
    part->dynamic = dynamic;
    part->sorted_keys = rk_key_tables_find_table(source->keys, table->name);
    RK_FAIL_IF(!part->sorted_keys, RK_CONFIG, "there are no keys of table '%s', which is dynamic",
               table->name);
    part->n_rows = part->sorted_keys->n + rk_dynamic_n_shared_rows(dynamic);
    return RK_OK;
}

static rk_status set_part_from_source(const rk_table_config *table, const rk_dynamic_config *dynamic,
                                      const rk_row_source *source, rk_rows *rows, rk_table_part *part) {
    bool absent = rk_row_source_is_remote(source);
    *part =
        (rk_table_part){.n_rows = table->n_rows, .dim = table->dim, .absent = absent, .unplanned = absent};
    if (dynamic->max_capacity) RK_TRY(set_keys_from_source(table, dynamic, source, part));
    if (absent) return RK_OK;
    RK_TRY(source->ops->find(source, table->name, part->n_rows, table->dim, rows));
    if (rows->data)
        part->rows = rows;
    else
        part->sorted_keys = NULL; /* they go into memory with the rows */
    return RK_OK;
}

rk_status rk_embeddings_create_over_source(const rk_embeddings_config *config,
                                           const rk_dynamic_config *dynamic, rk_row_source *source,
                                           rk_embeddings **out) {
    RK_AUTOFREE rk_table_part *parts = NULL;
    RK_AUTOFREE rk_rows *rows = NULL;
    size_t n = (size_t)config->n_tables;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n, parts), RK_ARRAY(n, rows)));
    for (int32_t t = 0; t < config->n_tables; t++)
        RK_TRY(set_part_from_source(&config->tables[t], &dynamic[t], source, &rows[t], &parts[t]));
    RK_TRY(rk_embeddings_create_with_parts(config, parts, out));
    (*out)->source = source;
    return RK_OK;
}

static void local_free(rk_embeddings *e) {
    for (int32_t f = 0; f < e->n_features; f++) rk_free((char *)(size_t)e->features[f].name);
    for (int i = 0; i < 2; i++) rk_batch_context_release(&e->batch_contexts[i], e->n_tables, e->n_features);
    rk_batch_context_release(&e->eval_batch, e->n_tables, e->n_features);
    rk_pending_gradients_release(&e->pending, e->n_tables);
    for (int32_t t = 0; t < e->n_tables; t++) rk_table_release(&e->tables[t]);
    rk_row_source_free(e->source);
    rk_free(e->tables);
    rk_name_index_release(&e->table_names);
    RK_FREE_ALL(e->table_begins, e->scratch, e->features, e->feature_tables, e->by_table, e->micro_batches,
                e);
}

void rk_embeddings_free(rk_embeddings *e) {
    if (e) e->ops->free(e);
}

int32_t rk_embeddings_n_features(const rk_embeddings *e) {
    return e->n_features;
}

int32_t rk_embeddings_width(const rk_embeddings *e, int32_t feature) {
    int32_t length = e->features[feature].max_sequence_length,
            dim = e->tables[e->feature_tables[feature]].config.dim;
    return length ? length * dim : dim;
}

uint64_t rk_embeddings_bytes(const rk_embeddings *e) {
    return e->ops->bytes(e);
}

static uint64_t local_bytes(const rk_embeddings *e) {
    uint64_t bytes = 0;
    for (int32_t t = 0; t < e->n_tables; t++) bytes += rk_table_bytes(&e->tables[t]);
    return bytes;
}

void rk_embeddings_set_batch_timestamp(rk_embeddings *e, int64_t timestamp) {
    e->timestamp = timestamp;
}

rk_status rk_embeddings_scale_learning_rate(rk_embeddings *e, double factor) {
    RK_FAIL_IF(!(factor >= 0) || !isfinite(factor), RK_INVALID_ARGUMENT,
               "a learning-rate factor must be a finite number of 0 or more, not %g", factor);
    e->learning_rate_factor = factor;
    e->ops->scale_learning_rate(e, factor);
    return RK_OK;
}

static void local_scale_learning_rate(rk_embeddings *e, double factor) {
    (void)e, (void)factor; /* steps read the collection's own */
}

rk_status rk_embeddings_find_table(const rk_embeddings *e, const char *name, rk_table **out) {
    int32_t t = rk_name_index_find(&e->table_names, name);
    RK_FAIL_IF(t < 0, RK_NOT_FOUND, "there is no table '%s'", name);
    *out = &e->tables[t];
    return RK_OK;
}

/* All tables have the same batches, but that a state may have been written since. */
static int64_t local_pin_rows(rk_embeddings *e, int64_t oldest) {
    int64_t now = -1;
    for (int32_t t = 0; t < e->n_tables; t++) {
        rk_dynamic_table *dynamic = e->tables[t].dynamic;
        if (!dynamic || e->table_begins[t] == e->table_begins[t + 1]) continue;
        if (now < 0) now = dynamic->n_batches;
        dynamic->config.n_pinned = oldest < now ? now - oldest : 0;
    }
    return now < 0 ? 0 : now;
}

static rk_status local_read_rows(const rk_embeddings *e, const rk_row_range *range, float *out) {
    const rk_table *t = &e->tables[range->table];
    size_t width = (size_t)range->width;
    if (range->slot == RK_ROW_VALUES)
        for (int64_t i = 0; i < range->n; i++)
            rk_row_load(&t->rows, range->first + i, out + i * range->width);
    else if (range->n)
        memcpy(out, t->slot_values[range->slot] + (size_t)range->first * width,
               (size_t)range->n * width * sizeof *out);
    return RK_OK;
}

static rk_status local_write_rows(rk_embeddings *e, const rk_row_range *range, const float *rows) {
    const rk_table *t = &e->tables[range->table];
    size_t width = (size_t)range->width;
    RK_FAIL_IF(t->only_read, RK_UNSUPPORTED,
               "the rows of table '%s' are an export's, which are only read\n"
               "hint: open the checkpoint, or the export with its rows in memory",
               t->config.name);
    if (range->slot == RK_ROW_VALUES)
        for (int64_t i = 0; i < range->n; i++)
            rk_table_store_row(t, range->first + i, rows + i * range->width, 0);
    else if (range->n)
        memcpy(t->slot_values[range->slot] + (size_t)range->first * width, rows,
               (size_t)range->n * width * sizeof *rows);
    return RK_OK;
}

static rk_status local_read_step(const rk_embeddings *e, int32_t table, int64_t *out) {
    *out = e->tables[table].step;
    return RK_OK;
}

static void local_write_step(rk_embeddings *e, int32_t table, int64_t step) {
    e->tables[table].step = step;
}

const rk_embeddings_ops rk_local_embeddings = {.free = local_free,
                                               .bytes = local_bytes,
                                               .create_batch = rk_local_lookup_create,
                                               .free_batch = rk_local_lookup_free,
                                               .lookup_eval = rk_local_lookup_eval,
                                               .look_up = rk_local_lookup_look_up,
                                               .backward = rk_local_lookup_backward,
                                               .apply_gradients = rk_local_lookup_apply_gradients,
                                               .step = rk_pending_gradients_apply,
                                               .zero_gradients = rk_pending_gradients_zero,
                                               .scale_learning_rate = local_scale_learning_rate,
                                               .pin_rows = local_pin_rows,
                                               .read_rows = local_read_rows,
                                               .write_rows = local_write_rows,
                                               .read_step = local_read_step,
                                               .write_step = local_write_step};

rk_embeddings *rk_embeddings_empty(void) {
    static rk_embeddings none = {.ops = &rk_local_embeddings};
    return &none;
}

bool rk_embeddings_table_has_sorted_keys(const rk_embeddings *e, const char *table) {
    int32_t t = rk_name_index_find(&e->table_names, table);
    return t >= 0 && e->tables[t].sorted_keys;
}

rk_row_source *rk_embeddings_row_source(const rk_embeddings *e) {
    return e->source;
}

rk_status rk_embeddings_state_dict(rk_embeddings *e, rk_state_dict *state) {
    if (rk_row_source_is_remote(e->source)) return RK_OK; /* it has nothing */
    for (int32_t t = 0; t < e->n_tables; t++) RK_TRY(rk_table_state_dict(&e->tables[t], state));
    return RK_OK;
}

void rk_embeddings_set_micro_batches(rk_embeddings *e, int32_t feature, rk_micro_batches micro_batches) {
    e->micro_batches[feature] = micro_batches;
}

rk_status rk_embeddings_set_l2(rk_embeddings *e, const char *table, double l2, double l2_full) {
    RK_FAIL_IF(!(l2 >= 0) || !(l2_full >= 0) || isinf(l2) || isinf(l2_full), RK_INVALID_ARGUMENT,
               "table '%s': l2 and l2_full must be finite numbers of 0 or more", table);
    rk_table *t;
    RK_TRY(rk_embeddings_find_table(e, table, &t));
    t->l2 = l2;
    t->l2_full = l2_full;
    return RK_OK;
}

int32_t rk_embeddings_n_tables(const rk_embeddings *e) {
    return e->n_tables;
}
const rk_table_config *rk_embeddings_table_config(const rk_embeddings *e, int32_t table) {
    return &e->tables[table].config;
}
const rk_optimizer *rk_embeddings_table_optimizer(const rk_embeddings *e, int32_t table) {
    return &e->tables[table].optimizer;
}
const rk_dynamic_config *rk_embeddings_dynamic_config(const rk_embeddings *e, int32_t table) {
    return rk_table_is_dynamic(&e->tables[table]) ? &e->tables[table].dynamic_config : NULL;
}
uint64_t rk_embeddings_table_bytes(const rk_embeddings *e, int32_t table) {
    return rk_table_bytes(&e->tables[table]);
}
