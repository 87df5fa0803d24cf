#include "nn/cuda/device_candidate_loss.h"

#include "base/memory.h"
#include "cuda/launch_list.h"

struct rk_device_candidate_loss {
    rk_device *device;
    rk_candidate_loss_config config;
    rk_cuda_math math;
    int64_t rows;              /* of scores at once */
    float *scores;             /* [rows, candidates]; here and below: device memory */
    float *own, *own_gradient; /* [max_n] */
    double *losses;            /* [max_n] */
};

static rk_status allocate_score_memory(rk_device_candidate_loss *l, int64_t scores_at_once) {
    const rk_candidate_loss_config *c = &l->config;
    int64_t n_candidates = c->n_sampled + (c->in_batch ? c->max_n : 0),
            fit = (scores_at_once ? scores_at_once : 1 << 26) / n_candidates;
    l->rows = fit < 1 ? 1 : fit > c->max_n ? c->max_n : fit;
    RK_TRY(rk_device_alloc(l->device, (size_t)(l->rows * n_candidates) * sizeof *l->scores, &l->scores));
    RK_TRY(rk_device_alloc(l->device, 2 * (size_t)c->max_n * sizeof *l->own, &l->own));
    l->own_gradient = l->own + c->max_n;
    RK_TRY(rk_device_alloc(l->device, (size_t)c->max_n * sizeof *l->losses, &l->losses));
    return RK_OK;
}

rk_status rk_device_candidate_loss_create(rk_device *device, const rk_candidate_loss_config *config,
                                          const rk_device_candidate_loss_options *options,
                                          rk_device_candidate_loss **out) {
    rk_device_candidate_loss *l;
    RK_TRY(rk_alloc(1, sizeof *l, &l));
    *l = (rk_device_candidate_loss){
        .device = device, .config = *config, .math = options->tf32 ? RK_CUDA_TF32 : RK_CUDA_F32};
    rk_status status = allocate_score_memory(l, options->scores_at_once);
    if (status == RK_OK)
        *out = l;
    else
        rk_device_candidate_loss_free(l);
    return status;
}

void rk_device_candidate_loss_free(rk_device_candidate_loss *l) {
    if (!l) return;
    rk_device_free(l->device, l->scores);
    rk_device_free(l->device, l->own);
    rk_device_free(l->device, l->losses);
    rk_free(l);
}

/* Samples begin .. begin+n-1 against all candidates, which are items first and on. user_gradient is written,
 * item_gradient, which was zeros at first, added to. */
static void score_samples_against_candidates(rk_device_candidate_loss *l, rk_stream *stream,
                                             const rk_device_candidate_loss_args *a, int64_t first,
                                             int64_t begin, int64_t n) {
    const rk_candidate_loss_config *c = &l->config;
    int64_t dim = c->dim, n_candidates = a->n + c->n_sampled - first;
    const float *users = a->users + begin * dim, *candidates = a->items + first * dim;
    rk_cuda_gemm_args product = {.m = n,
                                 .n = n_candidates,
                                 .k = dim,
                                 .a = users,
                                 .b = candidates,
                                 .c = l->scores,
                                 .lda = dim,
                                 .ldb = dim,
                                 .ldc = n_candidates,
                                 .b_transposed = true,
                                 .alpha = 1,
                                 .math = l->math};
    rk_cuda_gemm(stream, &product);
    rk_cuda_candidate_losses(stream,
                             &(rk_cuda_candidates_args){.kind = c->kind,
                                                        .n = n,
                                                        .n_candidates = n_candidates,
                                                        .scores = l->scores,
                                                        .ids = a->ids + first,
                                                        .log_q = a->log_q ? a->log_q + first : NULL,
                                                        .own_ids = a->ids + begin,
                                                        .own_scores = l->own + begin,
                                                        .own_log_q = a->log_q ? a->log_q + begin : NULL,
                                                        .weights = a->weights + begin,
                                                        .scale = a->scale,
                                                        .first_grouped = n_candidates - c->n_sampled,
                                                        .hard = c->hard,
                                                        .temperature = c->temperature,
                                                        .margin = c->margin,
                                                        .negative_weight = c->negative_weight,
                                                        .own_gradient = l->own_gradient + begin,
                                                        .losses = l->losses + begin});
    rk_cuda_gemm_args to_users = {.m = n,
                                  .n = dim,
                                  .k = n_candidates,
                                  .a = l->scores,
                                  .b = candidates,
                                  .c = a->user_gradient + begin * dim,
                                  .lda = n_candidates,
                                  .ldb = dim,
                                  .ldc = dim,
                                  .alpha = 1,
                                  .math = l->math};
    rk_cuda_gemm(stream, &to_users);
    rk_cuda_gemm_args to_items = {.m = n_candidates,
                                  .n = dim,
                                  .k = n,
                                  .a = l->scores,
                                  .b = users,
                                  .c = a->item_gradient + first * dim,
                                  .lda = n_candidates,
                                  .ldb = dim,
                                  .ldc = dim,
                                  .a_transposed = true,
                                  .alpha = 1,
                                  .beta = 1,
                                  .math = l->math};
    rk_cuda_gemm(stream, &to_items);
}

void rk_device_candidate_loss_run(rk_device_candidate_loss *l, rk_stream *stream,
                                  const rk_device_candidate_loss_args *a) {
    int64_t dim = l->config.dim, first = l->config.in_batch ? 0 : a->n, rows = a->last - a->first;
    const float *users = a->users + a->first * dim, *items = a->items + a->first * dim,
                *own_gradient = l->own_gradient + a->first;
    rk_stream_fill(stream, a->item_gradient, 0,
                   (size_t)((a->n + l->config.n_sampled) * dim) * sizeof *a->item_gradient);
    rk_cuda_rowwise_dot(stream, rows, dim, users, items, rows, l->own + a->first, true);
    for (int64_t begin = a->first; begin < a->last; begin += l->rows)
        score_samples_against_candidates(l, stream, a, first, begin,
                                         a->last - begin < l->rows ? a->last - begin : l->rows);
    rk_cuda_rowwise_scale(stream, rows, dim, own_gradient, items, rows, a->user_gradient + a->first * dim,
                          false);
    rk_cuda_rowwise_scale(stream, rows, dim, own_gradient, users, rows, a->item_gradient + a->first * dim,
                          false);
    rk_cuda_sum_losses(stream, rows, l->losses + a->first, a->loss, a->stop, a->stop_bit);
}
