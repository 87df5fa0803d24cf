#include "nn/cuda/device_graph.h"

#include <string.h>

#include "base/memory.h"
#include "nn/cuda/device_graph_internal.h"

static const rk_device_op *const ops[] = {
#define RK_DEVICE_OP_POINTER(name) &rk_device_op_##name,
    RK_DEVICE_OP_LIST(RK_DEVICE_OP_POINTER)
#undef RK_DEVICE_OP_POINTER
};

/* NULL if there is none */
static const rk_device_op *find_device_op(const char *name) {
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(ops[i]->name, name) == 0) return ops[i];
    return NULL;
}

static rk_status find_device_ops(rk_device_graph *g) {
    const rk_graph *graph = g->graph;
    RK_TRY(rk_alloc(graph->n_nodes, sizeof *g->ops, &g->ops));
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const rk_node *node = graph->nodes[i];
        if (!node->op || node->op->is_view) continue;
        g->ops[i] = find_device_op(node->op->name);
        RK_FAIL_IF(!g->ops[i], RK_UNSUPPORTED, "node '%s': the operation '%s' is not supported on a GPU",
                   node->name, node->op->name);
    }
    return RK_OK;
}

/* Whether all that reads a value is linear layers over whole samples. */
static bool is_read_by_linears_alone(const rk_graph *graph, int32_t value) {
    int64_t n_readers = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const rk_node *node = graph->nodes[i];
        for (int32_t k = 0; k < node->n_inputs; k++) {
            if (node->inputs[k] != value) continue;
            if (node->op != &rk_op_linear || node->options.by_row) return false;
            n_readers++;
        }
    }
    return n_readers > 0 && !graph->nodes[value]->is_output;
}

/* A concat for linear layers has zeros behind its columns: products then read and write 16 bytes at a time,
 * and so do lookups into it. */
static void choose_strides(rk_device_graph *g) {
    for (size_t i = 0; i < g->graph->n_nodes; i++) {
        const rk_node *node = g->graph->nodes[i];
        int64_t width = rk_shape_size(node->shape);
        bool is_padded = node->op == &rk_op_concat && is_read_by_linears_alone(g->graph, node->number);
        g->layout.strides[i] = is_padded ? rk_cuda_aligned_ld(width) : width;
    }
}

/* The only node that reads an input, if that is a concat, and which of its columns are the input's. They must
 * be aligned as values of their own are. */
static void find_concat_of_input(rk_device_graph *g, rk_value input) {
    const rk_graph *graph = g->graph;
    int64_t n_readers = 0, column = 0;
    const rk_node *host = NULL;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const rk_node *node = graph->nodes[i];
        int64_t width = 0;
        for (int32_t k = 0; node->op && !node->op->is_view && k < node->n_inputs; k++) {
            if (rk_graph_storage_node(graph, node->inputs[k])->number == input) {
                n_readers++;
                host = node;
                column = width;
            }
            width += rk_shape_size(rk_node_input_shape(graph, node, k));
        }
    }
    if (n_readers != 1 || host->op != &rk_op_concat || graph->nodes[input]->is_output || column % 4 != 0 ||
        g->layout.strides[host->number] % 4 != 0)
        return;
    g->layout.hosts[input] = host->number;
    g->columns[input] = column;
}

static rk_status find_concats_of_inputs(rk_device_graph *g) {
    size_t n_nodes = g->graph->n_nodes;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_nodes, g->layout.hosts), RK_ARRAY(n_nodes, g->layout.strides),
                        RK_ARRAY(n_nodes, g->columns), RK_ARRAY(n_nodes, g->no_gradient)));
    choose_strides(g);
    for (size_t i = 0; i < n_nodes; i++) g->layout.hosts[i] = -1;
    for (int32_t i = 0; i < g->options.n_inputs; i++) {
        const rk_device_graph_input *input = &g->options.inputs[i];
        RK_FAIL_IF(input->value < 0 || (size_t)input->value >= n_nodes || g->graph->nodes[input->value]->op,
                   RK_INVALID_ARGUMENT, "node %d is not an input of the graph", input->value);
        g->no_gradient[input->value] = input->no_gradient;
        if (input->may_stride) find_concat_of_input(g, input->value);
    }
    return RK_OK;
}

/* The values' places, by what each node keeps of a sample on a device. */
static rk_status assign_value_memory(rk_device_graph *g) {
    RK_TRY(rk_alloc(g->graph->n_nodes, sizeof *g->layout.saved, &g->layout.saved));
    for (size_t i = 0; i < g->graph->n_nodes; i++) {
        const rk_node *node = g->graph->nodes[i];
        g->layout.saved[i] =
            g->ops[i] && g->ops[i]->saved ? g->ops[i]->saved(g->graph, node) : node->saved_width;
    }
    return rk_graph_assign_memory(g->graph, g->options.max_batch, g->options.training, false, &g->layout,
                                  g->places, &g->n_memory);
}

/* Each parameter begins as memory of its own would. Behind a weight's rows are zeros, and room for their
 * gradients, for the zeros behind what it is multiplied by (device_op_linear.c). */
