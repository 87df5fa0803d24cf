/* rk_lookup: a batch's ids on their way through a collection, in memory of their own. Evaluation in pieces,
 * for the layers above. */
#ifndef RK_EMBEDDING_LOCAL_LOOKUP_OBJECT_H
#define RK_EMBEDDING_LOCAL_LOOKUP_OBJECT_H

#include <reckon/embeddings.h>

/* rk_embeddings_peek in two steps: all ids are checked and made ready; then samples first .. last-1
 * of one feature are looked up (`to` is where sample `first` goes). The collection is only read:
 * any number of threads may do this at once, each with a lookup of its own, and several may gather from one
 * lookup. The ids stay as they are until the last gather. Errors: RK_BAD_DATA (an id),
 * RK_INVALID_ARGUMENT, RK_NO_MEMORY; there is nothing to gather then. */
rk_status rk_lookup_take_ids(rk_lookup *lookup, int64_t n, const rk_ids *ids);
void rk_lookup_gather(const rk_lookup *lookup, int32_t feature, int64_t first, int64_t last,
                      const rk_activation *to);

#endif
