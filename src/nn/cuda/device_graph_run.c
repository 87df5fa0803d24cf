/* Running a graph on a GPU, and how operations reach their values there. */
#include "nn/cuda/device_graph_internal.h"

/* The node that has a value's memory. */
static int32_t node_that_holds_memory(const rk_device_graph *g, rk_value root) {
    return g->layout.hosts[root] >= 0 ? g->layout.hosts[root] : root;
}

static float *data_of_graph_value(const rk_device_graph *g, rk_value value) {
    int32_t root = rk_graph_storage_node(g->graph, value)->number;
    return g->memory + g->places[node_that_holds_memory(g, root)].data + g->columns[root];
}

static float *gradient_of_graph_value(const rk_device_graph *g, rk_value value) {
    int32_t root = rk_graph_storage_node(g->graph, value)->number;
    return g->memory + g->places[node_that_holds_memory(g, root)].gradient + g->columns[root];
}

int64_t rk_device_graph_stride(const rk_device_graph *g, rk_value value) {
    return g->layout.strides[node_that_holds_memory(g, rk_graph_storage_node(g->graph, value)->number)];
}

bool rk_device_input_is_part_of_node(const rk_device_run *run, const rk_node *node, int32_t input) {
    return run->graph->layout.hosts[rk_graph_storage_node(run->graph->graph, node->inputs[input])->number] ==
           node->number;
}

bool rk_device_input_needs_gradient(const rk_device_run *run, const rk_node *node, int32_t input) {
    return !run->graph->no_gradient[rk_graph_storage_node(run->graph->graph, node->inputs[input])->number];
}

float *rk_device_graph_data(rk_device_graph *g, rk_value value) {
    return data_of_graph_value(g, value);
}

float *rk_device_graph_gradient(rk_device_graph *g, rk_value value) {
    return gradient_of_graph_value(g, value);
}

float *rk_device_graph_gradients(rk_device_graph *g, size_t *n) {
    *n = (size_t)g->n_parameters;
    return g->gradients;
}

const float *rk_device_graph_parameter_gradient(const rk_device_graph *g, int32_t parameter) {
    return g->gradients + g->offsets[parameter];
}

const float *rk_device_node_input(const rk_device_run *run, const rk_node *node, int32_t input) {
    return data_of_graph_value(run->graph, node->inputs[input]);
}

float *rk_device_node_input_gradient(const rk_device_run *run, const rk_node *node, int32_t input) {
    return gradient_of_graph_value(run->graph, node->inputs[input]);
}

float *rk_device_node_output(const rk_device_run *run, const rk_node *node) {
    return data_of_graph_value(run->graph, node->number);
}

float *rk_device_node_output_gradient(const rk_device_run *run, const rk_node *node) {
    return gradient_of_graph_value(run->graph, node->number);
}

int64_t rk_device_node_stride(const rk_device_run *run, const rk_node *node) {
    return rk_device_graph_stride(run->graph, node->number);
}

int64_t rk_device_node_input_stride(const rk_device_run *run, const rk_node *node, int32_t input) {
    return rk_device_graph_stride(run->graph, node->inputs[input]);
}

float *rk_device_node_saved(const rk_device_run *run, const rk_node *node) {
    return run->graph->memory + run->graph->places[node->number].saved;
}

const float *rk_device_parameter(const rk_device_run *run, const rk_node *node, int32_t index) {
    return run->graph->parameters + run->graph->offsets[node->parameters[index]];
}

float *rk_device_parameter_gradient(const rk_device_run *run, const rk_node *node, int32_t index) {
    return run->graph->gradients + run->graph->offsets[node->parameters[index]];
}

float *rk_device_node_state(const rk_device_run *run, const rk_node *node, int32_t index) {
    return run->graph->live_states + run->graph->states[node->number] + index * rk_shape_size(node->shape);
}

float *rk_device_node_batch_sums(const rk_device_run *run, const rk_node *node) {
    return run->graph->node_sums + run->graph->sums[node->number];
}

float *rk_device_scratch(const rk_device_run *run) {
    return run->graph->scratch;
}

const rk_graph *rk_device_host_graph(const rk_device_run *run) {
    return run->graph->graph;
}

rk_shape rk_device_node_input_shape(const rk_device_run *run, const rk_node *node, int32_t input) {
    return rk_node_input_shape(run->graph->graph, node, input);
}

rk_cuda_math rk_device_math_mode(const rk_device_run *run, rk_dtype dtype) {
    return dtype == RK_BF16 ? RK_CUDA_BF16 : run->graph->options.tf32 ? RK_CUDA_TF32 : RK_CUDA_F32;
}

void rk_device_sum_rows_to_columns(const rk_device_run *run, int64_t rows, int64_t cols, const float *dy,
                                   float *out) {
    rk_cuda_sum_args args = {.kind = RK_CUDA_PLAIN,
                             .rows = rows,
                             .cols = cols,
                             .x = dy,
                             .out = out,
                             .partials = rk_device_scratch(run)};
    rk_cuda_column_sums(run->stream, &args);
}

int64_t rk_device_sum_scratch(const rk_graph *graph, const rk_node *node, int64_t n) {
    (void)graph;
    return rk_cuda_sum_scratch_floats(n, rk_shape_size(node->shape));
}

void rk_device_all_reduce(const rk_device_run *run, float *values, int64_t n) {
    if (!rk_device_is_one_rank(run))
        run->graph->options.sum(run->graph->options.sum_context, run->stream, values, n);
}

bool rk_device_is_one_rank(const rk_device_run *run) {
    return run->graph->options.sum == NULL;
}

static const rk_device_run *choose_run_for_node(const rk_node *node, const rk_device_run *run,
                                                const rk_device_run *leading) {
    return node->leads ? leading : run;
}

void rk_device_graph_forward(rk_device_graph *g, rk_stream *stream, int64_t n, int64_t n_rest, int64_t total,
                             bool training, const int64_t *step) {
    rk_device_run run = {.graph = g,
                         .stream = stream,
                         .n = n,
                         .total = total,
                         .training = training,
                         .step = step},
                  leading = run;
    leading.n = n - n_rest;
    if (training) {
        g->step = step;
        g->n_rest = n_rest;
        g->total = total;
        if (g->n_states)
            rk_stream_copy(stream, g->kept_states, g->live_states, (size_t)g->n_states * sizeof(float));
    }
    for (size_t i = 0; i < g->graph->n_nodes; i++)
        if (g->ops[i])
            g->ops[i]->forward(choose_run_for_node(g->graph->nodes[i], &run, &leading), g->graph->nodes[i]);
}

void rk_device_graph_backward(rk_device_graph *g, rk_stream *stream, int64_t n) {
    rk_device_run run = {.graph = g,
                         .stream = stream,
                         .n = n,
                         .total = g->total,
                         .training = true,
                         .step = g->step},
                  leading = run;
    leading.n = n - g->n_rest;
    for (size_t i = g->graph->n_nodes; i-- > 0;) {
        const rk_node *node = g->graph->nodes[i];
        bool is_view = node->op && node->op->is_view;
        if (!node->is_used && !node->is_output && !is_view) /* a value that nothing reads */
            rk_stream_fill(stream, rk_device_node_output_gradient(&run, node), 0,
                           (size_t)rk_device_node_values(&run, node) * sizeof(float));
        if (g->ops[i]) g->ops[i]->backward(choose_run_for_node(node, &run, &leading), node);
    }
}
