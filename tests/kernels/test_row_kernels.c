/* Kernels of rows: lookups, sums of gradients and updates. */
#include "kernels/kernel_testing.h"

#include <float.h>
#include <math.h>

/* Forms of rows: the dtypes, and codes of 8 and of 4 bits whose tails stand behind them or apart. */
enum { CODES_BEHIND = RK_ROW_DTYPE_COUNT, N_FORMS = RK_ROW_DTYPE_COUNT + 4, ROW_BYTES = 4 * MAX_DIM };

static rk_rows rows_of_form(int form, int32_t dim, const float *values, uint8_t *memory) {
    static uint8_t fused[ROW_BYTES];
    rk_rows rows = {
        .data = form == RK_F32 ? (void *)(size_t)values : memory, .dtype = (rk_dtype)form, .dim = dim};
    for (int r = 0; r < N_ROWS && form != RK_F32 && form < CODES_BEHIND; r++)
        rk_row_store_scalar(&rows, r, values + r * dim, 1, (uint64_t)r);
    if (form < CODES_BEHIND) return rows;
    bool behind = form < CODES_BEHIND + 2;
    int bits = form % 2 ? 8 : 4;
    int64_t failed, n = bits == 8 ? dim : (dim + 1) / 2, tail = bits == 8 ? 4 : 2, width = n + 2 * tail;
    uint8_t *scales = behind ? memory + n : memory + N_ROWS * n,
            *minima = scales + (behind ? tail : N_ROWS * tail);
    rows.dtype = RK_U8;
    rows.codes = (rk_row_codes){bits, scales, minima, behind ? width : n, behind ? width : tail};
    for (int r = 0; r < N_ROWS; r++) {
        rk_rows_quantize_scalar(values + r * dim, 1, dim, bits, fused, width, &failed);
        assert_int_equal(failed, -1);
        memcpy(memory + r * rows.codes.stride, fused, (size_t)n);
        memcpy(scales + r * rows.codes.tail_stride, fused + n, (size_t)tail);
        memcpy(minima + r * rows.codes.tail_stride, fused + n + tail, (size_t)tail);
    }
    return rows;
}

static void test_bag_forward(void **state) {
    (void)state;
    tried("rk_bag_forward", true);
    static float values[N_ROWS * MAX_DIM], expected[N_BAGS * (MAX_DIM + 1)], out[N_BAGS * (MAX_DIM + 1)],
        coefficients[N_IDS], scales[N_BAGS];
    static _Alignas(float) uint8_t memory[N_ROWS * ROW_BYTES];
    int64_t offsets[N_BAGS + 1] = {0}, ids[N_IDS];
    for (int b = 0; b < N_BAGS; b++) offsets[b + 1] = offsets[b] + (b % 5 == 0 ? 0 : b % 7);
    for (int i = 0; i < N_IDS; i++) ids[i] = (int64_t)rk_rng_below(&rng, N_ROWS);
    randomize(values, N_ROWS * MAX_DIM);
    randomize(coefficients, N_IDS);
    randomize(scales, N_BAGS);
    for (int d = 0; d < N_DIMS; d++)
        for (int form = 0; form < N_FORMS; form++)
            for (int given = 0; given < 4; given++) {
                int32_t dim = dims[d];
                rk_rows rows = rows_of_form(form, dim, values, memory);
                rk_bag_forward_args args = {rows,
                                            0,
                                            NULL,
                                            false,
                                            offsets,
                                            ids,
                                            given & 1 ? coefficients : NULL,
                                            given & 2 ? scales : NULL,
                                            expected,
                                            dim + 1,
                                            1,
                                            N_BAGS};
                memset(expected, 0, sizeof expected);
                rk_bag_forward_scalar(&args);
                for (int b = 1; b < N_BAGS;
                     b++) { /* the reference itself, against the doc comment's loop in double */
                    float row[MAX_DIM];
                    for (int32_t k = 0; k < dim; k++) {
                        double sum = 0;
                        for (int64_t i = offsets[b]; i < offsets[b + 1]; i++) {
                            rk_row_load_scalar(&rows, ids[i], row);
                            sum += (given & 1 ? (double)coefficients[i] : 1) * row[k];
                        }
                        if (given & 2) sum *= scales[b];
                        assert_true(fabs(sum - expected[(b - 1) * (dim + 1) + k]) < 1e-5 * (1 + fabs(sum)));
                    }
                }
                for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
                    memset(out, 0, sizeof out);
                    args.out = out;
                    rk_bag_forward_on[isa](&args);
                    assert_memory_equal(out, expected, sizeof out);
                }
            }
}

