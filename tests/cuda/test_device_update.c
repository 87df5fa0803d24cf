/* Training on the device for several steps against the CPU engine: every optimizer, clipping, l2, steps that
 * are not taken, the way back to the host. */
#include "base/memory.h"
#include "base/rng.h"
#include "cuda/device_testing.h"
#include "cuda/dense/dense_optimizer_step.h"
#include "nn/cuda/device_graph.h"
#include "nn/graph/layers.h"

#include <math.h>

enum { N = 50, IN = 23, STEPS = 4 };

/* A graph with what optimizers treat in ways of their own: weights of more than one piece, biases, running
 * statistics, a tensor of one row. */
typedef struct model {
    rk_graph *graph;
    rk_value x, y;
    rk_dense_optimizer *optimizer;
} model;

static model build(const rk_dense_optimizer_config *config) {
    model m;
    OK(rk_graph_create(5, &m.graph));
    m.x = rk_graph_add_input(m.graph, "x", (rk_shape){1, IN});
    rk_value h = rk_linear(m.graph, "wide", m.x, 400, false, RK_F32);
    h = rk_relu(m.graph, rk_batch_norm(m.graph, "norm", h));
    h = rk_dropout(m.graph, h, 0.2);
    m.y = rk_linear(m.graph, "end", h, 1, true, RK_F32);
    rk_graph_mark_output(m.graph, m.y);
    rk_graph_retain_values(m.graph);
    OK(rk_graph_finish(m.graph, N, true));
    OK(rk_dense_optimizer_create(config, m.graph, &m.optimizer));
    return m;
}

static void release(model *m) {
    rk_dense_optimizer_free(m->optimizer);
    rk_graph_free(m->graph);
}

static void draw(float *x, int64_t n, uint64_t number) {
    rk_rng rng = {3, number, 0};
    for (int64_t i = 0; i < n; i++) x[i] = (float)rk_rng_normal(&rng);
}

/* What a step reads, on the device. */
typedef struct memory {
    int64_t *step;
    uint32_t *stop;
    float *dy;
    rk_launch_graph *launches; /* NULL: one by one */
} memory;

static memory new_memory(void) {
    return (memory){on_device(NULL, 2 * sizeof(int64_t)), on_device(NULL, sizeof(uint32_t)),
                    on_device(NULL, N * sizeof(float)), NULL};
}

static void free_memory(memory *at) {
    rk_launch_graph_free(at->launches);
    rk_device_free(device, at->step);
    rk_device_free(device, at->stop);
    rk_device_free(device, at->dy);
}

static void step_on_cpu(model *m, int64_t step, const float *x, const float *dy) {
    memcpy(rk_graph_data(m->graph, m->x), x, N * IN * sizeof *x);
    OK(rk_graph_forward(m->graph, N, true, step, NULL));
    memcpy(rk_graph_gradient(m->graph, m->y), dy, N * sizeof *dy);
    OK(rk_graph_backward(m->graph, N));
    OK(rk_dense_optimizer_check_gradients(m->optimizer));
    rk_dense_optimizer_apply(m->optimizer);
}

static void launch_step(const model *m, rk_device_graph *g, memory at) {
    rk_device_graph_forward(g, stream, N, 0, N, true, at.step);
    rk_stream_copy(stream, rk_device_graph_gradient(g, m->y), at.dy, N * sizeof(float));
    rk_device_graph_backward(g, stream, N);
    rk_device_graph_compute_gradient_norm(g, stream, at.stop);
    rk_device_graph_update(g, stream, at.stop);
}

static uint32_t step_on_device(const model *m, rk_device_graph *g, memory at, int64_t step, const float *x,
                               const float *dy) {
    uint32_t stop = 0;
    OK(rk_device_upload(device, at.step, &step, sizeof step));
    OK(rk_device_upload(device, at.stop, &stop, sizeof stop));
    OK(rk_device_upload(device, at.dy, dy, N * sizeof *dy));
    OK(rk_device_upload(device, rk_device_graph_data(g, m->x), x, N * IN * sizeof *x));
    OK(rk_device_graph_prepare_update(g, stream));
    if (at.launches)
        rk_launch_graph_run(at.launches, stream);
    else
        launch_step(m, g, at);
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, &stop, at.stop, sizeof stop));
    rk_device_graph_end_step(g, stop == 0);
    return stop;
}

