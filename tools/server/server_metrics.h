/* What a server counts, for Prometheus: base units, no ids in labels
 * (https://prometheus.io/docs/practices/naming). Any number of threads. */
#ifndef RK_SERVER_SERVER_METRICS_H
#define RK_SERVER_SERVER_METRICS_H

#include <stdatomic.h>

#include "base/buffer.h"
#include "server/batcher.h"

/* RK_CLIENT_CLOSED: of requests whose client went away before the answer (nginx's word for it). */
enum { RK_DURATION_BUCKETS = 14, RK_HTTP_CODES = 600, RK_CLIENT_CLOSED = 499 };

typedef struct rk_model_compute_metrics {
    atomic_uint_fast64_t requests[RK_HTTP_CODES]; /* by code */
    atomic_uint_fast64_t durations[RK_DURATION_BUCKETS + 1], duration_us, rows;
} rk_model_compute_metrics;

static inline unsigned long long rk_read_counter(const atomic_uint_fast64_t *counter) {
    return (unsigned long long)atomic_load(counter);
}

void rk_server_metrics_count_request(rk_model_compute_metrics *metrics, int code, double seconds,
                                     int64_t n_rows);
/* The seconds that durations[bucket] goes up to. */
double rk_server_metrics_bucket_limit(int bucket);
/* metrics [n_models + 1]: behind those of the models, the counts of requests that reached none. */
void rk_server_metrics_write(const rk_model_compute_metrics *metrics, rk_served_model *models,
                             int64_t n_models, rk_batcher_counts counts, rk_buffer *out);
void rk_server_metrics_write_log(rk_request_log_counts counts, rk_buffer *out);

#endif
