/* Sorts and scans by CUB, which is part of CUDA. */
#include "cuda/device/device_state.h"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "cuda/libraries/sort.h"

template <typename key>
static cudaError_t sort_pairs(void *scratch, size_t *scratch_bytes, int64_t n, int n_bits, const key *keys_in,
                              key *keys_out, const uint32_t *values_in, uint32_t *values_out,
                              cudaStream_t stream) {
    return cub::DeviceRadixSort::SortPairs(scratch, *scratch_bytes, keys_in, keys_out, values_in, values_out,
                                           (int)n, 0, n_bits, stream);
}

static cudaError_t prefix_sum(void *scratch, size_t *scratch_bytes, int64_t n, const uint32_t *in,
                              uint32_t *out, cudaStream_t stream) {
    return cub::DeviceScan::InclusiveSum(scratch, *scratch_bytes, in, out, (int)n, stream);
}

size_t rk_cuda_sort_scratch_bytes(rk_device *device, int64_t n) {
    size_t sort_bytes = 0, narrow_bytes = 0, scan_bytes = 0;
    (void)rk_stream_native(device->stream); /* what CUB needs depends on the card: this one */
    rk_device_record_failure(
        device, sort_pairs<uint64_t>(NULL, &sort_bytes, n, 64, NULL, NULL, NULL, NULL, NULL), "CUB's sort");
    rk_device_record_failure(
        device, sort_pairs<uint32_t>(NULL, &narrow_bytes, n, 32, NULL, NULL, NULL, NULL, NULL), "CUB's sort");
    if (narrow_bytes > sort_bytes) sort_bytes = narrow_bytes;
    rk_device_record_failure(device, prefix_sum(NULL, &scan_bytes, n, NULL, NULL, NULL), "CUB's scan");
    return sort_bytes > scan_bytes ? sort_bytes : scan_bytes;
}

template <typename key>
static void sort_keys(rk_stream *stream, int64_t n, int n_bits, const key *keys_in, key *keys_out,
                      const uint32_t *values_in, uint32_t *values_out, void *scratch, size_t scratch_bytes) {
    if (n)
        rk_device_record_failure(stream->device,
                                 sort_pairs(scratch, &scratch_bytes, n, n_bits, keys_in, keys_out, values_in,
                                            values_out, rk_stream_native(stream)),
                                 "CUB's sort");
}

void rk_cuda_sort_u64(rk_stream *stream, int64_t n, int n_bits, const uint64_t *keys_in, uint64_t *keys_out,
                      const uint32_t *values_in, uint32_t *values_out, void *scratch, size_t scratch_bytes) {
    sort_keys(stream, n, n_bits, keys_in, keys_out, values_in, values_out, scratch, scratch_bytes);
}

void rk_cuda_sort_u32(rk_stream *stream, int64_t n, int n_bits, const uint32_t *keys_in, uint32_t *keys_out,
                      const uint32_t *values_in, uint32_t *values_out, void *scratch, size_t scratch_bytes) {
    sort_keys(stream, n, n_bits, keys_in, keys_out, values_in, values_out, scratch, scratch_bytes);
}

void rk_cuda_scan_u32(rk_stream *stream, int64_t n, const uint32_t *in, uint32_t *out, void *scratch,
                      size_t scratch_bytes) {
    if (n)
        rk_device_record_failure(stream->device,
                                 prefix_sum(scratch, &scratch_bytes, n, in, out, rk_stream_native(stream)),
                                 "CUB's scan");
}
