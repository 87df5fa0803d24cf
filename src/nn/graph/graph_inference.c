/* The memory in which a frozen graph runs. */
#include "base/memory.h"
#include "nn/graph/graph_internal.h"

rk_status rk_graph_freeze(rk_graph *g) {
    RK_FAIL_IF(!g->finished || g->training, RK_INVALID_ARGUMENT,
               "only a graph that was finished for prediction is frozen");
    for (size_t i = 0; i < g->n_nodes; i++) {
        const rk_op *op = rk_forward_op(g->nodes[i], false);
        if (op && op->prepare) RK_TRY(op->prepare(g, g->nodes[i], false));
    }
    g->frozen = true;
    return RK_OK;
}

static size_t inference_memory_bytes(const rk_graph *g) {
    return (size_t)g->memory_reals * sizeof(rk_real);
}

void rk_graph_inference_free(rk_graph_inference *i) {
    if (!i) return;
    for (int t = 0; i->memory && t < i->n_threads; t++)
        rk_pages_free(i->memory[t], inference_memory_bytes(i->graph));
    for (int t = 0; i->workspaces && t < i->n_threads; t++)
        rk_pages_free(i->workspaces[t], i->graph->workspace_bytes);
    rk_graph_context_free(i->context);
    RK_FREE_ALL(i->memory, i->workspaces, i);
}

rk_status rk_graph_inference_create(const rk_graph *g, int n_threads, rk_graph_inference **out) {
    rk_graph_inference *i;
    RK_FAIL_IF(!g->frozen, RK_INVALID_ARGUMENT, "the graph is not frozen");
    RK_TRY(rk_alloc(1, sizeof *i, &i));
    i->graph = g;
    i->n_threads = n_threads;
    rk_status status;
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY((size_t)n_threads, i->memory), RK_ARRAY((size_t)n_threads, i->workspaces)));
    for (int t = 0; t < n_threads; t++) {
        RK_GOTO(rk_pages_alloc(inference_memory_bytes(g), &i->memory[t]));
        RK_GOTO(rk_pages_alloc(g->workspace_bytes, &i->workspaces[t]));
    }
    *out = i;
    i = NULL;
done:
    rk_graph_inference_free(i);
    return status;
}
