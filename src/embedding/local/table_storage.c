#include "embedding/local/table_storage.h"

#include <string.h>

#include "base/buffer.h"
#include "base/float16.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "embedding/local/initializer.h"

enum { INIT_BLOCK_ROWS = 1024 };

uint64_t rk_table_rounding_seed(const rk_table *table, int64_t draw) {
    return rk_hash_combine(table->seed ^ table->name_hash, (uint64_t)draw);
}

void rk_table_store_row(const rk_table *table, int64_t row, const float *values, int64_t draw) {
    rk_row_store(&table->rows, row, values, rk_table_rounding_seed(table, draw),
                 (uint64_t)rk_id_of_row(&table->rows, row));
}

/* Keys have 64 bits. Those that a static table has for ids have the values that it would give them. */
static void compute_initial_row(const rk_table *table, int64_t id, float *out) {
    enum { ID_BITS = 47 };
    uint64_t high = (uint64_t)id >> ID_BITS, low = (uint64_t)id & (((uint64_t)1 << ID_BITS) - 1);
    rk_initialize_row(&table->config.initializer, table->seed,
                      high ? rk_hash_combine(table->name_hash, high) : table->name_hash, (int64_t)low,
                      table->part.dim, out);
}

/* is_fresh: its pages are zero already. */
static void init_row_slots(const rk_table *table, int64_t row, bool is_fresh) {
    for (int s = 0; s < table->n_slots; s++) {
        if (is_fresh && table->slots[s].initial == 0) continue;
        int64_t width = table->slots[s].per_row ? 1 : table->config.dim;
        for (int64_t k = 0; k < width; k++) table->slot_values[s][row * width + k] = table->slots[s].initial;
    }
}

static void init_row_block(void *context, size_t task, int thread) {
    (void)thread;
    rk_table *table = context;
    int64_t first = (int64_t)task * INIT_BLOCK_ROWS, last = first + INIT_BLOCK_ROWS;
    if (last > table->config.n_rows) last = table->config.n_rows;
    float row[RK_MAX_DIM];
    for (int64_t r = first; r < last; r++) { /* of this part */
        compute_initial_row(table, rk_id_of_row(&table->rows, r), row);
        rk_table_store_row(table, r, row + table->part.first_column, 0);
        init_row_slots(table, r, true);
    }
}

static size_t slot_bytes(const rk_table *table, int s, int64_t n_rows) {
    return sizeof(float) * (size_t)n_rows * (table->slots[s].per_row ? 1 : (size_t)table->config.dim);
}

static size_t row_bytes(const rk_table *table, int64_t n_rows) {
    return (size_t)n_rows * (size_t)table->config.dim * rk_dtype_bytes(table->config.dtype);
}

/* So that what a key learned with others is not lost when it gets a row. Its slots begin anew. */
static void copy_cold_row(rk_table *table, int64_t row) {
    size_t bytes = row_bytes(table, 1);
    char *rows = table->rows.data;
    int64_t cold = rk_dynamic_shared_row(table->dynamic, rk_id_of_row(&table->rows, row));
    memcpy(rows + (size_t)row * bytes, rows + (size_t)cold * bytes, bytes);
}

void rk_table_init_row(rk_table *table, int64_t row) {
    float values[RK_MAX_DIM];
    if (table->dynamic_config.n_cold) {
        copy_cold_row(table, row);
    } else {
        compute_initial_row(table, rk_id_of_row(&table->rows, row), values);
        rk_table_store_row(table, row, values, 0);
    }
    init_row_slots(table, row, false);
}

static void compute_array_sizes(rk_table *table, int64_t n_rows) {
    table->rows_bytes = row_bytes(table, n_rows);
    for (int s = 0; s < table->n_slots; s++) table->slot_bytes[s] = slot_bytes(table, s, n_rows);
}

static uint64_t bytes_of_rows(const rk_rows *rows) {
    uint64_t tails = rows->codes.bits == 8 ? 2 * sizeof(float) : 2 * sizeof(uint16_t),
             dim = (uint64_t)rows->dim;
    return rows->dtype == RK_U8 ? (dim * (uint64_t)rows->codes.bits + 7) / 8 + tails
                                : dim * rk_dtype_bytes(rows->dtype);
}

