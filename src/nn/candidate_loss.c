#include "nn/candidate_loss.h"

#include <string.h>

#include "base/thread/parallel_failure.h"
#include "base/integers.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "base/tree_sum.h"
#include "kernels/kernels.h"
#include "kernels/inline/lane_sum.h"
#include "gemm/gemm.h"

/* ROWS samples are held against all candidates at once; the blocks of a group one after another, which share
 * one sum of gradients. A micro-batch's blocks are dealt out to as many groups as make about MAX_GROUPS in
 * the whole batch. A LINE is the numbers of a cache line; sums are fetched AHEAD rows before they are needed.
 */
enum { ROWS = 64, MAX_GROUPS = 16, TILE = 64, LINE = 64 / sizeof(rk_real), AHEAD = 4 };
/* Rows of so many values, or of a multiple, begin in few sets of the caches, and push each other out. */
enum { FEW_SETS = 512 };

typedef struct group {
    rk_real *scores;    /* [ROWS, n_cols] */
    rk_real *gradients; /* [dim, n_cols]: of the candidates, from the group's samples */
    void *workspace;
    size_t first, last; /* blocks of the batch under way; none in some */
    double loss;
} group;

struct rk_candidate_loss {
    rk_candidate_loss_config config;
    int64_t n_cols;           /* room for candidates: a multiple of RK_LANES */
    size_t a_micro_batch;     /* groups of a micro-batch at most */
    rk_packed_matrix *matrix; /* the candidates [dim, n_cols] */
    rk_real *candidates;      /* the same */
    rk_real *log_q;           /* [n_cols] */
    int32_t *ids;             /* [n_cols] */
    rk_real *own;             /* [max_n]: gradients of the scores of samples' own items */
    group *groups;            /* [n_here, a_shard] */
    /* the batch under way */
    const rk_candidate_loss_args *args;
    int64_t first, n_candidates; /* items first .. first+n_candidates-1 are candidates */
    rk_parallel_failure failure;
};

static size_t count_groups(const rk_candidate_loss *l) {
    return (size_t)l->config.n_here * l->a_micro_batch;
}

/* The first block of n samples that is in the micro-batch or in one after it. */
static size_t first_block_of_micro_batch(int64_t n, int32_t n_micro_batches, int32_t micro_batch) {
    return rk_block_count((size_t)n, ROWS) * (size_t)micro_batch / (size_t)n_micro_batches;
}

int64_t rk_candidate_loss_first_sample(int64_t n, int32_t n_micro_batches, int32_t micro_batch) {
    int64_t cut = (int64_t)first_block_of_micro_batch(n, n_micro_batches, micro_batch) * ROWS;
    return cut < n ? cut : n;
}

/* A micro-batch's blocks, dealt out to its groups. */
static void assign_blocks_to_groups(rk_candidate_loss *l, int32_t here) {
    int32_t micro_batch = l->config.first_micro_batch + here;
    size_t begin = first_block_of_micro_batch(l->args->n, l->config.n_micro_batches, micro_batch),
           n = first_block_of_micro_batch(l->args->n, l->config.n_micro_batches, micro_batch + 1) - begin;
    size_t groups = n < l->a_micro_batch ? n : l->a_micro_batch;
    for (size_t i = 0; i < l->a_micro_batch; i++) {
        group *g = &l->groups[(size_t)here * l->a_micro_batch + i];
        g->first = begin + (i < groups ? n * i / groups : n);
        g->last = begin + (i < groups ? n * (i + 1) / groups : n);
    }
}

static rk_status allocate_score_memory(rk_candidate_loss *l) {
    const rk_candidate_loss_config *c = &l->config;
    size_t cols = (size_t)l->n_cols;
    RK_TRY(rk_packed_matrix_create(c->dim, l->n_cols, RK_F32, ROWS, &l->matrix));
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)c->dim * cols, l->candidates), RK_ARRAY(cols, l->log_q),
                        RK_ARRAY(cols, l->ids), RK_ARRAY((size_t)c->max_n, l->own),
                        RK_ARRAY(count_groups(l), l->groups)));
    for (size_t g = 0; g < count_groups(l); g++) {
        RK_TRY(RK_ALLOC_ALL(RK_ARRAY(ROWS * cols, l->groups[g].scores),
                            RK_ARRAY((size_t)c->dim * cols, l->groups[g].gradients),
                            {rk_packed_matrix_workspace_bytes(l->matrix), 1, &l->groups[g].workspace}));
    }
    return RK_OK;
}

