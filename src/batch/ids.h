/* Ids by sample (CSR, rk_ids): where a sample's begin, views of some samples, and lists that grow. */
#ifndef RK_BATCH_IDS_H
#define RK_BATCH_IDS_H

#include <stdbool.h>
#include <stddef.h>

#include <reckon/batch.h>

#include "base/error.h"

/* Where the ids of a sample begin; of sample n: where all end. */
static inline int64_t rk_ids_begin_of_sample(const rk_ids *ids, int64_t sample) {
    return ids->offsets ? ids->offsets[sample] : sample * ids->ids_per_sample;
}

/* View of samples first .. first+n-1. Offsets that would not begin at 0 are written to offsets [n+1], which
 * is unused where first is 0 or the ids have none. */
rk_ids rk_ids_slice(const rk_ids *ids, int64_t first, int64_t n, int64_t *offsets);

/* View of the same samples of a batch, whose features are left to the caller: they are NULL. */
rk_batch rk_batch_slice(const rk_batch *batch, int64_t first, int64_t n);

/* Ids of one feature in memory of their own, which grows and is used again. While all samples have the same
 * number of ids, that number stands for the offsets. Zero-initialize. */
typedef struct rk_id_list {
    int64_t n;              /* samples */
    int64_t ids_per_sample; /* -1: samples differ, see offsets */
    int64_t *offsets;       /* [n+1] where ids_per_sample is -1 */
    int64_t *ids;           /* [n_ids] */
    float *weights;         /* [n_ids] of weighted features, else NULL */
    size_t n_ids, offsets_capacity, ids_capacity, weights_capacity;
} rk_id_list;

void rk_id_list_release(rk_id_list *list);
/* View of all samples, until the list changes. */
rk_ids rk_id_list_view(const rk_id_list *list);
/* Forget everything after the first n samples, and ids of a sample that has not ended. */
void rk_id_list_truncate(rk_id_list *list, int64_t n);

/* Room for n more ids; they are written from ids[n_ids] on, and then samples end. */
rk_status rk_id_list_reserve(rk_id_list *list, size_t n, bool weighted);
/* The next n samples have k ids each, or offsets[i+1] - offsets[i] by offsets [n+1] that begin anywhere. */
rk_status rk_id_list_end_uniform_samples(rk_id_list *list, int64_t n, int64_t k);
rk_status rk_id_list_end_ragged_samples(rk_id_list *list, int64_t n, const int64_t *offsets);
/* The next sample has the ids that were written since the one before it ended. */
rk_status rk_id_list_end_sample(rk_id_list *list);

/* Copies of samples first .. first+n-1, or order[0 .. n), behind those of the list. */
rk_status rk_id_list_append(rk_id_list *list, const rk_ids *from, int64_t first, int64_t n);
rk_status rk_id_list_gather(rk_id_list *list, const rk_ids *from, const uint32_t *order, int64_t n);
/* The last sample n more times. */
rk_status rk_id_list_repeat(rk_id_list *list, int64_t n);
/* rk_ids_slice with the list's memory for offsets; what it held is forgotten where it is needed. */
rk_status rk_id_list_slice(rk_id_list *list, const rk_ids *from, int64_t first, int64_t n, rk_ids *out);

#endif
