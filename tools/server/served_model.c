#include "server/served_model.h"

#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text/find_text.h"
#include "base/thread/run_in_background.h"

/* Of those in use; under the mutex. */
static rk_served_version *find_version(const rk_served_model *model, int64_t number) {
    rk_served_version *v = model->versions;
    while (v && v->number != number) v = v->next;
    return v;
}

static bool is_version_loaded(const rk_served_model *model, const rk_listed_version *wanted) {
    const rk_served_version *v = model->versions;
    while (v && strcmp(v->path, wanted->path) != 0) v = v->next;
    return v != NULL;
}

static void insert_version(rk_served_model *model, rk_served_version *v) {
    rk_served_version **at = &model->versions;
    while (*at && (*at)->number > v->number) at = &(*at)->next;
    v->next = *at;
    *at = v;
}

static void record_failure(rk_served_model *model, const rk_listed_version *wanted) {
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

typedef struct loading {
    const rk_version_use *use;
    const rk_listed_version *wanted;
    rk_served_version *version;
} loading;

static rk_status load_version_in_background(void *context) {
    loading *l = context;
    return rk_served_version_load(l->use, l->wanted->number, l->wanted->path, &l->version);
}

/* Those that are wanted and not in use yet, as far as they can be loaded, as a list. keep: a failure is told
 * of until nothing fails any more. */
static rk_status load_missing_versions(rk_served_model *model, const rk_version_list *wanted, bool keep,
                                       rk_served_version **out) {
    rk_status status = RK_OK;
    for (size_t i = 0; i < wanted->n; i++) {
        const rk_listed_version *w = &wanted->versions[i];
        loading l = {.use = &model->use, .wanted = w};
        if (is_version_loaded(model, w)) continue;
        rk_status one = model->versions ? rk_run_in_background(load_version_in_background, &l)
                                        : load_version_in_background(&l);
        if (one == RK_OK) {
            l.version->next = *out;
            *out = l.version;
        } else {
            if (keep) record_failure(model, w);
            status = one;
        }
    }
    return status;
}

/* Those that are not wanted, but one at least stays if any is. Returns them as a list, whose uses by the
 * model have ended. */
static rk_served_version *remove_unwanted_versions(rk_served_model *model, const rk_version_list *wanted) {
    rk_served_version *gone = NULL;
    size_t n_wanted = wanted->n == 0;
    for (size_t i = 0; i < wanted->n; i++) n_wanted += is_version_loaded(model, &wanted->versions[i]);
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

static void append_version_number(rk_buffer *list, int64_t number) {
    rk_buffer_printf(list, "%s\"%lld\"", list->n_bytes ? ", " : "", (long long)number);
}

static rk_status retire_version(void *version) {
    rk_served_version_retire(version);
    return RK_OK;
}

/* In one moment; what has gone is freed when its requests have ended. */
static void replace_versions(rk_served_model *model, rk_served_version *loaded, const rk_version_list *wanted,
                             rk_version_change *change) {
    for (const rk_served_version *v = loaded; v; v = v->next) {
        rk_log(RK_LOG_INFO, "model '%s': serves version %lld of '%s'", model->entry->name,
               (long long)v->number, v->path);
        append_version_number(&change->loaded, v->number);
    }
    pthread_mutex_lock(&model->mutex);
    for (rk_served_version *next; loaded; loaded = next) {
        next = loaded->next;
        insert_version(model, loaded);
    }
    rk_served_version *gone = remove_unwanted_versions(model, wanted);
    pthread_mutex_unlock(&model->mutex);
    for (rk_served_version *next; gone; gone = next) {
        next = gone->next;
        rk_log(RK_LOG_INFO, "model '%s': version %lld is no longer served", model->entry->name,
               (long long)gone->number);
        append_version_number(&change->unloaded, gone->number);
        rk_run_in_background(retire_version, gone);
    }
}

static void clear_failure(rk_served_model *model) {
    pthread_mutex_lock(&model->mutex);
    rk_free(model->failed_path);
    model->failed_path = NULL;
    pthread_mutex_unlock(&model->mutex);
}

static void release_versions(rk_served_version *list) {
    for (rk_served_version *next; list; list = next) {
        next = list->next;
        rk_served_version_unref(list);
    }
}

/* Whether there may be something new: other names, or what failed and is tried again after 0, 2, 6 ... 62
 * looks. */
static rk_status should_look_for_versions(rk_served_model *model, bool *out) {
    char *names;
    RK_TRY(rk_list_version_names(model->entry, &names));
    bool same = model->names && strcmp(names, model->names) == 0;
    rk_free(same ? names : model->names);
    if (!same) {
        model->names = names;
        model->n_failed = 0;
    }
    *out = !same || (model->n_failed > 0 && model->n_to_skip-- == 0);
    return RK_OK;
}

/* What cannot be loaded is left out; a pin that begins or ends changes all or nothing. */
static rk_status change_versions(rk_served_model *model, int64_t pin, rk_version_change *change) {
    RK_AUTO(rk_version_list_release) rk_version_list wanted = {0};
    rk_served_version *loaded = NULL;
    RK_TRY(rk_version_list_find(model->entry, pin, &wanted));
    bool moves = pin != model->pin;
    rk_status status = load_missing_versions(model, &wanted, !moves, &loaded);
    if (status != RK_OK && moves) {
        release_versions(loaded);
        return status;
    }
    if (status == RK_OK) clear_failure(model);
    replace_versions(model, loaded, &wanted, change);
    return status;
}

static rk_status refresh_versions(rk_served_model *model) {
    RK_AUTO(rk_version_change_release) rk_version_change change = {0};
    bool look;
    RK_TRY(should_look_for_versions(model, &look));
    if (!look) return RK_OK;
    rk_status status = change_versions(model, model->pin, &change);
    model->n_failed = status == RK_OK ? 0 : model->n_failed < 6 ? model->n_failed + 1 : 6;
    model->n_to_skip = (1 << model->n_failed) - 2;
    return status;
}

rk_status rk_served_model_refresh(rk_served_model *model) {
    pthread_mutex_lock(&model->changing);
    rk_status status = model->unloaded ? RK_OK : refresh_versions(model);
    pthread_mutex_unlock(&model->changing);
    return status;
}

static void forget_seen_names(rk_served_model *model) {
    rk_free(model->names);
    model->names = NULL;
}

rk_status rk_served_model_load(rk_served_model *model, const int64_t *pin, rk_version_change *change) {
    pthread_mutex_lock(&model->changing);
    int64_t wanted = pin ? *pin : model->pin;
    forget_seen_names(model);
    rk_status status = change_versions(model, wanted, change);
    pthread_mutex_lock(&model->mutex);
    if (status == RK_OK) model->pin = wanted;
    if (model->versions) model->unloaded = false;
    pthread_mutex_unlock(&model->mutex);
    pthread_mutex_unlock(&model->changing);
    return status;
}

void rk_served_model_unload(rk_served_model *model, rk_version_change *change) {
    const rk_version_list none = {0};
    pthread_mutex_lock(&model->changing);
    pthread_mutex_lock(&model->mutex);
    model->unloaded = true;
    pthread_mutex_unlock(&model->mutex);
    replace_versions(model, NULL, &none, change);
    pthread_mutex_unlock(&model->changing);
}

void rk_version_change_release(rk_version_change *change) {
    rk_buffer_release(&change->loaded);
    rk_buffer_release(&change->unloaded);
}

static void release_labels(rk_version_label *labels, int64_t n) {
    for (int64_t i = 0; i < n; i++) rk_free(labels[i].name);
    rk_free(labels);
}

static rk_version_label *find_label(rk_version_label *labels, int64_t n, const char *name) {
    return RK_FIND_BY(name, name, labels, n);
}

/* Copies of labels, behind the n that are there; one that is there already is moved, or taken away. */
static rk_status merge_labels(rk_version_label *to, int64_t *n, const rk_version_label *from,
                              int64_t n_from) {
    for (int64_t i = 0; i < n_from; i++) {
        rk_version_label *there = find_label(to, *n, from[i].name);
        if (from[i].version < 0) {
            if (!there) continue;
            rk_free(there->name);
            *there = to[--*n];
        } else {
            if (!there) {
                RK_TRY(rk_strdup(from[i].name, &to[*n].name));
                there = &to[(*n)++];
            }
            there->version = from[i].version;
        }
    }
    return RK_OK;
}

static rk_status merge_labels_with_own(const rk_served_model *model, const rk_version_label *labels,
                                       int64_t n_labels, rk_version_label **out, int64_t *n_out) {
    rk_version_label *joined;
    int64_t n = 0;
    RK_TRY(rk_alloc((size_t)(model->n_labels + n_labels), sizeof *joined, &joined));
    rk_status status = merge_labels(joined, &n, model->labels, model->n_labels);
    if (status == RK_OK) status = merge_labels(joined, &n, labels, n_labels);
    if (status == RK_OK) {
        *out = joined;
        *n_out = n;
    } else {
        release_labels(joined, n);
    }
    return status;
}

/* Under both mutexes. */
static rk_status replace_labels(rk_served_model *model, const rk_version_label *labels, int64_t n_labels) {
    rk_version_label *joined;
    int64_t n;
    for (int64_t i = 0; i < n_labels; i++)
        RK_FAIL_IF(labels[i].version >= 0 && !find_version(model, labels[i].version), RK_NOT_FOUND,
                   "label '%s': version %lld is not in use", labels[i].name, (long long)labels[i].version);
    RK_TRY(merge_labels_with_own(model, labels, n_labels, &joined, &n));
    release_labels(model->labels, model->n_labels);
    model->labels = joined;
    model->n_labels = n;
    return RK_OK;
}

rk_status rk_served_model_set_labels(rk_served_model *model, const rk_version_label *labels,
                                     int64_t n_labels) {
    pthread_mutex_lock(&model->changing);
    pthread_mutex_lock(&model->mutex);
    rk_status status = replace_labels(model, labels, n_labels);
    pthread_mutex_unlock(&model->mutex);
    pthread_mutex_unlock(&model->changing);
    return status;
}

rk_status rk_served_model_open(const rk_version_use *use, rk_served_model *model) {
    const rk_model_entry *entry = use->entry;
    *model = (rk_served_model){.entry = entry,
                               .use = *use,
                               .pin = -1,
                               .changing = PTHREAD_MUTEX_INITIALIZER,
                               .mutex = PTHREAD_MUTEX_INITIALIZER};
    RK_TRY(merge_labels_with_own(model, entry->version_labels, entry->n_version_labels, &model->labels,
                                 &model->n_labels));
    rk_status status = refresh_versions(model);
    if (model->versions) return RK_OK; /* what failed is in the log */
    return rk_error_context(status, "model '%s'", entry->name);
}

void rk_served_model_close(rk_served_model *model) {
    release_versions(model->versions);
    model->versions = NULL;
    release_labels(model->labels, model->n_labels);
    model->labels = NULL;
    model->n_labels = 0;
    RK_FREE_ALL(model->failed_path, model->names);
    model->failed_path = model->names = NULL;
}

/* Under the mutex. */
static rk_served_version *find_labelled_version(const rk_served_model *model, rk_span label) {
    for (int64_t i = 0; i < model->n_labels; i++)
        if (rk_span_equal(label, model->labels[i].name)) return find_version(model, model->labels[i].version);
    return NULL;
}

rk_served_version *rk_served_model_get_version(rk_served_model *model, rk_span version, rk_span label) {
    pthread_mutex_lock(&model->mutex);
    rk_served_version *v = version.data ? find_version(model, rk_parse_version_number(version))
                           : label.data ? find_labelled_version(model, label)
                                        : model->versions;
    if (v) rk_served_version_ref(v);
    pthread_mutex_unlock(&model->mutex);
    return v;
}

/* Out of the mutex, since it may take a while; versions may come and go meanwhile. */
rk_status rk_served_model_check_rows(rk_served_model *model) {
    RK_AUTOFREE rk_served_version **list = NULL;
    size_t n = 0, capacity = 0;
    rk_status status = RK_OK;
    pthread_mutex_lock(&model->mutex);
    for (rk_served_version *v = model->versions; v && status == RK_OK; v = v->next) {
        status = rk_reserve_one_more(&list, n, &capacity, sizeof *list);
        if (status != RK_OK) break;
        rk_served_version_ref(v);
        list[n++] = v;
    }
    pthread_mutex_unlock(&model->mutex);
    for (size_t i = 0; i < n; i++) {
        rk_served_version_check_rows(list[i]);
        rk_served_version_unref(list[i]);
    }
    return status;
}

bool rk_served_model_rows_available(rk_served_model *model) {
    bool all = true;
    pthread_mutex_lock(&model->mutex);
    for (const rk_served_version *v = model->versions; v; v = v->next)
        all &= rk_predictor_rows_available(v->predictor);
    pthread_mutex_unlock(&model->mutex);
    return all;
}
