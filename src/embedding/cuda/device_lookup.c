/* A batch's lookup and update on the device: what goes with each, and the launches. */
#include <string.h>

#include "embedding/cuda/device_tables_internal.h"
#include "base/memory.h"

static uint32_t at_least_one(int64_t n) {
    return n > 0 ? (uint32_t)n : 1;
}

static rk_status prepare_optimizer_steps(const rk_device_tables *d, rk_cuda_step *steps) {
    for (int32_t t = 0; t < d->n_tables; t++) {
        const rk_table *home = d->homes[t];
        RK_FAIL_IF(home->l2_full != 0 && rk_cuda_table_is_cached(&d->tables[t]), RK_INVALID_ARGUMENT,
                   "table '%s': 'l2_full' updates every row at every step, so the whole table must fit on "
                   "the GPU\nhint: set a larger cuda.memory, or use 'l2'",
                   home->part.name);
        rk_optimizer_set_step_coefficients(&home->optimizer, home->step, d->embeddings->learning_rate_factor,
                                           &steps[t].update);
        steps[t].l2 = (float)home->l2;
        steps[t].l2_full = (float)home->l2_full;
        steps[t].seed = rk_table_rounding_seed(home, home->step + 1);
    }
    return RK_OK;
}

/* After the step before, which may train on what was at their places. */
static void init_new_rows(rk_device_batch_context *batch_context, rk_stream *stream) {
    if (batch_context->n_new_rows)
        rk_cuda_create_rows(stream, batch_context->n_new_rows, (const rk_cuda_batch *)batch_context->upload);
    batch_context->n_new_rows = 0;
}

/* Of a batch that is given up: its keys have rows all the same. */
static void init_new_rows_of_cancelled_batch(const rk_device_tables *d,
                                             rk_device_batch_context *batch_context) {
    if (!batch_context->n_new_rows) return;
    rk_stream_wait_event(d->stream, batch_context->deduped);
    if (d->last_stream) rk_stream_wait_for_stream(d->stream, d->last_stream);
    init_new_rows(batch_context, d->stream);
    (void)rk_stream_sync(d->stream); /* a device that fails fails the next call, too */
}

rk_status rk_device_tables_prepare_batch(rk_device_tables *d, rk_stream *stream) {
    RK_FAIL_IF(!d->n_under_way, RK_INVALID_ARGUMENT, "no batch is in flight on the GPU");
    rk_device_batch_context *batch_context = rk_device_tables_oldest_batch(d);
    RK_TRY(prepare_optimizer_steps(d, batch_context->host_steps));
    batch_context->stream = stream;
    batch_context->is_prepared = true;
    rk_stream_wait_event(stream, batch_context->deduped);
    rk_stream_copy(stream, d->at_hand, batch_context->upload, sizeof *d->at_hand);
    rk_stream_upload(stream, d->steps, batch_context->host_steps, (size_t)d->n_tables * sizeof *d->steps);
    init_new_rows(batch_context, stream);
    d->last_stream = stream;
    return RK_OK;
}

static bool is_vector_aligned(const rk_activation *a, int32_t dim) {
    return (uintptr_t)a->data % 16 == 0 && a->stride % 4 == 0 && dim % 4 == 0;
}

static rk_status upload_activations(const rk_device_tables *d, rk_device_activations *places,
                                    const rk_activation *given) {
    size_t n = (size_t)d->n_features;
    RK_AUTOFREE rk_cuda_activation *values = NULL;
    RK_TRY(rk_alloc(n, sizeof *values, &values));
    for (size_t f = 0; f < n; f++)
        values[f] = (rk_cuda_activation){given[f].data, given[f].stride,
                                         is_vector_aligned(&given[f], d->tables[d->features[f].table].dim)};
    return rk_device_upload(d->device, places->places, values, n * sizeof *values);
}

/* Activations or gradients that were given before have their places on the device already. */
static rk_status find_uploaded_activations(rk_device_tables *d, const rk_activation *given,
                                           const rk_cuda_activation **out) {
    size_t n = (size_t)d->n_features;
    for (size_t p = 0; p < d->n_places; p++) {
        bool same = true;
        for (size_t f = 0; f < n; f++)
            same &= d->places[p].given[f].data == given[f].data &&
                    d->places[p].given[f].stride == given[f].stride;
        *out = d->places[p].places;
        if (same) return RK_OK;
    }
    RK_TRY(rk_reserve(&d->places, &d->places_capacity, d->n_places + 1, sizeof *d->places));
    rk_device_activations *places = &d->places[d->n_places];
    *places = (rk_device_activations){0};
    RK_TRY(rk_alloc(n, sizeof *places->given, &places->given));
    if (n) memcpy(places->given, given, n * sizeof *given);
    d->n_places++;
    RK_TRY(rk_device_tables_alloc(d, n * sizeof *places->places, &places->places));
    RK_TRY(upload_activations(d, places, given));
    *out = places->places;
    return RK_OK;
}

