/* Sums over rows, for the gradients of parameters and batch norm: rows are cut into pieces (dense.h), a block
 * adds up 32 columns of one piece, and a second launch adds the pieces in order, in f64. Each value is read
 * once; the pieces' sums are 1/64 of that or less. */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"

extern "C" {
#include "base/float16.h"
}

enum { COLUMNS = RK_WARP, LINES = RK_WARPS, AHEAD = 4 };

/* What x, the value of row r and column c, adds to its column's sum. */
template <int KIND>
__device__ static inline float compute_term(const rk_cuda_sum_args &a, float x, int64_t r, int64_t c) {
    int64_t i = r * a.cols + c;
    if (KIND == RK_CUDA_SCALED) return x * a.y[r * (a.cols / a.span) + c / a.span];
    if (KIND == RK_CUDA_RELU_SUM) return a.y[i] > 0 ? x : 0;
    if (KIND == RK_CUDA_SQUARES) return (x - a.a[c]) * (x - a.a[c]);
    if (KIND == RK_CUDA_BY_COLUMN) return x * ((a.y[i] - a.a[c]) * a.b[c]);
    if (KIND == RK_CUDA_BY_ROW) {
        const float *saved = a.a + 2 * (r * (a.cols / a.span) + c / a.span);
        return x * ((a.y[i] - saved[0]) * saved[1]);
    }
    return x;
}

template <int KIND>
__device__ static inline void store_masked_or_rounded_term(const rk_cuda_sum_args &a, float value, int64_t r,
                                                           int64_t c) {
    if (KIND == RK_CUDA_RELU_SUM && a.masked) a.masked[r * a.cols + c] = value;
    if ((KIND == RK_CUDA_RELU_SUM || KIND == RK_CUDA_PLAIN) && a.rounded)
        a.rounded[r * rk_cuda_aligned_ld(a.cols) + c] = rk_bf16_from_f32(value);
}

/* Adds N rows, LINES apart, in order. All are read before any is written: `masked` may be x, so else no row's
 * loads could begin before the last one's store. */
template <int KIND, int N>
__device__ static inline void add_rows_of_column(const rk_cuda_sum_args &a, int64_t r, int64_t c, float *sum,
                                                 float *plain) {
    float x[N], terms[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        x[k] = a.x[(r + k * LINES) * a.cols + c];
        terms[k] = compute_term<KIND>(a, x[k], r + k * LINES, c);
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
        store_masked_or_rounded_term<KIND>(a, terms[k], r + k * LINES, c);
        *sum += terms[k];
        *plain += x[k];
    }
}

/* Thread (lane, line) adds rows line, line + 8, ...; then the lines are added in order. */
template <int KIND>
__global__ static void sum_rows_of_pieces_kernel(rk_cuda_sum_args a, int64_t piece, int64_t n_pieces) {
    RK_SHARED(float, sums, LINES *COLUMNS);
    RK_SHARED(float, plains, LINES *COLUMNS);
    int lane = rk_lane_number(), line = (int)threadIdx.x / RK_WARP;
    int64_t c = (int64_t)blockIdx.x * COLUMNS + lane, first = (int64_t)blockIdx.y * piece,
            last = first + piece < a.rows ? first + piece : a.rows;
    float sum = 0, plain = 0;
    if (c < a.cols) {
        int64_t r = first + line;
        for (; r + (AHEAD - 1) * LINES < last; r += AHEAD * LINES)
            add_rows_of_column<KIND, AHEAD>(a, r, c, &sum, &plain);
        for (; r < last; r += LINES) add_rows_of_column<KIND, 1>(a, r, c, &sum, &plain);
    }
    sums[line * COLUMNS + lane] = sum;
    plains[line * COLUMNS + lane] = plain;
    __syncthreads();
    if (line > 0 || c >= a.cols) return;
    for (int l = 1; l < LINES; l++) {
        sum += sums[l * COLUMNS + lane];
        plain += plains[l * COLUMNS + lane];
    }
    a.partials[(int64_t)blockIdx.y * a.cols + c] = sum;
    if (a.out_plain) a.partials[(n_pieces + blockIdx.y) * a.cols + c] = plain;
}

__global__ static void add_sums_of_pieces_kernel(int64_t cols, int64_t n_pieces, const float *partials,
                                                 double divisor, float *out, float *out_plain) {
    RK_SHARED(double, sums, LINES *COLUMNS);
    int lane = rk_lane_number(), line = (int)threadIdx.x / RK_WARP;
    int64_t c = (int64_t)blockIdx.x * COLUMNS + lane, first = blockIdx.y * n_pieces;
    double sum = 0;
    for (int64_t p = line; p < n_pieces && c < cols; p += LINES)
        sum += (double)partials[(first + p) * cols + c];
    sums[line * COLUMNS + lane] = sum;
    __syncthreads();
    float *to = blockIdx.y ? out_plain : out;
    if (line > 0 || c >= cols || !to) return;
    for (int l = 1; l < LINES; l++) sum += sums[l * COLUMNS + lane];
    to[c] = (float)(sum / (blockIdx.y ? 1 : divisor));
}

/* See rk_cuda_sum_args. */
void rk_cuda_column_sums(rk_stream *stream, const rk_cuda_sum_args *args) {
    int64_t piece = rk_cuda_sum_rows_per_piece(args->rows), n_pieces = rk_cuda_sum_piece_count(args->rows);
    dim3 blocks(rk_grid_blocks(args->cols, COLUMNS), (uint32_t)n_pieces);
    switch (args->kind) {
        case RK_CUDA_PLAIN:
            RK_LAUNCH((sum_rows_of_pieces_kernel<RK_CUDA_PLAIN>), blocks, RK_THREADS, 0, stream, *args, piece,
                      n_pieces);
            break;
        case RK_CUDA_SCALED:
            RK_LAUNCH((sum_rows_of_pieces_kernel<RK_CUDA_SCALED>), blocks, RK_THREADS, 0, stream, *args,
                      piece, n_pieces);
            break;
        case RK_CUDA_RELU_SUM:
            RK_LAUNCH((sum_rows_of_pieces_kernel<RK_CUDA_RELU_SUM>), blocks, RK_THREADS, 0, stream, *args,
                      piece, n_pieces);
            break;
        case RK_CUDA_SQUARES:
            RK_LAUNCH((sum_rows_of_pieces_kernel<RK_CUDA_SQUARES>), blocks, RK_THREADS, 0, stream, *args,
                      piece, n_pieces);
            break;
        case RK_CUDA_BY_COLUMN:
            RK_LAUNCH((sum_rows_of_pieces_kernel<RK_CUDA_BY_COLUMN>), blocks, RK_THREADS, 0, stream, *args,
                      piece, n_pieces);
            break;
        case RK_CUDA_BY_ROW:
            RK_LAUNCH((sum_rows_of_pieces_kernel<RK_CUDA_BY_ROW>), blocks, RK_THREADS, 0, stream, *args,
                      piece, n_pieces);
            break;
    }
    if (!args->out && !args->out_plain) return;
    dim3 columns(rk_grid_blocks(args->cols, COLUMNS), args->out_plain ? 2 : 1);
    RK_LAUNCH(add_sums_of_pieces_kernel, columns, RK_THREADS, 0, stream, args->cols, n_pieces, args->partials,
              args->divisor != 0 ? args->divisor : 1, args->out, args->out_plain);
}
