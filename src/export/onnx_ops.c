/* Operations of the graph as ONNX nodes: layers, elementwise functions, shapes and sums; and the table of all
 * (docs/operations.md has the equations). */
#include <math.h>

#include "base/memory.h"
#include "export/onnx_model.h"

/* Parameter k of a node. */
static rk_onnx_value parameter_of_node(rk_onnx_model *m, const rk_node *node, int32_t k) {
    const rk_parameter *p = rk_graph_parameter(m->model->graph, node->parameters[k]);
    return rk_onnx_parameter_initializer(m, p->name, p->rows, p->cols);
}

/* Of values of one row each, so in the shape of the flattened sample; [batch, all] as the node's own shape.
 */
static rk_onnx_value reshape_to_node(rk_onnx_model *m, const rk_node *node, rk_onnx_value flat) {
    return node->shape.rows == 1 ? flat : rk_onnx_reshape_to_shape(m, flat, node->shape);
}

/* `dtype: bf16` is of training: here products are f32. */
rk_onnx_value rk_onnx_op_linear(rk_onnx_model *m, const rk_node *node) {
    const rk_op_options *o = &node->options;
    rk_onnx_value x = o->by_row ? rk_onnx_node_input(m, node, 0) : rk_onnx_node_input_flat(m, node, 0);
    x = rk_onnx_binary_node(m, "MatMul", x, parameter_of_node(m, node, 0));
    if (!o->no_bias) x = rk_onnx_binary_node(m, "Add", x, parameter_of_node(m, node, 1));
    return o->relu ? rk_onnx_unary_node(m, "Relu", x) : x;
}

rk_onnx_value rk_onnx_op_relu(rk_onnx_model *m, const rk_node *node) {
    return rk_onnx_unary_node(m, "Relu", rk_onnx_node_input(m, node, 0));
}

rk_onnx_value rk_onnx_op_gelu(rk_onnx_model *m, const rk_node *node) {
    rk_onnx_value x = rk_onnx_node_input(m, node, 0),
                  z = rk_onnx_unary_node(
                      m, "Erf",
                      rk_onnx_binary_node(m, "Mul", x, rk_onnx_constant_float(m, (float)M_SQRT1_2)));
    z = rk_onnx_binary_node(m, "Mul", x, rk_onnx_binary_node(m, "Add", z, rk_onnx_constant_float(m, 1)));
    return rk_onnx_binary_node(m, "Mul", z, rk_onnx_constant_float(m, 0.5f));
}

rk_onnx_value rk_onnx_op_sigmoid(rk_onnx_model *m, const rk_node *node) {
    return rk_onnx_unary_node(m, "Sigmoid", rk_onnx_node_input(m, node, 0));
}

rk_onnx_value rk_onnx_op_tanh(rk_onnx_model *m, const rk_node *node) {
    return rk_onnx_unary_node(m, "Tanh", rk_onnx_node_input(m, node, 0));
}

rk_onnx_value rk_onnx_op_softmax(rk_onnx_model *m, const rk_node *node) {
    rk_onnx_value x = rk_onnx_node_input(m, node, 0);
    return rk_onnx_node_with_axis(m, "Softmax", &x, 1, -1);
}

static rk_onnx_value running_statistic_of_node(rk_onnx_model *m, const rk_node *node, int32_t k) {
    rk_buffer name = {0};
    rk_buffer_printf(&name, "%s/%s", node->name, node->state_names[k]);
    if (m->writer.status == RK_OK) m->writer.status = name.status;
    rk_onnx_value value = m->writer.status == RK_OK
                              ? rk_onnx_parameter_initializer(m, name.data, rk_shape_size(node->shape), 1)
                              : -1;
    rk_buffer_release(&name);
    return value;
}

/* By the running statistics. */
rk_onnx_value rk_onnx_op_batch_norm(rk_onnx_model *m, const rk_node *node) {
    rk_onnx_value x = rk_onnx_binary_node(m, "Sub", rk_onnx_node_input_flat(m, node, 0),
                                          running_statistic_of_node(m, node, 0)),
                  epsilon = rk_onnx_constant_float(m, (float)node->options.epsilon),
                  deviation = rk_onnx_unary_node(
                      m, "Sqrt",
                      rk_onnx_binary_node(m, "Add", running_statistic_of_node(m, node, 1), epsilon));
    x = rk_onnx_binary_node(m, "Mul", rk_onnx_binary_node(m, "Div", x, deviation),
                            parameter_of_node(m, node, 0));
    return reshape_to_node(m, node, rk_onnx_binary_node(m, "Add", x, parameter_of_node(m, node, 1)));
}

