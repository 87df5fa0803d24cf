/* What of a graph is the same in all samples of a run, since some columns of its inputs are (one user beside
 * many items): computed once, and read from one place, or written to each sample for the operations that read
 * sample by sample. */
#include <string.h>

#include "base/memory.h"
#include "nn/graph/graph_internal.h"

struct rk_graph_context {
    const rk_graph *graph;
    struct context_columns {
        rk_input_columns of;
        bool is_read; /* sample by sample */
    } * columns;      /* [n_columns] */
    size_t n_columns, columns_capacity;
    int64_t *leading; /* [n_nodes]: the first columns of a value that are the context's; its width: all */
    bool *spreads;    /* [n_nodes]: the context decides the value, which is also read sample by sample */
    int64_t *kept;    /* [n_nodes]: in memory, one sample of the value, or what op->begin has made; -1 */
    rk_real *memory;  /* [memory_reals] */
    size_t memory_capacity;
    int64_t memory_reals;
};

void rk_graph_context_free(rk_graph_context *c) {
    if (c) RK_FREE_ALL(c->columns, c->leading, c->spreads, c->kept, c->memory, c);
}

static int64_t width_of_value(const rk_graph_context *c, rk_value value) {
    return rk_shape_size(c->graph->nodes[value]->shape);
}
static bool is_whole_value_from_context(const rk_graph_context *c, rk_value value) {
    return c->leading[value] == width_of_value(c, value);
}

static int64_t count_context_columns_of_input(const rk_graph_context *c, rk_value input, int64_t first) {
    int64_t end = first;
    for (size_t i = 0; i < c->n_columns; i++) {
        const rk_input_columns *some = &c->columns[i].of;
        if (some->input == input && some->first <= end && end < some->first + some->count)
            end = some->first + some->count;
    }
    return end - first;
}

/* How many columns of a value are the context's, from `first` on without a gap. */
static int64_t count_leading_context_columns(const rk_graph_context *c, rk_value value, int64_t first) {
    const rk_node *node = c->graph->nodes[value];
    if (!node->op) return count_context_columns_of_input(c, value, first);
    if (node->n_inputs == 0) return 0;
    if (node->op->is_view) return count_leading_context_columns(c, node->inputs[0], first);
    if (node->op == &rk_op_slice) {
        int64_t left = node->options.count - first,
                some = count_leading_context_columns(c, node->inputs[0], node->options.first + first);
        return some < left ? some : left;
    }
    if (node->op == &rk_op_concat) {
        int64_t begin = 0, at = first;
        for (int32_t k = 0; k < node->n_inputs; k++) {
            int64_t width = width_of_value(c, node->inputs[k]);
            if (at < begin + width) at += count_leading_context_columns(c, node->inputs[k], at - begin);
            if (at < begin + width) break;
            begin += width;
        }
        return at - first;
    }
    for (int32_t k = 0; k < node->n_inputs; k++)
        if (!is_whole_value_from_context(c, node->inputs[k])) return 0;
    return width_of_value(c, value) - first;
}

/* The columns of the context, of its first input, that a node of samples begins with. Rows that are
 * multiplied one by one have columns of their own, but for those of pairs, each of which holds a row of the
 * context's. */
static int64_t count_context_columns_of_node(const rk_graph_context *c, const rk_node *node) {
    if (!node->op || !rk_forward_op(node, false)->begin || is_whole_value_from_context(c, node->number))
        return 0;
    const rk_node *pairs = node->fused == &rk_op_pair_weights ? node
                           : node->fused == &rk_op_pair_linear || node->fused == &rk_op_pair_rows
                               ? c->graph->nodes[node->inputs[0]]
                               : NULL;
    if (pairs)
        return is_whole_value_from_context(c, pairs->inputs[1]) ? width_of_value(c, pairs->inputs[1]) : 0;
    return node->options.by_row ? 0 : c->leading[node->inputs[0]];
}

static bool are_columns_read(const rk_graph_context *c, rk_value value, int64_t first, int64_t count);

