#include "embedding/update_plan.h"

#include <string.h>

#include "embedding/collection_parts.h"
#include "embedding/reserve.h"

/* The features of a table. */
typedef struct users {
    const int32_t *features;
    int32_t n;
} users;

static users users_of(const rk_embeddings *e, int32_t t) {
    return (users){e->by_table + e->table_begins[t], e->table_begins[t + 1] - e->table_begins[t]};
}

/* One feature that gives each bag one whole row: sorted positions are sorted bags. */
static bool is_plain(const rk_embeddings *e, users u) {
    return u.n == 1 && e->uses[u.features[0]].single;
}

static rk_status reserve_sorted(rk_update_plan *plan) {
    if (plan->starts && plan->n <= plan->capacity) return RK_OK; /* an empty plan has one start */
    size_t wanted = plan->n + plan->n / 4;
    plan->capacity = 0; /* until all have grown */
    RK_TRY(rk_realloc(wanted, sizeof *plan->occurrences, &plan->occurrences));
    RK_TRY(rk_realloc(wanted, sizeof *plan->order, &plan->order));
    RK_TRY(rk_realloc(wanted + 1, sizeof *plan->starts, &plan->starts));
    RK_TRY(rk_realloc(wanted, sizeof *plan->unique, &plan->unique));
    RK_TRY(rk_realloc(rk_unique_ids_scratch(wanted), 1, &plan->scratch));
    plan->capacity = wanted;
    return RK_OK;
}

static rk_status reserve_joined(rk_update_plan *plan) {
    if (plan->n <= plan->joined_capacity) return RK_OK;
    size_t wanted = plan->n + plan->n / 4;
    plan->joined_capacity = 0;
    RK_TRY(rk_realloc(wanted, sizeof *plan->ids, &plan->ids));
    RK_TRY(rk_realloc(wanted, sizeof *plan->unsorted, &plan->unsorted));
    plan->joined_capacity = wanted;
    return RK_OK;
}

rk_status rk_update_plan_reserve(rk_embeddings *e, int32_t t) {
    rk_update_plan *plan = &e->plans[t];
    users u = users_of(e, t);
    plan->n = 0;
    for (int32_t i = 0; i < u.n; i++) plan->n += (size_t)e->uses[u.features[i]].n_ids;
    RK_FAIL_IF(plan->n > INT32_MAX, RK_INVALID_ARGUMENT, "table '%s': 2^31 ids or more in one batch", e->tables[t].config.name);
    RK_TRY(reserve_sorted(plan));
    return is_plain(e, u) ? RK_OK : reserve_joined(plan);
}

/* Where the gradient of feature f's bag stands. */
static const float *gradient_of(const rk_embeddings *e, int32_t f, const rk_activation *gradient, int64_t bag) {
    int64_t length = e->features[f].max_sequence_length;
    if (!length) return gradient->data + bag * gradient->stride;
    return gradient->data + bag / length * gradient->stride + bag % length * e->tables[e->feature_tables[f]].config.dim;
}

/* Every place where feature f used a row, in batch order. */
static void list_occurrences(const rk_embeddings *e, int32_t f, const rk_activation *gradient, rk_occurrence *out) {
    const rk_feature_use *use = &e->uses[f];
    for (int64_t b = 0; b < use->n_bags; b++) {
        int64_t begin = use->offsets[b], end = use->offsets[b + 1];
        if (begin == end) continue;
        const float *g = gradient_of(e, f, gradient, b);
        float scale = use->scales ? use->scales[b] : 1.0f;
        for (int64_t i = begin; i < end; i++) out[i] = (rk_occurrence){g, use->coefficients ? use->coefficients[i] : scale};
    }
}

static const int64_t *join(rk_embeddings *e, rk_update_plan *plan, users u, const rk_activation *gradients) {
    size_t at = 0;
    for (int32_t i = 0; i < u.n; i++) {
        int32_t f = u.features[i];
        size_t n = (size_t)e->uses[f].n_ids;
        if (!n) continue;
        if (u.n > 1) memcpy(plan->ids + at, e->uses[f].ids, n * sizeof *plan->ids);
        list_occurrences(e, f, &gradients[f], plan->unsorted + at);
        at += n;
    }
    return u.n > 1 ? plan->ids : e->uses[u.features[0]].ids;
}

void rk_update_plan_make(rk_embeddings *e, int32_t t, const rk_activation *gradients) {
    rk_update_plan *plan = &e->plans[t];
    users u = users_of(e, t);
    int32_t f = u.features[0];
    bool plain = is_plain(e, u);
    const int64_t *ids = plain ? e->uses[f].ids : join(e, plan, u, gradients);
    plan->n_unique = rk_unique_ids(ids, plan->n, e->tables[t].config.n_rows - 1, plan->order, plan->unique, plan->starts, plan->scratch);
    for (size_t i = 0; i < plan->n; i++)
        plan->occurrences[i] = plain ? (rk_occurrence){gradient_of(e, f, &gradients[f], plan->order[i]), 1.0f} : plan->unsorted[plan->order[i]];
}

void rk_update_plan_release(rk_update_plan *plan) {
    rk_free(plan->occurrences);
    rk_free(plan->order);
    rk_free(plan->starts);
    rk_free(plan->unique);
    rk_free(plan->scratch);
    rk_free(plan->ids);
    rk_free(plan->unsorted);
    *plan = (rk_update_plan){0};
}
