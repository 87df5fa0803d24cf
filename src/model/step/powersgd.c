#include "model/step/powersgd.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/thread/parallel.h"
#include "base/thread/partition.h"
#include "kernels/kernels.h"

enum {
    LEAST_SAVING = 2,       /* a large matrix has so many times the values that travel of it */
    BLOCK_VALUES = 1 << 14, /* of some rows of a matrix, or one */
    BLOCK_COLUMNS = 128
};
static const double LEAST_LENGTH = 1e-6; /* of a column of P that is left beside those before it */

static bool is_large(const rk_parameter *p, int32_t n_vectors) {
    return n_vectors &&
           (double)LEAST_SAVING * n_vectors * (double)(p->rows + p->cols) < (double)p->rows * (double)p->cols;
}

size_t rk_powersgd_count_values(rk_graph *graph, int32_t n_vectors) {
    size_t n = 0;
    for (int32_t i = 0; i < rk_graph_n_parameters(graph); i++) {
        const rk_parameter *p = rk_graph_parameter(graph, i);
        n += (size_t)(is_large(p, n_vectors) ? n_vectors * (p->rows + p->cols) : p->rows * p->cols);
    }
    return n;
}

static size_t rows_of_block(const rk_powersgd_matrix *m) {
    return m->cols < BLOCK_VALUES ? (size_t)(BLOCK_VALUES / m->cols) : 1;
}

static void add_matrix(rk_powersgd *powersgd, const rk_parameter *p) {
    size_t i = powersgd->n_matrices++;
    rk_powersgd_matrix *m = &powersgd->matrices[i];
    *m = (rk_powersgd_matrix){p->rows, p->cols, (size_t)p->offset, powersgd->n_sent, powersgd->n_q};
    powersgd->n_sent += (size_t)(powersgd->n_vectors * p->rows);
    powersgd->n_q += (size_t)(powersgd->n_vectors * p->cols);
    powersgd->row_begins[i + 1] = powersgd->row_begins[i] + rk_block_count((size_t)p->rows, rows_of_block(m));
    powersgd->col_begins[i + 1] = powersgd->col_begins[i] + rk_block_count((size_t)p->cols, BLOCK_COLUMNS);
}

static void add_whole_range(rk_powersgd *powersgd, const rk_parameter *p) {
    size_t n = (size_t)(p->rows * p->cols);
    powersgd->whole[powersgd->n_whole++] = (rk_powersgd_range){(size_t)p->offset, n, powersgd->n_sent};
    powersgd->n_sent += n;
}

/* Column `column` of matrix i's Q, in [-1, 1): the same on all trainers. */
static void draw_column(const rk_powersgd_matrix *m, size_t i, int32_t column, float *out) {
    uint64_t stream = (uint64_t)i << 32 | (uint64_t)column;
    for (int64_t j = 0; j < m->cols; j++)
        out[j] = (float)(2 * rk_uniform_from_bits(rk_rng_u64(0, stream, (uint64_t)j)) - 1);
}

static float *column_of(float *columns, size_t begin, int32_t column, int64_t length) {
    return columns + begin + (size_t)column * (size_t)length;
}

rk_status rk_powersgd_init(rk_powersgd *powersgd, rk_graph *graph, int32_t n_vectors, int32_t n_trainers) {
    int32_t n = rk_graph_n_parameters(graph);
    powersgd->n_vectors = n_vectors;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)n, powersgd->matrices), RK_ARRAY((size_t)n, powersgd->whole),
                        RK_ARRAY((size_t)n + 1, powersgd->row_begins),
                        RK_ARRAY((size_t)n + 1, powersgd->col_begins)));
    for (int32_t i = 0; i < n; i++) {
        const rk_parameter *p = rk_graph_parameter(graph, i);
        if (n_trainers > 1 && is_large(p, n_vectors))
            add_matrix(powersgd, p);
        else
            add_whole_range(powersgd, p);
    }
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(powersgd->n_sent, powersgd->sent), RK_ARRAY(powersgd->n_q, powersgd->q),
                        RK_ARRAY(powersgd->n_q, powersgd->next_q)));
    for (size_t i = 0; i < powersgd->n_matrices; i++) {
        const rk_powersgd_matrix *m = &powersgd->matrices[i];
        for (int32_t k = 0; k < n_vectors; k++)
            draw_column(m, i, k, column_of(powersgd->q, m->q, k, m->cols));
    }
    return RK_OK;
}

