#include "export/row_formats.h"

#include <math.h>
#include <string.h>

#include "base/float16.h"

rk_dtype rk_row_format_type(rk_export_rows rows) {
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

const char *rk_row_format_name(rk_export_rows rows) {
    return rows == RK_EXPORT_ROWS_INT8   ? "fbgemm_fused_8bit_rowwise"
           : rows == RK_EXPORT_ROWS_INT4 ? "fbgemm_fused_4bit_rowwise"
                                         : NULL;
}

/* False: the row's values span no finite range. */
static bool find_range(const float *row, int64_t dim, float *least, float *greatest) {
    *least = *greatest = row[0];
    bool finite = true;
    for (int64_t i = 0; i < dim; i++) {
        finite &= isfinite(row[i]) != 0;
        *least = row[i] < *least ? row[i] : *least;
        *greatest = row[i] > *greatest ? row[i] : *greatest;
    }
    return finite && isfinite(*greatest - *least);
}

/* Codes, then the scale and the least value in f32 (FBGEMM, FloatToFused8BitRowwiseQuantized): value = code *
 * scale + least. */
static bool write_int8(const float *row, int64_t dim, uint8_t *out) {
    float least, greatest;
    if (!find_range(row, dim, &least, &greatest)) return false;
    float range = greatest - least, tail[2] = {range / 255.0f, least}, inverse = 255.0f / (range + 1e-8f);
    for (int64_t i = 0; i < dim; i++) out[i] = (uint8_t)lrintf((row[i] - least) * inverse);
    memcpy(out + dim, tail, sizeof tail);
    return true;
}

static int code_of(float value, float least, float inverse) {
    long code = lrintf((value - least) * inverse);
    return code < 0 ? 0 : code > 15 ? 15 : (int)code;
}

/* Codes, two a byte, the first one low, then the scale and the least value in f16 (FBGEMM,
 * FloatToFusedNBitRowwiseQuantizedSBHalf with 4 bits). */
static bool write_int4(const float *row, int64_t dim, uint8_t *out) {
    float least, greatest;
    if (!find_range(row, dim, &least, &greatest)) return false;
    uint16_t least_half = rk_f16_from_f32(least);
    least = rk_f16_to_f32(least_half);
    float range = greatest - least, scale = range == 0 ? 1.0f : range / 15;
    scale = rk_f16_to_f32(rk_f16_from_f32(scale));
    if (scale == 0 || isinf(1.0f / scale)) scale = 1.0f;
    uint16_t tail[2] = {rk_f16_from_f32(scale), least_half};
    float inverse = 1.0f / scale;
    if (!isfinite(least) || !isfinite(scale)) return false;
    for (int64_t i = 0; i < dim; i += 2) {
        int low = code_of(row[i], least, inverse),
            high = i + 1 < dim ? code_of(row[i + 1], least, inverse) : 0;
        out[i / 2] = (uint8_t)(low | high << 4);
    }
    memcpy(out + (dim + 1) / 2, tail, sizeof tail);
    return true;
}

static void write_halves(rk_export_rows rows, const float *from, int64_t n, uint16_t *out) {
    if (rows == RK_EXPORT_ROWS_F16)
        for (int64_t i = 0; i < n; i++) out[i] = rk_f16_from_f32_finite(from[i]);
    else
        for (int64_t i = 0; i < n; i++) out[i] = rk_bf16_from_f32_finite(from[i]);
}

void rk_row_format_write(rk_export_rows rows, const float *from, int64_t n, int64_t dim, void *out,
                         int64_t *failed) {
    int64_t width = rk_row_format_columns(rows, dim);
    *failed = -1;
    if (rows == RK_EXPORT_ROWS_F32)
        memcpy(out, from, (size_t)(n * dim) * sizeof *from);
    else if (rk_row_format_type(rows) != RK_U8)
        write_halves(rows, from, n * dim, out);
    else
        for (int64_t r = 0; r < n && *failed < 0; r++) {
            uint8_t *at = (uint8_t *)out + r * width;
            bool fits = rows == RK_EXPORT_ROWS_INT8 ? write_int8(from + r * dim, dim, at)
                                                    : write_int4(from + r * dim, dim, at);
            if (!fits) *failed = r;
        }
}
