/* A trained model for use: from a checkpoint, no training state.
 * Stable (docs/api.md). */
#ifndef RECKON_PREDICTOR_H
#define RECKON_PREDICTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/batch.h>
#include <reckon/comm.h>
#include <reckon/config.h>
#include <reckon/dataset.h>
#include <reckon/model.h>
#include <reckon/pool.h>
#include <reckon/table.h>
#include <reckon/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_predictor rk_predictor;

/* Where the rows of an export's tables are; those of checkpoints are always in memory. */
typedef enum rk_rows_in {
    RK_ROWS_IN_FILES = 0, /* where they are, mapped: read as they are written, shared with all who map them */
    RK_ROWS_IN_MEMORY = 1 /* the predictor's own, where codes are f32: f32 rows are looked up faster there */
} rk_rows_in;

/* Rows of the program's own: "arrow:NAME" (rk_config_add_stream). */
typedef struct rk_named_stream {
    const char *name; /* copied */
    rk_open_stream open;
    void *user;
} rk_named_stream;

typedef struct rk_predictor_options {
    size_t struct_size;
    const char *device; /* "cpu" or "cuda" predicts; NULL: what the run was trained on or, with a warning in
                           the log, the processors where that is a GPU and none can be used here */
    rk_comm *
        comm; /* ranks that predict together, rows shared out over them: all make the same calls with the same
               * arguments and get the same answers. NULL: this process alone. Must outlive the predictor */
    rk_pool *pool; /* of open, file, evaluate and rankings, in place of the process's. NULL: the process's.
                      Must outlive the predictor. Sessions have their own (rk_session_options) */
    rk_export_rows rows; /* rows of tables are rounded as an export would round them, and computed with as
                          * what they then are: what such an export would cost. In memory they take 4 bytes a
                          * value, f16 and bf16 ones 2 */
    rk_rows_in
        rows_in; /* in files needs the CPU, no comm, and rows RK_EXPORT_ROWS_TRAINED; else it is memory */
    uint64_t row_cache_bytes; /* of an export whose rows are in Redis: memory for rows that were read lately;
                                 0: 2^28 */
    double row_timeout;       /* likewise, seconds that a request waits for its rows; 0: 1 */
    /* As by rk_predictor_add_stream, but before the model is opened: a two_tower with a history then reads
     * the pairs that it was trained on. [n_streams] */
    const rk_named_stream *streams;
    int32_t n_streams;
} rk_predictor_options;
#define RK_PREDICTOR_OPTIONS_INIT \
    { sizeof(rk_predictor_options), 0, 0, 0, RK_EXPORT_ROWS_TRAINED, RK_ROWS_IN_FILES, 0, 0, 0, 0 }

/* path: a checkpoint, a run's directory (its best or newest checkpoint is taken), or a directory that
 * rk_export_safetensors or rk_export_onnx has written with all its tensors; relative paths of such a one's
 * run file are relative to where the program runs, and files whose rows are mapped must keep their bytes
 * while the predictor lives (docs/export.md). options may be NULL. Any number of ranks may open what any
 * other number trained. Errors: RK_NOT_FOUND, RK_BAD_DATA naming file and tensor, RK_CONFIG (a tensor is
 * missing or has another shape), RK_NOT_FINITE (a row that int8 or int4 cannot hold). */
RK_API rk_status rk_predictor_open(const char *path, const rk_predictor_options *options, rk_predictor **out);
RK_API void rk_predictor_free(rk_predictor *predictor);

/* Of an export whose rows are in Redis, where predictions fail with RK_UNAVAILABLE while they cannot be read:
 * whether they could when one last tried (any thread; true of rows in memory or in files). */
RK_API bool rk_predictor_rows_available(const rk_predictor *predictor);
/* Tries. One thread at a time, beside predictions. RK_UNAVAILABLE: why not. */
RK_API rk_status rk_predictor_check_rows(const rk_predictor *predictor);
/* Likewise, rows of tables so far that were kept from earlier requests, and that were fetched. False, and
 * both 0: rows are in memory or in files. Any thread. */
