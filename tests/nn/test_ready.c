/* Gradients are told of while backward is under way, from the last parameters to the first, and are whole
 * then. */
#include "testing.h"

#include <stdatomic.h>
#include <string.h>

#include "base/thread/parallel.h"
#include "base/rng.h"
#include "nn/graph/layers.h"

enum { IN = 24, HIDDEN = 200, MANY_HIDDEN = 1200, LAYERS = 4, BATCH = 2500, MOST_CALLS = 200 };

typedef struct watch {
    rk_graph *graph;
    rk_value x, y;
    const float *input;
    float *seen;  /* [n]: each gradient as it was when it was told of */
    int64_t told; /* from here on */
    size_t n_calls, n_taken_at_first, n_blocks;
    atomic_size_t n_taken; /* blocks that backward is done with */
    int64_t first;         /* of the first call */
    rk_status answer;
    int hidden;          /* units of a layer; 0: HIDDEN */
    int64_t shards_here; /* 0: all */
} watch;

static rk_status read(void *context, const rk_run *run) {
    const watch *w = context;
    memcpy(rk_run_data(run, w->x), w->input + run->first * IN, (size_t)(run->n * IN) * sizeof(float));
    return RK_OK;
}

static rk_status loss(void *context, const rk_run *run) {
    const watch *w = context;
    for (int64_t i = 0; i < run->n; i++)
        rk_run_gradient(run, w->y)[i] = (rk_run_data(run, w->y)[i] - (float)((run->first + i) % 3)) / BATCH;
    return RK_OK;
}

static rk_status take(void *context, const rk_run *run) {
    (void)run;
    atomic_fetch_add(&((watch *)context)->n_taken, 1);
    return RK_OK;
}

static rk_status ready(void *context, int64_t first) {
    watch *w = context;
    size_t n;
    const float *gradients = rk_graph_gradients(w->graph, &n);
    if (w->n_calls++ == 0) {
        w->first = first;
        w->n_taken_at_first = atomic_load(&w->n_taken);
    }
    assert_true(first < w->told);
    memcpy(w->seen + first, gradients + first, (size_t)(w->told - first) * sizeof *gradients);
    w->told = first;
    if (w->answer != RK_OK)
        return rk_error(w->answer, "no room for gradients from %lld on", (long long)first);
    return RK_OK;
}

static rk_graph *make_graph(bool norms, int64_t n_micro_batches, watch *w) {
    rk_graph *graph;
    OK(rk_graph_create(3, &graph));
    rk_value h = w->x = rk_graph_add_input(graph, "x", (rk_shape){1, IN});
    for (int i = 0; i < LAYERS; i++) {
        h = rk_linear(graph, NULL, h, w->hidden ? w->hidden : HIDDEN, true, RK_F32);
        if (norms) h = rk_graph_add_op(graph, "batch_norm", NULL, &(rk_op_options){0}, &h, 1);
        h = rk_graph_add_op(graph, "relu", NULL, &(rk_op_options){0}, &h, 1);
    }
    w->y = rk_linear(graph, "out", h, 1, true, RK_F32);
    rk_graph_mark_output(graph, w->y);
    if (n_micro_batches > 1)
        rk_graph_set_micro_batches(
            graph, n_micro_batches,
            (rk_graph_local_part){0, w->shards_here ? w->shards_here : n_micro_batches});
    OK(rk_graph_finish(graph, BATCH, true));
    return w->graph = graph;
}

