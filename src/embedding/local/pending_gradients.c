/* What the backwards of lookups leave for the next step: each touched row's gradient, summed over a lookup,
 * then added to what the lookups before it left. Rows ascend, so that two such lists are merged, and a step
 * reads its own as it stands. */
#include <string.h>

#include "base/integers.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "embedding/local/collection_internal.h"

enum {
    MERGE_ROWS = 8192, /* of both lists, that a task merges, about */
    STEP_ROWS = 1024   /* that a task updates */
};

rk_status rk_pending_gradients_init(rk_pending_gradients *pending, size_t n_tables) {
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_tables, pending->tables), RK_ARRAY(n_tables, pending->updates)));
    return rk_alloc(n_tables + 1, sizeof *pending->task_begins, &pending->task_begins);
}

static void release_row_gradients(rk_row_gradients *list) {
    RK_FREE_ALL(list->rows, list->sums);
}

void rk_pending_gradients_release(rk_pending_gradients *pending, int32_t n_tables) {
    for (int32_t t = 0; t < n_tables && pending->tables; t++) {
        release_row_gradients(&pending->tables[t].sum);
        release_row_gradients(&pending->tables[t].added);
        release_row_gradients(&pending->tables[t].merged);
    }
    RK_FREE_ALL(pending->tables, pending->updates, pending->task_begins, pending->counts);
}

static rk_status reserve_row_gradients(rk_row_gradients *list, int64_t n, int32_t dim) {
    RK_TRY(rk_reserve(&list->rows, &list->rows_capacity, (size_t)n, sizeof *list->rows));
    return rk_reserve(&list->sums, &list->sums_capacity, (size_t)n * (size_t)dim, sizeof *list->sums);
}

/* One backward on its way in. */
typedef struct addition {
    rk_embeddings *embeddings;
    const rk_batch_context *batch_context;
    rk_pending_gradients *pending;
} addition;

/* Where a lookup's sums go: beside those of lookups before it, or in their place where there are none. */
static rk_row_gradients *find_sum_target(rk_pending_table *table) {
    return table->sum.n ? &table->added : &table->sum;
}

static rk_use_piece locate_use_piece(const addition *a, size_t task, size_t *table) {
    const size_t *begins = a->batch_context->piece_begins;
    *table = rk_partition_find_item(begins, (size_t)a->embeddings->n_tables, task);
    return rk_row_uses_piece(&a->batch_context->plans[*table], task - begins[*table]);
}

static bool is_first_use_of_row(const rk_row_uses *plan, const rk_use_piece *piece, int64_t use) {
    return use == piece->first || rk_row_use_place(plan->uses[use]) != rk_row_use_place(plan->uses[use - 1]);
}

static void count_piece_rows(void *context, size_t task, int thread) {
    (void)thread;
    const addition *a = context;
    size_t t, n = 0;
    rk_use_piece piece = locate_use_piece(a, task, &t);
    for (int64_t i = piece.first; i < piece.last; i++)
        n += is_first_use_of_row(&a->batch_context->plans[t], &piece, i);
    a->pending->counts[task] = n;
}

/* counts: of a piece's rows before, where they go in the table's list afterwards. */
static void sum_piece_gradients(void *context, size_t task, int thread) {
    (void)thread;
    const addition *a = context;
    size_t t;
    rk_use_piece piece = locate_use_piece(a, task, &t);
    const rk_row_uses *plan = &a->batch_context->plans[t];
    const rk_row_gradients *to = find_sum_target(&a->pending->tables[t]);
    const rk_table_config *table = &a->embeddings->tables[t].config;
    int32_t dim = table->dim;
    size_t at = a->pending->counts[task];
    rk_sum_row_gradients_args args = {.from = {.rows = {.dtype = table->dtype, .dim = dim},
                                               .uses = plan->uses + piece.first,
                                               .n_uses = piece.last - piece.first,
                                               .sources = plan->sources,
                                               .n_sources = plan->n_sources,
                                               .has_leaves = plan->has_leaves,
                                               .bags = plan->weighted ? plan->bags : NULL,
                                               .coefficients = plan->weighted ? plan->coefficients : NULL},
                                      .out = to->sums + at * (size_t)dim};
    rk_sum_row_gradients(&args);
    for (int64_t i = piece.first; i < piece.last; i++)
        if (is_first_use_of_row(plan, &piece, i))
            to->rows[at++] = ((int64_t)piece.part << plan->shift) + rk_row_use_place(plan->uses[i]);
}

/* Counts first .. last-1 become places, each the sum of those before it; returns the sum of all. */
static size_t prefix_sum_counts(size_t *counts, size_t first, size_t last) {
    size_t at = 0;
    for (size_t i = first; i < last; i++) {
        size_t n = counts[i];
        counts[i] = at;
        at += n;
    }
    return at;
}

