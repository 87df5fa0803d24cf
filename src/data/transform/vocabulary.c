#include "data/transform/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"

void rk_vocabulary_release(rk_vocabulary *d) {
    RK_FREE_ALL(d->bytes, d->offsets, d->counts, d->slots);
    *d = (rk_vocabulary){0};
}

rk_span rk_vocabulary_text(const rk_vocabulary *d, size_t number) {
    return (rk_span){d->bytes + d->offsets[number], d->offsets[number + 1] - d->offsets[number]};
}

/* The slot that holds the text, or the free one where it belongs. */
static size_t find_slot(const rk_vocabulary *d, rk_span text) {
    size_t slot = rk_hash_bytes(text.data, text.n_bytes, 0) & (d->n_slots - 1);
    for (; d->slots[slot]; slot = (slot + 1) & (d->n_slots - 1)) {
        rk_span there = rk_vocabulary_text(d, d->slots[slot] - 1);
        if (there.n_bytes == text.n_bytes && memcmp(there.data, text.data, text.n_bytes) == 0) break;
    }
    return slot;
}

int64_t rk_vocabulary_find(const rk_vocabulary *d, rk_span text) {
    return d->n_slots ? (int64_t)d->slots[find_slot(d, text)] - 1 : -1;
}

static rk_status grow_slots(rk_vocabulary *d) {
    size_t n_slots = d->n_slots ? 2 * d->n_slots : 64;
    uint32_t *slots;
    RK_TRY(rk_alloc(n_slots, sizeof *slots, &slots));
    rk_free(d->slots);
    d->slots = slots;
    d->n_slots = n_slots;
    for (size_t i = 0; i < d->n; i++) d->slots[find_slot(d, rk_vocabulary_text(d, i))] = (uint32_t)i + 1;
    return RK_OK;
}

rk_status rk_vocabulary_add(rk_vocabulary *d, rk_span text, int64_t count, int64_t *number) {
    if (2 * (d->n + 1) > d->n_slots) RK_TRY(grow_slots(d));
    size_t slot = find_slot(d, text);
    if (!d->slots[slot]) {
        RK_FAIL_IF(d->n >= UINT32_MAX - 1, RK_UNSUPPORTED, "more than 2^32 different values");
        RK_TRY(rk_reserve_one_more(&d->counts, d->n, &d->counts_capacity, sizeof *d->counts));
        RK_TRY(rk_reserve_one_more(&d->offsets, d->n + 1, &d->offsets_capacity, sizeof *d->offsets));
        RK_TRY(rk_reserve(&d->bytes, &d->bytes_capacity, d->n_bytes + text.n_bytes + 1, 1));
        if (text.n_bytes) memcpy(d->bytes + d->n_bytes, text.data, text.n_bytes);
        d->offsets[d->n] = d->n_bytes;
        d->n_bytes += text.n_bytes;
        d->offsets[d->n + 1] = d->n_bytes;
        d->counts[d->n] = 0;
        d->slots[slot] = (uint32_t)++d->n;
    }
    d->counts[d->slots[slot] - 1] += count;
    *number = d->slots[slot] - 1;
    return RK_OK;
}

typedef struct ranked {
    const rk_vocabulary *vocabulary;
    size_t number;
} ranked;

static int most_frequent_first(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    int64_t cx = x->vocabulary->counts[x->number], cy = y->vocabulary->counts[y->number];
    if (cx != cy) return cx < cy ? 1 : -1;
    rk_span tx = rk_vocabulary_text(x->vocabulary, x->number),
            ty = rk_vocabulary_text(y->vocabulary, y->number);
    int order = memcmp(tx.data, ty.data, tx.n_bytes < ty.n_bytes ? tx.n_bytes : ty.n_bytes);
    return order ? order : tx.n_bytes < ty.n_bytes ? -1 : tx.n_bytes > ty.n_bytes;
}

rk_status rk_vocabulary_most_frequent(const rk_vocabulary *from, int64_t min_count, int64_t max_size,
                                      rk_vocabulary *out) {
    RK_AUTOFREE ranked *order = NULL;
    RK_AUTO(rk_vocabulary_release) rk_vocabulary made = {0};
    RK_TRY(rk_alloc(from->n, sizeof *order, &order));
    size_t n = 0;
    for (size_t i = 0; i < from->n; i++)
        if (from->counts[i] >= min_count) order[n++] = (ranked){from, i};
    if (n) qsort(order, n, sizeof *order, most_frequent_first);
    if (max_size > 0 && n > (size_t)max_size) n = (size_t)max_size;
    for (size_t i = 0; i < n; i++) {
        int64_t number;
        RK_TRY(rk_vocabulary_add(&made, rk_vocabulary_text(from, order[i].number),
                                 from->counts[order[i].number], &number));
    }
    *out = made;
    made = (rk_vocabulary){0};
    return RK_OK;
}

rk_status rk_vocabulary_save(const rk_vocabulary *d, const char *path) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    for (size_t i = 0; i < d->n; i++) {
        rk_span value = rk_vocabulary_text(d, i);
        for (size_t k = 0; k < value.n_bytes; k++) {
            char c = value.data[k];
            if (c == '\\' || c == '\n' || c == '\r')
                rk_buffer_append_text(&text, c == '\\' ? "\\\\" : c == '\n' ? "\\n" : "\\r");
            else
                rk_buffer_append_u8(&text, (uint8_t)c);
        }
        rk_buffer_append_u8(&text, '\n');
    }
    RK_TRY(text.status);
    return rk_file_write(path, text.data, text.n_bytes);
}

/* Undo the escapes in place; returns the new length. */
static size_t unescape_line(char *line, size_t n_bytes) {
    size_t to = 0;
    for (size_t from = 0; from < n_bytes; from++) {
        char c = line[from];
        if (c == '\\' && from + 1 < n_bytes) {
            c = line[++from];
            c = c == 'n' ? '\n' : c == 'r' ? '\r' : c;
        }
        line[to++] = c;
    }
    return to;
}

rk_status rk_vocabulary_load(const char *path, rk_vocabulary *out) {
    RK_AUTOFREE char *text = NULL;
    RK_AUTO(rk_vocabulary_release) rk_vocabulary made = {0};
    size_t n_bytes;
    RK_TRY(rk_file_read(path, &text, &n_bytes));
    int64_t line = 0, number;
    for (char *at = text, *end = text + n_bytes; at < end;) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        size_t length = (size_t)(stop - at);
        if (length && at[length - 1] == '\r') length--;
        RK_TRY(rk_vocabulary_add(&made, (rk_span){at, unescape_line(at, length)}, 1, &number));
        RK_FAIL_IF(number != line++, RK_BAD_DATA, "'%s': line %lld: duplicate value", path, (long long)line);
        at = stop + 1;
    }
    *out = made;
    made = (rk_vocabulary){0};
    return RK_OK;
}
