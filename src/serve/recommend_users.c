/* Users to be answered. */
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "serve/recommend_internal.h"

static bool find_id(const rk_user_rows *u, rk_span name, int64_t *id) {
    return rk_transforms_id_of_value(u->predictor->config->transforms, u->feature, name, id);
}

int64_t rk_user_rows_number(const rk_user_rows *u, const rk_interactions *pairs, rk_span name) {
    int64_t id;
    return pairs && find_id(u, name, &id) ? rk_interactions_user(pairs, id) : -1;
}

static bool is_known_user(const rk_user_rows *u, rk_span name) {
    int64_t id;
    if (!u->known) return find_id(u, name, &id);
    int64_t number = rk_user_rows_number(u, u->known, name);
    return number >= 0 && u->known->offsets[number + 1] > u->known->offsets[number];
}

bool rk_user_rows_is_answerable(const rk_user_rows *u, rk_span name) {
    const rk_config *c = u->predictor->config;
    const rk_data_feature *f = &c->data.features[u->feature];
    bool needs_id =
        u->is_only_name || (c->model.retrieval.history && f->vocabulary.line && !f->vocabulary.oov);
    return !needs_id || is_known_user(u, name);
}

static rk_status is_answerable_user(void *context, rk_span name, bool *wanted) {
    rk_user_rows *u = context;
    u->n_users++;
    *wanted = rk_user_rows_is_answerable(u, name);
    return *wanted ? RK_OK : rk_unknown_values_add(&u->unknown, name);
}

static bool user_tower_reads_only_id(const rk_config *c) {
    const rk_retrieval_section *s = &c->model.retrieval;
    for (int64_t i = 0; i < s->n_user_tower; i++)
        if (strcmp(s->user_tower[i], s->user) != 0 && strcmp(s->user_tower[i], "history") != 0) return false;
    for (int64_t f = 0; f < c->data.n_features; f++) {
        const rk_data_feature *feature = &c->data.features[f];
        bool is_pair = strcmp(feature->name, s->user) == 0 || strcmp(feature->name, s->item) == 0;
        if (feature->dense || (!is_pair && !s->n_user_tower)) return false;
    }
    return true;
}

void rk_user_rows_init(const rk_predictor *p, const rk_interactions *known, rk_user_rows *out) {
    *out = (rk_user_rows){
        .predictor = p,
        .known = known,
        .feature = rk_transforms_find_feature(p->config->transforms, p->config->model.retrieval.user),
        .is_only_name = user_tower_reads_only_id(p->config)};
}

rk_status rk_user_rows_open(const rk_predictor *p, const char *split, const rk_interactions *known,
                            rk_user_rows *out) {
    const rk_config *c = p->config;
    const char *columns[2];
    rk_user_rows_init(p, known, out);
    out->split = split;
    int64_t features[] = {out->feature, rk_transforms_find_feature(c->transforms, c->model.retrieval.item)};
    for (int i = 0; i < 2; i++) columns[i] = rk_feature_column(&c->data.features[features[i]]);
    const rk_rows_with_texts_options options = {.directory = c->directory,
                                                .split = split,
                                                .batch_size = rk_predictor_batch_size(p),
                                                .columns = columns,
                                                .n_columns = 1,
                                                .may_miss = columns[1],
                                                .once = true,
                                                .choose = is_answerable_user,
                                                .context = out};
    return rk_rows_with_texts_open(&c->data, c->transforms, &options, &out->rows);
}

static rk_status log_unknown_users(rk_user_rows *u) {
    long long n = (long long)u->unknown.n, n_users = (long long)u->n_users;
    if (n == 0) return RK_OK;
    const char *names = rk_unknown_values_text(&u->unknown);
    RK_FAIL_IF(
        n == n_users, RK_BAD_DATA,
        "'%s': none of the %lld users is in the training data: %s\nhint: users are named as the column "
        "'%s' of the run's data names them",
        u->split, n_users, names, u->predictor->config->data.features[u->feature].name);
    if (rk_predictor_is_first_rank(u->predictor))
        rk_log(RK_LOG_WARNING, "'%s': %lld of %lld users are not in the training data and are left out: %s",
               u->split, n, n_users, names);
    return RK_OK;
}

rk_status rk_user_rows_next(rk_user_rows *u, rk_batch_with_texts *out) {
    rk_status status = rk_rows_with_texts_next(u->rows, out);
    if (status == RK_END) RK_TRY(log_unknown_users(u));
    return status;
}

void rk_user_rows_release(rk_user_rows *u) {
    rk_rows_with_texts_free(u->rows);
    rk_unknown_values_release(&u->unknown);
    *u = (rk_user_rows){0};
}

rk_status rk_user_bags_add_user(rk_user_bags *bags, const rk_user_rows *users, const rk_interactions *pairs,
                                rk_span name) {
    int64_t user = rk_user_rows_number(users, pairs, name), at = bags->n ? bags->begins[bags->n] : 0, n = 0;
    const int64_t *of_user = user >= 0 ? pairs->offsets + user : NULL;
    if (of_user) n = of_user[1] - of_user[0];
    RK_TRY(rk_reserve(&bags->begins, &bags->begins_capacity, (size_t)bags->n + 2, sizeof *bags->begins));
    RK_TRY(rk_reserve(&bags->ids, &bags->ids_capacity, (size_t)(at + n), sizeof *bags->ids));
    for (int64_t i = 0; i < n; i++) /* of a key its low 63 bits */
        bags->ids[at + i] = rk_interactions_item_id(pairs, pairs->items[of_user[0] + i]) & INT64_MAX;
    bags->begins[0] = 0;
    bags->begins[++bags->n] = at + n;
    return RK_OK;
}

void rk_user_bags_release(rk_user_bags *bags) {
    RK_FREE_ALL(bags->begins, bags->ids);
    *bags = (rk_user_bags){0};
}
