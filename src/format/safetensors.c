#include "format/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text/find_text.h"
#include "format/json_writer.h"

static const char *const type_names[RK_DTYPE_COUNT] = {
    [RK_F32] = "F32", [RK_BF16] = "BF16", [RK_F16] = "F16",   [RK_F64] = "F64", [RK_I8] = "I8",
    [RK_I16] = "I16", [RK_I32] = "I32",   [RK_I64] = "I64",   [RK_U8] = "U8",   [RK_U16] = "U16",
    [RK_U32] = "U32", [RK_U64] = "U64",   [RK_BOOL] = "BOOL",
};
enum { MAX_HEADER_BYTES = 100 << 20 };

/* The order of the entries' bytes: those of wide elements first, so that every tensor is aligned to its
 * elements without the gaps that the format forbids. order, begins: [state->n] */
static void order_entries_by_alignment(const rk_state_dict *state, size_t *order, uint64_t *begins) {
    uint64_t at = 0;
    size_t n = 0;
    for (uint64_t width = 8; width; width /= 2)
        for (size_t i = 0; i < state->n; i++)
            if (rk_dtype_bytes(state->entries[i].type) == width) {
                order[n++] = i;
                begins[i] = at;
                at += rk_state_dict_entry_bytes(&state->entries[i]);
            }
}

static rk_status add_metadata(const rk_safetensors_source *source, rk_buffer *out) {
    if (!source->n_metadata) return RK_OK;
    rk_buffer_append_text(out, "\"__metadata__\":{");
    for (size_t i = 0; i < 2 * source->n_metadata; i++) {
        rk_buffer_append_text(out, i == 0 ? "" : i % 2 ? ":" : ",");
        RK_TRY(rk_json_write_string(out, source->metadata[i]));
    }
    rk_buffer_append_text(out, "}");
    return RK_OK;
}

/* {"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},...}, padded with spaces to 8 bytes. */
static rk_status make_header(const rk_state_dict *state, const rk_safetensors_source *source,
                             const uint64_t *begins, rk_buffer *out) {
    rk_buffer_append_text(out, "{");
    RK_TRY(add_metadata(source, out));
    for (size_t i = 0; i < state->n; i++) {
        const rk_state_dict_entry *e = &state->entries[i];
        rk_buffer_append_text(out, i || source->n_metadata ? "," : "");
        RK_TRY(rk_json_write_string(out, e->name));
        rk_buffer_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", type_names[e->type]);
        for (int32_t d = 0; d < e->n_dims; d++)
            rk_buffer_printf(out, "%s%lld", d ? "," : "", (long long)e->dims[d]);
        rk_buffer_printf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begins[i],
                         (unsigned long long)(begins[i] + rk_state_dict_entry_bytes(e)));
    }
    rk_buffer_append_text(out, "}");
    while (out->status == RK_OK && out->n_bytes % 8) rk_buffer_append_text(out, " ");
    return out->status;
}

static rk_status write_entries(rk_writer *writer, const rk_state_dict *state,
                               const rk_safetensors_source *source, const size_t *order,
                               const rk_buffer *header) {
    RK_AUTO(rk_buffer_release) rk_buffer length = {0};
    rk_buffer_append_u64le(&length, header->n_bytes);
    RK_TRY(length.status);
    RK_TRY(rk_writer_append(writer, length.data, length.n_bytes));
    RK_TRY(rk_writer_append(writer, header->data, header->n_bytes));
    for (size_t i = 0; i < state->n; i++) {
        uint64_t end = writer->n_bytes + rk_state_dict_entry_bytes(&state->entries[order[i]]);
        RK_TRY(source->fill(source->context, order[i], writer));
        RK_FAIL_IF(writer->n_bytes != end, RK_INTERNAL,
                   "tensor '%s' was filled with another number of bytes than it has",
                   state->entries[order[i]].name);
    }
    return RK_OK;
}

rk_status rk_safetensors_write_from(const char *path, const rk_state_dict *state,
                                    const rk_safetensors_source *source, uint32_t *crc32c,
                                    uint64_t *n_bytes) {
    RK_AUTO(rk_buffer_release) rk_buffer header = {0};
    RK_AUTO(rk_writer_release) rk_writer writer = {.descriptor = -1};
    RK_AUTOFREE size_t *order = NULL;
    RK_AUTOFREE uint64_t *begins = NULL;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(state->n, order), RK_ARRAY(state->n, begins)));
    order_entries_by_alignment(state, order, begins);
    RK_TRY(make_header(state, source, begins, &header));
    RK_TRY(rk_writer_open(path, &writer));
    writer.without_crc = !crc32c;
    RK_TRY(write_entries(&writer, state, source, order, &header));
    RK_TRY(rk_writer_commit(&writer));
    if (crc32c) *crc32c = writer.crc32c;
    *n_bytes = writer.n_bytes;
    return RK_OK;
}

