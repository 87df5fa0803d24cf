/* Bytes back into a column of a block: everything is checked, nothing is trusted. */
#include "base/memory.h"
#include "format/rkb/rkb_internal.h"

/* What is left of a chunk. */
typedef struct cursor {
    const uint8_t *at, *end;
} cursor;

#define DAMAGED(what) rk_error(RK_BAD_DATA, "the column is damaged: %s", (what))

/* The next n elements of `bytes` each, or NULL if they are not there. */
static const uint8_t *take_next_elements(cursor *c, uint64_t n, uint64_t bytes) {
    const uint8_t *at = c->at;
    if (bytes && n > (uint64_t)(c->end - at) / bytes) return NULL;
    c->at += n * bytes;
    return at;
}

/* Numbers as they are packed: bits 0 where all are the base, 64 where they are plain. */
static rk_status find_packed_ints(cursor *c, int64_t n, rk_packed_ints *out) {
    const uint8_t *head = take_next_elements(c, 1, RK_RKB_INTS_HEAD_BYTES);
    if (!head) return DAMAGED("numbers are cut");
    int width = head[0], bits = width & RK_RKB_BITS ? width & ~RK_RKB_BITS : 8 * width;
    if (width & RK_RKB_BITS && (bits < 1 || bits > RK_RKB_MAX_BITS))
        return DAMAGED("a width of too many bits");
    if (!(width & RK_RKB_BITS) && (width > 8 || (width & (width - 1))))
        return DAMAGED("a width that is none of 0, 1, 2, 4, 8");
    uint64_t n_bytes = ((uint64_t)n * (uint64_t)bits + 7) / 8;
    const uint8_t *data = take_next_elements(c, n_bytes, 1);
    if (!data) return DAMAGED("numbers are cut");
    *out = (rk_packed_ints){data, (size_t)n_bytes, bits, rk_rkb_read_u64(head + 1)};
    return RK_OK;
}

static bool has_packed_bits(const rk_packed_ints *packed) {
    return packed->bits >= 1 && packed->bits <= RK_RKB_MAX_BITS;
}

