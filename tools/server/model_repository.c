#include "server/model_repository.h"

#include <string.h>

#include "base/memory.h"
#include "format/json_writer.h"
#include "server/request/json_reader.h"

enum { MAX_DEPTH = 8, MOST_LABELS = 64 };

/* What a body asks for. */
typedef struct request {
    bool ready; /* of index: only what takes requests */
    bool has_version;
    int64_t version; /* -1: as serve.yaml says */
    rk_version_label labels[MOST_LABELS];
    int64_t n_labels;
} request;

static void release_request(request *r) {
    for (int64_t i = 0; i < r->n_labels; i++) rk_free(r->labels[i].name);
}

/* A number, its digits as a text, or null: -1. */
static rk_status read_version(rk_json *json, int64_t *out) {
    rk_json_kind kind;
    rk_span text;
    RK_TRY(rk_json_peek_kind(json, &kind));
    *out = -1;
    if (kind == RK_JSON_NULL) return rk_json_skip_value(json, NULL);
    RK_TRY(kind == RK_JSON_TEXT ? rk_json_read_text(json, &text) : rk_json_read_number(json, &text));
    *out = rk_parse_version_number(text);
    return *out < 0 ? rk_json_error(json, "a version is a number, or null") : RK_OK;
}

static rk_status read_labels(rk_json *json, request *r) {
    rk_span name;
    RK_TRY(rk_json_open_object(json));
    while (rk_json_next_key(json, &name)) {
        rk_version_label *label = &r->labels[r->n_labels];
        if (r->n_labels == MOST_LABELS) return rk_json_error(json, "there are too many labels");
        if (!rk_is_model_name(name.data, name.n_bytes))
            return rk_json_error(json, "a label has other characters than [A-Za-z0-9_.-]");
        RK_TRY(read_version(json, &label->version));
        RK_TRY(rk_strndup(name.data, name.n_bytes, &label->name));
        r->n_labels++;
    }
    return json->status;
}

static rk_status read_parameters(rk_json *json, request *r) {
    rk_span key;
    RK_TRY(rk_json_open_object(json));
    while (rk_json_next_key(json, &key)) {
        if (rk_span_equal(key, "version")) {
            RK_TRY(read_version(json, &r->version));
            r->has_version = true;
        } else if (rk_span_equal(key, "version_labels")) {
            RK_TRY(read_labels(json, r));
        } else if (rk_span_equal(key, "unload_dependents")) { /* Triton's, of ensembles */
            RK_TRY(rk_json_skip_value(json, NULL));
        } else {
            return rk_json_error(json, "a parameter is not known\nhint: version, version_labels");
        }
    }
    return json->status;
}

static rk_status read_request_keys(rk_json *json, request *r) {
    rk_span key;
    RK_TRY(rk_json_open_object(json));
    while (rk_json_next_key(json, &key)) {
        if (rk_span_equal(key, "ready"))
            RK_TRY(rk_json_read_bool(json, &r->ready));
        else if (rk_span_equal(key, "parameters"))
            RK_TRY(read_parameters(json, r));
        else
            return rk_json_error(json, "the request has a key that is not known");
    }
    return rk_json_check_end(json);
}

static rk_status read_request(rk_span body, request *r) {
    RK_AUTO(rk_json_release) rk_json json = {0};
    if (body.n_bytes == 0) return RK_OK; /* as Triton's clients send it */
    rk_json_begin_document(&json, body, MAX_DEPTH);
    return read_request_keys(&json, r);
}

static void begin_index_entry(const rk_served_model *model, bool *first, rk_buffer *out) {
    rk_buffer_printf(out, "%s{\"name\": \"%s\", ", *first ? "" : ", ", model->entry->name);
    *first = false;
}

/* Under the model's mutex. */
static void write_labels(const rk_served_model *model, int64_t version, rk_buffer *out) {
    bool first = true;
    rk_buffer_append_text(out, ", \"labels\": [");
    for (int64_t i = 0; i < model->n_labels; i++) {
        if (model->labels[i].version != version) continue;
        if (!first) rk_buffer_append_text(out, ", ");
        rk_json_write_string_repaired(out, (rk_span){model->labels[i].name, strlen(model->labels[i].name)});
        first = false;
    }
    rk_buffer_append_text(out, "]}");
}

