#include "embedding/sorted_keys.h"

#include <string.h>

#include "base/integers.h"
#include "base/memory.h"
#include "base/text/find_text.h"

enum { BLOCK_KEYS = 256, AT_ONCE = 16 /* searches, whose blocks come from memory side by side */ };

static int64_t key_at(const rk_sorted_keys *s, int64_t i) {
    int64_t key;
    memcpy(&key, s->keys + (size_t)i * sizeof key, sizeof key);
    return key;
}

/* Also where a fence stands: the key that begins a block is above all of the block before it. */
static rk_status check_order_and_fill_fences(rk_sorted_keys *s) {
    for (int64_t i = 0; i < s->n; i++) {
        int64_t key = key_at(s, i);
        RK_FAIL_IF(i && key <= key_at(s, i - 1), RK_BAD_DATA,
                   "keys must ascend, and %lld stands behind %lld at place %lld", (long long)key,
                   (long long)key_at(s, i - 1), (long long)i);
        if (i % BLOCK_KEYS == 0) s->fences[i / BLOCK_KEYS] = key;
    }
    return RK_OK;
}

rk_status rk_sorted_keys_init(const void *keys, int64_t n, rk_sorted_keys *out) {
    *out = (rk_sorted_keys){.keys = keys, .n = n, .n_fences = (n + BLOCK_KEYS - 1) / BLOCK_KEYS};
    RK_TRY(rk_alloc((size_t)out->n_fences, sizeof *out->fences, &out->fences));
    rk_status status = check_order_and_fill_fences(out);
    if (status != RK_OK) rk_sorted_keys_release(out);
    return status;
}

void rk_sorted_keys_release(rk_sorted_keys *s) {
    rk_free(s->fences);
}

/* The last block whose first key is not above the key; the first one where there is none. */
static int64_t find_block(const rk_sorted_keys *s, int64_t key) {
    int64_t first = 0;
    for (int64_t n = s->n_fences; n > 1;) {
        int64_t half = n / 2;
        first = s->fences[first + half] <= key ? first + half : first;
        n -= half;
    }
    return first;
}

static int64_t find_row_in_block(const rk_sorted_keys *s, int64_t block, int64_t key) {
    int64_t first = block * BLOCK_KEYS, n = rk_min_i64(s->n - first, BLOCK_KEYS);
    while (n > 1) {
        int64_t half = n / 2;
        first = key_at(s, first + half) <= key ? first + half : first;
        n -= half;
    }
    return n == 1 && key_at(s, first) == key ? first : s->n;
}

bool rk_sorted_keys_contain(const rk_sorted_keys *s, int64_t key) {
    return find_row_in_block(s, find_block(s, key), key) < s->n;
}

static void prefetch_block(const rk_sorted_keys *s, int64_t block) {
    size_t first = (size_t)block * BLOCK_KEYS * sizeof(int64_t), half = sizeof(int64_t) * BLOCK_KEYS / 2;
    if ((size_t)s->n * sizeof(int64_t) > first + half) __builtin_prefetch(s->keys + first + half);
}

void rk_sorted_keys_find(rk_sorted_keys *s, const int64_t *keys, int64_t n, int64_t *rows) {
    int64_t n_missing = 0, blocks[AT_ONCE];
    for (int64_t first = 0; first < n; first += AT_ONCE) {
        int64_t some = rk_min_i64(n - first, AT_ONCE);
        for (int64_t i = 0; i < some; i++) {
            blocks[i] = find_block(s, keys[first + i]);
            prefetch_block(s, blocks[i]);
        }
        for (int64_t i = 0; i < some; i++) {
            rows[first + i] = find_row_in_block(s, blocks[i], keys[first + i]);
            n_missing += rows[first + i] == s->n;
        }
    }
    if (n_missing) atomic_fetch_add_explicit(&s->n_missing, n_missing, memory_order_relaxed);
}

void rk_key_tables_free(rk_key_tables *tables) {
    if (!tables) return;
    for (size_t i = 0; i < tables->n; i++) {
        rk_sorted_keys_release(&tables->list[i].keys);
        rk_free(tables->list[i].name);
    }
    for (size_t i = 0; i < tables->n_files; i++) rk_mapped_file_release(&tables->files[i]);
    RK_FREE_ALL(tables->list, tables->files, tables);
}

rk_sorted_keys *rk_key_tables_find_table(const rk_key_tables *tables, const char *name) {
    struct rk_key_table *table = tables ? RK_FIND_BY(name, name, tables->list, tables->n) : NULL;
    return table ? &table->keys : NULL;
}
