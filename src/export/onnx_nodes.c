/* Nodes of ONNX that several operations and the lookups are made of. */
#include "base/memory.h"
#include "export/onnx_model.h"

bool rk_onnx_allocate(rk_onnx_model *m, size_t n, size_t bytes, void *out) {
    rk_status status = rk_alloc(n, bytes, out);
    if (status != RK_OK) m->writer.status = status;
    return status == RK_OK;
}

rk_onnx_value rk_onnx_unary_node(rk_onnx_model *m, const char *op, rk_onnx_value a) {
    return rk_onnx_add_node(&m->writer, op, &a, 1, NULL, 0);
}

rk_onnx_value rk_onnx_binary_node(rk_onnx_model *m, const char *op, rk_onnx_value a, rk_onnx_value b) {
    return rk_onnx_add_node(&m->writer, op, (rk_onnx_value[]){a, b}, 2, NULL, 0);
}

rk_onnx_value rk_onnx_ternary_node(rk_onnx_model *m, const char *op, rk_onnx_value a, rk_onnx_value b,
                                   rk_onnx_value c) {
    return rk_onnx_add_node(&m->writer, op, (rk_onnx_value[]){a, b, c}, 3, NULL, 0);
}

rk_onnx_value rk_onnx_node_with_axis(rk_onnx_model *m, const char *op, const rk_onnx_value *inputs, size_t n,
                                     int64_t axis) {
    return rk_onnx_add_node(&m->writer, op, inputs, n, &(rk_onnx_attribute){.name = "axis", .number = axis},
                            1);
}

rk_onnx_value rk_onnx_cast(rk_onnx_model *m, rk_onnx_value value, rk_onnx_type to) {
    return rk_onnx_add_node(&m->writer, "Cast", &value, 1, &(rk_onnx_attribute){.name = "to", .number = to},
                            1);
}

rk_onnx_value rk_onnx_reduce_sum(rk_onnx_model *m, rk_onnx_value value, int64_t axis, bool keeps) {
    rk_onnx_attribute keepdims = {.name = "keepdims", .number = keeps};
    rk_onnx_value inputs[] = {value, rk_onnx_constant_ints(&m->writer, &axis, 1)};
    return rk_onnx_add_node(&m->writer, "ReduceSum", inputs, 2, &keepdims, 1);
}

rk_onnx_value rk_onnx_transpose(rk_onnx_model *m, rk_onnx_value value, const int64_t *order, size_t n) {
    rk_onnx_attribute perm = {.name = "perm", .kind = RK_ONNX_INTS, .numbers = order, .n_numbers = n};
    return rk_onnx_add_node(&m->writer, "Transpose", &value, 1, &perm, 1);
}

rk_onnx_value rk_onnx_slice(rk_onnx_model *m, rk_onnx_value value, int64_t axis, int64_t begin, int64_t end) {
    rk_onnx_value inputs[] = {value, rk_onnx_constant_ints(&m->writer, &begin, 1),
                              rk_onnx_constant_ints(&m->writer, &end, 1),
                              rk_onnx_constant_ints(&m->writer, &axis, 1)};
    return rk_onnx_add_node(&m->writer, "Slice", inputs, 4, NULL, 0);
}

rk_onnx_value rk_onnx_unsqueeze(rk_onnx_model *m, rk_onnx_value value, int64_t axis) {
    return rk_onnx_binary_node(m, "Unsqueeze", value, rk_onnx_constant_ints(&m->writer, &axis, 1));
}

rk_onnx_value rk_onnx_constant_float(rk_onnx_model *m, float value) {
    return rk_onnx_constant_floats(&m->writer, &value, 1);
}

/* A 0 in Reshape's shape is the dimension as it is, so that a batch may be empty. */
rk_onnx_value rk_onnx_reshape(rk_onnx_model *m, rk_onnx_value value, const int64_t *dims, size_t n) {
    int64_t shape[4] = {0};
    for (size_t d = 0; d < n; d++) shape[d + 1] = dims[d];
    return rk_onnx_binary_node(m, "Reshape", value, rk_onnx_constant_ints(&m->writer, shape, n + 1));
}

rk_onnx_value rk_onnx_reshape_to_shape(rk_onnx_model *m, rk_onnx_value value, rk_shape shape) {
    return shape.rows == 1 ? rk_onnx_reshape(m, value, (int64_t[]){shape.cols}, 1)
                           : rk_onnx_reshape(m, value, (int64_t[]){shape.rows, shape.cols}, 2);
}

rk_onnx_value rk_onnx_node_input(rk_onnx_model *m, const rk_node *node, int32_t k) {
    rk_value from = node->inputs[k];
    return rk_graph_node(m->model->graph, from)->op ? m->values[from] : rk_onnx_graph_input(m, from);
}

rk_onnx_value rk_onnx_node_input_flat(rk_onnx_model *m, const rk_node *node, int32_t k) {
    rk_shape shape = rk_node_input_shape(m->model->graph, node, k);
    rk_onnx_value value = rk_onnx_node_input(m, node, k);
    return shape.rows == 1 ? value : rk_onnx_reshape(m, value, (int64_t[]){rk_shape_size(shape)}, 1);
}

rk_onnx_value rk_onnx_node_input_rows(rk_onnx_model *m, const rk_node *node, int32_t k) {
    rk_shape shape = rk_node_input_shape(m->model->graph, node, k);
    rk_onnx_value value = rk_onnx_node_input(m, node, k);
    return shape.rows > 1 ? value : rk_onnx_reshape(m, value, (int64_t[]){1, shape.cols}, 2);
}
