/* Which of a run's checkpoints are complete. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "embedding/tiered/row_log.h"
#include "train/checkpoint/checkpoint.h"

static rk_status verify_file_checksum(const char *directory, const struct rk_manifest_file *file) {
    RK_AUTOFREE char *path = NULL;
    RK_AUTO(rk_mapped_file_release) rk_mapped_file map = {0};
    RK_TRY(rk_path_join(directory, file->name, &path));
    rk_status status = rk_mapped_file_open(path, &map);
    if (status == RK_NOT_FOUND) return RK_BAD_DATA;
    RK_TRY(status);
    RK_FAIL_IF(map.n_bytes != file->n_bytes, RK_BAD_DATA,
               "'%s' has %zu bytes, not the %llu that were written", path, map.n_bytes,
               (unsigned long long)file->n_bytes);
    RK_FAIL_IF(rk_crc32c(0, map.data, map.n_bytes) != file->crc32c, RK_BAD_DATA,
               "'%s': its checksum does not match", path);
    return RK_OK;
}

/* Of the folders with rows on a disk, every rank its share. */
static rk_status verify_row_logs(const rk_comm *comm, const char *path) {
    RK_AUTOFREE char *rows = NULL;
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_TRY(rk_path_join(path, RK_CHECKPOINT_ROWS, &rows));
    if (!rk_file_exists(rows)) return RK_OK;
    RK_TRY(rk_list_directory(rows, &names));
    for (size_t i = (size_t)rk_comm_rank(comm); i < names.n; i += (size_t)rk_comm_size(comm)) {
        RK_AUTOFREE char *folder = NULL;
        RK_TRY(rk_path_join(rows, names.texts[i], &folder));
        RK_TRY(rk_row_log_verify(folder));
    }
    return RK_OK;
}

static bool is_first_rank(const rk_comm *comm) {
    return rk_comm_rank(comm) == 0;
}

/* Every rank's share of the files. */
static rk_status verify_files(const rk_comm *comm, const char *path, const rk_manifest *m) {
    for (size_t i = (size_t)rk_comm_rank(comm); i < m->n_files; i += (size_t)rk_comm_size(comm))
        RK_TRY(verify_file_checksum(path, &m->files[i]));
    return RK_OK;
}

static rk_status verify_over_ranks(rk_comm *comm, const char *path) {
    RK_AUTO(rk_manifest_release) rk_manifest m = {0};
    RK_TRY(rk_comm_agree_on_status(comm, rk_manifest_read(path, &m)));
    RK_TRY(rk_comm_agree_on_status(comm, verify_files(comm, path, &m)));
    return rk_comm_agree_on_status(comm, verify_row_logs(comm, path));
}

rk_status rk_checkpoint_verify(const char *path) {
    RK_AUTO(rk_comm_auto_free) rk_comm *self = NULL;
    RK_TRY(rk_comm_self(&self));
    return verify_over_ranks(self, path);
}

static rk_status checkpoint_path_in_output(const char *output, const char *name, char **out) {
    RK_AUTOFREE char *root = NULL;
    RK_TRY(rk_path_join(output, RK_CHECKPOINTS, &root));
    return rk_path_join(root, name, out);
}

rk_status rk_checkpoint_path_of_step(const char *output, int64_t step, char **out) {
    char name[RK_CHECKPOINT_NAME_BYTES];
    rk_checkpoint_name(step, name);
    return checkpoint_path_in_output(output, name, out);
}

/* Whether the search for a whole one goes on behind this one. One that could not be read, or that a newer
 * program wrote, is not damaged. */
static bool is_damaged_and_skipped(rk_comm *comm, const char *path, rk_status status) {
    if (status != RK_BAD_DATA && status != RK_NOT_FOUND) return false;
    if (is_first_rank(comm) && rk_file_exists(path))
        rk_log(RK_LOG_WARNING, "checkpoint '%s' is damaged and was skipped: %s", path, rk_last_error());
    return true;
}

/* `path` is *out if all is well; what is no checkpoint that may be used stays with the caller. */
static rk_status verify_checkpoint_path(rk_comm *comm, char **path, char **out) {
    RK_TRY(verify_over_ranks(comm, *path));
    *out = *path;
    *path = NULL;
    return RK_OK;
}

/* The first rank's text (NULL: none) to all ranks, in place of theirs; freed where that fails. */
static rk_status broadcast_status_and_text(rk_comm *comm, rk_status status, char **text) {
    RK_TRY(rk_comm_agree_on_status(comm, status));
    return rk_comm_broadcast_text(comm, text);
}

