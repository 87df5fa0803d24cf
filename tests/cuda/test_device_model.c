/* Whole models on a GPU against the CPU engine: steps, predictions, what is refused, and state that goes from
 * one to the other. */
#include "device_training.h"

/* Sizes as epochs have them: the usual one again and again, by kept launches, and another between. */
static const int64_t sizes[] = {48, 48, 48, 48, 48, 31, 48, 200, 48};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static void check_predictions(twins *t, uint64_t seed, int64_t n, const char *what) {
    static drawn_batch b;
    static float on_cpu[MAX_SAMPLES * MAX_TASKS], on_gpu[MAX_SAMPLES * MAX_TASKS];
    int32_t n_tasks = rk_model_n_tasks(t->cpu);
    draw_batch(&b, seed, n, n_tasks);
    OK(rk_model_predict(t->cpu, &b.batch, on_cpu));
    OK(rk_model_predict(t->gpu, &b.batch, on_gpu));
    double far = nmse(on_gpu, on_cpu, n * n_tasks);
    if (!(far <= CLOSE)) fail_msg("%s: predictions are off by an NMSE of %g", what, far);
}

static void test_every_preset(void **state) {
    (void)state;
    static drawn_batch b;
    for (int c = 0; c < N_USUAL_CASES; c++) {
        const char *what = usual_cases[c].text;
        twins t;
        twins_init(&t, &usual_cases[c]);
        for (int i = 0; i < N_SIZES; i++) {
            double cpu, gpu;
            draw_batch(&b, (uint64_t)i, sizes[i], usual_cases[c].n_tasks);
            OK(rk_model_train(t.cpu, &b.batch, &cpu));
            OK(rk_model_train(t.gpu, &b.batch, &gpu));
            assert_losses_close(gpu, cpu, what, i);
            if (i == 3) check_predictions(&t, 70, 33, what);
        }
        /* Layer norm of rows that are next to nothing multiplies what rounding leaves, by up to 1 /
         * sqrt(epsilon) = 316. */
        assert_states_close(t.gpu, t.cpu, what, strstr(what, "masknet") ? 10 * CLOSE : CLOSE);
        for (uint64_t i = 0; i < 3; i++) check_predictions(&t, 80 + i, 60, what);
        assert_int_equal(rk_model_n_steps(t.gpu), N_SIZES);
        twins_release(&t);
    }
}

/* Every optimizer of rows and of dense parameters, with schedules, factors and clipping, of which each step's
 * numbers go up by themselves. */
static void test_optimizers_and_schedules(void **state) {
    (void)state;
    static drawn_batch b;
    static const rk_optimizer_kind kinds[] = {
        RK_OPTIMIZER_SGD,  RK_OPTIMIZER_ADAGRAD, RK_OPTIMIZER_ROWWISE_ADAGRAD,
        RK_OPTIMIZER_ADAM, RK_OPTIMIZER_ADAMW,   RK_OPTIMIZER_FTRL,
        RK_OPTIMIZER_LAMB};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const char *what = rk_optimizer_name(kinds[k]);
        twins t;
        memset(&t, 0, sizeof t);
        usual_init(&t.f, &(usual_case){"model: {kind: deepfm, deep: [8], dropout: 0.2}" SEQUENCE, 1});
        use_optimizer(&t.f, kinds[k], 0.02);
        t.f.options.dense_optimizer.optimizer.epsilon = 1e-3; /* no whole steps of rounding noise */
        t.f.options.dense_optimizer.optimizer.schedule.warmup_steps = 4;
        t.f.options.dense_optimizer.max_gradient_norm = 0.1;
        t.f.options.dense_optimizer.l2 = 0.001;
        twins_build(&t);
        for (int i = 0; i < 8; i++) {
            double cpu, gpu;
            draw_batch(&b, (uint64_t)i, 40, 1);
            if (i == 5) rk_model_scale_learning_rate(t.cpu, 0.5);
            if (i == 5) rk_model_scale_learning_rate(t.gpu, 0.5);
            OK(rk_model_train(t.cpu, &b.batch, &cpu));
            OK(rk_model_train(t.gpu, &b.batch, &gpu));
            assert_losses_close(gpu, cpu, what, i);
        }
        assert_states_close(t.gpu, t.cpu, what, 1e-7);
        twins_release(&t);
    }
}

