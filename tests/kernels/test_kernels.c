/* Kernels of neither rows nor layers: random numbers, losses of candidates, searches, sorting. */
#include "kernels/kernel_testing.h"

#include <math.h>

#include "kernels/inline/lane_sum.h"

/* The normal distribution's values at the quantiles that the words give, by bisection of erfc in double. */
static double quantile(double p) {
    double low = -8, high = 8;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(0.5 * erfc(-middle / sqrt(2.0)) < p ? &low : &high) = middle;
    }
    return low;
}

static void test_random_row(void **state) {
    (void)state;
    tried("rk_random_init_row", true);
    float expected[MAX_DIM], out[MAX_DIM];
    for (int normal = 0; normal < 2; normal++)
        for (int d = 0; d < N_DIMS; d++) {
            rk_random_init_row_args args = {.seed = 5,
                                            .table = 77,
                                            .normal = normal,
                                            .low = 0.01f,
                                            .range = 0.98f,
                                            .rest_low = 0.01f,
                                            .shift = 0.5f,
                                            .scale = 2};
            int64_t id = (int64_t)1 << (d + 20);
            rk_random_init_row_scalar(&args, id, dims[d], expected);
            for (int32_t k = 0; k < dims[d]; k++) {
                uint32_t words[4];
                rk_rng_draw_four_words(5, 77, (uint64_t)id * (RK_MAX_DIM / 4) + (uint64_t)k / 4, words);
                double p = 0.01 + 0.98 * (words[k % 4] + 0.5) / 4294967296.0,
                       want = 0.5 + 2 * (normal ? quantile(p) : p);
                assert_true(fabs(want - expected[k]) <
                            5e-6 * (1 + fabs(want))); /* f32, and PPND7's own 1e-7 */
            }
            for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
                rk_random_init_row_on[isa](&args, id, dims[d], out);
                assert_memory_equal(out, expected, (size_t)dims[d] * sizeof(float));
            }
        }
}

static void test_candidate_row(void **state) {
    (void)state;
    tried("rk_sample_candidate_loss", true);
    enum { COLS = 2064 };
    static float scores[COLS], log_q[COLS], out[2][COLS];
    static int32_t ids[COLS];
    for (int round = 0; round < 18; round++) {
        randomize(scores, COLS);
        randomize(log_q, COLS);
        for (int c = 0; c < COLS; c++) ids[c] = (int32_t)rk_rng_below(&rng, 50) - (c > 2000);
        rk_sample_candidate_loss_args args = {.kind = (rk_candidate_loss_kind)(round % 3),
                                              .ids = ids,
                                              .log_q = log_q,
                                              .n = round < 9 ? COLS : 16,
                                              .first_grouped = 4,
                                              .n_grouped = 12,
                                              .hard = round % 2 ? 3 : 1,
                                              .own_id = 7,
                                              .own = 0.3f,
                                              .own_log_q = -1,
                                              .temperature = 0.1,
                                              .margin = 0.2,
                                              .negative_weight = 4,
                                              .weight = 0.5};
        rk_sample_candidate_loss_args wanted = args;
        memcpy(out[0], scores, sizeof scores);
        wanted.scores = out[0];
        rk_sample_candidate_loss_scalar(&wanted);
        for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
            memcpy(out[1], scores, sizeof scores);
            args.scores = out[1];
            rk_sample_candidate_loss_on[isa](&args);
            assert_memory_equal(out[0], out[1], sizeof out[0]);
            assert_true(args.loss == wanted.loss && args.own_gradient == wanted.own_gradient);
        }
    }
    for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa);
         isa++) { /* as after a step that diverged: told, not undefined */
        rk_sample_candidate_loss_args args = {.scores = scores,
                                              .ids = ids,
                                              .log_q = log_q,
                                              .n = 16,
                                              .own_id = -2,
                                              .own = NAN,
                                              .temperature = 1,
                                              .weight = 1};
        randomize(scores, 16);
        rk_sample_candidate_loss_on[isa](&args);
        assert_true(isnan(args.loss));
    }
}

