/* Matrix products by oneDNN's sgemm, one thread a call: the caller cuts the work. */
#include <dnnl.h>

#include "nn/gemm.h"

/* oneDNN runs its loops by OpenMP; its two functions are declared here, since clang's omp.h belongs to another OpenMP. */
extern int omp_get_max_threads(void);
extern void omp_set_num_threads(int n_threads);

rk_status rk_gemm_run(const rk_gemm *g) {
    int before = omp_get_max_threads(); /* of this thread only; put back, since the thread may be the caller's own */
    if (before != 1) omp_set_num_threads(1);
    dnnl_status_t status = dnnl_sgemm(g->transpose_a ? 'T' : 'N', g->transpose_b ? 'T' : 'N', g->m, g->n, g->k, 1.0f, g->a, g->lda, g->b, g->ldb,
                                      g->accumulate ? 1.0f : 0.0f, g->c, g->ldc);
    if (before != 1) omp_set_num_threads(before);
    RK_FAIL_IF(status != dnnl_success, status == dnnl_out_of_memory ? RK_NO_MEMORY : RK_INTERNAL, "oneDNN's sgemm failed with status %d", (int)status);
    return RK_OK;
}
