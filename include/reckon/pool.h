/* Threads of the caller's own, beside the library's pool (reckon/runtime.h): for those who want several
 * threads for one call while others make calls too. Stable (docs/api.md). */
#ifndef RECKON_POOL_H
#define RECKON_POOL_H

#include <reckon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A number of threads, the calling one among them, that work on one call at a time. Any number of callers may
 * share a pool: who finds it at work goes on alone. Its threads begin with its first work. After fork() the
 * child has threads of its own. */
typedef struct rk_pool rk_pool;

/* n_threads: 1 to 1024; 0: as many as the processors that this process may use. Errors: RK_INVALID_ARGUMENT,
 * RK_NO_MEMORY. */
RK_API rk_status rk_pool_create(int n_threads, rk_pool **out);
/* When nothing that was given the pool is left. */
RK_API void rk_pool_free(rk_pool *pool);
RK_API int rk_pool_threads(const rk_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
