/* A checkpoint's tensors into a model's, and the model of the run file that it keeps. */
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "embedding/local/state/row_before_images.h"
#include "format/safetensors.h"
#include "model/step/residual.h"
#include "base/tensor/tensor_part.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/model_reader.h"
#include "train/checkpoint/stored_tensors.h"

/* A tensor of the state, and how much of it has been read. */
typedef struct wanted_tensor {
    const rk_state_dict_entry *entry;
    rk_tensor_part part;
    int64_t n_elements, n_read;
    bool is_there; /* though it may be empty */
} wanted_tensor;

/* Counters stand in every part of a table: any of them will do. */
static bool is_counter_tensor(const rk_state_dict_entry *entry) {
    return entry->type == RK_I64 && entry->n_dims == 1 && entry->dims[0] == 1;
}

static rk_status copy_tensor_part(wanted_tensor *to, const rk_safetensors_entry *from,
                                  const rk_tensor_part *part, const void *data) {
    RK_FAIL_IF(to->entry->type != from->type, RK_CONFIG,
               "tensor '%s' is stored with another dtype\nhint: the configuration changed since the "
               "checkpoint was saved",
               from->name);
    if (is_counter_tensor(to->entry) && from->n_bytes == sizeof(int64_t) && !part->is_block &&
        !to->part.is_block) {
        memcpy(to->entry->data, data, sizeof(int64_t));
        to->n_read = 1;
        return RK_OK;
    }
    return rk_tensor_part_copy(&to->part, to->entry->data, to->entry->stride, part, data,
                               rk_dtype_bytes(from->type), &to->n_read);
}

/* What is read of a checkpoint: `take` gets each tensor of each file. */
typedef struct reading {
    rk_status (*take)(struct reading *r, const rk_safetensors_entry *from, const void *data);
    wanted_tensor *list; /* [n] */
    size_t n;
    rk_model *model;
    rk_take_before_image take_image;
    rk_take_residual take_residual;
    void *context;
} reading;

/* Those that are wanted, wholly or in part. */
static rk_status copy_wanted_tensor(reading *r, const rk_safetensors_entry *from, const void *data) {
    rk_tensor_part part;
    RK_TRY(rk_tensor_part_parse(from->name, from->n_dims, from->dims, &part));
    for (size_t k = 0; k < r->n; k++)
        if (rk_tensor_parts_same_tensor(&r->list[k].part, &part)) {
            r->list[k].is_there = true;
            RK_TRY(copy_tensor_part(&r->list[k], from, &part, data));
        }
    return RK_OK;
}

static rk_status take_before_image(reading *r, const rk_safetensors_entry *from, const void *data) {
    if (strncmp(from->name, RK_BEFORE_IMAGE_PREFIX, strlen(RK_BEFORE_IMAGE_PREFIX)) != 0) return RK_OK;
    RK_FAIL_IF(from->type != RK_U8 || from->n_dims != 2, RK_BAD_DATA,
               "tensor '%s': its name does not match its shape", from->name);
    return r->take_image(r->context, from->name, from->dims[0], from->dims[1], data);
}

static rk_status take_residual(reading *r, const rk_safetensors_entry *from, const void *data) {
    if (strncmp(from->name, RK_RESIDUAL_PREFIX, strlen(RK_RESIDUAL_PREFIX)) != 0) return RK_OK;
    RK_FAIL_IF(from->type != RK_F32 || from->n_dims != 1, RK_BAD_DATA,
               "tensor '%s': its name does not match its shape", from->name);
    return r->take_residual(r->context, from->name, (size_t)from->dims[0], data);
}

/* Keys of dynamic tables; those of a file that was not written here may stand at any byte. */
static rk_status read_table_keys(reading *r, const rk_safetensors_entry *from, const void *data) {
    RK_AUTOFREE int64_t *aligned = NULL;
    RK_AUTOFREE char *name = NULL;
    rk_tensor_part part;
    if (from->type != RK_I64 || from->n_dims != 1) return RK_OK;
    RK_TRY(rk_tensor_part_parse(from->name, from->n_dims, from->dims, &part));
    if (part.step != 1) return RK_OK; /* a counter's part */
    RK_TRY(rk_strndup(part.name, part.name_bytes, &name));
    if ((uintptr_t)data % sizeof *aligned) {
        RK_TRY(rk_alloc((size_t)from->dims[0], sizeof *aligned, &aligned));
        memcpy(aligned, data, from->n_bytes);
    }
    rk_stored_keys keys = {name, part.first, from->dims[0], part.n_rows, aligned ? aligned : data};
    return rk_model_load_keys(r->model, &keys);
}

