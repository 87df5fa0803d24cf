/* What a version of rows in Redis is: its tables, and under which keys their rows are (docs/redis.md). */
#ifndef RK_EMBEDDING_REDIS_ROW_MANIFEST_H
#define RK_EMBEDDING_REDIS_ROW_MANIFEST_H

#include <reckon/table.h>

#include "base/buffer.h"

/* Rows stand one behind another in values of about so many bytes: a key costs about as much as a short row.
 */
enum { RK_ROW_BLOCK_BYTES = 16384 };

typedef struct rk_stored_rows {
    char *table, *key; /* key: of a block, to which its number is added */
    int64_t n_rows;
    int32_t dim;
    rk_export_rows format; /* not RK_EXPORT_ROWS_TRAINED */
    int64_t row_bytes, block_rows;
} rk_stored_rows;

typedef struct rk_row_manifest {
    char *version, *key;    /* key: of the manifest itself */
    rk_stored_rows *tables; /* [n_tables] */
    size_t n_tables, capacity;
} rk_row_manifest;

rk_status rk_row_manifest_init(const char *prefix, const char *version, rk_row_manifest *out);
void rk_row_manifest_release(rk_row_manifest *manifest);
/* Errors: RK_UNSUPPORTED, where rows are too long. */
rk_status rk_row_manifest_add(rk_row_manifest *manifest, const char *prefix, const char *table,
                              int64_t n_rows, int32_t dim, rk_export_rows format);
rk_status rk_row_manifest_write(const rk_row_manifest *manifest, rk_buffer *out);
/* Of the same version: whatever `text` is, RK_BAD_DATA says what is wrong. */
rk_status rk_row_manifest_parse(const char *prefix, const char *version, const char *text, size_t n_bytes,
                                rk_row_manifest *out);
const rk_stored_rows *rk_row_manifest_find(const rk_row_manifest *manifest, const char *table);

#endif
