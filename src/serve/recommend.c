/* The best items of each user of a two_tower, by looking at all of them: users go through the model in
 * batches, each rank ranks a part of a batch's users, and the first one writes what all have found. */
#include <string.h>

#include "base/memory.h"
#include "base/struct_size.h"
#include "base/thread/parallel.h"
#include "comm/comm.h"
#include "metrics/metrics.h"
#include "model/retrieval/item_scores.h"
#include "serve/recommend_internal.h"

typedef struct recommending {
    rk_predictor *predictor;
    const rk_recommend_options *options;
    rk_candidate_items from;
    rk_packed_matrix *matrix;  /* of all items, or */
    rk_index_ranking by_index; /* what finds them without */
    rk_user_bags bags;         /* of a batch's users: the ids of items that are not recommended */
    int64_t dim, k;
    rk_user_rows users;
    rk_ranked_output output;
    /* of a batch */
    const rk_batch_with_texts *batch;
    float *vectors;  /* [n, dim] */
    int64_t *places; /* [n, k]: of the best items, -1 behind them */
    float *scores;   /* [n, k] */
    size_t vectors_capacity, places_capacity, scores_capacity;
    rk_span *names; /* [k] */
    char *scratch;  /* [k, RK_I64_BYTES] */
} recommending;

static void release_recommending(recommending *r) {
    rk_candidate_items_release(&r->from);
    rk_packed_matrix_free(r->matrix);
    rk_index_ranking_release(&r->by_index);
    rk_user_rows_release(&r->users);
    rk_ranked_output_release(&r->output);
    rk_user_bags_release(&r->bags);
    RK_FREE_ALL(r->vectors, r->places, r->scores, r->names, r->scratch);
}

static rk_status pack_item_vectors(recommending *r) {
    RK_AUTO(rk_item_reader_release) rk_item_reader reader = {0};
    rk_status status = rk_item_reader_init(r->predictor->model, &r->from.items, &reader);
    RK_TRY(rk_comm_agree_on_status(r->predictor->comm, status));
    return rk_item_matrix_create(r->from.items.n, r->dim, rk_item_reader_read_vectors, &reader, &r->matrix);
}

static rk_status open_items_and_users(recommending *r) {
    const rk_recommend_options *o = r->options;
    int64_t k = o->k ? o->k : 100;
    RK_FAIL_IF(k < 0, RK_INVALID_ARGUMENT, "k must be 1 or more, not %lld", (long long)k);
    r->dim = rk_model_vector_dim(r->predictor->model);
    r->k = k < r->from.items.n ? k : r->from.items.n;
    RK_TRY(rk_alloc((size_t)r->k, sizeof *r->names, &r->names));
    RK_TRY(rk_alloc((size_t)r->k, RK_I64_BYTES, &r->scratch));
    RK_TRY(rk_user_rows_open(r->predictor, o->users ? o->users : "train", r->from.known, &r->users));
    if (!rk_predictor_is_first_rank(r->predictor)) return RK_OK;
    return rk_ranked_output_open(o->output, o->format, "user", "item", &r->output);
}

static rk_status rank_items_of_user(void *context, int64_t user, const float *scores) {
    const recommending *r = context;
    int64_t number = rk_user_rows_number(&r->users, r->from.left_out, r->batch->texts[user]), n_known, n,
            *places = r->places + user * r->k;
    const int64_t *known = rk_candidate_items_excluded_of_user(&r->from, number, &n_known);
    RK_TRY(rk_rank_top_k(scores, r->from.items.n, known, n_known, r->k, places, &n));
    for (int64_t i = 0; i < r->k; i++) {
        if (i >= n) places[i] = -1;
        r->scores[user * r->k + i] = i < n ? scores[places[i]] : 0;
    }
    return RK_OK;
}

/* What each rank has found to all: values of `bytes` a user. */
static rk_status all_gather_values(const recommending *r, void *values, size_t bytes) {
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    rk_comm *comm = r->predictor->comm;
    int32_t n_ranks = rk_comm_size(comm);
    int64_t n = r->batch->batch->n, first = rk_first_user_of_rank(n, rk_comm_rank(comm), n_ranks),
            end = rk_first_user_of_rank(n, rk_comm_rank(comm) + 1, n_ranks);
    RK_TRY(rk_comm_all_gather(comm, RK_CHANNEL_VALUES, (char *)values + (size_t)first * bytes,
                              (size_t)(end - first) * bytes, &all_to_all));
    for (int32_t rank = 0; rank < n_ranks; rank++) {
        first = rk_first_user_of_rank(n, rank, n_ranks);
        end = rk_first_user_of_rank(n, rank + 1, n_ranks);
        RK_TRY(rk_all_to_all_copy_message(all_to_all, rank, (size_t)(end - first) * bytes,
                                          (char *)values + (size_t)first * bytes));
    }
    return RK_OK;
}

static rk_status rank_batch_by_index(recommending *r, int64_t first, int64_t end) {
    r->bags.n = 0;
    for (int64_t user = first; r->from.left_out && user < end; user++)
        RK_TRY(rk_user_bags_add_user(&r->bags, &r->users, r->from.left_out, r->batch->texts[user]));
    const rk_ids bags = {.offsets = r->bags.begins, .ids = r->bags.ids};
    return rk_index_ranking_search(&r->by_index, &r->from.items, r->from.left_out ? &bags : NULL,
                                   r->vectors + first * r->dim, end - first, (int32_t)r->k,
                                   r->places + first * r->k, r->scores + first * r->k);
}