/* Bags of one id each: rows as rk_row_load gives them. */
static void test_bag_forward_single(void **state) {
    (void)state;
    static float values[N_ROWS * MAX_DIM], out[N_BAGS * (MAX_DIM + 1)];
    static _Alignas(float) uint8_t memory[N_ROWS * ROW_BYTES];
    int64_t ids[N_BAGS];
    randomize(values, N_ROWS * MAX_DIM);
    for (int b = 0; b < N_BAGS; b++) ids[b] = (int64_t)rk_rng_below(&rng, N_ROWS);
    for (int d = 0; d < N_DIMS; d++)
        for (int form = 0; form < N_FORMS; form++) {
            int32_t dim = dims[d];
            rk_rows rows = rows_of_form(form, dim, values, memory);
            for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
                rk_bag_forward_on[isa](&(rk_bag_forward_args){.rows = rows,
                                                              .single = true,
                                                              .ids = ids,
                                                              .out = out,
                                                              .stride = dim + 1,
                                                              .first = 3,
                                                              .last = N_BAGS});
                for (int b = 3; b < N_BAGS; b++) {
                    float row[MAX_DIM];
                    rk_row_load_scalar(&rows, ids[b], row);
                    assert_memory_equal(out + (b - 3) * (dim + 1), row, (size_t)dim * sizeof(float));
                }
            }
        }
}

/* Strays are told, wherever they stand; without any, or unasked, nothing is. */
static void test_bag_forward_strays(void **state) {
    (void)state;
    enum { N = 600, EVERY = 7 };
    static const int64_t strays[] = {-1, INT64_MIN, N_ROWS, INT64_MAX};
    static float values[N_ROWS * MAX_DIM], out[N * MAX_DIM], expected[N * MAX_DIM];
    static int64_t offsets[N + 1], ids[N];
    for (int i = 0; i < N; i++) {
        ids[i] = i % N_ROWS;
        offsets[i + 1] = i % 3 ? offsets[i] : i + 1;
    }
    offsets[N] = N;
    randomize(values, N_ROWS * MAX_DIM);
    for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++)
        for (int single = 0; single < 2; single++) {
            bool told = false;
            rk_bag_forward_args args = {.rows = {.data = values, .dim = 16},
                                        .n_rows = N_ROWS,
                                        .single = single,
                                        .offsets = offsets,
                                        .ids = ids,
                                        .out = expected,
                                        .stride = 16,
                                        .first = 3,
                                        .last = N};
            rk_bag_forward_on[isa](&args);
            args.strays = &told;
            args.out = out;
            rk_bag_forward_on[isa](&args);
            assert_false(told);
            assert_memory_equal(out, expected, sizeof out);
            for (int at = 0; at < N; at += EVERY) {
                int64_t keeps = ids[at];
                ids[at] = strays[at % 4];
                rk_bag_forward_on[isa](&args);
                assert_true(told == (at >= (single ? 3 : offsets[3])));
                told = false;
                ids[at] = keeps;
            }
        }
}

