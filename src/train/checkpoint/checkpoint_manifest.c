/* What a checkpoint says of itself: its files and the run's progress. docs/formats/checkpoint.md. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "train/checkpoint/checkpoint.h"

void rk_manifest_release(rk_manifest *m) {
    for (size_t i = 0; i < m->n_files; i++) rk_free(m->files[i].name);
    rk_free(m->files);
    rk_input_fingerprints_release(&m->inputs);
    RK_FREE_ALL(m->metric, m->plateau_metric);
    *m = (rk_manifest){0};
}

/* Of counts and positions: sums and products of some of them stay in range, and a double holds each. */
#define MOST ((int64_t)1000000000000000)

static rk_status invalid_value_error(const char *key) {
    return rk_error(RK_BAD_DATA, "invalid value of '%s'", key);
}

static rk_status read_integer(json_t *object, const char *key, int64_t most, int64_t *out) {
    json_t *value = json_object_get(object, key);
    int64_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n > most) return invalid_value_error(key);
    *out = n;
    return RK_OK;
}

static rk_status read_number(json_t *object, const char *key, double most, double *out) {
    json_t *value = json_object_get(object, key);
    double x = json_number_value(value);
    if (!json_is_number(value) || !isfinite(x) || x > most) return invalid_value_error(key);
    *out = x;
    return RK_OK;
}

/* null: undefined. */
static rk_status read_metric(json_t *object, const char *key, double *out) {
    *out = NAN;
    return json_is_null(json_object_get(object, key)) ? RK_OK : read_number(object, key, INFINITY, out);
}

/* What older ones do not say stays as it is. */
static rk_status read_bool(json_t *object, const char *key, bool *out) {
    json_t *value = json_object_get(object, key);
    if (value && !json_is_boolean(value)) return invalid_value_error(key);
    if (value) *out = json_is_true(value);
    return RK_OK;
}

static rk_status read_string(json_t *object, const char *key, char **out) {
    json_t *value = json_object_get(object, key);
    if (value && !json_is_string(value)) return invalid_value_error(key);
    return value ? rk_strdup(json_string_value(value), out) : RK_OK;
}

static rk_status read_run_counts(json_t *p, rk_progress *out) {
    rk_early_stopping *stopping = &out->stopping;
    RK_TRY(read_integer(p, "step", MOST, &out->step));
    RK_TRY(read_integer(p, "epoch", MOST, &out->position.epoch));
    RK_TRY(read_integer(p, "row", MOST, &out->position.row));
    RK_TRY(read_integer(p, "best_step", out->step, &stopping->best_step));
    if (json_object_get(p, "last_step"))
        RK_TRY(
            read_integer(p, "last_step", out->step, &stopping->last_step)); /* which older ones do not say */
    RK_TRY(read_integer(p, "bad", MOST, &stopping->bad));
    RK_TRY(read_integer(p, "plateau_bad", MOST, &stopping->plateau_bad));
    RK_TRY(read_integer(p, "n_evaluations", MOST, &stopping->n_evaluations));
    RK_TRY(read_integer(p, "loss_steps", out->step, &out->loss_steps));
    RK_TRY(read_integer(p, "log_bytes", MOST, &out->log_bytes));
    return read_integer(p, "events_bytes", MOST, &out->events_bytes);
}

static rk_status read_progress(json_t *p, rk_manifest *m) {
    rk_progress *out = &m->progress;
    RK_TRY(read_run_counts(p, out));
    RK_TRY(read_metric(p, "best", &out->stopping.best));
    out->stopping.patience_best = out->stopping.best; /* as older ones have it */
    if (json_object_get(p, "patience_best"))
        RK_TRY(read_metric(p, "patience_best", &out->stopping.patience_best));
    RK_TRY(read_metric(p, "plateau_best", &out->stopping.plateau_best));
    RK_TRY(read_number(p, "loss_sum", INFINITY, &out->loss_sum));
    RK_TRY(read_number(p, "learning_rate_factor", 1, &out->stopping.learning_rate_factor));
    if (out->stopping.learning_rate_factor < 0) return invalid_value_error("learning_rate_factor");
    RK_TRY(read_bool(p, "finished", &out->finished));
    m->keeps_best = true;
    RK_TRY(read_bool(p, "keep_best", &m->keeps_best));
    RK_TRY(read_string(p, "metric", &m->metric));
    return read_string(p, "plateau_metric", &m->plateau_metric);
}

