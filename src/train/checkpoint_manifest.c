/* What a checkpoint says of itself: its files and the run's progress. docs/formats/checkpoint.md. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "train/checkpoint_parts.h"

void rk_manifest_release(rk_manifest *m) {
    rk_free_strings(m->files, m->n_files);
    rk_free(m->metric);
    rk_free(m->plateau_metric);
    rk_free(m->crcs);
    rk_free(m->bytes);
    *m = (rk_manifest){0};
}

static int64_t integer(json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}
static double number(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static rk_status read_text(json_t *object, const char *key, char **out) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? rk_strdup(text, out) : RK_OK;
}

static void read_progress(json_t *p, rk_progress *out) {
    *out = (rk_progress){
        .step = integer(p, "step"),
        .position = {integer(p, "epoch"), integer(p, "row")},
        .policy = {number(p, "best"), number(p, "plateau_best"), integer(p, "best_step"), integer(p, "last_step"), integer(p, "bad"), integer(p, "plateau_bad"), number(p, "learning_rate_factor"),
                   integer(p, "n_evaluations")},
        .loss_sum = number(p, "loss_sum"),
        .loss_steps = integer(p, "loss_steps"),
        .log_bytes = integer(p, "log_bytes"),
        .events_bytes = integer(p, "events_bytes"),
        .finished = json_is_true(json_object_get(p, "finished")),
    };
}

static rk_status read_files(json_t *files, rk_manifest *m) {
    size_t n = json_array_size(files);
    RK_TRY(rk_alloc(n, sizeof *m->files, &m->files));
    RK_TRY(rk_alloc(n, sizeof *m->crcs, &m->crcs));
    RK_TRY(rk_alloc(n, sizeof *m->bytes, &m->bytes));
    for (size_t i = 0; i < n; i++) {
        json_t *entry = json_array_get(files, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        RK_FAIL_IF(!name || strstr(name, "..") || name[0] == '/', RK_BAD_DATA, "the manifest names a file that cannot be");
        RK_TRY(rk_strdup(name, &m->files[i]));
        m->n_files = i + 1;
        m->crcs[i] = (uint32_t)integer(entry, "crc32c");
        m->bytes[i] = (uint64_t)integer(entry, "bytes");
    }
    return RK_OK;
}

static rk_status parse_manifest(char *text, rk_manifest *m) {
    char *line = strchr(text, '\n');
    uint32_t crc;
    /* Whole to the last line end. */
    RK_FAIL_IF(!line || strlen(line) != sizeof "\ncrc32c 01234567\n" - 1 || line[strlen(line) - 1] != '\n' || sscanf(line + 1, "crc32c %8" SCNx32, &crc) != 1 || crc != rk_crc32c(0, text, (size_t)(line - text)), RK_BAD_DATA, "its checksum does not match");
    *line = 0;
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);
    RK_FAIL_IF(!root, RK_BAD_DATA, "it is not JSON: %s", error.text);
    rk_status status = RK_OK;
    if (integer(root, "version") != 1) status = rk_error(RK_UNSUPPORTED, "its version is %lld; this program reads 1", (long long)integer(root, "version"));
    json_t *progress = json_object_get(root, "progress");
    read_progress(progress, &m->progress);
    m->keeps_best = !json_is_false(json_object_get(progress, "keep_best")); /* which older ones do not say */
    if (status == RK_OK) status = read_text(progress, "metric", &m->metric);
    if (status == RK_OK) status = read_text(progress, "plateau_metric", &m->plateau_metric);
    if (status == RK_OK) status = read_files(json_object_get(root, "files"), m);
    json_decref(root);
    return status;
}

rk_status rk_manifest_read(const char *path, rk_manifest *out) {
    char *file, *text;
    size_t n_bytes;
    RK_TRY(rk_path_join(path, "manifest.json", &file));
    rk_status status = rk_file_read(file, &text, &n_bytes);
    if (status == RK_OK) {
        rk_manifest m = {0};
        status = parse_manifest(text, &m);
        rk_free(text);
        if (status == RK_OK)
            *out = m;
        else
            rk_manifest_release(&m);
        if (status != RK_OK) status = rk_error_context(status, "'%s'", file);
    }
    rk_free(file);
    return status;
}
