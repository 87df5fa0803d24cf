#include "embedding/cuda/device_tables_internal.h"

#include "base/memory.h"

static size_t bytes_of_slot(const rk_cuda_table *table, int s) {
    return (size_t)table->n_places * (size_t)table->slot_widths[s] * sizeof(float);
}

static size_t bytes_of_rows(const rk_cuda_table *table) {
    return (size_t)table->n_places * (size_t)table->dim * rk_dtype_bytes((rk_dtype)table->dtype);
}

static rk_status pin_host_rows(rk_device_tables *d, rk_cuda_table *table, const rk_table *home) {
    RK_TRY(rk_device_pin(d->device, home->rows.data, home->rows_bytes));
    table->home_rows = home->rows.data;
    for (int s = 0; s < home->n_slots; s++) {
        RK_TRY(rk_device_pin(d->device, home->slot_values[s], home->slot_bytes[s]));
        table->home_slots[s] = home->slot_values[s];
    }
    return RK_OK;
}

static rk_status allocate_device_table(rk_device_tables *d, int32_t t) {
    const rk_table *home = d->homes[t];
    rk_cuda_table *table = &d->tables[t];
    if (d->lent) return RK_OK;
    RK_TRY(rk_device_tables_alloc(d, bytes_of_rows(table), &table->rows));
    for (int s = 0; s < home->n_slots; s++)
        RK_TRY(rk_device_tables_alloc(d, bytes_of_slot(table, s), &table->slots[s]));
    if (table->is_dynamic)
        RK_TRY(rk_device_tables_alloc(d, (size_t)table->n_places * sizeof *table->keys, &table->keys));
    if (!rk_cuda_table_is_cached(table)) return RK_OK;
    RK_TRY(rk_device_tables_alloc(d, (size_t)table->n_places * sizeof *table->frames, &table->frames));
    return pin_host_rows(d, table, home);
}

static void free_device_table(rk_device_tables *d, rk_cuda_table *table) {
    if (d->lent) return;
    rk_device_tables_dealloc(d, bytes_of_rows(table), table->rows);
    rk_device_tables_dealloc(d, (size_t)table->n_places * sizeof *table->keys, table->keys);
    rk_device_tables_dealloc(d, (size_t)table->n_places * sizeof *table->frames, table->frames);
    if (table->home_rows) rk_device_unpin(d->device, table->home_rows);
    for (int s = 0; s < 2; s++) {
        rk_device_tables_dealloc(d, bytes_of_slot(table, s), table->slots[s]);
        if (table->home_slots[s]) rk_device_unpin(d->device, table->home_slots[s]);
    }
}

/* Of `from` to a table that has room for its rows. */
static void copy_rows_to_grown_table(const rk_device_tables *d, const rk_cuda_table *table,
                                     const rk_cuda_table *from) {
    rk_stream_copy(d->stream, table->rows, from->rows, bytes_of_rows(from));
    for (int s = 0; s < 2; s++)
        if (from->slots[s])
            rk_stream_copy(d->stream, table->slots[s], from->slots[s], bytes_of_slot(from, s));
    rk_stream_copy(d->stream, table->keys, from->keys, (size_t)from->n_places * sizeof *from->keys);
}

static rk_status grow_device_table(rk_device_tables *d, int32_t t) {
    const rk_table *home = d->homes[t];
    rk_cuda_table before = d->tables[t], *table = &d->tables[t];
    table->rows = table->keys = NULL;
    table->slots[0] = table->slots[1] = NULL;
    table->n_rows = table->n_places = (uint64_t)home->dynamic->n_places;
    rk_status status = allocate_device_table(d, t);
    if (status == RK_OK) copy_rows_to_grown_table(d, table, &before);
    if (status == RK_OK) status = rk_stream_sync(d->stream);
    free_device_table(d, status == RK_OK ? &before : table);
    if (status == RK_OK) return RK_OK;
    *table = before;
    return rk_error_context(status, "table '%s' of %lld rows on the GPU", home->part.name,
                            (long long)(home->dynamic->n_places - home->dynamic->n_shared));
}

rk_status rk_device_tables_grow(rk_device_tables *d) {
    bool grows = false;
    for (int32_t t = 0; t < d->n_tables && !d->lent; t++)
        grows |= d->tables[t].is_dynamic && (uint64_t)d->homes[t]->dynamic->n_places > d->tables[t].n_places;
    if (!grows) return RK_OK;
    if (d->last_stream) RK_TRY(rk_stream_sync(d->last_stream)); /* steps under way have the old memory */
    for (int i = 0; i < 2; i++) RK_TRY(rk_device_batch_context_wait(&d->batch_contexts[i]));
    for (int32_t t = 0; t < d->n_tables; t++)
        if (d->tables[t].is_dynamic && (uint64_t)d->homes[t]->dynamic->n_places > d->tables[t].n_places)
            RK_TRY(grow_device_table(d, t));
    rk_device_tables_assign_sort_keys(d);
    return rk_device_upload(d->device, d->device_tables, d->tables, (size_t)d->n_tables * sizeof *d->tables);
}

