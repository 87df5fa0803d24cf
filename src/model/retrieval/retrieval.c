/* A two_tower's parts: features of the towers, what its training needs. */
#include <string.h>

#include "base/memory.h"
#include "base/text/find_text.h"
#include "base/thread/parallel.h"
#include "base/text/text.h"
#include "model/retrieval/retrieval_internal.h"
#include "model/step/ranks.h"

static const rk_yaml_node *find_retrieval_key_node(const rk_yaml *yaml, const char *key) {
    const rk_yaml_node *section =
        rk_yaml_find_key(yaml ? rk_yaml_find_key(yaml->root, "model") : NULL, "retrieval");
    const rk_yaml_node *node = rk_yaml_find_key(section, key);
    return node ? node : section;
}

static rk_status find_categorical_feature(const rk_yaml *yaml, const rk_data_schema *schema, const char *key,
                                          const char *name, int32_t *out) {
    *out = (int32_t)RK_POSITION_BY(name, name, schema->features, schema->n_features);
    if (*out >= 0) return RK_OK;
    rk_yaml_error(yaml, find_retrieval_key_node(yaml, key), "there is no categorical feature '%s'", name);
    return rk_hint_nearest_name(RK_CONFIG, name, schema->features, sizeof *schema->features,
                                offsetof(rk_data_feature_info, name), (size_t)schema->n_features);
}

rk_status rk_retrieval_find_pair_features(const rk_retrieval_section *s, const rk_yaml *yaml,
                                          const rk_data_schema *schema, rk_pair_features *out) {
    RK_TRY(find_categorical_feature(yaml, schema, "user", s->user, &out->user));
    RK_TRY(find_categorical_feature(yaml, schema, "item", s->item, &out->item));
    for (int i = 0; i < 2; i++)
        RK_FAIL_IF(schema->features[i ? out->item : out->user].n_parts, RK_CONFIG,
                   "the %s feature '%s' of a two_tower has one row an id\nhint: remove the feature's "
                   "'hash_functions' or 'quotient_remainder'",
                   i ? "item" : "user", i ? s->item : s->user);
    if (out->user == out->item)
        return rk_yaml_error(yaml, find_retrieval_key_node(yaml, "user"),
                             "'user' and 'item' must be two different features");
    return RK_OK;
}

static rk_status find_tower_feature(const rk_retrieval_section *s, const rk_model_options *o,
                                    const char *name, int32_t *out) {
    *out = o->schema->n_features; /* the history, behind the data's own */
    return s->history && strcmp(name, "history") == 0
               ? RK_OK
               : find_categorical_feature(o->yaml, o->schema, "user_tower", name, out);
}

/* The user tower's features in the file's order, then the item. */
static rk_status choose_tower_features(rk_retrieval *r, const rk_model_options *o) {
    const rk_retrieval_section *s = &r->section;
    int32_t n = o->schema->n_features;
    RK_TRY(rk_retrieval_find_pair_features(s, o->yaml, o->schema, &r->pair));
    RK_FAIL_IF(
        o->schema->features[r->pair.item].weighted, RK_CONFIG,
        "the item feature '%s' of a two_tower cannot have weights\nhint: remove the feature's 'weights'",
        s->item);
    RK_TRY(rk_alloc((size_t)n + 2 + (size_t)s->n_user_tower, sizeof *r->features, &r->features));
    for (int64_t i = 0; i < s->n_user_tower; i++)
        RK_TRY(find_tower_feature(s, o, s->user_tower[i], &r->features[r->n_lookups++]));
    for (int32_t f = 0; f < n && !s->n_user_tower; f++)
        if (f != r->pair.item) r->features[r->n_lookups++] = f;
    if (s->history && !s->n_user_tower) r->features[r->n_lookups++] = n;
    r->features[r->n_lookups++] = r->pair.item;
    for (int32_t f = 0; f < n; f++)
        RK_FAIL_IF(o->schema->features[f].compose == RK_COMPOSE_MULTIPLY, RK_CONFIG,
                   "feature '%s': a two_tower does not multiply rows\nhint: use compose: pool",
                   o->schema->features[f].name);
    for (int32_t a = 0; a < r->n_lookups; a++)
        for (int32_t b = 0; b < a; b++)
            if (r->features[a] == r->features[b])
                return rk_yaml_error(o->yaml, find_retrieval_key_node(o->yaml, "user_tower"),
                                     "a feature is listed twice in the towers of a two_tower");
    for (int32_t f = 0; f < n && s->history; f++)
        RK_FAIL_IF(strcmp(o->schema->features[f].name, "history") == 0, RK_CONFIG,
                   "the data has a feature 'history', and retrieval.history adds another of this name\nhint: "
                   "rename the feature in data.features");
    return RK_OK;
}

