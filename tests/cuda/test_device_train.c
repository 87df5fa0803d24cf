/* Runs on a GPU, by the trainer: what they learn beside the CPU engine's, and checkpoints that either goes on
 * from. */
#include "cuda/device_testing.h"

#include <math.h>

#include "base/memory.h"
#include "train/clicks.h"
#include "train/pairs.h"
#include "train/run/trainer_internal.h"

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
    for (size_t i = 0; i < t->state.n; i++) out->n_bytes += rk_state_dict_entry_bytes(&t->state.entries[i]);
    OK(rk_alloc(out->n_bytes, 1, &out->state));
    OK(rk_model_flush(t->model));
    for (size_t i = 0; i < t->state.n; at += rk_state_dict_entry_bytes(&t->state.entries[i++]))
        memcpy(out->state + at, t->state.entries[i].data, rk_state_dict_entry_bytes(&t->state.entries[i]));
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
    assert_int_equal(rk_model_step(trainer->model), steps);
    outcome out = {0};
    const rk_metric *metrics;
    OK(rk_trainer_evaluate(trainer, "valid", &metrics, &out.n_metrics));
    memcpy(out.metrics, metrics, (size_t)out.n_metrics * sizeof *metrics);
    take_state(trainer, &out);
    rk_trainer_free(trainer);
    rk_config_free(config);
    return out;
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_on_the_cpu), cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_goes_on_elsewhere),
                                       cmocka_unit_test(test_resumes_with_the_same_bits)};
    need_device();
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
