/* Full ranking: every item is scored for every user of a split by matrix products, a block of users at a
 * time, and the best k of each user are picked. Over ranks vectors are gathered, and each trainer ranks a
 * part of the users. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "model/retrieval/item_scores.h"
#include "train/evaluate/evaluation_rankings.h"
#include "comm/comm.h"

enum { MAX_METRICS = 64 };

typedef struct ranking_task {
    const rk_interactions *relevant, *masked; /* masked: NULL: nothing */
    int64_t *users;                           /* [n_users]: those with relevant items, ascending */
    int64_t n_users, n_items, dim;
    int64_t *places;   /* [all users]: of a user among `users`, or -1 */
    int64_t *item_ids; /* [n_items] */
    rk_model *model;
    rk_real *user_vectors;   /* [n_users, dim] */
    bool *has_vector;        /* [n_users] */
    rk_packed_matrix *items; /* [dim, n_items] */
    int metrics[MAX_METRICS];
    int32_t ks[MAX_METRICS];
    size_t n_metrics, n_shown;
    double *values; /* [n_users, n_metrics] */
    rk_comm *trainers;
    int64_t first, end; /* of the users: those that are ranked here */
} ranking_task;

static void release_ranking_task(ranking_task *t) {
    RK_FREE_ALL(t->users, t->places, t->item_ids, t->user_vectors, t->has_vector, t->values);
    rk_packed_matrix_free(t->items);
}

static rk_status list_users_and_items(ranking_task *t) {
    const rk_interactions *x = t->relevant;
    RK_TRY(rk_alloc((size_t)t->n_items, sizeof *t->item_ids, &t->item_ids));
    for (int64_t i = 0; i < t->n_items; i++) t->item_ids[i] = rk_interactions_item_id(x, i);
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)x->n_users, t->users), RK_ARRAY((size_t)x->n_users, t->places)));
    for (int64_t u = 0; u < x->n_users; u++) {
        bool there = x->offsets[u + 1] > x->offsets[u];
        t->places[u] = there ? t->n_users : -1;
        if (there) t->users[t->n_users++] = u;
    }
    return RK_OK;
}

/* A user's vector is that of its first row: what the tower sees of the user is the same in all of them, or
 * the first one's. */
static rk_status store_user_vectors(ranking_task *t, const rk_batch *batch, const rk_data_schema *schema,
                                    int32_t feature, const rk_real *vectors) {
    for (int64_t i = 0; i < batch->n; i++) {
        int64_t user;
        RK_TRY(rk_batch_single_id(batch, schema, feature, i, &user));
        int64_t number = rk_interactions_user(t->relevant, user), place = number < 0 ? -1 : t->places[number];
        RK_FAIL_IF(place < 0, RK_BAD_DATA, "row %lld: the user was not in the data when its pairs were read",
                   (long long)(batch->first_row + i));
        if (t->has_vector[place]) continue;
        t->has_vector[place] = true;
        memcpy(t->user_vectors + place * t->dim, vectors + i * t->dim, (size_t)t->dim * sizeof *vectors);
    }
    return RK_OK;
}

static rk_status compute_user_vectors(ranking_task *t, rk_dataset *dataset, int32_t feature) {
    const rk_batch *batch;
    RK_AUTOFREE rk_real *vectors = NULL;
    size_t capacity = 0;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)(t->n_users * t->dim), t->user_vectors),
                        RK_ARRAY((size_t)t->n_users, t->has_vector)));
    RK_TRY(rk_dataset_seek(dataset, (rk_dataset_position){0, 0}));
    rk_status status;
    while ((status = rk_dataset_next(dataset, &batch)) == RK_OK) {
        RK_TRY(rk_reserve(&vectors, &capacity, (size_t)(batch->n * t->dim), sizeof *vectors));
        RK_TRY(rk_model_user_vectors(t->model, batch, vectors));
        RK_TRY(store_user_vectors(t, batch, rk_dataset_schema(dataset), feature, vectors));
    }
    return status == RK_END ? RK_OK : status;
}

