/* Run files: a typo in any key is found, the resolved file reads back, and what cannot be is refused by line
 * and key. */
#include "testing.h"

#include <ctype.h>

#include "base/memory.h"
#include "base/text/config_synonyms.h"
#include "train/evaluate/early_stopping.h"
#include "train/config/run_config.h"

static const char *const full =
    "data:\n"
    "  format: csv\n"
    "  train: {path: a.csv}\n"
    "  valid: {fraction: 0.1}\n"
    "  test: {path: [b.csv, c.csv]}\n"
    "  separator: \",\"\n"
    "  quote: \"'\"\n"
    "  trim: false\n"
    "  header: true\n"
    "  comment: \"#\"\n"
    "  missing: [\"?\", NA]\n"
    "  joins:\n"
    "    - {path: j.csv, key: u, file_key: k, columns: [k, g]}\n"
    "  features:\n"
    "    - {name: u, column: user, hash: 100, hash_seed: 3, max_length: 4, separator: \"|\", weights: w}\n"
    "    - {name: v, vocabulary: {min_count: 2, max_size: 50, oov: 3}, default_value: none}\n"
    "    - {name: i, identity: 9, identity_offset: 1}\n"
    "    - {name: b, bucketize: [1, 2.5]}\n"
    "    - {name: q, quantiles: 7}\n"
    "    - {name: c, cross: [v, b], hash: 10}\n"
    "    - {name: d, dense: true, width: 2, log1p: true, normalize: true}\n"
    "  labels:\n"
    "    - {name: y, column: t, positive: [\"yes\"], weight: 2, loss: sigmoid_cross_entropy}\n"
    "  sample_weight: sw\n"
    "  group: gr\n"
    "  on_bad_row: skip\n"
    "  shuffle: true\n"
    "  shuffle_window: 1000\n"
    "  cache_bytes: 1000\n"
    "  seed: 4\n"
    "embedding:\n"
    "  dim: 8\n"
    "  dtype: bf16\n"
    "  combiner: sum\n"
    "  l2: 0.1\n"
    "  l2_full: 0.2\n"
    "  initializer: {kind: uniform, min: -1, max: 1}\n"
    "  optimizer: {kind: rowwise_adagrad, learning_rate: 0.02, epsilon: 1e-6}\n"
    "  tables:\n"
    "    - {name: v, rows: 100, dim: 4, dtype: f32, trainable: false, l2: 0}\n"
    "  features:\n"
    "    - {name: v, table: v, combiner: mean, validate_weights_and_indices: false}\n"
    "model: {kind: dcn_v2, deep: [8, 4], activation: gelu, batch_norm: true, dropout: 0.1, cross_layers: 2, "
    "cross_kind: low_rank, cross_rank: 3, structure: stacked}\n"
    "train:\n"
    "  batch_size: 10\n"
    "  epochs: 2\n"
    "  steps: 100\n"
    "  seed: 2\n"
    "  dtype: bf16\n"
    "  threads: 1\n"
    "  output: o\n"
    "  optimizer: {kind: adam, beta1: 0.8, schedule: {kind: cosine, warmup_steps: 3, decay_steps: 50}}\n"
    "  max_gradient_norm: 5\n"
    "  l2: 0.01\n"
    "  on_not_finite: skip\n"
    "  log_every: 10\n"
    "  metrics: [auc, logloss]\n"
    "  evaluate: {every_epochs: 1, every_steps: 20, batch_size: 50}\n"
    "  early_stopping: {metric: auc, patience: 1, min_delta: 0.001}\n"
    "  plateau: {metric: logloss, patience: 1, factor: 0.5, min_factor: 0.01}\n"
    "  keep_best: true\n"
    "  checkpoint: {every_epochs: 1, every_steps: 30, keep: 2}\n"
    "  tensorboard: false\n"
    "cluster:\n"
    "  embedding_ranks: 2\n"
    "  reader_ranks: 3\n"
    "  virtual_shards: 8\n"
    "  timeout_s: 20\n"
    "  wire: bf16\n"
    "  wire_dense: powersgd\n"
    "  powersgd_rank: 2\n"
    "  replicate_below: 500\n"
    "  asynchronous: false\n"
    "  tables:\n"
    "    - {name: v, sharding: table_wise, ranks: [3], owner_pooling: true}\n"
    "    - {name: u, sharding: grid, slices: 2}\n"
    "device: cpu\n"
    "cuda: {memory: 40GB, tf32: true, number: 1}\n";

