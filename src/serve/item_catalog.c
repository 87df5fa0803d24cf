/* Which items are recommended to whom; and a two_tower's items in memory, for requests. */
#include <string.h>

#include "base/memory.h"
#include "base/struct_size.h"
#include "base/thread/parallel.h"
#include "batch/ids.h"
#include "comm/comm.h"
#include "serve/recommend_internal.h"
#include "serve/session_internal.h"
#include "train/evaluate/evaluation_rankings.h"

/* Pairs of items that may be recommended, as places: ascending, as ids are. */
static rk_status collect_excluded_pairs(rk_candidate_items *r) {
    const rk_interactions *x = r->left_out;
    RK_AUTOFREE int64_t *places = NULL; /* [n_items], or -1 */
    if (!x) return RK_OK;
    RK_TRY(rk_alloc((size_t)x->n_items, sizeof *places, &places));
    RK_TRY(rk_alloc((size_t)x->offsets[x->n_users], sizeof *r->excluded, &r->excluded));
    RK_TRY(rk_alloc((size_t)x->n_users + 1, sizeof *r->excluded_begins, &r->excluded_begins));
    for (int64_t item = 0; item < x->n_items; item++)
        places[item] = rk_item_choice_place(&r->items, rk_interactions_item_id(x, item));
    for (int64_t user = 0, n = 0; user < x->n_users; r->excluded_begins[++user] = n)
        for (int64_t i = x->offsets[user]; i < x->offsets[user + 1]; i++)
            if (places[x->items[i]] >= 0) r->excluded[n++] = places[x->items[i]];
    return RK_OK;
}

/* The training data's pairs, where they are needed. */
static rk_status read_known_pairs(const rk_predictor *p, const rk_recommend_options *o,
                                  rk_candidate_items *r) {
    bool is_read = !o->with_known || !o->items;
    rk_status status = is_read ? rk_config_load_interactions(p->config, &r->known) : RK_OK;
    return status != RK_NOT_FOUND
               ? status
               : rk_error_hint(status,
                               "the training data says which items there are and which of them users know; "
                               "--items FILE with --with-known does without it");
}

static rk_status leave_out_known(const rk_predictor *p, const rk_recommend_options *o,
                                 rk_candidate_items *r) {
    if (!o->with_known) RK_TRY(rk_load_known_interactions(p->config, "test", &r->left_out));
    return collect_excluded_pairs(r);
}

rk_status rk_candidate_items_create(const rk_predictor *p, const rk_recommend_options *o,
                                    rk_candidate_items *r) {
    RK_TRY(rk_comm_agree_on_status(p->comm, read_known_pairs(p, o, r)));
    RK_TRY(rk_item_choice_make(p, o, r->known, &r->items));
    return rk_comm_agree_on_status(p->comm, leave_out_known(p, o, r));
}

void rk_candidate_items_release(rk_candidate_items *r) {
    rk_interactions_unref(r->left_out);
    rk_item_choice_release(&r->items);
    RK_FREE_ALL(r->excluded, r->excluded_begins);
    *r = (rk_candidate_items){0};
}

const int64_t *rk_candidate_items_excluded_of_user(const rk_candidate_items *r, int64_t user, int64_t *n) {
    bool any = r->excluded && user >= 0;
    *n = any ? r->excluded_begins[user + 1] - r->excluded_begins[user] : 0;
    return any ? r->excluded + r->excluded_begins[user] : NULL;
}

struct rk_item_catalog {
    rk_candidate_items from;
    rk_user_rows users;
    int32_t dim;
    rk_item_index *index;      /* the vectors, all of which are looked at, or */
    rk_index_ranking by_index; /* a file that finds the best of them */
};

