/* Ids by sample: slices and lists against a copy made value by value; narrow numbers of every width. */
#include "testing.h"

#include "base/memory.h"
#include "batch/ids.h"
#include "batch/narrow_integers.h"

enum { N = 12, PER_SAMPLE = 3 };

static const int64_t offsets[N + 1] = {0, 2, 2, 5, 5, 5, 9, 10, 12, 15, 15, 20, 21};
static int64_t values[N * PER_SAMPLE];
static float weights[N * PER_SAMPLE];

/* With offsets, alike, alike and empty; each without and with weights. */
static rk_ids make(int which) {
    for (int i = 0; i < N * PER_SAMPLE; i++) values[i] = 100 + i, weights[i] = (float)i / 4;
    return (rk_ids){.offsets = which / 2 == 0 ? offsets : NULL,
                    .ids_per_sample = which / 2 == 1 ? PER_SAMPLE : 0,
                    .ids = values,
                    .weights = which % 2 ? weights : NULL};
}
enum { N_KINDS = 6 };

static void assert_sample(const rk_ids *a, int64_t sample, const rk_ids *b, int64_t same) {
    int64_t begin = rk_ids_begin_of_sample(a, sample), n = rk_ids_begin_of_sample(a, sample + 1) - begin,
            at = rk_ids_begin_of_sample(b, same);
    assert_int_equal(rk_ids_begin_of_sample(b, same + 1) - at, n);
    for (int64_t i = 0; i < n; i++) assert_int_equal(a->ids[begin + i], b->ids[at + i]);
    for (int64_t i = 0; i < n && a->weights; i++)
        assert_memory_equal(&a->weights[begin + i], &b->weights[at + i], sizeof(float));
}

