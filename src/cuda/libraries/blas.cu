#include "cuda/libraries/blas.h"

#include "cuda/libraries/blas_multiply.h"

extern "C" {
#include "base/float16.h"
}

enum {
    THREADS = 256,
    PER_THREAD = 4,
    MOST_ALIGNMENT = 256,
    MOST_BATCH = 32768 /* some of cuBLASLt's kernels have a grid's layer a matrix, of which there are 65535:
                          https://github.com/tensorflow/tensorflow/pull/44175 */
};

/* to [i * rows + r, c] = bf16(from[i * stride + r * ld + c]), and 0 from column cols on; `to` has `to_ld`
 * columns (rk_cuda_aligned_ld). Per thread 4 columns; 4 bytes read and 2 written a value. */
__global__ static void round_to_bf16_kernel(int64_t batch, int64_t rows, int64_t cols, const float *from,
                                            int64_t ld, int64_t stride, uint16_t *to, int64_t to_ld) {
    int64_t fours = to_ld / PER_THREAD, at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= batch * rows * fours) return;
    int64_t row = at / fours, col = at % fours * PER_THREAD;
    const float *x = from + row / rows * stride + row % rows * ld + col;
    float4 values = {0, 0, 0, 0};
    if (col + PER_THREAD <= cols && (uintptr_t)x % sizeof values == 0) {
        values = *(const float4 *)x;
    } else {
        if (col < cols) values.x = x[0];
        if (col + 1 < cols) values.y = x[1];
        if (col + 2 < cols) values.z = x[2];
        if (col + 3 < cols) values.w = x[3];
    }
    uint2 halves = {rk_bf16_from_f32(values.x) | (unsigned)rk_bf16_from_f32(values.y) << 16,
                    rk_bf16_from_f32(values.z) | (unsigned)rk_bf16_from_f32(values.w) << 16};
    *(uint2 *)(to + row * to_ld + col) = halves;
}

static void round_matrices_to_bf16(rk_stream *stream, int64_t batch, int64_t rows, int64_t cols,
                                   const float *from, int64_t ld, int64_t stride, uint16_t *to) {
    int64_t to_ld = rk_cuda_aligned_ld(cols), n_threads = batch * rows * (to_ld / PER_THREAD);
    RK_LAUNCH(round_to_bf16_kernel, (unsigned)((n_threads + THREADS - 1) / THREADS), THREADS, 0, stream,
              batch, rows, cols, from, ld, stride, to, to_ld);
}

/* to [rows, rk_cuda_aligned_ld(cols)] = bf16(from[r * ld + c]), zeros behind; aligned to 16 bytes */
void rk_cuda_round_bf16(rk_stream *stream, int64_t rows, int64_t cols, const float *from, int64_t ld,
                        uint16_t *to) {
    round_matrices_to_bf16(stream, 1, rows, cols, from, ld, 0, to);
}

/* The operand rounded, in the stream's scratch; rows and cols are those in memory. */
static bool round_operand_to_bf16(rk_stream *stream, rk_stream_scratch_kind kind, int64_t batch, int64_t rows,
                                  int64_t cols, rk_blas_operand *operand) {
    int64_t ld = rk_cuda_aligned_ld(cols), stride = operand->stride;
    if (stride == 0) batch = 1;
    uint16_t *rounded =
        (uint16_t *)rk_stream_scratch(stream, kind, (size_t)(batch * rows * ld) * sizeof *rounded);
    if (!rounded) return false;
    round_matrices_to_bf16(stream, batch, rows, cols, (const float *)operand->values, operand->ld, stride,
                           rounded);
    *operand = {rounded, ld, stride == 0 ? 0 : rows * ld};
    return true;
}

/* The largest power of two, up to 256 bytes, that every matrix of the batch is aligned to. */
static uint32_t alignment_of_operand(const void *values, int64_t stride, size_t value_bytes) {
    uintptr_t bits = (uintptr_t)values | (uintptr_t)stride * value_bytes | MOST_ALIGNMENT;
    return (uint32_t)(bits & (~bits + 1));
}

static size_t bytes_per_operand_value(int32_t math) {
    return math == RK_CUDA_BF16 ? 2 : 4;
}

