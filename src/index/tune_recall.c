/* How many lists a search must look at, from where queries' true best lie. */
#include <string.h>

#include "base/memory.h"
#include "base/integers.h"
#include "base/struct_size.h"
#include "base/thread/clock.h"
#include "base/thread/parallel.h"
#include "batch/ids.h"
#include "index/id_set.h"
#include "index/index_internal.h"

typedef struct queries {
    const float *vectors; /* [n, dim] */
    int64_t n;
    int32_t k;
    const rk_ids *excluded;
} queries;

/* Half of the queries, one behind the other, and the k best of all vectors for each. */
typedef struct half {
    int64_t n;
    float *queries;                          /* [n, dim] */
    int64_t *ids;                            /* [n, k], -1 where there are no more */
    int64_t *positions;                      /* [n, k] */
    float *scores;                           /* [n, k] */
    int64_t *excluded_begins, *excluded_ids; /* NULL: none are excluded */
    rk_ids excluded;
} half;

static void query_half_release(half *h) {
    RK_FREE_ALL(h->queries, h->ids, h->positions, h->scores, h->excluded_begins, h->excluded_ids);
}

/* Of the queries first, first + 2, ... what they must not find. */
static rk_status copy_excluded_ids(const rk_ids *excluded, int64_t first, half *h) {
    int64_t n_ids = 0;
    RK_TRY(rk_alloc((size_t)h->n + 1, sizeof *h->excluded_begins, &h->excluded_begins));
    for (int64_t i = 0; i < h->n; i++) {
        int64_t q = first + 2 * i;
        n_ids += rk_ids_begin_of_sample(excluded, q + 1) - rk_ids_begin_of_sample(excluded, q);
        h->excluded_begins[i + 1] = n_ids;
    }
    RK_TRY(rk_alloc((size_t)n_ids, sizeof *h->excluded_ids, &h->excluded_ids));
    for (int64_t i = 0; i < h->n; i++) {
        const int64_t *ids = excluded->ids + rk_ids_begin_of_sample(excluded, first + 2 * i);
        for (int64_t at = h->excluded_begins[i]; at < h->excluded_begins[i + 1]; at++)
            h->excluded_ids[at] = *ids++;
    }
    h->excluded = (rk_ids){.offsets = h->excluded_begins, .ids = h->excluded_ids};
    return RK_OK;
}

static rk_status select_half_of_queries(const rk_index *x, const queries *all, int64_t first, half *h) {
    h->n = (all->n - first + 1) / 2;
    size_t n_best = (size_t)h->n * (size_t)all->k;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)(h->n * x->dim), h->queries), RK_ARRAY(n_best, h->ids),
                        RK_ARRAY(n_best, h->positions), RK_ARRAY(n_best, h->scores)));
    for (int64_t i = 0; i < h->n; i++)
        memcpy(h->queries + i * x->dim, all->vectors + (first + 2 * i) * x->dim,
               (size_t)x->dim * sizeof *h->queries);
    return all->excluded ? copy_excluded_ids(all->excluded, first, h) : RK_OK;
}

static rk_status find_exact_neighbours(const rk_index *x, const queries *all, int64_t first, half *h) {
    rk_index_search_options o = RK_INDEX_SEARCH_OPTIONS_INIT;
    RK_TRY(select_half_of_queries(x, all, first, h));
    o.n_probe = x->base.n_lists;
    o.excluded = all->excluded ? &h->excluded : NULL;
    return rk_index_search_all_queries(&(rk_index_search_call){.index = x,
                                                               .options = &o,
                                                               .queries = h->queries,
                                                               .n = h->n,
                                                               .k = all->k,
                                                               .ids = h->ids,
                                                               .scores = h->scores,
                                                               .positions = h->positions});
}

static int64_t list_of_position(const rk_index_base *b, int64_t position) {
    return rk_sorted_lower_bound(b->offsets, b->n_lists, position + 1) - 1;
}

/* places[l]: how many of the best lie in the list that is the l-th to be looked at. Returns how many there
 * are; those in no list are found always. */
static int64_t count_neighbours_by_list(const rk_index *x, const half *h, int32_t k, float *scores,
                                        uint64_t *lists, int64_t *places) {
    int64_t n = 0;
    for (int64_t q = 0; q < h->n; q++) {
        rk_index_score_lists(x, h->queries + q * x->dim, scores, lists);
        for (int64_t i = q * k; i < (q + 1) * k && h->ids[i] >= 0; i++, n++) {
            int64_t place = 0,
                    own = h->positions[i] < x->base.n ? list_of_position(&x->base, h->positions[i]) : -1;
            for (int64_t l = 0; own >= 0 && l < x->base.n_lists; l++) place += lists[l] > lists[own];
            places[place]++;
        }
    }
    return n;
}

