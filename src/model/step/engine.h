/* What computes a model's dense part: the CPU, a block of samples at a time (cpu_engine.c), or a GPU, a batch
 * at a time (model/cuda/). step.c drives it:
 *
 *     begin      sends a training batch's ids to the store
 *     launch     takes the oldest batch that was begun: forward, loss, backward; sends the step status
 *     finish     takes the oldest batch that was launched: updates rows and parameters, or undoes the step;
 *                *loss is NaN if it is skipped
 *     cancel     undoes begin of the last batch, which was not launched
 *     forward    runs samples of an inference's batch through the graph for prediction; writes what `output`
 *                names
 *
 * Up to `depth` batches may be launched and not finished. If the engine is exclusive, each is finished before
 * the next is launched. */
#ifndef RK_MODEL_STEP_ENGINE_H
#define RK_MODEL_STEP_ENGINE_H

#include "model/step/predict.h"

typedef struct rk_engine_ops {
    void (*free)(rk_model *model);
    rk_status (*begin)(rk_model *model, const rk_local_batch *batch);
    rk_status (*launch)(rk_model *model, const rk_local_batch *batch);
    rk_status (*finish)(rk_model *model, const rk_local_batch *batch, double *loss);
    void (*cancel)(rk_model *model);
    rk_status (*forward)(rk_inference *inference, const rk_output *output, float *out);
    /* Between steps; NULL if only the CPU computes them. */
    rk_status (*metrics)(rk_model *model, bool binary, int64_t n, const rk_metric_sample *samples,
                         const int64_t *groups, rk_metric_totals *out);
    rk_status (*ranking_positions)(rk_model *model, const rk_ranking_positions *args);
    rk_status (*flush)(rk_model *model);  /* rows and parameters are in the host's memory, up to date */
    rk_status (*reload)(rk_model *model); /* after they were written to there */
} rk_engine_ops;

extern const rk_engine_ops rk_cpu_engine;
/* Allocates its memory, after the graph, the store and the reducer were created. */
rk_status rk_cpu_engine_create(rk_model *model, const rk_model_options *options,
                               const rk_collection_config *collection);

#endif
