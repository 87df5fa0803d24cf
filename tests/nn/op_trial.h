/* How operations are tried: in f64 by finite differences (tests/f64/test_operations.c), on the device beside
 * the CPU engine (tests/cuda/test_device_graph.c). */
#include <string.h>

#include "base/rng.h"
#include "nn/graph/layers.h"
#include "nn/graph/op_list.h"

enum { MAX_INPUTS = 4 };

/* An operation's inputs' shapes and options. */
typedef struct trial {
    const char *op;
    rk_shape inputs[MAX_INPUTS];
    int n_inputs;
    rk_op_options options;
} trial;

/* A graph of the trial's operation, finished for n samples; `twice`: two nodes read the inputs, whose
 * gradients must add up; `same`: the first input is all of them. */
static rk_value build_trial(const trial *t, bool twice, bool same, int64_t n, rk_graph **graph,
                            rk_value inputs[MAX_INPUTS]) {
    OK(rk_graph_create(5, graph));
    for (int i = 0; i < t->n_inputs; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        inputs[i] = same && i > 0 ? inputs[0] : rk_graph_add_input(*graph, name, t->inputs[i]);
    }
    rk_value parts[] = {rk_graph_add_op(*graph, t->op, "a", &t->options, inputs, t->n_inputs), -1},
             output = parts[0];
    if (twice) {
        parts[1] = rk_graph_add_op(*graph, t->op, "b", &t->options, inputs, t->n_inputs);
        output = rk_concat(*graph, parts, 2);
    }
    rk_graph_mark_output(*graph, output);
    rk_graph_retain_values(*graph);
    OK(rk_graph_finish(*graph, n, true));
    return output;
}

/* Which input is lengths; -1: none. */
static int lengths_of(const trial *t) {
    return strcmp(t->op, "attention_pool") == 0 ? 2 : strcmp(t->op, "mask") == 0 ? 0 : -1;
}

/* Random inputs of n samples, and parameters off their first values. Lengths are 0 .. lengths-1, plus
 * `offset`. */
static void fill_trial(const trial *t, rk_graph *graph, const rk_value *inputs, int64_t n, int lengths,
                       double offset, rk_rng *rng) {
    for (int i = 0; i < t->n_inputs; i++)
        for (int64_t k = 0; k < n * t->inputs[i].rows * t->inputs[i].cols; k++)
            rk_graph_data(graph, inputs[i])[k] = (rk_real)rk_rng_normal(rng);
    for (int64_t i = lengths_of(t), k = 0; i >= 0 && k < n * t->inputs[i].cols; k++)
        rk_graph_data(graph, inputs[i])[k] = (rk_real)((double)(k / t->inputs[i].cols % lengths) + offset);
    for (int32_t p = 0; p < rk_graph_n_parameters(graph); p++) {
        rk_parameter *parameter = rk_graph_parameter(graph, p);
        for (int64_t k = 0; k < parameter->rows * parameter->cols; k++)
            parameter->value[k] += (rk_real)(0.3 * rk_rng_normal(rng));
    }
}

static void check_all_are_tried(const trial *trials, int n_trials) {
#define NAME_OF(name) #name,
    static const char *const names[] = {RK_OP_LIST(NAME_OF)};
#undef NAME_OF
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int k = 0;
        while (k < n_trials && strcmp(trials[k].op, names[i]) != 0) k++;
        if (k == n_trials) fail_msg("operation '%s' has no trial", names[i]);
    }
}
