/* Which items are recommended to whom; and a two_tower's items in memory, for requests. */
#include <string.h>

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "serve/recommend_internal.h"
#include "train/evaluate/evaluation_rankings.h"

/* Pairs of items that may be recommended, as places: ascending, as ids are. */
static rk_status exclude(rk_recommendable *r) {
    const rk_interactions *x = r->left_out;
    if (!x) return RK_OK;
    RK_TRY(rk_alloc((size_t)x->offsets[x->n_users], sizeof *r->excluded, &r->excluded));
    RK_TRY(rk_alloc((size_t)x->n_users + 1, sizeof *r->excluded_begins, &r->excluded_begins));
    for (int64_t user = 0, n = 0; user < x->n_users; r->excluded_begins[++user] = n)
        for (int64_t i = x->offsets[user]; i < x->offsets[user + 1]; i++)
            if (r->items.places[x->items[i]] >= 0) r->excluded[n++] = r->items.places[x->items[i]];
    return RK_OK;
}

rk_status rk_recommendable_make(const rk_predictor *p, const rk_recommend_options *o, rk_recommendable *r) {
    rk_config *c = p->config;
    bool is_read = !o->with_known || !o->items;
    rk_status status = is_read ? rk_config_interactions(c, &r->known) : RK_OK;
    if (status == RK_NOT_FOUND)
        return rk_error_hint(
            status,
            "the training data says which items there are and which of them users know; --items FILE "
            "with --with-known does without it");
    RK_TRY(status);
    RK_TRY(rk_item_choice_make(p, o, r->known, &r->items));
    if (!o->with_known) RK_TRY(rk_known_pairs(c, "test", &r->left_out));
    return exclude(r);
}

void rk_recommendable_release(rk_recommendable *r) {
    rk_interactions_free(r->left_out);
    rk_item_choice_release(&r->items);
    RK_FREE_ALL(r->excluded, r->excluded_begins);
    *r = (rk_recommendable){0};
}

const int64_t *rk_recommendable_known(const rk_recommendable *r, int64_t user, int64_t *n) {
    bool any = r->excluded && user >= 0;
    *n = any ? r->excluded_begins[user + 1] - r->excluded_begins[user] : 0;
    return any ? r->excluded + r->excluded_begins[user] : NULL;
}

struct rk_item_catalog {
    rk_recommendable from;
    rk_user_rows users;
    rk_item_index *index;
};

static rk_status fill(rk_item_catalog *c, const rk_predictor *p, const rk_recommend_options *o) {
    RK_AUTO(rk_item_reader_release) rk_item_reader reader = {0};
    RK_AUTOFREE float *vectors = NULL;
    RK_TRY(rk_recommendable_make(p, o, &c->from));
    rk_user_rows_init(p, c->from.known, &c->users);
    int64_t n = c->from.items.n;
    int32_t dim = rk_model_vector_dim(p->model);
    RK_TRY(rk_item_reader_init(p->model, &c->from.items, &reader));
    RK_TRY(rk_alloc((size_t)(n * dim), sizeof *vectors, &vectors));
    RK_TRY(rk_item_reader_rows(&reader, 0, n, vectors));
    return rk_item_index_create(vectors, n, dim, &c->index);
}

rk_status rk_item_catalog_create(rk_predictor *p, const rk_recommend_options *options,
                                 rk_item_catalog **out) {
    rk_recommend_options o = RK_RECOMMEND_OPTIONS_INIT;
    rk_item_catalog *c;
    rk_status status;
    RK_TRY(rk_recommend_take(&o, options));
    RK_TRY(rk_recommend_check_model(p));
    RK_FAIL_IF(p->comm, RK_UNSUPPORTED, "a catalog of items is one process's, not several ranks'");
    RK_TRY(rk_alloc(1, sizeof *c, &c));
    RK_ON_POOL(p->pool, status = fill(c, p, &o));
    if (status == RK_OK)
        *out = c;
    else
        rk_item_catalog_free(c);
    return status;
}

void rk_item_catalog_free(rk_item_catalog *c) {
    if (!c) return;
    rk_item_index_free(c->index);
    rk_recommendable_release(&c->from);
    rk_free(c);
}

int64_t rk_item_catalog_n_items(const rk_item_catalog *c) {
    return c->from.items.n;
}

const rk_item_index *rk_item_catalog_index(const rk_item_catalog *c) {
    return c->index;
}

const char *rk_item_catalog_user_column(const rk_item_catalog *c) {
    return rk_feature_column(&c->users.predictor->config->data.features[c->users.feature]);
}

const char *rk_item_catalog_item_column(const rk_item_catalog *c) {
    return rk_feature_column(&c->users.predictor->config->data.features[c->from.items.feature]);
}

const char *rk_item_catalog_name(const rk_item_catalog *c, int64_t item, char room[24], size_t *n_bytes) {
    _Static_assert(RK_I64_BYTES <= 24, "a number's room");
    rk_span name = rk_item_choice_name(&c->from.items, item, room);
    *n_bytes = name.n_bytes;
    return name.data;
}

int64_t rk_item_catalog_find(const rk_item_catalog *c, const char *name, size_t n_bytes) {
    const rk_item_choice *items = &c->from.items;
    int64_t id = rk_transforms_id_of(items->transforms, items->feature, (rk_span){name, n_bytes});
    return id < 0 ? -1 : items->places[id];
}

bool rk_item_catalog_knows_user(const rk_item_catalog *c, const char *name, size_t n_bytes,
                                const int64_t **items, int64_t *n) {
    rk_span user = {name, n_bytes};
    *items = rk_recommendable_known(&c->from, rk_user_rows_id(&c->users, user), n);
    return rk_user_rows_can_answer(&c->users, user);
}
