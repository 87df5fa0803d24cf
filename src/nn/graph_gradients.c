/* The parameters' gradients of a batch: sums over groups of samples, added in the order of the groups, so that the bits do not depend on threads. */
#include <sched.h>
#include <string.h>

#include "nn/graph_parts.h"

void rk_gradients_begin(rk_graph *g, const rk_run *run, int64_t first, int64_t last) {
    g->sum.n = run->here;
    g->sum.n_groups = rk_graph_n_groups(g, run->here);
    g->sum.first_shard = (uint32_t)(run->base / g->shard);
    g->sum.first = first;
    g->sum.last = last;
    for (size_t b = 0; b < g->sum.n_buffers; b++) atomic_store(&g->sum.done[b], 0);
    for (int s = 0; s < RK_GRADIENT_SLICES; s++) {
        atomic_flag_clear(&g->sum.slices[s].busy);
        atomic_store(&g->sum.slices[s].next, 0);
        g->sum.slices[s].tree.depth = 0;
    }
    if (g->sum.n_groups == 0) memset(g->gradients + first, 0, (size_t)(last - first) * sizeof *g->gradients);
}

static int64_t slice_begin(const rk_gradient_sum *sum, int slice) {
    return sum->first + (sum->last - sum->first) * slice / RK_GRADIENT_SLICES;
}

/* Whether the next group of a slice is done. */
static bool is_due(const rk_gradient_sum *sum, const struct rk_gradient_slice *slice) {
    size_t next = atomic_load(&slice->next);
    return next < sum->n_groups && atomic_load(&sum->done[next % sum->n_buffers]) == next + 1;
}

static void add(rk_real *to, const rk_real *from, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) to[i] += from[i];
}

static void join(const rk_gradient_sum *sum, rk_tree *tree, int64_t first, int64_t last) {
    rk_tree_join(tree);
    add(sum->partials[tree->depth - 1], sum->partials[tree->depth], first, last);
}

/* The first group of a shard begins a sum of its own; after the last group of all, one sum is left. */
static void add_next(rk_graph *g, int number) {
    rk_gradient_sum *sum = &g->sum;
    struct rk_gradient_slice *slice = &sum->slices[number];
    rk_tree *tree = &slice->tree;
    size_t group = atomic_load(&slice->next);
    int64_t first = slice_begin(sum, number), last = slice_begin(sum, number + 1), first_sample, last_sample;
    rk_graph_group(g, sum->n, group, &first_sample, &last_sample);
    rk_real *from = sum->buffers[group % sum->n_buffers];
    if (first_sample % g->shard == 0) {
        uint32_t shard = sum->first_shard + (uint32_t)(first_sample / g->shard);
        while (rk_tree_joins(tree, shard)) join(sum, tree, first, last);
        rk_tree_push(tree, shard);
        memcpy(sum->partials[tree->depth - 1] + first, from + first, (size_t)(last - first) * sizeof *from);
    } else {
        add(sum->partials[tree->depth - 1], from, first, last);
    }
    memset(from + first, 0, (size_t)(last - first) * sizeof *from);
    while (group + 1 == sum->n_groups && tree->depth > 1) join(sum, tree, first, last);
    atomic_store(&slice->next, group + 1);
}

/* Add what is due to each slice that no other thread adds to; look again after letting go, for what became due meanwhile. */
static void add_due(rk_graph *g) {
    for (int s = 0; s < RK_GRADIENT_SLICES; s++) {
        struct rk_gradient_slice *slice = &g->sum.slices[s];
        while (is_due(&g->sum, slice) && !atomic_flag_test_and_set(&slice->busy)) {
            while (is_due(&g->sum, slice)) add_next(g, s);
            atomic_flag_clear(&slice->busy);
        }
    }
}

static size_t least_next(const rk_gradient_sum *sum) {
    size_t least = atomic_load(&sum->slices[0].next);
    for (int s = 1; s < RK_GRADIENT_SLICES; s++) {
        size_t next = atomic_load(&sum->slices[s].next);
        if (next < least) least = next;
    }
    return least;
}

/* A buffer is free when all slices of its last group have been added. There are more buffers than threads, so that is nearly always so. */
rk_real *rk_gradients_take(rk_graph *g, size_t group) {
    size_t n = g->sum.n_buffers;
    while (group >= n && least_next(&g->sum) < group - n + 1) {
        add_due(g);
        sched_yield();
    }
    return g->sum.buffers[group % n];
}

void rk_gradients_done(rk_graph *g, size_t group) {
    atomic_store(&g->sum.done[group % g->sum.n_buffers], group + 1);
    add_due(g);
}
