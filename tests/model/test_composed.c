/* Features of several rows a value: pooled, multiplied and side by side, a prediction and the gradients of
 * all rows are those of plain loops in double. */
#include "fixture.h"

#include <math.h>

enum { FEATURES = 3, PARTS = 2, DIM = 4, N = 9, ROWS = 10 };
static const double LEARNING_RATE = 0.5;

static const rk_data_feature_info infos[FEATURES] = {
    {.name = "pooled", .cardinality = ROWS, .n_parts = PARTS, .compose = RK_COMPOSE_POOL},
    {.name = "product", .cardinality = ROWS, .n_parts = PARTS, .compose = RK_COMPOSE_MULTIPLY},
    {.name = "beside", .cardinality = ROWS, .n_parts = PARTS, .compose = RK_COMPOSE_CONCAT}};

/* A logit that gives each column of `vectors` a weight of its own. */
static const char text[] =
    "model:\n  kind: graph\n  layers: [{name: logit, op: linear, inputs: vectors, units: 1}]\n"
    "embedding: {dim: 4, combiner: sum, initializer: {kind: normal, stddev: 1}, optimizer: {kind: sgd, "
    "learning_rate: 0.5}}\n";
enum { COLUMNS = DIM + DIM + PARTS * DIM };

typedef struct rows {
    double values[FEATURES][ROWS][DIM];
} rows;

static int64_t ids[FEATURES][N * PARTS];
static float labels[N];
static float weights[COLUMNS];

static rk_batch draw(rk_ids *features) {
    rk_rng rng = {3, 1, 0};
    for (int f = 0; f < FEATURES; f++) {
        for (int i = 0; i < N * PARTS; i++) ids[f][i] = (int64_t)rk_rng_below(&rng, ROWS);
        features[f] = (rk_ids){.ids_per_sample = PARTS, .ids = ids[f]};
    }
    for (int i = 0; i < N; i++) labels[i] = (float)rk_rng_below(&rng, 2);
    return (rk_batch){.n = N, .n_features = FEATURES, .n_tasks = 1, .features = features, .labels = labels};
}

static rows read_rows(rk_model *model) {
    rows out;
    for (int f = 0; f < FEATURES; f++) {
        float values[ROWS][DIM];
        OK(rk_embeddings_read_rows(rk_model_embeddings(model), infos[f].name, 0, ROWS, values[0]));
        for (int row = 0; row < ROWS; row++)
            for (int k = 0; k < DIM; k++) out.values[f][row][k] = (double)values[row][k];
    }
    return out;
}

static double logit(const rows *r, int64_t sample) {
    double sum = 0;
    for (int k = 0; k < DIM; k++) {
        const int64_t *of[FEATURES];
        for (int f = 0; f < FEATURES; f++) of[f] = &ids[f][sample * PARTS];
        sum += (double)weights[k] * (r->values[0][of[0][0]][k] + r->values[0][of[0][1]][k]);
        sum += (double)weights[DIM + k] * r->values[1][of[1][0]][k] * r->values[1][of[1][1]][k];
        sum += (double)weights[2 * DIM + k] * r->values[2][of[2][0]][k];
        sum += (double)weights[3 * DIM + k] * r->values[2][of[2][1]][k];
    }
    return sum;
}

static double loss(const rows *r) {
    double sum = 0;
    for (int64_t i = 0; i < N; i++) {
        double x = logit(r, i);
        sum += log1p(exp(-fabs(x))) + (x > 0 ? x : 0) - (double)labels[i] * x;
    }
    return sum / N;
}

static void find_weights(rk_model *model) {
    rk_state_dict state = {0};
    OK(rk_model_state_dict(model, &state));
    const rk_state_dict_entry *entry = NULL;
    for (size_t i = 0; i < state.n; i++)
        if (strstr(state.entries[i].name, "logit") &&
            rk_state_dict_entry_bytes(&state.entries[i]) == sizeof weights)
            entry = entry ? entry : &state.entries[i];
    assert_non_null(entry);
    memcpy(weights, entry->data, sizeof weights);
    rk_state_dict_release(&state);
}

static void test_plain_loops(void **state) {
    (void)state;
    fixture f;
    rk_model *model;
    rk_ids features[FEATURES];
    const rk_batch batch = draw(features);
    float predictions[N];
    double trained;
    fixture_init(&f, text, infos, FEATURES, 0, 1);
    OK(rk_model_build(&f.options, &model));
    find_weights(model);
    rows before = read_rows(model);
    OK(rk_model_predict(model, &batch, predictions));
    for (int64_t i = 0; i < N; i++)
        assert_true(fabs((double)predictions[i] - 1 / (1 + exp(-logit(&before, i)))) < 1e-5);
    OK(rk_model_train(model, &batch, &trained));
    assert_true(fabs(trained - loss(&before)) < 1e-5);
    rows after = read_rows(model);
    for (int t = 0; t < FEATURES; t++)
        for (int row = 0; row < ROWS; row++)
            for (int k = 0; k < DIM; k++) {
                rows moved = before;
                moved.values[t][row][k] += 1e-5;
                double above = loss(&moved);
                moved.values[t][row][k] -= 2e-5;
                double slope = (above - loss(&moved)) / 2e-5;
                double wanted = before.values[t][row][k] - LEARNING_RATE * slope;
                if (!(fabs(after.values[t][row][k] - wanted) < 2e-5))
                    fail_msg("%s row %d: %g, not %g", infos[t].name, row, after.values[t][row][k], wanted);
            }
    rk_model_free(model);
    fixture_release(&f);
}

/* Rows after two steps on batches that share none: staleness then changes nothing. */
static rows train_two(int64_t staleness) {
    fixture f;
    rk_model *model;
    rk_ids features[FEATURES];
    fixture_init(&f, text, infos, FEATURES, 0, 1);
    f.options.staleness = staleness;
    OK(rk_model_build(&f.options, &model));
    for (int step = 0; step < 2; step++) {
        const rk_batch batch = draw(features);
        double trained;
        for (int t = 0; t < FEATURES; t++)
            for (int i = 0; i < N * PARTS; i++) ids[t][i] = ids[t][i] / 2 + step * ROWS / 2;
        OK(rk_model_train(model, &batch, &trained));
    }
    OK(rk_model_flush(model));
    rows out = read_rows(model);
    rk_model_free(model);
    fixture_release(&f);
    return out;
}

static void test_stale(void **state) {
    (void)state;
    rows now = train_two(0), late = train_two(1);
    assert_memory_equal(&now, &late, sizeof now);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain_loops), cmocka_unit_test(test_stale)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
