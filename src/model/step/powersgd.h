/* Sums of dense gradients over trainers by PowerSGD: of each large matrix of gradients travel only its
 * products with a few vectors (Vogels, Karimireddy, Jaggi: PowerSGD: Practical low-rank gradient compression
 * for distributed optimization, NeurIPS 2019, algorithms 1 and 2).
 *
 * Trainer t has M_t = gradients + residual [rows, cols] and, as all have, Q [cols, k]:
 *
 *     P   = sum over trainers of M_t Q, its columns made orthonormal
 *     Q'  = sum over trainers of M_t^T P
 *     all step with P Q'^T;   residual_t = M_t - P (M_t^T P)^T;   the next Q = Q', its columns of length 1
 *
 * So what was applied and all residuals are together all gradients, but for f32's rounding. A column of Q
 * that has become 0 is drawn anew. What is not in a large matrix travels whole. */
#ifndef RK_MODEL_STEP_POWERSGD_H
#define RK_MODEL_STEP_POWERSGD_H

#include "base/state_dict.h"
#include "comm/comm.h"
#include "model/step/residual.h"
#include "nn/graph/graph.h"

/* A matrix whose products travel; or gradients that travel whole. */
typedef struct rk_powersgd_matrix {
    int64_t rows, cols;
    size_t offset; /* among all gradients */
    size_t p, q;   /* where its vectors begin, [k, rows] and [k, cols] */
} rk_powersgd_matrix;
typedef struct rk_powersgd_range {
    size_t offset, n;
    size_t at; /* where they travel */
} rk_powersgd_range;

typedef struct rk_powersgd {
    int32_t n_vectors;
    rk_powersgd_matrix *matrices; /* [n_matrices] */
    size_t n_matrices;
    rk_powersgd_range *whole; /* [n_whole] */
    size_t n_whole;
    float *sent;       /* [n_sent]: P of each matrix, and what travels whole */
    float *q, *next_q; /* [n_q]: Q of each matrix, as its columns; the next one's of the step under way */
    size_t n_sent, n_q;
    size_t *row_begins, *col_begins; /* [n_matrices + 1]: a matrix's first block of rows, and of columns */
    rk_all_reduce *sum;              /* NULL: none is under way */
    float *gradients;                /* of the step under way */
} rk_powersgd;

/* n_vectors, which every large matrix has: more than 0. A matrix is large if what travels of it is less than
 * half of it. Where there is one trainer, nothing is. Zero-initialize; release after a failure too. */
rk_status rk_powersgd_init(rk_powersgd *powersgd, rk_graph *graph, int32_t n_vectors, int32_t n_trainers);
void rk_powersgd_release(rk_powersgd *powersgd); /* a zeroed one is fine */

/* All trainers call begin and then finish, each step. begin adds the residual to the gradients and starts
 * their sums. finish ends with the sums in the gradients' place and with the next residual; or, if any
 * trainer has failed (is_wanted false, on all), with neither. A gradient that is not finite makes its whole
 * matrix NaN. gradients, residual: of all parameters of the graph. */
rk_status rk_powersgd_begin(rk_powersgd *powersgd, rk_comm *trainers, float *gradients,
                            const rk_residual *residual);
rk_status rk_powersgd_finish(rk_powersgd *powersgd, rk_comm *trainers, bool is_wanted,
                             const rk_residual *residual);
/* The step that was under way changes the parameters. */
void rk_powersgd_accept(rk_powersgd *powersgd);

/* How many values of the graph's gradients travel; with 0 vectors, all. */
size_t rk_powersgd_count_values(rk_graph *graph, int32_t n_vectors);

/* Q as a tensor of a checkpoint, beside residuals. Read of another number of vectors it is left as it is. */
#define RK_POWERSGD_Q RK_RESIDUAL_PREFIX "powersgd_q"
rk_status rk_powersgd_state_dict(rk_powersgd *powersgd, rk_state_dict *state);
void rk_powersgd_read(rk_powersgd *powersgd, size_t n, const void *values); /* values: at any byte */

#endif