/* Rows that are elsewhere, and never updated. */
static void use_external_rows(rk_table *table, const rk_rows *rows) {
    table->only_read = true;
    table->config.frozen = true;
    table->rows = *rows;
    table->rows_bytes = (uint64_t)table->config.n_rows * bytes_of_rows(rows);
}

static rk_status allocate_row_arrays(rk_table *table) {
    RK_TRY(rk_pages_alloc(table->rows_bytes, &table->rows.data));
    for (int s = 0; s < table->n_slots; s++) {
        RK_TRY(rk_pages_alloc(table->slot_bytes[s], &table->slot_values[s]));
    }
    return RK_OK;
}

#define SMALLER(rows) "use " rows ", a smaller dim, dtype: bf16 or an optimizer with less state"
static const char *shrink_hint(const rk_table *table) {
    if (table->dynamic_config.n_cold) return SMALLER("a smaller max_capacity or missing.hash");
    if (rk_table_is_dynamic(table)) return SMALLER("a smaller max_capacity");
    return SMALLER("fewer rows (hash, min_count), rows for only those ids that are met (key, max_capacity)")
        ", or shard the tables over machines (docs/distributed.md)";
}

static rk_status grow_row_arrays(rk_table *table, int64_t n_places) {
    RK_TRY(rk_pages_reserve(&table->rows.data, &table->rows_bytes, row_bytes(table, n_places)));
    for (int s = 0; s < table->n_slots; s++)
        RK_TRY(
            rk_pages_reserve(&table->slot_values[s], &table->slot_bytes[s], slot_bytes(table, s, n_places)));
    return RK_OK;
}

/* Where the keys of rows in memory are. */
static void set_keys_of_rows(rk_table *table) {
    const rk_key_info *info = table->dynamic->info;
    bool has_info = !table->dynamic->disk_keys;
    table->rows.keys = has_info ? &info->key : table->tier ? table->tier->keys : NULL;
    table->rows.key_stride = has_info ? sizeof *info / sizeof info->key : 1;
}

/* With a tier the arrays grow for themselves. */
static rk_status grow_table_memory(rk_table *table, int64_t n_places) {
    if (table->tier) return rk_dynamic_grow_rows(table->dynamic, n_places);
    RK_TRY(grow_row_arrays(table, n_places));
    rk_status status = rk_dynamic_grow_rows(table->dynamic, n_places);
    set_keys_of_rows(table);
    return status;
}

rk_status rk_table_grow(rk_table *table, int64_t n_places) {
    if (n_places <= table->dynamic->n_places) return RK_OK;
    rk_status status = grow_table_memory(table, n_places);
    return status == RK_OK
               ? RK_OK
               : rk_error_hint(rk_error_context(status, "table '%s' of %lld rows", table->part.name,
                                                (long long)n_places - table->dynamic->n_shared),
                               "%s", shrink_hint(table));
}

/* The kernel hands out more than there is, and ends the program when it is used. */
static void warn_of_overcommit(const rk_table *table) {
    static const double not_worth_looking = 16e6;
    double bytes = (double)rk_table_bytes(table), available;
    if (bytes < not_worth_looking || (available = (double)rk_memory_available()) == 0 || bytes <= available)
        return;
    rk_log(RK_LOG_WARNING,
           "table '%s' takes %.1f GB, but only %.1f GB of memory are free: the system may kill the "
           "program\nhint: %s",
           table->part.name, bytes * 1e-9, available * 1e-9, shrink_hint(table));
}

/* The nearest half, and if that is beyond the bound the one before it. */
static double round_to_half_within(rk_dtype dtype, double bound, bool from_above) {
    uint16_t half = dtype == RK_BF16 ? rk_bf16_from_f32((float)bound) : rk_f16_from_f32((float)bound);
    for (;;) {
        double value = (double)(dtype == RK_BF16 ? rk_bf16_to_f32(half) : rk_f16_to_f32(half));
        if (from_above ? value <= bound : value >= bound) return value;
        bool shrinks = from_above == (value > 0); /* towards zero, or away from it */
        half = value == 0 ? (from_above ? 0x8001 : 0x0001) : (uint16_t)(shrinks ? half - 1 : half + 1);
    }
}

