/* Which checkpoint a run ends with is the one that is then found, however evaluations, epochs and checkpoints
 * meet. */
#include "testing.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "train/clicks.h"
#include "train/run/trainer_internal.h"

static char directory[] = "/tmp/reckon-best-XXXXXX";

static const char *const run_text = CLICKS_AND_MODEL
    "train:\n"
    "  batch_size: 64\n"
    "  epochs: 6\n"
    "  tensorboard: false\n"
    "  optimizer: {kind: adam, learning_rate: 0.03}\n";

enum { EPOCH_STEPS = 25, N_STEPS = 6 * EPOCH_STEPS };

/* A run in `output` by one more line of settings each, up to the end of the run or a stop. */
static rk_status run(const char *output, const char *const *settings, size_t n,
                     void (*on_event)(void *, const rk_event *), bool resume, int64_t *step) {
    char place[300];
    const char *overrides[8] = {
        place, "embedding.initializer.stddev=0"}; /* large, so that there are several best ones */
    snprintf(place, sizeof place, "train.output=%s/%s", directory, output);
    for (size_t i = 0; i < n; i++) overrides[i + 2] = settings[i];
    rk_config *config;
    rk_trainer *trainer;
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    OK(rk_config_parse(run_text, "run.yaml", directory, overrides, n + 2, &config));
    options.resume = resume;
    options.on_event = on_event;
    options.user = &trainer;
    OK(rk_trainer_create(config, &options, &trainer));
    rk_status status = rk_trainer_run(trainer);
    *step = rk_model_n_steps(rk_trainer_model(trainer));
    rk_trainer_free(trainer);
    rk_config_free(config);
    return status;
}

static int64_t found(const char *output, bool best) {
    char path[256], *checkpoint;
    snprintf(path, sizeof path, "%s/%s", directory, output);
    OK(best ? rk_checkpoint_find_best(path, &checkpoint) : rk_checkpoint_find(path, &checkpoint));
    int64_t step = strtoll(strrchr(checkpoint, '-') + 1, NULL, 10);
    rk_free(checkpoint);
    return step;
}

static rk_progress newest_progress(const char *output) {
    char path[256], *checkpoint;
    rk_manifest m;
    snprintf(path, sizeof path, "%s/%s", directory, output);
    OK(rk_checkpoint_find(path, &checkpoint));
    OK(rk_manifest_read(checkpoint, &m));
    rk_progress progress = m.progress;
    rk_manifest_release(&m);
    rk_free(checkpoint);
    return progress;
}

static void remove_run(const char *output) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, output);
    OK(rk_remove_tree(path));
}

/* Steps and epochs at which it is time to evaluate, and to save: where both say the same step it is evaluated
 * once. */
static void test_ends_with_what_is_found(void **state) {
    (void)state;
    static const struct {
        const char *evaluate, *save;
        int64_t n_evaluations;
    } cases[] = {
        {"train.evaluate={every_steps: 25}", "train.checkpoint={keep: 1}", 6},
        {"train.evaluate={every_steps: 5}", "train.checkpoint={keep: 1}", 30},
        {"train.evaluate={every_steps: 50, every_epochs: 0}", "train.checkpoint={every_steps: 25}", 3},
        {"train.evaluate={every_epochs: 2}", "train.checkpoint={every_steps: 7, every_epochs: 0}", 3}};
    int before_the_end = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int keeps = 0; keeps < 2; keeps++) {
            const char *settings[] = {cases[i].evaluate, cases[i].save,
                                      keeps ? "train.keep_best=true" : "train.keep_best=false"};
            int64_t step;
            remove_run("run");
            OK(run("run", settings, 3, NULL, false, &step));
            rk_progress progress = newest_progress("run");
            assert_int_equal(progress.stopping.n_evaluations, cases[i].n_evaluations);
            assert_int_equal(step, keeps ? progress.stopping.best_step : N_STEPS);
            assert_int_equal(found("run", true), step);
            assert_int_equal(found("run", false), N_STEPS);
            before_the_end += step < N_STEPS;
        }
    assert_true(before_the_end > 2); /* else this shows nothing */
    assert_int_equal(rk_alloc_live(), 0);
}

static void stop_after_best(void *user, const rk_event *event) {
    if (event->kind == RK_EVENT_EVALUATION && event->best) rk_trainer_stop(*(rk_trainer **)user);
}

/* Stopped right after each evaluation that was the best so far, the last of an epoch's steps or not. */
static void test_resumed_from_the_best(void **state) {
    (void)state;
    static const char *const settings[] = {"train.evaluate={every_steps: 5}",
                                           "train.checkpoint={every_steps: 7, keep: 100}"};
    int64_t whole, step;
    remove_run("run");
    OK(run("run", settings, 2, NULL, false, &whole));
    rk_progress undisturbed = newest_progress("run");
    int n_stops = 0;
    remove_run("run");
    while (run("run", settings, 2, stop_after_best, n_stops > 0, &step) == RK_INTERRUPTED) n_stops++;
    assert_true(n_stops > 2);
    rk_progress stopped = newest_progress("run");
    assert_int_equal(step, whole);
    assert_int_equal(found("run", true), whole);
    assert_int_equal(stopped.stopping.n_evaluations, undisturbed.stopping.n_evaluations);
    assert_int_equal(stopped.stopping.bad, undisturbed.stopping.bad);
    assert_int_equal(rk_alloc_live(), 0);
}

