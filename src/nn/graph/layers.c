#include "nn/graph/layers.h"

#include <stdio.h>
#include <string.h>

#include "base/text/find_text.h"
#include "nn/graph/op_list.h"

static rk_value add_unary_op(rk_graph *graph, const char *op, const char *name, rk_value x) {
    return rk_graph_add_op(graph, op, name, NULL, &x, 1);
}

rk_value rk_linear(rk_graph *graph, const char *name, rk_value x, int32_t units, bool bias, rk_dtype dtype) {
    rk_op_options options = {.units = units, .no_bias = !bias, .dtype = dtype};
    return rk_graph_add_op(graph, "linear", name, &options, &x, 1);
}
rk_value rk_linear_rows(rk_graph *graph, const char *name, rk_value x, int32_t units, bool bias,
                        rk_dtype dtype) {
    rk_op_options options = {.units = units, .by_row = true, .no_bias = !bias, .dtype = dtype};
    return rk_graph_add_op(graph, "linear", name, &options, &x, 1);
}
rk_value rk_relu(rk_graph *graph, rk_value x) {
    return add_unary_op(graph, "relu", NULL, x);
}
static rk_value add_activation(rk_graph *graph, const char *node, rk_value x, const char *name) {
    static const char *const names[] = {"relu", "gelu", "sigmoid", "tanh", "softmax"};
    if (rk_text_is_one_of(name, names, sizeof names / sizeof names[0]))
        return add_unary_op(graph, name, node, x);
    rk_status status = rk_error(RK_CONFIG, "unknown activation '%s'", name);
    rk_graph_set_error(graph, rk_error_hint(status, "it is one of relu, gelu, sigmoid, tanh, softmax, none"));
    return -1;
}
rk_value rk_activation_by_name(rk_graph *graph, rk_value x, const char *name) {
    return !name || strcmp(name, "none") == 0 ? x : add_activation(graph, NULL, x, name);
}
rk_value rk_batch_norm(rk_graph *graph, const char *name, rk_value x) {
    return add_unary_op(graph, "batch_norm", name, x);
}
rk_value rk_layer_norm(rk_graph *graph, const char *name, rk_value x) {
    return add_unary_op(graph, "layer_norm", name, x);
}
rk_value rk_layer_norm_rows(rk_graph *graph, const char *name, rk_value x) {
    rk_op_options options = {.by_row = true};
    return rk_graph_add_op(graph, "layer_norm", name, &options, &x, 1);
}
rk_value rk_dropout(rk_graph *graph, rk_value x, double rate) {
    rk_op_options options = {.rate = rate};
    return rate == 0 ? x : rk_graph_add_op(graph, "dropout", NULL, &options, &x, 1);
}
rk_value rk_dropout_rows(rk_graph *graph, const char *name, rk_value x, double rate) {
    rk_op_options options = {.rate = rate, .by_row = true};
    return rk_graph_add_op(graph, "dropout", name, &options, &x, 1);
}
rk_value rk_concat(rk_graph *graph, const rk_value *xs, int32_t n) {
    return n == 1 ? xs[0] : rk_graph_add_op(graph, "concat", NULL, NULL, xs, n);
}
rk_value rk_slice(rk_graph *graph, rk_value x, int32_t first, int32_t count) {
    rk_op_options options = {.first = first, .count = count};
    return rk_graph_add_op(graph, "slice", NULL, &options, &x, 1);
}
rk_value rk_reshape(rk_graph *graph, rk_value x, int32_t rows, int32_t cols) {
    rk_op_options options = {.rows = rows, .cols = cols};
    return rk_graph_add_op(graph, "reshape", NULL, &options, &x, 1);
}
rk_value rk_add(rk_graph *graph, const rk_value *xs, int32_t n) {
    return n == 1 ? xs[0] : rk_graph_add_op(graph, "add", NULL, NULL, xs, n);
}
rk_value rk_multiply(rk_graph *graph, rk_value a, rk_value b) {
    return rk_graph_add_op(graph, "multiply", NULL, NULL, (rk_value[]){a, b}, 2);
}
rk_value rk_softmax(rk_graph *graph, rk_value x) {
    return add_unary_op(graph, "softmax", NULL, x);
}
rk_value rk_sum_rows(rk_graph *graph, rk_value x) {
    return add_unary_op(graph, "sum_rows", NULL, x);
}
rk_value rk_sum_all(rk_graph *graph, rk_value x) {
    return add_unary_op(graph, "sum_all", NULL, x);
}
rk_value rk_bias(rk_graph *graph, const char *name, rk_value x) {
    return add_unary_op(graph, "bias", name, x);
}
rk_value rk_fm(rk_graph *graph, rk_value x) {
    return add_unary_op(graph, "fm", NULL, x);
}
rk_value rk_dot_interaction(rk_graph *graph, rk_value x) {
    return add_unary_op(graph, "dot_interaction", NULL, x);
}
rk_value rk_cross_v1(rk_graph *graph, const char *name, rk_value x0, rk_value x) {
    return rk_graph_add_op(graph, "cross_v1", name, NULL, (rk_value[]){x0, x}, 2);
}
rk_value rk_cross_combine(rk_graph *graph, rk_value x0, rk_value y, rk_value x) {
    return rk_graph_add_op(graph, "cross_combine", NULL, NULL, (rk_value[]){x0, y, x}, 3);
}
rk_value rk_batch_matmul(rk_graph *graph, rk_value gates, rk_value rows) {
    return rk_graph_add_op(graph, "batch_matmul", NULL, NULL, (rk_value[]){gates, rows}, 2);
}
rk_value rk_constant(rk_graph *graph, const char *name, int32_t units) {
    rk_op_options options = {.units = units};
    return rk_graph_add_op(graph, "constant", name, &options, NULL, 0);
}
rk_value rk_transpose(rk_graph *graph, rk_value x) {
    return add_unary_op(graph, "transpose", NULL, x);
}
rk_value rk_cin(rk_graph *graph, const char *name, rk_value x0, rk_value x, int32_t units, rk_dtype dtype) {
    rk_op_options options = {.units = units, .dtype = dtype};
    return rk_graph_add_op(graph, "cin", name, &options, (rk_value[]){x0, x}, 2);
}
rk_value rk_attention(rk_graph *graph, rk_value q, rk_value k, rk_value v, rk_value mask, int32_t heads) {
    rk_op_options options = {.count = heads};
    return rk_graph_add_op(graph, "attention", NULL, &options, (rk_value[]){q, k, v, mask}, mask < 0 ? 3 : 4);
}
rk_value rk_mask(rk_graph *graph, rk_value lengths, int32_t column, int32_t count, int32_t rows) {
    rk_op_options options = {.first = column, .count = count, .rows = rows};
    return rk_graph_add_op(graph, "mask", NULL, &options, &lengths, 1);
}
rk_value rk_number_vectors(rk_graph *graph, const char *name, rk_value x, int32_t dim) {
    rk_op_options options = {.units = dim};
    return rk_graph_add_op(graph, "number_vectors", name, &options, &x, 1);
}
rk_value rk_gate(rk_graph *graph, const char *name, rk_value x, rk_value g) {
    return rk_graph_add_op(graph, "gate", name, NULL, (rk_value[]){x, g}, g < 0 ? 1 : 2);
}
rk_value rk_target_pairs(rk_graph *graph, rk_value q, rk_value k) {
    return rk_graph_add_op(graph, "target_pairs", NULL, NULL, (rk_value[]){q, k}, 2);
}
rk_value rk_attention_pool(rk_graph *graph, rk_value w, rk_value k, rk_value lengths, int32_t column,
                           bool softmax) {
    rk_op_options options = {.first = column, .softmax = softmax};
    return rk_graph_add_op(graph, "attention_pool", NULL, &options, (rk_value[]){w, k, lengths}, 3);
}

