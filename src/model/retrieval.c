#include "model/retrieval.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/trace.h"
#include "model/retrieval_batch.h"
#include "model/sampler.h"
#include "nn/candidate_loss.h"

/* Streams of random numbers beside those of rows, dropout and shuffling. */
static const uint64_t draw_seed = 0x6e656761746976ull, history_seed = 0x686973746f7279ull;

struct rk_retrieval {
    rk_retrieval_section section; /* but for its names */
    rk_data_schema schema;        /* its features only, with names of its own */
    rk_data_feature_info *infos;  /* schema.features */
    rk_interactions *known;       /* may be NULL */
    rk_pair_features pair;
    int32_t *features;            /* [n_sources]: of the batch, the history's is schema->n_features */
    int32_t n_sources;
    uint64_t seed;
    rk_value user, item;          /* vectors */
    rk_sampler *sampler;          /* of training, with all below */
    rk_candidate_loss *loss;
    rk_real *log_q;               /* [max_batch + n_drawn] */
    int32_t *ids;                 /* [max_batch + n_drawn]: items of the batch */
    int64_t n;                    /* pairs of the batch under way */
    rk_retrieval_batch batch;
};

static rk_status find_feature(const rk_model_options *o, const char *key, const char *name, int32_t *out) {
    const rk_data_schema *schema = o->schema;
    const rk_yaml_node *section = rk_yaml_get(o->yaml ? rk_yaml_get(o->yaml->root, "model") : NULL, "retrieval");
    const rk_yaml_node *node = rk_yaml_get(section, key);
    for (*out = 0; *out < schema->n_features; (*out)++)
        if (strcmp(schema->features[*out].name, name) == 0) return RK_OK;
    if (o->model->retrieval.history && strcmp(name, "history") == 0) return RK_OK;
    const char **names;
    rk_yaml_error(o->yaml, node ? node : section, "there is no categorical feature '%s'", name);
    RK_TRY(rk_alloc((size_t)schema->n_features, sizeof *names, &names));
    for (int32_t f = 0; f < schema->n_features; f++) names[f] = schema->features[f].name;
    const char *nearest = rk_nearest(name, names, (size_t)schema->n_features);
    if (nearest) rk_error_hint(RK_CONFIG, "did you mean '%s'?", nearest);
    rk_free(names);
    return RK_CONFIG;
}

/* The user tower's features in the file's order, then the item. */
static rk_status choose_features(rk_retrieval *r, const rk_model_options *o) {
    const rk_retrieval_section *s = &r->section;
    int32_t n = o->schema->n_features;
    RK_TRY(find_feature(o, "user", s->user, &r->pair.user));
    RK_TRY(find_feature(o, "item", s->item, &r->pair.item));
    RK_FAIL_IF(r->pair.user == n || r->pair.item == n || r->pair.user == r->pair.item, RK_CONFIG, "the user and the item of a two_tower are two features of the data");
    RK_FAIL_IF(o->schema->features[r->pair.item].weighted, RK_CONFIG, "the item '%s' of a two_tower has no weights", s->item);
    RK_TRY(rk_alloc((size_t)n + 2 + (size_t)s->n_user_tower, sizeof *r->features, &r->features));
    for (int64_t i = 0; i < s->n_user_tower; i++) RK_TRY(find_feature(o, "user_tower", s->user_tower[i], &r->features[r->n_sources++]));
    for (int32_t f = 0; f < n && !s->n_user_tower; f++)
        if (f != r->pair.item) r->features[r->n_sources++] = f;
    if (s->history && !s->n_user_tower) r->features[r->n_sources++] = n;
    r->features[r->n_sources++] = r->pair.item;
    for (int32_t a = 0; a < r->n_sources; a++)
        for (int32_t b = 0; b < a; b++) RK_FAIL_IF(r->features[a] == r->features[b], RK_CONFIG, "a feature stands twice in the towers of a two_tower");
    for (int32_t f = 0; f < n && s->history; f++)
        RK_FAIL_IF(strcmp(o->schema->features[f].name, "history") == 0, RK_CONFIG, "a two_tower's own 'history' and a feature of the data have one name");
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
    RK_FAIL_IF(o->training && o->cluster, RK_UNSUPPORTED, "a two_tower trains in one process, not over ranks");
    rk_retrieval *r;
    RK_TRY(rk_alloc(1, sizeof *r, &r));
    r->section = o->model->retrieval;
    r->known = rk_interactions_hold(o->interactions);
    r->seed = o->seed;
    rk_status status = copy_schema(r, o->schema);
    if (status == RK_OK) status = choose_features(r, o);
    if (status == RK_OK)
        *out = r;
    else
        rk_retrieval_free(r);
    return status;
}