static void test_ids_check(void **state) {
    (void)state;
    tried("rk_ids_check", true);
    enum { N = 41 };
    static const int64_t edges[] = {-1, INT64_MIN, 0, 9, 10, 11, INT64_MAX, INT64_MAX - 9};
    int64_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = i % 10;
    for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++)
        for (int n = 0; n <= N; n++)
            for (int e = 0; e < 8 * n || e == 0; e++) {
                bool strays = !n;
                int64_t keeps = ids[e / 8];
                if (n) ids[e / 8] = edges[e % 8];
                rk_ids_check_on[isa](ids, n, 10, &strays);
                assert_true(strays == (n && (edges[e % 8] < 0 || edges[e % 8] >= 10)));
                ids[e / 8] = keeps;
            }
}

/* One value that is not finite is found wherever it is, and the largest that are finite are not. */
static void test_finite_check(void **state) {
    (void)state;
    tried("rk_finite_check", true);
    enum { N = 70 };
    static const float edges[] = {INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, FLT_TRUE_MIN, -0.0f};
    float values[N];
    randomize(values, N);
    for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++)
        for (int n = 0; n <= N; n++)
            for (int at = 0; at < (n ? n : 1); at++)
                for (int e = 0; e < 7; e++) {
                    bool finite = n == 0;
                    float keeps = values[at];
                    values[at] = edges[e];
                    rk_finite_check_on[isa](values, n, &finite);
                    assert_true(finite == (n == 0 || e > 2));
                    values[at] = keeps;
                }
}

/* Two features of a table of 50 rows in parts of 16, by the equations of fused_update.h in double, with sgd:
 * part by part, all versions. */
static void test_rows_update(void **state) {
    (void)state;
    tried("rk_fused_update", true);
    enum { SHIFT = 4, USES = 90, BAGS = 30 };
    static float gradients[2 * BAGS * MAX_DIM], table[N_ROWS * MAX_DIM], first[N_ROWS * MAX_DIM],
        expected[N_ROWS * MAX_DIM], coefficients[USES], scales[BAGS];
    static uint32_t bags[USES];
    int64_t rows[USES];
    rk_update update = {.kind = RK_OPTIMIZER_SGD, .learning_rate = 0.5f};
    randomize(gradients, 2 * BAGS * MAX_DIM);
    randomize(first, N_ROWS * MAX_DIM);
    randomize(coefficients, USES);
    randomize(scales, BAGS);
    for (int i = 0; i < USES; i++) {
        rows[i] = i < 20 ? 7 : (int64_t)rk_rng_below(&rng, N_ROWS);
        bags[i] = (uint32_t)rk_rng_below(&rng, BAGS * 2);
    }
    for (int d = 0; d < N_DIMS; d++)
        /* two features; weighted; l2; l2_full; one feature; the same without scales */
        for (int kind = 0; kind < 6; kind++) {
            int32_t dim = dims[d], n_sources = kind < 4 ? 2 : 1;
            uint32_t n_bags = (uint32_t)n_sources * BAGS;
            rk_gradient_source sources[2] = {
                {.data = gradients, .stride = dim, .length = 1, .scales = kind == 5 ? NULL : scales},
                {.data = gradients + BAGS * MAX_DIM, .stride = 3 * dim, .length = 3, .first_bag = BAGS}};
            float l2 = kind == 2 ? 0.25f : 0, l2_full = kind == 3 ? 0.125f : 0;
            for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
                memcpy(table, first, sizeof table);
                for (int64_t part = 0; part <= (N_ROWS - 1) >> SHIFT; part++) {
                    rk_row_use uses[USES], aside[USES];
                    int64_t n = 0;
                    for (uint32_t i = 0; i < USES; i++)
                        if (rows[i] >> SHIFT == part)
                            uses[n++] =
                                rk_row_use_make((uint32_t)(rows[i] & 15), kind == 1 ? i : bags[i] % n_bags);
                    rk_sort_row_uses(uses, n, 4, aside);
                    rk_fused_update_args args = {.rows = {.data = table, .dtype = RK_F32, .dim = dim},
                                                 .first_row = part << SHIFT,
                                                 .n_places = part == 3 ? N_ROWS - 48 : 16,
                                                 .update = &update,
                                                 .uses = uses,
                                                 .n_uses = n,
                                                 .sources = sources,
                                                 .n_sources = n_sources,
                                                 .bags = kind == 1 ? bags : NULL,
                                                 .coefficients = kind == 1 ? coefficients : NULL,
                                                 .l2 = l2,
                                                 .l2_full = l2_full};
                    rk_fused_update_on[isa](&args);
                }
                if (isa == 0)
                    memcpy(expected, table, sizeof table);
                else
                    assert_memory_equal(table, expected, (size_t)N_ROWS * (size_t)dim * sizeof(float));
            }
            for (int64_t row = 0; row < N_ROWS; row++)
                for (int32_t k = 0; k < dim; k++) {
                    double g = 0, w = first[row * dim + k];
                    bool used = false;
                    for (int i = 0; i < USES; i++) {
                        if (rows[i] != row) continue;
                        uint32_t b = bags[i] % n_bags;
                        double c = kind == 1 ? coefficients[i] : b < BAGS && kind != 5 ? scales[b] : 1;
                        g += c * (b < BAGS ? gradients[(int64_t)b * dim + k]
                                           : gradients[BAGS * MAX_DIM + (int64_t)(b - BAGS) * dim + k]);
                        used = true;
                    }
                    if (used) g += l2 * w;
                    double want = w - 0.5 * (g + l2_full * w);
                    assert_true(fabs(want - expected[row * dim + k]) < 2e-5 * (1 + fabs(want)));
                }
        }
}

