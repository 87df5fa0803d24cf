/* Trained models that predict on a GPU, beside the same ones on the processors. */
#include "cuda/device_testing.h"

#include <math.h>
#include <pthread.h>

#include <reckon/experimental/recommend.h>
#include <reckon/session.h>
#include <reckon/trainer.h>

#include "base/memory.h"
#include "model/model.h"
#include "serve/predictor_internal.h"
#include "train/clicks.h"
#include "train/pairs.h"

static char directory[] = "/tmp/reckon-predict-XXXXXX";

#define CLICKS_RUN   \
    CLICKS_AND_MODEL \
    "train: {batch_size: 64, optimizer: {kind: adagrad, learning_rate: 0.1}, keep_best: false}\n"

static const char *path_of(const char *run) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, run);
    return path;
}

/* Some steps of a run, and the checkpoint at their end; more [n]: overrides. */
static void train(const char *text, const char *run, const char *where, const char *const *more, size_t n) {
    char output[320], on[64];
    snprintf(output, sizeof output, "train.output=%s", path_of(run));
    snprintf(on, sizeof on, "device=%s", where);
    const char *overrides[8] = {output, on, "train.steps=20"};
    for (size_t i = 0; i < n; i++) overrides[3 + i] = more[i];
    rk_config *config;
    rk_trainer *trainer;
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    OK(rk_config_parse(text, "run.yaml", directory, overrides, 3 + n, &config));
    OK(rk_trainer_create(config, &options, &trainer));
    OK(rk_trainer_run(trainer));
    rk_trainer_free(trainer);
    rk_config_free(config);
}

static int make_runs(void **state) {
    (void)state;
    static const char *const many_rows[] = {"cuda.memory=40KB", "data.features[1]={name: v, hash: 5000}",
                                            "embedding.l2_full=1e-6"};
    static const char *const attention[] = {
        "model={kind: din, attention: [{target: u, history: v}], deep: [8]}",
        "embedding.features=[{name: v, table: u, max_sequence_length: 3}]",
        "data.features=[{name: u, hash: 50}, {name: v, hash: 50}, {name: x, dense: true}]"};
    static const char *const tasks[] = {
        "model={kind: mmoe, experts: 2, expert_units: [8], towers: [8], task_weights: uncertainty}",
        "data.labels=[{name: y}, {name: x, loss: mse}]",
        "data.features=[{name: u, hash: 50}, {name: v, hash: 50}]"};
    static const char *const keys[] = {
        "data.features=[{name: u, key: true}, {name: v, key: true}, {name: x, dense: true}]",
        "embedding.tables=[{name: u, max_capacity: 20, missing: oov}, {name: v, max_capacity: 30, "
        "missing: {hash: 7}}]"};
    assert_non_null(mkdtemp(directory));
    write_clicks(directory, 1000);
    write_pairs(directory);
    train(CLICKS_RUN, "clicks", "cpu", NULL, 0);
    train(CLICKS_RUN, "clicks_gpu", "cuda", NULL, 0);
    train(CLICKS_RUN, "cached", "cpu", many_rows, 3); /* which could not be trained behind a cache */
    train(CLICKS_RUN, "attention", "cpu", attention, 3);
    train(CLICKS_RUN, "tasks", "cpu", tasks, 3);
    train(CLICKS_RUN, "keys", "cpu", keys, 2);
    train(CLICKS_RUN, "keys_gpu", "cuda", keys, 2);
    train(PAIRS_RUN, "pairs", "cpu", NULL, 0);
    return 0;
}

