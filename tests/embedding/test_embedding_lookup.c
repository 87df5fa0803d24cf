/* Lookups against their definition, and what they leave alone. */
#include "embedding_fixture.h"

#include "base/thread/parallel.h"

static drawn batch, other;

static void assert_lookup(rk_embeddings *e, const drawn *b) {
    for (int f = 0; f < N_FEATURES; f++) {
        int t = sorts[f].table;
        static float rows[MAX_ROWS * MAX_TABLE_DIM];
        OK(rk_embeddings_read_rows(e, table_names[t], 0, table_rows[t], rows));
        for (int64_t s = 0; s < b->n; s++) {
            double expected[MAX_LENGTH * MAX_TABLE_DIM];
            const float *got = b->out[f] + s * b->activations[f].stride;
            look_up_by_definition(b, f, s, rows, expected);
            for (int k = 0; k < width_of(f); k++)
                if (!(fabs(got[k] - expected[k]) <= 1e-5))
                    fail_msg("%s, sample %d, column %d: %g, not %g", sorts[f].name, (int)s, k, got[k],
                             expected[k]);
            for (int64_t k = width_of(f); k < b->activations[f].stride; k++)
                assert_true(got[k] == 42.0f); /* the gap is not ours */
        }
    }
}

static void paint(drawn *b, float value) {
    for (int f = 0; f < N_FEATURES; f++)
        for (size_t i = 0; i < sizeof b->out[f] / sizeof b->out[f][0]; i++) b->out[f][i] = value;
}

static bool is_painted(const drawn *b, float value) {
    for (int f = 0; f < N_FEATURES; f++)
        for (size_t i = 0; i < sizeof b->out[f] / sizeof b->out[f][0]; i++)
            if (b->out[f][i] != value) return false;
    return true;
}

static void test_every_sort_of_feature(void **state) {
    (void)state;
    for (int dtype = 0; dtype < RK_ROW_DTYPE_COUNT; dtype++) {
        rk_embeddings *e = make_usual(NULL, (rk_dtype)dtype);
        static const int64_t sizes[] = {1, 700, 2, 255, 256, 257, 600};
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            draw(&batch, i + 5, sizes[i]);
            paint(&batch, 42);
            OK((i % 2 ? look_up_eval : look_up)(e, batch.n, batch.ids, batch.activations));
            assert_lookup(e, &batch);
        }
        rk_embeddings_free(e);
    }
}

static void test_lengths(void **state) {
    (void)state;
    rk_embeddings *e = make_usual(NULL, RK_F32);
    draw(&batch, 3, 300);
    OK(look_up(e, batch.n, batch.ids, batch.activations));
    bool seen[MAX_LENGTH + 1] = {false};
    for (int64_t s = 0; s < batch.n; s++) {
        int64_t ids[MAX_BAG];
        double coefficients[MAX_BAG];
        assert_int_equal(batch.lengths[3][s], counted(&batch, 3, s, ids, coefficients));
        seen[batch.lengths[3][s]] = true;
    }
    for (int length = 0; length <= MAX_LENGTH; length++) assert_true(seen[length]);
    batch.activations[3].lengths = NULL; /* who does not ask for lengths gets none */
    OK(look_up(e, batch.n, batch.ids, batch.activations));
    rk_embeddings_free(e);
}

static void test_sizes(void **state) {
    (void)state;
    rk_embeddings *e = make_usual(NULL, RK_F32);
    assert_int_equal(rk_embeddings_n_features(e), N_FEATURES);
    assert_int_equal(rk_embeddings_n_tables(e), N_TABLES);
    uint64_t bytes = 0;
    for (int t = 0; t < N_TABLES; t++) {
        uint64_t rows = (uint64_t)table_rows[t] * (uint64_t)table_dims[t] * 4;
        uint64_t expected = t == N_TABLES - 1
                                ? rows
                                : 2 * rows; /* adagrad's slot beside each value; none beside frozen ones */
        assert_int_equal(rk_embeddings_table_bytes(e, t), expected);
        assert_string_equal(rk_embeddings_table_config(e, t)->name, table_names[t]);
        bytes += expected;
    }
    assert_int_equal(rk_embeddings_bytes(e), bytes);
    for (int f = 0; f < N_FEATURES; f++) assert_int_equal(rk_embeddings_width(e, f), width_of(f));
    assert_int_equal(rk_embeddings_table_optimizer(e, 0)->kind, RK_OPTIMIZER_ADAGRAD);
    assert_string_equal(rk_dtype_name(RK_BF16), "bf16");
    assert_int_equal(rk_dtype_bytes(RK_F32) + rk_dtype_bytes(RK_BF16) + rk_dtype_bytes(RK_F16), 8);
    assert_string_equal(rk_combiner_name(RK_COMBINER_SQRTN), "sqrtn");
    rk_embeddings_free(e);
}

