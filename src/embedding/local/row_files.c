/* Rows that are on a disk, in a checkpoint's folder: a folder for each table. */
#include <ctype.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/integers.h"
#include "base/memory.h"
#include "embedding/local/collection_internal.h"

/* Names may have any character: those that are not letters, digits, '_' or '-' become %XX. */
rk_status rk_table_folder(const rk_table *table, const char *directory, char **out) {
    RK_AUTO(rk_buffer_release) rk_buffer name = {0};
    for (const char *at = table->part.name; *at; at++)
        rk_buffer_printf(&name, isalnum((unsigned char)*at) || *at == '_' || *at == '-' ? "%c" : "%%%02X",
                         (unsigned char)*at);
    RK_TRY(name.status);
    return rk_path_join(directory, name.data ? name.data : "%", out);
}

static bool has_files(const rk_table *table) {
    return table->dynamic && table->dynamic_config.storage;
}

rk_status rk_embeddings_save_rows(rk_embeddings *e, const char *directory) {
    for (int32_t t = 0; t < e->n_tables; t++) {
        RK_AUTOFREE char *folder = NULL;
        if (!has_files(&e->tables[t])) continue;
        RK_FAIL_IF(!e->tables[t].tier, RK_INVALID_ARGUMENT, "these rows are only read");
        RK_TRY(rk_table_folder(&e->tables[t], directory, &folder));
        RK_TRY(rk_make_directories(folder));
        RK_TRY(rk_row_tier_save(e->tables[t].tier, folder));
    }
    return RK_OK;
}

/* A table without a tier, which has memory for the rows of all its keys. */
typedef struct reading {
    const rk_table *table;
    size_t row_bytes;
    bool *seen; /* [rows] */
} reading;

static rk_status read_record(void *context, uint64_t place, const void *record) {
    (void)place;
    const reading *r = context;
    int64_t row = rk_dynamic_row_of(r->table->dynamic, (int64_t)rk_load_u64(record));
    if (row)
        memcpy((uint8_t *)r->table->rows.data + (size_t)row * r->row_bytes,
               (const uint8_t *)record + sizeof(int64_t), r->row_bytes);
    r->seen[row] = true;
    return RK_OK;
}

static rk_status read_all(const rk_table *table, const char *folder) {
    int64_t n = table->dynamic->n_used;
    RK_AUTOFREE bool *seen = NULL;
    rk_row_log *log;
    rk_row_log_options options = {.table = (uint32_t)table->name_hash};
    RK_TRY(rk_alloc((size_t)n, sizeof *seen, &seen));
    RK_TRY(rk_row_log_restore(&options, folder, &log));
    reading r = {table, (size_t)table->config.dim * rk_dtype_bytes(table->config.dtype), seen};
    rk_status status = rk_row_log_record_bytes(log) < sizeof(int64_t) + r.row_bytes
                           ? rk_error(RK_BAD_DATA, "'%s' has smaller rows than the table", folder)
                           : rk_row_log_scan(log, read_record, &r);
    rk_row_log_free(log);
    RK_TRY(status);
    for (int64_t row = 1; row < n; row++)
        RK_FAIL_IF(!seen[row], RK_BAD_DATA, "'%s': the row of key %lld is missing", folder,
                   (long long)table->dynamic->keys[row]);
    return RK_OK;
}

rk_status rk_embeddings_load_rows(rk_embeddings *e, const char *directory) {
    for (int32_t t = 0; t < e->n_tables; t++) {
        const rk_table *table = &e->tables[t];
        RK_AUTOFREE char *folder = NULL;
        if (!has_files(table)) continue;
        RK_TRY(rk_table_folder(table, directory, &folder));
        rk_status status = table->tier ? rk_row_tier_load(table->tier, folder) : read_all(table, folder);
        if (status != RK_OK) return rk_error_context(status, "table '%s'", table->part.name);
    }
    return RK_OK;
}

bool rk_embeddings_have_files(const rk_embeddings *e) {
    for (int32_t t = 0; t < e->n_tables; t++)
        if (has_files(&e->tables[t])) return true;
    return false;
}
