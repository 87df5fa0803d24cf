/* A run's checkpoint for a run file with other tables: static ones that are dynamic now, dynamic ones that
 * are static, have another capacity or other buckets (docs/dynamic_tables.md). All else stays, to the bit. */
#include <reckon/checkpoint.h>

#include <string.h>

#include "base/file/directory_lock.h"
#include "base/integers.h"
#include "base/memory.h"
#include "base/text/find_text.h"
#include "embedding/dynamic/dynamic_table.h"
#include "embedding/local/collection.h"
#include "embedding/local/state/row_before_images.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/stored_tensors.h"
#include "base/tensor/tensor_part.h"
#include "train/config/resume_check.h"
#include "train/run/convert_before_image.h"

typedef struct conversion {
    char *checkpoint;
    rk_manifest manifest;
    rk_config *then, *config; /* of the checkpoint, and of what becomes of it */
    rk_directory_lock *lock;
    rk_comm *comm;
    rk_stored_tensors tensors;
    rk_model *model;
    rk_state_dict state;
    float **residuals; /* [n_residuals]: in the state too */
    size_t n_residuals, max_residuals;
} conversion;

static void release_conversion(conversion *c) {
    rk_state_dict_release(&c->state);
    for (size_t i = 0; i < c->n_residuals; i++) rk_free(c->residuals[i]);
    rk_free(c->residuals);
    rk_model_free(c->model);
    rk_stored_tensors_close(&c->tensors);
    rk_comm_free(c->comm);
    rk_directory_lock_free(c->lock);
    rk_config_free(c->config);
    rk_config_free(c->then);
    rk_manifest_release(&c->manifest);
    rk_text_free(c->checkpoint);
}

static const rk_data_feature *find_feature(const rk_config *config, const char *name) {
    return RK_FIND_BY(name, name, config->data.features, config->data.n_features);
}

/* An id is its key where the feature's values are its ids. */
static rk_status check_ids_are_keys(const conversion *c) {
    for (int64_t i = 0; i < c->config->data.n_features; i++) {
        const rk_data_feature *now = &c->config->data.features[i], *then = find_feature(c->then, now->name);
        if (!then || now->key == then->key) continue;
        RK_FAIL_IF(now->identity_offset || then->identity_offset, RK_CONFIG,
                   "feature '%s' has an 'identity_offset', so its keys are not its ids\n"
                   "hint: leave it an 'identity': a dynamic table takes ids for keys, too",
                   now->name);
    }
    return RK_OK;
}

static rk_status check_configs_differ_in_tables(conversion *c) {
    RK_AUTOFREE char *then = NULL, *now = NULL;
    RK_TRY(rk_config_expand_patterns(c->config));
    RK_TRY(rk_config_to_yaml(c->then, &then));
    RK_TRY(rk_config_to_yaml(c->config, &now));
    RK_TRY(rk_resume_check(then, now, true));
    return check_ids_are_keys(c);
}

static rk_status lock_and_check_output(conversion *c) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    const char *output = c->config->train.output;
    RK_TRY(rk_directory_lock_acquire(output, &c->lock));
    RK_TRY(rk_checkpoint_recover_interrupted(output));
    RK_TRY(rk_checkpoint_list(output, &names));
    if (!names.n) return RK_OK;
    return rk_error_hint(rk_error(RK_CONFIG, "'%s' already holds a run's checkpoints", output),
                         "choose another train.output");
}

static rk_status open_checkpoint_and_model(conversion *c, const char *path, const rk_config *config) {
    rk_model_options options;
    RK_TRY(rk_checkpoint_find(path, &c->checkpoint));
    RK_TRY(rk_manifest_read(c->checkpoint, &c->manifest));
    RK_TRY(rk_checkpoint_load_run_file(c->checkpoint, NULL, 0, &c->then));
    RK_TRY(rk_config_copy(config, &c->config));
    RK_TRY(check_configs_differ_in_tables(c));
    RK_TRY(lock_and_check_output(c));
    RK_TRY(rk_comm_self(&c->comm));
    RK_TRY(rk_stored_tensors_open(c->checkpoint, &c->tensors));
    rk_transforms_free(c->config->transforms);
    c->config->transforms = NULL;
    RK_TRY(rk_transforms_load_files(&c->config->data, c->checkpoint, &c->config->transforms));
    RK_TRY(rk_config_model_options(c->config, rk_transforms_schema(c->config->transforms), true, &options));
    RK_TRY(rk_config_set_interactions(c->config, &options));
    options.converts = true;
    return rk_model_build(&options, &c->model);
}