void rk_powersgd_release(rk_powersgd *powersgd) {
    rk_all_reduce_free(powersgd->sum);
    RK_FREE_ALL(powersgd->matrices, powersgd->whole, powersgd->sent, powersgd->q, powersgd->next_q,
                powersgd->row_begins, powersgd->col_begins);
    *powersgd = (rk_powersgd){0};
}

typedef struct powersgd_step {
    rk_powersgd *powersgd;
    const rk_residual *residual;
} powersgd_step;

/* A block of rows of a matrix, and its vectors. */
static rk_low_rank_args block_of_rows(const rk_powersgd *powersgd, size_t task, float *q) {
    size_t i = rk_partition_find_item(powersgd->row_begins, powersgd->n_matrices, task);
    const rk_powersgd_matrix *m = &powersgd->matrices[i];
    int64_t first = (int64_t)((task - powersgd->row_begins[i]) * rows_of_block(m)),
            n = (int64_t)rows_of_block(m);
    float *values = powersgd->gradients + m->offset + first * m->cols;
    return (rk_low_rank_args){.rows = n < m->rows - first ? n : m->rows - first,
                              .cols = m->cols,
                              .n_vectors = powersgd->n_vectors,
                              .m = values,
                              .m_stride = m->cols,
                              .p = powersgd->sent + m->p + first,
                              .q = q + m->q,
                              .p_stride = m->rows,
                              .q_stride = m->cols,
                              .scale = 1,
                              .out = values};
}

static void compute_p(void *context, size_t task, int thread) {
    (void)thread;
    const powersgd_step *s = context;
    rk_low_rank_args block = block_of_rows(s->powersgd, task, s->powersgd->q);
    rk_values_add(s->residual->values + (block.m - s->powersgd->gradients), block.rows * block.cols,
                  block.out);
    rk_low_rank_times_columns(&block);
}

static rk_status begin_sum(rk_powersgd *powersgd, rk_comm *trainers, float *values, size_t n) {
    return rk_all_reduce_begin(trainers, RK_CHANNEL_DENSE, values, n, &powersgd->sum);
}

static rk_status end_sum(rk_powersgd *powersgd) {
    rk_status status = rk_all_reduce_wait(powersgd->sum);
    rk_all_reduce_free(powersgd->sum);
    powersgd->sum = NULL;
    return status;
}

rk_status rk_powersgd_begin(rk_powersgd *powersgd, rk_comm *trainers, float *gradients,
                            const rk_residual *residual) {
    powersgd_step s = {powersgd, residual};
    powersgd->gradients = gradients;
    rk_parallel_for(powersgd->row_begins[powersgd->n_matrices], compute_p, &s);
    for (size_t i = 0; i < powersgd->n_whole; i++) {
        const rk_powersgd_range *w = &powersgd->whole[i];
        for (size_t k = 0; k < w->n; k++)
            powersgd->sent[w->at + k] = gradients[w->offset + k] + residual->values[w->offset + k];
    }
    return begin_sum(powersgd, trainers, powersgd->sent, powersgd->n_sent);
}

static double dot_product(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * b[i];
    return sum;
}

static void scale_values(float *values, int64_t n, double factor) {
    for (int64_t i = 0; i < n; i++) values[i] = (float)(values[i] * factor);
}

/* What is left of it beside those before it, of length 1; 0 where that is only rounding. NaN stays. Twice,
 * as what is left may be small. */
static void orthonormalize_column(float *columns, int32_t column, int64_t n) {
    float *v = columns + column * n;
    for (int pass = 0; pass < 2; pass++) {
        double before = sqrt(dot_product(v, v, n));
        for (int32_t k = 0; k < column; k++) {
            double along = dot_product(v, columns + k * n, n);
            for (int64_t i = 0; i < n; i++) v[i] = (float)(v[i] - along * columns[k * n + i]);
        }
        double length = sqrt(dot_product(v, v, n));
        scale_values(v, n, length <= LEAST_LENGTH * before ? 0 : 1 / length);
    }
}

static void orthonormalize_p(void *context, size_t task, int thread) {
    (void)thread;
    const powersgd_step *s = context;
    const rk_powersgd_matrix *m = &s->powersgd->matrices[task];
    for (int32_t k = 0; k < s->powersgd->n_vectors; k++)
        orthonormalize_column(s->powersgd->sent + m->p, k, m->rows);
}