/* Evaluation changes no state, and an update after it still belongs to the lookup before it. */
static void test_lookup_eval_leaves_no_trace(void **state) {
    (void)state;
    rk_optimizer adam;
    OK(rk_optimizer_init(&adam, RK_OPTIMIZER_ADAM));
    rk_embeddings *a = make_usual(&adam, RK_BF16), *b = make_usual(&adam, RK_BF16);
    for (uint64_t step = 0; step < 4; step++) {
        draw(&batch, step, 100);
        OK(look_up(a, batch.n, batch.ids, batch.activations));
        OK(look_up(b, batch.n, batch.ids, batch.activations));
        for (uint64_t i = 0; i < 3; i++) {
            draw(&other, 100 + 3 * step + i, 50 + (int64_t)i);
            OK(look_up_eval(a, other.n, other.ids, other.activations));
        }
        draw_gradients(&batch, step);
        OK(apply_gradients(a, batch.activations));
        OK(apply_gradients(b, batch.activations));
        assert_same_state(a, b, true);
    }
    other.values[1][0] = 5000; /* an eval lookup that fails is no exception */
    draw(&batch, 9, 10);
    OK(look_up(a, batch.n, batch.ids, batch.activations));
    assert_int_equal(look_up_eval(a, other.n, other.ids, other.activations), RK_BAD_DATA);
    assert_same_state(a, b, true);
    OK(apply_gradients(a, batch.activations));
    rk_embeddings_free(a);
    rk_embeddings_free(b);
}

static void test_no_samples(void **state) {
    (void)state;
    rk_embeddings *e = make_usual(NULL, RK_F32);
    draw(&batch, 1, 0);
    paint(&batch, 42);
    OK(look_up(e, 0, batch.ids, batch.activations));
    OK(apply_gradients(e, batch.activations));
    assert_true(is_painted(&batch, 42));
    rk_embeddings_free(e);
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT; /* nor features, nor tables */
    OK(rk_embeddings_create(&config, &e));
    OK(look_up(e, 5, NULL, NULL));
    OK(apply_gradients(e, NULL));
    assert_int_equal(rk_embeddings_bytes(e), 0);
    rk_embeddings_free(e);
    rk_embeddings_free(NULL);
}

/* What one bad id, weight or array says; and that a lookup then writes no activation of any feature. */
static rk_embeddings *checked;
static void assert_refused(rk_status status, const char *message) {
    for (int eval = 0; eval < 2; eval++) {
        paint(&batch, 42);
        assert_int_equal((eval ? look_up_eval : look_up)(checked, batch.n, batch.ids, batch.activations),
                         status);
        assert_string_equal(rk_last_error(), message);
        if (!eval) assert_true(is_painted(&batch, 42));
    }
    FAILS(apply_gradients(checked, batch.activations), RK_INVALID_ARGUMENT,
          "apply_gradients must follow a lookup for training");
}

