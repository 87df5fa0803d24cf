#include "serve/predictor_internal.h"

#include <math.h>
#include <string.h>

#include "base/file/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "base/thread/parallel.h"
#include "cuda/device/device.h"
#include "embedding/local/collection.h"
#include "model/inference.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/stored_tensors.h"
#include "train/evaluate/evaluation_rankings.h"

rk_status rk_predictor_check_same_on_ranks(const rk_predictor *p, const char *text) {
    char *first;
    RK_TRY(rk_strdup(text, &first));
    rk_status status = rk_comm_broadcast_text(p->comm, &first);
    if (status == RK_OK && strcmp(first, text) != 0) {
        status = rk_error(RK_INVALID_ARGUMENT, "this rank was asked for '%s', but the first rank for '%s'",
                          text, first);
        status = rk_error_hint(status, "start all ranks with the same arguments");
    }
    rk_free(first);
    return rk_comm_agree_on_status(p->comm, status);
}

static rk_status find_model_directory(rk_predictor *p, const char *path) {
    RK_TRY(rk_predictor_check_same_on_ranks(p, path));
    if (rk_comm_agree_on_status(p->comm, rk_directory_is_export(path) ? RK_OK : RK_NOT_FOUND) == RK_OK)
        return rk_comm_agree_on_status(p->comm, rk_strdup(path, &p->path));
    return rk_checkpoint_find_over_ranks(p->comm, path, true, &p->path);
}

/* Only what would fail later too: no driver, no such GPU. */
static rk_status check_device_available(int32_t number) {
    rk_device *device;
    RK_TRY(rk_device_open(number, &device));
    rk_device_close(device);
    return RK_OK;
}

static void warn_of_cpu_fallback(const rk_predictor *p) {
    if (!rk_predictor_is_first_rank(p)) return;
    const char *reason = rk_last_error();
    rk_log(RK_LOG_WARNING, "the run was trained on a GPU; predicting on the CPU instead: %.*s",
           (int)strcspn(reason, "\n"), reason);
}

/* The GPU to predict on; NULL: none. */
static rk_status choose_gpu(const rk_predictor *p, const char *wanted, const rk_model_device **out) {
    const rk_config *c = p->config;
    RK_FAIL_IF(wanted && strcmp(wanted, "cpu") != 0 && strcmp(wanted, "cuda") != 0, RK_INVALID_ARGUMENT,
               "unknown device '%s'; it is cpu or cuda", wanted);
    bool cuda = wanted ? strcmp(wanted, "cuda") == 0 : c->device.kind == RK_DEVICE_CUDA;
    *out = cuda ? &c->model_device : NULL;
    if (!cuda) return RK_OK;
    rk_status status = rk_comm_agree_on_status(p->comm, check_device_available(c->model_device.number));
    if (wanted || status == RK_OK) return status;
    warn_of_cpu_fallback(p);
    *out = NULL;
    return RK_OK;
}

/* Rows are shared out over the ranks that are here, whatever ranks trained, and travel as they are. */
static rk_status build_and_read_model(rk_predictor *p, const char *device) {
    rk_config *c = p->config;
    const rk_model_device *on;
    rk_model_cluster cluster = {
        .comm = p->comm,
        .request = {.batch_size = c->train.batch_size, .replicate_below = c->cluster.replicate_below}};
    cluster.request.roles.n_trainers = rk_comm_size(p->comm);
    const rk_model_cluster *over = rk_comm_size(p->comm) > 1 ? &cluster : NULL;
    RK_TRY(choose_gpu(p, device, &on));
    rk_status status = rk_comm_agree_on_status(
        p->comm, rk_checkpoint_build_model(p->path, c, on, over, p->rows, &p->reading, &p->model));
    if (status == RK_OK || !on || device || status == RK_PEER_LOST) return status;
    warn_of_cpu_fallback(p); /* a GPU that others use may have no room */
    rk_model_free(p->model);
    p->model = NULL;
    return rk_comm_agree_on_status(
        p->comm, rk_checkpoint_build_model(p->path, c, NULL, over, p->rows, &p->reading, &p->model));
}

static rk_status load_and_freeze_model(rk_predictor *p, const char *device) {
    RK_TRY(build_and_read_model(p, device));
    return rk_comm_agree_on_status(p->comm, rk_model_freeze_for_inference(p->model));
}

static rk_status load_config(rk_predictor *p, const rk_predictor_options *o) {
    RK_TRY(rk_checkpoint_config(p->path, NULL, 0, &p->config));
    for (int32_t i = 0; i < o->n_streams; i++)
        RK_TRY(rk_predictor_add_stream(p, o->streams[i].name, o->streams[i].open, o->streams[i].user));
    return RK_OK;
}

