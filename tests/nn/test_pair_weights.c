/* DIN's activation unit in prediction: what is computed at once is what the operations say one by one. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/thread/parallel.h"
#include "nn/graph/layers.h"

enum { N = 70, ROWS = 60, COLS = 3, WIDTH = COLS + ROWS * COLS }; /* a target and a history */

typedef struct unit {
    rk_graph *graph;
    rk_value x, lengths, y;
    const float *from, *length; /* [N, WIDTH], [N] */
    float *to;                  /* [N, COLS + shown] */
    int64_t out;
} unit;

static rk_status read_samples(void *context, const rk_run *run) {
    const unit *u = context;
    memcpy(rk_run_data(run, u->x), u->from + run->first * WIDTH, (size_t)run->n * WIDTH * sizeof(float));
    memcpy(rk_run_data(run, u->lengths), u->length + run->first, (size_t)run->n * sizeof(float));
    return RK_OK;
}

static rk_status write_samples(void *context, const rk_run *run) {
    const unit *u = context;
    memcpy(u->to + run->first * u->out, rk_run_data(run, u->y), (size_t)(run->n * u->out) * sizeof(float));
    return RK_OK;
}

typedef struct shape {
    int32_t n_layers, last; /* layers between; units of the last one */
    bool softmax, shown;    /* shown: the weights are read beside the pool too */
} shape;

static unit make_unit(shape s) {
    static const int32_t units[] = {9, 17, 4};
    unit u = {0};
    OK(rk_graph_create(3, &u.graph));
    u.x = rk_graph_add_input(u.graph, "x", (rk_shape){1, WIDTH});
    u.lengths = rk_graph_add_input(u.graph, "lengths", (rk_shape){1, 1});
    rk_value q = rk_slice(u.graph, u.x, 0, COLS),
             k = rk_reshape(u.graph, rk_slice(u.graph, u.x, COLS, ROWS * COLS), ROWS, COLS),
             w = rk_target_pairs(u.graph, q, k);
    for (int32_t l = 0; l < s.n_layers; l++) {
        const rk_op_options options = {.units = units[l], .by_row = true, .relu = true};
        w = rk_graph_add_op(u.graph, "linear", NULL, &options, &w, 1);
    }
    w = rk_linear_rows(u.graph, "weight", w, s.last, true, RK_F32);
    if (s.last > 1) w = rk_linear_rows(u.graph, "more", w, 1, true, RK_F32);
    u.y = rk_attention_pool(u.graph, w, k, u.lengths, 0, s.softmax);
    u.out = COLS;
    if (s.shown) {
        u.y = rk_concat(u.graph, (rk_value[]){u.y, rk_reshape(u.graph, w, 1, ROWS)}, 2);
        u.out += ROWS;
    }
    rk_graph_mark_output(u.graph, u.y);
    return u;
}

static unit finish_unit(shape s, bool training) {
    unit u = make_unit(s);
    OK(rk_graph_finish(u.graph, N, training));
    rk_rng rng = {5, 1, 0};
    for (int32_t p = 0; p < rk_graph_n_parameters(u.graph); p++) {
        rk_parameter *one = rk_graph_parameter(u.graph, p);
        for (int64_t i = 0; i < one->rows * one->cols; i++) one->value[i] = 0.4f * (float)rk_rng_normal(&rng);
    }
    return u;
}

static const shape shapes[] = {{2, 1, false, false}, {2, 1, true, false}, {3, 1, false, false},
                               {0, 1, false, false}, {1, 1, true, true},  {0, 7, false, false}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };
static float from[N * WIDTH], length[N], wanted[N * (COLS + ROWS)], found[N * (COLS + ROWS)],
    evaluated[N * (COLS + ROWS)];

static void draw(bool is_one) {
    rk_rng rng = {7, 1, 0};
    for (int i = 0; i < N * WIDTH; i++) from[i] = (float)rk_rng_normal(&rng);
    for (int i = 0; i < N; i++) length[i] = (float)(i % 7 == 0 ? ROWS + 3 : i % 7 == 1 ? 0 : i * 11 % ROWS);
    for (int i = 1; i < N && is_one; i++)
        memcpy(from + i * WIDTH + COLS, from + COLS, ROWS * COLS * sizeof *from);
}