/* Weights are clipped before they are rounded. Between bounds that are numbers of the rows' type, rounding
 * either way stays. */
static rk_status round_clip_bounds(rk_table *table) {
    rk_optimizer *o = &table->optimizer;
    if (table->config.dtype == RK_F32) return RK_OK;
    double min = round_to_half_within(table->config.dtype, o->clip_weight_min, false),
           max = round_to_half_within(table->config.dtype, o->clip_weight_max, true);
    if (min > max) {
        rk_error(RK_INVALID_ARGUMENT,
                 "table '%s': no %s number lies between clip_weight_min %g and clip_weight_max %g",
                 table->part.name, rk_dtype_name(table->config.dtype), o->clip_weight_min,
                 o->clip_weight_max);
        return rk_error_hint(RK_INVALID_ARGUMENT, "set 'dtype: f32', or move the bounds further apart");
    }
    o->clip_weight_min = min;
    o->clip_weight_max = max;
    return RK_OK;
}

/* Rows that there is memory for at first. */
static int64_t initial_rows_in_memory(const rk_table *table) {
    int64_t n = rk_dynamic_initial_rows(&table->dynamic_config);
    if (!rk_dynamic_has_disk_rows(&table->dynamic_config)) return n;
    size_t bytes = row_bytes(table, 1) + RK_TIER_PLACE_BYTES;
    for (int s = 0; s < table->n_slots; s++) bytes += slot_bytes(table, s, 1);
    int64_t least = rk_dynamic_n_shared_rows(&table->dynamic_config) + 1;
    uint64_t most = table->dynamic_config.memory_bytes / bytes;
    return most < (uint64_t)least ? least : most < (uint64_t)n ? (int64_t)most : n;
}

static rk_status create_disk_row_cache(rk_table *table, int64_t n_places) {
    RK_AUTOFREE char *folder = NULL;
    rk_cached_array arrays[1 + RK_MAX_SLOTS] = {{&table->rows.data, row_bytes(table, 1)}};
    for (int s = 0; s < table->n_slots; s++)
        arrays[1 + s] = (rk_cached_array){(void *const *)&table->slot_values[s], slot_bytes(table, s, 1)};
    RK_TRY(rk_table_row_folder_path(table, table->dynamic_config.storage, &folder));
    RK_TRY(rk_table_remove_other_parts(table, table->dynamic_config.storage));
    RK_TRY(rk_disk_row_cache_create(table->dynamic, folder, rk_table_row_log_id(table->part.name),
                                    table->dynamic_config.storage_bytes, n_places, arrays,
                                    (size_t)table->n_slots + 1, &table->tier));
    set_keys_of_rows(table);
    table->config.n_rows = n_places;
    return RK_OK;
}

static rk_status grow_cached_rows(void *context, int64_t n_places) {
    rk_table *table = context;
    set_keys_of_rows(table);
    RK_TRY(grow_row_arrays(table, n_places));
    table->config.n_rows = n_places;
    return RK_OK;
}

static void init_cached_row(void *context, int64_t place) {
    rk_table_init_row(context, place);
}

rk_status rk_table_load_rows_from_disk(rk_table *table, const rk_key_uses *uses, int32_t n_uses,
                                       bool is_training) {
    const rk_disk_row_cache_calls calls = {table, grow_cached_rows, init_cached_row};
    rk_status status = rk_disk_row_cache_load_batch(table->tier, uses, n_uses, is_training, &calls);
    set_keys_of_rows(table); /* they may have moved before it failed */
    return status;
}

static void init_shared_row_block(void *context, size_t task, int thread) {
    (void)thread;
    rk_table *table = context;
    int64_t first = (int64_t)task * INIT_BLOCK_ROWS, last = first + INIT_BLOCK_ROWS;
    if (last > table->dynamic->n_shared) last = table->dynamic->n_shared;
    float values[RK_MAX_DIM];
    for (int64_t row = first; row < last; row++) {
        rk_initialize_row(&table->config.initializer, table->seed,
                          rk_hash_combine(table->name_hash, UINT64_MAX), rk_id_of_row(&table->rows, row),
                          table->config.dim, values);
        rk_table_store_row(table, row, values, 0);
        init_row_slots(table, row, true);
    }
}

