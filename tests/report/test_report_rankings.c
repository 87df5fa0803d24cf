/* Reports of a two_tower: rankings in place of predictions, beside a run of predictions. */
#include "testing.h"

#include <unistd.h>

#include <reckon/experimental/report.h>
#include <reckon/trainer.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "report/report_run.h"

static char directory[] = "/tmp/reckon-report-XXXXXX";
static char pairs_run[64], labels_run[64];

static const char *const pairs_text =
    "data:\n"
    "  format: adjacency\n"
    "  train: pairs.txt\n"
    "  valid: {fraction: 0.25}\n"
    "  features: [{name: user, identity: 30}, {name: item, identity: 40}]\n"
    "embedding: {dim: 8}\n"
    "model: {kind: two_tower, retrieval: {user: user, item: item, negatives: 16}}\n"
    "train: {batch_size: 32, epochs: 4, metrics: [recall@3, hit@5], early_stopping: {metric: ndcg@7, "
    "patience: 9}}\n";

static const char *const labels_text =
    "data:\n"
    "  train: labels.csv\n"
    "  valid: {fraction: 0.25}\n"
    "  labels: [{name: y}]\n"
    "  features: [{name: a, hash: 20}]\n"
    "model: {kind: lr}\n"
    "train: {batch_size: 32, epochs: 1}\n";

static FILE *create(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    return file;
}

static void train(const char *text, const char *output) {
    char override[200];
    snprintf(override, sizeof override, "train.output=%s", output);
    const char *overrides[] = {override};
    rk_config *config;
    rk_trainer *trainer;
    OK(rk_config_parse(text, "run.yaml", directory, overrides, 1, &config));
    OK(rk_trainer_create(config, NULL, &trainer));
    OK(rk_trainer_run(trainer));
    rk_trainer_free(trainer);
    rk_config_free(config);
}

static int set_up(void **state) {
    (void)state;
    rk_rng rng = {2, 1, 0};
    assert_non_null(mkdtemp(directory));
    FILE *file = create("pairs.txt");
    for (int u = 0; u < 30; u++) {
        fprintf(file, "%d", u);
        for (int i = u % 4; i < 40; i += 1 + (int)rk_rng_below(&rng, 7)) fprintf(file, " %d", i);
        fprintf(file, "\n");
    }
    fclose(file);
    file = create("labels.csv");
    fprintf(file, "a,y\n");
    for (int i = 0; i < 300; i++) fprintf(file, "%d,%d\n", (int)rk_rng_below(&rng, 9), i % 2);
    fclose(file);
    snprintf(pairs_run, sizeof pairs_run, "%s/pairs", directory);
    snprintf(labels_run, sizeof labels_run, "%s/labels", directory);
    train(pairs_text, pairs_run);
    train(labels_text, labels_run);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    rk_remove_tree(directory);
    return 0;
}

/* Values at the cuts are those of the metrics by name, and grow with the cut. */
static void test_values(void **state) {
    (void)state;
    rk_report_options options = RK_REPORT_OPTIONS_INIT;
    rk_report_run run;
    OK(rk_report_run_open(pairs_run, &options, &run));
    assert_true(run.ranks && run.n_tasks == 0 && run.n_rows > 20);
    assert_int_equal(run.ranking.n_shown, 3);
    assert_string_equal(run.ranking.shown[1].name, "hit@5");
    assert_string_equal(run.ranking.shown[2].name, "ndcg@7");
    assert_true(run.ranking.shown[1].value == run.ranking.values[2][2]);
    for (int m = 0; m < RK_REPORT_RANKINGS; m++)
        for (int k = 1; k < RK_REPORT_CUTS; k++)
            assert_true(m == 1 || run.ranking.values[m][k] >= run.ranking.values[m][k - 1]);
    assert_true(run.ranking.values[0][RK_REPORT_CUTS - 1] == 1 && run.ranking.values[2][0] < 1);
    rk_report_run_release(&run);
}

static char *page_of(const char *const *runs, size_t n) {
    char path[100], *text;
    size_t n_bytes;
    snprintf(path, sizeof path, "%s/page.html", directory);
    OK(rk_report_write(runs, n, NULL, path));
    OK(rk_file_read(path, &text, &n_bytes));
    return text;
}

static void check(const char *text, const char *const *wanted, size_t n, bool holds) {
    for (size_t i = 0; i < n; i++)
        if (!!strstr(text, wanted[i]) != holds)
            fail_msg("the page %s '%s'", holds ? "does not hold" : "holds", wanted[i]);
}

static void test_page(void **state) {
    (void)state;
    const char *runs[] = {pairs_run, labels_run};
    static const char *const rankings[] = {"Rankings of all items, for the users of validation data",
                                           "recall@k",
                                           "ndcg@k",
                                           "hit@k",
                                           "<th>recall@3</th>",
                                           "<th>ndcg@7</th>",
                                           "validation hit@5",
                                           "best of each metric while training"};
    static const char *const predictions[] = {"ROC curve", "Calibration", "Importance", "<th>auc</th>"};
    char *text = page_of(runs, 1);
    check(text, rankings, sizeof rankings / sizeof rankings[0], true);
    check(text, predictions, sizeof predictions / sizeof predictions[0], false);
    assert_null(strstr(text, "nan"));
    rk_free(text);
    text = page_of(runs, 2);
    check(text, rankings, sizeof rankings / sizeof rankings[0], true);
    check(text, predictions, sizeof predictions / sizeof predictions[0], true);
    rk_free(text);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_page)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