static rk_status load_predictor(rk_predictor *p, const rk_predictor_options *o) {
    RK_TRY(rk_comm_agree_on_status(p->comm, load_config(p, o)));
    return load_and_freeze_model(p, o->device);
}

/* Whether a run that trains beside has removed the checkpoint while it was read, or an export was replaced;
 * the same on all ranks. */
static bool was_model_replaced(const rk_predictor *p, rk_file_identity before) {
    rk_file_identity now = rk_file_read_identity(p->path);
    bool same = now.inode && now.device == before.device && now.inode == before.inode;
    return rk_comm_agree_on_status(p->comm, rk_predictor_is_first_rank(p) && !same ? RK_BUSY : RK_OK) ==
           RK_BUSY;
}

static void release_model(rk_predictor *p) {
    rk_model_free(p->model);
    rk_config_free(p->config);
    rk_free(p->path);
    p->model = NULL;
    p->config = NULL;
    p->path = NULL;
}

static rk_status find_and_load_with_retries(rk_predictor *p, const char *path,
                                            const rk_predictor_options *o) {
    enum { TRIES = 100 };
    for (int i = 0;; i++) {
        RK_TRY(find_model_directory(p, path));
        rk_file_identity before = rk_file_read_identity(p->path);
        rk_status status = load_predictor(p, o);
        if (status == RK_PEER_LOST || i == TRIES || !was_model_replaced(p, before)) return status;
        release_model(p);
    }
}

rk_status rk_predictor_open(const char *path, const rk_predictor_options *options, rk_predictor **out) {
    rk_predictor_options o = RK_PREDICTOR_OPTIONS_INIT;
    RK_TRY(rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_predictor_options, comm),
                              "rk_predictor_options"));
    RK_FAIL_IF((unsigned)o.rows > RK_EXPORT_ROWS_INT4, RK_INVALID_ARGUMENT, "invalid format of rows: %d",
               (int)o.rows);
    RK_FAIL_IF((unsigned)o.rows_in > RK_ROWS_IN_MEMORY, RK_INVALID_ARGUMENT, "invalid place of rows: %d",
               (int)o.rows_in);
    RK_FAIL_IF(o.n_streams < 0 || (o.n_streams && !o.streams), RK_INVALID_ARGUMENT, "invalid streams");
    rk_predictor *p;
    RK_TRY(rk_alloc(1, sizeof *p, &p));
    rk_status status;
    if (!o.comm) RK_GOTO(rk_comm_self(&p->self));
    p->comm = o.comm ? o.comm : p->self;
    p->pool = o.pool;
    p->rows = o.rows;
    p->reading = (rk_row_reading){.in_memory = o.rows_in == RK_ROWS_IN_MEMORY,
                                  .cache_bytes = o.row_cache_bytes ? o.row_cache_bytes : UINT64_C(1) << 28,
                                  .timeout = o.row_timeout > 0 ? o.row_timeout : 1};
    RK_ON_POOL(p->pool, status = find_and_load_with_retries(p, path, &o));
    RK_GOTO(status);
    *out = p;
    p = NULL;
done:
    rk_predictor_free(p);
    return status;
}

void rk_predictor_free(rk_predictor *p) {
    if (!p) return;
    rk_evaluation_release(&p->evaluation);
    release_model(p);
    rk_comm_free(p->self);
    rk_free(p);
}

static rk_row_source *remote_row_source(const rk_predictor *p) {
    rk_row_source *source = rk_embeddings_row_source(rk_model_embeddings(p->model));
    return rk_row_source_is_remote(source) ? source : NULL;
}
bool rk_predictor_rows_available(const rk_predictor *p) {
    const rk_row_source *source = remote_row_source(p);
    return !source || source->ops->is_available(source);
}
rk_status rk_predictor_check_rows(const rk_predictor *p) {
    rk_row_source *source = remote_row_source(p);
    return source ? source->ops->check(source) : RK_OK;
}
bool rk_predictor_count_rows(const rk_predictor *p, int64_t *n_cached, int64_t *n_fetched) {
    const rk_row_source *source = remote_row_source(p);
    *n_cached = *n_fetched = 0;
    if (source) source->ops->count(source, n_cached, n_fetched);
    return source != NULL;
}

