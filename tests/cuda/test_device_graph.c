/* Every operation of the dense graph on the device, forward and backward, against the CPU engine's own run of
 * the same graph. */
#include "cuda/device_testing.h"
#include "nn/cuda/device_graph_internal.h"
#include "nn/op_trial.h"

enum { N = 37, MAX_BATCH = 40, STEP = 3 };
static const double F32 = 1e-10;       /* normalized mean square error: sums in another order */
static const double BF16 = 1e-4;       /* operands have 8 bits */
static const double TF32_ERROR = 1e-5; /* and 11, which may be cut, not rounded */

static const trial trials[] = {
    {"linear", {{1, 70}}, 1, {.units = 33}},
    {"linear", {{1, 70}}, 1, {.units = 33, .relu = true}},
    {"linear", {{2, 3}}, 1, {.units = 1, .no_bias = true, .relu = true}},
    {"linear", {{3, 4}}, 1, {.units = 2, .by_row = true}},
    {"linear", {{3, 4}}, 1, {.units = 5, .by_row = true, .no_bias = true}},
    {"linear", {{1, 40}}, 1, {.units = 9, .dtype = RK_BF16}},
    {"linear", {{3, 13}}, 1, {.units = 7, .dtype = RK_BF16, .relu = true, .by_row = true}},
    {"relu", {{1, 9}}, 1, {0}},
    {"gelu", {{3, 5}}, 1, {0}},
    {"sigmoid", {{1, 7}}, 1, {0}},
    {"tanh", {{1, 8}}, 1, {0}},
    {"softmax", {{2, 5}}, 1, {0}},
    {"softmax", {{1, 71}}, 1, {0}},
    {"batch_norm", {{1, 37}}, 1, {0}},
    {"layer_norm", {{2, 45}}, 1, {0}},
    {"layer_norm", {{3, 5}}, 1, {.by_row = true}},
    {"dropout", {{1, 33}}, 1, {.rate = 0.4}},
    {"dropout", {{5, 7}}, 1, {.rate = 0.4, .by_row = true}},
    {"concat", {{1, 3}, {2, 2}, {1, 1}}, 3, {0}},
    {"concat", {{1, 8}, {2, 4}, {1, 4}}, 3, {0}},
    {"slice", {{2, 4}}, 1, {.first = 3, .count = 4}},
    {"slice", {{2, 8}}, 1, {.first = 4, .count = 8}},
    {"reshape", {{2, 6}}, 1, {.rows = 3, .cols = 4}},
    {"add", {{2, 3}}, 1, {0}},
    {"add", {{2, 3}, {2, 3}, {2, 3}}, 3, {0}},
    {"multiply", {{2, 3}, {2, 3}}, 2, {0}},
    {"multiply", {{2, 3}, {1, 1}}, 2, {0}},
    {"multiply", {{2, 35}, {2, 1}}, 2, {0}},
    {"sum_rows", {{4, 3}}, 1, {0}},
    {"sum_all", {{5, 13}}, 1, {0}},
    {"bias", {{2, 7}}, 1, {0}},
    {"fm", {{4, 35}}, 1, {0}},
    {"dot_interaction", {{4, 19}}, 1, {0}},
    {"dot_interaction", {{2, 3}}, 1, {0}},
    {"dot_interaction", {{27, 40}}, 1, {0}},
    {"dot_interaction", {{64, 33}}, 1, {0}},
    {"dot_interaction", {{66, 5}}, 1, {0}},
    {"cross_v1", {{1, 39}, {1, 39}}, 2, {0}},
    {"cross_combine", {{1, 6}, {1, 6}, {1, 6}}, 3, {0}},
    {"batch_matmul", {{1, 3}, {3, 5}}, 2, {0}},
    {"batch_matmul", {{2, 3}, {3, 4}}, 2, {0}},
    {"product_logit", {{1, 4}, {1, 4}}, 2, {0}},
    {"constant", {{0, 0}}, 0, {.units = 3}},
    {"l2_normalize", {{2, 37}}, 1, {0}},
    {"l2_normalize", {{2, 37}}, 1, {.epsilon = 100}},
    {"transpose", {{2, 3}}, 1, {0}},
    {"cin", {{3, 4}, {3, 2}}, 2, {.units = 3}},
    {"cin", {{3, 4}, {3, 4}}, 2, {.units = 5, .dtype = RK_BF16}},
    {"attention", {{3, 4}, {3, 4}, {3, 4}}, 3, {.count = 2}},
    {"attention", {{2, 19}, {2, 19}, {2, 19}}, 3, {.count = 1}},
    {"attention", {{3, 4}, {3, 4}, {3, 4}, {3, 1}}, 4, {.count = 2}},
    {"attention", {{35, 3}, {35, 3}, {35, 3}, {1, 35}}, 4, {.count = 1}},
    {"number_vectors", {{1, 3}}, 1, {.units = 4}},
    {"target_pairs", {{1, 3}, {2, 3}}, 2, {0}},
    {"attention_pool", {{3, 1}, {3, 4}, {1, 2}}, 3, {.first = 1}},
    {"attention_pool", {{3, 1}, {3, 4}, {1, 2}}, 3, {.first = 1, .softmax = true}},
    {"mask", {{1, 2}}, 1, {.first = 1, .count = 1, .rows = 4}},
    {"gate", {{2, 3}}, 1, {0}},
    {"gate", {{2, 3}, {2, 3}}, 2, {0}},
};
enum { N_TRIALS = sizeof trials / sizeof trials[0] };

