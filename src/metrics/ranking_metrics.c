/* Retrieval metrics: the best k of many scores by one pass over them. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/integers.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "metrics/metrics.h"
#include "metrics/sort_by_prediction.h"
#include "base/select_top_k.h"

/* A score and its item as one number: the larger, the earlier in the ranking. Distinct for distinct items, so
 * every order is the same. */
static uint64_t ranking_key_of(float score, uint32_t item) {
    return (uint64_t)rk_prediction_sort_key(score) << 32 | (UINT32_MAX - item);
}

static uint32_t item_of_ranking_key(uint64_t place) {
    return UINT32_MAX - (uint32_t)place;
}

static void swap_ranking_keys(uint64_t *a, uint64_t *b) {
    uint64_t kept = *a;
    *a = *b;
    *b = kept;
}

static void sort_descending(uint64_t *places, size_t n) {
    for (size_t gap = n / 2; gap; gap /= 2) /* Shell's */
        for (size_t i = gap; i < n; i++)
            for (size_t j = i; j >= gap && places[j - gap] < places[j]; j -= gap)
                swap_ranking_keys(&places[j], &places[j - gap]);
}

static rk_status check_item_list(const char *what, const int64_t *items, int64_t n, int64_t n_items) {
    for (int64_t i = 0; i < n; i++) {
        RK_FAIL_IF(items[i] < 0 || items[i] >= n_items, RK_INVALID_ARGUMENT,
                   "%s item %lld is not one of the %lld items", what, (long long)items[i],
                   (long long)n_items);
        RK_FAIL_IF(i && items[i] <= items[i - 1], RK_INVALID_ARGUMENT,
                   "the %s items are not in ascending order at item %lld", what, (long long)items[i]);
    }
    return RK_OK;
}

/* The best of the scores so far. A place enters only if it beats the k-th of those kept, and the kept are cut
 * back to k whenever 2k have come together. */
typedef struct selection {
    uint64_t *best; /* [2k] */
    size_t n, k;
    uint64_t bar; /* the k-th place of those kept */
    float least;  /* its score; NaN while there are fewer */
} selection;

static void keep_best_k(selection *s, const float *scores) {
    rk_select_top_k(s->best, s->n, s->k);
    s->n = s->k;
    s->bar = s->best[s->k - 1];
    s->least = scores[item_of_ranking_key(s->bar)];
}

/* Without a branch, so that it is done by vectors. Scores that are not finite are told of too. */
static bool any_beats_threshold(const selection *s, const float *scores, int64_t n) {
    unsigned any = 0;
    for (int64_t i = 0; i < n; i++) any |= !((scores[i] < s->least) & (scores[i] >= -FLT_MAX));
    return any;
}

static rk_status add_item_if_among_best(selection *s, const float *scores, int64_t item) {
    RK_FAIL_IF(!isfinite(scores[item]), RK_NOT_FINITE, "the score of item %lld is %g", (long long)item,
               scores[item]);
    uint64_t place = ranking_key_of(scores[item], (uint32_t)item);
    if (place < s->bar) return RK_OK;
    s->best[s->n++] = place;
    if (s->n == 2 * s->k) keep_best_k(s, scores);
    return RK_OK;
}

/* The best k places to the front of best[2k], descending; *out_n: how many there are. Nearly all stretches of
 * scores have none that may enter. */
static rk_status select_best_items(const float *scores, int64_t n_items, const int64_t *masked,
                                   int64_t n_masked, size_t k, uint64_t *best, size_t *out_n) {
    enum {
        STRETCH = 16
    }; /* longer ones have one that may enter more often: a user has some 200 among 40,000 items */
    selection s = {.best = best, .k = k, .least = NAN};
    int64_t next_masked = 0;
    for (int64_t first = 0, last; first < n_items; first = last) {
        last = first + STRETCH < n_items ? first + STRETCH : n_items;
        if (!any_beats_threshold(&s, scores + first, last - first)) continue;
        for (int64_t item = first; item < last; item++) {
            while (next_masked < n_masked && masked[next_masked] < item) next_masked++;
            if (next_masked == n_masked || masked[next_masked] != item)
                RK_TRY(add_item_if_among_best(&s, scores, item));
        }
    }
    if (s.n > k) keep_best_k(&s, scores);
    sort_descending(best, s.n);
    *out_n = s.n;
    return RK_OK;
}

/* places [n]: of relevant items, ascending. */
static rk_ranking_metrics metrics_at_cutoff(const uint64_t *places, size_t n, int64_t n_wanted, int32_t k) {
    if (n_wanted == 0) return (rk_ranking_metrics){NAN, NAN, NAN};
    double gain = 0, ideal = 0;
    size_t hits = 0;
    for (; hits < n && places[hits] < (uint64_t)k; hits++) gain += 1 / log2((double)places[hits] + 2);
    for (int64_t i = 0; i < k && i < n_wanted; i++) ideal += 1 / log2((double)i + 2);
    return (rk_ranking_metrics){(double)hits / (double)n_wanted, gain / ideal, hits > 0};
}

/* The best items, in their order, to the places of those that are relevant; how many. */
static size_t find_positions_of_relevant(uint64_t *best, size_t n, const int64_t *relevant,
                                         int64_t n_relevant) {
    size_t n_found = 0;
    for (size_t i = 0; i < n; i++)
        if (rk_sorted_contains(relevant, n_relevant, item_of_ranking_key(best[i]))) best[n_found++] = i;
    return n_found;
}

