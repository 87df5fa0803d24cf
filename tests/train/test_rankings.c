/* A two_tower from its run file to its rankings, which are held against scores of single pairs ranked
 * plainly; resumed; served. */
#include "testing.h"

#include <math.h>
#include <unistd.h>

#include <reckon/experimental/plan.h>

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "train/run/trainer_internal.h"

enum { USERS = 40, ITEMS = 90, K = 5 };
static char directory[] = "/tmp/reckon-rankings-XXXXXX";

static const char *const run_text =
    "data:\n"
    "  format: adjacency\n"
    "  train: train.txt\n"
    "  valid: {fraction: 0.25}\n"
    "  test: test.txt\n"
    "  features:\n"
    "    - {name: user, identity: 40}\n"
    "    - {name: item, identity: 90}\n"
    "embedding: {dim: 8, features: [{name: history, table: item}]}\n"
    "model:\n"
    "  kind: two_tower\n"
    "  retrieval: {user: user, item: item, history: true, similarity: cosine, temperature: 0.2, negatives: "
    "32}\n"
    "train:\n"
    "  batch_size: 32\n"
    "  epochs: 12\n"
    "  metrics: [recall@5, hit@5, ndcg@5]\n"
    "  early_stopping: {metric: ndcg@3, patience: 10}\n"
    "  optimizer: {kind: adam, learning_rate: 0.02}\n";

static bool in_train[USERS][ITEMS], in_test[USERS][ITEMS];

/* Users and items of three kinds; a user likes its own. User 7 has no test items. */
static void make_data(void) {
    rk_rng rng = {1, 1, 0};
    for (int split = 0; split < 2; split++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s.txt", directory, split ? "test" : "train");
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        for (int u = 0; u < USERS; u++) {
            fprintf(file, "%d", u);
            for (int i = 0; i < ITEMS && !(split && u == 7); i++) {
                if (in_train[u][i] || rk_rng_below(&rng, u % 3 == i % 3 ? 3 : 30)) continue;
                (split ? in_test : in_train)[u][i] = true;
                fprintf(file, " %d", i);
            }
            fputc('\n', file);
        }
        fclose(file);
    }
}

static rk_config *load(const char *output) {
    char override[300];
    snprintf(override, sizeof override, "train.output=%s/%s", directory, output);
    const char *overrides[] = {override};
    rk_config *config;
    OK(rk_config_parse(run_text, "run.yaml", directory, overrides, 1, &config));
    return config;
}

static void score_all(rk_model *model, float scores[USERS][ITEMS]) {
    for (int64_t u = 0; u < USERS; u++)
        for (int64_t i = 0; i < ITEMS; i++) {
            const rk_ids features[2] = {{.ids_per_sample = 1, .ids = &u}, {.ids_per_sample = 1, .ids = &i}};
            OK(rk_model_predict(model, &(rk_batch){.n = 1, .n_features = 2, .features = features},
                                &scores[u][i]));
        }
}

/* recall, hit and ndcg at K by repeatedly taking the best item that is left. */
static void rank_plainly(rk_model *model, double wanted[3]) {
    static float scores[USERS][ITEMS];
    int n_users = 0;
    score_all(model, scores);
    for (int u = 0; u < USERS; u++) {
        bool taken[ITEMS];
        int n = 0, hits = 0;
        double gain = 0, ideal = 0;
        memcpy(taken, in_train[u], sizeof taken);
        for (int i = 0; i < ITEMS; i++) n += in_test[u][i];
        if (n == 0) continue;
        n_users++;
        for (int place = 0; place < K; place++) {
            int best = -1;
            for (int i = 0; i < ITEMS; i++)
                if (!taken[i] && (best < 0 || scores[u][i] > scores[u][best])) best = i;
            taken[best] = true;
            hits += in_test[u][best];
            gain += in_test[u][best] / log2(place + 2);
            ideal += (place < n) / log2(place + 2);
        }
        wanted[0] += (double)hits / n;
        wanted[1] += hits > 0;
        wanted[2] += gain / ideal;
    }
    assert_int_equal(n_users, USERS - 1);
    for (int m = 0; m < 3; m++) wanted[m] /= n_users;
}