static bool was_dynamic_table(const conversion *c, const char *table) {
    return rk_stored_tensors_find_of_table(&c->tensors, table, "keys") != NULL;
}

static bool is_dynamic_table(const conversion *c, const char *table) {
    const rk_embeddings *e = rk_model_embeddings(c->model);
    for (int32_t t = 0; t < rk_embeddings_n_tables(e); t++)
        if (strcmp(rk_embeddings_table_config(e, t)->name, table) == 0)
            return rk_embeddings_dynamic_config(e, t) != NULL;
    return false;
}

/* The ids of a static table as keys. */
static rk_status load_ids_as_keys(conversion *c, const char *table, int64_t n) {
    RK_AUTOFREE int64_t *ids = NULL;
    RK_AUTO(rk_buffer_release) rk_buffer name = {0};
    RK_TRY(rk_alloc((size_t)n, sizeof *ids, &ids));
    for (int64_t i = 0; i < n; i++) ids[i] = i;
    rk_buffer_printf(&name, "table/%s/keys", table);
    RK_TRY(name.status);
    return rk_model_load_keys(c->model, &(rk_stored_keys){name.data, 0, n, n, ids});
}

static rk_status load_keys_of_tables(conversion *c) {
    if (!rk_model_key_counts(c->model).n_tables) return RK_OK;
    RK_TRY(rk_checkpoint_read_keys(c->checkpoint, c->model));
    for (size_t i = 0; i < c->tensors.n; i++) {
        RK_AUTOFREE char *table = NULL;
        const char *what;
        RK_TRY(rk_parse_table_tensor_name(c->tensors.list[i].name, &table, &what));
        if (table && strcmp(what, "rows") == 0 && !was_dynamic_table(c, table) && is_dynamic_table(c, table))
            RK_TRY(load_ids_as_keys(c, table, c->tensors.list[i].n_rows));
    }
    return RK_OK;
}

/* "table/<table>/<what>" of what becomes of the checkpoint. */
static rk_status find_state_entry(const conversion *c, const char *table, const char *what,
                                  const rk_state_dict_entry **out) {
    RK_AUTO(rk_buffer_release) rk_buffer name = {0};
    rk_buffer_printf(&name, "table/%s/%s", table, what);
    RK_TRY(name.status);
    *out = rk_state_dict_find(&c->state, name.data);
    return RK_OK;
}

/* What a dynamic table knows of keys, where a static one did not count: all were admitted, and each was used
 * in the last batch, and not since. */
static rk_status fill_key_defaults(const conversion *c, const rk_state_dict_entry *entry, const char *table,
                                   const char *what) {
    int64_t step = c->manifest.progress.step;
    int32_t last_batch = (int32_t)(step - rk_dynamic_base_batch_number(step));
    if (strcmp(what, "last_batches") == 0)
        for (int64_t i = 0; i < entry->dims[0]; i++)
            memcpy((char *)entry->data + (size_t)i * rk_state_dict_stride(entry), &last_batch,
                   sizeof last_batch);
    if (strcmp(what, "batches") == 0) memcpy(entry->data, &step, sizeof step);
    if (strcmp(what, "totals") != 0) return RK_OK;
    const rk_state_dict_entry *keys;
    RK_TRY(find_state_entry(c, table, "keys", &keys));
    memcpy(entry->data, &keys->dims[0], sizeof(int64_t));
    return RK_OK;
}

