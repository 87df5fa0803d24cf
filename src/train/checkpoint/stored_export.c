/* The tensors of an exported directory (docs/export.md), by the names that a checkpoint gives them. */
#include <jansson.h>
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/find_text.h"
#include "embedding/config/row_formats.h"
#include "train/checkpoint/stored_tensors.h"

static bool directory_has_file(const char *directory, const char *name) {
    RK_AUTOFREE char *path = NULL;
    return rk_path_join(directory, name, &path) == RK_OK && rk_file_exists(path);
}

static const char one_file[] = "model.safetensors", file_index[] = "model.safetensors.index.json";

bool rk_directory_is_export(const char *directory) {
    return !directory_has_file(directory, "manifest.json") && directory_has_file(directory, "config.yaml") &&
           (directory_has_file(directory, one_file) || directory_has_file(directory, file_index));
}

/* What is between head and tail; empty: the name is another one. */
static rk_span strip_prefix_and_suffix(const char *name, const char *head, const char *tail) {
    size_t n = strlen(name), n_head = strlen(head), n_tail = strlen(tail);
    bool is = n > n_head + n_tail && strncmp(name, head, n_head) == 0 && strcmp(name + n - n_tail, tail) == 0;
    return is ? (rk_span){name + n_head, n - n_head - n_tail} : (rk_span){NULL, 0};
}

/* "embeddings.<table>.weight" and the pieces of its rows are "table/<table>/rows", "embeddings.<table>.keys"
 * is "table/<table>/keys", "dense.<node>.<parameter>" is "dense/<node>/<parameter>"; NULL: another name. */
static rk_status stored_name_of_exported(const char *name, char **out) {
    static const char *const tails[] = {".weight", ".codes", ".scales", ".minima"};
    rk_buffer text = {0};
    const char *last = strrchr(name, '.');
    *out = NULL;
    for (int i = 0; i < 4; i++) {
        rk_span table = strip_prefix_and_suffix(name, "embeddings.", tails[i]);
        if (!table.n_bytes) continue;
        rk_buffer_printf(&text, "table/%.*s/rows", (int)table.n_bytes, table.data);
        return rk_buffer_detach(&text, out);
    }
    rk_span keys = strip_prefix_and_suffix(name, "embeddings.", ".keys");
    if (keys.n_bytes) {
        rk_buffer_printf(&text, "table/%.*s/keys", (int)keys.n_bytes, keys.data);
        return rk_buffer_detach(&text, out);
    }
    rk_span node = strip_prefix_and_suffix(name, "dense.", last ? last : "");
    if (!node.n_bytes) return RK_OK;
    rk_buffer_printf(&text, "dense/%.*s/%s", (int)node.n_bytes, node.data, last + 1);
    return rk_buffer_detach(&text, out);
}

/* A tensor as columns of bytes of rows of codes, or as what it is. */
typedef struct described {
    rk_export_rows codes;
    int64_t dim, first;
    rk_safetensors_entry entry; /* of U8 where there are codes */
} described;

static bool is_float_entry(const rk_safetensors_entry *entry) {
    return entry->type == RK_F32 || entry->type == RK_BF16 || entry->type == RK_F16;
}

static rk_status describe_quantized_rows(json_t *format, described *d) {
    const char *name = json_string_value(json_object_get(format, "format"));
    json_t *dim = json_object_get(format, "dim"), *bytes = json_object_get(format, "bytes");
    rk_safetensors_entry *e = &d->entry;
    if (name) d->codes = rk_row_format_from_name(name);
    RK_FAIL_IF(d->codes == RK_EXPORT_ROWS_TRAINED, RK_UNSUPPORTED, "tensor '%s': unknown format of rows '%s'",
               e->name, name ? name : "");
    d->dim = json_integer_value(dim);
    int64_t row_bytes = d->dim > 0 && d->dim <= INT32_MAX ? rk_row_format_columns(d->codes, d->dim) : 0,
            element = (int64_t)rk_dtype_bytes(e->type), end = row_bytes;
    if (bytes) {
        d->first = json_integer_value(json_array_get(bytes, 0));
        end = json_integer_value(json_array_get(bytes, 1));
    }
    RK_FAIL_IF(!row_bytes || d->first < 0 || end < d->first || end > row_bytes || e->n_dims != 2 ||
                   e->dims[1] > row_bytes || e->dims[1] * element != end - d->first,
               RK_BAD_DATA, "tensor '%s': rows of format '%s' and dim %lld do not have this shape", e->name,
               name, (long long)d->dim);
    e->type = RK_U8;
    e->dims[1] = end - d->first;
    return RK_OK;
}

static rk_status describe_exported_entry(const json_t *formats, bool are_keys,
                                         const rk_safetensors_entry *entry, described *out) {
    json_t *format = json_object_get(formats, entry->name);
    *out = (described){.entry = *entry};
    if (format && !are_keys) return describe_quantized_rows(format, out);
    RK_FAIL_IF(are_keys ? entry->type != RK_I64 || entry->n_dims != 1 : !is_float_entry(entry), RK_BAD_DATA,
               "tensor '%s' has values of type %s", entry->name, rk_dtype_name(entry->type));
    return RK_OK;
}

