/* One configuration for several threads: what is fitted to the data belongs to who fits it. Meant for the
 * thread sanitizer. */
#include "testing.h"

#include <pthread.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "train/clicks.h"

#include <reckon/dataset.h>
#include <reckon/trainer.h>

enum { N_ROWS = 400, N_STEPS = 5, N_THREADS = 2 };

static char directory[] = "/tmp/reckon_shared_config_XXXXXX";
static const char pairs_text[] =
    "data:\n"
    "  train: a.csv\n"
    "  features:\n"
    "    - {name: u, vocabulary: {}}\n"
    "    - {name: v, vocabulary: {}}\n"
    "embedding: {dim: 4}\n"
    "model: {kind: two_tower, retrieval: {user: u, item: v}}\n"
    "train: {batch_size: 64}\n";

typedef struct user {
    const rk_config *config;
    pthread_barrier_t *start;
    double losses[N_STEPS];
    rk_status status;
} user;

static rk_status train(user *u) {
    rk_dataset *dataset = NULL, *valid = NULL;
    rk_model *model = NULL;
    rk_status status = rk_dataset_open(u->config, "train", &dataset);
    if (status == RK_OK) status = rk_dataset_open(u->config, "train", &valid);
    if (status == RK_OK) status = rk_model_create(u->config, dataset, &model);
    for (int i = 0; i < N_STEPS && status == RK_OK; i++) {
        const rk_batch *batch;
        status = rk_dataset_next(dataset, &batch);
        if (status == RK_OK) status = rk_model_train(model, batch, &u->losses[i]);
    }
    rk_model_free(model);
    rk_dataset_free(dataset);
    rk_dataset_free(valid);
    return status;
}

static void *run(void *context) {
    user *u = context;
    pthread_barrier_wait(u->start);
    u->status = train(u);
    if (u->status != RK_OK) print_error("%s\n", rk_last_error());
    return NULL;
}

static void train_at_once(const char *text) {
    rk_config *config;
    char *before, *after;
    OK(rk_config_parse(text, "run.yaml", directory, NULL, 0, &config));
    OK(rk_config_to_yaml(config, &before));
    user users[N_THREADS] = {{.losses = {0}}};
    pthread_t threads[N_THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, N_THREADS);
    for (int i = 0; i < N_THREADS; i++) {
        users[i].config = config;
        users[i].start = &start;
        assert_int_equal(pthread_create(&threads[i], NULL, run, &users[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    for (int i = 0; i < N_THREADS; i++) assert_int_equal(users[i].status, RK_OK);
    assert_memory_equal(users[0].losses, users[1].losses, sizeof users[0].losses);
    assert_true(users[0].losses[0] > 0);
    OK(rk_config_to_yaml(config, &after));
    assert_string_equal(before, after);
    rk_text_free(before);
    rk_text_free(after);
    rk_config_free(config);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_clicks(void **state) {
    (void)state;
    train_at_once(CLICKS_AND_MODEL "train: {batch_size: 64}\n");
}

static void test_patterns(void **state) {
    (void)state;
    train_at_once(
        "data:\n"
        "  train: a.csv\n"
        "  labels: [{name: y}]\n"
        "  features: [{match: 'u*', vocabulary: {}}, {match: '?', hash: 20}]\n"
        "model: fm\n"
        "train: {batch_size: 64}\n");
}

static void test_pairs(void **state) {
    (void)state;
    train_at_once(pairs_text);
}

static void *train_run(void *context) {
    const rk_config *config = context;
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    rk_trainer *trainer = NULL;
    rk_status status = rk_trainer_create(config, &options, &trainer);
    if (status != RK_OK) print_error("%s\n", rk_last_error());
    rk_trainer_free(trainer);
    return (void *)(size_t)status;
}

/* Two trainers of one output cannot run at once, so one fits its transforms beside a dataset's. */
static void test_trainer_beside_a_dataset(void **state) {
    (void)state;
    rk_config *config;
    pthread_t thread;
    rk_dataset *dataset;
    void *status;
    char override[100];
    snprintf(override, sizeof override, "train.output=%s/run", directory);
    OK(rk_config_parse(CLICKS_AND_MODEL "train: {batch_size: 64}\n", "run.yaml", directory,
                       (const char *[]){override}, 1, &config));
    assert_int_equal(pthread_create(&thread, NULL, train_run, config), 0);
    OK(rk_dataset_open(config, "valid", &dataset));
    pthread_join(thread, &status);
    assert_null(status);
    rk_dataset_free(dataset);
    rk_config_free(config);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    if (!mkdtemp(directory)) return 1;
    write_clicks(directory, N_ROWS);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clicks), cmocka_unit_test(test_patterns),
                                       cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_trainer_beside_a_dataset)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return rk_remove_tree(directory) != RK_OK || failed;
}
