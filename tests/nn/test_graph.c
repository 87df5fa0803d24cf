/* The float engine: same bits at any thread count, prediction against training, memory reuse, dense
 * optimizers. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "nn/dense_optimizer.h"
#include "gemm/gemm.h"
#include "nn/graph/graph_internal.h"
#include "nn/graph/layers.h"

/* All products of a linear layer at odd sizes, against sums in double; bf16 in f32 and in oneDNN's own
 * bf16. */
static void check_products(int64_t m, int64_t in, int64_t out, rk_dtype dtype, bool relu) {
    rk_rng rng = {(uint64_t)m, (uint64_t)in, (uint64_t)out};
    static float x[64 * 100], w[100 * 100], b[100], dy[64 * 100], y[64 * 100], dx[64 * 100], dw[100 * 100];
    for (int i = 0; i < 64 * 100; i++)
        x[i] = (float)rk_rng_normal(&rng), dy[i] = (float)rk_rng_normal(&rng), dx[i] = (float)(i % 7);
    for (int i = 0; i < 100 * 100; i++) w[i] = (float)rk_rng_normal(&rng), dw[i] = (float)(i % 5);
    for (int i = 0; i < 100; i++) b[i] = (float)rk_rng_normal(&rng);
    float tolerance = dtype == RK_BF16
                          ? 0.15f
                          : 1e-4f; /* eight bits of each operand, sums of a hundred products of about 1 */
    rk_packed_matrix *matrix;
    OK(rk_packed_matrix_create(in, out, dtype, 64, &matrix));
    OK(rk_packed_matrix_set_weights(matrix, w, true));
    void *workspace;
    OK(rk_alloc(rk_packed_matrix_workspace_bytes(matrix), 1, &workspace));
    OK(rk_packed_matrix_forward(matrix, m, x, relu ? b : NULL, relu, y, workspace));
    for (int64_t s = 0; s < m; s++)
        for (int64_t o = 0; o < out; o++) {
            double sum = relu ? b[o] : 0;
            for (int64_t i = 0; i < in; i++) sum += (double)x[s * in + i] * w[i * out + o];
            if (relu && sum < 0) sum = 0;
            assert_true(fabs(y[s * out + o] - sum) < tolerance * (1 + fabs(sum)));
        }
    OK(rk_packed_matrix_backward(matrix, m, x, dy, relu, dw, relu, dx, workspace));
    for (int64_t s = 0; s < m; s++)
        for (int64_t i = 0; i < in; i++) {
            double sum = relu ? (double)((s * in + i) % 7) : 0;
            for (int64_t o = 0; o < out; o++) sum += (double)dy[s * out + o] * w[i * out + o];
            assert_true(fabs(dx[s * in + i] - sum) < tolerance * (1 + fabs(sum)));
        }
    for (int64_t i = 0; i < in; i++)
        for (int64_t o = 0; o < out; o++) {
            double sum = relu ? (double)((i * out + o) % 5) : 0;
            for (int64_t s = 0; s < m; s++) sum += (double)x[s * in + i] * dy[s * out + o];
            assert_true(fabs(dw[i * out + o] - sum) < tolerance * (1 + fabs(sum)));
        }
    rk_free(workspace);
    rk_packed_matrix_free(matrix);
}

static void test_products(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 3, 16, 64}, sizes[] = {1, 2, 3, 7, 16, 17, 33, 100};
    for (int trial = 0; trial < 3 * 4 * 64; trial++) {
        int units = trial % 3 == 2;           /* f32; bf16; bf16 as units do it */
        if (units && trial / 3 % 5) continue; /* imitated, these are slow */
        setenv("RK_BF16_UNITS", units ? "1" : "0", 1);
        check_products(rows[trial / 3 % 4], sizes[trial / 12 % 8], sizes[trial / 96],
                       trial % 3 ? RK_BF16 : RK_F32, trial / 3 & 1);
    }
    unsetenv("RK_BF16_UNITS");
}