static void compare(const char *what, const float *a, const float *b, int64_t n, double tolerance) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)a[i] * (double)a[i];
    }
    if (!(error <= tolerance * size)) fail_msg("%s: error %g of %g", what, error, size);
}

/* All that training changed. */
static void compare_models(const char *what, model *a, model *b, double tolerance) {
    rk_state_dict states[2] = {{0}, {0}};
    model *models[] = {a, b};
    for (int i = 0; i < 2; i++) {
        OK(rk_graph_state_dict(models[i]->graph, &states[i]));
        OK(rk_dense_optimizer_state_dict(models[i]->optimizer, &states[i]));
    }
    for (size_t t = 0; t < states[0].n; t++) {
        const rk_state_dict_entry *x = &states[0].entries[t], *y = &states[1].entries[t];
        char name[512];
        snprintf(name, sizeof name, "%s: %s", what, x->name);
        if (x->type == RK_I64)
            assert_int_equal(*(int64_t *)x->data, *(int64_t *)y->data);
        else
            compare(name, x->data, y->data, x->dims[0] * (x->dims[1] ? x->dims[1] : 1), tolerance);
    }
    for (int i = 0; i < 2; i++) rk_state_dict_release(&states[i]);
}

static void train_both(const char *what, const rk_dense_optimizer_config *config, bool captured) {
    model cpu = build(config), home = build(config);
    rk_device_graph *g;
    OK(rk_device_graph_create(home.graph, home.optimizer, device,
                              &(rk_device_graph_options){.max_batch = N, .training = true}, &g));
    memory at = new_memory();
    float x[N * IN], dy[N];
    if (captured) { /* after a step that is not taken: products must have been made once */
        draw(x, N * IN, 0);
        draw(dy, N, 100);
        dy[0] = INFINITY;
        assert_int_equal(step_on_device(&home, g, at, 0, x, dy), RK_CUDA_STOP_DENSE);
        OK(rk_stream_capture_begin(stream));
        launch_step(&home, g, at);
        OK(rk_stream_capture_end(stream, &at.launches));
    }
    for (int64_t step = 0; step < STEPS; step++) {
        draw(x, N * IN, (uint64_t)step);
        draw(dy, N, 100 + (uint64_t)step);
        step_on_cpu(&cpu, step, x, dy);
        assert_int_equal(step_on_device(&home, g, at, step, x, dy), 0);
    }
    OK(rk_device_graph_flush(g));
    compare_models(what, &cpu, &home, 1e-9);
    free_memory(&at);
    rk_device_graph_free(g);
    release(&cpu);
    release(&home);
}

static rk_dense_optimizer_config config_of(rk_optimizer_kind kind) {
    rk_dense_optimizer_config config = {0};
    OK(rk_optimizer_init(&config.optimizer, kind));
    config.optimizer.learning_rate = 0.01;
    if (kind == RK_OPTIMIZER_ADAM || kind == RK_OPTIMIZER_ADAMW || kind == RK_OPTIMIZER_LAMB ||
        kind == RK_OPTIMIZER_ROWWISE_ADAM)
        config.optimizer.epsilon = 1e-3; /* where g is near 0, its
  sign is the order of sums */
    return config;
}

static void test_optimizers(void **state) {
    (void)state;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++) {
        rk_dense_optimizer_config config = config_of((rk_optimizer_kind)kind);
        train_both(rk_optimizer_name((rk_optimizer_kind)kind), &config, false);
    }
}

static void test_clipping_and_decay(void **state) {
    (void)state;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++) {
        rk_dense_optimizer_config config = config_of((rk_optimizer_kind)kind);
        config.max_gradient_norm = 0.5;
        config.l2 = 0.01;
        config.optimizer.weight_decay = 0.01;
        config.optimizer.clip_gradient_min = -0.02;
        config.optimizer.clip_weight_max = 0.1;
        config.optimizer.schedule.warmup_steps = 3;
        train_both(rk_optimizer_name((rk_optimizer_kind)kind), &config, false);
    }
}

/* One graph of launches for all steps: learning rates, dropout's masks and Adam's corrections still
 * change. */
static void test_graph_of_launches(void **state) {
    (void)state;
    rk_dense_optimizer_config config = config_of(RK_OPTIMIZER_ADAM);
    config.optimizer.schedule.warmup_steps = 3;
    train_both("a graph of launches", &config, true);
}

