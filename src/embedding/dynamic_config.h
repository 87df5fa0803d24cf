/* What makes a table dynamic: rows for the keys that it meets (docs/dynamic_tables.md). */
#ifndef RK_EMBEDDING_DYNAMIC_CONFIG_H
#define RK_EMBEDDING_DYNAMIC_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

typedef enum rk_eviction_policy { RK_EVICTION_LRU, RK_EVICTION_LFU, RK_EVICTION_NONE } rk_eviction_policy;

typedef struct rk_dynamic_config {
    int64_t max_capacity; /* rows; 0: the table is static */
    int64_t n_buckets;
    int policy;      /* rk_eviction_policy */
    double evict_to; /* of a bucket's capacity */
    int64_t min_count;
    double probability;
    bool oov;     /* keys without a row share one that is trained; else they have zeros */
    bool is_read; /* the keys come from a checkpoint: no memory for rows before they are known */
} rk_dynamic_config;

/* Rows of a bucket, about, where the run file does not say how many buckets there are. */
enum { RK_BUCKET_ROWS = 4096 };

/* A row's key, last batch and count, and up to 8/3 entries of 8 bytes in the index: what it takes beside its
 * values, at most. */
enum { RK_KEY_BYTES = 8 + 8 + 4 + 21 };

/* Rows that a table begins with memory for, that of keys without one among them. */
static inline int64_t rk_dynamic_first_places(const rk_dynamic_config *config) {
    return config->is_read ? 1 : config->max_capacity + 1;
}

static inline const char *rk_eviction_name(int policy) {
    return policy == RK_EVICTION_LRU ? "lru" : policy == RK_EVICTION_LFU ? "lfu" : "none";
}

#endif
