/* A batch's ids on their way through a collection whose rows are all here, in memory of their own: what an
 * rk_lookup has of it, and evaluation in pieces for the layers above. */
#ifndef RK_EMBEDDING_LOCAL_LOCAL_LOOKUP_H
#define RK_EMBEDDING_LOCAL_LOCAL_LOOKUP_H

#include <reckon/embeddings.h>

/* The `batch` of rk_embeddings_ops. */
rk_status rk_local_lookup_create(const rk_embeddings *embeddings, void **out);
void rk_local_lookup_free(const rk_embeddings *embeddings, void *lookup);

/* An eval lookup in two steps: all ids are checked and made ready; then samples first .. last-1 of one
 * feature are looked up (`to` is where sample `first` goes). The collection is only read: any number of
 * threads may do this at once, each with a lookup of its own, and several may gather from one lookup. The ids
 * stay as they are until the last gather. Errors: RK_BAD_DATA (an id), RK_INVALID_ARGUMENT, RK_NO_MEMORY;
 * there is nothing to gather then. */
rk_status rk_local_lookup_set_ids(const rk_embeddings *embeddings, void *lookup, int64_t n,
                                  const rk_ids *ids);
void rk_local_lookup_read_feature(const rk_embeddings *embeddings, const void *lookup, int32_t feature,
                                  int64_t first, int64_t last, const rk_activation *to);

/* As rk_embeddings_ops has them. */
rk_status rk_local_lookup_eval(const rk_embeddings *embeddings, void *lookup, int64_t n, const rk_ids *ids,
                               const rk_activation *activations);
rk_status rk_local_lookup_look_up(rk_embeddings *embeddings, void *lookup, int64_t n, const rk_ids *ids,
                                  const rk_activation *activations);
rk_status rk_local_lookup_backward(rk_embeddings *embeddings, void *lookup, const rk_activation *gradients);
rk_status rk_local_lookup_apply_gradients(rk_embeddings *embeddings, void *lookup,
                                          const rk_activation *gradients);

#endif
