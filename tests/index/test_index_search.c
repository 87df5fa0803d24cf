/* Searches of an index: what a plain one finds, to the bit, with any codes, lists, threads and filters. */
#include "index/fixture.h"

#include <pthread.h>

static vectors v;

static const rk_index_search_options all_lists = {.struct_size = sizeof all_lists, .n_probe = 1 << 20};

static void test_exact(void **state) {
    (void)state;
    for (int codes = 0; codes < 2; codes++) {
        rk_index *index = build(&v, N, RK_INDEX_EXACT, (rk_index_codes)codes);
        for (int k = 1; k < 400; k = 3 * k + 2) check_search(index, &v, N, k, NULL, NULL);
        check_search(index, &v, N, N + 3, NULL, NULL);
        rk_index_free(index);
    }
    for (int n = 1; n < 20; n += 6) {
        rk_index *index = build(&v, n, RK_INDEX_EXACT, RK_INDEX_INT8);
        check_search(index, &v, n, K, NULL, NULL);
        rk_index_free(index);
    }
}

/* Numbers of very different sizes, columns of one value, vectors of zeros. */
static void test_odd_vectors(void **state) {
    (void)state;
    static vectors odd;
    odd = v;
    for (int i = 0; i < N; i++) {
        odd.x[i * DIM] = 1e6f;
        odd.x[i * DIM + 1] *= i % 100 ? 1e-3f : 1e4f;
        odd.x[i * DIM + 2] = 0;
        if (i % 40 == 0) memset(odd.x + i * DIM, 0, DIM * sizeof *odd.x);
    }
    memset(odd.q, 0, DIM * sizeof *odd.q);
    odd.q[DIM] = 1e9f;
    rk_index *index = build(&odd, N, RK_INDEX_EXACT, RK_INDEX_INT8);
    check_search(index, &odd, N, K, NULL, NULL);
    rk_index_free(index);
}

static void test_ivf(void **state) {
    (void)state;
    rk_index *index = build(&v, N, RK_INDEX_IVF, RK_INDEX_INT8);
    rk_index_info info = RK_INDEX_INFO_INIT;
    OK(rk_index_get_info(index, &info));
    assert_int_equal(info.n_lists, 86);
    assert_int_equal(info.n_probe, 5);
    check_search(index, &v, N, K, NULL, &all_lists);
    /* Of fewer lists, what they hold, and as many as there are. */
    int64_t ids[K + 2], wide[K];
    float scores[K + 2];
    rk_index_search_options o = RK_INDEX_SEARCH_OPTIONS_INIT;
    int n_same = 0;
    for (int q = 0; q < N_QUERIES; q++) {
        o.n_probe = 0;
        OK(rk_index_search(index, v.q + q * DIM, 1, K, &o, ids, scores));
        OK(rk_index_search(index, v.q + q * DIM, 1, K, &all_lists, wide, NULL));
        for (int i = 0; i < K; i++) {
            assert_true(ids[i] >= 0 && (i == 0 || scores[i] <= scores[i - 1]));
            for (int j = 0; j < K; j++) n_same += ids[i] == wide[j];
        }
    }
    assert_in_range(n_same, N_QUERIES * K / 2, N_QUERIES * K - 1);
    o.n_probe = 1;
    check_search(index, &v, N, N, NULL, &o); /* more than the lists hold that are looked at */
    rk_index_free(index);
}

/* Without each query's own three best, those behind them have to be found. */
static void check_tuned_without(rk_index *index, const rk_index *exact, const float *queries) {
    enum { QUERIES = 400, OUT = 3 };
    static int64_t out[QUERIES * OUT];
    const rk_ids bags = {.ids_per_sample = OUT, .ids = out};
    rk_index_recall found = RK_INDEX_RECALL_INIT;
    int n_same = 0;
    OK(rk_index_search(exact, queries, QUERIES, OUT, NULL, out, NULL));
    for (int64_t *at = out; at < out + QUERIES * OUT; at += OUT)
        for (int i = 0; i < OUT; i++)
            for (int j = 0; j + 1 < OUT; j++)
                if (at[j] > at[j + 1]) {
                    int64_t larger = at[j];
                    at[j] = at[j + 1];
                    at[j + 1] = larger;
                }
    OK(rk_index_tune(index, queries, QUERIES, K, .9, &bags, &found));
    for (int q = 1; q < QUERIES; q += 2) {
        int64_t ids[K], best[K + OUT];
        const rk_ids own = {.ids_per_sample = OUT, .ids = out + q * OUT};
        rk_index_search_options o = RK_INDEX_SEARCH_OPTIONS_INIT;
        o.excluded = &own;
        OK(rk_index_search(index, queries + q * DIM, 1, K, &o, ids, NULL));
        OK(rk_index_search(exact, queries + q * DIM, 1, K + OUT, NULL, best, NULL));
        for (int i = 0; i < K; i++)
            for (int j = OUT; j < K + OUT; j++) n_same += ids[i] == best[j];
    }
    assert_true(found.recall > .85 && fabs(n_same / (200. * K) - found.recall) < 1e-9);
    int64_t backwards[] = {1, 2, 2, 1};
    const rk_ids unsorted = {.ids_per_sample = 2, .ids = backwards};
    FAILS(rk_index_tune(index, queries, 2, K, .9, &unsorted, NULL), RK_INVALID_ARGUMENT,
          "excluded ids are not in ascending order at id 1");
    OK(rk_index_tune(index, queries, QUERIES, K, 1, NULL, NULL));
}