/* A trained graph's evaluations, and a frozen one's predictions, have the bits of one another, and but for
 * rounding the values of training; padding is not looked at. */
static void run_unit(unit *u, bool training, float *to) {
    const rk_graph_hooks hooks = {.context = u, .read = read_samples, .loss = write_samples};
    u->from = from, u->length = length, u->to = to;
    OK(rk_graph_forward(u->graph, N, training, 0, &hooks));
}

static void test_predictions(void **state) {
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        unit trained = finish_unit(shapes[s], true), u = finish_unit(shapes[s], false);
        draw(false);
        run_unit(&trained, true, wanted);
        for (int i = 0; i < N && !shapes[s].shown; i++)
            for (int r = (int)length[i]; r < ROWS; r++) from[i * WIDTH + COLS + r * COLS] = NAN;
        run_unit(&trained, false, evaluated);
        OK(rk_graph_freeze(u.graph));
        run_unit(&u, false, found);
        assert_memory_equal(evaluated, found, (size_t)(N * u.out) * sizeof *found);
        double largest = 0;
        for (int i = 0; i < N * u.out; i++) {
            assert_false(isnan(found[i]));
            largest = fmax(largest, fabs((double)found[i] - wanted[i]) / (1 + fabs((double)wanted[i])));
        }
        assert_true(largest > 0 && largest < 1e-5);
        rk_graph_free(trained.graph);
        rk_graph_free(u.graph);
    }
}

/* One history beside many targets: the bits of rows in full, however often its rows are there, and whether
 * its length is the context's too. */
static void test_context(void **state) {
    (void)state;
    static float rows[ROWS * COLS];
    for (int trial = 0; trial < 5 * N_SHAPES; trial++) {
        unit u = finish_unit(shapes[trial % N_SHAPES], false);
        int kind =
            trial / N_SHAPES; /* distinct rows; repeated ones; all the same; a short one; own lengths */
        rk_graph_inference *inference;
        rk_graph_hooks hooks = {.context = &u, .read = read_samples, .loss = write_samples};
        draw(true);
        memcpy(rows, from + COLS, sizeof rows);
        for (int i = 0; i < N; i++)
            for (int r = 0; r < ROWS && kind > 0; r++)
                memcpy(from + i * WIDTH + COLS + r * COLS, rows + (kind == 2 ? 0 : r * 7 % (ROWS / 3)) * COLS,
                       COLS * sizeof *from);
        for (int i = 0; i < N && kind < 4; i++) length[i] = kind == 3 ? 13 : ROWS;
        u.from = from, u.length = length, u.to = wanted;
        OK(rk_graph_freeze(u.graph));
        OK(rk_graph_inference_create(u.graph, 2, &inference));
        OK(rk_graph_inference_run(inference, N, &hooks, NULL));
        u.to = found;
        const rk_input_columns columns[] = {{u.x, COLS, ROWS * COLS}, {u.lengths, 0, 1}};
        OK(rk_graph_inference_set_context(inference, columns, kind < 4 ? 2 : 1));
        hooks.has_context = true;
        for (int n = 2; n <= N; n += 17) {
            memset(found, 0, sizeof found);
            OK(rk_graph_inference_run(inference, n, &hooks, NULL));
            assert_memory_equal(found, wanted, (size_t)(n * u.out) * sizeof *found);
        }
        rk_graph_inference_free(inference);
        rk_graph_free(u.graph);
    }
}

static void test_without_memory(void **state) {
    (void)state;
    long live = rk_alloc_live();
    rk_status status = RK_NO_MEMORY;
    for (long n = 1; status == RK_NO_MEMORY; n++) {
        unit u = make_unit(shapes[0]);
        rk_alloc_fail_after(n, false);
        status = rk_graph_finish(u.graph, N, false);
        if (status == RK_OK) status = rk_graph_freeze(u.graph);
        rk_alloc_fail_after(0, false);
        rk_graph_free(u.graph);
        assert_int_equal(rk_alloc_live(), live);
    }
    OK(status);
}

int main(void) {
    OK(rk_parallel_set_threads(2));
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_predictions), cmocka_unit_test(test_context),
                                       cmocka_unit_test(test_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
