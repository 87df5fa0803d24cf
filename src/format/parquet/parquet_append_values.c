/* What physical values become in a column. */
#include <string.h>

#include "base/float16.h"
#include "format/parquet/parquet_internal.h"

enum { MOST_DECIMAL_BYTES = 64, DIGITS_A_BYTE = 3 };

static rk_status append_i64(const rk_parquet_leaf *leaf, const int64_t *values, int64_t n, bool any_bits,
                            rk_column *out) {
    int64_t *to = out->i64 + out->n_values;
    if (leaf->meaning == RK_PARQUET_UNSIGNED && leaf->physical == RK_PARQUET_INT32) {
        for (int64_t i = 0; i < n; i++) to[i] = (uint32_t)values[i];
        return RK_OK;
    }
    for (int64_t i = 0; i < n && leaf->meaning == RK_PARQUET_UNSIGNED && !any_bits; i++)
        RK_FAIL_IF(values[i] < 0, RK_BAD_DATA,
                   "%llu is more than a 64-bit integer with a sign\n"
                   "hint: a column that only features with 'key' read may have it",
                   (unsigned long long)values[i]);
    memcpy(to, values, (size_t)n * sizeof *to);
    return RK_OK;
}

/* Nanoseconds of the day, and the Julian day. */
static rk_status append_timestamps(const rk_span *values, int64_t n, rk_column *out) {
    const int64_t day_of_1970 = 2440588, day_ns = 86400000000000;
    for (int64_t i = 0; i < n; i++) {
        int64_t ns, whole;
        uint32_t day;
        memcpy(&ns, values[i].data, 8);
        memcpy(&day, values[i].data + 8, 4);
        bool is_far = __builtin_mul_overflow((int64_t)day - day_of_1970, day_ns, &whole) ||
                      __builtin_add_overflow(whole, ns, &whole);
        RK_FAIL_IF(is_far, RK_BAD_DATA, "a time that nanoseconds of 64 bits do not reach");
        out->i64[out->n_values + i] = whole;
    }
    return RK_OK;
}

rk_status rk_parquet_check_text(size_t n_bytes) {
    RK_FAIL_IF(n_bytes > RK_PARQUET_MAX_TEXT_BYTES, RK_UNSUPPORTED, "more than %d MiB of text at once",
               RK_PARQUET_MAX_TEXT_BYTES >> 20);
    return RK_OK;
}

rk_status rk_parquet_reserve_text(rk_column *out, size_t n_bytes) {
    RK_TRY(rk_parquet_check_text(out->n_text_bytes + n_bytes));
    return rk_column_reserve(out, 0, out->n_values, (int64_t)(out->n_text_bytes + n_bytes));
}

/* The texts' bytes are there. */
static void append_text(rk_span text, const rk_parquet_rows *rows, bool with_empty, bool *kept,
                        rk_column *out) {
    const size_t begin = out->n_text_bytes;
    *kept = text.n_bytes > 0 && !rk_span_is_one_of(text, rows->missing, rows->n_missing);
    if (!*kept && !with_empty) return;
    const size_t n = *kept ? text.n_bytes : 0;
    if (n) memcpy(out->text_memory + begin, text.data, n);
    out->places[out->n_values++] = (rk_text_place){(uint32_t)begin, (uint32_t)n};
    out->n_text_bytes = begin + n;
}

static rk_status append_texts(rk_parquet_batch *batch, int64_t n, const rk_parquet_rows *rows,
                              bool with_empty, rk_column *out) {
    size_t n_bytes = 0;
    for (int64_t i = 0; i < n; i++) n_bytes += batch->values.bytes[i].n_bytes;
    RK_TRY(rk_parquet_reserve_text(out, n_bytes));
    for (int64_t i = 0; i < n; i++)
        append_text(batch->values.bytes[i], rows, with_empty, &batch->kept[i], out);
    return RK_OK;
}

/* A number in two's complement, the highest byte first, in decimal digits, the lowest first: how many. Bytes
 * are used up. */
static int convert_big_endian_to_decimal_digits(uint8_t *bytes, size_t n, char *digits) {
    int n_digits = 0;
    for (size_t first = 0; first < n;) {
        unsigned rest = 0;
        for (size_t i = first; i < n; i++) {
            rest = rest << 8 | bytes[i];
            bytes[i] = (uint8_t)(rest / 10);
            rest %= 10;
        }
        digits[n_digits++] = (char)('0' + rest);
        while (first < n && bytes[first] == 0) first++;
    }
    return n_digits;
}

/* The number as text, with a point where its scale has one: at most MOST_DECIMAL_BYTES * DIGITS_A_BYTE digits
 * and the scale's zeros. */
static rk_span format_decimal(const rk_parquet_leaf *leaf, const uint8_t *value, size_t n, char *room) {
    uint8_t bytes[MOST_DECIMAL_BYTES];
    char digits[MOST_DECIMAL_BYTES * DIGITS_A_BYTE], *to = room;
    const bool is_negative = n && value[0] & 0x80;
    for (size_t i = n, carry = 1; i-- > 0;) {
        carry += (uint8_t)~value[i];
        bytes[i] = is_negative ? (uint8_t)carry : value[i];
        carry >>= 8;
    }
    int n_digits = convert_big_endian_to_decimal_digits(bytes, n, digits);
    if (is_negative) *to++ = '-';
    for (int at = n_digits > leaf->scale ? n_digits : leaf->scale + 1; at-- > 0;) {
        *to++ = at < n_digits ? digits[at] : '0';
        if (at == leaf->scale && leaf->scale > 0) *to++ = '.';
    }
    return (rk_span){room, (size_t)(to - room)};
}

