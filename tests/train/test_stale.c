/* With stale updates, too, evaluations, checkpoints, stops and resumes change the bits of no step. */
#include "testing.h"

#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "train/clicks.h"
#include "train/run/trainer_internal.h"

static char directory[] = "/tmp/reckon-stale-XXXXXX";

static const char *const run_text = CLICKS_AND_MODEL
    "train:\n"
    "  batch_size: 64\n"
    "  steps: 20\n"
    "  staleness: 1\n"
    "  keep_best: false\n"
    "  tensorboard: false\n"
    "  optimizer: {kind: adam, learning_rate: 0.03}\n"
    "  evaluate: {every_epochs: 0}\n"
    "  checkpoint: {every_epochs: 0}\n";

typedef struct listener {
    rk_trainer *trainer;
    int64_t every; /* steps, after which it is stopped; 0: never */
} listener;

static void stop_sometimes(void *user, const rk_event *event) {
    const listener *l = user;
    if (event->kind == RK_EVENT_PROGRESS && l->every && event->step % l->every == 0)
        rk_trainer_stop(l->trainer);
}

static rk_status run(const char *output, const char *const *settings, size_t n, int64_t stop_every,
                     bool resume) {
    char place[300];
    const char *overrides[8] = {place, "train.log_every=1"};
    snprintf(place, sizeof place, "train.output=%s/%s", directory, output);
    for (size_t i = 0; i < n; i++) overrides[i + 2] = settings[i];
    rk_config *config;
    listener l = {.every = stop_every};
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    OK(rk_config_parse(run_text, "run.yaml", directory, overrides, n + 2, &config));
    options.resume = resume;
    options.on_event = stop_sometimes;
    options.user = &l;
    OK(rk_trainer_create(config, &options, &l.trainer));
    rk_status status = rk_trainer_run(l.trainer);
    rk_trainer_free(l.trainer);
    rk_config_free(config);
    return status;
}

static void assert_same_model(const char *a, const char *b, bool has_stale_rows) {
    char *text[2];
    size_t n[2];
    const char *names[] = {a, b};
    for (int i = 0; i < 2; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s/checkpoints/step-%09d/model-00001.safetensors", directory,
                 names[i], 20);
        OK(rk_file_read(path, &text[i], &n[i]));
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(text[0], text[1], n[0]);
    assert_int_equal(memmem(text[0], n[0], "\"before/0/", 10) != NULL,
                     has_stale_rows); /* what a longer run goes on with */
    for (int i = 0; i < 2; i++) rk_free(text[i]);
}

static void remove_run(const char *output) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, output);
    OK(rk_remove_tree(path));
}

static void test_nothing_changes_a_step(void **state) {
    (void)state;
    static const char frequent_keys[] = /* so that the first batches use no row */
        "embedding.tables=[{name: u, max_capacity: 40, admission: {min_count: 20}}, "
        "{name: v, max_capacity: 50, admission: {min_count: 20}}]";
    static const char *const kinds[] = {"train.seed=1", "embedding.dtype=bf16", "embedding.l2_full=0.001",
                                        frequent_keys, "train.optimizer.learning_rate=1e30"};
    static const char *const between[] = {"train.checkpoint.every_steps=8", "train.threads=2",
                                          "train.evaluate.every_steps=3"};
    static const int64_t stops[] = {0, 6, 0};
    for (size_t k = 0; k < 5; k++) {
        bool skips = k == 4; /* steps, and has no predictions to evaluate */
        const char *settings[] = {kinds[k], skips ? "train.on_not_finite=skip" : "train.on_not_finite=fail",
                                  skips ? "data.valid=" : "train.log_every=1", NULL};
        remove_run("whole");
        OK(run("whole", settings, 3, 0, false));
        for (size_t i = 0; i < (skips ? 2 : 3); i++) {
            settings[3] = between[i];
            remove_run("parts");
            rk_status status = run("parts", settings, 4, stops[i], false);
            while (status == RK_INTERRUPTED) status = run("parts", settings, 4, stops[i], true);
            OK(status);
            assert_same_model("whole", "parts", !skips);
        }
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* A run without staleness is another one: else there was nothing to keep. */
static void test_staleness_does_something(void **state) {
    (void)state;
    static const char *const exact[] = {"train.staleness=0"};
    char *text[2];
    size_t n;
    OK(run("exact", exact, 1, 0, false));
    for (int i = 0; i < 2; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s/metrics.jsonl", directory, i ? "exact" : "whole");
        OK(rk_file_read(path, &text[i], &n));
    }
    char *a = strstr(text[0], "\"step\":19,"), *b = strstr(text[1], "\"step\":19,");
    assert_true(a && b && strncmp(a, b, 40) != 0);
    for (int i = 0; i < 2; i++) rk_free(text[i]);
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
        cmocka_unit_test(test_nothing_changes_a_step),
        cmocka_unit_test(test_staleness_does_something),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