static void test_refused_batches(void **state) {
    (void)state;
    checked = make_usual(NULL, RK_F32);
    draw(&batch, 8, 40);
    batch.values[0][17] = 300;
    assert_refused(RK_BAD_DATA,
                   "feature 'user': sample 17: id 300 is beyond the last row 299 of table 'user'\nhint: give "
                   "the table more rows, or hash the feature");
    batch.values[6][5] =
        INT64_MAX; /* two features are wrong: the first is named, whatever thread finds what first */
    for (int threads = 1; threads < 5; threads++) {
        OK(rk_parallel_set_threads(threads));
        assert_refused(RK_BAD_DATA,
                       "feature 'user': sample 17: id 300 is beyond the last row 299 of table 'user'\nhint: "
                       "give the table more rows, or hash the feature");
    }
    batch.values[0][17] = 299;
    assert_refused(
        RK_BAD_DATA,
        "feature 'still': sample 2: id 9223372036854775807 is beyond the last row 19 of table 'still'\n"
        "hint: give the table more rows, or hash the feature");
    batch.values[6][5] = 19;

    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        float kept = batch.weights[2][4];
        batch.values[2][4] = 6;
        batch.weights[2][4] = wrong[i];
        assert_refused(RK_BAD_DATA, "feature 'bought': sample 1: the weight of id 6 is not a finite number");
        batch.weights[2][4] = kept;
    }
    batch.ids[3].weights = batch.weights[3];
    assert_refused(RK_INVALID_ARGUMENT, "feature 'history' is a sequence and cannot have weights");
    batch.ids[3].weights = NULL;
    batch.offsets[4][20] = batch.offsets[4][21] + 1;
    assert_refused(RK_INVALID_ARGUMENT, "feature 'tags': offsets must start at 0 and must not decrease");
    draw(&batch, 8, 40);
    batch.offsets[4][0] = 1;
    assert_refused(RK_INVALID_ARGUMENT, "feature 'tags': offsets must start at 0 and must not decrease");
    draw(&batch, 8, 40);
    batch.ids[0].ids_per_sample = -1;
    assert_refused(RK_INVALID_ARGUMENT, "feature 'user': ids_per_sample must be 0 or more, not -1");
    batch.ids[0].ids_per_sample = INT64_MAX / 2;
    assert_refused(RK_INVALID_ARGUMENT, "feature 'user': 2^31 ids or more in one batch");
    batch.ids[0].ids_per_sample = 1;
    batch.offsets[1][40] = (int64_t)1 << 31;
    assert_refused(RK_INVALID_ARGUMENT, "feature 'item': 2^31 ids or more in one batch");
    draw(&batch, 8, 40);
    batch.ids[1].ids = NULL;
    assert_refused(RK_INVALID_ARGUMENT, "feature 'item' has no ids");
    draw(&batch, 8, 40);
    batch.activations[5].stride = 19;
    assert_refused(RK_INVALID_ARGUMENT,
                   "feature 'more tags': its activations need memory and a stride of at least 20");
    FAILS(look_up(checked, -1, batch.ids, batch.activations), RK_INVALID_ARGUMENT, "a lookup of -1 samples");
    FAILS(look_up(checked, 1, NULL, batch.activations), RK_INVALID_ARGUMENT, "a lookup needs ids");
    draw(&batch, 8, 40); /* after all that, the collection still works */
    paint(&batch, 42);
    OK(look_up(checked, batch.n, batch.ids, batch.activations));
    assert_lookup(checked, &batch);
    rk_embeddings_free(checked);
}

/* An eval lookup finds what is no row where it reads it, and in what it does not read. */
static void test_lookup_eval_of_what_is_cut_off(void **state) {
    (void)state;
    rk_embeddings *e = make_usual(NULL, RK_F32);
    rk_lookup *lookup;
    OK(rk_lookup_create(e, &lookup));
    draw(&batch, 8, 40);
    for (int f = 0; f < N_FEATURES; f++)
        for (int64_t i = 0; i < batch.offsets[f][40]; i++)
            if (batch.values[f][i] < 0) batch.values[f][i] = 0;
    const int64_t *offsets = batch.offsets[3];
    int64_t s = 0;
    while (offsets[s + 1] - offsets[s] <= MAX_LENGTH) s++;
    OK(rk_embeddings_lookup_eval(e, batch.n, batch.ids, lookup, batch.activations));
    assert_lookup(e, &batch);
    batch.values[3][offsets[s + 1] - 1] = 1000000;
    for (int again = 0; again < 2; again++) {
        assert_int_equal(rk_embeddings_lookup_eval(e, batch.n, batch.ids, lookup, batch.activations),
                         RK_BAD_DATA);
        assert_non_null(strstr(rk_last_error(), "feature 'history': sample"));
    }
    batch.values[3][offsets[s + 1] - 1] = -1;
    OK(rk_embeddings_lookup_eval(e, batch.n, batch.ids, lookup, batch.activations));
    assert_lookup(e, &batch);
    rk_lookup_free(lookup);
    rk_embeddings_free(e);
}

