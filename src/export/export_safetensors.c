/* A checkpoint's tensors as safetensors files: chosen, named, put together and converted by pieces. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <reckon/version.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "export/export_internal.h"
#include "embedding/config/row_formats.h"
#include "format/safetensors.h"
#include "format/json_writer.h"

enum { PIECE_BYTES = 256 << 10, MAX_FILES = 99999 };
static const uint64_t usual_shard_bytes = 5000000000;

/* Of rows of codes, one behind another, the tensor's piece alone, in place. */
static void extract_row_component(const rk_exported_tensor *t, char *rows, int64_t n, int64_t row_bytes) {
    rk_row_columns piece = rk_row_format_component(t->rows, t->stored->n_columns, t->piece);
    for (int64_t r = 0; r < n; r++)
        memmove(rows + r * piece.n, rows + r * row_bytes + piece.first, (size_t)piece.n);
}

rk_status rk_export_encode_rows(rk_exporting *x, const rk_exported_tensor *t, int64_t first, int64_t n,
                                const void **out) {
    const rk_stored_tensor *stored = t->stored;
    size_t n_values = (size_t)(n * stored->n_columns);
    RK_TRY(rk_reserve(&x->stored, &x->stored_capacity, n_values * rk_dtype_bytes(stored->type), 1));
    RK_TRY(t->keyed ? rk_export_read_rows_in_key_order(x, t, first, n, x->stored)
                    : rk_stored_tensor_read(&x->tensors, stored, first, n, x->stored));
    *out = x->stored;
    if (t->rows == RK_EXPORT_ROWS_TRAINED) return RK_OK;
    int64_t failed, columns = rk_row_format_columns(t->rows, stored->n_columns);
    RK_TRY(rk_reserve(&x->values, &x->values_capacity, n_values, sizeof *x->values));
    RK_TRY(rk_reserve(&x->written, &x->written_capacity,
                      (size_t)(n * columns) * rk_dtype_bytes(rk_row_format_dtype(t->rows)), 1));
    rk_row_values_to_f32(stored->type, x->stored, (int64_t)n_values, x->values);
    rk_row_format_encode(t->rows, x->values, n, stored->n_columns, x->written, &failed);
    if (failed >= 0) return rk_row_format_encode_error(t->rows, t->table, first + failed);
    if (t->piece != RK_ROW_WHOLE) extract_row_component(t, x->written, n, columns);
    *out = x->written;
    return RK_OK;
}

static rk_status write_tensor_rows(void *context, size_t entry, rk_writer *writer) {
    rk_exporting *x = context;
    rk_exported_tensor *t = &x->list[x->first + entry];
    uint64_t bytes = rk_state_dict_entry_bytes(&x->shard.entries[entry]);
    t->begin = writer->n_bytes;
    int64_t n_rows = rk_exported_tensor_rows(t), step = n_rows;
    if (n_rows) {
        int64_t row_bytes = t->stored->n_columns * (int64_t)sizeof(float);
        step = PIECE_BYTES / (row_bytes ? row_bytes : 1);
        step = step < 1 ? 1 : step;
    }
    for (int64_t first = 0; first < n_rows; first += step) {
        const void *piece;
        int64_t n = n_rows - first < step ? n_rows - first : step;
        RK_TRY(rk_export_encode_rows(x, t, first, n, &piece));
        RK_TRY(rk_writer_append(writer, piece, (size_t)(bytes / (uint64_t)n_rows) * (size_t)n));
    }
    return RK_OK;
}

rk_dtype rk_exported_tensor_dtype(const rk_exported_tensor *t) {
    if (t->piece != RK_ROW_WHOLE)
        return rk_row_format_component(t->rows, t->stored->n_columns, t->piece).type;
    return t->rows == RK_EXPORT_ROWS_TRAINED ? t->stored->type : rk_row_format_dtype(t->rows);
}

int64_t rk_exported_tensor_rows(const rk_exported_tensor *t) {
    bool has_shared = t->keyed && !rk_exported_tensor_is_keys(t);
    return t->stored->n_rows + (has_shared ? rk_exported_n_shared_rows(t->keyed) : 0);
}

int64_t rk_exported_tensor_columns(const rk_exported_tensor *t) {
    int64_t columns = t->stored->n_columns;
    if (t->piece != RK_ROW_WHOLE) {
        rk_row_columns piece = rk_row_format_component(t->rows, columns, t->piece);
        return piece.n / (int64_t)rk_dtype_bytes(piece.type);
    }
    return t->rows == RK_EXPORT_ROWS_TRAINED ? columns : rk_row_format_columns(t->rows, columns);
}

/* The name, dtype and shape that a tensor has in its file. */
static rk_status add_tensor_entry(rk_state_dict *state, const rk_exported_tensor *t) {
    return rk_state_dict_add(state, t->name, rk_exported_tensor_dtype(t), rk_exported_tensor_rows(t),
                             t->stored->n_dims > 1 ? rk_exported_tensor_columns(t) : 0, NULL);
}