static rk_status read_item_vectors(rk_item_catalog *c, const rk_predictor *p) {
    RK_AUTO(rk_item_reader_release) rk_item_reader reader = {0};
    RK_AUTOFREE float *vectors = NULL;
    int64_t n = c->from.items.n;
    RK_TRY(rk_item_reader_init(p->model, &c->from.items, &reader));
    RK_TRY(rk_alloc((size_t)(n * c->dim), sizeof *vectors, &vectors));
    RK_TRY(rk_item_reader_read_vectors(&reader, 0, n, vectors));
    return rk_item_index_create(vectors, n, c->dim, &c->index);
}

static rk_status load_catalog(rk_item_catalog *c, const rk_predictor *p, const rk_recommend_options *o) {
    RK_TRY(rk_candidate_items_create(p, o, &c->from));
    rk_user_rows_init(p, c->from.known, &c->users);
    c->dim = rk_model_vector_dim(p->model);
    return o->index ? rk_index_ranking_open(o->index, p->model, &c->from.items, &c->by_index)
                    : read_item_vectors(c, p);
}

rk_status rk_item_catalog_create(rk_predictor *p, const rk_recommend_options *options,
                                 rk_item_catalog **out) {
    rk_recommend_options o = RK_RECOMMEND_OPTIONS_INIT;
    rk_item_catalog *c;
    rk_status status;
    RK_TRY(rk_recommend_options_copy_in(&o, options));
    RK_TRY(rk_recommend_check_model(p));
    RK_FAIL_IF(rk_comm_size(p->comm) > 1, RK_UNSUPPORTED,
               "a catalog of items is one process's, not several ranks'");
    RK_TRY(rk_alloc(1, sizeof *c, &c));
    RK_ON_POOL(p->pool, status = load_catalog(c, p, &o));
    if (status == RK_OK)
        *out = c;
    else
        rk_item_catalog_free(c);
    return status;
}

void rk_item_catalog_free(rk_item_catalog *c) {
    if (!c) return;
    rk_item_index_free(c->index);
    rk_index_ranking_release(&c->by_index);
    rk_candidate_items_release(&c->from);
    rk_free(c);
}

int64_t rk_item_catalog_n_items(const rk_item_catalog *c) {
    return c->from.items.n;
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
    int64_t id;
    bool known = rk_transforms_id_of_value(items->transforms, items->feature, (rk_span){name, n_bytes}, &id);
    return known ? rk_item_choice_place(items, id) : -1;
}

bool rk_item_catalog_knows_user(const rk_item_catalog *c, const char *name, size_t n_bytes,
                                const int64_t **items, int64_t *n) {
    rk_span user = {name, n_bytes};
    *items = rk_candidate_items_excluded_of_user(&c->from,
                                                 rk_user_rows_number(&c->users, c->from.left_out, user), n);
    return rk_user_rows_is_answerable(&c->users, user);
}

/* Ascending, and all of the catalog. */
static rk_status check_item_list(const rk_item_catalog *c, const char *what, const int64_t *items,
                                 int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        RK_FAIL_IF(items[i] < 0 || items[i] >= c->from.items.n, RK_INVALID_ARGUMENT,
                   "the %s items have %lld, and the catalog has %lld", what, (long long)items[i],
                   (long long)c->from.items.n);
        RK_FAIL_IF(i && items[i] <= items[i - 1], RK_INVALID_ARGUMENT,
                   "the %s items are not in ascending order at item %lld", what, (long long)items[i]);
    }
    return RK_OK;
}

static rk_status check_only_and_excluded(const rk_item_catalog *c, const rk_item_search *o, int64_t n_users) {
    RK_TRY(check_item_list(c, "only", o->only, o->only ? o->n_only : 0));
    for (int64_t user = 0; o->excluded && user < n_users; user++) {
        int64_t begin = rk_ids_begin_of_sample(o->excluded, user),
                n = rk_ids_begin_of_sample(o->excluded, user + 1) - begin;
        rk_status status = n ? check_item_list(c, "excluded", o->excluded->ids + begin, n) : RK_OK;
        if (status != RK_OK) return rk_error_context(status, "row %lld", (long long)user);
    }
    return RK_OK;
}