static rk_status parse(const char *text, rk_config **out) {
    return rk_config_parse(text, "run.yaml", NULL, NULL, 0, out);
}

static void test_full_reads_back(void **state) {
    (void)state;
    rk_config *config, *again;
    char *text, *text_again;
    OK(parse(full, &config));
    OK(rk_config_to_yaml(config, &text));
    OK(parse(text, &again));
    OK(rk_config_to_yaml(again, &text_again));
    assert_string_equal(text, text_again);
    assert_non_null(strstr(text, "  cross_kind: low_rank\n"));
    rk_text_free(text);
    rk_text_free(text_again);
    rk_config_free(config);
    rk_config_free(again);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Double a letter in each key in turn: an error with file, line and key, and the right hint. */
static void test_a_typo_in_every_key(void **state) {
    (void)state;
    int n_keys = 0;
    for (const char *at = full; *at; at++) {
        const char *begin = at;
        if (!(islower((unsigned char)*at) && (at == full || strchr(" {\n-", at[-1])))) continue;
        while (islower((unsigned char)*at) || isdigit((unsigned char)*at) || *at == '_') at++;
        if (*at != ':' || (at[1] != ' ' && at[1] != '\n')) continue;
        char key[64], bad[4096], line[128], hint[128];
        int number = 1;
        for (const char *c = full; c < begin; c++) number += *c == '\n';
        snprintf(key, sizeof key, "%.*s", (int)(at - begin), begin);
        snprintf(bad, sizeof bad, "%.*s%c%s", (int)(begin - full) + 1, full, *begin, begin + 1);
        snprintf(line, sizeof line, "run.yaml:%d: key '%c%s'", number, *begin, key);
        snprintf(hint, sizeof hint, "did you mean '%s'?", key);
        rk_config *config;
        if (parse(bad, &config) != RK_CONFIG)
            fail_msg("key '%s' of line %d: the typo was taken", key, number);
        if (!strstr(rk_last_error(), line)) fail_msg("key '%s': %s", key, rk_last_error());
        if (strlen(key) > 1 && !strstr(rk_last_error(), hint)) fail_msg("key '%s': %s", key, rk_last_error());
        n_keys++;
    }
    assert_true(n_keys > 100);
    assert_int_equal(rk_alloc_live(), 0);
}

#define DATA "data: {train: a.csv, labels: [{name: y}], features: [{name: u, hash: 9}]}\n"
/* Words of other libraries, wherever they stand: the hint names a key that would be taken, or none. */
static void test_foreign_words(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {DATA "model: lr\ntrain: {lr: 0.1}\n",
         "key 'lr': unknown key in 'train'\nhint: the key is 'train.optimizer.learning_rate'"},
        {DATA "model: lr\ntrain: {optimizer: {lr: 0.1}}\n",
         "key 'lr': unknown key in 'optimizer'\nhint: did you mean 'learning_rate'?"},
        {DATA "model: lr\nlr: 0.1\n",
         "key 'lr': unknown key in a run file\nhint: the key is 'train.optimizer.learning_rate'"},
        {DATA "model: lr\noptimizer: adam\n",
         "unknown key in a run file\nhint: the key is 'train.optimizer'"},
        {DATA "model: {kind: dnn, hidden_units: [8]}\n",
         "unknown key in 'model'\nhint: did you mean 'deep'?"},
        {DATA "model: dnn\ntrain: {hidden_units: [8]}\n",
         "unknown key in 'train'\nhint: the key is 'model.deep'"},
        {DATA "model: {kind: lr, hidden_units: [8]}\n",
         "unknown key in 'model'\nhint: that is 'deep', which is not used here; the keys here are kind, "
         "task_weights, linear_l2, linear_l2_full"},
        {DATA "model: dnn\nhidden_units: [8]\n", "unknown key in a run file\nhint: the key is 'model.deep'"},
        {DATA "model: {type: dnn}\n", "unknown key in 'model'\nhint: did you mean 'kind'?"},
        {DATA "model: {name: dnn}\n", "unknown key in 'model'\nhint: did you mean 'kind'?"},
        {DATA "model: {kind: dnn, embedding_dim: 8}\n",
         "unknown key in 'model'\nhint: the key is 'embedding.dim'"},
        {DATA "model: {kind: dnn, learning_rate: 8}\n",
         "unknown key in 'model'\nhint: the key is 'train.optimizer.learning_rate'"},
        {DATA "model: dnn\nembedding: {embedding_dim: 8}\n",
         "unknown key in 'embedding'\nhint: did you mean 'dim'?"},
        {DATA "model: dnn\nembedding: {num_embeddings: 8}\n",
         "unknown key in 'embedding'\nhint: the key is 'embedding.tables[].rows'"},
        {DATA "model: dnn\nembedding: {tables: [{name: u, num_embeddings: 8}]}\n",
         "unknown key in 'tables'\nhint: did you mean 'rows'?"},
        {DATA "model: dnn\nembedding: {lr: 0.1}\n",
         "unknown key in 'embedding'\nhint: the key is 'learning_rate' in 'optimizer'"},
        {DATA "model: dnn\nembedding: {tables: [{name: u, lr: 0.1}]}\n",
         "unknown key in 'tables'\nhint: the key is 'learning_rate' in 'optimizer'"},
        {DATA "model: dnn\nembedding: {tables: [{name: u, embedding_dim: 8}]}\n",
         "unknown key in 'tables'\nhint: did you mean 'dim'?"},
        {DATA "model: dnn\nembedding: {vocab_size: 8}\n",
         "unknown key in 'embedding'\nhint: the key is 'embedding.tables[].rows'"},
        {DATA "model: dnn\nnum_embeddings: 8\n",
         "unknown key in a run file\nhint: the key is 'embedding.tables[].rows'"},
        {DATA "model: {kind: dnn, loss: bce}\n",
         "unknown key in 'model'\nhint: the key is 'data.labels[].loss'"},
        {DATA "model: dnn\nvalidation: b.csv\n", "unknown key in a run file\nhint: the key is 'data.valid'"},
        {DATA "model: dnn\ntrain: {validation: b.csv}\n",
         "unknown key in 'train'\nhint: the key is 'data.valid'"},
        {DATA "model: dnn\ntrain: {eval_batch_size: 8}\n",
         "unknown key in 'train'\nhint: the key is 'train.evaluate.batch_size'"},
        {DATA "model: dnn\nsharding_type: row_wise\n",
         "unknown key in a run file\nhint: the key is 'cluster.tables[].sharding'"},
        {DATA "model: dnn\ntrain: {batchSize: 8}\n",
         "unknown key in 'train'\nhint: did you mean 'batch_size'?"},
        {DATA "model: dnn\ntrain: {patience: 8}\n",
         "unknown key in 'train'\nhint: the key is 'train.early_stopping.patience'"},
        {DATA "model: dnn\ntrain: {optimizer: {kind: sgd, momentun: 0.9}}\n",
         "unknown key in 'optimizer'\nhint: the keys here are kind, learning_rate, weight_decay"},
        {DATA "model: dnn\ntrain: {optimizer: {momentun: 0.9}}\n",
         "unknown key in 'optimizer'\nhint: the keys here are kind, learning_rate, epsilon, beta1"},
        {DATA "model: dnn\ntrain: {optimizer: {type: sgd}}\n",
         "unknown key in 'optimizer'\nhint: did you mean 'kind'?"},
        {DATA "model: {kind: dnn, experst: 3}\n",
         "unknown key in 'model'\nhint: the keys here are kind, deep"},
        {"data: {train: a.csv, validation: b.csv, labels: [y], features: [{name: u, hash: 9}]}\nmodel: lr\n",
         "unknown key in 'data'\nhint: did you mean 'valid'?"},
        {"data: {train: a.csv, target: y, features: [{name: u, hash: 9}]}\nmodel: lr\n",
         "unknown key in 'data'\nhint: did you mean 'labels'?"},
        {"data: {train: a.csv, labels: [y], features: [{name: u, num_embeddings: 9}]}\nmodel: lr\n",
         "unknown key in 'features'\nhint: did you mean 'identity'?"},
        {"data: {train: a.csv, labels: [y], features: [{name: u, hash: 9, embedding_dim: 8}]}\nmodel: lr\n",
         "unknown key in 'features'\nhint: the key is 'embedding.dim'"},
        {"data: {train: a.csv, labels: [y], features: [{name: u, min_count: 9}]}\nmodel: lr\n",
         "unknown key in 'features'\nhint: the key is 'min_count' in 'vocabulary'"},
        {"data: {train: a.csv, labels: [y], features: [{name: u, vocab_size: 9}]}\nmodel: lr\n",
         "unknown key in 'features'\nhint: did you mean 'identity'?"},
        {"data: {train: a.csv, labels: [{name: y, loss: bce}], features: [{name: u, hash: 9}]}\nmodel: lr\n",
         "there is no 'bce'\nhint: did you mean 'sigmoid_cross_entropy'?"},
        {"data: {train: a.csv, labels: [y], features: [{name: u, default: 9}]}\nmodel: lr\n",
         "unknown key in 'features'\nhint: did you mean 'default_value'?"},
        {"data: {train: a.csv, labels: [y], features: [{name: u, categorical: true}]}\nmodel: lr\n",
         "unknown key in 'features'\nhint: the keys here are name"},
        {"data: {train: a.csv, labels: [y], features: [u]}\nmodel: lr\n",
         "key 'features': must be a mapping, not 'u'"},
        {DATA "model: {kind: dnn, layers: [64, 32]}\n",
         "key 'layers': must be a mapping, not '64'\nhint: did you mean 'deep'?"},
        {DATA "model: dnn\ntrain: {shuffle: true}\n",
         "unknown key in 'train'\nhint: the key is 'data.shuffle'"},
        {DATA "model: dnn\nembedding: {tables: [{name: u, data_type: FP16}]}\n",
         "unknown key in 'tables'\nhint: did you mean 'dtype'?"},
        {DATA "model: DeepFM\n", "there is no 'DeepFM'\nhint: did you mean 'deepfm'?"},
        {DATA "model: WideAndDeep\n", "there is no 'WideAndDeep'\nhint: did you mean 'wide_deep'?"},
        {DATA "model: mlp\n", "there is no 'mlp'\nhint: did you mean 'dnn'?"},
        {DATA "model: {kind: dnn, activation: linear}\n",
         "unknown activation 'linear'\nhint: did you mean 'none'?"},
    };
    rk_config *config;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (parse(cases[i][0], &config) != RK_CONFIG) fail_msg("taken: %s", cases[i][0]);
        if (!strstr(rk_last_error(), cases[i][1])) fail_msg("%s\n%s", cases[i][0], rk_last_error());
    }
    char *keys, path[128];
    OK(rk_config_reference(&keys));
    for (size_t i = 0; rk_synonym_by_number(i); i++) { /* every key that is named is one */
        snprintf(path, sizeof path, "`%s", rk_synonym_by_number(i));
        const char *found = strchr(path, '.') ? strstr(keys, path) : path;
        while (found && strchr(path, '.') && !strchr("`.[", found[strlen(path)]))
            found = strstr(found + 1, path);
        if (!found) fail_msg("there is no key %s`", path);
    }
    rk_text_free(keys);
}

