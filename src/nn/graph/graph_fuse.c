/* Nodes of a frozen graph that are computed together, by fewer products than one by one. */
#include "base/memory.h"
#include "nn/graph/graph_internal.h"

static size_t n_readers(const rk_graph *g, rk_value value) {
    size_t n = g->nodes[value]->is_output;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int32_t k = 0; k < g->nodes[i]->n_inputs; k++) n += g->nodes[i]->inputs[k] == value;
    return n;
}

/* The target_pairs that a linear of f32 alone reads, row by row; NULL: it reads another node. */
static rk_node *pairs_of(const rk_graph *g, const rk_node *node) {
    if (node->op != &rk_op_linear || !node->options.by_row || node->options.dtype != RK_F32) return NULL;
    rk_node *from = g->nodes[node->inputs[0]];
    return from->op == &rk_op_target_pairs && n_readers(g, from->number) == 1 ? from : NULL;
}

/* Memory that threads have is made again, as large as the fused nodes want. */
rk_status rk_graph_fuse(rk_graph *g) {
    size_t workspace_bytes = g->workspace_bytes;
    for (size_t i = 0; i < g->n_nodes; i++) {
        rk_node *node = g->nodes[i], *pairs = node->fused ? NULL : pairs_of(g, node);
        if (!pairs) continue;
        RK_TRY(rk_fuse_pair_linear(g, node, pairs));
        if (node->workspace_bytes > workspace_bytes) workspace_bytes = node->workspace_bytes;
    }
    if (workspace_bytes == g->workspace_bytes) return RK_OK;
    rk_graph_release_memory(g);
    g->workspace_bytes = workspace_bytes;
    return rk_graph_reserve(g);
}
