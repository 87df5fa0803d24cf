#include "base/tensor/tensor_part.h"

#include <stdio.h>
#include <string.h>

static rk_status shape_mismatch_error(const char *name) {
    return rk_error(RK_BAD_DATA, "tensor '%s': its name does not match its shape", name);
}

/* Rows first, first + step, ... below end. */
static int64_t count_rows_of_range(int64_t first, int64_t end, int64_t step) {
    return end > first ? (end - 1 - first) / step + 1 : 0;
}

/* What stands in the brackets, into the part. */
typedef struct tensor_range {
    long long first, end, n_rows, step, first_column, end_column;
    bool has_columns, is_block;
} tensor_range;

static bool parse_contiguous_range(const char *open, tensor_range *out) {
    int end = 0;
    if (sscanf(open, "[%18lld..%18lld:%18lld]%n", &out->first, &out->end, &out->n_rows, &end) < 3)
        return false;
    out->step = 1;
    out->is_block = true;
    return end > 0 && !open[end] && out->first >= 0 && out->first <= out->end && out->end <= out->n_rows;
}

static bool parse_strided_range(const char *open, tensor_range *out) {
    int rows_end = 0, columns_end = 0;
    if (sscanf(open, "[%18lld:%18lld:%18lld%n,%18lld:%18lld%n", &out->first, &out->n_rows, &out->step,
               &rows_end, &out->first_column, &out->end_column, &columns_end) < 3)
        return false;
    out->end = out->n_rows;
    out->has_columns = columns_end > 0;
    return strcmp(open + (out->has_columns ? columns_end : rows_end), "]") == 0 && out->step >= 1 &&
           out->first >= 0 && out->first < out->step && out->first_column >= 0;
}

rk_status rk_tensor_part_parse(const char *name, int32_t n_dims, const int64_t *dims, rk_tensor_part *out) {
    size_t n = strlen(name);
    const char *open = n && name[n - 1] == ']' ? strrchr(name, '[') : NULL;
    if (n_dims < 1) return shape_mismatch_error(name);
    int64_t n_columns = 1, n_elements;
    for (int32_t d = 1; d < n_dims; d++)
        if (__builtin_mul_overflow(n_columns, dims[d], &n_columns)) return shape_mismatch_error(name);
    if (__builtin_mul_overflow(n_columns, dims[0], &n_elements)) return shape_mismatch_error(name);
    rk_tensor_part part = {.name = name,
                           .name_bytes = n,
                           .n_rows = dims[0],
                           .end = dims[0],
                           .step = 1,
                           .n_columns = n_columns,
                           .all_columns = true,
                           .n_elements = n_elements};
    if (open) {
        tensor_range r = {0};
        if (!parse_contiguous_range(open, &r) && !(r = (tensor_range){0}, parse_strided_range(open, &r)))
            return shape_mismatch_error(name);
        /* Each part of a table has its counter, of the part's name whatever its rows and columns. */
        bool is_counter = n_dims == 1 && dims[0] == 1 && !r.is_block,
             fits = count_rows_of_range(r.first, r.end, r.step) == dims[0] &&
                    (!r.has_columns || r.end_column - r.first_column == n_columns);
        if (!fits && !is_counter) return shape_mismatch_error(name);
        part.name_bytes = (size_t)(open - name);
        part.first = r.first, part.end = r.end, part.n_rows = r.n_rows, part.step = r.step;
        part.first_column = r.first_column;
        part.all_columns = !r.has_columns;
        part.is_block = r.is_block;
    }
    *out = part;
    return RK_OK;
}

bool rk_tensor_parts_same_tensor(const rk_tensor_part *a, const rk_tensor_part *b) {
    return a->name_bytes == b->name_bytes && memcmp(a->name, b->name, a->name_bytes) == 0;
}

static int64_t end_column_of(const rk_tensor_part *p) {
    return p->first_column + p->n_columns;
}

rk_status rk_tensor_parts_check_shapes(const rk_tensor_part *to, const rk_tensor_part *from) {
    bool columns = to->all_columns ? end_column_of(from) <= end_column_of(to) &&
                                         (!from->all_columns || from->n_columns == to->n_columns)
                                   : !from->all_columns || end_column_of(to) <= from->n_columns;
    if (to->n_rows == from->n_rows && columns) return RK_OK;
    return rk_error_hint(
        rk_error(RK_CONFIG,
                 "tensor '%.*s' has %lld rows of %s%lld values in the checkpoint, but %lld rows of %s%lld "
                 "values in the model",
                 (int)to->name_bytes, to->name, (long long)from->n_rows, from->all_columns ? "" : "at least ",
                 (long long)end_column_of(from), (long long)to->n_rows, to->all_columns ? "" : "at least ",
                 (long long)end_column_of(to)),
        "the configuration or the data's vocabularies changed since");
}

/* The first of `to`'s rows that is none before those of `from`. */
static int64_t first_common_row(const rk_tensor_part *to, const rk_tensor_part *from) {
    return to->first >= from->first
               ? to->first
               : to->first + (from->first - to->first + to->step - 1) / to->step * to->step;
}

rk_status rk_tensor_part_copy(const rk_tensor_part *to, void *to_data, size_t stride,
                              const rk_tensor_part *from, const void *from_data, size_t n_bytes,
                              int64_t *n_copied) {
    RK_TRY(rk_tensor_parts_check_shapes(to, from));
    int64_t begin = to->first_column > from->first_column ? to->first_column : from->first_column;
    int64_t end = end_column_of(to) < end_column_of(from) ? end_column_of(to) : end_column_of(from);
    if (begin >= end) return RK_OK;
    size_t width = (size_t)(end - begin) * n_bytes;
    if (!stride) stride = (size_t)to->n_columns * n_bytes;
    for (int64_t id = first_common_row(to, from); id < to->end && id < from->end; id += to->step) {
        if ((id - from->first) % from->step) continue;
        int64_t row = (id - to->first) / to->step, column = begin - to->first_column,
                source = (id - from->first) / from->step * from->n_columns + begin - from->first_column;
        if (row * to->n_columns + column + end - begin > to->n_elements)
            return shape_mismatch_error(to->name);
        if (source + end - begin > from->n_elements) return shape_mismatch_error(from->name);
        memcpy((char *)to_data + (size_t)row * stride + (size_t)column * n_bytes,
               (const char *)from_data + (size_t)source * n_bytes, width);
        *n_copied += end - begin;
    }
    return RK_OK;
}
