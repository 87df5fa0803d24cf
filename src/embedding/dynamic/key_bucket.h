/* One bucket of a dynamic table's keys: which row a key has, and how often keys without a row were used. Both
 * are hash tables with linear probing: of cache lines with 12 rows each, at most 5/6 full, and of counts, at
 * most 4/5 full. What can fail is done beforehand, by reserve. */
#ifndef RK_EMBEDDING_DYNAMIC_KEY_BUCKET_H
#define RK_EMBEDDING_DYNAMIC_KEY_BUCKET_H

#include <reckon/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "embedding/dynamic_config.h"

/* What is known of a row's key: all that finding and using it reads, in one cache line. */
typedef struct rk_key_info {
    int64_t key;
    int32_t last_batch; /* that used it: its number less the table's first_batch; 0: the row is no key's */
    int32_t count;      /* uses since the row was created */
} rk_key_info;

/* Rows of some keys whose hashes are near each other. A row has 34 bits: it is below RK_MOST_KEY_ROWS. */
enum { RK_LINE_ROWS = 12 };
typedef struct rk_index_line {
    uint32_t rows[RK_LINE_ROWS]; /* the lower 32 bits */
    uint8_t tags[RK_LINE_ROWS];  /* 8 bits of the keys' hashes, none of them 0; 0: free */
    uint8_t high[3];             /* the upper 2 bits of each row */
    uint8_t is_passed;           /* a key that belongs here found it full, and stands in a later line */
} rk_index_line;
_Static_assert(sizeof(rk_index_line) == 64 && offsetof(rk_index_line, tags) == 48, "a cache line");

typedef struct rk_key_bucket {
    rk_index_line *lines; /* [n_lines] */
    int64_t *counted;     /* [counted_size] keys without a row, and */
    uint32_t *uses;       /* their uses so far, at most INT32_MAX; 0: free */
    uint32_t n, n_counted, n_lines, counted_size;
    bool is_in_room; /* lines are */
} rk_key_bucket;

/* A fixed mix of a key's bits (the finalizer of splitmix64), one to one. Checkpoints depend on it: a key's
 * bucket is given by the high bits. */
static inline uint64_t rk_key_hash(int64_t key) {
    uint64_t x = (uint64_t)key + 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* The key of a hash: the inverse. */
static inline int64_t rk_key_of_hash(uint64_t hash) {
    uint64_t x = hash ^ hash >> 31 ^ hash >> 62;
    x *= 0x319642B2D24D8EC3u;
    x = (x ^ x >> 27 ^ x >> 54) * 0x96DE1B173F119089u;
    x = x ^ x >> 30 ^ x >> 60;
    return (int64_t)(x - 0x9E3779B97F4A7C15u);
}

/* The high bits of a hash are the bucket's; the lowest 32 say where it stands, the 8 above them are its tag.
 */
static inline uint8_t rk_key_tag_of_hash(uint64_t hash) {
    uint8_t tag = (uint8_t)(hash >> 32);
    return tag ? tag : 1;
}
static inline uint32_t rk_key_first_entry(uint64_t hash, uint32_t size) {
    return (uint32_t)((uint64_t)(uint32_t)hash * size >> 32);
}
static inline uint32_t rk_key_next_entry(uint32_t at, uint32_t size) {
    return at + 1 == size ? 0 : at + 1;
}

/* A hash table's size that grows: a quarter more, but no more than enough; or what is wanted. */
uint32_t rk_grown_hash_size(uint32_t size, uint64_t wanted, uint64_t enough);

/* Which places of a line have this tag, a bit each. */
static inline unsigned rk_line_match_tag(const rk_index_line *line, uint8_t tag) {
#ifdef __SSE2__
    __m128i tags = _mm_loadu_si128((const __m128i *)line + 3); /* and what follows them */
    unsigned matches = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag)));
    return matches & ((1u << RK_LINE_ROWS) - 1);
#else
    unsigned matches = 0;
    for (unsigned place = 0; place < RK_LINE_ROWS; place++)
        matches |= (unsigned)(line->tags[place] == tag) << place;
    return matches;
#endif
}
static inline unsigned rk_lowest_place(unsigned matches) {
    return (unsigned)__builtin_ctz(matches);
}
static inline int64_t rk_line_read_row(const rk_index_line *line, unsigned place) {
    uint32_t high;
    memcpy(&high, line->high, sizeof high); /* and is_passed, behind what is read */
    return (int64_t)((uint64_t)(high >> 2 * place & 3) << 32 | line->rows[place]);
}

/* What finding a key reads first, of a bucket that has keys, and behind a line that is passed; and then the
 * row that it most likely finds. 0: the key has no row. */
static inline const rk_index_line *rk_key_bucket_first_line(const rk_key_bucket *bucket, uint64_t hash) {
    return bucket->lines + rk_key_first_entry(hash, bucket->n_lines);
}
static inline const rk_index_line *rk_key_bucket_next_line(const rk_key_bucket *bucket,
                                                           const rk_index_line *line) {
    return bucket->lines + rk_key_next_entry((uint32_t)(line - bucket->lines), bucket->n_lines);
}
static inline int64_t rk_key_bucket_guess_row(const rk_key_bucket *bucket, uint64_t hash) {
    if (bucket->n == 0) return 0;
    uint8_t tag = rk_key_tag_of_hash(hash);
    for (uint32_t at = rk_key_first_entry(hash, bucket->n_lines);;
         at = rk_key_next_entry(at, bucket->n_lines)) {
        unsigned matches = rk_line_match_tag(&bucket->lines[at], tag);
        if (matches) return rk_line_read_row(&bucket->lines[at], rk_lowest_place(matches));
        if (!bucket->lines[at].is_passed) return 0;
    }
}

/* info: of all rows of the table. A row is above 0 and below RK_MOST_KEY_ROWS. */
int64_t rk_key_bucket_find(const rk_key_bucket *bucket, const rk_key_info *info,
                           int64_t key); /* 0: it has none */
/* The lines of so many keys. */
uint64_t rk_key_bucket_lines(uint64_t n_keys);
/* most: rows that it usually has at most; it grows to no more than they need before it has more. room: lines
 * of zeros for so many, the bucket's own, which it uses once they are at least half full; or NULL. */
rk_status rk_key_bucket_reserve(rk_key_bucket *bucket, const rk_key_info *info, uint32_t n, uint32_t most,
                                rk_index_line *room);
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
/* Subtracts from all counts the least number that leaves no more than `most` above 0. */
void rk_key_bucket_lower_counts(rk_key_bucket *bucket, uint32_t most);

void rk_key_bucket_release(rk_key_bucket *bucket);

#endif
