/* A sharded collection's tables on GPUs, one rank a GPU. A trainer's ids are made unique and sent by the
 * host, beside the step before; rows and gradients are on the GPUs and go from one to the other
 * (comm/nccl/device_comm.h). An owner's parts of tables are rk_device_tables over its store; a trainer's
 * batch is looked up in rows that are lent to rk_device_tables without rows of its own.
 *
 * Two batches may be dedup'ed and not done. All ranks make the same calls in the same order. All ranks train
 * and hold rows, and no lookup is stale. */
#ifndef RK_EMBEDDING_CUDA_SHARDED_DEVICE_SHARDED_STORE_H
#define RK_EMBEDDING_CUDA_SHARDED_DEVICE_SHARDED_STORE_H

#include "comm/nccl/device_comm.h"
#include "embedding/cuda/device_store.h"
#include "embedding/sharded/sharded_store.h"

/* A store over the GPUs of ranks. The collection's host memory has a copy of the rows, which is up to date
 * after flush; meanwhile only what is not a row may be read. It and the communicator must outlive the store.
 * max_batch: samples of this trainer's part. dedup waits for the ids of the others; fetch and apply always
 * take the same stream, that of the communicator's calls; before apply, sum adds the
 * gradients of a batch up, and owners take a step where *stop is 0. Errors: as
 * rk_device_tables_create. */
rk_status rk_device_store_sharded(rk_sharded *sharded, rk_device *device, rk_device_comm *comm,
                                  const rk_device_tables_options *options, rk_device_store **out);

#endif
