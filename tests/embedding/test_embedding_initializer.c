/* The first values of rows: their laws, and what they depend on. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "embedding/local/collection.h"
#include "embedding/local/initializer.h"

enum { N_ROWS = 5000, DIM = 16, N_VALUES = N_ROWS * DIM };

static float values[N_VALUES], others[N_VALUES];

/* Rows of a table called `name`. */
static void make_rows(const char *name, uint64_t seed, int64_t n_rows, int32_t dim, rk_dtype dtype,
                      rk_initializer initializer, float *out) {
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    table.name = name;
    table.n_rows = n_rows;
    table.dim = dim;
    table.dtype = dtype;
    table.initializer = initializer;
    rk_embeddings_config config = {sizeof config, seed, &table, 1, NULL, 0, NULL, NULL, NULL};
    rk_embeddings *e;
    OK(rk_embeddings_create(&config, &e));
    OK(rk_embeddings_read_rows(e, name, 0, n_rows, out));
    rk_embeddings_free(e);
}

typedef struct law {
    double mean, deviation, kurtosis, least, most;
} law;

static law law_of(const float *x, int n) {
    law l = {0, 0, 0, INFINITY, -INFINITY};
    for (int i = 0; i < n; i++) {
        l.mean += x[i] / (double)n;
        l.least = fmin(l.least, x[i]);
        l.most = fmax(l.most, x[i]);
    }
    double fourth = 0;
    for (int i = 0; i < n; i++) {
        double d = x[i] - l.mean;
        l.deviation += d * d / n;
        fourth += d * d * d * d / n;
    }
    l.kurtosis = fourth / (l.deviation * l.deviation);
    l.deviation = sqrt(l.deviation);
    return l;
}

static bool near(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance;
}

static void test_laws(void **state) {
    (void)state;
    make_rows("t", 1, N_ROWS, DIM, RK_F32, (rk_initializer){.kind = RK_INIT_NORMAL, .mean = 3, .stddev = 2},
              values);
    law l = law_of(values, N_VALUES);
    assert_true(near(l.mean, 3, 0.03) && near(l.deviation, 2, 0.03) && near(l.kurtosis, 3, 0.1) &&
                l.most > 3 + 2 * 3.5 && l.least < 3 - 2 * 3.5);
    make_rows("t", 1, N_ROWS, DIM, RK_F32, (rk_initializer){0}, values); /* the default: 0, 1/sqrt(dim) */
    l = law_of(values, N_VALUES);
    assert_true(near(l.mean, 0, 0.005) &&
                near(l.deviation, 0.8796 / 4, 0.003)); /* two deviations leave 0.88 of one */
    assert_true(l.most <= 0.5 && l.least >= -0.5 && l.most > 0.495 && l.least < -0.495 &&
                near(l.kurtosis, 2.366, 0.05));
    make_rows("t", 1, N_ROWS, DIM, RK_F32, (rk_initializer){.kind = RK_INIT_UNIFORM, .min = -1, .max = 5},
              values);
    l = law_of(values, N_VALUES);
    assert_true(near(l.mean, 2, 0.03) && near(l.deviation, 6 / sqrt(12), 0.02) &&
                near(l.kurtosis, 1.8, 0.03) && l.least >= -1 && l.most <= 5);
    static const struct {
        rk_initializer_kind kind;
        float value;
    } constants[] = {{RK_INIT_ZEROS, 0}, {RK_INIT_ONES, 1}, {RK_INIT_CONSTANT, -0.75f}};
    for (int dtype = 0; dtype < RK_ROW_DTYPE_COUNT; dtype++)
        for (int i = 0; i < 3; i++) {
            make_rows("t", 1, 70, 3, (rk_dtype)dtype,
                      (rk_initializer){.kind = constants[i].kind, .value = -0.75}, values);
            for (int k = 0; k < 210; k++) assert_true(values[k] == constants[i].value);
        }
}

/* Neighbouring rows and columns must not be alike: their correlation over many draws is none. */
static void test_values_are_independent(void **state) {
    (void)state;
    make_rows("t", 1, N_ROWS, DIM, RK_F32, (rk_initializer){.kind = RK_INIT_NORMAL, .stddev = 1}, values);
    static const int lags[] = {1, 2, 3, DIM, 2 * DIM, 1024 * DIM};
    for (int l = 0; l < 6; l++) {
        double sum = 0;
        for (int i = 0; i + lags[l] < N_VALUES; i++) sum += values[i] * values[i + lags[l]];
        assert_true(fabs(sum / (N_VALUES - lags[l])) < 0.015);
    }
}

