/* recall, ndcg and hit at k, against a full sort and against values worked out by hand. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "base/rng.h"
#include "metrics/metrics.h"

enum { MAX = 3000 };

static bool has(const int64_t *items, int64_t n, int64_t item) {
    for (int64_t i = 0; i < n; i++)
        if (items[i] == item) return true;
    return false;
}

/* Repeatedly the best item that is left. */
static rk_ranking_metrics naive(const float *scores, int64_t n, const int64_t *masked, int64_t n_masked,
                                const int64_t *relevant, int64_t n_relevant, int32_t k) {
    static bool taken[MAX];
    memset(taken, 0, sizeof taken);
    double dcg = 0, ideal = 0;
    int hits = 0, wanted = 0;
    for (int64_t i = 0; i < n_relevant; i++) wanted += !has(masked, n_masked, relevant[i]);
    if (!wanted) return (rk_ranking_metrics){NAN, NAN, NAN};
    for (int place = 0; place < k; place++) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++)
            if (!taken[i] && !has(masked, n_masked, i) && (best < 0 || scores[i] > scores[best])) best = i;
        if (best < 0) break;
        taken[best] = true;
        if (has(relevant, n_relevant, best)) {
            hits++;
            dcg += 1 / log2(place + 2.0);
        }
    }
    for (int i = 0; i < k && i < wanted; i++) ideal += 1 / log2(i + 2.0);
    return (rk_ranking_metrics){(double)hits / wanted, dcg / ideal, hits > 0};
}

static void assert_same(rk_ranking_metrics got, rk_ranking_metrics wanted) {
    if (isnan(wanted.recall)) {
        assert_true(isnan(got.recall) && isnan(got.ndcg) && isnan(got.hit));
        return;
    }
    assert_true(got.recall == wanted.recall && got.hit == wanted.hit);
    assert_true(fabs(got.ndcg - wanted.ndcg) < 1e-12);
}

/* How many items are before it; UINT32_MAX if it is masked. */
static uint32_t place_of(const float *scores, int64_t n, const int64_t *masked, int64_t n_masked,
                         int64_t item) {
    if (has(masked, n_masked, item)) return UINT32_MAX;
    uint32_t before = 0;
    for (int64_t i = 0; i < n; i++)
        before += !has(masked, n_masked, i) &&
                  (scores[i] > scores[item] || (scores[i] == scores[item] && i < item));
    return before;
}

static int64_t pick(rk_rng *rng, int64_t n, uint64_t one_in, int64_t *out) {
    int64_t picked = 0;
    for (int64_t i = 0; i < n; i++)
        if (rk_rng_below(rng, one_in) == 0) out[picked++] = i;
    return picked;
}

static void rank_several(const float *scores, int64_t n, const int64_t *masked, int64_t n_masked,
                         const int64_t *relevant, int64_t n_relevant, const int32_t ks[3]) {
    rk_ranking_metrics got[3];
    OK(rk_ranking_metrics_at_ks(scores, n, masked, n_masked, relevant, n_relevant, ks, 3, got));
    for (int i = 0; i < 3; i++)
        assert_same(got[i], naive(scores, n, masked, n_masked, relevant, n_relevant, ks[i]));
    static uint32_t places[MAX];
    for (int64_t i = 0; i < n_relevant; i++) places[i] = place_of(scores, n, masked, n_masked, relevant[i]);
    OK(rk_ranking_metrics_from_positions(places, n_relevant, ks, 3, got));
    for (int i = 0; i < 3; i++)
        assert_same(got[i], naive(scores, n, masked, n_masked, relevant, n_relevant, ks[i]));
}

static void test_names(void **state) {
    (void)state;
    static const char *const none[] = {"auc",       "recall", "recall@",     "recall@0",
                                       "recall@-3", "hit@2x", "ndcg@1000001"};
    const rk_ranking_metrics ranking = {0.25, 0.5, 1};
    const double values[] = {0.25, 0.5, 1};
    static const char *const names[] = {"recall@20", "ndcg@7", "hit@1"};
    const int32_t ks[] = {20, 7, 1};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(rk_ranking_metric_find(none[i]), -1);
    for (int i = 0; i < 3; i++) {
        char name[32];
        int metric = rk_ranking_metric_find(names[i]);
        rk_ranking_metric_name(metric, name, sizeof name);
        assert_string_equal(name, names[i]);
        assert_int_equal(rk_ranking_metric_k(metric), ks[i]);
        assert_true(rk_ranking_metric_value(metric, &ranking) == values[i]);
        assert_true(metric >= RK_METRIC_COUNT && rk_metric_larger_is_better(metric));
    }
}

static rk_status metrics_at_k(const float *scores, int64_t n_items, const int64_t *masked, int64_t n_masked,
                              const int64_t *relevant, int64_t n_relevant, int32_t k,
                              rk_ranking_metrics *out) {
    return rk_ranking_metrics_at_ks(scores, n_items, masked, n_masked, relevant, n_relevant, &k, 1, out);
}