/* What a step may have beside its rule. */
enum {
    RULE_ALONE,
    WITH_CLIPPED_GRADIENTS,
    WITH_DECAY,
    WITH_CLIPPED_WEIGHTS,
    WITH_L2,
    WITH_L2_FULL,
    N_EXTRAS
};

static rk_update update_of_rule(rk_optimizer_kind kind, int extra) {
    return (rk_update){.kind = kind,
                       .learning_rate = 0.1f,
                       .epsilon = 1e-8f,
                       .momentum = 0.9f,
                       .beta1 = 0.9f,
                       .beta2 = 0.99f,
                       .m_scale = 10,
                       .v_scale = 100,
                       .power = -0.5f,
                       .exponent = 2,
                       .trust_coefficient = 0.1f,
                       .decay = extra == WITH_DECAY ? 0.25f : 0,
                       .clip_gradient_min = -0.5f,
                       .clip_gradient_max = 0.5f,
                       .clip_weight_min = -0.75f,
                       .clip_weight_max = 0.75f,
                       .clips_gradient = extra == WITH_CLIPPED_GRADIENTS,
                       .clips_weight = extra == WITH_CLIPPED_WEIGHTS};
}

/* The uses of one feature's bags, by every rule, to the bit: rows' gradients summed, each row's step and its
 * store by kernels of their own. One row has many uses, some have none, the others have up to two. */
