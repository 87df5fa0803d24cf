/* The parameters' gradients of a batch: sums over groups of samples, added in the order of the groups, so
 * that the bits do not depend on threads. */
#include <sched.h>
#include <string.h>

#include "kernels/kernels.h"
#include "nn/graph/graph_internal.h"

enum { MIN_SLICES = 16, SLICE_REALS = 1 << 14 };

/* Enough for many threads, and fine enough that a part of large gradients is whole early. */
static int choose_gradient_slice_count(int64_t n_values) {
    int64_t wanted = n_values / SLICE_REALS;
    return wanted < MIN_SLICES               ? MIN_SLICES
           : wanted > RK_MAX_GRADIENT_SLICES ? RK_MAX_GRADIENT_SLICES
                                             : (int)wanted;
}

static void call_ready_hook(const rk_gradient_sum *sum, int64_t first) {
    if (sum->hooks->ready)
        rk_parallel_failure_record(sum->failure, sum->n, sum->hooks->ready(sum->hooks->context, first));
}

/* What the groups add to; the first block of each writes the rest. */
static void clear_gradients(const rk_graph *g, rk_real *gradients, int64_t first, int64_t last) {
    for (size_t i = 0; i < g->n_parameters && first < last; i++) {
        const rk_parameter *p = &g->parameters[i];
        int64_t end = p->offset + p->rows * p->cols;
        if (!p->is_written || end <= first || p->offset >= last) continue;
        if (p->offset > first) memset(gradients + first, 0, (size_t)(p->offset - first) * sizeof *gradients);
        first = end;
    }
    if (first < last) memset(gradients + first, 0, (size_t)(last - first) * sizeof *gradients);
}

void rk_gradient_sum_begin(rk_graph *g, const rk_run *run, int64_t first, int64_t last,
                           const rk_graph_hooks *hooks, rk_parallel_failure *failure) {
    g->sum.n = run->here;
    g->sum.n_groups = rk_graph_n_groups(g, run->here);
    g->sum.first_micro_batch = (uint32_t)(run->base / g->micro_batch);
    g->sum.first = first;
    g->sum.last = last;
    g->sum.n_slices = choose_gradient_slice_count(last - first);
    g->sum.hooks = hooks;
    g->sum.failure = failure;
    atomic_flag_clear(&g->sum.telling);
    atomic_store(&g->sum.told, g->sum.n_slices);
    for (size_t b = 0; b < g->sum.n_buffers; b++) atomic_store(&g->sum.done[b], 0);
    for (int s = 0; s < g->sum.n_slices; s++) {
        atomic_flag_clear(&g->sum.slices[s].busy);
        atomic_store(&g->sum.slices[s].next, 0);
        g->sum.slices[s].tree.depth = 0;
    }
    if (g->sum.n_groups > 0) {
        clear_gradients(g, g->sum.partials[0], first, last);
        return;
    }
    memset(g->gradients + first, 0, (size_t)(last - first) * sizeof *g->gradients);
    call_ready_hook(&g->sum, first);
}

static int64_t first_value_of_slice(const rk_gradient_sum *sum, int slice) {
    return sum->first + (sum->last - sum->first) * slice / sum->n_slices;
}

/* What `done` says when a group is done with a slice and those behind it. */
static size_t group_done_marker(const rk_gradient_sum *sum, size_t group, int slice) {
    return (group + 1) * (size_t)sum->n_slices - (size_t)slice;
}

/* Whether the next group of a slice is done with it. */
static bool is_next_group_done(const rk_gradient_sum *sum, int slice) {
    size_t next = atomic_load(&sum->slices[slice].next);
    return next < sum->n_groups &&
           atomic_load(&sum->done[next % sum->n_buffers]) >= group_done_marker(sum, next, slice);
}

static void add_gradient_range(rk_real *to, const rk_real *from, int64_t first, int64_t last) {
    rk_values_add(from + first, last - first, to + first);
}

static void join_partial_sums(const rk_gradient_sum *sum, rk_tree_sum *tree, int64_t first, int64_t last) {
    rk_tree_sum_join(tree);
    add_gradient_range(sum->partials[tree->depth - 1], sum->partials[tree->depth], first, last);
}

