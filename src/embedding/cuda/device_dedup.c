/* From a batch's ids to what the device's lookups and updates read. */
#include <string.h>

#include "base/thread/parallel_failure.h"
#include "base/thread/parallel.h"
#include "batch/narrow_integers.h"
#include "embedding/cuda/device_tables_internal.h"
#include "base/integers.h"

enum {
    PACK_IDS = 16384,    /* a task */
    PIECE_IDS = 4 << 20, /* at least, that are sent while the next ones are packed */
    ALIGNMENT = 16
};

/* Where the parts of an upload begin. */
typedef struct upload_layout {
    size_t feature_ids, offsets, weights, new_rows, new_values, ids, n_bytes;
} upload_layout;

typedef struct packing {
    rk_device_tables *tables;
    rk_device_batch_context *batch_context;
    int64_t n;
    const int64_t *counts; /* [n_features] samples, or NULL: n of all */
    const rk_ids *ids;
    int32_t first_feature; /* of the piece at hand */
    size_t blocks;         /* of PACK_IDS ids, a feature: of the longest */
    atomic_bool too_large; /* an id that is no int32_t */
    rk_parallel_failure failure;
} packing;

static void set_ids_of_device_feature(void *context, size_t f, int thread) {
    (void)thread;
    packing *p = context;
    rk_feature_bags *use = &p->tables->uses[f];
    rk_parallel_failure_record(&p->failure, (int64_t)f,
                               rk_feature_bags_set_ids(use, &p->tables->embeddings->features[f],
                                                       p->counts ? p->counts[f] : p->n, &p->ids[f]));
}

static bool have_same_ids(const rk_feature_bags *a, const rk_feature_bags *b) {
    return a->ids == b->ids && a->n_ids == b->n_ids;
}

/* Features that are given the same ids, such as those of a wide and a deep part, are sent them once: the
 * first such feature, or RK_NO_FEATURE. */
static int32_t feature_with_same_ids(const rk_device_tables *d, int32_t f) {
    int32_t first = d->same_ids[f];
    return first >= 0 && have_same_ids(&d->uses[first], &d->uses[f]) ? first : RK_NO_FEATURE;
}

/* Searched for once a feature, with the first batch in which it has ids. */
static void find_features_with_same_ids(rk_device_tables *d) {
    for (int32_t f = 0; f < d->n_features; f++) {
        if (d->same_ids[f] != RK_UNKNOWN_FEATURE || !d->uses[f].n_ids) continue;
        int32_t first = 0;
        while (!have_same_ids(&d->uses[first], &d->uses[f])) first++;
        d->same_ids[f] = first < f ? first : RK_NO_FEATURE;
    }
}

static void copy_ids_to_upload(void *context, size_t task, int thread) {
    (void)thread;
    packing *p = context;
    rk_device_batch_context *batch_context = p->batch_context;
    size_t f = (size_t)p->first_feature + task / p->blocks;
    const rk_feature_bags *use = &p->tables->uses[f];
    const rk_cuda_feature_ids *to = &batch_context->feature_ids[f];
    int64_t first = (int64_t)(task % p->blocks) * PACK_IDS,
            last = first + PACK_IDS < use->n_ids ? first + PACK_IDS : use->n_ids;
    if (first >= last) return;
    if (to->first_weight != RK_CUDA_NONE)
        memcpy(batch_context->weights + to->first_weight + first, p->ids[f].weights + first,
               (size_t)(last - first) * sizeof(float));
    if (feature_with_same_ids(p->tables, (int32_t)f) >= 0) return;
    if (batch_context->wide)
        memcpy((int64_t *)batch_context->ids + to->ids_at + first, use->ids + first,
               (size_t)(last - first) * sizeof(int64_t));
    else if (!rk_narrow_to_int32((int32_t *)batch_context->ids + to->ids_at + first, use->ids + first,
                                 last - first))
        atomic_store(&p->too_large, true);
}