/* The part of two lists that a task merges: rows from one boundary up to the next. */
typedef struct merge_range {
    int64_t first[2], last[2];
} merge_range;

static int64_t find_first_row_from(const rk_row_gradients *list, int64_t row) {
    return rk_sorted_lower_bound(list->rows, list->n, row);
}

static merge_range choose_merge_range(const rk_pending_table *table, size_t part, size_t n_parts) {
    const rk_row_gradients *larger = table->sum.n >= table->added.n ? &table->sum : &table->added;
    merge_range range = {{0, 0}, {table->sum.n, table->added.n}};
    if (part > 0) {
        int64_t row = larger->rows[rk_partition_begin(larger->n, part, n_parts)];
        range.first[0] = find_first_row_from(&table->sum, row);
        range.first[1] = find_first_row_from(&table->added, row);
    }
    if (part + 1 < n_parts) {
        int64_t row = larger->rows[rk_partition_begin(larger->n, part + 1, n_parts)];
        range.last[0] = find_first_row_from(&table->sum, row);
        range.last[1] = find_first_row_from(&table->added, row);
    }
    return range;
}

/* out NULL: the rows are only counted. */
static size_t merge_row_gradients(const rk_pending_table *table, merge_range range, int32_t dim,
                                  rk_row_gradients *out, size_t at) {
    size_t first = at, row_bytes = (size_t)dim * sizeof(float);
    int64_t i = range.first[0], j = range.first[1];
    for (; i < range.last[0] || j < range.last[1]; at++) {
        bool has_old =
                 i < range.last[0] && (j == range.last[1] || table->sum.rows[i] <= table->added.rows[j]),
             has_new =
                 j < range.last[1] && (i == range.last[0] || table->added.rows[j] <= table->sum.rows[i]);
        if (out) {
            const rk_row_gradients *from = has_old ? &table->sum : &table->added;
            int64_t k = has_old ? i : j;
            float *to = out->sums + at * (size_t)dim;
            out->rows[at] = from->rows[k];
            memcpy(to, from->sums + k * dim, row_bytes);
            for (int32_t c = 0; has_old && has_new && c < dim; c++) to[c] += table->added.sums[j * dim + c];
        }
        i += has_old;
        j += has_new;
    }
    return at - first;
}

static merge_range locate_merge_range(const addition *a, size_t task, size_t *table) {
    const size_t *begins = a->pending->task_begins;
    *table = rk_partition_find_item(begins, (size_t)a->embeddings->n_tables, task);
    return choose_merge_range(&a->pending->tables[*table], task - begins[*table],
                              begins[*table + 1] - begins[*table]);
}

static void count_merged_rows(void *context, size_t task, int thread) {
    (void)thread;
    const addition *a = context;
    size_t t;
    merge_range range = locate_merge_range(a, task, &t);
    a->pending->counts[task] = merge_row_gradients(&a->pending->tables[t], range, 0, NULL, 0);
}

static void merge_rows_of_part(void *context, size_t task, int thread) {
    (void)thread;
    const addition *a = context;
    size_t t;
    merge_range range = locate_merge_range(a, task, &t);
    rk_pending_table *table = &a->pending->tables[t];
    merge_row_gradients(table, range, a->embeddings->tables[t].config.dim, &table->merged,
                        a->pending->counts[task]);
}

static size_t count_merge_tasks(const rk_pending_table *table, int64_t n_added) {
    return table->sum.n && n_added ? rk_block_count((size_t)(table->sum.n + n_added), MERGE_ROWS) : 0;
}

/* What was added, into the sums; all memory is there. */
static void merge_all_tables(addition *a) {
    rk_pending_gradients *pending = a->pending;
    int32_t n_tables = a->embeddings->n_tables;
    size_t *begins = pending->task_begins;
    for (int32_t t = 0; t < n_tables; t++) {
        const rk_pending_table *table = &pending->tables[t];
        begins[t + 1] = begins[t] + count_merge_tasks(table, table->added.n);
    }
    rk_parallel_for(begins[n_tables], count_merged_rows, a);
    for (int32_t t = 0; t < n_tables; t++)
        pending->tables[t].merged.n = (int64_t)prefix_sum_counts(pending->counts, begins[t], begins[t + 1]);
    rk_parallel_for(begins[n_tables], merge_rows_of_part, a);
    for (int32_t t = 0; t < n_tables; t++) {
        rk_pending_table *table = &pending->tables[t];
        if (!table->added.n) continue;
        rk_row_gradients merged = table->merged;
        table->merged = table->sum;
        table->sum = merged;
        table->added.n = 0;
    }
}

