/* The bodies of kernels/batch_norm.h, compiled once for each instruction set. Row by row, so that processors
 * fetch what comes next: several rows at once, with sums in registers, take twice as long where values are in
 * the third cache. Vectors are written out, as compilers take as many values at once as a vector has bytes of
 * a mask, and leave up to three more vectors of them over. */
#include <string.h>

#include "kernels/kernel_list.h"

#define NORM_INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__) && !defined(RK_REAL_F64)
#include <immintrin.h>
enum { VECTOR_BYTES = 64 };
#define WIDEN(kept) (mask) _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(kept)))
#elif defined(__AVX2__) && !defined(RK_REAL_F64)
#include <immintrin.h>
enum { VECTOR_BYTES = 32 };
#define WIDEN(kept) (mask) _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(kept)))
#else
enum { VECTOR_BYTES = 2 * sizeof(rk_real) };
#define WIDEN(kept) ((mask){(kept)[0], (kept)[1]})
#endif
enum { LANES = VECTOR_BYTES / sizeof(rk_real) };
typedef rk_real vector __attribute__((vector_size(VECTOR_BYTES)));
#ifdef RK_REAL_F64
typedef int64_t mask __attribute__((vector_size(VECTOR_BYTES)));
#else
typedef int32_t mask __attribute__((vector_size(VECTOR_BYTES)));
#endif

/* Constants after inlining, in all that follows: relu and drops (kept is not NULL), and n, the columns of a
 * vector that are there, where these are LANES. */

NORM_INLINE void load(const rk_real *from, int64_t n, vector *to) {
    if (n < LANES) *to = (vector){0};
    memcpy(to, from, n < LANES ? (size_t)n * sizeof *from : sizeof *to);
}

NORM_INLINE void store(const vector *from, int64_t n, rk_real *to) {
    memcpy(to, from, n < LANES ? (size_t)n * sizeof *to : sizeof *from);
}

/* All bits where a value is kept, else none. */
NORM_INLINE void load_mask(const uint8_t *kept, int64_t n, mask *to) {
    uint8_t there[LANES] = {0};
    if (n < LANES) kept = memcpy(there, kept, (size_t)n);
    *to = WIDEN(kept) != 0;
}

/* Columns c and on of a row, of which `at` is the place of the first. */
typedef struct piece {
    int64_t c, at;
    vector hat;
} piece;

NORM_INLINE void load_hat(const rk_batch_norm_args *a, int64_t n, piece *p) {
    vector x, mean, scale;
    load(a->x + p->at, n, &x);
    load(a->mean + p->c, n, &mean);
    load(a->scale + p->c, n, &scale);
    p->hat = (x - mean) * scale;
}

NORM_INLINE void norm_of_hat(const rk_batch_norm_args *a, int64_t n, const piece *p, vector *y) {
    vector gamma, beta;
    load(a->gamma + p->c, n, &gamma);
    load(a->beta + p->c, n, &beta);
    *y = gamma * p->hat + beta;
}

NORM_INLINE void add_squares(const rk_batch_norm_args *a, int64_t n, const piece *p) {
    vector sum, mean, x;
    load(a->out + p->c, n, &sum);
    load(a->mean + p->c, n, &mean);
    load(a->x + p->at, n, &x);
    sum += (x - mean) * (x - mean);
    store(&sum, n, a->out + p->c);
}

NORM_INLINE void write_norm(const rk_batch_norm_args *a, int64_t n, piece *p, bool relu, bool drops) {
    vector y;
    mask kept;
    load_hat(a, n, p);
    norm_of_hat(a, n, p, &y);
    if (relu) y = (vector)((mask)y & ~(y <= 0)); /* NaN stays */
    if (drops) {
        load_mask(a->kept + p->at, n, &kept);
        y = (vector)((mask)(y * a->keep) & kept);
    }
    store(&y, n, a->out + p->at);
}

