#include "server/openapi.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reckon/version.h>

#include "server/assets.h"

static const char of_model[] = "{model}";

/* Of jansson's functions, which say no more: memory ran out. */
#define SET(call)                                                                     \
    do {                                                                              \
        if ((call) != 0) return rk_error(RK_NO_MEMORY, "no memory for the document"); \
    } while (0)

static json_t *schema_reference(const char *kind, const char *name) {
    return json_pack("{s:s+++}", "$ref", "#/components/", kind, "/", name);
}

static rk_status add_parameter(json_t *item, const char *name) {
    json_t *parameters = json_object_get(item, "parameters");
    if (!parameters) {
        parameters = json_array();
        SET(json_object_set_new(item, "parameters", parameters));
    }
    SET(json_array_append_new(parameters, schema_reference("parameters", name)));
    return RK_OK;
}

/* What may come in place of an operation's answer; it says itself where that looks otherwise. */
static rk_status add_failure_responses(json_t *operation, bool has_body, bool has_model) {
    static const struct failure {
        const char *code;
        bool of_body, of_model;
    } failures[] = {{"400", true, false}, {"401", false, false}, {"404", false, true},  {"413", true, false},
                    {"415", true, false}, {"429", true, false},  {"503", false, false}, {"504", true, false}};
    json_t *responses = json_object_get(operation, "responses");
    bool is_open = json_object_get(operation, "security") != NULL; /* without a token, that is */
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        const struct failure *f = &failures[i];
        if ((f->of_body && !has_body) || (f->of_model && !has_model)) continue;
        if (json_object_get(responses, f->code) || (is_open && strcmp(f->code, "401") == 0)) continue;
        SET(json_object_set_new(responses, f->code, schema_reference("responses", f->code)));
    }
    return RK_OK;
}

static json_t *find_operation(const json_t *item) {
    json_t *get = json_object_get(item, "get");
    return get ? get : json_object_get(item, "post");
}

/* The form of a model's path that names a version or a label as well. */
static rk_status add_path_form(json_t *paths, const char *path, const json_t *item, const char *what,
                               const char *suffix) {
    size_t n_before = strlen(path) - strlen(strstr(path, of_model)) + strlen(of_model);
    char longer[200];
    snprintf(longer, sizeof longer, "%.*s/%ss/{%s}%s", (int)n_before, path, what, what, path + n_before);
    json_t *copy = json_deep_copy(item), *operation = find_operation(copy);
    SET(json_object_set_new(paths, longer, copy));
    RK_TRY(add_parameter(copy, what));
    const char *id = json_string_value(json_object_get(operation, "operationId"));
    SET(json_object_set_new(operation, "operationId", json_sprintf("%s%s", id, suffix)));
    return RK_OK;
}

static rk_status add_path(json_t *paths, const char *path, json_t *item) {
    bool has_model = strstr(path, of_model) != NULL, is_v1 = strncmp(path, "/v1/", 4) == 0;
    SET(json_object_set(paths, path, item));
    RK_TRY(add_parameter(item, "requestId"));
    RK_TRY(add_failure_responses(find_operation(item), json_object_get(item, "post") != NULL, has_model));
    if (!has_model) return RK_OK;
    RK_TRY(add_parameter(item, "model"));
    RK_TRY(add_path_form(paths, path, item, "version", "OfVersion"));
    return is_v1 ? add_path_form(paths, path, item, "label", "OfLabel") : RK_OK;
}

/* Every answer has its request's id. */
static rk_status add_request_id_headers(json_t *responses) {
    const char *name;
    json_t *response;
    json_object_foreach(responses, name, response) {
        json_t *headers = json_object_get(response, "headers");
        if (!headers) {
            headers = json_object();
            SET(json_object_set_new(response, "headers", headers));
        }
        SET(json_object_set_new(headers, "X-Request-Id", schema_reference("headers", "requestId")));
    }
    return RK_OK;
}

static rk_status complete_document(json_t *document) {
    json_t *paths = json_object(), *item, *info = json_object_get(document, "info");
    json_t *once = json_incref(json_object_get(document, "paths"));
    const char *path;
    rk_status status = RK_OK;
    if (json_object_set_new(document, "paths", paths) != 0 ||
        json_object_set_new(info, "version", json_string(rk_version())) != 0)
        status = rk_error(RK_NO_MEMORY, "no memory for the document");
    if (status == RK_OK)
        status =
            add_request_id_headers(json_object_get(json_object_get(document, "components"), "responses"));
    json_object_foreach(once, path, item) if (status == RK_OK) status = add_path(paths, path, item);
    json_decref(once);
    return status;
}

rk_status rk_write_openapi(rk_buffer *out) {
    json_auto_t *document = json_loadb((const char *)rk_asset_openapi, rk_asset_openapi_bytes, 0, NULL);
    if (!document) return rk_error(RK_NO_MEMORY, "no memory for the document");
    RK_TRY(complete_document(document));
    char *text = json_dumps(document, JSON_INDENT(2));
    if (!text) return rk_error(RK_NO_MEMORY, "no memory for the document");
    rk_buffer_append_text(out, text);
    rk_buffer_append_text(out, "\n");
    free(text);
    return out->status;
}