static rk_status rank_items_of_batch(recommending *r) {
    rk_comm *comm = r->predictor->comm;
    const int64_t n = r->batch->batch->n;
    const rk_item_scores scores = {r->matrix, r->from.items.n, r->dim, r->vectors, rank_items_of_user, r};
    int64_t first = rk_first_user_of_rank(n, rk_comm_rank(comm), rk_comm_size(comm)),
            end = rk_first_user_of_rank(n, rk_comm_rank(comm) + 1, rk_comm_size(comm));
    rk_status status =
        r->by_index.index ? rank_batch_by_index(r, first, end) : rk_score_items_of_users(&scores, first, end);
    RK_TRY(rk_comm_agree_on_status(comm, status));
    RK_TRY(all_gather_values(r, r->places, (size_t)r->k * sizeof *r->places));
    return all_gather_values(r, r->scores, (size_t)r->k * sizeof *r->scores);
}

static rk_status write_items_of_user(recommending *r, int64_t user) {
    rk_ranked ranked = {.name = r->batch->texts[user], .items = r->names, .scores = r->scores + user * r->k};
    for (; ranked.n < r->k && r->places[user * r->k + ranked.n] >= 0; ranked.n++)
        r->names[ranked.n] = rk_item_choice_name(&r->from.items, r->places[user * r->k + ranked.n],
                                                 r->scratch + ranked.n * RK_I64_BYTES);
    return rk_ranked_output_write(&r->output, &ranked);
}

static rk_status reserve_batch_of_users(recommending *r, int64_t n) {
    RK_TRY(rk_reserve(&r->vectors, &r->vectors_capacity, (size_t)(n * r->dim), sizeof *r->vectors));
    RK_TRY(rk_reserve(&r->places, &r->places_capacity, (size_t)(n * r->k), sizeof *r->places));
    return rk_reserve(&r->scores, &r->scores_capacity, (size_t)(n * r->k), sizeof *r->scores);
}

static rk_status read_next_users(recommending *r, rk_batch_with_texts *batch) {
    RK_TRY(rk_user_rows_next(&r->users, batch));
    return reserve_batch_of_users(r, batch->batch->n);
}

static rk_status write_recommendations(recommending *r) {
    for (int64_t i = 0; i < r->batch->batch->n; i++) RK_TRY(write_items_of_user(r, i));
    return RK_OK;
}

static rk_status recommend_to_all_users(recommending *r, int64_t *n_users) {
    rk_comm *comm = r->predictor->comm;
    rk_batch_with_texts batch;
    rk_status status;
    int64_t n = 0;
    r->batch = &batch;
    while ((status = rk_comm_agree_on_status(comm, read_next_users(r, &batch))) == RK_OK) {
        RK_TRY(rk_model_user_vectors(r->predictor->model, batch.batch, r->vectors));
        RK_TRY(rank_items_of_batch(r));
        RK_TRY(rk_comm_agree_on_status(comm, write_recommendations(r)));
        n += batch.batch->n;
    }
    if (status != RK_END) return status;
    RK_TRY(rk_comm_agree_on_status(comm, rk_ranked_output_commit(&r->output)));
    if (n_users) *n_users = n;
    return RK_OK;
}

rk_status rk_recommend_check_same_on_ranks(const rk_predictor *p, const rk_recommend_options *o) {
    rk_buffer text = {0};
    rk_buffer_printf(&text, "%s, %s without %s, %d of them%s by %s", o->users ? o->users : "train",
                     o->items ? o->items : "all items", o->without_items ? o->without_items : "none",
                     (int)o->k, o->with_known ? ", known ones too" : "", o->index ? o->index : "no index");
    rk_status status = text.status == RK_OK ? rk_predictor_check_same_on_ranks(p, text.data) : text.status;
    rk_buffer_release(&text);
    return status;
}

rk_status rk_recommend_check_model(const rk_predictor *p) {
    if (rk_predictor_can_retrieve(p)) return RK_OK;
    return rk_error_hint(rk_error(RK_UNSUPPORTED,
                                  "the model scores rows that it is given, and only a "
                                  "two_tower finds items for users by itself"),
                         "give it the rows to rank, a candidate a row: 'reckon recommend --candidates'");
}

static rk_status recommend_items(rk_predictor *p, const rk_recommend_options *o, int64_t *n_users) {
    RK_AUTO(release_recommending) recommending r = {.predictor = p, .options = o};
    RK_TRY(rk_recommend_check_model(p));
    RK_TRY(rk_recommend_check_same_on_ranks(p, o));
    RK_TRY(rk_candidate_items_create(p, o, &r.from));
    RK_TRY(rk_comm_agree_on_status(p->comm, open_items_and_users(&r)));
    if (o->index)
        RK_TRY(rk_comm_agree_on_status(
            p->comm, rk_index_ranking_open(o->index, p->model, &r.from.items, &r.by_index)));
    else
        RK_TRY(pack_item_vectors(&r));
    RK_TRY(recommend_to_all_users(&r, n_users));
    if (o->index_recall) *o->index_recall = rk_index_ranking_recall(&r.by_index);
    return RK_OK;
}

rk_status rk_recommend_options_copy_in(rk_recommend_options *out, const rk_recommend_options *options) {
    return rk_options_copy_in(out, sizeof *out, options, RK_SIZE_WITH(rk_recommend_options, output),
                              "rk_recommend_options");
}

rk_status rk_predictor_recommend(rk_predictor *p, const rk_recommend_options *options, int64_t *n_users) {
    rk_recommend_options o = RK_RECOMMEND_OPTIONS_INIT;
    RK_TRY(rk_recommend_options_copy_in(&o, options));
    rk_status status;
    RK_ON_POOL(p->pool, status = recommend_items(p, &o, n_users));
    return status;
}
