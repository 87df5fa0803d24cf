/* One bucket of a dynamic table's keys: which row a key has, and how often keys without a row were used. Both
 * are hash tables with linear probing, at most 4/5 full. What can fail is done beforehand, by reserve. */
#ifndef RK_EMBEDDING_DYNAMIC_KEY_BUCKET_H
#define RK_EMBEDDING_DYNAMIC_KEY_BUCKET_H

#include <reckon/status.h>
#include <stdint.h>

/* What is known of a row's key: all that finding and using it reads, in one cache line. */
typedef struct rk_key_info {
    int64_t key;
    int32_t last_batch; /* that used it: its number less the table's first_batch; 0: the row is no key's */
    int32_t count;      /* uses since the row was created */
} rk_key_info;

typedef struct rk_key_bucket {
    uint64_t *entries; /* [size]: 16 bits of the key's hash above 48 bits of its row; 0: free */
    int64_t *counted;  /* [counted_size] keys without a row, and */
    uint32_t *uses;    /* their uses so far, at most INT32_MAX; 0: free */
    uint32_t n, n_counted, size, counted_size;
} rk_key_bucket;

/* A fixed mix of a key's bits (the finalizer of splitmix64), one to one. Checkpoints depend on it: a key's
 * bucket is given by the high bits. */
static inline uint64_t rk_key_hash(int64_t key) {
    uint64_t x = (uint64_t)key + 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Inside an entry: 16 bits of a hash above a row. The high bits of the hash are the bucket's; the lowest 32
 * say where it stands, the 16 above them are kept. */
enum { RK_KEY_ROW_BITS = 48 };
#define RK_KEY_ROW_MASK (((uint64_t)1 << RK_KEY_ROW_BITS) - 1)
static inline uint64_t rk_key_tag_of_hash(uint64_t hash) {
    return hash << (RK_KEY_ROW_BITS - 32) & ~RK_KEY_ROW_MASK;
}
static inline uint32_t rk_key_first_entry(uint64_t hash, uint32_t size) {
    return (uint32_t)((uint64_t)(uint32_t)hash * size >> 32);
}
static inline uint32_t rk_key_next_entry(uint32_t at, uint32_t size) {
    return at + 1 == size ? 0 : at + 1;
}

/* What finding a key reads first, of a bucket that has keys; and then the row that it most likely finds. 0:
 * the key has no row. */
static inline const void *rk_key_bucket_first_entry(const rk_key_bucket *bucket, uint64_t hash) {
    return bucket->entries + rk_key_first_entry(hash, bucket->size);
}
static inline int64_t rk_key_bucket_guess_row(const rk_key_bucket *bucket, uint64_t hash) {
    if (bucket->n == 0) return 0;
    uint64_t tag = rk_key_tag_of_hash(hash);
    for (uint32_t at = rk_key_first_entry(hash, bucket->size);; at = rk_key_next_entry(at, bucket->size)) {
        uint64_t entry = bucket->entries[at];
        if (!entry || (entry & ~RK_KEY_ROW_MASK) == tag) return (int64_t)(entry & RK_KEY_ROW_MASK);
    }
}

/* info: of all rows of the table. A row is above 0 and below 2^48. */
int64_t rk_key_bucket_find(const rk_key_bucket *bucket, const rk_key_info *info,
                           int64_t key); /* 0: it has none */
/* most: rows that it usually has at most; it grows to no more than they need before it has more. */
rk_status rk_key_bucket_reserve(rk_key_bucket *bucket, const rk_key_info *info, uint32_t n, uint32_t most);
void rk_key_bucket_insert(rk_key_bucket *bucket, int64_t key, int64_t row); /* a key that has none */
/* The rows that are in it, in no order, into rows [n]. */
void rk_key_bucket_list_rows(const rk_key_bucket *bucket, int64_t *rows);
void rk_key_bucket_clear(rk_key_bucket *bucket); /* of rows; the memory stays */

/* uses: at most INT32_MAX */
uint32_t rk_key_bucket_read_count(const rk_key_bucket *bucket, int64_t key);
rk_status rk_key_bucket_reserve_counts(rk_key_bucket *bucket, uint32_t n, uint32_t most);
void rk_key_bucket_add_count(rk_key_bucket *bucket, int64_t key, uint32_t uses);
void rk_key_bucket_remove_count(rk_key_bucket *bucket, int64_t key); /* its count, if it has one */
void rk_key_bucket_clear_counts(rk_key_bucket *bucket);
void rk_key_bucket_halve_counts(rk_key_bucket *bucket); /* all counts; those of 0 are forgotten */

void rk_key_bucket_release(rk_key_bucket *bucket);

#endif