void rk_device_tables_unbind_activations(rk_device_tables *d) {
    for (size_t p = 0; p < d->n_places; p++) {
        rk_free(d->places[p].given);
        rk_device_tables_dealloc(d, (size_t)d->n_features * sizeof *d->places[p].places, d->places[p].places);
    }
    d->n_places = 0;
}

rk_status rk_device_tables_lookup(rk_device_tables *d, rk_stream *stream, const rk_activation *activations) {
    const rk_device_batch_context *batch_context = rk_device_tables_oldest_batch(d);
    const rk_cuda_activation *to;
    RK_TRY(find_uploaded_activations(d, activations, &to));
    rk_cuda_lookup(stream, at_least_one(batch_context->n_tiles),
                   at_least_one(batch_context->uses_capacity / RK_CUDA_CHUNK), d->at_hand, to);
    return RK_OK;
}

rk_status rk_device_tables_flag_not_finite(rk_device_tables *d, rk_stream *stream,
                                           const rk_activation *gradients, uint32_t *stop) {
    const rk_cuda_activation *from;
    RK_TRY(find_uploaded_activations(d, gradients, &from));
    rk_cuda_flag_gradients_not_finite(stream, at_least_one(rk_device_tables_oldest_batch(d)->n_tiles),
                                      d->at_hand, from, stop);
    return RK_OK;
}

rk_status rk_device_tables_sum_gradients(rk_device_tables *d, rk_stream *stream,
                                         const rk_activation *gradients) {
    const rk_device_batch_context *batch_context = rk_device_tables_oldest_batch(d);
    const rk_cuda_activation *from;
    RK_TRY(find_uploaded_activations(d, gradients, &from));
    rk_cuda_sum_frequent_rows(stream, at_least_one(batch_context->uses_capacity / RK_CUDA_CHUNK), d->at_hand,
                              from, NULL);
    rk_cuda_sum_row_gradients(stream, at_least_one(batch_context->uses_capacity), d->at_hand, from);
    return RK_OK;
}

static bool any_optimizer_needs_sums(const rk_device_tables *d, bool sums) {
    bool any = false;
    for (int32_t t = 0; t < d->n_tables; t++)
        any |= d->tables[t].is_trained && rk_cuda_needs_sums(d->homes[t]->optimizer.kind) == sums;
    return any;
}

rk_status rk_device_tables_apply_gradients(rk_device_tables *d, rk_stream *stream,
                                           const rk_activation *gradients, const uint32_t *stop) {
    const rk_device_batch_context *batch_context = rk_device_tables_oldest_batch(d);
    const rk_cuda_activation *from;
    RK_TRY(find_uploaded_activations(d, gradients, &from));
    rk_cuda_sum_frequent_rows(stream, at_least_one(batch_context->uses_capacity / RK_CUDA_CHUNK), d->at_hand,
                              from, stop);
    for (int sums = 0; sums < 2; sums++)
        if (any_optimizer_needs_sums(d, sums))
            rk_cuda_update_rows(stream, at_least_one(batch_context->uses_capacity), sums, d->at_hand,
                                d->steps, from, stop);
    for (int32_t t = 0; t < d->n_tables; t++)
        if (d->homes[t]->l2_full != 0 && d->tables[t].is_trained)
            rk_cuda_update_all_rows(stream, d->tables[t].n_rows,
                                    rk_cuda_needs_sums(d->homes[t]->optimizer.kind), d->at_hand, (uint32_t)t,
                                    d->steps, from, stop);
    return RK_OK;
}

void rk_device_tables_undo_dedup(rk_device_tables *d) {
    d->n_under_way--;
}

void rk_device_tables_end_batch(rk_device_tables *d, bool applied) {
    if (!d->n_under_way) return;
    rk_device_batch_context *batch_context = rk_device_tables_oldest_batch(d);
    if (batch_context->is_prepared) rk_stream_record_event(batch_context->stream, batch_context->done);
    init_new_rows_of_cancelled_batch(d, batch_context);
    for (int32_t t = 0; t < d->n_tables; t++) d->homes[t]->step += applied && d->tables[t].is_trained;
    d->oldest = !d->oldest;
    d->n_under_way--;
}

rk_status rk_device_tables_check_gradients_finite(rk_device_tables *d) {
    const rk_device_batch_context *batch_context = rk_device_tables_oldest_batch(d);
    rk_cuda_counts counts;
    RK_FAIL_IF(!d->n_under_way || !batch_context->is_prepared, RK_INVALID_ARGUMENT,
               "no batch has been looked up on the GPU");
    RK_TRY(rk_stream_sync(batch_context->stream));
    RK_TRY(rk_device_download(d->device, &counts, batch_context->counts, sizeof counts));
    if (!counts.bad_gradient) return RK_OK;
    uint32_t item = ~counts.bad_gradient;
    int32_t f = d->n_features - 1;
    while (f > 0 && batch_context->feature_ids[f].first_sample > item) f--;
    return rk_error(RK_NOT_FINITE, "feature '%s': sample %lld: the gradient is not a finite number",
                    d->embeddings->features[f].name,
                    (long long)(item - batch_context->feature_ids[f].first_sample));
}