static void try_rule(const rk_update *update, int extra, rk_dtype dtype, int32_t dim, bool scaled) {
    enum { ROWS = 17, USES = 30, SEED = 5 };
    static const int slot_counts[RK_OPTIMIZER_COUNT][2] = {
        [RK_OPTIMIZER_MOMENTUM] = {2, 0},
        [RK_OPTIMIZER_ADAGRAD] = {2, 0},
        [RK_OPTIMIZER_ROWWISE_ADAGRAD] = {1, 0},
        [RK_OPTIMIZER_ADAM] = {2, 2},
        [RK_OPTIMIZER_ADAMW] = {2, 2},
        [RK_OPTIMIZER_ROWWISE_ADAM] = {2, 1},
        [RK_OPTIMIZER_FTRL] = {2, 2},
        [RK_OPTIMIZER_ADAGRAD_MOMENTUM] = {2, 2},
        [RK_OPTIMIZER_LAMB] = {2, 2},
        [RK_OPTIMIZER_LARS] = {2, 0},
    };
    static float gradients[USES * MAX_DIM], values[ROWS * MAX_DIM], sums[ROWS * MAX_DIM], scales[USES],
        slots[2][2][ROWS * MAX_DIM], row[MAX_DIM];
    static float tables[2][ROWS * MAX_DIM];
    const rk_gradient_source source = {
        .data = gradients, .stride = dim, .length = 1, .scales = scaled ? scales : NULL};
    const float decay = 0.25f;
    rk_row_use uses[USES];
    randomize(gradients, USES * MAX_DIM);
    randomize(values, ROWS * MAX_DIM);
    randomize(scales, USES);
    for (uint32_t u = 0; u < USES; u++) uses[u] = rk_row_use_make(u < 3 ? u : u < 20 ? 3 : u / 2 - 5, u);
    uses[USES - 1] = rk_row_use_make(ROWS - 1, USES - 1);
    for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
        rk_rows rows[2] = {{.data = tables[0], .dtype = dtype, .dim = dim},
                           {.data = tables[1], .dtype = dtype, .dim = dim}};
        rk_fused_update_args args = {.rows = rows[0],
                                     .n_places = ROWS,
                                     .update = update,
                                     .uses = uses,
                                     .n_uses = USES,
                                     .sources = &source,
                                     .n_sources = 1,
                                     .l2 = extra == WITH_L2 ? decay : 0,
                                     .l2_full = extra == WITH_L2_FULL ? decay : 0,
                                     .seed = SEED};
        memset(tables, 0, sizeof tables);
        for (int64_t r = 0; r < ROWS; r++)
            for (int side = 0; side < 2; side++) rk_row_store_scalar(&rows[side], r, values + r * dim, 1, 1);
        for (int s = 0; s < 2; s++) {
            int count = slot_counts[update->kind][s];
            for (int i = 0; i < ROWS * MAX_DIM; i++) slots[s][0][i] = slots[s][1][i] = 0.01f;
            args.slots[s] = count ? slots[s][0] : NULL;
            args.slot_widths[s] = count == 1 ? 1 : dim;
        }
        rk_fused_update_on[isa](&args);
        rk_sum_row_gradients_scalar(&(rk_sum_row_gradients_args){.from = args, .out = sums});
        const float *sum = sums;
        for (int64_t r = 0, u = 0; r < ROWS; r++) {
            float g[MAX_DIM] = {0};
            const bool used = u < USES && rk_row_use_place(uses[u]) == r;
            while (u < USES && rk_row_use_place(uses[u]) == r) u++;
            if (used) memcpy(g, sum, (size_t)dim * sizeof *g), sum += dim;
            if (!used && args.l2_full == 0) continue;
            rk_row_load_scalar(&rows[1], r, row);
            for (int32_t k = 0; k < dim && extra >= WITH_L2; k++) g[k] += decay * row[k];
            rk_optimizer_step_scalar(update, row,
                                     args.slots[0] ? slots[0][1] + r * args.slot_widths[0] : NULL,
                                     args.slots[1] ? slots[1][1] + r * args.slot_widths[1] : NULL, g, dim);
            rk_row_store_scalar(&rows[1], r, row, SEED, (uint64_t)r);
        }
        assert_memory_equal(tables[0], tables[1], sizeof tables[0]);
        for (int s = 0; s < 2; s++) assert_memory_equal(slots[s][0], slots[s][1], sizeof slots[s][0]);
    }
}

