/* The bodies of kernels/batch_norm.h, compiled once for each instruction set. */
#include "kernels/kernel_list.h"

#define NORM_INLINE static inline __attribute__((always_inline))

/* Sums over samples take ROWS of them at a time, one after the other into each sum, which then stays in a
 * register for as long. */
enum { ROWS = 4 };

NORM_INLINE void add_squares_of_rows(const rk_real *x, int rows, int64_t width, const rk_real *mean,
                                     rk_real *restrict out) {
    for (int64_t c = 0; c < width; c++) {
        rk_real sum = out[c];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) sum += (x[r * width + c] - mean[c]) * (x[r * width + c] - mean[c]);
        out[c] = sum;
    }
}

void RK_KERNEL_NAME(rk_batch_norm_squares)(const rk_batch_norm_args *args) {
    const rk_batch_norm_args a = *args; /* nobody else has it: no store can change it */
    const rk_real *x = a.x;
    int64_t n = a.n;
    for (; n >= ROWS; n -= ROWS, x += ROWS * a.width) add_squares_of_rows(x, ROWS, a.width, a.mean, a.out);
    for (; n > 0; n--, x += a.width) add_squares_of_rows(x, 1, a.width, a.mean, a.out);
}

/* Constants after inlining, in what follows: relu and drops (kept is not NULL). */
NORM_INLINE void norm_forward(const rk_batch_norm_args *args, bool relu, bool drops) {
    const rk_batch_norm_args a = *args;
    const rk_real *x = a.x;
    const uint8_t *kept = a.kept;
    rk_real *restrict out = a.out;
    for (int64_t s = 0; s < a.n; s++, x += a.width, out += a.width) {
        for (int64_t c = 0; c < a.width; c++) {
            rk_real y = a.gamma[c] * ((x[c] - a.mean[c]) * a.scale[c]) + a.beta[c];
            if (relu) y = y <= 0 ? 0 : y;
            if (drops) y = kept[c] ? y * a.keep : 0;
            out[c] = y;
        }
        if (drops) kept += a.width;
    }
}

void RK_KERNEL_NAME(rk_batch_norm_forward)(const rk_batch_norm_args *args) {
    if (args->kept)
        norm_forward(args, true, true);
    else if (args->relu)
        norm_forward(args, true, false);
    else
        norm_forward(args, false, false);
}

/* Behind dropout, and behind relu where y is what it was given. */
NORM_INLINE rk_real gradient_of_norm(rk_real dy, rk_real y, uint8_t kept, rk_real keep, bool relu,
                                     bool drops) {
    if (drops) dy = 0 + (kept ? dy * keep : 0);
    if (relu) dy = 0 + dy * (y > 0 ? (rk_real)1 : (rk_real)0);
    return dy;
}

/* Of rows x, dy and kept. */
NORM_INLINE void add_gradients_of_rows(const rk_batch_norm_args a, const rk_real *x, const rk_real *dy,
                                       const uint8_t *kept, int rows, rk_real *restrict dots,
                                       rk_real *restrict sums, bool relu, bool drops) {
    const int64_t width = a.width;
    for (int64_t c = 0; c < width; c++) {
        rk_real dot = dots[c], sum = sums[c];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            rk_real hat = (x[r * width + c] - a.mean[c]) * a.scale[c],
                    d = gradient_of_norm(dy[r * width + c], a.gamma[c] * hat + a.beta[c],
                                         drops ? kept[r * width + c] : 0, a.keep, relu, drops);
            dot += d * hat;
            sum += d;
        }
        dots[c] = dot;
        sums[c] = sum;
    }
}

NORM_INLINE void norm_gradient_sums(const rk_batch_norm_args *args, bool relu, bool drops) {
    const rk_batch_norm_args a = *args;
    for (int64_t s = 0, rows; s < a.n; s += rows) {
        const int64_t at = s * a.width;
        const uint8_t *kept = drops ? a.kept + at : NULL;
        rows = s + ROWS <= a.n ? ROWS : 1;
        if (rows == ROWS)
            add_gradients_of_rows(a, a.x + at, a.dy + at, kept, ROWS, a.out, a.out + a.width, relu, drops);
        else
            add_gradients_of_rows(a, a.x + at, a.dy + at, kept, 1, a.out, a.out + a.width, relu, drops);
    }
}

void RK_KERNEL_NAME(rk_batch_norm_gradient_sums)(const rk_batch_norm_args *args) {
    if (args->kept)
        norm_gradient_sums(args, true, true);
    else if (args->relu)
        norm_gradient_sums(args, true, false);
    else
        norm_gradient_sums(args, false, false);
}

NORM_INLINE void norm_backward(const rk_batch_norm_args *args, bool relu, bool drops) {
    const rk_batch_norm_args a = *args;
    const rk_real *x = a.x, *dy = a.dy;
    const uint8_t *kept = a.kept;
    rk_real *restrict out = a.out;
    for (int64_t s = 0; s < a.n; s++, x += a.width, dy += a.width, out += a.width) {
        for (int64_t c = 0; c < a.width; c++) {
            rk_real hat = (x[c] - a.mean[c]) * a.scale[c],
                    d = gradient_of_norm(dy[c], a.gamma[c] * hat + a.beta[c], drops ? kept[c] : 0, a.keep,
                                         relu, drops),
                    dx = a.gamma[c] * a.scale[c] * (d - a.inverse * (a.sums[c] + hat * a.dots[c]));
            out[c] = (a.add ? out[c] : 0) + dx;
        }
        if (drops) kept += a.width;
    }
}

void RK_KERNEL_NAME(rk_batch_norm_backward)(const rk_batch_norm_args *args) {
    if (args->kept)
        norm_backward(args, true, true);
    else if (args->relu)
        norm_backward(args, true, false);
    else
        norm_backward(args, false, false);
}