RK_API bool rk_predictor_count_rows(const rk_predictor *predictor, int64_t *n_cached, int64_t *n_fetched);

RK_API int32_t rk_predictor_n_tasks(const rk_predictor *predictor);
RK_API const char *rk_predictor_task_name(const rk_predictor *predictor, int32_t task);
RK_API const char *rk_predictor_path(const rk_predictor *predictor); /* the checkpoint in use */

/* "binary_cross_entropy" or "mse"; of a two_tower, whose loss is of a whole batch, NULL. */
RK_API const char *rk_predictor_task_loss(const rk_predictor *predictor, int32_t task);
/* A two_tower, which ranks items for users: evaluations rank all of them. */
RK_API bool rk_predictor_can_retrieve(const rk_predictor *predictor);

/* A feature of the run file, and where a batch has it: dense ones in columns first .. first + width-1 of its
 * dense numbers, others as features[first]. name: the predictor's. */
typedef struct rk_predictor_feature {
    const char *name;
    bool dense;
    int32_t first, width;
} rk_predictor_feature;
RK_API int32_t rk_predictor_n_features(const rk_predictor *predictor);
RK_API rk_predictor_feature rk_predictor_get_feature(const rk_predictor *predictor, int32_t feature);

/* The run file that the checkpoint keeps, resolved; the predictor's. */
RK_API const rk_config *rk_predictor_config(const rk_predictor *predictor);
/* Whether the run has such data: "train", "valid" or "test". */
RK_API bool rk_predictor_has_split(const rk_predictor *predictor, const char *split);
/* A split, or a file in the columns of the run's data, in batches as evaluations have them and in the file's
 * order, through the transforms that were fitted to the training data. labels_optional: of a file that has
 * none, batches have no labels; else that is RK_BAD_DATA. The predictor must outlive the dataset. */
RK_API rk_status rk_predictor_open_data(const rk_predictor *predictor, const char *split,
                                        bool labels_optional, rk_dataset **out);
/* As rk_config_add_stream, for this predictor's run: "arrow:NAME" may then be the split or file of any call,
 * and stands for data of that name that the run was trained on. While no other call has the predictor; `open`
 * and `user` must outlive it. Errors as there. */
RK_API rk_status rk_predictor_add_stream(rk_predictor *predictor, const char *name, rk_open_stream open,
                                         void *user);
/* What predicts: rk_model_predict for a batch by the predictor's device (over ranks all make the call, with
 * the same batch), rk_model_parameters. It belongs to the predictor. Threads that predict at once have
 * sessions (reckon/session.h). */
RK_API rk_model *rk_predictor_model(rk_predictor *predictor);

/* Predictions for a file in the columns of the run's data (labels may be missing): `row` is called once a row
 * in order, with n_tasks predictions and, where known, labels (else NULL; NaN for one that the row is
 * without). A failing call ends the walk and its status is returned. Over ranks it is called on each, and may
 * fail on one. */
typedef rk_status (*rk_prediction_callback)(void *user, int64_t row, const float *predictions,
                                            const float *labels);
RK_API rk_status rk_predictor_file(rk_predictor *predictor, const char *path, rk_prediction_callback row,
                                   void *user);

/* Metrics of a labelled split ("valid", "test") of the run, or of a file. Owned by the predictor until its
 * next call. */
RK_API rk_status rk_predictor_evaluate(rk_predictor *predictor, const char *split, const rk_metric **metrics,
                                       int32_t *n_metrics, int64_t *n_rows);

/* rk_predictor_evaluate of a two_tower, with metrics of rankings beside those that the run file shows, by
 * their names ("recall@20", "ndcg@10", "hit@5"): values [n]. Errors: RK_INVALID_ARGUMENT names a metric that
 * is none; RK_UNSUPPORTED: another kind of model. */
RK_API rk_status rk_predictor_rankings(rk_predictor *predictor, const char *split, const char *const *names,
                                       size_t n, double *values, const rk_metric **metrics,
                                       int32_t *n_metrics, int64_t *n_rows);

#ifdef __cplusplus
}
#endif
#endif