static rk_status key_beyond_rows_error(const rk_state_dict_entry *entry, int64_t key) {
    return rk_error_hint(rk_error(RK_CONFIG, "tensor '%s': the key %lld is none of the ids 0 to %lld",
                                  entry->name, (long long)key, (long long)entry->dims[0] - 1),
                         "a static table has rows for ids alone: give it more, or leave it dynamic");
}

/* A static table's rows, or a slot, of those keys that there are; others keep their first values. */
static rk_status scatter_rows_by_key(conversion *c, const rk_state_dict_entry *entry, const char *table) {
    enum { ROWS_AT_ONCE = 4096 };
    const rk_stored_tensor *keys = rk_stored_tensors_find_of_table(&c->tensors, table, "keys"),
                           *rows = rk_stored_tensors_find(&c->tensors, entry->name);
    int64_t width = entry->n_dims > 1 ? entry->dims[1] : 1;
    size_t bytes = (size_t)width * rk_dtype_bytes(entry->type);
    RK_AUTOFREE int64_t *ids = NULL;
    RK_AUTOFREE char *values = NULL;
    RK_FAIL_IF(!rows || rows->n_columns != width || rows->type != entry->type, RK_CONFIG,
               "the checkpoint has no tensor '%s' of dtype %s and %lld values a row", entry->name,
               rk_dtype_name(entry->type), (long long)width);
    RK_FAIL_IF(rows->n_rows != keys->n_rows, RK_BAD_DATA, "tensor '%s' does not have a row for each key",
               entry->name);
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(ROWS_AT_ONCE, ids)));
    RK_TRY(rk_alloc(ROWS_AT_ONCE, bytes, &values));
    for (int64_t first = 0; first < rows->n_rows; first += ROWS_AT_ONCE) {
        int64_t n = rk_min_i64(rows->n_rows - first, ROWS_AT_ONCE);
        RK_TRY(rk_stored_tensor_read(&c->tensors, keys, first, n, ids));
        RK_TRY(rk_stored_tensor_read(&c->tensors, rows, first, n, values));
        for (int64_t i = 0; i < n; i++) {
            if (ids[i] < 0 || ids[i] >= entry->dims[0]) return key_beyond_rows_error(entry, ids[i]);
            memcpy((char *)entry->data + (size_t)ids[i] * bytes, values + (size_t)i * bytes, bytes);
        }
    }
    return RK_OK;
}

static bool starts_with(const char *text, const char *head) {
    return strncmp(text, head, strlen(head)) == 0;
}

/* Counts of keys without a row are two tensors. The checkpoint has both if it has this one. */
static const char *candidate_tensor_of(const char *what) {
    return starts_with(what, "candidate_")   ? "candidate_counts"
           : starts_with(what, "count_min_") ? "count_min_sketch"
           : starts_with(what, "bloom_")     ? "bloom_sketch"
                                             : NULL;
}

/* What is of keys without a row: the row that they share, and their counts. */
static bool is_tensor_of_absent_keys(const char *what) {
    return starts_with(what, "oov_") || candidate_tensor_of(what);
}

/* Of tables with a time to live by the stream's time. */
static bool is_clock_tensor(const char *what) {
    return strcmp(what, RK_STREAM_CLOCK_TENSOR) == 0;
}

/* Another column has a clock of its own. */
static bool is_same_timestamp(const conversion *c) {
    const char *then = c->then->data.timestamp, *now = c->config->data.timestamp;
    return then && now && strcmp(then, now) == 0;
}

/* Whether sketches are those of as many buckets, of the same size, shared rows as many, or a clock that of
 * the same timestamps; candidates have any number. */
static rk_status have_same_shape(const conversion *c, const char *table, const char *what,
                                 const rk_stored_tensor *stored, bool *same) {
    const rk_state_dict_entry *now;
    *same = true;
    if (starts_with(what, "candidate_")) return RK_OK;
    if (is_clock_tensor(what)) {
        *same = is_same_timestamp(c);
        return RK_OK;
    }
    RK_TRY(find_state_entry(c, table, what, &now));
    bool is_of_buckets = !starts_with(what, "oov_");
    *same = stored->n_rows == now->dims[0] && (!is_of_buckets || stored->n_columns == now->dims[1]);
    return RK_OK;
}

