/* Pools of threads in options: who brings one works on it, beside others, to the same bits. */
#include "testing.h"

#include <pthread.h>
#include <unistd.h>

#include <reckon/reckon.h>

enum { N_STEPS = 12, N_ROWS = 20000, DIM = 16, N_IDS = 30000 };

static char directory[] = "/tmp/reckon_pool_XXXXXX";

/* Threads of this process. */
static int count_threads(void) {
    char line[256];
    int n = 0;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Threads: %d", &n) == 1) break;
    fclose(file);
    return n;
}

static rk_config *load_config(const char *output) {
    char place[300];
    const char *overrides[] = {place, "train.steps=12", "train.batch_size=512", "train.threads=7",
                               "train.checkpoint.every_epochs=0"};
    rk_config *config;
    snprintf(place, sizeof place, "train.output=%s/%s", directory, output);
    OK(rk_config_load(RK_SOURCE_DIR "/examples/adult.yaml", overrides, sizeof overrides / sizeof *overrides,
                      &config));
    return config;
}

typedef struct training {
    char name[16];
    rk_pool *pool;
    double auc;
    rk_status status;
} training;

static double find_auc(const rk_metric *metrics, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (strcmp(metrics[i].name, "auc") == 0) return metrics[i].value;
    return -1;
}

static rk_status train(training *t) {
    rk_config *config = load_config(t->name);
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    rk_trainer *trainer = NULL;
    const rk_metric *metrics;
    int32_t n;
    options.pool = t->pool;
    rk_status status = rk_trainer_create(config, &options, &trainer);
    if (status == RK_OK) status = rk_trainer_run(trainer);
    if (status == RK_OK) status = rk_trainer_evaluate(trainer, "valid", &metrics, &n);
    if (status == RK_OK) t->auc = find_auc(metrics, n);
    rk_trainer_free(trainer);
    rk_config_free(config);
    return status;
}

static void *run(void *argument) {
    training *t = argument;
    t->status = train(t);
    if (t->status != RK_OK) print_error("%s\n", rk_last_error());
    return NULL;
}

static void test_trainers_at_once(void **state) {
    (void)state;
    training alone = {.name = "alone"}, two[2] = {{.name = "a"}, {.name = "b"}};
    pthread_t threads[2];
    OK(train(&alone));
    assert_int_equal(rk_threads(), 7); /* as the run file says, whose pool is the process's */
    OK(rk_set_threads(1));
    int n_before = count_threads();
    for (int i = 0; i < 2; i++) {
        OK(rk_pool_create(3, &two[i].pool));
        assert_int_equal(pthread_create(&threads[i], NULL, run, &two[i]), 0);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_int_equal(count_threads(), n_before + 4); /* two of each pool, beside its caller */
    for (int i = 0; i < 2; i++) {
        OK(two[i].status);
        assert_true(two[i].auc > 0.5 && two[i].auc == alone.auc);
        rk_pool_free(two[i].pool);
    }
    assert_int_equal(count_threads(), n_before);
    assert_int_equal(rk_threads(), 1);
}

static rk_status sum_rows(void *user, int64_t row, const float *predictions, const float *labels) {
    (void)row;
    (void)labels;
    *(double *)user += (double)predictions[0];
    return RK_OK;
}

static void test_predictor(void **state) {
    (void)state;
    double sums[2] = {0, 0};
    char run_directory[300];
    snprintf(run_directory, sizeof run_directory, "%s/alone", directory);
    for (int i = 0; i < 2; i++) {
        rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
        rk_predictor *predictor;
        int n_before = count_threads();
        if (i) OK(rk_pool_create(3, &options.pool));
        OK(rk_predictor_open(run_directory, &options, &predictor));
        OK(rk_predictor_file(predictor, "test", sum_rows, &sums[i]));
        rk_predictor_free(predictor);
        assert_int_equal(count_threads(), n_before + 2 * i);
        rk_pool_free(options.pool);
    }
    assert_true(sums[0] > 0 && sums[0] == sums[1]);
}

/* The first rows after some steps over ids that many bags share. */
static void train_collection(rk_pool *pool, float *rows) {
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    table.name = "t", table.n_rows = N_ROWS, table.dim = DIM;
    rk_feature_config feature = RK_FEATURE_CONFIG_INIT;
    feature.name = "f", feature.table = "t";
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    config.tables = &table, config.n_tables = 1, config.features = &feature, config.n_features = 1;
    config.pool = pool;
    rk_embeddings *embeddings;
    rk_lookup *lookup;
    int64_t *ids = calloc(N_IDS, sizeof *ids);
    float *values = calloc((size_t)N_IDS * DIM, sizeof *values);
    for (int64_t i = 0; i < N_IDS; i++) ids[i] = i * i % 7919;
    rk_activation activation = {values, DIM, NULL};
    rk_ids column = {.ids_per_sample = 1, .ids = ids};
    OK(rk_embeddings_create(&config, &embeddings));
    OK(rk_lookup_create(embeddings, &lookup));
    for (int step = 0; step < 3; step++) {
        OK(rk_embeddings_lookup(embeddings, N_IDS, &column, lookup, &activation));
        if (step == 1) {
            OK(rk_lookup_backward(lookup, &activation));
            OK(rk_embeddings_step(embeddings));
        } else {
            OK(rk_lookup_apply_gradients(lookup, &activation));
        }
        OK(rk_embeddings_lookup_eval(embeddings, N_IDS, &column, lookup, &activation));
    }
    OK(rk_embeddings_read_rows(embeddings, "t", 0, 500, rows));
    rk_lookup_free(lookup);
    rk_embeddings_free(embeddings);
    free(values);
    free(ids);
}

static void test_collection(void **state) {
    (void)state;
    static float rows[2][500 * DIM];
    rk_pool *pool;
    OK(rk_set_threads(1));
    train_collection(NULL, rows[0]);
    int n_before = count_threads();
    OK(rk_pool_create(4, &pool));
    train_collection(pool, rows[1]);
    assert_int_equal(count_threads(), n_before + 3);
    rk_pool_free(pool);
    assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
}

static int set_up(void **state) {
    (void)state;
    return !mkdtemp(directory);
}

static int tear_down(void **state) {
    (void)state;
    char command[400];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainers_at_once),
        cmocka_unit_test(test_predictor),
        cmocka_unit_test(test_collection),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