static rk_status choose_n_probe(const rk_index *x, const half *h, int32_t k, double recall,
                                int64_t *n_probe) {
    RK_AUTOFREE float *scores = NULL;
    RK_AUTOFREE uint64_t *lists = NULL;
    RK_AUTOFREE int64_t *places = NULL;
    size_t n_lists = (size_t)x->base.n_lists;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_lists, scores), RK_ARRAY(n_lists, lists), RK_ARRAY(n_lists, places)));
    double wanted = recall * (double)count_neighbours_by_list(x, h, k, scores, lists, places);
    int64_t least = 1, found = places[0];
    while (least < x->base.n_lists && (double)found < wanted) found += places[least++];
    *n_probe = least;
    return RK_OK;
}

/* One query at a time, as they come. */
static rk_status measure_recall(const rk_index *x, const half *h, int32_t k, int64_t n_probe,
                                rk_index_recall *out) {
    RK_AUTOFREE int64_t *ids = NULL;
    RK_AUTOFREE float *scores = NULL;
    int64_t n_found = 0, n = 0;
    double seconds = 0;
    rk_index_search_options o = RK_INDEX_SEARCH_OPTIONS_INIT;
    o.n_probe = n_probe;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)k, ids), RK_ARRAY((size_t)k, scores)));
    for (int64_t q = 0; q < h->n; q++) {
        rk_id_set set;
        rk_ids excluded = {.offsets = h->excluded_begins + q, .ids = h->excluded_ids};
        o.excluded = h->excluded_begins ? &excluded : NULL;
        double begin = rk_clock_seconds();
        RK_TRY(rk_index_search_all_queries(&(rk_index_search_call){.index = x,
                                                                   .options = &o,
                                                                   .queries = h->queries + q * x->dim,
                                                                   .n = 1,
                                                                   .k = k,
                                                                   .ids = ids,
                                                                   .scores = scores}));
        seconds += rk_clock_seconds() - begin;
        RK_TRY(rk_id_set_create(ids, k, &set));
        for (int64_t i = q * k; i < (q + 1) * k && h->ids[i] >= 0; i++, n++)
            n_found += rk_sorted_contains(set.ids, set.n, h->ids[i]);
        rk_id_set_release(&set);
    }
    out->n_probe = n_probe;
    out->n_queries = h->n;
    out->recall = n ? (double)n_found / (double)n : 1;
    out->queries_per_second = seconds > 0 ? (double)h->n / seconds : 0;
    return RK_OK;
}

static rk_status tune_n_probe(rk_index *x, const queries *all, double recall, rk_index_recall *out) {
    half chosen_on = {0}, measured_on = {0};
    int64_t n_probe = x->n_probe;
    rk_status status;
    if (x->kind == RK_INDEX_IVF) {
        RK_GOTO(find_exact_neighbours(x, all, 0, &chosen_on));
        RK_GOTO(choose_n_probe(x, &chosen_on, all->k, recall, &n_probe));
    }
    RK_GOTO(find_exact_neighbours(x, all, 1, &measured_on));
    RK_GOTO(measure_recall(x, &measured_on, all->k, n_probe, out));
    x->n_probe = n_probe;
    x->asked_recall = recall;
    x->recall = out->recall;
    x->queries_per_second = out->queries_per_second;
    x->tuned_k = all->k;
    x->tuned_queries = out->n_queries;
done:
    query_half_release(&chosen_on);
    query_half_release(&measured_on);
    return status;
}

rk_status rk_index_tune(rk_index *x, const float *vectors, int64_t n, int32_t k, double recall,
                        const rk_ids *excluded, rk_index_recall *result) {
    rk_index_recall found = {0};
    rk_status status;
    if (result)
        RK_TRY(
            rk_options_check(result, RK_SIZE_WITH(rk_index_recall, queries_per_second), "rk_index_recall"));
    RK_FAIL_IF(n < 2, RK_INVALID_ARGUMENT, "an index is tuned on 2 queries or more, not %lld", (long long)n);
    RK_FAIL_IF(k < 1, RK_INVALID_ARGUMENT, "k must be 1 or more, not %d", k);
    RK_FAIL_IF(!(recall >= 0 && recall <= 1), RK_INVALID_ARGUMENT, "the recall must be 0 to 1, not %g",
               recall);
    if (excluded) RK_TRY(rk_index_check_excluded_ids(excluded, n));
    RK_TRY(rk_index_check_vectors(vectors, n, x->dim, "query"));
    RK_ON_POOL(x->pool, status = tune_n_probe(x, &(queries){vectors, n, k, excluded}, recall, &found));
    RK_TRY(status);
    return result ? rk_options_copy_out(result, result->struct_size, &found, sizeof found,
                                        RK_SIZE_WITH(rk_index_recall, queries_per_second), "rk_index_recall")
                  : RK_OK;
}
