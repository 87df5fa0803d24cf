/* A gate a column (Mao et al. 2023, FinalMLP, equation 4): y = 2 sigmoid(g) x; g the second input, or without
 * one learned, the same for every sample and zeros at first, so that y begins as x. */
#include "base/memory.h"
#include "kernels/inline/scalar_functions.h"
#include "nn/graph/graph_internal.h"

static bool is_learned_gate(const rk_node *node) {
    return node->n_inputs == 1;
}

static rk_status gate_build(rk_graph *graph, rk_node *node) {
    rk_initializer zeros = {.kind = RK_INIT_ZEROS};
    node->shape = rk_node_input_shape(graph, node, 0);
    if (is_learned_gate(node))
        return rk_node_add_parameter(graph, node, "gate", 1, rk_shape_size(node->shape), &zeros, true);
    node->saved_width = rk_shape_size(node->shape); /* the factors 2 sigmoid(g) */
    return rk_node_check_same_shapes(graph, node, node->n_inputs);
}

/* The learned factors. */
static rk_status gate_finish(const rk_graph *graph, rk_node *node, int64_t max_rows) {
    (void)graph;
    (void)max_rows;
    return is_learned_gate(node) ? rk_alloc((size_t)rk_shape_size(node->shape), sizeof(rk_real), &node->own)
                                 : RK_OK;
}

static void gate_release(rk_node *node) {
    rk_free(node->own);
}

static void compute_gate_factors(const rk_real *g, rk_real *factors, int64_t n) {
    for (int64_t i = 0; i < n; i++) factors[i] = (rk_real)(2 * rk_sigmoid((double)g[i]));
}

static rk_status gate_prepare(const rk_graph *graph, rk_node *node, bool training) {
    (void)training;
    if (is_learned_gate(node))
        compute_gate_factors(graph->parameters[node->parameters[0]].value, node->own,
                             rk_shape_size(node->shape));
    return RK_OK;
}

static rk_status gate_forward(const rk_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape), stride = is_learned_gate(node) ? 0 : width;
    const rk_real *x = rk_node_input(run, node, 0),
                  *factors = is_learned_gate(node) ? node->own : rk_node_saved(run, node);
    rk_real *y = rk_node_output(run, node);
    if (!is_learned_gate(node))
        compute_gate_factors(rk_node_input(run, node, 1), rk_node_saved(run, node), run->n * width);
    for (int64_t s = 0; s < run->n; s++, x += width, y += width, factors += stride)
        for (int64_t c = 0; c < width; c++) y[c] = factors[c] * x[c];
    return RK_OK;
}

/* d 2 sigmoid(g) / dg = f (1 - f / 2), with the factor f */
static rk_status gate_backward(const rk_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape), stride = is_learned_gate(node) ? 0 : width;
    const rk_real *x = rk_node_input(run, node, 0),
                  *factors = is_learned_gate(node) ? node->own : rk_node_saved(run, node),
                  *dy = rk_node_output_gradient(run, node);
    rk_real *dx = rk_node_input_gradient(run, node, 0), *dg = is_learned_gate(node)
                                                                  ? rk_node_parameter_gradient(run, node, 0)
                                                                  : rk_node_input_gradient(run, node, 1);
    for (int64_t s = 0; s < run->n;
         s++, x += width, dx += width, dy += width, factors += stride, dg += stride)
        for (int64_t c = 0; c < width; c++) {
            dx[c] += dy[c] * factors[c];
            dg[c] += dy[c] * x[c] * factors[c] * (1 - factors[c] / 2);
        }
    return RK_OK;
}

const rk_op rk_op_gate = {.name = "gate",
                          .min_inputs = 1,
                          .max_inputs = 2,
                          .build = gate_build,
                          .finish = gate_finish,
                          .release = gate_release,
                          .prepare = gate_prepare,
                          .forward = gate_forward,
                          .backward = gate_backward};
