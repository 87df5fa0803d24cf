#include "embedding/cuda_sharded/device_sharded_store.h"

#include "base/memory.h"
#include "embedding/cuda_sharded/device_sharded_internal.h"

static rk_device_sharded *to_device_sharded(rk_device_store *store) {
    return (rk_device_sharded *)store;
}

static int32_t count_stored_features(const rk_sharded *s) {
    return s->store->n_features;
}

/* Streams, those of a replicated table once for each rank. */
static size_t count_streams_of_all_ranks(const rk_sharded *s) {
    size_t n = 0;
    for (int32_t r = 0; r < s->size; r++) n += (size_t)s->n_streams_of[r];
    return n;
}

static rk_status allocate_arrays(rk_device_sharded *ds) {
    const rk_sharded *s = ds->sharded;
    size_t n_tables = (size_t)s->trainer_tables->n_tables, n_features = (size_t)s->trainer_tables->n_features,
           stored = (size_t)count_stored_features(s), links = count_streams_of_all_ranks(s);
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_tables, ds->values), RK_ARRAY(n_tables, ds->lent),
                        RK_ARRAY(n_tables, ds->n_lent), RK_ARRAY(stored, ds->served),
                        RK_ARRAY(stored, ds->served_at), RK_ARRAY(stored, ds->gradients_at),
                        RK_ARRAY(stored, ds->staged_there), RK_ARRAY((size_t)s->n_streams, ds->staged_here),
                        RK_ARRAY(stored > links ? stored : links, ds->send),
                        RK_ARRAY(stored > links ? stored : links, ds->receive), RK_ARRAY(n_features, ds->ids),
                        RK_ARRAY(n_features, ds->offsets)));
    return rk_alloc(n_features, sizeof *ds->offsets_capacity, &ds->offsets_capacity);
}

static rk_status create_tables(rk_device_sharded *ds, const rk_device_tables_options *options) {
    rk_device_tables_options trainer_tables = {
        .max_batch = options->max_batch, .of_ranks = true, .lent = true};
    rk_device_tables_options store = {.budget_bytes = options->budget_bytes, .of_ranks = true};
    RK_TRY(rk_device_tables_create(ds->sharded->trainer_tables, ds->device, &trainer_tables,
                                   &ds->trainer_tables));
    return rk_device_tables_create(ds->sharded->store, ds->device, &store, &ds->store);
}

/* A feature's ids as places among its table's values. Bags of the host's lookups are positions, where a
 * feature is a sequence; the device's are samples. */
static rk_status map_ids_to_unique_rows(rk_device_sharded *ds, const rk_in_flight_batch *j, int32_t f) {
    const rk_embeddings *e = ds->sharded->trainer_tables;
    const rk_feature_bags *use = &j->batch_context.uses[f];
    int32_t t = e->feature_tables[f], length = e->features[f].max_sequence_length;
    if (e->tables[t].part.unplanned) { /* bags, combined elsewhere */
        ds->ids[f] =
            (rk_ids){.ids_per_sample = 1,
                     .ids = use->ids + j->unique[t].bag_begins[rk_embeddings_feature_number_in_table(e, f)]};
        return RK_OK;
    }
    if (!length) {
        ds->ids[f] = use->single
                         ? (rk_ids){.ids_per_sample = 1, .ids = use->ids}
                         : (rk_ids){.offsets = use->offsets, .ids = use->ids, .weights = use->coefficients};
        return RK_OK;
    }
    RK_TRY(rk_reserve(&ds->offsets[f], &ds->offsets_capacity[f], (size_t)use->n + 1, sizeof **ds->offsets));
    for (int64_t s = 0; s <= use->n; s++) ds->offsets[f][s] = use->offsets[s * length];
    ds->ids[f] = (rk_ids){.offsets = ds->offsets[f], .ids = use->ids};
    return RK_OK;
}

/* Ids to their owners, and what others want of this one; keys become rows here. */
static rk_status exchange_ids(rk_sharded *s, rk_in_flight_batch *j, int64_t n, const rk_ids *ids) {
    RK_TRY(rk_in_flight_batch_input_dist(s, j, n, ids));
    rk_status status = rk_all_to_all_wait(j->ids);
    if (status == RK_OK && s->owns) status = rk_in_flight_batch_read_ids(s, j);
    if (status == RK_OK) status = rk_in_flight_batch_keys_to_rows(s, j);
    rk_all_to_all_free(j->ids);
    j->ids = NULL;
    return status == RK_OK ? rk_in_flight_batch_exchange_key_answers(s, j) : status;
}

static rk_status sharded_dedup(rk_device_store *store, rk_stream *upload, rk_stream *stream, int64_t n,
                               const rk_ids *ids, bool training) {
    rk_device_sharded *ds = to_device_sharded(store);
    rk_sharded *s = ds->sharded;
    rk_in_flight_batch *j = rk_sharded_batch_at(s, s->begun);
    RK_FAIL_IF(s->begun - s->finished >= 2, RK_INVALID_ARGUMENT,
               "two batches are already in flight on the GPU");
    j->kind = training ? RK_IN_FLIGHT_TRAIN : RK_IN_FLIGHT_EVAL;
    j->word = s->timestamp;
    RK_TRY(exchange_ids(s, j, n, ids));
    RK_TRY(rk_device_sharded_reserve_buffers(ds, j));
    for (int32_t f = 0; f < s->trainer_tables->n_features; f++) RK_TRY(map_ids_to_unique_rows(ds, j, f));
    RK_TRY(rk_device_tables_dedup(ds->trainer_tables, upload, stream, n, NULL, ds->ids, training));
    rk_status status =
        rk_device_tables_dedup(ds->store, upload, stream, 0, j->counts, j->stored_ids, training);
    if (status == RK_OK)
        s->begun++;
    else
        rk_device_tables_undo_dedup(ds->trainer_tables);
    return status;
}

