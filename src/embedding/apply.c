/* From the gradients of a batch's activations to updated rows: who used which row, the sum of its gradients, one update. */
#include <stdatomic.h>

#include "base/finite.h"
#include "base/parallel.h"
#include "embedding/collection_parts.h"
#include "embedding/cut.h"

enum { CHECK_SAMPLES = 256 };

typedef struct application {
    rk_embeddings *embeddings;
    const rk_activation *gradients;
    size_t blocks; /* of samples, a feature */
    int64_t n;
    atomic_bool not_finite;
} application;

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
    for (int64_t s = first; s < last; s++) finite &= rk_all_finite(a->gradients[f].data + s * a->gradients[f].stride, width);
    if (!finite) atomic_store(&a->not_finite, true);
}

static rk_status name_not_finite(const application *a) {
    for (int32_t f = 0; f < a->embeddings->n_features; f++)
        for (int64_t s = 0; s < a->n && is_used(a, f); s++)
            RK_FAIL_IF(!rk_all_finite(a->gradients[f].data + s * a->gradients[f].stride, rk_embeddings_width(a->embeddings, f)), RK_NOT_FINITE,
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

static rk_status begin(const application *a) {
    rk_embeddings *e = a->embeddings;
    for (int32_t t = 0; t < e->n_tables; t++)
        if (rk_takes_updates(e, t)) RK_TRY(rk_update_plan_begin(e, t, a->gradients));
    return RK_OK;
}

/* Run `task` for each piece of each table that takes updates, all tables in one loop, so that small ones fill the gaps of large ones. */
static void for_pieces(application *a, size_t (*n_pieces)(const rk_update_plan *plan), rk_task task) {
    rk_embeddings *e = a->embeddings;
    for (int32_t t = 0; t < e->n_tables; t++) e->task_begins[t + 1] = e->task_begins[t] + (rk_takes_updates(e, t) ? n_pieces(&e->plans[t]) : 0);
    rk_parallel_for(e->task_begins[e->n_tables], task, a);
}

static size_t n_chunks(const rk_update_plan *plan) {
    return plan->n_chunks;
}
static size_t n_parts(const rk_update_plan *plan) {
    return plan->n_parts;
}

static rk_embeddings *locate(void *context, size_t task, int32_t *t, size_t *piece) {
    rk_embeddings *e = ((application *)context)->embeddings;
    size_t table = rk_cut_item(e->task_begins, (size_t)e->n_tables, task);
    *t = (int32_t)table;
    *piece = task - e->task_begins[table];
    return e;
}

static void count_chunk(void *context, size_t task, int thread) {
    (void)thread;
    int32_t t;
    size_t chunk;
    rk_embeddings *e = locate(context, task, &t, &chunk);
    rk_update_plan_count(e, t, chunk);
}

static void deal_chunk(void *context, size_t task, int thread) {
    (void)thread;
    int32_t t;
    size_t chunk;
    rk_embeddings *e = locate(context, task, &t, &chunk);
    rk_update_plan_deal(e, t, chunk);
}

static void place_table(void *context, size_t task, int thread) {
    (void)thread;
    rk_embeddings *e = ((application *)context)->embeddings;
    if (rk_takes_updates(e, (int32_t)task)) rk_update_plan_place(&e->plans[task]);
}

static void sort_part(void *context, size_t task, int thread) {
    (void)thread;
    int32_t t;
    size_t part;
    rk_embeddings *e = locate(context, task, &t, &part);
    rk_update_plan_sort(&e->plans[t], (uint32_t)part);
}

static void update_piece(void *context, size_t task, int thread) {
    (void)thread;
    int32_t t;
    size_t number;
    rk_embeddings *e = locate(context, task, &t, &number);
    const rk_update_plan *plan = &e->plans[t];
    const rk_table *table = &e->tables[t];
    rk_use_piece piece = rk_update_plan_piece(plan, number);
    int64_t first_row = (int64_t)piece.part << plan->shift, part_rows = (int64_t)1 << plan->shift, rows_left = table->config.n_rows - first_row;
    rk_rows_update_args args = {
        .rows = table->rows,
        .first_row = first_row,
        .n_places = part_rows < rows_left ? part_rows : rows_left,
        .update = &e->updates[t],
        .uses = plan->uses + piece.first,
        .n_uses = piece.last - piece.first,
        .sources = plan->sources,
        .n_sources = plan->n_sources,
        .bags = plan->weighted ? plan->bags : NULL,
        .coefficients = plan->weighted ? plan->coefficients : NULL,
        .l2 = (float)table->l2,
        .l2_full = (float)table->l2_full,
        .seed = rk_table_store_seed(table, table->step + 1),
    };
    for (int s = 0; s < table->n_slots; s++) {
        args.slots[s] = table->slot_values[s];
        args.slot_widths[s] = table->slots[s].per_row ? 1 : table->config.dim;
    }
    rk_rows_update(&args);
}

static void update(application *a) {
    rk_embeddings *e = a->embeddings;
    for (int32_t t = 0; t < e->n_tables; t++)
        if (rk_takes_updates(e, t)) rk_update_prepare(&e->tables[t].optimizer, e->tables[t].step, e->learning_rate_factor, &e->updates[t]);
    for_pieces(a, n_chunks, count_chunk);
    rk_parallel_for((size_t)e->n_tables, place_table, a);
    for_pieces(a, n_chunks, deal_chunk);
    for_pieces(a, n_parts, sort_part);
    for_pieces(a, rk_update_plan_n_pieces, update_piece);
    for (int32_t t = 0; t < e->n_tables; t++) e->tables[t].step += rk_takes_updates(e, t);
}

static rk_status apply(rk_embeddings *e, const rk_activation *gradients, bool known_finite) {
    RK_FAIL_IF(!e->has_lookup, RK_INVALID_ARGUMENT, "apply_gradients needs a lookup before it");
    application a = {.embeddings = e, .gradients = gradients, .n = e->n_features ? e->uses[0].n : 0};
    if (!known_finite) RK_TRY(check_gradients(&a));
    RK_TRY(begin(&a));
    update(&a);
    e->has_lookup = false;
    return RK_OK;
}

rk_status rk_embeddings_apply_gradients(rk_embeddings *e, const rk_activation *gradients) {
    return apply(e, gradients, false);
}

rk_status rk_embeddings_apply_finite_gradients(rk_embeddings *e, const rk_activation *gradients) {
    return apply(e, gradients, true);
}
