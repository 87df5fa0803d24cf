/* The tasks' losses on a GPU, sample by sample. */
#include "cuda/dense/dense_optimizer_step.h"
#include "model/cuda/cuda_engine_internal.h"

static int64_t no_item_only_samples(const rk_model *model, const rk_device_batch *batch, int64_t n) {
    (void)model, (void)batch, (void)n;
    return 0;
}

static void enqueue_task_losses(rk_model *model, const rk_device_batch *batch, int64_t n) {
    rk_cuda_engine *d = model->cuda;
    const char *at = batch->device;
    bool learns = model->log_variances >= 0;
    rk_device_compute_losses(
        d->tasks, d->compute,
        &(rk_device_loss_args){
            .n = n,
            .logits = rk_device_graph_data(d->graph, model->logits),
            .gradient = rk_device_graph_gradient(d->graph, model->logits),
            .labels = (const float *)(at + d->layout.labels),
            .weights = (const float *)(at + d->layout.weights),
            .scales = (const double *)(at + d->layout.scales),
            .shares = (const double *)(at + d->layout.shares),
            .log_variances = learns ? rk_device_graph_data(d->graph, model->log_variances) : NULL,
            .log_variance_gradient = learns ? rk_device_graph_gradient(d->graph, model->log_variances) : NULL,
            .losses = d->found,
            .stop = rk_step_status_stop_flag(d->found, model->n_tasks),
            .stop_bit = RK_CUDA_STOP_LOSS});
}

static rk_status compute_task_losses(const rk_model *model, const rk_batch *batch, const double *found,
                                     double *loss) {
    return rk_model_sum_losses_of_micro_batches(model, batch, found, 1, loss);
}

const rk_device_loss_ops rk_device_task_losses = {no_item_only_samples, enqueue_task_losses,
                                                  compute_task_losses};
