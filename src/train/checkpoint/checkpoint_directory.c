/* Which checkpoints a run's directory has, how one takes its name, and how it goes. A name step-NNN is given
 * by one rename and taken away by one, so that whatever a crash leaves half written or half removed is called
 * .tmp-step-NNN or .old-step-NNN. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "train/checkpoint/checkpoint.h"

#define TEMPORARY ".tmp-"
#define OLD       ".old-"

void rk_checkpoint_name(int64_t step, char name[RK_CHECKPOINT_NAME_BYTES]) {
    snprintf(name, RK_CHECKPOINT_NAME_BYTES, "step-%09lld", (long long)step);
}

void rk_checkpoint_temporary_name(int64_t step, char name[RK_CHECKPOINT_NAME_BYTES]) {
    snprintf(name, RK_CHECKPOINT_NAME_BYTES, TEMPORARY "step-%09lld", (long long)step);
}

/* The step that a name tells, or -1: it is not one that a run gives. */
static int64_t parse_step_of_name(const char *name) {
    char canonical[RK_CHECKPOINT_NAME_BYTES];
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9') return -1;
    int64_t step = strtoll(name + 5, NULL, 10);
    rk_checkpoint_name(step, canonical);
    return strcmp(name, canonical) == 0 ? step : -1;
}

static bool begins_with(const char *name, const char *start) {
    return strncmp(name, start, strlen(start)) == 0;
}

bool rk_checkpoint_is_of_step(const char *path, int64_t step) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (begins_with(name, TEMPORARY)) name += strlen(TEMPORARY);
    int64_t named = parse_step_of_name(name);
    return named < 0 || named == step;
}

static int compare_steps(const void *a, const void *b) {
    int64_t x = parse_step_of_name(*(char *const *)a), y = parse_step_of_name(*(char *const *)b);
    return (x > y) - (x < y);
}

/* What stands in the directory of checkpoints, which may be missing. */
static rk_status list_directory_entries(const char *root, rk_text_list *out) {
    rk_status status = rk_file_exists(root) ? rk_list_directory(root, out)
                                            : RK_OK; /* what failed before is still what is said */
    return status == RK_NOT_FOUND ? RK_OK : status;
}

rk_status rk_checkpoint_list(const char *output, rk_text_list *out) {
    RK_AUTOFREE char *root = NULL;
    RK_AUTO(rk_text_list_release) rk_text_list all = {0};
    RK_TRY(rk_path_join(output, RK_CHECKPOINTS, &root));
    RK_TRY(list_directory_entries(root, &all));
    for (size_t i = 0; i < all.n; i++)
        if (parse_step_of_name(all.texts[i]) >= 0) RK_TRY(rk_text_list_add(out, all.texts[i]));
    if (out->n) qsort(out->texts, out->n, sizeof *out->texts, compare_steps);
    return RK_OK;
}

static rk_status rename_path(const char *from, const char *to) {
    return rename(from, to) == 0 ? RK_OK
                                 : rk_error_errno(RK_IO, errno, "could not rename '%s' to '%s'", from, to);
}

/* Both names are there at every moment. */
static bool swap_paths_atomically(const char *a, const char *b) {
#ifdef RENAME_EXCHANGE
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0;
#else
    (void)a, (void)b;
    return false;
#endif
}

static rk_status path_of_replaced(const char *root, const char *name, char **out) {
    char old[RK_CHECKPOINT_NAME_BYTES];
    snprintf(old, sizeof old, OLD "%s", name);
    RK_TRY(rk_path_join(root, old, out));
    rk_status status = rk_remove_tree(*out); /* of a removal that was interrupted */
    if (status != RK_OK) rk_free(*out);
    return status;
}

/* Where a file system cannot exchange: a crash between the two renames leaves the new one whole under its
 * temporary name, which rk_checkpoint_recover_interrupted mends. */
static rk_status replace_in_two_renames(const char *root, const char *temporary, const char *name,
                                        const char *path) {
    RK_AUTOFREE char *old = NULL;
    RK_TRY(path_of_replaced(root, name, &old));
    RK_TRY(rename_path(path, old));
    rk_status status = rename_path(temporary, path);
    if (status != RK_OK) (void)rename(old, path);
    RK_TRY(status);
    RK_TRY(rk_sync_directory(root));
    return rk_remove_tree(old);
}

