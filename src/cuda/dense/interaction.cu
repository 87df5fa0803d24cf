/* The dot products of all pairs of rows (nn/ops/op_dot_interaction.c).
 *
 * A block takes one sample, or a few small ones, in slabs of 32 columns in shared memory; a thread has a tile
 * of 4 x 4 pairs forward, and 4 rows by 4 columns of dx backward, so a number that is fetched is used four
 * times. Each sample is read once, 4 * rows * cols bytes, with rows * cols multiply-adds for every 8 bytes of
 * 4 rows: bound by memory up to about 30 rows. More than 64 rows go by plain loops. */
#include "cuda/platform.h"

#include "cuda/dense/dense_kernel_helpers.h"

enum {
    SLAB = 32,         /* columns in shared memory at a time */
    STRIDE = SLAB + 4, /* of their rows there: aligned to 16 bytes, and neighbours in other banks */
    TILE = 4,
    MAX_ROWS = 64,
    SHARED_FLOATS = 8192
};

__host__ __device__ static inline int tiles_of_rows(int rows) {
    return (rows + TILE - 1) / TILE;
}
/* Tiles at or below the diagonal. */
__host__ __device__ static inline int count_tile_pairs(int rows) {
    return tiles_of_rows(rows) * (tiles_of_rows(rows) + 1) / 2;
}

/* Tile number -> its place in the lower triangle. */
__device__ static inline void find_tile_in_triangle(int number, int *row, int *col) {
    int i = 0;
    while ((i + 1) * (i + 2) / 2 <= number) i++;
    *row = i * TILE;
    *col = (number - i * (i + 1) / 2) * TILE;
}

/* Columns first .. first+SLAB-1 of n_here samples; what lies outside is zeros. padded: rows of a sample
 * there. Eight threads a row, four columns each. */
__device__ static inline void load_column_slab(const float *x, int n_here, int rows, int cols, int padded,
                                               int first, float *slab) {
    int s = 0, r = (int)threadIdx.x / (SLAB / 4), k = (int)threadIdx.x % (SLAB / 4) * 4,
        left = cols - first - k;
    for (;; r += (int)blockDim.x / (SLAB / 4)) {
        for (; r >= padded; r -= padded) s++;
        if (s >= n_here) return;
        const float *from = x + ((int64_t)s * rows + r) * cols + first + k;
        float4 v = make_float4(0, 0, 0, 0);
        if (r < rows && left > 0) {
            if (cols % 4 == 0)
                v = *(const float4 *)from;
            else
                v = make_float4(from[0], left > 1 ? from[1] : 0, left > 2 ? from[2] : 0,
                                left > 3 ? from[3] : 0);
        }
        *(float4 *)(slab + (s * padded + r) * STRIDE + k) = v;
    }
}

__device__ static inline float dot4(float4 a, float4 b, float sum) {
    sum = fmaf(a.x, b.x, sum);
    sum = fmaf(a.y, b.y, sum);
    sum = fmaf(a.z, b.z, sum);
    return fmaf(a.w, b.w, sum);
}

__device__ static inline void add_tile_products(const float *a, const float *b, float sums[TILE][TILE]) {
    for (int k = 0; k < SLAB; k += 4) {
        float4 left[TILE], right[TILE];
        for (int i = 0; i < TILE; i++) {
            left[i] = *(const float4 *)(a + i * STRIDE + k);
            right[i] = *(const float4 *)(b + i * STRIDE + k);
        }
        for (int i = 0; i < TILE; i++)
            for (int j = 0; j < TILE; j++) sums[i][j] = dot4(left[i], right[j], sums[i][j]);
    }
}

