/* Behind <reckon/dataset.h>: opening a dataset from its parts. */
#ifndef RK_DATA_DATASET_H
#define RK_DATA_DATASET_H

#include <reckon/dataset.h>

#include "data/transforms.h"

typedef struct rk_dataset_options {
    const char *directory;  /* what relative paths are relative to */
    const char *split;      /* "train", "valid", "test", or a path */
    int64_t batch_size;
    uint64_t seed;
    bool shuffle;           /* false keeps the file's order */
    bool labels_optional;   /* prediction: a file without label columns gives labels = NULL */
    int32_t prefetch;       /* batches made ahead on the background thread; 0 = 4 */
    /* Of n_parts datasets that share the batches, number `part`: batch i from where each was begun or sought last is of part i mod n_parts, and the end of an
     * epoch is of all (and counts n_parts batches). Rows are read all the same; batches of others are not made. n_parts 0: all batches. */
    int32_t part, n_parts;
} rk_dataset_options;

/* The section and the transforms must outlive the dataset. */
rk_status rk_dataset_create(const rk_data_section *section, const rk_transforms *transforms, const rk_dataset_options *options, rk_dataset **out);

/* As rk_dataset_next, from the beginning again at the end; RK_BAD_DATA if there are no rows. */
rk_status rk_dataset_next_endless(rk_dataset *dataset, const rk_batch **out);

const rk_data_schema *rk_dataset_schema(const rk_dataset *dataset);
/* True if the section says that the split exists ("valid" may not). */
bool rk_dataset_has_split(const rk_data_section *section, const char *split);

#endif
