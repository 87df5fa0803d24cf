/* A column of a block as bytes: counts, values, weights. Numbers are packed as their distance from the least
 * one. */
#include "base/hash.h"
#include "base/memory.h"
#include "format/rkb/rkb_internal.h"

static int bytes_per_value_of_range(uint64_t range) {
    return range == 0 ? 0 : range <= UINT8_MAX ? 1 : range <= UINT16_MAX ? 2 : range <= UINT32_MAX ? 4 : 8;
}

/* The least of values[n] and the distance to the greatest. */
static uint64_t find_value_range(const int64_t *values, int64_t n, int64_t *min_out) {
    int64_t min = n ? values[0] : 0, max = min;
    for (int64_t i = 1; i < n; i++) {
        min = values[i] < min ? values[i] : min;
        max = values[i] > max ? values[i] : max;
    }
    *min_out = min;
    return (uint64_t)max - (uint64_t)min;
}

#define PACK(type)                                                                                      \
    for (int64_t i = 0; i < n;) {                                                                       \
        type part[512];                                                                                 \
        int64_t n_part = n - i < 512 ? n - i : 512;                                                     \
        for (int64_t j = 0; j < n_part; j++) part[j] = (type)((uint64_t)values[i + j] - (uint64_t)min); \
        rk_buffer_append(out, part, (size_t)n_part * sizeof(type));                                     \
        i += n_part;                                                                                    \
    }

/* Distances of `bits` each, the first in the lowest bits of the first byte. */
static void append_packed_bits(rk_buffer *out, const int64_t *values, int64_t n, int64_t min, int bits) {
    uint64_t word = 0; /* what is not written yet: n_word bits, less than 8 before each value */
    int n_word = 0;
    uint8_t part[512 + 8];
    size_t n_part = 0;
    for (int64_t i = 0; i < n; i++) {
        word |= ((uint64_t)values[i] - (uint64_t)min) << n_word;
        for (n_word += bits; n_word >= 8; n_word -= 8, word >>= 8) part[n_part++] = (uint8_t)word;
        if (n_part < 512) continue;
        rk_buffer_append(out, part, n_part);
        n_part = 0;
    }
    if (n_word) part[n_part++] = (uint8_t)word;
    rk_buffer_append(out, part, n_part);
}

/* u8 width (0: all are equal), i64 least, then each value's distance from it. */
static void encode_ints(rk_buffer *out, const int64_t *values, int64_t n, bool in_bits) {
    int64_t min;
    uint64_t range = find_value_range(values, n, &min);
    int width = bytes_per_value_of_range(range), bits = range ? 64 - __builtin_clzll(range) : 0;
    if (in_bits && bits < 8 * width && bits <= RK_RKB_MAX_BITS) {
        rk_buffer_append_u8(out, (uint8_t)(RK_RKB_BITS | bits));
        rk_buffer_append_u64le(out, (uint64_t)min);
        append_packed_bits(out, values, n, min, bits);
        return;
    }
    rk_buffer_append_u8(out, (uint8_t)width);
    rk_buffer_append_u64le(out, (uint64_t)min);
    switch (width) {
        case 1:
            PACK(uint8_t) break;
        case 2:
            PACK(uint16_t) break;
        case 4:
            PACK(uint32_t) break;
        case 8:
            PACK(uint64_t) break;
        default:
            break;
    }
}

/* The differences of offsets[n+1]. */
static void encode_offset_differences(rk_buffer *out, const int64_t *offsets, int64_t n, bool in_bits,
                                      int64_t *scratch) {
    for (int64_t i = 0; i < n; i++) scratch[i] = offsets[i + 1] - offsets[i];
    encode_ints(out, scratch, n, in_bits);
}

static uint64_t encoded_ints_bytes(uint64_t n, uint64_t range) {
    return RK_RKB_INTS_HEAD_BYTES + n * (uint64_t)bytes_per_value_of_range(range);
}

/* The distinct values of a text column, in the order of their first appearance. */
typedef struct dictionary {
    int64_t *words;   /* [n_words] a value each */
    int64_t *indices; /* [n_values] into words */
    int64_t *slots;   /* [n_slots] word + 1, or 0: free */
    uint64_t n_slots;
    int64_t n_words, max_words;
} dictionary;

static void dictionary_release(dictionary *d) {
    RK_FREE_ALL(d->words, d->indices, d->slots);
}

static bool find_or_add_word(dictionary *d, const rk_column *column, int64_t value) {
    rk_span text = rk_column_text(column, value);
    uint64_t slot = rk_hash_bytes(text.data, text.n_bytes, 0) & (d->n_slots - 1);
    for (; d->slots[slot]; slot = (slot + 1) & (d->n_slots - 1)) {
        rk_span word = rk_column_text(column, d->words[d->slots[slot] - 1]);
        if (word.n_bytes == text.n_bytes && memcmp(word.data, text.data, text.n_bytes) == 0) {
            d->indices[value] = d->slots[slot] - 1;
            return true;
        }
    }
    if (d->n_words == d->max_words) return false;
    d->words[d->n_words] = value;
    d->indices[value] = d->n_words;
    d->slots[slot] = ++d->n_words;
    return true;
}

