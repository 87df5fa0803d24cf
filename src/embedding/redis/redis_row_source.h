/* The rows of a model's tables in Redis, read behind a cache of bounded memory. The rows of a version never
 * change, so what is kept stays right. */
#ifndef RK_EMBEDDING_REDIS_REDIS_ROW_SOURCE_H
#define RK_EMBEDDING_REDIS_REDIS_ROW_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "embedding/redis/row_manifest.h"
#include "embedding/row_source.h"

typedef struct rk_redis_row_source_options {
    const char *url, *version;
    size_t cache_bytes; /* of all tables together; 0: rows are read for each request */
    double timeout;     /* seconds that a request waits for its rows */
} rk_redis_row_source_options;

/* A source of rows (embedding/row_source.h). */
typedef struct rk_redis_row_source rk_redis_row_source;
/* Reads the manifest, which is written last. Errors: RK_NOT_FOUND, where there is none of this version;
 * RK_UNAVAILABLE; RK_BAD_DATA; RK_CONFIG (the URL); RK_UNSUPPORTED. */
rk_status rk_redis_row_source_open(const rk_redis_row_source_options *options, rk_row_source **out);
const rk_row_manifest *rk_redis_row_source_manifest(const rk_redis_row_source *rows);

/* Some rows of the manifest's table number `table`, each at most once. */
typedef struct rk_row_request {
    size_t table;
    const int64_t *rows; /* [n], all in the table */
    size_t n;
    char *out; /* [n, row_bytes] */
} rk_row_request;

/* A thread's connections. */
typedef struct rk_redis_row_reader rk_redis_row_reader;
rk_status rk_redis_row_reader_create(rk_redis_row_source *rows, rk_redis_row_reader **out);
void rk_redis_row_reader_free(rk_redis_row_reader *reader);
/* All rows of all requests, or none: what the cache does not have takes one round trip. RK_UNAVAILABLE: rows
 * could not be read in time; others that ask within the next moment are told so at once. cancel: of
 * rk_redis_limits. */
rk_status rk_redis_row_reader_read_rows(rk_redis_row_reader *reader, const rk_row_request *requests, size_t n,
                                        const atomic_bool *cancel);

#endif