/* An optimizer is of the kind that it would be of if it were not given. */
static void test_usual_optimizer(void **state) {
    (void)state;
    rk_config *config;
    rk_collection_config collection;
    rk_embedding_source source = {.name = "u", .cardinality = 9};
    rk_embedding_wants wants = {.vectors = true};
    OK(parse(DATA "model: fm\ntrain: {optimizer: {learning_rate: 0.5}}\nembedding: {tables: [{name: u, "
                  "optimizer: {learning_rate: 0.25}}]}\n",
             &config));
    assert_true(config->optimizer.kind == RK_OPTIMIZER_ADAM && config->optimizer.learning_rate == 0.5);
    OK(rk_collection_config_resolve(&config->embedding, &config->yaml, &source, 1, wants, &config->optimizer,
                                    &collection));
    assert_true(collection.optimizers[0].kind == RK_OPTIMIZER_ADAM &&
                collection.optimizers[0].learning_rate == 0.25);
    rk_collection_config_release(&collection);
    rk_config_free(config);
    OK(parse(DATA "model: fm\nembedding: {optimizer: ftrl, tables: [{name: u, optimizer: {l1: 0.25}}]}\n",
             &config));
    OK(rk_collection_config_resolve(&config->embedding, &config->yaml, &source, 1, wants, &config->optimizer,
                                    &collection));
    assert_true(collection.optimizers[0].kind == RK_OPTIMIZER_FTRL && collection.optimizers[0].l1 == 0.25);
    rk_collection_config_release(&collection);
    rk_config_free(config);
    FAILS(parse(DATA "model: lr\ntrain: {optimizer: {l1: 0.5}}\n", &config), RK_CONFIG,
          "run.yaml:3: key 'l1': not an option of the optimizer 'adam'\nhint: it is an option of ftrl");
    assert_int_equal(rk_alloc_live(), 0);
}