rk_status rk_pending_gradients_add(rk_embeddings *e, const rk_batch_context *batch_context) {
    rk_pending_gradients *pending = &e->pending;
    addition a = {e, batch_context, pending};
    const size_t *begins = batch_context->piece_begins;
    size_t n_pieces = begins[e->n_tables], n_counts = n_pieces, merges = 0;
    RK_TRY(rk_reserve(&pending->counts, &pending->counts_capacity, n_counts, sizeof *pending->counts));
    rk_parallel_for(n_pieces, count_piece_rows, &a);
    for (int32_t t = 0; t < e->n_tables; t++) {
        rk_pending_table *table = &pending->tables[t];
        int32_t dim = e->tables[t].config.dim;
        table->n_added = (int64_t)prefix_sum_counts(pending->counts, begins[t], begins[t + 1]);
        RK_TRY(reserve_row_gradients(find_sum_target(table), table->n_added, dim));
        if (count_merge_tasks(table, table->n_added))
            RK_TRY(reserve_row_gradients(&table->merged, table->sum.n + table->n_added, dim));
        merges += count_merge_tasks(table, table->n_added);
    }
    if (merges > n_counts) n_counts = merges;
    RK_TRY(rk_reserve(&pending->counts, &pending->counts_capacity, n_counts, sizeof *pending->counts));
    rk_parallel_for(n_pieces, sum_piece_gradients, &a);
    for (int32_t t = 0; t < e->n_tables; t++)
        find_sum_target(&pending->tables[t])->n = pending->tables[t].n_added;
    merge_all_tables(&a);
    pending->n_backwards++;
    return RK_OK;
}

void rk_pending_gradients_zero(rk_embeddings *e) {
    for (int32_t t = 0; t < e->n_tables; t++) e->pending.tables[t].sum.n = 0;
    e->pending.n_backwards = 0;
}

/* Rows first .. last-1 of the list, all of them less than 2^32 from the first row on. */
static void update_listed_rows(const rk_embeddings *e, size_t t, int64_t first, int64_t last,
                               int64_t first_row, int64_t n_rows) {
    const rk_table *table = &e->tables[t];
    const rk_row_gradients *list = &e->pending.tables[t].sum;
    int32_t dim = table->config.dim;
    rk_row_use uses[STEP_ROWS];
    for (int64_t i = first; i < last; i++)
        uses[i - first] = rk_row_use_make((uint32_t)(list->rows[i] - first_row), (uint32_t)(i - first));
    rk_gradient_source source = {.data = list->sums + first * dim, .stride = dim, .length = 1};
    rk_fused_update_args args = rk_table_make_update_args(table, &e->pending.updates[t]);
    args.first_row = first_row;
    args.n_places = n_rows;
    args.uses = uses;
    args.n_uses = last - first;
    args.sources = &source;
    args.n_sources = 1;
    rk_fused_update(&args);
}

static void update_rows_of_table_part(void *context, size_t task, int thread) {
    (void)thread;
    const rk_embeddings *e = context;
    const size_t *begins = e->pending.task_begins;
    size_t t = rk_partition_find_item(begins, (size_t)e->n_tables, task);
    const rk_row_gradients *list = &e->pending.tables[t].sum;
    int64_t begin = (int64_t)(task - begins[t]) * STEP_ROWS, end = begin + STEP_ROWS;
    if (e->tables[t].l2_full != 0) { /* every row takes a step */
        int64_t n_rows = e->tables[t].config.n_rows;
        if (end > n_rows) end = n_rows;
        update_listed_rows(e, t, find_first_row_from(list, begin), find_first_row_from(list, end), begin,
                           end - begin);
        return;
    }
    if (end > list->n) end = list->n;
    for (int64_t i = begin, next; i < end; i = next) {
        int64_t first_row = list->rows[i];
        for (next = i; next < end && list->rows[next] - first_row <= UINT32_MAX;) next++;
        update_listed_rows(e, t, i, next, first_row, 0);
    }
}

rk_status rk_pending_gradients_apply(rk_embeddings *e) {
    rk_pending_gradients *pending = &e->pending;
    rk_embeddings_set_update_coefficients(e, pending->updates);
    for (int32_t t = 0; t < e->n_tables; t++) {
        int64_t n = e->tables[t].l2_full != 0 ? e->tables[t].config.n_rows : pending->tables[t].sum.n;
        pending->task_begins[t + 1] =
            pending->task_begins[t] +
            (rk_table_takes_updates(e, t) ? rk_block_count((size_t)n, STEP_ROWS) : 0);
    }
    RK_ON_POOL(e->pool, rk_parallel_for(pending->task_begins[e->n_tables], update_rows_of_table_part, e));
    rk_embeddings_increment_step(e);
    rk_pending_gradients_zero(e);
    return RK_OK;
}
