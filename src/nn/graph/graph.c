#include "nn/graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "nn/graph/graph_internal.h"

static const rk_op *const ops[] = {
#define RK_OP_POINTER(name) &rk_op_##name,
    RK_OP_LIST(RK_OP_POINTER)
#undef RK_OP_POINTER
};

const rk_op *rk_op_find(const char *name) {
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(ops[i]->name, name) == 0) return ops[i];
    return NULL;
}

rk_status rk_graph_create(uint64_t seed, rk_graph **out) {
    rk_graph *graph;
    RK_TRY(rk_alloc(1, sizeof *graph, &graph));
    graph->seed = seed;
    *out = graph;
    return RK_OK;
}

static void free_node(rk_node *node) {
    if (node->op && node->op->release) node->op->release(node);
    if (node->fused && node->fused->release) node->fused->release(node);
    for (int32_t i = 0; i < node->n_states; i++) rk_free(node->states[i]);
    RK_FREE_ALL(node->sums, node->first_gradient, node->name, node->inputs, node);
}

void rk_graph_free(rk_graph *graph) {
    if (!graph) return;
    for (size_t i = 0; i < graph->n_nodes; i++) free_node(graph->nodes[i]);
    for (size_t i = 0; i < graph->n_parameters; i++) {
        RK_FREE_ALL((char *)(size_t)graph->parameters[i].name, graph->parameters[i].value);
    }
    rk_free(graph->nodes);
    rk_name_map_release(&graph->names);
    rk_free(graph->parameters);
    rk_graph_release_memory(graph);
    rk_pages_free(graph->gradients, (size_t)graph->gradient_reals * sizeof *graph->gradients);
    rk_free(graph);
}

void rk_graph_set_error(rk_graph *graph, rk_status status) {
    if (graph->status != RK_OK) return;
    graph->status = status;
    rk_error_copy(graph->error, sizeof graph->error);
}

rk_status rk_graph_status(const rk_graph *graph) {
    return graph->status == RK_OK ? RK_OK : rk_error(graph->status, "%s", graph->error);
}

int32_t rk_graph_n_values(const rk_graph *graph) {
    return (int32_t)graph->n_nodes;
}

rk_node *rk_graph_node(const rk_graph *graph, rk_value value) {
    return graph->nodes[value];
}

rk_node *rk_graph_storage_node(const rk_graph *graph, rk_value value) {
    rk_node *node = graph->nodes[value];
    while (node->op && node->op->is_view) node = graph->nodes[node->inputs[0]];
    return node;
}

rk_shape rk_node_input_shape(const rk_graph *graph, const rk_node *node, int32_t input) {
    return graph->nodes[node->inputs[input]]->shape;
}

rk_shape rk_graph_shape(const rk_graph *graph, rk_value value) {
    return value < 0 || (size_t)value >= graph->n_nodes ? (rk_shape){0, 0} : graph->nodes[value]->shape;
}

rk_value rk_graph_find_value(const rk_graph *graph, const char *name) {
    return (rk_value)rk_name_map_find(&graph->names, name);
}

