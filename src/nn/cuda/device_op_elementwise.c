/* Operations of several values at the same place: add, multiply, cross_combine, product_logit, bias,
 * constant, gate. */
#include "nn/cuda/device_op.h"

static void add_forward(const rk_device_run *run, const rk_node *node) {
    int64_t n = rk_device_node_values(run, node);
    float *y = rk_device_node_output(run, node);
    if (node->n_inputs == 1)
        rk_cuda_add_to(run->stream, n, rk_device_node_input(run, node, 0), y, true);
    else
        rk_cuda_add_two(run->stream, n, rk_device_node_input(run, node, 0),
                        rk_device_node_input(run, node, 1), y);
    for (int32_t k = 2; k < node->n_inputs; k++)
        rk_cuda_add_to(run->stream, n, rk_device_node_input(run, node, k), y, false);
}

static void add_backward(const rk_device_run *run, const rk_node *node) {
    for (int32_t k = 0; k < node->n_inputs; k++)
        rk_cuda_add_to(run->stream, rk_device_node_values(run, node),
                       rk_device_node_output_gradient(run, node), rk_device_node_input_gradient(run, node, k),
                       rk_node_writes_gradient_first(node, k));
}

const rk_device_op rk_device_op_add = {.name = "add", .forward = add_forward, .backward = add_backward};

/* a times b, or times b of each row of `span` columns. */
static int64_t columns_per_value(const rk_device_run *run, const rk_node *node) {
    return rk_shape_size(node->shape) / rk_shape_size(rk_device_node_input_shape(run, node, 1));
}

static void multiply_columns_by_values(const rk_device_run *run, const rk_node *node, const float *a,
                                       float *to, bool first) {
    int64_t span = columns_per_value(run, node), rows = rk_device_node_values(run, node) / span;
    if (span == 1)
        rk_cuda_multiply(run->stream, rows, a, rk_device_node_input(run, node, 1), to, first);
    else
        rk_cuda_rowwise_scale(run->stream, rows, span, rk_device_node_input(run, node, 1), a, rows, to,
                              first);
}

static void multiply_forward(const rk_device_run *run, const rk_node *node) {
    multiply_columns_by_values(run, node, rk_device_node_input(run, node, 0),
                               rk_device_node_output(run, node), true);
}

static void multiply_backward(const rk_device_run *run, const rk_node *node) {
    int64_t span = columns_per_value(run, node), rows = rk_device_node_values(run, node) / span;
    const float *dy = rk_device_node_output_gradient(run, node), *a = rk_device_node_input(run, node, 0);
    multiply_columns_by_values(run, node, dy, rk_device_node_input_gradient(run, node, 0),
                               rk_node_writes_gradient_first(node, 0));
    if (span == 1)
        rk_cuda_multiply(run->stream, rows, dy, a, rk_device_node_input_gradient(run, node, 1),
                         rk_node_writes_gradient_first(node, 1));
    else
        rk_cuda_rowwise_dot(run->stream, rows, span, dy, a, rows, rk_device_node_input_gradient(run, node, 1),
                            rk_node_writes_gradient_first(node, 1));
}

const rk_device_op rk_device_op_multiply = {
    .name = "multiply", .forward = multiply_forward, .backward = multiply_backward};

static void cross_combine_forward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_cross_combine(run->stream, rk_device_node_values(run, node), rk_device_node_input(run, node, 0),
                          rk_device_node_input(run, node, 1), rk_device_node_input(run, node, 2),
                          rk_device_node_output(run, node));
}

static void cross_combine_backward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_cross_combine_backward(
        run->stream, rk_device_node_values(run, node), rk_device_node_input(run, node, 0),
        rk_device_node_input(run, node, 1), rk_device_node_output_gradient(run, node),
        rk_device_node_input_gradient(run, node, 0), rk_node_writes_gradient_first(node, 0),
        rk_device_node_input_gradient(run, node, 1), rk_node_writes_gradient_first(node, 1),
        rk_device_node_input_gradient(run, node, 2), rk_node_writes_gradient_first(node, 2));
}

