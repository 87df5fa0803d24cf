/* What a model is built with; the pairs that a two_tower's run file speaks of. */
#include "base/memory.h"
#include "data/dataset/dataset.h"
#include "model/retrieval/retrieval.h"
#include "train/config/run_config.h"

rk_status rk_config_pair_features(const rk_config *c, const rk_data_schema *schema, rk_pair_features *out) {
    return rk_retrieval_find_pair_features(&c->model.retrieval, &c->yaml, schema, out);
}

/* Of the rows of training data; the caller frees it. */
static rk_status collect_interactions(const rk_config *c, const rk_transforms *transforms,
                                      rk_interactions **out) {
    rk_dataset_options options = {
        .directory = c->directory, .split = "train", .batch_size = 1 << 16, .seed = (uint64_t)c->data.seed};
    rk_pair_features features;
    RK_AUTO(rk_dataset_auto_free) rk_dataset *dataset = NULL;
    RK_TRY(rk_config_pair_features(c, rk_transforms_schema(transforms), &features));
    RK_TRY(rk_dataset_create(rk_transforms_section(transforms), transforms, &options, &dataset));
    return rk_interactions_collect(dataset, features, out);
}

rk_status rk_config_load_interactions(rk_config *c, rk_interactions **out) {
    const rk_transforms *transforms;
    RK_TRY(rk_config_transforms(c, NULL, NULL, &transforms));
    if (!c->interactions) RK_TRY(collect_interactions(c, transforms, &c->interactions));
    *out = c->interactions;
    return RK_OK;
}

static bool needs_interaction_counts(const rk_config *c, bool training) {
    return rk_config_has_pairs(c) && (training || c->model.retrieval.history);
}

rk_status rk_config_set_interactions(rk_config *c, rk_model_options *options) {
    return needs_interaction_counts(c, options->training)
               ? rk_config_load_interactions(c, &options->interactions)
               : RK_OK;
}

void rk_config_set_device(const rk_config *c, rk_model_options *options) {
    options->device = c->device.kind == RK_DEVICE_CUDA ? &c->model_device : NULL;
}

rk_status rk_config_model_options(const rk_config *c, const rk_data_schema *schema, bool training,
                                  rk_model_options *out) {
    int64_t evaluation = c->train.evaluate.batch_size;
    *out = (rk_model_options){
        .model = &c->model,
        .embedding = &c->embedding,
        .yaml = &c->yaml,
        .schema = schema,
        .dense_optimizer = {.optimizer = c->optimizer,
                            .max_gradient_norm = c->train.max_gradient_norm,
                            .l2 = c->train.l2},
        .max_batch = evaluation > c->train.batch_size && c->cluster.virtual_shards <= 1 ? evaluation
                                                                                        : c->train.batch_size,
        .step_batch = c->train.batch_size,
        .n_micro_batches = training ? c->cluster.virtual_shards : 0,
        .dtype = c->train.dtype == 1 ? RK_BF16 : RK_F32,
        .seed = (uint64_t)c->train.seed,
        .staleness = training ? c->train.staleness : 0,
        .skip_not_finite = c->train.on_not_finite == 1,
        .output = c->train.output,
        .constraints = c->constraints,
        .n_constraints = training ? (int32_t)c->cluster.n_tables : 0,
        .training = training,
    };
    return RK_OK;
}

rk_status rk_config_training_options(const rk_config *c, const rk_dataset *dataset, rk_model_options *out) {
    rk_model_options options;
    RK_TRY(rk_config_model_options(c, rk_dataset_schema(dataset), true, &options));
    if (needs_interaction_counts(c, true))
        RK_TRY(collect_interactions(c, rk_dataset_transforms(dataset), &options.interactions));
    *out = options;
    return RK_OK;
}
