#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reckon/version.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "embedding/tiered/row_log.h"
#include "format/safetensors.h"
#include "train/checkpoint/checkpoint.h"

#define SHARD_BYTES ((uint64_t)1 << 30)

/* A checkpoint being written: its temporary directory and the files in it so far. */
typedef struct writing {
    rk_comm *comm;
    char name[RK_CHECKPOINT_NAME_BYTES], *directory;
    rk_text_list names;
    json_t *files; /* of the manifest */
    bool is_whole; /* all but its name */
} writing;

static rk_status add_file_entry(writing *w, const char *name, uint32_t crc, uint64_t n_bytes) {
    json_t *entry =
        json_pack("{s:s, s:I, s:I}", "name", name, "bytes", (json_int_t)n_bytes, "crc32c", (json_int_t)crc);
    return entry && json_array_append_new(w->files, entry) == 0 ? RK_OK : RK_NO_MEMORY_ERROR(0);
}

static rk_status write_text_file(writing *w, const char *name, const char *text, size_t n_bytes) {
    RK_AUTOFREE char *path = NULL;
    RK_TRY(rk_path_join(w->directory, name, &path));
    RK_TRY(rk_file_write(path, text, n_bytes));
    return add_file_entry(w, name, rk_crc32c(0, text, n_bytes), n_bytes);
}

/* Entries in order, into files of about SHARD_BYTES. */
static rk_status write_tensor_files(writing *w, const rk_state_dict *state) {
    size_t first = 0;
    for (int shard = 1; first < state->n; shard++) {
        uint64_t n_bytes = 0, file_bytes;
        size_t last = first;
        while (last < state->n &&
               (last == first || n_bytes + rk_state_dict_entry_bytes(&state->entries[last]) <= SHARD_BYTES))
            n_bytes += rk_state_dict_entry_bytes(&state->entries[last++]);
        char name[64];
        RK_AUTOFREE char *path = NULL;
        uint32_t crc;
        if (rk_comm_size(w->comm) > 1)
            snprintf(name, sizeof name, "model-%05d-of-rank-%05d.safetensors", shard, rk_comm_rank(w->comm));
        else
            snprintf(name, sizeof name, "model-%05d.safetensors", shard);
        RK_TRY(rk_path_join(w->directory, name, &path));
        rk_state_dict part = {.entries = state->entries + first, .n = last - first};
        RK_TRY(rk_safetensors_write(path, &part, &crc, &file_bytes));
        RK_TRY(add_file_entry(w, name, crc, file_bytes));
        first = last;
    }
    return RK_OK;
}

/* What all trainers have is the first one's to write. */
static rk_status write_tensors_of_rank(writing *w, const rk_state_dict *state) {
    if (rk_comm_rank(w->comm) == 0) return write_tensor_files(w, state);
    RK_AUTOFREE rk_state_dict_entry *own = NULL;
    size_t n = 0;
    RK_TRY(rk_alloc(state->n, sizeof *own, &own));
    for (size_t i = 0; i < state->n; i++)
        if (!state->entries[i].shared) own[n++] = state->entries[i];
    return write_tensor_files(w, &(rk_state_dict){.entries = own, .n = n});
}

/* The other ranks' files, into the first one's list. */
static rk_status gather_file_entries(writing *w) {
    char *text = json_dumps(w->files, JSON_COMPACT);
    if (!text) return RK_NO_MEMORY_ERROR(0);
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    rk_status status = rk_comm_all_gather(w->comm, RK_CHANNEL_SUMS, text, strlen(text) + 1, &all_to_all);
    free(text);
    RK_TRY(status);
    for (int32_t r = 1; r < rk_comm_size(w->comm) && rk_comm_rank(w->comm) == 0; r++) {
        const rk_message *sent = &rk_all_to_all_received_messages(all_to_all)[r];
        json_auto_t *theirs = sent->n_bytes ? json_loadb(sent->data, sent->n_bytes - 1, 0, NULL) : NULL;
        if (!theirs || json_array_extend(w->files, theirs) != 0) return RK_NO_MEMORY_ERROR(0);
    }
    return RK_OK;
}

/* A file that is there. */
static rk_status add_written_file(writing *w, const char *name) {
    RK_AUTOFREE char *path = NULL, *text = NULL;
    size_t n_bytes;
    RK_TRY(rk_path_join(w->directory, name, &path));
    RK_TRY(rk_file_read(path, &text, &n_bytes));
    return add_file_entry(w, name, rk_crc32c(0, text, n_bytes), n_bytes);
}