static rk_status append_decimals(const rk_parquet_leaf *leaf, rk_parquet_batch *batch, int64_t n,
                                 const rk_parquet_rows *rows, bool with_empty, rk_column *out) {
    char room[MOST_DECIMAL_BYTES * DIGITS_A_BYTE + 1024];
    const bool is_whole = leaf->physical == RK_PARQUET_INT32 || leaf->physical == RK_PARQUET_INT64;
    for (int64_t i = 0; i < n; i++) {
        uint8_t whole[8];
        rk_span value = {(const char *)whole, sizeof whole};
        for (int b = 0; b < 8 && is_whole; b++)
            whole[b] = (uint8_t)((uint64_t)batch->values.i64[i] >> (56 - 8 * b));
        if (!is_whole) value = batch->values.bytes[i];
        RK_FAIL_IF(value.n_bytes > MOST_DECIMAL_BYTES, RK_UNSUPPORTED, "a decimal of %zu bytes",
                   value.n_bytes);
        rk_span text = format_decimal(leaf, (const uint8_t *)value.data, value.n_bytes, room);
        RK_TRY(rk_parquet_reserve_text(out, text.n_bytes));
        append_text(text, rows, with_empty, &batch->kept[i], out);
    }
    return RK_OK;
}

static rk_status append_f16_values(const rk_span *values, int64_t n, rk_column *out) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        RK_FAIL_IF(values[i].n_bytes != sizeof half, RK_BAD_DATA, "a float of %zu bytes", values[i].n_bytes);
        memcpy(&half, values[i].data, sizeof half);
        out->f32[out->n_values + i] = rk_f16_to_f32(half);
    }
    return RK_OK;
}

static rk_status append_numbers(const rk_parquet_leaf *leaf, const rk_parquet_batch *batch, int64_t n,
                                bool any_bits, rk_column *out) {
    if (n == 0) return RK_OK;
    if (leaf->meaning == RK_PARQUET_HALF) return append_f16_values(batch->values.bytes, n, out);
    if (leaf->meaning == RK_PARQUET_TIMESTAMP) return append_timestamps(batch->values.bytes, n, out);
    if (out->type == RK_COLUMN_I64) return append_i64(leaf, batch->values.i64, n, any_bits, out);
    if (out->type == RK_COLUMN_F32)
        memcpy(out->f32 + out->n_values, batch->values.f32, (size_t)n * sizeof *out->f32);
    if (out->type == RK_COLUMN_F64)
        memcpy(out->f64 + out->n_values, batch->values.f64, (size_t)n * sizeof *out->f64);
    return RK_OK;
}

rk_status rk_parquet_append_values(const rk_parquet_leaf *leaf, rk_parquet_memory *memory, int64_t n,
                                   const rk_parquet_rows *rows, bool with_empty, rk_column *out) {
    rk_parquet_batch *batch = memory->batch;
    if (leaf->meaning == RK_PARQUET_DECIMAL) return append_decimals(leaf, batch, n, rows, with_empty, out);
    if (leaf->meaning == RK_PARQUET_NOTHING) {
        for (int64_t i = 0; i < n; i++) append_text((rk_span){"", 0}, rows, with_empty, &batch->kept[i], out);
        return RK_OK;
    }
    if (out->type == RK_COLUMN_TEXT) return append_texts(batch, n, rows, with_empty, out);
    RK_TRY(append_numbers(leaf, batch, n, rows->any_bits, out));
    memset(batch->kept, 1, (size_t)n);
    out->n_values += n;
    return RK_OK;
}

static rk_status check_dictionary_indices(const rk_column *dictionary, const int64_t *indices, int64_t n) {
    int64_t greatest = -1;
    for (int64_t i = 0; i < n; i++) greatest = indices[i] > greatest ? indices[i] : greatest;
    RK_FAIL_IF(greatest >= dictionary->n_values, RK_BAD_DATA, "an index that its dictionary has not");
    return RK_OK;
}

rk_status rk_parquet_append_dictionary_values(rk_parquet_memory *memory, int64_t n, rk_column *out) {
    const rk_column *dictionary = memory->dictionary.columns;
    rk_parquet_batch *batch = memory->batch;
    const int64_t *indices = batch->values.i64, first = out->n_values;
    RK_TRY(check_dictionary_indices(dictionary, indices, n));
    memset(batch->kept, 1, (size_t)n);
    switch (out->type) {
        case RK_COLUMN_I64:
            for (int64_t i = 0; i < n; i++) out->i64[first + i] = dictionary->i64[indices[i]];
            break;
        case RK_COLUMN_F32:
            for (int64_t i = 0; i < n; i++) out->f32[first + i] = dictionary->f32[indices[i]];
            break;
        case RK_COLUMN_F64:
            for (int64_t i = 0; i < n; i++) out->f64[first + i] = dictionary->f64[indices[i]];
            break;
        default:
            for (int64_t i = 0; i < n; i++) {
                rk_text_place place = dictionary->places[indices[i]];
                batch->kept[i] = place.n_bytes > 0;
                out->places[out->n_values] = place;
                out->n_values += batch->kept[i];
            }
            return RK_OK;
    }
    out->n_values += n;
    return RK_OK;
}