/* The same losses, one call late, and what was begun at the end. */
static void test_late(void **state) {
    (void)state;
    static drawn_batch b;
    twins t;
    memset(&t, 0, sizeof t);
    t.device.late = true;
    usual_init(&t.f, &usual_cases[8]);
    use_optimizer(&t.f, RK_OPTIMIZER_SGD, 0.05);
    t.f.tasks[0].weight_decay_rate = 0.1;
    twins_build(&t);
    double cpu[6], gpu[8];
    for (int i = 0; i < 6; i++) {
        draw_batch(&b, (uint64_t)i, 50, 1);
        OK(rk_model_train(t.cpu, &b.batch, &cpu[i]));
        OK(rk_model_train(t.gpu, &b.batch, &gpu[i]));
        memset(b.ids, 0x55, sizeof b.ids); /* nothing of a batch that was begun is the caller's */
        memset(b.dense, 0x7f, sizeof b.dense);
        memset(b.labels, 0x7f, sizeof b.labels);
    }
    float predictions[50];
    bool left;
    draw_batch(&b, 9, 50, 1);
    FAILS(rk_model_predict(t.gpu, &b.batch, predictions), RK_INVALID_ARGUMENT,
          "a batch is still in flight: drain the model first");
    OK(rk_model_finish_oldest_batch(t.gpu, &gpu[6], &left));
    assert_true(left && isnan(gpu[0]));
    for (int i = 0; i < 6; i++) assert_losses_close(gpu[i + 1], cpu[i], "late", i);
    OK(rk_model_finish_oldest_batch(t.gpu, &gpu[7], &left));
    assert_false(left);
    assert_int_equal(rk_model_n_steps(t.gpu), 6);
    assert_states_close(t.gpu, t.cpu, "late", CLOSE);
    twins_release(&t);
}

/* A batch that was begun beside a step that is skipped, and one that is refused beside a step that is not. */
static void test_late_failures(void **state) {
    (void)state;
    static drawn_batch b;
    twins t;
    memset(&t, 0, sizeof t);
    t.device.late = true;
    usual_init(&t.f, &usual_cases[5]);
    use_optimizer(&t.f, RK_OPTIMIZER_SGD, 0.05);
    t.f.options.skip_not_finite = true;
    twins_build(&t);
    double loss;
    for (int i = 0; i < 8; i++) {
        draw_batch(&b, (uint64_t)i, 40, 1);
        if (i == 2 || i == 3) b.labels[i] = INFINITY;
        if (i == 5) b.ids[0][7] = 40;
        assert_int_equal(rk_model_train(t.cpu, &b.batch, &loss), i == 5 ? RK_BAD_DATA : RK_OK);
        assert_int_equal(rk_model_train(t.gpu, &b.batch, &loss), i == 5 ? RK_BAD_DATA : RK_OK);
    }
    bool left;
    OK(rk_model_finish_oldest_batch(t.gpu, &loss, &left));
    assert_int_equal(rk_model_n_steps(t.gpu), 5);
    assert_int_equal(rk_model_n_skipped_steps(t.gpu), 2);
    assert_states_close(t.gpu, t.cpu, "late failures", CLOSE);
    twins_release(&t);
}

/* The state of one, copied into the other's arrays. */
static void copy_model(rk_model *from, rk_model *to) {
    rk_state_dict a = {0}, b = {0};
    OK(rk_model_state_dict(from, &a));
    OK(rk_model_state_dict(to, &b));
    assert_int_equal(a.n, b.n);
    for (size_t i = 0; i < a.n; i++)
        memcpy(b.entries[i].data, a.entries[i].data, rk_state_dict_entry_bytes(&a.entries[i]));
    rk_state_dict_release(&a);
    rk_state_dict_release(&b);
    OK(rk_model_reload(to));
}

