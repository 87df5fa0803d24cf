/* What the process as a whole is set to.
 * Stable (docs/api.md). */
#ifndef RECKON_RUNTIME_H
#define RECKON_RUNTIME_H

#include <reckon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Threads of the library's pool; 0 = RK_THREADS or the processors this process may use. Between calls
 * only. */
RK_API rk_status rk_set_threads(int n_threads);
RK_API int rk_threads(void);
RK_API const char *rk_runtime_isa(void); /* the kernels in use: "avx512", ... (RK_ISA picks) */
RK_API const char *rk_runtime_cpu(void); /* the processor's name */

#ifdef __cplusplus
}
#endif
#endif
