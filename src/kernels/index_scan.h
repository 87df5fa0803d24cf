/* The inner loops of a search for vectors: products of one query with many rows, and which of them are large.
 * Rows may stand at any byte, as files have them. */
#ifndef RK_KERNELS_INDEX_SCAN_H
#define RK_KERNELS_INDEX_SCAN_H

#include <stdint.h>

/* Numbers at any byte. */
typedef float rk_loose_f32 __attribute__((aligned(1), may_alias));
typedef int64_t rk_loose_i64 __attribute__((aligned(1), may_alias));

/*     for i in 0 .. n-1:
 *         out[i] = sum over d of codes[i * dim + d] * query[d]
 *
 * Sums stay within 32 bits: the sum over d of 255 * |query[d]| is below 2^31. */
void rk_code_products(const uint8_t *codes, int64_t n, int32_t dim, const int16_t *query, int32_t *out);

/* The same in f32, in sixteen lanes (inline/lane_sum.h):
 *     for i in 0 .. n-1:
 *         out[i] = sum over d of rows[i * dim + d] * query[d] */
void rk_row_products(const rk_loose_f32 *rows, int64_t n, int32_t dim, const float *query, float *out);

/* Whole numbers in the order of the floats, for rk_find_keys_above; -0 and 0 tie:
 *     for i in 0 .. n-1:
 *         bits = those of values[i] + 0
 *         keys[i] = bits >= 0 ? bits : bits ^ 0x7FFFFFFF */
void rk_floats_to_ordered_keys(const float *values, int64_t n, int32_t *keys);

/*     m = 0
 *     for i in 0 .. n-1:
 *         if keys[i] >= least: found[m++] = i
 *     *n_found = m
 *
 * found [n]: what is behind the first m is undefined. */
void rk_find_keys_above(const int32_t *keys, int64_t n, int32_t least, int32_t *found, int64_t *n_found);

/* The largest of each row of scores [n_rows, n], n > 0; of equal ones the first:
 *     for r in 0 .. n_rows-1:
 *         best[r] = the least i with scores[r * n + i] = max over j of scores[r * n + j] */
void rk_rows_argmax(const float *scores, int64_t n_rows, int64_t n, uint32_t *best);

#endif
