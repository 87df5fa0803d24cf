/* Thousands of tables and features, and tables of more rows than 32 bits count; what create refuses. */
#include "testing.h"

#include <math.h>

#include "base/thread/clock.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "collection_steps.h"

enum { MANY = 4000 };

static void test_thousands_of_tables(void **state) {
    (void)state;
    static rk_table_config tables[MANY];
    static rk_feature_config features[MANY];
    static char names[MANY][16];
    static rk_ids ids[MANY];
    static rk_activation activations[MANY];
    static int64_t values[MANY][2];
    static float out[MANY][2 * 2];
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i * 7919 % MANY);
        tables[i] = (rk_table_config)RK_TABLE_CONFIG_INIT;
        tables[i].name = names[i];
        tables[i].n_rows = 3;
        tables[i].dim = 2;
        tables[i].initializer.kind = RK_INIT_ZEROS;
    }
    for (int i = 0; i < MANY; i++) { /* the first thousand features share a table */
        features[i] = (rk_feature_config){
            sizeof *features, names[i], names[i < 1000 ? 0 : i], RK_COMBINER_SUM, 0, false, false};
        values[i][0] = i % 3;
        values[i][1] = 1;
        ids[i] = (rk_ids){NULL, 1, values[i], NULL};
        activations[i] = (rk_activation){out[i], 2, NULL};
    }
    rk_optimizer sgd;
    OK(rk_optimizer_init(&sgd, RK_OPTIMIZER_SGD));
    sgd.learning_rate = 1;
    rk_embeddings_config config = {sizeof config, 1, tables, MANY, features, MANY, &sgd, NULL, NULL};
    rk_embeddings *e;
    double begin = rk_clock_seconds();
    OK(rk_embeddings_create(&config, &e));
    for (int i = 0; i < MANY; i++) OK(rk_embeddings_set_l2(e, names[i], 0, 0));
    for (int step = 0; step < 3; step++) {
        OK(look_up(e, 2, ids, activations));
        for (int i = 0; i < MANY; i++)
            for (int k = 0; k < 4; k++) out[i][k] = (float)(i + k + 1);
        OK(apply_gradients(e, activations));
    }
    assert_true(rk_clock_seconds() - begin <
                20); /* scans of all names for each name would take minutes under a sanitizer */
    float rows[3][2];
    for (int i = 1000; i < MANY; i += 97) {
        OK(rk_embeddings_read_rows(e, names[i], 0, 3, rows[0]));
        for (int r = 0; r < 3; r++)
            for (int k = 0; k < 2; k++)
                assert_true(rows[r][k] ==
                            -3.0f * (float)((r == i % 3 ? i + k + 1 : 0) + (r == 1 ? i + k + 3 : 0)));
    }
    OK(rk_embeddings_read_rows(e, names[0], 0, 3, rows[0]));
    double expected[3][2] = {{0}};
    for (int i = 0; i < 1000; i++)
        for (int k = 0; k < 2; k++) {
            expected[i % 3][k] -= 3.0 * (i + k + 1);
            expected[1][k] -= 3.0 * (i + k + 3);
        }
    for (int r = 0; r < 3; r++)
        for (int k = 0; k < 2; k++) assert_true(fabs(rows[r][k] - expected[r][k]) < 1);
    rk_embeddings_free(e);
}

/* A feature that most uses are of, most of them of one row and its neighbours, beside short ones: tables that
 * are dealt out by many threads and by one, parts that a thread has no room to sort in. Sums of whole
 * numbers, so exact. */
