/* Bytes back into a column of a block: everything is checked, nothing is trusted. */
#include "base/memory.h"
#include "format/rkb_parts.h"

/* What is left of a chunk. */
typedef struct cursor {
    const uint8_t *at, *end;
} cursor;

#define DAMAGED(what) rk_error(RK_BAD_DATA, "the column is damaged: %s", (what))

/* The next n elements of `bytes` each, or NULL if they are not there. */
static const uint8_t *take(cursor *c, uint64_t n, uint64_t bytes) {
    const uint8_t *at = c->at;
    if (bytes && n > (uint64_t)(c->end - at) / bytes) return NULL;
    c->at += n * bytes;
    return at;
}

#define UNPACK(type)                                            \
    for (int64_t i = 0; i < n; i++) {                           \
        type distance;                                          \
        memcpy(&distance, packed + (size_t)i * sizeof distance, sizeof distance); \
        out[i] = (int64_t)(min + distance);                     \
    }

/* A word is read where a number begins; the last ones out of a copy, since no word ends there. */
static void unpack_bits(const uint8_t *packed, size_t n_bytes, int bits, uint64_t min, int64_t n, int64_t *out) {
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    uint64_t at = 0, width = (uint64_t)bits;
    int64_t n_whole = n_bytes < 8 ? 0 : (int64_t)((n_bytes - 8) * 8 / width) + 1, i = 0;
    for (; i < n_whole && i < n; i++, at += width) out[i] = (int64_t)(min + (rk_rkb_u64(packed + at / 8) >> at % 8 & mask));
    uint8_t rest[32] = {0};
    uint64_t first = at / 8;
    if (i < n) memcpy(rest, packed + first, n_bytes - first);
    for (; i < n; i++, at += width) out[i] = (int64_t)(min + (rk_rkb_u64(rest + (at / 8 - first)) >> at % 8 & mask));
}

static rk_status take_bits(cursor *c, int bits, uint64_t min, int64_t n, int64_t *out) {
    if (bits < 1 || bits > RK_RKB_MAX_BITS) return DAMAGED("a width of too many bits");
    uint64_t n_bytes = ((uint64_t)n * (uint64_t)bits + 7) / 8;
    const uint8_t *packed = take(c, n_bytes, 1);
    if (!packed) return DAMAGED("numbers are cut");
    unpack_bits(packed, (size_t)n_bytes, bits, min, n, out);
    return RK_OK;
}

static rk_status take_ints(cursor *c, int64_t n, int64_t *out) {
    const uint8_t *head = take(c, 1, RK_RKB_INTS_HEAD_BYTES);
    if (!head) return DAMAGED("numbers are cut");
    int width = head[0];
    uint64_t min = rk_rkb_u64(head + 1);
    if (width & RK_RKB_BITS) return take_bits(c, width & ~RK_RKB_BITS, min, n, out);
    if (width > 8 || (width & (width - 1))) return DAMAGED("a width that is none of 0, 1, 2, 4, 8");
    const uint8_t *packed = take(c, (uint64_t)n, (uint64_t)width);
    if (!packed) return DAMAGED("numbers are cut");
    switch (width) {
        case 1: UNPACK(uint8_t) break;
        case 2: UNPACK(uint16_t) break;
        case 4: UNPACK(uint32_t) break;
        case 8: UNPACK(uint64_t) break;
        default:
            for (int64_t i = 0; i < n; i++) out[i] = (int64_t)min;
            break;
    }
    return RK_OK;
}

/* Counts or lengths, added up to offsets[n+1]; the sum is at most `limit`. */
static rk_status take_offsets(cursor *c, int64_t n, int64_t limit, int64_t *offsets) {
    RK_TRY(take_ints(c, n, offsets + 1));
    offsets[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        if (offsets[i + 1] < 0 || offsets[i + 1] > limit - offsets[i]) return DAMAGED("lengths that do not add up");
        offsets[i + 1] += offsets[i];
    }
    return RK_OK;
}

/* The same where all counts are equal, as in most columns: nothing to add up one after the other. */
static rk_status take_counts(cursor *c, int64_t n, int64_t n_values, rk_column *out) {
    int64_t *offsets = out->offsets;
    bool equal = c->end - c->at >= RK_RKB_INTS_HEAD_BYTES && c->at[0] == 0;
    uint64_t each = equal ? rk_rkb_u64(c->at + 1) : 0;
    if (!equal || each > (uint64_t)n_values || (int64_t)each * n > n_values) return take_offsets(c, n, n_values, offsets);
    c->at += RK_RKB_INTS_HEAD_BYTES;
    out->per_row = (int64_t)each;
    for (int64_t i = 0; i <= n; i++) offsets[i] = i * (int64_t)each;
    return RK_OK;
}

/* Texts one after another, of lengths[n_values]. */
static rk_status place_texts(const int64_t *lengths, rk_column *out, int64_t *total_out) {
    int64_t total = 0;
    for (int64_t v = 0; v < out->n_values; v++) {
        if (lengths[v] < 0 || lengths[v] > RK_RKB_MAX_TEXT_BYTES - total) return DAMAGED("lengths that do not add up");
        out->places[v] = (rk_text_place){(uint32_t)total, (uint32_t)lengths[v]};
        total += lengths[v];
    }
    *total_out = total;
    return RK_OK;
}

