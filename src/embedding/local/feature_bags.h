/* One feature's ids in one batch, checked and made ready for the kernels. */
#ifndef RK_EMBEDDING_LOCAL_FEATURE_BAGS_H
#define RK_EMBEDDING_LOCAL_FEATURE_BAGS_H

#include <stdatomic.h>

#include <reckon/embeddings.h>

#include "embedding/local/table_storage.h"

/* bags [n_bags]: a sample each, or a position of a sequence each. Points into the caller's arrays where those
 * serve as they are. */
typedef struct rk_feature_bags {
    int64_t n, n_bags, n_ids;
    const int64_t *offsets;    /* [n_bags+1] */
    const int64_t *ids;        /* [n_ids], all of them rows of the table */
    const float *coefficients; /* [n_ids] or NULL: 1 */
    const float *scales;       /* [n_bags] or NULL: 1 */
    int32_t *lengths;          /* [n] for sequences */
    bool single;               /* every bag is one id with the coefficient 1 */
    atomic_bool strays;        /* an id is no row of the table: one to drop, or an error */
    int64_t *rows;             /* [n_ids] of a dynamic table: those of its keys, which ids then points to */
    /* memory of its own, kept from batch to batch */
    int64_t *own_offsets, *own_positions, *own_ids;
    float *own_coefficients, *own_scales;
    int64_t filled_step, n_filled; /* own_offsets hold 0, step, 2 step, ..., so many of them: made for dense
                                      input, good for the next batch too */
    size_t offsets_capacity, positions_capacity, ids_capacity, coefficients_capacity, scales_capacity,
        lengths_capacity, rows_capacity;
} rk_feature_bags;

/* In three steps, so that the longest can be cut into tasks: begin takes the offsets; scan looks for strays
 * among the ids [first, last); prepare, once all ids are scanned, does the rest. Errors (RK_BAD_DATA,
 * RK_INVALID_ARGUMENT) name the feature, the sample and the id. */
rk_status rk_feature_bags_set_ids(rk_feature_bags *use, const rk_feature_config *feature, int64_t n,
                                  const rk_ids *ids);
void rk_feature_bags_scan_ids(rk_feature_bags *use, const rk_table *table, int64_t first, int64_t last);
rk_status rk_feature_bags_prepare(rk_feature_bags *use, const rk_feature_config *feature,
                                  const rk_table *table, const rk_ids *ids);
/* Of scanned ids: the error of the first bad one, with its sample, or whether validation drops any. */
rk_status rk_feature_bags_check_ids(const rk_feature_bags *use, const rk_feature_config *feature,
                                    const rk_table *table, const rk_ids *ids, bool *drops);
/* One id: an error (RK_BAD_DATA), or whether validation drops it. */
rk_status rk_feature_bags_check_id(const rk_feature_config *feature, const rk_table *table, int64_t sample,
                                   int64_t id, const float *weight, bool *drops);
void rk_feature_bags_release(rk_feature_bags *use);

#endif
