#include "embedding/dynamic/disk_keys.h"

#include <string.h>

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "embedding/dynamic/key_bucket.h"

enum { MOST_SLABS = (int)(RK_BLOCK_IS_PASSED >> RK_SLAB_BITS) };

rk_status rk_disk_key_pool_create(int n_high, rk_disk_key_pool **out) {
    rk_disk_key_pool *p;
    RK_TRY(rk_alloc(1, sizeof *p, &p));
    pthread_mutex_init(&p->mutex, NULL);
    p->n_high = n_high;
    p->block_bytes = sizeof(rk_disk_key_block) + (size_t)n_high * RK_BLOCK_ENTRIES;
    rk_status status = rk_pages_alloc(MOST_SLABS * sizeof *p->slabs, &p->slabs);
    if (status == RK_OK)
        *out = p;
    else
        rk_disk_key_pool_free(p);
    return status;
}

static size_t slab_bytes(const rk_disk_key_pool *p) {
    return RK_SLAB_BLOCKS * p->block_bytes;
}

void rk_disk_key_pool_free(rk_disk_key_pool *p) {
    if (!p) return;
    for (uint32_t i = 0; i < rk_block_count(p->n_taken, RK_SLAB_BLOCKS); i++)
        rk_pages_free(p->slabs[i], slab_bytes(p));
    rk_pages_free(p->slabs, MOST_SLABS * sizeof *p->slabs);
    pthread_mutex_destroy(&p->mutex);
    rk_free(p);
}

uint64_t rk_disk_key_pool_bytes(const rk_disk_key_pool *p) {
    return p->n_taken * (uint64_t)p->block_bytes;
}

static rk_status take_locked(rk_disk_key_pool *p, uint32_t n, uint32_t *blocks) {
    for (uint32_t i = 0; i < n; i++) {
        RK_FAIL_IF(p->n_taken == RK_BLOCK_IS_PASSED, RK_NO_MEMORY, "a table has keys of more than 2^35 rows");
        if (p->n_taken % RK_SLAB_BLOCKS == 0)
            RK_TRY(rk_pages_alloc(slab_bytes(p), &p->slabs[p->n_taken / RK_SLAB_BLOCKS]));
        blocks[i] = p->n_taken++;
    }
    return RK_OK;
}

/* What was taken since, and nobody has written to. */
static void give_back_locked(rk_disk_key_pool *p, uint32_t n_taken) {
    for (size_t i = rk_block_count(n_taken, RK_SLAB_BLOCKS); i < rk_block_count(p->n_taken, RK_SLAB_BLOCKS);
         i++)
        rk_pages_free(p->slabs[i], slab_bytes(p));
    p->n_taken = n_taken;
}

static rk_status take_blocks(rk_disk_key_pool *p, uint32_t n, uint32_t *blocks) {
    pthread_mutex_lock(&p->mutex);
    uint32_t n_before = p->n_taken;
    rk_status status = take_locked(p, n, blocks);
    if (status != RK_OK) give_back_locked(p, n_before);
    pthread_mutex_unlock(&p->mutex);
    return status;
}

/* Whether the entry is in use. Others may mark it as used by a batch meanwhile. */
static bool is_entry_used(const rk_disk_key_block *block, uint32_t i) {
    return __atomic_load_n(&block->last_batches[i], __ATOMIC_RELAXED) != 0;
}

static uint32_t home_of(const rk_disk_keys *k, uint64_t rest) {
    return rk_key_first_entry(rest, k->n_homes);
}

const void *rk_disk_keys_first_block(const rk_disk_keys *k, uint64_t hash) {
    return k->n_homes ? rk_disk_keys_block(k, home_of(k, hash - k->first_hash)) : NULL;
}

/* Which of a block's words are this one, a bit each. */
static uint32_t match_words(const void *words, uint32_t word) {
    uint32_t matches = 0;
#ifdef __SSE2__
    const __m128i *at = words;
    for (int i = 0; i < RK_BLOCK_ENTRIES / 4; i++) {
        __m128i equal = _mm_cmpeq_epi32(_mm_loadu_si128(at + i), _mm_set1_epi32((int)word));
        matches |= (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(equal)) << 4 * i;
    }
#else
    for (int i = 0; i < RK_BLOCK_ENTRIES; i++)
        matches |= (uint32_t)(((const uint32_t *)words)[i] == word) << i;
#endif
    return matches;
}

static bool has_high_bits(const rk_disk_keys *k, const rk_disk_key_block *block, uint32_t i, uint64_t rest) {
    for (int byte = 0; byte < k->pool->n_high; byte++)
        if (block->high[byte][i] != (uint8_t)(rest >> (32 + 8 * byte))) return false;
    return true;
}

uint32_t rk_disk_keys_find(const rk_disk_keys *k, uint64_t hash) {
    if (!k->n_homes) return RK_NO_ENTRY;
    uint64_t rest = hash - k->first_hash;
    uint32_t at = home_of(k, rest);
    for (uint32_t n = 0; n < k->n_blocks; n++) {
        const rk_disk_key_block *block = rk_disk_keys_block(k, at);
        for (uint32_t left = match_words(block->low, (uint32_t)rest); left; left &= left - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(left);
            if (is_entry_used(block, i) && has_high_bits(k, block, i, rest)) return at * RK_BLOCK_ENTRIES + i;
        }
        if (!(k->blocks[at] & RK_BLOCK_IS_PASSED)) break;
        at = rk_key_next_entry(at, k->n_blocks);
    }
    return RK_NO_ENTRY;
}

/* Blocks are added behind the last one. What passed that one stands in the first ones: it now passes those
 * that are new. */
