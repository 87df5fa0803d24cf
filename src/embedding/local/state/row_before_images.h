/* Before-images of rows: their values before an update that is done, for training batches that must not see
 * it yet.
 *
 * With a staleness of k, training batch b sees the updates of the batches before b - k and no others. To
 * evaluate or to save, all updates are done at once, also those that the next k batches must not see. Before
 * each of these updates the rows that it changes are copied into an image. A later batch's lookups are done
 * with its images swapped in. So they see what they would have seen, and the bits of a step do not depend on
 * whether rows were brought up to date before it. A checkpoint has the images, too. */
#ifndef RK_EMBEDDING_LOCAL_STATE_ROW_BEFORE_IMAGES_H
#define RK_EMBEDDING_LOCAL_STATE_ROW_BEFORE_IMAGES_H

#include "base/text/text.h"
#include "embedding/local/collection.h"

/* Rows that an update changed: records of the row's number in the whole table, int64, and its values as they
 * were. In the order of the numbers; of a dynamic table, of keys as a checkpoint has them. */
typedef struct rk_row_records {
    int64_t n;
    char *data;
} rk_row_records;

typedef struct rk_row_before_image_table {
    rk_row_records rows;
    rk_row_records shared; /* of a dynamic table, rows that keys without one share, by their numbers */
} rk_row_before_image_table;

typedef struct rk_row_before_image {
    int64_t update;                    /* the training batch whose update came after it */
    rk_row_before_image_table *tables; /* [n_tables] */
} rk_row_before_image;

typedef struct rk_row_before_images {
    rk_embeddings *embeddings; /* where the rows are; NULL: there are none */
    int64_t staleness;
    int64_t n_looked_up;         /* training batches */
    rk_row_before_image *images; /* [n], oldest first */
    size_t n, capacity;
} rk_row_before_images;

/* The update that was launched is about to be done: that of training batch `update`. Does nothing if all
 * batches that are not to see it have been looked up. */
rk_status rk_row_before_images_capture(rk_row_before_images *images, int64_t update);
/* Around the lookups of the next training batch. */
void rk_row_before_images_swap_in(rk_row_before_images *images);
void rk_row_before_images_swap_out(rk_row_before_images *images);
/* Before that, while its keys get rows: shared ones alone, which new rows begin as. */
void rk_row_before_images_swap_shared_in(rk_row_before_images *images);
void rk_row_before_images_swap_shared_out(rk_row_before_images *images);
/* The rows are others now: the next batch sees them. */
void rk_row_before_images_clear(rk_row_before_images *images);
void rk_row_before_images_release(rk_row_before_images *images);

/* Table t's images that batches yet to come need, as tensors of bytes [rows, record], named
 * RK_BEFORE_IMAGE_PREFIX<age>/<part and columns>/<table>/rows, or oov_rows of shared ones; the newest has the
 * age 0. Views. */
#define RK_BEFORE_IMAGE_PREFIX "before/"
rk_status rk_row_before_images_state_dict(rk_row_before_images *images, int32_t t, rk_state_dict *state);
/* What such a name says. */
typedef struct rk_before_image_name {
    int64_t age, first_column, end_column;
    rk_span table;
    bool are_shared; /* rows that keys share */
} rk_before_image_name;
/* RK_BAD_DATA: the name is none of those. */
rk_status rk_before_image_name_parse(const char *name, rk_before_image_name *out);
/* Take from one of those, of whatever part of a table, what is of rows and columns that are here; those are
 * as they were saved with it. */
rk_status rk_row_before_images_read(rk_row_before_images *images, const char *name, int64_t n,
                                    int64_t record_bytes, const void *records);

#endif
