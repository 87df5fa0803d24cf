/* Models in use: which versions of each there are, and which of them a request gets. */
#ifndef RK_SERVER_SERVED_MODEL_H
#define RK_SERVER_SERVED_MODEL_H

#include <pthread.h>

#include "base/buffer.h"
#include "base/text/text.h"
#include "server/served_version.h"
#include "server/version_list.h"

typedef struct rk_served_model {
    const rk_model_entry *entry;
    rk_version_use use;
    pthread_mutex_t changing;    /* one change of its versions at a time; guards what follows */
    char *names;                 /* what was below its path when it was last looked at; NULL: look again */
    int n_failed, n_to_skip;     /* looks in a row that failed, and that are left out until the next try */
    pthread_mutex_t mutex;       /* guards what follows, which both mutexes are held to write */
    rk_served_version *versions; /* newest first */
    int64_t pin;                 /* the one version that is wanted, whatever the policy; -1: none is pinned */
    bool unloaded;               /* by hand, until it is loaded so */
    rk_version_label *labels;    /* [n_labels] */
    int64_t n_labels;
    char *failed_path; /* a wanted checkpoint that could not be loaded, and why */
    int64_t failed_number;
    char failure[2048];
} rk_served_model;

/* What a change has done: numbers of versions, as JSON texts with commas between them. Zero-initialize. */
typedef struct rk_version_change {
    rk_buffer loaded, unloaded;
} rk_version_change;

/* At least one version must load. Free after a failure too. */
rk_status rk_served_model_open(const rk_version_use *use, rk_served_model *model);
void rk_served_model_close(rk_served_model *model);

/* By hand: looks now for the versions that the policy wants, or for the one that is pinned. pin: of this one
 * from now on, whatever else there is; -1: of none; NULL: as before. What is in use stays if the pinned one
 * cannot be loaded. RK_NOT_FOUND: there is no version, or not this one. */
rk_status rk_served_model_load(rk_served_model *model, const int64_t *pin, rk_version_change *change);
/* Lets go of all versions until the next load by hand. */
void rk_served_model_unload(rk_served_model *model, rk_version_change *change);
void rk_version_change_release(rk_version_change *change);
/* Gives labels to versions, which must be in use, or takes them away (-1); all of them or, after an error,
 * none. Others stay. */
rk_status rk_served_model_set_labels(rk_served_model *model, const rk_version_label *labels,
                                     int64_t n_labels);

/* Looks for versions, loads new ones and lets go of those that are not wanted any more. A version that fails,
 * such as one that is still being copied, is tried again, at the next look and then less and less often; each
 * reason is told of once, in the log; the others stay. */
rk_status rk_served_model_refresh(rk_served_model *model);

/* Looks whether rows that versions have in Redis can be read. */
rk_status rk_served_model_check_rows(rk_served_model *model);
/* Whether they could when one last looked, those of all versions in use. */
bool rk_served_model_rows_available(rk_served_model *model);

/* By number (text of digits), by label, or the newest; NULL: there is none. Each must be released. */
rk_served_version *rk_served_model_get_version(rk_served_model *model, rk_span version, rk_span label);

#endif