static rk_status check_tables_are_whole(const rk_embeddings *e) {
    for (int32_t t = 0; t < e->n_tables; t++)
        RK_FAIL_IF(e->tables[t].part.absent || e->tables[t].part.n_parts > 1 ||
                       e->tables[t].part.dim != e->tables[t].config.dim,
                   RK_UNSUPPORTED, "table '%s': a table on a GPU must be whole", e->tables[t].part.name);
    return RK_OK;
}

static rk_status check_dynamic_tables_in_memory(const rk_embeddings *e) {
    for (int32_t t = 0; t < e->n_tables; t++)
        RK_FAIL_IF(e->tables[t].tier || e->tables[t].sorted_keys, RK_UNSUPPORTED,
                   "table '%s': a dynamic table on a GPU must have its keys and rows in memory",
                   e->tables[t].part.name);
    return RK_OK;
}

static void fill_feature_descriptors(rk_device_tables *d) {
    const rk_embeddings *e = d->embeddings;
    for (int32_t f = 0; f < d->n_features; f++) d->same_ids[f] = RK_UNKNOWN_FEATURE;
    for (int32_t f = 0; f < d->n_features; f++)
        d->features[f] =
            (rk_cuda_feature){d->numbers[e->feature_tables[f]], e->features[f].max_sequence_length,
                              e->features[f].combiner, !e->features[f].skip_validation};
}

static rk_status upload_descriptors(rk_device_tables *d) {
    size_t n_tables = (size_t)d->n_tables, n_features = (size_t)d->n_features;
    RK_TRY(rk_device_tables_alloc(d, n_tables * sizeof *d->tables, &d->device_tables));
    RK_TRY(rk_device_tables_alloc(d, n_features * sizeof *d->features, &d->device_features));
    RK_TRY(rk_device_tables_alloc(d, n_tables * sizeof *d->steps, &d->steps));
    RK_TRY(rk_device_tables_alloc(d, sizeof *d->at_hand, &d->at_hand));
    RK_TRY(rk_device_upload(d->device, d->device_tables, d->tables, n_tables * sizeof *d->tables));
    return rk_device_upload(d->device, d->device_features, d->features, n_features * sizeof *d->features);
}

static rk_status allocate_tables(rk_device_tables *d, size_t n_tables, size_t n_features) {
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_tables, d->numbers), RK_ARRAY(n_tables, d->homes),
                        RK_ARRAY(n_tables, d->tables), RK_ARRAY(n_features, d->features)));
    return RK_ALLOC_ALL(RK_ARRAY(n_features, d->uses), RK_ARRAY(n_features, d->keys),
                        RK_ARRAY(n_features, d->same_ids));
}

rk_status rk_device_tables_create(rk_embeddings *e, rk_device *device,
                                  const rk_device_tables_options *options, rk_device_tables **out) {
    if (!options->of_ranks) RK_TRY(check_tables_are_whole(e));
    RK_TRY(check_dynamic_tables_in_memory(e));
    rk_device_tables *d = NULL;
    rk_status status;
    RK_GOTO(rk_alloc(1, sizeof *d, &d));
    *d = (rk_device_tables){.embeddings = e,
                            .device = device,
                            .max_batch = options->max_batch,
                            .of_ranks = options->of_ranks,
                            .lent = options->lent,
                            .wide_keys = options->wide_keys};
    RK_GOTO(allocate_tables(d, (size_t)e->n_tables, (size_t)e->n_features));
    d->n_tables = e->n_tables; /* from now on: so many are there to be freed */
    d->n_features = e->n_features;
    RK_GOTO(rk_stream_create(device, &d->stream));
    RK_GOTO(rk_device_tables_plan_memory(d, options->budget_bytes));
    for (int32_t t = 0; t < d->n_tables; t++) d->has_dynamic |= d->tables[t].is_dynamic;
    fill_feature_descriptors(d);
    for (int32_t t = 0; t < d->n_tables; t++) RK_GOTO(allocate_device_table(d, t));
    RK_GOTO(upload_descriptors(d));
    for (int i = 0; i < 2; i++) RK_GOTO(rk_device_batch_context_init(d, &d->batch_contexts[i]));
    RK_GOTO(rk_device_tables_reload(d));
    *out = d;
    d = NULL;
done:
    rk_device_tables_free(d);
    return status;
}

