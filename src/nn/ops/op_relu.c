/* y = max(x, 0), and NaN of NaN, which a comparison the other way round would hide; the slope at 0 is 0. */
#include "kernels/kernels.h"
#include "nn/graph/op.h"

static rk_status relu_forward(const rk_run *run, const rk_node *node) {
    rk_relu_forward(rk_node_input(run, node, 0), run->n * rk_shape_size(node->shape),
                    rk_node_output(run, node));
    return RK_OK;
}

static rk_status relu_backward(const rk_run *run, const rk_node *node) {
    rk_relu_backward(rk_node_input(run, node, 0), rk_node_output_gradient(run, node),
                     run->n * rk_shape_size(node->shape), !rk_node_writes_gradient_first(node, 0),
                     rk_node_input_gradient(run, node, 0));
    return RK_OK;
}

const rk_op rk_op_relu = {.name = "relu",
                          .min_inputs = 1,
                          .max_inputs = 1,
                          .is_elementwise = true,
                          .writes_gradient = true,
                          .build = rk_node_take_input_shape,
                          .forward = relu_forward,
                          .backward = relu_backward};
