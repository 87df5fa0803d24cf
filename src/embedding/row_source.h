/* Rows of a model for prediction that are not in its own memory: they are in one place, and only read. The
 * collection asks it where each table's rows are, and its lookups read them there. A place is a table of
 * these functions: the files of an export (train/checkpoint/mapped_rows.h), Redis
 * (redis/redis_row_source.h). */
#ifndef RK_EMBEDDING_ROW_SOURCE_H
#define RK_EMBEDDING_ROW_SOURCE_H

#include <stdbool.h>

#include "embedding/sorted_keys.h"
#include "embedding/store.h"
#include "kernels/rows.h"

typedef struct rk_row_source rk_row_source;

typedef struct rk_row_source_ops {
    void (*free)(
        rk_row_source *source); /* of what it has beside the keys; rk_row_source_free is for others */
    /* Where all rows of a table are, until free; *rows is untouched if they are not here, and the collection
     * then has them in its memory. RK_CONFIG: they are not n_rows rows of dim values. */
    rk_status (*find)(const rk_row_source *source, const char *table, int64_t n_rows, int32_t dim,
                      rk_rows *rows);
    /* NULL: find has the rows. Else they are in no memory here, and find is NULL: a store of the collection's
     * tables, which have no rows, that fetches those of a batch. Both outlive it. Each thread has one. */
    rk_status (*create_store)(rk_row_source *source, const rk_embeddings *embeddings, rk_store **out);
    /* Of such rows: whether they could be read when one last tried (any thread); and tries (one thread at a
     * time). */
    bool (*is_available)(const rk_row_source *source);
    rk_status (*check)(rk_row_source *source);
    /* Likewise, rows so far that were kept from earlier requests, and that were fetched. Any thread. */
    void (*count)(const rk_row_source *source, int64_t *n_cached, int64_t *n_fetched);
} rk_row_source_ops;

/* A source begins with its functions, and has the keys of dynamic tables: their rows, one more than keys, are
 * found by the keys' numbers. */
struct rk_row_source {
    const rk_row_source_ops *ops;
    rk_key_tables *keys; /* NULL: none of the tables is dynamic */
};

static inline void rk_row_source_free(rk_row_source *source) {
    if (!source) return;
    rk_key_tables_free(source->keys);
    source->ops->free(source);
}

static inline bool rk_row_source_is_remote(const rk_row_source *source) {
    return source && source->ops->create_store;
}

static inline void rk_row_source_auto(rk_row_source **source) { /* for RK_AUTO */
    rk_row_source_free(*source);
}

#endif