/* Whether `node`, not the context's, reads these columns of its input in each sample. */
static bool node_reads_columns(const rk_graph_context *c, const rk_node *node, int32_t input, int64_t first,
                               int64_t count) {
    rk_value from = node->inputs[input];
    if (node->op->is_view) return are_columns_read(c, node->number, first, count);
    if (rk_forward_op(node, false)->takes_context && is_whole_value_from_context(c, from)) return false;
    if (rk_forward_op(node, false)->begin && !rk_forward_op(node, false)->takes_context)
        return first + count > count_context_columns_of_node(c, node);
    if (node->op == &rk_op_slice) {
        int64_t begin = first > node->options.first ? first : node->options.first,
                slice_end = node->options.first + (int64_t)node->options.count,
                end = first + count < slice_end ? first + count : slice_end;
        return begin < end && are_columns_read(c, node->number, begin - node->options.first, end - begin);
    }
    if (node->op == &rk_op_concat) {
        for (int32_t k = 0; k < input; k++) first += width_of_value(c, node->inputs[k]);
        return are_columns_read(c, node->number, first, count);
    }
    return true;
}

static bool are_columns_read(const rk_graph_context *c, rk_value value, int64_t first, int64_t count) {
    const rk_graph *g = c->graph;
    if (g->nodes[value]->is_output) return true;
    for (size_t i = (size_t)value + 1; i < g->n_nodes; i++) {
        const rk_node *node = g->nodes[i];
        bool is_once = node->op && !node->op->is_view && is_whole_value_from_context(c, node->number);
        for (int32_t k = 0; k < node->n_inputs && !is_once; k++)
            if (node->inputs[k] == value && node_reads_columns(c, node, k, first, count)) return true;
    }
    return false;
}

/* A line's worth of memory for a node. */
static int64_t reserve_context_value(rk_graph_context *c, const rk_node *node) {
    int64_t at = c->memory_reals;
    c->memory_reals += (rk_shape_size(node->shape) + 15) / 16 * 16;
    return at;
}

static rk_status plan_context_values(rk_graph_context *c) {
    const rk_graph *g = c->graph;
    for (size_t i = 0; i < g->n_nodes; i++) c->leading[i] = count_leading_context_columns(c, (rk_value)i, 0);
    c->memory_reals = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const rk_node *node = g->nodes[i];
        bool is_view = node->op && node->op->is_view, whole = is_whole_value_from_context(c, (rk_value)i);
        c->spreads[i] = node->op && !is_view && whole &&
                        are_columns_read(c, (rk_value)i, 0, width_of_value(c, (rk_value)i));
        bool keeps = !node->op || (!is_view && (whole || count_context_columns_of_node(c, node)));
        c->kept[i] = keeps ? reserve_context_value(c, node) : -1;
    }
    for (size_t i = 0; i < c->n_columns; i++) {
        const rk_input_columns *some = &c->columns[i].of;
        c->columns[i].is_read = are_columns_read(c, some->input, some->first, some->count);
    }
    return rk_reserve(&c->memory, &c->memory_capacity, (size_t)c->memory_reals, sizeof *c->memory);
}

rk_status rk_graph_context_create(const rk_graph *graph, rk_graph_context **out) {
    rk_graph_context *c;
    RK_TRY(rk_alloc(1, sizeof *c, &c));
    c->graph = graph;
    rk_status status = RK_ALLOC_ALL(RK_ARRAY(graph->n_nodes, c->leading),
                                    RK_ARRAY(graph->n_nodes, c->spreads), RK_ARRAY(graph->n_nodes, c->kept));
    if (status == RK_OK) status = plan_context_values(c);
    if (status == RK_OK)
        *out = c;
    else
        rk_graph_context_free(c);
    return status;
}

static bool is_same_context(const rk_graph_context *c, const rk_input_columns *columns, size_t n) {
    bool same = c->n_columns == n;
    for (size_t i = 0; i < n && same; i++)
        same = c->columns[i].of.input == columns[i].input && c->columns[i].of.first == columns[i].first &&
               c->columns[i].of.count == columns[i].count;
    return same;
}

