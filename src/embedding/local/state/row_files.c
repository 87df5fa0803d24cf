/* Rows that are on a disk, in a checkpoint's folder: a folder for each table, or for each part of it, with a
 * log of their rows. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/hash.h"
#include "base/integers.h"
#include "base/memory.h"
#include "embedding/local/collection_internal.h"

/* Names may have any character: those that are not letters, digits, '_' or '-' become %XX. */
static void append_escaped_name(const char *table, rk_buffer *name) {
    for (const char *at = table; *at; at++)
        rk_buffer_printf(name, isalnum((unsigned char)*at) || *at == '_' || *at == '-' ? "%c" : "%%%02X",
                         (unsigned char)*at);
    if (!name->n_bytes) rk_buffer_append_text(name, "%");
}

/* Of a part, ".1-of-4" behind it. */
static void append_folder_name(const rk_table *table, rk_buffer *name) {
    append_escaped_name(table->part.name, name);
    if (table->part.n_parts > 1)
        rk_buffer_printf(name, ".%d-of-%d", (int)table->part.part, (int)table->part.n_parts);
}

rk_status rk_table_row_folder_path(const rk_table *table, const char *directory, char **out) {
    RK_AUTO(rk_buffer_release) rk_buffer name = {0};
    append_folder_name(table, &name);
    RK_TRY(name.status);
    return rk_path_join(directory, name.data, out);
}

uint32_t rk_table_row_log_id(const char *table) {
    return (uint32_t)rk_hash_bytes(table, strlen(table), 0);
}