static rk_status read_shard(reading *r, const char *path) {
    RK_AUTO(rk_mapped_file_release) rk_mapped_file map = {0};
    RK_AUTO(rk_safetensors_release) rk_safetensors tensors = {0};
    RK_TRY(rk_mapped_file_open(path, &map));
    rk_status status = rk_safetensors_parse(map.data, map.n_bytes, map.n_bytes, &tensors);
    for (size_t i = 0; status == RK_OK && i < tensors.n; i++)
        status = r->take(r, &tensors.entries[i], (const unsigned char *)map.data + tensors.entries[i].begin);
    return status == RK_OK ? RK_OK : rk_error_context(status, "'%s'", path);
}

static rk_status read_shards(reading *r, const char *path) {
    RK_AUTO(rk_manifest_release) rk_manifest m = {0};
    RK_TRY(rk_manifest_read(path, &m));
    for (size_t i = 0; i < m.n_files; i++) {
        if (!strstr(m.files[i].name, ".safetensors")) continue;
        RK_AUTOFREE char *file = NULL;
        RK_TRY(rk_path_join(path, m.files[i].name, &file));
        RK_TRY(read_shard(r, file));
    }
    return RK_OK;
}

static rk_status list_requested_tensors(const rk_state_dict *state, wanted_tensor **out) {
    RK_TRY(rk_alloc(state->n, sizeof **out, out));
    for (size_t i = 0; i < state->n; i++) {
        const rk_state_dict_entry *e = &state->entries[i];
        wanted_tensor *wanted = &(*out)[i];
        wanted->entry = e;
        wanted->n_elements = (int64_t)(rk_state_dict_entry_bytes(e) / rk_dtype_bytes(e->type));
        RK_TRY(rk_tensor_part_parse(e->name, e->n_dims, e->dims, &wanted->part));
    }
    return RK_OK;
}

static bool part_name_ends_with(const rk_tensor_part *part, const char *ending) {
    size_t n = strlen(ending);
    return part->name_bytes > n && memcmp(part->name + part->name_bytes - n, ending, n) == 0;
}

/* A dynamic table has the keys that were admitted and not evicted: with fewer, keys and rows were lost
 * together. Its keys stand before its totals. */
static rk_status check_key_totals(const wanted_tensor *list, size_t n) {
    const rk_tensor_part *keys = NULL;
    for (size_t i = 0; i < n; i++) {
        const rk_tensor_part *part = &list[i].part;
        if (part_name_ends_with(part, "/keys")) keys = part;
        if (!keys || !part_name_ends_with(part, "/totals") || list[i].entry->type != RK_I64 ||
            part->n_elements != 3)
            continue;
        const int64_t *totals = list[i].entry->data;
        int64_t n_wanted;
        bool fits = !__builtin_sub_overflow(totals[0], totals[1], &n_wanted) && keys->n_rows == n_wanted;
        RK_FAIL_IF(!fits, RK_BAD_DATA,
                   "tensor '%.*s' has %lld keys, but by its totals %lld were admitted and %lld evicted",
                   (int)keys->name_bytes, keys->name, (long long)keys->n_rows, (long long)totals[0],
                   (long long)totals[1]);
        keys = NULL;
    }
    return RK_OK;
}

rk_status rk_checkpoint_read_tensors(const char *path, const rk_state_dict *state) {
    RK_AUTOFREE wanted_tensor *list = NULL;
    /* Values are counted as they are read: none may be there twice. */
    RK_TRY(rk_stored_tensors_check_files(path));
    RK_TRY(list_requested_tensors(state, &list));
    reading r = {.take = copy_wanted_tensor, .list = list, .n = state->n};
    RK_TRY(read_shards(&r, path));
    for (size_t i = 0; i < state->n; i++)
        RK_FAIL_IF(!list[i].is_there || list[i].n_read != list[i].n_elements, RK_CONFIG,
                   "'%s' has %s tensor '%s'", path, list[i].n_read ? "only a part of" : "no",
                   state->entries[i].name);
    return check_key_totals(list, state->n);
}

static rk_status load_row_files(const char *path, rk_model *model) {
    RK_AUTOFREE char *folder = NULL;
    if (!rk_model_has_row_files(model)) return RK_OK;
    RK_TRY(rk_path_join(path, RK_CHECKPOINT_ROWS, &folder));
    return rk_model_load_rows(model, folder);
}

rk_status rk_checkpoint_read_keys(const char *path, rk_model *model) {
    reading r = {.take = read_table_keys, .model = model};
    RK_TRY(rk_model_load_keys(model, NULL));
    return read_shards(&r, path);
}

rk_status rk_checkpoint_read_model(const char *path, rk_model *model, rk_state_dict *state) {
    if (rk_model_key_counts(model).n_tables) {
        RK_TRY(rk_checkpoint_read_keys(path, model));
        rk_state_dict_release(state);
        RK_TRY(rk_model_state_dict(model, state));
    }
    RK_TRY(rk_checkpoint_read_tensors(path, state));
    return load_row_files(path, model);
}