/* A list of paths needs no key, and what stands in no file is not said to have a line. */
static void test_short_forms_and_places(void **state) {
    (void)state;
    rk_config *config;
    OK(parse("data: {train: [a.csv, b.csv], labels: [y], features: [{name: u, hash: 9}]}\nmodel: lr\n",
             &config));
    assert_int_equal(config->data.train.n_path, 2);
    assert_string_equal(config->data.train.path[1], "b.csv");
    rk_config_free(config);
    FAILS(parse("data: {train: a.csv, labels: [{name: y}], features: [{name: u, vocabulary: "
                "[v.txt]}]}\nmodel: lr\n",
                &config),
          RK_CONFIG, "run.yaml:1: key 'vocabulary': must be a mapping, not a list");
    static const char *const sets[] = {"data.features=[{name: u}]", "train.early_stopping.metric=acu"};
    static const char *const said[] = {"--set: 'u': a feature needs a kind",
                                       "--set: key 'metric': unknown metric 'acu'"};
    for (int i = 0; i < 2; i++) {
        static const char text[] =
            "data: {train: a.csv, valid: b.csv, labels: [{name: y}], features: [{name: u, hash: 9}]}\nmodel: "
            "lr\n";
        assert_int_equal(rk_config_parse(text, "run.yaml", NULL, &sets[i], 1, &config), RK_CONFIG);
        assert_memory_equal(rk_last_error(), said[i], strlen(said[i]));
    }
}