static void copy_offsets_to_upload(void *context, size_t f, int thread) {
    (void)thread;
    packing *p = context;
    const rk_cuda_feature_ids *to = &p->batch_context->feature_ids[f];
    if (to->first_offset == RK_CUDA_NONE) return;
    for (int64_t s = 0; s <= p->tables->uses[f].n; s++)
        p->batch_context->offsets[to->first_offset + s] = (uint32_t)p->ids[f].offsets[s];
}

static rk_status check_one_micro_batch(const rk_device_tables *d, int64_t n) {
    for (int32_t f = 0; f < d->n_features; f++)
        RK_FAIL_IF(d->embeddings->micro_batches[f].first || (d->embeddings->micro_batches[f].samples &&
                                                             n > d->embeddings->micro_batches[f].samples),
                   RK_UNSUPPORTED, "'virtual_shards' is not supported on a GPU\nhint: remove virtual_shards");
    return RK_OK;
}

static size_t id_bytes(const rk_device_batch_context *batch_context) {
    return batch_context->wide ? sizeof(int64_t) : sizeof(int32_t);
}

/* The batch's counts, and where each feature's ids, uses, ... begin. out NULL: only the counts. */
static upload_layout lay_out_upload(const packing *p, rk_cuda_feature_ids *out) {
    const rk_device_tables *d = p->tables;
    rk_device_batch_context *batch_context = p->batch_context;
    int64_t n_samples = 0, n_ids = 0, n_uses = 0, n_bags = 0, n_tiles = 0, n_offsets = 0, n_weights = 0,
            n_sent = 0;
    for (int32_t f = 0; f < d->n_features; f++) {
        const rk_cuda_feature *feature = &d->features[f];
        int64_t n = d->uses[f].n, feature_ids = d->uses[f].n_ids,
                bags = n * (feature->length ? feature->length : 1),
                tile_bags = (RK_CUDA_TILE << 5) >> d->tables[feature->table].class_;
        bool has_offsets = p->ids[f].offsets, has_weights = p->ids[f].weights;
        int32_t same = feature_with_same_ids(d, f);
        if (out)
            out[f] =
                (rk_cuda_feature_ids){.n = (uint32_t)n,
                                      .first_sample = (uint32_t)n_samples,
                                      .first_id = (uint32_t)n_ids,
                                      .ids_at = same >= 0 ? out[same].ids_at : (uint32_t)n_sent,
                                      .first_use = (uint32_t)n_uses,
                                      .first_offset = has_offsets ? (uint32_t)n_offsets : RK_CUDA_NONE,
                                      .ids_per_sample = has_offsets ? 0 : (uint32_t)p->ids[f].ids_per_sample,
                                      .first_weight = has_weights ? (uint32_t)n_weights : RK_CUDA_NONE,
                                      .first_bag = (uint32_t)n_bags,
                                      .first_tile = (uint32_t)n_tiles};
        n_samples += n;
        n_ids += feature_ids;
        n_sent += same >= 0 ? 0 : feature_ids;
        n_uses += feature->length ? bags : feature_ids;
        n_bags += feature->length ? 0 : bags;
        n_tiles += (bags + tile_bags - 1) / tile_bags;
        n_offsets += has_offsets ? n + 1 : 0;
        n_weights += has_weights ? feature_ids : 0;
    }
    batch_context->n_samples = n_samples;
    batch_context->n_ids = n_ids;
    batch_context->n_uses = n_uses;
    batch_context->n_bags = n_bags;
    batch_context->n_tiles = n_tiles;
    upload_layout at = {.feature_ids = rk_round_up(sizeof(rk_cuda_batch), ALIGNMENT)};
    at.offsets =
        rk_round_up(at.feature_ids + (size_t)d->n_features * sizeof *batch_context->feature_ids, ALIGNMENT);
    at.weights = rk_round_up(at.offsets + (size_t)n_offsets * sizeof *batch_context->offsets, ALIGNMENT);
    at.new_rows = rk_round_up(at.weights + (size_t)n_weights * sizeof *batch_context->weights, ALIGNMENT);
    at.new_values = rk_round_up(at.new_rows + batch_context->n_new_rows * sizeof(rk_cuda_new_row), ALIGNMENT);
    at.ids = rk_round_up(at.new_values + batch_context->new_value_bytes, ALIGNMENT);
    at.n_bytes = at.ids + (size_t)n_sent * id_bytes(batch_context);
    return at;
}