/* The rows that keys without one share; the others come with their keys. */
static rk_status init_dynamic_table(rk_table *table) {
    RK_TRY(rk_dynamic_create(&table->dynamic_config, table->seed, table->name_hash, &table->dynamic));
    int64_t n_shared = table->dynamic->n_shared;
    set_keys_of_rows(table);
    table->config.n_rows = n_shared;
    if (rk_dynamic_has_disk_rows(&table->dynamic_config))
        RK_TRY(create_disk_row_cache(table, initial_rows_in_memory(table)));
    warn_of_overcommit(table); /* before shared rows are written to */
    if (table->dynamic_config.oov || table->dynamic_config.n_cold)
        rk_parallel_for(rk_block_count((size_t)n_shared, INIT_BLOCK_ROWS), init_shared_row_block, table);
    return RK_OK;
}

rk_status rk_table_init(rk_table *table, const rk_table_config *config, const rk_optimizer *optimizer,
                        uint64_t seed, const rk_table_part *part) {
    rk_table_part whole = {.n_rows = config->n_rows, .dim = config->dim};
    if (!part) part = &whole;
    *table = (rk_table){.part = *part, .config = *config, .optimizer = *optimizer, .seed = seed};
    if (part->dynamic) table->dynamic_config = *part->dynamic;
    if (part->dynamic && part->n_parts) {
        table->dynamic_config.part = part->part;
        table->dynamic_config.n_parts = part->n_parts;
    }
    if (part->n_here > 1) table->dynamic_config.memory_bytes /= (uint64_t)part->n_here;
    table->sorted_keys = part->sorted_keys;
    if (part->sorted_keys) table->config.n_rows = part->n_rows;
    table->config.name = NULL;
    char *name;
    RK_TRY(rk_strdup(config->name, &name));
    table->config.name = name;
    table->config.optimizer = &table->optimizer;
    if (!part->name) table->part.name = name;
    rk_status status = round_clip_bounds(table);
    if (status != RK_OK) {
        rk_table_release(table);
        return status;
    }
    table->name_hash = rk_hash_bytes(table->part.name, strlen(table->part.name), 0);
    table->n_slots =
        config->frozen || part->absent || part->rows ? 0 : rk_optimizer_list_slots(optimizer, table->slots);
    table->rows = (rk_rows){.dtype = config->dtype,
                            .dim = config->dim,
                            .n_parts = part->n_parts,
                            .part = part->part,
                            .first_column = part->first_column};
    if (part->absent) return RK_OK;
    if (part->rows) {
        use_external_rows(table, part->rows);
        return RK_OK;
    }
    compute_array_sizes(table, part->dynamic ? initial_rows_in_memory(table) : config->n_rows);
    if (part->is_outline) return RK_OK;
    status = allocate_row_arrays(table);
    if (status == RK_OK && part->dynamic) status = init_dynamic_table(table);
    if (status != RK_OK) {
        (void)rk_error_context(status, "table '%s' of %lld rows", table->part.name,
                               (long long)config->n_rows);
        if (status == RK_NO_MEMORY) (void)rk_error_hint(status, "%s", shrink_hint(table));
        rk_table_release(table);
        return status;
    }
    /* Fresh pages are the zeros that some tables begin with; not touching them keeps them out of memory until
     * used. */
    bool untouched = config->initializer.kind == RK_INIT_ZEROS;
    for (int s = 0; s < table->n_slots; s++) untouched = untouched && table->slots[s].initial == 0;
    if (untouched || part->dynamic) return RK_OK;
    warn_of_overcommit(table);
    rk_parallel_for(rk_block_count((size_t)config->n_rows, INIT_BLOCK_ROWS), init_row_block, table);
    return RK_OK;
}

void rk_table_release(rk_table *table) {
    if (table->tier) (void)rk_table_remove_other_parts(table, table->dynamic_config.storage);
    rk_disk_row_cache_free(table->tier);
    rk_dynamic_free(table->dynamic);
    if (!table->only_read) rk_pages_free(table->rows.data, table->rows_bytes);
    for (int s = 0; s < table->n_slots; s++) rk_pages_free(table->slot_values[s], table->slot_bytes[s]);
    rk_free((char *)(size_t)table->config.name);
    *table = (rk_table){0};
}