/* The recall that was asked for, on queries that it was not tuned on. */
static void test_tune(void **state) {
    (void)state;
    static float queries[400 * DIM];
    rk_rng rng = {8, 2, 0};
    for (int i = 0; i < 400 * DIM; i++)
        queries[i] = v.q[i % (N_QUERIES * DIM)] + .3f * (float)rk_rng_normal(&rng);
    rk_index *index = build(&v, N, RK_INDEX_IVF, RK_INDEX_INT8), *exact = build(&v, N, RK_INDEX_EXACT, 0);
    int64_t before = 0;
    for (int percent = 50; percent <= 100; percent += 10) {
        rk_index_recall found = RK_INDEX_RECALL_INIT;
        OK(rk_index_tune(index, queries, 400, K, percent / 100., NULL, &found));
        assert_int_equal(found.n_queries, 200);
        assert_true(found.recall > percent / 100. - .05 && found.queries_per_second > 0);
        assert_true(found.n_probe >= 1 && found.n_probe >= before);
        before = found.n_probe;
        /* Measured as a user would. */
        int n_same = 0;
        for (int q = 1; q < 400; q += 2) {
            int64_t ids[K], best[K];
            OK(rk_index_search(index, queries + q * DIM, 1, K, NULL, ids, NULL));
            OK(rk_index_search(exact, queries + q * DIM, 1, K, NULL, best, NULL));
            for (int i = 0; i < K; i++)
                for (int j = 0; j < K; j++) n_same += ids[i] == best[j];
        }
        assert_true(fabs(n_same / (200. * K) - found.recall) < 1e-9);
    }
    check_tuned_without(index, exact, queries);
    rk_index_recall found = RK_INDEX_RECALL_INIT;
    OK(rk_index_tune(exact, queries, 400, K, .9, NULL, &found));
    assert_true(found.recall == 1 && found.n_probe == 1);
    rk_index_info info = RK_INDEX_INFO_INIT;
    OK(rk_index_get_info(index, &info));
    assert_true(info.asked_recall == 1 && info.n_probe == before && info.tuned_k == K);
    assert_true(before > 10);
    rk_index_free(index);
    rk_index_free(exact);
}

static void test_filters(void **state) {
    (void)state;
    static bool wanted[N], unwanted[N];
    static uint64_t bits[(7 * N + 3) / 64 + 1];
    static int64_t list[N], offsets[N_QUERIES + 1], excluded[N_QUERIES * K];
    rk_index *indexes[] = {build(&v, N, RK_INDEX_EXACT, RK_INDEX_INT8),
                           build(&v, N, RK_INDEX_EXACT, RK_INDEX_F32),
                           build(&v, N, RK_INDEX_IVF, RK_INDEX_INT8)};
    int64_t n_list = 0;
    for (int64_t id = 0; id < 7 * N + 3; id++)
        if (id % 7 == 3 && id % 4 == 1) {
            list[n_list++] = id;
            bits[id / 64] |= (uint64_t)1 << (id % 64);
        }
    for (int i = 0; i < N; i++) {
        wanted[i] = v.ids[i] % 4 == 1;
        unwanted[i] = !wanted[i];
    }
    for (int x = 0; x < 3; x++) {
        rk_index_search_options o = RK_INDEX_SEARCH_OPTIONS_INIT;
        o.n_probe = 1000;
        o.ids = list;
        o.n_ids = n_list;
        check_search(indexes[x], &v, N, K, wanted, &o);
        o.deny = true;
        check_search(indexes[x], &v, N, K, unwanted, &o);
        o.ids = NULL;
        o.bits = bits;
        o.n_bits = 7 * N + 3;
        check_search(indexes[x], &v, N, K, unwanted, &o);
        o.deny = false;
        check_search(indexes[x], &v, N, K, wanted, &o);
        /* An ivf index looks on until it has found k of them. */
        o.n_probe = 1;
        check_search(indexes[x], &v, N, N, wanted, &o);
    }
    /* Each query's own best are left out: the next ones come. */
    int64_t ids[N_QUERIES * 2 * K], rest[N_QUERIES * K];
    OK(rk_index_search(indexes[0], v.q, N_QUERIES, 2 * K, NULL, ids, NULL));
    for (int q = 0; q < N_QUERIES; q++) {
        offsets[q + 1] = offsets[q];
        for (int64_t id = 0; q % 3 && id < 7 * N + 3; id++)
            for (int i = 0; i < K; i++)
                if (ids[q * 2 * K + i] == id) excluded[offsets[q + 1]++] = id;
    }
    const rk_ids bags = {.offsets = offsets, .ids = excluded};
    rk_index_search_options o = all_lists;
    o.excluded = &bags;
    for (int x = 0; x < 3; x++) {
        OK(rk_index_search(indexes[x], v.q, N_QUERIES, K, &o, rest, NULL));
        for (int q = 0; q < N_QUERIES; q++)
            assert_memory_equal(rest + q * K, ids + q * 2 * K + (q % 3 ? K : 0), K * sizeof *ids);
        rk_index_free(indexes[x]);
    }
}

