#include "server/served_model.h"

#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "server/version_list.h"

/* Of those in use; under the mutex. */
static rk_served_version *in_use(const rk_served_model *model, int64_t number) {
    rk_served_version *v = model->versions;
    while (v && v->number != number) v = v->next;
    return v;
}

static bool is_loaded(const rk_served_model *model, const rk_listed_version *wanted) {
    const rk_served_version *v = model->versions;
    while (v && strcmp(v->path, wanted->path) != 0) v = v->next;
    return v != NULL;
}

static void insert(rk_served_model *model, rk_served_version *v) {
    rk_served_version **at = &model->versions;
    while (*at && (*at)->number > v->number) at = &(*at)->next;
    v->next = *at;
    *at = v;
}

static void keep_failure(rk_served_model *model, const rk_listed_version *wanted) {
    char reason[sizeof model->failure];
    rk_error_copy(reason, sizeof reason);
    pthread_mutex_lock(&model->mutex);
    bool told = model->failed_path && strcmp(model->failed_path, wanted->path) == 0 &&
                strcmp(model->failure, reason) == 0;
    rk_free(model->failed_path);
    model->failed_path = NULL;
    if (rk_strdup(wanted->path, &model->failed_path) != RK_OK) model->failed_path = NULL;
    model->failed_number = wanted->number;
    memcpy(model->failure, reason, sizeof reason);
    pthread_mutex_unlock(&model->mutex);
    if (!told)
        rk_log(RK_LOG_ERROR, "model '%s': version %lld is not served: %s", model->entry->name,
               (long long)wanted->number, reason);
}

static rk_status load_one(rk_served_model *model, const rk_listed_version *wanted) {
    pthread_mutex_lock(&model->mutex);
    bool known = is_loaded(model, wanted);
    pthread_mutex_unlock(&model->mutex);
    if (known) return RK_OK;
    rk_served_version *v;
    rk_status status =
        rk_served_version_load(model->entry, model->n_workers, wanted->number, wanted->path, &v);
    if (status != RK_OK) {
        keep_failure(model, wanted);
        return status;
    }
    pthread_mutex_lock(&model->mutex);
    insert(model, v);
    pthread_mutex_unlock(&model->mutex);
    rk_log(RK_LOG_INFO, "model '%s': serves version %lld of '%s'", model->entry->name, (long long)v->number,
           v->path);
    return RK_OK;
}

/* Those that are not wanted, but one at least stays. Returns them as a list, whose uses by the model have
 * ended. */
static rk_served_version *take_unwanted(rk_served_model *model, const rk_version_list *wanted) {
    rk_served_version *gone = NULL;
    size_t n_wanted = 0;
    for (size_t i = 0; i < wanted->n; i++) n_wanted += is_loaded(model, &wanted->versions[i]);
    for (rk_served_version **at = &model->versions; *at && n_wanted > 0;) {
        rk_served_version *v = *at;
        bool keep = false;
        for (size_t i = 0; i < wanted->n; i++) keep |= strcmp(wanted->versions[i].path, v->path) == 0;
        if (keep) {
            at = &v->next;
            continue;
        }
        *at = v->next;
        v->next = gone;
        gone = v;
    }
    return gone;
}

/* What should be there, as far as it can be; a failure is forgotten when nothing fails any more. */
static rk_status load_all(rk_served_model *model, const rk_version_list *wanted) {
    rk_status status = RK_OK;
    for (size_t i = 0; i < wanted->n; i++) {
        rk_status one = load_one(model, &wanted->versions[i]);
        if (status == RK_OK) status = one;
    }
    if (status != RK_OK) return status;
    pthread_mutex_lock(&model->mutex);
    rk_free(model->failed_path);
    model->failed_path = NULL;
    pthread_mutex_unlock(&model->mutex);
    return RK_OK;
}

static void let_go(rk_served_model *model, const rk_version_list *wanted) {
    pthread_mutex_lock(&model->mutex);
    rk_served_version *gone = take_unwanted(model, wanted);
    pthread_mutex_unlock(&model->mutex);
    while (gone) {
        rk_served_version *next = gone->next;
        rk_log(RK_LOG_INFO, "model '%s': version %lld is no longer served", model->entry->name,
               (long long)gone->number);
        rk_served_version_release(gone);
        gone = next;
    }
}

/* Whether there may be something new: other names, or what failed and is tried again after 0, 2, 6 ... 62
 * looks. */
static rk_status should_look(rk_served_model *model, bool *out) {
    char *names;
    RK_TRY(rk_version_names(model->entry, &names));
    bool same = model->names && strcmp(names, model->names) == 0;
    rk_free(same ? names : model->names);
    if (!same) {
        model->names = names;
        model->n_failed = 0;
    }
    *out = !same || (model->n_failed > 0 && model->n_to_skip-- == 0);
    return RK_OK;
}

rk_status rk_served_model_refresh(rk_served_model *model) {
    RK_AUTO(rk_version_list_release) rk_version_list wanted = {0};
    bool look;
    RK_TRY(should_look(model, &look));
    if (!look) return RK_OK;
    rk_status status = rk_version_list_find(model->entry, &wanted);
    if (status == RK_OK) {
        status = load_all(model, &wanted);
        let_go(model, &wanted);
    }
    model->n_failed = status == RK_OK ? 0 : model->n_failed < 6 ? model->n_failed + 1 : 6;
    model->n_to_skip = (1 << model->n_failed) - 2;
    return status;
}

rk_status rk_served_model_open(const rk_model_entry *entry, int n_workers, rk_served_model *model) {
    *model = (rk_served_model){.entry = entry, .n_workers = n_workers, .mutex = PTHREAD_MUTEX_INITIALIZER};
    rk_status status = rk_served_model_refresh(model);
    if (model->versions) return RK_OK; /* what failed is in the log */
    return rk_error_context(status, "model '%s'", entry->name);
}

void rk_served_model_close(rk_served_model *model) {
    while (model->versions) {
        rk_served_version *v = model->versions;
        model->versions = v->next;
        rk_served_version_release(v);
    }
    RK_FREE_ALL(model->failed_path, model->names);
    model->failed_path = model->names = NULL;
}

static int64_t labelled(const rk_model_entry *e, rk_span label) {
    for (int64_t i = 0; i < e->n_version_labels; i++)
        if (rk_span_equal(label, e->version_labels[i].name)) return e->version_labels[i].version;
    return -1;
}

rk_served_version *rk_served_model_get(rk_served_model *model, rk_span version, rk_span label) {
    bool newest = !version.data && !label.data;
    int64_t number = version.data ? rk_version_number(version)
                     : label.data ? labelled(model->entry, label)
                                  : 0;
    pthread_mutex_lock(&model->mutex);
    rk_served_version *v = newest ? model->versions : in_use(model, number);
    if (v) rk_served_version_keep(v);
    pthread_mutex_unlock(&model->mutex);
    return v;
}
