/* One step of the dense optimizer (nn/dense_optimizer.c) by the CPU's own rules
 * (kernels/inline/optimizer_rules.h), a block a piece: the norm of all gradients in f64 in a fixed order,
 * then the rule; rules of whole tensors add up their pieces' sums between two launches. Bound by memory: 4
 * bytes of gradient twice, and 8 of each value and slot. */
#include "cuda/platform.h"

extern "C" {
#include "kernels/inline/optimizer_rules.h"
}

#include "cuda/dense/dense_kernel_helpers.h"

/* g += l2 w, and the squares. */
__global__ static void add_l2_and_sum_squares_kernel(rk_cuda_dense a) {
    RK_SHARED(double, sums, RK_WARPS);
    rk_cuda_dense_piece piece = a.pieces[blockIdx.x];
    float l2 = piece.is_bias ? 0 : a.l2;
    double sum = 0;
    for (int64_t i = piece.first + threadIdx.x; i < piece.first + piece.count; i += RK_THREADS) {
        float g = a.gradients[i];
        if (l2 != 0) a.gradients[i] = g = g + l2 * a.values[i];
        sum += (double)g * (double)g;
    }
    sum = rk_block_sum_f64(sum, sums);
    if (threadIdx.x == 0) a.squares[blockIdx.x] = sum;
}

/* One block: the norm, and the first piece that is not finite. */
__global__ static void finish_gradient_norm_kernel(rk_cuda_dense a, uint32_t *stop) {
    RK_SHARED(double, sums, RK_WARPS);
    RK_SHARED(uint32_t, bad, 1);
    double sum = 0;
    if (threadIdx.x == 0) bad[0] = (uint32_t)a.n_pieces;
    __syncthreads();
    for (int64_t p = threadIdx.x; p < a.n_pieces; p += RK_THREADS) {
        if (!isfinite(a.squares[p])) atomicMin(&bad[0], (uint32_t)p);
        sum += a.squares[p];
    }
    double norm = sqrt(rk_block_sum_f64(sum, sums));
    if (threadIdx.x > 0) return;
    a.state->gradient_scale = a.max_norm > 0 && norm > a.max_norm ? (float)(a.max_norm / norm) : 1.0f;
    a.state->bad_piece = bad[0];
    if (bad[0] < a.n_pieces) atomicOr(stop, (uint32_t)RK_CUDA_STOP_DENSE);
}

/* Adds l2, computes the gradients' norm; *stop |= RK_CUDA_STOP_DENSE where one is not finite */
void rk_cuda_dense_gradient_norm(rk_stream *stream, const rk_cuda_dense *dense, uint32_t *stop) {
    RK_LAUNCH(add_l2_and_sum_squares_kernel, (uint32_t)dense->n_pieces, RK_THREADS, 0, stream, *dense);
    RK_LAUNCH(finish_gradient_norm_kernel, 1, RK_THREADS, 0, stream, *dense, stop);
}

/* The step's numbers as a piece has them. */
__device__ static inline rk_update update_args_of_piece(const rk_cuda_dense &a, rk_cuda_dense_piece piece) {
    rk_update u = *a.update;
    u.kind = a.kind;
    if (piece.is_bias) u.decay = u.weight_decay = 0;
    return u;
}

/* Value i before the rule; the gradient as the rule sees it is left in memory. */
__device__ static inline float clip_and_decay_gradient(const rk_cuda_dense &a, const rk_update *u,
                                                       float gradient_scale, int64_t i) {
    float g = a.gradients[i];
    if (gradient_scale != 1.0f) g *= gradient_scale;
    clip_gradient_and_decay(u, &a.values[i], &g, 1);
    return a.gradients[i] = g;
}

__global__ static void update_values_kernel(rk_cuda_dense a, const uint32_t *stop) {
    if (*stop) return;
    rk_cuda_dense_piece piece = a.pieces[blockIdx.x];
    rk_update u = update_args_of_piece(a, piece);
    float scale = a.state->gradient_scale, none = 0;
    for (int64_t i = piece.first + threadIdx.x; i < piece.first + piece.count; i += RK_THREADS) {
        float w = a.values[i], slot0 = a.slots[0] ? a.slots[0][i] : none,
              slot1 = a.slots[1] ? a.slots[1][i] : none, g = a.gradients[i];
        if (scale != 1.0f) g *= scale;
        apply_rule_to_row(&u, &w, &slot0, &slot1, &g, 1);
        a.values[i] = w;
        if (a.slots[0]) a.slots[0][i] = slot0;
        if (a.slots[1]) a.slots[1][i] = slot1;
    }
}