static void train(rk_model *model, uint64_t first, int n_steps, double *losses) {
    static drawn_batch b;
    for (int i = 0; i < n_steps; i++) {
        draw_batch(&b, first + (uint64_t)i, 40, rk_model_n_tasks(model));
        OK(rk_model_train(model, &b.batch, &losses[i]));
    }
}

/* From the GPU to the CPU and back in the midst of training; and a GPU's own state gives its own bits
 * again. */
static void test_state_goes_both_ways(void **state) {
    (void)state;
    static const int cases[] = {5, 18, 27};
    for (int c = 0; c < 3; c++) {
        const usual_case *at = &usual_cases[cases[c]];
        twins t;
        double a[4], b[4];
        twins_init(&t, at);
        train(t.gpu, 0, 4, a);
        copy_model(t.gpu, t.cpu);
        train(t.cpu, 4, 3, a);
        train(t.gpu, 4, 3, b);
        for (int i = 0; i < 3; i++) assert_losses_close(b[i], a[i], at->text, i);
        assert_states_close(t.gpu, t.cpu, at->text, CLOSE);
        copy_model(t.cpu, t.gpu);
        size_t n, n_again;
        train(t.gpu, 7, 4, a);
        char *once = copy_state(t.gpu, &n);
        copy_model(t.cpu, t.gpu);
        train(t.gpu, 7, 4, b);
        char *again = copy_state(t.gpu, &n_again);
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(once, again, n);
        rk_free(once);
        rk_free(again);
        twins_release(&t);
    }
}

/* A step that both refuse in the same words, and that leaves every byte of the GPU's state. */
static void assert_both_refuse(twins *t, const rk_batch *batch, rk_status wanted) {
    char said[1024];
    double loss = 123;
    size_t n, n_after;
    char *before = copy_state(t->gpu, &n);
    assert_int_equal(rk_model_train(t->cpu, batch, &loss), wanted);
    snprintf(said, sizeof said, "%s", rk_last_error());
    FAILS(rk_model_train(t->gpu, batch, &loss), wanted, said);
    assert_true(loss == 123);
    char *after = copy_state(t->gpu, &n_after);
    assert_memory_equal(after, before, n);
    rk_free(before);
    rk_free(after);
}

static void test_bad_batches(void **state) {
    (void)state;
    static drawn_batch b;
    static const int cases[] = {1, 5, 14, 18};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const usual_case *at = &usual_cases[cases[c]];
        double losses[2];
        twins t;
        twins_init(&t, at);
        train(t.cpu, 0, 2, losses);
        train(t.gpu, 0, 2, losses);
        draw_batch(&b, 3, 20, at->n_tasks);
        b.ids[0][13] = 40; /* there are 40 users */
        assert_both_refuse(&t, &b.batch, RK_BAD_DATA);
        draw_batch(&b, 3, 20, at->n_tasks);
        b.labels[5 * at->n_tasks] = NAN;
        assert_both_refuse(&t, &b.batch, RK_NOT_FINITE);
        draw_batch(&b, 3, 20, at->n_tasks);
        b.sample_weights[7] = INFINITY;
        assert_both_refuse(&t, &b.batch, RK_NOT_FINITE);
        train(t.cpu, 5, 2, losses); /* and both go on */
        train(t.gpu, 5, 2, losses);
        assert_states_close(t.gpu, t.cpu, at->text, CLOSE);
        twins_release(&t);
    }
}