int32_t rk_predictor_n_tasks(const rk_predictor *p) {
    return rk_model_n_tasks(p->model);
}
const char *rk_predictor_task_name(const rk_predictor *p, int32_t task) {
    return rk_config_has_pairs(p->config) ? "score" : p->config->data.labels[task].name;
}
const char *rk_predictor_task_loss(const rk_predictor *p, int32_t task) {
    if (rk_predictor_can_retrieve(p)) return NULL;
    return p->config->data.labels[task].loss == 0 ? "binary_cross_entropy" : "mse";
}
bool rk_predictor_can_retrieve(const rk_predictor *p) {
    return rk_config_has_pairs(p->config);
}
int32_t rk_predictor_n_features(const rk_predictor *p) {
    return (int32_t)p->config->data.n_features;
}
rk_predictor_feature rk_predictor_get_feature(const rk_predictor *p, int32_t number) {
    const rk_data_feature *features = p->config->data.features, *feature = &features[number];
    rk_predictor_feature out = {feature->name, feature->dense, 0, (int32_t)feature->width};
    for (int32_t f = 0; f < number; f++)
        if (features[f].dense == feature->dense) out.first += feature->dense ? (int32_t)features[f].width : 1;
    return out;
}
rk_model *rk_predictor_model(rk_predictor *p) {
    return p->model;
}
const rk_config *rk_predictor_config(const rk_predictor *p) {
    return p->config;
}
rk_status rk_predictor_add_stream(rk_predictor *p, const char *name, rk_open_stream open, void *user) {
    return rk_config_add_stream(p->config, name, open, user);
}

bool rk_predictor_has_split(const rk_predictor *p, const char *split) {
    return rk_dataset_has_split(&p->config->data, split);
}
const char *rk_predictor_path(const rk_predictor *p) {
    return p->path;
}

int64_t rk_predictor_batch_size(const rk_predictor *p) {
    const rk_train_section *train = &p->config->train;
    return train->evaluate.batch_size ? train->evaluate.batch_size : train->batch_size;
}

static rk_status open_dataset_of_section(const rk_predictor *p, const rk_data_section *section,
                                         const char *split, bool labels_optional, rk_dataset **out) {
    const rk_config *c = p->config;
    rk_dataset_options options = {.directory = c->directory,
                                  .split = split,
                                  .batch_size = rk_predictor_batch_size(p),
                                  .seed = (uint64_t)c->data.seed,
                                  .labels_optional = labels_optional};
    return rk_dataset_create(section, c->transforms, &options, out);
}

rk_status rk_predictor_open_data(const rk_predictor *p, const char *split, bool labels_optional,
                                 rk_dataset **out) {
    return open_dataset_of_section(p, &p->config->data, split, labels_optional, out);
}

/* Rows that are drawn from train have no numbers of their own in a file. */
static bool is_fraction_of_train(const rk_data_section *section, const char *split) {
    return (strcmp(split, "valid") == 0 && section->valid.fraction > 0) ||
           (strcmp(split, "test") == 0 && section->test.fraction > 0);
}

void rk_predictor_section_without_skips(const rk_predictor *p, const char *split, rk_data_section *out) {
    *out = p->config->data;
    if (!is_fraction_of_train(out, split)) out->on_bad_row = 0;
}

rk_status rk_predictor_hint_rows_not_skipped(const rk_data_section *section, const rk_predictor *p,
                                             rk_status status) {
    if (status != RK_BAD_DATA || section->on_bad_row == p->config->data.on_bad_row) return status;
    return rk_error_hint(status,
                         "'on_bad_row: skip' is ignored in prediction, since every row gets a line; fix the "
                         "row or remove it");
}

rk_status rk_predictor_check_predictions_finite(const rk_predictor *p, int64_t row,
                                                const float *predictions) {
    for (int32_t t = 0; t < rk_predictor_n_tasks(p); t++)
        if (!isfinite(predictions[t]))
            return rk_error_hint(
                rk_error(RK_NOT_FINITE, "row %lld: the prediction of '%s' is not finite", (long long)row,
                         rk_predictor_task_name(p, t)),
                "parameters of the checkpoint or values of the row are too large, or not finite");
    return RK_OK;
}

/* One batch's rows to the callback. */
static rk_status predict_batch(rk_predictor *p, const rk_batch *batch, float **predictions, size_t *capacity,
                               rk_prediction_callback row, void *user) {
    size_t n_tasks = (size_t)rk_predictor_n_tasks(p), need = (size_t)batch->n * n_tasks;
    RK_TRY(rk_reserve(predictions, capacity, need, sizeof **predictions));
    RK_TRY(rk_model_predict(p->model, batch, *predictions));
    for (int64_t i = 0; i < batch->n; i++) {
        RK_TRY(rk_predictor_check_predictions_finite(p, batch->first_row + i,
                                                     *predictions + (size_t)i * n_tasks));
        const float *labels = batch->labels && batch->n_tasks ? batch->labels + (size_t)i * n_tasks : NULL;
        RK_TRY(row(user, batch->first_row + i, *predictions + (size_t)i * n_tasks, labels));
    }
    return RK_OK;
}