static rk_status fill_lookup_schema(rk_retrieval *r) {
    RK_TRY(rk_alloc((size_t)r->n_lookups, sizeof *r->lookups, &r->lookups));
    for (int32_t l = 0; l < r->n_lookups; l++)
        r->lookups[l] = r->features[l] < r->schema.n_features
                            ? r->infos[r->features[l]]
                            : (rk_data_feature_info){.name = "history",
                                                     .cardinality = r->infos[r->pair.item].cardinality};
    return RK_OK;
}

static rk_status copy_schema(rk_retrieval *r, const rk_data_schema *schema) {
    RK_TRY(rk_alloc((size_t)schema->n_features, sizeof *r->infos, &r->infos));
    r->schema.features = r->infos;
    for (int32_t f = 0; f < schema->n_features; f++) {
        char *name;
        RK_TRY(rk_strdup(schema->features[f].name, &name));
        r->infos[f] = schema->features[f];
        r->infos[f].name = name;
        r->schema.n_features = f + 1;
    }
    return RK_OK;
}

rk_status rk_retrieval_create(const rk_model_options *o, rk_retrieval **out) {
    rk_retrieval *r;
    RK_TRY(rk_alloc(1, sizeof *r, &r));
    *r = (rk_retrieval){
        .section = o->model->retrieval, .known = rk_interactions_ref(o->interactions), .seed = o->seed};
    rk_status status = copy_schema(r, o->schema);
    if (status == RK_OK) status = choose_tower_features(r, o);
    if (status == RK_OK) status = fill_lookup_schema(r);
    if (status == RK_OK)
        *out = r;
    else
        rk_retrieval_free(r);
    return status;
}

void rk_retrieval_free(rk_retrieval *r) {
    if (!r) return;
    rk_retrieval_batch_release(&r->batch);
    for (int32_t f = 0; f < r->schema.n_features; f++) rk_free((char *)(size_t)r->infos[f].name);
    rk_free(r->infos);
    rk_interactions_unref(r->known);
    rk_negative_sampler_free(r->sampler);
    rk_candidate_loss_free(r->loss);
    RK_FREE_ALL(r->log_q, r->micro_batch_losses);
    rk_retrieval_ranks_release(&r->ranks);
    RK_FREE_ALL(r->features, r->lookups, r->item_table, r);
}

rk_data_schema rk_retrieval_lookup_schema(const rk_retrieval *r) {
    return (rk_data_schema){.n_features = r->n_lookups, .features = r->lookups};
}

rk_status rk_retrieval_set_sources(rk_retrieval *r, rk_collection_config *tables) {
    for (int32_t f = 0; f < tables->n_features; f++) tables->sources[f] = r->features[tables->sources[f]];
    for (int32_t f = 0; f < tables->n_features; f++)
        if (tables->sources[f] == r->pair.item && !r->item_table)
            RK_TRY(rk_strdup(tables->tables[tables->table_of[f]].name, &r->item_table));
    return RK_OK;
}

const char *rk_retrieval_item_table(const rk_retrieval *r) {
    return r->item_table;
}

int64_t rk_retrieval_n_negatives(const rk_retrieval *r) {
    return r->section.negatives;
}

uint64_t rk_retrieval_memory_bytes(const rk_model *model) {
    const rk_retrieval *r = model->retrieval;
    uint64_t bytes = r->loss ? rk_candidate_loss_bytes(r->loss) : 0;
    return bytes + (r->known ? rk_interactions_bytes(r->known) : 0);
}

/* How many items there are to sample, and users and items to rank. */
static int64_t count_items(const rk_retrieval *r) {
    int64_t n = r->schema.features[r->pair.item].cardinality;
    return n || !r->known ? n : r->known->n_items;
}

static int64_t count_users(const rk_retrieval *r) {
    int64_t n = r->schema.features[r->pair.user].cardinality;
    return n || !r->known ? n : r->known->n_users;
}

double rk_retrieval_ranking_memory_bytes(const rk_retrieval *r, int32_t dim) {
    double users = (double)count_users(r), items = (double)count_items(r);
    return sizeof(rk_real) * (dim * (users + 2 * items) + RK_USERS_AT_ONCE * items * rk_parallel_threads());
}