/* A piece of the features is sent while the next one is packed. */
static void copy_and_upload_ids(packing *p, rk_stream *upload) {
    const rk_device_tables *d = p->tables;
    const rk_device_batch_context *c = p->batch_context;
    size_t begin = 0, end = 0, width = id_bytes(c), at = (size_t)((char *)c->ids - c->host);
    int64_t n_ids = 0;
    p->first_feature = 0;
    for (int32_t f = 0; f < d->n_features; f++) {
        n_ids += d->uses[f].n_ids;
        if (feature_with_same_ids(d, f) < 0) end += (size_t)d->uses[f].n_ids;
        if (n_ids < PIECE_IDS && f + 1 < d->n_features) continue;
        rk_parallel_for_work((size_t)(f + 1 - p->first_feature) * p->blocks, (uint64_t)n_ids,
                             copy_ids_to_upload, p);
        rk_stream_upload(upload, c->upload + at + begin * width, c->host + at + begin * width,
                         (end - begin) * width);
        begin = end;
        n_ids = 0;
        p->first_feature = f + 1;
    }
}

static rk_status pack_batch_for_upload(packing *p, rk_stream *upload) {
    rk_device_tables *d = p->tables;
    rk_device_batch_context *batch_context = p->batch_context;
    upload_layout at = lay_out_upload(p, NULL);
    RK_FAIL_IF(batch_context->n_ids > INT32_MAX || batch_context->n_uses > INT32_MAX ||
                   batch_context->n_samples > INT32_MAX,
               RK_INVALID_ARGUMENT, "2^31 ids or bags or more in one batch");
    RK_TRY(rk_device_batch_context_reserve(d, batch_context, at.n_bytes));
    batch_context->feature_ids = (rk_cuda_feature_ids *)(batch_context->host + at.feature_ids);
    batch_context->offsets = (uint32_t *)(batch_context->host + at.offsets);
    batch_context->weights = (float *)(batch_context->host + at.weights);
    batch_context->ids = batch_context->host + at.ids;
    lay_out_upload(p, batch_context->feature_ids);
    int64_t longest = 1;
    for (int32_t f = 0; f < d->n_features; f++)
        if (d->uses[f].n_ids > longest) longest = d->uses[f].n_ids;
    p->blocks = rk_block_count((size_t)longest, PACK_IDS);
    rk_parallel_for_work((size_t)d->n_features, (uint64_t)batch_context->n_samples, copy_offsets_to_upload,
                         p);
    copy_and_upload_ids(p, upload);
    if (batch_context->n_new_rows)
        rk_device_tables_pack_new_rows(d, (rk_cuda_new_row *)(batch_context->host + at.new_rows),
                                       batch_context->host + at.new_values);
    rk_cuda_batch *b = batch_context->batch;
    b->n_new_rows = batch_context->n_new_rows;
    b->new_rows = (const void *)(batch_context->upload + at.new_rows);
    b->new_values = batch_context->upload + at.new_values;
    b->feature_ids = (const void *)(batch_context->upload + at.feature_ids);
    b->offsets = (const void *)(batch_context->upload + at.offsets);
    b->weights = (const void *)(batch_context->upload + at.weights);
    b->ids = batch_context->upload + at.ids;
    return RK_OK;
}

static void fill_batch_descriptor(const rk_device_tables *d, rk_device_batch_context *batch_context) {
    rk_cuda_batch *b = batch_context->batch;
    b->n_samples = (uint32_t)batch_context->n_samples;
    b->n_features = (uint32_t)d->n_features;
    b->n_tables = (uint32_t)d->n_tables;
    b->n_uses = (uint32_t)batch_context->n_uses;
    b->n_tiles = (uint32_t)batch_context->n_tiles;
    b->wide = batch_context->wide;
    b->training = batch_context->training;
    b->caches = d->caches;
    b->folded = d->lent;
    b->number = batch_context->number;
    b->oldest = d->n_under_way ? batch_context->number - 1 : batch_context->number;
    b->width = d->width;
    b->has_narrow_keys = d->n_keys <= UINT32_MAX && !d->wide_keys;
    b->none_key = d->n_keys;
}

