/* The float engine: same bits at any thread count, prediction against training, memory reuse, dense optimizers. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "nn/dense_optimizer.h"
#include "nn/gemm.h"
#include "nn/layers.h"

static void test_gemm(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 7, 16, 17, 33, 100};
    rk_rng rng = {1, 1, 0};
    static float a[100 * 100], b[100 * 100], c[100 * 101], expected[100 * 101];
    for (int i = 0; i < 100 * 100; i++) a[i] = (float)rk_rng_normal(&rng), b[i] = (float)rk_rng_normal(&rng);
    for (int trial = 0; trial < 200; trial++) {
        int64_t m = sizes[rk_rng_below(&rng, 8)], n = sizes[rk_rng_below(&rng, 8)], k = sizes[rk_rng_below(&rng, 8)], ldc = n + 1;
        bool ta = trial & 1, tb = trial & 2, add = trial & 4;
        for (int i = 0; i < 100 * 101; i++) c[i] = expected[i] = (float)(i % 13);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = add ? expected[i * ldc + j] : 0;
                for (int64_t l = 0; l < k; l++) sum += (double)(ta ? a[l * m + i] : a[i * k + l]) * (tb ? b[j * k + l] : b[l * n + j]);
                expected[i * ldc + j] = (float)sum;
            }
        OK(rk_gemm_run(&(rk_gemm){.transpose_a = ta, .transpose_b = tb, .accumulate = add, .m = m, .n = n, .k = k, .a = a, .lda = ta ? m : k, .b = b, .ldb = tb ? k : n, .c = c, .ldc = ldc}));
        for (int64_t i = 0; i < 100 * 101; i++) assert_true(fabsf(c[i] - expected[i]) < 1e-4f * (1 + fabsf(expected[i])));
    }
}

enum { BATCH = 700, IN = 37 };

static rk_graph *make_graph(rk_dtype dtype, bool training, rk_value *x, rk_value *y) {
    rk_graph *graph;
    static const int64_t units[] = {65, 33};
    OK(rk_graph_create(3, &graph));
    *x = rk_graph_input(graph, "x", (rk_shape){1, IN});
    rk_value cross = rk_cross_v1(graph, "cross", *x, *x);
    rk_value deep = rk_mlp_build(graph, "deep", rk_layer_norm(graph, "norm", cross),
                                 &(rk_mlp){.units = units, .n = 2, .activation = "relu", .batch_norm = true, .dropout = 0.1, .dtype = dtype});
    rk_value both[2] = {cross, deep};
    *y = rk_linear(graph, "out", rk_concat(graph, both, 2), 1, true, dtype);
    rk_graph_output(graph, *y);
    OK(rk_graph_finish(graph, BATCH, training));
    return graph;
}

static void fill(rk_graph *graph, rk_value x, uint64_t seed) {
    rk_rng rng = {seed, 2, 0};
    for (int i = 0; i < BATCH * IN; i++) rk_graph_data(graph, x)[i] = (float)rk_rng_normal(&rng);
}

/* Ten training steps; the logits of the last. */
static void train(rk_dtype dtype, float *logits) {
    rk_value x, y;
    rk_graph *graph = make_graph(dtype, true, &x, &y);
    rk_dense_optimizer_config config = {.max_gradient_norm = 1};
    OK(rk_optimizer_init(&config.optimizer, RK_OPTIMIZER_ADAM));
    rk_dense_optimizer *optimizer;
    OK(rk_dense_optimizer_create(&config, graph, &optimizer));
    for (int step = 0; step < 10; step++) {
        fill(graph, x, (uint64_t)step);
        OK(rk_graph_forward(graph, BATCH, true, step));
        for (int i = 0; i < BATCH; i++) rk_graph_gradient(graph, y)[i] = (rk_graph_data(graph, y)[i] - (float)(i % 3)) / BATCH;
        if (step == 9) memcpy(logits, rk_graph_data(graph, y), BATCH * sizeof *logits);
        OK(rk_graph_backward(graph, BATCH));
        OK(rk_dense_optimizer_step(optimizer));
    }
    rk_dense_optimizer_free(optimizer);
    rk_graph_free(graph);
}

static void test_same_bits_at_any_thread_count(void **state) {
    (void)state;
    static float one[BATCH], many[BATCH];
    for (int dtype = RK_F32; dtype <= RK_BF16; dtype++) {
        OK(rk_parallel_set_threads(1));
        train((rk_dtype)dtype, one);
        for (int threads = 2; threads <= 8; threads += 3) {
            OK(rk_parallel_set_threads(threads));
            train((rk_dtype)dtype, many);
            assert_memory_equal(one, many, sizeof one);
        }
    }
}