/* This trainer's part of Q', and what P and it leave of the matrix, some columns of both. */
static void compute_q_and_residual(void *context, size_t task, int thread) {
    (void)thread;
    const powersgd_step *s = context;
    const rk_powersgd *powersgd = s->powersgd;
    size_t i = rk_partition_find_item(powersgd->col_begins, powersgd->n_matrices, task);
    const rk_powersgd_matrix *m = &powersgd->matrices[i];
    int64_t first = (int64_t)(task - powersgd->col_begins[i]) * BLOCK_COLUMNS, left = m->cols - first;
    rk_low_rank_args block = {.rows = m->rows,
                              .cols = left < BLOCK_COLUMNS ? left : BLOCK_COLUMNS,
                              .n_vectors = powersgd->n_vectors,
                              .m = powersgd->gradients + m->offset + first,
                              .m_stride = m->cols,
                              .p = powersgd->sent + m->p,
                              .q = powersgd->next_q + m->q + first,
                              .p_stride = m->rows,
                              .q_stride = m->cols,
                              .scale = -1,
                              .out = s->residual->next + m->offset + first};
    rk_low_rank_times_rows(&block);
    rk_low_rank_add(&block);
}

static void multiply_p_and_q(void *context, size_t task, int thread) {
    (void)thread;
    const powersgd_step *s = context;
    rk_low_rank_args block = block_of_rows(s->powersgd, task, s->powersgd->next_q);
    memset(block.out, 0, (size_t)(block.rows * block.cols) * sizeof *block.out);
    rk_low_rank_add(&block);
}

/* Their lengths would else be those of gradients. */
static void normalize_next_q(void *context, size_t task, int thread) {
    (void)thread;
    const powersgd_step *s = context;
    const rk_powersgd_matrix *m = &s->powersgd->matrices[task];
    for (int32_t k = 0; k < s->powersgd->n_vectors; k++) {
        float *column = column_of(s->powersgd->next_q, m->q, k, m->cols);
        double length = sqrt(dot_product(column, column, m->cols));
        if (length == 0)
            draw_column(m, task, k, column);
        else
            scale_values(column, m->cols, 1 / length);
    }
}

static void take_whole_sums(rk_powersgd *powersgd, const rk_residual *residual) {
    for (size_t i = 0; i < powersgd->n_whole; i++) {
        const rk_powersgd_range *w = &powersgd->whole[i];
        memcpy(powersgd->gradients + w->offset, powersgd->sent + w->at, w->n * sizeof(float));
        memset(residual->next + w->offset, 0, w->n * sizeof(float));
    }
}

rk_status rk_powersgd_finish(rk_powersgd *powersgd, rk_comm *trainers, bool is_wanted,
                             const rk_residual *residual) {
    powersgd_step s = {powersgd, residual};
    RK_TRY(end_sum(powersgd));
    if (!is_wanted) return RK_OK;
    take_whole_sums(powersgd, residual);
    rk_parallel_for(powersgd->n_matrices, orthonormalize_p, &s);
    rk_parallel_for(powersgd->col_begins[powersgd->n_matrices], compute_q_and_residual, &s);
    RK_TRY(begin_sum(powersgd, trainers, powersgd->next_q, powersgd->n_q));
    RK_TRY(end_sum(powersgd));
    rk_parallel_for(powersgd->row_begins[powersgd->n_matrices], multiply_p_and_q, &s);
    rk_parallel_for(powersgd->n_matrices, normalize_next_q, &s);
    return RK_OK;
}

void rk_powersgd_accept(rk_powersgd *powersgd) {
    float *q = powersgd->q;
    powersgd->q = powersgd->next_q;
    powersgd->next_q = q;
}

rk_status rk_powersgd_state_dict(rk_powersgd *powersgd, rk_state_dict *state) {
    if (powersgd->n_q == 0) return RK_OK;
    RK_TRY(rk_state_dict_add(state, RK_POWERSGD_Q, RK_F32, (int64_t)powersgd->n_q, 0, powersgd->q));
    state->entries[state->n - 1].shared = true;
    return RK_OK;
}

void rk_powersgd_read(rk_powersgd *powersgd, size_t n, const void *values) {
    if (n == powersgd->n_q && n) memcpy(powersgd->q, values, n * sizeof *powersgd->q);
}
