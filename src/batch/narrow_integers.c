#include "batch/narrow_integers.h"

#include <emmintrin.h>
#include <string.h>

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

/* Values are from -2^31 to 2^31 - 1 where their sums with 2^31 have no bit above the lowest 32. */
static uint64_t narrow_one(int32_t *to, int64_t value) {
    *to = (int32_t)value;
    return (uint64_t)value + ((uint64_t)1 << 31);
}

bool rk_narrow_to_int32_uncached(int32_t *to, const int64_t *values, int64_t n) {
    const __m128i offset = _mm_set1_epi64x((int64_t)1 << 31);
    __m128i sums = _mm_setzero_si128();
    uint64_t bits = 0, both[2];
    int64_t i = 0;
    for (; i < n && (uintptr_t)(to + i) % sizeof sums; i++) bits |= narrow_one(to + i, values[i]);
    for (; i + 4 <= n; i += 4) {
        __m128i low = _mm_loadu_si128((const __m128i *)(values + i)),
                high = _mm_loadu_si128((const __m128i *)(values + i + 2));
        __m128 four = _mm_shuffle_ps(_mm_castsi128_ps(low), _mm_castsi128_ps(high), _MM_SHUFFLE(2, 0, 2, 0));
        sums = _mm_or_si128(sums, _mm_or_si128(_mm_add_epi64(low, offset), _mm_add_epi64(high, offset)));
        _mm_stream_si128((__m128i *)(to + i), _mm_castps_si128(four));
    }
    for (; i < n; i++) bits |= narrow_one(to + i, values[i]);
    _mm_sfence(); /* before a device is told of them */
    memcpy(both, &sums, sizeof both);
    return (bits | both[0] | both[1]) >> 32 == 0;
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
