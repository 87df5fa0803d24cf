/* The body of rk_panel_product (kernels/kernels.h), compiled once for each instruction set. The sums of a
 * tile, some rows by some panels, stay in registers while W goes by once. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_list.h"

/* ROWS and PANELS of the largest tile; a vector has WIDTH columns of a panel. */
#if defined(__AVX512F__) && !defined(RK_REAL_F64)
#include <immintrin.h>
typedef __m512 vector;
enum { ROWS = 12, PANELS = 2, WIDTH = 16 };
#define LOAD(p)              _mm512_loadu_ps(p)
#define STORE(p, v)          _mm512_storeu_ps(p, v)
#define BROADCAST(x)         _mm512_set1_ps(x)
#define ADD_PRODUCT(x, w, s) _mm512_fmadd_ps(x, w, s)
#define RELU(v)              _mm512_max_ps(_mm512_setzero_ps(), v)
#elif defined(__AVX2__) && !defined(RK_REAL_F64)
#include <immintrin.h>
typedef __m256 vector;
enum { ROWS = 6, PANELS = 1, WIDTH = 8 };
#define LOAD(p)              _mm256_loadu_ps(p)
#define STORE(p, v)          _mm256_storeu_ps(p, v)
#define BROADCAST(x)         _mm256_set1_ps(x)
#define ADD_PRODUCT(x, w, s) _mm256_fmadd_ps(x, w, s)
#define RELU(v)              _mm256_max_ps(_mm256_setzero_ps(), v)
#else
typedef rk_real vector;
enum { ROWS = 4, PANELS = 1, WIDTH = 1 };
#define LOAD(p)      (*(p))
#define STORE(p, v)  (*(p) = (v))
#define BROADCAST(x) (x)
#ifdef RK_REAL_F64
#define ADD_PRODUCT(x, w, s) fma(x, w, s)
#else
#define ADD_PRODUCT(x, w, s) fmaf(x, w, s)
#endif
#define RELU(v) ((v) < 0 ? 0 : (v)) /* NaN stays */
#endif
enum { COLUMNS = RK_PANEL_COLUMNS, VECTORS = COLUMNS / WIDTH, MOST = PANELS * VECTORS };
#define UNROLLED _Pragma("GCC unroll 32")

/* Some panels of W, side by side, and what they make. */
typedef struct strip {
    const rk_real *w;               /* [panels, lines, COLUMNS] */
    rk_real bias[PANELS * COLUMNS]; /* zeros behind the last column */
    int64_t width;                  /* columns of y that these are */
} strip;

/* One tile; the compiler knows `rows` and `panels`. */
static inline __attribute__((always_inline)) void tile(const rk_panel_product_args *a, const strip *some,
                                                       int rows, int panels, const rk_real *x, rk_real *y) {
    vector sums[ROWS][MOST];
    const int n = panels * VECTORS;
    const int64_t in = a->in, lines = a->lines;
    const rk_real *w = some->w;
    rk_real whole[PANELS * COLUMNS] = {0};
    bool part = some->width < panels * COLUMNS;
    UNROLLED for (int r = 0; r < rows; r++) {
        const rk_real *from = a->adds ? y + r * a->out : some->bias;
        if (a->adds && part) from = memcpy(whole, from, (size_t)some->width * sizeof *from);
        UNROLLED for (int v = 0; v < n; v++) sums[r][v] = LOAD(from + v * WIDTH);
    }
    for (int64_t i = 0; i < in; i++, w += COLUMNS) {
        vector line[MOST];
        UNROLLED for (int v = 0; v < n; v++) line[v] =
            LOAD(w + v / VECTORS * lines * COLUMNS + v % VECTORS * WIDTH);
        UNROLLED for (int r = 0; r < rows; r++) {
            vector value = BROADCAST(x[r * lines + i]);
            UNROLLED for (int v = 0; v < n; v++) sums[r][v] = ADD_PRODUCT(value, line[v], sums[r][v]);
        }
    }
    UNROLLED for (int r = 0; r < rows; r++, y += a->out) {
        rk_real *to = part ? whole : y;
        UNROLLED for (int v = 0; v < n; v++) STORE(to + v * WIDTH, a->relu ? RELU(sums[r][v]) : sums[r][v]);
        if (part) memcpy(y, whole, (size_t)some->width * sizeof *y);
    }
}

/* All rows: the largest tiles first. */
static inline __attribute__((always_inline)) void all_rows(const rk_panel_product_args *a, const strip *some,
                                                           int panels, rk_real *y) {
    int64_t s = 0;
    for (; s + ROWS <= a->n; s += ROWS) tile(a, some, ROWS, panels, a->x + s * a->lines, y + s * a->out);
    for (; s + 4 <= a->n; s += 4) tile(a, some, 4, panels, a->x + s * a->lines, y + s * a->out);
    for (; s + 2 <= a->n; s += 2) tile(a, some, 2, panels, a->x + s * a->lines, y + s * a->out);
    for (; s < a->n; s++) tile(a, some, 1, panels, a->x + s * a->lines, y + s * a->out);
}

void RK_KERNEL_NAME(rk_panel_product)(const rk_panel_product_args *a) {
    for (int64_t c = 0; c < a->out;) {
        int64_t left = a->out - c;
        int panels = left > (PANELS - 1) * COLUMNS ? PANELS : 1;
        strip some = {.w = a->w + c * a->lines, .width = left < panels * COLUMNS ? left : panels * COLUMNS};
        if (a->bias) memcpy(some.bias, a->bias + c, (size_t)some.width * sizeof *a->bias);
        if (panels == PANELS)
            all_rows(a, &some, PANELS, a->y + c);
        else
            all_rows(a, &some, 1, a->y + c);
        c += some.width;
    }
}
