#include "batch/id_tensors.h"

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "batch/ids.h"

/* ids, offsets of each feature, and of all keys together. */
static size_t count_widened_arrays(int32_t n_features) {
    return 2 * ((size_t)n_features + 1);
}

static rk_status allocate_widened_arrays(rk_tensor_ids *m, int32_t n_features) {
    if (!m->ids) RK_TRY(rk_alloc((size_t)n_features, sizeof *m->ids, &m->ids));
    if (!m->widened) RK_TRY(rk_alloc(count_widened_arrays(n_features), sizeof *m->widened, &m->widened));
    if (!m->capacities)
        RK_TRY(rk_alloc(count_widened_arrays(n_features), sizeof *m->capacities, &m->capacities));
    return RK_OK;
}

void rk_tensor_ids_release(rk_tensor_ids *m, int32_t n_features) {
    for (size_t i = 0; m->widened && i < count_widened_arrays(n_features); i++) rk_free(m->widened[i]);
    RK_FREE_ALL(m->ids, m->widened, m->capacities);
    *m = (rk_tensor_ids){0};
}

static rk_status check_tensor(const rk_tensor *t, const char *what, bool is_whole) {
    rk_status status = rk_tensor_check(t);
    if (status != RK_OK) return rk_error_context(status, "%s", what);
    RK_FAIL_IF(t->device != RK_DEVICE_CPU, RK_INVALID_ARGUMENT, "%s: are not on the CPU", what);
    RK_FAIL_IF(is_whole && t->dtype != RK_I32 && t->dtype != RK_I64, RK_INVALID_ARGUMENT,
               "%s: are %s, not i32 or i64", what, rk_dtype_name(t->dtype));
    RK_FAIL_IF(!rk_tensor_is_contiguous(t), RK_INVALID_ARGUMENT, "%s: are not contiguous", what);
    return RK_OK;
}

/* The values of a tensor of whole numbers: its own, or widened into array. */
static rk_status widen_to_i64(const rk_tensor *t, int64_t **array, size_t *capacity, const int64_t **out) {
    *out = t->data;
    if (t->dtype == RK_I64) return RK_OK;
    const int32_t *from = t->data;
    int64_t n = rk_tensor_n_values(t);
    RK_TRY(rk_reserve(array, capacity, (size_t)n, sizeof **array));
    for (int64_t i = 0; i < n; i++) (*array)[i] = from[i];
    *out = *array;
    return RK_OK;
}

/* Bags by offsets; or, without, a row of ids for each sample. */
static rk_status check_shapes(const rk_id_tensors *f, int64_t n) {
    const rk_tensor *ids = f->ids, *offsets = f->offsets;
    RK_FAIL_IF(offsets && (offsets->n_dims != 1 || offsets->shape[0] != n + 1), RK_INVALID_ARGUMENT,
               "offsets: must be [%lld], one more than samples", (long long)n + 1);
    RK_FAIL_IF(offsets && ids->n_dims != 1, RK_INVALID_ARGUMENT, "ids: must have 1 dimension beside offsets");
    RK_FAIL_IF(!offsets && (ids->n_dims < 1 || ids->n_dims > 2 || ids->shape[0] != n), RK_INVALID_ARGUMENT,
               "ids: must be [%lld] or [%lld, k] without offsets", (long long)n, (long long)n);
    return RK_OK;
}

static rk_status check_and_view_weights(const rk_id_tensors *f, rk_ids *out) {
    if (!f->weights) return RK_OK;
    RK_TRY(check_tensor(f->weights, "weights", false));
    RK_FAIL_IF(f->weights->dtype != RK_F32, RK_INVALID_ARGUMENT, "weights: are %s, not f32",
               rk_dtype_name(f->weights->dtype));
    RK_FAIL_IF(rk_tensor_n_values(f->weights) != rk_tensor_n_values(f->ids), RK_INVALID_ARGUMENT,
               "weights: must be as many as ids");
    out->weights = f->weights->data;
    return RK_OK;
}

static rk_status convert_tensors_of_feature(rk_tensor_ids *m, int32_t feature, int64_t n,
                                            const rk_id_tensors *f) {
    rk_ids *out = &m->ids[feature];
    int64_t **widened = &m->widened[2 * feature];
    size_t *capacities = &m->capacities[2 * feature];
    *out = (rk_ids){0};
    RK_FAIL_IF(!f->ids, RK_INVALID_ARGUMENT, "ids: are missing");
    RK_TRY(check_tensor(f->ids, "ids", true));
    if (f->offsets) RK_TRY(check_tensor(f->offsets, "offsets", true));
    RK_TRY(check_shapes(f, n));
    RK_TRY(widen_to_i64(f->ids, &widened[0], &capacities[0], &out->ids));
    if (f->offsets) {
        RK_TRY(widen_to_i64(f->offsets, &widened[1], &capacities[1], &out->offsets));
        RK_FAIL_IF(out->offsets[n] > f->ids->shape[0], RK_INVALID_ARGUMENT,
                   "offsets: end at %lld, beyond %lld ids", (long long)out->offsets[n],
                   (long long)f->ids->shape[0]);
    } else {
        out->ids_per_sample = f->ids->n_dims == 2 ? f->ids->shape[1] : 1;
    }
    return check_and_view_weights(f, out);
}