double rk_retrieval_ids_per_sample(const rk_retrieval *r, int32_t f, const rk_batch *sample, int64_t batch) {
    if (f == r->schema.n_features) return rk_retrieval_mean_history_length(r);
    const rk_ids *ids = &sample->features[f];
    double here = (double)rk_ids_begin_of_sample(ids, sample->n) / (double)sample->n;
    return here + (f == r->pair.item && batch ? (double)r->section.negatives / (double)batch : 0);
}

double rk_retrieval_mean_history_length(const rk_retrieval *r) {
    double n_pairs = 0, n_ids = 0;
    for (int64_t u = 0; r->known && u < r->known->n_users; u++) {
        double n = (double)(r->known->offsets[u + 1] - r->known->offsets[u]),
               most = (double)r->section.max_history;
        n_pairs += n;
        n_ids += n * (most > 0 && n > most ? most : n);
    }
    return n_pairs > 0 ? n_ids / n_pairs : 0;
}

int64_t rk_retrieval_n_local_negatives(const rk_model *model, int64_t n_pairs, int64_t n) {
    int64_t total = n_pairs + rk_retrieval_n_negatives(model->retrieval),
            sampled = rk_ranks_first_sample(model->ranks, model->ranks->rank, total) + n - n_pairs;
    return sampled < 0 ? 0 : sampled < n ? sampled : n;
}

bool rk_retrieval_corrects_log_q(const rk_retrieval *r) {
    return r->section.log_q;
}

rk_candidate_loss_config rk_retrieval_loss_config(const rk_model *model) {
    const rk_retrieval *r = model->retrieval;
    const rk_retrieval_section *s = &r->section;
    return (rk_candidate_loss_config){.kind = (rk_candidate_loss_kind)s->loss,
                                      .dim = rk_graph_shape(model->graph, r->user).cols,
                                      .max_n = model->step_batch,
                                      .n_sampled = s->negatives,
                                      .in_batch = s->in_batch,
                                      .hard = s->hard,
                                      .temperature = s->temperature,
                                      .margin = s->margin,
                                      .negative_weight = s->negative_weight};
}

/* The loss, whose micro-batches are dealt out to trainers as the graph's are. */
static rk_status create_candidate_loss(rk_model *model) {
    rk_retrieval *r = model->retrieval;
    const rk_ranks *ranks = model->ranks;
    r->n_micro_batches = ranks->n_micro_batches;
    rk_candidate_loss_config config = rk_retrieval_loss_config(model);
    config.n_micro_batches = (int32_t)ranks->n_micro_batches;
    config.first_micro_batch = (int32_t)ranks->first_micro_batches[ranks->rank];
    config.n_here = (int32_t)rk_ranks_n_micro_batches(ranks, ranks->rank);
    RK_TRY(rk_alloc((size_t)r->n_micro_batches, sizeof *r->micro_batch_losses, &r->micro_batch_losses));
    return rk_candidate_loss_create(&config, &r->loss);
}

int32_t rk_model_vector_dim(const rk_model *model) {
    return rk_model_is_two_tower(model)
               ? rk_graph_shape(model->graph, rk_graph_find_value(model->graph, "user_vector")).cols
               : 0;
}

rk_status rk_retrieval_create_loss(rk_model *model, const rk_model_options *o) {
    rk_retrieval *r = model->retrieval;
    const rk_retrieval_section *s = &r->section;
    r->user = rk_graph_find_value(model->graph, "user_vector");
    r->item = rk_graph_find_value(model->graph, "item_vector");
    int64_t n_items = count_items(r);
    bool by_popularity = s->sampling == RK_SAMPLING_POPULARITY,
         has_keys = r->schema.features[r->pair.item].cardinality == 0,
         needs_known = by_popularity || s->history || s->in_batch || has_keys;
    RK_FAIL_IF(needs_known && !r->known, RK_INVALID_ARGUMENT,
               "a two_tower with history, popularity, in_batch or items that are keys needs the training "
               "data's pairs");
    RK_FAIL_IF(n_items == 0, RK_BAD_DATA, "no negatives can be sampled: the training data has no pairs");
    RK_FAIL_IF(n_items > INT32_MAX, RK_UNSUPPORTED, "a two_tower supports up to 2^31 - 1 items, not %lld",
               (long long)n_items);
    RK_TRY(rk_negative_sampler_create(n_items, by_popularity ? r->known->counts : NULL,
                                      s->popularity_exponent, &r->sampler));
    RK_TRY(rk_alloc((size_t)(o->max_batch + s->negatives), sizeof *r->log_q, &r->log_q));
    if (o->device) return RK_OK; /* which has a loss of its own */
    if (model->ranks->is_distributed) RK_TRY(rk_retrieval_ranks_init(model, &r->ranks));
    return create_candidate_loss(model);
}
