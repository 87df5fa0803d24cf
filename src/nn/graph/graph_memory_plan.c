/* Places in a run's memory: every value, gradient and what forward saves lives from its first to its last
 * use, and pieces whose lives do not meet share memory. Time: forward counts up, and backward goes on from
 * there. */
#include <stdlib.h>

#include "base/memory.h"
#include "nn/graph/graph_internal.h"

enum {
    LINE_REALS = 64 / sizeof(rk_real),
    MIN_BLOCK = 64,
    MAX_BLOCK = 512,        /* samples; twice as many of a graph of many parameters */
    BLOCK_REALS = 32 << 20, /* values of a block, about; likewise */
    MIN_GROUP = 128,
    CACHED_REALS = 1 << 19, /* parameters that stay in the second cache, about */
    MANY_REALS = 1 << 20,   /* parameters whose gradients threads do not keep there */
    MAX_GROUP = 1024,       /* samples */
    MAX_GROUPS = 16         /* but where that would make them longer */
};

typedef struct piece {
    int64_t *place; /* the offset to fill in, in reals */
    int64_t reals, offset;
    int64_t birth, death;
    size_t order;
} piece;

typedef struct planner {
    piece *pieces; /* [n] */
    size_t n, capacity;
} planner;

static rk_status add_memory_interval(planner *p, int64_t *place, int64_t reals, int64_t birth,
                                     int64_t death) {
    if (reals == 0) return RK_OK;
    RK_TRY(rk_reserve_one_more(&p->pieces, p->n, &p->capacity, sizeof *p->pieces));
    p->pieces[p->n] =
        (piece){place, (reals + LINE_REALS - 1) / LINE_REALS * LINE_REALS, 0, birth, death, p->n};
    p->n++;
    return RK_OK;
}

static int compare_interval_sizes(const void *a, const void *b) {
    const piece *x = a, *y = b;
    if (x->reals != y->reals) return x->reals < y->reals ? 1 : -1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int compare_offsets(const void *a, const void *b) {
    const piece *x = *(const piece *const *)a, *y = *(const piece *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Largest first, each at the lowest offset where it meets no piece that lives at the same time. */
static rk_status assign_offsets_to_intervals(planner *p, int64_t *total) {
    const piece **alive;
    RK_TRY(rk_alloc(p->n, sizeof *alive, &alive));
    qsort(p->pieces, p->n, sizeof *p->pieces, compare_interval_sizes);
    *total = 0;
    for (size_t i = 0; i < p->n; i++) {
        piece *now = &p->pieces[i];
        size_t n_alive = 0;
        for (size_t j = 0; j < i; j++)
            if (p->pieces[j].birth <= now->death && now->birth <= p->pieces[j].death)
                alive[n_alive++] = &p->pieces[j];
        if (n_alive) qsort(alive, n_alive, sizeof *alive, compare_offsets);
        int64_t at = 0;
        for (size_t j = 0; j < n_alive; j++) {
            if (alive[j]->offset >= at + now->reals) break;
            if (alive[j]->offset + alive[j]->reals > at) at = alive[j]->offset + alive[j]->reals;
        }
        now->offset = at;
        if (at + now->reals > *total) *total = at + now->reals;
    }
    rk_free(alive);
    return RK_OK;
}

/* The last node that reads a value, itself or through views of it: the first to add to its gradient. */
static void find_last_reader_of_values(const rk_graph *graph, int64_t *last) {
    for (size_t i = 0; i < graph->n_nodes; i++) last[i] = (int64_t)i;
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i]->n_inputs; k++)
            last[rk_graph_storage_node(graph, graph->nodes[i]->inputs[k])->number] = (int64_t)i;
}

static void find_used_values(rk_graph *graph) {
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i]->n_inputs; k++)
            if (graph->nodes[i]->op && !graph->nodes[i]->op->is_view)
                rk_graph_storage_node(graph, graph->nodes[i]->inputs[k])->is_used = true;
}

/* Backward goes from the last node to the first. An output's gradient is there already. */
static void find_first_gradient_writers(rk_graph *graph) {
    for (size_t i = graph->n_nodes; i-- > 0;) {
        rk_node *node = graph->nodes[i];
        if (!node->op || node->op->is_view) continue;
        for (int32_t k = 0; k < node->n_inputs; k++) {
            rk_node *root = rk_graph_storage_node(graph, node->inputs[k]);
            node->first_gradient[k] = !root->has_gradient && !root->is_output;
            root->has_gradient = true;
        }
    }
}

/* A node that leads leaves the gradients of samples that it rests for alone: of a value that others need too,
 * one of those must be the first to write them. */
static bool supports_partial_batch(const rk_graph *graph, const rk_node *node) {
    if (node->op && node->op->n_passes) return false; /* its samples depend on each other */
    for (int32_t k = 0; k < node->n_inputs; k++)
        if (node->first_gradient[k] && !rk_graph_storage_node(graph, node->inputs[k])->leads) return false;
    return true;
}

