/* Public functions that take a run file's parts to where they belong. */
#include <string.h>

#include <reckon/convert.h>
#include <reckon/dataset.h>
#include <reckon/runtime.h>

#include "base/thread/cpu.h"
#include "base/thread/parallel.h"
#include "data/convert.h"
#include "data/dataset/dataset.h"
#include "data/source/source.h"
#include "train/config/run_config.h"

rk_status rk_dataset_open(const rk_config *config, const char *split, rk_dataset **out) {
    rk_config *c = (rk_config *)(size_t)
        config; /* fitting the transforms is a matter of when, not of what the configuration says */
    const rk_transforms *transforms;
    RK_TRY(rk_config_transforms(c, NULL, NULL, &transforms));
    rk_dataset_options options = {.directory = c->directory,
                                  .split = split,
                                  .batch_size = c->train.batch_size,
                                  .seed = (uint64_t)c->data.seed,
                                  .shuffle = c->data.shuffle && strcmp(split, "train") == 0};
    return rk_dataset_create(&c->data, transforms, &options, out);
}

rk_status rk_model_create(const rk_config *config, const rk_dataset *dataset, rk_model **out) {
    rk_model_options options;
    RK_TRY(rk_config_model_options(config, rk_dataset_schema(dataset), true, &options));
    return rk_model_build(&options, out);
}

rk_status rk_model_outline(const rk_config *config, const rk_dataset *dataset, rk_model **out) {
    rk_model_options options;
    RK_TRY(rk_config_model_options(config, rk_dataset_schema(dataset), true, &options));
    options.is_outline = true;
    return rk_model_build(&options, out);
}

static rk_status graph_text(const rk_config *config, const rk_dataset *dataset, bool dot, char **out) {
    rk_model_options options;
    RK_TRY(rk_config_model_options(config, rk_dataset_schema(dataset), true, &options));
    return rk_model_graph_text(&options, dot, out);
}

rk_status rk_model_graph_yaml(const rk_config *config, const rk_dataset *dataset, char **out) {
    return graph_text(config, dataset, false, out);
}

rk_status rk_model_graph_dot(const rk_config *config, const rk_dataset *dataset, char **out) {
    return graph_text(config, dataset, true, out);
}

rk_status rk_convert(const char *input, const char *output, const rk_convert_options *options,
                     int64_t *n_rows, int64_t *n_skipped) {
    static const rk_convert_options plain = RK_CONVERT_OPTIONS_INIT;
    if (!options) options = &plain;
    const rk_config *c = options->config;
    if (!c) return rk_data_convert(input, output, options, NULL, n_rows, n_skipped);
    const rk_data_section manner = rk_data_section_of_file(&c->data, c->directory, input);
    return rk_data_convert(input, output, options, &manner, n_rows, n_skipped);
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
