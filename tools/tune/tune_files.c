/* The files of a search: tune.json, from which it resumes, tune.csv and tune.svg. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "tune/tune_internal.h"

static json_t *json_number_or_null(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *trial_to_json(const rk_tune *t, const rk_trial *trial) {
    json_t *values = json_object(), *object = json_object();
    for (size_t k = 0; k < t->space.n; k++)
        json_object_set_new(values, t->space.keys[k].key, json_string(trial->values[k]));
    json_object_set_new(object, "name", json_string(trial->name));
    json_object_set_new(object, "settings", values);
    json_object_set_new(object, "state", json_string(rk_trial_state_names[trial->state]));
    json_object_set_new(object, "best", json_number_or_null(trial->best));
    json_object_set_new(object, "step", json_number_or_null(trial->step));
    json_object_set_new(object, "seconds", json_number_or_null(trial->seconds));
    if (trial->error) json_object_set_new(object, "error", json_string(trial->error));
    return object;
}

static rk_status write_json(const rk_tune *t, rk_buffer *out) {
    json_t *trials = json_array();
    json_auto_t *object = json_object();
    for (int64_t i = 0; i < t->n_trials; i++) json_array_append_new(trials, trial_to_json(t, &t->trials[i]));
    json_object_set_new(object, "run", json_string(t->path));
    json_object_set_new(object, "config_crc32c", json_string(t->fingerprint));
    json_object_set_new(object, "metric", json_string(t->metric));
    json_object_set_new(object, "larger_is_better", json_boolean(t->larger_is_better));
    json_object_set_new(object, "seed", json_integer((json_int_t)t->options.seed));
    json_object_set_new(object, "trials", trials);
    char *text = json_dumps(object, JSON_INDENT(2));
    if (!text) return RK_NO_MEMORY_ERROR(0);
    rk_buffer_append_text(out, text);
    rk_buffer_append_text(out, "\n");
    free(text);
    return out->status;
}

/* A field of a csv line, quoted where it must be. */
static void write_csv_field(const char *text, char before, rk_buffer *out) {
    if (before) rk_buffer_append_u8(out, (uint8_t)before);
    if (!strpbrk(text, ",\"\n")) {
        rk_buffer_append_text(out, text);
        return;
    }
    rk_buffer_append_u8(out, '"');
    for (const char *at = text; *at; at++) {
        if (*at == '"') rk_buffer_append_u8(out, '"');
        rk_buffer_append_u8(out, (uint8_t)*at);
    }
    rk_buffer_append_u8(out, '"');
}

static void write_csv_number(double value, const char *format, rk_buffer *out) {
    char text[64] = "";
    if (isfinite(value)) snprintf(text, sizeof text, format, value);
    write_csv_field(text, ',', out);
}

static rk_status write_csv(const rk_tune *t, rk_buffer *out) {
    rk_buffer_append_text(out, "trial,state");
    for (size_t k = 0; k < t->space.n; k++) write_csv_field(t->space.keys[k].key, ',', out);
    write_csv_field(t->metric, ',', out);
    rk_buffer_append_text(out, ",step,seconds,error\n");
    for (int64_t i = 0; i < t->n_trials; i++) {
        const rk_trial *trial = &t->trials[i];
        rk_buffer_printf(out, "%s,%s", trial->name, rk_trial_state_names[trial->state]);
        for (size_t k = 0; k < t->space.n; k++) write_csv_field(trial->values[k], ',', out);
        write_csv_number(trial->best, "%.9g", out);
        write_csv_number(trial->step, "%.0f", out);
        write_csv_number(trial->state == RK_TRIAL_waiting ? NAN : trial->seconds, "%.1f", out);
        write_csv_field(trial->error ? trial->error : "", ',', out);
        rk_buffer_append_text(out, "\n");
    }
    return out->status;
}

static rk_status path_in_output(const rk_tune *t, const char *name, char **out) {
    return rk_path_join(t->output, name, out);
}

static rk_status write_file(const rk_tune *t, const char *name,
                            rk_status (*make)(const rk_tune *, rk_buffer *)) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    RK_AUTOFREE char *path = NULL;
    RK_TRY(make(t, &text));
    RK_TRY(path_in_output(t, name, &path));
    return rk_file_write(path, text.data, text.n_bytes);
}

rk_status rk_tune_write_files(const rk_tune *t) {
    RK_TRY(write_file(t, "tune.csv", write_csv));
    RK_TRY(write_file(t, "tune.svg", rk_tune_draw_svg));
    return write_file(t, "tune.json", write_json); /* last: it is what a search goes on from */
}

static bool json_text_equals(json_t *object, const char *key, const char *text) {
    const char *found = json_string_value(json_object_get(object, key));
    return found && strcmp(found, text) == 0;
}

static bool has_same_settings(const rk_tune *t, const rk_trial *trial, json_t *record) {
    json_t *settings = json_object_get(record, "settings");
    for (size_t k = 0; k < t->space.n; k++)
        if (!json_text_equals(settings, t->space.keys[k].key, trial->values[k])) return false;
    return json_object_size(settings) == t->space.n;
}

static double get_json_number_or_nan(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static rk_status read_trial(rk_trial *trial, json_t *record) {
    bool done = json_text_equals(record, "state", rk_trial_state_names[RK_TRIAL_done]);
    if (!done && !json_text_equals(record, "state", rk_trial_state_names[RK_TRIAL_failed])) return RK_OK;
    trial->state = done ? RK_TRIAL_done : RK_TRIAL_failed;
    trial->best = get_json_number_or_nan(record, "best");
    trial->step = get_json_number_or_nan(record, "step");
    trial->seconds = get_json_number_or_nan(record, "seconds");
    const char *error = json_string_value(json_object_get(record, "error"));
    return error ? rk_strdup(error, &trial->error) : RK_OK;
}

static rk_status read_trials(rk_tune *t, json_t *root, const char *path) {
    if (!json_text_equals(root, "config_crc32c", t->fingerprint) ||
        !json_text_equals(root, "metric", t->metric))
        return rk_error_hint(rk_error(RK_CONFIG, "'%s' belongs to a search with another configuration", path),
                             "use the run file, --set and --metric as they were, or choose another --output");
    json_t *trials = json_object_get(root, "trials");
    for (int64_t i = 0; i < t->n_trials && (size_t)i < json_array_size(trials); i++) {
        json_t *record = json_array_get(trials, (size_t)i);
        if (!has_same_settings(t, &t->trials[i], record))
            return rk_error_hint(rk_error(RK_CONFIG, "'%s': %s had other settings than '%s'", path,
                                          t->trials[i].name, t->trials[i].settings),
                                 "use the same grids, ranges and --seed, or choose another --output");
        RK_TRY(read_trial(&t->trials[i], record));
    }
    return RK_OK;
}

rk_status rk_tune_read_finished_trials(rk_tune *t) {
    RK_AUTOFREE char *path = NULL, *text = NULL;
    size_t n_bytes;
    json_error_t error;
    RK_TRY(path_in_output(t, "tune.json", &path));
    if (!rk_file_exists(path)) return RK_OK;
    if (!t->options.resume)
        return rk_error_hint(rk_error(RK_CONFIG, "'%s' already holds a search", t->output),
                             "continue it with --resume, or choose another --output");
    RK_TRY(rk_file_read(path, &text, &n_bytes));
    json_auto_t *root = json_loadb(text, n_bytes, 0, &error);
    return root ? read_trials(t, root, path)
                : rk_error(RK_BAD_DATA, "'%s', line %d: it is not JSON: %s", path, error.line, error.text);
}
