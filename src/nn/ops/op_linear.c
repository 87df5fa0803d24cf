/* y = x W + b over the flattened sample, or over each of its rows if options.by_row: x [n, in], W [in, out],
 * b [out]; and max(y, 0) if options.relu. units = out; the initializer is of W, glorot uniform by default. */
#include <math.h>

#include "base/memory.h"
#include "gemm/gemm.h"
#include "kernels/kernels.h"
#include "nn/graph/graph_internal.h"

static rk_status linear_build(rk_graph *graph, rk_node *node) {
    const rk_op_options *o = &node->options;
    RK_FAIL_IF(o->units < 1, RK_INVALID_ARGUMENT, "'units' must be 1 or more, not %d", o->units);
    RK_FAIL_IF(o->dtype != RK_F32 && o->dtype != RK_BF16, RK_INVALID_ARGUMENT,
               "the dtype must be f32 or bf16");
    rk_shape from = rk_node_input_shape(graph, node, 0);
    int64_t in = o->by_row ? from.cols : rk_shape_size(from);
    node->shape = (rk_shape){o->by_row ? from.rows : 1, o->units};
    double bound = sqrt(6.0 / (double)(in + o->units)); /* Glorot and Bengio 2010 */
    rk_initializer first = {.kind = RK_INIT_UNIFORM, .min = -bound, .max = bound},
                   zeros = {.kind = RK_INIT_ZEROS};
    if (o->has_initializer) first = o->initializer;
    if (first.stddev == 0) first.stddev = 1 / sqrt((double)in); /* as of rows, whose dim it is then */
    RK_TRY(rk_node_add_parameter(graph, node, "weight", in, o->units, &first, false));
    return o->no_bias ? RK_OK : rk_node_add_parameter(graph, node, "bias", 1, o->units, &zeros, true);
}

static rk_status linear_finish(const rk_graph *graph, rk_node *node, int64_t max_rows) {
    const rk_parameter *w = &graph->parameters[node->parameters[0]];
    rk_packed_matrix *matrix;
    RK_TRY(
        rk_packed_matrix_create(w->rows, w->cols, node->options.dtype, max_rows * node->shape.rows, &matrix));
    node->own = matrix;
    node->workspace_bytes = rk_packed_matrix_workspace_bytes(matrix);
    return RK_OK;
}

static void linear_release(rk_node *node) {
    rk_packed_matrix_free(node->own);
}

static rk_status linear_prepare(const rk_graph *graph, rk_node *node, bool training) {
    return rk_packed_matrix_set_weights(node->own, graph->parameters[node->parameters[0]].value, training);
}

static const rk_real *bias_of_linear(const rk_run *run, const rk_node *node) {
    return node->options.no_bias ? NULL : rk_node_parameter(run, node, 1);
}

static rk_status linear_forward(const rk_run *run, const rk_node *node) {
    int64_t first;
    const rk_real *x = rk_node_input(run, node, 0), *begun = rk_node_context_products(run, node, &first);
    rk_real *y = rk_node_output(run, node);
    if (!begun)
        return rk_packed_matrix_forward(node->own, run->n * node->shape.rows, x, bias_of_linear(run, node),
                                        node->options.relu, y, run->workspace);
    const rk_lines others = {first, rk_shape_size(rk_node_input_shape(run->graph, node, 0))};
    return rk_packed_matrix_forward_input_lines(node->own, others, run->n, x, begun, node->options.relu, y,
                                                run->workspace);
}

static rk_status linear_begin(const rk_run *run, const rk_node *node, int64_t columns, rk_real *out) {
    return rk_packed_matrix_forward_input_lines(node->own, (rk_lines){0, columns}, 1,
                                                rk_node_input(run, node, 0), bias_of_linear(run, node), false,
                                                out, run->workspace);
}

static rk_status linear_backward(const rk_run *run, const rk_node *node) {
    int64_t out = node->shape.cols, n = run->n * node->shape.rows;
    const rk_real *y = rk_node_output(run, node);
    rk_real *dy = rk_node_output_gradient(run, node);
    if (node->options.relu) rk_relu_mask_gradient(y, n * out, dy);
    if (!node->options.no_bias) rk_column_sums(dy, n, out, rk_node_parameter_gradient(run, node, 1));
    return rk_packed_matrix_backward(
        node->own, n, rk_node_input(run, node, 0), dy, !run->opens, rk_node_parameter_gradient(run, node, 0),
        !rk_node_writes_gradient_first(node, 0), rk_node_input_gradient(run, node, 0), run->workspace);
}

enum {
    OPTIONS = RK_OPTION_units | RK_OPTION_by_row | RK_OPTION_no_bias | RK_OPTION_relu | RK_OPTION_dtype |
              RK_OPTION_initializer
};

const rk_op rk_op_linear = {.name = "linear",
                            .min_inputs = 1,
                            .max_inputs = 1,
                            .options = OPTIONS,
                            .writes_gradient = true,
                            .writes_weight = true,
                            .build = linear_build,
                            .finish = linear_finish,
                            .release = linear_release,
                            .prepare = linear_prepare,
                            .forward = linear_forward,
                            .begin = linear_begin,
                            .backward = linear_backward};
