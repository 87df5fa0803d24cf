/* Kernels that convert rows: loads and stores in other formats, rounding, quantization. */
#include "kernels/kernel_testing.h"

#include <float.h>
#include <math.h>

#include "base/float16.h"
#include "kernels/inline/column_random_bits.h"

static void test_row_convert(void **state) {
    (void)state;
    tried("rk_row_load", true);
    tried("rk_row_store", true);
    float values[MAX_DIM], loaded[2][MAX_DIM];
    uint16_t stored[2][2 * MAX_DIM + 2];
    randomize(values, MAX_DIM);
    for (int d = 0; d < N_DIMS; d++)
        for (int dtype = RK_BF16; dtype <= RK_F16; dtype++)
            for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
                rk_rows rows[2] = {{.data = stored[0], .dtype = (rk_dtype)dtype, .dim = dims[d]},
                                   {.data = stored[1], .dtype = (rk_dtype)dtype, .dim = dims[d]}};
                memset(stored, 0, sizeof stored);
                rk_row_store_scalar(&rows[0], 1, values, 9, 77);
                rk_row_store_on[isa](&rows[1], 1, values, 9, 77);
                assert_memory_equal(stored[0], stored[1], sizeof stored[0]);
                rk_row_load_scalar(&rows[0], 1, loaded[0]);
                rk_row_load_on[isa](&rows[1], 1, loaded[1]);
                assert_memory_equal(loaded[0], loaded[1], (size_t)dims[d] * sizeof(float));
                for (int32_t k = 0; k < dims[d]; k++)
                    assert_true(fabsf(loaded[0][k] - values[k]) <= fabsf(values[k]) / 128 + 1e-4f);
            }
}

/* What may round up to infinity, is none of the numbers or subnormal in f16, beside others in a row of whole
 * vectors; and rows that are a table's columns from any on. */
static void test_row_store_edges(void **state) {
    (void)state;
    enum { DIM = 64 };
    const uint32_t edges[] = {0x7F7F0000, 0x7F7F0001, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000,
                              0x7FFFFFFF, 0xFF7F0001, 0xFF800000, 0xFFFFFFFF, 0x80000000, 0x00000001,
                              0x807FFFFF, 0x7F000000, 0x7EFFFFFF, 0x40000000, 0xDF123456, 0x387FFFFF,
                              0xB8800000, 0x33FFFFFF, 0xB37FFFFF, 0x2B800000, 0x477FEFFF, 0xC77FFFFF,
                              0x47800000, 0xB8123457, 0x35ABCDEF};
    const int32_t columns[] = {0, 3, 16, 96};
    const int n_edges = sizeof edges / sizeof *edges, n_trials = 2 * 4 * n_edges;
    float values[DIM];
    randomize(values, DIM);
    for (int t = 0; t < n_trials; t++)
        for (int at = 0; at < DIM; at++) {
            float keeps = values[at];
            bool bf16 = t % 2;
            int32_t column = columns[t / 2 % 4];
            values[at] = rk_f32_from_bits(edges[t / 8]);
            uint16_t stored[2][DIM];
            uint32_t words[4];
            rk_rows rows = {
                .data = stored[0], .dtype = bf16 ? RK_BF16 : RK_F16, .dim = DIM, .first_column = column};
            rk_rng_draw_four_words(9, 0, (uint64_t)t, words);
            for (int32_t k = 0; k < DIM; k++) {
                uint32_t random = column_random_bits(words, column + k);
                stored[1][k] = bf16 ? rk_bf16_from_f32_stochastic(values[k], random)
                                    : rk_f16_from_f32_stochastic(values[k], random);
            }
            for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
                memset(stored[0], 0xAA, sizeof stored[0]);
                rk_row_store_on[isa](&rows, 0, values, 9, (uint64_t)t);
                assert_memory_equal(stored[0], stored[1], sizeof stored[0]);
            }
            values[at] = keeps;
        }
}

/* Sums of products of what two columns' bits deviate by from what is expected of them, in their deviations.
 */
typedef struct dependence {
    double mean, next_column, other_half, next_row, next_step;
} dependence;

enum { DRAWN_STEPS = 5, DRAWN_ROWS = 2048, DRAWN_COLUMNS = 64 };
typedef double drawn_rows[DRAWN_ROWS][DRAWN_COLUMNS];

static dependence find_dependence(drawn_rows *x) {
    dependence sums = {0};
    for (int s = 0; s < DRAWN_STEPS; s++)
        for (int r = 0; r < DRAWN_ROWS; r++)
            for (int k = 0; k < DRAWN_COLUMNS; k++) {
                double own = x[s][r][k];
                sums.mean += own;
                sums.next_column += own * x[s][r][(k + 1) % DRAWN_COLUMNS];
                sums.other_half += own * x[s][r][k ^ COLUMNS_APART];
                sums.next_row += own * x[s][(r + 1) % DRAWN_ROWS][k];
                sums.next_step += own * x[(s + 1) % DRAWN_STEPS][r][k];
            }
    return sums;
}

