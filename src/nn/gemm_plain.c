/* Matrix products by plain loops: for builds without oneDNN, and for the f64 build of the gradient tests. */
#include <string.h>

#include "nn/gemm.h"

rk_status rk_gemm_run(const rk_gemm *g) {
    for (int64_t i = 0; i < g->m; i++) {
        rk_real *c = g->c + i * g->ldc;
        if (!g->accumulate) memset(c, 0, (size_t)g->n * sizeof *c);
        for (int64_t k = 0; k < g->k; k++) {
            rk_real a = g->transpose_a ? g->a[k * g->lda + i] : g->a[i * g->lda + k];
            if (g->transpose_b)
                for (int64_t j = 0; j < g->n; j++) c[j] += a * g->b[j * g->ldb + k];
            else
                for (int64_t j = 0; j < g->n; j++) c[j] += a * g->b[k * g->ldb + j];
        }
    }
    return RK_OK;
}
