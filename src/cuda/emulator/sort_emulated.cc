/* Sorts and scans by the C++ library's, queued as work of the stream: sort_cub.cu's place in the emulator. */
#include <algorithm>
#include <numeric>
#include <vector>

#include "cuda/device/device_state.h"
#include "cuda/emulator/emulator_queue.h"
#include "cuda/libraries/sort.h"

size_t rk_cuda_sort_scratch_bytes(rk_device *, int64_t n) {
    return (size_t)n * 12 + 256;
}

static void check_scratch(rk_stream *stream, int64_t n, const void *scratch, size_t scratch_bytes) {
    if (!scratch || scratch_bytes < rk_cuda_sort_scratch_bytes(rk_stream_device(stream), n))
        rk_emulator_fail("a sort or scan of %lld with %zu bytes of scratch", (long long)n, scratch_bytes);
}

template <typename key>
static void sort_keys(int64_t n, int n_bits, const void *in, void *out, const uint32_t *values_in,
                      uint32_t *values_out) {
    const key *keys_in = (const key *)in;
    key *keys_out = (key *)out;
    uint64_t mask = n_bits < 64 ? ((uint64_t)1 << n_bits) - 1 : ~(uint64_t)0;
    std::vector<size_t> order((size_t)n);
    std::iota(order.begin(), order.end(), (size_t)0);
    std::stable_sort(order.begin(), order.end(),
                     [=](size_t i, size_t j) { return (keys_in[i] & mask) < (keys_in[j] & mask); });
    for (size_t i = 0; i < (size_t)n; i++) {
        keys_out[i] = keys_in[order[i]];
        values_out[i] = values_in[order[i]];
    }
}

void rk_cuda_sort(rk_stream *stream, int64_t n, int n_bits, size_t key_bytes, const void *keys_in,
                  void *keys_out, const uint32_t *values_in, uint32_t *values_out, void *scratch,
                  size_t scratch_bytes) {
    auto sort = key_bytes == sizeof(uint32_t) ? sort_keys<uint32_t> : sort_keys<uint64_t>;
    check_scratch(stream, n, scratch, scratch_bytes);
    rk_emulator_queue_push(rk_stream_native(stream),
                           {[=] {
                                sort(n, n_bits, keys_in, keys_out, values_in, values_out);
                                memset(scratch, 0xA5, scratch_bytes); /* nobody may rely on it */
                            },
                            NULL, false});
}

void rk_cuda_scan_u32(rk_stream *stream, int64_t n, const uint32_t *in, uint32_t *out, void *scratch,
                      size_t scratch_bytes) {
    check_scratch(stream, n, scratch, scratch_bytes);
    rk_emulator_queue_push(rk_stream_native(stream), {[=] {
                                                          std::partial_sum(in, in + n, out);
                                                          memset(scratch, 0xA5, scratch_bytes);
                                                      },
                                                      NULL, false});
}
