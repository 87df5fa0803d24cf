/* The collection against its definition: combiners, validation, sequences, gradients, optimizers,
 * regularization, rounding. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "collection_steps.h"
#include "embedding/local/collection.h"
#include "optim/optimizer_slots.h"

enum { ROWS = 30, DIM = 5, N = 6 };

static rk_embeddings *make(rk_optimizer_kind kind, const rk_feature_config *features, int n_features,
                           rk_dtype dtype, double learning_rate) {
    static rk_optimizer o;
    OK(rk_optimizer_init(&o, kind));
    if (learning_rate > 0) o.learning_rate = learning_rate;
    rk_table_config tables[2] = {RK_TABLE_CONFIG_INIT, RK_TABLE_CONFIG_INIT};
    tables[0].name = "t";
    tables[0].n_rows = ROWS;
    tables[0].dim = DIM;
    tables[0].dtype = dtype;
    tables[1] = tables[0];
    tables[1].name = "frozen";
    tables[1].frozen = true;
    rk_embeddings_config config = {.struct_size = sizeof config,
                                   .seed = 3,
                                   .tables = tables,
                                   .n_tables = 2,
                                   .features = features,
                                   .n_features = n_features,
                                   .optimizer = &o};
    rk_embeddings *e;
    OK(rk_embeddings_create(&config, &e));
    return e;
}

static rk_feature_config feature(const char *name, const char *table, rk_combiner combiner, int length,
                                 bool skip) {
    return (rk_feature_config){sizeof(rk_feature_config), name, table, combiner, length, skip, false};
}

static const int64_t offsets[N + 1] = {0, 2, 2, 3, 6, 7, 9};
static const int64_t ids[9] = {1, 2, 7, 1, 1, 4, 29, -5, 3};
static const float weights[9] = {1, 2, 0.5f, 1, 3, 1, 1, 9, 2};

static void row_of(rk_embeddings *e, int64_t id, float *out) {
    OK(rk_embeddings_read_rows(e, "t", id, 1, out));
}

static void test_combiners(void **state) {
    (void)state;
    for (int combiner = 0; combiner < RK_COMBINER_COUNT; combiner++)
        for (int weighted = 0; weighted < 2; weighted++) {
            rk_feature_config f = feature("f", "t", (rk_combiner)combiner, 0, false);
            rk_embeddings *e = make(RK_OPTIMIZER_SGD, &f, 1, RK_F32, 0);
            float out[N * (DIM + 2)], row[DIM];
            rk_ids in = {.offsets = offsets, .ids = ids, .weights = weighted ? weights : NULL};
            OK(look_up(e, N, &in, &(rk_activation){out, DIM + 2, NULL}));
            for (int s = 0; s < N; s++) {
                double sum[DIM] = {0}, w_sum = 0, w_squares = 0;
                for (int64_t i = offsets[s]; i < offsets[s + 1]; i++) {
                    if (ids[i] < 0) continue;
                    double w = weighted ? weights[i] : 1;
                    row_of(e, ids[i], row);
                    for (int k = 0; k < DIM; k++) sum[k] += w * row[k];
                    w_sum += w;
                    w_squares += w * w;
                }
                double below = combiner == RK_COMBINER_SUM    ? 1
                               : combiner == RK_COMBINER_MEAN ? w_sum
                                                              : sqrt(w_squares);
                for (int k = 0; k < DIM; k++)
                    assert_true(fabs(out[s * (DIM + 2) + k] - (below > 0 ? sum[k] / below : 0)) < 1e-6);
            }
            rk_embeddings_free(e);
        }
}

static void test_validation(void **state) {
    (void)state;
    rk_feature_config f[2] = {feature("plain", "t", RK_COMBINER_MEAN, 0, false),
                              feature("strict", "t", RK_COMBINER_MEAN, 0, true)};
    rk_embeddings *e = make(RK_OPTIMIZER_SGD, f, 2, RK_F32, 0);
    float out[2][2 * DIM];
    int64_t good[2] = {1, 2}, high[2] = {1, 30}, low[2] = {1, -2};
    float bad_weight[2] = {1, NAN}, zero_weight[2] = {1, 0};
    rk_activation to[2] = {{out[0], DIM, NULL}, {out[1], DIM, NULL}};
    memset(out, 0, sizeof out);
    FAILS(look_up(e, 2, (rk_ids[]){{NULL, 1, good, NULL}, {NULL, 1, high, NULL}}, to), RK_BAD_DATA,
          "feature 'strict': sample 1: id 30 is beyond the last row 29 of table 't'\nhint: give the table "
          "more rows, or hash the feature");
    for (int i = 0; i < 2 * DIM; i++) assert_true(out[0][i] == 0); /* nothing was written */
    FAILS(look_up(e, 2, (rk_ids[]){{NULL, 1, low, NULL}, {NULL, 1, low, NULL}}, to), RK_BAD_DATA,
          "feature 'strict': sample 1: id -2 is negative\nhint: to drop negative ids instead, turn "
          "validation on");
    FAILS(look_up(e, 2, (rk_ids[]){{NULL, 1, good, bad_weight}, {NULL, 1, good, NULL}}, to), RK_BAD_DATA,
          "feature 'plain': sample 1: the weight of id 2 is not a finite number");
    FAILS(look_up(e, 2, (rk_ids[]){{NULL, 1, good, zero_weight}, {NULL, 1, good, zero_weight}}, to),
          RK_BAD_DATA,
          "feature 'strict': sample 1: the weight 0 of id 2 is not above 0\nhint: to drop such ids instead, "
          "turn validation on");
    FAILS(apply_gradients(e, to), RK_INVALID_ARGUMENT, "apply_gradients must follow a lookup for training");
    OK(look_up(e, 2, (rk_ids[]){{NULL, 1, low, zero_weight}, {NULL, 1, good, NULL}}, to));
    for (int k = 0; k < DIM; k++) assert_true(out[0][DIM + k] == 0); /* all dropped: zeros, never NaN */
    rk_embeddings_free(e);
}

