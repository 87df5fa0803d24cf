/* Searches: what their values are, that a trial which fails stops nothing, and that they go on where they
 * were. */
#include "testing.h"

#include <math.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "tune/tune_internal.h"

static char directory[] = "/tmp/reckon-tune-XXXXXX";
static char run_path[64], output[64];

static void test_grids(void **state) {
    (void)state;
    rk_search_space space = {0};
    int64_t n;
    OK(rk_search_space_add_grid(&space, "a=1,2"));
    OK(rk_search_space_add_grid(&space, "b.c=[8, 4],[2],{x: 1, y: 2},'a,b'"));
    OK(rk_search_space_size(&space, &n));
    assert_int_equal(n, 8);
    static const char *const expected[][2] = {{"1", "[8, 4]"}, {"1", "[2]"},    {"1", "{x: 1, y: 2}"},
                                              {"1", "'a,b'"},  {"2", "[8, 4]"}, {"2", "[2]"}};
    for (int64_t i = 0; i < 6; i++)
        for (size_t k = 0; k < 2; k++) {
            char *value;
            OK(rk_search_space_value(&space, false, 1, i, k, &value));
            assert_string_equal(value, expected[i][k]);
            rk_free(value);
        }
    FAILS(rk_search_space_add_grid(&space, "a=3"), RK_CONFIG, "the key 'a' is given twice");
    FAILS(rk_search_space_add_grid(&space, "d"), RK_CONFIG,
          "'d' has no KEY=VALUES\nhint: write KEY=VALUE,VALUE,...");
    FAILS(rk_search_space_add_grid(&space, "d=1,,2"), RK_CONFIG, "'d=1,,2' has an empty value");
    rk_search_space_release(&space);
}

static void test_ranges(void **state) {
    (void)state;
    rk_search_space space = {0};
    OK(rk_search_space_add_range(&space, "a=0..0.5"));
    OK(rk_search_space_add_range(&space, "b=1e-4..1e-1:log"));
    OK(rk_search_space_add_range(&space, "c=-1..2:int"));
    OK(rk_search_space_add_grid(&space, "d=x,y"));
    int64_t small = 0, of_whole[4] = {0}, of_grid = 0;
    for (int64_t trial = 0; trial < 2000; trial++) {
        double values[4];
        for (size_t k = 0; k < 3; k++) {
            char *text, *again;
            OK(rk_search_space_value(&space, true, 3, trial, k, &text));
            OK(rk_search_space_value(&space, true, 3, trial, k, &again));
            assert_string_equal(text, again);
            values[k] = atof(text);
            rk_free(text);
            rk_free(again);
        }
        char *word;
        OK(rk_search_space_value(&space, true, 3, trial, 3, &word));
        of_grid += strcmp(word, "x") == 0;
        rk_free(word);
        assert_true(values[0] >= 0 && values[0] <= 0.5 && values[1] >= 1e-4 && values[1] <= 1e-1);
        assert_true(values[2] == floor(values[2]) && values[2] >= -1 && values[2] <= 2);
        small += values[1] < 1e-3;
        of_whole[(int)values[2] + 1]++;
    }
    assert_in_range(small, 600, 734); /* a third: one decade of three */
    for (int i = 0; i < 4; i++) assert_in_range(of_whole[i], 430, 570);
    assert_in_range(of_grid, 930, 1070);
    const char *hint = "hint: write KEY=LOW..HIGH, optionally with :log or :int at its end";
    static const char *const wrong[] = {"e=1", "e=1..x", "e=1..2:lag"};
    for (size_t i = 0; i < 3; i++) {
        char expected[200];
        snprintf(expected, sizeof expected, "'%s' is not a range\n%s", wrong[i], hint);
        rk_search_space one = {0};
        FAILS(rk_search_space_add_range(&one, wrong[i]), RK_CONFIG, expected);
        rk_search_space_release(&one);
    }
    FAILS(rk_search_space_add_range(&space, "f=0..1:log"), RK_CONFIG,
          "'f=0..1:log': a logarithmic range needs LOW > 0");
    FAILS(rk_search_space_add_range(&space, "g=2..1"), RK_CONFIG, "'g=2..1': LOW must be below HIGH");
    FAILS(rk_search_space_add_range(&space, "h=0.2..0.8:int"), RK_CONFIG,
          "'h=0.2..0.8:int': there is no whole number between LOW and HIGH");
    rk_search_space_release(&space);
}

