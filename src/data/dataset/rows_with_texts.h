/* Rows of a split or a file, in its order, as batches with the texts of some columns beside them: what
 * answers about rows name is what the data calls it. */
#ifndef RK_DATA_DATASET_ROWS_WITH_TEXTS_H
#define RK_DATA_DATASET_ROWS_WITH_TEXTS_H

#include "data/dataset/dataset.h"

typedef struct rk_rows_with_texts_options {
    const char *directory, *split; /* as rk_dataset_options */
    int64_t batch_size;
    const char *const *columns; /* [n_columns], whose texts are wanted; copied */
    size_t n_columns;
    const char *may_miss; /* a column of the features that the files need not have; NULL: none */
    bool once;            /* rows whose text of the first column is that of an earlier one are left out */
    /* With `once`: whether rows with that text of the first column are wanted; asked once of each. NULL: all
     * are. */
    rk_status (*choose)(void *context, rk_span text, bool *wanted);
    void *context;
} rk_rows_with_texts_options;

typedef struct rk_batch_with_texts {
    const rk_batch *batch; /* without labels */
    const rk_span *texts;  /* [batch->n, n_columns]: the first value of a row that has several */
    const int64_t *rows;   /* [batch->n]: their numbers in the split */
} rk_batch_with_texts;

typedef struct rk_rows_with_texts rk_rows_with_texts;
/* The section and the transforms must outlive it. */
rk_status rk_rows_with_texts_open(const rk_data_section *section, const rk_transforms *transforms,
                                  const rk_rows_with_texts_options *options, rk_rows_with_texts **out);
/* The next batch_size rows, or those that are left: valid until the next call. RK_END (no message) after the
 * last. Bad rows: RK_BAD_DATA naming file and row, or skipped and warned of (on_bad_row). */
rk_status rk_rows_with_texts_next(rk_rows_with_texts *rows, rk_batch_with_texts *out);
void rk_rows_with_texts_free(rk_rows_with_texts *rows);
static inline void rk_rows_with_texts_auto_free(rk_rows_with_texts **rows) { /* for RK_AUTO */
    rk_rows_with_texts_free(*rows);
}

#endif
