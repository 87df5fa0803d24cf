/* Device functions that are no library's. Included by emulator.h. */
#ifndef RK_CUDA_EMULATOR_EMULATOR_INTRINSICS_H
#define RK_CUDA_EMULATOR_EMULATOR_INTRINSICS_H

#include <math.h>

#include "base/float16.h"

/* Loads and stores with hints to the caches. */
#define RK_EMULATOR_LOAD(name)               \
    template <typename T>                    \
    static inline T name(const T *address) { \
        return *address;                     \
    }
#define RK_EMULATOR_STORE(name)                                                     \
    template <typename T>                                                           \
    static inline void name(T *address, typename rk_emulator_same<T>::type value) { \
        *address = value;                                                           \
    }
RK_EMULATOR_LOAD(__ldg)
RK_EMULATOR_LOAD(__ldca)
RK_EMULATOR_LOAD(__ldcg)
RK_EMULATOR_LOAD(__ldcs)
RK_EMULATOR_STORE(__stwb)
RK_EMULATOR_STORE(__stcg)
RK_EMULATOR_STORE(__stcs)
#undef RK_EMULATOR_LOAD
#undef RK_EMULATOR_STORE

static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}
static inline int __ffsll(long long x) {
    return __builtin_ffsll(x);
}
static inline int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x) {
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline unsigned __umulhi(unsigned x, unsigned y) {
    return (unsigned)((uint64_t)x * y >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    __extension__ typedef unsigned __int128 wide;
    return (unsigned long long)((wide)x * y >> 64);
}

static inline unsigned __float_as_uint(float x) {
    return rk_f32_bits(x);
}
static inline float __uint_as_float(unsigned x) {
    return rk_f32_from_bits(x);
}
static inline int __float_as_int(float x) {
    return (int)rk_f32_bits(x);
}
static inline float __int_as_float(int x) {
    return rk_f32_from_bits((unsigned)x);
}

/* One rounding each, which no compiler contracts. */
static inline float __fadd_rn(float x, float y) {
    return x + y;
}
static inline float __fsub_rn(float x, float y) {
    return x - y;
}
static inline float __fmul_rn(float x, float y) {
    return x * y;
}
static inline float __fmaf_rn(float x, float y, float z) {
    return fmaf(x, y, z);
}
static inline float __fdiv_rn(float x, float y) {
    return x / y;
}
static inline float __fsqrt_rn(float x) {
    return sqrtf(x);
}
static inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}

#define RK_EMULATOR_MIN_MAX(type)            \
    static inline type min(type x, type y) { \
        return y < x ? y : x;                \
    }                                        \
    static inline type max(type x, type y) { \
        return x < y ? y : x;                \
    }
RK_EMULATOR_MIN_MAX(int)
RK_EMULATOR_MIN_MAX(unsigned)
RK_EMULATOR_MIN_MAX(long)
RK_EMULATOR_MIN_MAX(unsigned long)
RK_EMULATOR_MIN_MAX(long long)
RK_EMULATOR_MIN_MAX(unsigned long long)
#undef RK_EMULATOR_MIN_MAX
static inline float min(float x, float y) {
    return fminf(x, y);
}
static inline float max(float x, float y) {
    return fmaxf(x, y);
}

[[noreturn]] static inline void __trap() {
    rk_emulator_fail("__trap");
}

#endif
