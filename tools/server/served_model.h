/* Models in use: which versions of each there are, and which of them a request gets. */
#ifndef RK_SERVER_SERVED_MODEL_H
#define RK_SERVER_SERVED_MODEL_H

#include <pthread.h>

#include "base/text/text.h"
#include "server/served_version.h"

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

#endif
