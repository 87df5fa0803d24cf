/* One context (a user, a request) beside all samples of a batch: what of them is the same in each. */
#ifndef RK_BATCH_CONTEXT_COLUMNS_H
#define RK_BATCH_CONTEXT_COLUMNS_H

#include <stdbool.h>

typedef struct rk_context_columns {
    const bool *features; /* [n_features] the ids of these */
    const bool *dense;    /* [n_dense] these numbers */
} rk_context_columns;

#endif