/* A node leads if all that read it do. */
static rk_status find_partial_batch_nodes(rk_graph *graph) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        rk_node *node = graph->nodes[i];
        node->leads |= !node->is_output && (node->is_used || (node->op && node->op->is_view));
    }
    for (size_t i = graph->n_nodes; i-- > 0;)
        for (int32_t k = 0; k < graph->nodes[i]->n_inputs; k++)
            if (!graph->nodes[i]->leads) graph->nodes[graph->nodes[i]->inputs[k]]->leads = false;
    for (size_t i = 0; i < graph->n_nodes; i++)
        RK_FAIL_IF(graph->nodes[i]->leads && !supports_partial_batch(graph, graph->nodes[i]),
                   RK_INVALID_ARGUMENT, "'%s' cannot be computed for only a part of the batch",
                   graph->nodes[i]->name);
    return RK_OK;
}

/* How a node's value and gradient live: as its operation's, as an input's, or in columns of another node. */
typedef enum stay { AS_ITSELF, AS_INPUT, ELSEWHERE } stay;

static stay choose_memory_kind(const rk_graph *graph, const rk_value_layout *layout, size_t node) {
    if (!layout) return AS_ITSELF;
    if (layout->hosts[node] >= 0) return ELSEWHERE;
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (layout->hosts[i] == (int32_t)node) return AS_INPUT;
    return AS_ITSELF;
}

typedef struct times {
    int64_t *forward, *backward; /* [n_nodes] */
    int64_t end;
} times;

/* Nodes that blocks run through together have one time: those of a segment, or else elementwise neighbours.
 * A segment's first node waits for sums: backward it ends the one before. */
static void find_times(const rk_graph *graph, bool by_segments, times *out) {
    bool segments = by_segments && !graph->node_by_node;
    rk_node **nodes = graph->nodes;
    int64_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        bool begins =
            segments ? rk_graph_begins_segment(graph, i)
                     : !(i > 0 && rk_node_is_elementwise(nodes[i - 1]) && rk_node_is_elementwise(nodes[i]));
        n += begins;
        out->forward[i] = n;
        out->backward[i] = segments && !begins ? -n : 1 - n;
    }
    out->end = 2 * (n + 1);
    for (size_t i = 0; i < graph->n_nodes; i++) out->backward[i] += out->end - 1;
}

static rk_status add_intervals_of_node(planner *p, const times *t, const rk_graph *graph, const rk_node *node,
                                       int64_t last, int64_t samples, const rk_value_layout *layout,
                                       bool train, rk_place *to) {
    stay stays = choose_memory_kind(graph, layout, (size_t)node->number);
    int64_t stride = layout ? layout->strides[node->number] : rk_shape_size(node->shape),
            saved = layout ? layout->saved[node->number] : node->saved_width;
    const size_t runs = (size_t)(layout || !node->doer ? node : node->doer)->number;
    int64_t begin = t->forward[runs], back = t->backward[runs], end = t->end;
    if (!layout && (node->does || (node->doer && node->doer->does != node)))
        stays = ELSEWHERE; /* there is none */
    bool is_input = !node->op || stays == AS_INPUT;
    if (!(node->op && node->op->is_view) && stays != ELSEWHERE) {
        int64_t reals = stride * samples;
        RK_TRY(add_memory_interval(p, &to->data, reals, is_input ? 0 : begin,
                                   is_input || node->is_output ? end
                                   : train                     ? back
                                                               : t->forward[last]));
        /* An output's gradient is written between forward and backward; an input's is read after the end. */
        int64_t birth = node->is_output ? end / 2 - 1 : t->backward[last];
        if (train) RK_TRY(add_memory_interval(p, &to->gradient, reals, birth, is_input ? end : back));
    }
    return add_memory_interval(p, &to->saved, saved * samples, begin, train ? back : begin);
}

/* Large enough for matrix products to run at speed, small enough for a block's values to stay in a large
 * third cache, and enough of them for several threads, to which a group is dealt out whole; micro-batches may
 * be shorter than a group. Each block reads the parameters and adds to their gradients, which takes as long
 * as the products if they are not in the cache and the block is short; of many parameters that outweighs the
 * values' way through memory. */
static int64_t choose_block_samples(const rk_graph *graph) {
    int64_t micro_batch = (graph->step_batch + graph->n_micro_batches - 1) / graph->n_micro_batches;
    int64_t width = 0, more = graph->gradient_reals >= MANY_REALS ? 2 : 1;
    int64_t block = MAX_BLOCK * more, most_reals = BLOCK_REALS * more,
            least =
                graph->gradient_reals <= CACHED_REALS && graph->n_micro_batches > 1 ? MIN_BLOCK : MIN_GROUP;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const rk_node *node = graph->nodes[i];
        bool view = node->op && node->op->is_view; /* of memory that is counted already */
        width += (view ? 0 : rk_shape_size(node->shape)) + node->saved_width;
    }
    while (block > MIN_BLOCK && (block * width > most_reals || (block > least && block * 8 > micro_batch)))
        block /= 2;
    return block;
}

