/* The operations that embeddings spend their time in. Each is one body, src/kernels/<name>.c, compiled for
 * each instruction set (kernel_list.h). The scalar version is the reference, and permanent. Kernels neither
 * allocate, log nor fail: callers validate. They are single-threaded: callers partition the work.
 * base/thread/instruction_set.h (RK_ISA) chooses the version. */
#ifndef RK_KERNELS_KERNELS_H
#define RK_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/batch_norm.h"
#include "kernels/dense_loops.h"
#include "kernels/low_rank.h"
#include "kernels/sample_candidate_loss.h"
#include "kernels/dropout_mask.h"
#include "kernels/index_scan.h"
#include "kernels/random_init_row.h"
#include "kernels/real.h"
#include "kernels/optimizer_step.h"
#include "kernels/fused_update.h"
#include "kernels/sort_row_uses.h"

/* Bags [first, last) of a CSR batch, into f32:
 *
 *     for b in first .. last-1:
 *         out[(b - first) * stride : +dim] = 0
 *         for i in offsets[b] .. offsets[b+1]-1:
 *             out[(b - first) * stride : +dim] += (coefficients ? coefficients[i] : 1) * rows[ids[i]]
 *         if scales: out[(b - first) * stride : +dim] *= scales[b]
 *
 * Rows some way ahead are prefetched. Where `strays` is given, an id that is no row ends it, and *strays is
 * true; else ids are rows. */
typedef struct rk_bag_forward_args {
    rk_rows rows;
    int64_t n_rows; /* for `strays` */
    bool *strays;   /* or NULL; left alone where there is none */
    bool single; /* every bag is one id with the coefficient 1: ids [n_bags], and no offsets, coefficients or
                    scales are looked at */
    const int64_t *offsets;    /* [n_bags+1] */
    const int64_t *ids;        /* [offsets[n_bags]] */
    const float *coefficients; /* [offsets[n_bags]] or NULL */
    const float *scales;       /* [n_bags] or NULL */
    float *out;                /* of bag `first` */
    int64_t stride;
    int64_t first, last;
} rk_bag_forward_args;
void rk_bag_forward(const rk_bag_forward_args *args);

/* Whether any of the ids [n] is below 0 or not below n_rows. */
void rk_ids_check(const int64_t *ids, int64_t n, int64_t n_rows, bool *strays);

/* Whether all of the values [n] are finite. */
void rk_finite_check(const float *values, int64_t n, bool *finite);

/* f32 copies of a row, and back. Storing to bf16 and f16 rounds stochastically with bits drawn from (seed,
 * counter). */
void rk_row_load(const rk_rows *rows, int64_t row, float *out);
void rk_row_store(const rk_rows *rows, int64_t row, const float *values, uint64_t seed, uint64_t counter);

/* to[i] = from[i] rounded to bf16, nearest even: n bf16 values, or f32 ones if `wide`. */
void rk_bf16_round(const float *from, void *to, int64_t n, bool wide);

/* out[i] = from[i] rounded to bf16, or to f16, nearest even; what is finite stays so. */
void rk_f32_to_16_bits(const float *from, int64_t n, bool bf16, uint16_t *out);
/* And back, which is exact. */
void rk_f32_from_16_bits(const uint16_t *from, int64_t n, bool bf16, float *out);

/* Rows [n, dim] as FBGEMM's rowwise codes, each of which stands for code * scale + least:
 *
 *     int8 [n, dim + 8]            dim codes, then scale and least in f32 (FloatToFused8BitRowwiseQuantized)
 *     int4 [n, (dim + 1) / 2 + 4]  codes, two a byte, the first one low, then scale and least in f16
 *                                  (FloatToFusedNBitRowwiseQuantizedSBHalf with 4 bits)
 *
 * bits: 8 or 4; stride: bytes from row to row of out. *failed: the first row that cannot be written so, since
 * a value or the difference of two is not finite, at which it ends; else -1. */
void rk_rows_quantize(const float *from, int64_t n, int64_t dim, int bits, uint8_t *out, int64_t stride,
                      int64_t *failed);

/* Dot interaction of n samples, x [n, n_vectors, dim]:
 *     out[s, p] = x[s, i] . x[s, j]   for the pairs i > j, in the order (1,0) (2,0) (2,1) (3,0) ...
 * backward: dx[s, i] += dout[s, p] * x[s, j];  dx[s, j] += dout[s, p] * x[s, i] */
void rk_interaction_forward(const rk_real *x, int64_t n, int32_t n_vectors, int32_t dim, rk_real *out);
void rk_interaction_backward(const rk_real *x, const rk_real *dout, int64_t n, int32_t n_vectors, int32_t dim,
                             rk_real *dx);

/* y = x W + b, and max(y, 0) if relu, with every sum in the order of W's lines and each product added by one
 * rounding (fma), so that a row of y depends on that row of x alone:
 *
 *     for s in 0 .. n-1, c in 0 .. out-1:
 *         y[s, c] = begin && bias ? begin[s, c] + bias[c] : begin ? begin[s, c] : bias ? bias[c] : 0
 *         for i in 0 .. in-1: y[s, c] = fma(x[s, i], W[i, c], y[s, c])
 *
 * W lies in panels of RK_PANEL_COLUMNS columns, [panels, lines, RK_PANEL_COLUMNS], zeros behind the last one.
 * x and w may begin at any line of a larger product of `lines`: with the sums of those before it as its bias
 * a later part gives the bits of the whole. */
enum { RK_PANEL_COLUMNS = 16 };
typedef struct rk_panel_product_args {
    int64_t n, in, out;
    int64_t lines;        /* in, or more: those of W, and values of a row of x */
    const rk_real *x;     /* [n, lines] */
    const rk_real *w;     /* in panels */
    const rk_real *bias;  /* [out] or NULL */
    const rk_real *begin; /* [n, out] or NULL; may be y */
    bool relu;
    rk_real *y; /* [n, out] */
} rk_panel_product_args;
void rk_panel_product(const rk_panel_product_args *args);

/* dw = x' dy, each sum in the order of the rows, each product added by one rounding (fma):
 *
 *     for i in 0 .. in-1, c in 0 .. out-1:
 *         dw[i, c] = add ? dw[i, c] : 0
 *         for s in 0 .. n-1: dw[i, c] = fma(x[s, i], dy[s, c], dw[i, c]) */
typedef struct rk_weight_gradient_args {
    int64_t n, in, out;
    const rk_real *x;  /* [n, in] */
    const rk_real *dy; /* [n, out] */
    bool add;
    rk_real *dw; /* [in, out] */
} rk_weight_gradient_args;
void rk_weight_gradient(const rk_weight_gradient_args *args);

/* One sample's loss over its candidates (kernels/sample_candidate_loss.h). */
void rk_sample_candidate_loss(rk_sample_candidate_loss_args *args);

#endif