static void sort_batch_keys(const rk_device_tables *d, const rk_device_batch_context *batch_context,
                            rk_stream *stream, const rk_cuda_batch *on_device) {
    const rk_cuda_batch *b = batch_context->batch;
    rk_cuda_sort(stream, b->n_uses, rk_bit_width(d->n_keys),
                 b->has_narrow_keys ? sizeof(uint32_t) : sizeof(uint64_t), b->keys, b->sorted_keys, b->order,
                 b->sorted, batch_context->scratch, batch_context->scratch_bytes);
    rk_cuda_mark_segments(stream, b->n_uses, on_device);
    rk_cuda_scan_u32(stream, b->n_uses, b->heads, b->numbers, batch_context->scratch,
                     batch_context->scratch_bytes);
    rk_cuda_make_segments(stream, b->n_uses, on_device);
    if (!d->caches) return;
    rk_cuda_find_rows_in_caches(stream, b->n_uses, on_device);
    rk_cuda_fill_caches_from_host(stream, b->n_uses, on_device);
}

/* The other batch context's rows may leave the caches once it is done, and its own are found by then. */
static void upload_batch(rk_device_tables *d, rk_device_batch_context *batch_context, rk_stream *upload,
                         rk_stream *stream) {
    const rk_device_batch_context *other = &d->batch_contexts[batch_context == &d->batch_contexts[0]];
    const rk_cuda_batch *b = (const rk_cuda_batch *)batch_context->upload;
    rk_stream_upload(upload, batch_context->upload, batch_context->host,
                     (size_t)((char *)batch_context->ids - batch_context->host)); /* ids have gone */
    rk_stream_wait_for_stream(stream, upload);
    if (d->caches) rk_stream_wait_event(stream, other->deduped);
    if (d->caches && !d->n_under_way) rk_stream_wait_event(stream, other->done);
    rk_stream_fill(stream, batch_context->counts, 0, sizeof *batch_context->counts);
    rk_cuda_ids_to_row_uses(stream, (uint32_t)batch_context->n_samples, b);
    if (batch_context->n_uses && (batch_context->training || d->caches))
        sort_batch_keys(d, batch_context, stream, b);
    rk_stream_download(stream, batch_context->host_counts, batch_context->counts,
                       sizeof *batch_context->counts);
    rk_stream_record_event(stream, batch_context->deduped);
}

/* A batch whose uses have begun, packed and given to the streams. */
static rk_status pack_and_upload(packing *p, rk_stream *upload, rk_stream *stream) {
    rk_device_tables *d = p->tables;
    rk_device_batch_context *batch_context = p->batch_context;
    rk_device_tables_count_new_rows(d, batch_context);
    RK_TRY(rk_device_tables_grow(d));
    RK_TRY(pack_batch_for_upload(p, upload));
    if (atomic_load(&p->too_large)) {
        batch_context->wide = true;
        RK_TRY(rk_stream_sync(upload)); /* which may still read what moves now */
        RK_TRY(pack_batch_for_upload(p, upload));
    }
    batch_context->number = ++d->n_batches;
    fill_batch_descriptor(d, batch_context);
    upload_batch(d, batch_context, upload, stream);
    return RK_OK;
}

rk_status rk_device_tables_check_no_rows_lost(const rk_device_tables *d) {
    RK_FAIL_IF(d->lacks_rows, RK_NO_MEMORY,
               "the GPU lacks rows of keys that a batch had, which could not be sent to it\n"
               "hint: go on from the last checkpoint, with smaller batches");
    return RK_OK;
}

