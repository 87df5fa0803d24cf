/* The best items of users, asked by :retrieve of a two_tower. */
#ifndef RK_SERVER_RETRIEVE_V1_H
#define RK_SERVER_RETRIEVE_V1_H

#include "server/request/inference_call.h"

/* Items of a catalog, ascending. */
typedef struct rk_item_list {
    int64_t *items; /* [n]; NULL: there was never one */
    int64_t n;
    size_t capacity;
} rk_item_list;

/* A worker's memory, which serves again. Zero-initialize. */
typedef struct rk_retrieval {
    int64_t k;                    /* of the call */
    int64_t *items;               /* [n_rows, k], -1 behind the last */
    float *scores;                /* [n_rows, k] */
    rk_item_list exclude, filter; /* the call's */
    int64_t *begins, *excluded;   /* a bag for each of some users */
    size_t items_capacity, scores_capacity, begins_capacity, excluded_capacity;
} rk_retrieval;

/* What a call that was read asks for. Errors: RK_BAD_DATA; RK_INVALID_ARGUMENT, where users times items are
 * more than the limit of rows; as rk_item_catalog_retrieve. */
rk_status rk_run_retrieval(rk_call *call, const rk_call_limits *limits, rk_request_rows *rows,
                           rk_session *session, rk_retrieval *memory);
/* {"result": [{"items": [...], "scores": [...]}]} */
void rk_write_retrieve_reply(rk_call *call, const rk_retrieval *found);
void rk_retrieval_release(rk_retrieval *memory);

#endif
