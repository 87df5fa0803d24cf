/* Shorthand for building graphs: one function an operation, and the usual stacks of them. */
#ifndef RK_NN_GRAPH_LAYERS_H
#define RK_NN_GRAPH_LAYERS_H

#include "nn/graph/graph.h"

rk_value rk_linear(rk_graph *graph, const char *name, rk_value x, int32_t units, bool bias, rk_dtype dtype);
rk_value rk_linear_rows(rk_graph *graph, const char *name, rk_value x, int32_t units, bool bias,
                        rk_dtype dtype); /* each row: [rows, cols] -> [rows, units] */
rk_value rk_relu(rk_graph *graph, rk_value x);
rk_value rk_activation_by_name(rk_graph *graph, rk_value x,
                               const char *name); /* relu, gelu, sigmoid, tanh, softmax, none */
rk_value rk_batch_norm(rk_graph *graph, const char *name, rk_value x);
rk_value rk_layer_norm(rk_graph *graph, const char *name, rk_value x);
rk_value rk_layer_norm_rows(rk_graph *graph, const char *name,
                            rk_value x); /* each row with a gamma and a beta of its own */
rk_value rk_dropout(rk_graph *graph, rk_value x, double rate);                        /* rate 0: x itself */
rk_value rk_dropout_rows(rk_graph *graph, const char *name, rk_value x, double rate); /* whole rows */
rk_value rk_concat(rk_graph *graph, const rk_value *xs, int32_t n); /* flattened samples, side by side */
rk_value rk_slice(rk_graph *graph, rk_value x, int32_t first, int32_t count);
rk_value rk_reshape(rk_graph *graph, rk_value x, int32_t rows, int32_t cols); /* no copy */
rk_value rk_add(rk_graph *graph, const rk_value *xs, int32_t n); /* elementwise sum of equal shapes */
rk_value rk_multiply(rk_graph *graph, rk_value a,
                     rk_value b); /* elementwise; b may be [1,1]: a scalar a sample, or [rows,1]: one a row */
rk_value rk_softmax(rk_graph *graph, rk_value x);                /* over cols of each row */
rk_value rk_sum_rows(rk_graph *graph, rk_value x);               /* [rows, cols] -> [1, cols] */
rk_value rk_sum_all(rk_graph *graph, rk_value x);                /* -> [1, 1] */
rk_value rk_bias(rk_graph *graph, const char *name, rk_value x); /* x + b, b [cols], zeros at first */
rk_value rk_fm(rk_graph *graph, rk_value x); /* [rows, cols] -> [1,1]: sum_c ((sum_r x)^2 - sum_r x^2) / 2 */
rk_value rk_dot_interaction(rk_graph *graph, rk_value x); /* [rows, cols] -> [1, rows(rows-1)/2] */
rk_value rk_cross_v1(rk_graph *graph, const char *name, rk_value x0, rk_value x); /* x0 (x.w) + b + x */
rk_value rk_cross_combine(rk_graph *graph, rk_value x0, rk_value y,
                          rk_value x); /* x0 * y + x, elementwise (DCN v2) */
rk_value rk_batch_matmul(rk_graph *graph, rk_value gates,
                         rk_value rows); /* [m, e] [e, cols] -> [m, cols]: weighted sums of rows */
rk_value rk_constant(rk_graph *graph, const char *name,
                     int32_t units);                /* a parameter, the same for every sample */
rk_value rk_transpose(rk_graph *graph, rk_value x); /* [rows, cols] -> [cols, rows] */
rk_value rk_cin(rk_graph *graph, const char *name, rk_value x0, rk_value x, int32_t units,
                rk_dtype dtype); /* [dim, fields], [dim, maps] -> [dim, units] */
/* Among the rows: [rows, heads * dim] each; mask, [rows] or -1: those that are there. */
rk_value rk_attention(rk_graph *graph, rk_value q, rk_value k, rk_value v, rk_value mask, int32_t heads);
/* [rows, 1] of ones and zeros: the first `count` rows, and as many after them as `column` of the lengths
 * says. */
rk_value rk_mask(rk_graph *graph, rk_value lengths, int32_t column, int32_t count, int32_t rows);
rk_value rk_number_vectors(rk_graph *graph, const char *name, rk_value x,
                           int32_t dim); /* [1, n] -> [n, dim]: x_i v_i */
rk_value rk_gate(rk_graph *graph, const char *name, rk_value x,
                 rk_value g); /* 2 sigmoid(g) x; g -1: learned, a number a column */
rk_value rk_target_pairs(rk_graph *graph, rk_value q,
                         rk_value k); /* [1, cols], [rows, cols] -> [rows, 4 cols]: q, k, q - k, q * k */
rk_value rk_attention_pool(rk_graph *graph, rk_value w, rk_value k, rk_value lengths, int32_t column,
                           bool softmax); /* the sum of w_r k_r up to the length */

typedef struct rk_mlp {
    const int64_t *units; /* [n] */
    int64_t n;
    int64_t first; /* number of the first layer, in names */
    const char *activation;
    bool by_row;     /* the rows of x one by one */
    bool batch_norm; /* order: linear, batch norm, activation, dropout */
    double dropout;
    rk_dtype dtype;
} rk_mlp;
rk_value rk_mlp_build(rk_graph *graph, const char *name, rk_value x, const rk_mlp *mlp);

#endif
