/* Public functions that pass a run file's parts to the layers below. */
#include <string.h>

#include <reckon/convert.h>
#include <reckon/checkpoint.h>
#include <reckon/dataset.h>
#include <reckon/runtime.h>
#include <reckon/transforms.h>

#include "base/memory.h"
#include "base/thread/instruction_set.h"
#include "base/struct_size.h"
#include "base/thread/parallel.h"
#include "data/convert.h"
#include "data/dataset/dataset.h"
#include "data/source/source.h"
#include "train/config/run_config.h"

rk_dataset_options rk_config_dataset_options(const rk_config *c, const char *split) {
    bool train = strcmp(split, "train") == 0;
    return (rk_dataset_options){.directory = c->directory,
                                .split = split,
                                .batch_size = c->train.batch_size,
                                .seed = (uint64_t)c->data.seed,
                                .n_epochs = train ? c->train.epochs : 0,
                                .shuffle = train && c->data.shuffle};
}

rk_status rk_config_open_data(const rk_config *c, const rk_transforms *transforms, const char *split,
                              rk_dataset **out) {
    rk_dataset_options options = rk_config_dataset_options(c, split);
    return rk_dataset_create(rk_transforms_section(transforms), transforms, &options, out);
}

int64_t rk_config_row_cache_bytes(const rk_config *c) {
    return c->train.epochs == 1 ? 0 : c->data.cache_bytes;
}

rk_status rk_dataset_open_transformed(const rk_config *config, const rk_transforms *transforms,
                                      const char *split, rk_dataset **out) {
    return rk_config_open_data(config, transforms, split, out);
}

static void free_attached_config(void *config) {
    rk_config_free(config);
}

/* They own the configuration whose section they point into. */
static void attach_config_to_transforms(rk_config *own, rk_transforms **out) {
    *out = own->transforms;
    own->transforms = NULL;
    rk_transforms_set_owner(*out, own, free_attached_config);
}

rk_status rk_transforms_load(const char *path, rk_transforms **out) {
    rk_config *own;
    RK_AUTOFREE char *found = NULL;
    RK_TRY(rk_checkpoint_find_best(path, &found));
    RK_TRY(rk_checkpoint_config(found, NULL, 0, &own));
    attach_config_to_transforms(own, out);
    return RK_OK;
}

rk_status rk_transforms_fit(const rk_config *config, rk_transforms **out) {
    RK_AUTO(rk_config_auto_free) rk_config *own = NULL;
    const rk_transforms *fitted;
    RK_FAIL_IF(config->transforms, RK_INVALID_ARGUMENT,
               "the configuration comes from a checkpoint, whose transforms are fitted already\nhint: use "
               "rk_transforms_load");
    RK_TRY(rk_config_copy(config, &own));
    RK_TRY(rk_config_transforms(own, NULL, NULL, &fitted));
    attach_config_to_transforms(own, out);
    own = NULL;
    return RK_OK;
}

rk_status rk_dataset_open(const rk_config *config, const char *split, rk_dataset **out) {
    if (config->transforms) return rk_config_open_data(config, config->transforms, split, out);
    rk_transforms *transforms;
    RK_TRY(rk_transforms_fit(config, &transforms));
    rk_status status = rk_config_open_data(config, transforms, split, out);
    if (status == RK_OK)
        rk_dataset_take_transforms(*out, transforms);
    else
        rk_transforms_free(transforms);
    return status;
}

static rk_status create_model_from_config(const rk_config *config, const rk_dataset *dataset, bool is_outline,
                                          rk_model **out) {
    rk_model_options options;
    RK_TRY(rk_config_training_options(config, dataset, &options));
    options.is_outline = is_outline;
    rk_status status = rk_model_build(&options, out);
    rk_interactions_unref(options.interactions);
    return status;
}

rk_status rk_model_create(const rk_config *config, const rk_dataset *dataset, rk_model **out) {
    return create_model_from_config(config, dataset, false, out);
}

rk_status rk_model_outline(const rk_config *config, const rk_dataset *dataset, rk_model **out) {
    return create_model_from_config(config, dataset, true, out);
}

static rk_status write_graph_of_config(const rk_config *config, const rk_dataset *dataset, bool dot,
                                       char **out) {
    rk_model_options options;
    RK_TRY(rk_config_training_options(config, dataset, &options));
    rk_status status = rk_model_graph_text(&options, dot, out);
    rk_interactions_unref(options.interactions);
    return status;
}

rk_status rk_model_graph_yaml(const rk_config *config, const rk_dataset *dataset, char **out) {
    return write_graph_of_config(config, dataset, false, out);
}

rk_status rk_model_graph_dot(const rk_config *config, const rk_dataset *dataset, char **out) {
    return write_graph_of_config(config, dataset, true, out);
}

rk_status rk_convert(const char *input, const char *output, const rk_convert_options *options,
                     int64_t *n_rows, int64_t *n_skipped) {
    rk_convert_options o = RK_CONVERT_OPTIONS_INIT;
    RK_TRY(rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_convert_options, user),
                              "rk_convert_options"));
    const rk_config *c = o.config;
    if (!c) return rk_data_convert(input, output, &o, NULL, n_rows, n_skipped);
    const rk_data_section manner = rk_data_section_of_file(&c->data, c->directory, input);
    return rk_data_convert(input, output, &o, &manner, n_rows, n_skipped);
}

rk_status rk_set_threads(int n_threads) {
    return rk_parallel_set_threads(n_threads);
}
int rk_threads(void) {
    return rk_parallel_threads();
}
const char *rk_runtime_isa(void) {
    return rk_isa_name(rk_cpu_isa());
}
const char *rk_runtime_cpu(void) {
    return rk_cpu_name();
}
