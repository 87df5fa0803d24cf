/* From the gradients of a batch's activations to updated rows: who used which row, the sum of its gradients, one update. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/float16.h"
#include "base/parallel.h"
#include "embedding/collection_parts.h"
#include "embedding/cut.h"
#include "embedding/reserve.h"

enum {
    CHECK_SAMPLES = 256,
    UPDATE_OCCURRENCES = 256, /* whose rows a task updates, about */
    UPDATE_ROWS = 1024,       /* that a task updates where all rows take a step (l2_full) */
    PREFETCH_AHEAD = 6,       /* rows */
    LINE_FLOATS = 16          /* of a cache line */
};

typedef struct application {
    rk_embeddings *embeddings;
    const rk_activation *gradients;
    size_t blocks; /* of samples, a feature */
    int64_t n;
    atomic_bool not_finite;
} application;

static bool is_all_finite(const float *g, int64_t n) {
    int wrong = 0; /* in integers, which compilers make vectors of */
    for (int64_t k = 0; k < n; k++) wrong |= (rk_f32_bits(g[k]) & 0x7F800000u) == 0x7F800000u;
    return !wrong;
}

/* Features of frozen tables need no gradients. */
static bool is_used(const application *a, int32_t f) {
    return rk_takes_updates(a->embeddings, a->embeddings->feature_tables[f]);
}

static void check_block(void *context, size_t task, int thread) {
    (void)thread;
    application *a = context;
    int32_t f = (int32_t)(task / a->blocks);
    if (!is_used(a, f)) return;
    int64_t first = (int64_t)(task % a->blocks) * CHECK_SAMPLES, last = first + CHECK_SAMPLES < a->n ? first + CHECK_SAMPLES : a->n;
    int32_t width = rk_embeddings_width(a->embeddings, f);
    bool finite = true;
    for (int64_t s = first; s < last; s++) finite &= is_all_finite(a->gradients[f].data + s * a->gradients[f].stride, width);
    if (!finite) atomic_store(&a->not_finite, true);
}

static rk_status name_not_finite(const application *a) {
    for (int32_t f = 0; f < a->embeddings->n_features; f++)
        for (int64_t s = 0; s < a->n && is_used(a, f); s++)
            RK_FAIL_IF(!is_all_finite(a->gradients[f].data + s * a->gradients[f].stride, rk_embeddings_width(a->embeddings, f)), RK_NOT_FINITE,
                       "feature '%s': sample %lld: the gradient is not a finite number", a->embeddings->features[f].name, (long long)s);
    return rk_error(RK_INTERNAL, "a gradient that was not finite is so now");
}

static rk_status check_gradients(application *a) {
    const rk_embeddings *e = a->embeddings;
    RK_FAIL_IF(e->n_features > 0 && !a->gradients, RK_INVALID_ARGUMENT, "apply_gradients needs gradients");
    for (int32_t f = 0; f < e->n_features && a->n > 0; f++)
        RK_FAIL_IF(is_used(a, f) && (!a->gradients[f].data || a->gradients[f].stride < rk_embeddings_width(e, f)), RK_INVALID_ARGUMENT,
                   "feature '%s': its gradients need memory and a stride of at least %d", e->features[f].name, rk_embeddings_width(e, f));
    a->blocks = rk_blocks((size_t)a->n, CHECK_SAMPLES);
    rk_parallel_for(a->blocks * (size_t)e->n_features, check_block, a);
    return atomic_load(&a->not_finite) ? name_not_finite(a) : RK_OK;
}

/* Floats between two threads' scratch: a gradient and a row, on cache lines of their own. */
static size_t thread_stride(const rk_embeddings *e) {
    return rk_blocks(2 * (size_t)e->max_dim, LINE_FLOATS) * LINE_FLOATS;
}

static rk_status reserve(rk_embeddings *e) {
    for (int32_t t = 0; t < e->n_tables; t++)
        if (rk_takes_updates(e, t)) RK_TRY(rk_update_plan_reserve(e, t));
    return rk_reserve(&e->thread_rows, &e->thread_rows_capacity, (size_t)rk_parallel_threads() * thread_stride(e), sizeof *e->thread_rows);
}

static void plan_table(void *context, size_t task, int thread) {
    (void)thread;
    const application *a = context;
    if (rk_takes_updates(a->embeddings, (int32_t)task)) rk_update_plan_make(a->embeddings, (int32_t)task, a->gradients);
}

