/* Operations of the graph between features, and over sequences, as ONNX nodes. */
#include <float.h>

#include "base/memory.h"
#include "export/onnx_model.h"

/* What is not there weighs nothing in a softmax that something is in; and no NaN comes where nothing is. */
static rk_onnx_value masked_score_constant(rk_onnx_model *m) {
    return rk_onnx_constant_float(m, -FLT_MAX);
}

rk_onnx_value rk_onnx_op_fm(rk_onnx_model *m, const rk_node *node) {
    rk_onnx_value x = rk_onnx_node_input_rows(m, node, 0), sum = rk_onnx_reduce_sum(m, x, 1, false),
                  squares = rk_onnx_reduce_sum(m, rk_onnx_binary_node(m, "Mul", x, x), 1, false),
                  pairs = rk_onnx_binary_node(m, "Sub", rk_onnx_binary_node(m, "Mul", sum, sum), squares);
    return rk_onnx_binary_node(m, "Mul", rk_onnx_reduce_sum(m, pairs, 1, true),
                               rk_onnx_constant_float(m, 0.5f));
}

/* All products of two rows, and of these the pairs i > j. */
rk_onnx_value rk_onnx_op_dot_interaction(rk_onnx_model *m, const rk_node *node) {
    int64_t rows = rk_node_input_shape(m->model->graph, node, 0).rows, *pairs, n = 0;
    if (!rk_onnx_allocate(m, (size_t)node->shape.cols, sizeof *pairs, &pairs)) return -1;
    for (int64_t i = 1; i < rows; i++)
        for (int64_t j = 0; j < i; j++) pairs[n++] = i * rows + j;
    rk_onnx_value x = rk_onnx_node_input_rows(m, node, 0),
                  all = rk_onnx_binary_node(m, "MatMul", x, rk_onnx_transpose(m, x, (int64_t[]){0, 2, 1}, 3)),
                  inputs[] = {rk_onnx_reshape(m, all, (int64_t[]){rows * rows}, 1),
                              rk_onnx_constant_ints(&m->writer, pairs, (size_t)n)};
    rk_free(pairs);
    return rk_onnx_node_with_axis(m, "Gather", inputs, 2, 1);
}

rk_onnx_value rk_onnx_op_cross_combine(rk_onnx_model *m, const rk_node *node) {
    rk_onnx_value product =
        rk_onnx_binary_node(m, "Mul", rk_onnx_node_input(m, node, 0), rk_onnx_node_input(m, node, 1));
    return rk_onnx_binary_node(m, "Add", product, rk_onnx_node_input(m, node, 2));
}

rk_onnx_value rk_onnx_op_batch_matmul(rk_onnx_model *m, const rk_node *node) {
    rk_onnx_value y = rk_onnx_binary_node(m, "MatMul", rk_onnx_node_input_rows(m, node, 0),
                                          rk_onnx_node_input_rows(m, node, 1));
    return node->shape.rows > 1 ? y : rk_onnx_reshape_to_shape(m, y, node->shape);
}

/* -log(exp(-a) + exp(-b) + exp(-a-b)), with the largest exponent taken out. */
rk_onnx_value rk_onnx_op_product_logit(rk_onnx_model *m, const rk_node *node) {
    rk_onnx_value a = rk_onnx_unary_node(m, "Neg", rk_onnx_node_input(m, node, 0)),
                  b = rk_onnx_unary_node(m, "Neg", rk_onnx_node_input(m, node, 1)),
                  both = rk_onnx_binary_node(m, "Add", a, b), parts[] = {a, b, both},
                  most = rk_onnx_ternary_node(m, "Max", a, b, both), sum = -1;
    for (int i = 0; i < 3; i++) {
        rk_onnx_value part = rk_onnx_unary_node(m, "Exp", rk_onnx_binary_node(m, "Sub", parts[i], most));
        sum = i ? rk_onnx_binary_node(m, "Add", sum, part) : part;
    }
    return rk_onnx_unary_node(m, "Neg",
                              rk_onnx_binary_node(m, "Add", rk_onnx_unary_node(m, "Log", sum), most));
}

/* [batch, rows, heads * dim] as [batch, heads, rows, dim], or with rows last. */
static rk_onnx_value split_heads(rk_onnx_model *m, const rk_node *node, int32_t k, bool rows_last) {
    int64_t heads = node->options.count, rows = node->shape.rows;
    rk_onnx_value x = rk_onnx_reshape(m, rk_onnx_node_input(m, node, k),
                                      (int64_t[]){rows, heads, node->shape.cols / heads}, 3);
    static const int64_t first[] = {0, 2, 1, 3}, last[] = {0, 2, 3, 1};
    return rk_onnx_transpose(m, x, rows_last ? last : first, 4);
}

