/* A store (embedding/store.h) of one process: a collection in its memory. */
#ifndef RK_EMBEDDING_LOCAL_LOCAL_STORE_H
#define RK_EMBEDDING_LOCAL_LOCAL_STORE_H

#include "embedding/store.h"

/* Takes the collection, whatever happens. n_unseen 1: rows are updated beside the next batch's dense part,
 * which does not see them; lookup_early then looks up all features. 0: an update is done when end returns.
 * More: nothing is trained; it has so many before-images of a run over ranks. */
rk_status rk_local_store_create(rk_embeddings *embeddings, int64_t n_unseen, rk_store **out);
/* Of the same rows, which it only reads, and which outlive it: begin without training, wait, lookup, end,
 * flush and free are all that it does. Any number of threads at once, each with one of its own, while no row
 * changes. */
rk_status rk_eval_store_create(const rk_embeddings *embeddings, rk_store **out);

#endif
