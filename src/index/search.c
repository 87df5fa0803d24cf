/* Searches: products of codes choose candidates, whose vectors are then scored in f32. */
#include <math.h>
#include <string.h>

#include "base/thread/parallel_failure.h"
#include "base/memory.h"
#include "base/integers.h"
#include "base/thread/parallel.h"
#include "batch/ids.h"
#include "index/id_set.h"
#include "index/index_internal.h"
#include "base/select_top_k.h"

/* Queries of a task, which read the same vectors one after the other; vectors that are in the caches
 * meanwhile. */
enum { QUERIES = 8, BLOCK = 256, AHEAD = 12 };

/* The best candidates of one query so far. */
typedef struct selection {
    const rk_index_search_call *call;
    int64_t query;
    uint64_t *found; /* [capacity] candidates */
    size_t n, capacity, k;
    int32_t window; /* keys so far below the k-th may still be among the best */
    int32_t least;  /* what a key must be at least to come in */
} selection;

/* The memory of a task. */
typedef struct scratch {
    const rk_index_search_call *call;
    selection of_codes[QUERIES], of_added[QUERIES];
    int16_t *query_codes; /* [QUERIES, dim] */
    float *products;      /* [BLOCK, or n_lists if more] */
    int32_t *keys, *hits; /* [BLOCK] */
    uint64_t *lists;      /* [n_lists] candidates */
    rk_index_answer *ranked;
    size_t ranked_capacity;
} scratch;

static bool is_position_wanted(const rk_index_search_call *call, int64_t query, int64_t position) {
    const rk_index_search_options *o = call->options;
    if (rk_index_is_removed(call->index, position)) return false;
    if (!o->ids && !o->bits && !o->excluded) return true;
    int64_t id = rk_index_id(call->index, position);
    if (o->excluded) {
        int64_t first = rk_ids_begin_of_sample(o->excluded, query),
                end = rk_ids_begin_of_sample(o->excluded, query + 1);
        if (rk_sorted_contains(o->excluded->ids + first, end - first, id)) return false;
    }
    if (o->ids) return rk_sorted_contains(o->ids, o->n_ids, id) != o->deny;
    if (o->bits) return (id < o->n_bits && (o->bits[id / 64] >> (id % 64) & 1)) != o->deny;
    return true;
}

/* Drop who cannot be among the k best. */
static void prune_candidates(selection *s) {
    if (s->k == 0 || s->n < s->k) return;
    rk_select_top_k(s->found, s->n, s->k);
    int64_t kth = rk_candidate_key(s->found[s->k - 1]);
    s->least = kth - s->window < INT32_MIN ? INT32_MIN : (int32_t)(kth - s->window);
    size_t n = s->k;
    const uint64_t least = rk_candidate_from_key_and_place(s->least, UINT32_MAX);
    for (size_t i = s->k; i < s->n; i++) {
        s->found[n] = s->found[i];
        n += s->found[i] >= least;
    }
    s->n = n;
}

static rk_status add_candidates(selection *s, const int32_t *keys, const int32_t *hits, int64_t n,
                                int64_t position) {
    for (int64_t i = 0; i < n; i++) {
        int32_t key = keys[hits[i]];
        if (key < s->least || !is_position_wanted(s->call, s->query, position + hits[i])) continue;
        if (s->n == s->capacity) {
            prune_candidates(s);
            if (s->n > s->capacity / 2)
                RK_TRY(rk_reserve(&s->found, &s->capacity, 2 * s->capacity, sizeof *s->found));
            if (key < s->least) continue;
        }
        s->found[s->n++] = rk_candidate_from_key_and_place(key, (uint32_t)(position + hits[i]));
    }
    return RK_OK;
}

/* Vectors from `position` on, n of them, none of which were added; a BLOCK at most. */
static rk_status scan_vector_block(scratch *t, int q, int64_t list, int64_t position, int64_t n) {
    const rk_index *x = t->call->index;
    const rk_index_base *b = &x->base;
    selection *s = &t->of_codes[q];
    int64_t n_hits;
    if (b->codes) {
        const uint8_t *codes =
            b->codes + b->offsets[list] * b->code_stride + (position - b->offsets[list]) * x->dim;
        rk_code_products(codes, n, x->dim, t->query_codes + (int64_t)q * x->dim, t->keys);
    } else {
        rk_row_products(b->vectors + position * x->dim, n, x->dim, t->call->queries + s->query * x->dim,
                        t->products);
        rk_floats_to_ordered_keys(t->products, n, t->keys);
    }
    rk_find_keys_above(t->keys, n, s->least, t->hits, &n_hits);
    return add_candidates(s, t->keys, t->hits, n_hits, position);
}

