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
    int64_t *kept;        /* of a search that is narrowed: items, and */
    float *kept_scores;   /* their scores */
    int64_t *ids;         /* of a search by an index file: found [n, k], */
    int64_t *bags;        /* and not wanted */
    unsigned char *product_memory;
    size_t users_capacity, scores_capacity, found_capacity, product_capacity, kept_capacity,
        kept_scores_capacity, ids_capacity, bags_capacity;
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
rk_threads_before rk_session_begin_call(rk_session *session);
rk_status rk_session_end_call(rk_threads_before before, rk_status status);

/* Between them: vectors of the users in columns, to session->users [*n, dim]. */
rk_status rk_session_compute_user_vectors(rk_session *session, const struct ArrowSchema *schema,
                                          const struct ArrowArray *columns, int64_t *n);

/* A look at all items. */
typedef struct rk_exact_search {
    const rk_item_index *index;
    const rk_ids *excluded; /* a bag for each user; NULL: none */
    const int64_t *only;    /* [n_only]: no others are wanted; NULL: all are */
    int64_t n_only;
    int32_t k;
} rk_exact_search;
/* That the session's model can be asked so. */
rk_status rk_session_check_search(const rk_session *session, int32_t dim, int64_t n_items, int32_t k);
/* For the users who were read, n of them: session->found [n, k]. */
rk_status rk_session_search_exact(rk_session *session, const rk_exact_search *search, int64_t n);
/* What was found; scores may be NULL. */
void rk_session_copy_results(const rk_session *session, int64_t n, int64_t *items, float *scores);

#endif