rk_onnx_value rk_onnx_op_attention(rk_onnx_model *m, const rk_node *node) {
    int64_t rows = node->shape.rows;
    rk_onnx_value scores = rk_onnx_binary_node(m, "MatMul", split_heads(m, node, 0, false),
                                               split_heads(m, node, 1, true)),
                  there = -1;
    if (node->n_inputs > 3) {
        there = rk_onnx_binary_node(m, "Greater", rk_onnx_node_input_flat(m, node, 3),
                                    rk_onnx_constant_float(m, 0));
        rk_onnx_value columns = rk_onnx_reshape(m, there, (int64_t[]){1, 1, rows}, 3);
        scores = rk_onnx_ternary_node(m, "Where", columns, scores, masked_score_constant(m));
    }
    rk_onnx_value weights = rk_onnx_node_with_axis(m, "Softmax", &scores, 1, -1),
                  y = rk_onnx_binary_node(m, "MatMul", weights, split_heads(m, node, 2, false));
    if (node->n_inputs > 3) {
        there = rk_onnx_reshape(m, there, (int64_t[]){1, rows, 1}, 3);
        y = rk_onnx_ternary_node(m, "Where", there, y, rk_onnx_constant_float(m, 0));
    }
    y = rk_onnx_transpose(m, y, (int64_t[]){0, 2, 1, 3}, 4);
    return rk_onnx_reshape_to_shape(m, y, node->shape);
}

rk_onnx_value rk_onnx_op_target_pairs(rk_onnx_model *m, const rk_node *node) {
    rk_shape target = rk_node_input_shape(m->model->graph, node, 0);
    rk_onnx_value k = rk_onnx_node_input_rows(m, node, 1),
                  q = rk_onnx_reshape(m, rk_onnx_node_input(m, node, 0),
                                      (int64_t[]){1, rk_shape_size(target)}, 2),
                  parts[] = {rk_onnx_binary_node(m, "Expand", q, rk_onnx_unary_node(m, "Shape", k)), k,
                             rk_onnx_binary_node(m, "Sub", q, k), rk_onnx_binary_node(m, "Mul", q, k)},
                  y = rk_onnx_node_with_axis(m, "Concat", parts, 4, 2);
    return node->shape.rows > 1 ? y : rk_onnx_reshape_to_shape(m, y, node->shape);
}

/* [batch, rows]: whether the length, a column of input k, is at least number 0, 1, ... of `numbers`, which is
 * freed. */
static rk_onnx_value compare_length_with_positions(rk_onnx_model *m, const rk_node *node, int32_t k,
                                                   float *numbers, int32_t rows) {
    int32_t first = node->options.first;
    rk_onnx_value length = rk_onnx_slice(m, rk_onnx_node_input_flat(m, node, k), 1, first, first + 1),
                  constant = rk_onnx_constant_floats(&m->writer, numbers, (size_t)rows);
    rk_free(numbers);
    return rk_onnx_binary_node(m, "GreaterOrEqual", length, constant);
}

static float *allocate_positions(rk_onnx_model *m, int32_t n) {
    float *numbers = NULL;
    rk_status status = rk_alloc((size_t)n, sizeof *numbers, &numbers);
    if (status != RK_OK) m->writer.status = status;
    return numbers;
}

rk_onnx_value rk_onnx_op_attention_pool(rk_onnx_model *m, const rk_node *node) {
    int32_t rows = rk_node_input_shape(m->model->graph, node, 1).rows;
    float *numbers = allocate_positions(m, rows);
    if (!numbers) return -1;
    for (int32_t r = 0; r < rows; r++) numbers[r] = (float)(r + 1);
    rk_onnx_value there = compare_length_with_positions(m, node, 2, numbers, rows),
                  w = rk_onnx_node_input_flat(m, node, 0);
    if (node->options.softmax) {
        w = rk_onnx_ternary_node(m, "Where", there, w, masked_score_constant(m));
        w = rk_onnx_node_with_axis(m, "Softmax", &w, 1, -1);
    }
    w = rk_onnx_ternary_node(m, "Where", there, w, rk_onnx_constant_float(m, 0));
    w = rk_onnx_reshape(m, w, (int64_t[]){1, rows}, 2);
    return rk_onnx_reshape_to_shape(
        m, rk_onnx_binary_node(m, "MatMul", w, rk_onnx_node_input_rows(m, node, 1)), node->shape);
}

rk_onnx_value rk_onnx_op_mask(rk_onnx_model *m, const rk_node *node) {
    int32_t rows = node->shape.rows, count = node->options.count;
    float *numbers = allocate_positions(m, rows);
    if (!numbers) return -1;
    for (int32_t r = 0; r < rows; r++) numbers[r] = r < count ? 0 : (float)(r - count + 1);
    rk_onnx_value there =
        rk_onnx_cast(m, compare_length_with_positions(m, node, 0, numbers, rows), RK_ONNX_F32);
    return rk_onnx_reshape_to_shape(m, there, node->shape);
}