static void test_combinations(void **state) {
    (void)state;
    rk_config *config;
    FAILS(parse(DATA, &config), RK_CONFIG, "run.yaml: the key 'model' is missing");
    FAILS(parse(DATA "modle: lr\n", &config), RK_CONFIG,
          "run.yaml:2: key 'modle': unknown key in a run file\nhint: did you mean 'model'?");
    FAILS(parse(DATA "model: lr\ntrain: {early_stopping: {metric: auc}}\n", &config), RK_CONFIG,
          "run.yaml:3: key 'early_stopping': needs validation data\nhint: give data.valid a path, or a "
          "fraction of train: valid: {fraction: 0.1}");
    FAILS(parse("data: {train: a.csv, valid: b.csv, labels: [{name: y}], features: [{name: u, hash: "
                "9}]}\nmodel: lr\ntrain: {early_stopping: {metric: acu}}\n",
                &config),
          RK_CONFIG, "run.yaml:3: key 'metric': unknown metric 'acu'\nhint: did you mean 'auc'?");
    FAILS(parse("data: {train: a.csv, valid: b.csv, labels: [{name: y}], features: [{name: u, hash: "
                "9}]}\nmodel: lr\ntrain: {early_stopping: {metric: rmse}}\n",
                &config),
          RK_CONFIG,
          "run.yaml:3: key 'metric': unknown metric 'rmse'\nhint: it is one of auc, logloss, "
          "normalized_entropy, calibration, accuracy");
#define WATCHED(group)                                                                                   \
    "data: {train: a.csv, valid: b.csv, " group                                                          \
    "labels: [{name: y}], features: [{name: u, hash: 9}]}\nmodel: lr\ntrain: {early_stopping: {metric: " \
    "gauc}}\n"
    FAILS(parse(WATCHED(""), &config), RK_CONFIG,
          "run.yaml:3: key 'metric': unknown metric 'gauc'\nhint: gauc needs 'data.group', the "
          "column to group by");
    OK(parse(WATCHED("group: u, "), &config));
    rk_config_free(config);
#define TWO                                                                                               \
    "data: {train: a.csv, valid: b.csv, labels: [{name: y}, {name: z, loss: mse}], features: [{name: u, " \
    "hash: 9}]}\n"
    OK(parse(TWO "model: mmoe\ntrain: {early_stopping: {metric: mean_auc}, plateau: {metric: z/rmse}}\n",
             &config));
    assert_true(config->watched_task == 2 && config->watched_metric == RK_METRIC_auc &&
                config->plateau_task == 1 && config->plateau_metric == RK_METRIC_rmse);
    rk_config_free(config);
    FAILS(parse(TWO "model: mmoe\ntrain: {early_stopping: {metric: mean_acu}}\n", &config), RK_CONFIG,
          "run.yaml:3: key 'metric': unknown metric 'mean_acu'\nhint: did you mean 'mean_auc'?");
    FAILS(parse("data: {train: a.csv, valid: b.csv, labels: [{name: y}], features: [{name: u, hash: "
                "9}]}\nmodel: lr\ntrain: {early_stopping: {metric: mean_auc}}\n",
                &config),
          RK_CONFIG, "run.yaml:3: key 'metric': unknown metric 'mean_auc'\nhint: did you mean 'auc'?");
    FAILS(parse(TWO "model: mmoe\ntrain: {plateau: y/calibration}\n", &config), RK_CONFIG,
          "run.yaml:3: key 'metric': 'calibration' is best at 1, so it cannot decide which model is "
          "better\nhint: use logloss, which includes calibration");
    FAILS(parse(TWO "model: mmoe\ntrain:\n  epochs: 2\n  metrics: [y/auc, y/acu]\n", &config), RK_CONFIG,
          "run.yaml:5: key 'metrics': unknown metric 'y/acu'\nhint: did you mean 'y/auc'?");
    FAILS(parse("data: {train: a.csv, valid: b.csv, labels: [{name: click}, {name: buy}], features: [{name: "
                "u, hash: 9}]}\nmodel: mmoe\ntrain: {metrics: [clik/auc]}\n",
                &config),
          RK_CONFIG, "run.yaml:3: key 'metrics': unknown metric 'clik/auc'\nhint: did you mean 'click/auc'?");
    FAILS(parse(TWO "model: mmoe\ntrain: {metrics: [clicks/auc]}\n", &config), RK_CONFIG,
          "run.yaml:3: key 'metrics': unknown metric 'clicks/auc'\nhint: no label is called 'clicks'");
    FAILS(parse(DATA "model: {kind: mmoe, task_experts: 2}\n", &config), RK_CONFIG,
          "run.yaml:2: key 'task_experts': model 'mmoe' does not use 'task_experts'\nhint: 'task_experts' is "
          "for ple");
    FAILS(parse(DATA "model: {kind: lr, feature_dropout: 0.2}\n", &config), RK_CONFIG,
          "run.yaml:2: key 'feature_dropout': model 'lr' does not use 'feature_dropout'\n"
          "hint: 'feature_dropout' is for fm, dnn, wide_deep, deepfm, dlrm, dcn, dcn_v2, xdeepfm, autoint, "
          "final_mlp, masknet, din, shared_bottom, mmoe, ple");
    FAILS(parse(DATA "model: {kind: dnn, towers: [2]}\n", &config), RK_CONFIG,
          "run.yaml:2: key 'towers': model 'dnn' does not use 'towers'\nhint: 'towers' is for shared_bottom, "
          "mmoe, ple");
    FAILS(parse(DATA "model: lr\ntrain: {staleness: 65}\n", &config), RK_CONFIG,
          "run.yaml:3: key 'staleness': must be between 0 and 64, not '65'");
    FAILS(parse("data: {labels: [{name: y}], features: [{name: u, hash: 9}]}\nmodel: lr\n", &config),
          RK_CONFIG, "run.yaml:1: key 'data': needs 'train'");
    OK(parse(DATA "model: lr\n", &config));
    assert_string_equal(rk_config_output(config), "runs/run");
    rk_config_free(config);
}

