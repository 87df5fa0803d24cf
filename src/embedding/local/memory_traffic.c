/* How many bytes a batch's lookups and updates move in memory. */
#include "embedding/local/collection_internal.h"

static int64_t count_distinct_rows(const rk_row_uses *plan) {
    int64_t n = 0;
    for (uint32_t p = 0; p < plan->n_parts; p++)
        for (uint32_t i = plan->part_begins[p]; i < plan->part_begins[p + 1]; i++)
            n += i == plan->part_begins[p] ||
                 rk_row_use_place(plan->uses[i]) != rk_row_use_place(plan->uses[i - 1]);
    return n;
}

rk_memory_traffic rk_embeddings_memory_traffic(const rk_embeddings *e) {
    rk_memory_traffic traffic = {0};
    const rk_batch_context *batch_context = &e->batch_contexts[e->now];
    for (int32_t f = 0; f < e->n_features; f++) {
        const rk_table_config *table = &e->tables[e->feature_tables[f]].config;
        const rk_feature_bags *use = &batch_context->uses[f];
        traffic.n_ids += use->n_ids;
        traffic.lookup_bytes += (uint64_t)table->dim * ((uint64_t)use->n_ids * rk_dtype_bytes(table->dtype) +
                                                        (uint64_t)use->n_bags * sizeof(float));
    }
    for (int32_t t = 0; t < e->n_tables; t++) {
        if (!rk_table_takes_updates(e, t)) continue;
        const rk_table *table = &e->tables[t];
        int64_t n_rows = count_distinct_rows(&batch_context->plans[t]),
                n_stepped = table->l2_full != 0 ? table->config.n_rows : n_rows;
        uint64_t row_bytes = rk_table_bytes(table) / (uint64_t)rk_table_rows_in_memory(table);
        traffic.n_rows += n_rows;
        traffic.update_bytes +=
            (uint64_t)batch_context->plans[t].n * (uint64_t)table->config.dim * sizeof(float) +
            2 * row_bytes * (uint64_t)n_stepped;
    }
    return traffic;
}
