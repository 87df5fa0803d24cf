/* Rows of a table, the state of its optimizer beside them, and its count of steps: read and written. */
#include "embedding/local/collection_internal.h"

static rk_status check_row_range(const rk_embeddings *e, const char *name, int64_t first, int64_t n,
                                 rk_row_range *out) {
    rk_table *table;
    RK_TRY(rk_embeddings_find_table(e, name, &table));
    RK_FAIL_IF(rk_table_is_dynamic(table), RK_UNSUPPORTED,
               "table '%s' is dynamic: its rows have keys, and no numbers\n"
               "hint: rk_embeddings_read_state gives them with their keys",
               name);
    RK_FAIL_IF(first < 0 || n < 0 || first > table->config.n_rows - n, RK_INVALID_ARGUMENT,
               "table '%s' has %lld rows, but %lld from row %lld were requested", name,
               (long long)table->config.n_rows, (long long)n, (long long)first);
    RK_FAIL_IF(rk_row_source_is_remote(e->source), RK_UNSUPPORTED,
               "the rows of table '%s' are not in this process\nhint: open the checkpoint", name);
    *out = (rk_row_range){.table = (int32_t)(table - e->tables),
                          .slot = RK_ROW_VALUES,
                          .width = table->config.dim,
                          .first = first,
                          .n = n};
    return RK_OK;
}

rk_status rk_embeddings_read_rows(const rk_embeddings *e, const char *table, int64_t first, int64_t n,
                                  float *out) {
    rk_row_range range;
    RK_TRY(check_row_range(e, table, first, n, &range));
    return e->ops->read_rows(e, &range, out);
}

rk_status rk_embeddings_write_rows(rk_embeddings *e, const char *table, int64_t first, int64_t n,
                                   const float *rows) {
    rk_row_range range;
    RK_TRY(check_row_range(e, table, first, n, &range));
    return e->ops->write_rows(e, &range, rows);
}

/* Over ranks the table here has no slots: its optimizer tells them. */
static int slots_of_table(const rk_table *table, rk_slot out[RK_MAX_SLOTS]) {
    return table->config.frozen ? 0 : rk_optimizer_list_slots(&table->optimizer, out);
}

const char *rk_embeddings_slot_name(const rk_embeddings *e, const char *table, int32_t slot, int32_t *width) {
    rk_slot slots[RK_MAX_SLOTS];
    int32_t t = rk_name_index_find(&e->table_names, table);
    if (t < 0 || slot < 0 || slot >= slots_of_table(&e->tables[t], slots)) return NULL;
    if (width) *width = slots[slot].per_row ? 1 : e->tables[t].config.dim;
    return slots[slot].name;
}

static rk_status check_slot_range(const rk_embeddings *e, const char *name, int32_t slot, int64_t first,
                                  int64_t n, rk_row_range *out) {
    RK_TRY(check_row_range(e, name, first, n, out));
    RK_FAIL_IF(!rk_embeddings_slot_name(e, name, slot, &out->width), RK_INVALID_ARGUMENT,
               "the optimizer of table '%s' has no slot %d", name, (int)slot);
    out->slot = slot;
    return RK_OK;
}

rk_status rk_embeddings_read_slot(const rk_embeddings *e, const char *table, int32_t slot, int64_t first,
                                  int64_t n, float *out) {
    rk_row_range range;
    RK_TRY(check_slot_range(e, table, slot, first, n, &range));
    return e->ops->read_rows(e, &range, out);
}

rk_status rk_embeddings_write_slot(rk_embeddings *e, const char *table, int32_t slot, int64_t first,
                                   int64_t n, const float *values) {
    rk_row_range range;
    RK_TRY(check_slot_range(e, table, slot, first, n, &range));
    return e->ops->write_rows(e, &range, values);
}

rk_status rk_embeddings_read_step(const rk_embeddings *e, const char *table, int64_t *step) {
    rk_row_range range;
    RK_TRY(check_row_range(e, table, 0, 0, &range));
    return e->ops->read_step(e, range.table, step);
}

rk_status rk_embeddings_write_step(rk_embeddings *e, const char *table, int64_t step) {
    rk_row_range range;
    RK_TRY(check_row_range(e, table, 0, 0, &range));
    RK_FAIL_IF(step < 0, RK_INVALID_ARGUMENT, "table '%s' cannot have taken %lld steps", table,
               (long long)step);
    e->ops->write_step(e, range.table, step);
    return RK_OK;
}
