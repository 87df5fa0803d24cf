/* What trainers combine in each step: sums of dense gradients, losses, and step statuses.
 *
 * In a step the hooks start all_reduces during backward. post sends this rank's status and the gradients
 * that were not sent yet. wait ends with the step's loss and the summed gradients in the graph's place, or
 * with the first failure, which then is every rank's. Up to `depth` steps may be posted and not waited for.
 */
#ifndef RK_MODEL_STEP_REDUCER_H
#define RK_MODEL_STEP_REDUCER_H

#include "model/model_internal.h"
#include "model/step/powersgd.h"
#include "model/step/residual.h"

enum { RK_BUCKET_VALUES = 1 << 19 }; /* dense gradients of a bucket, at least: 2 MB */

typedef struct rk_reducer_ops {
    void (*free)(rk_reducer *reducer);
    /* local_batch: of the step; the hooks' context is a rk_model_run. */
    void (*hook)(rk_reducer *reducer, const rk_local_batch *local_batch, rk_graph_hooks *hooks);
    /* loss: of the local batch, if found is RK_OK. */
    rk_status (*post)(rk_reducer *reducer, const rk_local_batch *local_batch, rk_status found, double loss);
    /* batch: of the oldest step that was posted; errors name its row if the loss is not finite. Checks the
     * gradients: RK_NOT_FINITE names a parameter. */
    rk_status (*wait)(rk_reducer *reducer, const rk_batch *batch, double *loss);
} rk_reducer_ops;

struct rk_reducer {
    const rk_reducer_ops *ops;
    rk_model *model;
    int64_t depth;
    double wait_s;
    rk_residual residual;
    rk_powersgd powersgd; /* of 0 vectors: gradients travel otherwise */
};

/* Of a model that does not train, or trains on a GPU; free does nothing. */
rk_reducer *rk_reducer_none(void);
/* For one process, which waits for no other. */
rk_status rk_reducer_self_create(rk_model *model, rk_reducer **out);
/* Over ranks. depth: steps whose dense gradients may be applied late (`cluster.asynchronous`); 0 where
 * something is kept back of them. Call it on trainers, after the graph is finished. */
rk_status rk_reducer_ranks_create(rk_model *model, int64_t depth, rk_dense_wire wire, rk_reducer **out);

/* Whether the gradients in the graph's place are finite; the error names step and parameter. */
rk_status rk_reducer_check_dense_gradients(const rk_reducer *reducer);

/* The step that was waited for changes the parameters. */
void rk_reducer_accept(rk_reducer *reducer);
/* What is kept from step to step, as tensors beside those of the state; and back from a checkpoint's, of each
 * trainer (model/step/residual.h). */
rk_status rk_reducer_state_dict(rk_reducer *reducer, rk_state_dict *state);
rk_status rk_reducer_read(rk_reducer *reducer, const char *name, size_t n, const void *values);

#endif
