/* A batch's memory on the device and in pinned memory. */
#include <string.h>

#include "embedding/cuda/device_tables_internal.h"

enum { ALIGNMENT = 256 };

rk_status rk_flight_open(rk_device_tables *d, rk_device_flight *flight) {
    void *pinned;
    RK_TRY(rk_stream_mark_create(d->device, &flight->routed));
    RK_TRY(rk_stream_mark_create(d->device, &flight->done));
    RK_TRY(rk_device_take(d, sizeof *flight->counts, &flight->counts));
    RK_TRY(rk_device_alloc_host(d->device, sizeof *flight->host_counts, &pinned));
    flight->host_counts = pinned;
    RK_TRY(rk_device_alloc_host(d->device, (size_t)d->n_tables * sizeof *flight->host_steps + 1, &pinned));
    flight->host_steps = pinned;
    return RK_OK;
}

rk_status rk_flight_await(const rk_device_flight *flight) {
    RK_TRY(rk_stream_mark_sync(flight->routed));
    return rk_stream_mark_sync(flight->done);
}

static size_t aligned(size_t n_bytes) {
    return (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Cuts an arena into arrays; with arena NULL only counts. */
static void *cut(char *arena, size_t *at, size_t n, size_t bytes) {
    void *array = arena ? arena + *at : NULL;
    *at += aligned(n * bytes);
    return array;
}

static size_t n_chunks(size_t n_uses) {
    return n_uses * 2 / RK_CUDA_CHUNK + 1;
}

/* Every array that is per use or per bag, into *batch; returns their bytes. */
static size_t lay_out(const rk_device_tables *d, char *arena, size_t n_uses, size_t n_bags, rk_cuda_batch *batch) {
    size_t at = 0;
    batch->places = cut(arena, &at, n_uses, sizeof *batch->places);
    batch->uses = cut(arena, &at, n_uses, sizeof *batch->uses);
    batch->scales = cut(arena, &at, n_bags, sizeof *batch->scales);
    batch->bag_partials = cut(arena, &at, n_bags, sizeof *batch->bag_partials);
    batch->keys = cut(arena, &at, n_uses, sizeof *batch->keys);
    batch->sorted_keys = cut(arena, &at, n_uses, sizeof *batch->sorted_keys);
    batch->order = cut(arena, &at, n_uses, sizeof *batch->order);
    batch->sorted = cut(arena, &at, n_uses, sizeof *batch->sorted);
    batch->heads = cut(arena, &at, n_uses, sizeof *batch->heads);
    batch->numbers = cut(arena, &at, n_uses, sizeof *batch->numbers);
    batch->sorted_uses = cut(arena, &at, n_uses, sizeof *batch->sorted_uses);
    batch->segments = cut(arena, &at, n_uses + 1, sizeof *batch->segments);
    batch->bag_chunks = cut(arena, &at, n_chunks(n_uses), sizeof *batch->bag_chunks);
    batch->use_chunks = cut(arena, &at, n_chunks(n_uses), sizeof *batch->use_chunks);
    batch->partials = cut(arena, &at, n_chunks(n_uses) * (size_t)d->width, sizeof *batch->partials);
    batch->fills = cut(arena, &at, d->caches ? n_uses : 0, sizeof *batch->fills);
    return at;
}

static size_t arena_bytes(const rk_device_tables *d, const rk_device_flight *flight) {
    rk_cuda_batch unused;
    return lay_out(d, NULL, (size_t)flight->uses_capacity, (size_t)flight->bags_capacity, &unused);
}

static void give_arena(rk_device_tables *d, rk_device_flight *flight) {
    rk_device_give(d, arena_bytes(d, flight), flight->arena);
    rk_device_give(d, flight->scratch_bytes, flight->scratch);
    flight->arena = NULL;
    flight->scratch = NULL;
}

static rk_status grow_arena(rk_device_tables *d, rk_device_flight *flight) {
    if (flight->arena && flight->n_uses <= flight->uses_capacity && flight->n_bags <= flight->bags_capacity) return RK_OK;
    give_arena(d, flight);
    flight->uses_capacity = flight->n_uses + flight->n_uses / 4;
    flight->bags_capacity = flight->n_bags + flight->n_bags / 4;
    flight->scratch_bytes = rk_cuda_sort_scratch_bytes(d->device, flight->uses_capacity);
    RK_TRY(rk_device_take(d, flight->scratch_bytes, &flight->scratch));
    return rk_device_take(d, arena_bytes(d, flight), &flight->arena);
}

static void give_upload(rk_device_tables *d, rk_device_flight *flight) {
    rk_device_give(d, flight->upload_bytes, flight->upload);
    rk_device_free_host(d->device, flight->host);
    flight->upload = flight->host = NULL;
    flight->upload_bytes = 0;
}

static rk_status grow_upload(rk_device_tables *d, rk_device_flight *flight, size_t n_bytes) {
    if (n_bytes <= flight->upload_bytes) return RK_OK;
    give_upload(d, flight);
    void *pinned;
    n_bytes += n_bytes / 4;
    RK_TRY(rk_device_alloc_host(d->device, n_bytes, &pinned));
    flight->host = pinned;
    RK_TRY(rk_device_take(d, n_bytes, &flight->upload));
    flight->upload_bytes = n_bytes;
    return RK_OK;
}

rk_status rk_flight_reserve(rk_device_tables *d, rk_device_flight *flight, size_t upload_bytes) {
    RK_TRY(grow_upload(d, flight, upload_bytes));
    RK_TRY(grow_arena(d, flight));
    flight->batch = (rk_cuda_batch *)flight->host;
    *flight->batch = (rk_cuda_batch){.tables = d->device_tables, .features = d->device_features, .counts = flight->counts};
    lay_out(d, flight->arena, (size_t)flight->uses_capacity, (size_t)flight->bags_capacity, flight->batch);
    return RK_OK;
}

void rk_flight_close(rk_device_tables *d, rk_device_flight *flight) {
    if (flight->done) (void)rk_flight_await(flight);
    give_arena(d, flight);
    give_upload(d, flight);
    rk_device_give(d, sizeof *flight->counts, flight->counts);
    rk_device_free_host(d->device, flight->host_counts);
    rk_device_free_host(d->device, flight->host_steps);
    rk_stream_mark_free(flight->routed);
    rk_stream_mark_free(flight->done);
    memset(flight, 0, sizeof *flight);
}