/* Nothing changes, running statistics too, and the parameter is named. */
static void test_steps_not_taken(void **state) {
    (void)state;
    rk_dense_optimizer_config config = config_of(RK_OPTIMIZER_ADAM);
    model untouched = build(&config), home = build(&config);
    rk_device_graph *g;
    OK(rk_device_graph_create(home.graph, home.optimizer, device,
                              &(rk_device_graph_options){.max_batch = N, .training = true}, &g));
    memory at = new_memory();
    float x[N * IN], dy[N];
    draw(x, N * IN, 1);
    draw(dy, N, 2);
    dy[7] = INFINITY;
    assert_int_equal(step_on_device(&home, g, at, 0, x, dy), RK_CUDA_STOP_DENSE);
    FAILS(rk_device_graph_check_step(g, stream), RK_NOT_FINITE,
          "the gradient of the parameter 'wide/weight' is not finite");
    OK(rk_device_graph_flush(g));
    compare_models("not taken", &untouched, &home, 0);
    dy[7] = 1; /* and the next one is as the first would have been */
    step_on_cpu(&untouched, 0, x, dy);
    assert_int_equal(step_on_device(&home, g, at, 0, x, dy), 0);
    OK(rk_device_graph_check_step(g, stream));
    OK(rk_device_graph_flush(g));
    compare_models("taken", &untouched, &home, 1e-9);
    free_memory(&at);
    rk_device_graph_free(g);
    release(&untouched);
    release(&home);
}

static void test_refusals(void **state) {
    (void)state;
    rk_dense_optimizer_config config = config_of(RK_OPTIMIZER_SGD);
    model m = build(&config);
    rk_device_graph *g;
    FAILS(rk_device_graph_create(m.graph, NULL, device, &(rk_device_graph_options){.max_batch = 0}, &g),
          RK_INVALID_ARGUMENT, "a graph's largest batch must be 1 or more, not 0");
    FAILS(
        rk_device_graph_create(m.graph, m.optimizer, device, &(rk_device_graph_options){.max_batch = N}, &g),
        RK_INVALID_ARGUMENT, "a graph for prediction only has no optimizer");
    release(&m);
}

/* Twice the same steps, twice the same bits, in whatever order blocks run. */
static void test_same_bits(void **state) {
    (void)state;
    rk_dense_optimizer_config config = config_of(RK_OPTIMIZER_LAMB);
    config.max_gradient_norm = 0.5;
    model homes[2];
    for (int i = 0; i < 2; i++) {
        rk_device_graph *g;
        memory at = new_memory();
        float x[N * IN], dy[N];
        homes[i] = build(&config);
        OK(rk_device_graph_create(homes[i].graph, homes[i].optimizer, device,
                                  &(rk_device_graph_options){.max_batch = N, .training = true}, &g));
        for (int64_t step = 0; step < STEPS; step++) {
            draw(x, N * IN, (uint64_t)step);
            draw(dy, N, 100 + (uint64_t)step);
            assert_int_equal(step_on_device(&homes[i], g, at, step, x, dy), 0);
        }
        OK(rk_device_graph_flush(g));
        free_memory(&at);
        rk_device_graph_free(g);
    }
    compare_models("again", &homes[0], &homes[1], 0);
    for (int i = 0; i < 2; i++) release(&homes[i]);
}

/* Wherever memory ends, all that was taken is given back. */
static void test_no_memory(void **state) {
    (void)state;
    rk_dense_optimizer_config config = config_of(RK_OPTIMIZER_ADAM);
    model m = build(&config);
    long live = rk_alloc_live(), countdown = 1;
    for (bool created = false; !created; countdown++) {
        rk_device_graph *g;
        rk_alloc_fail_after(countdown, false);
        rk_status status = rk_device_graph_create(
            m.graph, m.optimizer, device, &(rk_device_graph_options){.max_batch = N, .training = true}, &g);
        rk_alloc_fail_after(0, false);
        created = status == RK_OK;
        assert_true(created || status == RK_NO_MEMORY);
        if (created) rk_device_graph_free(g);
        assert_int_equal(rk_alloc_live(), live);
    }
    assert_true(countdown > 5);
    release(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizers),        cmocka_unit_test(test_clipping_and_decay),
        cmocka_unit_test(test_graph_of_launches), cmocka_unit_test(test_steps_not_taken),
        cmocka_unit_test(test_refusals),          cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