rk_status rk_list_row_folders(const char *directory, const char *table, rk_text_list *out) {
    RK_AUTO(rk_text_list_release) rk_text_list all = {0};
    RK_AUTO(rk_buffer_release) rk_buffer name = {0};
    append_escaped_name(table, &name);
    RK_TRY(name.status);
    size_t n_bytes = strlen(name.data);
    RK_TRY(rk_list_directory(directory, &all));
    rk_text_list_sort(&all);
    for (size_t i = 0; i < all.n; i++) {
        RK_AUTOFREE char *path = NULL;
        const char *behind = all.texts[i] + n_bytes;
        if (strncmp(all.texts[i], name.data, n_bytes) != 0 || (*behind && *behind != '.')) continue;
        RK_TRY(rk_path_join(directory, all.texts[i], &path));
        RK_TRY(rk_text_list_add(out, path));
    }
    return RK_OK;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

rk_status rk_table_remove_other_parts(const rk_table *table, const char *directory) {
    RK_AUTO(rk_text_list_release) rk_text_list folders = {0};
    RK_AUTOFREE char *own = NULL;
    char cut[32] = "/";
    RK_TRY(rk_table_row_folder_path(table, directory, &own));
    if (table->part.n_parts > 1) snprintf(cut, sizeof cut, "-of-%d", (int)table->part.n_parts);
    if (!rk_file_exists(directory)) return RK_OK;
    RK_TRY(rk_list_row_folders(directory, table->part.name, &folders));
    for (size_t i = 0; i < folders.n; i++)
        if (strcmp(folders.texts[i], own) != 0 && !ends_with(folders.texts[i], cut))
            RK_TRY(rk_disk_row_cache_remove_files(folders.texts[i]));
    return RK_OK;
}

static bool has_row_files(const rk_table *table) {
    return table->dynamic && table->dynamic_config.storage;
}

rk_status rk_embeddings_save_rows(rk_embeddings *e, const char *directory) {
    for (int32_t t = 0; t < e->n_tables; t++) {
        RK_AUTOFREE char *folder = NULL;
        if (!has_row_files(&e->tables[t])) continue;
        RK_FAIL_IF(!e->tables[t].tier, RK_INVALID_ARGUMENT, "these rows are only read");
        RK_TRY(rk_table_row_folder_path(&e->tables[t], directory, &folder));
        RK_TRY(rk_make_directories(folder));
        RK_TRY(rk_disk_row_cache_save(e->tables[t].tier, folder));
    }
    return RK_OK;
}

/* A table without a tier, which has memory for the rows of all its keys. */
typedef struct reading {
    const rk_table *table;
    size_t row_bytes;
    bool *seen; /* [rows] */
} reading;

static rk_status load_record(void *context, uint64_t place, const void *record) {
    (void)place;
    const reading *r = context;
    int64_t row = rk_dynamic_find_row(r->table->dynamic, (int64_t)rk_load_u64(record));
    if (row)
        memcpy((uint8_t *)r->table->rows.data + (size_t)row * r->row_bytes,
               (const uint8_t *)record + sizeof(int64_t), r->row_bytes);
    r->seen[row] = true;
    return RK_OK;
}

static rk_status load_row_log(const rk_table *table, const char *folder, reading *r) {
    rk_row_log *log;
    rk_row_log_options options = {.table = rk_table_row_log_id(table->part.name)};
    RK_TRY(rk_row_log_restore(&options, folder, &log));
    rk_status status = rk_row_log_record_bytes(log) < sizeof(int64_t) + r->row_bytes
                           ? rk_error(RK_BAD_DATA, "'%s' has smaller rows than the table", folder)
                           : rk_row_log_scan(log, load_record, r);
    rk_row_log_free(log);
    return status;
}

static rk_status load_rows_of_folders(const rk_table *table, const rk_text_list *folders) {
    int64_t n = table->dynamic->n_used;
    RK_AUTOFREE bool *seen = NULL;
    RK_TRY(rk_alloc((size_t)n, sizeof *seen, &seen));
    reading r = {table, (size_t)table->config.dim * rk_dtype_bytes(table->config.dtype), seen};
    for (size_t i = 0; i < folders->n; i++) RK_TRY(load_row_log(table, folders->texts[i], &r));
    for (int64_t row = table->dynamic->n_shared; row < n; row++)
        RK_FAIL_IF(!seen[row], RK_BAD_DATA, "'%s': the row of key %lld is missing", folders->texts[0],
                   (long long)table->dynamic->info[row].key);
    return RK_OK;
}

/* A log of the same part of the table is taken as it is. */
static rk_status load_rows_of_table(const rk_table *table, const char *directory) {
    RK_AUTO(rk_text_list_release) rk_text_list folders = {0};
    RK_AUTOFREE char *own = NULL;
    RK_TRY(rk_table_row_folder_path(table, directory, &own));
    if (table->tier && rk_file_exists(own)) return rk_disk_row_cache_restore(table->tier, own);
    RK_TRY(rk_list_row_folders(directory, table->part.name, &folders));
    RK_FAIL_IF(!folders.n, RK_NOT_FOUND, "'%s' has no rows of it", directory);
    return table->tier ? rk_disk_row_cache_restore_from_parts(table->tier, &folders)
                       : load_rows_of_folders(table, &folders);
}

rk_status rk_embeddings_load_rows(rk_embeddings *e, const char *directory) {
    for (int32_t t = 0; t < e->n_tables; t++) {
        const rk_table *table = &e->tables[t];
        if (!has_row_files(table)) continue;
        rk_status status = load_rows_of_table(table, directory);
        if (status != RK_OK) return rk_error_context(status, "table '%s'", table->part.name);
    }
    return RK_OK;
}

rk_status rk_embeddings_append_row_records(rk_embeddings *e, const char *name, int64_t n,
                                           const void *records) {
    rk_table *table;
    RK_TRY(rk_embeddings_find_table(e, name, &table));
    return rk_disk_row_cache_append_records(table->tier, n, records);
}

bool rk_embeddings_have_row_files(const rk_embeddings *e) {
    for (int32_t t = 0; t < e->n_tables; t++)
        if (has_row_files(&e->tables[t])) return true;
    return false;
}
