/* Whole numbers of 0 and more in as few bytes as they need: 1, 2, 4 or 8 each. */
#ifndef RK_BATCH_NARROW_INTEGERS_H
#define RK_BATCH_NARROW_INTEGERS_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that each of the n values less `base` fits in; 8 where one of them is negative. */
int rk_narrowest_integer_width(const int64_t *values, int64_t n, int64_t base);
static inline bool rk_integer_width_is_valid(int width) {
    return width == 1 || width == 2 || width == 4 || width == 8;
}

/* to [n * width bytes], aligned to width: values less base, which must fit. */
void rk_narrow_integers(void *to, int width, const int64_t *values, int64_t n, int64_t base);
/* Values, of either sign, to [n]. Whether all fit; those that do not are cut off. */
bool rk_narrow_to_int32(int32_t *to, const int64_t *values, int64_t n);
/* to [n]: what rk_narrow_integers wrote with base 0. */
void rk_widen_integers(int64_t *to, int width, const void *from, int64_t n);

#endif
