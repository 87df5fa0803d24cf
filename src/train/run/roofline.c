#include "train/run/roofline.h"

#include "base/thread/clock.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "kernels/kernels.h"
#include "gemm/gemm.h"

enum {
    LARGE_TABLE_BYTES = 1 << 28,
    SMALL_TABLE_BYTES = 1 << 16,
    BAGS = 4096,
    BLOCK = 256,
    TASKS = 64,
    ROWS = 256,
    TURNS = 3
};

typedef struct gathering {
    rk_rows rows;
    size_t bytes; /* of the rows */
    int64_t *ids; /* [TASKS * BAGS] */
    float *out;   /* [threads, BLOCK, dim]: a block of samples at a time, as a step has them */
} gathering;

typedef struct multiplying {
    rk_packed_matrix *matrix;
    float *w, *x, *y, *workspace; /* x, y, workspace: a thread each */
    size_t x_width, y_width, workspace_bytes;
    size_t n_calls;
    rk_status status;
} multiplying;

struct rk_roofline {
    rk_task task;
    size_t n_tasks;
    double work; /* of a turn */
    double seconds, shortest, longest;
    int n_turns;
    gathering gathering; /* one of these */
    multiplying multiplying;
};

static void run_row_gather(void *context, size_t task, int thread) {
    const rk_roofline *roofline = context;
    const gathering *g = &roofline->gathering;
    for (size_t first = 0; first < BAGS; first += BLOCK)
        rk_bag_forward(&(rk_bag_forward_args){.rows = g->rows,
                                              .single = true,
                                              .ids = g->ids + task * BAGS + first,
                                              .out = g->out + (int64_t)thread * BLOCK * g->rows.dim,
                                              .stride = g->rows.dim,
                                              .first = 0,
                                              .last = BLOCK});
}

rk_status rk_roofline_run_turn(rk_roofline *roofline) {
    double begin = rk_clock_seconds();
    rk_parallel_for(roofline->n_tasks, roofline->task, roofline);
    double passed = rk_clock_seconds() - begin;
    roofline->seconds += passed;
    if (roofline->n_turns == 0 || passed < roofline->shortest) roofline->shortest = passed;
    if (passed > roofline->longest) roofline->longest = passed;
    roofline->n_turns++;
    return roofline->multiplying.status;
}

/* The first turn touches memory, and is not counted. */
static rk_status run_warm_up_turn(rk_roofline *roofline) {
    RK_TRY(rk_roofline_run_turn(roofline));
    roofline->seconds = roofline->longest = 0;
    roofline->n_turns = 0;
    return RK_OK;
}

double rk_roofline_mean_rate(const rk_roofline *roofline) {
    return roofline->work * roofline->n_turns / roofline->seconds;
}

double rk_roofline_spread(const rk_roofline *roofline) {
    return roofline->longest / roofline->shortest;
}

void rk_roofline_free(rk_roofline *roofline) {
    if (!roofline) return;
    multiplying *m = &roofline->multiplying;
    rk_pages_free(roofline->gathering.rows.data, roofline->gathering.bytes);
    rk_packed_matrix_free(m->matrix);
    RK_FREE_ALL(roofline->gathering.ids, roofline->gathering.out, m->w, m->x, m->y, m->workspace);
    rk_free(roofline);
}

static rk_status allocate_gather_workload(rk_roofline *roofline, int32_t dim, uint64_t table_bytes) {
    gathering *g = &roofline->gathering;
    uint64_t most = table_bytes > LARGE_TABLE_BYTES ? LARGE_TABLE_BYTES : table_bytes,
             bytes = most < SMALL_TABLE_BYTES ? SMALL_TABLE_BYTES : most;
    int64_t n_rows = (int64_t)bytes / (4 * (int64_t)dim);
    rk_rng rng = {1, 2, 0};
    g->rows = (rk_rows){.dtype = RK_F32, .dim = dim};
    g->bytes = (size_t)(n_rows * dim) * sizeof(float);
    RK_TRY(rk_pages_alloc(g->bytes, &g->rows.data));
    float *values = g->rows.data; /* pages that are only read would all be one page of zeros */
    for (size_t at = 0; at < g->bytes / sizeof(float); at += 512) values[at] = 1;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(TASKS * BAGS, g->ids),
                        RK_ARRAY((size_t)rk_parallel_threads() * BLOCK * (size_t)dim, g->out)));
    for (int64_t i = 0; i < TASKS * BAGS; i++) g->ids[i] = (int64_t)rk_rng_below(&rng, (uint64_t)n_rows);
    roofline->task = run_row_gather;
    roofline->n_tasks = TASKS;
    roofline->work = 2.0 * TASKS * BAGS * dim * sizeof(float);
    return run_warm_up_turn(roofline);
}

