#include "report/run_metrics_log.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/find_text.h"

void rk_run_metrics_log_release(rk_run_metrics_log *record) {
    for (size_t i = 0; i < record->n; i++) {
        RK_FREE_ALL(record->curves[i].name, record->curves[i].steps, record->curves[i].values);
    }
    rk_free(record->curves);
    *record = (rk_run_metrics_log){0};
}

const rk_curve *rk_run_metrics_log_find_curve(const rk_run_metrics_log *record, const char *name) {
    return RK_FIND_BY(name, name, record->curves, record->n);
}

int64_t rk_curve_find_best(const rk_curve *curve, bool larger_is_better) {
    int64_t best = -1;
    for (size_t i = 0; i < curve->n; i++) {
        if (!isfinite(curve->values[i])) continue;
        if (best < 0 || (larger_is_better ? curve->values[i] > curve->values[best]
                                          : curve->values[i] < curve->values[best]))
            best = (int64_t)i;
    }
    return best;
}

static rk_status find_or_add_curve(rk_run_metrics_log *record, const char *name, rk_curve **out) {
    rk_curve *found = (rk_curve *)(size_t)rk_run_metrics_log_find_curve(record, name);
    if (!found) {
        RK_TRY(rk_reserve_one_more(&record->curves, record->n, &record->capacity, sizeof *record->curves));
        found = &record->curves[record->n];
        *found = (rk_curve){0};
        RK_TRY(rk_strdup(name, &found->name));
        record->n++;
    }
    *out = found;
    return RK_OK;
}

static rk_status add_value_to_curve(rk_run_metrics_log *record, const char *name, double step, double value) {
    rk_curve *curve;
    RK_TRY(find_or_add_curve(record, name, &curve));
    RK_TRY(rk_reserve_one_more(&curve->steps, curve->n, &curve->steps_capacity, sizeof *curve->steps));
    RK_TRY(rk_reserve_one_more(&curve->values, curve->n, &curve->values_capacity, sizeof *curve->values));
    curve->steps[curve->n] = step;
    curve->values[curve->n++] = value;
    return RK_OK;
}

static bool is_measured_value(const char *key, json_t *value) {
    return strcmp(key, "step") != 0 && (json_is_number(value) || json_is_null(value));
}

static rk_status add_log_entry(rk_run_metrics_log *record, json_t *object) {
    const char *kind = json_string_value(json_object_get(object, "kind"));
    json_t *step = json_object_get(object, "step");
    RK_FAIL_IF(!kind || !json_is_integer(step), RK_BAD_DATA, "'kind' or 'step' is missing");
    const char *key;
    json_t *value;
    RK_AUTO(rk_buffer_release) rk_buffer name = {0};
    json_object_foreach(object, key, value) {
        if (!is_measured_value(key, value)) continue;
        rk_buffer_clear(&name);
        rk_buffer_printf(&name, "%s/%s", kind, key);
        RK_TRY(name.status);
        RK_TRY(add_value_to_curve(record, name.data, (double)json_integer_value(step),
                                  json_is_null(value) ? NAN : json_number_value(value)));
    }
    return RK_OK;
}

static rk_status read_log_line(rk_run_metrics_log *record, const char *line, size_t n_bytes) {
    json_error_t error;
    json_auto_t *object = json_loadb(line, n_bytes, 0, &error);
    RK_FAIL_IF(!object, RK_BAD_DATA, "it is not JSON: %s", error.text);
    return json_is_object(object) ? add_log_entry(record, object)
                                  : rk_error(RK_BAD_DATA, "it is not a JSON object");
}

static rk_status read_log_lines(const char *text, const char *path, rk_run_metrics_log *record) {
    long long number = 1;
    for (const char *at = text; *at; number++) {
        const char *end = strchrnul(at, '\n');
        rk_status status = read_log_line(record, at, (size_t)(end - at));
        if (status == RK_BAD_DATA) {
            rk_error_context(status, "'%s', line %lld", path, number);
            return rk_error_hint(status,
                                 "the run's log is damaged there; 'reckon train --resume' rewrites it from "
                                 "the last checkpoint on");
        }
        RK_TRY(status);
        at = *end ? end + 1 : end;
    }
    return RK_OK;
}

rk_status rk_run_metrics_log_read(const char *directory, rk_run_metrics_log *out) {
    RK_AUTOFREE char *path = NULL, *text = NULL;
    RK_AUTO(rk_run_metrics_log_release) rk_run_metrics_log record = {0};
    size_t n_bytes;
    RK_TRY(rk_path_join(directory, "metrics.jsonl", &path));
    if (!rk_file_exists(path))
        return rk_error_hint(
            rk_file_exists(directory)
                ? rk_error(RK_NOT_FOUND, "'%s' is not a run's directory: it has no metrics.jsonl", directory)
                : rk_error(RK_NOT_FOUND, "there is no directory '%s'", directory),
            "give the directory that 'reckon train' wrote: its train.output");
    RK_TRY(rk_file_read(path, &text, &n_bytes));
    RK_TRY(read_log_lines(text, path, &record));
    *out = record;
    record = (rk_run_metrics_log){0};
    return RK_OK;
}
