/* What makes a table dynamic: rows for the keys that it meets (docs/dynamic_tables.md). */
#ifndef RK_EMBEDDING_DYNAMIC_CONFIG_H
#define RK_EMBEDDING_DYNAMIC_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include <reckon/table.h>

#include "base/integers.h"
#include "base/thread/partition.h"

typedef struct rk_dynamic_config {
    int64_t max_capacity; /* rows; 0: the table is static */
    int64_t n_buckets;
    int policy;        /* rk_eviction_policy */
    double evict_to;   /* of a bucket's capacity */
    int64_t ttl_steps; /* batches without a use after which a row goes; 0: none does */
    int64_t ttl;       /* seconds of the stream without a use after which a row goes; 0: none does */
    int64_t keep;      /* rows below which eviction takes no table, dealt to buckets as max_capacity is */
    int64_t min_count;
    double probability;
    int counter;    /* rk_key_counter: how uses of keys without a row are counted */
    bool oov;       /* keys without a row share one that is trained */
    int64_t n_cold; /* they share so many, a key the one of its hash: a multiple of n_buckets; 0, and no oov:
                       they have zeros */
    bool is_read;   /* the keys come from a checkpoint: no memory for rows before they are known */
    int64_t
        n_pinned; /* batches before one that is looked up, whose rows are still to be updated: those stay */
    const char *storage; /* a folder on a disk for rows that are not in memory; NULL: all are */
    uint64_t memory_bytes, storage_bytes; /* of rows in memory; and at most on the disk, 0: any */
    int32_t part, n_parts; /* over ranks: which of so many ranges of its buckets this is; 0 and 0: all */
} rk_dynamic_config;

/* Of last batches differences of so many are known (dynamic/dynamic_table.h). */
enum { RK_MOST_TTL_STEPS = 1000000000 };

/* Seconds. */
#define RK_MOST_TTL 10000000000ll

/* Rows of a bucket, about, where the run file does not say how many buckets there are. */
enum { RK_BUCKET_ROWS = 4096 };

/* Of a table that is given `wanted` of them, or 0. */
static inline int64_t rk_dynamic_choose_buckets(int64_t max_capacity, int64_t wanted) {
    int64_t n = wanted ? wanted : max_capacity / RK_BUCKET_ROWS;
    return n > 1 ? n : 1;
}

/* Buckets have numbers of 32 bits. */
#define RK_MOST_BUCKETS ((int64_t)UINT32_MAX)

/* Rows of keys and shared ones have numbers of 34 bits in one process (dynamic/key_bucket.h). */
#define RK_MOST_KEY_ROWS ((int64_t)1 << 34)

/* The most rows that keys without one may share. */
#define RK_MOST_COLD_ROWS 100000000000000ll

/* Whether rows that are not in memory are on a disk; what only reads has all of them in memory. */
static inline bool rk_dynamic_has_disk_rows(const rk_dynamic_config *config) {
    return config->storage && !config->is_read;
}

/* What a row of a full table takes beside its values: key, last batch and count, and a tenth of a line of 64
 * bytes in the index. */
enum { RK_KEY_BYTES = 8 + 4 + 4 + 7 };

/* Of a table with rows on a disk: last batch, count and where the row is, and beside what its bucket does not
 * say of the key's hash a byte for blocks that are 31/32 full (dynamic/disk_keys.h). */
enum { RK_DISK_KEY_BYTES = 4 + 2 + 6 + 1 };
static inline int rk_dynamic_bytes_of_hash(const rk_dynamic_config *config) {
    return (64 - (rk_bit_width((uint64_t)config->n_buckets) - 1) + 7) / 8;
}

/* What counts of keys without a row take for each row, at most: two keys, 12 bytes each in a list that is 4/5
 * full, or the counters of a sketch (embedding/dynamic/key_sketch.h). */
enum { RK_EXACT_BYTES = 2 * 15, RK_COUNT_MIN_BYTES = 16, RK_BLOOM_BYTES = 8 };
static inline int rk_dynamic_counter_bytes(const rk_dynamic_config *config) {
    return config->min_count <= 1                    ? 0
           : config->counter == RK_COUNTER_COUNT_MIN ? RK_COUNT_MIN_BYTES
           : config->counter == RK_COUNTER_BLOOM     ? RK_BLOOM_BYTES
                                                     : RK_EXACT_BYTES;
}

static inline int rk_dynamic_key_bytes(const rk_dynamic_config *config) {
    int bytes = rk_dynamic_has_disk_rows(config) ? RK_DISK_KEY_BYTES + rk_dynamic_bytes_of_hash(config)
                                                 : RK_KEY_BYTES;
    return bytes + rk_dynamic_counter_bytes(config);
}

