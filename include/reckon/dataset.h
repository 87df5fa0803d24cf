/* Rows of the run's files as batches: read, transformed, shuffled and prefetched on a background thread.
 * Thread rule: one thread at a time per dataset.
 * Stable (docs/api.md). */
#ifndef RECKON_DATASET_H
#define RECKON_DATASET_H

#include <stdint.h>

#include <reckon/batch.h>
#include <reckon/config.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_dataset rk_dataset;

/* split: "train", "valid" or "test" of the run file's data section, or the path of another file of the same
 * columns. Fits the transforms (vocabularies, normalization) by a pass over the training data first, if they
 * need it. Only "train" is shuffled. The config must outlive the dataset. */
RK_API rk_status rk_dataset_open(const rk_config *config, const char *split, rk_dataset **out);
RK_API void rk_dataset_free(rk_dataset *dataset);

/* The next batch of the epoch: *out is valid until the next call on this dataset. RK_END (no message) after
 * the last one; the call after that starts the next epoch. Bad rows: RK_BAD_DATA naming file and row, or
 * skipped and counted (on_bad_row). */
RK_API rk_status rk_dataset_next(rk_dataset *dataset, const rk_batch **out);

/* The largest `data.timestamp` of the batch that rk_dataset_next gave last, in seconds since the epoch; NaN
 * where there is none: only training data has it. */
RK_API double rk_dataset_timestamp(const rk_dataset *dataset);

/* Where the next batch begins: an epoch and a number of rows into it. Seeking to a told position gives the
 * same batches again. */
typedef struct rk_dataset_position {
    int64_t epoch;
    int64_t row;
} rk_dataset_position;
RK_API rk_dataset_position rk_dataset_current_position(const rk_dataset *dataset);
RK_API rk_status rk_dataset_seek(rk_dataset *dataset, rk_dataset_position position);

/* Rows of an epoch; -1 while unknown (before the first whole pass over a file without an index). */
RK_API int64_t rk_dataset_n_rows(const rk_dataset *dataset);
/* About the most memory that reading takes, with batches like `usual`: batches made ahead, the window that is
 * shuffled, what is parsed at once, and rows kept between epochs (data.cache_bytes) of the n_rows that an
 * epoch has (-1: unknown, taken as many). */
RK_API uint64_t rk_dataset_peak_bytes(const rk_dataset *dataset, const rk_batch *usual, int64_t n_rows);
RK_API int64_t
rk_dataset_n_skipped(const rk_dataset *dataset); /* bad rows up to where the next batch begins */

#ifdef __cplusplus
}
#endif
#endif