static void test_bf16_is_near_f32(void **state) {
    (void)state;
    static float full[BATCH], half[BATCH];
    train(RK_F32, full);
    train(RK_BF16, half);
    double apart = 0, size = 0;
    for (int i = 0; i < BATCH; i++) apart += fabs(full[i] - half[i]), size += fabs(full[i]);
    assert_true(apart > 0 && apart < 0.05 * size);
}

/* A graph planned for prediction reuses more memory; it must say the same. */
static void test_prediction_plan(void **state) {
    (void)state;
    rk_value x, y;
    rk_graph *a = make_graph(RK_F32, true, &x, &y), *b = make_graph(RK_F32, false, &x, &y);
    assert_true(rk_graph_arena_bytes(b) < rk_graph_arena_bytes(a));
    fill(a, x, 5);
    fill(b, x, 5);
    OK(rk_graph_forward(a, BATCH, false, 0));
    OK(rk_graph_forward(b, BATCH, false, 0));
    assert_memory_equal(rk_graph_data(a, y), rk_graph_data(b, y), BATCH * sizeof(float));
    OK(rk_graph_forward(b, 1, false, 0));
    assert_true(fabsf(rk_graph_data(a, y)[0] - rk_graph_data(b, y)[0]) < 1e-5f);
    assert_int_equal(rk_graph_forward(b, BATCH + 1, false, 0), RK_INVALID_ARGUMENT);
    assert_int_equal(rk_graph_backward(b, BATCH), RK_INVALID_ARGUMENT);
    rk_graph_free(a);
    rk_graph_free(b);
}

static void test_dropout_law(void **state) {
    (void)state;
    enum { WIDTH = 1000 };
    rk_graph *graph;
    OK(rk_graph_create(1, &graph));
    rk_value x = rk_graph_input(graph, "x", (rk_shape){1, WIDTH}), y = rk_dropout(graph, x, 0.3);
    rk_graph_output(graph, y);
    OK(rk_graph_finish(graph, 50, true));
    for (int i = 0; i < 50 * WIDTH; i++) rk_graph_data(graph, x)[i] = 1;
    double sum = 0;
    int zeros = 0;
    OK(rk_graph_forward(graph, 50, true, 1));
    for (int i = 0; i < 50 * WIDTH; i++) sum += rk_graph_data(graph, y)[i], zeros += rk_graph_data(graph, y)[i] == 0;
    assert_true(fabs(sum / (50 * WIDTH) - 1) < 0.02 && abs(zeros - 15000) < 500);
    OK(rk_graph_forward(graph, 50, false, 1));
    for (int i = 0; i < 50 * WIDTH; i++) assert_true(rk_graph_data(graph, y)[i] == 1);
    rk_graph_free(graph);
}

static void test_mistakes(void **state) {
    (void)state;
    rk_graph *graph;
    OK(rk_graph_create(1, &graph));
    rk_value x = rk_graph_input(graph, "x", (rk_shape){1, 4}), z = rk_graph_input(graph, "z", (rk_shape){1, 5});
    rk_value both[2] = {x, z};
    assert_int_equal(rk_add(graph, both, 2), -1);
    assert_int_equal(rk_relu(graph, x), -1); /* the first mistake sticks */
    FAILS(rk_graph_finish(graph, 8, true), RK_INVALID_ARGUMENT, "node 'add_2' (add): inputs of shapes [1, 4] and [1, 5]");
    rk_graph_free(graph);
}

static void test_out_of_memory(void **state) {
    (void)state;
    long before = rk_alloc_live();
    for (long n = 1; n < 400; n++) {
        rk_graph *graph = NULL;
        rk_alloc_fail_after(n, false);
        rk_status status = rk_graph_create(3, &graph);
        if (status == RK_OK) {
            rk_value x = rk_graph_input(graph, "x", (rk_shape){1, 8});
            rk_graph_output(graph, rk_linear(graph, "out", rk_batch_norm(graph, "bn", x), 2, true, RK_F32));
            status = rk_graph_finish(graph, 16, true);
        }
        rk_alloc_fail_after(0, false);
        rk_graph_free(graph);
        assert_int_equal(rk_alloc_live(), before);
        if (status == RK_OK) return;
        assert_int_equal(status, RK_NO_MEMORY);
    }
    fail();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),          cmocka_unit_test(test_same_bits_at_any_thread_count),
        cmocka_unit_test(test_bf16_is_near_f32), cmocka_unit_test(test_prediction_plan),
        cmocka_unit_test(test_dropout_law),   cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
