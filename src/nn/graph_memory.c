/* Memory that threads run a graph in, and the sum of what they find: the parameters' gradients. */
#include <sched.h>
#include <string.h>

#include "base/memory.h"
#include "nn/graph_parts.h"

enum { SPINS = 200 };

static size_t bytes_of(int64_t reals) {
    return (size_t)reals * sizeof(rk_real);
}

void rk_graph_release_memory(rk_graph *g) {
    for (int t = 0; t < g->n_threads; t++) {
        rk_pages_free(g->thread_memory[t], bytes_of(g->memory_reals));
        rk_pages_free(g->thread_gradients[t], bytes_of(g->gradient_reals));
        rk_pages_free(g->thread_workspaces[t], g->workspace_bytes);
    }
    rk_free(g->thread_workspaces);
    rk_free(g->thread_memory);
    rk_free(g->thread_gradients);
    g->thread_memory = g->thread_gradients = NULL;
    g->thread_workspaces = NULL;
    g->n_threads = 0;
}

/* A thread that is reserved in part is released like the others. */
static rk_status reserve_thread(rk_graph *g, int t) {
    void *memory = NULL, *gradients = NULL, *workspace = NULL;
    rk_status status = RK_OK;
    if (t == 0 || !g->keeps) status = rk_pages_alloc(bytes_of(g->memory_reals), &memory);
    if (status == RK_OK && g->training) status = rk_pages_alloc(bytes_of(g->gradient_reals), &gradients);
    if (status == RK_OK) status = rk_pages_alloc(g->workspace_bytes, &workspace);
    g->thread_memory[t] = memory;
    g->thread_gradients[t] = gradients;
    g->thread_workspaces[t] = workspace;
    g->n_threads = t + 1;
    return status;
}

rk_status rk_graph_reserve(rk_graph *g) {
    int n = rk_parallel_threads();
    if (n <= g->n_threads) return RK_OK;
    RK_TRY(rk_realloc((size_t)n, sizeof *g->thread_memory, &g->thread_memory));
    RK_TRY(rk_realloc((size_t)n, sizeof *g->thread_gradients, &g->thread_gradients));
    RK_TRY(rk_realloc((size_t)n, sizeof *g->thread_workspaces, &g->thread_workspaces));
    rk_status status = RK_OK;
    while (status == RK_OK && g->n_threads < n) status = reserve_thread(g, g->n_threads);
    if (status != RK_OK) rk_graph_release_memory(g); /* none rather than some */
    return status;
}

void rk_graph_begin_gradients(rk_graph *g) {
    for (int s = 0; s < RK_GRADIENT_SLICES; s++) atomic_store(&g->turns[s], 0);
}

/* Groups are begun in order, so the one that is waited for is always under way. */
static void wait_for_turn(const atomic_size_t *turn, size_t group) {
    for (int i = 0; atomic_load_explicit(turn, memory_order_acquire) != group; i++) {
        if (i < SPINS) continue;
        sched_yield();
        i = 0;
    }
}

void rk_graph_add_gradients(rk_graph *g, size_t group, rk_real *gradients, int64_t first, int64_t last) {
    for (int s = 0; s < RK_GRADIENT_SLICES; s++) {
        int64_t begin = first + (last - first) * s / RK_GRADIENT_SLICES, end = first + (last - first) * (s + 1) / RK_GRADIENT_SLICES;
        wait_for_turn(&g->turns[s], group);
        rk_real *to = g->gradients;
        if (group == 0)
            for (int64_t i = begin; i < end; i++) to[i] = gradients[i];
        else
            for (int64_t i = begin; i < end; i++) to[i] += gradients[i];
        atomic_store_explicit(&g->turns[s], group + 1, memory_order_release);
        memset(gradients + begin, 0, bytes_of(end - begin));
    }
}
