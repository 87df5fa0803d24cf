/* From columns in memory to batches: what a run file's features say, fitted once, then applied by any number
 * of threads. Stable (docs/api.md). */
#ifndef RECKON_TRANSFORMS_H
#define RECKON_TRANSFORMS_H

#include <reckon/arrow.h>
#include <reckon/batch.h>
#include <reckon/config.h>
#include <reckon/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Vocabularies, quantiles and means, as they were fitted to the training data. Nothing changes them
 * afterwards: any number of threads may use the same ones. */
typedef struct rk_transforms rk_transforms;

/* Fit by a pass over the training data, if the features need one. A config of a checkpoint already has its
 * transforms: rk_transforms_load. Errors: RK_CONFIG, RK_NOT_FOUND, RK_BAD_DATA, RK_NO_MEMORY. */
RK_API rk_status rk_transforms_fit(const rk_config *config, rk_transforms **out);
/* path: a checkpoint, or a run's directory (its best or newest checkpoint is taken). No data is read. */
RK_API rk_status rk_transforms_load(const char *path, rk_transforms **out);
RK_API void rk_transforms_free(rk_transforms *transforms);

/* All features for programs that apply them elsewhere, as JSON: {"version": 1, "missing": [texts],
 * "features": [...]} in the order of the run file, each with its keys (docs/config.md, data.features), its
 * "column", and what was fitted: "mean" and "deviation", "boundaries" of quantiles, and of a vocabulary the
 * "file" of its values within a checkpoint or an export (docs/formats/checkpoint.md). Free with rk_text_free.
 * Errors: RK_UNSUPPORTED (a feature's name is too long for a file's), RK_NO_MEMORY. */
RK_API rk_status rk_transforms_to_json(const rk_transforms *transforms, char **out);

/* As rk_dataset_open, without fitting again: the transforms are the config's, and outlive the dataset as the
 * config does. */
RK_API rk_status rk_dataset_open_transformed(const rk_config *config, const rk_transforms *transforms,
                                             const char *split, rk_dataset **out);

/* The columns that rk_transforms_apply reads, as a struct with a child each: its name, a type that is taken,
 * and ARROW_FLAG_NULLABLE where values may be missing. Labels, weights and groups, which may be left out
 * altogether, come last. The caller calls out->release(out). */
RK_API rk_status rk_transforms_input_schema(const rk_transforms *transforms, struct ArrowSchema *out);

/* What applying needs: a thread's memory, which grows to its largest batch and stays, and the batch that it
 * made last. The transforms outlive it. Reads the files of data.joins, if there are any. */
typedef struct rk_transform_workspace rk_transform_workspace;
RK_API rk_status rk_transform_workspace_create(const rk_transforms *transforms, rk_transform_workspace **out);
RK_API void rk_transform_workspace_free(rk_transform_workspace *workspace);

/* Columns to a batch, the same bits as of a file with the same values. columns: a struct array (a record
 * batch), whose children are found by name in any order; more than the wanted ones may be there. Taken are
 * integers of any width, float16, float32, float64, bool, utf8, binary and their large variants, null, and
 * lists (list, large_list, fixed_size_list) and dictionaries of those. A null and an empty text are missing
 * values. Columns of labels may be missing: labels are then NULL.
 *
 * *out is valid until the next call on this workspace; the columns may be released before. It reads the
 * workspace's memory and the columns, and writes no other: each thread has a workspace of its own. Buffers
 * must be as long as the lengths of their arrays say; all offsets and indices in them are checked. Errors:
 * RK_BAD_DATA (a value, naming its row, or a column that is missing or of another type), RK_INVALID_ARGUMENT
 * (structs that break the interface's rules), RK_NO_MEMORY. */
RK_API rk_status rk_transforms_apply(const rk_transforms *transforms, const struct ArrowSchema *schema,
                                     const struct ArrowArray *columns, rk_transform_workspace *workspace,
                                     const rk_batch **out);

#ifdef __cplusplus
}
#endif
#endif
