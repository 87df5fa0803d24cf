/* Atomic operations: threads are not interrupted between barriers, so they are plain. The types are CUDA's
 * (uint64_t is none of them). Included by emulator.h. */
#ifndef RK_CUDA_EMULATOR_EMULATOR_ATOMICS_H
#define RK_CUDA_EMULATOR_EMULATOR_ATOMICS_H

#define RK_EMULATOR_ATOMIC(name, type, expression)       \
    static inline type name(type *address, type value) { \
        type old = *address;                             \
        *address = expression;                           \
        return old;                                      \
    }
#define RK_EMULATOR_ATOMICS(type)                                           \
    RK_EMULATOR_ATOMIC(atomicExch, type, value)                             \
    RK_EMULATOR_ATOMIC(atomicMax, type, old < value ? value : old)          \
    RK_EMULATOR_ATOMIC(atomicMin, type, value < old ? value : old)          \
    RK_EMULATOR_ATOMIC(atomicAnd, type, old &value)                         \
    RK_EMULATOR_ATOMIC(atomicOr, type, old | value)                         \
    RK_EMULATOR_ATOMIC(atomicXor, type, old ^ value)                        \
    static inline type atomicCAS(type *address, type compare, type value) { \
        type old = *address;                                                \
        if (old == compare) *address = value;                               \
        return old;                                                         \
    }
RK_EMULATOR_ATOMICS(int)
RK_EMULATOR_ATOMICS(unsigned)
RK_EMULATOR_ATOMICS(unsigned long long)
RK_EMULATOR_ATOMIC(atomicAdd, int, old + value)
RK_EMULATOR_ATOMIC(atomicAdd, unsigned, old + value)
RK_EMULATOR_ATOMIC(atomicAdd, unsigned long long, old + value)
RK_EMULATOR_ATOMIC(atomicAdd, float, old + value)
RK_EMULATOR_ATOMIC(atomicAdd, double, old + value)
RK_EMULATOR_ATOMIC(atomicSub, int, old - value)
RK_EMULATOR_ATOMIC(atomicSub, unsigned, old - value)
RK_EMULATOR_ATOMIC(atomicExch, float, value)
#undef RK_EMULATOR_ATOMIC
#undef RK_EMULATOR_ATOMICS

static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}

#endif
