#include "nn/device_auc.h"

#include "base/error.h"

enum { N_PIECES = 10 };

static rk_status compute(rk_device *device, rk_stream *stream, const rk_cuda_auc_args *args, const rk_cuda_auc_memory *memory, const float *samples, double *out) {
    RK_TRY(rk_device_write(device, (void *)args->samples, samples, (size_t)args->n * 3 * sizeof *samples));
    rk_cuda_auc(stream, args, memory);
    RK_TRY(rk_stream_sync(stream));
    return rk_device_read(device, out, args->auc, sizeof *out);
}

rk_status rk_device_auc(rk_device *device, rk_stream *stream, int64_t n, const float *samples, double *out) {
    RK_FAIL_IF(n < 1 || n > UINT32_MAX, RK_INVALID_ARGUMENT, "an AUC of %lld samples", (long long)n);
    rk_cuda_auc_memory m = {.scratch_bytes = rk_cuda_sort_scratch_bytes(device, n)};
    size_t count = (size_t)n;
    size_t bytes[N_PIECES] = {count * sizeof *m.keys,
                              count * sizeof *m.sorted,
                              count * sizeof *m.places,
                              count * sizeof *m.order,
                              count * sizeof *m.below,
                              (count / RK_CUDA_AUC_TILE + 2) * sizeof *m.tiles,
                              2 * RK_CUDA_AUC_BLOCKS * sizeof *m.partials,
                              m.scratch_bytes,
                              count * 3 * sizeof *samples,
                              sizeof *out};
    void *pieces[N_PIECES] = {0};
    rk_status status = RK_OK;
    for (int i = 0; i < N_PIECES && status == RK_OK; i++) status = rk_device_alloc(device, bytes[i] ? bytes[i] : 1, &pieces[i]);
    m.keys = pieces[0];
    m.sorted = pieces[1];
    m.places = pieces[2];
    m.order = pieces[3];
    m.below = pieces[4];
    m.tiles = pieces[5];
    m.partials = pieces[6];
    m.scratch = pieces[7];
    if (status == RK_OK) status = compute(device, stream, &(rk_cuda_auc_args){.n = n, .samples = pieces[8], .auc = pieces[9]}, &m, samples, out);
    for (int i = 0; i < N_PIECES; i++) rk_device_free(device, pieces[i]);
    return status;
}
