#include "batch/id_tensors.h"

#include "base/memory.h"

void rk_tensor_ids_release(rk_tensor_ids *m, int32_t n_features) {
    for (int32_t i = 0; m->widened && i < 2 * n_features; i++) rk_free(m->widened[i]);
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
static rk_status widen(const rk_tensor *t, int64_t **array, size_t *capacity, const int64_t **out) {
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

static rk_status take_weights(const rk_id_tensors *f, rk_ids *out) {
    if (!f->weights) return RK_OK;
    RK_TRY(check_tensor(f->weights, "weights", false));
    RK_FAIL_IF(f->weights->dtype != RK_F32, RK_INVALID_ARGUMENT, "weights: are %s, not f32",
               rk_dtype_name(f->weights->dtype));
    RK_FAIL_IF(rk_tensor_n_values(f->weights) != rk_tensor_n_values(f->ids), RK_INVALID_ARGUMENT,
               "weights: must be as many as ids");
    out->weights = f->weights->data;
    return RK_OK;
}

static rk_status take_feature(rk_tensor_ids *m, int32_t feature, int64_t n, const rk_id_tensors *f) {
    rk_ids *out = &m->ids[feature];
    int64_t **widened = &m->widened[2 * feature];
    size_t *capacities = &m->capacities[2 * feature];
    *out = (rk_ids){0};
    RK_FAIL_IF(!f->ids, RK_INVALID_ARGUMENT, "ids: are missing");
    RK_TRY(check_tensor(f->ids, "ids", true));
    if (f->offsets) RK_TRY(check_tensor(f->offsets, "offsets", true));
    RK_TRY(check_shapes(f, n));
    RK_TRY(widen(f->ids, &widened[0], &capacities[0], &out->ids));
    if (f->offsets) {
        RK_TRY(widen(f->offsets, &widened[1], &capacities[1], &out->offsets));
        RK_FAIL_IF(out->offsets[n] > f->ids->shape[0], RK_INVALID_ARGUMENT,
                   "offsets: end at %lld, beyond %lld ids", (long long)out->offsets[n],
                   (long long)f->ids->shape[0]);
    } else {
        out->ids_per_sample = f->ids->n_dims == 2 ? f->ids->shape[1] : 1;
    }
    return take_weights(f, out);
}

rk_status rk_tensor_ids_take(rk_tensor_ids *m, int32_t n_features, int64_t n, const rk_id_tensors *features,
                             const rk_ids **out) {
    size_t n_lists = 2 * (size_t)n_features;
    RK_FAIL_IF(n < 0 || n == INT64_MAX || (n_features > 0 && !features), RK_INVALID_ARGUMENT,
               "ids are missing, or of a negative number of samples");
    if (!m->ids) RK_TRY(rk_alloc((size_t)n_features, sizeof *m->ids, &m->ids));
    if (!m->widened) RK_TRY(rk_alloc(n_lists, sizeof *m->widened, &m->widened));
    if (!m->capacities) RK_TRY(rk_alloc(n_lists, sizeof *m->capacities, &m->capacities));
    for (int32_t f = 0; f < n_features; f++) {
        rk_status status = take_feature(m, f, n, &features[f]);
        if (status != RK_OK) return rk_error_context(status, "feature %d", f);
    }
    *out = m->ids;
    return RK_OK;
}