/* The gradient behind dropout, and behind relu where y is what it was given. */
NORM_INLINE void load_gradient(const rk_batch_norm_args *a, int64_t n, piece *p, bool relu, bool drops,
                               vector *d) {
    vector y;
    mask kept;
    load(a->dy + p->at, n, d);
    load_hat(a, n, p);
    if (drops) {
        load_mask(a->kept + p->at, n, &kept);
        *d = (vector)((mask)(*d * a->keep) & kept);
    }
    if (relu) {
        norm_of_hat(a, n, p, &y);
        *d = (vector)((mask)(*d + 0) & (y > 0)); /* without -0 */
    }
}

NORM_INLINE void add_gradient(const rk_batch_norm_args *a, int64_t n, piece *p, bool relu, bool drops) {
    vector dots, sums, d;
    load_gradient(a, n, p, relu, drops, &d);
    load(a->out + p->c, n, &dots);
    load(a->out + a->width + p->c, n, &sums);
    dots += d * p->hat;
    sums += d;
    store(&dots, n, a->out + p->c);
    store(&sums, n, a->out + a->width + p->c);
}

NORM_INLINE void write_input_gradient(const rk_batch_norm_args *a, int64_t n, piece *p, bool relu,
                                      bool drops) {
    vector scale, gamma, dots, sums, d, before = {0};
    load_gradient(a, n, p, relu, drops, &d);
    load(a->scale + p->c, n, &scale);
    load(a->gamma + p->c, n, &gamma);
    load(a->dots + p->c, n, &dots);
    load(a->sums + p->c, n, &sums);
    if (a->add) load(a->out + p->at, n, &before);
    before += gamma * scale * (d - a->inverse * (sums + p->hat * dots));
    store(&before, n, a->out + p->at);
}

enum { SQUARES, FORWARD, GRADIENT_SUMS, BACKWARD };

NORM_INLINE void run_piece(const rk_batch_norm_args *a, int kernel, int64_t n, piece p, bool relu,
                           bool drops) {
    if (kernel == SQUARES)
        add_squares(a, n, &p);
    else if (kernel == FORWARD)
        write_norm(a, n, &p, relu, drops);
    else if (kernel == GRADIENT_SUMS)
        add_gradient(a, n, &p, relu, drops);
    else
        write_input_gradient(a, n, &p, relu, drops);
}

NORM_INLINE void run_rows(const rk_batch_norm_args *args, int kernel, bool relu, bool drops) {
    const rk_batch_norm_args a = *args; /* nobody else has it: no store can change it */
    for (int64_t s = 0; s < a.n; s++) {
        piece p = {.c = 0, .at = s * a.width};
        for (; p.c + LANES <= a.width; p.c += LANES, p.at += LANES)
            run_piece(&a, kernel, LANES, p, relu, drops);
        if (p.c < a.width) run_piece(&a, kernel, a.width - p.c, p, relu, drops);
    }
}

NORM_INLINE void run_with_what_follows(const rk_batch_norm_args *args, int kernel) {
    if (args->kept)
        run_rows(args, kernel, true, true);
    else if (args->relu)
        run_rows(args, kernel, true, false);
    else
        run_rows(args, kernel, false, false);
}

void RK_KERNEL_NAME(rk_batch_norm_squares)(const rk_batch_norm_args *args) {
    run_rows(args, SQUARES, false, false);
}

void RK_KERNEL_NAME(rk_batch_norm_forward)(const rk_batch_norm_args *args) {
    run_with_what_follows(args, FORWARD);
}

void RK_KERNEL_NAME(rk_batch_norm_gradient_sums)(const rk_batch_norm_args *args) {
    run_with_what_follows(args, GRADIENT_SUMS);
}

void RK_KERNEL_NAME(rk_batch_norm_backward)(const rk_batch_norm_args *args) {
    run_with_what_follows(args, BACKWARD);
}