/* Rows at odd bytes; codes and queries of the largest sums. */
static void test_index_scan(void **state) {
    (void)state;
    enum { ROWS = 23 };
    static unsigned char bytes[ROWS * MAX_DIM * sizeof(float) + 1];
    static uint8_t codes[ROWS * MAX_DIM];
    static int16_t code_query[MAX_DIM];
    static float values[ROWS * MAX_DIM], query[MAX_DIM];
    static const char *const names[] = {"rk_code_products", "rk_row_products", "rk_floats_to_ordered_keys",
                                        "rk_find_keys_above", "rk_rows_argmax"};
    for (int i = 0; i < 5; i++) tried(names[i], true);
    for (int d = 0; d < N_DIMS * 2; d++) {
        int32_t dim = dims[d % N_DIMS];
        int64_t n = d < N_DIMS ? ROWS : d % 7;
        randomize(values, ROWS * MAX_DIM);
        randomize(query, MAX_DIM);
        values[3] = -0.0f;
        for (int i = 0; i < ROWS * MAX_DIM; i++) codes[i] = d ? (uint8_t)rk_rng_below(&rng, 256) : 255;
        for (int i = 0; i < MAX_DIM; i++)
            code_query[i] = d ? (int16_t)((int)rk_rng_below(&rng, 65535) - 32767) : (int16_t)-32767;
        memcpy(bytes + 1, values, sizeof values);
        for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
            int32_t products[ROWS + 1] = {0}, keys[ROWS * MAX_DIM], hits[ROWS * MAX_DIM];
            float scores[ROWS + 1] = {0};
            uint32_t best[ROWS + 1] = {0};
            int64_t n_hits, m = 0, n_keys = n * dim;
            rk_code_products_on[isa](codes, n, dim, code_query, products);
            rk_row_products_on[isa]((const rk_loose_f32 *)(bytes + 1), n, dim, query, scores);
            rk_rows_argmax_on[isa](values, n, dim, best);
            rk_floats_to_ordered_keys_on[isa](values, n_keys, keys);
            for (int64_t r = 0; r < n; r++) {
                int32_t sum = 0;
                int64_t first = 0;
                for (int32_t i = 0; i < dim; i++) {
                    sum += codes[r * dim + i] * code_query[i];
                    first = values[r * dim + i] > values[r * dim + first] ? i : first;
                }
                assert_int_equal(products[r], sum);
                assert_true(scores[r] == rk_dot_product_by_lanes(values + r * dim, query, dim));
                assert_int_equal(best[r], first);
            }
            assert_true(products[n] == 0 && scores[n] == 0 && best[n] == 0);
            for (int64_t i = 1; i < n_keys; i++)
                assert_int_equal(keys[i] > keys[i - 1], values[i] > values[i - 1]);
            int32_t least = n_keys ? keys[n_keys / 2] : 0;
            rk_find_keys_above_on[isa](keys, n_keys, least, hits, &n_hits);
            for (int64_t i = 0; i < n_keys; i++)
                if (keys[i] >= least) assert_int_equal(hits[m++], i);
            assert_int_equal(n_hits, m);
        }
    }
}

/* Stable, by place; and parts hold each row once. */
static void test_sort_uses(void **state) {
    (void)state;
    enum { MOST = 3000 };
    static rk_row_use uses[MOST], aside[MOST];
    for (int bits = 0; bits <= 32; bits++)
        for (int64_t n = 0; n <= MOST; n = n * 2 + 1) {
            for (uint32_t i = 0; i < (uint32_t)n; i++)
                uses[i] = rk_row_use_make((uint32_t)rk_rng_below(&rng, (uint64_t)1 << bits), i);
            rk_sort_row_uses(uses, n, bits, aside);
            uint64_t seen = 0;
            for (int64_t i = 0; i < n; i++) {
                assert_true(i == 0 || uses[i - 1] < uses[i]); /* by place, then the order they came in */
                seen += (uint32_t)uses[i];
            }
            assert_true(n == 0 || seen == (uint64_t)n * (uint64_t)(n - 1) / 2);
        }
}

static void test_no_kernel_escapes(void **state) {
    (void)state;
    check_all_tried(OTHER_KERNELS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_row),        cmocka_unit_test(test_candidate_row),
        cmocka_unit_test(test_index_scan),        cmocka_unit_test(test_sort_uses),
        cmocka_unit_test(test_no_kernel_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
