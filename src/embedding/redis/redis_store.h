/* A store (embedding/store.h) of a collection whose rows are in Redis: a batch's rows are read once each,
 * before it is looked up. Only reads: begin without training, wait, lookup, end, flush and free are all that
 * it does. */
#ifndef RK_EMBEDDING_REDIS_REDIS_STORE_H
#define RK_EMBEDDING_REDIS_REDIS_STORE_H

#include "embedding/redis/redis_row_source.h"
#include "embedding/store.h"

/* embeddings: tables without memory of their own; those of the manifest have the same names, rows and dims,
 * or the error is RK_CONFIG. Both outlive the store. */
rk_status rk_redis_store_create(const rk_embeddings *embeddings, rk_redis_row_source *rows, rk_store **out);

#endif
