/* What a server counts, for Prometheus: base units, no ids in labels
 * (https://prometheus.io/docs/practices/naming). Any number of threads. */
#ifndef RK_SERVER_SERVER_METRICS_H
#define RK_SERVER_SERVER_METRICS_H

#include <stdatomic.h>

#include "base/buffer.h"
#include "server/batcher.h"

enum { RK_DURATION_BUCKETS = 14, RK_COUNTED_CODES = 12 };

typedef struct rk_model_metrics {
    atomic_uint_fast64_t requests[RK_COUNTED_CODES]; /* by code */
    atomic_uint_fast64_t durations[RK_DURATION_BUCKETS + 1], duration_us, rows;
} rk_model_metrics;

static inline unsigned long long rk_counter(const atomic_uint_fast64_t *counter) {
    return (unsigned long long)atomic_load(counter);
}

void rk_metrics_count(rk_model_metrics *metrics, int code, double seconds, int64_t n_rows);
/* What the counters are of: the status of requests[code]; the seconds that durations[bucket] goes up to. */
int rk_metrics_code(int code);
double rk_metrics_duration(int bucket);
void rk_metrics_write(const rk_model_metrics *metrics, rk_served_model *models, int64_t n_models,
                      rk_batcher_counts counts, rk_buffer *out);

#endif