/* A finite loss whose gradients overflow. */
static void test_gradients_that_overflow(void **state) {
    (void)state;
    static drawn_batch b;
    twins t;
    twins_init(&t, &(usual_case){"model: {kind: dnn, activation: none, deep: [4]}\nembedding: {dim: 4}", 2});
    draw_batch(&b, 2, 3, 2);
    for (int i = 0; i < 3 * N_USUAL_DENSE; i++) b.dense[i] *= 1e15f;
    for (int i = 0; i < 3; i++) b.labels[2 * i + 1] = 3e30f;
    assert_both_refuse(&t, &b.batch, RK_NOT_FINITE);
    twins_release(&t);
}

static void test_skipped_steps_are_counted(void **state) {
    (void)state;
    static drawn_batch b;
    twins t;
    memset(&t, 0, sizeof t);
    usual_init(&t.f, &usual_cases[5]);
    use_optimizer(&t.f, RK_OPTIMIZER_SGD, 0.05);
    t.f.options.skip_not_finite = true;
    twins_build(&t);
    double loss, losses[2];
    for (int i = 0; i < 4; i++) {
        train(t.cpu, (uint64_t)i, 1, losses);
        train(t.gpu, (uint64_t)i, 1, losses);
        draw_batch(&b, 50, 40, 1);
        b.labels[i] = INFINITY;
        OK(rk_model_train(t.cpu, &b.batch, &loss));
        OK(rk_model_train(t.gpu, &b.batch, &loss));
        assert_true(isnan(loss));
        assert_int_equal(rk_model_n_skipped_steps(t.gpu), i + 1);
        assert_int_equal(rk_model_n_steps(t.gpu), i + 1);
    }
    assert_states_close(t.gpu, t.cpu, "skipped", CLOSE);
    twins_release(&t);
}

/* Longer than the model takes at once, and wrong beyond the first piece. */
static void test_predict_in_pieces(void **state) {
    (void)state;
    static drawn_batch b;
    static float whole[MAX_SAMPLES], pieces[MAX_SAMPLES];
    twins t;
    memset(&t, 0, sizeof t);
    usual_init(&t.f, &usual_cases[7]);
    t.f.options.max_batch = 64;
    t.f.options.device = &t.device;
    OK(rk_model_build(&t.f.options, &t.gpu));
    t.f.options.device = NULL;
    OK(rk_model_build(&t.f.options, &t.cpu));
    draw_batch(&b, 8, MAX_SAMPLES, 1);
    OK(rk_model_predict(t.cpu, &b.batch, whole));
    OK(rk_model_predict(t.gpu, &b.batch, pieces));
    assert_true(nmse(pieces, whole, MAX_SAMPLES) <= CLOSE);
    b.ids[0][150] = 40;
    assert_int_equal(rk_model_predict(t.cpu, &b.batch, whole), RK_BAD_DATA);
    char said[1024];
    snprintf(said, sizeof said, "%s", rk_last_error());
    FAILS(rk_model_predict(t.gpu, &b.batch, whole), RK_BAD_DATA, said);
    twins_release(&t);
}

/* Labels that may be absent, a product of two tasks, a weight that decays; learned weights are a preset's
 * above. */
static void test_tasks(void **state) {
    (void)state;
    static drawn_batch b;
    twins t;
    memset(&t, 0, sizeof t);
    usual_init(
        &t.f, &(usual_case){
                  "model: {kind: mmoe, experts: 2, expert_units: [8], towers: [4]}\nembedding: {dim: 4}", 2});
    use_optimizer(&t.f, RK_OPTIMIZER_SGD, 0.05);
    t.f.tasks[1].optional = true;
    t.f.tasks[0].weight_decay_rate = 0.2;
    twins_build(&t);
    for (int i = 0; i < 5; i++) {
        double cpu, gpu;
        draw_batch(&b, (uint64_t)i, 40, 2);
        for (int s = 0; s < 40; s += i + 1) b.labels[2 * s + 1] = NAN;
        OK(rk_model_train(t.cpu, &b.batch, &cpu));
        OK(rk_model_train(t.gpu, &b.batch, &gpu));
        assert_losses_close(gpu, cpu, "tasks", i);
    }
    assert_states_close(t.gpu, t.cpu, "tasks", CLOSE);
    twins_release(&t);
}

