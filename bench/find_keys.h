/* The smallest loop that finds the rows of a batch's keys, in memory as large as a dynamic table's: of each
 * key once, one line of an index and what is known of its row, which is marked as used; then each use's row.
 * Which keys are equal is known beforehand, none stands behind its line, and nothing is compared. What
 * dynamic tables are held against. */
#ifndef RK_BENCH_FIND_KEYS_H
#define RK_BENCH_FIND_KEYS_H

#include "workload.h"

typedef struct key_finder key_finder;

/* room: rows that a table has room for, by those that it has; index_bytes, info_bytes: that each of them
 * takes of the table's index, and that are known of it. */
key_finder *key_finder_of(const workload *w, double room, double index_bytes, size_t info_bytes);

/* Tries several numbers of keys that are fetched ahead on batch 0 and keeps the best. */
void key_finder_tune(key_finder *k);

/* Seconds of batch b, with the library's threads. */
double key_finder_find_batch(key_finder *k, int64_t b);

#endif
