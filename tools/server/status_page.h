/* The page at "/": what is served and how fast, and forms that try it. Whole in one document. */
#ifndef RK_SERVER_STATUS_PAGE_H
#define RK_SERVER_STATUS_PAGE_H

#include "server/server_metrics.h"

typedef struct rk_page {
    rk_served_model *models; /* [n_models] */
    const rk_model_compute_metrics *metrics;
    int64_t n_models;
    rk_batcher_counts counts;
    bool ready;
    double seconds;    /* since the server began */
    const char *nonce; /* of the Content-Security-Policy */
} rk_page;

void rk_write_status_page(const rk_page *page, rk_buffer *out);

#endif