static rk_real *gradient_buffer_of_group(const rk_gradient_sum *sum, size_t group) {
    return group == 0 ? sum->partials[0] : sum->buffers[group % sum->n_buffers];
}

/* The first group of a micro-batch begins a sum of its own; after the last group of all, one sum is left. */
static void add_next_group_to_slice(rk_graph *g, int number) {
    rk_gradient_sum *sum = &g->sum;
    struct rk_gradient_slice *slice = &sum->slices[number];
    rk_tree_sum *tree = &slice->tree;
    size_t group = atomic_load(&slice->next);
    int64_t first = first_value_of_slice(sum, number), last = first_value_of_slice(sum, number + 1),
            first_sample, last_sample;
    rk_graph_group_range(g, sum->n, group, &first_sample, &last_sample);
    bool begins = first_sample % g->micro_batch == 0;
    if (begins) {
        uint32_t micro_batch = sum->first_micro_batch + (uint32_t)(first_sample / g->micro_batch);
        while (rk_tree_sum_must_join(tree, micro_batch)) join_partial_sums(sum, tree, first, last);
        rk_tree_sum_push(tree, micro_batch);
    }
    rk_real *from = gradient_buffer_of_group(sum, group), *to = sum->partials[tree->depth - 1];
    if (to != from) {
        if (begins)
            memcpy(to + first, from + first, (size_t)(last - first) * sizeof *from);
        else
            add_gradient_range(to, from, first, last);
        clear_gradients(g, from, first, last);
    }
    while (group + 1 == sum->n_groups && tree->depth > 1) join_partial_sums(sum, tree, first, last);
    atomic_store(&slice->next, group + 1);
}

static bool is_slice_to_report(const rk_gradient_sum *sum) {
    int told = atomic_load(&sum->told);
    return told > 0 && atomic_load(&sum->slices[told - 1].next) == sum->n_groups;
}

static void report_complete_slices(rk_gradient_sum *sum) {
    while (is_slice_to_report(sum) && !atomic_flag_test_and_set(&sum->telling)) {
        while (is_slice_to_report(sum)) {
            int told = atomic_fetch_sub(&sum->told, 1) - 1;
            if (!is_slice_to_report(sum)) call_ready_hook(sum, first_value_of_slice(sum, told));
        }
        atomic_flag_clear(&sum->telling);
    }
}

/* Add what is due to each slice that no other thread adds to; look again after letting go, for what became
 * due meanwhile. */
static void add_ready_groups(rk_graph *g) {
    for (int s = g->sum.n_slices; s-- > 0;) {
        struct rk_gradient_slice *slice = &g->sum.slices[s];
        while (is_next_group_done(&g->sum, s) && !atomic_flag_test_and_set(&slice->busy)) {
            while (is_next_group_done(&g->sum, s)) add_next_group_to_slice(g, s);
            atomic_flag_clear(&slice->busy);
        }
    }
    if (g->sum.hooks->ready) report_complete_slices(&g->sum);
}

static size_t first_unfinished_group(const rk_gradient_sum *sum) {
    size_t least = atomic_load(&sum->slices[0].next);
    for (int s = 1; s < sum->n_slices; s++) {
        size_t next = atomic_load(&sum->slices[s].next);
        if (next < least) least = next;
    }
    return least;
}

/* A buffer is free when all slices of its last group have been added. There are more buffers than threads, so
 * that is nearly always so. */
rk_real *rk_gradient_sum_acquire_buffer(rk_graph *g, size_t group) {
    size_t n = g->sum.n_buffers;
    while (group >= n && first_unfinished_group(&g->sum) < group - n + 1) {
        add_ready_groups(g);
        sched_yield();
    }
    return gradient_buffer_of_group(&g->sum, group);
}

void rk_gradient_sum_finish_group(rk_graph *g, size_t group, int64_t first) {
    rk_gradient_sum *sum = &g->sum;
    int slice = sum->n_slices;
    while (slice > 0 && first_value_of_slice(sum, slice - 1) >= first) slice--;
    atomic_store(&sum->done[group % sum->n_buffers], group_done_marker(sum, group, slice));
    add_ready_groups(g);
}
