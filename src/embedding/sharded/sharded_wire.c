/* Numbers on the wire. */
#include <string.h>

#include "base/float16.h"
#include "embedding/sharded/sharded_internal.h"

void rk_wire_pack(void *to, rk_dtype wire, const float *from, int64_t n) {
    uint16_t *halves = to;
    if (wire == RK_F32 && n)
        memcpy(to, from, (size_t)n * sizeof *from);
    else if (wire == RK_BF16)
        for (int64_t i = 0; i < n; i++) halves[i] = rk_bf16_from_f32_finite(from[i]);
    else
        for (int64_t i = 0; i < n; i++) halves[i] = rk_f16_from_f32_finite(from[i]);
}

void rk_wire_unpack(float *to, rk_dtype wire, const void *from, int64_t n) {
    const uint16_t *halves = from;
    if (wire == RK_F32 && n)
        memcpy(to, from, (size_t)n * sizeof *to);
    else if (wire == RK_BF16)
        for (int64_t i = 0; i < n; i++) to[i] = rk_bf16_to_f32(halves[i]);
    else
        for (int64_t i = 0; i < n; i++) to[i] = rk_f16_to_f32(halves[i]);
}
