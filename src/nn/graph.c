#include "nn/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "nn/graph_parts.h"

static const rk_op *const ops[] = {
#define RK_OP_POINTER(name) &rk_op_##name,
    RK_OP_LIST(RK_OP_POINTER)
#undef RK_OP_POINTER
};

rk_status rk_graph_create(uint64_t seed, rk_graph **out) {
    rk_graph *graph;
    RK_TRY(rk_alloc(1, sizeof *graph, &graph));
    graph->seed = seed;
    *out = graph;
    return RK_OK;
}

static void node_free(rk_node *node) {
    for (int32_t i = 0; i < node->n_states; i++) rk_free(node->states[i]);
    rk_free(node->name);
    rk_free(node->inputs);
    rk_free(node);
}

void rk_graph_free(rk_graph *graph) {
    if (!graph) return;
    for (size_t i = 0; i < graph->n_nodes; i++) node_free(graph->nodes[i]);
    for (size_t i = 0; i < graph->n_parameters; i++) {
        rk_free((char *)(size_t)graph->parameters[i].name);
        rk_free(graph->parameters[i].value);
        rk_free(graph->parameters[i].gradient);
    }
    rk_free(graph->nodes);
    rk_free(graph->parameters);
    rk_pages_free(graph->arena, graph->arena_bytes);
    rk_free(graph);
}

void rk_graph_fail(rk_graph *graph, rk_status status) {
    if (graph->status != RK_OK) return;
    graph->status = status;
    rk_error_copy(graph->error, sizeof graph->error);
}

rk_node *rk_graph_node(const rk_graph *graph, rk_value value) {
    return graph->nodes[value];
}

rk_node *rk_graph_root(const rk_graph *graph, rk_value value) {
    rk_node *node = graph->nodes[value];
    while (node->op && node->op->is_view) node = graph->nodes[node->inputs[0]];
    return node;
}

rk_shape rk_in_shape(const rk_graph *graph, const rk_node *node, int32_t input) {
    return graph->nodes[node->inputs[input]]->shape;
}

rk_shape rk_graph_shape(const rk_graph *graph, rk_value value) {
    return value < 0 || (size_t)value >= graph->n_nodes ? (rk_shape){0, 0} : graph->nodes[value]->shape;
}

rk_value rk_graph_find(const rk_graph *graph, const char *name) {
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (strcmp(graph->nodes[i]->name, name) == 0) return (rk_value)i;
    return -1;
}

static rk_status new_node(rk_graph *graph, const rk_op *op, const char *name, const rk_value *inputs, int32_t n_inputs, rk_node **out) {
    char made[64];
    if (!name) {
        snprintf(made, sizeof made, "%s_%zu", op ? op->name : "input", graph->n_nodes);
        name = made;
    }
    RK_FAIL_IF(rk_graph_find(graph, name) >= 0, RK_INVALID_ARGUMENT, "two nodes of the graph are named '%s'", name);
    RK_TRY(rk_grow(&graph->nodes, graph->n_nodes, &graph->nodes_capacity, sizeof *graph->nodes));
    rk_node *node;
    RK_TRY(rk_alloc(1, sizeof *node, &node));
    rk_status status = rk_strdup(name, &node->name);
    if (status == RK_OK) status = rk_alloc((size_t)n_inputs, sizeof *node->inputs, &node->inputs);
    if (status != RK_OK) {
        node_free(node);
        return status;
    }
    if (n_inputs) memcpy(node->inputs, inputs, (size_t)n_inputs * sizeof *inputs);
    node->n_inputs = n_inputs;
    node->op = op;
    node->number = (int32_t)graph->n_nodes;
    graph->nodes[graph->n_nodes++] = node;
    *out = node;
    return RK_OK;
}

