#include "server/server_metrics.h"

#include <math.h>

static const double limits[RK_DURATION_BUCKETS] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                                   0.025,  0.05,    0.1,    0.25,  0.5,    1,     10};

void rk_server_metrics_count_request(rk_model_compute_metrics *m, int code, double seconds, int64_t n_rows) {
    int b = 0;
    while (b < RK_DURATION_BUCKETS && seconds > limits[b]) b++;
    atomic_fetch_add(&m->requests[code], 1);
    atomic_fetch_add(&m->durations[b], 1);
    atomic_fetch_add(&m->duration_us, (uint64_t)(seconds * 1e6));
    if (code == 200) atomic_fetch_add(&m->rows, (uint64_t)n_rows);
}

double rk_server_metrics_bucket_limit(int bucket) {
    return bucket < RK_DURATION_BUCKETS ? limits[bucket] : INFINITY;
}

static void write_metric_head(rk_buffer *out, const char *name, const char *type, const char *help) {
    rk_buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_duration_histogram(const rk_model_compute_metrics *m, const char *model, rk_buffer *out) {
    unsigned long long n = 0;
    for (int b = 0; b <= RK_DURATION_BUCKETS; b++) {
        char limit[32];
        n += rk_read_counter(&m->durations[b]);
        rk_snprintf(limit, sizeof limit, b < RK_DURATION_BUCKETS ? "%g" : "+Inf",
                    limits[b % RK_DURATION_BUCKETS]);
        rk_buffer_printf(out, "reckon_request_duration_seconds_bucket{model=\"%s\",le=\"%s\"} %llu\n", model,
                         limit, n);
    }
    rk_buffer_printf(out, "reckon_request_duration_seconds_sum{model=\"%s\"} %.6f\n", model,
                     (double)rk_read_counter(&m->duration_us) / 1e6);
    rk_buffer_printf(out, "reckon_request_duration_seconds_count{model=\"%s\"} %llu\n", model, n);
}

static void write_version_metrics(rk_served_model *model, rk_buffer *out) {
    pthread_mutex_lock(&model->mutex);
    for (const rk_served_version *v = model->versions; v; v = v->next)
        rk_buffer_printf(out, "reckon_model_loaded_timestamp_seconds{model=\"%s\",version=\"%lld\"} %.3f\n",
                         model->entry->name, (long long)v->number, v->loaded_at);
    pthread_mutex_unlock(&model->mutex);
}

/* A label's value: any text, with what ends it escaped. */
static void write_escaped_label(const char *text, rk_buffer *out) {
    for (const char *at = text; *at; at++)
        if (*at == '\n')
            rk_buffer_append_text(out, "\\n");
        else
            rk_buffer_printf(out, *at == '"' || *at == '\\' ? "\\%c" : "%c", *at);
}

static void write_unknown_counts(rk_served_model *model, rk_buffer *out) {
    pthread_mutex_lock(&model->mutex);
    for (const rk_served_version *v = model->versions; v; v = v->next)
        for (int32_t f = 0; f < v->n_features; f++) {
            if (rk_read_counter(&v->unknown[f]) == 0) continue;
            rk_buffer_printf(out, "reckon_unknown_ids_total{model=\"%s\",version=\"%lld\",feature=\"",
                             model->entry->name, (long long)v->number);
            write_escaped_label(rk_session_feature_name(v->sessions[0], f), out);
            rk_buffer_printf(out, "\"} %llu\n", rk_read_counter(&v->unknown[f]));
        }
    pthread_mutex_unlock(&model->mutex);
}

static void write_row_source_counts(rk_served_model *model, bool available, rk_buffer *out) {
    pthread_mutex_lock(&model->mutex);
    for (const rk_served_version *v = model->versions; v; v = v->next) {
        int64_t n_cached, n_fetched;
        const char *name = model->entry->name;
        long long number = v->number;
        if (!rk_predictor_count_rows(v->predictor, &n_cached, &n_fetched)) continue;
        if (available)
            rk_buffer_printf(out, "reckon_embedding_rows_available{model=\"%s\",version=\"%lld\"} %d\n", name,
                             number, rk_predictor_rows_available(v->predictor));
        else
            rk_buffer_printf(
                out,
                "reckon_embedding_rows_total{model=\"%s\",version=\"%lld\",source=\"cache\"} %lld\n"
                "reckon_embedding_rows_total{model=\"%s\",version=\"%lld\",source=\"redis\"} %lld\n",
                name, number, (long long)n_cached, name, number, (long long)n_fetched);
    }
    pthread_mutex_unlock(&model->mutex);
}

void rk_server_metrics_write(const rk_model_compute_metrics *m, rk_served_model *models, int64_t n_models,
                             rk_batcher_counts counts, rk_buffer *out) {
    write_metric_head(
        out, "reckon_requests_total", "counter",
        "Requests for predictions, and what else was refused, by HTTP status; 499: the client had gone.");
    for (int64_t i = 0; i <= n_models; i++)
        for (int code = 0; code < RK_HTTP_CODES; code++)
            if (rk_read_counter(&m[i].requests[code]))
                rk_buffer_printf(out, "reckon_requests_total{model=\"%s\",code=\"%d\"} %llu\n",
                                 i < n_models ? models[i].entry->name : "", code,
                                 rk_read_counter(&m[i].requests[code]));
    write_metric_head(out, "reckon_request_duration_seconds", "histogram",
                      "From a request's headers to its answer.");
    for (int64_t i = 0; i < n_models; i++) write_duration_histogram(&m[i], models[i].entry->name, out);
    write_metric_head(out, "reckon_rows_total", "counter", "Rows that were predicted.");
    for (int64_t i = 0; i < n_models; i++)
        rk_buffer_printf(out, "reckon_rows_total{model=\"%s\"} %llu\n", models[i].entry->name,
                         rk_read_counter(&m[i].rows));
    write_metric_head(out, "reckon_unknown_ids_total", "counter",
                      "Values that a version's vocabularies do not have.");
    for (int64_t i = 0; i < n_models; i++) write_unknown_counts(&models[i], out);
    write_metric_head(out, "reckon_embedding_rows_total", "counter",
                      "Rows of tables in Redis that requests used, kept from earlier ones or fetched.");
    for (int64_t i = 0; i < n_models; i++) write_row_source_counts(&models[i], false, out);
    write_metric_head(out, "reckon_embedding_rows_available", "gauge",
                      "Whether a version's rows in Redis can be read.");
    for (int64_t i = 0; i < n_models; i++) write_row_source_counts(&models[i], true, out);
    write_metric_head(out, "reckon_executions_total", "counter",
                      "Batches that were predicted, each of one request or several.");
    rk_buffer_printf(out, "reckon_executions_total %llu\n", (unsigned long long)counts.n_batches);
    write_metric_head(out, "reckon_pending_requests", "gauge", "Requests that wait or are being answered.");
    rk_buffer_printf(out, "reckon_pending_requests %llu\n", (unsigned long long)counts.n_pending);
    write_metric_head(out, "reckon_model_loaded_timestamp_seconds", "gauge", "When a version was loaded.");
    for (int64_t i = 0; i < n_models; i++) write_version_metrics(&models[i], out);
}

void rk_server_metrics_write_log(rk_request_log_counts counts, rk_buffer *out) {
    write_metric_head(out, "reckon_request_log_records_total", "counter",
                      "Rows that were written to the request log.");
    rk_buffer_printf(out, "reckon_request_log_records_total %llu\n", (unsigned long long)counts.n_written);
    write_metric_head(out, "reckon_request_log_dropped_total", "counter",
                      "Rows that should be in the request log and are not: the disk was full, or too slow.");
    rk_buffer_printf(out, "reckon_request_log_dropped_total %llu\n", (unsigned long long)counts.n_dropped);
}
