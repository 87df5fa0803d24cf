/* A sharded collection's tables on GPUs, one rank a GPU. A trainer's ids are made unique and sent by the
 * host, beside the step before; rows and gradients are on the GPUs and go from one to the other
 * (comm/nccl/device_comm.h). An owner's parts of tables are rk_device_tables over its store; a trainer's
 * batch is looked up in rows that are lent to rk_device_tables over the front.
 *
 * A batch: route; check; fetch; look up in, measure and (in training) sum the front; apply; done. Two batches
 * may be routed and not done. All ranks make the same calls in the same order. All ranks train and hold rows,
 * and no lookup is stale. */
#ifndef RK_EMBEDDING_CUDA_SHARDED_DEVICE_SHARDED_H
#define RK_EMBEDDING_CUDA_SHARDED_DEVICE_SHARDED_H

#include "comm/nccl/device_comm.h"
#include "embedding/cuda/device_store.h"
#include "embedding/sharded/sharded.h"

typedef struct rk_device_sharded rk_device_sharded;

/* The collection's rows in the host's memory stay the tables' home; all that it is asked for meanwhile is
 * what is no row. Both must outlive it. max_batch: samples of this trainer's share. Errors: as
 * rk_device_tables_create. */
rk_status rk_device_sharded_create(rk_sharded *sharded, rk_device *device, rk_device_comm *comm,
                                   const rk_device_tables_options *options, rk_device_sharded **out);
void rk_device_sharded_free(rk_device_sharded *ds);
/* For lookups, measures and sums of the batch at hand. */
rk_device_tables *rk_device_sharded_front(rk_device_sharded *ds);

/* As rk_device_tables_dedup, of this trainer's share; waits for the ids of the others. */
rk_status rk_device_sharded_dedup(rk_device_sharded *ds, rk_stream *upload, rk_stream *stream, int64_t n,
                                  const rk_ids *ids, bool training);
rk_status rk_device_sharded_check(rk_device_sharded *ds);
/* The oldest routed batch becomes the one at hand, and its rows come to the front. stream: the same one
 * always, that of the communicator's calls. */
rk_status rk_device_sharded_fetch(rk_device_sharded *ds, rk_stream *stream);
/* The front's sums of gradients go to the owners, who take a step where *stop is 0. gradients [n_features]:
 * of the lookups. */
rk_status rk_device_sharded_apply(rk_device_sharded *ds, rk_stream *stream, const rk_activation *gradients,
                                  const uint32_t *stop);
void rk_device_sharded_done(rk_device_sharded *ds, bool applied);

rk_status rk_device_sharded_flush(rk_device_sharded *ds);
rk_status rk_device_sharded_reload(rk_device_sharded *ds);

/* A store over the GPUs of ranks. Takes the collection, whatever happens. */
rk_status rk_device_store_sharded(rk_device_sharded *ds, rk_device_store **out);

#endif