static void test_hot_rows(void **state) {
    (void)state;
    enum { SHORT = 30, N = 3000, LONG_IDS = 40, ROWS = 20000 };
    rk_parallel_set_threads(3); /* of more than 8, no table would be dealt out by one */
    static rk_table_config tables[SHORT + 1];
    static rk_feature_config features[SHORT + 1];
    static char names[SHORT + 1][16];
    static rk_ids ids[SHORT + 1];
    static rk_activation activations[SHORT + 1];
    static int64_t few[SHORT][N], many[N * LONG_IDS];
    static float out[SHORT + 1][N], expected[SHORT + 1][ROWS], rows[ROWS];
    rk_rng rng = {11, 0, 0};
    for (int i = 0; i <= SHORT; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        tables[i] = (rk_table_config)RK_TABLE_CONFIG_INIT;
        tables[i].name = names[i];
        tables[i].n_rows = ROWS;
        tables[i].dim = 1;
        tables[i].initializer.kind = RK_INIT_ZEROS;
        features[i] =
            (rk_feature_config){sizeof *features, names[i], names[i], RK_COMBINER_SUM, 0, false, false};
        ids[i] = i == SHORT ? (rk_ids){NULL, LONG_IDS, many, NULL} : (rk_ids){NULL, 1, few[i], NULL};
        activations[i] = (rk_activation){out[i], 1, NULL};
    }
    rk_optimizer sgd;
    OK(rk_optimizer_init(&sgd, RK_OPTIMIZER_SGD));
    sgd.learning_rate = 1;
    rk_embeddings_config config = {sizeof config, 1,    tables, SHORT + 1, features,
                                   SHORT + 1,     &sgd, NULL,   NULL};
    rk_embeddings *e;
    OK(rk_embeddings_create(&config, &e));
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < N * LONG_IDS; i++)
            many[i] = i % 3 ? 7 + (int64_t)rk_rng_below(&rng, 5) : (int64_t)rk_rng_below(&rng, ROWS);
        for (int i = 0; i < SHORT * N; i++) few[i / N][i % N] = (int64_t)rk_rng_below(&rng, ROWS);
        OK(look_up(e, N, ids, activations));
        for (int i = 0; i <= SHORT; i++)
            for (int s = 0; s < N; s++) {
                out[i][s] = (float)((s + i) % 5 - 1);
                for (int k = 0; k < ids[i].ids_per_sample; k++)
                    expected[i][ids[i].ids[s * ids[i].ids_per_sample + k]] -= out[i][s];
            }
        OK(apply_gradients(e, activations));
    }
    for (int i = 0; i <= SHORT; i++) {
        OK(rk_embeddings_read_rows(e, names[i], 0, ROWS, rows));
        assert_memory_equal(rows, expected[i], sizeof rows);
    }
    rk_embeddings_free(e);
}

/* Zero rows are pages that are not there until they are used, so a table of five billion takes next to
 * nothing. */
static void test_rows_beyond_32_bits(void **state) {
    (void)state;
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    table.name = "wide";
    table.n_rows = 5000000000;
    table.dim = 1;
    table.dtype = RK_BF16;
    table.initializer.kind = RK_INIT_ZEROS;
    rk_optimizer sgd;
    OK(rk_optimizer_init(&sgd, RK_OPTIMIZER_SGD));
    sgd.learning_rate = 1;
    rk_feature_config feature = {sizeof feature, "f", "wide", RK_COMBINER_SUM, 0, false, false};
    rk_embeddings_config config = {sizeof config, 1, &table, 1, &feature, 1, &sgd, NULL, NULL};
    rk_embeddings *e;
    rk_status status = rk_embeddings_create(&config, &e);
    if (status == RK_NO_MEMORY) skip(); /* a system that does not overcommit */
    assert_int_equal(status, RK_OK);
    assert_true(rk_embeddings_bytes(e) == 10000000000);
    static const int64_t ids[] = {4999999999, 0, 4294967296, 4999999999, 705032703};
    float out[5], row;
    rk_activation to = {out, 1, NULL};
    OK(look_up(e, 5, &(rk_ids){NULL, 1, ids, NULL}, &to));
    for (int i = 0; i < 5; i++) out[i] = (float)(1 << i);
    OK(apply_gradients(e, &to));
    rk_lookup *lookup; /* and again, from sums that wait for a step */
    OK(rk_lookup_create(e, &lookup));
    OK(rk_embeddings_lookup(e, 5, &(rk_ids){NULL, 1, ids, NULL}, lookup, &to));
    for (int i = 0; i < 5; i++) out[i] = (float)(1 << i);
    OK(rk_lookup_backward(lookup, &to));
    OK(rk_embeddings_step(e));
    rk_lookup_free(lookup);
    static const struct {
        int64_t row;
        float value;
    } expected[] = {{4999999999, -18}, {0, -4}, {4294967296, -8}, {705032703, -32}, {705032704, 0}, {1, 0}};
    for (int i = 0; i < 6; i++) {
        OK(rk_embeddings_read_rows(e, "wide", expected[i].row, 1, &row));
        assert_true(row == expected[i].value);
    }
    assert_int_equal(look_up(e, 1, &(rk_ids){NULL, 1, &(int64_t){5000000000}, NULL}, &to), RK_BAD_DATA);
    rk_embeddings_free(e);
}