static rk_status predict_file(rk_predictor *p, const char *path, rk_prediction_callback row, void *user) {
    rk_dataset *dataset;
    float *predictions = NULL;
    size_t capacity = 0;
    const rk_batch *batch;
    rk_data_section section; /* the rows behind one that is left out would have wrong numbers */
    rk_predictor_section_without_skips(p, path, &section);
    RK_TRY(rk_predictor_check_same_on_ranks(p, path));
    RK_TRY(rk_comm_agree_on_status(p->comm, open_dataset_of_section(p, &section, path, true, &dataset)));
    rk_status status;
    while ((status = rk_dataset_next(dataset, &batch)) == RK_OK)
        if ((status = rk_comm_agree_on_status(
                 p->comm, predict_batch(p, batch, &predictions, &capacity, row, user))) != RK_OK)
            break;
    rk_free(predictions);
    rk_dataset_free(dataset);
    if (status == RK_END) return RK_OK;
    return rk_predictor_hint_rows_not_skipped(&section, p, status);
}

rk_status rk_predictor_file(rk_predictor *p, const char *path, rk_prediction_callback row, void *user) {
    rk_status status;
    RK_ON_POOL(p->pool, status = predict_file(p, path, row, user));
    return status;
}

/* The last evaluation is kept for those who look at it. */
static void store_evaluation(rk_predictor *p, const rk_evaluation *evaluation, const rk_metric **metrics,
                             int32_t *n_metrics, int64_t *n_rows) {
    rk_evaluation_release(&p->evaluation);
    p->evaluation = *evaluation;
    *metrics = evaluation->shown;
    *n_metrics = evaluation->n_shown;
    *n_rows = evaluation->n_rows;
}

rk_status rk_predictor_evaluate(rk_predictor *p, const char *split, const rk_metric **metrics,
                                int32_t *n_metrics, int64_t *n_rows) {
    rk_dataset *dataset;
    RK_TRY(rk_predictor_check_same_on_ranks(p, split));
    RK_TRY(rk_comm_agree_on_status(p->comm, rk_predictor_open_data(p, split, false, &dataset)));
    rk_evaluation evaluation;
    rk_batch_source source;
    rk_batch_source_init(&source, dataset, NULL, split, true);
    rk_status status;
    RK_ON_POOL(p->pool, status = rk_evaluate(p->config, p->model, &source, &evaluation));
    rk_batch_source_release(&source);
    rk_dataset_free(dataset);
    if (status == RK_OK) store_evaluation(p, &evaluation, metrics, n_metrics, n_rows);
    return status;
}

static rk_status find_ranking_metrics(const char *const *names, size_t n, int **out) {
    RK_TRY(rk_alloc(n, sizeof **out, out));
    for (size_t i = 0; i < n; i++) {
        (*out)[i] = rk_ranking_metric_find(names[i]);
        RK_FAIL_IF((*out)[i] < 0, RK_INVALID_ARGUMENT, "unknown ranking metric '%s'", names[i]);
    }
    return RK_OK;
}

rk_status rk_predictor_rankings(rk_predictor *p, const char *split, const char *const *names, size_t n,
                                double *values, const rk_metric **metrics, int32_t *n_metrics,
                                int64_t *n_rows) {
    int *wanted = NULL;
    rk_dataset *dataset = NULL;
    rk_evaluation evaluation;
    rk_status status;
    RK_FAIL_IF(!rk_predictor_can_retrieve(p), RK_UNSUPPORTED, "only a two_tower ranks items");
    RK_GOTO(find_ranking_metrics(names, n, &wanted));
    RK_GOTO(rk_predictor_check_same_on_ranks(p, split));
    RK_GOTO(rk_comm_agree_on_status(p->comm, rk_predictor_open_data(p, split, true, &dataset)));
    rk_more_rankings more = {wanted, n, values};
    RK_ON_POOL(p->pool,
               status = rk_evaluate_rankings(p->config, p->model, dataset, split, &more, &evaluation));
    RK_GOTO(status);
    store_evaluation(p, &evaluation, metrics, n_metrics, n_rows);
done:
    rk_dataset_free(dataset);
    rk_free(wanted);
    return status;
}
