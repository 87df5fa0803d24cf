/* From the gradients of a batch's activations to updated rows: who used which row, the sum of its gradients, one update. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "embedding/collection_parts.h"

enum { ROW_BLOCK = 64 };

typedef struct application {
    rk_embeddings *embeddings;
    const rk_activation *gradients;
    size_t blocks; /* of samples, a feature */
    int64_t n;
    atomic_bool not_finite;
    rk_status status;
    /* of the table being updated */
    rk_table *table;
    const rk_update_plan *plan;
    rk_update update;
} application;

static void check_block(void *context, size_t task, int thread) {
    (void)thread;
    application *a = context;
    size_t f = task / a->blocks;
    int64_t first = (int64_t)(task % a->blocks) * RK_SAMPLE_BLOCK, last = first + RK_SAMPLE_BLOCK < a->n ? first + RK_SAMPLE_BLOCK : a->n;
    int32_t width = rk_embeddings_width(a->embeddings, (int32_t)f);
    float zero = 0; /* x * 0 is 0 for every finite x, and NaN else */
    for (int64_t s = first; s < last; s++) {
        const float *g = a->gradients[f].data + s * a->gradients[f].stride;
        for (int32_t k = 0; k < width; k++) zero += g[k] * 0.0f;
    }
    if (zero != 0 || isnan(zero)) atomic_store(&a->not_finite, true);
}

static rk_status name_not_finite(const application *a) {
    for (int32_t f = 0; f < a->embeddings->n_features; f++)
        for (int64_t s = 0; s < a->n; s++)
            for (int32_t k = 0; k < rk_embeddings_width(a->embeddings, f); k++) {
                float g = a->gradients[f].data[s * a->gradients[f].stride + k];
                RK_FAIL_IF(!isfinite(g), RK_NOT_FINITE, "feature '%s': sample %lld: the gradient is %g", a->embeddings->features[f].name, (long long)s, (double)g);
            }
    return rk_error(RK_NOT_FINITE, "a gradient is not a finite number");
}

static rk_status reserve_plan(rk_update_plan *plan, size_t n) {
    plan->n = n;
    if (n <= plan->capacity) return RK_OK;
    size_t wanted = n + n / 4;
    plan->capacity = 0; /* until all have grown */
    RK_TRY(rk_realloc(wanted, sizeof *plan->ids, &plan->ids));
    RK_TRY(rk_realloc(wanted, sizeof *plan->unsorted, &plan->unsorted));
    RK_TRY(rk_realloc(wanted, sizeof *plan->occurrences, &plan->occurrences));
    RK_TRY(rk_realloc(wanted, sizeof *plan->order, &plan->order));
    RK_TRY(rk_realloc(wanted + 1, sizeof *plan->starts, &plan->starts));
    RK_TRY(rk_realloc(wanted, sizeof *plan->unique, &plan->unique));
    RK_TRY(rk_realloc(rk_unique_ids_scratch(wanted), 1, &plan->scratch));
    plan->capacity = wanted;
    return RK_OK;
}

/* Every place where feature f used a row, in batch order. */
static void list_occurrences(const rk_embeddings *e, int32_t f, const rk_activation *gradient, int64_t *ids, rk_occurrence *out) {
    const rk_feature_use *use = &e->uses[f];
    int32_t length = e->features[f].max_sequence_length, dim = e->tables[e->feature_tables[f]].config.dim;
    memcpy(ids, use->ids, (size_t)use->n_ids * sizeof *ids);
    for (int64_t b = 0; b < use->n_bags; b++) {
        int64_t begin = use->offsets[b], end = use->offsets[b + 1];
        if (begin == end) continue;
        const float *g = length ? gradient->data + b / length * gradient->stride + b % length * dim : gradient->data + b * gradient->stride;
        float scale = use->scales ? use->scales[b] : 1.0f;
        for (int64_t i = begin; i < end; i++) out[i] = (rk_occurrence){g, use->coefficients ? scale * use->coefficients[i] : scale};
    }
}

static bool takes_updates(const rk_embeddings *e, int32_t t) {
    return !e->tables[t].config.frozen && e->table_begins[t + 1] > e->table_begins[t];
}

static rk_status reserve_plans(rk_embeddings *e) {
    for (int32_t t = 0; t < e->n_tables; t++) {
        size_t n = 0;
        for (int32_t i = e->table_begins[t]; i < e->table_begins[t + 1]; i++) n += (size_t)e->uses[e->by_table[i]].n_ids;
        if (takes_updates(e, t)) RK_TRY(reserve_plan(&e->plans[t], n));
    }
    size_t need = (size_t)rk_parallel_threads() * 2 * (size_t)e->max_dim;
    if (need > e->thread_rows_capacity) {
        RK_TRY(rk_realloc(need, sizeof *e->thread_rows, &e->thread_rows));
        e->thread_rows_capacity = need;
    }
    return RK_OK;
}