rk_blas_shape rk_blas_shape_of(const rk_cuda_gemm_args *g, const rk_blas_operand *a,
                               const rk_blas_operand *b) {
    rk_blas_shape key;
    memset(&key, 0, sizeof key);
    int64_t stride_c = g->batch > 1 ? g->stride_c : 0;
    key.m = g->m, key.n = g->n, key.k = g->k, key.batch = g->batch;
    key.lda = a->ld, key.ldb = b->ld, key.ldc = g->ldc;
    key.stride_a = a->stride, key.stride_b = b->stride, key.stride_c = stride_c;
    key.a_transposed = g->a_transposed, key.b_transposed = g->b_transposed;
    key.relu = g->relu, key.bias = g->bias != NULL, key.math = g->math, key.reads_c = g->beta != 0;
    key.align_a = alignment_of_operand(a->values, a->stride, bytes_per_operand_value(g->math));
    key.align_b = alignment_of_operand(b->values, b->stride, bytes_per_operand_value(g->math));
    key.align_c = alignment_of_operand((const void *)((uintptr_t)g->c | (uintptr_t)g->bias), stride_c,
                                       sizeof(float)); /* the result's speaks for the bias too */
    return key;
}

rk_status rk_blas_check_not_captured(const rk_stream *stream) {
    RK_FAIL_IF(rk_stream_is_captured(stream), RK_INTERNAL,
               "a CUDA graph captures a matrix product that was never run before");
    return RK_OK;
}

static void multiply_operands(rk_stream *stream, const rk_cuda_gemm_args *args, const rk_blas_operand *a,
                              const rk_blas_operand *b) {
    rk_status status = rk_blas_multiply(stream, args, a, b);
    if (status == RK_OK) return;
    (void)rk_error_context(status, "product of [%lld, %lld] and [%lld, %lld]", (long long)args->m,
                           (long long)args->k, (long long)args->k, (long long)args->n);
    rk_device_record_failure_text(stream->device, rk_last_error());
}

static const void *find_matrix_of_batch(const rk_blas_operand *operand, int64_t n_matrices,
                                        size_t value_bytes) {
    return (const char *)operand->values + n_matrices * operand->stride * (int64_t)value_bytes;
}

static void multiply_in_batches(rk_stream *stream, const rk_cuda_gemm_args *args, rk_blas_operand a,
                                rk_blas_operand b) {
    size_t value_bytes = args->math == RK_CUDA_BF16 ? sizeof(uint16_t) : sizeof(float);
    rk_cuda_gemm_args piece = *args;
    for (int64_t left = args->batch; left > 0; left -= piece.batch) {
        piece.batch = left < MOST_BATCH ? left : (int64_t)MOST_BATCH;
        multiply_operands(stream, &piece, &a, &b);
        a.values = find_matrix_of_batch(&a, piece.batch, value_bytes);
        b.values = find_matrix_of_batch(&b, piece.batch, value_bytes);
        piece.c += piece.batch * piece.stride_c;
    }
}

void rk_cuda_gemm(rk_stream *stream, const rk_cuda_gemm_args *args) {
    rk_cuda_gemm_args g = *args;
    if (g.batch == 0) g.batch = 1;
    if (g.m == 0 || g.n == 0) return;
    rk_blas_operand a = {g.a, g.lda, g.batch > 1 ? g.stride_a : 0},
                    b = {g.b, g.ldb, g.batch > 1 ? g.stride_b : 0};
    if (g.k == 0) { /* of no samples: zeros, or what was there */
        rk_blas_multiply_plainly(stream, &g, &a, &b);
        return;
    }
    if (g.math == RK_CUDA_BF16) {
        if (!g.a_rounded && !round_operand_to_bf16(stream, RK_SCRATCH_A, g.batch, g.a_transposed ? g.k : g.m,
                                                   g.a_transposed ? g.m : g.k, &a))
            return;
        if (!g.b_rounded && !round_operand_to_bf16(stream, RK_SCRATCH_B, g.batch, g.b_transposed ? g.n : g.k,
                                                   g.b_transposed ? g.k : g.n, &b))
            return;
    }
    multiply_in_batches(stream, &g, a, b);
}