rk_status rk_candidate_loss_create(const rk_candidate_loss_config *config, rk_candidate_loss **out) {
    rk_candidate_loss *l;
    RK_TRY(rk_alloc(1, sizeof *l, &l));
    l->config = *config;
    int64_t n = config->n_sampled + (config->in_batch ? config->max_n : 0);
    l->n_cols = (n + RK_LANES - 1) / RK_LANES * RK_LANES;
    if (l->n_cols % FEW_SETS == 0) l->n_cols += RK_LANES;
    if (config->n_micro_batches == 0) l->config.n_micro_batches = 1;
    if (config->n_here == 0) l->config.n_here = l->config.n_micro_batches;
    size_t blocks =
               rk_block_count(rk_block_count((size_t)config->max_n, ROWS), (size_t)l->config.n_micro_batches),
           groups = rk_block_count(MAX_GROUPS, (size_t)l->config.n_micro_batches);
    l->a_micro_batch = blocks < groups ? blocks : groups;
    rk_status status = allocate_score_memory(l);
    if (status == RK_OK)
        *out = l;
    else
        rk_candidate_loss_free(l);
    return status;
}

void rk_candidate_loss_free(rk_candidate_loss *l) {
    if (!l) return;
    for (size_t g = 0; g < count_groups(l) && l->groups; g++) {
        RK_FREE_ALL(l->groups[g].scores, l->groups[g].gradients, l->groups[g].workspace);
    }
    rk_free(l->groups);
    rk_packed_matrix_free(l->matrix);
    RK_FREE_ALL(l->candidates, l->log_q, l->ids, l->own, l);
}

/* Scores and gradients of each group, and the candidates, which are packed for two products. */
uint64_t rk_candidate_loss_bytes(const rk_candidate_loss *l) {
    uint64_t a_group = ROWS + (uint64_t)l->config.dim;
    return (count_groups(l) * a_group + 3 * (uint64_t)l->config.dim) * (uint64_t)l->n_cols * sizeof(rk_real);
}

/* TILE of the candidates as columns; zeros where there are none. */
static void transpose_candidate_tile(void *context, size_t task, int thread) {
    (void)thread;
    rk_candidate_loss *l = context;
    int64_t dim = l->config.dim, begin = (int64_t)task * TILE,
            end = begin + TILE < l->n_cols ? begin + TILE : l->n_cols;
    for (int64_t c = begin; c < end; c++) {
        bool there = c < l->n_candidates;
        int64_t item = l->first + c;
        l->ids[c] = there ? l->args->ids[item] : -1;
        l->log_q[c] = there && l->args->log_q ? l->args->log_q[item] : 0;
    }
    const int64_t last = rk_min_i64(end, l->n_candidates);
    if (begin < last)
        rk_values_transpose(l->args->items + (l->first + begin) * dim, last - begin, dim, dim,
                            l->candidates + begin, l->n_cols);
    for (int64_t c = begin < last ? last : begin; c < end; c++)
        for (int64_t k = 0; k < dim; k++) l->candidates[k * l->n_cols + c] = 0;
}

static rk_status compute_block_scores_and_gradients(rk_candidate_loss *l, group *g, int64_t begin, int64_t n,
                                                    bool opens) {
    const rk_candidate_loss_args *a = l->args;
    const rk_candidate_loss_config *c = &l->config;
    int64_t dim = c->dim;
    const rk_real *users = a->users + begin * dim;
    RK_TRY(rk_packed_matrix_forward(l->matrix, n, users, NULL, false, g->scores, g->workspace));
    for (int64_t r = 0; r < n; r++) {
        int64_t i = begin + r;
        rk_sample_candidate_loss_args row = {
            .kind = c->kind,
            .scores = g->scores + r * l->n_cols,
            .ids = l->ids,
            .log_q = l->log_q,
            .n = l->n_cols,
            .first_grouped = l->n_candidates - c->n_sampled,
            .n_grouped = c->n_sampled,
            .hard = c->hard,
            .own_id = a->ids[i],
            .own = rk_dot_product_by_lanes(users + r * dim, a->items + i * dim, dim),
            .own_log_q = a->log_q ? a->log_q[i] : 0,
            .temperature = c->temperature,
            .margin = c->margin,
            .negative_weight = c->negative_weight,
            .weight = a->scale * (a->weights ? (double)a->weights[i] : 1),
        };
        rk_sample_candidate_loss(&row);
        g->loss += row.loss;
        l->own[i] = row.own_gradient;
        for (int64_t k = 0; k < dim; k++) a->user_gradient[i * dim + k] = l->own[i] * a->items[i * dim + k];
    }
    return rk_packed_matrix_backward(l->matrix, n, users, g->scores, !opens, g->gradients, true,
                                     a->user_gradient + begin * dim, g->workspace);
}

static void run_blocks_of_group(void *context, size_t task, int thread) {
    (void)thread;
    rk_candidate_loss *l = context;
    group *g = &l->groups[task];
    g->loss = 0;
    for (size_t b = g->first; b < g->last; b++) {
        int64_t begin = (int64_t)b * ROWS, left = l->args->n - begin;
        rk_parallel_failure_record(
            &l->failure, begin,
            compute_block_scores_and_gradients(l, g, begin, left < ROWS ? left : ROWS, b == g->first));
    }
}