rk_status rk_tensor_ids_from_tensors(rk_tensor_ids *m, int32_t n_features, int64_t n,
                                     const rk_id_tensors *features, const rk_ids **out) {
    RK_FAIL_IF(n < 0 || n == INT64_MAX || (n_features > 0 && !features), RK_INVALID_ARGUMENT,
               "ids are missing, or of a negative number of samples");
    RK_TRY(allocate_widened_arrays(m, n_features));
    for (int32_t f = 0; f < n_features; f++) {
        rk_status status = convert_tensors_of_feature(m, f, n, &features[f]);
        if (status != RK_OK) return rk_error_context(status, "feature %d", f);
    }
    *out = m->ids;
    return RK_OK;
}

/* ---- Features that stand one behind the other in the same tensors. */

static rk_status convert_keyed_tensors(rk_tensor_ids *m, int32_t n_features, int64_t n, int32_t n_keys,
                                       const rk_id_tensors *tensors, rk_ids *all) {
    const rk_tensor *ids = tensors->ids, *offsets = tensors->offsets;
    int64_t **widened = &m->widened[2 * n_features];
    size_t *capacities = &m->capacities[2 * n_features];
    RK_FAIL_IF(!ids || !offsets, RK_INVALID_ARGUMENT, "%s: are missing", ids ? "offsets" : "ids");
    RK_TRY(check_tensor(ids, "ids", true));
    RK_TRY(check_tensor(offsets, "offsets", true));
    RK_FAIL_IF(n && n_keys > (INT64_MAX - 1) / n, RK_INVALID_ARGUMENT, "%d keys of %lld samples", (int)n_keys,
               (long long)n);
    RK_TRY(check_shapes(tensors, n * n_keys));
    RK_TRY(widen_to_i64(ids, &widened[0], &capacities[0], &all->ids));
    RK_TRY(widen_to_i64(offsets, &widened[1], &capacities[1], &all->offsets));
    return check_and_view_weights(tensors, all);
}

static rk_status check_key_offsets(const rk_ids *all, int64_t n, int64_t n_ids, int32_t key, int32_t n_keys) {
    RK_FAIL_IF(key < 0 || key >= n_keys, RK_INVALID_ARGUMENT, "key %d is none of %d", (int)key, (int)n_keys);
    int64_t begin = all->offsets[key * n], end = all->offsets[(key + 1) * n];
    RK_FAIL_IF(begin < 0 || begin > end || end > n_ids, RK_INVALID_ARGUMENT,
               "offsets: %lld to %lld is no part of %lld ids", (long long)begin, (long long)end,
               (long long)n_ids);
    return RK_OK;
}

typedef struct keyed_job {
    rk_tensor_ids *memory;
    const rk_ids *all;
    const int32_t *keys; /* [n_features] */
    int64_t n;
} keyed_job;

/* What is known of offsets whose ends were checked: those that ascend lie between these. */
typedef enum steps { UNEQUAL, EQUAL, DESCENDING } steps;
static steps compare_bag_sizes(const int64_t *offsets, int64_t n) {
    for (int64_t s = 0; s < n; s++)
        if (offsets[s + 1] < offsets[s]) return DESCENDING;
    for (int64_t s = 1; s < n; s++)
        if (offsets[s + 1] - offsets[s] != offsets[1] - offsets[0]) return UNEQUAL;
    return EQUAL;
}

enum { REFUSED = -1 }; /* ids_per_sample of a feature whose offsets descend */

/* Bags of one size need no offsets. */
static void slice_ids_of_key(void *context, size_t f, int thread) {
    (void)thread;
    const keyed_job *j = context;
    int64_t first = j->keys[f] * j->n;
    const int64_t *offsets = j->all->offsets + first;
    rk_ids all = *j->all, *out = &j->memory->ids[f];
    const steps found = compare_bag_sizes(offsets, j->n);
    if (found == DESCENDING) {
        *out = (rk_ids){.ids_per_sample = REFUSED};
        return;
    }
    if (j->n == 0 || found == UNEQUAL) {
        *out = rk_ids_slice(&all, first, j->n, j->memory->widened[2 * f + 1]);
        return;
    }
    *out = (rk_ids){.ids_per_sample = offsets[1] - offsets[0], .ids = all.ids, .weights = all.weights};
    if (out->ids) out->ids += offsets[0];
    if (out->weights) out->weights += offsets[0];
}

rk_status rk_tensor_ids_from_keyed(rk_tensor_ids *m, int32_t n_features, int64_t n, int32_t n_keys,
                                   const rk_id_tensors *tensors, const int32_t *keys, const rk_ids **out) {
    RK_FAIL_IF(n < 0 || n == INT64_MAX || n_keys < 0 || !tensors || (n_features > 0 && !keys),
               RK_INVALID_ARGUMENT, "ids are missing, or of a negative number of samples or keys");
    RK_TRY(allocate_widened_arrays(m, n_features));
    rk_ids all = {0};
    RK_TRY(convert_keyed_tensors(m, n_features, n, n_keys, tensors, &all));
    for (int32_t f = 0; f < n_features; f++) {
        rk_status status = check_key_offsets(&all, n, tensors->ids->shape[0], keys[f], n_keys);
        if (status != RK_OK) return rk_error_context(status, "feature %d", f);
        RK_TRY(rk_reserve(&m->widened[2 * f + 1], &m->capacities[2 * f + 1], (size_t)n + 1,
                          sizeof **m->widened));
    }
    keyed_job job = {m, &all, keys, n};
    rk_parallel_for_work((size_t)n_features, (uint64_t)n * (uint64_t)n_features, slice_ids_of_key, &job);
    for (int32_t f = 0; f < n_features; f++)
        RK_FAIL_IF(m->ids[f].ids_per_sample == REFUSED, RK_INVALID_ARGUMENT,
                   "feature %d: offsets: must not decrease", (int)f);
    *out = m->ids;
    return RK_OK;
}