/* It may be of one of the two runs alone; other buckets have other sketches; and where there are as many cold
 * rows, a key has the same one. */
static rk_status check_whether_missing(const conversion *c, const char *table, const char *what,
                                       bool *is_missing) {
    const char *counts = candidate_tensor_of(what);
    const rk_stored_tensor *stored =
        rk_stored_tensors_find_of_table(&c->tensors, table, counts ? counts : what);
    bool may_miss = is_tensor_of_absent_keys(what) || is_clock_tensor(what);
    *is_missing = may_miss && !stored;
    if (!may_miss || !stored) return RK_OK;
    bool same;
    RK_TRY(have_same_shape(c, table, counts ? counts : what, stored, &same));
    *is_missing = !same;
    return RK_OK;
}

/* What the rows on a disk are made of is no value: fill_disk_tables writes those. */
static bool is_disk_layout_tensor(const char *what) {
    return starts_with(what, RK_DISK_PREFIX);
}

/* *as_stored: the checkpoint has the tensor as it is to be. */
static rk_status fill_converted_tensor(conversion *c, const rk_state_dict_entry *entry, bool *as_stored) {
    RK_AUTOFREE char *table = NULL;
    const char *what = NULL;
    RK_TRY(rk_parse_table_tensor_name(entry->name, &table, &what));
    *as_stored = !table || !is_disk_layout_tensor(what);
    if (!table || is_disk_layout_tensor(what)) return RK_OK;
    bool then = was_dynamic_table(c, table), now = is_dynamic_table(c, table),
         is_step = strcmp(what, "step") == 0;
    bool is_row = entry->type != RK_I64 && entry->type != RK_I32 && !is_tensor_of_absent_keys(what);
    if (then == now) {
        bool is_missing = false;
        if (now) RK_TRY(check_whether_missing(c, table, what, &is_missing));
        *as_stored = !is_missing;
        return RK_OK;
    }
    *as_stored = is_step || (now && is_row);
    if (now && !*as_stored) RK_TRY(fill_key_defaults(c, entry, table, what));
    return now || is_step ? RK_OK : scatter_rows_by_key(c, entry, table);
}

static rk_status check_stored_shape(const rk_state_dict_entry *entry, const rk_stored_tensor *stored,
                                    int64_t n_rows) {
    int64_t width = entry->n_dims > 1 ? entry->dims[1] : 1;
    RK_FAIL_IF(
        !stored || stored->n_rows != n_rows || stored->n_columns != width || stored->type != entry->type,
        RK_CONFIG, "the checkpoint has no %lld rows of dtype %s and %lld values for tensor '%s'",
        (long long)n_rows, rk_dtype_name(entry->type), (long long)width, entry->name);
    return RK_OK;
}

/* A tensor that the checkpoint has as it is to be, or a part of it, if it has its values on a disk. */
static rk_status read_values_from_disk(conversion *c, const rk_state_dict_entry *entry, bool *are_read) {
    RK_AUTOFREE char *name = NULL;
    rk_tensor_part part;
    RK_TRY(rk_tensor_part_parse(entry->name, entry->n_dims, entry->dims, &part));
    RK_TRY(rk_strndup(part.name, part.name_bytes, &name));
    const rk_stored_tensor *stored = rk_stored_tensors_find(&c->tensors, name);
    *are_read = stored && stored->on_disk >= 0;
    if (!*are_read) return RK_OK;
    RK_TRY(check_stored_shape(entry, stored, part.n_rows));
    return rk_stored_tensor_read(&c->tensors, stored, part.first, entry->dims[0], entry->data);
}

