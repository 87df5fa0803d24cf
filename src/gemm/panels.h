/* A matrix for products whose rows do not depend on one another: what predictions are made by, so that a
 * sample's is the same in any batch, on any instruction set (rk_panel_product, kernels/kernels.h). */
#ifndef RK_GEMM_PANELS_H
#define RK_GEMM_PANELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gemm/gemm.h"
#include "kernels/real.h"

/* W [in, out] in panels; untouched pages until rk_panels_set. */
typedef struct rk_panels {
    int64_t in, out;
    rk_real *values;
    size_t n_bytes;
} rk_panels;

rk_status rk_panels_init(rk_panels *panels, int64_t in, int64_t out);
void rk_panels_release(rk_panels *panels);

/* Take W [in, out]; not while products run. */
void rk_panels_set(rk_panels *panels, const rk_real *w);

/* y = x W + b of those lines of W and columns of x alone, and max(., 0) if relu: x [m, in], b [out] or NULL,
 * y [m, out]. Any number of threads at once. */
void rk_panels_multiply(const rk_panels *panels, rk_lines lines, int64_t m, const rk_real *x,
                        const rk_real *b, bool relu, rk_real *y);
/* y = (begin + b) + x W, and max(., 0) if relu: begin [m, out], which may be y, b [out]. */
void rk_panels_add(const rk_panels *panels, int64_t m, const rk_real *x, const rk_real *begin,
                   const rk_real *b, bool relu, rk_real *y);

#endif
