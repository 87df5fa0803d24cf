/* Which tables are on the device as a whole, and how the caches of the others divide the budget. */
#include "embedding/cuda/device_tables_internal.h"

static uint64_t device_bytes_per_row(const rk_cuda_table *table) {
    uint64_t bytes = (uint64_t)table->dim * rk_dtype_bytes((rk_dtype)table->dtype);
    for (int s = 0; s < 2; s++) bytes += (uint64_t)table->slot_widths[s] * sizeof(float);
    if (table->is_dynamic) bytes += sizeof *table->keys;
    return bytes + (rk_cuda_table_is_cached(table) ? sizeof(rk_cuda_frame) : 0);
}

uint64_t rk_device_tables_bytes_of_table(const rk_cuda_table *table) {
    return table->n_places * device_bytes_per_row(table);
}

static int width_class_of(int32_t dim) {
    int c = 0;
    while (c < RK_CUDA_CLASSES - 1 && (4 << c) < dim) c++;
    return c;
}

/* Lent rows are f32, without slots, and so many as will come; those that others have combined are summed by
 * nobody. */
static void fill_table_descriptor(rk_device_tables *d, int32_t number, bool takes_updates) {
    const rk_table *home = d->homes[number];
    rk_cuda_table *to = &d->tables[number];
    bool is_trained = takes_updates && !home->config.frozen;
    uint64_t n_rows = d->lent ? 0 : (uint64_t)(home->dynamic ? home->dynamic->n_places : home->config.n_rows);
    *to = (rk_cuda_table){.dtype = d->lent ? RK_F32 : home->config.dtype,
                          .dim = home->config.dim,
                          .class_ = width_class_of(home->config.dim),
                          .is_trained = is_trained,
                          .checks_finite = is_trained || (home->part.unplanned && !home->config.frozen),
                          .n_parts = 1,
                          .is_dynamic = home->dynamic != NULL,
                          .trains_shared_rows = home->dynamic_config.oov || home->dynamic_config.n_cold,
                          .has_cold_rows = home->dynamic_config.n_cold > 0,
                          .n_rows = n_rows,
                          .n_places = n_rows};
    if (d->lent) return;
    if (home->part.n_parts) to->n_parts = (uint32_t)home->part.n_parts;
    to->part = (uint32_t)home->part.part;
    to->first_column = home->part.first_column;
    for (int s = 0; s < home->n_slots; s++) {
        to->slot_widths[s] = home->slots[s].per_row ? 1 : home->config.dim;
        to->slot_initial[s] = home->slots[s].initial;
    }
}

/* By class, then as the collection has them. */
static void fill_table_descriptors(rk_device_tables *d) {
    rk_embeddings *e = d->embeddings;
    int32_t number = 0;
    for (int c = 0; c < RK_CUDA_CLASSES; c++)
        for (int32_t t = 0; t < d->n_tables; t++) {
            if (width_class_of(e->tables[t].config.dim) != c) continue;
            d->homes[number] = &e->tables[t];
            fill_table_descriptor(d, number, rk_table_takes_updates(e, t));
            if (d->width < (e->tables[t].config.dim + 3) / 4 * 4)
                d->width = (e->tables[t].config.dim + 3) / 4 * 4;
            d->numbers[t] = number++;
        }
}

/* Whether a table is to be there as a whole: each step updates all its rows, or its rows come and go. */
static bool must_stay_whole(const rk_table *home) {
    return home->l2_full != 0 || home->dynamic;
}

/* The largest table that is there as a whole and need not be; -1: none. */
static int32_t find_largest_whole_table(const rk_device_tables *d) {
    int32_t largest = -1;
    for (int32_t t = 0; t < d->n_tables; t++)
        if (!rk_cuda_table_is_cached(&d->tables[t]) && !must_stay_whole(d->homes[t]) &&
            (largest < 0 || rk_device_tables_bytes_of_table(&d->tables[t]) >
                                rk_device_tables_bytes_of_table(&d->tables[largest])))
            largest = t;
    return largest;
}

/* A set of each cached table, and the tables that are there as a whole. */
static uint64_t minimum_table_bytes(const rk_device_tables *d) {
    uint64_t bytes = 0;
    for (int32_t t = 0; t < d->n_tables; t++)
        bytes += rk_cuda_table_is_cached(&d->tables[t]) ? RK_CUDA_WAYS * device_bytes_per_row(&d->tables[t])
                                                        : rk_device_tables_bytes_of_table(&d->tables[t]);
    return bytes;
}

