/* A checkpoint's tensors into a model's, and the model of the run file that it keeps. */
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "format/safetensors.h"
#include "train/checkpoint_part.h"
#include "train/checkpoint_parts.h"

/* A tensor of the state, and how much of it has been read. */
typedef struct wanted_tensor {
    const rk_state_entry *entry;
    rk_tensor_part part;
    int64_t n_elements, n_read;
} wanted_tensor;

/* Counters stand in every part of a table: any of them will do. */
static bool is_counter(const rk_state_entry *entry) {
    return entry->type == RK_STATE_I64 && entry->n_dims == 1 && entry->dims[0] == 1;
}

static rk_status copy_tensor(wanted_tensor *to, const rk_safetensors_entry *from, const rk_tensor_part *part, const void *data) {
    RK_FAIL_IF(to->entry->type != from->type, RK_CONFIG, "tensor '%s' is stored in another type\nhint: the configuration changed since", from->name);
    if (is_counter(to->entry) && from->n_bytes == sizeof(int64_t)) {
        memcpy(to->entry->data, data, sizeof(int64_t));
        to->n_read = 1;
        return RK_OK;
    }
    return rk_tensor_part_copy(&to->part, to->entry->data, part, data, rk_state_type_bytes(from->type), &to->n_read);
}

/* The tensors of one file that are wanted, wholly or in part. */
static rk_status copy_tensors(const rk_safetensors *tensors, const unsigned char *data, wanted_tensor *list, size_t n) {
    for (size_t i = 0; i < tensors->n; i++) {
        const rk_safetensors_entry *from = &tensors->entries[i];
        rk_tensor_part part;
        RK_TRY(rk_tensor_part_parse(from->name, from->n_dims, from->dims, &part));
        for (size_t k = 0; k < n; k++)
            if (rk_tensor_parts_match(&list[k].part, &part)) RK_TRY(copy_tensor(&list[k], from, &part, data + from->begin));
    }
    return RK_OK;
}

static rk_status read_shard(const char *path, wanted_tensor *list, size_t n) {
    rk_map map;
    rk_safetensors tensors;
    RK_TRY(rk_map_open(path, &map));
    rk_status status = rk_safetensors_parse(map.data, map.n_bytes, map.n_bytes, &tensors);
    if (status == RK_OK) {
        status = copy_tensors(&tensors, map.data, list, n);
        rk_safetensors_release(&tensors);
    }
    rk_map_release(&map);
    return status == RK_OK ? RK_OK : rk_error_context(status, "'%s'", path);
}

static rk_status list_wanted(const rk_state *state, wanted_tensor **out) {
    wanted_tensor *list;
    RK_TRY(rk_alloc(state->n, sizeof *list, &list));
    rk_status status = RK_OK;
    for (size_t i = 0; status == RK_OK && i < state->n; i++) {
        const rk_state_entry *e = &state->entries[i];
        list[i] = (wanted_tensor){.entry = e, .n_elements = (int64_t)(rk_state_entry_bytes(e) / rk_state_type_bytes(e->type))};
        status = rk_tensor_part_parse(e->name, e->n_dims, e->dims, &list[i].part);
    }
    if (status == RK_OK)
        *out = list;
    else
        rk_free(list);
    return status;
}

rk_status rk_checkpoint_read(const char *path, const rk_state *state) {
    rk_manifest m;
    wanted_tensor *list = NULL;
    RK_TRY(rk_manifest_read(path, &m));
    rk_status status;
    RK_GOTO(list_wanted(state, &list));
    for (size_t i = 0; i < m.n_files; i++) {
        if (!strstr(m.files[i], ".safetensors")) continue;
        char *file;
        RK_GOTO(rk_path_join(path, m.files[i], &file));
        status = read_shard(file, list, state->n);
        rk_free(file);
        if (status != RK_OK) goto done;
    }
    for (size_t i = 0; i < state->n; i++)
        if (list[i].n_read != list[i].n_elements)
            RK_GOTO(rk_error(RK_CONFIG, "'%s' has %s tensor '%s'", path, list[i].n_read ? "only a part of" : "no", state->entries[i].name));
done:
    rk_free(list);
    rk_manifest_release(&m);
    return status;
}

rk_status rk_checkpoint_config(const char *path, const char *const *overrides, size_t n_overrides, rk_config **out) {
    char *file = NULL, *text = NULL, *directory_file = NULL, *directory = NULL;
    size_t n_bytes;
    rk_config *config = NULL;
    rk_status status;
    RK_GOTO(rk_path_join(path, "config.yaml", &file));
    RK_GOTO(rk_file_read(file, &text, &n_bytes));
    RK_GOTO(rk_path_join(path, "directory.txt", &directory_file));
    RK_GOTO(rk_file_read(directory_file, &directory, &n_bytes));
    RK_GOTO(rk_config_parse(text, file, directory, overrides, n_overrides, &config));
    RK_GOTO(rk_transforms_load(&config->data, path, &config->transforms));
    *out = config;
    config = NULL;
done:
    rk_config_free(config);
    rk_free(file);
    rk_free(text);
    rk_free(directory_file);
    rk_free(directory);
    return status;
}

rk_status rk_checkpoint_model(const char *path, const rk_config *config, const rk_model_device *device, const rk_model_cluster *cluster, rk_model **out) {
    rk_model *model = NULL;
    rk_state state = {0};
    rk_model_options options;
    rk_status status;
    RK_GOTO(rk_config_model_options(config, rk_transforms_schema(config->transforms), false, &options));
    options.device = device;
    options.cluster = cluster;
    RK_GOTO(rk_model_build(&options, &model));
    RK_GOTO(rk_model_state(model, &state));
    RK_GOTO(rk_checkpoint_read(path, &state));
    RK_GOTO(rk_model_refresh(model));
    *out = model;
    model = NULL;
done:
    rk_state_release(&state);
    rk_model_free(model);
    return status;
}

rk_status rk_checkpoint_load_model(const char *path, rk_model **out) {
    rk_config *config;
    RK_TRY(rk_checkpoint_verify(path));
    RK_TRY(rk_checkpoint_config(path, NULL, 0, &config));
    rk_status status = rk_checkpoint_model(path, config, NULL, NULL, out);
    rk_config_free(config);
    return status;
}
