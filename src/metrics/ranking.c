/* Retrieval metrics: the best k of many scores by one pass over them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "metrics/metrics.h"
#include "metrics/rank_order.h"

/* A score and its item as one number: the larger, the earlier in the ranking. Distinct for distinct items, so every order is the same. */
static uint64_t place_of(float score, uint32_t item) {
    return (uint64_t)rk_rank_key(score) << 32 | (UINT32_MAX - item);
}

static uint32_t item_of(uint64_t place) {
    return UINT32_MAX - (uint32_t)place;
}

static void swap(uint64_t *a, uint64_t *b) {
    uint64_t kept = *a;
    *a = *b;
    *b = kept;
}

/* Quickselect: the k largest of places[n], k <= n, to the front, in no order; the middle one is the pivot. */
static void keep_largest(uint64_t *places, size_t n, size_t k) {
    size_t first = 0, end = n;
    while (end - first > 1 && k > first && k < end) {
        swap(&places[first], &places[first + (end - first) / 2]);
        uint64_t pivot = places[first];
        size_t larger = first;
        for (size_t i = first + 1; i < end; i++)
            if (places[i] > pivot) swap(&places[++larger], &places[i]);
        swap(&places[first], &places[larger]);
        if (k <= larger)
            end = larger;
        else
            first = larger + 1;
    }
}

static void sort_descending(uint64_t *places, size_t n) {
    for (size_t gap = n / 2; gap; gap /= 2) /* Shell's */
        for (size_t i = gap; i < n; i++)
            for (size_t j = i; j >= gap && places[j - gap] < places[j]; j -= gap) swap(&places[j], &places[j - gap]);
}

static rk_status check_items(const char *what, const int64_t *items, int64_t n, int64_t n_items) {
    for (int64_t i = 0; i < n; i++) {
        RK_FAIL_IF(items[i] < 0 || items[i] >= n_items, RK_INVALID_ARGUMENT, "%s item %lld is not one of the %lld items", what, (long long)items[i],
                   (long long)n_items);
        RK_FAIL_IF(i && items[i] <= items[i - 1], RK_INVALID_ARGUMENT, "the %s items are not in ascending order at item %lld", what, (long long)items[i]);
    }
    return RK_OK;
}

static bool contains(const int64_t *items, int64_t n, int64_t item) {
    int64_t first = 0, end = n;
    while (first < end) {
        int64_t middle = first + (end - first) / 2;
        if (items[middle] < item)
            first = middle + 1;
        else
            end = middle;
    }
    return first < n && items[first] == item;
}

/* The best k places to the front of best[2k], descending; *out_n: how many there are. A place enters only if it beats the k-th of those kept, and the
 * kept are cut back to k whenever 2k have come together, so all scores cost one comparison and few more. */
static rk_status select_best(const float *scores, int64_t n_items, const int64_t *masked, int64_t n_masked, size_t k, uint64_t *best, size_t *out_n) {
    size_t n = 0;
    uint64_t bar = 0;
    int64_t next_masked = 0;
    for (int64_t item = 0; item < n_items; item++) {
        if (next_masked < n_masked && masked[next_masked] == item) {
            next_masked++;
            continue;
        }
        RK_FAIL_IF(!isfinite(scores[item]), RK_NOT_FINITE, "the score of item %lld is %g", (long long)item, scores[item]);
        uint64_t place = place_of(scores[item], (uint32_t)item);
        if (place < bar) continue;
        best[n++] = place;
        if (n < 2 * k) continue;
        keep_largest(best, n, k);
        n = k;
        bar = best[0];
        for (size_t i = 1; i < k; i++) bar = best[i] < bar ? best[i] : bar;
    }
    if (n > k) {
        keep_largest(best, n, k);
        n = k;
    }
    sort_descending(best, n);
    *out_n = n;
    return RK_OK;
}

static rk_ranking measure(const uint64_t *best, size_t n, const int64_t *relevant, int64_t n_relevant, int64_t n_wanted, int32_t k) {
    if (n_wanted == 0) return (rk_ranking){NAN, NAN, NAN};
    double gain = 0, ideal = 0;
    int64_t hits = 0;
    for (size_t i = 0; i < n; i++) {
        if (!contains(relevant, n_relevant, item_of(best[i]))) continue;
        hits++;
        gain += 1 / log2((double)i + 2);
    }
    for (int64_t i = 0; i < k && i < n_wanted; i++) ideal += 1 / log2((double)i + 2);
    return (rk_ranking){(double)hits / (double)n_wanted, gain / ideal, hits > 0};
}

rk_status rk_rankings_at(const float *scores, int64_t n_items, const int64_t *masked, int64_t n_masked, const int64_t *relevant, int64_t n_relevant, const int32_t *ks,
                         size_t n_ks, rk_ranking *out) {
    int64_t n_wanted = 0, most = 0;
    for (size_t i = 0; i < n_ks; i++) {
        RK_FAIL_IF(ks[i] < 1, RK_INVALID_ARGUMENT, "a ranking is cut at 1 or more, not at %d", ks[i]);
        most = ks[i] > most ? ks[i] : most;
    }
    RK_FAIL_IF(n_items < 0 || n_items > UINT32_MAX, RK_INVALID_ARGUMENT, "%lld items cannot be ranked", (long long)n_items);
    RK_TRY(check_items("masked", masked, n_masked, n_items));
    RK_TRY(check_items("relevant", relevant, n_relevant, n_items));
    for (int64_t i = 0; i < n_relevant; i++) n_wanted += !contains(masked, n_masked, relevant[i]);
    size_t n, n_kept = (size_t)(most < n_items ? most : n_items);
    uint64_t *best;
    RK_TRY(rk_alloc(2 * n_kept + 1, sizeof *best, &best));
    rk_status status = select_best(scores, n_items, masked, n_masked, n_kept, best, &n);
    for (size_t i = 0; i < n_ks && status == RK_OK; i++)
        out[i] = measure(best, n < (size_t)ks[i] ? n : (size_t)ks[i], relevant, n_relevant, n_wanted, ks[i]);
    rk_free(best);
    return status;
}

rk_status rk_ranking_at(const float *scores, int64_t n_items, const int64_t *masked, int64_t n_masked, const int64_t *relevant, int64_t n_relevant, int32_t k,
                        rk_ranking *out) {
    return rk_rankings_at(scores, n_items, masked, n_masked, relevant, n_relevant, &k, 1, out);
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
    snprintf(out, out_bytes, "%s%d", kinds[(metric - RK_METRIC_COUNT) % N_KINDS], rk_ranking_metric_k(metric));
}

int32_t rk_ranking_metric_k(int metric) {
    return (metric - RK_METRIC_COUNT) / N_KINDS;
}

double rk_ranking_metric_of(int metric, const rk_ranking *ranking) {
    const double values[N_KINDS] = {ranking->recall, ranking->ndcg, ranking->hit};
    return values[(metric - RK_METRIC_COUNT) % N_KINDS];
}