static void write_versions_of_model(rk_served_model *model, bool ready, bool *first, rk_buffer *out) {
    pthread_mutex_lock(&model->mutex);
    for (const rk_served_version *v = model->versions; v; v = v->next) {
        begin_index_entry(model, first, out);
        rk_buffer_printf(out, "\"version\": \"%lld\", \"state\": \"READY\", \"reason\": \"\", \"pinned\": %s",
                         (long long)v->number, model->pin == v->number ? "true" : "false");
        write_labels(model, v->number, out);
    }
    if (model->failed_path && !ready) {
        begin_index_entry(model, first, out);
        rk_buffer_printf(out, "\"version\": \"%lld\", \"state\": \"UNAVAILABLE\", \"reason\": ",
                         (long long)model->failed_number);
        rk_json_write_string_repaired(out, (rk_span){model->failure, strlen(model->failure)});
        rk_buffer_append_text(out, "}");
    } else if (!model->versions && !ready) {
        begin_index_entry(model, first, out);
        rk_buffer_append_text(out,
                              "\"version\": \"\", \"state\": \"UNAVAILABLE\", \"reason\": \"unloaded\"}");
    }
    pthread_mutex_unlock(&model->mutex);
}

static void write_index(const rk_repository *repository, bool ready, rk_buffer *out) {
    bool first = true;
    rk_buffer_append_text(out, "[");
    for (int64_t m = 0; m < repository->n_models; m++)
        write_versions_of_model(&repository->models[m], ready, &first, out);
    rk_buffer_append_text(out, "]\n");
}

static void write_version_change(const rk_served_model *model, const rk_version_change *change,
                                 rk_buffer *out) {
    rk_buffer_printf(out, "{\"name\": \"%s\", \"loaded\": [%s], \"unloaded\": [%s]}\n", model->entry->name,
                     change->loaded.n_bytes ? change->loaded.data : "",
                     change->unloaded.n_bytes ? change->unloaded.data : "");
}

static rk_status load_version(rk_served_model *model, const request *r, rk_version_change *change) {
    RK_TRY(rk_served_model_load(model, r->has_version ? &r->version : NULL, change));
    RK_TRY(rk_served_model_set_labels(model, r->labels, r->n_labels));
    RK_TRY(change->loaded.status);
    return change->unloaded.status;
}

static rk_status load_or_unload_model(rk_served_model *model, const request *r, bool loads, rk_buffer *out) {
    RK_AUTO(rk_version_change_release) rk_version_change change = {0};
    if (loads)
        RK_TRY(load_version(model, r, &change));
    else
        rk_served_model_unload(model, &change);
    write_version_change(model, &change, out);
    return out->status;
}

static rk_served_model *find_model(const rk_repository *repository, rk_span name) {
    for (int64_t m = 0; m < repository->n_models; m++)
        if (rk_span_equal(name, repository->models[m].entry->name)) return &repository->models[m];
    return NULL;
}

static rk_status answer_request(const rk_repository *repository, const char *url, rk_span body,
                                rk_buffer *out) {
    static const char models[] = "/v2/repository/models/";
    RK_AUTO(release_request) request r = {0};
    if (strcmp(url, "/v2/repository/index") == 0) {
        RK_TRY(read_request(body, &r));
        write_index(repository, r.ready, out);
        return out->status;
    }
    bool names_model = strncmp(url, models, strlen(models)) == 0;
    const char *name = names_model ? url + strlen(models) : "", *verb = name + strcspn(name, "/");
    bool loads = strcmp(verb, "/load") == 0;
    RK_FAIL_IF(!loads && strcmp(verb, "/unload") != 0, RK_NOT_FOUND,
               "there is no such resource\nhint: /v2/repository/index, /v2/repository/models/M/load, "
               "/v2/repository/models/M/unload");
    rk_served_model *model = find_model(repository, (rk_span){name, (size_t)(verb - name)});
    RK_FAIL_IF(!model, RK_NOT_FOUND, "there is no such model");
    RK_TRY(read_request(body, &r));
    return load_or_unload_model(model, &r, loads, out);
}

int rk_repository_answer(const rk_repository *repository, const char *url, rk_span body, rk_buffer *out) {
    rk_status status = answer_request(repository, url, body, out);
    if (status == RK_OK) return 200;
    const char *reason = rk_last_error();
    rk_buffer_clear(out);
    rk_buffer_append_text(out, "{\"error\": ");
    rk_json_write_string_repaired(out, (rk_span){reason, strlen(reason)});
    rk_buffer_append_text(out, "}\n");
    return status == RK_NOT_FOUND ? 404 : status == RK_NO_MEMORY || status == RK_UNAVAILABLE ? 503 : 400;
}