const rk_device_op rk_device_op_cross_combine = {
    .name = "cross_combine", .forward = cross_combine_forward, .backward = cross_combine_backward};

static void product_logit_forward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_product_logit(run->stream, rk_device_node_values(run, node), rk_device_node_input(run, node, 0),
                          rk_device_node_input(run, node, 1), rk_device_node_output(run, node));
}

static void product_logit_backward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_product_logit_backward(
        run->stream, rk_device_node_values(run, node), rk_device_node_input(run, node, 0),
        rk_device_node_input(run, node, 1), rk_device_node_output_gradient(run, node),
        rk_device_node_input_gradient(run, node, 0), rk_node_writes_gradient_first(node, 0),
        rk_device_node_input_gradient(run, node, 1), rk_node_writes_gradient_first(node, 1));
}

const rk_device_op rk_device_op_product_logit = {
    .name = "product_logit", .forward = product_logit_forward, .backward = product_logit_backward};

/* constant: a bias without an input. */
static void bias_forward(const rk_device_run *run, const rk_node *node) {
    const float *x = node->n_inputs ? rk_device_node_input(run, node, 0) : NULL;
    rk_cuda_add_bias(run->stream, run->n, rk_shape_size(node->shape), x, rk_device_parameter(run, node, 0),
                     rk_device_node_output(run, node));
}

static void bias_backward(const rk_device_run *run, const rk_node *node) {
    float *dy = rk_device_node_output_gradient(run, node);
    rk_device_sum_rows_to_columns(run, run->n, rk_shape_size(node->shape), dy,
                                  rk_device_parameter_gradient(run, node, 0));
    if (node->n_inputs)
        rk_cuda_add_to(run->stream, rk_device_node_values(run, node), dy,
                       rk_device_node_input_gradient(run, node, 0), rk_node_writes_gradient_first(node, 0));
}

const rk_device_op rk_device_op_bias = {
    .name = "bias", .scratch = rk_device_sum_scratch, .forward = bias_forward, .backward = bias_backward};
const rk_device_op rk_device_op_constant = {
    .name = "constant", .scratch = rk_device_sum_scratch, .forward = bias_forward, .backward = bias_backward};

static void gate_forward(const rk_device_run *run, const rk_node *node) {
    bool learned = node->n_inputs == 1;
    const float *g = learned ? rk_device_parameter(run, node, 0) : rk_device_node_input(run, node, 1);
    rk_cuda_apply_gate(run->stream, run->n, rk_shape_size(node->shape), rk_device_node_input(run, node, 0), g,
                       learned, rk_device_node_output(run, node), true);
}

static void gate_backward(const rk_device_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape);
    bool learned = node->n_inputs == 1;
    const float *x = rk_device_node_input(run, node, 0),
                *g = learned ? rk_device_parameter(run, node, 0) : rk_device_node_input(run, node, 1);
    float *dy = rk_device_node_output_gradient(run, node);
    rk_cuda_apply_gate(run->stream, run->n, width, dy, g, learned,
                       rk_device_node_input_gradient(run, node, 0), rk_node_writes_gradient_first(node, 0));
    if (!learned) {
        rk_cuda_gate_backward(run->stream, run->n * width, x, g, dy,
                              rk_device_node_input_gradient(run, node, 1),
                              rk_node_writes_gradient_first(node, 1));
        return;
    }
    float *dg = rk_device_parameter_gradient(run, node, 0);
    rk_cuda_sum_args sum = {.kind = RK_CUDA_SCALED,
                            .rows = run->n,
                            .cols = width,
                            .span = 1,
                            .x = dy,
                            .y = x,
                            .out = dg,
                            .partials = rk_device_scratch(run)};
    rk_cuda_column_sums(run->stream, &sum);
    rk_cuda_multiply_gate_derivatives(run->stream, width, g, dg);
}

const rk_device_op rk_device_op_gate = {
    .name = "gate", .scratch = rk_device_sum_scratch, .forward = gate_forward, .backward = gate_backward};
