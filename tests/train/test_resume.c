/* A run that is killed at any moment and resumed ends with the same bytes as one that was not; damaged
 * checkpoints are passed over. */
#include "testing.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "train/clicks.h"
#include "train/config/resume_check.h"
#include "train/run/trainer_internal.h"

static char directory[] = "/tmp/reckon-train-XXXXXX";

static const char *const run_text = CLICKS_AND_MODEL
    "train:\n"
    "  batch_size: 64\n"
    "  epochs: 8\n"
    "  plateau: {patience: 0, factor: 0.5}\n"
    "  checkpoint: {every_steps: 7, keep: 2}\n";

/* more: at most 3 overrides, NULL behind the last. */
static rk_config *load_with_all(const char *output, const char *const *more) {
    char override[300];
    snprintf(override, sizeof override, "train.output=%s/%s", directory, output);
    const char *overrides[4] = {override};
    size_t n = 1;
    for (; n < 4 && more[n - 1]; n++) overrides[n] = more[n - 1];
    rk_config *config;
    OK(rk_config_parse(run_text, "run.yaml", directory, overrides, n, &config));
    return config;
}
static rk_config *load_with(const char *output, const char *more) {
    return load_with_all(output, (const char *[]){more, NULL});
}
static rk_config *load(const char *output) {
    return load_with(output, NULL);
}

/* One run of the program; in a child it may be killed at any moment. */
static rk_status run(const char *output, bool resume, rk_status *created) {
    rk_config *config = load(output);
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    options.resume = resume;
    rk_trainer *trainer = NULL;
    rk_status status = rk_trainer_create(config, &options, &trainer);
    if (created) *created = status;
    if (status == RK_OK) status = rk_trainer_run(trainer);
    rk_trainer_free(trainer);
    rk_config_free(config);
    return status;
}

static char *newest(const char *output) {
    char path[256], *found;
    snprintf(path, sizeof path, "%s/%s", directory, output);
    OK(rk_checkpoint_find(path, &found));
    return found;
}

static void assert_same_file(const char *a, const char *b, const char *name) {
    char *path_a, *path_b, *text_a, *text_b;
    size_t n_a, n_b;
    OK(rk_path_join(a, name, &path_a));
    OK(rk_path_join(b, name, &path_b));
    OK(rk_file_read(path_a, &text_a, &n_a));
    OK(rk_file_read(path_b, &text_b, &n_b));
    assert_int_equal(n_a, n_b);
    assert_memory_equal(text_a, text_b, n_a);
    rk_free(path_a);
    rk_free(path_b);
    rk_free(text_a);
    rk_free(text_b);
}

static void test_killed_and_resumed(void **state) {
    (void)state;
    OK(rk_parallel_set_threads(2));
    OK(run("whole", false, NULL));
#ifdef __SANITIZE_THREAD__
    print_message("skipped: the thread sanitizer does not follow a child that starts threads\n");
    skip();
#endif
    rk_rng rng = {(uint64_t)getpid(), 3, 0};
    int kills = 0;
    for (int round = 0; round < 200; round++) {
        pid_t child = fork();
        if (child == 0) {
            rk_parallel_set_threads(1 + round % 3);
            _exit(run("killed", true, NULL) == RK_OK ? 0 : 1);
        }
        if (kills < 20) {
            struct timespec pause = {0, (long)rk_rng_below(&rng, 60) * 1000000};
            nanosleep(&pause, NULL);
            kill(child, SIGKILL);
        }
        int status;
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status)) {
            kills++;
            continue;
        }
        assert_int_equal(WEXITSTATUS(status), 0);
        if (kills >= 10) break;
        char path[256]; /* done before enough kills: once more from the beginning */
        snprintf(path, sizeof path, "%s/killed", directory);
        OK(rk_remove_tree(path));
    }
    assert_true(kills >= 10);
    char *a = newest("whole"), *b = newest("killed");
    assert_string_equal(strrchr(a, '/'), strrchr(b, '/'));
    assert_same_file(a, b, "model-00001.safetensors");
    assert_same_file(a, b, "transforms.json");
    rk_free(a);
    rk_free(b);
}

static void test_refused_without_resume(void **state) {
    (void)state;
    char expected[512];
    snprintf(expected, sizeof expected,
             "'%s/whole' already holds a run's checkpoints\nhint: continue it with --resume, start over with "
             "--overwrite, or choose another train.output",
             directory);
    FAILS(run("whole", false, NULL), RK_CONFIG, expected);
    OK(run("whole", true, NULL)); /* it had ended: nothing is left to do */
}

