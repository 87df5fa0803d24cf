/* A collection whose rows are on several ranks, behind the public calls. */
#ifndef RK_EMBEDDING_COLLECTION_SHARDED_EMBEDDINGS_H
#define RK_EMBEDDING_COLLECTION_SHARDED_EMBEDDINGS_H

#include "embedding/sharded/sharded_internal.h"

/* dynamic [n_tables], max_capacity 0 of static ones. taken: whether this rank's config could be taken; if
 * not, all ranks fail with its error. */
rk_status rk_sharded_embeddings_create(const rk_embeddings_config *config, const rk_dynamic_config *dynamic,
                                       rk_status taken, rk_embeddings **out);

extern const rk_embeddings_ops rk_over_ranks;

static inline rk_sharded *rk_sharded_embeddings_store(const rk_embeddings *embeddings) {
    return embeddings->ranks;
}

/* Where this rank cannot go on and the others wait for it: the end of the communicator. */
static inline rk_status rk_sharded_embeddings_abort(const rk_sharded *s, rk_status status) {
    return status == RK_OK ? RK_OK : rk_comm_record_failure(s->comm, status);
}

rk_status rk_sharded_embeddings_read_rows(const rk_embeddings *embeddings, const rk_row_range *range,
                                          float *out);
rk_status rk_sharded_embeddings_write_rows(rk_embeddings *embeddings, const rk_row_range *range,
                                           const float *rows);
rk_status rk_sharded_embeddings_read_step(const rk_embeddings *embeddings, int32_t table, int64_t *out);
void rk_sharded_embeddings_write_step(rk_embeddings *embeddings, int32_t table, int64_t step);

#endif