static const int64_t *copy_item_ids(const rk_item_choice *items, const int64_t *places, int64_t n,
                                    int64_t *ids) {
    for (int64_t i = 0; i < n; i++) ids[i] = items->ids[places[i]];
    return ids;
}

/* The index has ids, which ascend as items do. */
static rk_status search_index(const rk_item_catalog *c, rk_session *s, const rk_item_search *o,
                              int64_t n_users) {
    const rk_item_choice *items = &c->from.items;
    const int64_t n_found = n_users * o->k, n_only = o->only ? o->n_only : 0,
                  n_excluded = o->excluded ? rk_ids_begin_of_sample(o->excluded, n_users) : 0;
    rk_index_search_options options = RK_INDEX_SEARCH_OPTIONS_INIT;
    RK_TRY(rk_reserve(&s->found, &s->found_capacity, (size_t)n_found, sizeof *s->found));
    RK_TRY(rk_reserve(&s->ids, &s->ids_capacity, (size_t)n_found, sizeof *s->ids));
    RK_TRY(rk_reserve(&s->scores, &s->scores_capacity, (size_t)n_found, sizeof *s->scores));
    RK_TRY(rk_reserve(&s->bags, &s->bags_capacity, (size_t)(n_only + n_excluded) + 1, sizeof *s->bags));
    rk_ids excluded = o->excluded ? *o->excluded : (rk_ids){0};
    if (o->excluded) {
        excluded.ids = copy_item_ids(items, o->excluded->ids, n_excluded, s->bags);
        options.excluded = &excluded;
    }
    options.ids = o->only ? copy_item_ids(items, o->only, n_only, s->bags + n_excluded) : items->ids;
    options.n_ids = o->only ? n_only : items->n;
    const rk_index_search_call call = {.index = c->by_index.index,
                                       .options = &options,
                                       .queries = s->users,
                                       .n = n_users,
                                       .k = o->k,
                                       .ids = s->ids,
                                       .scores = s->scores};
    RK_TRY(rk_index_ranking_search_vectors(&c->by_index, &call));
    for (int64_t i = 0; i < n_found; i++)
        s->found[i] = (rk_found_item){s->ids[i] < 0 ? -1 : rk_item_choice_place_of_index(items, s->ids[i]),
                                      s->scores[i]};
    return RK_OK;
}

static rk_status retrieve_items(const rk_item_catalog *c, rk_session *s, const struct ArrowSchema *schema,
                                const struct ArrowArray *columns, const rk_item_search *o) {
    int64_t n;
    RK_TRY(rk_session_check_search(s, c->dim, c->from.items.n, o->k));
    RK_TRY(rk_session_compute_user_vectors(s, schema, columns, &n));
    RK_TRY(check_only_and_excluded(c, o, n));
    if (c->by_index.index) return search_index(c, s, o, n);
    const rk_exact_search exact = {c->index, o->excluded, o->only, o->n_only, o->k};
    return rk_session_search_exact(s, &exact, n);
}

rk_status rk_item_catalog_retrieve(const rk_item_catalog *c, rk_session *s, const struct ArrowSchema *schema,
                                   const struct ArrowArray *columns, const rk_item_search *search,
                                   int64_t *items, float *scores) {
    rk_item_search o = RK_ITEM_SEARCH_INIT;
    RK_TRY(rk_options_copy_in(&o, sizeof o, search, RK_SIZE_WITH(rk_item_search, n_only), "rk_item_search"));
    RK_FAIL_IF(o.k < 1, RK_INVALID_ARGUMENT, "k must be 1 or more, not %d", o.k);
    rk_threads_before before = rk_session_begin_call(s);
    RK_TRY(rk_session_end_call(before, retrieve_items(c, s, schema, columns, &o)));
    rk_session_copy_results(s, columns->length * o.k, items, scores);
    return RK_OK;
}