static rk_status sharded_check_ids(rk_device_store *store) {
    rk_device_sharded *ds = to_device_sharded(store);
    RK_TRY(rk_device_tables_check_ids(ds->trainer_tables));
    return rk_device_tables_check_ids(ds->store);
}

static rk_status sharded_lookup(rk_device_store *store, rk_stream *stream, const rk_activation *activations) {
    return rk_device_tables_lookup(to_device_sharded(store)->trainer_tables, stream, activations);
}

static rk_status sharded_flag_not_finite(rk_device_store *store, rk_stream *stream,
                                         const rk_activation *gradients, uint32_t *stop) {
    return rk_device_tables_flag_not_finite(to_device_sharded(store)->trainer_tables, stream, gradients,
                                            stop);
}

static rk_status sharded_check_gradients_finite(rk_device_store *store) {
    return rk_device_tables_check_gradients_finite(to_device_sharded(store)->trainer_tables);
}

static rk_status sharded_sum_gradients(rk_device_store *store, rk_stream *stream,
                                       const rk_activation *gradients) {
    return rk_device_tables_sum_gradients(to_device_sharded(store)->trainer_tables, stream, gradients);
}

static void sharded_end_batch(rk_device_store *store, bool applied) {
    rk_device_sharded *ds = to_device_sharded(store);
    rk_sharded *s = ds->sharded;
    if (s->begun == s->finished) return;
    rk_device_tables_end_batch(ds->trainer_tables, false);
    rk_device_tables_end_batch(ds->store, applied);
    s->finished++;
    s->seen.n_batches++;
}

static rk_status sharded_flush(rk_device_store *store) {
    return rk_device_tables_flush(to_device_sharded(store)->store);
}

static rk_status sharded_reload(rk_device_store *store) {
    return rk_device_tables_reload(to_device_sharded(store)->store);
}

static void free_sharded(rk_device_store *store) {
    rk_device_sharded *ds = to_device_sharded(store);
    const rk_sharded *s = ds->sharded;
    if (ds->stream) (void)rk_device_comm_wait(ds->comm, ds->stream);
    rk_device_tables_free(ds->trainer_tables);
    rk_device_tables_free(ds->store);
    for (int32_t t = 0; t < s->trainer_tables->n_tables && ds->values; t++)
        rk_device_free(ds->device, ds->values[t].data);
    for (int32_t i = 0; i < s->n_streams && ds->staged_here; i++)
        rk_device_free(ds->device, ds->staged_here[i].data);
    for (int32_t f = 0; f < count_stored_features(s); f++) {
        if (ds->served) rk_device_free(ds->device, ds->served[f].data);
        if (ds->staged_there) rk_device_free(ds->device, ds->staged_there[f].data);
    }
    for (int32_t f = 0; f < s->trainer_tables->n_features && ds->offsets; f++) rk_free(ds->offsets[f]);
    RK_FREE_ALL(ds->values, ds->lent, ds->n_lent, ds->served, ds->served_at, ds->gradients_at,
                ds->staged_here, ds->staged_there, ds->send, ds->receive, ds->ids, ds->offsets,
                ds->offsets_capacity);
    rk_free(ds);
}

rk_status rk_device_store_sharded(rk_sharded *sharded, rk_device *device, rk_device_comm *comm,
                                  const rk_device_tables_options *options, rk_device_store **out) {
    static const rk_device_store_ops ops = {.free = free_sharded,
                                            .dedup = sharded_dedup,
                                            .check_ids = sharded_check_ids,
                                            .fetch = rk_device_sharded_fetch_rows,
                                            .lookup = sharded_lookup,
                                            .flag_not_finite = sharded_flag_not_finite,
                                            .check_gradients_finite = sharded_check_gradients_finite,
                                            .sum = sharded_sum_gradients,
                                            .apply = rk_device_sharded_apply_gradients,
                                            .end_batch = sharded_end_batch,
                                            .flush = sharded_flush,
                                            .reload = sharded_reload};
    RK_FAIL_IF(sharded->roles.n_owners || sharded->staleness, RK_UNSUPPORTED,
               "on GPUs every rank trains and holds rows, and staleness must be 0");
    rk_device_sharded *ds;
    rk_status status;
    RK_TRY(rk_alloc(1, sizeof *ds, &ds));
    *ds = (rk_device_sharded){.as_store.ops = &ops, .sharded = sharded, .device = device, .comm = comm};
    RK_GOTO(allocate_arrays(ds));
    RK_GOTO(create_tables(ds, options));
    *out = &ds->as_store;
    return RK_OK;
done:
    free_sharded(&ds->as_store);
    return status;
}
