#include "batch/packed_batch.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "batch/ids.h"
#include "batch/narrow_integers.h"
#include "base/integers.h"

/* What stands before the columns. */
typedef struct head {
    int64_t n, first_row;
    int32_t n_dense, n_features, n_tasks;
    uint8_t has_dense, has_labels, has_weights, has_groups;
} head;

/* What stands before a feature's offsets, ids and weights. */
typedef struct feature_head {
    int64_t n_ids, ids_per_sample;
    uint8_t offset_bytes, id_bytes; /* a value: 1, 2, 4, 8; offset_bytes 0: there are none */
    uint8_t is_weighted, unused[5];
} feature_head;
_Static_assert(sizeof(head) % 8 == 0 && sizeof(feature_head) % 8 == 0, "columns are 8-byte aligned");

static char *extend_buffer_padded(rk_buffer *out, size_t n_bytes) {
    char *to = rk_buffer_extend(out, rk_round_up(n_bytes, 8));
    if (to && n_bytes % 8) memset(to + n_bytes, 0, rk_round_up(n_bytes, 8) - n_bytes);
    return to;
}

static void append_array(rk_buffer *out, const void *data, size_t n_bytes) {
    char *to = extend_buffer_padded(out, n_bytes);
    if (to && n_bytes) memcpy(to, data, n_bytes);
}

static void append_narrowed_integers(rk_buffer *out, const int64_t *values, int64_t n, int64_t base,
                                     int width) {
    void *to = extend_buffer_padded(out, (size_t)(n * width));
    if (to) rk_narrow_integers(to, width, values, n, base);
}

static void pack_feature(const rk_ids *ids, int64_t first, int64_t n, rk_buffer *out) {
    int64_t begin = rk_ids_begin_of_sample(ids, first),
            n_ids = rk_ids_begin_of_sample(ids, first + n) - begin;
    const int64_t *offsets = ids->offsets ? ids->offsets + first : NULL,
                  *values = n_ids ? ids->ids + begin : NULL;
    feature_head h = {.n_ids = n_ids,
                      .ids_per_sample = ids->ids_per_sample,
                      .id_bytes = (uint8_t)rk_narrowest_integer_width(values, n_ids, 0),
                      .is_weighted = ids->weights != NULL};
    if (offsets) h.offset_bytes = (uint8_t)rk_narrowest_integer_width(offsets, n + 1, begin);
    append_array(out, &h, sizeof h);
    if (offsets) append_narrowed_integers(out, offsets, n + 1, begin, h.offset_bytes);
    append_narrowed_integers(out, values, n_ids, 0, h.id_bytes);
    if (ids->weights)
        append_array(out, n_ids ? ids->weights + begin : NULL, (size_t)n_ids * sizeof *ids->weights);
}

static void append_optional_floats(rk_buffer *out, const float *values, int64_t n, int64_t width) {
    if (values) append_array(out, values, (size_t)(n * width) * sizeof *values);
}

void rk_batch_pack(const rk_batch *batch, int64_t first, int64_t n, int columns, rk_buffer *out) {
    rk_batch b = rk_batch_slice(batch, first, n);
    if (!(columns & RK_PACK_INPUT)) b.n_dense = b.n_features = 0, b.dense = NULL;
    if (!(columns & RK_PACK_LABELS)) b.labels = b.sample_weights = NULL;
    if (!(columns & RK_PACK_GROUPS)) b.groups = NULL;
    head h = {.n = n,
              .first_row = b.first_row,
              .n_dense = b.n_dense,
              .n_features = b.n_features,
              .n_tasks = b.n_tasks,
              .has_dense = b.dense != NULL,
              .has_labels = b.labels != NULL,
              .has_weights = b.sample_weights != NULL,
              .has_groups = b.groups != NULL};
    append_array(out, &h, sizeof h);
    append_optional_floats(out, b.dense, n, b.n_dense);
    append_optional_floats(out, b.labels, n, b.n_tasks);
    append_optional_floats(out, b.sample_weights, n, 1);
    if (b.groups) append_array(out, b.groups, (size_t)n * sizeof *b.groups);
    for (int32_t f = 0; f < b.n_features; f++) pack_feature(&batch->features[f], first, n, out);
}

/* Bytes that are left. */
typedef struct cursor {
    const char *at;
    size_t n_left;
} cursor;

/* n values of so many bytes; out: pointer to a pointer to them. */
static rk_status read_array(cursor *c, int64_t n, size_t bytes, void *out) {
    RK_FAIL_IF(n < 0 || (uint64_t)n > c->n_left / bytes || rk_round_up((size_t)n * bytes, 8) > c->n_left,
               RK_BAD_DATA, "a packed batch is cut short");
    memcpy(out, &c->at, sizeof c->at);
    c->at += rk_round_up((size_t)n * bytes, 8);
    c->n_left -= rk_round_up((size_t)n * bytes, 8);
    return RK_OK;
}

/* The pointer stays NULL where they are not there. */
static rk_status read_optional_array(cursor *c, bool present, int64_t n, size_t bytes, void *out) {
    return present ? read_array(c, n, bytes, out) : RK_OK;
}