/* That values are rounded up as often as they should, and those of neighbouring columns, rows and steps
 * independently: where half are rounded up, by the bits themselves, and where few are. */
static void test_random_bits(void **state) {
    (void)state;
    static double x[DRAWN_STEPS][DRAWN_ROWS][DRAWN_COLUMNS];
    const double n = (double)DRAWN_STEPS * DRAWN_ROWS * DRAWN_COLUMNS, limit = 5 * sqrt(n);
    const double shares[] = {1, 0.5, 0.01}; /* that are rounded up; 1: the bits */
    for (int trial = 0; trial < 3; trial++) {
        const double p = shares[trial], below = floor(p * 65536) / 65536,
                     deviation = sqrt(below * (1 - below));
        for (uint64_t s = 0; s < DRAWN_STEPS; s++)
            for (uint64_t r = 0; r < DRAWN_ROWS; r++) {
                uint32_t words[4];
                rk_rng_draw_four_words(s, 0, r, words);
                for (int32_t k = 0; k < DRAWN_COLUMNS; k++) {
                    double bits = column_random_bits(words, k);
                    x[s][r][k] = p == 1 ? (bits / 65536 - 0.5 + 0.5 / 65536) * sqrt(12)
                                        : ((bits < below * 65536) - below) / deviation;
                }
            }
        dependence d = find_dependence(x);
        assert_true(fabs(d.mean) < limit && fabs(d.next_column) < limit &&
                    fabs(d.other_half) < sqrt(2) * limit);
        assert_true(fabs(d.next_row) < limit && fabs(d.next_step) < limit);
    }
}

/* Updated halves are rounded as rk_row_store rounds them: by the words of each row's own id, though many
 * uses' are drawn at once; where some rows are used, some of them often, and where all take a step. */
static void test_rows_update_halves(void **state) {
    (void)state;
    enum { ROWS = 41, DIM = 32, SEED = 5, OFTEN = 77 };
    static float gradients[ROWS * DIM];
    static uint16_t first[ROWS * DIM], table[ROWS * DIM], expected[ROWS * DIM];
    const rk_update update = {.kind = RK_OPTIMIZER_SGD, .learning_rate = 0.5f};
    const rk_gradient_source source = {.data = gradients, .stride = DIM, .length = 1};
    int64_t keys[ROWS];
    rk_row_use uses[ROWS * OFTEN];
    int64_t n = 0, counts[ROWS];
    randomize(gradients, ROWS * DIM);
    for (int64_t r = 0; r < ROWS; r++) keys[r] = r * r + 1000;
    for (uint32_t r = 0; r < ROWS; r++) {
        counts[r] = r % 5 == 0 ? 0 : r % 7 == 3 ? OFTEN - r : 1 + r % 2;
        for (int64_t i = 0; i < counts[r]; i++) uses[n++] = rk_row_use_make(r, r);
    }
    for (int trial = 0; trial < 4; trial++)
        for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
            bool all = trial & 1;
            rk_dtype dtype = trial & 2 ? RK_F16 : RK_BF16;
            rk_rows rows = {.data = first, .dtype = dtype, .dim = DIM, .keys = keys, .key_stride = 1};
            float row[DIM];
            for (int64_t r = 0; r < ROWS; r++) {
                for (int32_t k = 0; k < DIM; k++) row[k] = gradients[(ROWS - 1 - r) * DIM + k];
                rk_row_store_scalar(&rows, r, row, 1, 1);
            }
            memcpy(expected, first, sizeof first);
            rk_rows to = rows;
            to.data = expected;
            for (int64_t r = 0; r < ROWS; r++) {
                if (!counts[r] && !all) continue;
                rk_row_load_scalar(&rows, r, row);
                for (int32_t k = 0; k < DIM; k++) {
                    float g = 0;
                    for (int64_t i = 0; i < counts[r]; i++) g += gradients[r * DIM + k];
                    g += (all ? 0.125f : 0) * row[k];
                    row[k] -= 0.5f * g;
                }
                rk_row_store_scalar(&to, r, row, SEED, (uint64_t)keys[r]);
            }
            memcpy(table, first, sizeof first);
            rows.data = table;
            rk_fused_update_on[isa](&(rk_fused_update_args){.rows = rows,
                                                            .n_places = ROWS,
                                                            .update = &update,
                                                            .uses = uses,
                                                            .n_uses = n,
                                                            .sources = &source,
                                                            .n_sources = 1,
                                                            .l2_full = all ? 0.125f : 0,
                                                            .seed = SEED});
            assert_memory_equal(table, expected, sizeof table);
        }
}