rk_value rk_mlp_build(rk_graph *graph, const char *name, rk_value x, const rk_mlp *mlp) {
    char node[128];
    const char *activation = mlp->activation && strcmp(mlp->activation, "none") != 0 ? mlp->activation : NULL;
    bool fused = !mlp->batch_norm && activation && strcmp(activation, "relu") == 0;
    for (int64_t i = 0; i < mlp->n; i++) {
        int number = (int)(mlp->first + i);
        snprintf(node, sizeof node, "%s/linear_%d", name, number);
        rk_op_options options = {
            .units = (int32_t)mlp->units[i], .by_row = mlp->by_row, .dtype = mlp->dtype, .relu = fused};
        x = rk_graph_add_op(graph, "linear", node, &options, &x, 1);
        snprintf(node, sizeof node, "%s/norm_%d", name, number);
        if (mlp->batch_norm) x = rk_batch_norm(graph, node, x);
        snprintf(node, sizeof node, "%s/%s_%d", name, activation ? activation : "", number);
        if (activation && !fused) x = add_activation(graph, node, x, activation);
        snprintf(node, sizeof node, "%s/dropout_%d", name, number);
        if (mlp->dropout != 0)
            x = rk_graph_add_op(graph, "dropout", node, &(rk_op_options){.rate = mlp->dropout}, &x, 1);
    }
    return x;
}
