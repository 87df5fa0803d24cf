/* Single-threaded matrix products; callers cut the work into tiles whose grid depends on the shapes only, so results do not
 * depend on the thread count. By oneDNN (gemm_onednn.c) or plain loops (gemm_plain.c). */
#ifndef RK_NN_GEMM_H
#define RK_NN_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include <reckon/table.h>

#include "base/error.h"
#include "kernels/real.h"

/*     C[m, n] = op(A)[m, k] op(B)[k, n] (+ C if accumulate)
 * row major; lda, ldb, ldc: elements from one stored row to the next; op transposes where asked. */
typedef struct rk_gemm {
    bool transpose_a, transpose_b, accumulate;
    int64_t m, n, k;
    const rk_real *a, *b;
    rk_real *c;
    int64_t lda, ldb, ldc;
} rk_gemm;
rk_status rk_gemm_run(const rk_gemm *gemm);

#endif