static void unpack_packed_ints(const rk_packed_ints *packed, int64_t n, int64_t *out) {
    if (has_packed_bits(packed)) {
        rk_unpack_bits(packed, n, out);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = (int64_t)(packed->base + (packed->bits ? rk_rkb_read_u64(packed->data + 8 * i) : 0));
}

static rk_status read_ints(cursor *c, int64_t n, int64_t *out) {
    rk_packed_ints packed;
    RK_TRY(find_packed_ints(c, n, &packed));
    unpack_packed_ints(&packed, n, out);
    return RK_OK;
}

static rk_status read_i64_column(cursor *c, bool may_pack, rk_column *out) {
    rk_packed_ints packed;
    RK_TRY(find_packed_ints(c, out->n_values, &packed));
    if (may_pack && has_packed_bits(&packed)) {
        out->packed = packed;
        return RK_OK;
    }
    RK_TRY(rk_column_reserve(out, 0, out->n_values, 0));
    unpack_packed_ints(&packed, out->n_values, out->i64);
    return RK_OK;
}

/* Counts or lengths, added up to offsets[n+1]; the sum is at most `limit`. */
static rk_status read_offsets(cursor *c, int64_t n, int64_t limit, int64_t *offsets) {
    RK_TRY(read_ints(c, n, offsets + 1));
    offsets[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        if (offsets[i + 1] < 0 || offsets[i + 1] > limit - offsets[i])
            return DAMAGED("lengths that do not add up");
        offsets[i + 1] += offsets[i];
    }
    return RK_OK;
}

/* The same where all counts are equal, as in most columns: nothing to add up one after the other. */
static rk_status read_value_counts(cursor *c, int64_t n, int64_t n_values, rk_column *out) {
    int64_t *offsets = out->offsets;
    bool equal = c->end - c->at >= RK_RKB_INTS_HEAD_BYTES && c->at[0] == 0;
    uint64_t each = equal ? rk_rkb_read_u64(c->at + 1) : 0;
    if (!equal || each > (uint64_t)n_values || (int64_t)each * n > n_values) {
        out->alike_rows = 0;
        return read_offsets(c, n, n_values, offsets);
    }
    c->at += RK_RKB_INTS_HEAD_BYTES;
    out->per_row = (int64_t)each;
    if (out->alike_rows >= n && out->alike_each == (int64_t)each) return RK_OK;
    for (int64_t i = 0; i <= n; i++) offsets[i] = i * (int64_t)each;
    out->alike_rows = n;
    out->alike_each = (int64_t)each;
    return RK_OK;
}

/* Texts one after another, of lengths[n_values]. */
static rk_status set_places_of_texts(const int64_t *lengths, int64_t limit, rk_column *out,
                                     int64_t *total_out) {
    int64_t total = 0;
    for (int64_t v = 0; v < out->n_values; v++) {
        if (lengths[v] < 0 || lengths[v] > limit - total) return DAMAGED("lengths that do not add up");
        out->places[v] = (rk_text_place){(uint32_t)total, (uint32_t)lengths[v]};
        total += lengths[v];
    }
    *total_out = total;
    return RK_OK;
}

/* The words stay one after another; each value is the place of one. */
static rk_status read_dictionary_words(cursor *c, int64_t n_words, int64_t *word_offsets, int64_t *indices,
                                       rk_rkb_budget *room, rk_column *out) {
    RK_TRY(read_offsets(c, n_words, RK_RKB_MAX_TEXT_BYTES, word_offsets));
    int64_t n = out->n_values, n_word_bytes = word_offsets[n_words], total = 0;
    const uint8_t *words = take_next_elements(c, (uint64_t)n_word_bytes, 1);
    if (!words) return DAMAGED("words are cut");
    RK_TRY(read_ints(c, n, indices));
    for (int64_t v = 0; v < n; v++) {
        int64_t w = indices[v];
        if (w < 0 || w >= n_words) return DAMAGED("a word that is not in the dictionary");
        int64_t n_bytes = word_offsets[w + 1] - word_offsets[w];
        out->places[v] = (rk_text_place){(uint32_t)word_offsets[w], (uint32_t)n_bytes};
        total += n_bytes;
        if (total > (int64_t)room->text_bytes) return DAMAGED("lengths that do not add up");
    }
    room->text_bytes -= (uint64_t)total;
    RK_TRY(rk_column_reserve(out, 0, 0, n_word_bytes + 1));
    memcpy(out->text_memory, words, (size_t)n_word_bytes);
    return RK_OK;
}

static rk_status read_dictionary(cursor *c, int64_t *scratch, rk_rkb_budget *room, rk_column *out) {
    const uint8_t *head = take_next_elements(c, 1, 8);
    uint64_t n_words = head ? rk_rkb_read_u64(head) : 0;
    if (!head || n_words > (uint64_t)out->n_values) return DAMAGED("a dictionary of more words than values");
    RK_AUTOFREE int64_t *word_offsets = NULL;
    RK_TRY(rk_realloc((size_t)n_words + 1, sizeof *word_offsets, &word_offsets));
    return read_dictionary_words(c, (int64_t)n_words, word_offsets, scratch, room, out);
}

static rk_status read_plain_texts(cursor *c, int64_t *scratch, rk_rkb_budget *room, rk_column *out) {
    int64_t total;
    RK_TRY(read_ints(c, out->n_values, scratch));
    RK_TRY(set_places_of_texts(scratch, (int64_t)room->text_bytes, out, &total));
    room->text_bytes -= (uint64_t)total;
    const uint8_t *text = take_next_elements(c, (uint64_t)total, 1);
    if (!text) return DAMAGED("text is cut");
    RK_TRY(rk_column_reserve(out, 0, 0, total + 1)); /* never NULL, like added text */
    memcpy(out->text_memory, text, (size_t)total);
    return RK_OK;
}

static rk_status read_text_column(cursor *c, rk_rkb_budget *room, rk_column *out) {
    const uint8_t *kind = take_next_elements(c, 1, 1);
    if (!kind || *kind > RK_RKB_TEXT_DICTIONARY) return DAMAGED("text of no known kind");
    RK_AUTOFREE int64_t *scratch = NULL;
    RK_TRY(rk_realloc((size_t)out->n_values, sizeof *scratch, &scratch));
    return *kind == RK_RKB_TEXT_DICTIONARY ? read_dictionary(c, scratch, room, out)
                                           : read_plain_texts(c, scratch, room, out);
}

static rk_status read_f32_values(cursor *c, int64_t n, float *out) {
    const uint8_t *from = take_next_elements(c, (uint64_t)n, sizeof *out);
    if (!from) return DAMAGED("values are cut");
    if (n) memcpy(out, from, (size_t)n * sizeof *out);
    return RK_OK;
}

static rk_status read_weights(cursor *c, rk_column *out) {
    const uint8_t *has = take_next_elements(c, 1, 1);
    if (!has || *has > 1) return DAMAGED("weights of no known kind");
    if (!*has) return RK_OK;
    RK_TRY(rk_column_reserve_weights(out, out->n_values));
    return read_f32_values(c, out->n_values, out->weights);
}

rk_status rk_rkb_decode(const uint8_t *data, size_t n_bytes, int64_t n_rows, bool may_pack,
                        rk_rkb_budget *room, rk_column *out) {
    cursor c = {data, data + n_bytes};
    const uint8_t *head = take_next_elements(&c, 1, 8);
    uint64_t n_values = head ? rk_rkb_read_u64(head) : 0;
    if (!head || n_values > RK_RKB_MAX_VALUES) return DAMAGED("its number of values");
    if (!rk_rkb_decode_budget_spend(room, n_values, sizeof *out->i64))
        return DAMAGED("more values than a block of its size may have");
    int64_t alike_rows = out->alike_rows;
    RK_TRY(rk_column_reserve(out, n_rows, out->type == RK_COLUMN_I64 ? 0 : (int64_t)n_values, 0));
    out->alike_rows = alike_rows;
    RK_TRY(read_value_counts(&c, n_rows, (int64_t)n_values, out));
    if (out->offsets[n_rows] != (int64_t)n_values) return DAMAGED("counts that do not add up");
    out->n_values = (int64_t)n_values;
    if (out->type == RK_COLUMN_TEXT) RK_TRY(read_text_column(&c, room, out));
    if (out->type == RK_COLUMN_I64) RK_TRY(read_i64_column(&c, may_pack, out));
    if (out->type == RK_COLUMN_F32) RK_TRY(read_f32_values(&c, out->n_values, out->f32));
    RK_TRY(read_weights(&c, out));
    return c.at == c.end ? RK_OK : DAMAGED("bytes after its end");
}
