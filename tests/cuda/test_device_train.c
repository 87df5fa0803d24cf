/* Runs on a GPU, by the trainer: what they learn beside the CPU engine's, and checkpoints that either goes on
 * from. */
#include "cuda/device_testing.h"

#include <math.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "train/clicks.h"
#include "train/pairs.h"
#include "train/run/trainer_internal.h"
#include "state_bytes.h"

static char directory[] = "/tmp/reckon-device-XXXXXX";

static const char *const run_text = CLICKS_AND_MODEL
    "train:\n"
    "  batch_size: 64\n"
    "  optimizer: {kind: sgd, learning_rate: 0.1}\n"
    "  plateau: {patience: 0, factor: 0.5}\n"
    "  checkpoint: {every_steps: 7, keep: 9}\n"
    "  keep_best: false\n";

static int make_data(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    write_clicks(directory, 1000);
    write_pairs(directory);
    return 0;
}

static int remove_data(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

/* A run's end: its metrics on the validation data, and every byte of its state. */
typedef struct outcome {
    rk_metric metrics[16];
    int32_t n_metrics;
    char *state;
    size_t n_bytes;
} outcome;

static void take_state(rk_trainer *t, outcome *out) {
    size_t at = 0;
    out->n_bytes = 0;
    OK(rk_model_flush(t->model));
    rk_state_dict_release(&t->state); /* which has the keys that there were at the last checkpoint */
    OK(rk_model_state_dict(t->model, &t->state));
    for (size_t i = 0; i < t->state.n; i++) out->n_bytes += rk_state_dict_entry_bytes(&t->state.entries[i]);
    OK(rk_alloc(out->n_bytes, 1, &out->state));
    for (size_t i = 0; i < t->state.n; at += rk_state_dict_entry_bytes(&t->state.entries[i++]))
        rk_state_dict_copy_rows(&t->state.entries[i], 0, t->state.entries[i].dims[0], out->state + at);
}

/* Train to `steps`, from the newest checkpoint of the output if there is one. */
static outcome run_of(const char *text, const char *output, const char *where, int steps) {
    char to[300], on[64], until[64];
    snprintf(to, sizeof to, "train.output=%s/%s", directory, output);
    snprintf(on, sizeof on, "device=%s", where);
    snprintf(until, sizeof until, "train.steps=%d", steps);
    const char *overrides[] = {to, on, until};
    rk_config *config;
    rk_trainer *trainer;
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    options.resume = true;
    OK(rk_config_parse(text, "run.yaml", directory, overrides, 3, &config));
    OK(rk_trainer_create(config, &options, &trainer));
    OK(rk_trainer_run(trainer));
    assert_int_equal(rk_model_n_steps(trainer->model), steps);
    outcome out = {0};
    const rk_metric *metrics;
    OK(rk_trainer_evaluate(trainer, "valid", &metrics, &out.n_metrics));
    memcpy(out.metrics, metrics, (size_t)out.n_metrics * sizeof *metrics);
    take_state(trainer, &out);
    rk_trainer_free(trainer);
    rk_config_free(config);
    return out;
}

/* Crowded: rows come and go. */
#define KEYS_RUN                                                                                       \
    "data:\n"                                                                                          \
    "  train: a.csv\n"                                                                                 \
    "  valid: {fraction: 0.2}\n"                                                                       \
    "  labels: [{name: y}]\n"                                                                          \
    "  features: [{name: u, key: true}, {name: v, key: true}, {name: x, dense: true}]\n"               \
    "embedding:\n"                                                                                     \
    "  dim: 8\n"                                                                                       \
    "  tables:\n"                                                                                      \
    "    - {name: u, max_capacity: 30, eviction: {policy: lfu}, missing: oov}\n"                       \
    "    - {name: v, max_capacity: 70, dtype: bf16, admission: {min_count: 2}, missing: {hash: 12}}\n" \
    "model: {kind: deepfm, deep: [8]}\n"                                                               \
    "train: {batch_size: 64, optimizer: {kind: sgd, learning_rate: 0.1}, keep_best: false}\n"

/* The bytes of the checkpoint that a run ended with. */
static char *read_checkpoint(const char *output, int step, size_t *n_bytes) {
    char path[300];
    char *bytes;
    snprintf(path, sizeof path, "%s/%s/checkpoints/step-%09d/model-00001.safetensors", directory, output,
             step);
    OK(rk_file_read(path, &bytes, n_bytes));
    return bytes;
}

static void assert_same_checkpoints(const char *a, const char *b, int step) {
    size_t a_bytes, b_bytes;
    char *x = read_checkpoint(a, step, &a_bytes), *y = read_checkpoint(b, step, &b_bytes);
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(x, y, a_bytes);
    rk_free(x);
    rk_free(y);
}

static outcome run(const char *output, const char *where, int steps) {
    return run_of(run_text, output, where, steps);
}

static void assert_close(outcome *a, outcome *b) {
    assert_int_equal(a->n_metrics, b->n_metrics);
    assert_true(a->n_metrics > 2);
    for (int32_t i = 0; i < a->n_metrics; i++)
        if (!(fabs(a->metrics[i].value - b->metrics[i].value) <= 1e-5))
            fail_msg("metric %d is %.9g, not %.9g", i, a->metrics[i].value, b->metrics[i].value);
    rk_free(a->state);
    rk_free(b->state);
}

static void test_as_on_the_cpu(void **state) {
    (void)state;
    outcome cpu = run("cpu", "cpu", 30), gpu = run("gpu", "cuda", 30);
    assert_close(&gpu, &cpu);
}

/* With rankings, and a checkpoint of the one that goes on on the other. */
static void test_pairs(void **state) {
    (void)state;
    outcome cpu = run_of(PAIRS_RUN, "pairs", "cpu", 30), gpu = run_of(PAIRS_RUN, "pairs_gpu", "cuda", 30);
    assert_close(&gpu, &cpu);
    cpu = run_of(PAIRS_RUN, "pairs", "cpu", 30);
    rk_free(run_of(PAIRS_RUN, "pairs_there", "cuda", 16).state);
    outcome there = run_of(PAIRS_RUN, "pairs_there", "cpu", 30);
    assert_close(&there, &cpu);
}

/* Two epochs and more, so that the plateau's factor and shuffles of later epochs are the resumed run's
 * too. */
static void test_goes_on_elsewhere(void **state) {
    (void)state;
    outcome cpu = run("whole", "cpu", 30);
    rk_free(run("there", "cuda", 16).state);
    outcome there = run("there", "cpu", 30);
    assert_close(&there, &cpu);
    cpu = run("whole", "cpu", 30);
    rk_free(run("back", "cpu", 16).state);
    outcome back = run("back", "cuda", 30);
    assert_close(&back, &cpu);
}

static void test_resumes_with_the_same_bits(void **state) {
    (void)state;
    outcome whole = run("once", "cuda", 30);
    rk_free(run("twice", "cuda", 16).state);
    outcome twice = run("twice", "cuda", 30);
    assert_int_equal(whole.n_bytes, twice.n_bytes);
    assert_memory_equal(whole.state, twice.state, whole.n_bytes);
    rk_free(whole.state);
    rk_free(twice.state);
}

/* Which keys have rows is the processors' decision with either; a checkpoint does not tell where it was made.
 */
static void test_keys(void **state) {
    (void)state;
    outcome cpu = run_of(KEYS_RUN, "keys", "cpu", 30), gpu = run_of(KEYS_RUN, "keys_gpu", "cuda", 30);
    assert_close(&gpu, &cpu);
    rk_free(run_of(KEYS_RUN, "keys_twice", "cuda", 16).state);
    rk_free(run_of(KEYS_RUN, "keys_twice", "cuda", 30).state);
    assert_same_checkpoints("keys_gpu", "keys_twice", 30);
    rk_free(run_of(KEYS_RUN, "keys_there", "cuda", 16).state);
    outcome there = run_of(KEYS_RUN, "keys_there", "cpu", 30);
    cpu = run_of(KEYS_RUN, "keys", "cpu", 30);
    assert_close(&there, &cpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_on_the_cpu), cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_goes_on_elsewhere), cmocka_unit_test(test_keys),
                                       cmocka_unit_test(test_resumes_with_the_same_bits)};
    need_device();
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