static rk_status read_stored_tensors(conversion *c) {
    RK_AUTOFREE rk_state_dict_entry *stored = NULL;
    size_t n = 0;
    RK_TRY(rk_alloc(c->state.n, sizeof *stored, &stored));
    for (size_t i = 0; i < c->state.n; i++) {
        bool as_stored, are_read = false;
        RK_TRY(fill_converted_tensor(c, &c->state.entries[i], &as_stored));
        if (as_stored) RK_TRY(read_values_from_disk(c, &c->state.entries[i], &are_read));
        if (as_stored && !are_read) stored[n++] = c->state.entries[i];
    }
    return rk_checkpoint_read_tensors(c->checkpoint, &(rk_state_dict){.entries = stored, .n = n});
}

/* A table whose rows are to be on a disk: records of key, row and slots, some at once. */
typedef struct disk_table {
    const char *table;
    const rk_stored_tensor *keys; /* NULL: ids are */
    const rk_stored_tensor *parts[1 + RK_MAX_SLOTS];
    size_t n_parts, record_bytes;
    int64_t n_rows;
    int64_t *ids; /* [ROWS_AT_ONCE] */
    char *values; /* [ROWS_AT_ONCE] of a part */
    char *records;
} disk_table;

static size_t bytes_per_row_of_tensor(const rk_stored_tensor *part) {
    return (size_t)part->n_columns * rk_dtype_bytes(part->type);
}

static rk_status find_tensors_of_disk_table(const conversion *c, disk_table *t) {
    const rk_stored_tensor *rows = rk_stored_tensors_find_of_table(&c->tensors, t->table, "rows");
    t->keys = rk_stored_tensors_find_of_table(&c->tensors, t->table, "keys");
    t->n_rows = t->keys ? t->keys->n_rows : rows ? rows->n_rows : 0;
    t->record_bytes = sizeof *t->ids;
    for (size_t i = 0; i < c->state.n; i++) {
        const rk_state_dict_entry *entry = &c->state.entries[i];
        RK_AUTOFREE char *table = NULL;
        const char *what;
        RK_TRY(rk_parse_table_tensor_name(entry->name, &table, &what));
        if (!table || strcmp(table, t->table) != 0 || !is_disk_layout_tensor(what)) continue;
        const rk_stored_tensor *part =
            rk_stored_tensors_find_of_table(&c->tensors, table, what + strlen(RK_DISK_PREFIX));
        RK_TRY(check_stored_shape(entry, part, t->n_rows));
        t->parts[t->n_parts++] = part;
        t->record_bytes += bytes_per_row_of_tensor(part);
    }
    return RK_OK;
}

static rk_status write_disk_records(conversion *c, const disk_table *t, int64_t first, int64_t n) {
    for (int64_t i = 0; i < n; i++) t->ids[i] = first + i;
    if (t->keys) RK_TRY(rk_stored_tensor_read(&c->tensors, t->keys, first, n, t->ids));
    for (int64_t i = 0; i < n; i++)
        memcpy(t->records + (size_t)i * t->record_bytes, &t->ids[i], sizeof *t->ids);
    size_t at = sizeof *t->ids;
    for (size_t p = 0; p < t->n_parts; p++) {
        size_t bytes = bytes_per_row_of_tensor(t->parts[p]);
        RK_TRY(rk_stored_tensor_read(&c->tensors, t->parts[p], first, n, t->values));
        for (int64_t i = 0; i < n; i++)
            memcpy(t->records + (size_t)i * t->record_bytes + at, t->values + (size_t)i * bytes, bytes);
        at += bytes;
    }
    return rk_embeddings_append_row_records(rk_model_embeddings(c->model), t->table, n, t->records);
}

static rk_status fill_disk_table(conversion *c, disk_table *t) {
    enum { ROWS_AT_ONCE = 1024 };
    RK_TRY(find_tensors_of_disk_table(c, t));
    RK_TRY(rk_alloc(ROWS_AT_ONCE, sizeof *t->ids, &t->ids));
    RK_TRY(rk_alloc(ROWS_AT_ONCE, t->record_bytes, &t->values));
    RK_TRY(rk_alloc(ROWS_AT_ONCE, t->record_bytes, &t->records));
    for (int64_t first = 0; first < t->n_rows; first += ROWS_AT_ONCE)
        RK_TRY(write_disk_records(c, t, first, rk_min_i64(t->n_rows - first, ROWS_AT_ONCE)));
    return RK_OK;
}