/* *worth: the dictionary and indices take fewer bytes than the texts one after another. */
static rk_status build_word_dictionary(const rk_column *column, dictionary *d, bool *worth) {
    int64_t n = column->n_values, longest = 0, shortest = INT64_MAX, n_word_bytes = 0, longest_word = 0,
            shortest_word = INT64_MAX;
    uint64_t n_text_bytes = 0;
    *worth = false;
    d->max_words = n / 2; /* more, and it is not worth the indices */
    for (d->n_slots = 16; d->n_slots < (uint64_t)n; d->n_slots *= 2) continue;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)d->max_words, d->words), RK_ARRAY((size_t)n, d->indices),
                        RK_ARRAY((size_t)d->n_slots, d->slots)));
    for (int64_t v = 0; v < n; v++) {
        int64_t n_words = d->n_words, length = (int64_t)rk_column_text(column, v).n_bytes;
        if (!find_or_add_word(d, column, v)) return RK_OK;
        n_text_bytes += (uint64_t)length;
        longest = length > longest ? length : longest;
        shortest = length < shortest ? length : shortest;
        if (d->n_words == n_words) continue;
        n_word_bytes += length;
        longest_word = length > longest_word ? length : longest_word;
        shortest_word = length < shortest_word ? length : shortest_word;
    }
    if (n == 0) return RK_OK;
    uint64_t plain = encoded_ints_bytes((uint64_t)n, (uint64_t)(longest - shortest)) + n_text_bytes;
    uint64_t packed = encoded_ints_bytes((uint64_t)d->n_words, (uint64_t)(longest_word - shortest_word)) +
                      (uint64_t)n_word_bytes + encoded_ints_bytes((uint64_t)n, (uint64_t)d->n_words - 1) + 8;
    *worth = packed < plain;
    return RK_OK;
}

static void encode_dictionary(rk_buffer *out, const rk_column *column, const dictionary *d, bool in_bits,
                              int64_t *scratch) {
    rk_buffer_append_u8(out, RK_RKB_TEXT_DICTIONARY);
    rk_buffer_append_u64le(out, (uint64_t)d->n_words);
    for (int64_t w = 0; w < d->n_words; w++)
        scratch[w] = (int64_t)rk_column_text(column, d->words[w]).n_bytes;
    encode_ints(out, scratch, d->n_words, in_bits);
    for (int64_t w = 0; w < d->n_words; w++) {
        rk_span word = rk_column_text(column, d->words[w]);
        rk_buffer_append(out, word.data, word.n_bytes);
    }
    encode_ints(out, d->indices, column->n_values, in_bits);
}

static rk_status encode_text_column(rk_buffer *out, const rk_column *column, bool in_bits, int64_t *scratch) {
    dictionary d = {0};
    bool worth;
    rk_status status = build_word_dictionary(column, &d, &worth);
    if (status == RK_OK && worth) {
        encode_dictionary(out, column, &d, in_bits, scratch);
    } else if (status == RK_OK) {
        int64_t n = column->n_values;
        rk_buffer_append_u8(out, RK_RKB_TEXT_PLAIN);
        for (int64_t v = 0; v < n; v++) scratch[v] = column->places[v].n_bytes;
        encode_ints(out, scratch, n, in_bits);
        for (int64_t v = 0; v < n; v++) {
            rk_span text = rk_column_text(column, v);
            rk_buffer_append(out, text.data, text.n_bytes);
        }
    }
    dictionary_release(&d);
    return status;
}

void rk_rkb_encode(const rk_column *column, int64_t n_rows, bool in_bits, rk_buffer *out) {
    int64_t n = column->n_values, *scratch = NULL;
    rk_status status = rk_alloc((size_t)(n > n_rows ? n : n_rows), sizeof *scratch, &scratch);
    if (status == RK_OK) {
        rk_buffer_append_u64le(out, (uint64_t)n);
        encode_offset_differences(out, column->offsets, n_rows, in_bits, scratch);
        if (column->type == RK_COLUMN_TEXT) status = encode_text_column(out, column, in_bits, scratch);
        if (column->type == RK_COLUMN_I64) encode_ints(out, column->i64, n, in_bits);
        if (column->type == RK_COLUMN_F32)
            rk_buffer_append(out, column->f32, (size_t)n * sizeof *column->f32);
        rk_buffer_append_u8(out, column->weights != NULL);
        if (column->weights) rk_buffer_append(out, column->weights, (size_t)n * sizeof *column->weights);
    }
    rk_free(scratch);
    if (out->status == RK_OK) out->status = status;
}