static void test_sequences(void **state) {
    (void)state;
    rk_feature_config f = feature("f", "t", RK_COMBINER_MEAN, 2, false);
    rk_embeddings *e = make(RK_OPTIMIZER_SGD, &f, 1, RK_F32, 1);
    float out[N * (2 * DIM + 1)], before[ROWS * DIM], after[ROWS * DIM], row[DIM];
    int32_t lengths[N];
    rk_ids in = {.offsets = offsets, .ids = ids};
    rk_activation to = {out, 2 * DIM + 1, lengths};
    OK(look_up(e, N, &in, &to));
    static const int32_t expected[N] = {2, 0, 1, 2, 1, 1};
    for (int s = 0; s < N; s++) {
        assert_int_equal(lengths[s], expected[s]);
        for (int p = 0; p < 2; p++) {
            int64_t i = offsets[s] + p;
            if (s == 5) i = 8; /* the -5 was dropped: the 3 moved up, and its gradient must not move */
            if (p < lengths[s])
                row_of(e, ids[i], row);
            else
                memset(row, 0, sizeof row);
            assert_memory_equal(out + s * (2 * DIM + 1) + p * DIM, row, sizeof row);
        }
    }
    OK(rk_embeddings_read_rows(e, "t", 0, ROWS, before));
    for (int i = 0; i < N * (2 * DIM + 1); i++) out[i] = (float)(i + 1);
    OK(apply_gradients(e, &to));
    OK(rk_embeddings_read_rows(e, "t", 0, ROWS, after));
    for (int k = 0; k < DIM; k++) {
        double g3 = 5 * (2 * DIM + 1) + k + 1,
               g1 = (k + 1) + (3 * (2 * DIM + 1) + k + 1) + (3 * (2 * DIM + 1) + DIM + k + 1);
        assert_true(fabs(before[3 * DIM + k] - after[3 * DIM + k] - g3) < 1e-4);
        assert_true(fabs(before[DIM + k] - after[DIM + k] - g1) < 1e-4);
    }
    FAILS(look_up(e, N, &(rk_ids){offsets, 0, ids, weights}, &to), RK_INVALID_ARGUMENT,
          "feature 'f' is a sequence and cannot have weights");
    rk_embeddings_free(e);
}

/* sgd at rate 1 moves a row by minus its summed gradient; the numeric slope of a loss sum(c * activation)
 * must be the same. */