/* Each thread one tile of one sample. */
__global__ static void interaction_kernel(int64_t n, int rows, int cols, int samples, const float *x,
                                          float *y) {
    RK_SHARED(float4, shared, SHARED_FLOATS / 4);
    float *slab = (float *)shared;
    int padded = tiles_of_rows(rows) * TILE, a_sample = count_tile_pairs(rows),
        n_pairs = rows * (rows - 1) / 2;
    int64_t first = (int64_t)blockIdx.x * samples;
    int n_here = n - first < samples ? (int)(n - first) : samples, s = (int)threadIdx.x / a_sample, row = 0,
        col = 0;
    float sums[TILE][TILE] = {};
    bool here = s < n_here;
    find_tile_in_triangle((int)threadIdx.x % a_sample, &row, &col);
    for (int k = 0; k < cols; k += SLAB) {
        __syncthreads();
        load_column_slab(x + first * rows * cols, n_here, rows, cols, padded, k, slab);
        __syncthreads();
        if (here)
            add_tile_products(slab + (s * padded + row) * STRIDE, slab + (s * padded + col) * STRIDE, sums);
    }
    y += (first + s) * n_pairs;
    for (int i = 0; i < TILE && here; i++)
        for (int j = 0; j < TILE; j++)
            if (row + i < rows && col + j < row + i) y[(row + i) * (row + i - 1) / 2 + col + j] = sums[i][j];
}

__global__ static void interaction_plain_kernel(int64_t n, int rows, int cols, const float *x, float *y) {
    int64_t at = rk_warp_number(), n_pairs = (int64_t)rows * (rows - 1) / 2;
    bool here = at < n * n_pairs;
    float sum = 0;
    if (here) {
        int64_t s = at / n_pairs, pair = at - s * n_pairs,
                i = (int64_t)((1 + sqrt(1 + 8 * (double)pair)) / 2);
        while (i * (i - 1) / 2 > pair) i--;
        while (i * (i + 1) / 2 <= pair) i++;
        const float *a = x + (s * rows + i) * cols, *b = x + (s * rows + pair - i * (i - 1) / 2) * cols;
        for (int k = rk_lane_number(); k < cols; k += RK_WARP) sum += a[k] * b[k];
    }
    sum = rk_warp_sum(sum);
    if (here && rk_lane_number() == 0) y[at] = sum;
}

static int min_int(int a, int b) {
    return a < b ? a : b;
}

/* y[s, i (i-1)/2 + j] = x[s, i] . x[s, j], j < i */
void rk_cuda_dot_interaction(rk_stream *stream, int64_t n, int32_t rows, int32_t cols, const float *x,
                             float *y) {
    if (rows > MAX_ROWS) {
        RK_LAUNCH(interaction_plain_kernel, rk_grid_blocks_of_warps(n * ((int64_t)rows * (rows - 1) / 2)),
                  RK_THREADS, 0, stream, n, rows, cols, x, y);
        return;
    }
    int a_sample = count_tile_pairs(rows),
        samples =
            min_int(min_int(SHARED_FLOATS / (tiles_of_rows(rows) * TILE * STRIDE), RK_THREADS / a_sample), 8);
    int threads = (samples * a_sample + RK_WARP - 1) / RK_WARP * RK_WARP;
    RK_LAUNCH(interaction_kernel, rk_grid_blocks(n, samples), threads, 0, stream, n, rows, cols, samples, x,
              y);
}

/* The gradients of pairs as a square [rows, padded] with zeros on the diagonal. */
__device__ static inline void load_gradients_as_square(const float *dy, int n_here, int rows, int padded,
                                                       float *square) {
    int n_pairs = rows * (rows - 1) / 2;
    for (int i = (int)threadIdx.x; i < n_here * padded * padded; i += (int)blockDim.x) {
        int c = i % padded, r = i / padded % padded, s = i / (padded * padded), high = r > c ? r : c,
            low = r > c ? c : r;
        square[i] = high < rows && high > low ? dy[(int64_t)s * n_pairs + high * (high - 1) / 2 + low] : 0;
    }
}

__device__ static inline float4 add_scaled(float4 sum, float d, float4 v) {
    return make_float4(fmaf(d, v.x, sum.x), fmaf(d, v.y, sum.y), fmaf(d, v.z, sum.z), fmaf(d, v.w, sum.w));
}

/* Four columns, of which `left` are there. */
__device__ static inline void store_four_columns(float *to, int left, bool aligned, float4 v,
                                                 bool overwrite) {
    if (aligned) {
        rk_store_gradient4(to, 0, 4, v, overwrite);
        return;
    }
    rk_store_gradient(to, v.x, overwrite);
    if (left > 1) rk_store_gradient(to + 1, v.y, overwrite);
    if (left > 2) rk_store_gradient(to + 2, v.z, overwrite);
    if (left > 3) rk_store_gradient(to + 3, v.w, overwrite);
}

