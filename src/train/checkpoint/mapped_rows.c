#include "train/checkpoint/mapped_rows.h"

#include <string.h>

#include "base/memory.h"
#include "base/text/name_map.h"
#include "embedding/config/row_formats.h"
#include "base/tensor/tensor_part.h"

typedef struct mapped_table {
    char *name; /* of the tensor */
    int64_t n_rows;
    rk_rows rows;
} mapped_table;

typedef struct mapped_rows {
    rk_row_source source;
    rk_mapped_file *files; /* [n_files], those with rows mapped */
    size_t n_files;
    mapped_table *tables; /* [n] */
    size_t n;
    rk_name_map names;
} mapped_rows;

static void free_mapped_rows(rk_row_source *source) {
    mapped_rows *m = (mapped_rows *)source;
    for (size_t i = 0; i < m->n; i++) rk_free(m->tables[i].name);
    for (size_t i = 0; i < m->n_files; i++) rk_mapped_file_release(&m->files[i]);
    rk_name_map_release(&m->names);
    RK_FREE_ALL(m->files, m->tables, m);
}

static rk_status find_mapped_rows(const rk_row_source *source, const char *table, int64_t n_rows, int32_t dim,
                                  rk_rows *rows) {
    const mapped_rows *m = (const mapped_rows *)source;
    rk_buffer name = {0};
    rk_buffer_printf(&name, "table/%s/rows", table);
    RK_TRY(name.status);
    int64_t at = rk_name_map_find(&m->names, name.data);
    const mapped_table *found = at < 0 ? NULL : &m->tables[at];
    rk_tensor_part to = {.name = name.data,
                         .name_bytes = name.n_bytes,
                         .n_rows = n_rows,
                         .step = 1,
                         .n_columns = dim,
                         .all_columns = true};
    rk_tensor_part from = to;
    if (found) from.n_rows = found->n_rows, from.n_columns = found->rows.dim;
    rk_status status = rk_tensor_parts_check_shapes(&to, &from);
    rk_buffer_release(&name);
    if (status == RK_OK && found) *rows = found->rows;
    return status;
}

/* Rows of bytes n_bytes wide of a part that has all rows of its tensor; NULL: it has not. */
static const rk_stored_part *find_part_with_all_rows(const rk_stored_tensor *tensor, int64_t first_column,
                                                     int64_t n_columns) {
    for (size_t i = 0; i < tensor->n_parts; i++) {
        const rk_stored_part *part = &tensor->parts[i];
        if (part->first_column == first_column && part->n_columns == n_columns && part->step == 1 &&
            part->n_rows == tensor->n_rows)
            return part;
    }
    return NULL;
}

/* Rows as they were trained, or fused codes: one part. data NULL: they stand otherwise. */
static rk_status map_contiguous_rows(mapped_rows *m, const rk_stored_tensors *tensors,
                                     const rk_stored_tensor *tensor, rk_rows *out) {
    const rk_stored_part *part = find_part_with_all_rows(tensor, 0, tensor->n_columns);
    const uint8_t *data;
    if (!part || part->begin % rk_dtype_bytes(tensor->type)) return RK_OK;
    RK_TRY(rk_stored_part_map(tensors, tensor, part, m->files, &data));
    if (tensor->codes != RK_EXPORT_ROWS_TRAINED)
        *out = rk_row_format_view_rows(tensor->codes, tensor->dim, data);
    else
        *out = (rk_rows){.data = (void *)(size_t)data, .dtype = tensor->type, .dim = (int32_t)tensor->dim};
    return RK_OK;
}

/* Codes, scales and least values as ONNX models have them: a part each. */
static rk_status map_split_codes(mapped_rows *m, const rk_stored_tensors *tensors,
                                 const rk_stored_tensor *tensor, rk_rows *out) {
    const uint8_t *data[3];
    rk_row_columns piece = {0};
    for (int i = 0; i < 3; i++) {
        piece = rk_row_format_component(tensor->codes, tensor->dim, (rk_row_component)(RK_ROW_CODES + i));
        const rk_stored_part *part = find_part_with_all_rows(tensor, piece.first, piece.n);
        if (!part) return RK_OK;
        RK_TRY(rk_stored_part_map(tensors, tensor, part, m->files, &data[i]));
    }
    *out = rk_row_format_view_rows(tensor->codes, tensor->dim, data[0]);
    out->codes.scales = data[1];
    out->codes.minima = data[2];
    out->codes.tail_stride = piece.n;
    out->codes.stride = tensor->n_columns - 2 * piece.n;
    return RK_OK;
}

static rk_status map_rows_of_table(mapped_rows *m, const rk_stored_tensors *tensors,
                                   const rk_stored_tensor *tensor) {
    mapped_table *table = &m->tables[m->n];
    bool in_pieces = tensor->codes != RK_EXPORT_ROWS_TRAINED && tensor->n_parts > 1;
    *table = (mapped_table){.n_rows = tensor->n_rows};
    if (strncmp(tensor->name, "table/", 6) != 0 || tensor->dim > RK_MAX_DIM) return RK_OK;
    RK_TRY((in_pieces ? map_split_codes : map_contiguous_rows)(m, tensors, tensor, &table->rows));
    if (!table->rows.data) return RK_OK;
    RK_TRY(rk_strdup(tensor->name, &table->name));
    return rk_name_map_add(&m->names, table->name, (int64_t)m->n++);
}

rk_status rk_mapped_rows_create(const rk_stored_tensors *tensors, rk_row_source **out) {
    static const rk_row_source_ops ops = {.free = free_mapped_rows, .find = find_mapped_rows};
    mapped_rows *m;
    RK_TRY(rk_alloc(1, sizeof *m, &m));
    RK_AUTO(rk_row_source_auto) rk_row_source *source = &m->source;
    source->ops = &ops;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(tensors->n_files, m->files), RK_ARRAY(tensors->n, m->tables)));
    m->n_files = tensors->n_files;
    for (size_t i = 0; i < tensors->n; i++) RK_TRY(map_rows_of_table(m, tensors, &tensors->list[i]));
    *out = source;
    source = NULL;
    return RK_OK;
}