/* What micro-batch number `here` of those here adds to number k of items begin .. end-1: of their own
 * samples' scores, and of their columns, where they are candidates. */
static void sum_item_gradients_of_micro_batch(const rk_candidate_loss *l, int32_t here, int64_t k,
                                              int64_t begin, int64_t end, rk_real *out) {
    const rk_candidate_loss_args *a = l->args;
    int32_t micro_batch = l->config.first_micro_batch + here;
    int64_t first_own = rk_candidate_loss_first_sample(a->n, l->config.n_micro_batches, micro_batch),
            last_own = rk_candidate_loss_first_sample(a->n, l->config.n_micro_batches, micro_batch + 1);
    for (int64_t i = begin; i < end; i++)
        out[i - begin] = i >= first_own && i < last_own ? l->own[i] * a->users[i * l->config.dim + k] : 0;
    for (size_t g = (size_t)here * l->a_micro_batch; g < (size_t)(here + 1) * l->a_micro_batch; g++) {
        if (l->groups[g].first == l->groups[g].last) continue;
        const rk_real *column = l->groups[g].gradients + k * l->n_cols - l->first;
        int64_t from = begin < l->first ? l->first : begin;
        for (int64_t i = from; i < end && k + AHEAD < l->config.dim; i += LINE)
            __builtin_prefetch(column + AHEAD * l->n_cols + i);
        for (int64_t i = from; i < end; i++) out[i - begin] += column[i];
    }
}

/* The same over all micro-batches here, in sums[0]. */
static void sum_item_gradients_over_micro_batches(const rk_candidate_loss *l, int64_t k, int64_t begin,
                                                  int64_t end, rk_real sums[RK_TREE_DEPTH][TILE]) {
    rk_tree_sum tree = {.depth = 0};
    for (int32_t here = 0; here <= l->config.n_here; here++) {
        uint32_t micro_batch = (uint32_t)(l->config.first_micro_batch + here);
        bool ends = here == l->config.n_here;
        while (tree.depth > 1 && (ends || rk_tree_sum_must_join(&tree, micro_batch))) {
            rk_tree_sum_join(&tree);
            for (int64_t i = 0; i < end - begin; i++) sums[tree.depth - 1][i] += sums[tree.depth][i];
        }
        if (ends) return;
        rk_tree_sum_push(&tree, micro_batch);
        sum_item_gradients_of_micro_batch(l, here, k, begin, end, sums[tree.depth - 1]);
    }
}

/* Gradients of TILE items, TILE numbers of each at a time: their sums, which lie far apart in memory, are
 * brought together first, and written after. */
static void sum_item_gradients_of_tile(void *context, size_t task, int thread) {
    (void)thread;
    rk_candidate_loss *l = context;
    int64_t dim = l->config.dim, n_items = l->args->n + l->config.n_sampled, begin = (int64_t)task * TILE,
            end = begin + TILE < n_items ? begin + TILE : n_items;
    rk_real sums[RK_TREE_DEPTH][TILE], turned[TILE][TILE];
    for (int64_t first = 0; first < dim; first += TILE) {
        int64_t last = first + TILE < dim ? first + TILE : dim;
        for (int64_t k = first; k < last; k++) {
            sum_item_gradients_over_micro_batches(l, k, begin, end, sums);
            memcpy(turned[k - first], sums[0], sizeof sums[0]);
        }
        rk_values_transpose(turned[0], last - first, end - begin, TILE,
                            l->args->item_gradient + begin * dim + first, dim);
    }
}

rk_status rk_candidate_loss_run(rk_candidate_loss *l, const rk_candidate_loss_args *args, double *out) {
    RK_FAIL_IF(args->n < 1 || args->n > l->config.max_n, RK_INVALID_ARGUMENT,
               "a batch of %lld samples, but the loss was created for 1 to %lld", (long long)args->n,
               (long long)l->config.max_n);
    l->args = args;
    l->first = l->config.in_batch ? 0 : args->n;
    l->n_candidates = args->n + l->config.n_sampled - l->first;
    l->failure = (rk_parallel_failure)RK_FAILURE_INIT;
    for (int32_t here = 0; here < l->config.n_here; here++) assign_blocks_to_groups(l, here);
    rk_parallel_for(rk_block_count((size_t)l->n_cols, TILE), transpose_candidate_tile, l);
    RK_TRY(rk_packed_matrix_set_weights(l->matrix, l->candidates, true));
    rk_parallel_for(count_groups(l), run_blocks_of_group, l);
    RK_TRY(rk_parallel_failure_status(&l->failure));
    rk_parallel_for(rk_block_count((size_t)(args->n + l->config.n_sampled), TILE), sum_item_gradients_of_tile,
                    l);
    for (int32_t here = 0; here < l->config.n_here; here++) {
        out[here] = 0;
        for (size_t g = 0; g < l->a_micro_batch; g++)
            out[here] += l->groups[(size_t)here * l->a_micro_batch + g].loss;
    }
    return RK_OK;
}
