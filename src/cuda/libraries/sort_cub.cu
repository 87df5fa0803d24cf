/* Sorts and scans by CUB, which is part of CUDA. */
#include "cuda/device/device_state.h"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "cuda/libraries/sort.h"

template <typename key>
static cudaError_t sort_pairs_of(void *scratch, size_t *scratch_bytes, int64_t n, int n_bits,
                                 const void *keys_in, void *keys_out, const uint32_t *values_in,
                                 uint32_t *values_out, cudaStream_t stream) {
    return cub::DeviceRadixSort::SortPairs(scratch, *scratch_bytes, (const key *)keys_in, (key *)keys_out,
                                           values_in, values_out, (int)n, 0, n_bits, stream);
}

static cudaError_t sort_pairs(size_t key_bytes, void *scratch, size_t *scratch_bytes, int64_t n, int n_bits,
                              const void *keys_in, void *keys_out, const uint32_t *values_in,
                              uint32_t *values_out, cudaStream_t stream) {
    auto sort = key_bytes == sizeof(uint32_t) ? sort_pairs_of<uint32_t> : sort_pairs_of<uint64_t>;
    return sort(scratch, scratch_bytes, n, n_bits, keys_in, keys_out, values_in, values_out, stream);
}

static cudaError_t prefix_sum(void *scratch, size_t *scratch_bytes, int64_t n, const uint32_t *in,
                              uint32_t *out, cudaStream_t stream) {
    return cub::DeviceScan::InclusiveSum(scratch, *scratch_bytes, in, out, (int)n, stream);
}

size_t rk_cuda_sort_scratch_bytes(rk_device *device, int64_t n) {
    size_t most = 0, bytes;
    (void)rk_stream_native(device->stream); /* what CUB needs depends on the card: this one */
    for (size_t key_bytes = sizeof(uint32_t); key_bytes <= sizeof(uint64_t); key_bytes *= 2) {
        bytes = 0;
        rk_device_record_failure(
            device, sort_pairs(key_bytes, NULL, &bytes, n, 8 * (int)key_bytes, NULL, NULL, NULL, NULL, NULL),
            "CUB's sort");
        if (bytes > most) most = bytes;
    }
    bytes = 0;
    rk_device_record_failure(device, prefix_sum(NULL, &bytes, n, NULL, NULL, NULL), "CUB's scan");
    return bytes > most ? bytes : most;
}

void rk_cuda_sort(rk_stream *stream, int64_t n, int n_bits, size_t key_bytes, const void *keys_in,
                  void *keys_out, const uint32_t *values_in, uint32_t *values_out, void *scratch,
                  size_t scratch_bytes) {
    if (n)
        rk_device_record_failure(stream->device,
                                 sort_pairs(key_bytes, scratch, &scratch_bytes, n, n_bits, keys_in, keys_out,
                                            values_in, values_out, rk_stream_native(stream)),
                                 "CUB's sort");
}

void rk_cuda_scan_u32(rk_stream *stream, int64_t n, const uint32_t *in, uint32_t *out, void *scratch,
                      size_t scratch_bytes) {
    if (n)
        rk_device_record_failure(stream->device,
                                 prefix_sum(scratch, &scratch_bytes, n, in, out, rk_stream_native(stream)),
                                 "CUB's scan");
}