static void test_slice(void **state) {
    (void)state;
    rk_id_list list = {0};
    for (int which = 0; which < N_KINDS; which++) {
        const rk_ids all = make(which);
        for (int64_t first = 0; first <= N; first++)
            for (int64_t n = 0; first + n <= N; n++) {
                int64_t memory[N + 2] = {[N + 1] = 77};
                memory[n + 1] = 77;
                rk_ids slice = rk_ids_slice(&all, first, n, memory), other;
                OK(rk_id_list_slice(&list, &all, first, n, &other));
                assert_int_equal(memory[n + 1], 77);
                assert_int_equal(rk_ids_begin_of_sample(&slice, 0), 0);
                assert_true((slice.offsets == NULL) == (all.offsets == NULL));
                assert_true((slice.weights == NULL) == (all.weights == NULL));
                for (int64_t s = 0; s < n; s++) {
                    assert_sample(&all, first + s, &slice, s);
                    assert_sample(&all, first + s, &other, s);
                }
                if (n) assert_true(slice.ids == all.ids + rk_ids_begin_of_sample(&all, first)); /* a view */
            }
    }
    const rk_ids none = {.offsets = offsets + N}; /* no samples, and so no ids */
    assert_null(rk_ids_slice(&none, 0, 0, NULL).ids);
    rk_id_list_release(&list);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Pieces of all kinds one behind the other, as copies and in another order; used again after truncation. */
static void test_lists(void **state) {
    (void)state;
    static const uint32_t order[N] = {3, 11, 0, 5, 5, 1, 10, 2, 9, 4, 7, 6};
    rk_id_list list = {0};
    for (int weighted = 0; weighted < 2; weighted++)
        for (int a = weighted; a < N_KINDS; a += 2)
            for (int b = weighted; b < N_KINDS; b += 2) {
                const rk_ids x = make(a), y = make(b);
                rk_id_list_truncate(&list, 0);
                OK(rk_id_list_append(&list, &x, 2, 7));
                OK(rk_id_list_append(&list, &x, 5, 0));
                OK(rk_id_list_gather(&list, &y, order, N));
                OK(rk_id_list_append(&list, &y, 0, N));
                rk_ids view = rk_id_list_view(&list);
                assert_int_equal(list.n, 7 + N + N);
                assert_int_equal(list.n_ids, rk_ids_begin_of_sample(&view, list.n));
                for (int64_t s = 0; s < 7; s++) assert_sample(&x, 2 + s, &view, s);
                for (int64_t s = 0; s < N; s++) assert_sample(&y, order[s], &view, 7 + s);
                for (int64_t s = 0; s < N; s++) assert_sample(&y, s, &view, 7 + N + s);
                if (a == b && a / 2) assert_null(view.offsets); /* alike samples need none */
                rk_id_list_truncate(&list, 7);
                view = rk_id_list_view(&list);
                assert_int_equal(list.n_ids, rk_ids_begin_of_sample(&view, 7));
                for (int64_t s = 0; s < 7; s++) assert_sample(&x, 2 + s, &view, s);
            }
    rk_id_list_release(&list);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_sample_by_sample(void **state) {
    (void)state;
    rk_id_list list = {0};
    const rk_ids all = make(0);
    for (int64_t s = 0; s < N; s++) {
        for (int64_t i = offsets[s]; i < offsets[s + 1]; i++) {
            OK(rk_id_list_reserve(&list, 1, false));
            list.ids[list.n_ids++] = values[i];
        }
        OK(rk_id_list_end_sample(&list));
    }
    rk_ids view = rk_id_list_view(&list);
    for (int64_t s = 0; s < N; s++) assert_sample(&all, s, &view, s);
    OK(rk_id_list_reserve(&list, 1, false));
    list.ids[list.n_ids++] = 5; /* its sample never ends */
    rk_id_list_truncate(&list, N);
    assert_int_equal(list.n_ids, offsets[N]);
    rk_id_list_release(&list);
    rk_id_list empty = {0};
    const rk_ids weighted = make(1);
    OK(rk_id_list_append(&empty, &weighted, 1, 1));
    view = rk_id_list_view(&empty);
    assert_non_null(view.weights); /* of a weighted feature, although there are no ids */
    rk_id_list_release(&empty);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_batch_slice(void **state) {
    (void)state;
    static const float dense[2 * N], labels[3 * N], sample_weights[N];
    static const int64_t groups[N];
    const rk_batch all = {N, 2, 1, 3, dense, &(rk_ids){0}, labels, sample_weights, groups, 50},
                   bare = {.n = N};
    rk_batch b = rk_batch_slice(&all, 4, 5), none = rk_batch_slice(&bare, 4, 5);
    assert_true(b.n == 5 && b.dense == dense + 8 && b.labels == labels + 12 && b.groups == groups + 4 &&
                b.sample_weights == sample_weights + 4 && b.first_row == 54 && !b.features);
    assert_true(!none.dense && !none.labels && !none.sample_weights && !none.groups);
}

static void test_narrow(void **state) {
    (void)state;
    static const struct {
        int64_t most, base;
        int width;
    } cases[] = {{0, 0, 1},
                 {255, 0, 1},
                 {256, 0, 2},
                 {65535, 0, 2},
                 {65536, 0, 4},
                 {UINT32_MAX, 0, 4},
                 {(int64_t)UINT32_MAX + 1, 0, 8},
                 {INT64_MAX, 0, 8},
                 {-1, 0, 8},
                 {70255, 70000, 1},
                 {70256, 70000, 2}};
    assert_int_equal(rk_narrowest_integer_width(NULL, 0, 0), 1);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t base = cases[c].base, in[3] = {base, cases[c].most, base + 7}, out[3], narrow[4] = {0};
        int width = rk_narrowest_integer_width(in, 3, base);
        assert_int_equal(width, cases[c].width);
        rk_narrow_integers(narrow, width, in, 3, base);
        const char *bytes = (const char *)narrow;
        for (size_t i = 3 * (size_t)width; i < sizeof narrow; i++) assert_int_equal(bytes[i], 0);
        rk_widen_integers(out, width, narrow, 3);
        for (int i = 0; i < 3; i++) assert_int_equal(out[i] + base, in[i]);
    }
    for (int width = 0; width < 10; width++)
        assert_true(rk_integer_width_is_valid(width) ==
                    (width == 1 || width == 2 || width == 4 || width == 8));
}

/* A value that does not fit is found wherever it stands. */
static void test_narrow_to_int32(void **state) {
    (void)state;
    enum { MOST = 23, SLACK = 4 };
    for (int64_t n = 0; n <= MOST; n++)
        for (int first = 0; first < SLACK; first++) {
            int64_t in[MOST + 1] = {0};
            int32_t out[MOST + 2 * SLACK] __attribute__((aligned(16)));
            for (int64_t i = 0; i < n; i++) in[i] = i % 3 == 0 ? INT32_MIN : i % 3 == 1 ? INT32_MAX : -i;
            memset(out, 1, sizeof out);
            assert_true(rk_narrow_to_int32(out + first, in, n));
            for (int64_t i = 0; i < MOST + 2 * SLACK; i++) {
                bool is_inside = i >= first && i < first + n;
                assert_int_equal(out[i], is_inside ? (int32_t)in[i - first] : 0x01010101);
            }
            for (int64_t i = 0; i < n; i++) {
                int64_t was = in[i];
                in[i] = i % 2 ? (int64_t)INT32_MAX + 1 : (int64_t)INT32_MIN - 1;
                assert_false(rk_narrow_to_int32(out + first, in, n));
                in[i] = was;
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slice),
                                       cmocka_unit_test(test_lists),
                                       cmocka_unit_test(test_sample_by_sample),
                                       cmocka_unit_test(test_batch_slice),
                                       cmocka_unit_test(test_narrow),
                                       cmocka_unit_test(test_narrow_to_int32)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
