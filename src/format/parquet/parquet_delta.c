/* DELTA_BINARY_PACKED: a first number, then blocks of differences less the least of them, in mini-blocks of
 * some bits each. */
#include <string.h>

#include "format/parquet/parquet_internal.h"

enum { MOST_BLOCK = 1 << 20 };

static rk_status broken_delta_error(void) {
    return rk_error(RK_BAD_DATA, "differences that cannot be, or are cut");
}

rk_status rk_parquet_delta_open(rk_parquet_delta *d, const uint8_t *data, const uint8_t *end) {
    *d = (rk_parquet_delta){.bytes = {data, end, false}};
    uint64_t n_block = rk_thrift_read_varint(&d->bytes), n_mini = rk_thrift_read_varint(&d->bytes);
    d->n_left = rk_thrift_read_varint(&d->bytes);
    d->value = (uint64_t)rk_thrift_unzigzag(rk_thrift_read_varint(&d->bytes));
    if (d->bytes.failed || n_block == 0 || n_block > MOST_BLOCK || n_mini == 0 || n_block % n_mini ||
        n_block / n_mini % 8 || d->n_left > INT32_MAX)
        return broken_delta_error();
    d->n_mini = d->mini = (uint32_t)n_mini;
    d->n_mini_values = (uint32_t)(n_block / n_mini);
    return RK_OK;
}

static rk_status read_delta_block_header(rk_parquet_delta *d) {
    d->least = (uint64_t)rk_thrift_unzigzag(rk_thrift_read_varint(&d->bytes));
    if (d->bytes.failed || d->n_mini > (size_t)(d->bytes.end - d->bytes.at)) return broken_delta_error();
    d->widths = d->bytes.at;
    d->bytes.at += d->n_mini;
    d->mini = 0;
    return RK_OK;
}

/* The last mini-block may be cut behind its last number. */
static rk_status read_mini_block_header(rk_parquet_delta *d) {
    if (d->mini == d->n_mini) RK_TRY(read_delta_block_header(d));
    d->bits = d->widths[d->mini++];
    if (d->bits > 64) return broken_delta_error();
    const size_t n_left = (size_t)(d->bytes.end - d->bytes.at);
    const uint64_t used = d->n_left < d->n_mini_values ? d->n_left : d->n_mini_values;
    size_t n_bytes = (size_t)d->n_mini_values / 8 * (size_t)d->bits;
    if (n_bytes > n_left && (used * (uint64_t)d->bits + 7) / 8 > n_left) return broken_delta_error();
    d->differences = d->bytes.at;
    d->bytes.at += n_bytes < n_left ? n_bytes : n_left;
    d->n_mini_left = d->n_mini_values;
    d->bit = 0;
    return RK_OK;
}

/* `bits` bits from `bit` on, of bytes that end at `end`. */
static uint64_t read_bits_at(const uint8_t *data, const uint8_t *end, uint64_t bit, int bits) {
    const uint8_t *at = data + bit / 8;
    const int shift = (int)(bit % 8);
    uint64_t low = 0;
    size_t n_left = (size_t)(end - at);
    memcpy(&low, at, n_left < 8 ? n_left : 8);
    low >>= shift;
    if (shift + bits > 64) low |= (uint64_t)at[8] << (64 - shift);
    return bits == 64 ? low : low & (((uint64_t)1 << bits) - 1);
}

rk_status rk_parquet_delta_read(rk_parquet_delta *d, int64_t n, int64_t *out) {
    for (int64_t i = 0; i < n; i++) {
        RK_FAIL_IF(d->n_left == 0, RK_BAD_DATA, "fewer differences than values");
        if (out) out[i] = (int64_t)d->value;
        if (--d->n_left == 0) continue;
        if (d->n_mini_left == 0) RK_TRY(read_mini_block_header(d));
        uint64_t difference = d->bits ? read_bits_at(d->differences, d->bytes.at, d->bit, d->bits) : 0;
        d->bit += (uint64_t)d->bits;
        d->n_mini_left--;
        d->value += d->least + difference;
    }
    return RK_OK;
}

rk_status rk_parquet_delta_end(const rk_parquet_delta *delta, const uint8_t **out) {
    rk_parquet_delta d = *delta;
    RK_TRY(rk_parquet_delta_read(&d, (int64_t)d.n_left, NULL));
    *out = d.bytes.at;
    return RK_OK;
}
