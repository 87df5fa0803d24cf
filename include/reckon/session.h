/* Predictions from memory by any number of threads at once: they share a predictor, and each has a session,
 * which is the memory that a request takes.
 *
 * Thread rule: a session belongs to one thread at a time, but for rk_session_cancel. Sessions of one
 * predictor only read it and do not wait for one another; on a GPU they take turns. Each works on the thread
 * that calls it, and on the threads of a pool that it was given, beside the library's pool.
 * Stable (docs/api.md). */
#ifndef RECKON_SESSION_H
#define RECKON_SESSION_H

#include <stdint.h>

#include <reckon/arrow.h>
#include <reckon/batch.h>
#include <reckon/pool.h>
#include <reckon/predictor.h>
#include <reckon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_session rk_session;

typedef struct rk_session_options {
    size_t struct_size;
    rk_pool *pool; /* for requests of more than 64 rows; may be others' too, and outlives the session. NULL:
                      the calling thread alone */
} rk_session_options;
#define RK_SESSION_OPTIONS_INIT \
    { sizeof(rk_session_options), 0 }

/* The predictor outlives it. options may be NULL. Errors: RK_INVALID_ARGUMENT, RK_UNSUPPORTED (a predictor
 * over ranks), RK_NOT_FOUND, RK_BAD_DATA (files of data.joins), RK_NO_MEMORY. */
RK_API rk_status rk_session_create(const rk_predictor *predictor, const rk_session_options *options,
                                   rk_session **out);
RK_API void rk_session_free(rk_session *session);

/* The columns that rk_session_run reads, as rk_transforms_input_schema says. The caller calls
 * out->release(out).
 */
RK_API rk_status rk_session_input_schema(const rk_session *session, struct ArrowSchema *out);
/* How many of them, from the first on, must be there; labels, weights and groups come behind. */
RK_API int64_t rk_session_n_inputs(const rk_session *session, const struct ArrowSchema *schema);

/* Predictions for columns in memory, a struct array as rk_transforms_apply takes it; labels may be missing.
 * predictions [columns->length, n_tasks], row by row, n_tasks = rk_predictor_n_tasks: probabilities where the
 * loss is a cross-entropy. The same bits as rk_predictor_file gives for a file with the same rows, in
 * requests of any length. Errors, with predictions untouched: RK_BAD_DATA (a column or a value, naming its
 * row), RK_INVALID_ARGUMENT, RK_NOT_FINITE (a prediction is no number), RK_INTERRUPTED, RK_NO_MEMORY. */
RK_API rk_status rk_session_run(rk_session *session, const struct ArrowSchema *schema,
                                const struct ArrowArray *columns, float *predictions);
/* Predictions for many items beside one context (a user, a request): columns that the items have not are the
 * context's, whose one row stands beside each item. predictions [items->length, n_tasks]: the same bits as
 * rk_session_run of the rows in full. Errors as there; a context of more rows or none: RK_INVALID_ARGUMENT.
 */
RK_API rk_status rk_session_score(rk_session *session, const struct ArrowSchema *context_schema,
                                  const struct ArrowArray *context, const struct ArrowSchema *items_schema,
                                  const struct ArrowArray *items, float *predictions);
/* As rk_session_run for a batch of dense numbers and ids (rk_transforms_apply, rk_dataset_next, or the
 * caller's own): predictions [batch->n, n_tasks]. Labels and sample weights are not read. */
RK_API rk_status rk_session_run_batch(rk_session *session, const rk_batch *batch, float *predictions);

/* The predictions of the last rk_session_run, rk_session_score or rk_session_run_batch, which may be given
 * NULL for predictions then: [n, n_tasks], f32, row-major, on the CPU, read-only. A view of the session's
 * memory until the next call on it that predicts, or its end: what is to stay is copied (rk_tensor_copy). By
 * rk_tensor_to_dlpack it goes to other libraries, under the same rule. RK_INVALID_ARGUMENT, with *out
 * untouched: there is no such call, or the last one failed. */
RK_API rk_status rk_session_predictions(const rk_session *session, rk_tensor *out);

/* Retrieval: for predictors of a two_tower (docs/retrieval.md), others refuse with RK_INVALID_ARGUMENT.
 * Vectors have rk_session_vector_dim numbers (0: no two_tower); items are the ids of the item's feature, 0 ..
 * n_items-1; of a feature with keys n_items is 0, and rk_item_catalog_create
 * (reckon/experimental/recommend.h) has the items. */
RK_API int32_t rk_session_vector_dim(const rk_session *session);
RK_API int64_t rk_session_n_items(const rk_session *session);
/* Vectors of items first .. first+n-1, [n, dim], undefined after a failure. */
RK_API rk_status rk_session_item_vectors(rk_session *session, int64_t first, int64_t n, float *vectors);
/* Vectors of the users in columns as rk_session_run takes them, [columns->length, dim], undefined after a
 * failure. The item's column may be missing. */
RK_API rk_status rk_session_user_vectors(rk_session *session, const struct ArrowSchema *schema,
                                         const struct ArrowArray *columns, float *vectors);

/* Vectors of items, laid out for search; never changed, so that all threads share it. */
typedef struct rk_item_index rk_item_index;
/* vectors [n_items, dim], copied: all of rk_session_item_vectors, or those of the items that may be found.
 * Errors: RK_INVALID_ARGUMENT, RK_NO_MEMORY. */
RK_API rk_status rk_item_index_create(const float *vectors, int64_t n_items, int32_t dim,
                                      rk_item_index **out);
RK_API void rk_item_index_free(rk_item_index *index);

/* The k items of the index with the largest dot products with each user's vector, by looking at all of them:
 * items [columns->length, k], numbers of the index's vectors, the best first (of equal ones the smaller), and
 * their scores [columns->length, k], or NULL. Where fewer than k are left, items are -1 behind them and
 * scores -infinity. excluded: a bag of numbers for each user, ascending, that are not wanted (what the user
 * has seen); NULL: none. Errors as rk_session_run, with both arrays untouched. */
RK_API rk_status rk_session_retrieve(rk_session *session, const struct ArrowSchema *schema,
                                     const struct ArrowArray *columns, const rk_item_index *index, int32_t k,
                                     const rk_ids *excluded, int64_t *items, float *scores);

/* From any thread: the run that is under way returns RK_INTERRUPTED, soon. A run that begins afterwards is
 * not touched. */
RK_API void rk_session_cancel(rk_session *session);

/* Categorical features, in the order that a batch has them; names belong to the predictor. */
RK_API int32_t rk_session_n_features(const rk_session *session);
RK_API const char *rk_session_feature_name(const rk_session *session, int32_t feature);
/* Values of the feature in the columns of the last rk_session_run, rk_session_score or rk_session_retrieve
 * that its vocabulary has not: many of them mean that the data has moved away from what was trained on. 0
 * where the feature has no vocabulary. */
RK_API int64_t rk_session_n_unknown(const rk_session *session, int32_t feature);

#ifdef __cplusplus
}
#endif
#endif
