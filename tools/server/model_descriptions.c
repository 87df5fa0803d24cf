#include "server/model_descriptions.h"

#include <string.h>

#include <reckon/version.h>

#include "base/memory.h"
#include "base/text/shorten_paths.h"
#include "format/json_writer.h"

void rk_describe_failure(const rk_served_model *model, rk_buffer *out) {
    rk_shorten_paths(model->failure, model->entry->path, out);
}

static void write_version_state(rk_buffer *out, long long number, const char *state, const char *code,
                                rk_span message, bool first) {
    rk_buffer_printf(out,
                     "%s{\"version\": \"%lld\", \"state\": \"%s\", \"status\": {\"error_code\": \"%s\", "
                     "\"error_message\": ",
                     first ? "" : ", ", number, state, code);
    rk_json_write_string_repaired(out, message);
    rk_buffer_append_text(out, "}}");
}

static void write_failure(const rk_served_model *model, bool first, rk_buffer *out) {
    RK_AUTO(rk_buffer_release) rk_buffer reason = {0};
    rk_describe_failure(model, &reason);
    if (reason.status != RK_OK) out->status = reason.status;
    write_version_state(out, (long long)model->failed_number, "END", "UNKNOWN",
                        (rk_span){reason.n_bytes ? reason.data : "", reason.n_bytes}, first);
}

bool rk_describe_status(rk_served_model *model, const int64_t *only, rk_buffer *out) {
    bool first = true;
    rk_buffer_append_text(out, "{\"model_version_status\": [");
    pthread_mutex_lock(&model->mutex);
    for (const rk_served_version *v = model->versions; v; v = v->next) {
        if (only && v->number != *only) continue;
        write_version_state(out, (long long)v->number, "AVAILABLE", "OK", (rk_span){"", 0}, first);
        first = false;
    }
    if (model->failed_path && (!only || model->failed_number == *only)) {
        write_failure(model, first, out);
        first = false;
    }
    pthread_mutex_unlock(&model->mutex);
    rk_buffer_append_text(out, "]}\n");
    return !first;
}

/* What both protocols call a column's type, by its Arrow format. */
typedef struct type_names {
    const char *v1, *v2;
} type_names;
static const type_names texts = {"DT_STRING", "BYTES"}, floats = {"DT_FLOAT", "FP32"};
static type_names type_of_column(const struct ArrowSchema *column) {
    const char *format = column->n_children ? column->children[0]->format : column->format;
    switch (*format) {
        case 'l':
            return (type_names){"DT_INT64", "INT64"};
        case 'f':
            return floats;
        case 'g':
            return (type_names){"DT_DOUBLE", "FP64"};
        default:
            return texts;
    }
}

static void write_name(rk_buffer *out, const char *name) {
    rk_json_write_string_repaired(out, (rk_span){name, strlen(name)});
}

/* Tensors have a row each, or, of found items, k of a row. */
typedef void tensor_writer(rk_buffer *out, const char *name, type_names type, bool is_matrix, bool first);

static void write_tensor_v1(rk_buffer *out, const char *name, type_names type, bool is_matrix, bool first) {
    static const char any[] = "{\"size\": \"-1\", \"name\": \"\"}";
    rk_buffer_append_text(out, first ? "" : ", ");
    write_name(out, name);
    rk_buffer_printf(
        out,
        ": {\"dtype\": \"%s\", \"tensor_shape\": {\"dim\": [%s%s%s], \"unknown_rank\": false}, \"name\": ",
        type.v1, any, is_matrix ? ", " : "", is_matrix ? any : "");
    write_name(out, name);
    rk_buffer_append_text(out, "}");
}

static void write_tensor_v2(rk_buffer *out, const char *name, type_names type, bool is_matrix, bool first) {
    rk_buffer_append_text(out, first ? "{\"name\": " : ", {\"name\": ");
    write_name(out, name);
    rk_buffer_printf(out, ", \"datatype\": \"%s\", \"shape\": [-1%s]}", type.v2, is_matrix ? ", -1" : "");
}

static void write_inputs(const rk_served_version *v, tensor_writer *write, rk_buffer *out) {
    bool first = true;
    for (int64_t c = 0; c < v->n_inputs; c++) {
        if (!rk_served_version_requires_column(v, c)) continue;
        write(out, v->columns.children[c]->name, type_of_column(v->columns.children[c]), false, first);
        first = false;
    }
}

static void write_outputs(const rk_served_version *v, tensor_writer *write, rk_buffer *out) {
    if (v->catalog) {
        write(out, "items", texts, true, true);
        write(out, "scores", floats, true, false);
        return;
    }
    for (int32_t t = 0; t < v->n_tasks; t++) write(out, v->tasks[t].name, floats, false, t == 0);
}

/* Those of one signature in v1: of all tasks, or of one of several. */
static void write_signature(const rk_served_version *v, const char *name, int32_t task, rk_buffer *out) {
    write_name(out, name);
    rk_buffer_append_text(out, ": {\"inputs\": {");
    write_inputs(v, write_tensor_v1, out);
    rk_buffer_append_text(out, "}, \"outputs\": {");
    if (task < 0)
        write_outputs(v, write_tensor_v1, out);
    else
        write_tensor_v1(out, v->tasks[task].name, floats, false, true);
    rk_buffer_printf(out, "}, \"method_name\": \"%s\"}",
                     v->catalog ? "reckon/retrieve" : "tensorflow/serving/predict");
}

void rk_describe_metadata(const rk_served_version *v, rk_buffer *out) {
    rk_buffer_printf(out,
                     "{\"model_spec\": {\"name\": \"%s\", \"signature_name\": \"\", \"version\": \"%lld\"}, "
                     "\"metadata\": {\"signature_def\": {\"signature_def\": {",
                     v->entry->name, (long long)v->number);
    write_signature(v, "serving_default", -1, out);
    for (int32_t t = 0; v->n_tasks > 1 && !v->catalog && t < v->n_tasks; t++) {
        rk_buffer_append_text(out, ", ");
        write_signature(v, v->tasks[t].name, t, out);
    }
    rk_buffer_append_text(out, "}}}}\n");
}

void rk_describe_server(rk_buffer *out) {
    rk_buffer_printf(
        out, "{\"name\": \"reckon\", \"version\": \"%s\", \"extensions\": [\"binary_tensor_data\"]}\n",
        rk_version());
}

void rk_describe_model_ready(const rk_served_model *model, bool ready, rk_buffer *out) {
    rk_buffer_printf(out, "{\"name\": \"%s\", \"ready\": %s}\n", model->entry->name,
                     ready ? "true" : "false");
}

void rk_describe_model(rk_served_model *model, const rk_served_version *v, rk_buffer *out) {
    rk_buffer_printf(out, "{\"name\": \"%s\", \"versions\": [", model->entry->name);
    pthread_mutex_lock(&model->mutex);
    for (const rk_served_version *other = model->versions; other; other = other->next)
        rk_buffer_printf(out, "%s\"%lld\"", other == model->versions ? "" : ", ", (long long)other->number);
    pthread_mutex_unlock(&model->mutex);
    rk_buffer_append_text(out, "], \"platform\": \"reckon\", \"inputs\": [");
    write_inputs(v, write_tensor_v2, out);
    rk_buffer_append_text(out, "], \"outputs\": [");
    write_outputs(v, write_tensor_v2, out);
    rk_buffer_append_text(out, "]}\n");
}