/* One row: u is its place among the unique ones, or SIZE_MAX for a row that the batch did not touch (l2_full). */
static void update_row(const rk_embeddings *e, size_t t, int64_t row, size_t u, int thread) {
    const rk_table *table = &e->tables[t];
    const rk_update_plan *plan = &e->plans[t];
    int32_t dim = table->config.dim;
    float *g = e->thread_rows + (size_t)thread * thread_stride(e), *copy = g + e->max_dim;
    bool touched = u != SIZE_MAX;
    if (touched)
        rk_grad_sum(plan->occurrences + plan->starts[u], plan->starts[u + 1] - plan->starts[u], dim, g);
    else
        memset(g, 0, (size_t)dim * sizeof *g);
    bool in_place = table->config.dtype == RK_F32;
    float *w = in_place ? (float *)table->rows.data + row * dim : copy;
    if (!in_place) rk_row_load(&table->rows, row, w);
    float l2 = (float)(table->l2_full + (touched ? table->l2 : 0));
    if (l2 != 0)
        for (int32_t k = 0; k < dim; k++) g[k] += l2 * w[k];
    rk_row_update(&e->updates[t], w, rk_table_slot(table, 0, row), rk_table_slot(table, 1, row), g, dim);
    if (!in_place) rk_table_store(table, row, w, table->step + 1);
}

static void prefetch(const void *data, size_t n_bytes) {
    for (size_t at = 0; at < n_bytes; at += 64) __builtin_prefetch((const char *)data + at, 1);
}

static void prefetch_row(const rk_table *table, int64_t row) {
    size_t dim = (size_t)table->config.dim, row_bytes = dim * rk_dtype_bytes(table->config.dtype);
    prefetch((const char *)table->rows.data + (size_t)row * row_bytes, row_bytes);
    for (int s = 0; s < table->n_slots; s++) prefetch(rk_table_slot(table, s, row), sizeof(float) * (table->slots[s].per_row ? 1 : dim));
}

/* The place of the first unique row whose occurrences begin at or after `occurrence`. */
static size_t first_from(const rk_update_plan *plan, size_t occurrence) {
    size_t low = 0, high = plan->n_unique;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (plan->starts[middle] < occurrence)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The place of the first unique row that is not below `row`. */
static size_t first_not_below(const rk_update_plan *plan, int64_t row) {
    size_t low = 0, high = plan->n_unique;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (plan->unique[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void update_touched(const rk_embeddings *e, size_t t, size_t part, int thread) {
    const rk_update_plan *plan = &e->plans[t];
    size_t first = first_from(plan, part * UPDATE_OCCURRENCES), last = first_from(plan, (part + 1) * UPDATE_OCCURRENCES);
    for (size_t u = first; u < last; u++) {
        if (u + PREFETCH_AHEAD < last) prefetch_row(&e->tables[t], plan->unique[u + PREFETCH_AHEAD]);
        update_row(e, t, plan->unique[u], u, thread);
    }
}

static void update_all(const rk_embeddings *e, size_t t, size_t part, int thread) {
    const rk_update_plan *plan = &e->plans[t];
    int64_t first = (int64_t)part * UPDATE_ROWS, last = first + UPDATE_ROWS;
    if (last > e->tables[t].config.n_rows) last = e->tables[t].config.n_rows;
    size_t u = first_not_below(plan, first);
    for (int64_t row = first; row < last; row++) {
        bool touched = u < plan->n_unique && plan->unique[u] == row;
        update_row(e, t, row, touched ? u : SIZE_MAX, thread);
        u += touched;
    }
}

static void update_block(void *context, size_t task, int thread) {
    const rk_embeddings *e = ((const application *)context)->embeddings;
    size_t t = rk_cut_item(e->task_begins, (size_t)e->n_tables, task);
    (e->tables[t].l2_full != 0 ? update_all : update_touched)(e, t, task - e->task_begins[t], thread);
}

/* All tables in one loop, so that small ones fill the gaps of large ones. */
static void update(application *a) {
    rk_embeddings *e = a->embeddings;
    for (int32_t t = 0; t < e->n_tables; t++) {
        rk_table *table = &e->tables[t];
        size_t n_tasks = 0;
        if (rk_takes_updates(e, t)) {
            rk_update_prepare(&table->optimizer, table->step, e->learning_rate_factor, &e->updates[t]);
            n_tasks = table->l2_full != 0 ? rk_blocks((size_t)table->config.n_rows, UPDATE_ROWS) : rk_blocks(e->plans[t].n, UPDATE_OCCURRENCES);
        }
        e->task_begins[t + 1] = e->task_begins[t] + n_tasks;
    }
    rk_parallel_for(e->task_begins[e->n_tables], update_block, a);
    for (int32_t t = 0; t < e->n_tables; t++) e->tables[t].step += rk_takes_updates(e, t);
}

rk_status rk_embeddings_apply_gradients(rk_embeddings *e, const rk_activation *gradients) {
    RK_FAIL_IF(!e->has_lookup, RK_INVALID_ARGUMENT, "apply_gradients needs a lookup before it");
    application a = {.embeddings = e, .gradients = gradients, .n = e->n_features ? e->uses[0].n : 0};
    RK_TRY(check_gradients(&a));
    RK_TRY(reserve(e));
    rk_parallel_for((size_t)e->n_tables, plan_table, &a);
    update(&a);
    e->has_lookup = false;
    return RK_OK;
}