uint64_t rk_exported_tensor_bytes(const rk_exported_tensor *t) {
    return (uint64_t)rk_exported_tensor_rows(t) * (uint64_t)rk_exported_tensor_columns(t) *
           rk_dtype_bytes(rk_exported_tensor_dtype(t));
}

/* Which file each tensor is in: in their order, a file ends before it would grow too large. */
static rk_status assign_tensors_to_files(rk_exporting *x) {
    uint64_t limit = x->options->shard_bytes ? x->options->shard_bytes : usual_shard_bytes, bytes = 0;
    for (size_t i = 0; i < x->n_in_files; i++) {
        uint64_t more = rk_exported_tensor_bytes(&x->list[i]);
        if (i && (more > limit || bytes > limit - more)) {
            x->n_files++;
            bytes = 0;
        }
        x->list[i].file = x->n_files;
        bytes += more;
        x->total_bytes += more;
    }
    x->n_files++;
    RK_FAIL_IF(x->n_files > MAX_FILES, RK_INVALID_ARGUMENT,
               "files of %" PRIu64 " bytes would be more than %d", limit, MAX_FILES);
    return RK_OK;
}

void rk_export_file_name(const rk_exporting *x, int32_t file, char name[RK_EXPORT_FILE_NAME_BYTES]) {
    if (x->n_files == 1)
        snprintf(name, RK_EXPORT_FILE_NAME_BYTES, "model.safetensors");
    else
        snprintf(name, RK_EXPORT_FILE_NAME_BYTES, "model-%05d-of-%05d.safetensors", file + 1, x->n_files);
}

/* {"embeddings.user.weight":{"format":"...","dim":16},...} of a file's converted rows, whose dtype does not
 * say how they are to be read; of a piece of rows, also which bytes of a row it has. */
static rk_status describe_row_formats(const rk_exporting *x, rk_buffer *out) {
    size_t n = 0;
    for (size_t i = 0; i < x->shard.n; i++) {
        const rk_exported_tensor *t = &x->list[x->first + i];
        const char *format = rk_row_format_name(t->rows);
        if (!format) continue;
        rk_buffer_append_text(out, n++ ? "," : "{");
        RK_TRY(rk_json_write_string(out, t->name));
        rk_buffer_printf(out, ":{\"format\":\"%s\",\"dim\":%lld", format, (long long)t->stored->n_columns);
        rk_row_columns piece = rk_row_format_component(t->rows, t->stored->n_columns, t->piece);
        if (t->piece != RK_ROW_WHOLE)
            rk_buffer_printf(out, ",\"bytes\":[%lld,%lld]", (long long)piece.first,
                             (long long)(piece.first + piece.n));
        rk_buffer_append_text(out, "}");
    }
    if (n) rk_buffer_append_text(out, "}");
    return out->status;
}

static rk_status write_safetensors_file(rk_exporting *x, int32_t file) {
    char name[RK_EXPORT_FILE_NAME_BYTES];
    RK_AUTOFREE char *path = NULL;
    RK_AUTO(rk_buffer_release) rk_buffer rows = {0};
    uint64_t n_bytes;
    rk_state_dict_release(&x->shard);
    for (size_t i = x->first; i < x->n_in_files && x->list[i].file == file; i++)
        RK_TRY(add_tensor_entry(&x->shard, &x->list[i]));
    RK_TRY(describe_row_formats(x, &rows));
    const char *metadata[] = {"format", "pt", "reckon.version", rk_version(), RK_ROW_FORMATS_KEY, rows.data};
    rk_safetensors_source source = {
        .fill = write_tensor_rows, .context = x, .metadata = metadata, .n_metadata = rows.n_bytes ? 3 : 2};
    rk_export_file_name(x, file, name);
    RK_TRY(rk_path_join(x->directory, name, &path));
    RK_TRY(rk_safetensors_write_from(path, &x->shard, &source, NULL, &n_bytes));
    x->first += x->shard.n;
    return RK_OK;
}

/* Which tensor is in which file, as Hugging Face's loaders read it. */
static rk_status write_safetensors_index(const rk_exporting *x) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    RK_AUTOFREE char *path = NULL;
    char name[RK_EXPORT_FILE_NAME_BYTES];
    rk_buffer_printf(&text, "{\"metadata\":{\"total_size\":%" PRIu64 "},\"weight_map\":{", x->total_bytes);
    for (size_t i = 0; i < x->n_in_files; i++) {
        rk_buffer_append_text(&text, i ? "," : "");
        RK_TRY(rk_json_write_string(&text, x->list[i].name));
        rk_export_file_name(x, x->list[i].file, name);
        rk_buffer_printf(&text, ":\"%s\"", name);
    }
    rk_buffer_append_text(&text, "}}\n");
    RK_TRY(text.status);
    RK_TRY(rk_path_join(x->directory, "model.safetensors.index.json", &path));
    return rk_file_write(path, text.data, text.n_bytes);
}

rk_status rk_export_write_safetensors(rk_exporting *x) {
    RK_TRY(assign_tensors_to_files(x));
    for (int32_t file = 0; file < x->n_files; file++) RK_TRY(write_safetensors_file(x, file));
    return x->n_files > 1 ? write_safetensors_index(x) : RK_OK;
}
