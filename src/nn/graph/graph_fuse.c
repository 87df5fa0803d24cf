/* Nodes that run together. Those that predict by fewer products than one by one round otherwise than in
 * training, so evaluations during a training take them too: metrics are those of the predictions. */
#include "base/memory.h"
#include "nn/graph/graph_internal.h"

/* How often a value is read; *last: by whom last. */
static size_t count_readers_of_value(const rk_graph *g, rk_value value, rk_node **last) {
    size_t n = g->nodes[value]->is_output;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int32_t k = 0; k < g->nodes[i]->n_inputs; k++) {
            if (g->nodes[i]->inputs[k] != value) continue;
            *last = g->nodes[i];
            n++;
        }
    return n;
}

/* The node that alone reads a value; NULL: none does, or several. */
static rk_node *find_only_reader(const rk_graph *g, const rk_node *node) {
    rk_node *last = NULL;
    return count_readers_of_value(g, node->number, &last) == 1 ? last : NULL;
}

static bool is_f32_linear_by_row(const rk_node *node) {
    return node->op == &rk_op_linear && node->options.by_row && node->options.dtype == RK_F32;
}

/* The target_pairs that a linear of f32 alone reads, row by row; NULL: it reads another node. */
static rk_node *find_fusable_pairs(const rk_graph *g, const rk_node *node) {
    if (!is_f32_linear_by_row(node)) return NULL;
    rk_node *from = g->nodes[node->inputs[0]];
    return from->op == &rk_op_target_pairs && find_only_reader(g, from) == node ? from : NULL;
}

/* The linears from `first` on, of which each is all that the next one reads: how many, at most `most`. */
static int32_t find_linear_chain(const rk_graph *g, rk_node *first, rk_node **chain, int32_t most) {
    int32_t n = 0;
    for (rk_node *at = first; at && is_f32_linear_by_row(at) && n < most; at = find_only_reader(g, at))
        chain[n++] = at;
    return n;
}

/* All of DIN's activation unit, or else its first layer. */
static rk_status fuse_target_pairs(rk_graph *g, rk_node *first, rk_node *pairs) {
    enum { MOST = 16 };
    rk_node *chain[MOST];
    int32_t n = find_linear_chain(g, first, chain, MOST);
    if (chain[n - 1]->shape.cols != 1) return rk_target_pairs_fuse_linear(g, first, pairs);
    const rk_node *pool = find_only_reader(g, chain[n - 1]);
    bool pools = pool && pool->op == &rk_op_attention_pool && pool->inputs[0] == chain[n - 1]->number &&
                 !rk_graph_storage_node(g, pool->inputs[2])->op;
    return rk_target_pairs_fuse_mlp(g, pairs, chain, n, pools ? pool : NULL);
}

rk_status rk_graph_fuse_ops(rk_graph *g) {
    for (size_t i = 0; i < g->n_nodes; i++) {
        rk_node *node = g->nodes[i], *pairs = node->fused ? NULL : find_fusable_pairs(g, node);
        if (!pairs) continue;
        RK_TRY(fuse_target_pairs(g, node, pairs));
        const rk_node *wider = node->workspace_bytes > pairs->workspace_bytes ? node : pairs;
        if (wider->workspace_bytes > g->workspace_bytes) g->workspace_bytes = wider->workspace_bytes;
    }
    return RK_OK;
}

/* The same, if it is of that operation. */
static rk_node *find_only_reader_by_op(const rk_graph *g, const rk_node *node, const rk_op *op) {
    rk_node *reader = find_only_reader(g, node);
    return reader && reader->op == op ? reader : NULL;
}

void rk_graph_join_norms(rk_graph *g) {
    for (size_t i = 0; i < g->n_nodes; i++) {
        rk_node *norm = g->nodes[i];
        rk_node *relu = norm->op == &rk_op_batch_norm ? find_only_reader_by_op(g, norm, &rk_op_relu) : NULL;
        if (!relu) continue;
        rk_node *dropout = find_only_reader_by_op(g, relu, &rk_op_dropout);
        if (dropout && dropout->options.by_row) dropout = NULL;
        rk_node *last = dropout ? dropout : relu;
        if (!last->is_used && !last->is_output) continue; /* its gradient is zeros, which it sets itself */
        norm->does = last;
        relu->doer = norm;
        if (dropout) dropout->doer = norm;
    }
}