static rk_status scan_list(scratch *t, int first_query, int n_queries, int64_t list) {
    const rk_index_base *b = &t->call->index->base;
    int64_t end = b->offsets[list + 1];
    for (int64_t p = b->offsets[list]; p < end; p += BLOCK)
        for (int q = first_query; q < first_query + n_queries; q++)
            RK_TRY(scan_vector_block(t, q, list, p, end - p < BLOCK ? end - p : BLOCK));
    return RK_OK;
}

static rk_status scan_added_vectors(scratch *t, int n_queries) {
    const rk_index *x = t->call->index;
    int64_t n_hits;
    for (int64_t p = 0; p < x->n_added; p += BLOCK)
        for (int q = 0; q < n_queries; q++) {
            selection *s = &t->of_added[q];
            int64_t n = x->n_added - p < BLOCK ? x->n_added - p : BLOCK;
            rk_row_products((const rk_loose_f32 *)x->added + p * x->dim, n, x->dim,
                            t->call->queries + s->query * x->dim, t->products);
            rk_floats_to_ordered_keys(t->products, n, t->keys);
            rk_find_keys_above(t->keys, n, s->least, t->hits, &n_hits);
            RK_TRY(add_candidates(s, t->keys, t->hits, n_hits, x->base.n + p));
        }
    return RK_OK;
}

void rk_index_score_lists(const rk_index *x, const float *query, float *scores, uint64_t *lists) {
    int32_t keys[BLOCK];
    rk_row_products(x->base.centroids, x->base.n_lists, x->dim, query, scores);
    for (int64_t first = 0; first < x->base.n_lists; first += BLOCK) {
        int64_t n = x->base.n_lists - first < BLOCK ? x->base.n_lists - first : BLOCK;
        rk_floats_to_ordered_keys(scores + first, n, keys);
        for (int64_t l = 0; l < n; l++)
            lists[first + l] = rk_candidate_from_key_and_place(keys[l], (uint32_t)(first + l));
    }
}

/* What a processor does not foresee: where the next list begins. */
static void prefetch_list(const rk_index *x, int64_t list) {
    enum { FORESEEN = 2048, CACHE_LINE = 64 };
    const rk_index_base *b = &x->base;
    const uint8_t *codes = b->codes + b->offsets[list] * b->code_stride;
    int64_t n_bytes = (b->offsets[list + 1] - b->offsets[list]) * x->dim;
    for (int64_t at = 0; at < n_bytes && at < FORESEEN; at += CACHE_LINE) __builtin_prefetch(codes + at);
}

/* The lists that score best, and then more as long as there are too few candidates. */
static rk_status scan_best_lists(scratch *t, int q, int64_t n_probe) {
    const rk_index *x = t->call->index;
    selection *s = &t->of_codes[q];
    int64_t done = 0, some = n_probe;
    rk_index_score_lists(x, t->call->queries + s->query * x->dim, t->products, t->lists);
    while (done < x->base.n_lists && (done == 0 || s->n + t->of_added[q].n < s->k)) {
        if (some > x->base.n_lists - done) some = x->base.n_lists - done;
        rk_select_top_k(t->lists + done, (size_t)(x->base.n_lists - done), (size_t)some);
        for (int64_t i = done; i < done + some; i++) {
            if (i + 1 < done + some) prefetch_list(x, rk_candidate_place(t->lists[i + 1]));
            RK_TRY(scan_list(t, q, 1, rk_candidate_place(t->lists[i])));
        }
        done += some;
        some = done;
    }
    return RK_OK;
}

static void score_candidates(scratch *t, const selection *s, size_t first) {
    const rk_index *x = t->call->index;
    const float *query = t->call->queries + s->query * x->dim;
    for (size_t i = 0; i < s->n; i++) {
        int64_t position = rk_candidate_place(s->found[i]);
        if (i + AHEAD < s->n) {
            const char *next = (const char *)rk_index_vector(x, rk_candidate_place(s->found[i + AHEAD]));
            for (int32_t b = 0; b < x->dim * 4; b += 64) __builtin_prefetch(next + b);
        }
        rk_index_answer *a = &t->ranked[first + i];
        rk_row_products(rk_index_vector(x, position), 1, x->dim, query, &a->score);
        a->id = rk_index_id(x, position);
        a->position = (uint32_t)position;
    }
}