static rk_status read_item_vectors(void *context, int64_t first, int64_t n, rk_real *rows) {
    const ranking_task *t = context;
    return rk_model_item_vectors(t->model, t->item_ids + first, n, rows);
}

static void store_metrics_of_user(ranking_task *t, int64_t place, const rk_ranking_metrics *rankings) {
    for (size_t m = 0; m < t->n_metrics; m++)
        t->values[(size_t)place * t->n_metrics + m] = rk_ranking_metric_value(t->metrics[m], &rankings[m]);
}

static rk_status rank_items_of_user(void *context, int64_t place, const rk_real *scores) {
    ranking_task *t = context;
    int64_t user = t->users[place], begin = t->relevant->offsets[user], n_masked = 0;
    const int64_t *masked = NULL;
    rk_ranking_metrics rankings[MAX_METRICS];
    if (t->masked) {
        masked = t->masked->items + t->masked->offsets[user];
        n_masked = t->masked->offsets[user + 1] - t->masked->offsets[user];
    }
    rk_status status =
        rk_ranking_metrics_at_ks(scores, t->n_items, masked, n_masked, t->relevant->items + begin,
                                 t->relevant->offsets[user + 1] - begin, t->ks, t->n_metrics, rankings);
    if (status != RK_OK)
        return rk_error_context(status, "user %lld", (long long)rk_interactions_user_id(t->relevant, user));
    store_metrics_of_user(t, place, rankings);
    return RK_OK;
}

static rk_status rank_on_cpu(ranking_task *t) {
    const rk_item_scores scores = {t->items, t->n_items, t->dim, t->user_vectors, rank_items_of_user, t};
    return rk_score_items_of_users(&scores, t->first, t->end);
}

static rk_status store_metrics_of_positions(ranking_task *t, const uint32_t *places) {
    rk_ranking_metrics rankings[MAX_METRICS];
    for (int64_t place = t->first; place < t->end; place++) {
        int64_t user = t->users[place], begin = t->relevant->offsets[user];
        RK_TRY(rk_ranking_metrics_from_positions(places + begin, t->relevant->offsets[user + 1] - begin,
                                                 t->ks, t->n_metrics, rankings));
        store_metrics_of_user(t, place, rankings);
    }
    return RK_OK;
}

/* The GPU counts how many items are before each that is to be found. */
static rk_status rank_on_device(ranking_task *t) {
    RK_AUTOFREE rk_real *items = NULL;
    RK_AUTOFREE uint32_t *places = NULL;
    rk_status status = rk_alloc((size_t)(t->n_items * t->dim), sizeof *items, &items);
    if (status == RK_OK)
        status = rk_alloc((size_t)t->relevant->offsets[t->relevant->n_users], sizeof *places, &places);
    RK_TRY(rk_comm_agree_on_status(t->trainers, status));
    RK_TRY(rk_model_item_vectors(t->model, t->item_ids, t->n_items, items));
    rk_ranking_positions counted = {.n_items = t->n_items,
                                    .n_users = t->end - t->first,
                                    .dim = t->dim,
                                    .items = items,
                                    .users = t->user_vectors + t->first * t->dim,
                                    .numbers = t->users + t->first,
                                    .places = places,
                                    .asked = {t->relevant->offsets, t->relevant->items}};
    if (t->masked) counted.masked = (rk_item_lists){t->masked->offsets, t->masked->items};
    RK_TRY(rk_model_compute_ranking_positions(t->model, &counted));
    return store_metrics_of_positions(t, places);
}

/* On GPUs unless one has too little memory. */
static rk_status rank_local_users(ranking_task *t) {
    if (rk_model_has_device(t->model)) {
        rk_status status = rk_comm_agree_on_status(t->trainers, rank_on_device(t));
        if (status != RK_NO_MEMORY) return status;
        rk_log(RK_LOG_INFO, "the CPU ranks the items, not the GPU: %s", rk_last_error());
    }
    RK_TRY(rk_item_matrix_create(t->n_items, t->dim, read_item_vectors, t, &t->items));
    return rk_comm_agree_on_status(t->trainers, rank_on_cpu(t));
}