uint64_t rk_table_bytes(const rk_table *table) {
    uint64_t bytes = table->rows_bytes;
    for (int s = 0; s < table->n_slots; s++) bytes += table->slot_bytes[s];
    if (table->sorted_keys) return bytes + (uint64_t)table->sorted_keys->n * sizeof(int64_t);
    if (!rk_table_is_dynamic(table)) return bytes;
    if (rk_dynamic_has_disk_rows(&table->dynamic_config))
        bytes += table->rows_bytes / row_bytes(table, 1) * RK_TIER_PLACE_BYTES;
    return bytes +
           (uint64_t)rk_table_rows_in_memory(table) * (uint64_t)rk_dynamic_key_bytes(&table->dynamic_config);
}

/* "table/<table>/<tensor>", and of a part of the table which rows and columns: "[2:1000:4,0:64]" for rows 2,
 * 6, ... below 1000 and columns 0 to 63. */
static rk_status add_part_tensor(rk_table *table, rk_state_dict *state, const char *tensor, rk_dtype type,
                                 int64_t dim0, int64_t dim1, void *data) {
    const rk_table_part *part = &table->part;
    rk_buffer name = {0};
    rk_buffer_printf(&name, "table/%s/%s", part->name, tensor);
    if (part->n_parts > 1 || part->dim != table->config.dim) {
        rk_buffer_printf(&name, "[%d:%lld:%d", part->part, (long long)part->n_rows,
                         part->n_parts > 1 ? part->n_parts : 1);
        if ((dim1 || data == &table->step) && part->dim != table->config.dim)
            rk_buffer_printf(&name, ",%d:%d", part->first_column, part->first_column + table->config.dim);
        rk_buffer_append_text(&name, "]");
    }
    rk_status status = name.status;
    if (status == RK_OK) status = rk_state_dict_add(state, name.data, type, dim0, dim1, data);
    rk_buffer_release(&name);
    return status;
}

static rk_status add_row_tensors(rk_table *table, rk_state_dict *state, const char *name, int64_t first,
                                 int64_t n) {
    const rk_rows *rows = &table->rows;
    bool codes = rows->dtype == RK_U8;
    rk_dtype type = codes ? RK_U8 : table->config.dtype;
    int64_t columns = codes ? rows->codes.stride : table->config.dim;
    char *data = rows->data ? (char *)rows->data + (size_t)(first * columns) * rk_dtype_bytes(type) : NULL;
    RK_TRY(add_part_tensor(table, state, name, type, n, columns, data));
    rk_state_dict_set_kind(state, table->only_read ? RK_STATE_ROWS_READ : RK_STATE_ROWS);
    return RK_OK;
}

/* Rows that are elsewhere: those of the keys, and behind them those of all others. */
static rk_status add_sorted_key_tensors(rk_table *table, rk_state_dict *state) {
    int64_t n = table->sorted_keys->n;
    RK_TRY(add_part_tensor(table, state, "keys", RK_I64, n, 0, (void *)(size_t)table->sorted_keys->keys));
    rk_state_dict_set_kind(state, RK_STATE_KEYS);
    RK_TRY(add_row_tensors(table, state, "rows", 0, n));
    return add_row_tensors(table, state, "oov_rows", n, rk_dynamic_n_shared_rows(&table->dynamic_config));
}

rk_status rk_table_state_dict(rk_table *table, rk_state_dict *state) {
    if (table->dynamic) return rk_dynamic_table_state_dict(table, state);
    int64_t n_rows = table->config.n_rows, dim = table->config.dim;
    RK_TRY(table->sorted_keys ? add_sorted_key_tensors(table, state)
                              : add_row_tensors(table, state, "rows", 0, n_rows));
    for (int s = 0; s < table->n_slots; s++)
        RK_TRY(add_part_tensor(table, state, table->slots[s].name, RK_F32, n_rows,
                               table->slots[s].per_row ? 0 : dim, table->slot_values[s]));
    return add_part_tensor(table, state, "step", RK_I64, 1, 0, &table->step);
}
