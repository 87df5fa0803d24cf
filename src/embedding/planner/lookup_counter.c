#include "embedding/planner/lookup_counter.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/thread/partition.h"
#include "batch/ids.h"

enum { FIRST_CAPACITY = 1024, MOST_HOT = 64 };

/* An id and when it was last seen: batches and local batches count from 1. */
typedef struct seen {
    int64_t id, count; /* count 0: a free place */
    int64_t batch, local_batch;
} seen;

typedef struct counter {
    seen *places; /* [capacity], a power of two, at most half full */
    size_t capacity, n;
    int64_t n_ids, batch_rows, local_rows;
    rk_hot_row hot[MOST_HOT];
} counter;

struct rk_lookup_counter {
    const rk_collection_config *collection;
    counter *counters; /* [n_tables] */
    int64_t n_trainers, n_samples, n_batches;
};

static seen *find_id_slot(const counter *c, int64_t id) {
    size_t at = rk_hash_bytes(&id, sizeof id, 0) & (c->capacity - 1);
    while (c->places[at].count && c->places[at].id != id) at = (at + 1) & (c->capacity - 1);
    return &c->places[at];
}

static rk_status grow_id_slots(counter *c) {
    counter wider = {.capacity = c->capacity ? 2 * c->capacity : FIRST_CAPACITY};
    RK_TRY(rk_alloc(wider.capacity, sizeof *wider.places, &wider.places));
    for (size_t i = 0; i < c->capacity; i++)
        if (c->places[i].count) *find_id_slot(&wider, c->places[i].id) = c->places[i];
    rk_free(c->places);
    c->places = wider.places;
    c->capacity = wider.capacity;
    return RK_OK;
}

static rk_status count_id(counter *c, int64_t id, int64_t batch, int64_t local_batch) {
    if (2 * (c->n + 1) > c->capacity) RK_TRY(grow_id_slots(c));
    seen *place = find_id_slot(c, id);
    c->n += place->count == 0;
    c->batch_rows += place->batch != batch;
    c->local_rows += place->local_batch != local_batch;
    *place = (seen){id, place->count + 1, batch, local_batch};
    c->n_ids++;
    return RK_OK;
}

static rk_status count_ids_of_sample(counter *c, const rk_ids *ids, int64_t sample, int64_t most,
                                     int64_t batch, int64_t local_batch, bool is_keyed) {
    int64_t begin = rk_ids_begin_of_sample(ids, sample), end = rk_ids_begin_of_sample(ids, sample + 1);
    if (most && end - begin > most) end = begin + most;
    for (int64_t i = begin; i < end; i++)
        if (is_keyed || ids->ids[i] >= 0) RK_TRY(count_id(c, ids->ids[i], batch, local_batch));
    return RK_OK;
}

rk_status rk_lookup_counter_create(const rk_collection_config *collection, int32_t n_trainers,
                                   rk_lookup_counter **out) {
    rk_lookup_counter *count;
    RK_TRY(rk_alloc(1, sizeof *count, &count));
    *count = (rk_lookup_counter){.collection = collection, .n_trainers = n_trainers};
    rk_status status = rk_alloc((size_t)collection->n_tables, sizeof *count->counters, &count->counters);
    if (status == RK_OK)
        *out = count;
    else
        rk_free(count);
    return status;
}

void rk_lookup_counter_free(rk_lookup_counter *count) {
    if (!count) return;
    for (int32_t t = 0; t < count->collection->n_tables; t++) rk_free(count->counters[t].places);
    RK_FREE_ALL(count->counters, count);
}

/* Rows are counted as distinct over all features of a trainer. */
rk_status rk_lookup_counter_add_batch(rk_lookup_counter *count, const rk_batch *batch) {
    const rk_collection_config *collection = count->collection;
    for (int64_t part = 0; part < count->n_trainers; part++) {
        int64_t local_batch = count->n_batches * count->n_trainers + part + 1,
                last = rk_partition_begin(batch->n, (size_t)part + 1, (size_t)count->n_trainers);
        for (int32_t f = 0; f < collection->n_features; f++)
            for (int64_t sample = rk_partition_begin(batch->n, (size_t)part, (size_t)count->n_trainers);
                 sample < last; sample++)
                RK_TRY(count_ids_of_sample(
                    &count->counters[collection->table_of[f]], &batch->features[collection->sources[f]],
                    sample, collection->features[f].max_sequence_length, count->n_batches + 1, local_batch,
                    collection->dynamic[collection->table_of[f]].max_capacity > 0));
    }
    count->n_samples += batch->n;
    count->n_batches++;
    return RK_OK;
}

int64_t rk_lookup_counter_n_samples(const rk_lookup_counter *count) {
    return count->n_samples;
}

/* The most frequent ids, the most frequent first; of equals the lowest. */
static int32_t find_hot_ids(counter *c) {
    rk_hot_row *hot = c->hot;
    int32_t n = 0;
    for (size_t i = 0; i < c->capacity; i++) {
        rk_hot_row row = {c->places[i].id, (double)c->places[i].count / (double)c->n_ids};
        if (c->places[i].count == 0) continue;
        int32_t at = n;
        while (at > 0 &&
               (hot[at - 1].share < row.share || (hot[at - 1].share == row.share && hot[at - 1].id > row.id)))
            at--;
        if (at == MOST_HOT) continue;
        if (n < MOST_HOT) n++;
        memmove(&hot[at + 1], &hot[at], (size_t)(n - 1 - at) * sizeof *hot);
        hot[at] = row;
    }
    return n;
}

/* Which part of a dynamic table has a hot key is not told. */
void rk_lookup_counter_compute_statistics(rk_lookup_counter *count, rk_table_statistics *loads) {
    double n_batches = (double)count->n_batches, n_shares = n_batches * (double)count->n_trainers;
    for (int32_t t = 0; t < count->collection->n_tables; t++) {
        counter *c = &count->counters[t];
        loads[t] =
            (rk_table_statistics){.measured = true,
                                  .ids = (double)c->n_ids / (double)count->n_samples,
                                  .batch_rows = (double)c->batch_rows / n_batches,
                                  .local_rows = (double)c->local_rows / n_shares,
                                  .hot = c->hot,
                                  .n_hot = count->collection->dynamic[t].max_capacity ? 0 : find_hot_ids(c)};
    }
}
