/* The bodies of rk_panel_product and rk_weight_gradient (kernels/kernels.h), compiled once for each
 * instruction set. The sums of a tile, some rows by some panels, stay in registers while W, or all rows of x
 * and dy, go by once. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_list.h"

/* ROWS and PANELS of the largest tile, and the rows of one that is a vector wide; a vector has WIDTH columns
 * of a panel. A mask tells which of them y has. */
#if defined(__AVX512F__) && !defined(RK_REAL_F64)
#include <immintrin.h>
typedef __m512 vector;
typedef __mmask16 mask;
enum { ROWS = 12, NARROW_ROWS = 12, PANELS = 2, WIDTH = 16 };
#define LOAD(p)              _mm512_loadu_ps(p)
#define STORE(p, v)          _mm512_storeu_ps(p, v)
#define LOAD_SOME(p, m)      _mm512_maskz_loadu_ps(m, p)
#define STORE_SOME(p, m, v)  _mm512_mask_storeu_ps(p, m, v)
#define BROADCAST(x)         _mm512_set1_ps(x)
#define ADD(a, b)            _mm512_add_ps(a, b)
#define ADD_PRODUCT(x, w, s) _mm512_fmadd_ps(x, w, s)
#define RELU(v)              _mm512_max_ps(_mm512_setzero_ps(), v)
static mask mask_of_first_columns(int64_t n) {
    return n >= WIDTH ? 0xffff : n > 0 ? (mask)((1u << n) - 1) : 0;
}
#elif defined(__AVX2__) && !defined(RK_REAL_F64)
#include <immintrin.h>
typedef __m256 vector;
typedef __m256i mask;
enum { ROWS = 6, NARROW_ROWS = 12, PANELS = 1, WIDTH = 8 };
#define LOAD(p)              _mm256_loadu_ps(p)
#define STORE(p, v)          _mm256_storeu_ps(p, v)
#define LOAD_SOME(p, m)      _mm256_maskload_ps(p, m)
#define STORE_SOME(p, m, v)  _mm256_maskstore_ps(p, m, v)
#define BROADCAST(x)         _mm256_set1_ps(x)
#define ADD(a, b)            _mm256_add_ps(a, b)
#define ADD_PRODUCT(x, w, s) _mm256_fmadd_ps(x, w, s)
#define RELU(v)              _mm256_max_ps(_mm256_setzero_ps(), v)
static mask mask_of_first_columns(int64_t n) {
    int32_t most = n < WIDTH ? (int32_t)n : WIDTH;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(most), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#else
typedef rk_real vector;
typedef bool mask;
enum { ROWS = 4, NARROW_ROWS = 4, PANELS = 1, WIDTH = 1 };
#define LOAD(p)             (*(p))
#define STORE(p, v)         (*(p) = (v))
#define LOAD_SOME(p, m)     ((m) ? *(p) : 0)
#define STORE_SOME(p, m, v) ((m) ? (void)(*(p) = (v)) : (void)0)
#define BROADCAST(x)        (x)
#define ADD(a, b)           ((a) + (b))
#ifdef RK_REAL_F64
#define ADD_PRODUCT(x, w, s) fma(x, w, s)
#else
#define ADD_PRODUCT(x, w, s) fmaf(x, w, s)
#endif
#define RELU(v) ((v) < 0 ? 0 : (v)) /* NaN stays */
static mask mask_of_first_columns(int64_t n) {
    return n > 0;
}
#endif
enum {
    COLUMNS = RK_PANEL_COLUMNS,
    VECTORS = COLUMNS / WIDTH,
    MOST = PANELS * VECTORS,
    MOST_ROWS = ROWS > NARROW_ROWS ? ROWS : NARROW_ROWS
};
#define UNROLLED _Pragma("GCC unroll 32")
#define EACH_SUM UNROLLED for (int r = 0; r < rows; r++) UNROLLED for (int v = 0; v < vectors; v++)

/* Some columns of W, side by side. */
typedef struct strip {
    const rk_real *w;    /* [panels, lines, COLUMNS] */
    int64_t width;       /* columns of y that these are */
    const rk_real *bias; /* [width] and what a vector reads behind them; NULL: none is added */
    mask there[MOST];    /* columns of y, in each vector */
} strip;

/* One tile; the compiler knows `rows` and how many `vectors` wide it is. begin: what sums begin with, or
 * NULL.
 */
static inline __attribute__((always_inline)) void multiply_tile(const rk_panel_product_args *a,
                                                                const strip *some, int rows, int vectors,
                                                                const rk_real *x, const rk_real *begin,
                                                                rk_real *y) {
    vector sums[MOST_ROWS][MOST], bias[MOST];
    const int64_t in = a->in, lines = a->lines, out = a->out;
    const rk_real *w = some->w;
    bool part = some->width < vectors * WIDTH;
    UNROLLED for (int v = 0; v < vectors; v++) bias[v] =
        some->bias ? LOAD(some->bias + v * WIDTH) : BROADCAST(0);
    if (!begin) {
        EACH_SUM sums[r][v] = bias[v];
    } else {
        if (part)
            EACH_SUM sums[r][v] = LOAD_SOME(begin + r * out + v * WIDTH, some->there[v]);
        else
            EACH_SUM sums[r][v] = LOAD(begin + r * out + v * WIDTH);
        if (some->bias) EACH_SUM sums[r][v] = ADD(sums[r][v], bias[v]);
    }
    for (int64_t i = 0; i < in; i++, w += COLUMNS) {
        vector line[MOST];
        UNROLLED for (int v = 0; v < vectors; v++) line[v] =
            LOAD(w + v / VECTORS * lines * COLUMNS + v % VECTORS * WIDTH);
        UNROLLED for (int r = 0; r < rows; r++) {
            vector value = BROADCAST(x[r * lines + i]);
            UNROLLED for (int v = 0; v < vectors; v++) sums[r][v] = ADD_PRODUCT(value, line[v], sums[r][v]);
        }
    }
    if (a->relu) EACH_SUM sums[r][v] = RELU(sums[r][v]);
    if (part)
        EACH_SUM STORE_SOME(y + r * out + v * WIDTH, some->there[v], sums[r][v]);
    else
        EACH_SUM STORE(y + r * out + v * WIDTH, sums[r][v]);
}

/* Some columns of all rows: the largest tiles first. */
static inline __attribute__((always_inline)) void multiply_all_rows(const rk_panel_product_args *a,
                                                                    const strip *some, int rows, int vectors,
                                                                    const rk_real *begin, rk_real *y) {
    for (int64_t s = 0, n; s < a->n; s += n) {
        int64_t left = a->n - s;
        const rk_real *x = a->x + s * a->lines, *from = begin ? begin + s * a->out : NULL;
        rk_real *to = y + s * a->out;
        n = left >= rows ? rows : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        if (left >= rows)
            multiply_tile(a, some, rows, vectors, x, from, to);
        else if (left >= 4)
            multiply_tile(a, some, 4, vectors, x, from, to);
        else if (left >= 2)
            multiply_tile(a, some, 2, vectors, x, from, to);
        else
            multiply_tile(a, some, 1, vectors, x, from, to);
    }
}

void RK_KERNEL_NAME(rk_panel_product)(const rk_panel_product_args *a) {
    rk_real padded[PANELS * COLUMNS] = {0}; /* a bias of fewer columns than vectors read */
    strip some;
    for (int64_t c = 0; c < a->out; c += some.width) {
        int64_t left = a->out - c;
        int panels = left > (PANELS - 1) * COLUMNS ? PANELS : 1;
        const rk_real *begin = a->begin ? a->begin + c : NULL;
        some.w = a->w + c * a->lines;
        some.width = left < panels * COLUMNS ? left : panels * COLUMNS;
        some.bias = a->bias ? a->bias + c : NULL;
        if (some.width < panels * COLUMNS) {
            if (a->bias) some.bias = memcpy(padded, a->bias + c, (size_t)some.width * sizeof *a->bias);
            for (int v = 0; v < MOST; v++) some.there[v] = mask_of_first_columns(some.width - v * WIDTH);
        }
        if (some.width <= WIDTH)
            multiply_all_rows(a, &some, NARROW_ROWS, 1, begin, a->y + c);
        else if (panels == PANELS)
            multiply_all_rows(a, &some, ROWS, MOST, begin, a->y + c);
        else
            multiply_all_rows(a, &some, ROWS, VECTORS, begin, a->y + c);
    }
}

/* Rows i .. i+rows-1 of dw, columns c and on; the compiler knows `rows` and how many `vectors` wide it is.
 * there: which of the last vector's columns dw has. */
static inline __attribute__((always_inline)) void sum_gradient_tile(const rk_weight_gradient_args *a,
                                                                    int64_t i, int64_t c, int rows,
                                                                    int vectors, mask there) {
    vector sums[MOST_ROWS][MOST];
    const int64_t in = a->in, out = a->out;
    const rk_real *x = a->x + i, *dy = a->dy + c;
    rk_real *dw = a->dw + i * out + c;
    const int last = vectors - 1;
    if (a->add)
        EACH_SUM sums[r][v] =
            v == last ? LOAD_SOME(dw + r * out + v * WIDTH, there) : LOAD(dw + r * out + v * WIDTH);
    else
        EACH_SUM sums[r][v] = BROADCAST(0);
    for (int64_t s = 0; s < a->n; s++, x += in, dy += out) {
        vector line[MOST];
        UNROLLED for (int v = 0; v < vectors; v++) line[v] =
            v == last ? LOAD_SOME(dy + v * WIDTH, there) : LOAD(dy + v * WIDTH);
        UNROLLED for (int r = 0; r < rows; r++) {
            vector value = BROADCAST(x[r]);
            UNROLLED for (int v = 0; v < vectors; v++) sums[r][v] = ADD_PRODUCT(value, line[v], sums[r][v]);
        }
    }
    EACH_SUM {
        if (v == last)
            STORE_SOME(dw + r * out + v * WIDTH, there, sums[r][v]);
        else
            STORE(dw + r * out + v * WIDTH, sums[r][v]);
    }
}

/* Some columns of all rows of dw: the largest tiles first. */
static inline __attribute__((always_inline)) void sum_gradient_columns(const rk_weight_gradient_args *a,
                                                                       int64_t c, int rows, int vectors,
                                                                       mask there) {
    for (int64_t i = 0, n; i < a->in; i += n) {
        int64_t left = a->in - i;
        n = left >= rows ? rows : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        if (left >= rows)
            sum_gradient_tile(a, i, c, rows, vectors, there);
        else if (left >= 4)
            sum_gradient_tile(a, i, c, 4, vectors, there);
        else if (left >= 2)
            sum_gradient_tile(a, i, c, 2, vectors, there);
        else
            sum_gradient_tile(a, i, c, 1, vectors, there);
    }
}

void RK_KERNEL_NAME(rk_weight_gradient)(const rk_weight_gradient_args *args) {
    rk_weight_gradient_args a = *args;
    if (a.out == 1) { /* a row as well as a column, which fills vectors */
        a.x = args->dy;
        a.dy = args->x;
        a.in = 1;
        a.out = args->in;
    }
    for (int64_t c = 0, width; c < a.out; c += width) {
        int64_t left = a.out - c;
        width = left >= MOST * WIDTH ? MOST * WIDTH : left >= WIDTH ? WIDTH : left;
        if (width == MOST * WIDTH)
            sum_gradient_columns(&a, c, ROWS, MOST, mask_of_first_columns(WIDTH));
        else
            sum_gradient_columns(&a, c, NARROW_ROWS, 1, mask_of_first_columns(width));
    }
}
