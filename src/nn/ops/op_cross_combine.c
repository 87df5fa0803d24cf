/* The end of a cross layer of DCN v2 (Wang et al. 2021): z = x0 * y + x, elementwise; inputs x0, y, x. */
#include <string.h>

#include "kernels/kernels.h"
#include "nn/graph/op.h"

static rk_status cross_combine_build(rk_graph *graph, rk_node *node) {
    node->shape = rk_node_input_shape(graph, node, 0);
    return rk_node_check_same_shapes(graph, node, node->n_inputs);
}

static rk_status cross_combine_forward(const rk_run *run, const rk_node *node) {
    int64_t n = run->n * rk_shape_size(node->shape);
    rk_values_multiply_add(rk_node_input(run, node, 0), rk_node_input(run, node, 1),
                           rk_node_input(run, node, 2), n, rk_node_output(run, node));
    return RK_OK;
}

static void write_or_add(rk_real *to, const rk_real *from, int64_t n, bool writes) {
    if (writes)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        rk_values_add(from, n, to);
}

/* One gradient after the other, a sample at a time, which stays in the cache: dx0 and dx are the same in a
 * first cross layer. */
static rk_status cross_combine_backward(const rk_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape);
    const rk_real *x0 = rk_node_input(run, node, 0), *y = rk_node_input(run, node, 1),
                  *dz = rk_node_output_gradient(run, node);
    rk_real *dx0 = rk_node_input_gradient(run, node, 0), *dy = rk_node_input_gradient(run, node, 1),
            *dx = rk_node_input_gradient(run, node, 2);
    for (int64_t first = 0; first < run->n * width; first += width) {
        rk_values_multiply(dz + first, y + first, width, !rk_node_writes_gradient_first(node, 0),
                           dx0 + first);
        rk_values_multiply(dz + first, x0 + first, width, !rk_node_writes_gradient_first(node, 1),
                           dy + first);
        write_or_add(dx + first, dz + first, width, rk_node_writes_gradient_first(node, 2));
    }
    return RK_OK;
}

const rk_op rk_op_cross_combine = {.name = "cross_combine",
                                   .min_inputs = 3,
                                   .max_inputs = 3,
                                   .writes_gradient = true,
                                   .build = cross_combine_build,
                                   .forward = cross_combine_forward,
                                   .backward = cross_combine_backward};
