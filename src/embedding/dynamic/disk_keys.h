/* Keys of one bucket of a dynamic table whose rows are mostly on a disk. All that memory has of such a row
 * stands with its key: its last batch, its count, and where the row is. So nothing leads from the key to
 * them, and a row's number is the bucket's and the entry's.
 *
 * A hash table with linear probing, of blocks of 32 entries, at most 31/32 full. A key's hash is one to one,
 * and the bucket gives its high bits: the entry has what remains of it, in as few bytes as that needs. An
 * entry stays where it is until rebuild, which puts all entries back to where they are found soonest; it is
 * due where is_stale says so. Till then blocks that were added are a second hash table, for new keys. All
 * buckets take their blocks from one pool, so that growing copies nothing and leaves nothing unused.
 *
 * Thread rule: one thread a bucket; find by any number, while nothing else is called. Entries in use may be
 * read by others while insert adds some. */
#ifndef RK_EMBEDDING_DYNAMIC_DISK_KEYS_H
#define RK_EMBEDDING_DYNAMIC_DISK_KEYS_H

#include <pthread.h>
#include <reckon/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RK_BLOCK_ENTRIES = 32, RK_USUAL_ENTRIES = 31 /* of a block, at most, in the mean */ };
#define RK_NO_ENTRY UINT32_MAX

typedef struct rk_disk_key_block {
    uint32_t low[RK_BLOCK_ENTRIES];         /* of what remains of the hash */
    int32_t last_batches[RK_BLOCK_ENTRIES]; /* as rk_key_info has it; 0: the entry is free */
    uint32_t where_low[RK_BLOCK_ENTRIES];   /* where the row is: 48 bits, which free entries have, too */
    uint16_t where_high[RK_BLOCK_ENTRIES];
    uint16_t counts[RK_BLOCK_ENTRIES]; /* UINT16_MAX: that, and more (dynamic_disk_rows.c) */
    uint8_t high[][RK_BLOCK_ENTRIES];  /* [n_high] of what remains of the hash, the lowest bytes first */
} rk_disk_key_block;

/* Blocks of zeros, which stay where they are. */
typedef struct rk_disk_key_pool {
    int n_high;
    size_t block_bytes;
    char **slabs; /* each of RK_SLAB_BLOCKS; room for all that there may be */
    uint32_t n_taken;
    pthread_mutex_t mutex; /* of what is taken */
} rk_disk_key_pool;
enum { RK_SLAB_BITS = 14, RK_SLAB_BLOCKS = 1 << RK_SLAB_BITS };
/* In a bucket's list of blocks: a key that belongs there found it full, and stands in a later one. */
#define RK_BLOCK_IS_PASSED ((uint32_t)1 << 31)

typedef struct rk_disk_keys {
    rk_disk_key_pool *pool;
    uint32_t *blocks;           /* [n_blocks] their numbers in the pool, and RK_BLOCK_IS_PASSED */
    uint64_t first_hash;        /* of the bucket */
    uint32_t n_blocks, n_homes; /* the others were added since the last rebuild, */
    uint32_t n_in_added;        /* and have got so many keys */
    bool is_stale;
} rk_disk_keys;

rk_status rk_disk_key_pool_create(int n_high, rk_disk_key_pool **out);
void rk_disk_key_pool_free(rk_disk_key_pool *pool);            /* after its buckets */
uint64_t rk_disk_key_pool_bytes(const rk_disk_key_pool *pool); /* of what is taken */

static inline rk_disk_key_block *rk_disk_keys_block(const rk_disk_keys *keys, uint32_t block) {
    /* While one thread inserts, others read entries: the bit may change under them. */
    uint32_t number = __atomic_load_n(&keys->blocks[block], __ATOMIC_RELAXED) & ~RK_BLOCK_IS_PASSED;
    return (rk_disk_key_block *)(void *)(keys->pool->slabs[number >> RK_SLAB_BITS] +
                                         (number & (RK_SLAB_BLOCKS - 1)) * keys->pool->block_bytes);
}
static inline rk_disk_key_block *rk_disk_keys_block_of(const rk_disk_keys *keys, uint32_t entry) {
    return rk_disk_keys_block(keys, entry / RK_BLOCK_ENTRIES);
}
/* What finding a key reads first; NULL: there is none. */
const void *rk_disk_keys_first_block(const rk_disk_keys *keys, uint64_t hash);
uint32_t rk_disk_keys_find(const rk_disk_keys *keys, uint64_t hash); /* RK_NO_ENTRY: it is not there */

/* n: entries in use from now on. most: as many as there usually are at most. Where blocks were added, rebuild
 * comes before more are. */
rk_status rk_disk_keys_reserve(rk_disk_keys *keys, uint32_t n, uint32_t most);
void rk_disk_keys_prefetch_insert(const rk_disk_keys *keys, uint64_t hash); /* what insert will touch */
/* A key that is not there takes a free entry, whose count is 0. last_batch: above 0. */
uint32_t rk_disk_keys_insert(rk_disk_keys *keys, uint64_t hash, int32_t last_batch);
void rk_disk_keys_remove(rk_disk_keys *keys, uint32_t entry);
uint32_t rk_disk_keys_used_entries(const rk_disk_keys *keys, uint32_t block); /* a bit each */
/* From this entry on, the first one in use. */
uint32_t rk_disk_keys_next(const rk_disk_keys *keys, uint32_t entry);
rk_status rk_disk_keys_rebuild(rk_disk_keys *keys);
void rk_disk_keys_clear(rk_disk_keys *keys);   /* the memory stays */
void rk_disk_keys_release(rk_disk_keys *keys); /* the pool keeps the blocks */

uint64_t rk_disk_keys_hash(const rk_disk_keys *keys, uint32_t entry);

/* Somebody may look whether a row is in memory, while another thread moves those on the disk: halves may then
 * be of two places, but the highest bits of both are the same. */
static inline uint64_t rk_disk_keys_read_where(const rk_disk_keys *keys, uint32_t entry) {
    const rk_disk_key_block *block = rk_disk_keys_block_of(keys, entry);
    uint32_t i = entry % RK_BLOCK_ENTRIES;
    return (uint64_t)__atomic_load_n(&block->where_high[i], __ATOMIC_RELAXED) << 32 |
           __atomic_load_n(&block->where_low[i], __ATOMIC_RELAXED);
}
static inline void rk_disk_keys_write_where(rk_disk_keys *keys, uint32_t entry, uint64_t where) {
    rk_disk_key_block *block = rk_disk_keys_block_of(keys, entry);
    uint32_t i = entry % RK_BLOCK_ENTRIES;
    __atomic_store_n(&block->where_high[i], (uint16_t)(where >> 32), __ATOMIC_RELAXED);
    __atomic_store_n(&block->where_low[i], (uint32_t)where, __ATOMIC_RELAXED);
}

#endif
