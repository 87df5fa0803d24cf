/* Workers that answer calls: those that wait for the same version of a model are predicted together, and each
 * gets what it would have got alone. */
#ifndef RK_SERVER_BATCHER_H
#define RK_SERVER_BATCHER_H

#include "server/log/request_log.h"
#include "server/request/inference_call.h"

typedef struct rk_batcher rk_batcher;

typedef struct rk_batcher_options {
    int n_workers;
    int64_t max_batch_size, max_enqueued;
    double batch_timeout; /* seconds */
    rk_call_limits limits;
    rk_request_log *log; /* of what is answered; NULL: none */
} rk_batcher_options;

typedef struct rk_batcher_counts {
    uint64_t n_batches, n_pending;
} rk_batcher_counts;

rk_status rk_batcher_create(const rk_batcher_options *options, rk_batcher **out);
/* Calls under way end, those that still wait are answered with 503, and no more are taken. */
void rk_batcher_stop(rk_batcher *batcher);
void rk_batcher_free(rk_batcher *batcher);

/* The call belongs to the batcher until call->done. RK_BUSY: as many wait already as may; RK_INTERRUPTED: it
 * was stopped. */
rk_status rk_batcher_submit(rk_batcher *batcher, rk_call *call);
rk_batcher_counts rk_batcher_get_counts(rk_batcher *batcher);

#endif