static void test_what_create_refuses(void **state) {
    (void)state;
    rk_optimizer wrong;
    OK(rk_optimizer_init(&wrong, RK_OPTIMIZER_SGD));
    wrong.learning_rate = -1;
    rk_table_config good = RK_TABLE_CONFIG_INIT;
    good.name = "t";
    good.n_rows = 3;
    good.dim = 2;
    const rk_feature_config fine = {sizeof fine, "f", "t", RK_COMBINER_SUM, 0, false, false};
    rk_table_config tables[3];
    rk_feature_config features[3];
    rk_embeddings *e;
    long before = rk_alloc_live();
#define REFUSED(change, message)                                                                    \
    do {                                                                                            \
        rk_embeddings_config config = {sizeof config, 1, tables, 3, features, 3, NULL, NULL, NULL}; \
        for (int i = 0; i < 3; i++) tables[i] = good, features[i] = fine;                           \
        tables[1].name = "u", tables[2].name = "v";                                                 \
        features[1].name = "g", features[2].name = "h";                                             \
        change;                                                                                     \
        FAILS(rk_embeddings_create(&config, &e), RK_INVALID_ARGUMENT, message);                     \
        assert_int_equal(rk_alloc_live(), before);                                                  \
    } while (0)
    REFUSED(tables[1].name = NULL, "a table needs a name");
    REFUSED(tables[1].name = "", "a table needs a name");
    REFUSED(tables[1].n_rows = 0, "table 'u': n_rows must be 1 or more, not 0");
    REFUSED(tables[1].dim = 0, "table 'u': dim must be 1 to 4096, not 0");
    REFUSED(tables[1].dim = 4097, "table 'u': dim must be 1 to 4096, not 4097");
    REFUSED(tables[1].n_rows = INT64_MAX, "table 'u' is too large for memory addresses");
    REFUSED(tables[1].dtype = RK_F64, "table 'u': 'dtype' must be f32, bf16 or f16, not f64");
    REFUSED(tables[1].dtype = RK_DTYPE_COUNT, "table 'u': 'dtype' must be f32, bf16 or f16, not unknown");
    REFUSED(tables[2].initializer.stddev = -1,
            "table 'v': an initializer's stddev must be 0 or more, not -1");
    REFUSED(tables[2].optimizer = &wrong,
            "table 'v': learning_rate must be a finite number of 0 or more, not -1");
    REFUSED(config.optimizer = &wrong, "learning_rate must be a finite number of 0 or more, not -1");
    REFUSED(tables[2].name = "t", "two tables are named 't'");
    REFUSED(features[0].name = NULL, "a feature needs a name");
    REFUSED(features[2].name = "f", "two features are named 'f'");
    REFUSED(features[0].table = "w", "feature 'f': there is no table 'w'");
    REFUSED(features[0].table = NULL, "feature 'f': there is no table ''");
    REFUSED(features[0].combiner = RK_COMBINER_COUNT, "feature 'f': invalid combiner 3");
    REFUSED(features[0].max_sequence_length = -1,
            "feature 'f': max_sequence_length must be 0 or more, not -1");
    REFUSED(features[0].max_sequence_length = INT32_MAX,
            "feature 'f': max_sequence_length 2147483647 times dim 2 is too large");
    REFUSED(config.n_tables = -1, "the embeddings' config is missing or incomplete");
    REFUSED(config.features = NULL, "the embeddings' config is missing or incomplete");
#undef REFUSED
    FAILS(rk_embeddings_create(NULL, &e), RK_INVALID_ARGUMENT,
          "the embeddings' config is missing or incomplete");
}

static void test_rows_by_range(void **state) {
    (void)state;
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    table.name = "t";
    table.n_rows = 10;
    table.dim = 2;
    rk_embeddings_config config = {sizeof config, 1, &table, 1, NULL, 0, NULL, NULL, NULL};
    rk_embeddings *e;
    OK(rk_embeddings_create(&config, &e));
    float all[20], some[20], written[4] = {1, 2, 3, 4};
    OK(rk_embeddings_write_rows(e, "t", 7, 2, written));
    OK(rk_embeddings_read_rows(e, "t", 0, 10, all));
    OK(rk_embeddings_read_rows(e, "t", 6, 4, some));
    assert_memory_equal(all + 12, some, 8 * sizeof(float));
    assert_memory_equal(all + 14, written, sizeof written);
    OK(rk_embeddings_read_rows(e, "t", 10, 0, some));
    FAILS(rk_embeddings_read_rows(e, "t", 9, 2, some), RK_INVALID_ARGUMENT,
          "table 't' has 10 rows, but 2 from row 9 were requested");
    FAILS(rk_embeddings_write_rows(e, "t", -1, 2, some), RK_INVALID_ARGUMENT,
          "table 't' has 10 rows, but 2 from row -1 were requested");
    FAILS(rk_embeddings_read_rows(e, "t", 0, -1, some), RK_INVALID_ARGUMENT,
          "table 't' has 10 rows, but -1 from row 0 were requested");
    FAILS(rk_embeddings_read_rows(e, "x", 0, 1, some), RK_NOT_FOUND, "there is no table 'x'");
    rk_embeddings_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thousands_of_tables), cmocka_unit_test(test_hot_rows),
        cmocka_unit_test(test_rows_beyond_32_bits), cmocka_unit_test(test_what_create_refuses),
        cmocka_unit_test(test_rows_by_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
