/* Models from a few lines of YAML, and batches for them. */
#ifndef RK_TESTS_MODEL_FIXTURE_H
#define RK_TESTS_MODEL_FIXTURE_H

#include "state_bytes.h"

#include "base/memory.h"
#include "base/rng.h"
#include "model/model.h"

enum { MAX_FEATURES = 8, MAX_TASKS = 3 };

/* What a model is built from: `options` points into the rest. */
typedef struct fixture {
    rk_yaml yaml;
    rk_model_section model;
    rk_embedding_section embedding;
    rk_data_feature_info features[MAX_FEATURES];
    rk_label_section tasks[MAX_TASKS];
    rk_data_schema schema;
    rk_model_options options;
} fixture;

static inline void use_optimizer(fixture *f, rk_optimizer_kind kind, double learning_rate) {
    OK(rk_optimizer_init(&f->options.dense_optimizer.optimizer, kind));
    f->options.dense_optimizer.optimizer.learning_rate = learning_rate;
}

/* text: the `model:` and `embedding:` sections. Two tasks: click (cross-entropy) and rating (mse, weight
 * 0.5). */
static inline void fixture_init(fixture *f, const char *text, const rk_data_feature_info *features,
                                int32_t n_features, int32_t n_dense, int32_t n_tasks) {
    memset(f, 0, sizeof *f);
    OK(rk_yaml_parse("run.yaml", text, strlen(text), &f->yaml));
    OK(rk_schema_bind(&rk_model_schema, &f->yaml, rk_yaml_find_key(f->yaml.root, "model"), &f->model));
    OK(rk_schema_bind(&rk_embedding_schema, &f->yaml, rk_yaml_find_key(f->yaml.root, "embedding"),
                      &f->embedding));
    if (n_features) memcpy(f->features, features, (size_t)n_features * sizeof *features);
    f->tasks[0] = (rk_label_section){.name = (char *)"click", .weight = 1, .loss = 0};
    f->tasks[1] = (rk_label_section){.name = (char *)"rating", .weight = 0.5, .loss = 1};
    f->schema = (rk_data_schema){n_dense, n_features, n_tasks, f->features, f->tasks};
    f->options = (rk_model_options){.model = &f->model,
                                    .embedding = &f->embedding,
                                    .yaml = &f->yaml,
                                    .schema = &f->schema,
                                    .max_batch = 64,
                                    .dtype = RK_F32,
                                    .seed = 7,
                                    .training = true};
    use_optimizer(f, RK_OPTIMIZER_ADAM, 0.01);
}

static inline void fixture_release(fixture *f) {
    rk_schema_release(&rk_model_schema, &f->model);
    rk_schema_release(&rk_embedding_schema, &f->embedding);
    rk_yaml_release(&f->yaml);
}

/* The usual columns: one id a sample, weighted bags, plain bags, and a sequence (if the section makes it
 * one). */
static const rk_data_feature_info usual_features[] = {{.name = "user", .cardinality = 40},
                                                      {.name = "tags", .cardinality = 30, .weighted = true},
                                                      {.name = "item", .cardinality = 50},
                                                      {.name = "history", .cardinality = 50}};
enum { N_USUAL = 4, N_USUAL_DENSE = 3, MAX_SAMPLES = 200, MAX_IDS = 5 * MAX_SAMPLES };

typedef struct drawn_batch {
    rk_batch batch;
    rk_ids features[N_USUAL];
    int64_t offsets[N_USUAL][MAX_SAMPLES + 1];
    int64_t ids[N_USUAL][MAX_IDS];
    float weights[MAX_IDS], dense[MAX_SAMPLES * N_USUAL_DENSE], labels[MAX_SAMPLES * MAX_TASKS],
        sample_weights[MAX_SAMPLES];
} drawn_batch;

/* n samples over the usual columns: bags of 0 to 4 ids, many of them equal. Batches of odd seeds have sample
 * weights. */
static inline void draw_batch(drawn_batch *b, uint64_t seed, int64_t n, int32_t n_tasks) {
    rk_rng rng = {seed, 1, 0};
    for (int f = 0; f < N_USUAL; f++) {
        b->offsets[f][0] = 0;
        for (int64_t s = 0; s < n; s++) {
            int64_t end = b->offsets[f][s] + (f == 0 ? 1 : (int64_t)rk_rng_below(&rng, 5));
            b->offsets[f][s + 1] = end;
            for (int64_t i = b->offsets[f][s]; i < end; i++)
                b->ids[f][i] = (int64_t)rk_rng_below(&rng, (uint64_t)usual_features[f].cardinality / 2);
        }
        b->features[f] = (rk_ids){b->offsets[f], 0, b->ids[f], f == 1 ? b->weights : NULL};
    }
    b->features[0] = (rk_ids){NULL, 1, b->ids[0], NULL};
    for (int i = 0; i < MAX_IDS; i++) b->weights[i] = 0.25f + (float)rk_rng_uniform(&rng);
    for (int64_t i = 0; i < n * N_USUAL_DENSE; i++) b->dense[i] = (float)rk_rng_normal(&rng);
    for (int64_t i = 0; i < n; i++) {
        b->labels[i * n_tasks] = (float)rk_rng_below(&rng, 2);
        if (n_tasks > 1) b->labels[i * n_tasks + 1] = 3 + (float)rk_rng_normal(&rng);
        b->sample_weights[i] = (float)rk_rng_uniform(&rng) * 2;
    }
    b->batch = (rk_batch){.n = n,
                          .n_dense = N_USUAL_DENSE,
                          .n_features = N_USUAL,
                          .n_tasks = n_tasks,
                          .dense = b->dense,
                          .features = b->features,
                          .labels = b->labels,
                          .sample_weights = seed % 2 ? b->sample_weights : NULL,
                          .first_row = 1000};
}