/* A model that has diverged should not go on as one whose units are all off. (oneDNN's relu in a product
 * gives 0 of NaN.) */
static void test_relu_hides_no_nan(void **state) {
    (void)state;
    rk_graph *graph;
    OK(rk_graph_create(1, &graph));
    rk_value x = rk_graph_add_input(graph, "x", (rk_shape){1, 3}), alone = rk_relu(graph, x);
    rk_graph_mark_output(graph, alone);
    rk_graph_retain_values(graph);
    OK(rk_graph_finish(graph, 1, false));
    memcpy(rk_graph_data(graph, x), (float[]){NAN, -1, 2}, 3 * sizeof(float));
    OK(rk_graph_forward(graph, 1, false, 0, NULL));
    const rk_real *y = rk_graph_data(graph, alone);
    assert_true(isnan(y[0]) && y[1] == 0 && y[2] == 2);
    rk_graph_free(graph);
}

enum { BATCH = 700, IN = 37 };

static rk_graph *make_graph(rk_dtype dtype, bool training, rk_value *x, rk_value *y) {
    rk_graph *graph;
    static const int64_t units[] = {65, 33};
    OK(rk_graph_create(3, &graph));
    *x = rk_graph_add_input(graph, "x", (rk_shape){1, IN});
    rk_value cross = rk_cross_v1(graph, "cross", *x, *x);
    rk_value deep = rk_mlp_build(graph, "deep", rk_layer_norm(graph, "norm", cross),
                                 &(rk_mlp){.units = units,
                                           .n = 2,
                                           .activation = "relu",
                                           .batch_norm = true,
                                           .dropout = 0.1,
                                           .dtype = dtype});
    rk_value both[2] = {cross, deep};
    *y = rk_linear(graph, "out", rk_concat(graph, both, 2), 1, true, dtype);
    rk_graph_mark_output(graph, *y);
    rk_graph_retain_values(graph);
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
        OK(rk_graph_forward(graph, BATCH, true, step, NULL));
        for (int i = 0; i < BATCH; i++)
            rk_graph_gradient(graph, y)[i] = (rk_graph_data(graph, y)[i] - (float)(i % 3)) / BATCH;
        if (step == 9) memcpy(logits, rk_graph_data(graph, y), BATCH * sizeof *logits);
        OK(rk_graph_backward(graph, BATCH));
        OK(rk_dense_optimizer_check_gradients(optimizer));
        rk_dense_optimizer_apply(optimizer);
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

/* Of several groups of several blocks, and of the second run, which finds what the first one left. */
static void test_gradients_are_sums_over_all_samples(void **state) {
    (void)state;
    enum { OUT = 3 };
    rk_graph *graph;
    OK(rk_graph_create(1, &graph));
    rk_value x = rk_graph_add_input(graph, "x", (rk_shape){1, IN}),
             y = rk_linear(graph, "linear", x, OUT, true, RK_F32);
    rk_graph_mark_output(graph, y);
    rk_graph_retain_values(graph);
    OK(rk_graph_finish(graph, BATCH, true));
    for (int run = 0; run < 2; run++) {
        double weight[IN * OUT] = {0}, bias[OUT] = {0};
        fill(graph, x, (uint64_t)run);
        OK(rk_graph_forward(graph, BATCH, true, run, NULL));
        for (int s = 0; s < BATCH; s++)
            for (int o = 0; o < OUT; o++) {
                float dy = (float)((s * OUT + o + run) % 11) - 5;
                rk_graph_gradient(graph, y)[s * OUT + o] = dy;
                bias[o] += dy;
                for (int i = 0; i < IN; i++)
                    weight[i * OUT + o] += (double)rk_graph_data(graph, x)[s * IN + i] * dy;
            }
        OK(rk_graph_backward(graph, BATCH));
        for (int i = 0; i < IN * OUT; i++)
            assert_true(fabs(rk_graph_parameter(graph, 0)->gradient[i] - weight[i]) < 1e-3);
        for (int o = 0; o < OUT; o++)
            assert_true(fabs(rk_graph_parameter(graph, 1)->gradient[o] - bias[o]) < 1e-3);
    }
    rk_graph_free(graph);
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
    assert_true(rk_graph_memory_bytes(b, 1) < rk_graph_memory_bytes(a, 1));
    fill(a, x, 5);
    fill(b, x, 5);
    OK(rk_graph_forward(a, BATCH, false, 0, NULL));
    OK(rk_graph_forward(b, BATCH, false, 0, NULL));
    assert_memory_equal(rk_graph_data(a, y), rk_graph_data(b, y), BATCH * sizeof(float));
    OK(rk_graph_forward(b, 1, false, 0, NULL));
    assert_true(fabsf(rk_graph_data(a, y)[0] - rk_graph_data(b, y)[0]) < 1e-5f);
    assert_int_equal(rk_graph_forward(b, BATCH + 1, false, 0, NULL), RK_INVALID_ARGUMENT);
    assert_int_equal(rk_graph_backward(b, BATCH), RK_INVALID_ARGUMENT);
    rk_graph_free(a);
    rk_graph_free(b);
}

static void test_dropout_law(void **state) {
    (void)state;
    enum { WIDTH = 1000 };
    rk_graph *graph;
    OK(rk_graph_create(1, &graph));
    rk_value x = rk_graph_add_input(graph, "x", (rk_shape){1, WIDTH}), y = rk_dropout(graph, x, 0.3);
    rk_graph_mark_output(graph, y);
    rk_graph_retain_values(graph);
    OK(rk_graph_finish(graph, 50, true));
    for (int i = 0; i < 50 * WIDTH; i++) rk_graph_data(graph, x)[i] = 1;
    double sum = 0;
    int zeros = 0;
    OK(rk_graph_forward(graph, 50, true, 1, NULL));
    for (int i = 0; i < 50 * WIDTH; i++)
        sum += rk_graph_data(graph, y)[i], zeros += rk_graph_data(graph, y)[i] == 0;
    assert_true(fabs(sum / (50 * WIDTH) - 1) < 0.02 && abs(zeros - 15000) < 500);
    OK(rk_graph_forward(graph, 50, false, 1, NULL));
    for (int i = 0; i < 50 * WIDTH; i++) assert_true(rk_graph_data(graph, y)[i] == 1);
    rk_graph_free(graph);
}

/* Whole rows; and the samples' own whether they come in one batch or, as another share's, behind others. */
static void test_dropout_of_rows(void **state) {
    (void)state;
    enum { ROWS = 37, COLS = 5, N = 50 };
    rk_graph *graph;
    OK(rk_graph_create(1, &graph));
    rk_value x = rk_graph_add_input(graph, "x", (rk_shape){ROWS, COLS}),
             y = rk_dropout_rows(graph, "rows", x, 0.25);
    rk_graph_mark_output(graph, y);
    rk_graph_retain_values(graph);
    OK(rk_graph_finish(graph, N, true));
    for (int i = 0; i < N * ROWS * COLS; i++) rk_graph_data(graph, x)[i] = 3;
    OK(rk_graph_forward(graph, N, true, 1, NULL));
    int dropped = 0, changes[2] = {0};
    for (int r = 0; r < N * ROWS; r++) {
        const rk_real *row = rk_graph_data(graph, y) + (size_t)r * COLS;
        for (int c = 0; c < COLS; c++) assert_true(row[c] == row[0] && (row[c] == 0 || row[c] == 4));
        dropped += row[0] == 0;
        changes[0] += r >= 1 && row[0] != row[-COLS];
        changes[1] += r >= 256 && row[0] != row[-256 * COLS];
    }
    assert_true(abs(dropped - N * ROWS / 4) < 60); /* and each row by itself: */
    assert_true(abs(changes[0] - (N * ROWS - 1) * 3 / 8) < 90 &&
                abs(changes[1] - (N * ROWS - 256) * 3 / 8) < 90);
    OK(rk_graph_forward(graph, N, false, 1, NULL));
    for (int i = 0; i < N * ROWS * COLS; i++) assert_true(rk_graph_data(graph, y)[i] == 3);
    rk_graph_free(graph);
}

/* What stands between a norm and a layer: a dropout, a relu, or both. */
enum { DROPOUT = 1, RELU = 2 };

/* Their gradients, and predictions after them; `apart`: a view keeps them from running together with the
 * norm. */
static size_t run_behind_norm(bool apart, int what, int32_t width, float *out) {
    enum { N = 4096 };
    size_t n;
    rk_graph *graph;
    OK(rk_graph_create(1, &graph));
    rk_value x = rk_graph_add_input(graph, "x", (rk_shape){1, 8}),
             h = rk_batch_norm(graph, "norm", rk_linear(graph, "first", x, width, true, RK_F32));
    if (apart) h = rk_reshape(graph, h, width, 1);
    if (what & RELU) h = rk_graph_add_op(graph, "relu", "relu", NULL, &h, 1);
    if (what & DROPOUT)
        h = rk_graph_add_op(graph, "dropout", "dropout", &(rk_op_options){.rate = 0.4}, &h, 1);
    rk_value y = rk_linear(graph, "last", apart ? rk_reshape(graph, h, 1, width) : h, 1, true, RK_F32);
    rk_graph_mark_output(graph, y);
    OK(rk_graph_finish(graph, N, true));
    for (int i = 0; i < N * 8; i++) rk_graph_data(graph, x)[i] = (float)(i % 23) - 11;
    OK(rk_graph_forward(graph, N, true, 1, NULL));
    for (int i = 0; i < N; i++) rk_graph_gradient(graph, y)[i] = rk_graph_data(graph, y)[i] - (float)(i % 3);
    OK(rk_graph_backward(graph, N));
    const float *gradients = rk_graph_gradients(graph, &n);
    memcpy(out, gradients, n * sizeof *out);
    OK(rk_graph_forward(graph, N, false, 1, NULL));
    memcpy(out + n, rk_graph_data(graph, y), N * sizeof *out);
    rk_graph_free(graph);
    return n + N;
}

/* Backward finds forward's mask where a norm before it runs with it forward, and not backward; and a norm
 * that does what follows computes the same bits. */
static void test_what_follows_a_norm(void **state) {
    (void)state;
    static float together[8192], apart[8192];
    for (int what = 1; what <= 3; what++)
        for (int32_t width = 97; width <= 100; width++) {
            size_t n = run_behind_norm(false, what, width, together);
            run_behind_norm(true, what, width, apart);
            assert_memory_equal(together, apart, n * sizeof *apart);
        }
}

typedef struct inferred {
    rk_value x, y;
    const float *from; /* [n, 8] */
    float *to;         /* [n, 2] */
} inferred;

static rk_status read_samples(void *context, const rk_run *run) {
    const inferred *i = context;
    memcpy(rk_run_data(run, i->x), i->from + run->first * 8, (size_t)run->n * 8 * sizeof(float));
    return RK_OK;
}

static rk_status write_samples(void *context, const rk_run *run) {
    const inferred *i = context;
    memcpy(i->to + run->first * 2, rk_run_data(run, i->y), (size_t)run->n * 2 * sizeof(float));
    return RK_OK;
}

static void make_norm(bool training, rk_graph **graph, rk_value *x, rk_value *y) {
    OK(rk_graph_create(3, graph));
    *x = rk_graph_add_input(*graph, "x", (rk_shape){1, 8});
    *y = rk_linear(*graph, "out", rk_batch_norm(*graph, "bn", *x), 2, true, RK_F32);
    rk_graph_mark_output(*graph, *y);
    OK(rk_graph_finish(*graph, 1000, training));
}

/* A frozen graph in memory of its own, whole batches or blocks, gives the bits of the graph's. */
static void test_frozen(void **state) {
    (void)state;
    enum { N = 1000 };
    static float from[N * 8], wanted[N * 2], found[N * 2];
    rk_graph *graph, *trained;
    rk_graph_inference *inference = NULL;
    rk_rng rng = {1, 1, 0};
    atomic_bool cancel = false;
    inferred i = {.from = from, .to = wanted};
    const rk_graph_hooks hooks = {.context = &i, .read = read_samples, .loss = write_samples};
    for (int k = 0; k < N * 8; k++) from[k] = (float)rk_rng_normal(&rng);
    make_norm(true, &trained, &i.x, &i.y);
    FAILS(rk_graph_freeze(trained), RK_INVALID_ARGUMENT,
          "only a graph that was finished for prediction is frozen");
    rk_graph_free(trained);
    make_norm(false, &graph, &i.x, &i.y);
    FAILS(rk_graph_inference_create(graph, 1, &inference), RK_INVALID_ARGUMENT, "the graph is not frozen");
    OK(rk_graph_forward(graph, N, false, 0, &hooks));
    OK(rk_graph_freeze(graph));
    FAILS(rk_graph_forward(graph, N, true, 0, &hooks), RK_INVALID_ARGUMENT, "a frozen graph only predicts");
    long live = rk_alloc_live();
    for (long n = 1; !inference; n++) {
        rk_alloc_fail_after(n, false);
        rk_status status = rk_graph_inference_create(graph, 3, &inference);
        rk_alloc_fail_after(0, false);
        if (status != RK_OK) assert_int_equal(rk_alloc_live(), live);
    }
    OK(rk_parallel_set_threads(3));
    i.to = found;
    rk_graph_bind_value(graph, i.x, wanted, NULL); /* which an inference does not look at */
    OK(rk_graph_inference_run(inference, N, &hooks, &cancel));
    assert_memory_equal(found, wanted, sizeof wanted);
    rk_graph_bind_value(graph, i.x, NULL, NULL);
    memset(found, 0, sizeof found);
    OK(rk_graph_forward(graph, N, false, 0, &hooks));
    assert_memory_equal(found, wanted, sizeof wanted);
    atomic_store(&cancel, true);
    FAILS(rk_graph_inference_run(inference, N, &hooks, &cancel), RK_INTERRUPTED, "the run was cancelled");
    assert_int_equal(rk_graph_inference_run(inference, N + 1, &hooks, NULL), RK_INVALID_ARGUMENT);
    rk_graph_inference_free(inference);
    rk_graph_free(graph);
}

/* The first 2 columns of x are a target, the others a history of 3 rows. */
static void make_pairs(rk_dtype dtype, rk_graph **graph, rk_value *x, rk_value *y) {
    OK(rk_graph_create(3, graph));
    *x = rk_graph_add_input(*graph, "x", (rk_shape){1, 8});
    rk_value q = rk_slice(*graph, *x, 0, 2), k = rk_reshape(*graph, rk_slice(*graph, *x, 2, 6), 3, 2);
    const rk_op_options options = {.units = 5, .by_row = true, .relu = true, .dtype = dtype};
    rk_value pairs = rk_target_pairs(*graph, q, k),
             unit = rk_graph_add_op(*graph, "linear", "unit", &options, &pairs, 1);
    *y = rk_linear(*graph, "out", unit, 2, true, RK_F32);
    rk_graph_mark_output(*graph, *y);
}

/* In prediction a linear over pairs adds up half of the products: the same sums but for rounding. */
static void test_predicted_pairs(void **state) {
    (void)state;
    enum { N = 1000 };
    static float from[N * 8], wanted[N * 2], found[N * 2];
    rk_rng rng = {2, 1, 0};
    for (int k = 0; k < N * 8; k++) from[k] = (float)rk_rng_normal(&rng);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        rk_graph *graph;
        inferred i = {.from = from, .to = wanted};
        const rk_graph_hooks hooks = {.context = &i, .read = read_samples, .loss = write_samples};
        make_pairs(bf16 ? RK_BF16 : RK_F32, &graph, &i.x, &i.y);
        OK(rk_graph_finish(graph, N, true));
        rk_real *bias = rk_graph_parameter(graph, 1)->value;
        for (int c = 0; c < 5; c++) bias[c] = (float)rk_rng_normal(&rng);
        OK(rk_graph_forward(graph, N, true, 0, &hooks));
        i.to = found;
        OK(rk_graph_forward(graph, N, false, 0, &hooks));
        double largest = 0;
        for (int k = 0; k < N * 2; k++) {
            double difference = fabs((double)found[k] - wanted[k]);
            if (difference > largest) largest = difference;
        }
        assert_true((bf16 || largest > 0) && largest < 1e-5); /* only products in f32 are made in halves */
        rk_graph_free(graph);
    }
}

