/* The body of rk_grad_sum (kernels/kernels.h); included once for each instruction set. */
#include <string.h>

#include "kernels/kernel_list.h"

void RK_KERNEL_NAME(rk_grad_sum)(const rk_occurrence *occurrences, int64_t n, int32_t dim, float *out) {
    memset(out, 0, (size_t)dim * sizeof *out);
    for (int64_t i = 0; i < n; i++) {
        const float *gradient = occurrences[i].gradient;
        float c = occurrences[i].coefficient;
        for (int32_t k = 0; k < dim; k++) out[k] += c * gradient[k];
    }
}