static int set_up(void **state) {
    (void)state;
    static const char run[] =
        "data:\n  train: a.csv\n  valid: {fraction: 0.3}\n  labels: [{name: y}]\n  features:\n    - {name: "
        "u, hash: 50}\n    - {name: x, dense: true}\n"
        "embedding: {dim: 4}\nmodel: {kind: dnn, deep: [4]}\ntrain: {batch_size: 64, epochs: 2, optimizer: "
        "{kind: sgd, learning_rate: 0.1}}\n";
    assert_non_null(mkdtemp(directory));
    snprintf(run_path, sizeof run_path, "%s/run.yaml", directory);
    snprintf(output, sizeof output, "%s/out", directory);
    OK(rk_file_write(run_path, run, sizeof run - 1));
    rk_buffer data = {0};
    rk_rng rng = {1, 1, 0};
    rk_buffer_append_text(&data, "u,x,y\n");
    for (int i = 0; i < 600; i++) {
        int u = (int)rk_rng_below(&rng, 9);
        double x = rk_rng_normal(&rng);
        rk_buffer_printf(&data, "u%d,%.4f,%d\n", u, x, (u % 3 == 0) + x > 0.5);
    }
    char path[100];
    snprintf(path, sizeof path, "%s/a.csv", directory);
    OK(rk_file_write(path, data.data, data.n_bytes));
    rk_buffer_release(&data);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    rk_remove_tree(directory);
    return 0;
}

/* The learning rate 1e38 diverges. */
static const char *const grids[] = {"train.optimizer.learning_rate=1e38,0.2,0.01"};

static rk_tune_options options_of(bool resume) {
    rk_tune_options options = RK_TUNE_OPTIONS_INIT;
    options.grids = grids;
    options.n_grids = 1;
    options.output = output;
    options.resume = resume;
    return options;
}

typedef struct counted {
    int begun, ended, stop_after;
    rk_tune *tune;
} counted;

static void count(void *user, int64_t trial, int64_t n, const char *settings, bool done) {
    counted *c = user;
    assert_true(trial < n && settings);
    c->begun += !done;
    c->ended += done;
    if (done && c->ended == c->stop_after) rk_tune_stop(c->tune);
}

static char *read_output(const char *name) {
    char path[128], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/%s", output, name);
    OK(rk_file_read(path, &text, &n));
    return text;
}

