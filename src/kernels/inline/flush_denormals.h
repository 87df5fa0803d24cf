/* Denormal values as zeros, of what is read and of what is written, in sums of rows' gradients and in
 * optimizers' steps. Where l2 shrinks rows and parameters, the squares of their gradients become denormal,
 * which take x86 processors a hundred times as long as others. */
#ifndef RK_KERNELS_INLINE_FLUSH_DENORMALS_H
#define RK_KERNELS_INLINE_FLUSH_DENORMALS_H

#include <stdbool.h>

#ifdef __x86_64__
#include <immintrin.h>

/* Where they are not to be flushed, changes nothing. Returns what end_flushing_denormals puts back: the
 * thread may be the caller's own. */
static inline unsigned begin_flushing_denormals(bool flushes) {
    enum { DENORMALS_ARE_ZERO = 1 << 6, FLUSH_TO_ZERO = 1 << 15 };
    unsigned before = _mm_getcsr();
    if (flushes) _mm_setcsr(before | DENORMALS_ARE_ZERO | FLUSH_TO_ZERO);
    return before;
}

static inline void end_flushing_denormals(unsigned before) {
    _mm_setcsr(before);
}
#else
static inline unsigned begin_flushing_denormals(bool flushes) {
    (void)flushes;
    return 0;
}

static inline void end_flushing_denormals(unsigned before) {
    (void)before;
}
#endif

#endif
