/* Former values of rows whose updates are done, for training batches that must not see these updates yet.
 *
 * With a staleness of k, training batch b sees the updates of the batches before b - k and no others. To
 * evaluate or to save, all updates are done at once, also those that the next k batches must not see. Before
 * each of these updates the rows that it changes are kept as an image. A later batch's lookups are done with
 * its images put back. So they see what they would have seen, and the bits of a step do not depend on
 * whether rows were brought up to date before it. A checkpoint has the images, too. */
#ifndef RK_EMBEDDING_LOCAL_STALE_ROWS_H
#define RK_EMBEDDING_LOCAL_STALE_ROWS_H

#include "embedding/local/collection.h"

/* Of a table's rows that an update changed: records of the row's number in the whole table, int64, and its
 * values as they were. In the order of the numbers. */
typedef struct rk_stale_table {
    int64_t n;
    char *records;
} rk_stale_table;

typedef struct rk_stale_image {
    int64_t update;         /* the training batch whose update came after it */
    rk_stale_table *tables; /* [n_tables] */
} rk_stale_image;

typedef struct rk_stale_rows {
    rk_embeddings *embeddings; /* where the rows are; NULL: there are none */
    int64_t staleness;
    int64_t n_looked_up;    /* training batches */
    rk_stale_image *images; /* [n], oldest first */
    size_t n, capacity;
} rk_stale_rows;

/* The update that was launched is about to be done: that of training batch `update`. Does nothing if all
 * batches that are not to see it have been looked up. */
rk_status rk_stale_rows_keep(rk_stale_rows *stale, int64_t update);
/* Around the lookups of the next training batch. */
void rk_stale_rows_put_back(rk_stale_rows *stale);
void rk_stale_rows_take_away(rk_stale_rows *stale);
/* The rows are others now: the next batch sees them. */
void rk_stale_rows_forget(rk_stale_rows *stale);
void rk_stale_rows_release(rk_stale_rows *stale);

/* Table t's images that batches yet to come need, as tensors of bytes [rows, record], named
 * RK_STALE_PREFIX<age>/<part and columns>/<table>/rows; the newest has the age 0. Views. */
#define RK_STALE_PREFIX "before/"
rk_status rk_stale_rows_state_dict(rk_stale_rows *stale, int32_t t, rk_state_dict *state);
/* Take from one of those, of whatever part of a table, what is of rows and columns that are here; those are
 * as they were saved with it. */
rk_status rk_stale_rows_read(rk_stale_rows *stale, const char *name, int64_t n, int64_t record_bytes,
                             const void *records);

#endif
