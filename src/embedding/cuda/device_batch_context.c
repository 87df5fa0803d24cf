/* A batch's memory on the device and in pinned memory. */
#include <string.h>

#include "embedding/cuda/device_tables_internal.h"
#include "base/integers.h"

enum { ALIGNMENT = 256 };

rk_status rk_device_batch_context_init(rk_device_tables *d, rk_device_batch_context *batch_context) {
    RK_TRY(rk_stream_event_create(d->device, &batch_context->deduped));
    RK_TRY(rk_stream_event_create(d->device, &batch_context->done));
    RK_TRY(rk_device_tables_alloc(d, sizeof *batch_context->counts, &batch_context->counts));
    RK_TRY(rk_device_alloc_host(d->device, sizeof *batch_context->host_counts, &batch_context->host_counts));
    RK_TRY(rk_device_alloc_host(d->device, (size_t)d->n_tables * sizeof *batch_context->host_steps + 1,
                                &batch_context->host_steps));
    return RK_OK;
}

rk_status rk_device_batch_context_wait(const rk_device_batch_context *batch_context) {
    RK_TRY(rk_stream_event_sync(batch_context->deduped));
    return rk_stream_event_sync(batch_context->done);
}

/* Cuts an arena into arrays; with arena NULL only counts. */
static void *place_array_in_arena(char *arena, size_t *at, size_t n, size_t bytes) {
    void *array = arena ? arena + *at : NULL;
    *at += rk_round_up(n * bytes, ALIGNMENT);
    return array;
}

static size_t count_chunks(size_t n_uses) {
    return n_uses * 2 / RK_CUDA_CHUNK + 1;
}

/* Every array that is per use or per bag, into *batch; returns their bytes. */
static size_t place_arrays_in_arena(const rk_device_tables *d, char *arena, size_t n_uses, size_t n_bags,
                                    rk_cuda_batch *batch) {
    size_t at = 0;
    batch->places = place_array_in_arena(arena, &at, n_uses, sizeof *batch->places);
    batch->uses = place_array_in_arena(arena, &at, n_uses, sizeof *batch->uses);
    batch->scales = place_array_in_arena(arena, &at, n_bags, sizeof *batch->scales);
    batch->bag_partials = place_array_in_arena(arena, &at, n_bags, sizeof *batch->bag_partials);
    batch->keys = place_array_in_arena(arena, &at, n_uses, sizeof(uint64_t));
    batch->sorted_keys = place_array_in_arena(arena, &at, n_uses, sizeof(uint64_t));
    batch->order = place_array_in_arena(arena, &at, n_uses, sizeof *batch->order);
    batch->sorted = place_array_in_arena(arena, &at, n_uses, sizeof *batch->sorted);
    batch->heads = place_array_in_arena(arena, &at, n_uses, sizeof *batch->heads);
    batch->numbers = place_array_in_arena(arena, &at, n_uses, sizeof *batch->numbers);
    batch->sorted_uses = place_array_in_arena(arena, &at, n_uses, sizeof *batch->sorted_uses);
    batch->segments = place_array_in_arena(arena, &at, n_uses + 1, sizeof *batch->segments);
    batch->bag_chunks = place_array_in_arena(arena, &at, count_chunks(n_uses), sizeof *batch->bag_chunks);
    batch->use_chunks = place_array_in_arena(arena, &at, count_chunks(n_uses), sizeof *batch->use_chunks);
    batch->partials =
        place_array_in_arena(arena, &at, count_chunks(n_uses) * (size_t)d->width, sizeof *batch->partials);
    batch->fills = place_array_in_arena(arena, &at, d->caches ? n_uses : 0, sizeof *batch->fills);
    return at;
}

static size_t arena_bytes(const rk_device_tables *d, const rk_device_batch_context *batch_context) {
    rk_cuda_batch unused;
    return place_arrays_in_arena(d, NULL, (size_t)batch_context->uses_capacity,
                                 (size_t)batch_context->bags_capacity, &unused);
}

static void free_arena(rk_device_tables *d, rk_device_batch_context *batch_context) {
    rk_device_tables_dealloc(d, arena_bytes(d, batch_context), batch_context->arena);
    rk_device_tables_dealloc(d, batch_context->scratch_bytes, batch_context->scratch);
    batch_context->arena = NULL;
    batch_context->scratch = NULL;
}

static rk_status grow_arena(rk_device_tables *d, rk_device_batch_context *batch_context) {
    if (batch_context->arena && batch_context->n_uses <= batch_context->uses_capacity &&
        batch_context->n_bags <= batch_context->bags_capacity)
        return RK_OK;
    free_arena(d, batch_context);
    batch_context->uses_capacity = batch_context->n_uses + batch_context->n_uses / 4;
    batch_context->bags_capacity = batch_context->n_bags + batch_context->n_bags / 4;
    batch_context->scratch_bytes = rk_cuda_sort_scratch_bytes(d->device, batch_context->uses_capacity);
    RK_TRY(rk_device_tables_alloc(d, batch_context->scratch_bytes, &batch_context->scratch));
    return rk_device_tables_alloc(d, arena_bytes(d, batch_context), &batch_context->arena);
}

static void free_upload(rk_device_tables *d, rk_device_batch_context *batch_context) {
    rk_device_tables_dealloc(d, batch_context->upload_bytes, batch_context->upload);
    rk_device_free_host(d->device, batch_context->host);
    batch_context->upload = batch_context->host = NULL;
    batch_context->upload_bytes = 0;
}

static rk_status grow_upload(rk_device_tables *d, rk_device_batch_context *batch_context, size_t n_bytes) {
    if (n_bytes <= batch_context->upload_bytes) return RK_OK;
    free_upload(d, batch_context);
    n_bytes += n_bytes / 4;
    RK_TRY(rk_device_alloc_host(d->device, n_bytes, &batch_context->host));
    RK_TRY(rk_device_tables_alloc(d, n_bytes, &batch_context->upload));
    batch_context->upload_bytes = n_bytes;
    return RK_OK;
}

rk_status rk_device_batch_context_reserve(rk_device_tables *d, rk_device_batch_context *batch_context,
                                          size_t upload_bytes) {
    RK_TRY(grow_upload(d, batch_context, upload_bytes));
    RK_TRY(grow_arena(d, batch_context));
    batch_context->batch = (rk_cuda_batch *)batch_context->host;
    *batch_context->batch = (rk_cuda_batch){
        .tables = d->device_tables, .features = d->device_features, .counts = batch_context->counts};
    place_arrays_in_arena(d, batch_context->arena, (size_t)batch_context->uses_capacity,
                          (size_t)batch_context->bags_capacity, batch_context->batch);
    return RK_OK;
}

void rk_device_batch_context_release(rk_device_tables *d, rk_device_batch_context *batch_context) {
    if (batch_context->done) (void)rk_device_batch_context_wait(batch_context);
    free_arena(d, batch_context);
    free_upload(d, batch_context);
    rk_device_tables_dealloc(d, sizeof *batch_context->counts, batch_context->counts);
    rk_device_free_host(d->device, batch_context->host_counts);
    rk_device_free_host(d->device, batch_context->host_steps);
    rk_stream_event_free(batch_context->deduped);
    rk_stream_event_free(batch_context->done);
    memset(batch_context, 0, sizeof *batch_context);
}
