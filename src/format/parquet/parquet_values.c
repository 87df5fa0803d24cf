/* The encodings of values. */
#include <string.h>

#include "base/memory.h"
#include "format/parquet/parquet_internal.h"

enum { BYTES_OF_INT96 = 12 };

static rk_status cut_off_error(void) {
    return rk_error(RK_BAD_DATA, "a page's values are cut");
}

/* Bytes of a value that always has as many; 0: it has not. */
static size_t fixed_value_bytes(const rk_parquet_leaf *leaf) {
    static const size_t widths[RK_PARQUET_N_PHYSICAL] = {0, 4, 8, BYTES_OF_INT96, 4, 8, 0, 0};
    return leaf->physical == RK_PARQUET_FIXED ? (size_t)leaf->n_bytes : widths[leaf->physical];
}

static rk_status open_delta_lengths(rk_parquet_values *v, const uint8_t *data, const uint8_t *end) {
    RK_TRY(rk_parquet_delta_open(&v->delta, data, end));
    return rk_parquet_delta_end(&v->delta, &v->at);
}

static rk_status open_delta_prefixes(rk_parquet_values *v, const uint8_t *data, const uint8_t *end) {
    const uint8_t *lengths;
    RK_TRY(rk_parquet_delta_open(&v->prefix, data, end));
    RK_TRY(rk_parquet_delta_end(&v->prefix, &lengths));
    return open_delta_lengths(v, lengths, end);
}

static rk_status open_dictionary_indices(rk_parquet_values *v, const uint8_t *data, const uint8_t *end) {
    if (data == end) return RK_OK; /* a page of nulls */
    RK_FAIL_IF(*data > 32, RK_BAD_DATA, "indices of %d bits", *data);
    rk_parquet_rle_open(&v->rle, data + 1, end, *data);
    return RK_OK;
}

static rk_status open_rle_booleans(rk_parquet_values *v, const uint8_t *data, const uint8_t *end) {
    if (data == end) return RK_OK;
    if (end - data < 4 || rk_parquet_read_u32(data) > (size_t)(end - data) - 4) return cut_off_error();
    rk_parquet_rle_open(&v->rle, data + 4, data + 4 + rk_parquet_read_u32(data), 1);
    return RK_OK;
}

rk_status rk_parquet_values_open(rk_parquet_values *v, const rk_parquet_leaf *leaf, rk_parquet_memory *memory,
                                 int64_t encoding, const uint8_t *data, const uint8_t *end) {
    const rk_parquet_physical p = leaf->physical;
    const size_t width = fixed_value_bytes(leaf);
    v->leaf = leaf;
    v->memory = memory;
    v->encoding = (rk_parquet_encoding)encoding;
    v->at = data;
    v->end = end;
    v->bit = 0;
    v->before = v->n_before = 0;
    v->next = 0;
    rk_parquet_rle_open(&v->rle, data, data, 1);
    switch (encoding) {
        case RK_PARQUET_PLAIN:
            return RK_OK;
        case RK_PARQUET_PLAIN_DICTIONARY:
        case RK_PARQUET_RLE_DICTIONARY:
            return open_dictionary_indices(v, data, end);
        case RK_PARQUET_RLE:
            if (p == RK_PARQUET_BOOLEAN) return open_rle_booleans(v, data, end);
            break;
        case RK_PARQUET_DELTA_BINARY_PACKED:
            if (p == RK_PARQUET_INT32 || p == RK_PARQUET_INT64)
                return rk_parquet_delta_open(&v->delta, data, end);
            break;
        case RK_PARQUET_DELTA_LENGTH_BYTE_ARRAY:
            if (p == RK_PARQUET_BYTE_ARRAY) return open_delta_lengths(v, data, end);
            break;
        case RK_PARQUET_DELTA_BYTE_ARRAY:
            if (p == RK_PARQUET_BYTE_ARRAY || p == RK_PARQUET_FIXED) return open_delta_prefixes(v, data, end);
            break;
        case RK_PARQUET_BYTE_STREAM_SPLIT:
            if (width == 0 || p == RK_PARQUET_INT96) break;
            v->n_split = (int64_t)((size_t)(end - data) / width);
            return RK_OK;
        default:
            return rk_error(RK_UNSUPPORTED, "values of an encoding (%lld) that this program does not know",
                            (long long)encoding);
    }
    return rk_error(RK_BAD_DATA, "values of an encoding (%lld) that their type cannot have",
                    (long long)encoding);
}