static double evaluate(rk_trainer *trainer, const char *split, double out[3]) {
    const rk_metric *metrics;
    int32_t n;
    static const char *const names[] = {"recall@5", "hit@5", "ndcg@5", "ndcg@3"};
    OK(rk_trainer_evaluate(trainer, split, &metrics, &n));
    assert_int_equal(n, 4); /* what is shown, and what the run goes by */
    for (int m = 0; m < 4; m++) assert_string_equal(metrics[m].name, names[m]);
    for (int m = 0; m < 3; m++) out[m] = metrics[m].value;
    return metrics[3].value;
}

static void test_whole_runs(void **state) {
    (void)state;
    double found[2][3], wanted[3] = {0};
    for (int round = 0; round < 2; round++) {
        rk_config *config = load(round ? "b" : "a");
        rk_trainer *trainer;
        double valid[3];
        OK(rk_parallel_set_threads(round ? 3 : 1));
        OK(rk_trainer_create(config, NULL, &trainer));
        OK(rk_trainer_run(trainer));
        evaluate(trainer, "test", found[round]);
        assert_true(evaluate(trainer, "valid", valid) == trainer->progress.stopping.best);
        if (round == 0) rank_plainly(rk_trainer_model(trainer), wanted);
        rk_trainer_free(trainer);
        rk_config_free(config);
    }
    for (int m = 0; m < 3; m++) {
        assert_true(fabs(found[0][m] - wanted[m]) < 1e-12);
        assert_true(found[0][m] == found[1][m]);
    }
    assert_true(wanted[0] > 0.12); /* at random: 1 / 15 */
    assert_int_equal(rk_alloc_live(), 0);
}

/* The checkpoint's model, alone, after its config is gone: histories are still there. */
static void test_loaded(void **state) {
    (void)state;
    char path[256], *found;
    rk_model *model;
    double wanted[3] = {0};
    snprintf(path, sizeof path, "%s/a", directory);
    OK(rk_checkpoint_find_best(path, &found));
    OK(rk_checkpoint_load_model(found, &model));
    rank_plainly(model, wanted);
    assert_true(wanted[0] > 0.12);
    rk_model_free(model);
    rk_free(found);
    assert_int_equal(rk_alloc_live(), 0);
}

static void refused(const char *override, const char *message) {
    rk_config *config;
    FAILS(rk_config_parse(run_text, "run.yaml", directory, &override, 1, &config), RK_CONFIG, message);
}

static void mistaken(const char *override, const char *message) {
    rk_config *config;
    rk_interactions *known;
    OK(rk_config_parse(run_text, "run.yaml", directory, &override, 1, &config));
    FAILS(rk_config_load_interactions(config, &known), RK_CONFIG, message);
    rk_config_free(config);
}

static void test_refusals(void **state) {
    (void)state;
    refused("train.early_stopping.metric=auc",
            "run.yaml:17: key 'metric': unknown ranking metric 'auc'\nhint: it is recall@K, ndcg@K "
            "or hit@K");
    refused("model={kind: fm}", "run.yaml:2: key 'data': a model needs one label or more");
    mistaken("model.retrieval.item=itme",
             "--set: key 'item': there is no categorical feature 'itme'\nhint: did you mean 'item'?");
    mistaken("model.retrieval.item=user",
             "run.yaml:12: key 'user': 'user' and 'item' must be two different features");
    rk_config *config = load("c");
    rk_plan *plan;
    FAILS(rk_plan_make(config, NULL, &plan), RK_UNSUPPORTED,
          "'reckon plan' does not support 'model.kind: two_tower'");
    rk_config_free(config);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole_runs), cmocka_unit_test(test_loaded),
                                       cmocka_unit_test(test_refusals)};
    if (!mkdtemp(directory)) return 1;
    make_data();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) || failed;
}
