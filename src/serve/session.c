#include "serve/session_internal.h"

#include <string.h>

#include <reckon/experimental/column_reading.h>

#include "base/memory.h"
#include "base/struct_size.h"
#include "base/thread/parallel.h"

rk_status rk_session_create(const rk_predictor *predictor, const rk_session_options *options,
                            rk_session **out) {
    rk_session_options o = RK_SESSION_OPTIONS_INIT;
    RK_TRY(rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_session_options, pool),
                              "rk_session_options"));
    rk_session *s;
    RK_TRY(rk_alloc(1, sizeof *s, &s));
    s->predictor = predictor;
    s->pool = o.pool;
    atomic_init(&s->cancel, false);
    rk_status status;
    RK_GOTO(rk_inference_create(predictor->model, o.pool ? rk_pool_threads(o.pool) : 1, &s->inference));
    RK_GOTO(rk_transform_workspace_create(rk_session_transforms(s), &s->workspace));
    *out = s;
    s = NULL;
done:
    rk_session_free(s);
    return status;
}

void rk_session_free(rk_session *s) {
    if (!s) return;
    rk_inference_free(s->inference);
    rk_transform_workspace_free(s->workspace);
    RK_FREE_ALL(s->predictions, s->users, s->scores, s->found, s->product_memory, s->kept, s->kept_scores,
                s->ids, s->bags, s);
}

rk_status rk_session_input_schema(const rk_session *s, struct ArrowSchema *out) {
    return rk_transforms_input_schema(rk_session_transforms(s), out);
}

rk_column_reading rk_session_column_reading(const struct rk_session *s, const char *column) {
    return rk_transforms_column_reading(rk_session_transforms(s), column);
}

bool rk_session_is_missing(const struct rk_session *s, const char *text, size_t n_bytes) {
    return rk_transforms_is_missing(rk_session_transforms(s), text, n_bytes);
}

int64_t rk_session_n_inputs(const rk_session *s, const struct ArrowSchema *schema) {
    int64_t n = 0;
    while (n < schema->n_children &&
           !rk_transforms_is_label_column(rk_session_transforms(s), schema->children[n]->name))
        n++;
    return n;
}

/* context: what is the same in all samples, or NULL. */
static rk_status run_inference(rk_session *s, const rk_batch *batch, const rk_context_columns *context,
                               float *out) {
    int64_t n = batch->n > 0 ? batch->n : 0;
    s->has_predictions = false;
    int32_t n_tasks = rk_predictor_n_tasks(s->predictor);
    RK_TRY(rk_reserve(&s->predictions, &s->capacity, (size_t)(n * n_tasks), sizeof *s->predictions));
    RK_TRY(rk_inference_run(s->inference, batch, context, &s->cancel, s->predictions));
    for (int64_t i = 0; i < n; i++)
        RK_TRY(rk_predictor_check_predictions_finite(s->predictor, batch->first_row + i,
                                                     s->predictions + i * n_tasks));
    s->n_predicted = n;
    s->has_predictions = true;
    if (n && out) memcpy(out, s->predictions, (size_t)(n * n_tasks) * sizeof *out);
    return RK_OK;
}

rk_threads_before rk_session_begin_call(rk_session *s) {
    atomic_store(&s->cancel, false);
    return (rk_threads_before){rk_parallel_set_serial(!s->pool), rk_parallel_use_pool(s->pool)};
}

rk_status rk_session_end_call(rk_threads_before before, rk_status status) {
    rk_parallel_use_pool(before.pool);
    rk_parallel_set_serial(before.alone);
    return status;
}

rk_status rk_session_predictions(const rk_session *s, rk_tensor *out) {
    RK_FAIL_IF(!s->has_predictions, RK_INVALID_ARGUMENT,
               "the session has no predictions: none were made, or they failed");
    const int64_t shape[] = {s->n_predicted, rk_predictor_n_tasks(s->predictor)};
    rk_tensor view;
    RK_TRY(rk_tensor_init(&view, s->predictions, RK_F32, 2, shape));
    view.read_only = true;
    *out = view;
    return RK_OK;
}

static rk_status transform_and_predict(rk_session *s, const rk_arrow_rows *context, const rk_arrow_rows *rows,
                                       float *out) {
    const rk_batch *batch;
    s->has_predictions = false;
    RK_TRY(rk_transforms_apply_with_context(rk_session_transforms(s), context, rows, s->workspace, &batch));
    return run_inference(s, batch, rk_transform_workspace_context(s->workspace), out);
}

rk_status rk_session_run(rk_session *s, const struct ArrowSchema *schema, const struct ArrowArray *columns,
                         float *predictions) {
    const rk_arrow_rows rows = {schema, columns, NULL};
    rk_threads_before before = rk_session_begin_call(s);
    return rk_session_end_call(before, transform_and_predict(s, NULL, &rows, predictions));
}

rk_status rk_session_score(rk_session *s, const struct ArrowSchema *context_schema,
                           const struct ArrowArray *context, const struct ArrowSchema *items_schema,
                           const struct ArrowArray *items, float *predictions) {
    const rk_arrow_rows one = {context_schema, context, NULL}, rows = {items_schema, items, NULL};
    rk_threads_before before = rk_session_begin_call(s);
    return rk_session_end_call(before, transform_and_predict(s, &one, &rows, predictions));
}

rk_status rk_session_run_batch(rk_session *s, const rk_batch *batch, float *predictions) {
    rk_threads_before before = rk_session_begin_call(s);
    return rk_session_end_call(before, run_inference(s, batch, NULL, predictions));
}

void rk_session_cancel(rk_session *s) {
    atomic_store(&s->cancel, true);
}

int32_t rk_session_n_features(const rk_session *s) {
    return rk_transforms_schema(rk_session_transforms(s))->n_features;
}

const char *rk_session_feature_name(const rk_session *s, int32_t feature) {
    return rk_transforms_schema(rk_session_transforms(s))->features[feature].name;
}

int64_t rk_session_n_unknown(const rk_session *s, int32_t feature) {
    return rk_transform_workspace_unknown(s->workspace)[feature];
}
