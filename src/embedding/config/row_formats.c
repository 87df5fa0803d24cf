#include "embedding/config/row_formats.h"

#include <string.h>

#include "base/float16.h"
#include "kernels/kernels.h"

rk_dtype rk_row_format_dtype(rk_export_rows rows) {
    return rows == RK_EXPORT_ROWS_F32    ? RK_F32
           : rows == RK_EXPORT_ROWS_F16  ? RK_F16
           : rows == RK_EXPORT_ROWS_BF16 ? RK_BF16
                                         : RK_U8;
}

int64_t rk_row_format_columns(rk_export_rows rows, int64_t dim) {
    if (rows == RK_EXPORT_ROWS_INT8) return dim + (int64_t)(2 * sizeof(float));
    if (rows == RK_EXPORT_ROWS_INT4) return (dim + 1) / 2 + (int64_t)(2 * sizeof(uint16_t));
    return dim;
}

rk_row_columns rk_row_format_component(rk_export_rows rows, int64_t dim, rk_row_component piece) {
    rk_dtype type = rows == RK_EXPORT_ROWS_INT8 ? RK_F32 : RK_F16;
    int64_t width = rk_row_format_columns(rows, dim), element = (int64_t)rk_dtype_bytes(type),
            codes = width - 2 * element;
    if (piece == RK_ROW_WHOLE) return (rk_row_columns){0, width, RK_U8};
    if (piece == RK_ROW_CODES) return (rk_row_columns){0, codes, RK_U8};
    return (rk_row_columns){piece == RK_ROW_SCALES ? codes : codes + element, element, type};
}

const char *rk_row_format_name(rk_export_rows rows) {
    return rows == RK_EXPORT_ROWS_INT8   ? "fbgemm_fused_8bit_rowwise"
           : rows == RK_EXPORT_ROWS_INT4 ? "fbgemm_fused_4bit_rowwise"
                                         : NULL;
}

void rk_row_format_encode(rk_export_rows rows, const float *from, int64_t n, int64_t dim, void *out,
                          int64_t *failed) {
    *failed = -1;
    if (rows == RK_EXPORT_ROWS_F32)
        memcpy(out, from, (size_t)(n * dim) * sizeof *from);
    else if (rk_row_format_dtype(rows) == RK_U8)
        rk_rows_quantize(from, n, dim, rows == RK_EXPORT_ROWS_INT8 ? 8 : 4, out,
                         rk_row_format_columns(rows, dim), failed);
    else
        rk_f32_to_16_bits(from, n * dim, rows == RK_EXPORT_ROWS_BF16, out);
}

rk_status rk_row_format_encode_error(rk_export_rows rows, const char *table, int64_t row) {
    return rk_error_hint(rk_error(RK_NOT_FINITE,
                                  "table '%s': row %lld cannot be written in %s: it has a value that is not "
                                  "finite, or two that are too far apart",
                                  table, (long long)row, rk_row_format_name(rows)),
                         "take f32 rows");
}

rk_rows rk_row_format_view_rows(rk_export_rows rows, int64_t dim, const void *data) {
    rk_rows out = {.data = (void *)(size_t)data, .dtype = rk_row_format_dtype(rows), .dim = (int32_t)dim};
    if (out.dtype != RK_U8) return out;
    int64_t width = rk_row_format_columns(rows, dim);
    const uint8_t *at = data;
    out.codes = (rk_row_codes){.bits = rows == RK_EXPORT_ROWS_INT8 ? 8 : 4,
                               .scales = at + rk_row_format_component(rows, dim, RK_ROW_SCALES).first,
                               .minima = at + rk_row_format_component(rows, dim, RK_ROW_MINIMA).first,
                               .stride = width,
                               .tail_stride = width};
    return out;
}

void rk_row_values_to_f32(rk_dtype type, const void *from, int64_t n, float *out) {
    if (type != RK_F32)
        rk_f32_from_16_bits(from, n, type == RK_BF16, out);
    else if (n)
        memcpy(out, from, (size_t)n * sizeof *out);
}

void rk_row_format_decode(rk_export_rows rows, const void *from, int64_t n, int64_t dim, float *out) {
    if (n == 0) return; /* from may be NULL, and nothing is added to that */
    if (rk_row_format_dtype(rows) != RK_U8) {
        rk_row_values_to_f32(rk_row_format_dtype(rows), from, n * dim, out);
        return;
    }
    rk_rows codes = rk_row_format_view_rows(rows, dim, from);
    for (int64_t r = 0; r < n; r++) rk_row_load(&codes, r, out + r * dim);
}

rk_export_rows rk_row_format_if_smaller(rk_export_rows rows, int64_t dim, rk_dtype type) {
    if (!rk_row_format_name(rows)) return rows;
    uint64_t trained = (uint64_t)dim * rk_dtype_bytes(type);
    return (uint64_t)rk_row_format_columns(rows, dim) < trained ? rows : RK_EXPORT_ROWS_TRAINED;
}

rk_export_rows rk_row_format_from_name(const char *name) {
    for (int rows = RK_EXPORT_ROWS_INT8; rows <= RK_EXPORT_ROWS_INT4; rows++)
        if (strcmp(rk_row_format_name((rk_export_rows)rows), name) == 0) return (rk_export_rows)rows;
    return RK_EXPORT_ROWS_TRAINED;
}