static void test_cluster(void **state) {
    (void)state;
    rk_config *config;
    rk_roles roles;
    OK(parse(DATA "model: lr\n", &config));
    const rk_cluster_section *c = &config->cluster;
    assert_true(c->line == 0 && c->embedding_ranks == 0 && c->virtual_shards == 0 && c->timeout_s == 300 &&
                c->wire == RK_F32 && c->replicate_below == 10000);
    assert_true(!c->asynchronous && !c->plan && c->n_tables == 0);
    OK(rk_cluster_section_roles(c, &config->yaml, 4, &roles));
    assert_true(roles.n_trainers == 4 && roles.n_owners == 0);
    rk_config_free(config);
    OK(parse(DATA "model: lr\ncluster: {embedding_ranks: 3}\n", &config));
    OK(rk_cluster_section_roles(&config->cluster, &config->yaml, 4, &roles));
    assert_true(roles.n_trainers == 1 && roles.n_owners == 3);
    FAILS(rk_cluster_section_roles(&config->cluster, &config->yaml, 3, &roles), RK_CONFIG,
          "run.yaml:3: key 'embedding_ranks': too large: no rank is left to train\nhint: there are 3 ranks: "
          "start more, or set embedding_ranks below 3");
    rk_config_free(config);
    OK(parse(DATA "model: lr\ncluster: {embedding_ranks: 1, reader_ranks: 2}\n", &config));
    OK(rk_cluster_section_roles(&config->cluster, &config->yaml, 6, &roles));
    assert_true(roles.n_trainers == 3 && roles.n_owners == 1);
    FAILS(rk_cluster_section_roles(&config->cluster, &config->yaml, 3, &roles), RK_CONFIG,
          "run.yaml:3: key 'embedding_ranks': too large: no rank is left to train\nhint: there are 3 ranks, "
          "and reader_ranks is 2: start more ranks, or set embedding_ranks below 1");
    FAILS(rk_cluster_section_roles(&config->cluster, &config->yaml, 2, &roles), RK_CONFIG,
          "run.yaml:3: key 'reader_ranks': too large: no rank is left to train\nhint: there are 2 ranks: "
          "start more, or set reader_ranks below 2");
    rk_config_free(config);
    OK(parse(DATA "model: lr\ntrain: {batch_size: 6}\ncluster: {wire: f16, replicate_below: 5, tables: "
                  "[{name: u, sharding: row_wise, ranks: [1, 0]}]}\n",
             &config));
    rk_planner_request request;
    OK(rk_config_planner_request(config, 2, &request));
    assert_true(request.roles.n_trainers == 2 && request.wire == RK_F16 && request.replicate_below == 5 &&
                request.batch_size == 6 && request.n_constraints == 1);
    assert_string_equal(request.constraints[0].path, "run.yaml");
    assert_true(request.constraints[0].line == 4 && request.constraints[0].sharding == RK_SHARD_ROW_WISE &&
                request.constraints[0].n_ranks == 2 && request.constraints[0].ranks[0] == 1);
    rk_config_free(config);
    FAILS(parse(DATA "model: lr\ncluster: {wire: f64}\n", &config), RK_CONFIG,
          "run.yaml:3: key 'wire': there is no 'f64'\nhint: it is one of f32, bf16, f16");
    FAILS(parse(DATA "model: lr\ncluster: {tables: [{name: u, ranks: [1, 2, 1]}]}\n", &config), RK_CONFIG,
          "run.yaml:3: key 'ranks': duplicate rank");
    FAILS(parse(DATA "model: lr\ncluster: {plan: p.yaml, tables: [{name: u}]}\n", &config), RK_CONFIG,
          "run.yaml:3: key 'plan': 'plan' already shards every table, so 'tables' cannot be given too\nhint: "
          "remove one of them, or give 'tables' to 'reckon plan' and use its plan");
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_device(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"1500000", 1500000},  {"1.5MB", 1500000}, {"40 GiB", 40ull << 30},
                 {"40GB", 40000000000}, {"1e3KB", 1000000}, {"0.5TiB", 1ull << 39}};
    rk_config *config;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 DATA "model: lr\ndevice: cuda\ncuda: {memory: %s, tf32: true, number: 2}\n", sizes[i].text);
        OK(parse(text, &config));
        assert_int_equal(config->model_device.memory_bytes, sizes[i].bytes);
        assert_true(config->device.kind == RK_DEVICE_CUDA && config->model_device.tf32 &&
                    config->model_device.number == 2);
        rk_config_free(config);
    }
    OK(parse(DATA "model: lr\n", &config));
    assert_true(config->device.kind == RK_DEVICE_CPU && config->model_device.memory_bytes == 0);
    rk_config_free(config);
    FAILS(parse(DATA "model: lr\ndevice: gpu\n", &config), RK_CONFIG,
          "run.yaml:3: key 'device': there is no 'gpu'\nhint: did you mean 'cuda'?");
    for (const char *const *bad = (const char *const[]){"0", "-1GB", "GB", "40 Gb", "1e30TB", NULL}; *bad;
         bad++) {
        char text[256], message[256];
        snprintf(text, sizeof text, DATA "model: lr\ncuda: {memory: %s}\n", *bad);
        snprintf(message, sizeof message,
                 "run.yaml:3: key 'memory': must be a number of bytes, not '%s'\nhint: such as 40GB, 512MB "
                 "or 1.5TB",
                 *bad);
        FAILS(parse(text, &config), RK_CONFIG, message);
    }
    FAILS(parse(DATA "model: lr\ntrain: {staleness: 1}\ndevice: cuda\n", &config), RK_CONFIG,
          "run.yaml:3: key 'staleness': not supported with 'device: cuda'\nhint: remove 'staleness'; on a "
          "GPU the next batch's ids are prepared during a step anyway");
    FAILS(parse(DATA "model: lr\ncluster: {virtual_shards: 2}\ndevice: cuda\n", &config), RK_CONFIG,
          "run.yaml:3: key 'virtual_shards': not supported with 'device: cuda'\nhint: remove "
          "'virtual_shards', or train with 'device: cpu'");
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_policy(void **state) {
    (void)state;
    rk_early_stopping p;
    rk_early_stopping_rules rules = {.larger_is_better = true,
                                     .plateau_larger = false,
                                     .stops = true,
                                     .drops = true,
                                     .patience = 2,
                                     .plateau_patience = 0,
                                     .factor = 0.1,
                                     .min_factor = 0.05};
    rk_early_stopping_init(&p);
    rk_early_stopping_decision v = rk_early_stopping_decide(&p, &rules, 10, 0.7, 0.5);
    assert_true(v.best && !v.dropped && !v.stop);
    v = rk_early_stopping_decide(&p, &rules, 20, 0.7, 0.6);
    assert_true(!v.best && v.dropped && !v.stop && p.learning_rate_factor == 0.1);
    v = rk_early_stopping_decide(&p, &rules, 30, __builtin_nan(""),
                                 __builtin_nan("")); /* not defined: neither better nor worse */
    assert_true(!v.best && !v.dropped && !v.stop && p.bad == 1 && p.plateau_bad == 0);
    v = rk_early_stopping_decide(&p, &rules, 40, 0.6, 0.7);
    assert_true(!v.best && !v.dropped && v.stop && p.best_step == 10 && p.last_step == 40);
    rk_early_stopping_init(&p); /* undefined from the first one on */
    for (int i = 1; i < 9; i++)
        assert_false(rk_early_stopping_decide(&p, &rules, i, __builtin_nan(""), 0.5).stop);
}