static rk_status write_transforms(writing *w, const rk_transforms *transforms) {
    RK_TRY(rk_transforms_save(transforms, w->directory, &w->names));
    for (size_t i = 0; i < w->names.n; i++) RK_TRY(add_written_file(w, w->names.texts[i]));
    return RK_OK;
}

/* Of each folder with rows on a disk that the ranks have written: so that none is missing unnoticed. */
static rk_status add_row_list_files(writing *w) {
    RK_AUTOFREE char *rows = NULL;
    RK_AUTO(rk_text_list_release) rk_text_list folders = {0};
    RK_TRY(rk_path_join(w->directory, RK_CHECKPOINT_ROWS, &rows));
    if (rk_file_exists(rows)) RK_TRY(rk_list_directory(rows, &folders));
    for (size_t i = 0; i < folders.n; i++) {
        RK_AUTO(rk_buffer_release) rk_buffer name = {0};
        rk_buffer_printf(&name, RK_CHECKPOINT_ROWS "/%s/" RK_ROW_LOG_LIST, folders.texts[i]);
        RK_TRY(name.status);
        RK_TRY(add_written_file(w, name.data));
    }
    return RK_OK;
}

static json_t *json_number_or_null(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *progress_json(const rk_config *config, const rk_progress *p) {
    char metric[1024], plateau_metric[1024];
    rk_config_metric_name(config, config->watched_task, config->watched_metric, metric, sizeof metric);
    rk_config_metric_name(config, config->plateau_task, config->plateau_metric, plateau_metric,
                          sizeof plateau_metric);
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:f, s:I, s:f, s:I, s:I, s:I, s:b, "
        "s:b}",
        "metric", metric, "plateau_metric", plateau_metric, "step", (json_int_t)p->step, "epoch",
        (json_int_t)p->position.epoch, "row", (json_int_t)p->position.row, "best",
        json_number_or_null(p->stopping.best), "patience_best",
        json_number_or_null(p->stopping.patience_best), "plateau_best",
        json_number_or_null(p->stopping.plateau_best), "best_step", (json_int_t)p->stopping.best_step,
        "last_step", (json_int_t)p->stopping.last_step, "bad", (json_int_t)p->stopping.bad, "plateau_bad",
        (json_int_t)p->stopping.plateau_bad, "learning_rate_factor", p->stopping.learning_rate_factor,
        "n_evaluations", (json_int_t)p->stopping.n_evaluations, "loss_sum", p->loss_sum, "loss_steps",
        (json_int_t)p->loss_steps, "log_bytes", (json_int_t)p->log_bytes, "events_bytes",
        (json_int_t)p->events_bytes, "keep_best", config->keeps_best, "finished", p->finished);
}

/* The manifest, last: a line of JSON and a line with its checksum. */
static rk_status write_manifest(writing *w, const rk_config *config, const rk_progress *progress,
                                const rk_input_fingerprints *inputs) {
    json_auto_t *root = json_pack("{s:s, s:i, s:s, s:o, s:o, s:O}", "format", "reckon checkpoint", "version",
                                  1, "reckon", rk_version(), "progress", progress_json(config, progress),
                                  "data", rk_input_fingerprints_to_json(inputs), "files", w->files);
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    if (!text) return RK_NO_MEMORY_ERROR(0);
    RK_AUTO(rk_buffer_release) rk_buffer manifest = {0};
    RK_AUTOFREE char *path = NULL;
    rk_buffer_printf(&manifest, "%s\ncrc32c %08" PRIx32 "\n", text, rk_crc32c(0, text, strlen(text)));
    free(text);
    RK_TRY(manifest.status);
    RK_TRY(rk_path_join(w->directory, "manifest.json", &path));
    return rk_file_write(path, manifest.data, manifest.n_bytes);
}

/* So that the data is found from wherever the checkpoint is read. */
static rk_status write_data_directory_file(writing *w, const char *directory) {
    RK_AUTOFREE char *path = NULL;
    RK_TRY(rk_path_absolute(directory, &path));
    return write_text_file(w, "directory.txt", path, strlen(path));
}