static void test_search(void **state) {
    (void)state;
    counted c = {.stop_after = 2};
    rk_tune_options options = options_of(false);
    options.on_trial = count;
    options.user = &c;
    OK(rk_tune_create(run_path, &options, &c.tune));
    FAILS(rk_tune_run(c.tune), RK_INTERRUPTED, "stopped on request before trial-003");
    assert_true(c.begun == 2 && c.ended == 2);
    assert_int_equal(c.tune->trials[0].state, RK_TRIAL_failed);
    assert_non_null(strstr(c.tune->trials[0].error, "the loss of 'y' is"));
    assert_int_equal(c.tune->trials[1].state, RK_TRIAL_done);
    double best = c.tune->trials[1].best;
    assert_true(best > 0.6 && best <= 1);
    rk_tune_free(c.tune);
    char expected[300];
    options.resume = false;
    snprintf(expected, sizeof expected,
             "'%s' already holds a search\nhint: continue it with --resume, or choose another --output",
             output);
    FAILS(rk_tune_create(run_path, &options, &c.tune), RK_CONFIG, expected);
    options.resume = true;
    c.begun = c.ended = c.stop_after = 0;
    OK(rk_tune_create(run_path, &options, &c.tune));
    OK(rk_tune_run(c.tune));
    assert_true(c.begun == 1 && c.ended == 1);
    assert_float_equal(c.tune->trials[1].best, best, 0);
    char *text, *csv = read_output("tune.csv"), *svg = read_output("tune.svg");
    OK(rk_tune_to_text(c.tune, &text));
    const char *second = strstr(text, "trial-002"), *third = strstr(text, "trial-003"),
               *failed = strstr(text, "trial-001");
    assert_true(second && third && failed && second < third &&
                third < failed); /* the larger rate learns more in two epochs */
    assert_memory_equal(
        csv, "trial,state,train.optimizer.learning_rate,auc,step,seconds,error\ntrial-001,failed,1e38,,,",
        89);
    assert_non_null(strstr(svg, "best so far"));
    assert_null(strstr(svg, "nan"));
    rk_text_free(text);
    rk_free(csv);
    rk_free(svg);
    rk_tune_free(c.tune);
}

static void test_other_search(void **state) {
    (void)state;
    rk_tune *tune;
    char expected[400];
    rk_tune_options options = options_of(true);
    static const char *const other[] = {"train.optimizer.learning_rate=1e38,0.3"}, *const set[] = {
                                                                                       "embedding.dim=8"};
    options.grids = other;
    snprintf(expected, sizeof expected,
             "'%s/tune.json': trial-002 had other settings than 'train.optimizer.learning_rate=0.3'\nhint: "
             "use the same grids, ranges and --seed, or choose another --output",
             output);
    FAILS(rk_tune_create(run_path, &options, &tune), RK_CONFIG, expected);
    options = options_of(true);
    options.overrides = set;
    options.n_overrides = 1;
    snprintf(
        expected, sizeof expected,
        "'%s/tune.json' belongs to a search with another configuration\nhint: use the run file, --set and "
        "--metric as they were, or choose another --output",
        output);
    FAILS(rk_tune_create(run_path, &options, &tune), RK_CONFIG, expected);
}

static void fails_with(rk_tune_options options, const char *message) {
    rk_tune *tune;
    char expected[500];
    snprintf(expected, sizeof expected, message, run_path, run_path);
    FAILS(rk_tune_create(run_path, &options, &tune), RK_CONFIG, expected);
}

static void test_mistakes(void **state) {
    (void)state;
    char elsewhere[100];
    snprintf(elsewhere, sizeof elsewhere, "%s/never", directory);
    rk_tune_options options = RK_TUNE_OPTIONS_INIT;
    options.output = elsewhere;
    fails_with(options,
               "there is nothing to search\nhint: give keys with --grid KEY=A,B or --random N --range "
               "KEY=LOW..HIGH");
    static const char *const typo[] = {"train.optimizer.learning_rat=0.1"},
                             *const range[] = {"embedding.dim=1..9"}, *const kept[] = {"train.output=a,b"};
    options.grids = typo;
    options.n_grids = 1;
    rk_tune *tune;
    assert_int_equal(rk_tune_create(run_path, &options, &tune), RK_CONFIG);
    assert_non_null(strstr(rk_last_error(), "trial-001 (train.optimizer.learning_rat=0.1): "));
    assert_non_null(strstr(rk_last_error(), "did you mean 'learning_rate'?"));
    options.grids = kept;
    fails_with(options, "'train.output' cannot be searched: every trial has its own");
    options.n_grids = 0;
    options.ranges = range;
    options.n_ranges = 1;
    fails_with(options,
               "a range has infinitely many values\nhint: give the number of trials with --random N");
    options = options_of(false);
    options.output = elsewhere;
    options.metric = "auk";
    assert_int_equal(rk_tune_create(run_path, &options, &tune), RK_CONFIG);
    assert_non_null(strstr(rk_last_error(), "unknown metric 'auk'\nhint: did you mean 'auc'?"));
    assert_false(rk_file_exists(elsewhere));
}