static void test_other_configuration_is_refused(void **state) {
    (void)state;
    char override[300];
    snprintf(override, sizeof override, "train.output=%s/whole", directory);
    const char *overrides[] = {override, "model.dropout=0.3"};
    rk_config *config;
    rk_trainer *trainer;
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    options.resume = true;
    OK(rk_config_parse(run_text, "run.yaml", directory, overrides, 2, &config));
    assert_int_equal(rk_trainer_create(config, &options, &trainer), RK_CONFIG);
    assert_non_null(strstr(rk_last_error(), "'model.dropout' was 0.2 and is now 0.3"));
    rk_config_free(config);
    const char *wire[] = {override, "cluster.wire=bf16"};
    OK(rk_config_parse(run_text, "run.yaml", directory, wire, 2, &config));
    assert_int_equal(rk_trainer_create(config, &options, &trainer), RK_CONFIG);
    assert_non_null(strstr(rk_last_error(), "'cluster.wire' was f32 and is now bf16"));
    rk_config_free(config);
    const char *more[] = {override, "train.epochs=9", "train.early_stopping.patience=5",
                          "cluster.timeout_s=9", "cluster.tables=[{name: u, sharding: row_wise}]"};
    OK(rk_config_parse(run_text, "run.yaml", directory, more, 5, &config));
    OK(rk_trainer_create(config, &options, &trainer));
    rk_trainer_free(trainer);
    rk_config_free(config);
}

/* What was changed is named, as --set names it, and not what stands beside it. */
static void test_names_what_changed(void **state) {
    (void)state;
    static const char then[] =
        "data:\n  features:\n    - {name: u, hash: 9}\n    - {name: v, hash: 9}\n  cache_bytes: 5\nmodel:\n  "
        "kind: dnn\n  deep: [16, 8]\n"
        "train:\n  batch_size: 64\n  max_gradient_norm: 0\n  epochs: 3\ndevice: cpu\n";
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"  max_gradient_norm: 0\n", "  optimizer: {kind: sgd, learning_rate: 0.1}\n  max_gradient_norm: 0\n",
         "'train.optimizer' was not given and is now {kind: sgd, learning_rate: 0.1}"},
        {"  max_gradient_norm: 0\n", "", "'train.max_gradient_norm' was 0 and is now not given"},
        {"deep: [16, 8]", "deep: [16]", "'model.deep' was [16, 8] and is now [16]"},
        {"v, hash: 9", "v, hash: 8", "'data.features[1].hash' was 9 and is now 8"},
        {"    - {name: v, hash: 9}\n", "", "'data.features[1]' was {name: v, hash: 9} and is now not given"},
        {"    - {name: u, hash: 9}\n", "", "'data.features[0].name' was u and is now v"},
        {"model:\n  kind: dnn\n  deep: [16, 8]\n", "",
         "'model' was {kind: dnn, deep: [16, 8]} and is now not given"},
        {"epochs: 3\ndevice: cpu", "epochs: 4\n  steps: 3\ndevice: cuda", NULL},
        {"cache_bytes: 5", "cache_bytes: 6", NULL},
        {"  batch_size: 64\n  max_gradient_norm: 0\n", "  max_gradient_norm: 0\n  batch_size: 64\n", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char now[1024];
        const char *at = strstr(then, cases[i].from);
        snprintf(now, sizeof now, "%.*s%s%s", (int)(at - then), then, cases[i].to,
                 at + strlen(cases[i].from));
        rk_status status = rk_resume_check(then, now, false);
        assert_int_equal(status, cases[i].message ? RK_CONFIG : RK_OK);
        if (cases[i].message) assert_non_null(strstr(rk_last_error(), cases[i].message));
    }
}

/* A checkpoint from before a key was there: the key has its default. */
static void test_older_configuration(void **state) {
    (void)state;
    char command[700], old[256], *from = newest("whole");
    snprintf(old, sizeof old, "%s/old", directory);
    snprintf(command, sizeof command,
             "cp -r %s %s && sed -i '/trim:/d; /on_not_finite/d; /cross_rank/d; /hash_seed/d' %s/config.yaml "
             "&& ! cmp -s %s/config.yaml %s/config.yaml",
             from, old, old, old, from);
    assert_int_equal(system(command), 0);
    rk_config *config = load("whole");
    rk_trainer trainer = {.config = config};
    OK(rk_trainer_check_resumable(&trainer, old));
    rk_config_free(config);
    rk_free(from);
}