static int64_t first_user_of_rank(const ranking_task *t, int32_t r) {
    return rk_first_user_of_rank(t->n_users, r, rk_comm_size(t->trainers));
}

static rk_status all_gather_values(ranking_task *t) {
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    RK_TRY(rk_comm_all_gather(t->trainers, RK_CHANNEL_VALUES, t->values + (size_t)t->first * t->n_metrics,
                              (size_t)(t->end - t->first) * t->n_metrics * sizeof *t->values, &all_to_all));
    for (int32_t r = 0; r < rk_comm_size(t->trainers); r++) {
        size_t first = (size_t)first_user_of_rank(t, r),
               n_bytes = ((size_t)first_user_of_rank(t, r + 1) - first) * t->n_metrics * sizeof *t->values;
        RK_TRY(rk_all_to_all_copy_message(all_to_all, r, n_bytes, t->values + first * t->n_metrics));
    }
    return RK_OK;
}

static rk_status rank_users_over_ranks(ranking_task *t) {
    int32_t rank = rk_comm_rank(t->trainers);
    t->first = first_user_of_rank(t, rank);
    t->end = first_user_of_rank(t, rank + 1);
    RK_TRY(rk_comm_agree_on_status(
        t->trainers, rk_alloc((size_t)t->n_users * t->n_metrics, sizeof *t->values, &t->values)));
    RK_TRY(rank_local_users(t));
    return all_gather_values(t);
}

/* The mean over users that have something to find. */
static double mean_of_metric(const ranking_task *t, size_t metric) {
    double sum = 0;
    int64_t n = 0;
    for (int64_t u = 0; u < t->n_users; u++) {
        double value = t->values[(size_t)u * t->n_metrics + metric];
        if (isnan(value)) continue;
        sum += value;
        n++;
    }
    return n ? sum / (double)n : NAN;
}

static rk_status add_ranking_metric(ranking_task *t, int metric) {
    for (size_t i = 0; i < t->n_metrics; i++)
        if (t->metrics[i] == metric) return RK_OK;
    RK_FAIL_IF(t->n_metrics == MAX_METRICS, RK_CONFIG, "more than %d ranking metrics", MAX_METRICS);
    t->metrics[t->n_metrics] = metric;
    t->ks[t->n_metrics++] = rk_ranking_metric_k(metric);
    return RK_OK;
}

/* The run file's metrics, or the usual three, and those of early stopping and plateau. */
static rk_status choose_ranking_metrics(ranking_task *t, const rk_config *c, const rk_more_rankings *more) {
    static const char *const usual[] = {"recall@20", "ndcg@20", "hit@20"};
    for (int64_t i = 0; i < c->train.n_metrics; i++)
        RK_TRY(add_ranking_metric(t, rk_ranking_metric_find(c->train.metrics[i])));
    for (int i = 0; i < 3 && c->train.n_metrics == 0; i++)
        RK_TRY(add_ranking_metric(t, rk_ranking_metric_find(usual[i])));
    RK_TRY(add_ranking_metric(t, c->watched_metric));
    RK_TRY(add_ranking_metric(t, c->plateau_metric));
    t->n_shown = t->n_metrics;
    for (size_t i = 0; more && i < more->n; i++) RK_TRY(add_ranking_metric(t, more->metrics[i]));
    return RK_OK;
}

static rk_status add_shown_ranking_metrics(const ranking_task *t, rk_evaluation *e) {
    for (size_t m = 0; m < t->n_shown; m++) {
        char name[64];
        rk_ranking_metric_name(t->metrics[m], name, sizeof name);
        RK_TRY(rk_evaluation_add_shown_metric(e, name, mean_of_metric(t, m)));
    }
    return RK_OK;
}