/* Of a search in a run file of its own. */
static rk_status tune_by(const char *run, const char *metric, rk_tune **out) {
    char path[100], where[100];
    static const char *const dims[] = {"embedding.dim=2,3"};
    snprintf(path, sizeof path, "%s/other.yaml", directory);
    snprintf(where, sizeof where, "%s/other", directory);
    OK(rk_file_write(path, run, strlen(run)));
    rk_tune_options options = RK_TUNE_OPTIONS_INIT;
    options.grids = dims;
    options.n_grids = 1;
    options.output = where;
    options.metric = metric;
    return rk_tune_create(path, &options, out);
}

/* Means over tasks and rankings have names of their own in the log. */
static void test_names_of_metrics(void **state) {
    (void)state;
    static const char tasks[] =
        "data:\n  train: a.csv\n  valid: {fraction: 0.3}\n  labels: [{name: y}, {name: z, column: y}]\n  "
        "features: [{name: u, hash: 50}]\n"
        "model: {kind: dnn, deep: [4]}\ntrain: {batch_size: 64, optimizer: {kind: sgd, learning_rate: "
        "0.1}}\n";
    static const char pairs[] =
        "data:\n  train: a.csv\n  valid: {fraction: 0.3}\n  features: [{name: u, hash: 50}, {name: x, hash: "
        "1000}]\n"
        "model: {kind: two_tower, retrieval: {user: u, item: x, negatives: 2}}\ntrain: {batch_size: 64}\n";
    static const char *const metrics[] = {"mean_auc", "z/logloss", NULL, "ndcg@20"}, *const names[] = {
                                                                                         "mean_auc",
                                                                                         "z/logloss",
                                                                                         "recall@20",
                                                                                         "ndcg@20"};
    rk_tune *tune;
    for (int i = 0; i < 4; i++) {
        OK(tune_by(i < 2 ? tasks : pairs, metrics[i], &tune));
        assert_string_equal(tune->metric, names[i]);
        if (i % 2 == 0) { /* the log has it by this name */
            OK(rk_tune_run(tune));
            assert_int_equal(tune->trials[0].state, RK_TRIAL_done);
        }
        rk_tune_free(tune);
        char path[100];
        snprintf(path, sizeof path, "%s/other", directory);
        rk_remove_tree(path);
    }
    assert_int_equal(tune_by(tasks, "mean_logloss", &tune), RK_CONFIG);
    assert_non_null(strstr(rk_last_error(), "'mean_logloss' is not among train.metrics"));
    assert_int_equal(tune_by(pairs, "recall@7", &tune), RK_CONFIG);
    assert_non_null(strstr(rk_last_error(), "'recall@7' is not among train.metrics"));
    assert_int_equal(tune_by(pairs, "auc", &tune), RK_CONFIG);
    assert_string_equal(rk_last_error(),
                        "--metric: unknown ranking metric 'auc'\nhint: it is recall@K, ndcg@K or hit@K");
}

static void test_out_of_memory(void **state) {
    (void)state;
    rk_tune_options options = options_of(true);
    rk_tune *tune;
    long live = rk_alloc_live();
    for (long n = 1;; n += 1 + n / 50) {
        rk_alloc_fail_after(n, n % 2);
        rk_status status = rk_tune_create(run_path, &options, &tune);
        char *text = NULL;
        if (status == RK_OK) {
            status = rk_tune_to_text(tune, &text);
            if (status == RK_OK) status = rk_tune_write_files(tune);
            rk_tune_free(tune);
        }
        rk_alloc_fail_after(0, false);
        rk_text_free(text);
        assert_int_equal(rk_alloc_live(), live);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grids),         cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_search),        cmocka_unit_test(test_other_search),
        cmocka_unit_test(test_mistakes),      cmocka_unit_test(test_names_of_metrics),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
