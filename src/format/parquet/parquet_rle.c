/* Runs of numbers of a few bits: one number many times, or groups of eight packed. */
#include <string.h>

#include "format/parquet/parquet_internal.h"
#include "format/unpack_bits.h"

enum { N_UNPACKED = sizeof((rk_parquet_rle *)0)->unpacked / sizeof(int64_t) };

void rk_parquet_rle_open(rk_parquet_rle *r, const uint8_t *data, const uint8_t *end, int bits) {
    r->bytes = (rk_thrift){data, end, false};
    r->bits = bits;
    r->n_repeats = r->n_packed = r->n_unpacked = r->next = 0;
}

static rk_status cut_off_error(void) {
    return rk_error(RK_BAD_DATA, "a page's levels or indices are cut");
}

/* The next run. The last group of eight may be cut behind what is asked for. */
static rk_status read_run_header(rk_parquet_rle *r) {
    uint64_t head = rk_thrift_read_varint(&r->bytes), n = head >> 1;
    size_t n_left = (size_t)(r->bytes.end - r->bytes.at);
    if (r->bytes.failed || n == 0 || n > INT32_MAX) return cut_off_error();
    r->value = 0;
    if (r->bits == 0) {
        r->n_repeats = (int64_t)n * (head & 1 ? 8 : 1);
        return RK_OK;
    }
    if (head & 1) {
        r->n_packed = (int64_t)n * 8;
        if (r->n_packed > (int64_t)(n_left * 8) / r->bits) r->n_packed = (int64_t)(n_left * 8) / r->bits;
        return r->n_packed ? RK_OK : cut_off_error();
    }
    size_t n_bytes = (size_t)(r->bits + 7) / 8;
    if (n_bytes > n_left) return cut_off_error();
    r->n_repeats = (int64_t)n;
    for (size_t i = 0; i < n_bytes; i++) r->value |= (int64_t)r->bytes.at[i] << (8 * i);
    r->bytes.at += n_bytes;
    RK_FAIL_IF(r->value >> r->bits, RK_BAD_DATA, "a page's levels or indices have too many bits");
    return RK_OK;
}

static void unpack_next_numbers(rk_parquet_rle *r) {
    const int64_t n = r->n_packed < N_UNPACKED ? r->n_packed : N_UNPACKED;
    const size_t n_bytes = ((size_t)n * (size_t)r->bits + 7) / 8;
    rk_unpack_bits(&(rk_packed_ints){r->bytes.at, n_bytes, r->bits, 0}, n, r->unpacked);
    r->bytes.at += n_bytes;
    r->n_packed -= n;
    r->n_unpacked = n;
    r->next = 0;
}

static void copy_unpacked_numbers(rk_parquet_rle *r, int64_t n, int64_t *out, int64_t which,
                                  int64_t *n_equal) {
    const int64_t *from = r->unpacked + r->next;
    int64_t equal = 0;
    for (int64_t i = 0; i < n; i++) equal += from[i] == which;
    if (out) memcpy(out, from, (size_t)n * sizeof *out);
    *n_equal += equal;
    r->next += n;
}

rk_status rk_parquet_rle_read(rk_parquet_rle *r, int64_t n, int64_t *out, int64_t which, int64_t *n_equal) {
    while (n > 0) {
        int64_t ready = r->n_unpacked - r->next;
        if (ready > 0) {
            ready = ready < n ? ready : n;
            copy_unpacked_numbers(r, ready, out, which, n_equal);
        } else if (r->n_repeats > 0) {
            ready = r->n_repeats < n ? r->n_repeats : n;
            for (int64_t i = 0; out && i < ready; i++) out[i] = r->value;
            *n_equal += r->value == which ? ready : 0;
            r->n_repeats -= ready;
        } else {
            if (r->n_packed == 0) RK_TRY(read_run_header(r));
            if (r->n_packed > 0) unpack_next_numbers(r);
        }
        if (out && ready > 0) out += ready;
        n -= ready > 0 ? ready : 0;
    }
    return RK_OK;
}
