/* Inside a model's steps on a GPU: what creating and running the engine share. */
#ifndef RK_MODEL_CUDA_CUDA_ENGINE_INTERNAL_H
#define RK_MODEL_CUDA_CUDA_ENGINE_INTERNAL_H

#include <pthread.h>

#include "comm/nccl/device_comm.h"
#include "embedding/cuda/device_store.h"
#include "model/cuda/device_batch.h"
#include "model/cuda/launch_cache.h"
#include "model/cuda/cuda_engine.h"
#include "nn/cuda/device_candidate_loss.h"
#include "nn/cuda/device_graph.h"
#include "nn/cuda/device_loss.h"

enum { RK_DEVICE_BATCHES = 2 };

/* What each host sends the others at each step. */
typedef struct rk_device_control {
    int32_t stop;        /* the rank was asked to */
    uint64_t bytes_sent; /* so far */
} rk_device_control;

/* What ends a step, on one rank or over ranks (device_ranks.c). */
typedef struct rk_device_ranks_ops {
    rk_status (*begin)(rk_model *model); /* starts the hosts' messages beside the step */
    /* From gradients and what was found here to updates of rows and parameters, unless somebody's stops them:
     * what of it a graph of launches may keep, then the rest. */
    rk_status (*enqueue)(rk_model *model);
    rk_status (*end_step)(rk_model *model);
    rk_status (*end)(rk_model *model);  /* of `begin` */
    rk_status (*wait)(rk_model *model); /* for all that was given to the device */
} rk_device_ranks_ops;
extern const rk_device_ranks_ops rk_device_one_rank, rk_device_many_ranks;

/* What a step minimizes on a GPU, as rk_loss_ops. */
typedef struct rk_device_loss_ops {
    int64_t (*n_rest)(const rk_model *model, const rk_device_batch *batch, int64_t n);
    void (*enqueue)(rk_model *model, const rk_device_batch *batch,
                    int64_t n); /* from outputs to their gradients */
    /* A step's loss, of what the device found; RK_NOT_FINITE says why. */
    rk_status (*compute_loss)(const rk_model *model, const rk_batch *batch, const double *found,
                              double *loss);
} rk_device_loss_ops;
extern const rk_device_loss_ops rk_device_task_losses, rk_device_retrieval_losses;

struct rk_cuda_engine {
    rk_device *device;
    rk_stream *upload, *dedup, *compute;
    rk_device_graph *graph;
    rk_device_store *store;
    const rk_device_ranks_ops *ranks;
    const rk_device_loss_ops *loss;
    rk_device_comm *comm;   /* between ranks; NULL on one */
    rk_all_to_all *words;   /* of the current step: the hosts' messages, */
    rk_device_control word; /* and this one does */
    double *founds;         /* device: `found` of each rank */
    double *own;            /* pinned: this rank's; on one rank: step status */
    rk_device_batch_layout layout;
    rk_device_batch batches[RK_DEVICE_BATCHES];
    int64_t totals[RK_DEVICE_BATCHES]; /* samples of those batches, on all ranks */
    int now;                           /* of those, where the last batch was put */
    rk_device_tasks *tasks;
    rk_device_candidate_loss *candidates;   /* of a two_tower that trains, else NULL, */
    float *all_vectors, *all_gradients;     /* and over ranks of the whole batch: users', [max_batch, dim] at
                                               most, and behind them items', [max_batch + drawn, dim] */
    rk_device_message *messages;            /* [4 * trainers]: scratch */
    rk_activation *activations, *gradients; /* [n_lookups] in the graph's inputs */
    double *found;                          /* device: [n_tasks] losses, then `stop` */
    double *step_status;                    /* the same, pinned */
    size_t step_status_bytes;
    pthread_mutex_t turn;      /* of who predicts or measures: sessions of several threads may */
    float *predictions, *told; /* [max_batch or max_here, n_tasks]: device; pinned */
    rk_launch_cache training[RK_DEVICE_BATCHES], prediction[RK_DEVICE_BATCHES];
    int running;      /* of those, the batch of the step that was given to the device last */
    bool home_is_old; /* steps were trained since the last flush */
};

/* Behind the losses of a step status. */
static inline uint32_t *rk_step_status_stop_flag(double *found, int32_t n_tasks) {
    return (uint32_t *)(found + n_tasks);
}

void rk_cuda_engine_free(rk_model *model);
extern const rk_engine_ops rk_cuda_engine_functions;

#endif