static rk_status commit_directory(const char *root, const char *temporary, const char *name,
                                  const char *path) {
    bool exchanged = false;
    if (rk_file_exists(path)) { /* of the same step: an epoch's end after its last batch, or of a run that was
                                   resumed before it */
        exchanged = swap_paths_atomically(temporary, path);
        if (!exchanged) return replace_in_two_renames(root, temporary, name, path);
    } else {
        RK_TRY(rename_path(temporary, path));
    }
    RK_TRY(rk_sync_directory(root));
    return exchanged ? rk_remove_tree(temporary) : RK_OK;
}

rk_status rk_checkpoint_commit(const char *root, const char *temporary, const char *name) {
    RK_AUTOFREE char *path = NULL;
    RK_TRY(rk_path_join(root, name, &path));
    return commit_directory(root, temporary, name, path);
}

static rk_status remove_checkpoint(const char *root, const char *name) {
    RK_AUTOFREE char *path = NULL, *old = NULL;
    RK_TRY(rk_path_join(root, name, &path));
    RK_TRY(path_of_replaced(root, name, &old));
    RK_TRY(rename_path(path, old));
    RK_TRY(rk_sync_directory(root));
    return rk_remove_tree(old);
}

/* One that cannot be removed, such as one that is read over NFS, does not end the run. */
static void remove_checkpoint_or_warn(const char *root, const char *name) {
    if (remove_checkpoint(root, name) != RK_OK)
        rk_log(RK_LOG_WARNING, "an old checkpoint could not be removed: %s", rk_last_error());
}

rk_status rk_checkpoint_remove_old(const rk_config *config, const rk_progress *progress) {
    RK_AUTOFREE char *root = NULL;
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    int64_t best = config->keeps_best ? progress->stopping.best_step : -1,
            left = config->train.checkpoint.keep;
    RK_TRY(rk_path_join(config->train.output, RK_CHECKPOINTS, &root));
    RK_TRY(rk_checkpoint_list(config->train.output, &names));
    for (size_t i = names.n; i-- > 0;) {
        int64_t step = parse_step_of_name(names.texts[i]);
        bool stays = step == progress->step || (step < progress->step && left > 0);
        if (stays) left--;
        if (!stays && step != best) remove_checkpoint_or_warn(root, names.texts[i]);
    }
    return RK_OK;
}

rk_status rk_checkpoint_remove_all(const char *output) {
    RK_AUTOFREE char *root = NULL;
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_TRY(rk_path_join(output, RK_CHECKPOINTS, &root));
    RK_TRY(rk_checkpoint_list(output, &names));
    for (size_t i = 0; i < names.n; i++) RK_TRY(remove_checkpoint(root, names.texts[i]));
    (void)rmdir(root);
    return RK_OK;
}

static bool is_corrupt_or_missing(rk_status status) {
    return status == RK_BAD_DATA || status == RK_NOT_FOUND;
}

/* Whole, but for the rename that a crash has cost it. */
static rk_status rename_complete_temporary(const char *root, const char *temporary, const char *name,
                                           bool *promoted) {
    rk_status status = rk_checkpoint_verify(temporary);
    if (is_corrupt_or_missing(status)) return RK_OK;
    RK_TRY(status);
    RK_AUTOFREE char *path = NULL;
    RK_TRY(rk_path_join(root, name, &path));
    *promoted = rk_checkpoint_verify(path) != RK_OK;
    if (!*promoted) return RK_OK;
    RK_TRY(commit_directory(root, temporary, name, path));
    rk_log(RK_LOG_INFO, "'%s' is complete; a crash had left it under a temporary name", path);
    return RK_OK;
}

/* Whether it is `prefix` and the name of a step: what is called otherwise is not the run's. */
static bool is_prefixed_step_name(const char *name, const char *prefix) {
    return begins_with(name, prefix) && parse_step_of_name(name + strlen(prefix)) >= 0;
}

static rk_status recover_or_remove_temporary(const char *root, const char *name) {
    RK_AUTOFREE char *path = NULL;
    bool promoted = false;
    RK_TRY(rk_path_join(root, name, &path));
    if (begins_with(name, TEMPORARY))
        RK_TRY(rename_complete_temporary(root, path, name + strlen(TEMPORARY), &promoted));
    return promoted ? RK_OK : rk_remove_tree(path);
}

rk_status rk_checkpoint_recover_interrupted(const char *output) {
    RK_AUTOFREE char *root = NULL;
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_TRY(rk_path_join(output, RK_CHECKPOINTS, &root));
    RK_TRY(list_directory_entries(root, &names));
    for (size_t i = names.n; i-- > 0;) /* .tmp- before .old- */
        if (is_prefixed_step_name(names.texts[i], TEMPORARY) || is_prefixed_step_name(names.texts[i], OLD))
            RK_TRY(recover_or_remove_temporary(root, names.texts[i]));
    return RK_OK;
}