static void test_gradients_by_differences(void **state) {
    (void)state;
    for (int combiner = 0; combiner < RK_COMBINER_COUNT; combiner++) {
        rk_feature_config f[2] = {feature("a", "t", (rk_combiner)combiner, 0, false),
                                  feature("b", "t", RK_COMBINER_SUM, 0, false)};
        rk_embeddings *e = make(RK_OPTIMIZER_SGD, f, 2, RK_F32, 1);
        float out[2][N * DIM], slopes[2][N * DIM], before[ROWS * DIM], after[ROWS * DIM];
        rk_ids in[2] = {{offsets, 0, ids, weights}, {NULL, 1, ids, NULL}};
        rk_activation to[2] = {{out[0], DIM, NULL}, {out[1], DIM, NULL}},
                      g[2] = {{slopes[0], DIM, NULL}, {slopes[1], DIM, NULL}};
        rk_rng rng = {8, 8, 0};
        for (int i = 0; i < N * DIM; i++)
            slopes[0][i] = (float)rk_rng_normal(&rng), slopes[1][i] = (float)rk_rng_normal(&rng);
        OK(look_up(e, N, in, to));
        OK(rk_embeddings_read_rows(e, "t", 0, ROWS, before));
        OK(apply_gradients(e, g));
        OK(rk_embeddings_read_rows(e, "t", 0, ROWS, after));
        OK(rk_embeddings_write_rows(e, "t", 0, ROWS, before));
        for (int r = 0; r < ROWS; r++)
            for (int k = 0; k < DIM; k++) {
                double loss[2] = {0};
                for (int side = 0; side < 2; side++) {
                    float row[DIM];
                    memcpy(row, before + r * DIM, sizeof row);
                    row[k] += side ? -0.5f : 0.5f; /* the loss is linear in the row: any step is exact */
                    OK(rk_embeddings_write_rows(e, "t", r, 1, row));
                    OK(look_up_eval(e, N, in, to));
                    for (int i = 0; i < N * DIM; i++)
                        loss[side] += (double)slopes[0][i] * out[0][i] + (double)slopes[1][i] * out[1][i];
                }
                OK(rk_embeddings_write_rows(e, "t", r, 1, before + r * DIM));
                assert_true(fabs(loss[0] - loss[1] - (before[r * DIM + k] - after[r * DIM + k])) < 1e-4);
            }
        rk_embeddings_free(e);
    }
}

/* All optimizers through the collection: the same as one row update of the summed gradient of each touched
 * row. */
static void train(rk_embeddings *e, int steps, float *rows, int n_features) {
    float out[2][N * DIM];
    rk_ids in[2] = {{offsets, 0, ids, NULL}, {NULL, 1, ids + 1, NULL}};
    rk_activation to[2] = {{out[0], DIM, NULL}, {out[1], DIM, NULL}};
    rk_rng rng = {6, 6, 0};
    for (int step = 0; step < steps; step++) {
        in[1].ids = ids + step % 2;
        OK(look_up(e, N, in, to));
        for (int f = 0; f < n_features; f++)
            for (int i = 0; i < N * DIM; i++) out[f][i] = (float)rk_rng_normal(&rng);
        OK(apply_gradients(e, to));
    }
    OK(rk_embeddings_read_rows(e, "t", 0, ROWS, rows));
}

static void test_optimizers(void **state) {
    (void)state;
    rk_feature_config f[2] = {feature("a", "t", RK_COMBINER_SUM, 0, false),
                              feature("b", "t", RK_COMBINER_SUM, 0, false)};
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++) {
        rk_embeddings *e = make((rk_optimizer_kind)kind, f, 2, RK_F32, 0.05);
        static float w[ROWS * DIM], rows[ROWS * DIM], slots[2][ROWS * DIM], sums[ROWS * DIM];
        bool touched[ROWS];
        OK(rk_embeddings_read_rows(e, "t", 0, ROWS, w));
        rk_slot slot[RK_MAX_SLOTS];
        const rk_optimizer *o = rk_embeddings_table_optimizer(e, 0);
        int n_slots = rk_optimizer_list_slots(o, slot);
        for (int i = 0; i < n_slots; i++)
            for (int k = 0; k < ROWS * DIM; k++) slots[i][k] = slot[i].initial;
        rk_rng rng = {6, 6, 0};
        for (int step = 0; step < 7; step++) {
            memset(sums, 0, sizeof sums);
            memset(touched, 0, sizeof touched);
            for (int feat = 0; feat < 2; feat++)
                for (int s = 0; s < N; s++)
                    for (int k = 0; k < DIM; k++) {
                        float g = (float)rk_rng_normal(&rng);
                        for (int64_t i = feat ? step % 2 + s : offsets[s];
                             i < (feat ? step % 2 + s + 1 : offsets[s + 1]); i++)
                            if (ids[i] >= 0) sums[ids[i] * DIM + k] += g, touched[ids[i]] = true;
                    }
            rk_update update;
            rk_optimizer_set_step_coefficients(o, step, 1, &update);
            for (int r = 0; r < ROWS; r++)
                if (touched[r])
                    rk_optimizer_step(&update, w + r * DIM, slots[0] + r * DIM, slots[1] + r * DIM,
                                      sums + r * DIM, DIM);
        }
        train(e, 7, rows, 2);
        for (int i = 0; i < ROWS * DIM; i++) assert_true(fabsf(rows[i] - w[i]) < 1e-5f * (1 + fabsf(w[i])));
        rk_embeddings_free(e);
    }
}

