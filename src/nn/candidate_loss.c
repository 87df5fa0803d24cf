#include "nn/candidate_loss.h"

#include <string.h>

#include "base/failure.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "kernels/kernels.h"
#include "kernels/lanes.h"
#include "nn/gemm.h"

/* ROWS samples are held against all candidates at once; the blocks of a group one after another, which share one sum of gradients. */
enum { ROWS = 64, MAX_GROUPS = 16, TILE = 64 };

typedef struct group {
    rk_real *scores;    /* [ROWS, n_cols] */
    rk_real *gradients; /* [dim, n_cols]: of the candidates, from the group's samples */
    void *workspace;
    double loss;
} group;

struct rk_candidate_loss {
    rk_candidate_loss_config config;
    int64_t n_cols;      /* room for candidates: a multiple of RK_LANES */
    size_t n_groups;     /* of a batch of max_n */
    rk_matrix *matrix;   /* the candidates [dim, n_cols] */
    rk_real *candidates; /* the same */
    rk_real *log_q;      /* [n_cols] */
    int32_t *ids;        /* [n_cols] */
    rk_real *own;        /* [max_n]: gradients of the scores of samples' own items */
    group groups[MAX_GROUPS];
    /* the batch under way */
    const rk_candidate_loss_args *args;
    size_t n_groups_now;
    int64_t first, n_candidates; /* items first .. first+n_candidates-1 are candidates */
    rk_failure failure;
};

static size_t groups_of(int64_t n) {
    size_t blocks = rk_blocks((size_t)n, ROWS);
    return blocks < MAX_GROUPS ? blocks : MAX_GROUPS;
}

static rk_status reserve(rk_candidate_loss *l) {
    const rk_candidate_loss_config *c = &l->config;
    size_t cols = (size_t)l->n_cols;
    RK_TRY(rk_matrix_create(c->dim, l->n_cols, RK_F32, ROWS, &l->matrix));
    RK_TRY(rk_alloc((size_t)c->dim * cols, sizeof *l->candidates, &l->candidates));
    RK_TRY(rk_alloc(cols, sizeof *l->log_q, &l->log_q));
    RK_TRY(rk_alloc(cols, sizeof *l->ids, &l->ids));
    RK_TRY(rk_alloc((size_t)c->max_n, sizeof *l->own, &l->own));
    for (size_t g = 0; g < l->n_groups; g++) {
        RK_TRY(rk_alloc(ROWS * cols, sizeof *l->groups[g].scores, &l->groups[g].scores));
        RK_TRY(rk_alloc((size_t)c->dim * cols, sizeof *l->groups[g].gradients, &l->groups[g].gradients));
        RK_TRY(rk_alloc(rk_matrix_workspace(l->matrix), 1, &l->groups[g].workspace));
    }
    return RK_OK;
}

rk_status rk_candidate_loss_create(const rk_candidate_loss_config *config, rk_candidate_loss **out) {
    rk_candidate_loss *l;
    RK_TRY(rk_alloc(1, sizeof *l, &l));
    l->config = *config;
    int64_t n = config->n_drawn + (config->in_batch ? config->max_n : 0);
    l->n_cols = (n + RK_LANES - 1) / RK_LANES * RK_LANES;
    l->n_groups = groups_of(config->max_n);
    rk_status status = reserve(l);
    if (status == RK_OK)
        *out = l;
    else
        rk_candidate_loss_free(l);
    return status;
}

void rk_candidate_loss_free(rk_candidate_loss *l) {
    if (!l) return;
    for (size_t g = 0; g < l->n_groups; g++) {
        rk_free(l->groups[g].scores);
        rk_free(l->groups[g].gradients);
        rk_free(l->groups[g].workspace);
    }
    rk_matrix_free(l->matrix);
    rk_free(l->candidates);
    rk_free(l->log_q);
    rk_free(l->ids);
    rk_free(l->own);
    rk_free(l);
}

/* Scores and gradients of each group, and the candidates, which are packed for two products. */
uint64_t rk_candidate_loss_bytes(const rk_candidate_loss *l) {
    uint64_t a_group = ROWS + (uint64_t)l->config.dim;
    return (l->n_groups * a_group + 3 * (uint64_t)l->config.dim) * (uint64_t)l->n_cols * sizeof(rk_real);
}

/* TILE of the candidates as columns; zeros where there are none. */
static void place_tile(void *context, size_t task, int thread) {
    (void)thread;
    rk_candidate_loss *l = context;
    int64_t dim = l->config.dim, begin = (int64_t)task * TILE, end = begin + TILE < l->n_cols ? begin + TILE : l->n_cols;
    for (int64_t c = begin; c < end; c++) {
        bool there = c < l->n_candidates;
        int64_t item = l->first + c;
        l->ids[c] = there ? l->args->ids[item] : -1;
        l->log_q[c] = there && l->args->log_q ? l->args->log_q[item] : 0;
        for (int64_t k = 0; k < dim; k++) l->candidates[k * l->n_cols + c] = there ? l->args->items[item * dim + k] : 0;
    }
}

