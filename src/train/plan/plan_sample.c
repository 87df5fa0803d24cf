/* What tables are asked for, counted exactly over some batches of the training data. */
#include <string.h>

#include <reckon/dataset.h>

#include "base/hash.h"
#include "base/memory.h"
#include "embedding/cut.h"
#include "train/plan/plan_parts.h"

enum { FIRST_CAPACITY = 1024, MOST_HOT = sizeof((rk_plan_hot *)0)->rows / sizeof(rk_hot_row) };

/* An id and when it was last seen: batches and shares count from 1. */
typedef struct seen {
    int64_t id, count; /* count 0: a free place */
    int64_t batch, share;
} seen;

typedef struct counter {
    seen *places;      /* [capacity], a power of two, at most half full */
    size_t capacity, n;
    int64_t n_ids, batch_rows, share_rows;
} counter;

typedef struct sampling {
    rk_plan *plan;
    counter *counters; /* [n_tables] */
    int64_t n_samples, n_batches;
} sampling;

static seen *find(const counter *c, int64_t id) {
    size_t at = rk_hash_bytes(&id, sizeof id, 0) & (c->capacity - 1);
    while (c->places[at].count && c->places[at].id != id) at = (at + 1) & (c->capacity - 1);
    return &c->places[at];
}

static rk_status widen(counter *c) {
    counter wider = {.capacity = c->capacity ? 2 * c->capacity : FIRST_CAPACITY};
    RK_TRY(rk_alloc(wider.capacity, sizeof *wider.places, &wider.places));
    for (size_t i = 0; i < c->capacity; i++)
        if (c->places[i].count) *find(&wider, c->places[i].id) = c->places[i];
    rk_free(c->places);
    c->places = wider.places;
    c->capacity = wider.capacity;
    return RK_OK;
}

static rk_status count_id(counter *c, int64_t id, int64_t batch, int64_t share) {
    if (2 * (c->n + 1) > c->capacity) RK_TRY(widen(c));
    seen *place = find(c, id);
    c->n += place->count == 0;
    c->batch_rows += place->batch != batch;
    c->share_rows += place->share != share;
    *place = (seen){id, place->count + 1, batch, share};
    c->n_ids++;
    return RK_OK;
}

static rk_status count_sample(counter *c, const rk_ids *ids, int64_t sample, int64_t most, int64_t batch, int64_t share) {
    int64_t begin = ids->offsets ? ids->offsets[sample] : sample * ids->ids_per_sample, end = ids->offsets ? ids->offsets[sample + 1] : begin + ids->ids_per_sample;
    if (most && end - begin > most) end = begin + most;
    for (int64_t i = begin; i < end; i++)
        if (ids->ids[i] >= 0) RK_TRY(count_id(c, ids->ids[i], batch, share));
    return RK_OK;
}

/* A trainer's share is samples beside each other; its features together make its rows different. */
static rk_status count_batch(sampling *s, const rk_batch *batch) {
    const rk_embedding_plan *tables = &s->plan->tables;
    int64_t n_trainers = s->plan->request.roles.n_trainers;
    for (int64_t part = 0; part < n_trainers; part++) {
        int64_t share = s->n_batches * n_trainers + part + 1, last = rk_cut_at(batch->n, (size_t)part + 1, (size_t)n_trainers);
        for (int32_t f = 0; f < tables->n_features; f++)
            for (int64_t sample = rk_cut_at(batch->n, (size_t)part, (size_t)n_trainers); sample < last; sample++)
                RK_TRY(count_sample(&s->counters[tables->table_of[f]], &batch->features[tables->sources[f]], sample, tables->features[f].max_sequence_length,
                                    s->n_batches + 1, share));
    }
    s->n_samples += batch->n;
    s->n_batches++;
    return RK_OK;
}

/* Batches are whole but the first, which stands for data that has no more than one. */
static rk_status count_all(sampling *s, rk_dataset *dataset, int64_t n_rows) {
    const rk_batch *batch;
    rk_status status = RK_OK;
    while (status == RK_OK && (n_rows == 0 || s->n_samples < n_rows)) {
        status = rk_dataset_next(dataset, &batch);
        if (status == RK_OK && (s->n_batches == 0 || batch->n == s->plan->request.batch_size)) status = count_batch(s, batch);
    }
    if (status != RK_OK && status != RK_END) return status;
    RK_FAIL_IF(s->n_samples == 0, RK_BAD_DATA, "the training data has no rows");
    if (status == RK_END) s->plan->train_rows = rk_dataset_n_rows(dataset); /* before, its thread may be anywhere */
    return RK_OK;
}

/* The most frequent ids, the most frequent first; of equals the lowest. */
static int32_t find_hot(const counter *c, rk_hot_row *hot) {
    int32_t n = 0;
    for (size_t i = 0; i < c->capacity; i++) {
        rk_hot_row row = {c->places[i].id, (double)c->places[i].count / (double)c->n_ids};
        if (c->places[i].count == 0) continue;
        int32_t at = n;
        while (at > 0 && (hot[at - 1].share < row.share || (hot[at - 1].share == row.share && hot[at - 1].id > row.id))) at--;
        if (at == MOST_HOT) continue;
        if (n < MOST_HOT) n++;
        memmove(&hot[at + 1], &hot[at], (size_t)(n - 1 - at) * sizeof *hot);
        hot[at] = row;
    }
    return n;
}

static void conclude(sampling *s) {
    rk_plan *plan = s->plan;
    double n_batches = (double)s->n_batches, n_shares = n_batches * plan->request.roles.n_trainers;
    for (int32_t t = 0; t < plan->tables.n_tables; t++) {
        const counter *c = &s->counters[t];
        plan->loads[t] = (rk_table_load){.measured = true, .ids = (double)c->n_ids / (double)s->n_samples, .batch_rows = (double)c->batch_rows / n_batches,
                                         .share_rows = (double)c->share_rows / n_shares, .hot = plan->hot[t].rows, .n_hot = find_hot(c, plan->hot[t].rows)};
    }
    plan->sampled_rows = s->n_samples;
}

rk_status rk_plan_sample(rk_plan *plan, int64_t n_rows) {
    sampling s = {.plan = plan};
    rk_dataset *dataset = NULL;
    rk_status status;
    RK_GOTO(rk_alloc((size_t)plan->tables.n_tables, sizeof *s.counters, &s.counters));
    RK_GOTO(rk_alloc((size_t)plan->tables.n_tables, sizeof *plan->hot, &plan->hot));
    RK_GOTO(rk_dataset_open(plan->config, "train", &dataset));
    RK_GOTO(count_all(&s, dataset, n_rows));
    conclude(&s);
done:
    rk_dataset_free(dataset);
    for (int32_t t = 0; s.counters && t < plan->tables.n_tables; t++) rk_free(s.counters[t].places);
    rk_free(s.counters);
    return status;
}
