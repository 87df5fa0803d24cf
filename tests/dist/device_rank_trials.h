/* What test_device_ranks.c trains: run files, and trials of models, tables and where these are. */
#ifndef RK_TESTS_DEVICE_RANK_TRIALS_H
#define RK_TESTS_DEVICE_RANK_TRIALS_H

#include <stdbool.h>
#include <stddef.h>

static const char *const data_and_train =
    "data:\n"
    "  train: rows.csv\n"
    "  valid: {fraction: 0.1}\n"
    "  labels: [{name: y}, {name: z, optional: true}]\n"
    "  missing: ['']\n"
    "  features:\n"
    "    - {name: small, identity: 40}\n"
    "    - {name: bag, identity: 3000, separator: '|'}\n"
    "    - {name: other, identity: 3000}\n"
    "    - {name: clicks, identity: 500, separator: '|'}\n"
    "    - {name: item, identity: 500}\n"
    "    - {name: none, identity: 9, separator: '|'}\n" /* of which no row has any */
    "    - {name: x, dense: true}\n"
    "embedding:\n"
    "  dim: 12\n"
    "  optimizer: {kind: sgd, learning_rate: 0.3}\n"
    "  features: [{name: bag, combiner: mean}, {name: other, table: bag}, {name: clicks, table: item, "
    "combiner: sqrtn}]\n"
    "train: {seed: 3, batch_size: 200, threads: 1, log_every: 1, optimizer: {kind: sgd, learning_rate: 0.2}, "
    "keep_best: false}\n";

typedef struct trial {
    const char *name, *model, *cluster;
    double most;         /* NMSE of what ranks have at the end; 0: 1e-9 */
    const char *more[4]; /* overrides */
} trial;

#define DNN "{kind: dnn, deep: [16, 8]}"
#define DIN "{kind: din, attention: [{target: item, history: clicks}], deep: [8]}"
#define TWO_TOWER(retrieval, more) \
    "{kind: two_tower, retrieval: {user: user, item: item, " retrieval "}, " more "}"
#define BY_HAND(how) "{replicate_below: 0, timeout_s: 60, tables: [" how "]}"
/* Crowded tables, one of them with the keys of two features; some keys have no row, or share one. */
#define KEYS                                                                                             \
    "embedding.tables=[{name: bag, max_capacity: 300, buckets: 7, admission: {min_count: 2}, eviction: " \
    "{ttl: 150}, missing: oov}, {name: item, max_capacity: 150, buckets: 3, admission: {min_count: 2}, " \
    "eviction: {policy: lfu, ttl_steps: 3}, missing: {hash: 20}}]",                                      \
        "data.timestamp=time", "data.shuffle=false"