rk_status rk_checkpoint_take_before_images(const char *path, rk_take_before_image take, void *context) {
    reading r = {.take = take_before_image, .take_image = take, .context = context};
    return read_shards(&r, path);
}

static rk_status read_before_image(void *model, const char *name, int64_t n, int64_t record_bytes,
                                   const void *records) {
    return rk_model_read_before_images(model, name, n, record_bytes, records);
}

rk_status rk_checkpoint_read_before_images(const char *path, rk_model *model) {
    return rk_checkpoint_take_before_images(path, read_before_image, model);
}

rk_status rk_checkpoint_take_residuals(const char *path, rk_take_residual take, void *context) {
    reading r = {.take = take_residual, .take_residual = take, .context = context};
    return read_shards(&r, path);
}

static rk_status read_residual(void *model, const char *name, size_t n, const void *values) {
    return rk_model_read_residual(model, name, n, values);
}

rk_status rk_checkpoint_read_residual(const char *path, rk_model *model) {
    return rk_checkpoint_take_residuals(path, read_residual, model);
}

rk_status rk_checkpoint_load_run_file(const char *path, const char *const *overrides, size_t n_overrides,
                                      rk_config **out) {
    RK_AUTOFREE char *file = NULL, *text = NULL, *directory_file = NULL, *directory = NULL;
    size_t n_bytes;
    RK_TRY(rk_path_join(path, "config.yaml", &file));
    RK_TRY(rk_file_read(file, &text, &n_bytes));
    RK_TRY(rk_path_join(path, "directory.txt", &directory_file));
    RK_TRY(rk_directory_is_export(path) ? rk_strdup("", &directory)
                                        : rk_file_read(directory_file, &directory, &n_bytes));
    if (!rk_file_exists(directory))
        directory[0] = 0; /* moved since: paths are then relative to where the program runs */
    return rk_config_parse(text, file, directory, overrides, n_overrides, out);
}

rk_status rk_checkpoint_config(const char *path, const char *const *overrides, size_t n_overrides,
                               rk_config **out) {
    RK_AUTO(rk_config_auto_free) rk_config *config = NULL;
    RK_TRY(rk_checkpoint_load_run_file(path, overrides, n_overrides, &config));
    RK_TRY(rk_transforms_load_files(&config->data, path, &config->transforms));
    rk_transforms_set_directory(config->transforms, config->directory);
    *out = config;
    config = NULL;
    return RK_OK;
}

rk_status rk_checkpoint_build_model(const char *path, rk_config *config, const rk_model_device *device,
                                    const rk_model_cluster *cluster, rk_export_rows rows,
                                    const rk_row_reading *how, rk_model **out) {
    RK_AUTO(rk_model_auto_free) rk_model *model = NULL;
    RK_AUTO(rk_state_dict_release) rk_state_dict state = {0};
    RK_AUTO(rk_model_reader_close) rk_model_reader stored = {0};
    RK_AUTO(rk_row_source_auto) rk_row_source *source = NULL;
    bool by_rows = rows != RK_EXPORT_ROWS_TRAINED || rk_directory_is_export(path);
    rk_model_options options;
    RK_TRY(rk_config_model_options(config, rk_transforms_schema(config->transforms), false, &options));
    RK_TRY(rk_config_set_interactions(config, &options));
    options.device = device;
    options.cluster = cluster;
    options.rows_are_read = true;
    if (by_rows) {
        rk_status status = rk_model_reader_open(path, rows, &stored);
        RK_TRY(cluster ? rk_comm_agree_on_status(cluster->comm, status) : status);
        options.row_dtype = rk_model_reader_row_dtype;
        options.row_context = &stored;
        RK_TRY(rk_model_reader_row_source(&stored, path, !device && !cluster, how, &source));
        options.row_source = &source;
    }
    options.has_missing_rows = rk_directory_is_export(path);
    RK_TRY(rk_model_build(&options, &model));
    if (by_rows) RK_TRY(rk_model_reader_load_keys(&stored, cluster != NULL, model));
    RK_TRY(rk_model_state_dict(model, &state));
    RK_TRY(by_rows ? rk_model_reader_read_state(&stored, &state)
                   : rk_checkpoint_read_model(path, model, &state));
    RK_TRY(rk_model_reload(model));
    *out = model;
    model = NULL;
    return RK_OK;
}

rk_status rk_checkpoint_load_model(const char *path, rk_model **out) {
    RK_AUTO(rk_config_auto_free) rk_config *config = NULL;
    const rk_row_reading none = {0}; /* a checkpoint's rows are in its files */
    RK_TRY(rk_checkpoint_verify(path));
    RK_TRY(rk_checkpoint_config(path, NULL, 0, &config));
    return rk_checkpoint_build_model(path, config, NULL, NULL, RK_EXPORT_ROWS_TRAINED, &none, out);
}