/* The words stay one after another; each value is the place of one. */
static rk_status take_words(cursor *c, int64_t n_words, int64_t *word_offsets, int64_t *indices, rk_column *out) {
    RK_TRY(take_offsets(c, n_words, RK_RKB_MAX_TEXT_BYTES, word_offsets));
    int64_t n = out->n_values, n_word_bytes = word_offsets[n_words], total = 0;
    const uint8_t *words = take(c, (uint64_t)n_word_bytes, 1);
    if (!words) return DAMAGED("words are cut");
    RK_TRY(take_ints(c, n, indices));
    for (int64_t v = 0; v < n; v++) {
        int64_t w = indices[v];
        if (w < 0 || w >= n_words) return DAMAGED("a word that is not in the dictionary");
        int64_t n_bytes = word_offsets[w + 1] - word_offsets[w];
        out->places[v] = (rk_text_place){(uint32_t)word_offsets[w], (uint32_t)n_bytes};
        total += n_bytes;
        if (total > RK_RKB_MAX_TEXT_BYTES) return DAMAGED("lengths that do not add up");
    }
    RK_TRY(rk_column_reserve(out, 0, 0, n_word_bytes + 1));
    memcpy(out->text_memory, words, (size_t)n_word_bytes);
    return RK_OK;
}

static rk_status take_dictionary(cursor *c, int64_t *scratch, rk_column *out) {
    const uint8_t *head = take(c, 1, 8);
    uint64_t n_words = head ? rk_rkb_u64(head) : 0;
    if (!head || n_words > (uint64_t)out->n_values) return DAMAGED("a dictionary of more words than values");
    int64_t *word_offsets = NULL;
    RK_TRY(rk_realloc((size_t)n_words + 1, sizeof *word_offsets, &word_offsets));
    rk_status status = take_words(c, (int64_t)n_words, word_offsets, scratch, out);
    rk_free(word_offsets);
    return status;
}

static rk_status take_plain_text(cursor *c, int64_t *scratch, rk_column *out) {
    int64_t total;
    RK_TRY(take_ints(c, out->n_values, scratch));
    RK_TRY(place_texts(scratch, out, &total));
    const uint8_t *text = take(c, (uint64_t)total, 1);
    if (!text) return DAMAGED("text is cut");
    RK_TRY(rk_column_reserve(out, 0, 0, total + 1)); /* never NULL, like added text */
    memcpy(out->text_memory, text, (size_t)total);
    return RK_OK;
}

static rk_status take_text(cursor *c, rk_column *out) {
    const uint8_t *kind = take(c, 1, 1);
    if (!kind || *kind > RK_RKB_TEXT_DICTIONARY) return DAMAGED("text of no known kind");
    int64_t *scratch = NULL;
    RK_TRY(rk_realloc((size_t)out->n_values, sizeof *scratch, &scratch));
    rk_status status = *kind == RK_RKB_TEXT_DICTIONARY ? take_dictionary(c, scratch, out) : take_plain_text(c, scratch, out);
    rk_free(scratch);
    return status;
}

static rk_status take_f32(cursor *c, int64_t n, float *out) {
    const uint8_t *from = take(c, (uint64_t)n, sizeof *out);
    if (!from) return DAMAGED("values are cut");
    if (n) memcpy(out, from, (size_t)n * sizeof *out);
    return RK_OK;
}

static rk_status take_weights(cursor *c, rk_column *out) {
    const uint8_t *has = take(c, 1, 1);
    if (!has || *has > 1) return DAMAGED("weights of no known kind");
    if (!*has) return RK_OK;
    RK_TRY(rk_column_reserve_weights(out, out->n_values));
    return take_f32(c, out->n_values, out->weights);
}

rk_status rk_rkb_decode(const uint8_t *data, size_t n_bytes, int64_t n_rows, rk_column *out) {
    cursor c = {data, data + n_bytes};
    const uint8_t *head = take(&c, 1, 8);
    uint64_t n_values = head ? rk_rkb_u64(head) : 0;
    if (!head || n_values > RK_RKB_MAX_VALUES) return DAMAGED("its number of values");
    RK_TRY(rk_column_reserve(out, n_rows, (int64_t)n_values, 0));
    RK_TRY(take_counts(&c, n_rows, (int64_t)n_values, out));
    if (out->offsets[n_rows] != (int64_t)n_values) return DAMAGED("counts that do not add up");
    out->n_values = (int64_t)n_values;
    if (out->type == RK_COLUMN_TEXT) RK_TRY(take_text(&c, out));
    if (out->type == RK_COLUMN_I64) RK_TRY(take_ints(&c, out->n_values, out->i64));
    if (out->type == RK_COLUMN_F32) RK_TRY(take_f32(&c, out->n_values, out->f32));
    RK_TRY(take_weights(&c, out));
    return c.at == c.end ? RK_OK : DAMAGED("bytes after its end");
}
