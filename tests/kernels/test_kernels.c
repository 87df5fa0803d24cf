/* Every kernel of kernel_list.h, on every instruction set that this processor has, against the scalar reference: the same bits, at odd sizes. */
#include "testing.h"

#include <math.h>

#include "base/cpu.h"
#include "base/rng.h"
#include "kernels/kernel_list.h"

/* One pointer a version of each kernel. */
#define KERNEL_TABLE(name, parameters, arguments) static void(*const name##_on[RK_ISA_COUNT]) parameters = {name##_scalar, name##_avx2, name##_avx512};
RK_KERNEL_LIST(KERNEL_TABLE)
#undef KERNEL_TABLE

static const int32_t dims[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 129};
enum { N_DIMS = sizeof dims / sizeof dims[0], MAX_DIM = 129, N_ROWS = 50, N_BAGS = 40, N_IDS = 150 };
static rk_rng rng = {1, 2, 3};

static void randomize(float *values, size_t n) {
    for (size_t i = 0; i < n; i++) values[i] = (float)rk_rng_normal(&rng);
}

static bool tried(const char *name, bool mark) {
    static char seen[32][64];
    static int n;
    for (int i = 0; i < n; i++)
        if (strcmp(seen[i], name) == 0) return true;
    if (mark) snprintf(seen[n++], sizeof seen[0], "%s", name);
    return false;
}

static void test_bag_forward(void **state) {
    (void)state;
    tried("rk_bag_forward", true);
    static float values[N_ROWS * MAX_DIM], expected[N_BAGS * (MAX_DIM + 1)], out[N_BAGS * (MAX_DIM + 1)], coefficients[N_IDS], scales[N_BAGS];
    static uint16_t halves[N_ROWS * MAX_DIM];
    int64_t offsets[N_BAGS + 1] = {0}, ids[N_IDS];
    for (int b = 0; b < N_BAGS; b++) offsets[b + 1] = offsets[b] + (b % 5 == 0 ? 0 : b % 7);
    for (int i = 0; i < N_IDS; i++) ids[i] = (int64_t)rk_rng_below(&rng, N_ROWS);
    randomize(values, N_ROWS * MAX_DIM);
    randomize(coefficients, N_IDS);
    randomize(scales, N_BAGS);
    for (int d = 0; d < N_DIMS; d++)
        for (int dtype = 0; dtype < RK_DTYPE_COUNT; dtype++)
            for (int given = 0; given < 4; given++) {
                int32_t dim = dims[d];
                rk_rows rows = {dtype == RK_F32 ? (void *)values : (void *)halves, (rk_dtype)dtype, dim};
                for (int r = 0; r < N_ROWS && dtype != RK_F32; r++) rk_row_store_scalar(&rows, r, values + r * dim, 1, (uint64_t)r);
                rk_bag_forward_args args = {rows, offsets, ids, given & 1 ? coefficients : NULL, given & 2 ? scales : NULL, expected, dim + 1, 1, N_BAGS};
                memset(expected, 0, sizeof expected);
                rk_bag_forward_scalar(&args);
                for (int b = 1; b < N_BAGS; b++) { /* the reference itself, against the doc comment's loop in double */
                    float row[MAX_DIM];
                    for (int32_t k = 0; k < dim; k++) {
                        double sum = 0;
                        for (int64_t i = offsets[b]; i < offsets[b + 1]; i++) {
                            rk_row_load_scalar(&rows, ids[i], row);
                            sum += (given & 1 ? (double)coefficients[i] : 1) * row[k];
                        }
                        if (given & 2) sum *= scales[b];
                        assert_true(fabs(sum - expected[b * (dim + 1) + k]) < 1e-5 * (1 + fabs(sum)));
                    }
                }
                for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has((rk_isa)isa); isa++) {
                    memset(out, 0, sizeof out);
                    args.out = out;
                    rk_bag_forward_on[isa](&args);
                    assert_memory_equal(out, expected, sizeof out);
                }
            }
}

