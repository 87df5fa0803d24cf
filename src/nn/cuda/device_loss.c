#include "nn/cuda/device_loss.h"

#include "base/memory.h"
#include "cuda/launch_list.h"

struct rk_device_tasks {
    rk_device *device;
    int32_t n;
    rk_cuda_task *tasks; /* [n], device memory */
    double *partials;    /* [RK_CUDA_LOSS_BLOCKS, n], device memory */
};

static rk_status upload_task_descriptors(rk_device_tasks *t, const rk_device_task *tasks) {
    RK_AUTOFREE rk_cuda_task *list = NULL;
    RK_TRY(rk_alloc((size_t)t->n, sizeof *list, &list));
    for (int32_t i = 0; i < t->n; i++)
        list[i] = (rk_cuda_task){.is_mse = tasks[i].kind == RK_LOSS_MSE,
                                 .optional = tasks[i].optional,
                                 .smoothing = tasks[i].smoothing,
                                 .learned = tasks[i].learned};
    return rk_device_upload(t->device, t->tasks, list, (size_t)t->n * sizeof *list);
}

rk_status rk_device_tasks_create(rk_device *device, int32_t n_tasks, const rk_device_task *tasks,
                                 rk_device_tasks **out) {
    rk_device_tasks *t;
    RK_TRY(rk_alloc(1, sizeof *t, &t));
    t->device = device;
    t->n = n_tasks;
    rk_status status;
    RK_GOTO(rk_device_alloc(device, (size_t)n_tasks * sizeof *t->tasks, &t->tasks));
    RK_GOTO(rk_device_alloc(device, (size_t)RK_CUDA_LOSS_BLOCKS * (size_t)n_tasks * sizeof *t->partials,
                            &t->partials));
    RK_GOTO(upload_task_descriptors(t, tasks));
    *out = t;
    return RK_OK;
done:
    rk_device_tasks_free(t);
    return status;
}

void rk_device_tasks_free(rk_device_tasks *t) {
    if (!t) return;
    rk_device_free(t->device, t->tasks);
    rk_device_free(t->device, t->partials);
    rk_free(t);
}

/* The first sample takes the gradient of the log variances, which are the same for all. */
void rk_device_compute_losses(rk_device_tasks *t, rk_stream *stream, const rk_device_loss_args *a) {
    if (a->log_variance_gradient)
        rk_stream_fill(stream, a->log_variance_gradient, 0,
                       (size_t)(a->n * t->n) * sizeof *a->log_variance_gradient);
    rk_cuda_loss_args args = {.n = a->n,
                              .n_tasks = t->n,
                              .tasks = t->tasks,
                              .logits = a->logits,
                              .labels = a->labels,
                              .weights = a->weights,
                              .scales = a->scales,
                              .shares = a->shares,
                              .log_variances = a->log_variances,
                              .gradient = a->gradient,
                              .slopes = a->log_variance_gradient,
                              .partials = t->partials,
                              .losses = a->losses,
                              .stop = a->stop,
                              .stop_bit = a->stop_bit};
    rk_cuda_loss(stream, &args);
}

void rk_device_compute_predictions(rk_device_tasks *t, rk_stream *stream, int64_t n, const float *logits,
                                   float *out) {
    rk_cuda_predictions(stream, n, t->n, t->tasks, logits, out);
}