static void store_requested_rankings(const ranking_task *t, const rk_more_rankings *more) {
    for (size_t i = 0; more && i < more->n; i++)
        for (size_t m = 0; m < t->n_metrics; m++)
            if (t->metrics[m] == more->metrics[i]) more->values[i] = mean_of_metric(t, m);
}

rk_status rk_load_known_interactions(rk_config *c, const char *split, rk_interactions **out) {
    rk_interactions *known;
    rk_pair_features features;
    const rk_transforms *transforms;
    *out = NULL;
    if (strcmp(split, "train") == 0) return RK_OK;
    RK_TRY(rk_config_load_interactions(c, &known));
    if (strcmp(split, "valid") == 0 || !c->has_valid) {
        *out = rk_interactions_ref(known);
        return RK_OK;
    }
    rk_dataset_options options = {
        .directory = c->directory, .split = "valid", .batch_size = 1 << 16, .seed = (uint64_t)c->data.seed};
    RK_AUTO(rk_dataset_auto_free) rk_dataset *dataset = NULL;
    RK_AUTO(rk_interactions_auto_unref) rk_interactions *valid = NULL;
    RK_TRY(rk_config_transforms(c, NULL, NULL, &transforms));
    RK_TRY(rk_config_pair_features(c, rk_transforms_schema(transforms), &features));
    RK_TRY(rk_dataset_create(&c->data, transforms, &options, &dataset));
    RK_TRY(rk_interactions_collect(dataset, features, &valid));
    return rk_interactions_merge(known, valid, out);
}

/* Both by the same numbers, of all items that either has. */
static rk_status renumber_jointly(rk_interactions **relevant, rk_interactions **masked) {
    RK_AUTO(rk_interactions_auto_unref) rk_interactions *all = NULL, *found = NULL, *left_out = NULL;
    if (!*masked || (!(*relevant)->user_keys && !(*relevant)->item_keys)) return RK_OK;
    RK_TRY(rk_interactions_merge(*relevant, *masked, &all));
    RK_TRY(rk_interactions_renumber(*relevant, all, &found));
    RK_TRY(rk_interactions_renumber(*masked, all, &left_out));
    rk_interactions *before[] = {*relevant, *masked};
    *relevant = found;
    *masked = left_out;
    found = before[0];
    left_out = before[1];
    return RK_OK;
}

rk_status rk_evaluate_rankings(rk_config *c, rk_model *model, rk_dataset *dataset, const char *split,
                               const rk_more_rankings *more, rk_evaluation *out) {
    RK_AUTO(rk_interactions_auto_unref) rk_interactions *relevant = NULL, *masked = NULL;
    RK_AUTO(rk_evaluation_release) rk_evaluation e = {.n_tasks = 1};
    rk_pair_features features;
    RK_AUTO(release_ranking_task)
    ranking_task t = {
        .dim = rk_model_vector_dim(model), .model = model, .trainers = rk_model_trainer_comm(model)};
    RK_TRY(choose_ranking_metrics(&t, c, more));
    RK_TRY(rk_config_pair_features(c, rk_dataset_schema(dataset), &features));
    RK_TRY(rk_interactions_collect(dataset, features, &relevant));
    RK_TRY(rk_load_known_interactions(c, split, &masked));
    RK_TRY(renumber_jointly(&relevant, &masked));
    t.relevant = relevant;
    t.masked = masked;
    t.n_items = relevant->n_items;
    e.n_rows = relevant->offsets[relevant->n_users];
    RK_TRY(list_users_and_items(&t));
    RK_TRY(compute_user_vectors(&t, dataset, features.user));
    RK_TRY(rank_users_over_ranks(&t));
    RK_TRY(add_shown_ranking_metrics(&t, &e));
    store_requested_rankings(&t, more);
    *out = e;
    e = (rk_evaluation){0};
    return RK_OK;
}