/* Micro-batches are whole numbers of blocks, so that the blocks are the same wherever a micro-batch runs. */
static void choose_micro_batch_size(rk_graph *graph) {
    graph->micro_batch = (graph->max_batch + graph->n_micro_batches - 1) / graph->n_micro_batches;
    graph->block = choose_block_samples(graph);
    if (graph->n_micro_batches > 1)
        graph->micro_batch = (graph->micro_batch + graph->block - 1) / graph->block * graph->block;
    int64_t here = graph->micro_batch * graph->local.n_micro_batches;
    if (here < graph->max_batch) graph->max_batch = here;
    bool is_part = graph->local.n_micro_batches < graph->n_micro_batches;
    if (graph->training && is_part &&
        rk_graph_runs_node_by_node((double)graph->gradient_reals, (double)graph->max_batch))
        graph->keeps = graph->node_by_node = true;
}

rk_status rk_graph_assign_memory(const rk_graph *graph, int64_t samples, bool training, bool by_segments,
                                 const rk_value_layout *layout, rk_place *places, int64_t *total) {
    planner p = {0};
    times t = {0};
    int64_t *last = NULL;
    rk_status status;
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY(graph->n_nodes, last), RK_ARRAY(graph->n_nodes, t.forward),
                         RK_ARRAY(graph->n_nodes, t.backward)));
    find_last_reader_of_values(graph, last);
    find_times(graph, by_segments, &t);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        RK_GOTO(add_intervals_of_node(&p, &t, graph, graph->nodes[i], last[i], samples, layout, training,
                                      &places[i]));
    }
    RK_GOTO(assign_offsets_to_intervals(&p, total));
    for (size_t i = 0; i < p.n; i++) *p.pieces[i].place = p.pieces[i].offset;
done:
    RK_FREE_ALL(p.pieces, last, t.forward, t.backward);
    return status;
}

rk_status rk_graph_plan_memory(rk_graph *graph) {
    rk_place *places;
    choose_micro_batch_size(graph);
    if (!graph->training) graph->node_by_node = true; /* predictions share memory between all nodes */
    find_used_values(graph);
    if (graph->training) rk_graph_join_norms(graph);
    find_first_gradient_writers(graph);
    RK_TRY(find_partial_batch_nodes(graph));
    RK_TRY(rk_alloc(graph->n_nodes, sizeof *places, &places));
    rk_status status =
        rk_graph_assign_memory(graph, graph->keeps ? graph->max_batch : graph->block, graph->training,
                               graph->keeps, NULL, places, &graph->memory_reals);
    for (size_t i = 0; i < graph->n_nodes && status == RK_OK; i++) graph->nodes[i]->place = places[i];
    rk_free(places);
    return status;
}

/* Enough groups for many threads, each long enough that adding up its gradients costs little. */
static int64_t choose_group_size(const rk_graph *graph, int64_t n) {
    int64_t samples = (n + MAX_GROUPS - 1) / MAX_GROUPS;
    samples = samples < MIN_GROUP ? MIN_GROUP : samples > MAX_GROUP ? MAX_GROUP : samples;
    return (samples + graph->block - 1) / graph->block * graph->block;
}

static size_t count_groups_of_micro_batch(const rk_graph *graph, int64_t n) {
    return rk_block_count((size_t)n, (size_t)choose_group_size(graph, n));
}

size_t rk_graph_n_groups(const rk_graph *graph, int64_t n) {
    size_t n_whole = (size_t)(n / graph->micro_batch);
    return n_whole * count_groups_of_micro_batch(graph, graph->micro_batch) +
           count_groups_of_micro_batch(graph, n % graph->micro_batch);
}

void rk_graph_group_range(const rk_graph *graph, int64_t n, size_t group, int64_t *first, int64_t *last) {
    size_t a_micro_batch = count_groups_of_micro_batch(graph, graph->micro_batch),
           n_whole = (size_t)(n / graph->micro_batch), micro_batch = group / a_micro_batch;
    if (micro_batch > n_whole)
        micro_batch =
            n_whole; /* the last micro-batch, which is shorter, may have more groups than a whole one */
    int64_t begin = (int64_t)micro_batch * graph->micro_batch,
            end = begin + graph->micro_batch < n ? begin + graph->micro_batch : n;
    int64_t samples = choose_group_size(graph, end - begin);
    *first = begin + (int64_t)(group - micro_batch * a_micro_batch) * samples;
    *last = *first + samples < end ? *first + samples : end;
}

int64_t rk_graph_micro_batch_size(const rk_graph *graph) {
    return graph->micro_batch;
}

size_t rk_graph_n_micro_batches(const rk_graph *graph, int64_t n) {
    return rk_block_count((size_t)n, (size_t)graph->micro_batch);
}

size_t rk_graph_blocks_of_micro_batch(const rk_graph *graph) {
    return rk_block_count((size_t)graph->micro_batch, (size_t)graph->block);
}

size_t rk_graph_n_blocks(const rk_graph *graph, int64_t n) {
    return rk_block_count((size_t)n, (size_t)graph->block); /* a group is a whole number of blocks */
}

size_t rk_graph_block_number_of_run(const rk_run *run) {
    return (size_t)(run->first / run->graph->block);
}
