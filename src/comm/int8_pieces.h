/* A piece of a sum as it travels in 8 bits a value: whole numbers of -127 .. 127, 256 of which share a scale.
 * A piece of n values is its blocks' scales, f32, and then the n codes; a code stands for code * scale.
 *
 * What rounding takes from a value is kept, and added before the next value of its place is rounded (error
 * feedback: Seide et al., 1-bit stochastic gradient descent, Interspeech 2014; Karimireddy et al., Error
 * feedback fixes SignSGD, ICML 2019). So what has been sent and what is kept are together all that was to be
 * sent. */
#ifndef RK_COMM_INT8_PIECES_H
#define RK_COMM_INT8_PIECES_H

#include <stddef.h>

enum { RK_INT8_BLOCK = 256 }; /* values that share a scale */

/* Of a piece of n values. */
size_t rk_int8_piece_bytes(size_t n);

/* Values first .. first+n-1 of a piece of `total`, first a multiple of the block. values, residual, next [n]:
 * value + residual is rounded to the nearest code, half to even, and next is what that leaves. A block's
 * scale is its greatest magnitude by 127; where that is below 2^-110 all codes are 0. A block with a value
 * that is not finite is NaN in the places of such values, and 0 elsewhere; its next is of no use. piece:
 * aligned as a float is. */
void rk_int8_encode(const float *values, const float *residual, size_t total, size_t first, size_t n,
                    void *piece, float *next);

/* The same values, as all ranks read them. Whatever the piece has, values come out. */
void rk_int8_decode(const void *piece, size_t total, size_t first, size_t n, float *out);

#endif
