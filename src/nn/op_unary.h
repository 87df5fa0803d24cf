/* Elementwise functions of one value: y = f(x), dx += dy * f'(x). */
#ifndef RK_NN_OP_UNARY_H
#define RK_NN_OP_UNARY_H

#include <math.h>

#include "nn/op.h"

static inline rk_status rk_unary_build(rk_graph *graph, rk_node *node) {
    node->shape = rk_in_shape(graph, node, 0);
    return RK_OK;
}

/* FORWARD: y from x. SLOPE: the derivative from x and y. */
#define RK_UNARY_OP(name_, FORWARD, SLOPE)                                                                            \
    static void forward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {                  \
        int64_t width = rk_width(node->shape);                                                                        \
        const rk_real *xs = rk_in(run, node, 0);                                                                      \
        for (int64_t i = first * width; i < last * width; i++) {                                                      \
            rk_real x = xs[i];                                                                                        \
            node->data[i] = FORWARD;                                                                                  \
        }                                                                                                             \
    }                                                                                                                 \
    static void backward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {                 \
        int64_t width = rk_width(node->shape);                                                                        \
        const rk_real *xs = rk_in(run, node, 0);                                                                      \
        rk_real *dx = rk_in_gradient(run, node, 0);                                                                   \
        for (int64_t i = first * width; i < last * width; i++) {                                                      \
            rk_real x = xs[i], y = node->data[i];                                                                     \
            (void)x;                                                                                                  \
            (void)y;                                                                                                  \
            dx[i] += node->gradient[i] * (SLOPE);                                                                     \
        }                                                                                                             \
    }                                                                                                                 \
    const rk_op rk_op_##name_ = {.name = #name_,                                                                      \
                                 .min_inputs = 1,                                                                     \
                                 .max_inputs = 1,                                                                     \
                                 .build = rk_unary_build,                                                             \
                                 .forward_block = forward_block,                                                      \
                                 .backward_block = backward_block};

#endif
