/* Elementwise functions of one value: y = f(x), dx += dy * f'(x). */
#ifndef RK_NN_OPS_OP_UNARY_H
#define RK_NN_OPS_OP_UNARY_H

#include <math.h>

#include "nn/graph/op.h"

/* FORWARD: y from x. SLOPE: the derivative from x and y. */
#define RK_UNARY_OP(name_, FORWARD, SLOPE)                                                \
    static rk_status name_##_forward(const rk_run *run, const rk_node *node) {            \
        const rk_real *xs = rk_node_input(run, node, 0);                                  \
        rk_real *ys = rk_node_output(run, node);                                          \
        int64_t n = run->n * rk_shape_size(node->shape);                                  \
        for (int64_t i = 0; i < n; i++) {                                                 \
            rk_real x = xs[i];                                                            \
            ys[i] = FORWARD;                                                              \
        }                                                                                 \
        return RK_OK;                                                                     \
    }                                                                                     \
    static rk_status name_##_backward(const rk_run *run, const rk_node *node) {           \
        const rk_real *xs = rk_node_input(run, node, 0), *ys = rk_node_output(run, node), \
                      *dy = rk_node_output_gradient(run, node);                           \
        rk_real *dx = rk_node_input_gradient(run, node, 0);                               \
        int64_t n = run->n * rk_shape_size(node->shape);                                  \
        for (int64_t i = 0; i < n; i++) {                                                 \
            rk_real x = xs[i], y = ys[i];                                                 \
            (void)x;                                                                      \
            (void)y;                                                                      \
            dx[i] += dy[i] * (SLOPE);                                                     \
        }                                                                                 \
        return RK_OK;                                                                     \
    }                                                                                     \
    const rk_op rk_op_##name_ = {.name = #name_,                                          \
                                 .min_inputs = 1,                                         \
                                 .max_inputs = 1,                                         \
                                 .is_elementwise = true,                                  \
                                 .build = rk_node_take_input_shape,                       \
                                 .forward = name_##_forward,                              \
                                 .backward = name_##_backward};

#endif