static void test_same_bits_at_any_thread_count(void **state) {
    (void)state;
    rk_feature_config f[2] = {feature("a", "t", RK_COMBINER_MEAN, 0, false),
                              feature("b", "t", RK_COMBINER_SUM, 0, false)};
    float one[ROWS * DIM], many[ROWS * DIM];
    for (int dtype = 0; dtype < RK_ROW_DTYPE_COUNT; dtype++)
        for (int threads = 1; threads <= 8; threads++) {
            OK(rk_parallel_set_threads(threads));
            rk_embeddings *e = make(RK_OPTIMIZER_ADAM, f, 2, (rk_dtype)dtype, 0.01);
            train(e, 9, threads == 1 ? one : many, 2);
            if (threads > 1) assert_memory_equal(one, many, sizeof one);
            rk_embeddings_free(e);
        }
}

/* So many uses that an update is cut into pieces, whose number depends on the threads, within the uses of
 * hot rows: each row takes one step. */
static void test_pieces_end_between_rows(void **state) {
    (void)state;
    enum { MANY = 30000 };
    static int64_t many_ids[MANY];
    static float gradients[MANY * DIM], one[ROWS * DIM], many[ROWS * DIM];
    static double sums[ROWS * DIM];
    rk_feature_config f = feature("a", "t", RK_COMBINER_SUM, 0, false);
    rk_rng rng = {6, 6, 0};
    for (int i = 0; i < MANY; i++) many_ids[i] = i % 3 ? 7 + i % 2 : i / 3 % ROWS;
    for (int threads = 1; threads <= 8; threads++) {
        OK(rk_parallel_set_threads(threads));
        rk_embeddings *e = make(RK_OPTIMIZER_ADAGRAD, &f, 1, RK_F32, 0.01);
        rk_activation to = {gradients, DIM, NULL};
        float before[ROWS * DIM];
        OK(rk_embeddings_read_rows(e, "t", 0, ROWS, before));
        OK(look_up(e, MANY, &(rk_ids){NULL, 1, many_ids, NULL}, &to));
        rng = (rk_rng){6, 6, 0};
        memset(sums, 0, sizeof sums);
        for (int i = 0; i < MANY * DIM; i++) {
            gradients[i] = (float)rk_rng_normal(&rng);
            sums[many_ids[i / DIM] * DIM + i % DIM] += (double)gradients[i];
        }
        OK(apply_gradients(e, &to));
        OK(rk_embeddings_read_rows(e, "t", 0, ROWS, threads == 1 ? one : many));
        if (threads > 1) assert_memory_equal(one, many, sizeof one);
        rk_slot slot[RK_MAX_SLOTS];
        rk_optimizer_list_slots(rk_embeddings_table_optimizer(e, 0), slot);
        for (int k = 0; k < ROWS * DIM; k++) {
            double step = 0.01 * sums[k] / sqrt((double)slot[0].initial + sums[k] * sums[k]);
            assert_true(fabs((double)one[k] - ((double)before[k] - step)) < 1e-5);
        }
        rk_embeddings_free(e);
    }
}

