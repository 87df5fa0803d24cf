/* What a server is told: serve.yaml, or one trained run and defaults. Keys: docs/serving.md. */
#ifndef RK_SERVER_SERVER_CONFIG_H
#define RK_SERVER_SERVER_CONFIG_H

#include <stdint.h>

#include "base/yaml/yaml.h"

typedef enum rk_version_policy {
    RK_VERSIONS_LATEST,
    RK_VERSIONS_ALL,
    RK_VERSIONS_SPECIFIC
} rk_version_policy;

typedef enum rk_serving_device { RK_SERVE_ON_CPU, RK_SERVE_ON_CUDA } rk_serving_device;

typedef struct rk_version_label {
    char *name;
    int64_t version;
} rk_version_label;

/* Of an export whose rows are in Redis. */
typedef struct rk_rows_section {
    int in; /* rk_rows_in */
    int64_t cache_bytes;
    double timeout;
} rk_rows_section;

typedef struct rk_model_entry {
    int line;
    char *name, *path; /* path: of a run, or a folder of versions */
    int version_policy;
    int64_t num_versions, *versions, n_versions;
    rk_version_label *version_labels;
    int64_t n_version_labels;
    /* of a two_tower, as rk_recommend_options: */
    char *items, *without_items, *index; /* "{version}" in index: the version's number */
    bool with_known;
    char *warmup; /* requests, a line each */
    int device;   /* rk_serving_device */
    rk_rows_section rows;
} rk_model_entry;

typedef struct rk_batching_section {
    int64_t max_batch_size, batch_timeout_micros, max_enqueued_requests, num_batch_threads;
} rk_batching_section;

typedef struct rk_limits_section {
    int64_t max_request_bytes, max_rows, max_depth, max_connections, max_connections_per_ip;
    double header_timeout, request_timeout, idle_timeout;
} rk_limits_section;

typedef struct rk_tls_section {
    char *certificate, *key;
} rk_tls_section;

typedef struct rk_auth_section {
    char *bearer_file;
} rk_auth_section;

typedef struct rk_admin_section {
    char *socket;
} rk_admin_section;

typedef struct rk_request_log_section {
    char *path;
    double sampling_rate;
    int64_t max_bytes, max_files;
} rk_request_log_section;

typedef struct rk_server_config {
    char *listen;
    rk_model_entry *models;
    int64_t n_models;
    rk_batching_section batching;
    rk_limits_section limits;
    rk_tls_section tls;
    rk_auth_section auth;
    rk_admin_section admin;
    rk_request_log_section request_log;
    double reload_interval, drain_delay, drain_timeout;
    rk_yaml yaml;
} rk_server_config;

/* Whether the name ends in .yaml or .yml; else it is a run's. */
bool rk_is_server_config_file(const char *path);

/* path: a file, in which paths are relative to its folder; or a run, which requests call by `name`, or where
 * it is NULL by its folder's. */
rk_status rk_server_config_load(const char *path, const char *name, rk_server_config *out);
void rk_server_config_release(rk_server_config *config);

/* [A-Za-z0-9_.-]+, and no "." or "..". */
bool rk_is_model_name(const char *name, size_t n_bytes);

#endif