static rk_status write_whole_checkpoint(writing *w, rk_config *config, const rk_progress *progress,
                                        const rk_input_fingerprints *inputs) {
    RK_AUTOFREE char *resolved = NULL;
    const rk_transforms *transforms;
    RK_TRY(rk_config_transforms(config, NULL, NULL, &transforms));
    RK_TRY(write_transforms(w, transforms));
    RK_TRY(write_text_file(w, "run.yaml", config->text, strlen(config->text)));
    RK_TRY(write_data_directory_file(w, config->directory));
    RK_TRY(rk_config_to_yaml(config, &resolved));
    RK_TRY(write_text_file(w, "config.yaml", resolved, strlen(resolved)));
    RK_TRY(add_row_list_files(w));
    RK_TRY(write_manifest(w, config, progress, inputs));
    return rk_sync_directory(w->directory);
}

/* Tensors by every rank, and when all have written theirs, the rest by the first one. */
static rk_status write_tensors_over_ranks(writing *w, const rk_state_dict *state) {
    RK_TRY(rk_comm_agree_on_status(w->comm, write_tensors_of_rank(w, state)));
    if (rk_comm_size(w->comm) > 1) RK_TRY(rk_comm_agree_on_status(w->comm, gather_file_entries(w)));
    return RK_OK;
}

static rk_status create_temporary_directory(const writing *w) {
    RK_TRY(rk_remove_tree(w->directory));
    return rk_make_directories(w->directory);
}

static rk_status make_checkpoint_paths(writing *w, const rk_config *config, int64_t step, char **root,
                                       char **path) {
    char temporary[RK_CHECKPOINT_NAME_BYTES];
    rk_checkpoint_name(step, w->name);
    rk_checkpoint_temporary_name(step, temporary);
    RK_TRY(rk_path_join(config->train.output, RK_CHECKPOINTS, root));
    RK_TRY(rk_path_join(*root, w->name, path));
    return rk_path_join(*root, temporary, &w->directory);
}

/* Ranks that only hold rows do not count steps. */
static rk_status broadcast_step(rk_comm *comm, int64_t *step) {
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    RK_TRY(rk_comm_all_gather(comm, RK_CHANNEL_SUMS, step, sizeof *step, &all_to_all));
    return rk_all_to_all_copy_message(all_to_all, 0, sizeof *step, step);
}

static rk_status write_and_commit(writing *w, rk_config *config, const rk_progress *progress,
                                  const rk_input_fingerprints *inputs, const char *root) {
    RK_TRY(write_whole_checkpoint(w, config, progress, inputs));
    w->is_whole = true;
    RK_TRY(rk_checkpoint_commit(root, w->directory, w->name));
    return rk_checkpoint_remove_old(config, progress);
}

/* Rows on a disk, as links to their files. */
static rk_status link_row_files(const writing *w, rk_model *model) {
    RK_AUTOFREE char *folder = NULL;
    if (!model || !rk_model_has_row_files(model)) return RK_OK;
    RK_TRY(rk_path_join(w->directory, RK_CHECKPOINT_ROWS, &folder));
    RK_TRY(rk_make_directories(folder));
    RK_TRY(rk_model_save_rows(model, folder));
    return rk_sync_directory(folder);
}

rk_status rk_checkpoint_write(rk_config *config, rk_comm *comm, rk_model *model, const rk_state_dict *state,
                              const rk_progress *progress, const rk_input_fingerprints *inputs, char **out) {
    writing w = {.comm = comm};
    RK_AUTOFREE char *root = NULL, *path = NULL;
    bool is_first = rk_comm_rank(comm) == 0;
    int64_t step = progress->step;
    rk_status status;
    RK_GOTO(broadcast_step(comm, &step));
    RK_GOTO(make_checkpoint_paths(&w, config, step, &root, &path));
    w.files = json_array();
    if (!w.files) RK_GOTO(RK_NO_MEMORY_ERROR(0));
    RK_GOTO(rk_comm_agree_on_status(comm, is_first ? create_temporary_directory(&w) : RK_OK));
    RK_GOTO(write_tensors_over_ranks(&w, state));
    RK_GOTO(rk_comm_agree_on_status(comm, link_row_files(&w, model)));
    RK_GOTO(rk_comm_agree_on_status(comm,
                                    is_first ? write_and_commit(&w, config, progress, inputs, root) : RK_OK));
    *out = path;
    path = NULL;
done:
    if (status != RK_OK && w.directory && is_first &&
        !w.is_whole) { /* an error's message outlives the clean-up */
        char reason[4096];
        rk_error_copy(reason, sizeof reason);
        rk_remove_tree(w.directory);
        rk_error(status, "%s", reason);
    }
    json_decref(w.files);
    rk_text_list_release(&w.names);
    rk_free(w.directory);
    return status;
}