static rk_status read_booleans(rk_parquet_values *v, int64_t n, int64_t *out) {
    if (v->bit + (uint64_t)n > (uint64_t)(v->end - v->at) * 8) return cut_off_error();
    for (int64_t i = 0; out && i < n; i++) {
        uint64_t bit = v->bit + (uint64_t)i;
        out[i] = v->at[bit / 8] >> (bit % 8) & 1;
    }
    v->bit += (uint64_t)n;
    return RK_OK;
}

static rk_status read_plain_texts(rk_parquet_values *v, int64_t n, rk_span *out) {
    for (int64_t i = 0; i < n; i++) {
        size_t left = (size_t)(v->end - v->at);
        if (left < 4 || rk_parquet_read_u32(v->at) > left - 4) return cut_off_error();
        out[i] = (rk_span){(const char *)v->at + 4, rk_parquet_read_u32(v->at)};
        v->at += 4 + out[i].n_bytes;
    }
    return RK_OK;
}

/* n values of the leaf's width, one after the other. */
static void split_fixed_width(const rk_parquet_leaf *leaf, const uint8_t *at, int64_t n,
                              rk_parquet_batch *batch) {
    const size_t width = fixed_value_bytes(leaf);
    switch (leaf->physical) {
        case RK_PARQUET_INT32:
            for (int64_t i = 0; i < n; i++) batch->values.i64[i] = (int32_t)rk_parquet_read_u32(at + 4 * i);
            return;
        case RK_PARQUET_INT64:
        case RK_PARQUET_FLOAT:
        case RK_PARQUET_DOUBLE:
            if (n) memcpy(&batch->values, at, (size_t)n * width);
            return;
        default:
            for (int64_t i = 0; i < n; i++)
                batch->values.bytes[i] = (rk_span){(const char *)at + (size_t)i * width, width};
    }
}

static rk_status read_plain_values(rk_parquet_values *v, int64_t n) {
    rk_parquet_batch *batch = v->memory->batch;
    if (v->leaf->physical == RK_PARQUET_BOOLEAN) return read_booleans(v, n, batch->values.i64);
    if (v->leaf->physical == RK_PARQUET_BYTE_ARRAY) return read_plain_texts(v, n, batch->values.bytes);
    const size_t width = fixed_value_bytes(v->leaf);
    if (width && (size_t)n > (size_t)(v->end - v->at) / width) return cut_off_error();
    split_fixed_width(v->leaf, v->at, n, batch);
    v->at += (size_t)n * width;
    return RK_OK;
}

static rk_status check_text_length(int64_t n, size_t left) {
    RK_FAIL_IF(n < 0 || (uint64_t)n > left, RK_BAD_DATA, "a value of a length that cannot be");
    return RK_OK;
}

static rk_status read_delta_length_texts(rk_parquet_values *v, int64_t n) {
    rk_parquet_batch *batch = v->memory->batch;
    RK_TRY(rk_parquet_delta_read(&v->delta, n, batch->lengths));
    for (int64_t i = 0; i < n; i++) {
        RK_TRY(check_text_length(batch->lengths[i], (size_t)(v->end - v->at)));
        batch->values.bytes[i] = (rk_span){(const char *)v->at, (size_t)batch->lengths[i]};
        v->at += batch->lengths[i];
    }
    return RK_OK;
}

/* Each value is made whole in the memory's bytes, behind the one before; the first behind the last one of the
 * batch before, which moves to the front. */