rk_status rk_device_tables_dedup(rk_device_tables *d, rk_stream *upload, rk_stream *stream, int64_t n,
                                 const int64_t *counts, const rk_ids *ids, bool training) {
    RK_TRY(rk_device_tables_check_no_rows_lost(d));
    RK_FAIL_IF(n < 0 || n > d->max_batch, RK_INVALID_ARGUMENT,
               "a lookup of %lld samples; the tables were created for at most %lld", (long long)n,
               (long long)d->max_batch);
    RK_FAIL_IF(d->n_features > 0 && !ids, RK_INVALID_ARGUMENT, "a lookup needs ids");
    RK_FAIL_IF(d->n_under_way == 2, RK_INVALID_ARGUMENT, "two batches are already in flight on the GPU");
    if (training && !d->of_ranks) RK_TRY(check_one_micro_batch(d, n));
    rk_device_batch_context *batch_context = &d->batch_contexts[(d->oldest + d->n_under_way) % 2];
    RK_TRY(rk_device_batch_context_wait(batch_context));
    batch_context->training = training;
    batch_context->wide = false;
    batch_context->is_prepared = false;
    packing p = {.tables = d,
                 .batch_context = batch_context,
                 .n = n,
                 .counts = counts,
                 .ids = ids,
                 .failure = RK_FAILURE_INIT};
    rk_parallel_for_work((size_t)d->n_features, (uint64_t)(n * d->n_features), set_ids_of_device_feature, &p);
    RK_TRY(rk_parallel_failure_status(&p.failure));
    RK_TRY(rk_device_tables_map_keys_to_rows(d, ids, training));
    find_features_with_same_ids(d);
    rk_status status = pack_and_upload(&p, upload, stream);
    if (status != RK_OK) {
        d->lacks_rows = batch_context->n_new_rows > 0;
        batch_context->n_new_rows = 0;
        return status;
    }
    d->n_under_way++;
    return RK_OK;
}

/* The collection's error for id number i of a batch. */
static rk_status bad_id_error(const rk_device_tables *d, const rk_device_batch_context *batch_context,
                              uint32_t i) {
    int32_t f = d->n_features - 1;
    while (f > 0 && batch_context->feature_ids[f].first_id > i) f--;
    const rk_cuda_feature_ids *at = &batch_context->feature_ids[f];
    uint32_t local = i - at->first_id;
    uint32_t stored = at->ids_at + local;
    int64_t sample = 0, id = batch_context->wide ? ((const int64_t *)batch_context->ids)[stored]
                                                 : ((const int32_t *)batch_context->ids)[stored];
    if (at->first_offset == RK_CUDA_NONE)
        sample = local / at->ids_per_sample;
    else
        while (batch_context->offsets[at->first_offset + sample + 1] <= local) sample++;
    bool drops;
    RK_TRY(rk_feature_bags_check_id(
        &d->embeddings->features[f], d->homes[d->features[f].table], sample, id,
        at->first_weight == RK_CUDA_NONE ? NULL : &batch_context->weights[at->first_weight + local], &drops));
    return rk_error(RK_INTERNAL, "the GPU rejected a valid id");
}

static rk_status cache_too_small_error(const rk_device_tables *d, const rk_cuda_counts *counts) {
    uint64_t least = 0;
    for (int32_t t = 0; t < d->n_tables; t++) {
        uint64_t bytes = rk_device_tables_bytes_of_table(&d->tables[t]);
        least += rk_cuda_table_is_cached(&d->tables[t])
                     ? bytes * (counts->short_ways > RK_CUDA_WAYS ? counts->short_ways : RK_CUDA_WAYS + 1) /
                           RK_CUDA_WAYS
                     : bytes;
    }
    rk_error(RK_NO_MEMORY, "table '%s': the batches in flight use more rows than its GPU cache holds",
             d->homes[counts->short_table - 1]->part.name);
    return rk_error_hint(RK_NO_MEMORY, "set cuda.memory to at least %llu bytes, or use smaller batches",
                         (unsigned long long)least);
}

rk_status rk_device_tables_check_ids(rk_device_tables *d) {
    RK_FAIL_IF(!d->n_under_way, RK_INVALID_ARGUMENT, "no batch is in flight on the GPU");
    const rk_device_batch_context *batch_context = rk_device_tables_oldest_batch(d);
    RK_TRY(rk_stream_event_sync(batch_context->deduped));
    if (batch_context->host_counts->bad_id)
        return bad_id_error(d, batch_context, ~batch_context->host_counts->bad_id);
    return batch_context->host_counts->short_table ? cache_too_small_error(d, batch_context->host_counts)
                                                   : RK_OK;
}