static void test_rows_update_by_rules(void **state) {
    (void)state;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++)
        for (int extra = 0; extra < N_EXTRAS; extra++) {
            rk_update update = update_of_rule((rk_optimizer_kind)kind, extra);
            for (int d = 0; d < N_DIMS; d++)
                for (int dtype = 0; dtype < RK_ROW_DTYPE_COUNT; dtype++)
                    for (int scaled = 0; scaled < 2; scaled++)
                        try_rule(&update, extra, (rk_dtype)dtype, dims[d], scaled);
        }
}

/* The sum of the leaves first .. last-1 of a tree, as its definition says it; false if none is there. */
static bool sum_of_tree(const float *leaves, const bool *there, int first, int last, float *out) {
    if (last - first == 1) *out = leaves[first];
    if (last - first == 1) return there[first];
    float left, right;
    bool has_left = sum_of_tree(leaves, there, first, (first + last) / 2, &left),
         has_right = sum_of_tree(leaves, there, (first + last) / 2, last, &right);
    *out = has_left && has_right ? left + right : has_left ? left : right;
    return has_left || has_right;
}

/* Sums by leaves, to the bit: a row that every leaf uses, one that some do, and the same in two halves of the
 * leaves, as two ranks would sum them. */
static void test_rows_sum(void **state) {
    (void)state;
    tried("rk_sum_row_gradients", true);
    enum { LEAVES = 8, LEAF_BAGS = 3, USES = LEAVES * LEAF_BAGS };
    static float gradients[USES * MAX_DIM], out[2 * MAX_DIM];
    int64_t targets[2 * USES];
    randomize(gradients, USES * MAX_DIM);
    for (int trial = 0; trial < 64; trial++)
        for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
            int32_t dim = dims[trial % N_DIMS];
            bool there[LEAVES];
            rk_row_use uses[2 * USES];
            int64_t n = 0;
            for (uint32_t i = 0; i < USES; i++) uses[n] = rk_row_use_make(3, i), targets[i] = 1, n++;
            for (int l = 0; l < LEAVES; l++)
                there[l] = trial == 0 || (trial * 2654435761u >> (l + 8) & 1) || l == trial % LEAVES;
            int64_t n_first = n;
            static uint32_t twice[2 * USES];
            static float ones[2 * USES];
            for (uint32_t i = 0; i < 2 * USES; i++) twice[i] = i % USES, ones[i] = 1;
            for (uint32_t i = 0; i < USES; i++)
                if (there[i / LEAF_BAGS]) uses[n++] = rk_row_use_make(9, USES + i);
            for (uint32_t i = 0; i < USES; i++) targets[USES + i] = 0;
            rk_gradient_source source = {
                .data = gradients, .stride = dim, .length = 1, .leaf_bags = LEAF_BAGS};
            rk_sum_row_gradients_args args = {.from = {.rows = {.dim = dim},
                                                       .uses = uses,
                                                       .n_uses = n,
                                                       .sources = &source,
                                                       .n_sources = 1,
                                                       .has_leaves = true,
                                                       .bags = twice,
                                                       .coefficients = ones},
                                              .targets = targets,
                                              .out = out};
            rk_sum_row_gradients_on[isa](&args);
            for (int32_t k = 0; k < dim; k++) {
                float leaves[LEAVES] = {0}, want;
                bool all[LEAVES];
                for (int i = 0; i < USES; i++)
                    leaves[i / LEAF_BAGS] += gradients[i * dim + k], all[i / LEAF_BAGS] = true;
                sum_of_tree(leaves, all, 0, LEAVES, &want);
                assert_true(out[dim + k] == want);
                sum_of_tree(leaves, there, 0, LEAVES, &want);
                assert_true(out[k] == want);
            }
            static float in_turn[2 * MAX_DIM];
            args.targets = NULL;
            args.out = in_turn;
            rk_sum_row_gradients_on[isa](&args);
            assert_memory_equal(in_turn, out + dim, (size_t)dim * sizeof *out);
            assert_memory_equal(in_turn + dim, out, (size_t)dim * sizeof *out);
            args.targets = targets;
            float whole[MAX_DIM], half[2][2 * MAX_DIM];
            memcpy(whole, out + dim, (size_t)dim * sizeof *whole);
            for (int h = 0; h < 2; h++) {
                args.from.uses = uses + h * n_first / 2;
                args.from.n_uses = n_first / 2;
                args.out = half[h];
                rk_sum_row_gradients_on[isa](&args);
            }
            for (int32_t k = 0; k < dim; k++) assert_true(half[0][dim + k] + half[1][dim + k] == whole[k]);
        }
}