static rk_status allocate_roofline(rk_roofline **out) {
    return rk_alloc(1, sizeof **out, out);
}

static rk_status return_or_free_roofline(rk_roofline *roofline, rk_status status, rk_roofline **out) {
    if (status == RK_OK)
        *out = roofline;
    else
        rk_roofline_free(roofline);
    return status;
}

rk_status rk_roofline_create_gather(int32_t dim, uint64_t table_bytes, rk_roofline **out) {
    rk_roofline *roofline;
    RK_TRY(allocate_roofline(&roofline));
    return return_or_free_roofline(roofline, allocate_gather_workload(roofline, dim, table_bytes), out);
}

static void run_matrix_multiply(void *context, size_t task, int thread) {
    (void)task;
    multiplying *m = &((rk_roofline *)context)->multiplying;
    size_t t = (size_t)thread;
    for (size_t i = 0; i < m->n_calls && m->status == RK_OK; i++) {
        rk_status status =
            rk_packed_matrix_forward(m->matrix, ROWS, m->x + t * m->x_width, NULL, true,
                                     m->y + t * m->y_width, (char *)m->workspace + t * m->workspace_bytes);
        if (status != RK_OK) m->status = status;
    }
}

static rk_status allocate_gemm_workload(rk_roofline *roofline, int64_t in, int64_t out_units) {
    multiplying *m = &roofline->multiplying;
    size_t n_threads = (size_t)rk_parallel_threads();
    m->x_width = (size_t)in * ROWS;
    m->y_width = (size_t)out_units * ROWS;
    RK_TRY(rk_packed_matrix_create(in, out_units, RK_F32, ROWS, &m->matrix));
    m->workspace_bytes = (rk_packed_matrix_workspace_bytes(m->matrix) + 63) / 64 * 64;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)(in * out_units), m->w), RK_ARRAY(n_threads * m->x_width, m->x),
                        RK_ARRAY(n_threads * m->y_width, m->y),
                        {n_threads, m->workspace_bytes, &m->workspace}));
    RK_TRY(rk_packed_matrix_set_weights(m->matrix, m->w, true));
    double flops = 2.0 * ROWS * (double)in * (double)out_units;
    m->n_calls = 1 + (size_t)(2e8 / flops);
    roofline->task = run_matrix_multiply;
    roofline->n_tasks = 8 * n_threads;
    roofline->work = flops * (double)(m->n_calls * roofline->n_tasks);
    return run_warm_up_turn(roofline);
}

rk_status rk_roofline_create_gemm(int64_t in, int64_t out_units, rk_roofline **out) {
    rk_roofline *roofline;
    RK_TRY(allocate_roofline(&roofline));
    return return_or_free_roofline(roofline, allocate_gemm_workload(roofline, in, out_units), out);
}

/* The best of some turns. */
static rk_status measure_best_rate(rk_roofline *roofline, double *out) {
    rk_status status = RK_OK;
    for (int i = 0; i < TURNS && status == RK_OK; i++) status = rk_roofline_run_turn(roofline);
    if (status == RK_OK) *out = roofline->work / roofline->shortest;
    rk_roofline_free(roofline);
    return status;
}

rk_status rk_roofline_gather(int32_t dim, double *out) {
    rk_roofline *roofline;
    RK_TRY(rk_roofline_create_gather(dim, UINT64_MAX, &roofline));
    return measure_best_rate(roofline, out);
}

rk_status rk_roofline_gemm(int64_t in, int64_t out_units, double *out) {
    rk_roofline *roofline;
    RK_TRY(rk_roofline_create_gemm(in, out_units, &roofline));
    return measure_best_rate(roofline, out);
}