static void stop_at_once(void *user, const rk_event *event) {
    if (event->kind == RK_EVENT_CHECKPOINT) rk_trainer_stop(*(rk_trainer **)user);
}

/* The log without what differs from run to run. */
static char *read_log(const char *output) {
    char path[300], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/%s/metrics.jsonl", directory, output);
    OK(rk_file_read(path, &text, &n));
    static const char *const keys[] = {",\"samples_per_second\":", ",\"time\":"};
    for (int k = 0; k < 2; k++)
        for (char *at; (at = strstr(text, keys[k]));) {
            char *end = at + strlen(keys[k]);
            end += strcspn(end, ",}");
            memmove(at, end, strlen(end) + 1);
        }
    return text;
}

static bool is_in(const char *output, const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s/%s", directory, output, name);
    return rk_file_exists(path);
}

/* A run that begins anew takes away what a run writes, once it could begin, and nothing else. */
static void test_overwrite(void **state) {
    (void)state;
    char path[300];
    OK(run("again", false, NULL));
    snprintf(path, sizeof path, "%s/again/notes", directory);
    OK(rk_file_write(path, "mine", 4));
    snprintf(path, sizeof path, "%s/again/checkpoints/step-000000007.mine", directory);
    OK(rk_file_write(path, "mine", 4));
    rk_config *config = load_with("again", "data.valid=gone.csv");
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    rk_trainer *trainer;
    char *before, *after;
    options.overwrite = true;
    before = newest("again");
    assert_int_equal(rk_trainer_create(config, &options, &trainer), RK_NOT_FOUND);
    rk_config_free(config);
    after = newest("again"); /* nothing was lost to a run that could not begin */
    assert_string_equal(before, after);
    rk_free(before);
    rk_free(after);
    config = load_with_all("again", (const char *[]){"train.tensorboard=false", "train.epochs=1", NULL});
    OK(rk_trainer_create(config, &options, &trainer));
    assert_false(is_in("again", "checkpoints/step-000000200"));
    assert_false(is_in("again", "events.out.tfevents.reckon"));
    OK(rk_trainer_run(trainer));
    rk_trainer_free(trainer);
    rk_config_free(config);
    char *log = read_log("again");
    assert_null(strstr(log, "\"epoch\":1,"));
    rk_free(log);
    after = newest("again");
    assert_non_null(strstr(after, "step-000000025"));
    rk_free(after);
    assert_true(is_in("again", "notes") && is_in("again", "checkpoints/step-000000007.mine"));
    config = load("again");
    options.resume = true;
    assert_int_equal(rk_trainer_create(config, &options, &trainer), RK_INVALID_ARGUMENT);
    rk_config_free(config);
}

static void rewrite_data(const char *text, size_t n) {
    char path[256];
    snprintf(path, sizeof path, "%s/a.csv", directory);
    OK(rk_file_write(path, text, n));
}

/* A file of the data that is another one is noticed, and the run goes on only if it may. */
static void test_changed_data(void **state) {
    (void)state;
    char path[256], expected[600], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/a.csv", directory);
    OK(rk_file_read(path, &text, &n));
    rewrite_data(text, n / 2);
    snprintf(expected, sizeof expected,
             "the training data changed: '%s' had %zu bytes and now has %zu\nhint: restore the data, start a "
             "new run with another train.output, or continue with the changed data by --allow-changed-data",
             path, n, n / 2);
    FAILS(run("whole", true, NULL), RK_CONFIG, expected);
    for (size_t at = 0; at < n; at += n / 7) { /* of a small file every byte counts */
        text[at] ^= 1;
        rewrite_data(text, n);
        assert_int_equal(run("whole", true, NULL), RK_CONFIG);
        text[at] ^= 1;
    }
    rk_config *config = load("whole");
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    options.resume = options.allow_changed_data = true;
    text[n - 2] ^= 1;
    rewrite_data(text, n);
    rk_trainer *trainer;
    OK(rk_trainer_create(config, &options, &trainer));
    rk_trainer_free(trainer);
    rk_config_free(config);
    text[n - 2] ^= 1;
    rewrite_data(text, n);
    OK(run("whole", true, NULL));
    rk_free(text);
}

static void test_stop_saves(void **state) {
    (void)state;
    rk_config *config = load("stopped");
    rk_trainer *trainer;
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    options.on_event = stop_at_once;
    options.user = &trainer;
    OK(rk_trainer_create(config, &options, &trainer));
    FAILS(rk_trainer_run(trainer), RK_INTERRUPTED, "stopped on request after step 7");
    rk_trainer_free(trainer);
    rk_config_free(config);
    OK(run("stopped", true, NULL));
    char *a = newest("whole"), *b = newest("stopped");
    assert_same_file(a, b, "model-00001.safetensors");
    rk_free(a);
    rk_free(b);
}