/* A piece is a row. */
__global__ static void update_rows_kernel(rk_cuda_dense a, const uint32_t *stop) {
    RK_SHARED(double, sums, RK_WARPS);
    if (*stop) return;
    rk_cuda_dense_piece piece = a.pieces[blockIdx.x];
    rk_update u = update_args_of_piece(a, piece);
    float scale = a.state->gradient_scale,
          *slot = &a.slots[u.kind == RK_OPTIMIZER_ROWWISE_ADAM ? 1 : 0][piece.row], before = *slot;
    double sum = 0;
    for (int64_t i = piece.first + threadIdx.x; i < piece.first + piece.count; i += RK_THREADS) {
        float g = clip_and_decay_gradient(a, &u, scale, i);
        sum += (double)g * (double)g;
    }
    float square = (float)rk_block_sum_f64(sum, sums) / (float)piece.count;
    float after =
        u.kind == RK_OPTIMIZER_ROWWISE_ADAM ? rowwise_adam_next_v(&u, before, square) : before + square;
    if (threadIdx.x == 0) *slot = after; /* all have read it before the sum */
    for (int64_t i = piece.first + threadIdx.x; i < piece.first + piece.count; i += RK_THREADS) {
        if (u.kind == RK_OPTIMIZER_ROWWISE_ADAM)
            rowwise_adam_update_values(&u, &a.values[i], &a.slots[0][i], after, &a.gradients[i], 1);
        else
            rowwise_adagrad_update_values(&u, &a.values[i], after, &a.gradients[i], 1);
        clip_weights(&u, &a.values[i], 1);
    }
}

/* The sums that lamb and lars need of a tensor: of w's squares, and of the steps' or gradients'. */
__global__ static void sum_tensor_squares_kernel(rk_cuda_dense a, const uint32_t *stop) {
    RK_SHARED(double, sums, RK_WARPS);
    if (*stop) return;
    rk_cuda_dense_piece piece = a.pieces[blockIdx.x];
    rk_update u = update_args_of_piece(a, piece);
    float scale = a.state->gradient_scale;
    double steps = 0, squares = 0;
    for (int64_t i = piece.first + threadIdx.x; i < piece.first + piece.count; i += RK_THREADS) {
        float g = clip_and_decay_gradient(a, &u, scale, i), w = a.values[i];
        steps += u.kind == RK_OPTIMIZER_LAMB
                     ? (double)lamb_update_moments(&u, &w, &a.slots[0][i], &a.slots[1][i], &g, 1)
                     : (double)g * (double)g;
        squares += (double)w * (double)w;
    }
    steps = rk_block_sum_f64(steps, sums);
    squares = rk_block_sum_f64(squares, sums);
    if (threadIdx.x > 0) return;
    a.squares[blockIdx.x] = steps;
    a.squares[a.n_pieces + blockIdx.x] = squares;
}

__device__ static inline float sum_partials_of_tensor(const double *squares, rk_cuda_dense_piece piece,
                                                      double *sums) {
    double sum = 0;
    for (int32_t p = (int32_t)threadIdx.x; p < piece.tensor_count; p += RK_THREADS)
        sum += squares[piece.tensor_first + p];
    return (float)rk_block_sum_f64(sum, sums);
}

__global__ static void update_tensors_kernel(rk_cuda_dense a, const uint32_t *stop) {
    RK_SHARED(double, sums, RK_WARPS);
    if (*stop) return;
    rk_cuda_dense_piece piece = a.pieces[blockIdx.x];
    rk_update u = update_args_of_piece(a, piece);
    float steps = sum_partials_of_tensor(a.squares, piece, sums),
          squares = sum_partials_of_tensor(a.squares + a.n_pieces, piece, sums);
    for (int64_t i = piece.first + threadIdx.x; i < piece.first + piece.count; i += RK_THREADS) {
        if (u.kind == RK_OPTIMIZER_LAMB)
            lamb_update_values(&u, squares, steps, &a.values[i], &a.slots[0][i], &a.slots[1][i], 1);
        else
            lars_update_values(&u, squares, steps, &a.values[i], &a.slots[0][i], &a.gradients[i], 1);
        clip_weights(&u, &a.values[i], 1);
    }
}

/* One step from the gradients whose norm is known, unless *stop */
void rk_cuda_dense_optimizer_step(rk_stream *stream, const rk_cuda_dense *dense, const uint32_t *stop) {
    uint32_t blocks = (uint32_t)dense->n_pieces;
    switch (dense->kind) {
        case RK_OPTIMIZER_ROWWISE_ADAGRAD:
        case RK_OPTIMIZER_ROWWISE_ADAM:
            RK_LAUNCH(update_rows_kernel, blocks, RK_THREADS, 0, stream, *dense, stop);
            break;
        case RK_OPTIMIZER_LAMB:
        case RK_OPTIMIZER_LARS:
            RK_LAUNCH(sum_tensor_squares_kernel, blocks, RK_THREADS, 0, stream, *dense, stop);
            RK_LAUNCH(update_tensors_kernel, blocks, RK_THREADS, 0, stream, *dense, stop);
            break;
        default:
            RK_LAUNCH(update_values_kernel, blocks, RK_THREADS, 0, stream, *dense, stop);
    }
}

__global__ static void copy_if_kernel(int64_t n, const uint32_t *condition, const float *from, float *to) {
    int64_t i = rk_thread_number();
    if (i < n && *condition) to[i] = from[i];
}

/* to = from if *condition */
void rk_cuda_copy_if(rk_stream *stream, int64_t n, const uint32_t *condition, const float *from, float *to) {
    RK_LAUNCH(copy_if_kernel, rk_grid_blocks(n, RK_THREADS), RK_THREADS, 0, stream, n, condition, from, to);
}