static inline bool rk_dynamic_has_sketches(const rk_dynamic_config *config) {
    return config->min_count > 1 && config->counter != RK_COUNTER_EXACT;
}

/* A table that is cut into parts: the buckets of part p are first_bucket(p) .. first_bucket(p + 1) - 1. */
static inline int64_t rk_dynamic_first_bucket(const rk_dynamic_config *config, int32_t part,
                                              int32_t n_parts) {
    return rk_partition_begin(config->n_buckets, (size_t)part, (size_t)n_parts);
}

/* The part that has the bucket: the inverse of first_bucket. */
static inline int32_t rk_dynamic_part_of_bucket(const rk_dynamic_config *config, int64_t bucket,
                                                int32_t n_parts) {
    return (int32_t)(((bucket + 1) * n_parts - 1) / config->n_buckets);
}

/* Capacities of buckets differ by one at the most, and are the table's together: those of the first n. */
static inline int64_t rk_dynamic_capacity_of_buckets(const rk_dynamic_config *config, int64_t n_buckets) {
    int64_t larger = config->max_capacity % config->n_buckets;
    return config->max_capacity / config->n_buckets * n_buckets + (n_buckets < larger ? n_buckets : larger);
}

/* Rows that part `part` of `n_parts` has when it is full. */
static inline int64_t rk_dynamic_part_capacity(const rk_dynamic_config *config, int32_t part,
                                               int32_t n_parts) {
    return rk_dynamic_capacity_of_buckets(config, rk_dynamic_first_bucket(config, part + 1, n_parts)) -
           rk_dynamic_capacity_of_buckets(config, rk_dynamic_first_bucket(config, part, n_parts));
}

/* Cold rows of the first n buckets, which share them equally. A key's is in its own bucket, since both are
 * given by the high bits of its hash. */
static inline int64_t rk_dynamic_cold_rows_of_buckets(const rk_dynamic_config *config, int64_t n_buckets) {
    return config->n_cold / config->n_buckets * n_buckets;
}

/* Those that part `part` of `n_parts` has. */
static inline int64_t rk_dynamic_part_cold_rows(const rk_dynamic_config *config, int32_t part,
                                                int32_t n_parts) {
    return rk_dynamic_cold_rows_of_buckets(config, rk_dynamic_first_bucket(config, part + 1, n_parts)) -
           rk_dynamic_cold_rows_of_buckets(config, rk_dynamic_first_bucket(config, part, n_parts));
}

/* Rows before those of keys, of a table or a part: cold ones, or one of all keys without a row. */
static inline int64_t rk_dynamic_n_shared_rows(const rk_dynamic_config *config) {
    if (!config->n_cold) return 1;
    return config->n_parts ? rk_dynamic_part_cold_rows(config, config->part, config->n_parts)
                           : config->n_cold;
}

/* Rows that a table, or a part, begins with memory for, shared ones among them. */
static inline int64_t rk_dynamic_initial_rows(const rk_dynamic_config *config) {
    int64_t n_shared = rk_dynamic_n_shared_rows(config);
    if (config->is_read) return n_shared;
    return n_shared + (config->n_parts ? rk_dynamic_part_capacity(config, config->part, config->n_parts)
                                       : config->max_capacity);
}

static inline const char *rk_eviction_name(int policy) {
    return policy == RK_EVICTION_LRU ? "lru" : policy == RK_EVICTION_LFU ? "lfu" : "none";
}

static inline const char *rk_counter_name(int counter) {
    return counter == RK_COUNTER_EXACT ? "exact" : counter == RK_COUNTER_COUNT_MIN ? "count_min" : "bloom";
}
/* Counters of a sketch for each row of its bucket. A bucket has at most INT32_MAX of them (count_min: in each
 * of four rows of counters), and so many rows. */
enum { RK_COUNT_MIN_WIDTH = 4, RK_BLOOM_WIDTH = 16 };
static inline int64_t rk_counter_max_rows(int counter) {
    return counter == RK_COUNTER_EXACT       ? INT64_MAX
           : counter == RK_COUNTER_COUNT_MIN ? INT32_MAX / RK_COUNT_MIN_WIDTH
                                             : INT32_MAX / RK_BLOOM_WIDTH;
}
/* The largest min_count. */
static inline int64_t rk_counter_max_min_count(int counter) {
    return counter == RK_COUNTER_EXACT ? INT32_MAX : counter == RK_COUNTER_COUNT_MIN ? 255 : 15;
}

#endif
