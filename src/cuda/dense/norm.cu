/* Normalizing rows: layer norm and lengths, a warp a row, sums in f64 as on the CPU. */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"

__global__ static void layer_norm_kernel(int64_t rows, int64_t cols, int64_t scale_rows, double epsilon,
                                         const float *x, const float *gamma, const float *beta, float *y,
                                         float *saved) {
    int64_t r = rk_warp_number(), own = r % scale_rows * cols;
    bool here = r < rows;
    double mean = 0, var = 0;
    x += r * cols;
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP) mean += (double)x[c];
    mean = rk_warp_sum_f64(mean) / (double)cols;
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP)
        var += ((double)x[c] - mean) * ((double)x[c] - mean);
    var = rk_warp_sum_f64(var);
    float m = (float)mean, scale = (float)(1 / sqrt(var / (double)cols + epsilon));
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP)
        y[r * cols + c] = gamma[own + c] * ((x[c] - m) * scale) + beta[own + c];
    if (!here || rk_lane_number() != 0) return;
    saved[2 * r] = m;
    saved[2 * r + 1] = scale;
}

/* y = gamma (x - mean) / sqrt(var + epsilon) + beta over each row; row r has row r % scale_rows of gamma and
 * beta. saved [rows, 2]: mean, 1 / deviation */
void rk_cuda_layer_norm(rk_stream *stream, int64_t rows, int64_t cols, int64_t scale_rows, double epsilon,
                        const float *x, const float *gamma, const float *beta, float *y, float *saved) {
    RK_LAUNCH(layer_norm_kernel, rk_grid_blocks_of_warps(rows), RK_THREADS, 0, stream, rows, cols, scale_rows,
              epsilon, x, gamma, beta, y, saved);
}

__global__ static void layer_norm_backward_kernel(int64_t rows, int64_t cols, int64_t scale_rows,
                                                  const float *x, const float *gamma, const float *saved,
                                                  const float *dy, float *dx, bool overwrite) {
    int64_t r = rk_warp_number(), own = r % scale_rows * cols;
    bool here = r < rows;
    float m = here ? saved[2 * r] : 0, scale = here ? saved[2 * r + 1] : 0;
    double sum = 0, dot = 0;
    x += r * cols;
    dy += r * cols;
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP) {
        double g = (double)dy[c] * (double)gamma[own + c];
        sum += g;
        dot += g * (double)((x[c] - m) * scale);
    }
    float mean = (float)(rk_warp_sum_f64(sum) / (double)cols),
          slope = (float)(rk_warp_sum_f64(dot) / (double)cols);
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP)
        rk_store_gradient(&dx[r * cols + c],
                          scale * (dy[c] * gamma[own + c] - mean - (x[c] - m) * scale * slope), overwrite);
}

/* dx of rk_cuda_layer_norm; gamma's and beta's by rk_cuda_column_sums */
void rk_cuda_layer_norm_backward(rk_stream *stream, int64_t rows, int64_t cols, int64_t scale_rows,
                                 const float *x, const float *gamma, const float *saved, const float *dy,
                                 float *dx, bool overwrite) {
    RK_LAUNCH(layer_norm_backward_kernel, rk_grid_blocks_of_warps(rows), RK_THREADS, 0, stream, rows, cols,
              scale_rows, x, gamma, saved, dy, dx, overwrite);
}

/* The length of a row, in every lane. */
__device__ static inline double l2_norm(const float *x, int64_t cols, bool here) {
    float squares = 0;
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP) squares += x[c] * x[c];
    return sqrt((double)rk_warp_sum(squares));
}

__device__ static inline float inverse_of(double length, double epsilon) {
    return (float)(1 / (length > epsilon ? length : epsilon));
}

__global__ static void l2_normalize_kernel(int64_t rows, int64_t cols, double epsilon, const float *x,
                                           float *y) {
    int64_t r = rk_warp_number();
    bool here = r < rows;
    x += r * cols;
    float factor = inverse_of(l2_norm(x, cols, here), epsilon);
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP) y[r * cols + c] = factor * x[c];
}

/* y = x / max(|x|, epsilon), each row */
void rk_cuda_l2_normalize(rk_stream *stream, int64_t rows, int64_t cols, double epsilon, const float *x,
                          float *y) {
    RK_LAUNCH(l2_normalize_kernel, rk_grid_blocks_of_warps(rows), RK_THREADS, 0, stream, rows, cols, epsilon,
              x, y);
}

__global__ static void l2_normalize_backward_kernel(int64_t rows, int64_t cols, double epsilon,
                                                    const float *x, const float *y, const float *dy,
                                                    float *dx, bool overwrite) {
    int64_t r = rk_warp_number();
    bool here = r < rows;
    double length = l2_norm(x + r * cols, cols, here);
    float dot = 0, factor = length > 0 ? inverse_of(length, epsilon) : 0;
    y += r * cols;
    dy += r * cols;
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP) dot += y[c] * dy[c];
    dot = rk_warp_sum(length > epsilon ? dot : 0);
    for (int64_t c = rk_lane_number(); here && c < cols; c += RK_WARP)
        rk_store_gradient(&dx[r * cols + c], factor * (dy[c] - dot * y[c]), overwrite);
}

/* dx += (dy - y (y . dy)) / |x|, dy / epsilon where |x| is smaller, nothing where it is 0 */
void rk_cuda_l2_normalize_backward(rk_stream *stream, int64_t rows, int64_t cols, double epsilon,
                                   const float *x, const float *y, const float *dy, float *dx,
                                   bool overwrite) {
    RK_LAUNCH(l2_normalize_backward_kernel, rk_grid_blocks_of_warps(rows), RK_THREADS, 0, stream, rows, cols,
              epsilon, x, y, dy, dx, overwrite);
}