static void test_against_a_full_sort(void **state) {
    (void)state;
    static float scores[MAX];
    static int64_t masked[MAX], relevant[MAX];
    for (uint64_t round = 0; round < 120; round++) {
        rk_rng rng = {9, round, 0};
        int64_t n = 1 + (int64_t)rk_rng_below(&rng, 600);
        int32_t k = 1 + (int32_t)rk_rng_below(&rng, 40);
        for (int64_t i = 0; i < n; i++) /* all random, few values, ascending, descending, all equal */
            scores[i] = round % 5 == 0   ? (float)rk_rng_normal(&rng)
                        : round % 5 == 1 ? (float)rk_rng_below(&rng, 5) - 2
                        : round % 5 == 2 ? (float)i
                        : round % 5 == 3 ? -(float)i
                                         : 0.5f;
        int64_t n_masked = pick(&rng, n, round % 4 + 2, masked), n_relevant = pick(&rng, n, 10, relevant);
        rk_ranking_metrics got;
        OK(metrics_at_k(scores, n, masked, n_masked, relevant, n_relevant, k, &got));
        assert_same(got, naive(scores, n, masked, n_masked, relevant, n_relevant, k));
        const int32_t ks[] = {k + 3, 1, k};
        rank_several(scores, n, masked, n_masked, relevant, n_relevant, ks);
    }
}

static void test_by_hand(void **state) {
    (void)state;
    const float scores[] = {0.1f, 0.9f, 0.8f, 0.8f, 0.3f};
    const int64_t masked[] = {1}, relevant[] = {0, 3, 4};
    rk_ranking_metrics got;
    OK(metrics_at_k(scores, 5, masked, 1, relevant, 3, 2, &got)); /* order: 2, 3, 4, 0 */
    assert_same(got, (rk_ranking_metrics){1 / 3.0, (1 / log2(3)) / (1 + 1 / log2(3)), 1});
    OK(metrics_at_k(scores, 5, masked, 1, relevant, 3, 1, &got)); /* 2 before 3: ties by the smaller id */
    assert_same(got, (rk_ranking_metrics){0, 0, 0});
    OK(metrics_at_k(scores, 5, NULL, 0, relevant, 3, 100, &got));
    assert_same(got, (rk_ranking_metrics){
                         1, (1 / log2(4) + 1 / log2(5) + 1 / log2(6)) / (1 + 1 / log2(3) + 1 / log2(4)), 1});
    OK(metrics_at_k(scores, 5, masked, 1, masked, 1, 3, &got)); /* all that is relevant is masked */
    assert_same(got, (rk_ranking_metrics){NAN, NAN, NAN});
    const float zeros[] = {-0.0f, 0.0f};
    const int64_t second[] = {1};
    OK(metrics_at_k(zeros, 2, NULL, 0, second, 1, 1, &got)); /* -0 and 0 tie */
    assert_same(got, (rk_ranking_metrics){0, 0, 0});
    OK(metrics_at_k(NULL, 0, NULL, 0, NULL, 0, 3, &got));
    assert_same(got, (rk_ranking_metrics){NAN, NAN, NAN});
}

static void test_refusals(void **state) {
    (void)state;
    const float scores[] = {0, NAN, 1};
    const int64_t one[] = {1}, twice[] = {1, 1}, beyond[] = {3};
    rk_ranking_metrics got = {-1, -1, -1};
    FAILS(metrics_at_k(scores, 3, NULL, 0, one, 1, 1, &got), RK_NOT_FINITE, "the score of item 1 is nan");
    FAILS(metrics_at_k(scores, 3, twice, 2, one, 1, 1, &got), RK_INVALID_ARGUMENT,
          "the masked items are not in ascending order at item 1");
    FAILS(metrics_at_k(scores, 3, one, 1, beyond, 1, 1, &got), RK_INVALID_ARGUMENT,
          "relevant item 3 is not one of the 3 items");
    FAILS(metrics_at_k(scores, 3, one, 1, one, 1, 0, &got), RK_INVALID_ARGUMENT,
          "a ranking is cut at 1 or more, not at 0");
    rk_alloc_fail_after(1, false);
    assert_int_equal(metrics_at_k(scores, 3, one, 1, one, 1, 1, &got), RK_NO_MEMORY);
    assert_true(got.recall == -1 && got.ndcg == -1 && got.hit == -1);
    const int64_t last[] = {2};
    OK(metrics_at_k(scores, 3, one, 1, last, 1, 1, &got)); /* a masked score may be anything */
    assert_same(got, (rk_ranking_metrics){1, 1, 1});
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_not_finite_anywhere(void **state) {
    (void)state;
    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    for (int64_t at = 0; at < 3 * 100; at++) {
        float scores[100];
        for (int i = 0; i < 100; i++) scores[i] = -(float)i; /* after the first few none enters the best */
        scores[at / 3] = wrong[at % 3];
        rk_ranking_metrics got;
        const int64_t item[] = {at / 3};
        char message[64];
        snprintf(message, sizeof message, "the score of item %lld is %g", (long long)item[0], wrong[at % 3]);
        FAILS(metrics_at_k(scores, 100, NULL, 0, item, 1, 2, &got), RK_NOT_FINITE, message);
        OK(metrics_at_k(scores, 100, item, 1, item, 1, 2, &got));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_full_sort),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_not_finite_anywhere),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
