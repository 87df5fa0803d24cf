#include <string.h>

#include "nn/graph_parts.h"

typedef struct blocks {
    const rk_run *run;
    const rk_node *node;
    rk_block_function fn;
    rk_partial_sum add;
    int64_t width;
} blocks;

static void run_block(void *context, size_t task, int thread) {
    (void)thread;
    const blocks *b = context;
    int64_t first = (int64_t)task * RK_ROW_BLOCK, last = first + RK_ROW_BLOCK < b->run->n ? first + RK_ROW_BLOCK : b->run->n;
    if (b->fn) {
        b->fn(b->run, b->node, first, last);
        return;
    }
    rk_real *partial = b->node->partials + (int64_t)task * b->width;
    memset(partial, 0, (size_t)b->width * sizeof *partial);
    b->add(b->run, b->node, first, last, partial);
}

void rk_for_blocks(const rk_run *run, const rk_node *node, rk_block_function fn) {
    blocks b = {.run = run, .node = node, .fn = fn};
    rk_parallel_for(rk_blocks((size_t)run->n, RK_ROW_BLOCK), run_block, &b);
}

void rk_sum_blocks(const rk_run *run, const rk_node *node, rk_partial_sum add, int64_t width, rk_real *out) {
    blocks b = {.run = run, .node = node, .add = add, .width = width};
    size_t n_blocks = rk_blocks((size_t)run->n, RK_ROW_BLOCK);
    rk_parallel_for(n_blocks, run_block, &b);
    memset(out, 0, (size_t)width * sizeof *out);
    for (size_t i = 0; i < n_blocks; i++)
        for (int64_t k = 0; k < width; k++) out[k] += node->partials[(int64_t)i * width + k];
}

rk_status rk_graph_forward(rk_graph *graph, int64_t n, bool training, int64_t step) {
    RK_FAIL_IF(!graph->finished || n < 0 || n > graph->max_batch, RK_INVALID_ARGUMENT, "forward over %lld samples of a graph for at most %lld", (long long)n,
               (long long)graph->max_batch);
    graph->step = step;
    rk_run run = {graph, n, training, step};
    for (size_t i = 0; i < graph->n_nodes; i++) {
        rk_node *node = graph->nodes[i];
        if (!node->op) continue;
        if (node->op->forward_block) rk_for_blocks(&run, node, node->op->forward_block);
        if (node->op->forward) RK_TRY(node->op->forward(&run, node));
    }
    return RK_OK;
}

static void zero_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    (void)run;
    int64_t width = rk_width(node->shape);
    memset(node->gradient + first * width, 0, (size_t)((last - first) * width) * sizeof *node->gradient);
}

/* Gradients are added up over a value's consumers: the first of them finds zeros. */
static void open_gradients(const rk_run *run, const rk_node *node) {
    for (int32_t k = 0; k < node->n_inputs; k++) {
        rk_node *input = rk_graph_root(run->graph, node->inputs[k]);
        if (input->gradient_open) continue;
        input->gradient_open = true;
        rk_for_blocks(run, input, zero_block);
    }
}

rk_status rk_graph_backward(rk_graph *graph, int64_t n) {
    RK_FAIL_IF(!graph->training, RK_INVALID_ARGUMENT, "the graph was finished for prediction only");
    rk_run run = {graph, n, true, graph->step};
    for (size_t i = 0; i < graph->n_nodes; i++) graph->nodes[i]->gradient_open = graph->nodes[i]->is_output;
    for (size_t i = graph->n_nodes; i-- > 0;) {
        rk_node *node = graph->nodes[i];
        if (!node->op) {
            if (!node->gradient_open) rk_for_blocks(&run, node, zero_block); /* an input that nothing reads */
            continue;
        }
        open_gradients(&run, node);
        if (!rk_graph_root(graph, node->number)->gradient_open) rk_for_blocks(&run, node, zero_block); /* a value that nothing reads */
        if (node->op->backward_block) rk_for_blocks(&run, node, node->op->backward_block);
        if (node->op->backward) RK_TRY(node->op->backward(&run, node));
    }
    return RK_OK;
}