static rk_status allocate_node(rk_graph *graph, const rk_op *op, const char *name, const rk_value *inputs,
                               int32_t n_inputs, rk_node **out) {
    char made[64];
    if (!name) {
        snprintf(made, sizeof made, "%s_%zu", op ? op->name : "input", graph->n_nodes);
        name = made;
    }
    RK_FAIL_IF(rk_graph_find_value(graph, name) >= 0, RK_INVALID_ARGUMENT,
               "two nodes of the graph are named '%s'", name);
    RK_TRY(rk_reserve_one_more(&graph->nodes, graph->n_nodes, &graph->nodes_capacity, sizeof *graph->nodes));
    rk_node *node;
    RK_TRY(rk_alloc(1, sizeof *node, &node));
    rk_status status = rk_strdup(name, &node->name);
    if (status == RK_OK) status = rk_alloc((size_t)n_inputs, sizeof *node->inputs, &node->inputs);
    if (status == RK_OK)
        status = rk_alloc((size_t)n_inputs, sizeof *node->first_gradient, &node->first_gradient);
    if (status == RK_OK) status = rk_name_map_add(&graph->names, node->name, (int64_t)graph->n_nodes);
    if (status != RK_OK) {
        free_node(node);
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

/* So that an operation's list of options is whole: it gets no others. */
static rk_status check_op_options(const rk_op *op, const rk_op_options *o) {
#define RK_CHECK_OPTION(name_, given)                                              \
    RK_FAIL_IF((given) && !(op->options & RK_OPTION_##name_), RK_INVALID_ARGUMENT, \
               "operation '%s' has no option '%s'", op->name, #name_);
    RK_OP_OPTION_LIST(RK_CHECK_OPTION)
#undef RK_CHECK_OPTION
    return RK_OK;
}

static rk_status add_node(rk_graph *graph, const char *op_name, const char *name,
                          const rk_op_options *options, const rk_value *inputs, int32_t n_inputs,
                          rk_value *out) {
    RK_FAIL_IF(graph->finished, RK_INVALID_ARGUMENT, "the graph is finished; nothing can be added");
    const rk_op *op = rk_op_find(op_name);
    RK_FAIL_IF(!op, RK_NOT_FOUND, "unknown operation '%s'", op_name);
    RK_FAIL_IF(n_inputs < op->min_inputs || (op->max_inputs && n_inputs > op->max_inputs),
               RK_INVALID_ARGUMENT, "operation '%s' does not take %d inputs", op_name, n_inputs);
    for (int32_t i = 0; i < n_inputs; i++)
        RK_FAIL_IF(inputs[i] < 0 || (size_t)inputs[i] >= graph->n_nodes, RK_INVALID_ARGUMENT,
                   "operation '%s': input %d is not a value of this graph", op_name, i);
    if (options) RK_TRY(check_op_options(op, options));
    rk_node *node;
    RK_TRY(allocate_node(graph, op, name, inputs, n_inputs, &node));
    if (options) node->options = *options;
    rk_status status = op->build(graph, node);
    if (status == RK_OK && node->sums_width)
        status = rk_alloc((size_t)node->sums_width, sizeof *node->sums, &node->sums);
    if (status != RK_OK) return rk_error_context(status, "node '%s' (%s)", node->name, op_name);
    if (op->n_passes) graph->keeps = true;
    *out = node->number;
    return RK_OK;
}

rk_value rk_graph_add_op(rk_graph *graph, const char *op, const char *name, const rk_op_options *options,
                         const rk_value *inputs, int32_t n_inputs) {
    rk_value value = -1;
    if (graph->status != RK_OK) return -1;
    rk_status status = add_node(graph, op, name, options, inputs, n_inputs, &value);
    if (status != RK_OK) rk_graph_set_error(graph, status);
    return status == RK_OK ? value : -1;
}

rk_value rk_graph_add_input(rk_graph *graph, const char *name, rk_shape shape) {
    if (graph->status != RK_OK) return -1;
    rk_node *node = NULL;
    rk_status status = shape.rows > 0 && shape.cols > 0
                           ? allocate_node(graph, NULL, name, NULL, 0, &node)
                           : rk_error(RK_INVALID_ARGUMENT, "input '%s' has the invalid shape [%d, %d]", name,
                                      shape.rows, shape.cols);
    if (status != RK_OK) {
        rk_graph_set_error(graph, status);
        return -1;
    }
    node->shape = shape;
    return node->number;
}

void rk_graph_mark_output(rk_graph *graph, rk_value value) {
    if (graph->status == RK_OK && value >= 0) rk_graph_storage_node(graph, value)->is_output = true;
}

void rk_graph_mark_partial_batch(rk_graph *graph, rk_value value) {
    if (graph->status == RK_OK && value >= 0) rk_graph_storage_node(graph, value)->leads = true;
}

static rk_status finish_ops_of_nodes(rk_graph *graph) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        rk_node *node = graph->nodes[i];
        if (node->op && node->op->finish) RK_TRY(node->op->finish(graph, node, graph->block));
        if (node->workspace_bytes > graph->workspace_bytes) graph->workspace_bytes = node->workspace_bytes;
    }
    return RK_OK;
}

static rk_status allocate_parameter_gradients(rk_graph *graph) {
    RK_TRY(rk_pages_alloc((size_t)graph->gradient_reals * sizeof *graph->gradients, &graph->gradients));
    for (size_t i = 0; i < graph->n_parameters; i++)
        graph->parameters[i].gradient = graph->gradients + graph->parameters[i].offset;
    return RK_OK;
}

rk_status rk_graph_finish(rk_graph *graph, int64_t max_batch, bool training) {
    if (graph->status != RK_OK) return rk_error(graph->status, "%s", graph->error);
    RK_FAIL_IF(graph->finished, RK_INVALID_ARGUMENT, "the graph is finished already");
    RK_FAIL_IF(max_batch < 1, RK_INVALID_ARGUMENT, "a graph's largest batch must be 1 or more, not %lld",
               (long long)max_batch);
    graph->max_batch = max_batch;
    if (graph->step_batch == 0) graph->step_batch = max_batch;
    if (graph->n_micro_batches == 0) rk_graph_set_micro_batches(graph, 1, (rk_graph_local_part){0, 1});
    graph->training = training;
    RK_TRY(rk_graph_plan_memory(graph));
    RK_TRY(finish_ops_of_nodes(graph));
    RK_TRY(rk_graph_fuse_ops(graph));
    if (training) RK_TRY(allocate_parameter_gradients(graph));
    RK_TRY(rk_graph_allocate_memory(graph));
    graph->finished = true;
    return RK_OK;
}

void rk_graph_set_micro_batches(rk_graph *graph, int64_t n_micro_batches, rk_graph_local_part local) {
    graph->n_micro_batches = n_micro_batches;
    graph->local = local;
}

void rk_graph_set_step_batch(rk_graph *graph, int64_t samples) {
    graph->step_batch = samples;
}

void rk_graph_retain_values(rk_graph *graph) {
    graph->keeps = true;
}

void rk_graph_bind_value(rk_graph *graph, rk_value value, rk_real *data, rk_real *gradient) {
    rk_node *root = rk_graph_storage_node(graph, value);
    root->bound_data = data;
    root->bound_gradient = gradient;
}

rk_real *rk_node_data(const rk_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape);
    return run->unbound || !node->bound_data ? rk_run_memory_at(run, node->place.data, width)
                                             : node->bound_data + run->first * width;
}

rk_real *rk_node_gradient(const rk_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(node->shape);
    return node->bound_gradient ? node->bound_gradient + run->first * width
                                : rk_run_memory_at(run, node->place.gradient, width);
}

rk_real *rk_run_data(const rk_run *run, rk_value value) {
    return rk_node_data(run, rk_graph_storage_node(run->graph, value));
}

rk_real *rk_run_gradient(const rk_run *run, rk_value value) {
    return rk_node_gradient(run, rk_graph_storage_node(run->graph, value));
}

static rk_run make_whole_batch_run(rk_graph *graph) {
    return (rk_run){.graph = graph, .memory = graph->thread_memory[0]};
}

rk_real *rk_graph_data(rk_graph *graph, rk_value value) {
    rk_run run = make_whole_batch_run(graph);
    return rk_run_data(&run, value);
}

rk_real *rk_graph_gradient(rk_graph *graph, rk_value value) {
    rk_run run = make_whole_batch_run(graph);
    return rk_run_gradient(&run, value);
}

uint64_t rk_graph_memory_bytes(const rk_graph *graph, int n_threads) {
    uint64_t memory = (uint64_t)graph->memory_reals * (graph->keeps ? 1 : (uint64_t)n_threads);
    return (memory + (uint64_t)graph->gradient_reals * (uint64_t)(n_threads + RK_SPARE_GRADIENTS + 1)) *
               sizeof(rk_real) +
           graph->workspace_bytes * (uint64_t)n_threads;
}

/* The matrix of a node that multiplies its rows by one, or NULL. */
static const rk_parameter *weight_matrix_of_node(const rk_graph *graph, const rk_node *node) {
    return node->op == &rk_op_linear || node->op == &rk_op_cin ? &graph->parameters[node->parameters[0]]
                                                               : NULL;
}

double rk_graph_flops(const rk_graph *graph, bool training) {
    double sum = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const rk_node *node = graph->nodes[i];
        const rk_parameter *w = weight_matrix_of_node(graph, node);
        if (w) sum += 2.0 * (double)w->rows * (double)w->cols * node->shape.rows;
    }
    return training ? 3 * sum : sum; /* y, dx and dw */
}