static rk_status run_block(rk_candidate_loss *l, group *g, int64_t begin, int64_t n) {
    const rk_candidate_loss_args *a = l->args;
    const rk_candidate_loss_config *c = &l->config;
    int64_t dim = c->dim;
    const rk_real *users = a->users + begin * dim;
    RK_TRY(rk_matrix_forward(l->matrix, n, users, NULL, false, g->scores, g->workspace));
    for (int64_t r = 0; r < n; r++) {
        int64_t i = begin + r;
        rk_candidate_row_args row = {
            .kind = c->kind,
            .scores = g->scores + r * l->n_cols,
            .ids = l->ids,
            .log_q = l->log_q,
            .n = l->n_cols,
            .first_grouped = l->n_candidates - c->n_drawn,
            .n_grouped = c->n_drawn,
            .hard = c->hard,
            .own_id = a->ids[i],
            .own = rk_lanes_dot(users + r * dim, a->items + i * dim, dim),
            .own_log_q = a->log_q ? a->log_q[i] : 0,
            .temperature = c->temperature,
            .margin = c->margin,
            .negative_weight = c->negative_weight,
            .weight = a->scale * (a->weights ? (double)a->weights[i] : 1),
        };
        rk_candidate_row(&row);
        g->loss += row.loss;
        l->own[i] = row.own_gradient;
        for (int64_t k = 0; k < dim; k++) a->user_gradient[i * dim + k] = l->own[i] * a->items[i * dim + k];
    }
    RK_TRY(rk_matrix_input_gradient(l->matrix, n, g->scores, true, a->user_gradient + begin * dim, g->workspace));
    return rk_matrix_weight_gradient(l->matrix, n, users, g->scores, g->gradients, g->workspace);
}

static void run_group(void *context, size_t task, int thread) {
    (void)thread;
    rk_candidate_loss *l = context;
    group *g = &l->groups[task];
    size_t blocks = rk_blocks((size_t)l->args->n, ROWS);
    g->loss = 0;
    memset(g->gradients, 0, (size_t)(l->config.dim * l->n_cols) * sizeof *g->gradients);
    for (size_t b = blocks * task / l->n_groups_now; b < blocks * (task + 1) / l->n_groups_now; b++) {
        int64_t begin = (int64_t)b * ROWS, left = l->args->n - begin;
        rk_failure_keep(&l->failure, begin, run_block(l, g, begin, left < ROWS ? left : ROWS));
    }
}

/* Gradients of TILE items: of their columns, where they are candidates, and of their own samples' scores. */
static void sum_tile(void *context, size_t task, int thread) {
    (void)thread;
    rk_candidate_loss *l = context;
    const rk_candidate_loss_args *a = l->args;
    int64_t dim = l->config.dim, n_items = a->n + l->config.n_drawn, begin = (int64_t)task * TILE, end = begin + TILE < n_items ? begin + TILE : n_items;
    for (int64_t k = 0; k < dim; k++)
        for (int64_t i = begin; i < end; i++) {
            rk_real sum = i < a->n ? l->own[i] * a->users[i * dim + k] : 0;
            for (size_t g = 0; g < l->n_groups_now && i >= l->first; g++) sum += l->groups[g].gradients[k * l->n_cols + i - l->first];
            a->item_gradient[i * dim + k] = sum;
        }
}

rk_status rk_candidate_loss_run(rk_candidate_loss *l, const rk_candidate_loss_args *args, double *out) {
    RK_FAIL_IF(args->n < 1 || args->n > l->config.max_n, RK_INVALID_ARGUMENT, "a loss of %lld samples, made for up to %lld", (long long)args->n,
               (long long)l->config.max_n);
    l->args = args;
    l->n_groups_now = groups_of(args->n);
    l->first = l->config.in_batch ? 0 : args->n;
    l->n_candidates = args->n + l->config.n_drawn - l->first;
    l->failure = (rk_failure)RK_FAILURE_INIT;
    rk_parallel_for(rk_blocks((size_t)l->n_cols, TILE), place_tile, l);
    RK_TRY(rk_matrix_set(l->matrix, l->candidates, true));
    rk_parallel_for(l->n_groups_now, run_group, l);
    RK_TRY(rk_failure_status(&l->failure));
    rk_parallel_for(rk_blocks((size_t)(args->n + l->config.n_drawn), TILE), sum_tile, l);
    double loss = 0;
    for (size_t g = 0; g < l->n_groups_now; g++) loss += l->groups[g].loss;
    *out = loss;
    return RK_OK;
}