static void test_bf16_round(void **state) {
    (void)state;
    tried("rk_bf16_round", true);
    float values[MAX_DIM] = {0.0f,   -0.0f,   INFINITY,    -INFINITY,  NAN,
                             1e-40f, FLT_MAX, 1.00390625f, 1.01171875f},
          wide[2][MAX_DIM];
    uint16_t halves[2][MAX_DIM];
    randomize(values + 9, MAX_DIM - 9);
    for (int d = 0; d < N_DIMS; d++)
        for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
            memset(halves, 0xAA, sizeof halves);
            memset(wide, 0xAA, sizeof wide);
            rk_bf16_round_scalar(values, halves[0], dims[d], false);
            rk_bf16_round_on[isa](values, halves[1], dims[d], false);
            rk_bf16_round_scalar(values, wide[0], dims[d], true);
            rk_bf16_round_on[isa](values, wide[1], dims[d], true);
            assert_memory_equal(halves[0], halves[1], sizeof halves[0]);
            assert_memory_equal(wide[0], wide[1], sizeof wide[0]);
            for (int32_t k = 0; k < dims[d]; k++) assert_int_equal(halves[0][k], rk_bf16_from_f32(values[k]));
            for (int32_t k = 0; k < dims[d]; k++)
                assert_true(rk_f32_bits(wide[0][k]) == (uint32_t)halves[0][k] << 16);
        }
    rk_bf16_round_scalar(values + 7, halves[0], 2, false);
    assert_int_equal(halves[0][0], 0x3F80); /* halfway: to even, down */
    assert_int_equal(halves[0][1], 0x3F82); /* and up */
}

/* Every half there is, widened and rounded back; and floats of all magnitudes. */
static void test_halves(void **state) {
    (void)state;
    tried("rk_f32_to_16_bits", true);
    tried("rk_f32_from_16_bits", true);
    enum { N = 65536 + 7 };
    static float wide[2][N];
    static uint16_t halves[2][N], all[N];
    for (int i = 0; i < N; i++) all[i] = (uint16_t)i;
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
            rk_f32_from_16_bits_scalar(all, N, bf16, wide[0]);
            rk_f32_from_16_bits_on[isa](all, N, bf16, wide[1]);
            assert_memory_equal(wide[0], wide[1], sizeof wide[0]);
            for (int i = 0; i < N; i++)
                assert_int_equal(rk_f32_bits(wide[0][i]),
                                 rk_f32_bits(bf16 ? rk_bf16_to_f32(all[i]) : rk_f16_to_f32(all[i])));
            for (int i = 0; i < N; i++) wide[0][i] = rk_f32_from_bits((uint32_t)i * 65521u);
            rk_f32_to_16_bits_scalar(wide[0], N, bf16, halves[0]);
            rk_f32_to_16_bits_on[isa](wide[0], N, bf16, halves[1]);
            assert_memory_equal(halves[0], halves[1], sizeof halves[0]);
            for (int i = 0; i < N; i++)
                assert_int_equal(halves[0][i], bf16 ? rk_bf16_from_f32_finite(wide[0][i])
                                                    : rk_f16_from_f32_finite(wide[0][i]));
        }
}

/* Among the rows are one of a single value and, but for bad = -1, one that codes cannot hold. */
static void test_rows_quantize(void **state) {
    (void)state;
    tried("rk_rows_quantize", true);
    enum { N = 12 };
    static float rows[N * MAX_DIM];
    static uint8_t out[2][N * (MAX_DIM + 8)];
    for (int d = 0; d < 4 * 2 * N_DIMS; d++) {
        int bits = d % 2 ? 8 : 4, bad = d / 2 % 4 - 1;
        int64_t dim = dims[d / 8], width = bits == 8 ? dim + 8 : (dim + 1) / 2 + 4, failed[2];
        randomize(rows, (size_t)(N * dim));
        for (int64_t i = 0; i < N * dim; i++) rows[i] *= exp2f((float)(i / dim * 6 - 40));
        for (int64_t i = 0; i < dim; i++) rows[i] = 0.25f;
        if (bad >= 0) rows[7 * dim + dim / 2] = (float[]){NAN, INFINITY, -INFINITY}[bad];
        for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
            memset(out, 0xAA, sizeof out);
            rk_rows_quantize_scalar(rows, N, dim, bits, out[0], width, &failed[0]);
            rk_rows_quantize_on[isa](rows, N, dim, bits, out[1], width, &failed[1]);
            assert_memory_equal(out[0], out[1], sizeof out[0]);
            if (bits == 8 || bad >= 0) /* the last rows are beyond what f16 holds */
                assert_int_equal(failed[0], bad < 0 ? -1 : 7);
            assert_int_equal(failed[1], failed[0]);
        }
    }
}

static void test_no_kernel_escapes(void **state) {
    (void)state;
    check_all_tried(ROUNDING_KERNELS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_convert),   cmocka_unit_test(test_row_store_edges),
        cmocka_unit_test(test_random_bits),   cmocka_unit_test(test_rows_update_halves),
        cmocka_unit_test(test_bf16_round),    cmocka_unit_test(test_halves),
        cmocka_unit_test(test_rows_quantize), cmocka_unit_test(test_no_kernel_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