void rk_retrieval_free(rk_retrieval *r) {
    if (!r) return;
    rk_retrieval_batch_release(&r->batch, r->schema.n_features + 1);
    for (int32_t f = 0; f < r->schema.n_features; f++) rk_free((char *)(size_t)r->infos[f].name);
    rk_free(r->infos);
    rk_interactions_free(r->known);
    rk_sampler_free(r->sampler);
    rk_candidate_loss_free(r->loss);
    rk_free(r->log_q);
    rk_free(r->ids);
    rk_free(r->features);
    rk_free(r);
}

int32_t rk_retrieval_n_sources(const rk_retrieval *r) {
    return r->n_sources;
}

int32_t rk_retrieval_feature(const rk_retrieval *r, int32_t s) {
    return r->features[s];
}

rk_embedding_source rk_retrieval_source(const rk_retrieval *r, int32_t s) {
    int32_t f = r->features[s];
    if (f == r->schema.n_features) return (rk_embedding_source){"history", r->schema.features[r->pair.item].cardinality, false};
    return (rk_embedding_source){r->schema.features[f].name, r->schema.features[f].cardinality, r->schema.features[f].weighted};
}

int64_t rk_retrieval_n_drawn(const rk_retrieval *r) {
    return r->section.negatives;
}

uint64_t rk_retrieval_bytes(const rk_retrieval *r) {
    uint64_t bytes = r->loss ? rk_candidate_loss_bytes(r->loss) : 0;
    if (r->known) bytes += (uint64_t)(r->known->offsets[r->known->n_users] + r->known->n_users + r->known->n_items) * sizeof(int64_t);
    return bytes;
}

double rk_retrieval_history_length(const rk_retrieval *r) {
    double n_pairs = 0, n_ids = 0;
    for (int64_t u = 0; r->known && u < r->known->n_users; u++) {
        double n = (double)(r->known->offsets[u + 1] - r->known->offsets[u]), most = (double)r->section.max_history;
        n_pairs += n;
        n_ids += n * (most > 0 && n > most ? most : n);
    }
    return n_pairs > 0 ? n_ids / n_pairs : 0;
}

const char *rk_retrieval_loss(const rk_retrieval *r) {
    return rk_retrieval_loss_name(&r->section);
}

void rk_retrieval_mark_outputs(rk_graph *graph) {
    rk_graph_output(graph, rk_graph_find(graph, "user_vector"));
    rk_graph_output(graph, rk_graph_find(graph, "item_vector"));
    rk_graph_keep(graph);
}

