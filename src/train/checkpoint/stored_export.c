/* The tensors of an exported directory (docs/export.md), by the names that a checkpoint gives them. */
#include <jansson.h>
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "embedding/config/row_formats.h"
#include "train/checkpoint/stored_tensors.h"

static bool has_file(const char *directory, const char *name) {
    RK_AUTOFREE char *path = NULL;
    return rk_path_join(directory, name, &path) == RK_OK && rk_file_exists(path);
}

static const char one_file[] = "model.safetensors", file_index[] = "model.safetensors.index.json";

bool rk_is_export(const char *directory) {
    return !has_file(directory, "manifest.json") && has_file(directory, "config.yaml") &&
           (has_file(directory, one_file) || has_file(directory, file_index));
}

/* "embeddings.<table>.weight" is "table/<table>/rows", "dense.<node>.<parameter>" is
 * "dense/<node>/<parameter>"; NULL: another name. */
static rk_status stored_name(const char *name, char **out) {
    static const char embeddings[] = "embeddings.", weight[] = ".weight", dense[] = "dense.";
    size_t n = strlen(name), head = sizeof embeddings - 1, tail = sizeof weight - 1;
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    *out = NULL;
    if (n > head + tail && strncmp(name, embeddings, head) == 0 && strcmp(name + n - tail, weight) == 0) {
        rk_buffer_printf(&text, "table/%.*s/rows", (int)(n - head - tail), name + head);
        return rk_buffer_take(&text, out);
    }
    const char *node = name + sizeof dense - 1, *last = strrchr(name, '.');
    if (strncmp(name, dense, sizeof dense - 1) != 0 || last <= node) return RK_OK;
    rk_buffer_printf(&text, "dense/%.*s/%s", (int)(last - node), node, last + 1);
    return rk_buffer_take(&text, out);
}

/* What the metadata say of a tensor's rows. */
static rk_status find_codes(const json_t *formats, const rk_safetensors_entry *entry, rk_export_rows *codes,
                            int64_t *dim) {
    json_t *format = json_object_get(formats, entry->name), *value = json_object_get(format, "dim");
    const char *name = json_string_value(json_object_get(format, "format"));
    *codes = RK_EXPORT_ROWS_TRAINED;
    *dim = json_integer_value(value);
    if (!format) return RK_OK;
    if (name) *codes = rk_row_format_find(name);
    RK_FAIL_IF(*codes == RK_EXPORT_ROWS_TRAINED, RK_UNSUPPORTED, "tensor '%s': unknown format of rows '%s'",
               entry->name, name ? name : "");
    RK_FAIL_IF(!json_is_integer(value) || *dim < 1 || *dim > INT32_MAX || entry->type != RK_U8 ||
                   entry->n_dims != 2 || entry->dims[1] != rk_row_format_columns(*codes, *dim),
               RK_BAD_DATA, "tensor '%s': rows of format '%s' and dim %lld do not have this shape",
               entry->name, name, (long long)*dim);
    return RK_OK;
}

static bool holds_values(const rk_safetensors_entry *entry, rk_export_rows codes) {
    return codes != RK_EXPORT_ROWS_TRAINED || entry->type == RK_F32 || entry->type == RK_BF16 ||
           entry->type == RK_F16;
}

rk_status rk_stored_tensors_add_export(rk_stored_tensors *tensors, const rk_safetensors *entries,
                                       const char *rows) {
    json_error_t error;
    json_auto_t *formats = rows ? json_loads(rows, JSON_REJECT_DUPLICATES, &error) : NULL;
    RK_FAIL_IF(rows && !json_is_object(formats), RK_BAD_DATA, "the metadata's '%s' is not a JSON object",
               RK_ROW_FORMATS_KEY);
    for (size_t i = 0; i < entries->n; i++) {
        const rk_safetensors_entry *entry = &entries->entries[i];
        RK_AUTOFREE char *name = NULL;
        rk_export_rows codes;
        int64_t dim;
        RK_TRY(stored_name(entry->name, &name));
        if (!name) continue;
        RK_TRY(find_codes(formats, entry, &codes, &dim));
        RK_FAIL_IF(!holds_values(entry, codes), RK_BAD_DATA, "tensor '%s' has values of type %s", entry->name,
                   rk_dtype_name(entry->type));
        RK_FAIL_IF(rk_stored_tensors_find(tensors, name), RK_BAD_DATA, "tensor '%s' is there twice",
                   entry->name);
        RK_TRY(rk_stored_tensors_add_whole(tensors, name, entry, codes, dim));
    }
    return RK_OK;
}

/* The files that an index names, each once, sorted into `names`. */
static rk_status list_files(const char *path, rk_text_list *names) {
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
        bool known = false;
        for (size_t i = 0; i < names->n && !known; i++) known = strcmp(names->texts[i], file) == 0;
        if (!known) RK_TRY(rk_text_list_add(names, file));
    }
    return RK_OK;
}

static rk_status add_files(const char *directory, const rk_text_list *names, rk_stored_tensors *tensors) {
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
        RK_TRY(list_files(path, &names));
    else
        RK_TRY(rk_text_list_add(&names, one_file));
    RK_TRY(add_files(directory, &names, &tensors));
    *out = tensors;
    tensors = (rk_stored_tensors){0};
    return RK_OK;
}
