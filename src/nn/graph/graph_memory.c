/* The memory in which threads run a graph. */
#include "base/memory.h"
#include "nn/graph/graph_internal.h"

static size_t bytes_for_reals(int64_t reals) {
    return (size_t)reals * sizeof(rk_real);
}

void rk_graph_release_memory(rk_graph *g) {
    for (int t = 0; t < g->n_threads; t++) {
        rk_pages_free(g->thread_memory[t], bytes_for_reals(g->memory_reals));
        rk_pages_free(g->thread_workspaces[t], g->workspace_bytes);
    }
    for (size_t b = 0; b < g->sum.n_buffers; b++)
        rk_pages_free(g->sum.buffers[b], bytes_for_reals(g->gradient_reals));
    for (int p = 1; p < g->sum.n_partials; p++)
        rk_pages_free(g->sum.partials[p], bytes_for_reals(g->gradient_reals));
    g->sum.n_partials = 0;
    RK_FREE_ALL(g->thread_memory, g->thread_workspaces, g->sum.buffers, g->sum.done);
    g->thread_memory = g->sum.buffers = NULL;
    g->thread_workspaces = NULL;
    g->sum.done = NULL;
    g->n_threads = 0;
    g->sum.n_buffers = 0;
}

/* A thread that is reserved in part is released like the others. */
static rk_status allocate_thread_memory(rk_graph *g, int t) {
    void *memory = NULL, *workspace = NULL;
    rk_status status = RK_OK;
    if (t == 0 || !g->keeps) status = rk_pages_alloc(bytes_for_reals(g->memory_reals), &memory);
    if (status == RK_OK) status = rk_pages_alloc(g->workspace_bytes, &workspace);
    g->thread_memory[t] = memory;
    g->thread_workspaces[t] = workspace;
    g->n_threads = t + 1;
    return status;
}

/* A sum of each height of the tree of micro-batches that run here, one that begins, and one below it. */
static rk_status allocate_partial_sums(rk_graph *g) {
    int wanted =
        g->local.n_micro_batches > 1 ? rk_tree_sum_level(0, (uint32_t)g->n_micro_batches - 1) + 2 : 1;
    g->sum.partials[0] = g->gradients;
    if (g->sum.n_partials == 0) g->sum.n_partials = 1;
    while (g->sum.n_partials < wanted) {
        RK_TRY(rk_pages_alloc(bytes_for_reals(g->gradient_reals), &g->sum.partials[g->sum.n_partials]));
        g->sum.n_partials++;
    }
    return RK_OK;
}

static rk_status allocate_gradient_buffers(rk_graph *g, size_t n) {
    RK_TRY(allocate_partial_sums(g));
    RK_TRY(rk_realloc(n, sizeof *g->sum.buffers, &g->sum.buffers));
    RK_TRY(rk_realloc(n, sizeof *g->sum.done, &g->sum.done));
    while (g->sum.n_buffers < n) {
        RK_TRY(rk_pages_alloc(bytes_for_reals(g->gradient_reals), &g->sum.buffers[g->sum.n_buffers]));
        atomic_init(&g->sum.done[g->sum.n_buffers++], 0);
    }
    return RK_OK;
}

rk_status rk_graph_allocate_memory(rk_graph *g) {
    int n = rk_parallel_threads();
    if (n <= g->n_threads) return RK_OK;
    rk_status status = g->training ? allocate_gradient_buffers(g, (size_t)n + RK_SPARE_GRADIENTS) : RK_OK;
    if (status == RK_OK) status = rk_realloc((size_t)n, sizeof *g->thread_memory, &g->thread_memory);
    if (status == RK_OK) status = rk_realloc((size_t)n, sizeof *g->thread_workspaces, &g->thread_workspaces);
    while (status == RK_OK && g->n_threads < n) status = allocate_thread_memory(g, g->n_threads);
    if (status != RK_OK) rk_graph_release_memory(g); /* none rather than some */
    return status;
}