static rk_status rank_candidates(scratch *t, int q) {
    const rk_index_search_call *call = t->call;
    selection *a = &t->of_codes[q], *b = &t->of_added[q];
    prune_candidates(a);
    prune_candidates(b);
    size_t n = a->n + b->n, k = n < (size_t)call->k ? n : (size_t)call->k;
    RK_TRY(rk_reserve(&t->ranked, &t->ranked_capacity, n, sizeof *t->ranked));
    score_candidates(t, a, 0);
    score_candidates(t, b, a->n);
    rk_index_sort_top_k_answers(t->ranked, n, k);
    for (size_t i = 0; i < (size_t)call->k; i++) {
        size_t at = (size_t)(a->query * call->k) + i;
        call->ids[at] = i < k ? t->ranked[i].id : -1;
        call->scores[at] = i < k ? t->ranked[i].score : -INFINITY;
        if (call->positions) call->positions[at] = i < k ? (int64_t)t->ranked[i].position : -1;
    }
    return RK_OK;
}

static rk_status init_candidate_selection(selection *s, const rk_index_search_call *call, int64_t query,
                                          size_t n, int32_t window) {
    enum { SPARE = 64 };
    size_t k = (size_t)call->k < n ? (size_t)call->k : n;
    s->call = call;
    s->query = query;
    s->n = 0;
    s->k = k;
    s->window = window;
    s->least = INT32_MIN;
    return rk_reserve(&s->found, &s->capacity, 4 * k + SPARE, sizeof *s->found);
}

static rk_status search_query_group(scratch *t, int64_t first, int n_queries) {
    const rk_index_search_call *call = t->call;
    const rk_index *x = call->index;
    int64_t n_probe = call->options->n_probe ? call->options->n_probe : x->n_probe;
    for (int q = 0; q < n_queries; q++) {
        int32_t window = 0;
        if (x->base.codes)
            window = rk_index_quantize_query(&x->base, x->dim, call->queries + (first + q) * x->dim,
                                             t->query_codes + (int64_t)q * x->dim);
        RK_TRY(init_candidate_selection(&t->of_codes[q], call, first + q, (size_t)(x->base.n + x->n_added),
                                        window));
        RK_TRY(init_candidate_selection(&t->of_added[q], call, first + q, (size_t)x->n_added, 0));
    }
    RK_TRY(scan_added_vectors(t, n_queries));
    for (int64_t l = 0; n_probe >= x->base.n_lists && l < x->base.n_lists; l++)
        RK_TRY(scan_list(t, 0, n_queries, l));
    for (int q = 0; n_probe < x->base.n_lists && q < n_queries; q++) RK_TRY(scan_best_lists(t, q, n_probe));
    for (int q = 0; q < n_queries; q++) RK_TRY(rank_candidates(t, q));
    return RK_OK;
}

static void scratch_release(scratch *t) {
    for (int q = 0; q < QUERIES; q++) {
        rk_free(t->of_codes[q].found);
        rk_free(t->of_added[q].found);
    }
    RK_FREE_ALL(t->query_codes, t->products, t->keys, t->hits, t->lists, t->ranked);
}

static rk_status scratch_init(scratch *t, int n_queries) {
    const rk_index *x = t->call->index;
    size_t n_products = x->base.n_lists > BLOCK ? (size_t)x->base.n_lists : (size_t)BLOCK;
    return RK_ALLOC_ALL(RK_ARRAY((size_t)n_queries * (size_t)x->dim, t->query_codes),
                        RK_ARRAY(n_products, t->products), RK_ARRAY(BLOCK, t->keys), RK_ARRAY(BLOCK, t->hits),
                        RK_ARRAY((size_t)x->base.n_lists, t->lists));
}

typedef struct searching {
    const rk_index_search_call *call;
    rk_parallel_failure failure;
} searching;

static void run_search_task(void *context, size_t task, int thread) {
    (void)thread;
    searching *g = context;
    int64_t first = (int64_t)task * QUERIES, left = g->call->n - first;
    int n = left < QUERIES ? (int)left : QUERIES;
    scratch t = {.call = g->call};
    rk_status status = scratch_init(&t, n);
    if (status == RK_OK) status = search_query_group(&t, first, n);
    scratch_release(&t);
    rk_parallel_failure_record(&g->failure, first, status);
}

rk_status rk_index_search_all_queries(const rk_index_search_call *call) {
    searching g = {.call = call, .failure = RK_FAILURE_INIT};
    rk_parallel_for(rk_block_count((size_t)call->n, QUERIES), run_search_task, &g);
    return rk_parallel_failure_status(&g.failure);
}
