/* Which instruction set the kernels use. Chosen once, at first use: the best that the CPU has, or
 * RK_ISA=scalar|avx2|avx512. */
#ifndef RK_BASE_THREAD_INSTRUCTION_SET_H
#define RK_BASE_THREAD_INSTRUCTION_SET_H

#include <stdbool.h>
#include <stddef.h>

typedef enum rk_isa { RK_ISA_SCALAR, RK_ISA_AVX2, RK_ISA_AVX512, RK_ISA_COUNT } rk_isa;

const char *rk_isa_name(rk_isa isa);
bool rk_cpu_has_isa(rk_isa isa); /* avx2 means avx2+fma+f16c+bmi2; avx512 means f+bw+dq+vl */
rk_isa rk_cpu_isa(void);         /* the choice; logged once at info */
const char *rk_cpu_name(void);   /* "Intel(R) Xeon(R) ..." */
int rk_cpu_count(void);          /* processors this process may use, by its affinity and its quota */
size_t rk_cpu_cache_bytes(void); /* of the last level of caches; 0: not known */

#endif