/* Small steps vanish when bf16 is rounded to nearest; rounded stochastically they add up. */
static void test_stochastic_rounding(void **state) {
    (void)state;
    rk_feature_config f = feature("a", "t", RK_COMBINER_SUM, 0, false);
    rk_embeddings *e = make(RK_OPTIMIZER_SGD, &f, 1, RK_BF16, 1);
    float ones[DIM] = {1, 1, 1, 1, 1}, out[DIM], row[DIM];
    int64_t id = 4;
    double moved = 0;
    for (int k = 0; k < 200; k++) {
        OK(rk_embeddings_write_rows(e, "t", 4, 1, ones));
        for (int step = 0; step < 20; step++) {
            OK(look_up(e, 1, &(rk_ids){NULL, 1, &id, NULL}, &(rk_activation){out, DIM, NULL}));
            for (int i = 0; i < DIM; i++) out[i] = 0.001f;
            OK(apply_gradients(e, &(rk_activation){out, DIM, NULL}));
        }
        OK(rk_embeddings_read_rows(e, "t", 4, 1, row));
        for (int i = 0; i < DIM; i++) moved += 1 - row[i];
    }
    assert_true(fabs(moved / (200 * DIM) - 0.02) < 0.001);
    rk_embeddings_free(e);
}

/* Bounds that are no numbers of the rows' type hold all the same once weights are rounded. */
static void test_clipped_weights_stay_clipped(void **state) {
    (void)state;
    for (int dtype = 0; dtype < RK_ROW_DTYPE_COUNT; dtype++) {
        rk_optimizer o;
        OK(rk_optimizer_init(&o, RK_OPTIMIZER_SGD));
        o.learning_rate = 0.01;
        o.clip_weight_min = -0.3001;
        o.clip_weight_max = 0.1001;
        rk_table_config table = RK_TABLE_CONFIG_INIT;
        rk_feature_config f = feature("a", "t", RK_COMBINER_SUM, 0, false);
        rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
        rk_embeddings *e;
        table.name = "t";
        table.n_rows = ROWS;
        table.dim = DIM;
        table.dtype = (rk_dtype)dtype;
        table.optimizer = &o;
        config.tables = &table;
        config.n_tables = config.n_features = 1;
        config.features = &f;
        OK(rk_embeddings_create(&config, &e));
        float out[DIM], row[DIM], least = 0, most = 0;
        int64_t id = 4;
        for (int step = 0; step < 200; step++) {
            OK(look_up(e, 1, &(rk_ids){NULL, 1, &id, NULL}, &(rk_activation){out, DIM, NULL}));
            for (int i = 0; i < DIM; i++) out[i] = i % 2 ? 1 : -1;
            OK(apply_gradients(e, &(rk_activation){out, DIM, NULL}));
            OK(rk_embeddings_read_rows(e, "t", 4, 1, row));
            for (int i = 0; i < DIM; i++) least = fminf(least, row[i]), most = fmaxf(most, row[i]);
        }
        rk_embeddings_free(e);
        if (least < -0.3001f || most > 0.1001f)
            fail_msg("%s: %.7g to %.7g", rk_dtype_name(table.dtype), (double)least, (double)most);
        assert_true(least < -0.298f && most > 0.099f);
        o.clip_weight_min = o.clip_weight_max;
        if (dtype == RK_F32) continue;
        assert_int_equal(rk_embeddings_create(&config, &e), RK_INVALID_ARGUMENT);
        assert_non_null(
            strstr(rk_last_error(), "number lies between clip_weight_min 0.1001 and clip_weight_max 0.1001"));
    }
}

static void test_frozen_and_l2(void **state) {
    (void)state;
    rk_feature_config f[2] = {feature("a", "t", RK_COMBINER_SUM, 0, false),
                              feature("b", "frozen", RK_COMBINER_SUM, 0, false)};
    rk_embeddings *e = make(RK_OPTIMIZER_SGD, f, 2, RK_F32, 0.5);
    static float before[2][ROWS * DIM], after[2][ROWS * DIM], out[2][DIM];
    int64_t id = 4;
    rk_ids in[2] = {{NULL, 1, &id, NULL}, {NULL, 1, &id, NULL}};
    rk_activation to[2] = {{out[0], DIM, NULL}, {out[1], DIM, NULL}};
    for (int full = 0; full < 2; full++) {
        OK(rk_embeddings_set_l2(e, "t", full ? 0 : 0.2, full ? 0.2 : 0));
        OK(rk_embeddings_read_rows(e, "t", 0, ROWS, before[0]));
        OK(rk_embeddings_read_rows(e, "frozen", 0, ROWS, before[1]));
        OK(look_up(e, 1, in, to));
        for (int k = 0; k < DIM; k++) out[0][k] = out[1][k] = 1;
        OK(apply_gradients(e, to));
        OK(rk_embeddings_read_rows(e, "t", 0, ROWS, after[0]));
        OK(rk_embeddings_read_rows(e, "frozen", 0, ROWS, after[1]));
        assert_memory_equal(before[1], after[1], sizeof before[1]);
        for (int r = 0; r < ROWS; r++)
            for (int k = 0; k < DIM; k++) {
                float w = before[0][r * DIM + k],
                      g = (r == 4 ? 1.0f : 0.0f) + (full || r == 4 ? 0.2f * w : 0);
                assert_true(fabsf(after[0][r * DIM + k] - (w - 0.5f * g)) < 1e-6f);
            }
    }
    rk_embeddings_free(e);
}

