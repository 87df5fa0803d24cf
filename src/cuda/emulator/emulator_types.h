/* CUDA's vector types. */
#ifndef RK_CUDA_EMULATOR_EMULATOR_TYPES_H
#define RK_CUDA_EMULATOR_EMULATOR_TYPES_H

#include <stdint.h>

#define __align__(n) __attribute__((aligned(n)))

// clang-format off
#define RK_EMULATOR_VECTORS(X)                                                                     \
    X(char, signed char, 2, 4)                                                                     \
    X(uchar, unsigned char, 2, 4)                                                                  \
    X(short, short, 4, 8)                                                                          \
    X(ushort, unsigned short, 4, 8)                                                                \
    X(int, int, 8, 16)                                                                             \
    X(uint, unsigned, 8, 16)                                                                       \
    X(longlong, long long, 16, 16) X(ulonglong, unsigned long long, 16, 16) X(float, float, 8, 16) \
        X(double, double, 16, 16)
// clang-format on

#define RK_EMULATOR_VECTOR(name, type, align2, align4)                     \
    struct __align__(align2) name##2 {                                     \
        type x, y;                                                         \
    };                                                                     \
    struct name##3 {                                                       \
        type x, y, z;                                                      \
    };                                                                     \
    struct __align__(align4) name##4 {                                     \
        type x, y, z, w;                                                   \
    };                                                                     \
    static inline name##2 make_##name##2(type x, type y) {                 \
        return {x, y};                                                     \
    }                                                                      \
    static inline name##3 make_##name##3(type x, type y, type z) {         \
        return {x, y, z};                                                  \
    }                                                                      \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { \
        return {x, y, z, w};                                               \
    }
RK_EMULATOR_VECTORS(RK_EMULATOR_VECTOR)
#undef RK_EMULATOR_VECTOR

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#endif