static rk_status fill_disk_tables(conversion *c) {
    const rk_embeddings *e = rk_model_embeddings(c->model);
    for (int32_t i = 0; i < rk_embeddings_n_tables(e); i++) {
        const rk_dynamic_config *dynamic = rk_embeddings_dynamic_config(e, i);
        if (!dynamic || !dynamic->storage) continue;
        disk_table t = {.table = rk_embeddings_table_config(e, i)->name};
        rk_status status = fill_disk_table(c, &t);
        RK_FREE_ALL(t.ids, t.values, t.records);
        RK_TRY(status);
    }
    return RK_OK;
}

static rk_status list_state_tensors(conversion *c) {
    rk_state_dict_release(&c->state);
    return rk_model_state_dict(c->model, &c->state);
}

/* A row that keys share has former values where it has its own from the checkpoint. */
static rk_status find_lost_image(const conversion *c, const char *table, bool *is_lost) {
    const rk_state_dict_entry *now;
    RK_TRY(find_state_entry(c, table, "oov_rows", &now));
    *is_lost = !now;
    return now ? check_whether_missing(c, table, "oov_rows", is_lost) : RK_OK;
}

static rk_status read_before_image(void *context, const char *name, int64_t n, int64_t record_bytes,
                                   const void *records) {
    conversion *c = context;
    RK_AUTOFREE char *table = NULL;
    rk_before_image_name is;
    bool is_lost = false;
    RK_TRY(rk_before_image_name_parse(name, &is));
    RK_TRY(rk_strndup(is.table.data, is.table.n_bytes, &table));
    if (is.are_shared) RK_TRY(find_lost_image(c, table, &is_lost));
    return is_lost ? RK_OK : rk_convert_before_image(c->model, name, n, record_bytes, records);
}

/* As it is: the dense part stays. */
static rk_status keep_residual(void *context, const char *name, size_t n, const void *values) {
    conversion *c = context;
    RK_TRY(rk_reserve_one_more(&c->residuals, c->n_residuals, &c->max_residuals, sizeof *c->residuals));
    RK_TRY(rk_alloc(n, sizeof **c->residuals, &c->residuals[c->n_residuals]));
    float *copy = c->residuals[c->n_residuals++];
    memcpy(copy, values, n * sizeof *copy);
    return rk_state_dict_add(&c->state, name, RK_F32, (int64_t)n, 0, copy);
}

/* The run begins anew at this step: it has no logs and no earlier checkpoints. */
static rk_status write_checkpoint(conversion *c, char **out) {
    rk_progress *p = &c->manifest.progress;
    p->log_bytes = p->events_bytes = 0;
    if (p->stopping.best_step != p->step) rk_early_stopping_reset_best(&p->stopping);
    if (!c->manifest.has_inputs) RK_TRY(rk_input_fingerprints_compute(c->config, &c->manifest.inputs));
    return rk_checkpoint_write(c->config, c->comm, c->model, &c->state, p, &c->manifest.inputs, out);
}

static rk_status convert_checkpoint(conversion *c, const char *path, const rk_config *config, char **out) {
    RK_TRY(open_checkpoint_and_model(c, path, config));
    RK_TRY(list_state_tensors(c));
    RK_TRY(load_keys_of_tables(c));
    RK_TRY(list_state_tensors(c));
    RK_TRY(read_stored_tensors(c));
    RK_TRY(fill_disk_tables(c));
    RK_TRY(rk_model_reload(c->model));
    RK_TRY(rk_checkpoint_take_before_images(c->checkpoint, read_before_image, c));
    RK_TRY(list_state_tensors(c));
    RK_TRY(rk_checkpoint_take_residuals(c->checkpoint, keep_residual, c));
    return write_checkpoint(c, out);
}

rk_status rk_checkpoint_convert(const char *path, const rk_config *config, char **out) {
    conversion c = {0};
    rk_status status = convert_checkpoint(&c, path, config, out);
    release_conversion(&c);
    return status;
}