/* keep_best is what the run said last, also of a run that had ended. */
static void test_keep_best_changed_at_the_end(void **state) {
    (void)state;
    static const char *const keeps[] = {"train.evaluate={every_steps: 5}", "train.checkpoint.keep=100",
                                        "train.keep_best=true"};
    static const char *const keeps_not[] = {"train.evaluate={every_steps: 5}", "train.checkpoint.keep=100",
                                            "train.keep_best=false"};
    int64_t best, step;
    remove_run("run");
    OK(run("run", keeps, 3, NULL, false, &best));
    assert_true(best < N_STEPS);
    OK(run("run", keeps_not, 3, NULL, true, &step));
    assert_int_equal(step, N_STEPS);
    assert_int_equal(found("run", true), N_STEPS);
    OK(run("run", keeps, 3, NULL, true, &step));
    assert_int_equal(step, best);
    assert_int_equal(found("run", true), best);
}

static void rewrite(const char *path, const char *from, const char *to) {
    char *text, *at;
    size_t n;
    OK(rk_file_read(path, &text, &n));
    assert_non_null(at = strstr(text, from));
    char *line = strchr(text, '\n'), rest[8192];
    *line = 0;
    snprintf(rest, sizeof rest, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    size_t n_rest = strlen(rest);
    snprintf(rest + n_rest, sizeof rest - n_rest, "\ncrc32c %08" PRIx32 "\n", rk_crc32c(0, rest, n_rest));
    OK(rk_file_write(path, rest, strlen(rest)));
    rk_free(text);
}

/* Manifests of before say is_best, and nothing of keep_best or the last evaluation; and one whose best is
 * gone. */
static void test_older_and_incomplete(void **state) {
    (void)state;
    int64_t best = found("run", true), step;
    char path[300];
    snprintf(path, sizeof path, "%s/run/checkpoints/step-%09d/manifest.json", directory, N_STEPS);
    rewrite(path, "\"keep_best\":true", "\"is_best\":true");
    rewrite(path, "\"last_step\":150,", "");
    assert_true(best < N_STEPS);
    assert_int_equal(found("run", true), best);
    OK(run("run", NULL, 0, NULL, true, &step));
    assert_int_equal(step, best);
    snprintf(path, sizeof path, "%s/run/checkpoints/step-%09" PRId64 "/manifest.json", directory, best);
    assert_int_equal(unlink(path), 0);
    OK(run("run", NULL, 0, NULL, true, &step));
    assert_int_equal(step, N_STEPS);
    assert_int_equal(found("run", true), N_STEPS);
}

/* With another metric what was best by the old one counts no more; the run ends with the best of what came
 * since. */
static void test_metric_changed(void **state) {
    (void)state;
    static const char *const settings[][3] = {
        {"train.epochs=3", "train.early_stopping={metric: auc, patience: 9}",
         "train.plateau={metric: auc, patience: 9}"},
        {"train.epochs=6", "train.early_stopping={metric: logloss, patience: 9}",
         "train.plateau={metric: auc, patience: 9}"},
        {"train.epochs=6", "train.early_stopping={metric: logloss, patience: 9}",
         "train.plateau={metric: logloss, patience: 9}"}};
    for (int changed = 1; changed < 3; changed++) {
        int64_t step;
        remove_run("run");
        OK(run("run", settings[0], 3, NULL, false, &step));
        rk_early_stopping before = newest_progress("run").stopping;
        OK(run("run", settings[changed], 3, NULL, true, &step));
        rk_early_stopping after = newest_progress("run").stopping;
        assert_true(after.best_step > 3 * EPOCH_STEPS && after.best < 1);
        assert_int_equal(step, after.best_step);
        assert_int_equal(found("run", true), step);
        if (changed == 1) assert_true(after.plateau_best >= before.plateau_best);
        if (changed == 2) assert_true(after.plateau_best == after.best); /* of the logloss, too */
    }
    int64_t step, best = newest_progress("run").stopping.best_step; /* of a run that has ended it stays */
    const char *ended[] = {settings[0][0], settings[0][1], settings[0][2], "train.checkpoint.keep=1"};
    assert_true(best < N_STEPS);
    OK(run("run", ended, 4, NULL, true, &step));
    assert_int_equal(step, best);
    assert_int_equal(found("run", true), best);
    assert_int_equal(newest_progress("run").stopping.best_step, best);
}

/* Parameters of the best that were not kept are not looked for at the end; those that are there by chance are
 * the best still. */
static void test_keep_best_from_now_on(void **state) {
    (void)state;
    for (int there = 0; there < 2; there++) {
        const char *first[] = {"train.epochs=4", "train.keep_best=false",
                               there ? "train.checkpoint.keep=100" : "train.checkpoint.keep=1",
                               "train.optimizer.learning_rate=0.1"};
        const char *then[] = {"train.epochs=6", "train.keep_best=true", first[2], first[3]};
        int64_t step;
        remove_run("run");
        OK(run("run", first, 4, NULL, false, &step));
        int64_t best = newest_progress("run").stopping.best_step;
        assert_true(best < 4 * EPOCH_STEPS);
        OK(run("run", then, 4, NULL, true, &step));
        assert_int_equal(step, newest_progress("run").stopping.best_step);
        assert_int_equal(found("run", true), step);
        if (there)
            assert_int_equal(step, best);
        else
            assert_true(step > 4 * EPOCH_STEPS);
    }
}

static int set_up(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    write_clicks(directory, 2000);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return rk_remove_tree(directory) != RK_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_with_what_is_found),
        cmocka_unit_test(test_resumed_from_the_best),
        cmocka_unit_test(test_keep_best_changed_at_the_end),
        cmocka_unit_test(test_older_and_incomplete),
        cmocka_unit_test(test_metric_changed),
        cmocka_unit_test(test_keep_best_from_now_on),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
