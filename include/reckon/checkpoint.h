/* Checkpoints: a directory of safetensors shards, transforms, the run file, and a manifest with checksums,
 * written last. docs/formats/checkpoint.md.
 * Stable (docs/api.md). */
#ifndef RECKON_CHECKPOINT_H
#define RECKON_CHECKPOINT_H

#include <stdint.h>

#include <reckon/config.h>
#include <reckon/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The newest whole checkpoint under a run's directory (or the directory itself if it is one): its path, to be
 * freed with rk_text_free. Damaged ones are passed over, each with a warning in the log that names the file.
 * RK_NOT_FOUND if none is whole. */
RK_API rk_status rk_checkpoint_find(const char *directory, char **out);
/* The one whose parameters the run under a directory ends with: that of its best evaluation where it keeps
 * the best (train.keep_best) and has evaluated, else the newest. If the best is damaged or gone, the newest,
 * with a warning. */
RK_API rk_status rk_checkpoint_find_best(const char *directory, char **out);
/* Check every file of a checkpoint against the manifest. RK_BAD_DATA names the file that is wrong. */
RK_API rk_status rk_checkpoint_verify(const char *path);
/* The run file kept in a checkpoint. */
RK_API rk_status rk_checkpoint_config(const char *path, const char *const *overrides, size_t n_overrides,
                                      rk_config **out);
/* The newest checkpoint under a run's directory, or the directory itself if it is one, as the first one of
 * the run that `config` is of, whose embedding.tables may be others: static tables may be dynamic ones and
 * the other way round, and dynamic ones may have another capacity or other buckets (docs/dynamic_tables.md).
 * Features of such tables may be keys in place of `identity`, or the other way round; all else must be as it
 * was. Rows, slots and counts stay as they are. *out: its path, to be freed with rk_text_free. Errors:
 * RK_CONFIG, naming what does not fit; RK_NOT_FOUND; RK_UNSUPPORTED, a run with staleness. */
RK_API rk_status rk_checkpoint_convert(const char *path, const rk_config *config, char **out);
/* A model restored for prediction by the processors, with the transforms it was trained with: no data is
 * read. */
RK_API rk_status rk_checkpoint_load_model(const char *path, rk_model **out);

#ifdef __cplusplus
}
#endif
#endif
