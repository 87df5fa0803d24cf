#include "server/version_list.h"

#include <stdlib.h>
#include <string.h>

#include <reckon/checkpoint.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"

void rk_version_list_release(rk_version_list *list) {
    for (size_t i = 0; i < list->n; i++) rk_free(list->versions[i].path);
    rk_free(list->versions);
}

int64_t rk_parse_version_number(rk_span text) {
    int64_t number;
    for (size_t i = 0; i < text.n_bytes; i++)
        if (text.data[i] < '0' || text.data[i] > '9') return -1;
    return text.n_bytes > 0 && rk_parse_i64(text, &number) ? number : -1;
}

/* "step-000001725" is version 1725; a name of no such form: 0. */
static int64_t parse_step_of_checkpoint_name(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strncmp(name, "step-", 5) != 0) return 0;
    int64_t number = rk_parse_version_number((rk_span){name + 5, strlen(name + 5)});
    return number < 0 ? 0 : number;
}

static bool is_wanted_version_number(const rk_model_entry *e, int64_t pin, int64_t number) {
    if (pin >= 0) return number == pin;
    if (e->version_policy != RK_VERSIONS_SPECIFIC) return true;
    for (int64_t i = 0; i < e->n_versions; i++)
        if (e->versions[i] == number) return true;
    return false;
}

static rk_status add_version(rk_version_list *list, int64_t number, char *path) {
    rk_status status = rk_reserve_one_more(&list->versions, list->n, &list->capacity, sizeof *list->versions);
    if (status != RK_OK) {
        rk_free(path);
        return status;
    }
    list->versions[list->n++] = (rk_listed_version){number, path};
    return RK_OK;
}

static int compare_newest_first(const void *a, const void *b) {
    int64_t x = ((const rk_listed_version *)a)->number, y = ((const rk_listed_version *)b)->number;
    return (x < y) - (x > y);
}

/* Entries of a directory that are versions: named by numbers, or the checkpoints of a run. */
static rk_status list_versions(const rk_model_entry *e, int64_t pin, const char *directory, bool steps,
                               rk_version_list *out) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_TRY(rk_list_directory(directory, &names));
    for (size_t i = 0; i < names.n; i++) {
        int64_t number = steps ? parse_step_of_checkpoint_name(names.texts[i])
                               : rk_parse_version_number((rk_span){names.texts[i], strlen(names.texts[i])});
        if (number < steps || !is_wanted_version_number(e, pin, number)) continue;
        char *path;
        RK_TRY(rk_path_join(directory, names.texts[i], &path));
        RK_TRY(add_version(out, number, path));
    }
    return RK_OK;
}

/* A checkpoint's step; 1 for an export, which does not say it; 0: the path is of several. */
static int64_t version_of_single_path(const char *path) {
    RK_AUTOFREE char *file = NULL;
    if (parse_step_of_checkpoint_name(path) > 0) return parse_step_of_checkpoint_name(path);
    return rk_path_join(path, "config.yaml", &file) == RK_OK && rk_file_exists(file);
}

rk_status rk_version_list_find(const rk_model_entry *e, int64_t pin, rk_version_list *out) {
    RK_AUTOFREE char *checkpoints = NULL;
    RK_TRY(rk_path_join(e->path, "checkpoints", &checkpoints));
    bool is_run = rk_file_exists(checkpoints);
    if (is_run && pin < 0 && e->version_policy == RK_VERSIONS_LATEST) {
        char *found, *path;
        RK_TRY(rk_checkpoint_find_best(e->path, &found));
        rk_status status = rk_strdup(found, &path);
        rk_text_free(found);
        RK_TRY(status);
        return add_version(out, parse_step_of_checkpoint_name(path), path);
    }
    int64_t only = is_run ? 0 : version_of_single_path(e->path);
    if (only > 0 && (pin < 0 || pin == only)) {
        char *path;
        RK_TRY(rk_strdup(e->path, &path));
        return add_version(out, only, path);
    }
    RK_TRY(list_versions(e, pin, is_run ? checkpoints : e->path, is_run, out));
    if (out->n > 1) qsort(out->versions, out->n, sizeof *out->versions, compare_newest_first);
    size_t most = e->version_policy == RK_VERSIONS_LATEST ? (size_t)e->num_versions : out->n;
    while (out->n > most) rk_free(out->versions[--out->n].path);
    RK_FAIL_IF(out->n == 0 && pin >= 0, RK_NOT_FOUND, "'%s' has no version %lld", e->path, (long long)pin);
    RK_FAIL_IF(
        out->n == 0, RK_NOT_FOUND,
        "'%s' has no version\nhint: a run's directory, an export's, or a folder of these, named by numbers",
        e->path);
    return RK_OK;
}

rk_status rk_list_version_names(const rk_model_entry *e, char **out) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    RK_AUTOFREE char *checkpoints = NULL;
    RK_TRY(rk_path_join(e->path, "checkpoints", &checkpoints));
    RK_TRY(rk_list_directory(rk_file_exists(checkpoints) ? checkpoints : e->path, &names));
    for (size_t i = 0; i < names.n; i++) rk_buffer_printf(&text, "%s/", names.texts[i]);
    rk_buffer_append_text(&text, "");
    return rk_buffer_detach(&text, out);
}
