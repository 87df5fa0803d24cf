/* Who used which row of a table in a batch: what an update reads. */
#ifndef RK_EMBEDDING_UPDATE_PLAN_H
#define RK_EMBEDDING_UPDATE_PLAN_H

#include <reckon/embeddings.h>

#include "kernels/kernels.h"

/* The unique rows of a table's last batch and their occurrences; memory kept from batch to batch. */
typedef struct rk_update_plan {
    size_t n, capacity;          /* occurrences, of all features of the table */
    rk_occurrence *occurrences;  /* [n] by (row, feature, bag, place in the bag) */
    uint32_t *order, *starts;    /* [n], [n_unique+1] */
    int64_t *unique;             /* [n_unique] rows, ascending */
    size_t n_unique;
    void *scratch;
    /* where one feature's ids do not serve as they are: all ids and occurrences by (feature, bag, place in the bag) */
    size_t joined_capacity;
    int64_t *ids;                /* [n] */
    rk_occurrence *unsorted;     /* [n] */
} rk_update_plan;

/* Room for table t's part of the last lookup. */
rk_status rk_update_plan_reserve(rk_embeddings *embeddings, int32_t t);

/* Fill in table t's plan. The occurrences point into the gradients of the features, [n_features]. */
void rk_update_plan_make(rk_embeddings *embeddings, int32_t t, const rk_activation *gradients);

void rk_update_plan_release(rk_update_plan *plan);

#endif
