#include "server/served_model.h"

#include <stdlib.h>
#include <string.h>

#include <reckon/checkpoint.h>

#include "base/file/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread/clock.h"

/* A version that should be there. */
typedef struct wanted_version {
    int64_t number;
    char *path;
} wanted_version;

typedef struct wanted_list {
    wanted_version *versions;
    size_t n, capacity;
} wanted_list;

static void release_wanted(wanted_list *list) {
    for (size_t i = 0; i < list->n; i++) rk_free(list->versions[i].path);
    rk_free(list->versions);
}

static void free_version(rk_served_version *v) {
    if (!v) return;
    for (int w = 0; w < v->n_workers; w++) {
        if (v->rows) rk_request_rows_release(&v->rows[w]);
        if (v->sessions) rk_session_free(v->sessions[w]);
    }
    if (v->columns.release) v->columns.release(&v->columns);
    rk_item_catalog_free(v->catalog);
    rk_predictor_free(v->predictor);
    RK_FREE_ALL(v->tasks, v->unknown, v->rows, v->sessions, v->path, v);
}

static rk_status fill_tasks(rk_served_version *v) {
    v->n_tasks = rk_predictor_n_tasks(v->predictor);
    RK_TRY(rk_alloc((size_t)v->n_tasks, sizeof *v->tasks, &v->tasks));
    for (int32_t t = 0; t < v->n_tasks; t++) {
        const char *loss = rk_predictor_task_loss(v->predictor, t);
        v->tasks[t].name = rk_predictor_task_name(v->predictor, t);
        v->tasks[t].binary = loss && strcmp(loss, "binary_cross_entropy") == 0;
    }
    return RK_OK;
}

/* A request of no rows takes a session through all that it will need. */
static rk_status warm(rk_served_version *v, int worker) {
    const struct ArrowSchema *schema;
    const struct ArrowArray *array;
    float none;
    int64_t no_item;
    RK_TRY(rk_request_rows_table(&v->rows[worker], 0, &schema, &array));
    if (v->catalog)
        return rk_session_retrieve(v->sessions[worker], schema, array, rk_item_catalog_index(v->catalog), 1,
                                   NULL, &no_item, &none);
    return rk_session_run(v->sessions[worker], schema, array, &none);
}

static rk_status fill_catalog(rk_served_version *v) {
    rk_recommend_options options = RK_RECOMMEND_OPTIONS_INIT;
    if (!rk_predictor_retrieves(v->predictor)) return RK_OK;
    options.items = v->model->entry->items;
    options.without_items = v->model->entry->without_items;
    options.with_known = v->model->entry->with_known;
    return rk_item_catalog_create(v->predictor, &options, &v->catalog);
}

bool rk_served_version_needs(const rk_served_version *v, int64_t column) {
    const char *item = v->catalog ? rk_item_catalog_item_column(v->catalog) : "";
    return column < v->n_inputs && strcmp(v->columns.children[column]->name, item) != 0;
}

static rk_status fill_version(rk_served_version *v, const char *path) {
    rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
    options.device = "cpu";
    RK_TRY(rk_strdup(path, &v->path));
    RK_TRY(rk_predictor_open(path, &options, &v->predictor));
    RK_TRY(fill_tasks(v));
    RK_TRY(fill_catalog(v));
    RK_TRY(
        RK_ALLOC_ALL(RK_ARRAY((size_t)v->n_workers, v->sessions), RK_ARRAY((size_t)v->n_workers, v->rows)));
    for (int w = 0; w < v->n_workers; w++) {
        RK_TRY(rk_session_create(v->predictor, NULL, &v->sessions[w]));
        if (w == 0) {
            RK_TRY(rk_session_schema(v->sessions[0], &v->columns));
            v->n_inputs = rk_session_n_inputs(v->sessions[0], &v->columns);
        }
        RK_TRY(rk_request_rows_init(&v->rows[w], &v->columns, v->n_inputs));
        for (int64_t c = 0; c < v->columns.n_children; c++)
            v->rows[w].columns[c].required = rk_served_version_needs(v, c);
        RK_TRY(warm(v, w));
    }
    v->n_features = rk_session_n_features(v->sessions[0]);
    RK_TRY(rk_alloc((size_t)v->n_features, sizeof *v->unknown, &v->unknown));
    v->loaded_at = rk_clock_wall_seconds();
    return RK_OK;
}

static rk_status load(const rk_served_model *model, const wanted_version *wanted, rk_served_version **out) {
    rk_served_version *v;
    RK_TRY(rk_alloc(1, sizeof *v, &v));
    v->model = model;
    v->number = wanted->number;
    v->n_workers = model->n_workers;
    v->n_users = 1;
    rk_status status = fill_version(v, wanted->path);
    if (status == RK_OK)
        *out = v;
    else
        free_version(v);
    return status;
}

/* Digits alone, in a number's range; else -1. */
static int64_t number_of(rk_span text) {
    int64_t number;
    for (size_t i = 0; i < text.n_bytes; i++)
        if (text.data[i] < '0' || text.data[i] > '9') return -1;
    return text.n_bytes > 0 && rk_parse_i64(text, &number) ? number : -1;
}

/* "step-000001725" is version 1725; a name of no such form: 0. */
static int64_t step_of(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strncmp(name, "step-", 5) != 0) return 0;
    int64_t number = number_of((rk_span){name + 5, strlen(name + 5)});
    return number < 0 ? 0 : number;
}

static bool is_wanted_number(const rk_model_entry *e, int64_t number) {
    if (e->version_policy != RK_VERSIONS_SPECIFIC) return true;
    for (int64_t i = 0; i < e->n_versions; i++)
        if (e->versions[i] == number) return true;
    return false;
}

