/* A version of a model in use: loaded and warmed before requests reach it, and freed when the last request
 * that began on it has ended. */
#ifndef RK_SERVER_SERVED_VERSION_H
#define RK_SERVER_SERVED_VERSION_H

#include <stdatomic.h>

#include <reckon/experimental/recommend.h>
#include <reckon/predictor.h>
#include <reckon/session.h>

#include "server/request/request_rows.h"
#include "server/server_config.h"

typedef struct rk_served_task {
    const char *name;
    bool binary; /* its predictions are probabilities */
} rk_served_task;

/* Never changed after it was loaded, but for its workers' own parts. */
typedef struct rk_served_version {
    const rk_model_entry *entry;
    int64_t number;
    char *path;       /* the checkpoint */
    double loaded_at; /* seconds since 1970 */
    rk_predictor *predictor;
    rk_item_catalog *catalog; /* of a two_tower, which retrieves and does not predict; else NULL */
    rk_served_task *tasks;    /* [n_tasks] */
    int32_t n_tasks;
    int n_workers;
    rk_session **sessions;      /* [n_workers] */
    rk_request_rows *rows;      /* [n_workers] */
    struct ArrowSchema columns; /* what it reads */
    int32_t n_features;
    atomic_uint_fast64_t *unknown; /* [n_features] values that the vocabulary has not, counted */
    int64_t n_inputs;              /* of these, those that a request must have */
    atomic_int n_users;            /* requests, and the list */
    bool rows_lost;                /* when they were last checked, which one thread does */
    struct rk_served_version *next;
} rk_served_version;

/* What a version is loaded for. */
typedef struct rk_version_use {
    const rk_model_entry *entry;
    const rk_limits_section *limits; /* of requests */
    int n_workers;
} rk_version_use;

/* Of a checkpoint, which has answered its model's warm-up requests when it returns. The caller is its first
 * user. */
rk_status rk_served_version_load(const rk_version_use *use, int64_t number, const char *path,
                                 rk_served_version **out);
void rk_served_version_ref(rk_served_version *version); /* once more, by who has it already */
void rk_served_version_unref(rk_served_version *version);
/* As release, by who has taken it out of use: waits up to a second for the requests that have it, so that
 * none of them spends its time on freeing it. */
void rk_served_version_retire(rk_served_version *version);
/* Of rows in Redis: looks whether they can be read, and logs a change. One thread at a time. */
void rk_served_version_check_rows(rk_served_version *version);
/* Whether a request must have the column, by its number: all inputs but the item, where items are found. */
bool rk_served_version_requires_column(const rk_served_version *version, int64_t column);
/* After a worker's session has predicted or retrieved: adds up the values that no vocabulary has. */
void rk_served_version_count_unknown(const rk_served_version *version, const rk_session *session);

#endif
