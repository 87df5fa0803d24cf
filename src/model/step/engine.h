/* What computes a model's dense part: the processor, a block of samples at a time (cpu_engine.c), or a GPU, a
 * batch at a time (model/cuda/). step.c drives it:
 *
 *     begin      a training batch's ids set off to the store
 *     launch     the oldest batch that was begun: forward, loss, backward; what was found sets off
 *     finish     the oldest batch that was launched: rows and parameters are updated, or the step is undone;
 *                *loss NaN where it is skipped
 *     cancel     the batch that was begun last, and not launched, never was
 *     forward    samples of an inference's batch through the graph for prediction: what `output` says
 *
 * Up to `depth` batches may be launched and not finished; where the engine is exclusive, the one before is
 * finished before the next is launched. */
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
    /* Between steps; NULL where only the processor computes them. */
    rk_status (*metrics)(rk_model *model, bool binary, int64_t n, const rk_metric_sample *samples,
                         const int64_t *groups, rk_metric_parts *out);
    rk_status (*item_positions)(rk_model *model, const rk_item_positions *args);
    rk_status (*flush)(rk_model *model);  /* rows and parameters are in the host's memory, up to date */
    rk_status (*reload)(rk_model *model); /* they were written to there */
} rk_engine_ops;

extern const rk_engine_ops rk_cpu_engine;
/* Its memory, once the graph, the store and the reducer are there. */
rk_status rk_cpu_engine_reserve(rk_model *model, const rk_model_options *options,
                                const rk_collection_config *plan);

#endif
