/* Models in use: the versions of each, loaded and warmed before requests reach them, and freed when the last
 * request that began on them has ended. */
#ifndef RK_SERVER_SERVED_MODEL_H
#define RK_SERVER_SERVED_MODEL_H

#include <pthread.h>
#include <stdatomic.h>

#include <reckon/experimental/recommend.h>
#include <reckon/predictor.h>
#include <reckon/session.h>

#include "base/text/text.h"
#include "server/request/request_rows.h"
#include "server/server_config.h"

typedef struct rk_served_task {
    const char *name;
    bool binary; /* its predictions are probabilities */
} rk_served_task;

/* Never changed after it was loaded, but for its workers' own parts. */
typedef struct rk_served_version {
    const struct rk_served_model *model;
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
    int n_users;                   /* under the model's mutex: requests, and the list */
    struct rk_served_version *next;
} rk_served_version;

typedef struct rk_served_model {
    const rk_model_entry *entry;
    int n_workers;
    char *names;                 /* what was below its path when it was last looked at */
    int n_failed, n_to_skip;     /* looks in a row that failed, and that are left out until the next try */
    pthread_mutex_t mutex;       /* guards what follows */
    rk_served_version *versions; /* newest first */
    char *failed_path;           /* a wanted checkpoint that could not be loaded, and why */
    int64_t failed_number;
    char failure[2048];
} rk_served_model;

/* At least one version must load. Free after a failure too. */
rk_status rk_served_model_open(const rk_model_entry *entry, int n_workers, rk_served_model *model);
void rk_served_model_close(rk_served_model *model);

/* Looks for versions, loads new ones and lets go of those that are not wanted any more. A version that fails,
 * such as one that is still being copied, is tried again, at the next look and then less and less often; each
 * reason is told of once, in the log; the others stay. */
rk_status rk_served_model_refresh(rk_served_model *model);

/* By number (text of digits), by label, or the newest; NULL: there is none. Each must be released. */
rk_served_version *rk_served_model_get(rk_served_model *model, rk_span version, rk_span label);
void rk_served_version_keep(rk_served_version *version); /* once more, by who has it already */
void rk_served_version_release(rk_served_version *version);
/* Whether a request must have the column, by its number: all inputs but the item, where items are found. */
bool rk_served_version_needs(const rk_served_version *version, int64_t column);
/* After a worker's session has predicted or retrieved: adds up the values that no vocabulary has. */
void rk_served_version_count_unknown(const rk_served_version *version, const rk_session *session);

#endif
