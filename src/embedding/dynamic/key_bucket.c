#include "embedding/dynamic/key_bucket.h"

#include <stdint.h>
#include <string.h>

#include "base/memory.h"

enum { LEAST_SIZE = 8 };

/* Steps from one place to another. */
static uint32_t probe_distance(uint32_t from, uint32_t to, uint32_t size) {
    return to >= from ? to - from : to + size - from;
}

static bool is_hash_table_full(uint64_t n, uint64_t size) {
    return 5 * n > 4 * size;
}

static uint64_t entries_for_keys(uint64_t n) {
    uint64_t size = (5 * n + 3) / 4;
    return size > LEAST_SIZE ? size : LEAST_SIZE;
}

/* A quarter more, or what n take; up to `most` of them no more than those take. */
static rk_status choose_grown_size(uint32_t size, uint32_t n, uint32_t most, uint32_t *out) {
    uint64_t wanted = entries_for_keys(n), grown = (uint64_t)size + size / 4, enough = entries_for_keys(most);
    if (grown > enough) grown = enough;
    if (grown > wanted) wanted = grown;
    RK_FAIL_IF(wanted > UINT32_MAX, RK_NO_MEMORY, "one bucket of a dynamic table has more than 2^31 keys");
    *out = (uint32_t)wanted;
    return RK_OK;
}

int64_t rk_key_bucket_find(const rk_key_bucket *b, const rk_key_info *info, int64_t key) {
    if (b->n == 0) return 0;
    uint64_t hash = rk_key_hash(key), tag = rk_key_tag_of_hash(hash);
    for (uint32_t at = rk_key_first_entry(hash, b->size); b->entries[at];
         at = rk_key_next_entry(at, b->size)) {
        int64_t row = (int64_t)(b->entries[at] & RK_KEY_ROW_MASK);
        if ((b->entries[at] & ~RK_KEY_ROW_MASK) == tag && info[row].key == key) return row;
    }
    return 0;
}

void rk_key_bucket_insert(rk_key_bucket *b, int64_t key, int64_t row) {
    uint64_t hash = rk_key_hash(key);
    uint32_t at = rk_key_first_entry(hash, b->size);
    while (b->entries[at]) at = rk_key_next_entry(at, b->size);
    b->entries[at] = rk_key_tag_of_hash(hash) | (uint64_t)row;
    b->n++;
}

void rk_key_bucket_list_rows(const rk_key_bucket *b, int64_t *rows) {
    for (uint32_t i = 0; i < b->size; i++)
        if (b->entries[i]) *rows++ = (int64_t)(b->entries[i] & RK_KEY_ROW_MASK);
}

void rk_key_bucket_clear(rk_key_bucket *b) {
    if (b->entries) memset(b->entries, 0, sizeof *b->entries * b->size);
    b->n = 0;
}

rk_status rk_key_bucket_reserve(rk_key_bucket *b, const rk_key_info *info, uint32_t n, uint32_t most) {
    if (b->entries && !is_hash_table_full(n, b->size)) return RK_OK;
    rk_key_bucket grown = {0};
    RK_TRY(choose_grown_size(b->size, n, most, &grown.size));
    RK_TRY(rk_alloc(grown.size, sizeof *grown.entries, &grown.entries));
    for (uint32_t i = 0; i < b->size; i++) {
        int64_t row = (int64_t)(b->entries[i] & RK_KEY_ROW_MASK);
        if (row) rk_key_bucket_insert(&grown, info[row].key, row);
    }
    rk_free(b->entries);
    b->entries = grown.entries;
    b->size = grown.size;
    return RK_OK;
}

/* Where a key is, or would be. */
static uint32_t find_count_entry(const rk_key_bucket *b, int64_t key) {
    uint32_t at = rk_key_first_entry(rk_key_hash(key), b->counted_size);
    while (b->uses[at] && b->counted[at] != key) at = rk_key_next_entry(at, b->counted_size);
    return at;
}

uint32_t rk_key_bucket_read_count(const rk_key_bucket *b, int64_t key) {
    return b->n_counted ? b->uses[find_count_entry(b, key)] : 0;
}

static void add_count(rk_key_bucket *b, int64_t key, uint32_t uses) {
    uint32_t at = find_count_entry(b, key);
    b->n_counted += b->uses[at] == 0;
    b->counted[at] = key;
    b->uses[at] = uses > INT32_MAX - b->uses[at] ? INT32_MAX : b->uses[at] + uses;
}

rk_status rk_key_bucket_reserve_counts(rk_key_bucket *b, uint32_t n, uint32_t most) {
    if (b->uses && !is_hash_table_full(n, b->counted_size)) return RK_OK;
    rk_key_bucket grown = {0};
    RK_TRY(choose_grown_size(b->counted_size, n, most, &grown.counted_size));
    rk_status status =
        RK_ALLOC_ALL(RK_ARRAY(grown.counted_size, grown.counted), RK_ARRAY(grown.counted_size, grown.uses));
    if (status != RK_OK) {
        RK_FREE_ALL(grown.counted, grown.uses);
        return status;
    }
    for (uint32_t i = 0; i < b->counted_size; i++)
        if (b->uses[i]) add_count(&grown, b->counted[i], b->uses[i]);
    RK_FREE_ALL(b->counted, b->uses);
    b->counted = grown.counted;
    b->uses = grown.uses;
    b->counted_size = grown.counted_size;
    return RK_OK;
}

void rk_key_bucket_add_count(rk_key_bucket *b, int64_t key, uint32_t uses) {
    if (uses) add_count(b, key, uses);
}

/* What follows a place that becomes free moves up, as far as its own place allows. */
static void remove_count_entry(rk_key_bucket *b, uint32_t at) {
    uint32_t size = b->counted_size;
    for (uint32_t next = rk_key_next_entry(at, size); b->uses[next]; next = rk_key_next_entry(next, size)) {
        uint32_t home = rk_key_first_entry(rk_key_hash(b->counted[next]), size);
        if (probe_distance(home, next, size) < probe_distance(at, next, size))
            continue; /* it would stand before its home */
        b->counted[at] = b->counted[next];
        b->uses[at] = b->uses[next];
        at = next;
    }
    b->uses[at] = 0;
    b->n_counted--;
}

void rk_key_bucket_remove_count(rk_key_bucket *b, int64_t key) {
    if (!b->n_counted) return;
    uint32_t at = find_count_entry(b, key);
    if (b->uses[at]) remove_count_entry(b, at);
}

void rk_key_bucket_clear_counts(rk_key_bucket *b) {
    if (b->uses) memset(b->uses, 0, sizeof *b->uses * b->counted_size);
    b->n_counted = 0;
}

/* Counts of 1 stay apart from free places until they are removed: what moves into such a place is looked at
 * next. */
void rk_key_bucket_halve_counts(rk_key_bucket *b) {
    for (uint32_t i = 0; i < b->counted_size; i++)
        while (b->uses[i] == 1) remove_count_entry(b, i);
    for (uint32_t i = 0; i < b->counted_size; i++) b->uses[i] /= 2;
}

void rk_key_bucket_release(rk_key_bucket *b) {
    RK_FREE_ALL(b->entries, b->counted, b->uses);
    *b = (rk_key_bucket){0};
}