/* No tables: nothing but the numbers' own way orders a step. */
static void test_numbers_alone(void **state) {
    (void)state;
    static drawn_batch b;
    twins t;
    memset(&t, 0, sizeof t);
    fixture_init(&t.f, "model: {kind: dnn, deep: [8]}", NULL, 0, N_USUAL_DENSE, 1);
    use_optimizer(&t.f, RK_OPTIMIZER_SGD, 0.05);
    twins_build(&t);
    for (int i = 0; i < 6; i++) {
        double cpu, gpu;
        draw_batch(&b, (uint64_t)i, 50, 1);
        b.batch.n_features = 0;
        OK(rk_model_train(t.cpu, &b.batch, &cpu));
        OK(rk_model_train(t.gpu, &b.batch, &gpu));
        assert_losses_close(gpu, cpu, "numbers alone", i);
    }
    assert_states_close(t.gpu, t.cpu, "numbers alone", CLOSE);
    twins_release(&t);
}

/* Launches one by one give the bits of those that are kept as a graph. */
static void test_without_graphs(void **state) {
    (void)state;
    double losses[2][6];
    char *states[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        twins t;
        assert_int_equal(setenv("RK_LAUNCH_GRAPHS", i ? "off" : "on", 1), 0);
        twins_init(&t, &usual_cases[5]);
        train(t.gpu, 0, 6, losses[i]);
        states[i] = copy_state(t.gpu, &n[i]);
        twins_release(&t);
    }
    assert_int_equal(unsetenv("RK_LAUNCH_GRAPHS"), 0);
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(states[0], states[1], n[0]);
    for (int i = 0; i < 2; i++) rk_free(states[i]);
}

/* Tables that the device has no room for: behind its cache the bits are those of tables that are whole
 * there. */
static void test_behind_the_cache(void **state) {
    (void)state;
    static const usual_case large = {
        "model: {kind: deepfm, deep: [8], dropout: 0.1}\nembedding: {dim: 4, tables: [{name: item, rows: "
        "20000}, {name: history, rows: 20000}]}",
        1};
    twins cached, whole;
    double losses[2][6];
    size_t n[2];
    memset(&cached, 0, sizeof cached);
    usual_init(&cached.f, &large);
    cached.device.memory_bytes = 600000; /* of 2.6 MB */
    twins_build(&cached);
    memset(&whole, 0, sizeof whole);
    usual_init(&whole.f, &large);
    twins_build(&whole);
    train(cached.gpu, 0, 6, losses[0]);
    train(whole.gpu, 0, 6, losses[1]);
    assert_memory_equal(losses[0], losses[1], sizeof losses[1]);
    char *a = copy_state(cached.gpu, &n[0]), *b = copy_state(whole.gpu, &n[1]);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(a, b, n[1]);
    rk_free(a);
    rk_free(b);
    twins_release(&cached);
    twins_release(&whole);
    usual_init(&cached.f, &large);
    cached.f.options.device = &(rk_model_device){.memory_bytes = 100};
    assert_int_equal(rk_model_build(&cached.f.options, &cached.gpu), RK_CONFIG);
    assert_non_null(
        strstr(rk_last_error(),
               "run.yaml: the tables do not fit 100 bytes of GPU memory, not even behind a cache\nhint: "));
    fixture_release(&cached.f);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_preset),
        cmocka_unit_test(test_optimizers_and_schedules),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_late_failures),
        cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_state_goes_both_ways),
        cmocka_unit_test(test_bad_batches),
        cmocka_unit_test(test_gradients_that_overflow),
        cmocka_unit_test(test_skipped_steps_are_counted),
        cmocka_unit_test(test_predict_in_pieces),
        cmocka_unit_test(test_numbers_alone),
        cmocka_unit_test(test_without_graphs),
        cmocka_unit_test(test_behind_the_cache),
    };
    need_device();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
