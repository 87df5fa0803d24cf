/* What only outputs that lead need is computed for a batch's first samples alone. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "base/rng.h"
#include "nn/graph/graph_internal.h"
#include "nn/graph/layers.h"

enum { N = 600, N_REST = 437, LEADING = N - N_REST, IN = 9, UNITS = 5 };

/* Of the last samples: gradients like the others', zeros, or a rest, with or without numbers where nobody
 * asks for any. */
typedef enum rest_trial { BUSY, ZEROS, REST, REST_OF_NOTHING } rest_trial;

typedef struct towers {
    rk_graph *graph;
    rk_value x, user, item, score;
    rest_trial trial;
} towers;

static rk_value tower(rk_graph *graph, const char *name, const char *hidden, rk_value x) {
    return rk_linear(graph, name,
                     rk_relu(graph, rk_linear(graph, hidden, rk_reshape(graph, x, IN, 1), 7, true, RK_F32)),
                     UNITS, true, RK_F32);
}

static rk_status build(towers *t, bool user_is_last) {
    OK(rk_graph_create(1, &t->graph));
    t->x = rk_graph_add_input(t->graph, "x", (rk_shape){1, 2 * IN});
    for (int i = 0; i < 2; i++) {
        if (user_is_last == (i == 1))
            t->user = tower(t->graph, "user", "user/hidden", rk_slice(t->graph, t->x, 0, IN));
        else
            t->item = tower(t->graph, "item", "item/hidden", rk_slice(t->graph, t->x, IN, IN));
    }
    t->score = rk_sum_all(t->graph, rk_multiply(t->graph, t->user, t->item));
    rk_graph_mark_output(t->graph, t->user);
    rk_graph_mark_output(t->graph, t->item);
    rk_graph_mark_output(t->graph, t->score);
    rk_graph_mark_partial_batch(t->graph, t->user);
    rk_graph_mark_partial_batch(t->graph, t->score);
    rk_graph_retain_values(t->graph);
    return rk_graph_finish(t->graph, N, true);
}

static rk_status whole(void *context) {
    const towers *t = context;
    rk_rng rng = {4, 0, 0};
    for (int s = 0; s < N; s++) {
        bool given = s < LEADING || t->trial == BUSY;
        float nothing = t->trial == REST_OF_NOTHING ? NAN : 0;
        rk_graph_gradient(t->graph, t->score)[s] = given ? (float)rk_rng_normal(&rng) : nothing;
        for (int k = 0; k < UNITS; k++) {
            rk_graph_gradient(t->graph, t->item)[s * UNITS + k] = (float)(s % 7 - k);
            rk_graph_gradient(t->graph, t->user)[s * UNITS + k] =
                given ? (float)rk_rng_normal(&rng) : nothing;
        }
    }
    return RK_OK;
}

/* What nobody asks for may be anything: it reaches neither a parameter nor a sample that is awake. */
static void train(towers *t, rest_trial trial, float *parameters, float *x) {
    size_t n;
    t->trial = trial;
    rk_rng rng = {3, 0, 0};
    rk_graph_hooks hooks = {.context = t, .whole = whole, .n_rest = trial >= REST ? N_REST : 0};
    for (int i = 0; i < N * 2 * IN; i++) {
        float value = (float)rk_rng_normal(&rng);
        rk_graph_data(t->graph, t->x)[i] =
            trial == REST_OF_NOTHING && i / (2 * IN) >= LEADING && i % (2 * IN) < IN ? NAN : value;
    }
    OK(rk_graph_train(t->graph, N, 1, &hooks));
    const float *gradients = rk_graph_gradients(t->graph, &n);
    memcpy(parameters, gradients, n * sizeof *parameters);
    memcpy(x, rk_graph_gradient(t->graph, t->x), N * 2 * IN * sizeof *x);
}

/* What rests has the sums of zeros, but for the order in which blocks of other lengths are multiplied. */
static void test_samples_that_rest(void **state) {
    (void)state;
    enum { MOST = 1000 };
    static float zeros[MOST], rest[MOST], nothing[MOST], x_zeros[N * 2 * IN], x_rest[N * 2 * IN],
        x_nothing[N * 2 * IN];
    towers t;
    OK(build(&t, false));
    int64_t n = t.graph->gradient_reals;
    train(&t, ZEROS, zeros, x_zeros);
    train(&t, REST, rest, x_rest);
    train(&t, BUSY, nothing, x_nothing); /* what the next run finds in its memory */
    train(&t, REST_OF_NOTHING, nothing, x_nothing);
    assert_memory_equal(rest, nothing, (size_t)n * sizeof *rest);
    assert_memory_equal(x_rest, x_nothing, sizeof x_rest);
    for (int64_t i = 0; i < n; i++) assert_true(fabsf(zeros[i] - rest[i]) <= 1e-5f * (1 + fabsf(zeros[i])));
    for (int i = 0; i < N * 2 * IN; i++)
        assert_true(fabsf(x_zeros[i] - x_rest[i]) <= 1e-5f * (1 + fabsf(x_zeros[i])));
    rk_graph_free(t.graph);
}

static void test_who_leads(void **state) {
    (void)state;
    towers t;
    OK(build(&t, false));
    assert_true(rk_graph_node(t.graph, t.user)->leads && rk_graph_node(t.graph, t.score)->leads &&
                rk_graph_node(t.graph, rk_graph_find_value(t.graph, "user/hidden"))->leads);
    assert_false(rk_graph_node(t.graph, t.item)->leads || rk_graph_node(t.graph, t.x)->leads);
    rk_graph_free(t.graph);
    FAILS(build(&t, true), RK_INVALID_ARGUMENT, "'slice_6' cannot be computed for only a part of the batch");
    rk_graph_free(t.graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples_that_rest),
                                       cmocka_unit_test(test_who_leads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