static rk_status read_delta_prefix_texts(rk_parquet_values *v, int64_t n) {
    rk_parquet_memory *m = v->memory;
    rk_parquet_batch *batch = m->batch;
    size_t n_before = v->n_before, n_bytes = n_before;
    RK_TRY(rk_parquet_delta_read(&v->delta, n, batch->lengths));
    RK_TRY(rk_parquet_delta_read(&v->prefix, n, batch->prefixes));
    for (int64_t i = 0, left = v->end - v->at; i < n; i++) {
        RK_TRY(check_text_length(batch->prefixes[i], n_before));
        RK_TRY(check_text_length(batch->lengths[i], (size_t)left));
        left -= batch->lengths[i];
        n_before = (size_t)(batch->prefixes[i] + batch->lengths[i]);
        n_bytes += n_before;
    }
    RK_TRY(rk_parquet_check_text(n_bytes));
    RK_TRY(rk_reserve(&m->bytes, &m->bytes_capacity, n_bytes + 1, 1));
    memmove(m->bytes, m->bytes + v->before, v->n_before);
    uint8_t *before = m->bytes, *at = m->bytes + v->n_before;
    for (int64_t i = 0; i < n; i++) {
        const size_t prefix = (size_t)batch->prefixes[i], length = (size_t)batch->lengths[i];
        memcpy(at, before, prefix);
        memcpy(at + prefix, v->at, length);
        batch->values.bytes[i] = (rk_span){(const char *)at, prefix + length};
        v->at += length;
        before = at;
        at += prefix + length;
    }
    v->n_before = n_before;
    v->before = (size_t)(before - m->bytes);
    return RK_OK;
}

static rk_status read_byte_stream_split(rk_parquet_values *v, int64_t n) {
    rk_parquet_memory *m = v->memory;
    const size_t width = fixed_value_bytes(v->leaf), n_split = (size_t)v->n_split;
    if (n > v->n_split - v->next) return cut_off_error();
    RK_TRY(rk_reserve(&m->bytes, &m->bytes_capacity, RK_PARQUET_BATCH * width, 1));
    const uint8_t *from = v->at + v->next;
    for (size_t b = 0; b < width; b++)
        for (size_t i = 0; i < (size_t)n; i++) m->bytes[i * width + b] = from[b * n_split + i];
    split_fixed_width(v->leaf, m->bytes, n, m->batch);
    v->next += n;
    return RK_OK;
}

static rk_status read_delta_numbers(rk_parquet_values *v, int64_t n) {
    int64_t *out = v->memory->batch->values.i64;
    RK_TRY(rk_parquet_delta_read(&v->delta, n, out));
    for (int64_t i = 0; i < n && v->leaf->physical == RK_PARQUET_INT32; i++)
        out[i] = (int32_t)(uint32_t)out[i];
    return RK_OK;
}

rk_status rk_parquet_values_read(rk_parquet_values *v, int64_t n) {
    int64_t n_equal = 0;
    switch (v->encoding) {
        case RK_PARQUET_PLAIN:
            return read_plain_values(v, n);
        case RK_PARQUET_DELTA_BINARY_PACKED:
            return read_delta_numbers(v, n);
        case RK_PARQUET_DELTA_LENGTH_BYTE_ARRAY:
            return read_delta_length_texts(v, n);
        case RK_PARQUET_DELTA_BYTE_ARRAY:
            return read_delta_prefix_texts(v, n);
        case RK_PARQUET_BYTE_STREAM_SPLIT:
            return read_byte_stream_split(v, n);
        default: /* booleans and indices */
            return rk_parquet_rle_read(&v->rle, n, v->memory->batch->values.i64, 0, &n_equal);
    }
}

rk_status rk_parquet_values_skip(rk_parquet_values *v, int64_t n) {
    int64_t n_equal = 0;
    if (rk_parquet_is_dictionary_encoding(v->encoding) || v->encoding == RK_PARQUET_RLE)
        return rk_parquet_rle_read(&v->rle, n, NULL, 0, &n_equal);
    if (v->encoding == RK_PARQUET_DELTA_BINARY_PACKED) return rk_parquet_delta_read(&v->delta, n, NULL);
    if (v->encoding == RK_PARQUET_PLAIN && v->leaf->physical == RK_PARQUET_BOOLEAN)
        return read_booleans(v, n, NULL);
    for (int64_t each; n > 0; n -= each) {
        each = n < RK_PARQUET_BATCH ? n : RK_PARQUET_BATCH;
        RK_TRY(rk_parquet_values_read(v, each));
    }
    return RK_OK;
}