/* Each thread four rows by four columns of a slab of dx: dx_i = sum_j d_ij x_j. */
__global__ static void interaction_backward_kernel(int64_t n, int rows, int cols, int samples, const float *x,
                                                   const float *dy, float *dx, bool overwrite_gradient) {
    RK_SHARED(float4, shared, SHARED_FLOATS / 4);
    int padded = tiles_of_rows(rows) * TILE, a_sample = tiles_of_rows(rows) * (SLAB / 4),
        n_pairs = rows * (rows - 1) / 2;
    float *square = (float *)shared, *slab = square + samples * padded * padded;
    int64_t first = (int64_t)blockIdx.x * samples;
    int n_here = n - first < samples ? (int)(n - first) : samples, s = (int)threadIdx.x / a_sample;
    int row = (int)threadIdx.x % a_sample / (SLAB / 4) * TILE, quad = (int)threadIdx.x % (SLAB / 4) * 4;
    load_gradients_as_square(dy + first * n_pairs, n_here, rows, padded, square);
    for (int k = 0; k < cols; k += SLAB) {
        __syncthreads();
        load_column_slab(x + first * rows * cols, n_here, rows, cols, padded, k, slab);
        __syncthreads();
        if (s >= n_here) continue;
        float4 sums[TILE] = {};
        for (int j = 0; j < rows; j++) {
            float4 v = *(const float4 *)(slab + (s * padded + j) * STRIDE + quad),
                   d = *(const float4 *)(square + (s * padded + j) * padded + row);
            sums[0] = add_scaled(sums[0], d.x, v);
            sums[1] = add_scaled(sums[1], d.y, v);
            sums[2] = add_scaled(sums[2], d.z, v);
            sums[3] = add_scaled(sums[3], d.w, v);
        }
        for (int i = 0; i < TILE && row + i < rows && k + quad < cols; i++)
            store_four_columns(&dx[((first + s) * rows + row + i) * cols + k + quad], cols - k - quad,
                               cols % 4 == 0, sums[i], overwrite_gradient);
    }
}

__global__ static void interaction_backward_plain_kernel(int64_t n, int rows, int cols, const float *x,
                                                         const float *dy, float *dx, bool overwrite) {
    int64_t at = rk_thread_number(), n_pairs = (int64_t)rows * (rows - 1) / 2;
    if (at >= n * rows * cols) return;
    int64_t k = at % cols, i = at / cols % rows, s = at / ((int64_t)rows * cols);
    float sum = 0;
    for (int64_t j = 0; j < rows; j++)
        if (j != i)
            sum += dy[s * n_pairs + (j < i ? i * (i - 1) / 2 + j : j * (j - 1) / 2 + i)] *
                   x[(s * rows + j) * cols + k];
    rk_store_gradient(&dx[at], sum, overwrite);
}

/* dx[s, i] += sum_j dy[s, pair of i and j] x[s, j] */
void rk_cuda_dot_interaction_backward(rk_stream *stream, int64_t n, int32_t rows, int32_t cols,
                                      const float *x, const float *dy, float *dx, bool overwrite) {
    if (rows > MAX_ROWS) {
        RK_LAUNCH(interaction_backward_plain_kernel, rk_grid_blocks(n * rows * cols, RK_THREADS), RK_THREADS,
                  0, stream, n, rows, cols, x, dy, dx, overwrite);
        return;
    }
    int padded = tiles_of_rows(rows) * TILE, a_sample = tiles_of_rows(rows) * (SLAB / 4),
        samples = min_int(min_int(SHARED_FLOATS / (padded * (padded + STRIDE)), RK_THREADS / a_sample), 8);
    int threads = (samples * a_sample + RK_WARP - 1) / RK_WARP * RK_WARP;
    RK_LAUNCH(interaction_backward_kernel, rk_grid_blocks(n, samples), threads, 0, stream, n, rows, cols,
              samples, x, dy, dx, overwrite);
}
