/* The different keys of a batch, which a trainer without rows asks the ranks that have them for. */
#ifndef RK_EMBEDDING_DYNAMIC_UNIQUE_KEYS_H
#define RK_EMBEDDING_DYNAMIC_UNIQUE_KEYS_H

#include "embedding/dynamic/dynamic_table.h"

/* Keys that grow in number. Zero-initialize. */
typedef struct rk_key_list {
    int64_t *keys; /* [n] */
    size_t n, capacity;
} rk_key_list;

rk_status rk_key_list_add(rk_key_list *list, const int64_t *keys, size_t n);
void rk_key_list_release(rk_key_list *list);

/* In the order of their first uses. Memory is kept from batch to batch. */
typedef struct rk_unique_keys {
    int64_t n;
    int64_t *keys;    /* [n] */
    uint32_t *uses;   /* [n] */
    int64_t *begins;  /* [n_features + 1]: feature k is the first to use those from begins[k] on */
    uint32_t *places; /* [1 << bits] a hash table: numbers of keys, from 1 on; 0: free */
    int bits;
    size_t keys_capacity, uses_capacity, begins_capacity, places_capacity;
} rk_unique_keys;

/* Keys of features become their numbers among the different ones, where `rows` of each says. */
rk_status rk_unique_keys_find(rk_unique_keys *batch_keys, const rk_key_uses *features, int32_t n_features);
void rk_unique_keys_release(rk_unique_keys *batch_keys);

#endif