/* Chains of elementwise nodes, of which other values, longer ones too, begin and end beside them. */
static rk_value make_random_chains(rk_graph *graph, rk_value x, uint64_t seed) {
    static const char *const kinds[] = {"relu", "sigmoid", "tanh", "gelu"};
    rk_rng rng = {seed, 7, 0};
    rk_value values[40] = {x};
    int n = 1;
    for (int k = 0; k < 4; k++) {
        rk_value from = values[rk_rng_below(&rng, (uint64_t)n)];
        values[n++] = rk_linear(graph, NULL, from, 200 + (int32_t)rk_rng_below(&rng, 400), true, RK_F32);
        for (uint64_t left = 1 + rk_rng_below(&rng, 6); left > 0; left--, n++)
            values[n] = rk_graph_add_op(graph, kinds[rk_rng_below(&rng, 4)], NULL, NULL, &values[n - 1], 1);
    }
    return rk_linear(graph, "out", values[n - 1], 2, true, RK_F32);
}

/* Blocks share memory between values that a run of the whole batch keeps apart: the same bits. */
static void test_random_chains(void **state) {
    (void)state;
    enum { N = 400, TRIALS = 60 };
    static float from[N * 8], found[2][N * 2];
    rk_rng rng = {4, 1, 0};
    for (int k = 0; k < N * 8; k++) from[k] = (float)rk_rng_normal(&rng);
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        for (int whole = 0; whole < 2; whole++) {
            rk_graph *graph;
            OK(rk_graph_create(3, &graph));
            inferred i = {.from = from, .to = found[whole]};
            const rk_graph_hooks hooks = {.context = &i, .read = read_samples, .loss = write_samples};
            i.x = rk_graph_add_input(graph, "x", (rk_shape){1, 8});
            i.y = make_random_chains(graph, i.x, trial);
            rk_graph_mark_output(graph, i.y);
            if (whole) rk_graph_retain_values(graph);
            OK(rk_graph_finish(graph, N, false));
            OK(rk_graph_forward(graph, N, false, 0, &hooks));
            rk_graph_free(graph);
        }
        assert_memory_equal(found[0], found[1], sizeof found[0]);
    }
}