static rk_status read_and_widen_integers(cursor *c, int64_t n, uint8_t width, struct rk_unpacked_ids *memory,
                                         const int64_t **out) {
    const void *narrow;
    RK_FAIL_IF(!rk_integer_width_is_valid(width), RK_BAD_DATA, "a packed batch has numbers of %d bytes",
               width);
    RK_TRY(read_array(c, n, width, &narrow));
    RK_TRY(rk_reserve(&memory->values, &memory->capacity, (size_t)n + (n == 0), sizeof *memory->values));
    rk_widen_integers(memory->values, width, narrow, n);
    *out = memory->values;
    return RK_OK;
}

/* A sample's ids follow those of the one before it, and all samples' are all. */
static bool are_valid_offsets(const int64_t *offsets, int64_t n, int64_t n_ids) {
    bool ascending = offsets[0] == 0 && offsets[n] == n_ids;
    for (int64_t i = 0; i < n; i++) ascending &= offsets[i] <= offsets[i + 1];
    return ascending;
}

static bool is_valid_uniform_count(int64_t ids_per_sample, int64_t n, int64_t n_ids) {
    return ids_per_sample ? n_ids % ids_per_sample == 0 && n_ids / ids_per_sample == n : n_ids == 0;
}

static rk_status unpack_feature(cursor *c, int64_t n, struct rk_unpacked_ids *memory, rk_ids *out) {
    const feature_head *h;
    *out = (rk_ids){0};
    RK_TRY(read_array(c, 1, sizeof *h, &h));
    if (h->offset_bytes)
        RK_TRY(read_and_widen_integers(c, n + 1, h->offset_bytes, &memory[0], &out->offsets));
    bool fits = out->offsets ? are_valid_offsets(out->offsets, n, h->n_ids)
                             : is_valid_uniform_count(h->ids_per_sample, n, h->n_ids);
    RK_FAIL_IF(!fits || h->ids_per_sample < 0, RK_BAD_DATA, "a packed batch has other ids than samples");
    RK_TRY(read_and_widen_integers(c, h->n_ids, h->id_bytes, &memory[1], &out->ids));
    out->ids_per_sample = h->ids_per_sample;
    return read_optional_array(c, h->is_weighted, h->n_ids, sizeof *out->weights, &out->weights);
}

static rk_status reserve_features(rk_unpacked_batch *into, int32_t n) {
    if (n <= into->n_features) return RK_OK;
    RK_FAIL_IF(into->n_features, RK_INVALID_ARGUMENT, "a packed batch has %d features, those before had %d",
               n, into->n_features);
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)n, into->features), RK_ARRAY(2 * (size_t)n, into->memory)));
    into->n_features = n;
    return RK_OK;
}

rk_status rk_batch_unpack(const void *data, size_t n_bytes, rk_unpacked_batch *into, size_t *n_used) {
    cursor c = {data, n_bytes};
    const head *h;
    RK_TRY(read_array(&c, 1, sizeof *h, &h));
    bool fits = h->n >= 0 && h->n <= INT32_MAX && h->n_dense >= 0 && h->n_features >= 0 && h->n_tasks >= 0;
    RK_FAIL_IF(!fits, RK_BAD_DATA,
               "a packed batch says that it has %lld samples, %d dense numbers, %d features and %d labels",
               (long long)h->n, h->n_dense, h->n_features, h->n_tasks);
    RK_FAIL_IF((size_t)h->n_features > c.n_left / sizeof(feature_head), RK_BAD_DATA,
               "a packed batch is cut short");
    RK_TRY(reserve_features(into, h->n_features));
    rk_batch b = {.n = h->n,
                  .n_dense = h->n_dense,
                  .n_features = h->n_features,
                  .n_tasks = h->n_tasks,
                  .features = into->features,
                  .first_row = h->first_row};
    RK_TRY(read_optional_array(&c, h->has_dense, h->n,
                               (size_t)(h->n_dense ? h->n_dense : 1) * sizeof *b.dense, &b.dense));
    RK_TRY(read_optional_array(&c, h->has_labels, h->n,
                               (size_t)(h->n_tasks ? h->n_tasks : 1) * sizeof *b.labels, &b.labels));
    RK_TRY(read_optional_array(&c, h->has_weights, h->n, sizeof *b.sample_weights, &b.sample_weights));
    RK_TRY(read_optional_array(&c, h->has_groups, h->n, sizeof *b.groups, &b.groups));
    for (int32_t f = 0; f < h->n_features; f++)
        RK_TRY(unpack_feature(&c, h->n, &into->memory[2 * f], &into->features[f]));
    into->batch = b;
    *n_used = n_bytes - c.n_left;
    return RK_OK;
}

void rk_unpacked_batch_release(rk_unpacked_batch *b) {
    for (int32_t i = 0; b->memory && i < 2 * b->n_features; i++) rk_free(b->memory[i].values);
    RK_FREE_ALL(b->memory, b->features);
    *b = (rk_unpacked_batch){0};
}