static rk_status set_context_columns(rk_graph_context *c, const rk_input_columns *columns, size_t n) {
    if (is_same_context(c, columns, n)) return RK_OK;
    c->n_columns = 0;
    RK_TRY(rk_reserve(&c->columns, &c->columns_capacity, n, sizeof *c->columns));
    for (; c->n_columns < n; c->n_columns++)
        c->columns[c->n_columns] = (struct context_columns){columns[c->n_columns], false};
    rk_status status = plan_context_values(c);
    if (status != RK_OK) c->n_columns = 0;
    return status;
}

rk_status rk_graph_inference_set_context(rk_graph_inference *i, const rk_input_columns *columns, size_t n) {
    if (!i->context) RK_TRY(rk_graph_context_create(i->graph, &i->context));
    return set_context_columns(i->context, columns, n);
}

static void store_context_value(const rk_graph_context *c, const rk_run *run, const rk_node *node) {
    memcpy(c->memory + c->kept[node->number], rk_node_data(run, node),
           (size_t)rk_shape_size(node->shape) * sizeof *c->memory);
}

/* Values that have the context's columns in some places only are made whole, and read in those alone. */
static bool op_must_be_made_whole(const rk_node *node) {
    return node->op == &rk_op_slice || node->op == &rk_op_concat;
}

rk_status rk_graph_context_forward(rk_graph_context *c, const rk_run *run) {
    for (size_t i = 0; i < c->graph->n_nodes; i++) {
        const rk_node *node = c->graph->nodes[i];
        if (node->op && node->op->is_view) continue;
        bool whole = is_whole_value_from_context(c, (rk_value)i);
        if (node->op && (whole || op_must_be_made_whole(node)))
            RK_TRY(rk_forward_op(node, false)->forward(run, node));
        if (!node->op || whole)
            store_context_value(c, run, node);
        else if (count_context_columns_of_node(c, node))
            RK_TRY(rk_forward_op(node, false)
                       ->begin(run, node, count_context_columns_of_node(c, node), c->memory + c->kept[i]));
    }
    return RK_OK;
}

/* Columns first .. first+count-1 of a node, the same in each sample of the block. */
static void repeat_context_columns(const rk_graph_context *c, const rk_run *run, const rk_node *node,
                                   int64_t first, int64_t count) {
    const rk_real *from = c->memory + c->kept[node->number] + first;
    int64_t width = rk_shape_size(node->shape);
    rk_real *to = rk_node_data(run, node) + first;
    for (int64_t s = 0; s < run->n; s++) memcpy(to + s * width, from, (size_t)count * sizeof *to);
}

void rk_graph_context_fill_inputs(const rk_graph_context *c, const rk_run *run) {
    for (size_t i = 0; i < c->n_columns; i++) {
        const rk_input_columns *some = &c->columns[i].of;
        if (c->columns[i].is_read)
            repeat_context_columns(c, run, c->graph->nodes[some->input], some->first, some->count);
    }
}

bool rk_graph_context_fill(const rk_graph_context *c, const rk_run *run, const rk_node *node) {
    if (!is_whole_value_from_context(c, node->number)) return false;
    if (c->spreads[node->number]) repeat_context_columns(c, run, node, 0, rk_shape_size(node->shape));
    return true;
}

rk_samples rk_node_input_samples(const rk_run *run, const rk_node *node, int32_t input) {
    const rk_graph_context *c = run->of_context ? NULL : run->context;
    const rk_node *root = rk_graph_storage_node(run->graph, node->inputs[input]);
    if (c && is_whole_value_from_context(c, root->number))
        return (rk_samples){c->memory + c->kept[root->number], 0};
    return (rk_samples){rk_node_data(run, root), rk_shape_size(root->shape)};
}

const rk_real *rk_node_context_products(const rk_run *run, const rk_node *node, int64_t *columns) {
    const rk_graph_context *c = run->of_context ? NULL : run->context;
    *columns = c ? count_context_columns_of_node(c, node) : 0;
    return *columns ? c->memory + c->kept[node->number] : NULL;
}

bool rk_run_is_context_value(const rk_run *run, rk_value value) {
    return is_whole_value_from_context(run->context, rk_graph_storage_node(run->graph, value)->number);
}

const rk_real *rk_run_context_value(const rk_run *run, rk_value value) {
    return run->context->memory + run->context->kept[rk_graph_storage_node(run->graph, value)->number];
}
