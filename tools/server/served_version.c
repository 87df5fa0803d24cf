#include "server/served_version.h"

#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread/clock.h"
#include "server/warmup.h"

static void free_version(rk_served_version *v) {
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
static rk_status warm_up_session(rk_served_version *v, int worker) {
    rk_request_table rows, context;
    float none;
    int64_t no_item;
    RK_TRY(rk_request_rows_to_arrow(&v->rows[worker], 0, &rows, &context));
    rk_item_search search = RK_ITEM_SEARCH_INIT;
    search.k = 1;
    if (v->catalog)
        return rk_item_catalog_retrieve(v->catalog, v->sessions[worker], rows.schema, rows.array, &search,
                                        &no_item, &none);
    return rk_session_run(v->sessions[worker], rows.schema, rows.array, &none);
}

/* The path of the version's index; NULL: it has none. */
static rk_status find_index_path(const rk_served_version *v, char **out) {
    static const char mark[] = "{version}";
    RK_AUTO(rk_buffer_release) rk_buffer path = {0};
    const char *at = v->entry->index, *found;
    if (!at) return RK_OK;
    for (; (found = strstr(at, mark)); at = found + strlen(mark))
        rk_buffer_printf(&path, "%.*s%lld", (int)(found - at), at, (long long)v->number);
    rk_buffer_append_text(&path, at);
    return rk_buffer_detach(&path, out);
}

static rk_status fill_catalog(rk_served_version *v) {
    RK_AUTOFREE char *index = NULL;
    rk_recommend_options options = RK_RECOMMEND_OPTIONS_INIT;
    const rk_model_entry *e = v->entry;
    bool retrieves = rk_predictor_can_retrieve(v->predictor);
    RK_FAIL_IF(!retrieves && (e->items || e->without_items || e->index), RK_CONFIG,
               "'%s' scores rows, and %s is of a two_tower alone", v->path,
               e->index   ? "index"
               : e->items ? "items"
                          : "without_items");
    if (!retrieves) return RK_OK;
    RK_TRY(find_index_path(v, &index));
    options.items = e->items;
    options.without_items = e->without_items;
    options.with_known = e->with_known;
    options.index = index;
    return rk_item_catalog_create(v->predictor, &options, &v->catalog);
}

bool rk_served_version_requires_column(const rk_served_version *v, int64_t column) {
    const char *item = v->catalog ? rk_item_catalog_item_column(v->catalog) : "";
    return column < v->n_inputs && strcmp(v->columns.children[column]->name, item) != 0;
}

static rk_status read_input_columns(rk_served_version *v, const rk_session *session) {
    RK_TRY(rk_session_input_schema(session, &v->columns));
    v->n_inputs = rk_session_n_inputs(session, &v->columns);
    return RK_OK;
}

static rk_status init_rows_of_worker(rk_served_version *v, int w) {
    RK_TRY(rk_request_rows_init(&v->rows[w], &v->columns, v->n_inputs));
    for (int64_t c = 0; c < v->columns.n_children; c++) {
        rk_request_column *column = &v->rows[w].columns[c];
        column->required = rk_served_version_requires_column(v, c);
        rk_request_column_set_reading(column, rk_session_column_reading(v->sessions[w], column->name));
    }
    return RK_OK;
}

static rk_status fill_version(rk_served_version *v, const char *path, const rk_call_limits *limits) {
    rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
    options.device = v->entry->device == RK_SERVE_ON_CUDA ? "cuda" : "cpu";
    options.rows_in = (rk_rows_in)v->entry->rows.in;
    options.row_cache_bytes = (uint64_t)v->entry->rows.cache_bytes;
    options.row_timeout = v->entry->rows.timeout;
    RK_TRY(rk_strdup(path, &v->path));
    RK_TRY(rk_predictor_open(path, &options, &v->predictor));
    RK_TRY(fill_tasks(v));
    RK_TRY(fill_catalog(v));
    RK_TRY(
        RK_ALLOC_ALL(RK_ARRAY((size_t)v->n_workers, v->sessions), RK_ARRAY((size_t)v->n_workers, v->rows)));
    for (int w = 0; w < v->n_workers; w++) {
        RK_TRY(rk_session_create(v->predictor, NULL, &v->sessions[w]));
        if (w == 0) RK_TRY(read_input_columns(v, v->sessions[0]));
        RK_TRY(init_rows_of_worker(v, w));
        RK_TRY(warm_up_session(v, w));
    }
    v->n_features = rk_session_n_features(v->sessions[0]);
    RK_TRY(rk_alloc((size_t)v->n_features, sizeof *v->unknown, &v->unknown));
    if (v->entry->warmup) RK_TRY(rk_warm_up_version(v, v->entry->warmup, limits));
    v->loaded_at = rk_clock_wall_seconds();
    return RK_OK;
}

rk_status rk_served_version_load(const rk_version_use *use, int64_t number, const char *path,
                                 rk_served_version **out) {
    const rk_call_limits limits = rk_call_limits_of(use->limits);
    rk_served_version *v;
    RK_TRY(rk_alloc(1, sizeof *v, &v));
    *v = (rk_served_version){.entry = use->entry, .number = number, .n_workers = use->n_workers};
    atomic_init(&v->n_users, 1);
    rk_status status = fill_version(v, path, &limits);
    if (status == RK_OK)
        *out = v;
    else
        free_version(v);
    return status;
}

void rk_served_version_ref(rk_served_version *v) {
    atomic_fetch_add(&v->n_users, 1);
}

void rk_served_version_unref(rk_served_version *v) {
    if (atomic_fetch_sub(&v->n_users, 1) == 1) free_version(v);
}

void rk_served_version_retire(rk_served_version *v) {
    enum { LOOKS = 1000, LOOK_US = 1000 };
    for (int i = 0; i < LOOKS && atomic_load(&v->n_users) > 1; i++) usleep(LOOK_US);
    rk_served_version_unref(v);
}

void rk_served_version_check_rows(rk_served_version *v) {
    bool reads = rk_predictor_check_rows(v->predictor) == RK_OK;
    if (!reads && !v->rows_lost)
        rk_log(RK_LOG_WARNING, "model '%s': version %lld: %s", v->entry->name, (long long)v->number,
               rk_last_error());
    if (reads && v->rows_lost)
        rk_log(RK_LOG_WARNING, "model '%s': version %lld: its rows can be read again", v->entry->name,
               (long long)v->number);
    v->rows_lost = !reads;
}

void rk_served_version_count_unknown(const rk_served_version *v, const rk_session *session) {
    for (int32_t f = 0; f < v->n_features; f++) {
        int64_t n = rk_session_n_unknown(session, f);
        if (n > 0) atomic_fetch_add(&v->unknown[f], (uint64_t)n);
    }
}