rk_status rk_retrieval_finish(rk_model *model, const rk_model_options *o) {
    rk_retrieval *r = model->retrieval;
    const rk_retrieval_section *s = &r->section;
    r->user = rk_graph_find(model->graph, "user_vector");
    r->item = rk_graph_find(model->graph, "item_vector");
    RK_TRY(rk_retrieval_batch_init(&r->batch, r->schema.n_features + 1));
    if (!o->training) return RK_OK;
    int64_t n_items = r->schema.features[r->pair.item].cardinality, room = o->max_batch + s->negatives;
    bool by_popularity = s->sampling == RK_SAMPLING_POPULARITY, needs_known = by_popularity || s->history || s->in_batch;
    RK_FAIL_IF(needs_known && !r->known, RK_INVALID_ARGUMENT, "a two_tower with history, popularity or in_batch needs the training data's pairs");
    RK_FAIL_IF(n_items > INT32_MAX, RK_UNSUPPORTED, "a two_tower of %lld items", (long long)n_items);
    RK_TRY(rk_sampler_create(n_items, by_popularity ? r->known->counts : NULL, s->popularity_exponent, &r->sampler));
    RK_TRY(rk_alloc((size_t)room, sizeof *r->log_q, &r->log_q));
    RK_TRY(rk_alloc((size_t)room, sizeof *r->ids, &r->ids));
    rk_candidate_loss_config config = {.kind = (rk_candidate_loss_kind)s->loss,
                                       .dim = rk_graph_shape(model->graph, r->user).cols,
                                       .max_n = o->max_batch,
                                       .n_drawn = s->negatives,
                                       .in_batch = s->in_batch,
                                       .hard = s->hard,
                                       .temperature = s->temperature,
                                       .margin = s->margin,
                                       .negative_weight = s->negative_weight};
    return rk_candidate_loss_create(&config, &r->loss);
}

/* The items of the training batch: its pairs' own, and the drawn ones. */
static rk_status draw_items(rk_retrieval *r, const rk_batch *batch, int64_t step) {
    for (int64_t i = 0; i < batch->n; i++) {
        int64_t item;
        RK_TRY(rk_pair_id(batch, &r->schema, r->pair.item, i, &item));
        r->ids[i] = (int32_t)item;
    }
    for (int64_t j = 0; j < r->section.negatives; j++)
        r->ids[batch->n + j] = (int32_t)rk_sampler_draw(r->sampler, r->seed ^ draw_seed, (uint64_t)step, (uint64_t)j);
    return RK_OK;
}

/* Chances to be a candidate: of the batch's own items, how often they are met in the data; of drawn ones, the sampler's. A pair's own item is corrected
 * as the candidates are that come with it: as a batch's item where these are candidates, else as a drawn one. */
static void set_chances(rk_retrieval *r, int64_t n) {
    const rk_interactions *known = r->known;
    double n_pairs = known ? (double)known->offsets[known->n_users] : 1;
    for (int64_t i = 0; i < n + r->section.negatives; i++) {
        bool by_data = i < n && r->section.in_batch;
        double count = by_data && known->counts[r->ids[i]] ? (double)known->counts[r->ids[i]] : 1;
        r->log_q[i] = by_data ? (rk_real)log(count / n_pairs) : rk_sampler_log_chance(r->sampler, r->ids[i]);
    }
}

/* The history of sample i: all of the user's items, or in training max_history of them from a place that is drawn, without the pair's own. */
static rk_status add_history(rk_retrieval *r, const rk_batch *batch, int64_t i, int64_t step, bool training) {
    int64_t user, own = training ? r->ids[i] : -1, most = training ? r->section.max_history : 0;
    RK_TRY(rk_pair_id(batch, &r->schema, r->pair.user, i, &user));
    int64_t begin = r->known->offsets[user], n = r->known->offsets[user + 1] - begin, first = 0, taken = 0;
    if (most && n > most + 1) first = (int64_t)(rk_rng_u64(r->seed ^ history_seed, (uint64_t)step, (uint64_t)i) % (uint64_t)n);
    for (int64_t k = 0; k < n && (!most || taken < most); k++) {
        int64_t item = r->known->items[begin + (first + k) % n];
        if (item == own) continue;
        RK_TRY(rk_retrieval_batch_add_id(&r->batch, r->schema.n_features, item));
        taken++;
    }
    return RK_OK;
}