static void make_plan(void *context, size_t task, int thread) {
    (void)thread;
    const application *a = context;
    const rk_embeddings *e = a->embeddings;
    int32_t t = (int32_t)task;
    if (!takes_updates(e, t)) return;
    rk_update_plan *plan = &e->plans[t];
    size_t at = 0;
    for (int32_t i = e->table_begins[t]; i < e->table_begins[t + 1]; i++) {
        int32_t f = e->by_table[i];
        list_occurrences(e, f, &a->gradients[f], plan->ids + at, plan->unsorted + at);
        at += (size_t)e->uses[f].n_ids;
    }
    plan->n_unique = rk_unique_ids(plan->ids, plan->n, e->tables[t].config.n_rows - 1, plan->order, plan->unique, plan->starts, plan->scratch);
    for (size_t i = 0; i < plan->n; i++) plan->occurrences[i] = plan->unsorted[plan->order[i]];
}

/* One row: u is its place among the unique ones, or SIZE_MAX for a row that the batch did not touch (l2_full). */
static void update_row(const application *a, int64_t row, size_t u, int thread) {
    rk_table *table = a->table;
    int32_t dim = table->config.dim;
    float *g = a->embeddings->thread_rows + (size_t)thread * 2 * (size_t)a->embeddings->max_dim, *copy = g + a->embeddings->max_dim;
    const rk_update_plan *plan = a->plan;
    if (u != SIZE_MAX)
        rk_grad_sum(plan->occurrences + plan->starts[u], plan->starts[u + 1] - plan->starts[u], dim, g);
    else
        memset(g, 0, (size_t)dim * sizeof *g);
    bool in_place = table->config.dtype == RK_F32;
    float *w = in_place ? (float *)table->rows.data + row * dim : copy;
    if (!in_place) rk_row_load(&table->rows, row, w);
    float l2 = (float)(table->l2_full + (u != SIZE_MAX ? table->l2 : 0));
    if (l2 != 0)
        for (int32_t k = 0; k < dim; k++) g[k] += l2 * w[k];
    rk_row_update(&a->update, w, rk_table_slot(table, 0, row), rk_table_slot(table, 1, row), g, dim);
    /* Every (step, row) draws other bits for the rounding; a step's rows are told apart by the stream below. */
    if (!in_place) rk_row_store(&table->rows, row, w, table->seed ^ table->name_hash ^ (uint64_t)table->step * 0x9E3779B97F4A7C15u, (uint64_t)row);
}

static void update_touched(void *context, size_t task, int thread) {
    const application *a = context;
    size_t last = (task + 1) * ROW_BLOCK < a->plan->n_unique ? (task + 1) * ROW_BLOCK : a->plan->n_unique;
    for (size_t u = task * ROW_BLOCK; u < last; u++) update_row(a, a->plan->unique[u], u, thread);
}

/* The place of the first unique row that is not below `row`. */
static size_t lower_bound(const rk_update_plan *plan, int64_t row) {
    size_t low = 0, high = plan->n_unique;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (plan->unique[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void update_all(void *context, size_t task, int thread) {
    const application *a = context;
    int64_t first = (int64_t)task * ROW_BLOCK, last = first + ROW_BLOCK;
    if (last > a->table->config.n_rows) last = a->table->config.n_rows;
    size_t u = lower_bound(a->plan, first);
    for (int64_t row = first; row < last; row++) {
        bool touched = u < a->plan->n_unique && a->plan->unique[u] == row;
        update_row(a, row, touched ? u : SIZE_MAX, thread);
        u += touched;
    }
}

rk_status rk_embeddings_apply_gradients(rk_embeddings *e, const rk_activation *gradients) {
    RK_FAIL_IF(!e->has_lookup, RK_INVALID_ARGUMENT, "apply_gradients needs a lookup before it");
    application a = {.embeddings = e, .gradients = gradients, .n = e->n_features ? e->uses[0].n : 0};
    a.blocks = rk_blocks((size_t)a.n, RK_SAMPLE_BLOCK);
    rk_parallel_for(a.blocks * (size_t)e->n_features, check_block, &a);
    if (atomic_load(&a.not_finite)) return name_not_finite(&a);
    RK_TRY(reserve_plans(e));
    rk_parallel_for((size_t)e->n_tables, make_plan, &a);
    for (int32_t t = 0; t < e->n_tables; t++) {
        if (!takes_updates(e, t)) continue;
        a.table = &e->tables[t];
        a.plan = &e->plans[t];
        rk_update_prepare(&a.table->optimizer, a.table->step, e->learning_rate_factor, &a.update);
        if (a.table->l2_full != 0)
            rk_parallel_for(rk_blocks((size_t)a.table->config.n_rows, ROW_BLOCK), update_all, &a);
        else
            rk_parallel_for(rk_blocks(a.plan->n_unique, ROW_BLOCK), update_touched, &a);
        a.table->step++;
    }
    e->has_lookup = false;
    return RK_OK;
}