/* Rows that stand apart, in pieces. */
static rk_status write_rows_in_pieces(const rk_state_dict_entry *e, rk_writer *writer) {
    enum { PIECE_BYTES = 1 << 18 };
    size_t row_bytes = rk_state_dict_row_bytes(e);
    int64_t step = (int64_t)(PIECE_BYTES / row_bytes ? PIECE_BYTES / row_bytes : 1);
    RK_AUTOFREE char *piece = NULL;
    RK_TRY(rk_alloc((size_t)step, row_bytes, &piece));
    for (int64_t first = 0; first < e->dims[0]; first += step) {
        int64_t n = e->dims[0] - first < step ? e->dims[0] - first : step;
        rk_state_dict_copy_rows(e, first, n, piece);
        RK_TRY(rk_writer_append(writer, piece, (size_t)n * row_bytes));
    }
    return RK_OK;
}

static rk_status write_entry_from_memory(void *context, size_t entry, rk_writer *writer) {
    const rk_state_dict_entry *e = &((const rk_state_dict *)context)->entries[entry];
    if (e->order || e->stride) return write_rows_in_pieces(e, writer);
    return rk_writer_append(writer, e->data, rk_state_dict_entry_bytes(e));
}

rk_status rk_safetensors_write(const char *path, const rk_state_dict *state, uint32_t *crc32c,
                               uint64_t *n_bytes) {
    rk_safetensors_source source = {.fill = write_entry_from_memory, .context = (void *)(size_t)state};
    return rk_safetensors_write_from(path, state, &source, crc32c, n_bytes);
}

void rk_safetensors_release(rk_safetensors *tensors) {
    for (size_t i = 0; i < tensors->n; i++) rk_free(tensors->entries[i].name);
    rk_free(tensors->entries);
    *tensors = (rk_safetensors){0};
}

const rk_safetensors_entry *rk_safetensors_find(const rk_safetensors *tensors, const char *name) {
    return RK_FIND_BY(name, name, tensors->entries, tensors->n);
}

static rk_status parse_entry(const char *name, json_t *value, uint64_t data_begin, uint64_t file_bytes,
                             rk_safetensors_entry *out) {
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    json_t *shape = json_object_get(value, "shape"), *offsets = json_object_get(value, "data_offsets");
    RK_FAIL_IF(!dtype || !json_is_array(shape) || !json_is_array(offsets) || json_array_size(offsets) != 2 ||
                   json_array_size(shape) > 8,
               RK_BAD_DATA, "the header's entry '%s' is not a tensor", name);
    int type = (int)rk_text_position(dtype, type_names, RK_DTYPE_COUNT);
    RK_FAIL_IF(type < 0, RK_UNSUPPORTED, "tensor '%s': the type '%s' is not supported", name, dtype);
    uint64_t n_bytes = rk_dtype_bytes((rk_dtype)type);
    out->type = (rk_dtype)type;
    out->n_dims = (int32_t)json_array_size(shape);
    for (int32_t d = 0; d < out->n_dims; d++) {
        json_t *dim = json_array_get(shape, (size_t)d);
        out->dims[d] = json_integer_value(dim);
        RK_FAIL_IF(!json_is_integer(dim) || out->dims[d] < 0 ||
                       __builtin_mul_overflow(n_bytes, (uint64_t)out->dims[d], &n_bytes),
                   RK_BAD_DATA, "tensor '%s': invalid shape", name);
    }
    json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    int64_t begin = json_integer_value(from), end = json_integer_value(to);
    RK_FAIL_IF(!json_is_integer(from) || !json_is_integer(to) || begin < 0 || end < begin ||
                   (uint64_t)end > file_bytes - data_begin || (uint64_t)(end - begin) != n_bytes,
               RK_BAD_DATA, "tensor '%s': its bytes %lld to %lld do not fit its shape or the file", name,
               (long long)begin, (long long)end);
    out->begin = data_begin + (uint64_t)begin;
    out->n_bytes = n_bytes;
    return rk_strdup(name, &out->name);
}

