#include "embedding/dynamic/disk_keys.h"

#include <string.h>

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "embedding/dynamic/key_bucket.h"

enum { MOST_SLABS = (int)(RK_BLOCK_IS_PASSED >> RK_SLAB_BITS), MOST_HIGH_BYTES = 4 };

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

/* Blocks in which keys are looked for from their home on, and round. */
typedef struct block_range {
    uint32_t first, n;
} block_range;

static block_range home_blocks(const rk_disk_keys *k) {
    return (block_range){0, k->n_homes};
}

static block_range added_blocks(const rk_disk_keys *k) {
    return (block_range){k->n_homes, k->n_blocks - k->n_homes};
}

static uint32_t home_in(block_range range, uint64_t rest) {
    return range.first + rk_key_first_entry(rest, range.n);
}

static uint32_t next_in(block_range range, uint32_t at) {
    return range.first + rk_key_next_entry(at - range.first, range.n);
}

const void *rk_disk_keys_first_block(const rk_disk_keys *k, uint64_t hash) {
    return k->n_homes ? rk_disk_keys_block(k, home_in(home_blocks(k), hash - k->first_hash)) : NULL;
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

static uint32_t find_in(const rk_disk_keys *k, block_range range, uint64_t rest) {
    uint32_t at = home_in(range, rest);
    for (uint32_t n = 0; n < range.n; n++) {
        const rk_disk_key_block *block = rk_disk_keys_block(k, at);
        for (uint32_t left = match_words(block->low, (uint32_t)rest); left; left &= left - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(left);
            if (is_entry_used(block, i) && has_high_bits(k, block, i, rest)) return at * RK_BLOCK_ENTRIES + i;
        }
        if (!(k->blocks[at] & RK_BLOCK_IS_PASSED)) break;
        at = next_in(range, at);
    }
    return RK_NO_ENTRY;
}

uint32_t rk_disk_keys_find(const rk_disk_keys *k, uint64_t hash) {
    uint32_t entry = find_in(k, home_blocks(k), hash - k->first_hash);
    return entry == RK_NO_ENTRY ? find_in(k, added_blocks(k), hash - k->first_hash) : entry;
}

/* Blocks are added behind the last one. */
static rk_status grow(rk_disk_keys *k, uint32_t n_blocks) {
    uint32_t n_before = k->n_blocks;
    RK_TRY(rk_realloc(n_blocks, sizeof *k->blocks, &k->blocks));
    RK_TRY(take_blocks(k->pool, n_blocks - n_before, k->blocks + n_before));
    k->n_blocks = n_blocks;
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

/* As many as they usually have go into blocks that were added, as the others are full, or nearly so. */
static block_range choose_blocks_for_new_key(rk_disk_keys *k) {
    block_range added = added_blocks(k);
    if (k->n_in_added == RK_USUAL_ENTRIES * added.n) return home_blocks(k);
    k->n_in_added++;
    return added;
}

/* word: the lowest of what remains of the key's hash, which alone says where its home is. */
static uint32_t find_free_entry(rk_disk_keys *k, uint32_t word) {
    block_range range = choose_blocks_for_new_key(k);
    uint32_t at = home_in(range, word), left;
    while (!(left = free_entries(rk_disk_keys_block(k, at)))) {
        if (!(k->blocks[at] & RK_BLOCK_IS_PASSED))
            __atomic_store_n(&k->blocks[at], k->blocks[at] | RK_BLOCK_IS_PASSED, __ATOMIC_RELAXED);
        at = next_in(range, at);
    }
    return at * RK_BLOCK_ENTRIES + (uint32_t)__builtin_ctz(left);
}

void rk_disk_keys_prefetch_insert(const rk_disk_keys *k, uint64_t hash) {
    block_range added = added_blocks(k);
    uint32_t at = home_in(added.n ? added : home_blocks(k), hash - k->first_hash);
    const char *block = (const char *)rk_disk_keys_block(k, at);
    for (size_t line = 0; line < k->pool->block_bytes; line += 64) __builtin_prefetch(block + line, 1);
}

uint32_t rk_disk_keys_insert(rk_disk_keys *k, uint64_t hash, int32_t last_batch) {
    uint64_t rest = hash - k->first_hash;
    uint32_t entry = find_free_entry(k, (uint32_t)rest), i = entry % RK_BLOCK_ENTRIES;
    rk_disk_key_block *block = rk_disk_keys_block_of(k, entry);
    block->low[i] = (uint32_t)rest;
    for (int byte = 0; byte < k->pool->n_high; byte++)
        block->high[byte][i] = (uint8_t)(rest >> (32 + 8 * byte));
    block->last_batches[i] = last_batch;
    block->counts[i] = 0;
    return entry;
}

void rk_disk_keys_remove(rk_disk_keys *k, uint32_t entry) {
    rk_disk_keys_block_of(k, entry)->last_batches[entry % RK_BLOCK_ENTRIES] = 0;
    if (entry / RK_BLOCK_ENTRIES >= k->n_homes) k->n_in_added--;
}

uint32_t rk_disk_keys_used_entries(const rk_disk_keys *k, uint32_t block) {
    return ~free_entries(rk_disk_keys_block(k, block));
}

uint32_t rk_disk_keys_next(const rk_disk_keys *k, uint32_t entry) {
    uint32_t skipped = entry % RK_BLOCK_ENTRIES;
    for (uint32_t at = entry / RK_BLOCK_ENTRIES; at < k->n_blocks; at++, skipped = 0) {
        uint32_t used = rk_disk_keys_used_entries(k, at) >> skipped << skipped;
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

/* Which of a block's words are first .. last, a bit each. */
static uint32_t match_word_range(const uint32_t *words, uint32_t first, uint32_t last) {
    uint32_t matches = 0;
#ifdef __SSE2__
    /* Words are compared as signed ones, so all are moved by 2^31. */
    const __m128i *at = (const void *)words, moved = _mm_set1_epi32((int)(first ^ 1u << 31)),
                  most = _mm_set1_epi32((int)((last - first) ^ 1u << 31));
    for (int i = 0; i < RK_BLOCK_ENTRIES / 4; i++) {
        __m128i above = _mm_cmpgt_epi32(_mm_sub_epi32(_mm_loadu_si128(at + i), moved), most);
        matches |= (uint32_t)(_mm_movemask_ps(_mm_castsi128_ps(above)) ^ 15) << 4 * i;
    }
#else
    for (int i = 0; i < RK_BLOCK_ENTRIES; i++) matches |= (uint32_t)(words[i] - first <= last - first) << i;
#endif
    return matches;
}

/* The least word whose home is this block of n, or 2^32. */
static uint64_t first_word_of_home(uint32_t at, uint32_t n) {
    return (((uint64_t)at << 32) + n - 1) / n;
}

/* A block's entries whose home is another one. */
static uint32_t displaced_entries(const rk_disk_keys *k, uint32_t at) {
    const rk_disk_key_block *block = rk_disk_keys_block(k, at);
    uint32_t first = (uint32_t)first_word_of_home(at, k->n_blocks),
             last = (uint32_t)(first_word_of_home(at + 1, k->n_blocks) - 1);
    return ~(free_entries(block) | match_word_range(block->low, first, last));
}

/* An entry as it stands in a block. */
typedef struct moved_entry {
    uint32_t low, where_low;
    int32_t last_batch;
    uint16_t where_high, count;
    uint8_t high[MOST_HIGH_BYTES];
} moved_entry;

static moved_entry take_out(const rk_disk_keys *k, rk_disk_key_block *block, uint32_t i) {
    moved_entry moved = {block->low[i],        block->where_low[i], block->last_batches[i],
                         block->where_high[i], block->counts[i],    {0}};
    for (int byte = 0; byte < k->pool->n_high; byte++) moved.high[byte] = block->high[byte][i];
    block->last_batches[i] = 0;
    block->where_low[i] = block->where_high[i] = 0;
    return moved;
}

static void put_in(rk_disk_keys *k, const moved_entry *moved) {
    uint32_t entry = find_free_entry(k, moved->low), i = entry % RK_BLOCK_ENTRIES;
    rk_disk_key_block *block = rk_disk_keys_block_of(k, entry);
    block->low[i] = moved->low;
    block->where_low[i] = moved->where_low;
    block->last_batches[i] = moved->last_batch;
    block->where_high[i] = moved->where_high;
    block->counts[i] = moved->count;
    for (int byte = 0; byte < k->pool->n_high; byte++) block->high[byte][i] = moved->high[byte];
}

/* All blocks are homes, which no key passes. */
static void make_all_blocks_homes(rk_disk_keys *k) {
    for (uint32_t at = 0; at < k->n_blocks; at++) k->blocks[at] &= ~RK_BLOCK_IS_PASSED;
    k->n_homes = k->n_blocks;
    k->n_in_added = 0;
    k->is_stale = false;
}

void rk_disk_keys_clear(rk_disk_keys *k) {
    for (uint32_t at = 0; at < k->n_blocks; at++) memset(rk_disk_keys_block(k, at), 0, k->pool->block_bytes);
    make_all_blocks_homes(k);
}

rk_status rk_disk_keys_rebuild(rk_disk_keys *k) {
    RK_AUTOFREE moved_entry *moved = NULL;
    size_t n_moved = 0, n = 0;
    for (uint32_t at = 0; at < k->n_blocks; at++)
        n_moved += (size_t)__builtin_popcount(displaced_entries(k, at));
    RK_TRY(rk_alloc(n_moved, sizeof *moved, &moved));
    for (uint32_t at = 0; at < k->n_blocks; at++)
        for (uint32_t left = displaced_entries(k, at); left; left &= left - 1)
            moved[n++] = take_out(k, rk_disk_keys_block(k, at), (uint32_t)__builtin_ctz(left));
    make_all_blocks_homes(k);
    for (size_t i = 0; i < n; i++) put_in(k, &moved[i]);
    return RK_OK;
}

void rk_disk_keys_release(rk_disk_keys *k) {
    rk_free(k->blocks);
    *k = (rk_disk_keys){0};
}