void rk_device_tables_free(rk_device_tables *d) {
    if (!d) return;
    if (d->n_under_way && rk_device_tables_oldest_batch(d)->is_prepared)
        (void)rk_stream_sync(rk_device_tables_oldest_batch(d)->stream);
    for (int i = 0; i < 2; i++) rk_device_batch_context_release(d, &d->batch_contexts[i]);
    for (int32_t t = 0; t < d->n_tables; t++) free_device_table(d, &d->tables[t]);
    for (int32_t f = 0; f < d->n_features; f++) {
        rk_feature_bags_release(&d->uses[f]);
        rk_device_keys_release(&d->keys[f]);
    }
    rk_device_tables_unbind_activations(d);
    rk_device_free(d->device, d->device_tables);
    rk_device_free(d->device, d->device_features);
    rk_device_free(d->device, d->steps);
    rk_device_free(d->device, d->at_hand);
    rk_stream_free(d->stream);
    RK_FREE_ALL(d->places, d->numbers, d->homes, d->tables, d->features, d->uses, d->keys, d->same_ids, d);
}

rk_status rk_device_tables_borrow_rows(rk_device_tables *d, float *const *rows, const int64_t *n_rows) {
    for (int32_t t = 0; t < d->n_tables; t++) {
        rk_cuda_table *table = &d->tables[d->numbers[t]];
        table->rows = rows[t];
        table->n_rows = table->n_places = (uint64_t)n_rows[t];
    }
    rk_device_tables_assign_sort_keys(d);
    return rk_device_upload(d->device, d->device_tables, d->tables, (size_t)d->n_tables * sizeof *d->tables);
}

uint64_t rk_device_tables_bytes(const rk_device_tables *d) {
    return d->bytes;
}

static rk_status upload_or_download(rk_device_tables *d, void *device_memory, void *home, size_t n_bytes,
                                    bool to_device) {
    return to_device ? rk_device_upload(d->device, device_memory, home, n_bytes)
                     : rk_device_download(d->device, home, device_memory, n_bytes);
}

/* Of the first n rows. */
static rk_status upload_row_keys(rk_device_tables *d, const rk_cuda_table *table, const rk_key_info *info,
                                 uint64_t n) {
    enum { KEYS_AT_ONCE = 65536 };
    RK_AUTOFREE int64_t *keys = NULL;
    RK_TRY(rk_alloc(KEYS_AT_ONCE, sizeof *keys, &keys));
    for (uint64_t first = 0; first < n; first += KEYS_AT_ONCE) {
        size_t n_here = n - first < KEYS_AT_ONCE ? (size_t)(n - first) : KEYS_AT_ONCE;
        for (size_t i = 0; i < n_here; i++) keys[i] = info[first + i].key;
        RK_TRY(rk_device_upload(d->device, table->keys + first, keys, n_here * sizeof *keys));
    }
    return RK_OK;
}

/* Between the table's home and the device; a cache only gives back what was changed, and forgets its rows
 * where the home was. */
static rk_status upload_or_download_table(rk_device_tables *d, int32_t t, bool to_device) {
    const rk_table *home = d->homes[t];
    const rk_cuda_table *table = &d->tables[t];
    if (d->lent || (!to_device && !table->is_trained)) return RK_OK;
    if (rk_cuda_table_is_cached(table)) {
        rk_cuda_write_back_cache(d->stream, d->device_tables, (uint32_t)t, table->n_places, to_device);
        return rk_stream_sync(d->stream);
    }
    uint64_t n = (uint64_t)home->config.n_rows; /* of a dynamic table those that were ever in use */
    RK_TRY(upload_or_download(d, table->rows, home->rows.data, bytes_of_rows(table) / table->n_places * n,
                              to_device));
    for (int s = 0; s < home->n_slots; s++)
        RK_TRY(upload_or_download(d, table->slots[s], home->slot_values[s],
                                  bytes_of_slot(table, s) / table->n_places * n, to_device));
    return to_device && table->is_dynamic ? upload_row_keys(d, table, home->dynamic->info, n) : RK_OK;
}

static rk_status upload_or_download_tables(rk_device_tables *d, bool to_device) {
    for (int i = 0; i < 2; i++) RK_TRY(rk_device_batch_context_wait(&d->batch_contexts[i]));
    RK_TRY(rk_device_tables_grow(d)); /* for the rows of a checkpoint */
    for (int32_t t = 0; t < d->n_tables; t++) RK_TRY(upload_or_download_table(d, t, to_device));
    return RK_OK;
}

rk_status rk_device_tables_flush(rk_device_tables *d) {
    RK_TRY(rk_device_tables_check_no_rows_lost(d));
    return upload_or_download_tables(d, false);
}

rk_status rk_device_tables_reload(rk_device_tables *d) {
    d->lacks_rows = false;
    return upload_or_download_tables(d, true);
}

rk_status rk_device_tables_alloc(rk_device_tables *d, size_t n_bytes, void *out) {
    RK_TRY(rk_device_alloc(d->device, n_bytes ? n_bytes : 1, out));
    d->bytes += n_bytes;
    return RK_OK;
}

void rk_device_tables_dealloc(rk_device_tables *d, size_t n_bytes, void *memory) {
    if (!memory) return;
    rk_device_free(d->device, memory);
    d->bytes -= n_bytes;
}