rk_status rk_stored_tensors_add_export(rk_stored_tensors *tensors, const rk_safetensors *entries,
                                       const char *rows) {
    json_error_t error;
    json_auto_t *formats = rows ? json_loads(rows, JSON_REJECT_DUPLICATES, &error) : NULL;
    RK_FAIL_IF(rows && !json_is_object(formats), RK_BAD_DATA, "the metadata's '%s' is not a JSON object",
               RK_ROW_FORMATS_KEY);
    for (size_t i = 0; i < entries->n; i++) {
        RK_AUTOFREE char *name = NULL;
        described d;
        RK_TRY(stored_name_of_exported(entries->entries[i].name, &name));
        if (!name) continue;
        RK_TRY(describe_exported_entry(formats, rk_table_name_of_keys_tensor(name).n_bytes > 0,
                                       &entries->entries[i], &d));
        RK_TRY(rk_stored_tensors_add_columns(tensors, name, &d.entry, d.first, d.codes, d.dim));
    }
    return RK_OK;
}

/* Rows of codes are there to their last byte. */
static rk_status check_quantized_rows(const rk_stored_tensors *tensors) {
    for (size_t i = 0; i < tensors->n; i++) {
        const rk_stored_tensor *t = &tensors->list[i];
        RK_FAIL_IF(
            t->codes != RK_EXPORT_ROWS_TRAINED && t->n_columns != rk_row_format_columns(t->codes, t->dim),
            RK_BAD_DATA, "tensor '%s': parts of it are missing", t->name);
    }
    return RK_OK;
}

/* A row for each key, and one for all others. */
static rk_status check_rows_of_keys(const rk_stored_tensors *tensors) {
    for (size_t i = 0; i < tensors->n; i++) {
        const rk_stored_tensor *keys = &tensors->list[i];
        RK_AUTOFREE char *table = NULL;
        rk_span name = rk_table_name_of_keys_tensor(keys->name);
        if (!name.n_bytes) continue;
        RK_TRY(rk_strndup(name.data, name.n_bytes, &table));
        const rk_stored_tensor *rows = rk_stored_tensors_find_of_table(tensors, table, "rows");
        RK_FAIL_IF(
            rows && rows->n_rows <= keys->n_rows, RK_BAD_DATA,
            "table '%s' has %lld keys and %lld rows: there must be a row for each, and more behind them",
            table, (long long)keys->n_rows, (long long)rows->n_rows);
    }
    return RK_OK;
}

/* The files that an index names, each once, sorted into `names`. */
static rk_status list_files_of_index(const char *path, rk_text_list *names) {
    RK_AUTOFREE char *text = NULL;
    size_t n_bytes;
    json_error_t error;
    RK_TRY(rk_file_read(path, &text, &n_bytes));
    json_auto_t *index = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &error);
    json_t *map = json_object_get(index, "weight_map"), *value;
    const char *tensor;
    RK_FAIL_IF(!json_is_object(map), RK_BAD_DATA, "'%s' has no object 'weight_map'", path);
    json_object_foreach(map, tensor, value) {
        const char *file = json_string_value(value);
        RK_FAIL_IF(!file || !file[0] || strchr(file, '/'), RK_BAD_DATA,
                   "'%s': the file of tensor '%s' is not the name of one", path, tensor);
        if (!rk_text_is_one_of(file, names->texts, names->n)) RK_TRY(rk_text_list_add(names, file));
    }
    return RK_OK;
}

static rk_status add_export_files(const char *directory, const rk_text_list *names,
                                  rk_stored_tensors *tensors) {
    RK_TRY(rk_alloc(names->n, sizeof *tensors->files, &tensors->files));
    for (size_t i = 0; i < names->n; i++) {
        RK_AUTOFREE char *path = NULL;
        RK_TRY(rk_path_join(directory, names->texts[i], &path));
        RK_TRY(rk_stored_tensors_add_file(tensors, path));
    }
    return RK_OK;
}

rk_status rk_stored_tensors_open_export(const char *directory, rk_stored_tensors *out) {
    RK_AUTO(rk_stored_tensors_close) rk_stored_tensors tensors = {.is_export = true};
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_AUTOFREE char *path = NULL;
    RK_TRY(rk_path_join(directory, file_index, &path));
    if (rk_file_exists(path))
        RK_TRY(list_files_of_index(path, &names));
    else
        RK_TRY(rk_text_list_add(&names, one_file));
    RK_TRY(add_export_files(directory, &names, &tensors));
    RK_TRY(rk_stored_tensors_check(&tensors));
    RK_TRY(check_quantized_rows(&tensors));
    RK_TRY(check_rows_of_keys(&tensors));
    *out = tensors;
    tensors = (rk_stored_tensors){0};
    return RK_OK;
}
