/* Barriers and warp functions, by rk_emulator_warp_exchange. Included by emulator.h. */
#ifndef RK_CUDA_EMULATOR_EMULATOR_WARP_H
#define RK_CUDA_EMULATOR_EMULATOR_WARP_H

#include <string.h>

/* The last two parameters of each are the caller's place. */
#define RK_EMULATOR_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(RK_EMULATOR_HERE) {
    rk_emulator_barrier({"__syncthreads", file, line});
}
static inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, RK_EMULATOR_HERE) {
    rk_emulator_warp_exchange({"__syncwarp", file, line}, mask, 0);
}

template <typename T>
static inline uint64_t rk_emulator_value_to_bits(T value) {
    static_assert(sizeof(T) <= 8, "a shuffled value has at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}
template <typename T>
static inline T rk_emulator_bits_to_value(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, RK_EMULATOR_HERE) {
    const uint64_t *values =
        rk_emulator_warp_exchange({"__shfl_sync", file, line}, mask, rk_emulator_value_to_bits(value));
    return rk_emulator_bits_to_value<T>(values[(rk_emulator_lane() & ~(width - 1)) | (lane & (width - 1))]);
}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, RK_EMULATOR_HERE) {
    const uint64_t *values =
        rk_emulator_warp_exchange({"__shfl_xor_sync", file, line}, mask, rk_emulator_value_to_bits(value));
    int mine = rk_emulator_lane(), from = mine ^ lanes;
    return from > (mine | (width - 1)) ? value : rk_emulator_bits_to_value<T>(values[from]);
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, RK_EMULATOR_HERE) {
    const uint64_t *values =
        rk_emulator_warp_exchange({"__shfl_down_sync", file, line}, mask, rk_emulator_value_to_bits(value));
    int mine = rk_emulator_lane(), from = mine + (int)delta;
    return from > (mine | (width - 1)) ? value : rk_emulator_bits_to_value<T>(values[from]);
}
template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, RK_EMULATOR_HERE) {
    const uint64_t *values =
        rk_emulator_warp_exchange({"__shfl_up_sync", file, line}, mask, rk_emulator_value_to_bits(value));
    int mine = rk_emulator_lane(), from = mine - (int)delta;
    return from < (mine & ~(width - 1)) ? value : rk_emulator_bits_to_value<T>(values[from]);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate, RK_EMULATOR_HERE) {
    const uint64_t *values = rk_emulator_warp_exchange({"__ballot_sync", file, line}, mask, predicate != 0);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; lane++) bits |= (unsigned)values[lane] << lane;
    return bits;
}
static inline int __any_sync(unsigned mask, int predicate, RK_EMULATOR_HERE) {
    return __ballot_sync(mask, predicate, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, RK_EMULATOR_HERE) {
    return __ballot_sync(mask, predicate, file, line) == 0xFFFFFFFFu;
}

#undef RK_EMULATOR_HERE

#endif