static const trial trials[] = {
    {"keys", DNN, BY_HAND("{name: item, sharding: table_wise}"), 0, {KEYS}},
    {"keys, by itself", DNN, "{timeout_s: 60}", 0, {KEYS}},
    {"by itself", DNN, "{replicate_below: 100, timeout_s: 60}", 0, {NULL}},
    {"replicated", DNN, "{timeout_s: 60}", 0, {NULL}},
    {"rows", DNN, BY_HAND("{name: bag, sharding: row_wise}, {name: item, sharding: row_wise}"), 0, {NULL}},
    {"columns",
     DNN,
     BY_HAND("{name: bag, sharding: column_wise, slices: 3}, {name: item, sharding: grid, slices: 2}"),
     0,
     {NULL}},
    {"combined by owners",
     DNN,
     BY_HAND("{name: bag, sharding: column_wise, slices: 2, owner_pooling: true}, {name: item, sharding: "
             "table_wise, owner_pooling: true}"),
     0,
     {NULL}},
    {"narrow wire",
     DNN,
     "{replicate_below: 100, timeout_s: 60, wire: bf16}",
     5e-5,
     {NULL}}, /* sums in another order are rounded to other bf16, a 256th away */
    {"batch norm and dropout",
     "{kind: dcn_v2, deep: [16, 8], batch_norm: true, dropout: 0.3, feature_dropout: 0.2}",
     "{replicate_below: 100, timeout_s: 60}",
     0,
     {NULL}},
    {"learned weights",
     "{kind: mmoe, experts: 2, expert_units: [8], towers: [8], task_weights: uncertainty}",
     "{replicate_below: 100, timeout_s: 60}",
     0,
     {NULL}},
    {"sequences",
     DIN,
     BY_HAND("{name: item, sharding: row_wise}"),
     0,
     {"embedding.features=[{name: bag, combiner: mean}, {name: other, table: bag}, {name: clicks, table: "
      "item, max_sequence_length: 4}, {name: none, max_sequence_length: 2}]"}},
    {"adagrad, l2",
     DNN,
     "{replicate_below: 100, timeout_s: 60}",
     0,
     {"embedding.l2=0.01",
      "embedding.optimizer={kind: rowwise_adagrad, learning_rate: 0.05, initial_accumulator: 0.1}"}},
    {"l2_full",
     DNN,
     "{replicate_below: 100, timeout_s: 60}",
     0,
     {"embedding.l2_full=0.01", "train.seed=4"}}, /* by seed 3 a relu's input is 0 but for rounding: it is
                                                     passed on one device and not on the other */
    {"behind a cache",
     DNN,
     BY_HAND("{name: bag, sharding: row_wise}, {name: item, sharding: row_wise}"),
     0,
     {"cuda.memory=60KB"}},
    {"combined behind a cache",
     DNN,
     BY_HAND("{name: bag, sharding: column_wise, slices: 2, owner_pooling: true}"),
     0,
     {"cuda.memory=100KB"}},
    {"half rows",
     DNN,
     BY_HAND("{name: bag, sharding: grid, slices: 2}"),
     1e-5,
     {"embedding.dtype=bf16"}}, /* likewise their stochastic rounding */
    {"read by others",
     DNN,
     "{reader_ranks: 1, replicate_below: 100, timeout_s: 60}",
     0,
     {NULL}}, /* of three ranks or more */
    {"ranks without rows",
     DNN,
     BY_HAND("{name: other, sharding: table_wise}"),
     0,
     {"data.features=[{name: other, identity: 3000}, {name: x, dense: true}]", "embedding.features=[]"}},
    {"no tables",
     "{kind: dnn, deep: [8]}",
     "{timeout_s: 60}",
     0,
     {"data.features=[{name: x, dense: true}]", "embedding.features=[]"}},
    {"pairs",
     TWO_TOWER(
         "history: true, similarity: cosine, loss: cosine_contrastive, negative_weight: 9, negatives: 32",
         "dropout: 0.2"),
     BY_HAND("{name: item, sharding: row_wise}"),
     0,
     {"train.log_every=1"}},
    {"pairs of keys",
     TWO_TOWER("history: true, similarity: cosine, negatives: 32, sampling: popularity", "dropout: 0.2"),
     "{timeout_s: 60}",
     0,
     {"data.features=[{name: user, key: true}, {name: item, key: true}]",
      "embedding={dim: 8, tables: [{name: user, max_capacity: 64, buckets: 4}, {name: item, max_capacity: "
      "70, buckets: 3, eviction: lfu}], features: [{name: history, table: item}]}",
      "train.log_every=1"}},
    {"candidates",
     TWO_TOWER("in_batch: true, similarity: cosine, temperature: 0.5, negatives: 300, sampling: popularity",
               "deep: [16, 8]"),
     "{timeout_s: 60}",
     0,
     {"train.log_every=1", "embedding.features=[]"}},
    {"hard candidates",
     TWO_TOWER("loss: bpr, similarity: cosine, hard: 4, negatives: 80", "deep: [8]"),
     "{replicate_below: 50, timeout_s: 60}",
     0,
     {"train.log_every=1", "embedding.features=[]"}},
};

#endif
