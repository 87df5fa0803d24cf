#include "train/limits.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "kernels/kernels.h"
#include "nn/gemm.h"

enum { TABLE_BYTES = 1 << 28, BAGS = 4096, TASKS = 64, ROWS = 256, REPEATS = 3 };

typedef struct gathering {
    rk_rows rows;
    int64_t *ids;           /* [TASKS * BAGS] */
    float *out;             /* [TASKS * BAGS, dim] */
} gathering;

static void gather(void *context, size_t task, int thread) {
    (void)thread;
    const gathering *g = context;
    rk_bag_forward(&(rk_bag_forward_args){.rows = g->rows, .single = true, .ids = g->ids + task * BAGS, .out = g->out + (int64_t)task * BAGS * g->rows.dim,
                                          .stride = g->rows.dim, .first = 0, .last = BAGS});
}

/* The shortest of some times that all tasks take, the first of which is not counted: memory is touched first then. */
static double best_seconds(size_t n_tasks, rk_task task, void *context) {
    double best = 0;
    for (int r = 0; r <= REPEATS; r++) {
        double begin = rk_clock_seconds();
        rk_parallel_for(n_tasks, task, context);
        double passed = rk_clock_seconds() - begin;
        if (r == 1 || (r && passed < best)) best = passed;
    }
    return best;
}

rk_status rk_limit_gather(int32_t dim, double *out) {
    gathering g = {.rows = {.dtype = RK_F32, .dim = dim}};
    int64_t n_rows = TABLE_BYTES / (4 * (int64_t)dim);
    rk_rng rng = {1, 2, 0};
    rk_status status;
    size_t bytes = (size_t)(n_rows * dim) * sizeof(float);
    void *pages = NULL;
    RK_GOTO(rk_pages_alloc(bytes, &pages));
    g.rows.data = pages;
    for (size_t at = 0; at < bytes / sizeof(float); at += 512) ((float *)pages)[at] = 1; /* pages that are only read would all be one page of zeros */
    RK_GOTO(rk_alloc(TASKS * BAGS, sizeof *g.ids, &g.ids));
    RK_GOTO(rk_alloc((size_t)(TASKS * BAGS) * (size_t)dim, sizeof *g.out, &g.out));
    for (int64_t i = 0; i < TASKS * BAGS; i++) g.ids[i] = (int64_t)rk_rng_below(&rng, (uint64_t)n_rows);
    *out = 2.0 * TASKS * BAGS * dim * sizeof(float) / best_seconds(TASKS, gather, &g);
done:
    rk_pages_free(pages, bytes);
    rk_free(g.ids);
    rk_free(g.out);
    return status;
}

typedef struct multiplying {
    rk_matrix *matrix;
    float *x, *y, *workspace; /* a thread each */
    size_t x_width, y_width, workspace_bytes;
    size_t n_calls;
    rk_status status;
} multiplying;

static void multiply(void *context, size_t task, int thread) {
    (void)task;
    multiplying *m = context;
    size_t t = (size_t)thread;
    for (size_t i = 0; i < m->n_calls && m->status == RK_OK; i++) {
        rk_status status = rk_matrix_forward(m->matrix, ROWS, m->x + t * m->x_width, NULL, true, m->y + t * m->y_width, (char *)m->workspace + t * m->workspace_bytes);
        if (status != RK_OK) m->status = status;
    }
}

rk_status rk_limit_gemm(int64_t in, int64_t out_units, double *out) {
    multiplying m = {.x_width = (size_t)in * ROWS, .y_width = (size_t)out_units * ROWS};
    size_t n_threads = (size_t)rk_parallel_threads(), n_tasks = 8 * n_threads;
    float *w = NULL;
    rk_status status;
    RK_GOTO(rk_matrix_create(in, out_units, RK_F32, ROWS, &m.matrix));
    m.workspace_bytes = (rk_matrix_workspace(m.matrix) + 63) / 64 * 64;
    RK_GOTO(rk_alloc((size_t)(in * out_units), sizeof *w, &w));
    RK_GOTO(rk_alloc(n_threads * m.x_width, sizeof *m.x, &m.x));
    RK_GOTO(rk_alloc(n_threads * m.y_width, sizeof *m.y, &m.y));
    RK_GOTO(rk_alloc(n_threads, m.workspace_bytes, &m.workspace));
    RK_GOTO(rk_matrix_set(m.matrix, w, false));
    double flops = 2.0 * ROWS * (double)in * (double)out_units;
    m.n_calls = 1 + (size_t)(2e8 / flops);
    double seconds = best_seconds(n_tasks, multiply, &m);
    status = m.status;
    if (status == RK_OK) *out = flops * (double)(m.n_calls * n_tasks) / seconds;
done:
    rk_matrix_free(m.matrix);
    rk_free(w);
    rk_free(m.x);
    rk_free(m.y);
    rk_free(m.workspace);
    return status;
}