static void test_not_finite_changes_nothing(void **state) {
    (void)state;
    rk_feature_config f = feature("a", "t", RK_COMBINER_SUM, 0, false);
    rk_embeddings *e = make(RK_OPTIMIZER_ADAM, &f, 1, RK_F32, 0);
    float before[ROWS * DIM], after[ROWS * DIM], out[N * DIM] = {0};
    rk_activation to = {out, DIM, NULL};
    OK(rk_embeddings_read_rows(e, "t", 0, ROWS, before));
    OK(look_up(e, N, &(rk_ids){NULL, 1, ids, NULL}, &to));
    out[3 * DIM + 2] = INFINITY;
    FAILS(apply_gradients(e, &to), RK_NOT_FINITE,
          "feature 'a': sample 3: the gradient is not a finite number");
    OK(rk_embeddings_read_rows(e, "t", 0, ROWS, after));
    assert_memory_equal(before, after, sizeof before);
    rk_embeddings_free(e);
}

static void test_mistakes(void **state) {
    (void)state;
    rk_table_config tables[2] = {RK_TABLE_CONFIG_INIT, RK_TABLE_CONFIG_INIT};
    tables[0].name = tables[1].name = "t";
    tables[0].n_rows = tables[1].n_rows = 3;
    tables[0].dim = tables[1].dim = 2;
    rk_feature_config f = feature("a", "u", RK_COMBINER_SUM, 0, false);
    rk_embeddings_config config = {
        .struct_size = sizeof config, .tables = tables, .n_tables = 2, .features = &f, .n_features = 1};
    rk_embeddings *e;
    FAILS(rk_embeddings_create(&config, &e), RK_INVALID_ARGUMENT, "two tables are named 't'");
    config.n_tables = 1;
    FAILS(rk_embeddings_create(&config, &e), RK_INVALID_ARGUMENT, "feature 'a': there is no table 'u'");
    tables[0].n_rows = 0;
    FAILS(rk_embeddings_create(&config, &e), RK_INVALID_ARGUMENT,
          "table 't': n_rows must be 1 or more, not 0");
}

static void test_out_of_memory(void **state) {
    (void)state;
    rk_feature_config f[2] = {feature("a", "t", RK_COMBINER_MEAN, 0, false),
                              feature("b", "t", RK_COMBINER_MEAN, 2, false)};
    long before = rk_alloc_live();
    for (long n = 1; n < 200; n++) {
        rk_table_config table = RK_TABLE_CONFIG_INIT;
        table.name = "t";
        table.n_rows = ROWS;
        table.dim = DIM;
        rk_embeddings_config config = {
            .struct_size = sizeof config, .tables = &table, .n_tables = 1, .features = f, .n_features = 2};
        rk_embeddings *e = NULL;
        static float out[2][N * 2 * DIM];
        rk_activation to[2] = {{out[0], DIM, NULL}, {out[1], 2 * DIM, NULL}};
        rk_alloc_fail_after(n, false);
        rk_status status = rk_embeddings_create(&config, &e);
        if (status == RK_OK)
            status = look_up(e, N, (rk_ids[]){{offsets, 0, ids, weights}, {offsets, 0, ids, NULL}}, to);
        if (status == RK_OK) status = apply_gradients(e, to);
        rk_alloc_fail_after(0, false);
        rk_embeddings_free(e);
        assert_int_equal(rk_alloc_live(), before);
        if (status == RK_OK) return;
        assert_int_equal(status, RK_NO_MEMORY);
    }
    fail();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_combiners),
        cmocka_unit_test(test_validation),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_gradients_by_differences),
        cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_same_bits_at_any_thread_count),
        cmocka_unit_test(test_pieces_end_between_rows),
        cmocka_unit_test(test_stochastic_rounding),
        cmocka_unit_test(test_clipped_weights_stay_clipped),
        cmocka_unit_test(test_frozen_and_l2),
        cmocka_unit_test(test_not_finite_changes_nothing),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
