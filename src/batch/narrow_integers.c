#include "batch/narrow_integers.h"

int rk_narrowest_integer_width(const int64_t *values, int64_t n, int64_t base) {
    uint64_t bits = 0;
    for (int64_t i = 0; i < n; i++) bits |= (uint64_t)values[i] - (uint64_t)base;
    return bits >> 32 ? 8 : bits >> 16 ? 4 : bits >> 8 ? 2 : 1;
}

#define NARROW(type) \
    for (int64_t i = 0; i < n; i++) ((type *)to)[i] = (type)((uint64_t)values[i] - (uint64_t)base)
void rk_narrow_integers(void *to, int width, const int64_t *values, int64_t n, int64_t base) {
    if (width == 1) NARROW(uint8_t);
    if (width == 2) NARROW(uint16_t);
    if (width == 4) NARROW(uint32_t);
    if (width == 8) NARROW(uint64_t);
}
#undef NARROW

bool rk_narrow_to_int32(int32_t *to, const int64_t *values, int64_t n) {
    uint64_t bits = 0; /* of values from -2^31 to 2^31 - 1, plus 2^31: the lowest 32 alone */
    for (int64_t i = 0; i < n; i++) {
        to[i] = (int32_t)values[i];
        bits |= (uint64_t)values[i] + ((uint64_t)1 << 31);
    }
    return bits >> 32 == 0;
}

#define WIDEN(type) \
    for (int64_t i = 0; i < n; i++) to[i] = (int64_t)((const type *)from)[i]
void rk_widen_integers(int64_t *to, int width, const void *from, int64_t n) {
    if (width == 1) WIDEN(uint8_t);
    if (width == 2) WIDEN(uint16_t);
    if (width == 4) WIDEN(uint32_t);
    if (width == 8) WIDEN(int64_t);
}
#undef WIDEN
