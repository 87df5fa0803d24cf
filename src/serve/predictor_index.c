/* A two_tower's items as an index, tuned on users as recommendations see them. */
#include <reckon/experimental/predictor_index.h>

#include "base/memory.h"
#include "base/struct_size.h"
#include "base/thread/parallel.h"
#include "comm/comm.h"
#include "serve/recommend_internal.h"
#include "train/evaluate/evaluation_rankings.h"

enum { MOST_USERS = 2000 };

typedef struct indexing {
    rk_predictor *predictor;
    const rk_predictor_index_options *options;
    rk_interactions *known; /* the config's */
    rk_interactions *left_out;
    rk_item_choice items;
    rk_user_rows users;
    int64_t dim;
    float *item_vectors; /* [items.n, dim] */
    /* of users, as queries */
    int64_t n;
    float *vectors; /* [n, dim] */
    size_t vectors_capacity;
    rk_user_bags excluded;
    rk_index *index;
} indexing;

static void release_indexing(indexing *g) {
    rk_interactions_unref(g->left_out);
    rk_item_choice_release(&g->items);
    rk_user_rows_release(&g->users);
    rk_user_bags_release(&g->excluded);
    RK_FREE_ALL(g->item_vectors, g->vectors);
    rk_index_free(g->index);
}

static rk_status choose_items(indexing *g) {
    rk_predictor *p = g->predictor;
    rk_recommend_options chosen = RK_RECOMMEND_OPTIONS_INIT;
    chosen.items = g->options->items;
    RK_TRY(rk_comm_agree_on_status(p->comm, rk_config_load_interactions(p->config, &g->known)));
    return rk_item_choice_make(p, &chosen, g->known, &g->items);
}

static rk_status choose_items_and_open_users(indexing *g) {
    const rk_predictor_index_options *o = g->options;
    RK_TRY(rk_item_choice_check_index(&g->items));
    if (!o->with_known) RK_TRY(rk_load_known_interactions(g->predictor->config, "test", &g->left_out));
    RK_TRY(rk_alloc((size_t)(g->items.n * g->dim), sizeof *g->item_vectors, &g->item_vectors));
    return rk_user_rows_open(g->predictor, o->users ? o->users : "train", g->known, &g->users);
}

static rk_status read_item_vectors(indexing *g) {
    RK_AUTO(rk_item_reader_release) rk_item_reader reader = {0};
    rk_status status = rk_item_reader_init(g->predictor->model, &g->items, &reader);
    RK_TRY(rk_comm_agree_on_status(g->predictor->comm, status));
    return rk_item_reader_read_vectors(&reader, 0, g->items.n, g->item_vectors);
}

static rk_status read_next_users(indexing *g, rk_batch_with_texts *batch) {
    RK_TRY(rk_user_rows_next(&g->users, batch));
    int64_t n = g->n + batch->batch->n;
    RK_TRY(rk_reserve(&g->vectors, &g->vectors_capacity, (size_t)(n * g->dim), sizeof *g->vectors));
    for (int64_t i = 0; i < batch->batch->n; i++)
        RK_TRY(rk_user_bags_add_user(&g->excluded, &g->users, g->left_out, batch->texts[i]));
    return RK_OK;
}

static rk_status read_user_vectors(indexing *g) {
    rk_batch_with_texts batch;
    while (g->n < MOST_USERS) {
        rk_status status = rk_comm_agree_on_status(g->predictor->comm, read_next_users(g, &batch));
        if (status == RK_END) break;
        RK_TRY(status);
        RK_TRY(rk_model_user_vectors(g->predictor->model, batch.batch, g->vectors + g->n * g->dim));
        g->n += batch.batch->n;
    }
    if (g->n > MOST_USERS) g->n = MOST_USERS;
    return RK_OK;
}

static rk_status build_and_measure_index(indexing *g, rk_index_recall *result) {
    const rk_predictor_index_options *o = g->options;
    rk_index_options layout = RK_INDEX_OPTIONS_INIT;
    const rk_ids excluded = {.offsets = g->excluded.begins, .ids = g->excluded.ids};
    RK_TRY(rk_options_copy_in(&layout, sizeof layout, o->index, RK_SIZE_WITH(rk_index_options, pool),
                              "rk_index_options"));
    if (!layout.pool) layout.pool = g->predictor->pool;
    RK_TRY(rk_index_build(g->item_vectors, g->items.ids, g->items.n, (int32_t)g->dim, &layout, &g->index));
    return rk_index_tune(g->index, g->vectors, g->n, o->k ? o->k : 100, o->recall > 0 ? o->recall : .95,
                         g->left_out ? &excluded : NULL, result);
}

static rk_status read_vectors_and_build_index(rk_predictor *p, const rk_predictor_index_options *o,
                                              rk_index **out, rk_index_recall *result) {
    RK_AUTO(release_indexing) indexing g = {.predictor = p, .options = o};
    RK_FAIL_IF(!rk_predictor_can_retrieve(p), RK_UNSUPPORTED,
               "only a two_tower has vectors of items to make an index of");
    g.dim = rk_model_vector_dim(p->model);
    RK_TRY(choose_items(&g));
    RK_TRY(rk_comm_agree_on_status(p->comm, choose_items_and_open_users(&g)));
    RK_TRY(read_item_vectors(&g));
    RK_TRY(read_user_vectors(&g));
    RK_TRY(rk_comm_agree_on_status(p->comm, build_and_measure_index(&g, result)));
    *out = g.index;
    g.index = NULL;
    return RK_OK;
}

rk_status rk_predictor_build_index(rk_predictor *p, const rk_predictor_index_options *options, rk_index **out,
                                   rk_index_recall *result) {
    rk_predictor_index_options o = RK_PREDICTOR_INDEX_OPTIONS_INIT;
    rk_status status;
    RK_TRY(rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_predictor_index_options, with_known),
                              "rk_predictor_index_options"));
    RK_ON_POOL(p->pool, status = read_vectors_and_build_index(p, &o, out, result));
    return status;
}