/* SAME: the first input is all inputs, so that one gradient is added to several times by one operation.
 * TWICE: two nodes read the inputs. TF32: products in tf32. */
typedef enum arrangement { ALONE, TWICE, SAME, TF32 } arrangement;

typedef struct setting {
    const trial *trial;
    rk_graph *graph;
    rk_value inputs[MAX_INPUTS], output;
    rk_device_graph *on_device;
    char name[64];
    double tolerance;
} setting;

static int64_t width_of(const setting *s, rk_value value) {
    rk_shape shape = rk_graph_shape(s->graph, value);
    return (int64_t)shape.rows * shape.cols;
}

static void build(setting *s, const trial *t, arrangement a) {
    rk_rng rng = {11, 7, 0};
    s->trial = t;
    s->tolerance = t->options.dtype == RK_BF16 ? BF16 : a == TF32 ? TF32_ERROR : F32;
    snprintf(s->name, sizeof s->name, "%s, trial %d, arrangement %d", t->op, (int)(t - trials), (int)a);
    s->output = build_trial(t, a == TWICE, a == SAME, MAX_BATCH, &s->graph, s->inputs);
    fill_trial(t, s->graph, s->inputs, N, 5, 0, &rng);
    if (!strcmp(t->op, "l2_normalize")) /* a row of zeros has no gradient */
        memset(rk_graph_data(s->graph, s->inputs[0]), 0, (size_t)t->inputs[0].cols * sizeof(float));
    OK(rk_device_graph_create(
        s->graph, NULL, device,
        &(rk_device_graph_options){.max_batch = MAX_BATCH, .training = true, .tf32 = a == TF32},
        &s->on_device));
}