static int remove_runs(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

enum { MAX_ROWS = 1000 };

/* What a predictor says of the validation data. */
typedef struct said {
    float predictions[MAX_ROWS];
    int64_t n_rows;
    double metrics[16];
    int32_t n_metrics;
} said;

static rk_status keep_row(void *user, int64_t row, const float *predictions, const float *labels) {
    (void)row, (void)labels;
    said *to = user;
    assert_true(to->n_rows < MAX_ROWS);
    to->predictions[to->n_rows++] = *predictions;
    return RK_OK;
}

static rk_export_rows rows; /* what tables' rows are rounded to */

static rk_status open_on(const char *run, const char *where, rk_predictor **out) {
    rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
    options.device = where;
    options.rows = rows;
    return rk_predictor_open(path_of(run), &options, out);
}

static said ask(const char *run, const char *where, bool on_device) {
    said found = {.n_rows = 0};
    rk_predictor *predictor;
    const rk_metric *metrics;
    int64_t n_rows;
    OK(open_on(run, where, &predictor));
    assert_int_equal(rk_model_has_device(predictor->model), on_device);
    for (int round = 0; round < 2; round++) {
        OK(rk_predictor_evaluate(predictor, "valid", &metrics, &found.n_metrics, &n_rows));
        for (int32_t i = 0; i < found.n_metrics; i++) found.metrics[i] = metrics[i].value;
        found.n_rows = 0;
        OK(rk_predictor_file(predictor, "valid", keep_row, &found));
        assert_int_equal(found.n_rows, n_rows);
    }
    rk_predictor_free(predictor);
    return found;
}

static void assert_close(const char *run, const said *a, const said *b) {
    assert_int_equal(a->n_rows, b->n_rows);
    assert_int_equal(a->n_metrics, b->n_metrics);
    assert_true(a->n_rows > 100 && a->n_metrics > 2);
    for (int64_t i = 0; i < a->n_rows; i++)
        if (!(fabsf(a->predictions[i] - b->predictions[i]) <= 1e-5f))
            fail_msg("%s: row %d: %.9g, not %.9g", run, (int)i, (double)a->predictions[i],
                     (double)b->predictions[i]);
    for (int32_t i = 0; i < a->n_metrics; i++)
        if (!(fabs(a->metrics[i] - b->metrics[i]) <= 1e-5))
            fail_msg("%s: metric %d: %.9g, not %.9g", run, i, a->metrics[i], b->metrics[i]);
}

static void check_run(const char *run) {
    said gpu = ask(run, "cuda", true), cpu = ask(run, "cpu", false);
    assert_close(run, &gpu, &cpu);
}

static void test_as_on_the_cpu(void **state) {
    (void)state;
    check_run("clicks");
    check_run("clicks_gpu");
    check_run("attention");
    check_run("tasks");
    check_run("keys");
    check_run("keys_gpu");
}

static void test_other_rows(void **state) {
    (void)state;
    for (rows = RK_EXPORT_ROWS_F16; rows <= RK_EXPORT_ROWS_INT4; rows++) check_run("clicks_gpu");
    rows = RK_EXPORT_ROWS_TRAINED;
}

static void test_behind_a_cache(void **state) {
    (void)state;
    check_run("cached");
}

static void test_rankings(void **state) {
    (void)state;
    check_run("pairs");
}

static void test_where_it_was_trained(void **state) {
    (void)state;
    ask("clicks", NULL, false);
    ask("clicks_gpu", NULL, true);
}

/* A thread with a session of its own goes over the validation data. */
typedef struct client {
    pthread_t thread;
    rk_predictor *predictor;
    rk_dataset *data;
    rk_session *session;
    said said;
} client;

static void *predict_all(void *argument) {
    client *c = argument;
    for (const rk_batch *batch;;) {
        if (rk_dataset_next(c->data, &batch) != RK_OK || !batch) return NULL;
        if (rk_session_run_batch(c->session, batch, c->said.predictions + c->said.n_rows) != RK_OK)
            return NULL;
        c->said.n_rows += batch->n;
    }
}

/* Threads at once, which get what they get alone. */
static void test_sessions(void **state) {
    (void)state;
    enum { N = 4 };
    static client clients[N];
    rk_predictor *predictor;
    static said alone;
    OK(open_on("clicks", "cuda", &predictor));
    OK(rk_predictor_file(predictor, "valid", keep_row, &alone));
    for (int i = 0; i < N; i++) {
        client *c = &clients[i];
        *c = (client){.predictor = predictor};
        OK(rk_session_create(predictor, NULL, &c->session));
        OK(rk_predictor_open_data(predictor, "valid", false, &c->data));
        assert_int_equal(pthread_create(&c->thread, NULL, predict_all, c), 0);
    }
    for (int i = 0; i < N; i++) {
        client *c = &clients[i];
        pthread_join(c->thread, NULL);
        assert_int_equal(c->said.n_rows, alone.n_rows);
        assert_memory_equal(c->said.predictions, alone.predictions, (size_t)alone.n_rows * sizeof(float));
        rk_session_free(c->session);
        rk_dataset_free(c->data);
    }
    rk_predictor_free(predictor);
    assert_true(alone.n_rows > 100);
}

static void test_no_such_device(void **state) {
    (void)state;
    rk_predictor *predictor;
    FAILS(open_on("clicks", "tpu", &predictor), RK_INVALID_ARGUMENT,
          "unknown device 'tpu'; it is cpu or cuda");
}

#ifdef RK_EMULATED
/* On another machine, without one. */
static void test_without_a_gpu(void **state) {
    (void)state;
    rk_predictor *predictor;
    setenv("RK_EMULATOR_DEVICES", "0", 1);
    ask("clicks_gpu", NULL, false);
    assert_int_equal(open_on("clicks", "cuda", &predictor), RK_UNSUPPORTED);
    unsetenv("RK_EMULATOR_DEVICES");
}
#endif

/* The answers' lines: "name,rank", and scores. */
typedef struct answered {
    int n;
    char names[MAX_ROWS * 5][40];
    double scores[MAX_ROWS * 5];
} answered;

static void recommend(const char *run, const char *where, answered *out) {
    rk_predictor *predictor;
    char output[320], line[200];
    rk_recommend_options options = RK_RECOMMEND_OPTIONS_INIT;
    rk_rerank_options candidates = RK_RERANK_OPTIONS_INIT;
    snprintf(output, sizeof output, "%s/answers.csv", directory);
    options.output = candidates.output = output;
    options.k = candidates.k = 5;
    candidates.group = "u";
    OK(open_on(run, where, &predictor));
    if (rk_predictor_can_retrieve(predictor))
        OK(rk_predictor_recommend(predictor, &options, NULL));
    else
        OK(rk_predictor_rerank(predictor, "valid", &candidates, NULL));
    rk_predictor_free(predictor);
    FILE *file = fopen(output, "r");
    assert_non_null(file);
    for (out->n = -1; fgets(line, sizeof line, file); out->n++)
        if (out->n >= 0) {
            snprintf(out->names[out->n], 40, "%.*s", (int)(strchr(strchr(line, ',') + 1, ',') - line), line);
            out->scores[out->n] = atof(strrchr(line, ',') + 1);
        }
    fclose(file);
}

/* Items whose scores are as good as equal may change places, so scores are compared, rank by rank. */
static void test_recommended(void **state) {
    (void)state;
    static answered gpu, cpu;
    static const char *const runs[] = {"pairs", "clicks"};
    for (int r = 0; r < 2; r++) {
        recommend(runs[r], "cuda", &gpu);
        recommend(runs[r], "cpu", &cpu);
        assert_int_equal(gpu.n, cpu.n);
        assert_true(cpu.n >= 100);
        for (int i = 0; i < cpu.n; i++) {
            assert_string_equal(gpu.names[i], cpu.names[i]);
            assert_true(fabs(gpu.scores[i] - cpu.scores[i]) < 1e-5);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_on_the_cpu),        cmocka_unit_test(test_other_rows),
        cmocka_unit_test(test_behind_a_cache),       cmocka_unit_test(test_rankings),
        cmocka_unit_test(test_where_it_was_trained), cmocka_unit_test(test_no_such_device),
        cmocka_unit_test(test_recommended),          cmocka_unit_test(test_sessions),
#ifdef RK_EMULATED
        cmocka_unit_test(test_without_a_gpu),
#endif
    };
    need_device();
    return cmocka_run_group_tests(tests, make_runs, remove_runs);
}
