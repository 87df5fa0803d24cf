/* A model: its embedding collection and its dense graph, with one call a training step.
 * Thread rule: one thread at a time per model.
 * Stable (docs/api.md). */
#ifndef RECKON_MODEL_H
#define RECKON_MODEL_H

#include <stdint.h>

#include <reckon/config.h>
#include <reckon/dataset.h>
#include <reckon/embeddings.h>
#include <reckon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_model rk_model;

/* The run file's model for a dataset's columns, with initial parameters; on the CPU, whatever its `device`.
 * The dataset may be freed afterwards. */
RK_API rk_status rk_model_create(const rk_config *config, const rk_dataset *dataset, rk_model **out);
/* The same, to be described: sizes, shapes and counts, without memory for a row or a batch. It takes
 * rk_model_describe, rk_model_peak_bytes and rk_model_free; to train or predict with it is refused, and
 * rk_model_embeddings is NULL. */
RK_API rk_status rk_model_outline(const rk_config *config, const rk_dataset *dataset, rk_model **out);
RK_API void rk_model_free(rk_model *model);

/* One synchronous step: lookup, forward, loss, backward, updates. *loss is the batch's mean loss before the
 * update. A loss or gradient that is not finite is RK_NOT_FINITE and no parameter is updated; dynamic
 * tables have counted, admitted and evicted the batch's keys then, too. */
RK_API rk_status rk_model_train(rk_model *model, const rk_batch *batch, double *loss);
/* The time of the batches that rk_model_train gets from now on, in seconds since the epoch
 * (rk_dataset_timestamp has that of a dataset's): by it `eviction.ttl` of dynamic tables counts. NaN:
 * they have none, as before the first call. Errors: RK_INVALID_ARGUMENT (beyond 10^11); the time stays. */
RK_API rk_status rk_model_set_timestamp(rk_model *model, double seconds);
/* predictions [n, n_tasks]: probabilities where the loss is a cross-entropy. Changes nothing. */
RK_API rk_status rk_model_predict(rk_model *model, const rk_batch *batch, float *predictions);

RK_API int32_t rk_model_n_tasks(const rk_model *model);
RK_API int64_t rk_model_n_steps(const rk_model *model);     /* training steps done */
RK_API rk_embeddings *rk_model_embeddings(rk_model *model); /* owned by the model; perhaps without tables */

typedef enum rk_parameter_kind {
    RK_PARAMETER_TABLE = 0, /* rows of an embedding table: [n_rows, dim], in the table's dtype; where codes of
                               an export are mapped, their bytes: [n_rows, bytes a row], RK_U8 */
    RK_PARAMETER_DENSE = 1, /* of the dense part: f32 */
    RK_PARAMETER_STATISTIC = 2, /* running means and variances of batch_norm: f32 */
    RK_PARAMETER_KEYS = 3 /* of a dynamic table: i64 [n]; row i of "table/<name>/rows" is that of key i, and
                             "table/<name>/oov_rows" [1, dim], where it is, that of all others */
} rk_parameter_kind;

/* A tensor of a model, by the name that it has in checkpoints (docs/formats/checkpoint.md):
 * "table/user/rows", "dense/deep_1/weight". A linear layer's weight is [inputs, outputs], the transpose of
 * PyTorch's. */
typedef struct rk_model_parameter {
    const char *name;
    rk_parameter_kind kind;
    rk_tensor tensor; /* read-only, row-major, on the CPU; of a model on a GPU a copy */
} rk_model_parameter;

/* All that a prediction depends on, tables first; no slots of optimizers. The list *parameters [*n] belongs
 * to the model until the next call of this function. Its tensors are views of the model's memory, without
 * copies, as long as it lives: a training step changes their values (on a GPU, those after the next call).
 * Rows and keys of dynamic tables are views where they stand together, in a model that does not train; else
 * they are copies, of a model that trains until the next call.
 * Over ranks all ranks call it; each has the parts of tables that it holds, whose names say which:
 * "table/user/rows[2:1000:4,0:64]" is rows 2, 6, ... below 1000 and columns 0 to 63. Errors:
 * RK_INVALID_ARGUMENT (an outline), RK_NO_MEMORY. */
RK_API rk_status rk_model_parameters(rk_model *model, const rk_model_parameter **parameters, int32_t *n);

/* About the most memory that training takes beside the data, with batches like `usual`: tables, slots, dense
 * part, and what a step needs. */
RK_API uint64_t rk_model_peak_bytes(const rk_model *model, const rk_batch *usual);
/* What `reckon inspect` prints: tables with rows, dim, bytes; the graph with shapes and parameters. Free with
 * rk_text_free. */
RK_API rk_status rk_model_describe(const rk_model *model, char **out);
/* The run file's model for a dataset's columns, written out as a `model:` section of `kind: graph` that
 * yields the same one (docs/models.md), or as text for graphviz. Takes none of the memory that the model
 * would. Free with rk_text_free. */
RK_API rk_status rk_model_graph_yaml(const rk_config *config, const rk_dataset *dataset, char **out);
RK_API rk_status rk_model_graph_dot(const rk_config *config, const rk_dataset *dataset, char **out);

#ifdef __cplusplus
}
#endif
#endif