rk_status rk_retrieval_extend(rk_model *model, const rk_batch *batch, bool training, rk_batch *out) {
    rk_retrieval *r = model->retrieval;
    int64_t n_drawn = training ? r->section.negatives : 0;
    uint64_t begin = rk_trace_begin();
    if (training) {
        r->n = batch->n;
        RK_TRY(draw_items(r, batch, model->step));
        set_chances(r, batch->n);
    }
    RK_TRY(rk_retrieval_batch_begin(&r->batch, batch, n_drawn));
    for (int32_t s = 0; s < r->n_sources; s++) {
        int32_t f = r->features[s];
        if (f == r->schema.n_features) {
            RK_FAIL_IF(!r->known, RK_INVALID_ARGUMENT, "a two_tower with history needs the training data's pairs");
            for (int64_t i = 0; i < batch->n; i++) {
                RK_TRY(add_history(r, batch, i, model->step, training));
                rk_retrieval_batch_end_sample(&r->batch, f, i);
            }
        } else {
            RK_TRY(rk_retrieval_batch_copy(&r->batch, f, &batch->features[f], batch->n));
        }
        for (int64_t j = 0; j < n_drawn; j++) {
            if (f == r->pair.item) RK_TRY(rk_retrieval_batch_add_id(&r->batch, f, r->ids[batch->n + j]));
            rk_retrieval_batch_end_sample(&r->batch, f, batch->n + j);
        }
    }
    *out = rk_retrieval_batch_done(&r->batch);
    rk_trace_end(begin, "draw");
    return RK_OK;
}

rk_status rk_retrieval_items(rk_model *model, int64_t first, int64_t n, rk_batch *out) {
    rk_retrieval *r = model->retrieval;
    const rk_batch none = {.n_dense = model->n_dense, .n_features = r->schema.n_features};
    RK_TRY(rk_retrieval_batch_begin(&r->batch, &none, n));
    for (int64_t i = 0; i < n; i++) {
        RK_TRY(rk_retrieval_batch_add_id(&r->batch, r->pair.item, first + i));
        rk_retrieval_batch_end_sample(&r->batch, r->pair.item, i);
    }
    *out = rk_retrieval_batch_done(&r->batch);
    return RK_OK;
}

rk_status rk_retrieval_whole(void *context) {
    const rk_model_run *run = context;
    rk_model *model = run->model;
    rk_retrieval *r = model->retrieval;
    int64_t n = run->batch->n, dim = rk_graph_shape(model->graph, r->user).cols;
    uint64_t begin = rk_trace_begin();
    rk_real *user_gradient = rk_graph_gradient(model->graph, r->user);
    rk_candidate_loss_args args = {.n = r->n,
                                   .users = rk_graph_data(model->graph, r->user),
                                   .items = rk_graph_data(model->graph, r->item),
                                   .ids = r->ids,
                                   .log_q = r->section.log_q ? r->log_q : NULL,
                                   .weights = run->batch->sample_weights,
                                   .scale = run->task_samples[0] > 0 ? 1 / run->task_samples[0] : 0,
                                   .user_gradient = user_gradient,
                                   .item_gradient = rk_graph_gradient(model->graph, r->item)};
    memset(user_gradient + r->n * dim, 0, (size_t)((n - r->n) * dim) * sizeof *user_gradient);
    memset(rk_graph_gradient(model->graph, model->logits), 0, (size_t)n * sizeof *user_gradient);
    memset(model->losses, 0, rk_graph_n_blocks(model->graph, n) * sizeof *model->losses);
    rk_status status = rk_candidate_loss_run(r->loss, &args, &model->losses[0]);
    rk_trace_end(begin, "forward");
    RK_TRY(status);
    if (isfinite(model->losses[0])) return RK_OK;
    rk_error(RK_NOT_FINITE, "step %lld: the loss is %g", (long long)model->step, model->losses[0]);
    return rk_error_hint(RK_NOT_FINITE, "a lower learning rate, or a higher temperature, may keep the model from diverging");
}
