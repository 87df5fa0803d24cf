/* Inside a session. */
#ifndef RK_SERVE_SESSION_INTERNAL_H
#define RK_SERVE_SESSION_INTERNAL_H

#include <stdatomic.h>

#include <reckon/session.h>

#include "data/transform/transforms_apply.h"
#include "model/inference.h"
#include "serve/predictor_internal.h"

typedef struct rk_found_item {
    int64_t item;
    float score;
} rk_found_item;

struct rk_session {
    const rk_predictor *predictor;
    rk_pool *pool; /* NULL: the calling thread alone */
    rk_transform_workspace *workspace;
    rk_inference *inference;
    float *predictions; /* of the run, until all are known to be good */
    size_t capacity;
    bool has_predictions; /* of n_predicted rows: the last run went well */
    int64_t n_predicted;
    /* of retrieval */
    float *users;         /* vectors [n, dim] */
    float *scores;        /* [RK_USERS_AT_ONCE, n_items] */
    rk_found_item *found; /* [n, k] */
    unsigned char *product_memory;
    size_t users_capacity, scores_capacity, found_capacity, product_capacity;
    atomic_bool cancel;
};

static inline const rk_transforms *rk_session_transforms(const rk_session *session) {
    return session->predictor->config->transforms;
}

/* Which threads loops of the caller ran on before a call. */
typedef struct rk_threads_before {
    bool alone;
    rk_pool *pool;
} rk_threads_before;
/* Around each call; end returns its status. */
rk_threads_before rk_session_begin(rk_session *session);
rk_status rk_session_end(rk_threads_before before, rk_status status);

#endif