static void let_wrapped_keys_pass(const rk_disk_keys *k, uint32_t n_before) {
    uint32_t passed = n_before ? k->blocks[n_before - 1] & RK_BLOCK_IS_PASSED : 0;
    for (uint32_t at = n_before; at < k->n_blocks; at++) k->blocks[at] |= passed;
}

static rk_status grow(rk_disk_keys *k, uint32_t n_blocks) {
    uint32_t n_before = k->n_blocks;
    RK_TRY(rk_realloc(n_blocks, sizeof *k->blocks, &k->blocks));
    RK_TRY(take_blocks(k->pool, n_blocks - n_before, k->blocks + n_before));
    k->n_blocks = n_blocks;
    let_wrapped_keys_pass(k, n_before);
    if (!k->n_homes) k->n_homes = n_blocks;
    return RK_OK;
}

rk_status rk_disk_keys_reserve(rk_disk_keys *k, uint32_t n, uint32_t most) {
    enum { MOST_KEYS = 1 << 30 };
    if (k->n_blocks && n <= (uint64_t)RK_USUAL_ENTRIES * k->n_blocks) return RK_OK;
    RK_FAIL_IF(n > MOST_KEYS, RK_NO_MEMORY,
               "one bucket of a table with rows on a disk has more than 2^30 keys");
    return grow(k, rk_grown_hash_size(k->n_blocks, rk_block_count(n ? n : 1, RK_USUAL_ENTRIES),
                                      rk_block_count(most, RK_USUAL_ENTRIES)));
}

static uint32_t free_entries(const rk_disk_key_block *block) {
    return match_words(block->last_batches, 0);
}

uint32_t rk_disk_keys_insert(rk_disk_keys *k, uint64_t hash, int32_t last_batch) {
    uint64_t rest = hash - k->first_hash;
    uint32_t at = home_of(k, rest), left;
    while (!(left = free_entries(rk_disk_keys_block(k, at)))) {
        if (!(k->blocks[at] & RK_BLOCK_IS_PASSED))
            __atomic_store_n(&k->blocks[at], k->blocks[at] | RK_BLOCK_IS_PASSED, __ATOMIC_RELAXED);
        at = rk_key_next_entry(at, k->n_blocks);
    }
    uint32_t i = (uint32_t)__builtin_ctz(left);
    rk_disk_key_block *block = rk_disk_keys_block(k, at);
    block->low[i] = (uint32_t)rest;
    for (int byte = 0; byte < k->pool->n_high; byte++)
        block->high[byte][i] = (uint8_t)(rest >> (32 + 8 * byte));
    block->last_batches[i] = last_batch;
    block->counts[i] = 0;
    return at * RK_BLOCK_ENTRIES + i;
}

void rk_disk_keys_remove(rk_disk_keys *k, uint32_t entry) {
    rk_disk_keys_block_of(k, entry)->last_batches[entry % RK_BLOCK_ENTRIES] = 0;
}

uint32_t rk_disk_keys_next(const rk_disk_keys *k, uint32_t entry) {
    uint32_t skipped = entry % RK_BLOCK_ENTRIES;
    for (uint32_t at = entry / RK_BLOCK_ENTRIES; at < k->n_blocks; at++, skipped = 0) {
        uint32_t used = ~free_entries(rk_disk_keys_block(k, at)) >> skipped << skipped;
        if (used) return at * RK_BLOCK_ENTRIES + (uint32_t)__builtin_ctz(used);
    }
    return RK_NO_ENTRY;
}

uint64_t rk_disk_keys_hash(const rk_disk_keys *k, uint32_t entry) {
    const rk_disk_key_block *block = rk_disk_keys_block_of(k, entry);
    uint32_t i = entry % RK_BLOCK_ENTRIES;
    uint64_t rest = block->low[i];
    for (int byte = 0; byte < k->pool->n_high; byte++)
        rest |= (uint64_t)block->high[byte][i] << (32 + 8 * byte);
    return k->first_hash + rest;
}

void rk_disk_keys_clear(rk_disk_keys *k) {
    for (uint32_t i = 0; i < k->n_blocks; i++) {
        memset(rk_disk_keys_block(k, i), 0, k->pool->block_bytes);
        k->blocks[i] &= ~RK_BLOCK_IS_PASSED;
    }
    k->n_homes = k->n_blocks;
    k->is_stale = false;
}

typedef struct kept_entry {
    uint64_t hash, where;
    int32_t last_batch;
    uint16_t count;
} kept_entry;

static uint32_t copy_entries(const rk_disk_keys *k, kept_entry *kept) {
    uint32_t n = 0;
    for (uint32_t e = 0; (e = rk_disk_keys_next(k, e)) != RK_NO_ENTRY; e++) {
        const rk_disk_key_block *block = rk_disk_keys_block_of(k, e);
        uint32_t i = e % RK_BLOCK_ENTRIES;
        kept[n++] = (kept_entry){rk_disk_keys_hash(k, e), rk_disk_keys_read_where(k, e),
                                 block->last_batches[i], block->counts[i]};
    }
    return n;
}

rk_status rk_disk_keys_rebuild(rk_disk_keys *k) {
    RK_AUTOFREE kept_entry *kept = NULL;
    RK_TRY(rk_alloc((size_t)k->n_blocks * RK_BLOCK_ENTRIES, sizeof *kept, &kept));
    uint32_t n = copy_entries(k, kept);
    rk_disk_keys_clear(k);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t to = rk_disk_keys_insert(k, kept[i].hash, kept[i].last_batch);
        rk_disk_keys_block_of(k, to)->counts[to % RK_BLOCK_ENTRIES] = kept[i].count;
        rk_disk_keys_write_where(k, to, kept[i].where);
    }
    return RK_OK;
}

void rk_disk_keys_release(rk_disk_keys *k) {
    rk_free(k->blocks);
    *k = (rk_disk_keys){0};
}