/* After the last of an epoch's 25 batches a checkpoint is due, before the epoch's end is told. */
static void test_stopped_before_the_epoch_ends(void **state) {
    (void)state;
    static const char *const more[] = {"train.checkpoint.every_steps=25", "train.epochs=2",
                                       "train.log_every=10", NULL};
    rk_trainer *trainer;
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    for (int part = 0; part < 3; part++) {
        rk_config *config = load_with_all(part ? "parts" : "at_once", more);
        options.on_event = part == 1 ? stop_at_once : NULL;
        options.user = &trainer;
        options.resume = part == 2;
        OK(rk_trainer_create(config, &options, &trainer));
        if (part == 1)
            FAILS(rk_trainer_run(trainer), RK_INTERRUPTED, "stopped on request after step 25");
        else
            OK(rk_trainer_run(trainer));
        rk_trainer_free(trainer);
        rk_config_free(config);
    }
    char *a = read_log("at_once"), *b = read_log("parts");
    assert_string_equal(a, b);
    assert_non_null(strstr(a, "{\"kind\":\"train\",\"epoch\":0,\"step\":25,"));
    rk_free(a);
    rk_free(b);
}

static void damage(const char *checkpoint, const char *name, bool cut) {
    char *path, *text;
    size_t n;
    OK(rk_path_join(checkpoint, name, &path));
    OK(rk_file_read(path, &text, &n));
    if (!cut) text[n / 2] ^= 4;
    OK(rk_file_write(path, text, cut ? n - 1 : n));
    rk_free(text);
    rk_free(path);
}

static void test_damage_is_found(void **state) {
    (void)state;
    static const char *const files[] = {"model-00001.safetensors", "transforms.json", "manifest.json",
                                        "config.yaml", "vocabulary/u.txt"};
    char output[256];
    snprintf(output, sizeof output, "%s/whole", directory);
    for (int i = 0; i < 5; i++)
        for (int cut = 0; cut < 2; cut++) {
            char copy[256], command[700];
            snprintf(copy, sizeof copy, "%s/copy", directory);
            OK(rk_remove_tree(copy));
            snprintf(command, sizeof command, "cp -r %s %s", output, copy);
            assert_int_equal(system(command), 0);
            char *last, *before;
            OK(rk_checkpoint_find(copy, &last));
            damage(last, files[i], cut);
            assert_int_equal(rk_checkpoint_verify(last), RK_BAD_DATA);
            assert_non_null(strstr(rk_last_error(), files[i]));
            OK(rk_checkpoint_find(copy, &before));
            assert_string_not_equal(last, before);
            rk_free(last);
            rk_free(before);
        }
}

static void test_full_disk(void **state) {
    (void)state;
    char output[256];
    snprintf(output, sizeof output, "%s/full", directory);
    for (int64_t bytes = 0; bytes < 60000; bytes += 3001) {
        OK(rk_remove_tree(output));
        rk_file_fail_after(bytes);
        rk_status status = run("full", false, NULL);
        rk_file_fail_after(-1);
        assert_int_equal(status, RK_IO);
        rk_text_list names = {0};
        OK(rk_checkpoint_list(output, &names)); /* what is there is whole */
        for (size_t i = 0; i < names.n; i++) {
            char path[600];
            snprintf(path, sizeof path, "%s/checkpoints/%s", output, names.texts[i]);
            OK(rk_checkpoint_verify(path));
        }
        rk_text_list_release(&names);
    }
}

static void test_retention(void **state) {
    (void)state;
    char output[256];
    rk_text_list names = {0};
    snprintf(output, sizeof output, "%s/whole", directory);
    OK(rk_checkpoint_list(output, &names));
    assert_true(names.n == 2 || names.n == 3); /* keep: 2, and the best one */
    rk_text_list_release(&names);
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
        cmocka_unit_test(test_killed_and_resumed),
        cmocka_unit_test(test_refused_without_resume),
        cmocka_unit_test(test_other_configuration_is_refused),
        cmocka_unit_test(test_names_what_changed),
        cmocka_unit_test(test_older_configuration),
        cmocka_unit_test(test_overwrite),
        cmocka_unit_test(test_changed_data),
        cmocka_unit_test(test_stop_saves),
        cmocka_unit_test(test_damage_is_found),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_retention),
        cmocka_unit_test(test_stopped_before_the_epoch_ends),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
