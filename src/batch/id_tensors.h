/* Ids that callers have as tensors, of 32 or 64 bits, as the library's. */
#ifndef RK_BATCH_ID_TENSORS_H
#define RK_BATCH_ID_TENSORS_H

#include <stddef.h>

#include <reckon/batch.h>

/* What is widened, or copied together, and the features' ids. Zero-initialize. */
typedef struct rk_tensor_ids {
    rk_ids *ids;        /* [n_features] */
    int64_t **widened;  /* [2 * n_features + 2] ids, offsets of each; of all keys together */
    size_t *capacities; /* likewise */
} rk_tensor_ids;
void rk_tensor_ids_release(rk_tensor_ids *memory, int32_t n_features);
/* *out [n_features] until the next call: the tensors' own values where they are of 64 bits. n_features is the
 * same in each call. Errors name the feature: RK_INVALID_ARGUMENT, RK_NO_MEMORY. */
rk_status rk_tensor_ids_from_tensors(rk_tensor_ids *memory, int32_t n_features, int64_t n,
                                     const rk_id_tensors *features, const rk_ids **out);
/* The same of keys that stand one behind the other in the same tensors; feature f is key keys[f]. */
rk_status rk_tensor_ids_from_keyed(rk_tensor_ids *memory, int32_t n_features, int64_t n, int32_t n_keys,
                                   const rk_id_tensors *tensors, const int32_t *keys, const rk_ids **out);

#endif