/* Without validation nothing is dropped: what would be is an error, unless the combiner takes it. */
static void test_without_validation(void **state) {
    (void)state;
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    table.name = "t";
    table.n_rows = 10;
    table.dim = 2;
    table.initializer = (rk_initializer){.kind = RK_INIT_ONES};
    int64_t ids[4] = {1, 2, 3, 4};
    float weights[4] = {1, 1, -1, 2}, out[4];
    for (int combiner = 0; combiner < RK_COMBINER_COUNT; combiner++) {
        rk_feature_config feature = {sizeof feature, "f", "t", (rk_combiner)combiner, 0, true, false};
        rk_embeddings_config config = {sizeof config, 1, &table, 1, &feature, 1, NULL, NULL, NULL};
        rk_embeddings *e;
        OK(rk_embeddings_create(&config, &e));
        rk_ids in = {NULL, 2, ids, weights};
        rk_activation to = {out, 2, NULL};
        if (combiner == RK_COMBINER_SUM) {
            OK(look_up(e, 2, &in, &to));
            assert_true(out[0] == 2 && out[3] == 1); /* -1 + 2 */
        } else {
            FAILS(look_up(e, 2, &in, &to), RK_BAD_DATA,
                  "feature 'f': sample 1: the weight -1 of id 3 is not above 0\nhint: to drop such ids "
                  "instead, turn validation on");
        }
        ids[1] = -7;
        FAILS(look_up(e, 2, &in, &to), RK_BAD_DATA,
              "feature 'f': sample 0: id -7 is negative\nhint: to drop negative ids instead, turn validation "
              "on");
        ids[1] = 2;
        in.weights = NULL;
        OK(look_up(e, 2, &in, &to));
        rk_embeddings_free(e);
    }
}

/* Denominators of zero, by empty bags or by weights that cancel, give zeros and never NaN, forward and
 * backward. */
static void test_zero_denominators(void **state) {
    (void)state;
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    table.name = "t";
    table.n_rows = 4;
    table.dim = 3;
    for (int combiner = 0; combiner < RK_COMBINER_COUNT; combiner++) {
        rk_feature_config feature = {sizeof feature, "f", "t", (rk_combiner)combiner, 0, false, false};
        rk_embeddings_config config = {sizeof config, 1, &table, 1, &feature, 1, NULL, NULL, NULL};
        rk_embeddings *e;
        OK(rk_embeddings_create(&config, &e));
        static const int64_t offsets[] = {0, 0, 2, 3, 3}, ids[] = {1, 1, -3};
        static const float weights[] = {0, 0, 5};
        float out[12], before[12], after[12];
        rk_activation to = {out, 3, NULL};
        OK(look_up(e, 4, &(rk_ids){offsets, 0, ids, weights}, &to));
        for (int i = 0; i < 12; i++) assert_true(out[i] == 0);
        OK(rk_embeddings_read_rows(e, "t", 0, 4, before));
        for (int i = 0; i < 12; i++) out[i] = 1;
        OK(apply_gradients(e, &to));
        OK(rk_embeddings_read_rows(e, "t", 0, 4, after));
        for (int i = 0; i < 12; i++) assert_true(before[i] == after[i]);
        rk_embeddings_free(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_sort_of_feature),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_lookup_eval_leaves_no_trace),
        cmocka_unit_test(test_no_samples),
        cmocka_unit_test(test_refused_batches),
        cmocka_unit_test(test_lookup_eval_of_what_is_cut_off),
        cmocka_unit_test(test_without_validation),
        cmocka_unit_test(test_zero_denominators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