/* What the caches may take of the budget, in proportion to the tables' rows; each at least one set. */
static void divide_cache_budget(rk_device_tables *d, uint64_t budget_bytes) {
    uint64_t left = budget_bytes - minimum_table_bytes(d);
    double all = 0;
    for (int32_t t = 0; t < d->n_tables; t++)
        all += rk_cuda_table_is_cached(&d->tables[t])
                   ? (double)(d->tables[t].n_rows * device_bytes_per_row(&d->tables[t]))
                   : 0;
    for (int32_t t = 0; t < d->n_tables; t++) {
        rk_cuda_table *table = &d->tables[t];
        if (!rk_cuda_table_is_cached(table)) continue;
        uint64_t set_bytes = RK_CUDA_WAYS * device_bytes_per_row(table),
                 most = (table->n_rows + RK_CUDA_WAYS - 1) / RK_CUDA_WAYS;
        table->n_sets =
            1 + (uint64_t)((double)left * ((double)(table->n_rows * device_bytes_per_row(table)) / all)) /
                    set_bytes;
        if (table->n_sets > most) table->n_sets = most;
        table->n_places = table->n_sets * RK_CUDA_WAYS;
        table->n_tags = (table->n_rows + table->n_sets - 1) / table->n_sets;
    }
}

/* Keys only of what is sorted: tables that are trained or cached. */
void rk_device_tables_assign_sort_keys(rk_device_tables *d) {
    d->n_keys = 0;
    for (int32_t t = 0; t < d->n_tables; t++) {
        rk_cuda_table *table = &d->tables[t];
        table->first_key = d->n_keys;
        table->n_keys = rk_cuda_table_is_cached(table) ? table->n_sets * table->n_tags
                        : table->is_trained            ? table->n_rows
                                                       : 0;
        d->n_keys += table->n_keys;
        d->caches |= rk_cuda_table_is_cached(table);
    }
}

static uint64_t count_bytes_of_whole_tables(const rk_device_tables *d) {
    uint64_t bytes = 0;
    for (int32_t t = 0; t < d->n_tables; t++)
        bytes += rk_cuda_table_is_cached(&d->tables[t]) ? 0 : rk_device_tables_bytes_of_table(&d->tables[t]);
    return bytes;
}

/* Whether the caches have at least a quarter of the budget, unless only small tables could make room for
 * them. */
static bool is_cache_budget_balanced(const rk_device_tables *d, uint64_t budget_bytes, int32_t largest) {
    return budget_bytes - count_bytes_of_whole_tables(d) >= budget_bytes / 4 || largest < 0 ||
           rk_device_tables_bytes_of_table(&d->tables[largest]) <= budget_bytes / 16;
}

/* The largest ones become caches, until the rest fits beside them. */
static rk_status choose_cached_tables(rk_device_tables *d, uint64_t budget_bytes) {
    if (count_bytes_of_whole_tables(d) <= budget_bytes) return RK_OK;
    for (;;) {
        int32_t t = find_largest_whole_table(d);
        uint64_t least = minimum_table_bytes(d);
        if (least <= budget_bytes && is_cache_budget_balanced(d, budget_bytes, t)) return RK_OK;
        RK_FAIL_IF(t < 0, RK_INVALID_ARGUMENT,
                   "the tables do not fit %llu bytes of GPU memory, not even behind a cache\nhint: give them "
                   "at least %llu",
                   (unsigned long long)budget_bytes, (unsigned long long)least);
        d->tables[t].n_sets = 1;
    }
}

rk_status rk_device_tables_plan_memory(rk_device_tables *d, uint64_t budget_bytes) {
    fill_table_descriptors(d);
    if (budget_bytes == 0) budget_bytes = count_bytes_of_whole_tables(d);
    RK_TRY(choose_cached_tables(d, budget_bytes));
    divide_cache_budget(d, budget_bytes);
    rk_device_tables_assign_sort_keys(d);
    for (int32_t t = 0; t < d->n_tables; t++)
        RK_FAIL_IF(d->tables[t].n_places >= RK_CUDA_NONE, RK_UNSUPPORTED,
                   "table '%s': 2^32 rows or more on one GPU", d->homes[t]->part.name);
    return RK_OK;
}