void rk_graph_largest_layer(const rk_graph *graph, int64_t *in, int64_t *out) {
    int64_t most = 0;
    *in = *out = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const rk_parameter *w = weight_matrix_of_node(graph, graph->nodes[i]);
        int64_t products = w ? w->rows * w->cols * graph->nodes[i]->shape.rows : 0;
        if (products <= most) continue;
        most = products;
        *in = w->rows;
        *out = w->cols;
    }
}

void rk_graph_describe(const rk_graph *graph, rk_buffer *out) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const rk_node *node = graph->nodes[i];
        int64_t n_values = 0;
        for (int32_t p = 0; p < node->n_parameters; p++)
            n_values +=
                graph->parameters[node->parameters[p]].rows * graph->parameters[node->parameters[p]].cols;
        char shape[48];
        if (node->shape.rows == 1)
            snprintf(shape, sizeof shape, "[n, %d]", node->shape.cols);
        else
            snprintf(shape, sizeof shape, "[n, %d, %d]", node->shape.rows, node->shape.cols);
        rk_buffer_printf(out, "  %-28s %-16s %-16s %12lld ", node->name, node->op ? node->op->name : "input",
                         shape, (long long)n_values);
        for (int32_t k = 0; k < node->n_inputs; k++)
            rk_buffer_printf(out, "%s%s", k ? ", " : " <- ", graph->nodes[node->inputs[k]]->name);
        rk_buffer_append_text(out, "\n");
    }
}