static void test_row_update(void **state) {
    (void)state;
    tried("rk_optimizer_step", true);
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++)
        for (int d = 0; d < N_DIMS; d++)
            for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
                float w[2][MAX_DIM], a[2][MAX_DIM], b[2][MAX_DIM], g[2][MAX_DIM];
                randomize(w[0], MAX_DIM);
                for (int k = 0; k < MAX_DIM; k++) a[0][k] = b[0][k] = 0.1f;
                memcpy(w[1], w[0], sizeof w[0]);
                memcpy(a[1], a[0], sizeof a[0]);
                memcpy(b[1], b[0], sizeof b[0]);
                rk_update u = {.kind = (rk_optimizer_kind)kind,
                               .learning_rate = 0.1f,
                               .epsilon = 1e-7f,
                               .momentum = 0.9f,
                               .beta1 = 0.9f,
                               .beta2 = 0.99f,
                               .m_scale = 2,
                               .v_scale = 3,
                               .l1 = 0.01f,
                               .l2 = 0.02f,
                               .power = -0.5f,
                               .exponent = 2,
                               .trust_coefficient = 0.01f,
                               .weight_decay = 0.01f,
                               .decay = 0.001f,
                               .clip_gradient_min = -1,
                               .clip_gradient_max = 1,
                               .clip_weight_min = -2,
                               .clip_weight_max = 2,
                               .nesterov = d & 1,
                               .clips_gradient = true,
                               .clips_weight = d & 2};
                for (int step = 0; step < 4; step++) {
                    randomize(g[0], MAX_DIM);
                    memcpy(g[1], g[0], sizeof g[0]);
                    rk_optimizer_step_scalar(&u, w[0], a[0], b[0], g[0], dims[d]);
                    rk_optimizer_step_on[isa](&u, w[1], a[1], b[1], g[1], dims[d]);
                    assert_memory_equal(w[0], w[1], sizeof w[0]);
                    assert_memory_equal(a[0], a[1], sizeof a[0]);
                    assert_memory_equal(b[0], b[1], sizeof b[0]);
                }
            }
}

#ifdef __x86_64__
static bool are_denormals_kept(void) {
    volatile float least = FLT_MIN;
    return least / 2 > 0;
}

/* In a step of one row, of rows where all take one, long and short, and in sums: what is denormal counts as
 * zero, and the thread is as it was. */