static void test_frozen_without_memory(void **state) {
    (void)state;
    long live = rk_alloc_live();
    rk_status status = RK_NO_MEMORY;
    for (long n = 1; status == RK_NO_MEMORY; n++) {
        rk_graph *graph;
        rk_value x, y;
        make_pairs(RK_F32, &graph, &x, &y);
        rk_alloc_fail_after(n, false);
        status = rk_graph_finish(graph, 1000, false);
        if (status == RK_OK) status = rk_graph_freeze(graph);
        rk_alloc_fail_after(0, false);
        rk_graph_free(graph);
        assert_int_equal(rk_alloc_live(), live);
    }
    OK(status);
}

static void test_mistakes(void **state) {
    (void)state;
    rk_graph *graph;
    OK(rk_graph_create(1, &graph));
    rk_value x = rk_graph_add_input(graph, "x", (rk_shape){1, 4}),
             z = rk_graph_add_input(graph, "z", (rk_shape){1, 5});
    rk_value both[2] = {x, z};
    assert_int_equal(rk_add(graph, both, 2), -1);
    assert_int_equal(rk_relu(graph, x), -1); /* the first mistake sticks */
    FAILS(rk_graph_finish(graph, 8, true), RK_INVALID_ARGUMENT,
          "node 'add_2' (add): the inputs must have the same shape, not [1, 4] and [1, 5]");
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
            rk_value x = rk_graph_add_input(graph, "x", (rk_shape){1, 8});
            rk_graph_mark_output(graph,
                                 rk_linear(graph, "out", rk_batch_norm(graph, "bn", x), 2, true, RK_F32));
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

/* Of a batch as long as may be, or a shorter one, whose groups may be more: each sample is in one group, in
 * order. */
static void test_groups_are_all_samples(void **state) {
    (void)state;
    static const int64_t most[] = {1, 100, 1000, 2500, 3000, 4096, 4352, 5000, 10000, 30000};
    static const int32_t shards[] = {1, 2, 8};
    for (size_t m = 0; m < sizeof most / sizeof most[0]; m++)
        for (int c = 0; c < 3; c++) {
            rk_graph *graph;
            OK(rk_graph_create(1, &graph));
            rk_value x = rk_graph_add_input(graph, "x", (rk_shape){1, 8});
            rk_graph_mark_output(graph, rk_linear(graph, "y", x, 1, true, RK_F32));
            rk_graph_set_micro_batches(graph, shards[c], (rk_graph_local_part){0, shards[c]});
            OK(rk_graph_finish(graph, most[m], true));
            for (int64_t n = 0; n <= most[m]; n += n < 50 ? 1 : 37) {
                int64_t next = 0;
                for (size_t g = 0; g < rk_graph_n_groups(graph, n); g++) {
                    int64_t first, last;
                    rk_graph_group_range(graph, n, g, &first, &last);
                    assert_true(first == next && last > first && last <= n);
                    next = last;
                }
                assert_int_equal(next, n);
            }
            rk_graph_free(graph);
        }
}

/* Room for more samples than a step's, of predictions, changes no block. */
static void test_blocks_follow_from_the_step(void **state) {
    (void)state;
    static const int64_t steps[] = {1, 50, 130, 600, 1000, 4096}, most[] = {1, 300, 2000, 70000};
    for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
        size_t n_blocks = 0, n_groups = 0;
        for (size_t m = 0; m < sizeof most / sizeof most[0]; m++) {
            rk_graph *graph;
            OK(rk_graph_create(1, &graph));
            rk_value x = rk_graph_add_input(graph, "x", (rk_shape){1, 8});
            rk_graph_mark_output(graph, rk_linear(graph, "y", x, 1, true, RK_F32));
            rk_graph_set_step_batch(graph, steps[s]);
            OK(rk_graph_finish(graph, steps[s] + most[m] - 1, true));
            size_t blocks = rk_graph_n_blocks(graph, steps[s]), groups = rk_graph_n_groups(graph, steps[s]);
            if (m > 0) assert_true(blocks == n_blocks && groups == n_groups);
            n_blocks = blocks;
            n_groups = groups;
            rk_graph_free(graph);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_same_bits_at_any_thread_count),
        cmocka_unit_test(test_bf16_is_near_f32),
        cmocka_unit_test(test_prediction_plan),
        cmocka_unit_test(test_gradients_are_sums_over_all_samples),
        cmocka_unit_test(test_groups_are_all_samples),
        cmocka_unit_test(test_blocks_follow_from_the_step),
        cmocka_unit_test(test_relu_hides_no_nan),
        cmocka_unit_test(test_dropout_law),
        cmocka_unit_test(test_dropout_of_rows),
        cmocka_unit_test(test_what_follows_a_norm),
        cmocka_unit_test(test_frozen),
        cmocka_unit_test(test_predicted_pairs),
        cmocka_unit_test(test_random_chains),
        cmocka_unit_test(test_frozen_without_memory),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
