/* Keys that are only looked up, as an export has them: ascending, each once, in memory or in a mapped file.
 * Key i has row i, and row n stands for all keys that are not there, or is the first of several that do. */
#ifndef RK_EMBEDDING_SORTED_KEYS_H
#define RK_EMBEDDING_SORTED_KEYS_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/file/file.h"

typedef struct rk_sorted_keys {
    const uint8_t *keys; /* [n] of int64_t, at any byte */
    int64_t n;
    int64_t *fences; /* [n_fences]: the first key of each block of keys, in which a search begins */
    int64_t n_fences;
    atomic_llong n_missing; /* uses that a find had no row for */
} rk_sorted_keys;

/* Reads all keys once; they outlive it. Errors: RK_BAD_DATA, they do not ascend; RK_NO_MEMORY, for 1/32 of
 * their bytes. */
rk_status rk_sorted_keys_init(const void *keys, int64_t n, rk_sorted_keys *out);
void rk_sorted_keys_release(rk_sorted_keys *sorted);

/* Any number of threads. The rows are 0 to n, even where a file's keys have changed since. */
void rk_sorted_keys_find(rk_sorted_keys *sorted, const int64_t *keys, int64_t n, int64_t *rows);

bool rk_sorted_keys_contain(const rk_sorted_keys *sorted, int64_t key);

/* Those of several tables, and the files that they are mapped from. */
typedef struct rk_key_tables {
    struct rk_key_table {
        char *name;
        rk_sorted_keys keys;
    } * list; /* [n] */
    size_t n;
    rk_mapped_file *files; /* [n_files], those with keys mapped */
    size_t n_files;
} rk_key_tables;

void rk_key_tables_free(rk_key_tables *tables);
rk_sorted_keys *rk_key_tables_find_table(const rk_key_tables *tables, const char *name); /* NULL: none */

#endif