static void test_denormals_are_zeros(void **state) {
    (void)state;
    enum { ROWS = 3, DIM = 64 };
    const rk_update u = {.kind = RK_OPTIMIZER_ADAM,
                         .learning_rate = 0.1f,
                         .epsilon = 1e-7f,
                         .beta1 = 0.9f,
                         .beta2 = 0.99f,
                         .m_scale = 1,
                         .v_scale = 1};
    const float tiny = FLT_MIN / 4, little = 1e-20f;
    for (int isa = 0; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
        float w[DIM], m[DIM] = {0}, v[DIM] = {0}, g[DIM];
        for (int k = 0; k < DIM; k++) w[k] = tiny, g[k] = little;
        rk_optimizer_step_on[isa](&u, w, m, v, g, DIM);
        for (int k = 0; k < DIM; k++) assert_true(m[k] > 0 && v[k] == 0 && w[k] < 0);
        assert_true(are_denormals_kept());
        for (int32_t dim = DIM / 4; dim <= DIM; dim *= 4) {
            float rows[ROWS * DIM], slots[2][ROWS * DIM] = {{0}}, gradients[DIM], sum[DIM];
            for (int k = 0; k < ROWS * DIM; k++) rows[k] = k < dim ? little : tiny;
            for (int k = 0; k < DIM; k++) gradients[k] = tiny;
            const rk_row_use use = rk_row_use_make(2, 0);
            const rk_gradient_source source = {.data = gradients, .stride = dim, .length = 1};
            const rk_fused_update_args args = {.rows = {.data = rows, .dim = dim},
                                               .n_places = ROWS,
                                               .slots = {slots[0], slots[1]},
                                               .slot_widths = {dim, dim},
                                               .update = &u,
                                               .uses = &use,
                                               .n_uses = 1,
                                               .sources = &source,
                                               .n_sources = 1,
                                               .l2_full = 1};
            rk_fused_update_on[isa](&args);
            for (int k = 0; k < dim; k++)
                assert_true(slots[0][k] > 0 && slots[1][k] == 0 && rows[k] < little);
            for (int k = dim; k < ROWS * dim; k++)
                assert_true(slots[0][k] == 0 && slots[1][k] == 0 && rows[k] == 0);
            rk_sum_row_gradients_on[isa](&(rk_sum_row_gradients_args){.from = args, .out = sum});
            for (int k = 0; k < dim; k++) assert_true(sum[k] == 0);
            assert_true(are_denormals_kept());
        }
    }
}
#endif

/* Codes stand for what was quantized, to half a code; and those of 4 bits, whose tails are f16, to these'
 * rounding. */
static void test_row_load_codes(void **state) {
    (void)state;
    static _Alignas(float) uint8_t memory[N_ROWS * ROW_BYTES];
    static float values[N_ROWS * MAX_DIM], loaded[2][MAX_DIM];
    randomize(values, N_ROWS * MAX_DIM);
    for (int d = 0; d < N_DIMS; d++)
        for (int form = CODES_BEHIND; form < N_FORMS; form++) {
            int32_t dim = dims[d];
            rk_rows rows = rows_of_form(form, dim, values, memory);
            for (int r = 0; r < N_ROWS; r++) {
                float least = INFINITY, greatest = -INFINITY;
                for (int32_t k = 0; k < dim; k++) {
                    least = fminf(least, values[r * dim + k]);
                    greatest = fmaxf(greatest, values[r * dim + k]);
                }
                rk_row_load_scalar(&rows, r, loaded[0]);
                float half =
                    rows.codes.bits == 8 ? (greatest - least) / 509 : (greatest - least) / 29 + 1e-2f;
                for (int32_t k = 0; k < dim; k++)
                    assert_true(fabsf(loaded[0][k] - values[r * dim + k]) <= half + 1e-6f);
                for (int isa = 1; isa < RK_ISA_COUNT && rk_cpu_has_isa((rk_isa)isa); isa++) {
                    rk_row_load_on[isa](&rows, r, loaded[1]);
                    assert_memory_equal(loaded[0], loaded[1], (size_t)dim * sizeof(float));
                }
            }
        }
}

static void test_no_kernel_escapes(void **state) {
    (void)state;
    check_all_tried(ROW_KERNELS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bag_forward),          cmocka_unit_test(test_bag_forward_single),
        cmocka_unit_test(test_bag_forward_strays),   cmocka_unit_test(test_ids_check),
        cmocka_unit_test(test_finite_check),         cmocka_unit_test(test_rows_update),
        cmocka_unit_test(test_rows_update_by_rules), cmocka_unit_test(test_rows_sum),
        cmocka_unit_test(test_row_update),           cmocka_unit_test(test_row_load_codes),
#ifdef __x86_64__
        cmocka_unit_test(test_denormals_are_zeros),
#endif
        cmocka_unit_test(test_no_kernel_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
