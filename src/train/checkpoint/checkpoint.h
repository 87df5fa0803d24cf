/* Checkpoints, written and read. Layout: docs/formats/checkpoint.md. */
#ifndef RK_TRAIN_CHECKPOINT_CHECKPOINT_H
#define RK_TRAIN_CHECKPOINT_CHECKPOINT_H

#include <reckon/checkpoint.h>
#include <reckon/dataset.h>

#include "base/state_dict.h"
#include "comm/comm.h"
#include "train/source/input_fingerprints.h"
#include "train/evaluate/early_stopping.h"
#include "train/checkpoint/external_rows.h"
#include "train/config/run_config.h"

/* What a run knows beside the model's tensors. */
typedef struct rk_progress {
    int64_t step;
    rk_dataset_position position;
    rk_early_stopping stopping;
    double loss_sum; /* since the last progress line */
    int64_t loss_steps;
    int64_t log_bytes, events_bytes;
    bool finished; /* training has ended */
} rk_progress;

/* Write <output>/checkpoints/step-NNN whole or not at all, then remove those that are past `keep`. *path is
 * the new one's (rk_free). Over ranks each writes what it holds, all call it, and the first one's progress
 * counts. state: the model's, whose rows on a disk are linked; model NULL: it has none. */
rk_status rk_checkpoint_write(rk_config *config, rk_comm *comm, rk_model *model, const rk_state_dict *state,
                              const rk_progress *progress, const rk_input_fingerprints *inputs, char **path);

/* The manifest alone, after its own checksum was checked. */
typedef struct rk_manifest {
    rk_progress progress;
    rk_input_fingerprints inputs; /* if it has them */
    bool has_inputs;
    bool keeps_best;               /* the run ends with its best evaluation's parameters */
    char *metric, *plateau_metric; /* of early stopping and plateau; NULL: unknown */
    struct rk_manifest_file {
        char *name;
        uint32_t crc32c;
        uint64_t n_bytes;
    } * files; /* [n_files] */
    size_t n_files;
} rk_manifest;
rk_status rk_manifest_read(const char *path, rk_manifest *out);
void rk_manifest_release(rk_manifest *manifest);

/* rk_checkpoint_verify and rk_checkpoint_find, or with `best` _find_best, by the ranks of comm
 * together, each with a share of the files, so that no byte is read by several; all call it and get
 * the same answer. directory: the first rank's counts. */
rk_status rk_checkpoint_find_over_ranks(rk_comm *comm, const char *directory, bool best, char **path);

/* Read the tensors of a checkpoint that was verified into `state`: all of it must be there with the same type
 * and shape; what the checkpoint holds beyond is passed over, and not read. */
rk_status rk_checkpoint_read_tensors(const char *path, const rk_state_dict *state);

/* The same into a model's state, which is made anew where the model has dynamic tables: these have the
 * checkpoint's keys from then on. rk_model_reload is to follow. */
rk_status rk_checkpoint_read_model(const char *path, rk_model *model, rk_state_dict *state);

/* Its first part: the keys alone, before the state is made that values are read into. */
rk_status rk_checkpoint_read_keys(const char *path, rk_model *model);

/* Rows as the next steps are to see them, where the checkpoint has any
 * (embedding/local/state/row_before_images.h), into the model that it was read into; or each tensor of them
 * to `take`, [n, record_bytes]. */
rk_status rk_checkpoint_read_before_images(const char *path, rk_model *model);
typedef rk_status (*rk_take_before_image)(void *context, const char *name, int64_t n, int64_t record_bytes,
                                          const void *records);
rk_status rk_checkpoint_take_before_images(const char *path, rk_take_before_image take, void *context);

/* What each trainer kept back of dense gradients (model/step/residual.h): n values, which may stand at any
 * byte. Where the checkpoint has none, `take` is not called. */
typedef rk_status (*rk_take_residual)(void *context, const char *name, size_t n, const void *values);
rk_status rk_checkpoint_take_residuals(const char *path, rk_take_residual take, void *context);
/* The same, into one that keeps something back too. */
rk_status rk_checkpoint_read_residual(const char *path, rk_model *model);

/* As rk_checkpoint_config, but without the transforms, whose vocabularies may be large. */
rk_status rk_checkpoint_load_run_file(const char *path, const char *const *overrides, size_t n_overrides,
                                      rk_config **out);

/* A model for prediction, of the run file and the transforms that a checkpoint or an export keeps
 * (rk_checkpoint_config), on a GPU or (NULL) the processors, over ranks or (NULL) in one process. rows: what
 * the tables' rows are rounded to, as an export would round them. how: of rows that an export has
 * elsewhere. */
rk_status rk_checkpoint_build_model(const char *path, rk_config *config, const rk_model_device *device,
                                    const rk_model_cluster *cluster, rk_export_rows rows,
                                    const rk_row_reading *how, rk_model **out);

/* Where a run's directory has the checkpoint of a step, whether it is there or not. */
rk_status rk_checkpoint_path_of_step(const char *output, int64_t step, char **path);
/* Names of the checkpoints in a run's directory, oldest first, added to a list that has none yet; other names
 * do not count. */
rk_status rk_checkpoint_list(const char *output, rk_text_list *names);
/* Every checkpoint of the run, the oldest first, and their directory if nothing else is in it. */
rk_status rk_checkpoint_remove_all(const char *output);
/* What an interrupted run left: a checkpoint that lacks nothing but its name gets it, the rest is removed.
 * Call it under the run's lock. */
rk_status rk_checkpoint_recover_interrupted(const char *output);

#define RK_CHECKPOINT_NAME_BYTES 40
void rk_checkpoint_name(int64_t step, char name[RK_CHECKPOINT_NAME_BYTES]);
void rk_checkpoint_temporary_name(int64_t step, char name[RK_CHECKPOINT_NAME_BYTES]);
bool rk_checkpoint_is_of_step(const char *path, int64_t step); /* or by a name without a step */
/* root: the directory of checkpoints. What is whole at `temporary` becomes `name`; at every moment that, or
 * what `name` was before, is there whole. */
rk_status rk_checkpoint_commit(const char *root, const char *temporary, const char *name);
/* Of those up to that of `progress`, which is whole, the newest `keep` stay, and the best one; later ones
 * were damaged when the run went on behind them. */
rk_status rk_checkpoint_remove_old(const rk_config *config, const rk_progress *progress);

#define RK_CHECKPOINTS     "checkpoints"
#define RK_CHECKPOINT_ROWS "rows" /* in a checkpoint, a folder of rows on a disk */

#endif