/* LayerNormalization's own scales are the same for all rows; gamma and beta may be a row's own. */
rk_onnx_value rk_onnx_op_layer_norm(rk_onnx_model *m, const rk_node *node) {
    int32_t cols = node->shape.cols;
    float *ones;
    rk_onnx_attribute attributes[] = {
        {.name = "axis", .number = -1},
        {.name = "epsilon", .kind = RK_ONNX_FLOAT, .real = (float)node->options.epsilon}};
    if (!rk_onnx_allocate(m, (size_t)cols, sizeof *ones, &ones)) return -1;
    for (int32_t c = 0; c < cols; c++) ones[c] = 1;
    rk_onnx_value inputs[] = {rk_onnx_node_input(m, node, 0),
                              rk_onnx_constant_floats(&m->writer, ones, (size_t)cols)};
    rk_free(ones);
    rk_onnx_value x = rk_onnx_add_node(&m->writer, "LayerNormalization", inputs, 2, attributes, 2);
    return rk_onnx_binary_node(m, "Add", rk_onnx_binary_node(m, "Mul", x, parameter_of_node(m, node, 0)),
                               parameter_of_node(m, node, 1));
}

/* Of training alone. */
rk_onnx_value rk_onnx_op_dropout(rk_onnx_model *m, const rk_node *node) {
    return rk_onnx_node_input(m, node, 0);
}

rk_onnx_value rk_onnx_op_concat(rk_onnx_model *m, const rk_node *node) {
    RK_AUTOFREE rk_onnx_value *inputs = NULL;
    if (!rk_onnx_allocate(m, (size_t)node->n_inputs, sizeof *inputs, &inputs)) return -1;
    for (int32_t k = 0; k < node->n_inputs; k++) inputs[k] = rk_onnx_node_input_flat(m, node, k);
    return rk_onnx_node_with_axis(m, "Concat", inputs, (size_t)node->n_inputs, 1);
}

rk_onnx_value rk_onnx_op_slice(rk_onnx_model *m, const rk_node *node) {
    const rk_op_options *o = &node->options;
    rk_onnx_value columns = rk_onnx_input_columns(m, node->inputs[0], o->first, o->count);
    return columns >= 0
               ? columns
               : rk_onnx_slice(m, rk_onnx_node_input_flat(m, node, 0), 1, o->first, o->first + o->count);
}

rk_onnx_value rk_onnx_op_reshape(rk_onnx_model *m, const rk_node *node) {
    return rk_onnx_reshape_to_shape(m, rk_onnx_node_input(m, node, 0), node->shape);
}

rk_onnx_value rk_onnx_op_add(rk_onnx_model *m, const rk_node *node) {
    rk_onnx_value sum = rk_onnx_node_input(m, node, 0);
    for (int32_t k = 1; k < node->n_inputs; k++)
        sum = rk_onnx_binary_node(m, "Add", sum, rk_onnx_node_input(m, node, k));
    return sum;
}

rk_onnx_value rk_onnx_op_multiply(rk_onnx_model *m, const rk_node *node) {
    rk_onnx_value b =
        node->shape.rows == 1 ? rk_onnx_node_input(m, node, 1) : rk_onnx_node_input_rows(m, node, 1);
    return rk_onnx_binary_node(m, "Mul", rk_onnx_node_input(m, node, 0), b);
}

rk_onnx_value rk_onnx_op_sum_rows(rk_onnx_model *m, const rk_node *node) {
    return rk_onnx_reduce_sum(m, rk_onnx_node_input_rows(m, node, 0), 1, false);
}

rk_onnx_value rk_onnx_op_sum_all(rk_onnx_model *m, const rk_node *node) {
    return rk_onnx_reduce_sum(m, rk_onnx_node_input_flat(m, node, 0), 1, true);
}

rk_onnx_value rk_onnx_op_bias(rk_onnx_model *m, const rk_node *node) {
    return reshape_to_node(
        m, node,
        rk_onnx_binary_node(m, "Add", rk_onnx_node_input_flat(m, node, 0), parameter_of_node(m, node, 0)));
}

rk_onnx_value rk_onnx_op_constant(rk_onnx_model *m, const rk_node *node) {
    rk_onnx_value shape[] = {rk_onnx_dynamic_batch_size(m),
                             rk_onnx_constant_ints(&m->writer, (int64_t[]){node->shape.cols}, 1)};
    return rk_onnx_binary_node(m, "Expand", parameter_of_node(m, node, 0),
                               rk_onnx_node_with_axis(m, "Concat", shape, 2, 0));
}

rk_onnx_value rk_onnx_op_l2_normalize(rk_onnx_model *m, const rk_node *node) {
    double epsilon = node->options.epsilon > 0 ? node->options.epsilon : 1e-12;
    rk_onnx_value x = rk_onnx_node_input(m, node, 0),
                  squares = rk_onnx_reduce_sum(m, rk_onnx_binary_node(m, "Mul", x, x), -1, true),
                  length = rk_onnx_unary_node(m, "Sqrt", squares);
    return rk_onnx_binary_node(
        m, "Div", x, rk_onnx_binary_node(m, "Max", length, rk_onnx_constant_float(m, (float)epsilon)));
}

