/* Rows of one table that were read lately, in memory that does not grow: CLOCK, in parts with a lock each.
 * Any number of threads at once. */
#ifndef RK_EMBEDDING_REDIS_ROW_CACHE_H
#define RK_EMBEDDING_REDIS_ROW_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct rk_row_cache rk_row_cache;

/* At most n_rows rows, and at most so many bytes, its own included; 0: it keeps none. */
rk_status rk_row_cache_create(size_t n_bytes, int64_t n_rows, size_t row_bytes, rk_row_cache **out);
/* For all of so many rows. */
size_t rk_row_cache_bytes(int64_t n_rows, size_t row_bytes);
void rk_row_cache_free(rk_row_cache *cache);
/* Whether the row is here, and then its bytes in out. */
bool rk_row_cache_get(rk_row_cache *cache, int64_t row, void *out);
void rk_row_cache_put(rk_row_cache *cache, int64_t row, const void *bytes);
int64_t rk_row_cache_n_rows(const rk_row_cache *cache); /* that it can keep */

#endif
