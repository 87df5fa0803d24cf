/* A model's functions beside its steps (step/step.c): its state, its size, its parameters. */
#include "model/model.h"

#include <string.h>

#include "embedding/local/collection.h"
#include "model/step/engine.h"
#include "model/step/ranks.h"
#include "model/step/reducer.h"

int32_t rk_model_n_tasks(const rk_model *model) {
    return model->n_tasks;
}

int64_t rk_model_n_steps(const rk_model *model) {
    return model->step;
}

bool rk_model_has_device(const rk_model *model) {
    return model->engine->metrics != NULL;
}

/* Over ranks all have it of their GPUs or none, so that all have the same. */
rk_status rk_model_compute_metrics(void *context, bool binary, int64_t n, const rk_metric_sample *samples,
                                   const int64_t *groups, rk_metric_totals *out) {
    rk_model *model = context;
    rk_status status = model->engine->metrics(model, binary, n, samples, groups, out);
    return rk_comm_agree_on_status(rk_model_trainer_comm(model), status);
}

rk_status rk_model_compute_ranking_positions(rk_model *model, const rk_ranking_positions *args) {
    return model->engine->ranking_positions(model, args);
}

rk_embeddings *rk_model_embeddings(rk_model *model) {
    if (model->is_outline) return NULL;
    (void)rk_model_flush(model); /* a GPU that failed says so at the next step */
    return model->embeddings;
}

int64_t rk_model_n_skipped_steps(const rk_model *model) {
    return model->n_not_finite;
}

rk_status rk_model_state_dict(rk_model *model, rk_state_dict *state) {
    RK_TRY(rk_model_flush(model));
    RK_TRY(model->store->ops->state(model->store, state));
    size_t first = state->n;
    if (!rk_model_is_trainer_rank(model)) return RK_OK;
    RK_TRY(rk_graph_state_dict(model->graph, state));
    if (model->optimizer) RK_TRY(rk_dense_optimizer_state_dict(model->optimizer, state));
    RK_TRY(rk_state_dict_add(state, "steps_not_finite", RK_I64, 1, 0, &model->n_not_finite));
    RK_TRY(rk_state_dict_add(state, "step", RK_I64, 1, 0, &model->step));
    for (size_t i = first; i < state->n; i++) state->entries[i].shared = true;
    return RK_OK;
}

rk_status rk_model_read_before_images(rk_model *model, const char *name, int64_t n, int64_t record_bytes,
                                      const void *records) {
    return model->store->ops->read_before_images(model->store, name, n, record_bytes, records);
}

rk_status rk_model_residual_state_dict(rk_model *model, rk_state_dict *state) {
    return rk_reducer_state_dict(model->reducer, state);
}

rk_status rk_model_read_residual(rk_model *model, const char *name, size_t n, const void *values) {
    return rk_reducer_read(model->reducer, name, n, values);
}

rk_status rk_model_load_keys(rk_model *model, const rk_stored_keys *keys) {
    return model->store->ops->load_keys(model->store, keys);
}

bool rk_model_has_row_files(const rk_model *model) {
    return model->store->ops->has_row_files(model->store);
}

rk_status rk_model_save_rows(rk_model *model, const char *directory) {
    return model->store->ops->save_rows(model->store, directory);
}

rk_status rk_model_load_rows(rk_model *model, const char *directory) {
    return model->store->ops->load_rows(model->store, directory);
}

rk_status rk_model_number_keys_over_ranks(rk_model *model) {
    return model->store->ops->number_keys(model->store);
}

rk_key_counts rk_model_key_counts(const rk_model *model) {
    return model->store->ops->count(model->store).keys;
}

void rk_model_scale_learning_rate(rk_model *model, double factor) {
    if (model->optimizer) rk_dense_optimizer_scale_learning_rate(model->optimizer, factor);
    model->store->ops->scale_learning_rate(model->store, factor);
}

rk_status rk_model_send_control_to_servers(rk_model *model, int64_t word) {
    return model->store->ops->send_to_servers(model->store, word);
}

rk_status rk_model_serve_rows(rk_model *model, int64_t *word) {
    return model->store->ops->serve(model->store, word);
}

rk_comm *rk_model_trainer_comm(const rk_model *model) {
    return model->ranks->trainers;
}

bool rk_model_is_trainer_rank(const rk_model *model) {
    return rk_ranks_is_trainer(model->ranks);
}

void rk_model_ask_to_stop(rk_model *model) {
    model->ranks->asks_to_stop = true;
}

bool rk_model_received_stop(const rk_model *model) {
    return model->ranks->stop_received;
}

void rk_model_rank_boundaries(const rk_model *model, int64_t *splits) {
    const rk_ranks *ranks = model->ranks;
    memcpy(splits, ranks->splits, ((size_t)ranks->roles.n_trainers + 1) * sizeof *splits);
}

rk_model_comm_traffic rk_model_count_comm_traffic(const rk_model *model) {
    const rk_ranks *ranks = model->ranks;
    rk_store_counts rows = model->store->ops->count(model->store);
    return (rk_model_comm_traffic){model->queue.n_launched, ranks->bytes_sent,
                                   ranks->bytes_sent_most,  rows.wait_s,
                                   model->reducer->wait_s,  rows.staleness_sum};
}