static void compare(const setting *s, const char *what, const float *expected, const float *device_values,
                    int64_t n) {
    float *got = malloc((size_t)n * sizeof *got);
    double error = 0, size = 0;
    OK(rk_device_download(device, got, device_values, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++) {
        double e = (double)got[i] - (double)expected[i];
        error += e * e;
        size += (double)expected[i] * (double)expected[i];
    }
    if (!(error <= s->tolerance * size)) fail_msg("%s: %s: error %g of %g", s->name, what, error, size);
    free(got);
}

static void compare_parameter_gradients(const setting *s) {
    for (int32_t p = 0; p < rk_graph_n_parameters(s->graph); p++) {
        const rk_parameter *parameter = rk_graph_parameter(s->graph, p);
        compare(s, parameter->name, parameter->gradient, rk_device_graph_parameter_gradient(s->on_device, p),
                parameter->rows * parameter->cols);
    }
}

/* Forward and backward on both sides. */
static void train(const setting *s, const int64_t *step) {
    int64_t n_out = N * width_of(s, s->output);
    float *dy = malloc((size_t)n_out * sizeof *dy);
    rk_rng rng = {3, 9, 0};
    for (int64_t i = 0; i < n_out; i++) dy[i] = (float)rk_rng_normal(&rng);
    OK(rk_graph_forward(s->graph, N, true, STEP, NULL));
    for (int i = 0; i < s->trial->n_inputs; i++)
        OK(rk_device_upload(device, rk_device_graph_data(s->on_device, s->inputs[i]),
                            rk_graph_data(s->graph, s->inputs[i]),
                            (size_t)(N * width_of(s, s->inputs[i])) * sizeof(float)));
    rk_device_graph_forward(s->on_device, stream, N, 0, N, true, step);
    OK(rk_stream_sync(stream));
    compare(s, "output", rk_graph_data(s->graph, s->output), rk_device_graph_data(s->on_device, s->output),
            n_out);

    memcpy(rk_graph_gradient(s->graph, s->output), dy, (size_t)n_out * sizeof *dy);
    OK(rk_graph_backward(s->graph, N));
    OK(rk_device_upload(device, rk_device_graph_gradient(s->on_device, s->output), dy,
                        (size_t)n_out * sizeof *dy));
    rk_device_graph_backward(s->on_device, stream, N);
    OK(rk_stream_sync(stream));
    free(dy);
}

static float *read_all(const float *from, int64_t n) {
    float *out = malloc((size_t)n * sizeof *out);
    OK(rk_device_download(device, out, from, (size_t)n * sizeof *out));
    return out;
}

/* A rank may have no samples of a batch: parameters' gradients are zeros then, and what other nodes have in
 * their first sample stays. */
static void check_no_samples(const setting *s, const int64_t *step) {
    int64_t width = width_of(s, s->inputs[0]);
    float *before = read_all(rk_device_graph_gradient(s->on_device, s->inputs[0]), width);
    rk_device_graph_forward(s->on_device, stream, 0, 0, N, true, step);
    rk_device_graph_backward(s->on_device, stream, 0);
    OK(rk_stream_sync(stream));
    float *after = read_all(rk_device_graph_gradient(s->on_device, s->inputs[0]), width);
    if (memcmp(before, after, (size_t)width * sizeof *before) != 0)
        fail_msg("%s: no samples, but a gradient", s->name);
    free(before);
    free(after);
    for (int32_t p = 0; p < rk_graph_n_parameters(s->graph); p++) {
        const rk_parameter *parameter = rk_graph_parameter(s->graph, p);
        float *found =
            read_all(rk_device_graph_parameter_gradient(s->on_device, p), parameter->rows * parameter->cols);
        for (int64_t i = 0; i < parameter->rows * parameter->cols; i++)
            if (found[i] != 0)
                fail_msg("%s: no samples, but a gradient of %s: %g", s->name, parameter->name,
                         (double)found[i]);
        free(found);
    }
}

static void run_trial(const trial *t, arrangement a) {
    setting s;
    build(&s, t, a);
    int64_t *step = on_device(&(int64_t[]){STEP, 0}, 2 * sizeof *step);
    for (int time = 0; time < 2;
         time++) { /* a gradient that is added where it should be written shows the second time */
        train(&s, step);
        for (int i = 0; i < t->n_inputs; i++)
            compare(&s, "an input's gradient", rk_graph_gradient(s.graph, s.inputs[i]),
                    rk_device_graph_gradient(s.on_device, s.inputs[i]), N * width_of(&s, s.inputs[i]));
        compare_parameter_gradients(&s);
    }
    OK(rk_graph_forward(s.graph, N, false, STEP, NULL));
    rk_device_graph_forward(s.on_device, stream, N, 0, N, false, step);
    OK(rk_stream_sync(stream));
    compare(&s, "prediction", rk_graph_data(s.graph, s.output), rk_device_graph_data(s.on_device, s.output),
            N * width_of(&s, s.output));
    check_no_samples(&s, step);
    rk_device_free(device, step);
    rk_device_graph_free(s.on_device);
    rk_graph_free(s.graph);
}

static void test_alone(void **state) {
    (void)state;
    for (int i = 0; i < N_TRIALS; i++) run_trial(&trials[i], ALONE);
}

static void test_twice(void **state) {
    (void)state;
    for (int i = 0; i < N_TRIALS; i++) run_trial(&trials[i], TWICE);
}

static void test_same_input(void **state) {
    (void)state;
    for (int i = 0; i < N_TRIALS; i++) {
        const trial *t = &trials[i];
        bool same = t->n_inputs > 1;
        for (int k = 1; k < t->n_inputs; k++)
            same = same && t->inputs[k].rows == t->inputs[0].rows && t->inputs[k].cols == t->inputs[0].cols;
        if (same) run_trial(t, SAME);
    }
}

/* Rows of the host's, `width` values each, and of the device's, a stride apart. */
static void write_rows(const setting *s, rk_value input, const float *from) {
    int64_t width = width_of(s, input), stride = rk_device_graph_stride(s->on_device, input);
    for (int64_t k = 0; k < N; k++)
        OK(rk_device_upload(device, rk_device_graph_data(s->on_device, input) + k * stride, from + k * width,
                            (size_t)width * sizeof *from));
}

static void compare_gradients(const setting *s, rk_value input) {
    int64_t width = width_of(s, input), stride = rk_device_graph_stride(s->on_device, input);
    for (int64_t k = 0; k < N; k++)
        compare(s, "gradient", rk_graph_gradient(s->graph, input) + k * width,
                rk_device_graph_gradient(s->on_device, input) + k * stride, width);
}

/* y from a by a layer of its own, beside b behind a view and c, which only a concat reads. */
enum { A = 4, B = 12, C = 8, Y = 5 };

static void build_inputs(setting *s) {
    s->tolerance = F32;
    snprintf(s->name, sizeof s->name, "inputs");
    OK(rk_graph_create(5, &s->graph));
    rk_value a = s->inputs[0] = rk_graph_add_input(s->graph, "a", (rk_shape){1, A}),
             b = s->inputs[1] = rk_graph_add_input(s->graph, "b", (rk_shape){3, B / 3});
    rk_value c = s->inputs[2] = rk_graph_add_input(s->graph, "c", (rk_shape){1, C}),
             side = rk_linear(s->graph, "side", a, C, true, RK_F32);
    rk_value whole = rk_concat(s->graph, (rk_value[]){side, rk_reshape(s->graph, b, 1, B), c}, 3),
             twice = rk_add(s->graph, (rk_value[]){whole, rk_relu(s->graph, whole)}, 2);
    s->output = rk_linear(s->graph, "end", twice, Y, true, RK_F32);
    rk_graph_mark_output(s->graph, s->output);
    rk_graph_retain_values(s->graph);
    OK(rk_graph_finish(s->graph, MAX_BATCH, true));
}

static void train_inputs(const setting *s, rk_rng *rng) {
    float dy[N * Y];
    for (int i = 0; i < 3; i++) {
        float *data = rk_graph_data(s->graph, s->inputs[i]);
        for (int64_t k = 0; k < N * width_of(s, s->inputs[i]); k++) data[k] = (float)rk_rng_normal(rng);
        write_rows(s, s->inputs[i], data);
    }
    for (int k = 0; k < N * Y; k++) dy[k] = (float)rk_rng_normal(rng);
    OK(rk_graph_forward(s->graph, N, true, STEP, NULL));
    rk_device_graph_forward(s->on_device, stream, N, 0, N, true, NULL);
    OK(rk_stream_sync(stream));
    compare(s, "output", rk_graph_data(s->graph, s->output), rk_device_graph_data(s->on_device, s->output),
            N * Y);
    memcpy(rk_graph_gradient(s->graph, s->output), dy, sizeof dy);
    OK(rk_device_upload(device, rk_device_graph_gradient(s->on_device, s->output), dy, sizeof dy));
    OK(rk_graph_backward(s->graph, N));
    rk_device_graph_backward(s->on_device, stream, N);
    OK(rk_stream_sync(stream));
}

/* Inputs within a concat's columns, and one whose gradient nobody reads: the same values and parameters'
 * gradients. */
static void test_inputs(void **state) {
    (void)state;
    setting s;
    rk_rng rng = {11, 7, 0};
    build_inputs(&s);
    rk_device_graph_input said[] = {{.value = s.inputs[0], .no_gradient = true},
                                    {.value = s.inputs[1], .may_stride = true},
                                    {.value = s.inputs[2], .may_stride = true}};
    OK(rk_device_graph_create(
        s.graph, NULL, device,
        &(rk_device_graph_options){.max_batch = MAX_BATCH, .training = true, .inputs = said, .n_inputs = 3},
        &s.on_device));
    assert_int_equal(rk_device_graph_stride(s.on_device, s.inputs[0]), A);
    assert_int_equal(rk_device_graph_stride(s.on_device, s.inputs[1]), C + B + C);
    assert_int_equal(rk_device_graph_stride(s.on_device, s.inputs[2]), C + B + C);
    for (int time = 0; time < 2; time++) {
        train_inputs(&s, &rng);
        for (int i = 1; i < 3; i++) compare_gradients(&s, s.inputs[i]);
        compare_parameter_gradients(&s);
    }
    rk_device_graph_free(s.on_device);
    said[0].value = s.output;
    FAILS(rk_device_graph_create(s.graph, NULL, device,
                                 &(rk_device_graph_options){.max_batch = 1, .inputs = said, .n_inputs = 1},
                                 &s.on_device),
          RK_INVALID_ARGUMENT, "node 8 is not an input of the graph");
    rk_graph_free(s.graph);
}

/* A concat of ODD columns, a's and b's aligned, c's not, for two linear layers of this dtype, and for what
 * finds no padding between its samples: a relu, a linear layer of rows, or the caller. */
enum { ODD = B + C + A + 1 };
typedef enum third_reader { NO_OTHER, A_RELU, ROWS, THE_CALLER, N_THIRD_READERS } third_reader;

static rk_value add_third_reader(rk_graph *graph, rk_value whole, third_reader third, rk_dtype dtype) {
    if (third == ROWS) return rk_linear_rows(graph, "three", whole, Y, true, dtype);
    return rk_linear(graph, "three", rk_relu(graph, whole), Y, true, dtype);
}

static void build_odd_columns(setting *s, rk_dtype dtype, third_reader third) {
    s->tolerance = dtype == RK_BF16 ? BF16 : F32;
    snprintf(s->name, sizeof s->name, "odd columns, dtype %d, third reader %d", (int)dtype, (int)third);
    OK(rk_graph_create(5, &s->graph));
    s->inputs[0] = rk_graph_add_input(s->graph, "a", (rk_shape){3, B / 3});
    s->inputs[1] = rk_graph_add_input(s->graph, "b", (rk_shape){1, C});
    s->inputs[2] = rk_graph_add_input(s->graph, "c", (rk_shape){1, A + 1});
    rk_value whole = rk_concat(s->graph, s->inputs, 3),
             ends[3] = {rk_linear(s->graph, "one", whole, Y, true, dtype),
                        rk_linear(s->graph, "two", whole, Y, true, dtype)};
    bool is_node = third == A_RELU || third == ROWS;
    if (is_node) ends[2] = add_third_reader(s->graph, whole, third, dtype);
    if (third == THE_CALLER) rk_graph_mark_output(s->graph, whole);
    s->output = rk_add(s->graph, ends, is_node ? 3 : 2);
    rk_graph_mark_output(s->graph, s->output);
    rk_graph_retain_values(s->graph);
    OK(rk_graph_finish(s->graph, MAX_BATCH, true));
}

/* All memory but parameters is NaN: what is read must have been written. */
static void poison(const rk_device_graph *g) {
    rk_stream_fill(stream, g->memory, 0xFF, (size_t)g->n_memory * sizeof *g->memory);
    rk_stream_fill(stream, g->scratch, 0xFF, (size_t)g->n_scratch * sizeof *g->scratch);
    rk_stream_fill(stream, g->gradients, 0xFF, (size_t)g->n_parameters * sizeof *g->gradients);
    OK(rk_stream_sync(stream));
}

static void try_odd_columns(rk_dtype dtype, third_reader third) {
    setting s;
    rk_rng rng = {11, 7, 0};
    build_odd_columns(&s, dtype, third);
    rk_device_graph_input said[] = {{.value = s.inputs[0], .may_stride = true},
                                    {.value = s.inputs[1], .may_stride = true}};
    OK(rk_device_graph_create(
        s.graph, NULL, device,
        &(rk_device_graph_options){.max_batch = MAX_BATCH, .training = true, .inputs = said, .n_inputs = 2},
        &s.on_device));
    for (int i = 0; i < 2; i++)
        assert_int_equal(rk_device_graph_stride(s.on_device, s.inputs[i]),
                         third == NO_OTHER ? rk_cuda_aligned_ld(ODD) : width_of(&s, s.inputs[i]));
    assert_int_equal(rk_device_graph_stride(s.on_device, s.inputs[2]), A + 1);
    for (int time = 0; time < 2 && third != THE_CALLER; time++) { /* whose gradient nobody has */
        poison(s.on_device);
        train_inputs(&s, &rng);
        for (int i = 0; i < 3; i++) compare_gradients(&s, s.inputs[i]);
        compare_parameter_gradients(&s);
    }
    rk_device_graph_free(s.on_device);
    rk_graph_free(s.graph);
}

static void test_odd_columns(void **state) {
    (void)state;
    for (int third = 0; third < N_THIRD_READERS; third++) {
        try_odd_columns(RK_F32, (third_reader)third);
        try_odd_columns(RK_BF16, (third_reader)third);
    }
}

/* Without relu: where an output is as near to 0 as tf32's error, its gradient is the whole one on one side
 * and none on the other. */
static void test_tf32(void **state) {
    (void)state;
    for (int i = 0; i < N_TRIALS; i++)
        if (!strcmp(trials[i].op, "linear") && !trials[i].options.relu && trials[i].options.dtype == RK_F32)
            run_trial(&trials[i], TF32);
}

static void test_all_operations(void **state) {
    (void)state;
    check_all_are_tried(trials, N_TRIALS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),          cmocka_unit_test(test_twice),
        cmocka_unit_test(test_same_input),     cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_odd_columns),    cmocka_unit_test(test_tf32),
        cmocka_unit_test(test_all_operations),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
