#include "embedding/dynamic/key_bucket.h"

#include <stdint.h>
#include <string.h>

#include "base/memory.h"

enum { ROW_BITS = 48, LEAST_BITS = 3 };

static const uint64_t row_mask = ((uint64_t)1 << ROW_BITS) - 1;

/* The high bits of the hash are the bucket's; the lowest say where, the 16 at 32 are kept beside the row. */
static uint64_t tag_of(uint64_t hash) {
    return hash << (ROW_BITS - 32) & ~row_mask;
}

static bool is_full(uint64_t n, uint8_t bits) {
    return 4 * n > (uint64_t)3 << bits;
}

static uint8_t bits_for(uint64_t n) {
    uint8_t bits = LEAST_BITS;
    while (is_full(n, bits)) bits++;
    return bits;
}

int64_t rk_key_bucket_find(const rk_key_bucket *b, const int64_t *keys, int64_t key) {
    if (b->n == 0) return 0;
    uint64_t hash = rk_key_hash(key), tag = tag_of(hash), mask = ((uint64_t)1 << b->bits) - 1;
    for (uint64_t at = hash & mask; b->entries[at]; at = (at + 1) & mask) {
        int64_t row = (int64_t)(b->entries[at] & row_mask);
        if ((b->entries[at] & ~row_mask) == tag && keys[row] == key) return row;
    }
    return 0;
}

void rk_key_bucket_insert(rk_key_bucket *b, int64_t key, int64_t row) {
    uint64_t hash = rk_key_hash(key), mask = ((uint64_t)1 << b->bits) - 1, at = hash & mask;
    while (b->entries[at]) at = (at + 1) & mask;
    b->entries[at] = tag_of(hash) | (uint64_t)row;
    b->n++;
}

void rk_key_bucket_list(const rk_key_bucket *b, int64_t *rows) {
    uint64_t size = b->entries ? (uint64_t)1 << b->bits : 0;
    for (uint64_t i = 0; i < size; i++)
        if (b->entries[i]) *rows++ = (int64_t)(b->entries[i] & row_mask);
}

void rk_key_bucket_clear(rk_key_bucket *b) {
    if (b->entries) memset(b->entries, 0, sizeof *b->entries << b->bits);
    b->n = 0;
}

rk_status rk_key_bucket_reserve(rk_key_bucket *b, const int64_t *keys, uint32_t n) {
    if (b->entries && !is_full(n, b->bits)) return RK_OK;
    rk_key_bucket grown = {.bits = bits_for(n)};
    RK_TRY(rk_alloc((size_t)1 << grown.bits, sizeof *grown.entries, &grown.entries));
    uint64_t size = b->entries ? (uint64_t)1 << b->bits : 0;
    for (uint64_t i = 0; i < size; i++) {
        int64_t row = (int64_t)(b->entries[i] & row_mask);
        if (row) rk_key_bucket_insert(&grown, keys[row], row);
    }
    rk_free(b->entries);
    b->entries = grown.entries;
    b->bits = grown.bits;
    return RK_OK;
}

/* Where a key is, or would be. */
static uint64_t place_of(const rk_key_bucket *b, int64_t key) {
    uint64_t mask = ((uint64_t)1 << b->counted_bits) - 1, at = rk_key_hash(key) & mask;
    while (b->uses[at] && b->counted[at] != key) at = (at + 1) & mask;
    return at;
}

uint32_t rk_key_bucket_uses(const rk_key_bucket *b, int64_t key) {
    return b->n_counted ? b->uses[place_of(b, key)] : 0;
}

static void put(rk_key_bucket *b, int64_t key, uint32_t uses) {
    uint64_t at = place_of(b, key);
    b->n_counted += b->uses[at] == 0;
    b->counted[at] = key;
    b->uses[at] = uses > INT32_MAX - b->uses[at] ? INT32_MAX : b->uses[at] + uses;
}

rk_status rk_key_bucket_reserve_counts(rk_key_bucket *b, uint32_t n) {
    if (b->uses && !is_full(n, b->counted_bits)) return RK_OK;
    rk_key_bucket grown = {.counted_bits = bits_for(n)};
    size_t size = (size_t)1 << grown.counted_bits, old = b->uses ? (size_t)1 << b->counted_bits : 0;
    rk_status status = RK_ALLOC_ALL(RK_ARRAY(size, grown.counted), RK_ARRAY(size, grown.uses));
    if (status != RK_OK) {
        RK_FREE_ALL(grown.counted, grown.uses);
        return status;
    }
    for (size_t i = 0; i < old; i++)
        if (b->uses[i]) put(&grown, b->counted[i], b->uses[i]);
    RK_FREE_ALL(b->counted, b->uses);
    b->counted = grown.counted;
    b->uses = grown.uses;
    b->counted_bits = grown.counted_bits;
    return RK_OK;
}

void rk_key_bucket_count(rk_key_bucket *b, int64_t key, uint32_t uses) {
    if (uses) put(b, key, uses);
}

/* What follows a place that becomes free moves up, as far as its own place allows. */
static void remove_at(rk_key_bucket *b, uint64_t at) {
    uint64_t mask = ((uint64_t)1 << b->counted_bits) - 1;
    for (uint64_t next = (at + 1) & mask; b->uses[next]; next = (next + 1) & mask) {
        uint64_t home = rk_key_hash(b->counted[next]) & mask;
        if (((next - home) & mask) < ((next - at) & mask)) continue; /* it would stand before its home */
        b->counted[at] = b->counted[next];
        b->uses[at] = b->uses[next];
        at = next;
    }
    b->uses[at] = 0;
    b->n_counted--;
}

void rk_key_bucket_forget(rk_key_bucket *b, int64_t key) {
    if (!b->n_counted) return;
    uint64_t at = place_of(b, key);
    if (b->uses[at]) remove_at(b, at);
}

void rk_key_bucket_clear_counts(rk_key_bucket *b) {
    if (b->uses) memset(b->uses, 0, sizeof *b->uses << b->counted_bits);
    b->n_counted = 0;
}

/* Counts of 1 stay apart from free places until they are removed: what moves into such a place is looked at
 * next. */
void rk_key_bucket_halve(rk_key_bucket *b) {
    uint64_t size = b->uses ? (uint64_t)1 << b->counted_bits : 0;
    for (uint64_t i = 0; i < size; i++)
        while (b->uses[i] == 1) remove_at(b, i);
    for (uint64_t i = 0; i < size; i++) b->uses[i] /= 2;
}

void rk_key_bucket_release(rk_key_bucket *b) {
    RK_FREE_ALL(b->entries, b->counted, b->uses);
    *b = (rk_key_bucket){0};
}