static void test_grad_sum(void **state) {
    (void)state;
    tried("rk_grad_sum", true);
    static float gradients[20 * MAX_DIM], expected[MAX_DIM], out[MAX_DIM];
    rk_occurrence occurrences[20];
    randomize(gradients, 20 * MAX_DIM);
    for (int i = 0; i < 20; i++) occurrences[i] = (rk_occurrence){gradients + i * MAX_DIM, (float)rk_rng_normal(&rng)};
    for (int d = 0; d < N_DIMS; d++)
        for (int64_t n = 0; n < 20; n += 3) {
            rk_grad_sum_scalar(occurrences, n, dims[d], expected);
            for (int32_t k = 0; k < dims[d]; k++) {
                double sum = 0;
                for (int64_t i = 0; i < n; i++) sum += (double)occurrences[i].coefficient * occurrences[i].gradient[k];
                assert_true(fabs(sum - expected[k]) < 1e-5 * (1 + fabs(sum)));
            }
            for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has((rk_isa)isa); isa++) {
                rk_grad_sum_on[isa](occurrences, n, dims[d], out);
                assert_memory_equal(out, expected, (size_t)dims[d] * sizeof(float));
            }
        }
}

static void test_row_update(void **state) {
    (void)state;
    tried("rk_row_update", true);
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++)
        for (int d = 0; d < N_DIMS; d++)
            for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has((rk_isa)isa); isa++) {
                float w[2][MAX_DIM], a[2][MAX_DIM], b[2][MAX_DIM], g[2][MAX_DIM];
                randomize(w[0], MAX_DIM);
                for (int k = 0; k < MAX_DIM; k++) a[0][k] = b[0][k] = 0.1f;
                memcpy(w[1], w[0], sizeof w[0]);
                memcpy(a[1], a[0], sizeof a[0]);
                memcpy(b[1], b[0], sizeof b[0]);
                rk_update u = {.kind = (rk_optimizer_kind)kind, .learning_rate = 0.1f, .epsilon = 1e-7f, .momentum = 0.9f, .beta1 = 0.9f, .beta2 = 0.99f, .m_scale = 2, .v_scale = 3,
                               .l1 = 0.01f, .l2 = 0.02f, .power = -0.5f, .exponent = 2, .trust_coefficient = 0.01f, .weight_decay = 0.01f, .decay = 0.001f,
                               .clip_gradient_min = -1, .clip_gradient_max = 1, .clip_weight_min = -2, .clip_weight_max = 2, .nesterov = d & 1, .clips_gradient = true, .clips_weight = d & 2};
                for (int step = 0; step < 4; step++) {
                    randomize(g[0], MAX_DIM);
                    memcpy(g[1], g[0], sizeof g[0]);
                    rk_row_update_scalar(&u, w[0], a[0], b[0], g[0], dims[d]);
                    rk_row_update_on[isa](&u, w[1], a[1], b[1], g[1], dims[d]);
                    assert_memory_equal(w[0], w[1], sizeof w[0]);
                    assert_memory_equal(a[0], a[1], sizeof a[0]);
                    assert_memory_equal(b[0], b[1], sizeof b[0]);
                }
            }
}