/* The gradients [n] of a step: whether somebody watches changes none of their bits. */
static float *run(bool norms, int64_t n_micro_batches, int threads, int64_t n_samples, bool watches, watch *w,
                  size_t *n) {
    static float input[BATCH * IN];
    rk_rng rng = {1, 2, 0};
    for (int i = 0; i < BATCH * IN; i++) input[i] = (float)rk_rng_normal(&rng);
    *w = (watch){.input = input, .answer = w->answer, .hidden = w->hidden, .shards_here = w->shards_here};
    OK(rk_parallel_set_threads(threads));
    make_graph(norms, n_micro_batches, w);
    rk_graph_hooks hooks = {
        .context = w, .read = read, .loss = loss, .take = take, .ready = watches ? ready : NULL};
    float *gradients = rk_graph_gradients(w->graph, n);
    w->seen = test_calloc(*n, sizeof *w->seen);
    w->told = (int64_t)*n;
    w->n_blocks = rk_graph_n_blocks(w->graph, n_samples);
    rk_status status = rk_graph_train(w->graph, n_samples, 0, &hooks);
    assert_int_equal(status, watches ? w->answer : RK_OK);
    if (watches && status == RK_OK) {
        assert_int_equal(w->told, 0);
        assert_memory_equal(w->seen, gradients, *n * sizeof *gradients);
    }
    float *out = test_calloc(*n, sizeof *out);
    memcpy(out, gradients, *n * sizeof *out);
    test_free(w->seen);
    rk_graph_free(w->graph);
    return out;
}

static void test_whole_when_told(void **state) {
    (void)state;
    for (int norms = 0; norms < 2; norms++) {
        for (int64_t shards = 1; shards <= 4; shards += 3) {
            watch w = {.answer = RK_OK};
            size_t n;
            float *reference = run(norms, shards, 1, BATCH, false, &w, &n);
            for (int threads = 1; threads <= 7; threads += 3) {
                float *gradients = run(norms, shards, threads, BATCH, true, &w, &n);
                assert_memory_equal(gradients, reference, n * sizeof *gradients);
                test_free(gradients);
            }
            test_free(reference);
        }
    }
}

/* By blocks: while the last block goes back. By segments, from one norm to the next: all but the first
 * layer's, before any block is taken. */
static void test_told_before_backward_ends(void **state) {
    (void)state;
    watch w = {.answer = RK_OK};
    size_t n;
    test_free(run(false, 1, 1, BATCH, true, &w, &n));
    assert_int_equal(w.n_taken_at_first, w.n_blocks - 1);
    assert_true(w.first > (int64_t)n / 2 && w.n_calls > LAYERS - 1);
    test_free(run(true, 1, 1, BATCH, true, &w, &n));
    assert_int_equal(w.n_taken_at_first, 0);
    assert_true(w.first > (int64_t)n - 2 * HIDDEN && w.n_calls > LAYERS);
}

/* One of four shards: of many parameters, told node by node, with the bits of blocks. */
static void test_few_samples_of_many_parameters(void **state) {
    (void)state;
    enum { HERE = 600 };
    watch blocks = {.hidden = MANY_HIDDEN}, nodes = {.hidden = MANY_HIDDEN, .shards_here = 1},
          few = {.shards_here = 1};
    size_t n;
    float *reference = run(false, 4, 1, HERE, true, &blocks, &n),
          *gradients = run(false, 4, 2, HERE, true, &nodes, &n);
    assert_true(n >= RK_MANY_PARAMETERS);
    assert_memory_equal(gradients, reference, n * sizeof *gradients);
    assert_true(blocks.n_taken_at_first > 0);
    assert_int_equal(nodes.n_taken_at_first, 0);
    assert_true(nodes.first > (int64_t)n - 2 * MANY_HIDDEN);
    test_free(reference);
    test_free(gradients);
    test_free(run(false, 4, 1, HERE, true, &few, &n));
    assert_true(few.n_taken_at_first > 0);
}

static void test_no_samples_here(void **state) {
    (void)state;
    for (int norms = 0; norms < 2; norms++) {
        watch w = {.answer = RK_OK};
        size_t n;
        float *gradients = run(norms, 1, 2, 0, true, &w, &n);
        for (size_t i = 0; i < n; i++) assert_true(gradients[i] == 0);
        test_free(gradients);
    }
}

static void test_a_failure_is_the_runs(void **state) {
    (void)state;
    for (int norms = 0; norms < 2; norms++) {
        watch w = {.answer = RK_PEER_LOST};
        size_t n;
        test_free(run(norms, 1, 2, BATCH, true, &w, &n));
        assert_non_null(strstr(rk_last_error(), "no room for gradients from"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_when_told),
        cmocka_unit_test(test_told_before_backward_ends),
        cmocka_unit_test(test_few_samples_of_many_parameters),
        cmocka_unit_test(test_no_samples_here),
        cmocka_unit_test(test_a_failure_is_the_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