static rk_status add(rk_graph *graph, const char *op_name, const char *name, const rk_op_options *options, const rk_value *inputs, int32_t n_inputs, rk_value *out) {
    RK_FAIL_IF(graph->finished, RK_INVALID_ARGUMENT, "the graph is finished; nothing can be added");
    const rk_op *op = NULL;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(ops[i]->name, op_name) == 0) op = ops[i];
    RK_FAIL_IF(!op, RK_NOT_FOUND, "there is no operation '%s'", op_name);
    RK_FAIL_IF(n_inputs < op->min_inputs || (op->max_inputs && n_inputs > op->max_inputs), RK_INVALID_ARGUMENT, "operation '%s' does not take %d inputs", op_name, n_inputs);
    for (int32_t i = 0; i < n_inputs; i++)
        RK_FAIL_IF(inputs[i] < 0 || (size_t)inputs[i] >= graph->n_nodes, RK_INVALID_ARGUMENT, "operation '%s': input %d is no value of this graph", op_name, i);
    rk_node *node;
    RK_TRY(new_node(graph, op, name, inputs, n_inputs, &node));
    if (options) node->options = *options;
    rk_status status = op->build(graph, node);
    if (status != RK_OK) return rk_error_context(status, "node '%s' (%s)", node->name, op_name);
    *out = node->number;
    return RK_OK;
}

rk_value rk_graph_add(rk_graph *graph, const char *op, const char *name, const rk_op_options *options, const rk_value *inputs, int32_t n_inputs) {
    rk_value value = -1;
    if (graph->status != RK_OK) return -1;
    rk_status status = add(graph, op, name, options, inputs, n_inputs, &value);
    if (status != RK_OK) rk_graph_fail(graph, status);
    return status == RK_OK ? value : -1;
}

rk_value rk_graph_input(rk_graph *graph, const char *name, rk_shape shape) {
    if (graph->status != RK_OK) return -1;
    rk_node *node = NULL;
    rk_status status = shape.rows > 0 && shape.cols > 0 ? new_node(graph, NULL, name, NULL, 0, &node)
                                                        : rk_error(RK_INVALID_ARGUMENT, "input '%s' of shape [%d, %d]", name, shape.rows, shape.cols);
    if (status != RK_OK) {
        rk_graph_fail(graph, status);
        return -1;
    }
    node->shape = shape;
    return node->number;
}

void rk_graph_output(rk_graph *graph, rk_value value) {
    if (graph->status == RK_OK && value >= 0) rk_graph_root(graph, value)->is_output = true;
}

rk_status rk_graph_finish(rk_graph *graph, int64_t max_batch, bool training) {
    if (graph->status != RK_OK) return rk_error(graph->status, "%s", graph->error);
    RK_FAIL_IF(graph->finished, RK_INVALID_ARGUMENT, "the graph is finished already");
    RK_FAIL_IF(max_batch < 1, RK_INVALID_ARGUMENT, "a graph's largest batch must be 1 or more, not %lld", (long long)max_batch);
    graph->max_batch = max_batch;
    graph->training = training;
    RK_TRY(rk_graph_plan(graph));
    graph->finished = true;
    return RK_OK;
}

rk_real *rk_graph_data(rk_graph *graph, rk_value value) {
    return rk_graph_root(graph, value)->data;
}

rk_real *rk_graph_gradient(rk_graph *graph, rk_value value) {
    return rk_graph_root(graph, value)->gradient;
}

const rk_real *rk_in(const rk_run *run, const rk_node *node, int32_t input) {
    return rk_graph_root(run->graph, node->inputs[input])->data;
}

rk_real *rk_in_gradient(const rk_run *run, const rk_node *node, int32_t input) {
    return rk_graph_root(run->graph, node->inputs[input])->gradient;
}

uint64_t rk_graph_arena_bytes(const rk_graph *graph) {
    return graph->arena_bytes;
}

void rk_graph_describe(const rk_graph *graph, rk_buffer *out) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const rk_node *node = graph->nodes[i];
        int64_t n_values = 0;
        for (int32_t p = 0; p < node->n_parameters; p++) n_values += graph->parameters[node->parameters[p]].rows * graph->parameters[node->parameters[p]].cols;
        char shape[48];
        if (node->shape.rows == 1)
            snprintf(shape, sizeof shape, "[n, %d]", node->shape.cols);
        else
            snprintf(shape, sizeof shape, "[n, %d, %d]", node->shape.rows, node->shape.cols);
        rk_buffer_printf(out, "  %-28s %-16s %-16s %12lld ", node->name, node->op ? node->op->name : "input", shape, (long long)n_values);
        for (int32_t k = 0; k < node->n_inputs; k++) rk_buffer_printf(out, "%s%s", k ? ", " : " <- ", graph->nodes[node->inputs[k]]->name);
        rk_buffer_text(out, "\n");
    }
}
