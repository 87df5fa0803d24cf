#include "embedding/redis/row_manifest.h"

#include <jansson.h>
#include <string.h>

#include "base/memory.h"
#include "base/text/find_text.h"
#include "embedding/config/row_formats.h"

static const char format_name[] = "reckon.rows";
enum { FORMAT_VERSION = 1, MAX_TABLES = 1 << 20 };

static rk_status make_redis_key(char **out, const char *prefix, const char *version, const char *rest,
                                const char *end) {
    rk_buffer text = {0};
    rk_buffer_printf(&text, "%s:%s:%s%s", prefix, version, rest, end);
    return rk_buffer_detach(&text, out);
}

rk_status rk_row_manifest_init(const char *prefix, const char *version, rk_row_manifest *out) {
    *out = (rk_row_manifest){0};
    rk_status status = rk_strdup(version, &out->version);
    if (status == RK_OK) status = make_redis_key(&out->key, prefix, version, "manifest", "");
    if (status != RK_OK) rk_row_manifest_release(out);
    return status;
}

void rk_row_manifest_release(rk_row_manifest *m) {
    for (size_t t = 0; t < m->n_tables; t++) RK_FREE_ALL(m->tables[t].table, m->tables[t].key);
    RK_FREE_ALL(m->version, m->key, m->tables);
    *m = (rk_row_manifest){0};
}

rk_status rk_row_manifest_add(rk_row_manifest *m, const char *prefix, const char *table, int64_t n_rows,
                              int32_t dim, rk_export_rows format) {
    RK_TRY(rk_reserve_one_more(&m->tables, m->n_tables, &m->capacity, sizeof *m->tables));
    int64_t row_bytes =
        rk_row_format_columns(format, dim) * (int64_t)rk_dtype_bytes(rk_row_format_dtype(format));
    rk_stored_rows *t = &m->tables[m->n_tables++];
    *t = (rk_stored_rows){.n_rows = n_rows, .dim = dim, .format = format, .row_bytes = row_bytes};
    t->block_rows = row_bytes < RK_ROW_BLOCK_BYTES ? RK_ROW_BLOCK_BYTES / row_bytes : 1;
    RK_TRY(rk_strdup(table, &t->table));
    return make_redis_key(&t->key, prefix, m->version, table, ":");
}

/* "F32", or what an export's metadata call rows of codes. */
static const char *row_format_label(rk_export_rows format) {
    const char *name = rk_row_format_name(format);
    return name ? name : rk_dtype_name(rk_row_format_dtype(format));
}

static rk_export_rows row_format_from_label(const char *name) {
    for (int f = RK_EXPORT_ROWS_TRAINED + 1; name && f <= RK_EXPORT_ROWS_INT4; f++)
        if (strcmp(row_format_label((rk_export_rows)f), name) == 0) return (rk_export_rows)f;
    return RK_EXPORT_ROWS_TRAINED;
}

rk_status rk_row_manifest_write(const rk_row_manifest *m, rk_buffer *out) {
    json_auto_t *tables = json_array();
    for (size_t i = 0; i < m->n_tables; i++) {
        const rk_stored_rows *t = &m->tables[i];
        json_t *table =
            json_pack("{s:s, s:I, s:i, s:s, s:I, s:I}", "name", t->table, "n_rows", (json_int_t)t->n_rows,
                      "dim", (int)t->dim, "rows", row_format_label(t->format), "row_bytes",
                      (json_int_t)t->row_bytes, "block_rows", (json_int_t)t->block_rows);
        RK_FAIL_IF(json_array_append_new(tables, table) != 0, RK_NO_MEMORY,
                   "memory ran out, or a table's name is no UTF-8");
    }
    json_auto_t *root = json_pack("{s:s, s:i, s:s, s:O}", "format", format_name, "format_version",
                                  FORMAT_VERSION, "version", m->version, "tables", tables);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    if (!text) return RK_NO_MEMORY_ERROR(m->n_tables);
    rk_buffer_append_text(out, text);
    free(text);
    return out->status;
}

static rk_status read_table_entry(rk_row_manifest *m, const char *prefix, json_t *from) {
    const char *name = json_string_value(json_object_get(from, "name"));
    json_int_t n_rows = json_integer_value(json_object_get(from, "n_rows")),
               dim = json_integer_value(json_object_get(from, "dim"));
    rk_export_rows format = row_format_from_label(json_string_value(json_object_get(from, "rows")));
    RK_FAIL_IF(!name || n_rows < 1 || dim < 1 || dim > RK_MAX_DIM || format == RK_EXPORT_ROWS_TRAINED,
               RK_BAD_DATA, "table '%s' has no name, rows, dim or format that can be", name ? name : "");
    RK_FAIL_IF(rk_row_manifest_find(m, name), RK_BAD_DATA, "table '%s' is there twice", name);
    RK_TRY(rk_row_manifest_add(m, prefix, name, n_rows, (int32_t)dim, format));
    const rk_stored_rows *t = &m->tables[m->n_tables - 1];
    RK_FAIL_IF(json_integer_value(json_object_get(from, "row_bytes")) != t->row_bytes, RK_BAD_DATA,
               "table '%s': a row of this format has %lld bytes, not what it says", name,
               (long long)t->row_bytes);
    json_int_t block_rows = json_integer_value(json_object_get(from, "block_rows"));
    RK_FAIL_IF(block_rows < 1 || block_rows > INT32_MAX / t->row_bytes, RK_BAD_DATA,
               "table '%s': a value cannot have %lld rows", name, (long long)block_rows);
    m->tables[m->n_tables - 1].block_rows = block_rows;
    return RK_OK;
}

static rk_status read_manifest_json(rk_row_manifest *m, const char *prefix, json_t *root) {
    const char *format = json_string_value(json_object_get(root, "format")),
               *version = json_string_value(json_object_get(root, "version"));
    json_t *tables = json_object_get(root, "tables");
    json_int_t number = json_integer_value(json_object_get(root, "format_version"));
    RK_FAIL_IF(!format || strcmp(format, format_name) != 0, RK_BAD_DATA, "its 'format' is not '%s'",
               format_name);
    RK_FAIL_IF(number != FORMAT_VERSION, RK_UNSUPPORTED,
               "its 'format_version' is %lld; this library knows %d", (long long)number, FORMAT_VERSION);
    RK_FAIL_IF(!version || strcmp(version, m->version) != 0, RK_BAD_DATA, "it is of version '%s'",
               version ? version : "");
    RK_FAIL_IF(json_array_size(tables) < 1 || json_array_size(tables) > MAX_TABLES, RK_BAD_DATA,
               "it has no tables");
    for (size_t t = 0; t < json_array_size(tables); t++)
        RK_TRY(read_table_entry(m, prefix, json_array_get(tables, t)));
    return RK_OK;
}

rk_status rk_row_manifest_parse(const char *prefix, const char *version, const char *text, size_t n_bytes,
                                rk_row_manifest *out) {
    json_error_t error;
    json_auto_t *root = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &error);
    rk_row_manifest m;
    RK_TRY(rk_row_manifest_init(prefix, version, &m));
    rk_status status =
        root ? read_manifest_json(&m, prefix, root) : rk_error(RK_BAD_DATA, "it is no JSON: %s", error.text);
    if (status == RK_OK) {
        *out = m;
        return RK_OK;
    }
    rk_error_context(status, "the manifest '%s' of rows in Redis", m.key);
    rk_row_manifest_release(&m);
    return status;
}

const rk_stored_rows *rk_row_manifest_find(const rk_row_manifest *m, const char *table) {
    return RK_FIND_BY(table, table, m->tables, m->n_tables);
}