static rk_status want(wanted_list *list, int64_t number, char *path) {
    rk_status status = rk_grow(&list->versions, list->n, &list->capacity, sizeof *list->versions);
    if (status != RK_OK) {
        rk_free(path);
        return status;
    }
    list->versions[list->n++] = (wanted_version){number, path};
    return RK_OK;
}

static int newest_first(const void *a, const void *b) {
    int64_t x = ((const wanted_version *)a)->number, y = ((const wanted_version *)b)->number;
    return (x < y) - (x > y);
}

/* Entries of a directory that are versions: named by numbers, or the checkpoints of a run. */
static rk_status list_versions(const rk_model_entry *e, const char *directory, bool steps, wanted_list *out) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_TRY(rk_list_directory(directory, &names));
    for (size_t i = 0; i < names.n; i++) {
        int64_t number =
            steps ? step_of(names.texts[i]) : number_of((rk_span){names.texts[i], strlen(names.texts[i])});
        if (number < steps || !is_wanted_number(e, number)) continue;
        char *path;
        RK_TRY(rk_path_join(directory, names.texts[i], &path));
        RK_TRY(want(out, number, path));
    }
    return RK_OK;
}

/* What the model's path holds now, newest first. */
static rk_status find_wanted(const rk_model_entry *e, wanted_list *out) {
    RK_AUTOFREE char *checkpoints = NULL;
    RK_TRY(rk_path_join(e->path, "checkpoints", &checkpoints));
    bool is_run = rk_file_exists(checkpoints);
    if (is_run && e->version_policy == RK_VERSIONS_LATEST) {
        char *found, *path;
        RK_TRY(rk_checkpoint_find_best(e->path, &found));
        rk_status status = rk_strdup(found, &path);
        rk_text_free(found);
        RK_TRY(status);
        return want(out, step_of(path), path);
    }
    if (step_of(e->path) > 0) { /* one checkpoint */
        char *path;
        RK_TRY(rk_strdup(e->path, &path));
        return want(out, step_of(path), path);
    }
    RK_TRY(list_versions(e, is_run ? checkpoints : e->path, is_run, out));
    qsort(out->versions, out->n, sizeof *out->versions, newest_first);
    size_t most = e->version_policy == RK_VERSIONS_LATEST ? (size_t)e->num_versions : out->n;
    while (out->n > most) rk_free(out->versions[--out->n].path);
    RK_FAIL_IF(out->n == 0, RK_NOT_FOUND,
               "'%s' has no version\nhint: a run's directory, or a folder of runs that are named by numbers",
               e->path);
    return RK_OK;
}

/* Of those in use; under the mutex. */
static rk_served_version *in_use(const rk_served_model *model, int64_t number) {
    rk_served_version *v = model->versions;
    while (v && v->number != number) v = v->next;
    return v;
}

static bool is_loaded(const rk_served_model *model, const wanted_version *wanted) {
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

static void keep_failure(rk_served_model *model, const wanted_version *wanted) {
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

static rk_status load_one(rk_served_model *model, const wanted_version *wanted) {
    pthread_mutex_lock(&model->mutex);
    bool known = is_loaded(model, wanted);
    pthread_mutex_unlock(&model->mutex);
    if (known) return RK_OK;
    rk_served_version *v;
    rk_status status = load(model, wanted, &v);
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
static rk_served_version *take_unwanted(rk_served_model *model, const wanted_list *wanted) {
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

/* The names below the model's path, one after the other: nothing is read as long as they stay the same, since
 * a look for the best checkpoint reads all of it. */
static rk_status list_names(const rk_model_entry *e, char **out) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    RK_AUTOFREE char *checkpoints = NULL;
    RK_TRY(rk_path_join(e->path, "checkpoints", &checkpoints));
    RK_TRY(rk_list_directory(rk_file_exists(checkpoints) ? checkpoints : e->path, &names));
    for (size_t i = 0; i < names.n; i++) rk_buffer_printf(&text, "%s/", names.texts[i]);
    rk_buffer_text(&text, "");
    return rk_buffer_take(&text, out);
}

/* What should be there, as far as it can be; a failure is forgotten when nothing fails any more. */
static rk_status load_all(rk_served_model *model, const wanted_list *wanted) {
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

static void let_go(rk_served_model *model, const wanted_list *wanted) {
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
    RK_TRY(list_names(model->entry, &names));
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
    RK_AUTO(release_wanted) wanted_list wanted = {0};
    bool look;
    RK_TRY(should_look(model, &look));
    if (!look) return RK_OK;
    rk_status status = find_wanted(model->entry, &wanted);
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
    int64_t number = version.data ? number_of(version) : label.data ? labelled(model->entry, label) : 0;
    pthread_mutex_lock(&model->mutex);
    rk_served_version *v = newest ? model->versions : in_use(model, number);
    if (v) v->n_users++;
    pthread_mutex_unlock(&model->mutex);
    return v;
}

static pthread_mutex_t *mutex_of(const rk_served_version *v) {
    return &((rk_served_model *)(size_t)v->model)->mutex;
}

void rk_served_version_keep(rk_served_version *v) {
    pthread_mutex_lock(mutex_of(v));
    v->n_users++;
    pthread_mutex_unlock(mutex_of(v));
}

void rk_served_version_release(rk_served_version *v) {
    pthread_mutex_t *mutex = mutex_of(v);
    pthread_mutex_lock(mutex);
    bool last = --v->n_users == 0;
    pthread_mutex_unlock(mutex);
    if (last) free_version(v);
}

void rk_served_version_count_unknown(const rk_served_version *v, const rk_session *session) {
    for (int32_t f = 0; f < v->n_features; f++) {
        int64_t n = rk_session_n_unknown(session, f);
        if (n > 0) atomic_fetch_add(&v->unknown[f], (uint64_t)n);
    }
}