static int compare_entries_by_begin(const void *a, const void *b) {
    const rk_safetensors_entry *x = *(rk_safetensors_entry *const *)a, *y = *(rk_safetensors_entry *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes;
}

/* The tensors lie one after another from the header to the file's end: no byte belongs to two or to none. */
static rk_status check_entries_contiguous(const rk_safetensors *tensors, uint64_t data_begin,
                                          uint64_t file_bytes) {
    RK_AUTOFREE rk_safetensors_entry **sorted = NULL;
    RK_TRY(rk_alloc(tensors->n, sizeof *sorted, &sorted));
    for (size_t i = 0; i < tensors->n; i++) sorted[i] = &tensors->entries[i];
    if (tensors->n) qsort(sorted, tensors->n, sizeof *sorted, compare_entries_by_begin);
    uint64_t at = data_begin;
    for (size_t i = 0; i < tensors->n; i++) {
        RK_FAIL_IF(sorted[i]->begin != at, RK_BAD_DATA, "tensor '%s': its bytes %s those before",
                   sorted[i]->name, sorted[i]->begin < at ? "overlap" : "leave a gap after");
        at += sorted[i]->n_bytes;
    }
    RK_FAIL_IF(at != file_bytes, RK_BAD_DATA, "byte %llu: the file does not end where its tensors do",
               (unsigned long long)at);
    return RK_OK;
}

static rk_status parse_entries(json_t *header, uint64_t data_begin, uint64_t file_bytes,
                               rk_safetensors *out) {
    RK_TRY(rk_alloc(json_object_size(header), sizeof *out->entries, &out->entries));
    const char *name;
    json_t *value;
    json_object_foreach(header, name, value) {
        if (strcmp(name, "__metadata__") == 0) continue;
        RK_TRY(parse_entry(name, value, data_begin, file_bytes, &out->entries[out->n]));
        out->n++;
    }
    return check_entries_contiguous(out, data_begin, file_bytes);
}

rk_status rk_safetensors_header_bytes(const void *head, uint64_t file_bytes, size_t *out) {
    const uint8_t *at = head;
    uint64_t length = 0;
    for (int i = 0; i < RK_SAFETENSORS_HEAD_BYTES; i++) length |= (uint64_t)at[i] << (8 * i);
    RK_FAIL_IF(length > MAX_HEADER_BYTES || length + RK_SAFETENSORS_HEAD_BYTES > file_bytes, RK_BAD_DATA,
               "a safetensors header of %llu bytes does not fit the file", (unsigned long long)length);
    *out = (size_t)length + RK_SAFETENSORS_HEAD_BYTES;
    return RK_OK;
}

/* The header as JSON. */
static rk_status load_header(const void *data, size_t n_bytes, uint64_t file_bytes, json_t **out) {
    size_t end;
    RK_FAIL_IF(n_bytes < RK_SAFETENSORS_HEAD_BYTES, RK_BAD_DATA,
               "the file is truncated: no safetensors header");
    RK_TRY(rk_safetensors_header_bytes(data, file_bytes, &end));
    RK_FAIL_IF(end > n_bytes, RK_BAD_DATA, "a safetensors header of %zu bytes does not fit the file",
               end - RK_SAFETENSORS_HEAD_BYTES);
    json_error_t error;
    json_auto_t *header = json_loadb((const char *)data + RK_SAFETENSORS_HEAD_BYTES,
                                     end - RK_SAFETENSORS_HEAD_BYTES, JSON_REJECT_DUPLICATES, &error);
    RK_FAIL_IF(!header, RK_BAD_DATA, "the safetensors header is not JSON: %s", error.text);
    RK_FAIL_IF(!json_is_object(header), RK_BAD_DATA, "the safetensors header is not an object");
    *out = header;
    header = NULL;
    return RK_OK;
}

rk_status rk_safetensors_parse(const void *data, size_t n_bytes, uint64_t file_bytes, rk_safetensors *out) {
    size_t end;
    json_auto_t *header = NULL;
    RK_AUTO(rk_safetensors_release) rk_safetensors tensors = {0};
    RK_TRY(load_header(data, n_bytes, file_bytes, &header));
    RK_TRY(rk_safetensors_header_bytes(data, file_bytes, &end));
    RK_TRY(parse_entries(header, end, file_bytes, &tensors));
    *out = tensors;
    tensors = (rk_safetensors){0};
    return RK_OK;
}

rk_status rk_safetensors_metadata(const void *data, size_t n_bytes, const char *key, char **out) {
    json_auto_t *header = NULL;
    *out = NULL;
    RK_TRY(load_header(data, n_bytes, n_bytes, &header));
    const char *text = json_string_value(json_object_get(json_object_get(header, "__metadata__"), key));
    return text ? rk_strdup(text, out) : RK_OK;
}
