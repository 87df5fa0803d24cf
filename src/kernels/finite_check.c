/* The body of rk_finite_check (kernels/kernels.h), compiled once for each instruction set. */
#include <string.h>

#include "kernels/kernel_list.h"

/* In integers, of which compilers make vectors: the exponent's bits are all ones in infinities and NaNs
 * alone, where one more carries into the sign. */
void RK_KERNEL_NAME(rk_finite_check)(const float *values, int64_t n, bool *finite) {
    uint32_t carries = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        carries |= (bits & 0x7F800000u) + 0x00800000u;
    }
    *finite = !(carries >> 31);
}