static rk_status check_cutoffs(const int32_t *ks, size_t n_ks, int64_t *most) {
    *most = 0;
    for (size_t i = 0; i < n_ks; i++) {
        RK_FAIL_IF(ks[i] < 1, RK_INVALID_ARGUMENT, "a ranking is cut at 1 or more, not at %d", ks[i]);
        *most = ks[i] > *most ? ks[i] : *most;
    }
    return RK_OK;
}

rk_status rk_ranking_metrics_at_ks(const float *scores, int64_t n_items, const int64_t *masked,
                                   int64_t n_masked, const int64_t *relevant, int64_t n_relevant,
                                   const int32_t *ks, size_t n_ks, rk_ranking_metrics *out) {
    int64_t n_wanted = 0, most;
    RK_TRY(check_cutoffs(ks, n_ks, &most));
    RK_FAIL_IF(n_items < 0 || n_items > UINT32_MAX, RK_INVALID_ARGUMENT, "%lld items cannot be ranked",
               (long long)n_items);
    RK_TRY(check_item_list("masked", masked, n_masked, n_items));
    RK_TRY(check_item_list("relevant", relevant, n_relevant, n_items));
    for (int64_t i = 0; i < n_relevant; i++) n_wanted += !rk_sorted_contains(masked, n_masked, relevant[i]);
    size_t n, n_kept = (size_t)(most < n_items ? most : n_items);
    RK_AUTOFREE uint64_t *best = NULL;
    RK_TRY(rk_alloc(2 * n_kept + 1, sizeof *best, &best));
    RK_TRY(select_best_items(scores, n_items, masked, n_masked, n_kept, best, &n));
    n = find_positions_of_relevant(best, n, relevant, n_relevant);
    for (size_t i = 0; i < n_ks; i++) out[i] = metrics_at_cutoff(best, n, n_wanted, ks[i]);
    return RK_OK;
}

rk_status rk_rank_top_k(const float *scores, int64_t n_items, const int64_t *excluded, int64_t n_excluded,
                        int64_t k, int64_t *items, int64_t *n) {
    uint64_t *best;
    size_t n_best;
    RK_FAIL_IF(k < 1, RK_INVALID_ARGUMENT, "k must be 1 or more, not %lld", (long long)k);
    RK_FAIL_IF(n_items < 0 || n_items > UINT32_MAX, RK_INVALID_ARGUMENT, "%lld items cannot be ranked",
               (long long)n_items);
    RK_TRY(check_item_list("excluded", excluded, n_excluded, n_items));
    size_t n_kept = (size_t)(k < n_items ? k : n_items);
    RK_TRY(rk_alloc(2 * n_kept + 1, sizeof *best, &best));
    rk_status status = select_best_items(scores, n_items, excluded, n_excluded, n_kept, best, &n_best);
    for (size_t i = 0; i < n_best && status == RK_OK; i++) items[i] = item_of_ranking_key(best[i]);
    if (status == RK_OK) *n = (int64_t)n_best;
    rk_free(best);
    return status;
}

rk_status rk_ranking_metrics_from_positions(const uint32_t *positions, int64_t n_relevant, const int32_t *ks,
                                            size_t n_ks, rk_ranking_metrics *out) {
    int64_t most;
    size_t n = 0;
    RK_AUTOFREE uint64_t *found = NULL;
    RK_TRY(check_cutoffs(ks, n_ks, &most));
    RK_TRY(rk_alloc((size_t)n_relevant, sizeof *found, &found));
    for (int64_t i = 0; i < n_relevant; i++)
        if (positions[i] != UINT32_MAX) found[n++] = positions[i];
    qsort(found, n, sizeof *found, rk_compare_u64);
    for (size_t i = 0; i < n_ks; i++) out[i] = metrics_at_cutoff(found, n, (int64_t)n, ks[i]);
    return RK_OK;
}

/* Numbers are RK_METRIC_COUNT + N_KINDS * k + kind. */
static const char *const kinds[] = {"recall@", "ndcg@", "hit@"};
enum { N_KINDS = 3 };

int rk_ranking_metric_find(const char *name) {
    for (int kind = 0; kind < N_KINDS; kind++) {
        size_t n = strlen(kinds[kind]);
        if (strncmp(name, kinds[kind], n) != 0) continue;
        int64_t k;
        bool whole = rk_parse_i64((rk_span){name + n, strlen(name + n)}, &k);
        return whole && k >= 1 && k <= 1000000 ? RK_METRIC_COUNT + N_KINDS * (int)k + kind : -1;
    }
    return -1;
}

void rk_ranking_metric_name(int metric, char *out, size_t out_bytes) {
    snprintf(out, out_bytes, "%s%d", kinds[(metric - RK_METRIC_COUNT) % N_KINDS],
             rk_ranking_metric_k(metric));
}

int32_t rk_ranking_metric_k(int metric) {
    return (metric - RK_METRIC_COUNT) / N_KINDS;
}

double rk_ranking_metric_value(int metric, const rk_ranking_metrics *ranking) {
    const double values[N_KINDS] = {ranking->recall, ranking->ndcg, ranking->hit};
    return values[(metric - RK_METRIC_COUNT) % N_KINDS];
}
