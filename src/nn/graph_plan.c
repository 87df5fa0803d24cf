/* Memory for a graph: every value, gradient and piece of scratch lives from its first to its last use, and pieces whose lives do not
 * meet share memory. Time: node i runs forward at i and backward at 2N-1-i. */
#include <stdlib.h>

#include "base/memory.h"
#include "nn/graph_parts.h"

typedef struct piece {
    rk_real **place;     /* the pointer to fill in */
    size_t bytes, offset;
    int64_t birth, death;
    size_t order;
} piece;

typedef struct planner {
    piece *pieces; /* [n] */
    size_t n, capacity;
} planner;

static rk_status add_piece(planner *p, rk_real **place, int64_t reals, int64_t birth, int64_t death) {
    if (reals == 0) return RK_OK;
    RK_TRY(rk_grow(&p->pieces, p->n, &p->capacity, sizeof *p->pieces));
    size_t bytes = ((size_t)reals * sizeof(rk_real) + 63) / 64 * 64;
    p->pieces[p->n] = (piece){place, bytes, 0, birth, death, p->n};
    p->n++;
    return RK_OK;
}

static int larger_first(const void *a, const void *b) {
    const piece *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int by_offset(const void *a, const void *b) {
    const piece *x = *(const piece *const *)a, *y = *(const piece *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Largest first, each at the lowest offset where it meets no piece that lives at the same time. */
static rk_status place_pieces(planner *p, size_t *total) {
    const piece **alive;
    RK_TRY(rk_alloc(p->n, sizeof *alive, &alive));
    qsort(p->pieces, p->n, sizeof *p->pieces, larger_first);
    *total = 0;
    for (size_t i = 0; i < p->n; i++) {
        piece *now = &p->pieces[i];
        size_t n_alive = 0;
        for (size_t j = 0; j < i; j++)
            if (p->pieces[j].birth <= now->death && now->birth <= p->pieces[j].death) alive[n_alive++] = &p->pieces[j];
        if (n_alive) qsort(alive, n_alive, sizeof *alive, by_offset);
        size_t at = 0;
        for (size_t j = 0; j < n_alive; j++) {
            if (alive[j]->offset >= at + now->bytes) break;
            if (alive[j]->offset + alive[j]->bytes > at) at = alive[j]->offset + alive[j]->bytes;
        }
        now->offset = at;
        if (at + now->bytes > *total) *total = at + now->bytes;
    }
    rk_free(alive);
    return RK_OK;
}

/* The last node that reads a value, itself or through views of it. */
static rk_status last_consumers(const rk_graph *graph, int64_t *last) {
    for (size_t i = 0; i < graph->n_nodes; i++) last[i] = (int64_t)i;
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i]->n_inputs; k++) last[rk_graph_root(graph, graph->nodes[i]->inputs[k])->number] = (int64_t)i;
    return RK_OK;
}

static rk_status add_node(planner *p, const rk_graph *graph, rk_node *node, int64_t last) {
    int64_t N = (int64_t)graph->n_nodes, i = node->number, end = 2 * N, back = 2 * N - 1 - i, batch = graph->max_batch;
    int64_t blocks = (int64_t)rk_blocks((size_t)batch, RK_ROW_BLOCK);
    bool train = graph->training, stays = node->is_output || !node->op;
    if (!(node->op && node->op->is_view)) {
        int64_t width = rk_width(node->shape) * batch;
        RK_TRY(add_piece(p, &node->data, width, node->op ? i : 0, stays ? end : train ? back : last));
        /* An output's gradient is written by the caller between forward and backward; an input's is read after the end. */
        int64_t birth = node->is_output ? N - 1 : 2 * N - 1 - last;
        if (train) RK_TRY(add_piece(p, &node->gradient, width, birth, node->op ? back : end));
    }
    if (train) RK_TRY(add_piece(p, &node->saved, node->saved_width * batch, i, back));
    if (!train) RK_TRY(add_piece(p, &node->saved, node->saved_width * batch, i, i));
    RK_TRY(add_piece(p, &node->fixed, node->fixed_width, i, train ? back : i));
    RK_TRY(add_piece(p, &node->scratch, node->scratch_width * batch, i, train ? back : i));
    return add_piece(p, &node->partials, node->partial_width * blocks, i, train ? back : i);
}

rk_status rk_graph_plan(rk_graph *graph) {
    planner p = {0};
    int64_t *last = NULL;
    size_t total;
    void *arena;
    rk_status status;
    RK_GOTO(rk_alloc(graph->n_nodes, sizeof *last, &last));
    RK_GOTO(last_consumers(graph, last));
    for (size_t i = 0; i < graph->n_nodes; i++) RK_GOTO(add_node(&p, graph, graph->nodes[i], last[i]));
    RK_GOTO(place_pieces(&p, &total));
    RK_GOTO(rk_pages_alloc(total, &arena));
    graph->arena = arena;
    graph->arena_bytes = total;
    for (size_t i = 0; i < p.n; i++) *p.pieces[i].place = (rk_real *)(void *)((char *)arena + p.pieces[i].offset);
done:
    rk_free(p.pieces);
    rk_free(last);
    return status;
}
