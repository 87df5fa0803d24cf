/* Which of a run's checkpoints are whole. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "train/checkpoint/checkpoint.h"

static rk_status verify_file(const char *directory, const rk_manifest *m, size_t i) {
    char *path;
    rk_map map = {0};
    RK_TRY(rk_path_join(directory, m->files[i], &path));
    rk_status status = rk_map_open(path, &map);
    if (status == RK_OK && map.n_bytes != m->bytes[i])
        status = rk_error(RK_BAD_DATA, "'%s' has %zu bytes, not the %llu that were written", path,
                          map.n_bytes, (unsigned long long)m->bytes[i]);
    if (status == RK_OK && rk_crc32c(0, map.data, map.n_bytes) != m->crcs[i])
        status = rk_error(RK_BAD_DATA, "'%s': its checksum does not match", path);
    if (status == RK_NOT_FOUND) status = RK_BAD_DATA;
    rk_map_release(&map);
    rk_free(path);
    return status;
}

static bool is_first(const rk_comm *comm) {
    return !comm || rk_comm_rank(comm) == 0;
}

/* Every rank's share of the files. */
static rk_status verify_files(const rk_comm *comm, const char *path, const rk_manifest *m) {
    int32_t n_ranks = comm ? rk_comm_size(comm) : 1, rank = comm ? rk_comm_rank(comm) : 0;
    for (size_t i = (size_t)rank; i < m->n_files; i += (size_t)n_ranks) RK_TRY(verify_file(path, m, i));
    return RK_OK;
}

rk_status rk_checkpoint_verify_over(rk_comm *comm, const char *path) {
    rk_manifest m = {0};
    rk_status status = rk_comm_agree(comm, rk_manifest_read(path, &m));
    if (status == RK_OK) status = rk_comm_agree(comm, verify_files(comm, path, &m));
    rk_manifest_release(&m);
    return status;
}

rk_status rk_checkpoint_verify(const char *path) {
    return rk_checkpoint_verify_over(NULL, path);
}

static rk_status path_of(const char *output, const char *name, char **out) {
    char *root;
    RK_TRY(rk_path_join(output, RK_CHECKPOINTS, &root));
    rk_status status = rk_path_join(root, name, out);
    rk_free(root);
    return status;
}

rk_status rk_checkpoint_path(const char *output, int64_t step, char **out) {
    char name[RK_CHECKPOINT_NAME_BYTES];
    rk_checkpoint_name(step, name);
    return path_of(output, name, out);
}

/* Whether the search for a whole one goes on behind this one. One that could not be read, or that a newer
 * program wrote, is not damaged. */
static bool passes_over(rk_comm *comm, const char *path, rk_status status) {
    if (status != RK_BAD_DATA && status != RK_NOT_FOUND) return false;
    if (is_first(comm) && rk_file_exists(path))
        rk_log(RK_LOG_WARNING, "checkpoint '%s' is damaged and was skipped: %s", path, rk_last_error());
    return true;
}

/* `path` is *out if all is well, else freed. */
static rk_status take(rk_status status, char *path, char **out) {
    if (status == RK_OK)
        *out = path;
    else
        rk_free(path);
    return status;
}

/* The first rank's `own` (NULL: none) to all ranks, in place of theirs; freed where that fails. */
static rk_status share(rk_comm *comm, rk_status status, char *own, char **out) {
    status = rk_comm_agree(comm, status);
    if (status == RK_OK) status = rk_comm_share_text(comm, &own);
    return take(status, own, out);
}

/* The newest whole one. names [n]: the first rank's; other ranks have none. */
static rk_status find_newest(rk_comm *comm, const char *directory, char *const *names, size_t n, char **out) {
    for (;;) {
        char *path = NULL;
        rk_status status = n ? path_of(directory, names[--n], &path) : RK_OK;
        RK_TRY(share(comm, status, path, &path));
        if (!path) return rk_error(RK_NOT_FOUND, "there is no complete checkpoint in '%s'", directory);
        status = rk_checkpoint_verify_over(comm, path);
        bool next = passes_over(comm, path, status);
        status = take(status, path, out);
        if (!next) return status;
    }
}

