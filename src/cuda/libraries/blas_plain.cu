/* Products by plain loops: slow, and there for any shape. A thread has a value of c; where those are few and
 * their sums long, as in the gradient of a last layer's weights, it has a piece of one value's sum, and a
 * second launch adds the pieces, in order. */
#include "cuda/libraries/blas_multiply.h"

extern "C" {
#include "base/float16.h"
}

enum {
    THREADS = 256,
    ENOUGH_THREADS = 1 << 17, /* half of what a large GPU runs at once */
    MOST_PIECES = 256,        /* a thread adds them up */
    LEAST_TERMS = 256         /* a piece that is worth the second launch */
};

__device__ static inline float operand_value_at(const rk_blas_operand &x, bool is_bf16, int64_t i) {
    return is_bf16 ? rk_bf16_to_f32(((const uint16_t *)x.values)[i]) : ((const float *)x.values)[i];
}

/* Of the value that is c's `at`th: its terms from `first` on, up to `end`. */
__device__ static inline float sum_terms(const rk_cuda_gemm_args &g, const rk_blas_operand &a,
                                         const rk_blas_operand &b, int64_t at, int64_t first, int64_t end) {
    int64_t matrix = at / (g.m * g.n), i = at / g.n % g.m, j = at % g.n;
    bool is_bf16 = g.math == RK_CUDA_BF16;
    int64_t left = matrix * a.stride + i * (g.a_transposed ? 1 : a.ld), left_step = g.a_transposed ? a.ld : 1;
    int64_t right = matrix * b.stride + j * (g.b_transposed ? b.ld : 1),
            right_step = g.b_transposed ? 1 : b.ld;
    float sum = 0;
    for (int64_t k = first; k < end; k++)
        sum = fmaf(operand_value_at(a, is_bf16, left + k * left_step),
                   operand_value_at(b, is_bf16, right + k * right_step), sum);
    return sum;
}

__device__ static inline void store_product(const rk_cuda_gemm_args &g, int64_t at, float sum) {
    int64_t matrix = at / (g.m * g.n), i = at / g.n % g.m, j = at % g.n;
    float *to = &g.c[matrix * g.stride_c + i * g.ldc + j];
    sum *= g.alpha;
    if (g.beta != 0) sum += g.beta * *to;
    if (g.bias) sum += g.bias[j];
    *to = g.relu && sum <= 0 ? 0 : sum;
}

/* partials [n_pieces, n_values]; NULL: there is one piece. */
__global__ static void multiply_plainly_kernel(rk_cuda_gemm_args g, rk_blas_operand a, rk_blas_operand b,
                                               int64_t n_values, int64_t piece, float *partials) {
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, first = blockIdx.y * piece,
            end = first + piece < g.k ? first + piece : g.k;
    if (at >= n_values) return;
    float sum = sum_terms(g, a, b, at, first, end);
    if (partials)
        partials[blockIdx.y * n_values + at] = sum;
    else
        store_product(g, at, sum);
}

__global__ static void add_sums_of_pieces_kernel(rk_cuda_gemm_args g, int64_t n_values, int64_t n_pieces,
                                                 const float *partials) {
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    double sum = 0;
    if (at >= n_values) return;
    for (int64_t p = 0; p < n_pieces; p++) sum += (double)partials[p * n_values + at];
    store_product(g, at, (float)sum);
}

/* Terms a piece; of the shape alone, so that bits hang on nothing else. */
static int64_t terms_per_piece(int64_t n_values, int64_t k) {
    int64_t n_pieces = ENOUGH_THREADS / n_values;
    n_pieces = n_pieces < 1 ? 1 : n_pieces > MOST_PIECES ? (int64_t)MOST_PIECES : n_pieces;
    int64_t piece = (k + n_pieces - 1) / n_pieces;
    return piece < LEAST_TERMS ? (int64_t)LEAST_TERMS : piece;
}

void rk_blas_multiply_plainly(rk_stream *stream, const rk_cuda_gemm_args *args, const rk_blas_operand *a,
                              const rk_blas_operand *b) {
    int64_t n_values = args->batch * args->m * args->n, piece = terms_per_piece(n_values, args->k),
            n_pieces = args->k > piece ? (args->k + piece - 1) / piece : 1;
    dim3 blocks((unsigned)((n_values + THREADS - 1) / THREADS), (unsigned)n_pieces);
    float *partials = NULL;
    if (n_pieces > 1) {
        partials = (float *)rk_stream_scratch(stream, RK_SCRATCH_WORKSPACE,
                                              (size_t)(n_pieces * n_values) * sizeof *partials);
        if (!partials) return; /* kept as the device's failure */
    }
    RK_LAUNCH(multiply_plainly_kernel, blocks, THREADS, 0, stream, *args, *a, *b, n_values, piece, partials);
    if (partials)
        RK_LAUNCH(add_sums_of_pieces_kernel, blocks.x, THREADS, 0, stream, *args, n_values, n_pieces,
                  partials);
}
