/* The logit of a product of two probabilities, from their logits a and b, elementwise (ESMM's p_ctcvr = p_ctr
 * p_cvr, Ma X. et al. 2018):
 *     z = log p / (1 - p), p = sigmoid(a) sigmoid(b)
 *       = -log(exp(-a) + exp(-b) + exp(-a-b)),
 * with the largest exponent taken out, so that none overflows and a small p keeps its digits. */
#include "kernels/inline/scalar_functions.h"
#include "nn/graph/op.h"

static rk_status product_logit_build(rk_graph *graph, rk_node *node) {
    node->shape = rk_node_input_shape(graph, node, 0);
    return rk_node_check_same_shapes(graph, node, node->n_inputs);
}

static rk_status product_logit_forward(const rk_run *run, const rk_node *node) {
    int64_t n = run->n * rk_shape_size(node->shape);
    const rk_real *a = rk_node_input(run, node, 0), *b = rk_node_input(run, node, 1);
    rk_real *z = rk_node_output(run, node);
    double parts[3];
    for (int64_t i = 0; i < n; i++) z[i] = (rk_real)rk_product_logit_terms((double)a[i], (double)b[i], parts);
    return RK_OK;
}

static rk_status product_logit_backward(const rk_run *run, const rk_node *node) {
    int64_t n = run->n * rk_shape_size(node->shape);
    const rk_real *a = rk_node_input(run, node, 0), *b = rk_node_input(run, node, 1),
                  *dz = rk_node_output_gradient(run, node);
    rk_real *da = rk_node_input_gradient(run, node, 0), *db = rk_node_input_gradient(run, node, 1);
    double parts[3];
    for (int64_t i = 0; i < n; i++) {
        rk_product_logit_terms((double)a[i], (double)b[i], parts);
        double sum = parts[0] + parts[1] + parts[2];
        da[i] += (rk_real)((double)dz[i] * (parts[0] + parts[2]) / sum);
        db[i] += (rk_real)((double)dz[i] * (parts[1] + parts[2]) / sum);
    }
    return RK_OK;
}

const rk_op rk_op_product_logit = {.name = "product_logit",
                                   .min_inputs = 2,
                                   .max_inputs = 2,
                                   .build = product_logit_build,
                                   .forward = product_logit_forward,
                                   .backward = product_logit_backward};
