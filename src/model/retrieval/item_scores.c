#include "model/retrieval/item_scores.h"

#include "base/thread/parallel_failure.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "model/model.h"

enum { ITEMS_AT_ONCE = 8192 };

/* columns [dim, n_items], by some items at a time: all of them twice may be too much. */
static rk_status transpose_item_rows(int64_t n_items, int64_t dim, rk_item_rows rows, void *context,
                                     rk_real *columns) {
    RK_AUTOFREE rk_real *some = NULL;
    const int64_t most = n_items < ITEMS_AT_ONCE ? n_items : (int64_t)ITEMS_AT_ONCE;
    RK_TRY(rk_alloc((size_t)(most * dim), sizeof *some, &some));
    for (int64_t first = 0; first < n_items; first += most) {
        int64_t n = n_items - first < most ? n_items - first : most;
        RK_TRY(rows(context, first, n, some));
        for (int64_t i = 0; i < n; i++)
            for (int64_t d = 0; d < dim; d++) columns[d * n_items + first + i] = some[i * dim + d];
    }
    return RK_OK;
}

rk_status rk_item_matrix_create(int64_t n_items, int64_t dim, rk_item_rows rows, void *context,
                                rk_packed_matrix **out) {
    rk_packed_matrix *matrix;
    RK_AUTOFREE rk_real *columns = NULL;
    RK_TRY(rk_alloc((size_t)n_items * (size_t)dim, sizeof *columns, &columns));
    RK_TRY(transpose_item_rows(n_items, dim, rows, context, columns));
    RK_TRY(rk_packed_matrix_create(dim, n_items, RK_F32, RK_USERS_AT_ONCE, &matrix));
    rk_status status = rk_packed_matrix_set_weights(matrix, columns, false);
    if (status == RK_OK)
        *out = matrix;
    else
        rk_packed_matrix_free(matrix);
    return status;
}

typedef struct scoring {
    const rk_item_scores *scores;
    int64_t first, end;
    rk_real *memory;  /* [n_threads, RK_USERS_AT_ONCE, n_items] */
    char *workspaces; /* [n_threads, workspace_bytes] */
    size_t workspace_bytes;
    rk_parallel_failure failure;
} scoring;

static rk_status score_users(const scoring *s, int64_t first, int64_t n, int thread) {
    const rk_item_scores *x = s->scores;
    rk_real *scores = s->memory + thread * RK_USERS_AT_ONCE * x->n_items;
    RK_TRY(rk_packed_matrix_forward(x->items, n, x->users + first * x->dim, NULL, false, scores,
                                    s->workspaces + (size_t)thread * s->workspace_bytes));
    for (int64_t i = 0; i < n; i++) RK_TRY(x->take(x->context, first + i, scores + i * x->n_items));
    return RK_OK;
}

static void score_block_of_users(void *context, size_t block, int thread) {
    scoring *s = context;
    int64_t first = s->first + (int64_t)block * RK_USERS_AT_ONCE, left = s->end - first;
    rk_parallel_failure_record(
        &s->failure, first, score_users(s, first, left < RK_USERS_AT_ONCE ? left : RK_USERS_AT_ONCE, thread));
}

rk_status rk_score_items_of_users(const rk_item_scores *x, int64_t first, int64_t end) {
    const size_t n_threads = (size_t)rk_parallel_threads();
    RK_AUTOFREE rk_real *memory = NULL;
    RK_AUTOFREE char *workspaces = NULL;
    scoring s = {.scores = x,
                 .first = first,
                 .end = end,
                 .workspace_bytes = (rk_packed_matrix_workspace_bytes(x->items) + 63) / 64 * 64,
                 .failure = RK_FAILURE_INIT};
    RK_TRY(rk_alloc(n_threads * (size_t)(RK_USERS_AT_ONCE * x->n_items), sizeof *memory, &memory));
    RK_TRY(rk_alloc(n_threads, s.workspace_bytes, &workspaces));
    s.memory = memory;
    s.workspaces = workspaces;
    rk_parallel_for(rk_block_count((size_t)(end - first), RK_USERS_AT_ONCE), score_block_of_users, &s);
    return rk_parallel_failure_status(&s.failure);
}

int64_t rk_first_user_of_rank(int64_t n_users, int32_t rank, int32_t n_ranks) {
    int64_t n_blocks = (int64_t)rk_block_count((size_t)n_users, RK_USERS_AT_ONCE),
            user = n_blocks * rank / n_ranks * RK_USERS_AT_ONCE;
    return user < n_users ? user : n_users;
}