/* Where the best one is by the newest manifest that is whole; NULL if that run does not end with the best, or
 * has none. */
static rk_status name_best(const char *directory, char *const *names, size_t n, char **out) {
    *out = NULL;
    while (n > 0) {
        char *path;
        rk_manifest m = {0};
        RK_TRY(path_of(directory, names[--n], &path));
        rk_status status = rk_manifest_read(path, &m);
        bool next = passes_over(NULL, path, status);
        rk_free(path);
        if (next) continue;
        if (status == RK_OK && m.keeps_best && !isnan(m.progress.stopping.best))
            status = rk_checkpoint_path(directory, m.progress.stopping.best_step, out);
        rk_manifest_release(&m);
        return status;
    }
    return RK_OK;
}

static rk_status find(rk_comm *comm, const char *directory, char *const *names, size_t n, bool best,
                      char **out) {
    char *path = NULL;
    rk_status status = best && is_first(comm) ? name_best(directory, names, n, &path) : RK_OK;
    RK_TRY(share(comm, status, path, &path));
    if (!path) return find_newest(comm, directory, names, n, out);
    status = rk_checkpoint_verify_over(comm, path);
    bool next = passes_over(comm, path, status);
    status = take(status, path, out);
    return next ? find_newest(comm, directory, names, n, out) : status;
}

static bool is_checkpoint(const char *path) {
    char *manifest;
    if (rk_path_join(path, "manifest.json", &manifest) != RK_OK) return false;
    bool there = rk_file_exists(manifest);
    rk_free(manifest);
    return there;
}

static rk_status list(const char *directory, char ***names, size_t *n) {
    if (rk_file_exists(directory)) return rk_checkpoint_list(directory, names, n);
    return rk_error_hint(rk_error(RK_NOT_FOUND, "there is no directory '%s'", directory),
                         "give a run's directory (train.output) or one of its checkpoints");
}

/* Whether the run has other checkpoints than these by now: it trains beside, and may have removed all that
 * were looked at. The same on all ranks. */
static bool has_moved_on(rk_comm *comm, const char *directory, char *const *names, size_t n) {
    char **now = NULL;
    size_t n_now = 0;
    bool moved = false;
    if (is_first(comm) && list(directory, &now, &n_now) == RK_OK) {
        moved = n != n_now;
        for (size_t i = 0; i < n && !moved; i++) moved = strcmp(names[i], now[i]) != 0;
    }
    rk_free_strings(now, n_now);
    return rk_comm_agree(comm, moved ? RK_BUSY : RK_OK) == RK_BUSY;
}

static rk_status find_now(rk_comm *comm, const char *directory, bool best, bool *again, char **out) {
    char **names = NULL;
    size_t n = 0;
    *again = false;
    RK_TRY(rk_comm_agree(comm, is_first(comm) ? list(directory, &names, &n) : RK_OK));
    rk_status status = find(comm, directory, names, n, best, out);
    if (status == RK_NOT_FOUND) *again = has_moved_on(comm, directory, names, n);
    rk_free_strings(names, n);
    return status;
}

rk_status rk_checkpoint_find_over(rk_comm *comm, const char *directory, bool best, char **out) {
    enum { TRIES = 100 };
    char *itself = NULL;
    rk_status status = is_first(comm) && is_checkpoint(directory) ? rk_strdup(directory, &itself) : RK_OK;
    RK_TRY(share(comm, status, itself, &itself));
    if (itself) return take(rk_checkpoint_verify_over(comm, itself), itself, out);
    bool again = true;
    for (int i = 0; i < TRIES && again; i++) status = find_now(comm, directory, best, &again, out);
    return status;
}

rk_status rk_checkpoint_find(const char *directory, char **out) {
    return rk_checkpoint_find_over(NULL, directory, false, out);
}

rk_status rk_checkpoint_find_best(const char *directory, char **out) {
    return rk_checkpoint_find_over(NULL, directory, true, out);
}
