/* Dropout with the very masks of the CPU engine (nn/ops/op_dropout.c): one block of Philox for four values in
 * a row. */
#include "cuda/platform.h"

extern "C" {
#include "base/rng.h"
}

#include "cuda/dense/dense_kernel_helpers.h"

/* Values in groups: the four of a thread may be of several. */
__global__ static void dropout_groups_kernel(rk_cuda_dropout_args a, const float *from, float *to,
                                             bool overwrite) {
    int64_t i = rk_thread_number();
    if (i >= a.n) return;
    uint32_t random[4];
    int64_t place = a.step[1] * a.per_sample + i / a.group;
    rk_rng_draw_four_words(a.seed, (uint64_t)a.step[0], (uint64_t)(place / 4), random);
    uint32_t draw = random[place % 4];
    rk_store_gradient(&to[i], draw >= a.limit ? from[i] * a.keep : 0, overwrite);
}

__global__ static void dropout_kernel(rk_cuda_dropout_args a, const float *from, float *to, bool overwrite) {
    int64_t i = 4 * rk_thread_number();
    if (i >= a.n) return;
    uint32_t random[4];
    rk_rng_draw_four_words(a.seed, (uint64_t)a.step[0], (uint64_t)((a.step[1] * a.per_sample + i) / 4),
                           random);
    float4 x = rk_load4(from, i, a.n);
    rk_store_gradient4(
        to, i, a.n,
        make_float4(random[0] >= a.limit ? x.x * a.keep : 0, random[1] >= a.limit ? x.y * a.keep : 0,
                    random[2] >= a.limit ? x.z * a.keep : 0, random[3] >= a.limit ? x.w * a.keep : 0),
        overwrite);
}

/* to[i] += mask[i / group] from[i] / (1 - rate), forward and backward alike */
void rk_cuda_dropout(rk_stream *stream, const rk_cuda_dropout_args *args, const float *from, float *to,
                     bool overwrite) {
    if (args->group > 1) {
        RK_LAUNCH(dropout_groups_kernel, rk_grid_blocks(args->n, RK_THREADS), RK_THREADS, 0, stream, *args,
                  from, to, overwrite);
        return;
    }
    RK_LAUNCH(dropout_kernel, rk_grid_blocks_of_quads(args->n), RK_THREADS, 0, stream, *args, from, to,
              overwrite);
}