static rk_status read_file_entry(json_t *entry, rk_manifest *m) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    int64_t crc, n_bytes;
    RK_FAIL_IF(!name || strstr(name, "..") || name[0] == '/', RK_BAD_DATA,
               "the manifest has an invalid file name");
    RK_TRY(read_integer(entry, "crc32c", UINT32_MAX, &crc));
    RK_TRY(read_integer(entry, "bytes", INT64_MAX, &n_bytes));
    struct rk_manifest_file *file = &m->files[m->n_files++];
    file->crc32c = (uint32_t)crc;
    file->n_bytes = (uint64_t)n_bytes;
    return rk_strdup(name, &file->name);
}

static rk_status read_file_entries(json_t *files, rk_manifest *m) {
    size_t n = json_array_size(files);
    if (n == 0) return invalid_value_error("files");
    RK_TRY(rk_alloc(n, sizeof *m->files, &m->files));
    for (size_t i = 0; i < n; i++) RK_TRY(read_file_entry(json_array_get(files, i), m));
    return RK_OK;
}

static rk_status read_manifest_json(json_t *root, rk_manifest *m) {
    int64_t version;
    RK_TRY(read_integer(root, "version", INT64_MAX, &version));
    RK_FAIL_IF(version != 1, RK_UNSUPPORTED, "version %lld; this program reads version 1",
               (long long)version);
    RK_TRY(read_progress(json_object_get(root, "progress"), m));
    json_t *data = json_object_get(root, "data"); /* which older ones do not say */
    if (data) RK_TRY(rk_input_fingerprints_from_json(data, &m->inputs));
    m->has_inputs = data != NULL;
    return read_file_entries(json_object_get(root, "files"), m);
}

static rk_status parse_manifest(char *text, rk_manifest *m) {
    char *line = strchr(text, '\n');
    uint32_t crc;
    /* Whole to the last line end. */
    bool has_sum = line && strlen(line) == sizeof "\ncrc32c 01234567\n" - 1 &&
                   line[strlen(line) - 1] == '\n' && sscanf(line + 1, "crc32c %8" SCNx32, &crc) == 1;
    RK_FAIL_IF(!has_sum || crc != rk_crc32c(0, text, (size_t)(line - text)), RK_BAD_DATA,
               "its checksum does not match");
    *line = 0;
    json_error_t error;
    json_auto_t *root = json_loads(text, 0, &error);
    RK_FAIL_IF(!root, RK_BAD_DATA, "it is not JSON: %s", error.text);
    return read_manifest_json(root, m);
}

rk_status rk_manifest_read(const char *path, rk_manifest *out) {
    RK_AUTOFREE char *file = NULL, *text = NULL;
    RK_AUTO(rk_manifest_release) rk_manifest m = {0};
    size_t n_bytes;
    RK_TRY(rk_path_join(path, "manifest.json", &file));
    RK_TRY(rk_file_read(file, &text, &n_bytes));
    rk_status status = parse_manifest(text, &m);
    if (status == RK_OK && !rk_checkpoint_is_of_step(path, m.progress.step))
        status = rk_error(RK_BAD_DATA, "its manifest is of step %lld", (long long)m.progress.step);
    if (status != RK_OK) return rk_error_context(status, "'%s'", file);
    *out = m;
    m = (rk_manifest){0};
    return RK_OK;
}