/* Stops at the patience-th evaluation in a row that is not better. */
static void test_patience(void **state) {
    (void)state;
    for (int64_t patience = 0; patience < 4; patience++) {
        rk_early_stopping p;
        rk_early_stopping_rules rules = {.larger_is_better = true, .stops = true, .patience = patience};
        rk_early_stopping_init(&p);
        int64_t n_bad = 0;
        assert_false(rk_early_stopping_stops(&p, &rules));
        assert_false(rk_early_stopping_decide(&p, &rules, 1, 0.5, 0).stop);
        assert_false(rk_early_stopping_decide(&p, &rules, 2, 0.6, 0).stop);
        do n_bad++;
        while (!rk_early_stopping_decide(&p, &rules, 2 + n_bad, 0.6, 0).stop);
        assert_int_equal(n_bad, patience ? patience : 1);
    }
}

/* Better by no more than min_delta counts against patience, and is the best nevertheless: also of many small
 * steps, which together are more. */
static void test_min_delta(void **state) {
    (void)state;
    static const double values[] = {0.5, 0.504, 0.508, 0.512, 0.515, 0.519};
    rk_early_stopping p;
    rk_early_stopping_rules rules = {
        .larger_is_better = true, .stops = true, .patience = 3, .min_delta = 0.01};
    rk_early_stopping_init(&p);
    for (int i = 0; i < 6; i++) {
        rk_early_stopping_decision v = rk_early_stopping_decide(&p, &rules, i + 1, values[i], 0);
        assert_true(v.best && !v.stop && p.best_step == i + 1 && p.best == values[i]);
        assert_int_equal(p.bad, i % 3);
    }
    rk_early_stopping_decision v = rk_early_stopping_decide(&p, &rules, 7, 0.52, 0);
    assert_true(v.best && v.stop && p.best_step == 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_reads_back),
        cmocka_unit_test(test_a_typo_in_every_key),
        cmocka_unit_test(test_foreign_words),
        cmocka_unit_test(test_usual_optimizer),
        cmocka_unit_test(test_short_forms_and_places),
        cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_cluster),
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_policy),
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_min_delta),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
