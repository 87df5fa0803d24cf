/* Every operation of src/nn/graph/op_list.h, with all its inputs and parameters, against central finite
 * differences in f64. */
#include "testing.h"

#include <math.h>

#include "nn/loss.h"
#include "nn/op_trial.h"

enum { N = 5 };

static const trial trials[] = {
    {"linear", {{1, 7}}, 1, {.units = 3}},
    {"linear", {{2, 3}}, 1, {.units = 1, .no_bias = true}},
    {"linear", {{3, 4}}, 1, {.units = 2, .by_row = true}},
    {"linear", {{3, 4}}, 1, {.units = 2, .by_row = true, .no_bias = true}},
    {"relu", {{1, 9}}, 1, {0}},
    {"gelu", {{3, 2}}, 1, {0}},
    {"sigmoid", {{1, 4}}, 1, {0}},
    {"tanh", {{1, 4}}, 1, {0}},
    {"softmax", {{2, 5}}, 1, {0}},
    {"batch_norm", {{1, 4}}, 1, {0}},
    {"layer_norm", {{2, 5}}, 1, {0}},
    {"layer_norm", {{2, 5}}, 1, {.by_row = true}},
    {"dropout", {{1, 33}}, 1, {.rate = 0.4}},
    {"dropout", {{5, 7}}, 1, {.rate = 0.4, .by_row = true}},
    {"concat", {{1, 3}, {2, 2}, {1, 1}}, 3, {0}},
    {"slice", {{2, 4}}, 1, {.first = 3, .count = 4}},
    {"reshape", {{2, 6}}, 1, {.rows = 3, .cols = 4}},
    {"reshape", {{2, 6}}, 1, {.cols = 4}},
    {"add", {{2, 3}, {2, 3}, {2, 3}}, 3, {0}},
    {"multiply", {{2, 3}, {2, 3}}, 2, {0}},
    {"multiply", {{2, 3}, {1, 1}}, 2, {0}},
    {"multiply", {{2, 3}, {2, 1}}, 2, {0}},
    {"sum_rows", {{4, 3}}, 1, {0}},
    {"sum_all", {{2, 3}}, 1, {0}},
    {"bias", {{1, 6}}, 1, {0}},
    {"fm", {{4, 3}}, 1, {0}},
    {"dot_interaction", {{4, 19}}, 1, {0}},
    {"cross_v1", {{1, 6}, {1, 6}}, 2, {0}},
    {"cross_combine", {{1, 6}, {1, 6}, {1, 6}}, 3, {0}},
    {"batch_matmul", {{1, 3}, {3, 5}}, 2, {0}},
    {"batch_matmul", {{2, 3}, {3, 4}}, 2, {0}},
    {"product_logit", {{1, 4}, {1, 4}}, 2, {0}},
    {"constant", {{0, 0}}, 0, {.units = 3}},
    {"l2_normalize", {{2, 5}}, 1, {0}},
    {"l2_normalize", {{2, 5}}, 1, {.epsilon = 100}}, /* rows that are shorter */
    {"transpose", {{2, 3}}, 1, {0}},
    {"cin", {{3, 4}, {3, 2}}, 2, {.units = 3}},
    {"cin", {{66, 10}, {66, 10}}, 2, {.units = 1}}, /* two pieces */
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

/* The loss: a fixed random weighting of the output. */
static double loss_of(rk_graph *graph, rk_value output, const double *weights, int64_t n_values) {
    assert_int_equal(rk_graph_forward(graph, N, true, 3, NULL), RK_OK);
    double loss = 0;
    for (int64_t i = 0; i < n_values; i++) loss += weights[i] * rk_graph_data(graph, output)[i];
    return loss;
}

static void check_slope(rk_graph *graph, rk_value output, const double *weights, int64_t n_values, double *at,
                        double slope, const char *what) {
    double step = 1e-6, before = *at;
    *at = before + step;
    double up = loss_of(graph, output, weights, n_values);
    *at = before - step;
    double down = loss_of(graph, output, weights, n_values);
    *at = before;
    double numeric = (up - down) / (2 * step);
    if (fabs(numeric - slope) > 1e-7 * (1 + fabs(numeric) + fabs(slope)))
        fail_msg("%s: slope %.12g, by differences %.12g", what, slope, numeric);
}

static void run_trial(const trial *t, int copies) {
    rk_graph *graph;
    rk_value inputs[MAX_INPUTS];
    rk_rng rng = {11, 7, 0};
    rk_value output = build_trial(t, copies == 2, false, N, &graph, inputs);
    fill_trial(t, graph, inputs, N, 4, 0.5, &rng); /* lengths off the steps */

    rk_shape shape = rk_graph_shape(graph, output);
    int64_t n_values = (int64_t)N * shape.rows * shape.cols;
    double *weights = malloc((size_t)n_values * sizeof *weights);
    for (int64_t i = 0; i < n_values; i++) weights[i] = rk_rng_normal(&rng);
    loss_of(graph, output, weights, n_values);
    memcpy(rk_graph_gradient(graph, output), weights, (size_t)n_values * sizeof *weights);
    OK(rk_graph_backward(graph, N));

    /* The differences run the graph again, so the slopes are put aside first. */
    for (int i = 0; i < t->n_inputs; i++) {
        int64_t n = (int64_t)N * t->inputs[i].rows * t->inputs[i].cols;
        double *slopes = malloc((size_t)n * sizeof *slopes);
        memcpy(slopes, rk_graph_gradient(graph, inputs[i]), (size_t)n * sizeof *slopes);
        for (int64_t k = 0; k < n; k++)
            check_slope(graph, output, weights, n_values, &rk_graph_data(graph, inputs[i])[k], slopes[k],
                        t->op);
        free(slopes);
        loss_of(graph, output, weights, n_values);
        memcpy(rk_graph_gradient(graph, output), weights, (size_t)n_values * sizeof *weights);
        OK(rk_graph_backward(graph, N));
    }
    for (int32_t p = 0; p < rk_graph_n_parameters(graph); p++) {
        rk_parameter *parameter = rk_graph_parameter(graph, p);
        for (int64_t k = 0; k < parameter->rows * parameter->cols; k++)
            check_slope(graph, output, weights, n_values, &parameter->value[k], parameter->gradient[k],
                        parameter->name);
    }
    free(weights);
    rk_graph_free(graph);
}

static void test_slopes(void **state) {
    (void)state;
    for (int i = 0; i < N_TRIALS; i++) run_trial(&trials[i], 1);
}

static void test_slopes_of_shared_inputs(void **state) {
    (void)state;
    for (int i = 0; i < N_TRIALS; i++) run_trial(&trials[i], 2);
}

static void test_every_operation_is_tried(void **state) {
    (void)state;
    check_all_are_tried(trials, N_TRIALS);
}

static void test_losses(void **state) {
    (void)state;
    double logits[6] = {0.3, -1.2, 2.0, 40.0, -40.0, 0.0}, gradient[6];
    float labels[6] = {1, 0, 1, 0, 1, 0.25f}, weights[6] = {1, 2, 0.5f, 1, 1, 3};
    for (int kind = 0; kind < RK_LOSS_COUNT; kind++)
        for (int form = 0; form < 4; form++) {
            rk_loss_args args = {.kind = (rk_loss_kind)kind,
                                 .n = 6,
                                 .n_tasks = 1,
                                 .logits = logits,
                                 .labels = labels,
                                 .weights = form % 2 ? weights : NULL,
                                 .smoothing = form / 2 * 0.2,
                                 .scale = 0.7,
                                 .gradient = gradient};
            double loss, up, down;
            rk_loss_compute(&args, &loss);
            assert_true(isfinite(loss));
            args.gradient = NULL;
            for (int i = 0; i < 6; i++) {
                double before = logits[i];
                logits[i] = before + 1e-6;
                rk_loss_compute(&args, &up);
                logits[i] = before - 1e-6;
                rk_loss_compute(&args, &down);
                logits[i] = before;
                assert_true(fabs((up - down) / 2e-6 - gradient[i]) < 1e-6);
            }
        }
    float smooth[6] = {0.9f, 0.1f, 0.9f, 0.1f, 0.9f, 0.3f};
    double smoothed, plain;
    rk_loss_compute(
        &(rk_loss_args){
            .n = 6, .n_tasks = 1, .logits = logits, .labels = labels, .smoothing = 0.2, .scale = 1},
        &smoothed);
    rk_loss_compute(&(rk_loss_args){.n = 6, .n_tasks = 1, .logits = logits, .labels = smooth, .scale = 1},
                    &plain);
    assert_true(fabs(smoothed - plain) < 1e-5); /* what f32 labels hold */
    float none[6] = {0}, absent[6] = {1, NAN, 1, 0, NAN, 0.25f};
    for (int kind = 0; kind < RK_LOSS_COUNT;
         kind++) { /* the loss of the samples that have a label, and no gradient of the others */
        double there[4] = {logits[0], logits[2], logits[3], logits[5]}, slopes[4], whole, part;
        float theirs[4] = {1, 1, 0, 0.25f}, w[4] = {1, 0.5f, 1, 3};
        rk_loss_args all = {.kind = (rk_loss_kind)kind,
                            .n = 6,
                            .n_tasks = 1,
                            .logits = logits,
                            .labels = absent,
                            .weights = weights,
                            .optional = true,
                            .scale = 0.7,
                            .gradient = gradient};
        rk_loss_args some = {.kind = (rk_loss_kind)kind,
                             .n = 4,
                             .n_tasks = 1,
                             .logits = there,
                             .labels = theirs,
                             .weights = w,
                             .scale = 0.7,
                             .gradient = slopes};
        rk_loss_compute(&all, &whole);
        rk_loss_compute(&some, &part);
        assert_true(whole == part && gradient[1] == 0 && gradient[4] == 0 && gradient[2] == slopes[1] &&
                    gradient[5] == slopes[3]);
        all.optional = false;
        rk_loss_compute(&all, &whole);
        assert_true(isnan(whole));
    }
    assert_true(rk_loss_sum_weights(6, weights, absent, 1) == 5.5 &&
                rk_loss_sum_weights(6, NULL, absent, 1) == 4 && rk_loss_sum_weights(6, NULL, NULL, 1) == 6);
    assert_true(rk_loss_sum_weights(3, NULL, absent, 2) == 2 &&
                rk_loss_sum_weights(6, weights, NULL, 1) == 8.5);
    rk_loss_args args = {.kind = RK_LOSS_MSE,
                         .n = 6,
                         .n_tasks = 1,
                         .logits = logits,
                         .labels = labels,
                         .weights = none,
                         .scale = 1,
                         .gradient = gradient};
    double loss;
    rk_loss_compute(&args, &loss);
    assert_true(loss == 0 && gradient[3] == 0);
}

/* Far from 0 too: logit(p q) is about a + b where both are small, a where b is sure, and never infinite. */
static void test_product_logit(void **state) {
    (void)state;
    static const double at[][3] = {{0, 0, -1.0986122886681098}, {-800, 3, -800.04858735157374},
                                   {-500, -600, -1100},         {700, -2, -2},
                                   {900, 900, 899.30685281944}, {40, 41, 39.686738312481777}};
    rk_graph *graph;
    OK(rk_graph_create(5, &graph));
    rk_value a = rk_graph_add_input(graph, "a", (rk_shape){1, 6}),
             b = rk_graph_add_input(graph, "b", (rk_shape){1, 6}),
             z = rk_graph_add_op(graph, "product_logit", NULL, NULL, (rk_value[]){a, b}, 2);
    rk_graph_mark_output(graph, z);
    rk_graph_retain_values(graph);
    OK(rk_graph_finish(graph, 1, true));
    for (int i = 0; i < 6; i++) {
        rk_graph_data(graph, a)[i] = at[i][0];
        rk_graph_data(graph, b)[i] = at[i][1];
    }
    OK(rk_graph_forward(graph, 1, true, 0, NULL));
    for (int i = 0; i < 6; i++)
        if (!(fabs(rk_graph_data(graph, z)[i] - at[i][2]) <= 1e-11 * (1 + fabs(at[i][2]))))
            fail_msg("logit of the product at %g, %g: %.17g", at[i][0], at[i][1], rk_graph_data(graph, z)[i]);
    for (int i = 0; i < 6; i++) rk_graph_gradient(graph, z)[i] = 1;
    OK(rk_graph_backward(graph, 1));
    assert_true(fabs(rk_graph_gradient(graph, a)[2] - 1) < 1e-12 &&
                fabs(rk_graph_gradient(graph, a)[3]) < 1e-12 &&
                fabs(rk_graph_gradient(graph, b)[3] - 1) < 1e-12);
    rk_graph_free(graph);
}

/* A row of zeros has no direction: it stays zeros, and its gradient is none, not one of 1 / epsilon. */
static void test_rows_of_zeros(void **state) {
    (void)state;
    rk_graph *graph;
    OK(rk_graph_create(5, &graph));
    rk_value x = rk_graph_add_input(graph, "x", (rk_shape){2, 2}),
             y = rk_graph_add_op(graph, "l2_normalize", NULL, NULL, &x, 1);
    rk_graph_mark_output(graph, y);
    rk_graph_retain_values(graph);
    OK(rk_graph_finish(graph, 1, true));
    memcpy(rk_graph_data(graph, x), (double[]){0, 0, 3, 4}, 4 * sizeof(double));
    OK(rk_graph_forward(graph, 1, true, 0, NULL));
    assert_true(rk_graph_data(graph, y)[0] == 0 && rk_graph_data(graph, y)[1] == 0);
    for (int i = 0; i < 4; i++) rk_graph_gradient(graph, y)[i] = 1;
    OK(rk_graph_backward(graph, 1));
    const double *dx = rk_graph_gradient(graph, x);
    assert_true(dx[0] == 0 && dx[1] == 0 && fabs(dx[2] - 0.032) < 1e-12 && fabs(dx[3] + 0.024) < 1e-12);
    rk_graph_free(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_slopes_of_shared_inputs),
        cmocka_unit_test(test_every_operation_is_tried),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_product_logit),
        cmocka_unit_test(test_rows_of_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