enum { THREADS = 4 };
static const rk_index *shared;
static int64_t wanted_ids[N_QUERIES * K];

static void *search_often(void *unused) {
    (void)unused;
    static const int rounds = 5;
    for (int i = 0; i < rounds; i++) {
        int64_t ids[N_QUERIES * K];
        if (rk_index_search(shared, v.q, N_QUERIES, K, NULL, ids, NULL) != RK_OK ||
            memcmp(ids, wanted_ids, sizeof ids) != 0)
            return (void *)&shared;
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        rk_index *index = build(&v, N, (rk_index_kind)kind, RK_INDEX_INT8);
        shared = index;
        OK(rk_index_search(index, v.q, N_QUERIES, K, NULL, wanted_ids, NULL));
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, search_often, NULL);
        for (int t = 0; t < THREADS; t++) {
            void *wrong;
            pthread_join(threads[t], &wrong);
            assert_null(wrong);
        }
        rk_pool *pool;
        OK(rk_pool_create(3, &pool));
        rk_index_search_options o = RK_INDEX_SEARCH_OPTIONS_INIT;
        o.pool = pool;
        int64_t ids[N_QUERIES * K];
        OK(rk_index_search(index, v.q, N_QUERIES, K, &o, ids, NULL));
        assert_memory_equal(ids, wanted_ids, sizeof ids);
        rk_pool_free(pool);
        rk_index_free(index);
    }
}

static void test_refused(void **state) {
    (void)state;
    rk_index_options o = RK_INDEX_OPTIONS_INIT;
    rk_index *index;
    int64_t ids[] = {1, 2, 1}, found[K];
    float bad[] = {1, 2, NAN, 4};
    FAILS(rk_index_build(bad, NULL, 0, 2, NULL, &index), RK_INVALID_ARGUMENT,
          "an index of 0 vectors: it needs 1 to 2^32 - 1 of them");
    FAILS(rk_index_build(bad, NULL, 2, 4097, NULL, &index), RK_INVALID_ARGUMENT,
          "an index of vectors of 4097 numbers: they must have 1 to 4096");
    FAILS(rk_index_build(bad, NULL, 2, 2, NULL, &index), RK_NOT_FINITE,
          "vector 1 is not finite, or longer than 1e19");
    FAILS(rk_index_build(v.x, ids, 3, 2, NULL, &index), RK_INVALID_ARGUMENT, "id 1 is there twice");
    ids[1] = -5;
    FAILS(rk_index_build(v.x, ids, 2, 2, NULL, &index), RK_INVALID_ARGUMENT, "id -5 is below 0");
    o.kind = RK_INDEX_IVF;
    o.codes = RK_INDEX_F32;
    FAILS(rk_index_build(v.x, NULL, 3, 2, &o, &index), RK_UNSUPPORTED,
          "an ivf index has int8 codes\nhint: its answers have the same bits as without codes");
    o.codes = RK_INDEX_INT8;
    o.n_lists = 4;
    FAILS(rk_index_build(v.x, NULL, 3, 2, &o, &index), RK_INVALID_ARGUMENT,
          "n_lists must be 1 to 3, the number of vectors, not 4");
    index = build(&v, N, RK_INDEX_EXACT, RK_INDEX_INT8);
    FAILS(rk_index_search(index, v.q, 1, 0, NULL, found, NULL), RK_INVALID_ARGUMENT,
          "k must be 1 or more, not 0");
    rk_index_search_options s = RK_INDEX_SEARCH_OPTIONS_INIT;
    ids[0] = 9;
    s.ids = ids;
    s.n_ids = 2;
    FAILS(rk_index_search(index, v.q, 1, 1, &s, found, NULL), RK_INVALID_ARGUMENT,
          "the ids of a search are not in ascending order at id -5");
    float query[DIM] = {INFINITY};
    FAILS(rk_index_search(index, query, 1, 1, NULL, found, NULL), RK_NOT_FINITE,
          "query 0 is not finite, or longer than 1e19");
    FAILS(rk_index_tune(index, v.q, 1, 1, .5, NULL, NULL), RK_INVALID_ARGUMENT,
          "an index is tuned on 2 queries or more, not 1");
    FAILS(rk_index_tune(index, v.q, 2, 1, 1.5, NULL, NULL), RK_INVALID_ARGUMENT,
          "the recall must be 0 to 1, not 1.5");
    FAILS(rk_index_add(index, v.x, v.ids + 3, 1), RK_INVALID_ARGUMENT, "id 4434 is in the index already");
    rk_index_free(index);
}

int main(void) {
    make_vectors(&v);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),   cmocka_unit_test(test_odd_vectors), cmocka_unit_test(test_ivf),
        cmocka_unit_test(test_tune),    cmocka_unit_test(test_filters),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
