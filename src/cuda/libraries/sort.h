/* Sorting and scanning on the device: CUB in a CUDA build (sort_cub.cu), the C++ library's in the emulator.
 * Sizes are the host's, so that a graph of launches can keep them: callers pad to their capacity with keys
 * that sort last. */
#ifndef RK_CUDA_LIBRARIES_SORT_H
#define RK_CUDA_LIBRARIES_SORT_H

#include "cuda/launch.h"

#ifdef __cplusplus
extern "C"
#endif
    /* Bytes of scratch for sorts and scans of up to n items; a host function, no launch. */
    size_t
    rk_cuda_sort_scratch_bytes(rk_device *device, int64_t n);

/* Stable, ascending, by bits 0 .. n_bits-1 of the keys, which have key_bytes each, 4 or 8: keys_in, values_in
 * [n] -> keys_out, values_out [n]. rk_cuda_scan_u32: out[i] = in[0] + ... + in[i] (inclusive). */
// clang-format off
#define RK_CUDA_SORT_LIST(X)                                                                             \
    X(rk_cuda_sort,                                                                                      \
      (rk_stream *stream, int64_t n, int n_bits, size_t key_bytes, const void *keys_in, void *keys_out,  \
       const uint32_t *values_in, uint32_t *values_out, void *scratch, size_t scratch_bytes))            \
    X(rk_cuda_scan_u32, (rk_stream *stream, int64_t n, const uint32_t *in, uint32_t *out, void *scratch, \
                         size_t scratch_bytes))
// clang-format on
RK_CUDA_SORT_LIST(RK_CUDA_PROTOTYPE)

#endif