rk_onnx_value rk_onnx_op_transpose(rk_onnx_model *m, const rk_node *node) {
    rk_onnx_value y = rk_onnx_transpose(m, rk_onnx_node_input_rows(m, node, 0), (int64_t[]){0, 2, 1}, 3);
    return node->shape.rows > 1 ? y : rk_onnx_reshape_to_shape(m, y, node->shape);
}

rk_onnx_value rk_onnx_op_number_vectors(rk_onnx_model *m, const rk_node *node) {
    int64_t n = node->shape.rows;
    rk_onnx_value x = rk_onnx_reshape(m, rk_onnx_node_input(m, node, 0), (int64_t[]){n, 1}, 2);
    return rk_onnx_reshape_to_shape(m, rk_onnx_binary_node(m, "Mul", x, parameter_of_node(m, node, 0)),
                                    node->shape);
}

static rk_onnx_value twice_sigmoid(rk_onnx_model *m, rk_onnx_value g) {
    return rk_onnx_binary_node(m, "Mul", rk_onnx_unary_node(m, "Sigmoid", g), rk_onnx_constant_float(m, 2));
}

rk_onnx_value rk_onnx_op_gate(rk_onnx_model *m, const rk_node *node) {
    if (node->n_inputs > 1)
        return rk_onnx_binary_node(m, "Mul", rk_onnx_node_input(m, node, 0),
                                   twice_sigmoid(m, rk_onnx_node_input(m, node, 1)));
    rk_onnx_value factors = twice_sigmoid(m, parameter_of_node(m, node, 0));
    return reshape_to_node(m, node,
                           rk_onnx_binary_node(m, "Mul", rk_onnx_node_input_flat(m, node, 0), factors));
}

rk_onnx_value rk_onnx_op_cross_v1(rk_onnx_model *m, const rk_node *node) {
    rk_onnx_value x0 = rk_onnx_node_input_flat(m, node, 0), x = rk_onnx_node_input_flat(m, node, 1),
                  dot = rk_onnx_reduce_sum(m, rk_onnx_binary_node(m, "Mul", x, parameter_of_node(m, node, 0)),
                                           1, true),
                  y = rk_onnx_binary_node(m, "Add", rk_onnx_binary_node(m, "Mul", x0, dot),
                                          parameter_of_node(m, node, 1));
    return reshape_to_node(m, node, rk_onnx_binary_node(m, "Add", y, x));
}

rk_onnx_value rk_onnx_op_cin(rk_onnx_model *m, const rk_node *node) {
    const rk_graph *graph = m->model->graph;
    int64_t fields = rk_node_input_shape(graph, node, 0).cols,
            maps = rk_node_input_shape(graph, node, 1).cols;
    rk_onnx_value x0 = rk_onnx_unsqueeze(m, rk_onnx_node_input_rows(m, node, 0), 2),
                  x = rk_onnx_unsqueeze(m, rk_onnx_node_input_rows(m, node, 1), 3),
                  products = rk_onnx_reshape(m, rk_onnx_binary_node(m, "Mul", x, x0),
                                             (int64_t[]){node->shape.rows, maps * fields}, 2),
                  y = rk_onnx_binary_node(m, "MatMul", products, parameter_of_node(m, node, 0));
    y = rk_onnx_binary_node(m, "Add", y, parameter_of_node(m, node, 1));
    return node->shape.rows > 1 ? y : rk_onnx_reshape_to_shape(m, y, node->shape);
}

/* Every operation of the graph: one that is missing here is an error of the compiler or the linker. */
static const struct {
    const rk_op *op;
    rk_onnx_value (*write)(rk_onnx_model *m, const rk_node *node);
} operations[] = {
#define ROW(name) {&rk_op_##name, rk_onnx_op_##name},
    RK_OP_LIST(ROW)
#undef ROW
};

static rk_onnx_value write_graph_node(rk_onnx_model *m, const rk_node *node) {
    size_t i = 0;
    while (operations[i].op != node->op) i++;
    m->writer.scope = node->name;
    return operations[i].write(m, node);
}

/* needed: [value + 1], of which the last is set. Inputs stand before what reads them. */
static void mark_needed_values(const rk_graph *graph, rk_value value, bool *needed) {
    for (rk_value v = value; v >= 0; v--) {
        const rk_node *node = rk_graph_node(graph, v);
        for (int32_t k = 0; needed[v] && k < node->n_inputs; k++) needed[node->inputs[k]] = true;
    }
}

rk_onnx_value rk_onnx_graph_value(rk_onnx_model *m, rk_value value) {
    const rk_graph *graph = m->model->graph;
    RK_AUTOFREE bool *needed = NULL;
    if (!rk_onnx_allocate(m, (size_t)value + 1, sizeof *needed, &needed)) return -1;
    needed[value] = true;
    mark_needed_values(graph, value, needed);
    for (rk_value v = 0; v <= value && m->writer.status == RK_OK; v++)
        if (needed[v] && rk_graph_node(graph, v)->op && m->values[v] < 0)
            m->values[v] = write_graph_node(m, rk_graph_node(graph, v));
    return m->writer.status == RK_OK ? m->values[value] : -1;
}