/* The newest whole one. names [n]: the first rank's; other ranks have none. */
static rk_status find_newest(rk_comm *comm, const char *directory, const rk_text_list *names, char **out) {
    for (size_t n = names->n;;) {
        RK_AUTOFREE char *path = NULL;
        rk_status status = n ? checkpoint_path_in_output(directory, names->texts[--n], &path) : RK_OK;
        RK_TRY(broadcast_status_and_text(comm, status, &path));
        if (!path) return rk_error(RK_NOT_FOUND, "there is no complete checkpoint in '%s'", directory);
        status = verify_checkpoint_path(comm, &path, out);
        if (!is_damaged_and_skipped(comm, path, status)) return status;
    }
}

/* Where the best one is by the newest manifest that is whole; NULL if that run does not end with the best, or
 * has none. */
static rk_status find_best_path(rk_comm *comm, const char *directory, const rk_text_list *names, char **out) {
    *out = NULL;
    for (size_t n = names->n; n > 0;) {
        RK_AUTOFREE char *path = NULL;
        RK_AUTO(rk_manifest_release) rk_manifest m = {0};
        RK_TRY(checkpoint_path_in_output(directory, names->texts[--n], &path));
        rk_status status = rk_manifest_read(path, &m);
        if (is_damaged_and_skipped(comm, path, status)) continue;
        RK_TRY(status);
        if (!m.keeps_best || isnan(m.progress.stopping.best)) return RK_OK;
        return rk_checkpoint_path_of_step(directory, m.progress.stopping.best_step, out);
    }
    return RK_OK;
}

static rk_status find_checkpoint_over_ranks(rk_comm *comm, const char *directory, const rk_text_list *names,
                                            bool best, char **out) {
    RK_AUTOFREE char *path = NULL;
    rk_status status = best && is_first_rank(comm) ? find_best_path(comm, directory, names, &path) : RK_OK;
    RK_TRY(broadcast_status_and_text(comm, status, &path));
    if (!path) return find_newest(comm, directory, names, out);
    status = verify_checkpoint_path(comm, &path, out);
    return is_damaged_and_skipped(comm, path, status) ? find_newest(comm, directory, names, out) : status;
}

static bool has_manifest(const char *path) {
    RK_AUTOFREE char *manifest = NULL;
    if (rk_path_join(path, "manifest.json", &manifest) != RK_OK) return false;
    bool there = rk_file_exists(manifest);
    return there;
}

static rk_status list_checkpoints(const char *directory, rk_text_list *names) {
    if (rk_file_exists(directory)) return rk_checkpoint_list(directory, names);
    return rk_error_hint(rk_error(RK_NOT_FOUND, "there is no directory '%s'", directory),
                         "give a run's directory (train.output) or one of its checkpoints");
}

/* Whether the run has other checkpoints than these by now: it trains beside, and may have removed all that
 * were looked at. The same on all ranks. */
static bool has_checkpoint_list_changed(rk_comm *comm, const char *directory, const rk_text_list *names) {
    RK_AUTO(rk_text_list_release) rk_text_list now = {0};
    bool moved = false;
    if (is_first_rank(comm) && list_checkpoints(directory, &now) == RK_OK) {
        moved = names->n != now.n;
        for (size_t i = 0; i < now.n && !moved; i++) moved = strcmp(names->texts[i], now.texts[i]) != 0;
    }
    return rk_comm_agree_on_status(comm, moved ? RK_BUSY : RK_OK) == RK_BUSY;
}

static rk_status find_among_listed_checkpoints(rk_comm *comm, const char *directory, bool best, bool *again,
                                               char **out) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    *again = false;
    RK_TRY(rk_comm_agree_on_status(comm, is_first_rank(comm) ? list_checkpoints(directory, &names) : RK_OK));
    rk_status status = find_checkpoint_over_ranks(comm, directory, &names, best, out);
    if (status == RK_NOT_FOUND) *again = has_checkpoint_list_changed(comm, directory, &names);
    return status;
}

rk_status rk_checkpoint_find_over_ranks(rk_comm *comm, const char *directory, bool best, char **out) {
    enum { TRIES = 100 };
    RK_AUTOFREE char *itself = NULL;
    rk_status status = is_first_rank(comm) && has_manifest(directory) ? rk_strdup(directory, &itself) : RK_OK;
    RK_TRY(broadcast_status_and_text(comm, status, &itself));
    if (itself) return verify_checkpoint_path(comm, &itself, out);
    bool again = true;
    for (int i = 0; i < TRIES && again; i++)
        status = find_among_listed_checkpoints(comm, directory, best, &again, out);
    return status;
}

static rk_status find_in_one_process(const char *directory, bool best, char **out) {
    RK_AUTO(rk_comm_auto_free) rk_comm *self = NULL;
    RK_TRY(rk_comm_self(&self));
    return rk_checkpoint_find_over_ranks(self, directory, best, out);
}

rk_status rk_checkpoint_find(const char *directory, char **out) {
    return find_in_one_process(directory, false, out);
}

rk_status rk_checkpoint_find_best(const char *directory, char **out) {
    return find_in_one_process(directory, true, out);
}
