#include "nn/device_auc.h"

#include "base/memory.h"

enum { N_PIECES = 8 };

struct rk_device_auc {
    rk_device *device;
    rk_cuda_auc_memory memory;
    void *pieces[N_PIECES]; /* device memory */
    double *result;         /* device memory */
};

static rk_status reserve(rk_device_auc *a) {
    rk_cuda_auc_memory *m = &a->memory;
    size_t n = (size_t)m->capacity;
    m->scratch_bytes = rk_cuda_sort_scratch_bytes(a->device, m->capacity);
    size_t bytes[N_PIECES] = {n * sizeof *m->keys, n * sizeof *m->sorted, n * sizeof *m->places, n * sizeof *m->order, n * sizeof *m->below,
                              (n / RK_CUDA_AUC_TILE + 2) * sizeof *m->tiles, 2 * RK_CUDA_AUC_BLOCKS * sizeof *m->partials, m->scratch_bytes};
    for (int i = 0; i < N_PIECES; i++) RK_TRY(rk_device_alloc(a->device, bytes[i] ? bytes[i] : 1, &a->pieces[i]));
    m->keys = a->pieces[0];
    m->sorted = a->pieces[1];
    m->places = a->pieces[2];
    m->order = a->pieces[3];
    m->below = a->pieces[4];
    m->tiles = a->pieces[5];
    m->partials = a->pieces[6];
    m->scratch = a->pieces[7];
    void *result;
    RK_TRY(rk_device_alloc(a->device, sizeof *a->result, &result));
    a->result = result;
    return RK_OK;
}

rk_status rk_device_auc_create(rk_device *device, int64_t capacity, rk_device_auc **out) {
    rk_device_auc *a;
    RK_FAIL_IF(capacity < 1 || capacity > UINT32_MAX, RK_INVALID_ARGUMENT, "an AUC of up to %lld samples", (long long)capacity);
    RK_TRY(rk_alloc(1, sizeof *a, &a));
    a->device = device;
    a->memory.capacity = capacity;
    rk_status status = reserve(a);
    if (status != RK_OK) {
        rk_device_auc_free(a);
        return status;
    }
    *out = a;
    return RK_OK;
}

void rk_device_auc_free(rk_device_auc *a) {
    if (!a) return;
    for (int i = 0; i < N_PIECES; i++) rk_device_free(a->device, a->pieces[i]);
    rk_device_free(a->device, a->result);
    rk_free(a);
}

rk_status rk_device_auc_compute(rk_device_auc *a, rk_stream *stream, const rk_cuda_auc_args *args, double *out) {
    RK_FAIL_IF(args->n < 0 || args->n > a->memory.capacity, RK_INVALID_ARGUMENT, "an AUC of %lld samples where there is room for %lld", (long long)args->n,
               (long long)a->memory.capacity);
    rk_cuda_auc_args here = *args;
    here.auc = a->result;
    rk_cuda_auc(stream, &here, &a->memory);
    RK_TRY(rk_stream_sync(stream));
    return rk_device_read(a->device, out, a->result, sizeof *out);
}