static rk_status assign_parameter_offsets(rk_device_graph *g) {
    enum { LINE_FLOATS = 16 };
    RK_TRY(rk_alloc(g->graph->n_parameters, sizeof *g->offsets, &g->offsets));
    for (size_t i = 0; i < g->graph->n_parameters; i++) {
        const rk_parameter *p = &g->graph->parameters[i];
        int64_t n = (p->is_bias ? p->rows : rk_cuda_aligned_ld(p->rows)) * p->cols;
        g->offsets[i] = g->n_parameters;
        g->n_parameters += (n + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
    }
    return RK_OK;
}

/* Where everything stands. */
static rk_status plan_graph_memory(rk_device_graph *g) {
    const rk_graph *graph = g->graph;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(graph->n_nodes, g->places), RK_ARRAY(graph->n_nodes, g->states),
                        RK_ARRAY(graph->n_nodes, g->sums)));
    RK_TRY(assign_value_memory(g));
    RK_TRY(assign_parameter_offsets(g));
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const rk_node *node = graph->nodes[i];
        g->states[i] = g->n_states;
        g->sums[i] = g->n_sums;
        g->n_states += node->n_states * rk_shape_size(node->shape);
        g->n_sums += node->sums_width;
        int64_t scratch =
            g->ops[i] && g->ops[i]->scratch ? g->ops[i]->scratch(graph, node, g->options.max_batch) : 0;
        if (scratch > g->n_scratch) g->n_scratch = scratch;
    }
    return RK_OK;
}

static rk_status allocate_graph_memory(rk_device_graph *g) {
    RK_TRY(rk_device_graph_allocate_floats(g, g->n_memory, &g->memory));
    RK_TRY(rk_device_graph_allocate_floats(g, g->n_scratch, &g->scratch));
    RK_TRY(rk_device_graph_allocate_floats(g, g->n_sums, &g->node_sums));
    RK_TRY(rk_device_graph_allocate_floats(g, g->n_parameters, &g->parameters));
    if (g->options.training) RK_TRY(rk_device_graph_allocate_floats(g, g->n_parameters, &g->gradients));
    RK_TRY(rk_device_graph_allocate_floats(g, g->n_states, &g->live_states));
    return rk_device_graph_allocate_floats(g, g->n_states, &g->kept_states);
}

rk_status rk_device_graph_create(rk_graph *graph, rk_dense_optimizer *optimizer, rk_device *device,
                                 const rk_device_graph_options *options, rk_device_graph **out) {
    RK_FAIL_IF(!graph->finished, RK_INVALID_ARGUMENT, "the graph is not finished");
    RK_FAIL_IF(options->max_batch < 1, RK_INVALID_ARGUMENT,
               "a graph's largest batch must be 1 or more, not %lld", (long long)options->max_batch);
    rk_device_graph *g;
    RK_TRY(rk_alloc(1, sizeof *g, &g));
    *g = (rk_device_graph){.graph = graph, .device = device, .options = *options};
    rk_status status;
    RK_GOTO(find_device_ops(g));
    RK_GOTO(find_concats_of_inputs(g));
    RK_GOTO(plan_graph_memory(g));
    RK_GOTO(allocate_graph_memory(g));
    if (optimizer) RK_GOTO(rk_device_optimizer_create(g, optimizer));
    RK_GOTO(rk_device_graph_reload(g));
    *out = g;
    return RK_OK;
done:
    rk_device_graph_free(g);
    return status;
}

void rk_device_graph_free(rk_device_graph *g) {
    if (!g) return;
    rk_device_optimizer_free(g);
    float *const memory[] = {g->memory,    g->scratch,     g->node_sums,  g->parameters,
                             g->gradients, g->live_states, g->kept_states};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) rk_device_free(g->device, memory[i]);
    RK_FREE_ALL(g->ops, g->places, g->layout.hosts, g->layout.strides, g->layout.saved, g->columns,
                g->no_gradient, g->states, g->sums, g->offsets, g);
}

bool rk_device_graph_needs_rank_sums(const rk_device_graph *g) {
    bool sums = false;
    for (size_t i = 0; i < g->graph->n_nodes; i++) sums |= g->graph->nodes[i]->sums_width > 0;
    return sums && g->options.sum;
}

/* Between an array of the host's and one of the device's. */
static rk_status upload_or_download_floats(rk_device_graph *g, float *device_memory, float *host, int64_t n,
                                           bool to_device) {
    size_t n_bytes = (size_t)n * sizeof *host;
    return to_device ? rk_device_upload(g->device, device_memory, host, n_bytes)
                     : rk_device_download(g->device, host, device_memory, n_bytes);
}

static rk_status upload_or_download_parameters(rk_device_graph *g, bool to_device) {
    const rk_graph *graph = g->graph;
    for (size_t i = 0; i < graph->n_parameters; i++) {
        const rk_parameter *p = &graph->parameters[i];
        RK_TRY(upload_or_download_floats(g, g->parameters + g->offsets[i], p->value, p->rows * p->cols,
                                         to_device));
    }
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i]->n_states; k++) {
            int64_t width = rk_shape_size(graph->nodes[i]->shape);
            RK_TRY(upload_or_download_floats(g, g->live_states + g->states[i] + k * width,
                                             graph->nodes[i]->states[k], width, to_device));
        }
    return rk_device_optimizer_copy_slots(g, to_device);
}

rk_status rk_device_graph_reload(rk_device_graph *g) {
    return upload_or_download_parameters(g, true);
}

rk_status rk_device_graph_flush(rk_device_graph *g) {
    return upload_or_download_parameters(g, false);
}

rk_status rk_device_graph_allocate_floats(rk_device_graph *g, int64_t n, float **out) {
    return rk_device_alloc(g->device, (size_t)(n > 0 ? n : 1) * sizeof **out, out);
}
