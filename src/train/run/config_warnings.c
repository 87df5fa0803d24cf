/* Warnings about probable mistakes in a configuration: given once, by the first rank. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "model/presets/preset.h"
#include "train/run/trainer_internal.h"

static void warn_of_label_leak(const rk_data_feature *feature, const rk_label_section *label) {
    const char *column = rk_feature_column(feature), *target = rk_label_column(label);
    if (column && target && strcmp(column, target) == 0)
        rk_log(RK_LOG_WARNING,
               "the feature '%s' reads the column of the label '%s': the label leaks into the input",
               feature->name, label->name);
}

static bool has_sequence(const rk_embedding_section *embedding) {
    for (int64_t i = 0; i < embedding->n_features; i++)
        if (embedding->features[i].max_sequence_length > 0) return true;
    return false;
}

/* Where every key has its row at its first use, those of keys without a row are never trained. */
static void warn_of_untrained_row(const struct rk_table_section *table) {
    const char *name = table->name ? table->name : table->match;
    const struct rk_missing_section *missing = &table->missing;
    bool shares = missing->row || missing->hash;
    if (!table->max_capacity || !shares || table->eviction.policy == RK_EVICTION_NONE ||
        table->admission.min_count > 1 || table->admission.probability < 1)
        return;
    rk_log(
        RK_LOG_WARNING,
        "table '%s': each key gets a row at its first use, so %s is never trained and keys that are new to "
        "the model have its initial values\n"
        "hint: give 'admission' a min_count above 1, or leave 'missing' at zeros",
        name, missing->hash ? "a cold row of 'missing: {hash: ...}'" : "the row of 'missing: oov'");
}

/* The clock is soon at the end of rows that come in no order, and none of those that follow is older. */
static void warn_of_shuffled_stream(const rk_config *c) {
    bool has_ttl = false;
    for (int64_t i = 0; i < c->embedding.n_tables; i++) has_ttl |= c->embedding.tables[i].eviction.ttl > 0;
    if (has_ttl && c->data.shuffle)
        rk_log(RK_LOG_WARNING,
               "'eviction.ttl' counts by the time of the stream, but rows are shuffled: the first batches "
               "have rows of all times\nhint: 'data.shuffle: false' keeps the order of the files");
}

void rk_trainer_warn_of_config(const rk_trainer *t) {
    const rk_config *c = t->config;
    if (!t->is_first) return;
    for (int64_t i = 0; i < c->data.n_features; i++)
        for (int64_t k = 0; k < c->data.n_labels; k++)
            warn_of_label_leak(&c->data.features[i], &c->data.labels[k]);
    for (int64_t i = 0; i < c->embedding.n_tables; i++) warn_of_untrained_row(&c->embedding.tables[i]);
    warn_of_shuffled_stream(c);
    const rk_preset *preset = rk_preset_of(c->model.kind);
    if (preset && preset->vector_pairs && rk_dataset_schema(t->train)->n_features == 1 &&
        !has_sequence(&c->embedding))
        rk_log(RK_LOG_WARNING,
               "model '%s' needs two embedding vectors or more to interact, but a sample has one, of "
               "'%s'\nhint: make each field a feature, or set a max_sequence_length, so that each id has its "
               "own vector",
               preset->name, rk_dataset_schema(t->train)->features[0].name);
}

void rk_trainer_warn_of_first_loss(const rk_trainer *t, double loss) {
    const rk_config *c = t->config;
    const double blind = log(2); /* of a model that always says 0.5 */
    if (!t->is_first || c->data.n_labels != 1 || c->data.labels[0].loss != 0 ||
        !(c->data.labels[0].weight > 0))
        return;
    loss /= c->data.labels[0].weight;
    if (loss > 1.5 * blind)
        rk_log(RK_LOG_WARNING,
               "the first step's loss is %.2f; predicting 0.5 for every sample gives %.2f: the initial "
               "parameters are too large\nhint: normalize the dense features, and use the default "
               "embedding.initializer or a smaller one",
               loss, blind);
}

void rk_trainer_warn_of_no_metric(rk_trainer *t) {
    const rk_config *c = t->config;
    if (!t->is_first || t->has_warned_of_metric || !(t->rules.stops || c->keeps_best)) return;
    char name[256];
    rk_config_metric_name(c, c->watched_task, c->watched_metric, name, sizeof name);
    rk_log(RK_LOG_WARNING,
           "'%s', which chooses the best checkpoint and stops early, is not defined on the validation data "
           "(docs/metrics.md)",
           name);
    t->has_warned_of_metric = true;
}
