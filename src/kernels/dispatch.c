/* Which version of each kernel runs: the best for the processor, or that of RK_ISA
 * (base/thread/instruction_set.h). */
#include "base/thread/instruction_set.h"
#include "kernels/kernel_list.h"

#if defined(RK_REAL_F64) || !defined(__x86_64__)
#define RK_DISPATCH(name, parameters, arguments) \
    void name parameters {                       \
        name##_scalar arguments;                 \
    }
#else
#define RK_DISPATCH(name, parameters, arguments) \
    void name parameters {                       \
        switch (rk_cpu_isa()) {                  \
            case RK_ISA_AVX512:                  \
                name##_avx512 arguments;         \
                break;                           \
            case RK_ISA_AVX2:                    \
                name##_avx2 arguments;           \
                break;                           \
            default:                             \
                name##_scalar arguments;         \
                break;                           \
        }                                        \
    }
#endif
RK_KERNEL_LIST(RK_DISPATCH)
