/* A batch: columns over n samples. A plain view; the arrays belong to whoever filled them in.
 * Stable (docs/api.md). */
#ifndef RECKON_BATCH_H
#define RECKON_BATCH_H

#include <stdint.h>

#include <reckon/status.h>
#include <reckon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One feature's ids, by sample (CSR). Dense input of k ids a sample: offsets NULL and ids_per_sample = k. */
typedef struct rk_ids {
    const int64_t *offsets; /* [n+1] into ids, or NULL */
    int64_t ids_per_sample; /* used where offsets is NULL */
    const int64_t *ids;     /* [offsets[n]] */
    const float *weights;   /* [offsets[n]] or NULL */
} rk_ids;

/* The same as tensors on the CPU, contiguous (rk_lookup_ids). */
typedef struct rk_id_tensors {
    const rk_tensor *ids; /* i32 or i64: [offsets[n]] or more; without offsets [n] or [n, ids_per_sample] */
    const rk_tensor *offsets; /* i32 or i64: [n+1], or NULL */
    const rk_tensor *weights; /* f32, as many as ids, or NULL */
} rk_id_tensors;

typedef struct rk_batch {
    int64_t n; /* samples */
    int32_t n_dense;
    int32_t n_features;
    int32_t n_tasks;
    const float *dense;     /* [n, n_dense] */
    const rk_ids *features; /* [n_features] */
    const float
        *labels; /* [n, n_tasks], or NULL where unlabelled; NaN: absent, of a label that is `optional` */
    const float *sample_weights; /* [n] or NULL */
    const int64_t *groups;       /* [n] or NULL: the key that GAUC groups by */
    int64_t first_row;           /* number of the batch's first sample in its epoch, for messages */
} rk_batch;

#ifdef __cplusplus
}
#endif
#endif
