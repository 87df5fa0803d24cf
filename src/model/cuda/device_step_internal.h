/* Inside a model's steps on a GPU: what setting them up and taking them share. */
#ifndef RK_MODEL_CUDA_DEVICE_STEP_INTERNAL_H
#define RK_MODEL_CUDA_DEVICE_STEP_INTERNAL_H

#include "embedding/cuda_sharded/device_sharded.h"
#include "model/cuda/device_batch.h"
#include "model/cuda/launch_cache.h"
#include "model/cuda/device_step.h"
#include "nn/cuda/device_candidate_loss.h"
#include "nn/cuda/device_graph.h"
#include "nn/cuda/device_loss.h"

enum { RK_DEVICE_FLIGHTS = 2 };

/* What a host tells the others at each step. */
typedef struct rk_device_word {
    int32_t stop;        /* the rank was asked to */
    uint64_t bytes_sent; /* so far */
} rk_device_word;

struct rk_device_step {
    rk_device *device;
    rk_stream *upload, *routing, *compute;
    rk_device_graph *graph;
    rk_device_tables *tables;   /* NULL: the model has none; over ranks: the front of `sharded` */
    rk_device_sharded *sharded; /* over ranks, and */
    rk_device_comm *comm;       /* between them */
    rk_all_to_all *words;       /* of the step that is under way: what the hosts tell each other, */
    rk_device_word word;        /* and this one does */
    double *founds;             /* device: `found` of each rank */
    double *own;                /* pinned: this rank's; on one rank: step status */
    rk_device_batch_layout layout;
    rk_device_batch batches[RK_DEVICE_FLIGHTS];
    int64_t totals[RK_DEVICE_FLIGHTS]; /* samples of those batches, on all ranks */
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
    float *predictions, *told; /* [max_batch or max_here, n_tasks]: device; pinned */
    rk_launch_cache training[RK_DEVICE_FLIGHTS], prediction[RK_DEVICE_FLIGHTS];
    bool late;
    bool under_way;   /* a step that was given to the device and not yet judged, */
    int running;      /* of this batch */
    bool home_is_old; /* since the last settle, steps were trained */
};

/* Behind the losses of a step status. */
static inline uint32_t *rk_stop_of(double *found, int32_t n_tasks) {
    return (uint32_t *)(found + n_tasks);
}

#endif