static void test_row_convert(void **state) {
    (void)state;
    tried("rk_row_load", true);
    tried("rk_row_store", true);
    float values[MAX_DIM], loaded[2][MAX_DIM];
    uint16_t stored[2][2 * MAX_DIM + 2];
    randomize(values, MAX_DIM);
    for (int d = 0; d < N_DIMS; d++)
        for (int dtype = RK_BF16; dtype <= RK_F16; dtype++)
            for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has((rk_isa)isa); isa++) {
                rk_rows rows[2] = {{stored[0], (rk_dtype)dtype, dims[d]}, {stored[1], (rk_dtype)dtype, dims[d]}};
                memset(stored, 0, sizeof stored);
                rk_row_store_scalar(&rows[0], 1, values, 9, 77);
                rk_row_store_on[isa](&rows[1], 1, values, 9, 77);
                assert_memory_equal(stored[0], stored[1], sizeof stored[0]);
                rk_row_load_scalar(&rows[0], 1, loaded[0]);
                rk_row_load_on[isa](&rows[1], 1, loaded[1]);
                assert_memory_equal(loaded[0], loaded[1], (size_t)dims[d] * sizeof(float));
                for (int32_t k = 0; k < dims[d]; k++) assert_true(fabsf(loaded[0][k] - values[k]) <= fabsf(values[k]) / 128 + 1e-4f);
            }
}

static void test_interaction(void **state) {
    (void)state;
    tried("rk_interaction_forward", true);
    tried("rk_interaction_backward", true);
    enum { N = 3, VECTORS = 5, PAIRS = 10 };
    static float x[N * VECTORS * MAX_DIM], out[2][N * PAIRS], dx[2][N * VECTORS * MAX_DIM];
    randomize(x, N * VECTORS * MAX_DIM);
    for (int d = 0; d < N_DIMS; d++)
        for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has((rk_isa)isa); isa++) {
            rk_interaction_forward_scalar(x, N, VECTORS, dims[d], out[0]);
            rk_interaction_forward_on[isa](x, N, VECTORS, dims[d], out[1]);
            assert_memory_equal(out[0], out[1], sizeof out[0]);
            memset(dx, 0, sizeof dx);
            rk_interaction_backward_scalar(x, out[0], N, VECTORS, dims[d], dx[0]);
            rk_interaction_backward_on[isa](x, out[0], N, VECTORS, dims[d], dx[1]);
            assert_memory_equal(dx[0], dx[1], sizeof dx[0]);
        }
}

static int compare(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : (x[1] < y[1] ? -1 : x[1] > y[1]);
}

static void test_unique_ids(void **state) {
    (void)state;
    enum { MOST = 3000 };
    static int64_t ids[MOST], unique[MOST], pairs[MOST][2];
    static uint32_t order[MOST], starts[MOST + 1];
    static const int64_t ranges[] = {1, 2, 255, 256, 257, 100000, (int64_t)1 << 40, ((int64_t)1 << 62) - 1};
    void *scratch = malloc(rk_unique_ids_scratch(MOST));
    for (int r = 0; r < 8; r++)
        for (size_t n = 0; n <= MOST; n = n * 3 + 1) {
            for (size_t i = 0; i < n; i++) {
                ids[i] = (int64_t)rk_rng_below(&rng, (uint64_t)ranges[r]);
                pairs[i][0] = ids[i];
                pairs[i][1] = (int64_t)i;
            }
            qsort(pairs, n, sizeof pairs[0], compare);
            size_t n_unique = rk_unique_ids(ids, n, ranges[r] - 1, order, unique, starts, scratch), u = 0;
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(order[i], pairs[i][1]);
                if (i && pairs[i][0] == pairs[i - 1][0]) continue;
                assert_true(unique[u] == pairs[i][0] && starts[u] == i);
                u++;
            }
            assert_int_equal(n_unique, u);
            assert_int_equal(starts[n_unique], n);
        }
    free(scratch);
}

static void test_no_kernel_escapes(void **state) {
    (void)state;
#define CHECK_TRIED(name, parameters, arguments) \
    if (!tried(#name, false)) fail_msg("kernel %s has no test", #name);
    RK_KERNEL_LIST(CHECK_TRIED)
#undef CHECK_TRIED
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bag_forward), cmocka_unit_test(test_grad_sum),   cmocka_unit_test(test_row_update), cmocka_unit_test(test_row_convert),
        cmocka_unit_test(test_interaction), cmocka_unit_test(test_unique_ids), cmocka_unit_test(test_no_kernel_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