/* Every preset in several shapes, over the usual columns. */
typedef struct usual_case {
    const char *text;
    int32_t n_tasks;
} usual_case;
#define SEQUENCE                                                                               \
    "\nembedding: {dim: 4, initializer: {stddev: 0}, features: [{name: history, table: item, " \
    "max_sequence_length: 3}, {name: item}, {name: tags, combiner: sum}]}"
#define UNEQUAL "\nembedding: {dim: 4, initializer: {stddev: 0}, tables: [{name: user, dim: 6}]}"
static const usual_case usual_cases[] = {
    {"model: lr" SEQUENCE, 1},
    {"model: {kind: lr, linear_l2: 0.01}\nembedding: {dim: 4, initializer: {stddev: 0}}", 1},
    {"model: fm" SEQUENCE, 1},
    {"model: {kind: fm, linear_l2_full: 0.01}\nembedding: {dim: 4, initializer: {stddev: 0}, l2_full: 0.01}",
     1},
    {"model: dnn" UNEQUAL, 2},
    {"model: {kind: dnn, deep: [8, 8], batch_norm: true, dropout: 0.3, activation: gelu}" SEQUENCE, 1},
    {"model: {kind: wide_deep, deep: [8], activation: tanh}" UNEQUAL, 1},
    {"model: wide_deep" SEQUENCE, 1},
    {"model: {kind: deepfm, deep: [8, 4], dropout: 0.1}" SEQUENCE, 1},
    {"model: {kind: dlrm, deep: [8, 4], bottom: [5, 4]}" SEQUENCE, 2},
    {"model: dlrm\nembedding: {dim: 4, initializer: {stddev: 0}}", 1},
    {"model: {kind: dcn, deep: [8]}" UNEQUAL, 2},
    {"model: {kind: dcn, cross_layers: 1, structure: stacked, deep: [8], batch_norm: true}" SEQUENCE, 1},
    {"model: {kind: dcn_v2, deep: [8], cross_layers: 2}" UNEQUAL, 1},
    {"model: {kind: dcn_v2, deep: [8], cross_kind: low_rank, cross_rank: 3, structure: stacked, bottom: [6, "
     "4]}" SEQUENCE,
     2},
    {"model: {kind: dcn_v2, deep: [8], cross_kind: mixture, cross_rank: 3, cross_experts: 2}" UNEQUAL, 1},
    {"model: {kind: shared_bottom, deep: [8], towers: [4], dropout: 0.2}" SEQUENCE, 2},
    {"model: {kind: mmoe, experts: 3, expert_units: [8, 4], towers: [4]}" UNEQUAL, 2},
    {"model: {kind: ple, expert_units: [8], towers: [4, 3], activation: tanh, task_weights: "
     "uncertainty}" SEQUENCE,
     2},
    {"model: {kind: ple, levels: 3, task_experts: 2, expert_units: [6], batch_norm: true}" UNEQUAL, 1},
    {"model: {kind: xdeepfm, deep: [8], cin: [6, 5], dropout: 0.1}" SEQUENCE, 1},
    {"model: {kind: autoint, attention_layers: 2, attention_dim: 5}" SEQUENCE, 2},
    {"model: {kind: autoint, attention_layers: 1, attention_heads: 3, attention_dim: 4, deep: [8], "
     "batch_norm: true}" SEQUENCE,
     1},
    {"model: {kind: final_mlp, deep: [8, 4], deep2: [6], fusion_heads: 2, dropout2: 0.3}" UNEQUAL, 2},
    {"model: {kind: final_mlp, deep: [8], gate_context: [user], gate_context2: [item, history], gate_deep: "
     "[3], activation: gelu}" SEQUENCE,
     1},
    {"model: {kind: masknet, mask_blocks: [6, 5], deep: [8], dropout: 0.2}" SEQUENCE, 1},
    {"model: {kind: masknet, mask_blocks: [6, 5], structure: stacked, reduction_ratio: 0.5}" SEQUENCE, 2},
    {"model: {kind: din, deep: [8], attention_deep: [6], attention: [{target: item, history: "
     "history}]}" SEQUENCE,
     2},
    {"model: {kind: din, deep: [8], attention_softmax: true, batch_norm: true, attention: [{target: tags, "
     "history: history}]}" SEQUENCE,
     1},
    {"model: {kind: deepfm, deep: [8], feature_dropout: 0.3}\nembedding: {dim: 4, initializer: {stddev: 0}, "
     "features: [{name: tags, combiner: sum}]}",
     1},
    {"model: {kind: dnn, deep: [8], feature_dropout: 0.2, dropout: 0.1}" UNEQUAL, 2},
};
enum { N_USUAL_CASES = sizeof usual_cases / sizeof usual_cases[0] };

static inline void usual_init(fixture *f, const usual_case *c) {
    fixture_init(f, c->text, usual_features, N_USUAL, N_USUAL_DENSE, c->n_tasks);
}

/* All bytes of a model's state, one after another. Free with rk_free. */
static inline char *copy_state(rk_model *model, size_t *n_bytes) {
    rk_state_dict state = {0};
    OK(rk_model_state_dict(model, &state));
    return bytes_of_state(&state, n_bytes);
}

#endif
