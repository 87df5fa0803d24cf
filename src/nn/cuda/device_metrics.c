#include "nn/cuda/device_metrics.h"

#include "base/error.h"

enum { N_PIECES = 11 };

static rk_status compute_metrics_of_samples(rk_device *device, rk_stream *stream,
                                            const rk_cuda_metric_args *args,
                                            const rk_cuda_metric_memory *memory,
                                            const rk_metric_sample *samples, const int64_t *groups,
                                            rk_metric_totals *out) {
    RK_TRY(rk_device_upload(device, (void *)args->samples, samples, (size_t)args->n * sizeof *samples));
    if (groups)
        RK_TRY(rk_device_upload(device, (void *)args->groups, groups, (size_t)args->n * sizeof *groups));
    RK_TRY(rk_device_upload(device, args->totals, out, sizeof *out));
    rk_cuda_metric_sums(stream, args, memory);
    if (args->binary) rk_cuda_auc(stream, args, memory);
    if (args->binary && groups) rk_cuda_gauc(stream, args, memory);
    RK_TRY(rk_stream_sync(stream));
    return rk_device_download(device, out, args->totals, sizeof *out);
}

rk_status rk_device_compute_metrics(rk_device *device, rk_stream *stream, bool binary, int64_t n,
                                    const rk_metric_sample *samples, const int64_t *groups,
                                    rk_metric_totals *out) {
    RK_FAIL_IF(n < 1, RK_INVALID_ARGUMENT, "metrics need at least one sample, not %lld", (long long)n);
    RK_FAIL_IF(n > INT32_MAX, RK_NO_MEMORY, "metrics on a GPU support fewer than 2^31 samples");
    rk_cuda_metric_memory m = {.scratch_bytes = binary ? rk_cuda_sort_scratch_bytes(device, n) : 0};
    size_t count = (size_t)n, sorted = binary ? count : 0;
    size_t bytes[N_PIECES] = {sorted * sizeof *m.keys,
                              sorted * sizeof *m.sorted,
                              sorted * sizeof *m.places,
                              sorted * sizeof *m.order,
                              sorted * sizeof *m.below,
                              (sorted / RK_CUDA_AUC_TILE + 2) * sizeof *m.tiles,
                              RK_METRIC_SUMS * RK_CUDA_METRIC_BLOCKS * sizeof *m.partials,
                              m.scratch_bytes,
                              count * sizeof *samples,
                              groups ? count * sizeof *groups : 0,
                              sizeof *out};
    void *pieces[N_PIECES] = {0};
    rk_status status = RK_OK;
    for (int i = 0; i < N_PIECES && status == RK_OK; i++)
        status = rk_device_alloc(device, bytes[i], &pieces[i]);
    m.keys = pieces[0];
    m.sorted = pieces[1];
    m.places = pieces[2];
    m.order = pieces[3];
    m.below = pieces[4];
    m.tiles = pieces[5];
    m.partials = pieces[6];
    m.scratch = pieces[7];
    rk_cuda_metric_args args = {
        .n = n, .binary = binary, .samples = pieces[8], .groups = pieces[9], .totals = pieces[10]};
    if (status == RK_OK) status = compute_metrics_of_samples(device, stream, &args, &m, samples, groups, out);
    for (int i = 0; i < N_PIECES; i++) rk_device_free(device, pieces[i]);
    return status;
}