/* A value is a function of (seed, name, id, column), and of nothing else. */
static void test_what_values_depend_on(void **state) {
    (void)state;
    static const rk_initializer laws[] = {{.kind = RK_INIT_TRUNCATED_NORMAL, .stddev = 1},
                                          {.kind = RK_INIT_NORMAL, .stddev = 1},
                                          {.kind = RK_INIT_UNIFORM, .min = -1, .max = 1}};
    for (int i = 0; i < 3; i++) {
        make_rows("t", 1, N_ROWS, DIM, RK_F32, laws[i], values);
        make_rows("t", 1, N_ROWS, DIM, RK_F32, laws[i], others);
        assert_memory_equal(values, others, sizeof values);
        make_rows("t", 1, 33, DIM, RK_F32, laws[i], others); /* fewer rows: the same, as far as they go */
        assert_memory_equal(values, others, 33 * DIM * sizeof(float));
        make_rows("t", 1, N_ROWS, 5, RK_F32, laws[i], others); /* fewer columns likewise */
        for (int row = 0; row < N_ROWS; row++)
            assert_memory_equal(values + row * DIM, others + row * 5, 5 * sizeof(float));
        make_rows("t", 1, N_ROWS, DIM, RK_BF16, laws[i],
                  others); /* bf16: the same, rounded to one side or the other */
        for (int k = 0; k < N_VALUES; k++)
            assert_true(fabsf(values[k] - others[k]) <= fabsf(values[k]) / 128);
        make_rows("t", 2, N_ROWS, DIM, RK_F32, laws[i], others);
        int equal = 0;
        for (int k = 0; k < N_VALUES; k++) equal += values[k] == others[k];
        make_rows("u", 1, N_ROWS, DIM, RK_F32, laws[i], others);
        for (int k = 0; k < N_VALUES; k++) equal += values[k] == others[k];
        assert_true(equal < 5);
    }
}

/* These bits are in users' checkpoints and published runs: a change of them is a change of format. */
static void test_known_values(void **state) {
    (void)state;
    static const float uniform[3] = {0.225025237f, 0.234785557f, 0.802763283f},
                       normal[3] = {-0.755330741f, -0.723176837f, 0.851532757f},
                       truncated[3] = {-0.714248776f, -0.684426606f, 0.802912831f};
    float row[3];
    rk_initialize_row(&(rk_initializer){.kind = RK_INIT_UNIFORM, .min = 0, .max = 1}, 1, 2, 3, 3, row);
    assert_memory_equal(row, uniform, sizeof row);
    rk_initialize_row(&(rk_initializer){.kind = RK_INIT_NORMAL, .stddev = 1}, 1, 2, 3, 3, row);
    assert_memory_equal(row, normal, sizeof row);
    rk_initialize_row(&(rk_initializer){.kind = RK_INIT_TRUNCATED_NORMAL, .stddev = 1}, 1, 2, 3, 3, row);
    assert_memory_equal(row, truncated, sizeof row);
}

static void test_mistakes(void **state) {
    (void)state;
    static const struct {
        rk_initializer initializer;
        const char *message;
    } cases[] = {
        {{.kind = RK_INIT_COUNT}, "invalid initializer kind 6"},
        {{.kind = RK_INIT_NORMAL, .stddev = -1}, "an initializer's stddev must be 0 or more, not -1"},
        {{.kind = RK_INIT_NORMAL, .stddev = INFINITY}, "an initializer's stddev must be 0 or more, not inf"},
        {{.kind = RK_INIT_NORMAL, .mean = NAN}, "an initializer's numbers must be finite"},
        {{.kind = RK_INIT_CONSTANT, .value = INFINITY}, "an initializer's numbers must be finite"},
        {{.kind = RK_INIT_UNIFORM, .max = INFINITY}, "an initializer's numbers must be finite"},
        {{.kind = RK_INIT_UNIFORM, .min = 2, .max = 1}, "an initializer's min 2 is above its max 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        FAILS(rk_initializer_validate(&cases[i].initializer), RK_INVALID_ARGUMENT, cases[i].message);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_laws),
        cmocka_unit_test(test_values_are_independent),
        cmocka_unit_test(test_what_values_depend_on),
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
