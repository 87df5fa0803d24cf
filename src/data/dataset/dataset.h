/* Behind <reckon/dataset.h>: opening a dataset from its parts. */
#ifndef RK_DATA_DATASET_DATASET_H
#define RK_DATA_DATASET_DATASET_H

#include <reckon/dataset.h>

#include "data/transform/transforms.h"

typedef struct rk_dataset_options {
    const char *directory; /* what relative paths are relative to */
    const char *split;     /* "train", "valid", "test", or a path */
    int64_t batch_size;
    uint64_t seed;
    int64_t n_epochs;     /* that are wanted, 0: not known. After the only one no rows stay in memory */
    bool shuffle;         /* false keeps the file's order */
    bool labels_optional; /* prediction: a file without label columns gives labels = NULL */
    int32_t prefetch;     /* batches made ahead on the background thread, or in the caller's hands; 0 = 4 */
    uint64_t large_batch_bytes; /* if the first batch has more, 2 of those suffice: it takes long to train on;
                                 * 0 = 64 MiB */
    /* Of n_shares datasets that share the reading, number `share`: the batches of window w of an epoch are of
     * share w mod n_shares, the end of an epoch is of all. Pieces of rkb files that have none of its windows'
     * rows are not parsed, unless bad rows are skipped. n_shares 0: all batches. */
    int32_t share, n_shares;
} rk_dataset_options;

/* The section and the transforms must outlive the dataset. */
rk_status rk_dataset_create(const rk_data_section *section, const rk_transforms *transforms,
                            const rk_dataset_options *options, rk_dataset **out);

static inline void rk_dataset_auto_free(rk_dataset **dataset) { /* for RK_AUTO */
    rk_dataset_free(*dataset);
}

/* The dataset's transforms are freed with it. */
void rk_dataset_take_transforms(rk_dataset *dataset, rk_transforms *transforms);
const rk_transforms *rk_dataset_transforms(const rk_dataset *dataset);

/* The largest timestamp of the batch that rk_dataset_next gave last, in microseconds, or RK_NO_TIMESTAMP. */
int64_t rk_dataset_batch_timestamp(const rk_dataset *dataset);

/* The batch that rk_dataset_next will give, if it was made already and its epoch goes on; else NULL. It stays
 * as the dataset's batches do. */
const rk_batch *rk_dataset_peek(rk_dataset *dataset);
/* As rk_dataset_next, from the beginning again at the end; RK_BAD_DATA if there are no rows. */
rk_status rk_dataset_next_endless(rk_dataset *dataset, const rk_batch **out);

/* That the split's files can be read, by their beginnings: before a long training reaches them. Of a
 * share of train nothing is looked at. */
rk_status rk_dataset_check(const rk_dataset *dataset);

const rk_data_schema *rk_dataset_schema(const rk_dataset *dataset);
/* Batches are of batch_size rows, the last one of a window perhaps of fewer. */
int64_t rk_dataset_batch_size(const rk_dataset *dataset);
/* Rows of a window, were they cut into batches of batch_size. */
int64_t rk_dataset_window_rows(const rk_dataset *dataset, int64_t batch_size);
/* True if the section says that the split exists ("valid" may not). */
bool rk_dataset_has_split(const rk_data_section *section, const char *split);

#endif
