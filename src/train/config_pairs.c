/* The pairs that a two_tower's run file speaks of. */
#include <string.h>

#include "data/dataset.h"
#include "model/preset.h"
#include "train/run_config.h"

bool rk_config_has_pairs(const rk_config *c) {
    const rk_preset *preset = rk_preset_of(c->model.kind);
    return preset && preset->pairs;
}

static rk_status find(const rk_data_schema *schema, const char *name, int32_t *out) {
    for (*out = 0; *out < schema->n_features; (*out)++)
        if (strcmp(schema->features[*out].name, name) == 0) return RK_OK;
    return rk_error(RK_CONFIG, "there is no categorical feature '%s', which 'model.retrieval' names", name);
}

rk_status rk_config_pair_features(const rk_config *c, const rk_data_schema *schema, rk_pair_features *out) {
    RK_TRY(find(schema, c->model.retrieval.user, &out->user));
    return find(schema, c->model.retrieval.item, &out->item);
}

rk_status rk_config_interactions(rk_config *c, const rk_interactions **out) {
    if (!c->interactions) {
        const rk_transforms *transforms;
        RK_TRY(rk_config_transforms(c, NULL, NULL, &transforms));
        rk_dataset_options options = {.directory = c->directory, .split = "train", .batch_size = 1 << 16, .seed = (uint64_t)c->data.seed};
        rk_pair_features features;
        rk_dataset *dataset;
        RK_TRY(rk_config_pair_features(c, rk_transforms_schema(transforms), &features));
        RK_TRY(rk_dataset_create(&c->data, transforms, &options, &dataset));
        rk_status status = rk_interactions_collect(dataset, features, &c->interactions);
        rk_dataset_free(dataset);
        RK_TRY(status);
    }
    *out = c->interactions;
    return RK_OK;
}
