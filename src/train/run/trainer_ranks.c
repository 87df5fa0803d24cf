/* The parts of a training run that only runs over ranks have. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/run/trainer_internal.h"

static rk_status create_data_loaders(rk_trainer *t, int32_t n_trainers, int32_t n_workers, bool holds) {
    int32_t rank = rk_comm_rank(t->world);
    t->n_readers = rk_comm_size(t->world) - n_workers;
    t->reader = rank < n_workers ? -1 : rank - n_workers;
    t->comm = NULL;
    if (t->reader < 0) /* ranks that train or hold rows among themselves */
        RK_TRY(rk_comm_create_group_of_first_ranks(t->world, n_workers, &t->comm));
    return holds ? RK_OK : rk_data_loaders_create(t->world, n_trainers, t->n_readers, &t->readers);
}

/* One process does everything itself, whatever the run file says of ranks. */
rk_status rk_trainer_assign_roles(rk_trainer *t) {
    t->world = t->options.comm;
    t->owns_comm = !t->world;
    t->reader = -1;
    if (!t->world) RK_TRY(rk_comm_self(&t->world));
    t->comm = t->world;
    t->is_first = rk_comm_rank(t->world) == 0;
    int32_t size = rk_comm_size(t->world), rank = rk_comm_rank(t->world),
            n_workers = size - (int32_t)t->config->cluster.reader_ranks;
    if (size == 1) return RK_OK;
    rk_roles roles;
    RK_TRY(rk_cluster_section_roles(&t->config->cluster, &t->config->yaml, size, &roles));
    bool holds = rank >= roles.n_trainers && rank < n_workers;
    if (n_workers < size) RK_TRY(create_data_loaders(t, roles.n_trainers, n_workers, holds));
    return RK_OK;
}

void rk_trainer_release_ranks(rk_trainer *t) {
    rk_data_loaders_free(t->readers);
    if (t->comm != t->world) rk_comm_free(t->comm);
    if (t->owns_comm) rk_comm_free(t->world);
}

bool rk_trainer_trains(const rk_trainer *t) {
    return t->model && rk_model_is_trainer_rank(t->model);
}

void rk_trainer_end_other_ranks(rk_trainer *t) {
    (void)rk_model_send_control_to_servers(t->model, RK_CONTROL_END);
    if (!t->readers) return;
    rk_status status = rk_batch_source_finish_requests(&t->train_source);
    if (status == RK_OK) status = rk_batch_source_finish_requests(&t->valid_source);
    if (status == RK_OK) (void)rk_data_loaders_send_leave(t->readers);
}

/* The first reader's batch on all ranks that train or hold rows. */
static rk_status broadcast_sample(rk_trainer *t, rk_trainer_sample *sample) {
    RK_AUTO(rk_buffer_release) rk_buffer packed = {0};
    if (t->reader == 0) {
        rk_batch ids = *sample->batch;
        ids.n_dense = 0;
        ids.dense = NULL;
        rk_batch_pack(&ids, 0, ids.n, RK_PACK_INPUT, &packed);
    }
    RK_TRY(rk_comm_agree_on_status(t->world, packed.status));
    RK_TRY(rk_comm_all_gather(t->world, RK_CHANNEL_SUMS, packed.data, packed.n_bytes, &sample->all_to_all));
    if (t->reader >= 0) return RK_OK;
    const rk_message *sent =
        &rk_all_to_all_received_messages(sample->all_to_all)[rk_comm_size(t->world) - t->n_readers];
    size_t n_used;
    RK_TRY(rk_batch_unpack(sent->data, sent->n_bytes, &sample->unpacked, &n_used));
    sample->batch = &sample->unpacked.batch;
    return RK_OK;
}

rk_status rk_trainer_read_sample(rk_trainer *t, rk_trainer_sample *out) {
    *out = (rk_trainer_sample){0};
    out->reads = t->n_readers == 0 || t->reader == 0;
    RK_TRY(rk_comm_agree_on_status(t->world,
                                   out->reads ? rk_dataset_next_endless(t->train, &out->batch) : RK_OK));
    return t->n_readers ? rk_comm_agree_on_status(t->world, broadcast_sample(t, out)) : RK_OK;
}

rk_status rk_trainer_release_sample(rk_trainer *t, rk_trainer_sample *sample) {
    rk_unpacked_batch_release(&sample->unpacked);
    rk_all_to_all_free(sample->all_to_all);
    return sample->reads && sample->batch ? rk_dataset_seek(t->train, (rk_dataset_position){0, 0}) : RK_OK;
}

bool rk_trainer_asked_to_stop(const rk_trainer *t) {
    bool asked = atomic_load(&t->stop) != 0;
    if (rk_comm_size(t->comm) == 1) return asked;
    if (asked) rk_model_ask_to_stop(t->model);
    return rk_model_received_stop(t->model);
}

rk_status rk_trainer_scale_learning_rate(rk_trainer *t) {
    double factor = t->progress.stopping.learning_rate_factor;
    int64_t bits;
    memcpy(&bits, &factor, sizeof bits);
    RK_TRY(rk_model_send_control_to_servers(t->model, RK_CONTROL_FACTOR));
    RK_TRY(rk_model_send_control_to_servers(t->model, bits));
    rk_model_scale_learning_rate(t->model, factor);
    return RK_OK;
}

static rk_status make_stored_state(rk_trainer *t, rk_state_dict *state) {
    RK_TRY(rk_model_state_dict(t->model, state));
    return rk_model_residual_state_dict(t->model, state);
}

rk_status rk_trainer_write_checkpoint(rk_trainer *t, char **path) {
    RK_AUTO(rk_state_dict_release) rk_state_dict state = {0};
    RK_TRY(rk_comm_agree_on_status(t->comm, rk_model_flush(t->model)));
    RK_TRY(rk_model_number_keys_over_ranks(t->model));
    RK_TRY(rk_comm_agree_on_status(t->comm, make_stored_state(t, &state)));
    return rk_checkpoint_write(t->config, t->comm, t->model, &state, &t->progress, &t->inputs, path);
}

/* By all ranks: they take the tensors of the same checkpoint. */
static rk_status load_best_checkpoint(rk_trainer *t) {
    RK_AUTOFREE char *path = NULL;
    RK_TRY(rk_checkpoint_find_over_ranks(t->comm, t->config->train.output, true, &path));
    RK_TRY(rk_comm_agree_on_status(t->comm, rk_checkpoint_read_model(path, t->model, &t->state)));
    return rk_model_reload(t->model);
}

rk_status rk_trainer_load_best(rk_trainer *t) {
    RK_TRY(rk_model_send_control_to_servers(t->model, RK_CONTROL_LOAD));
    RK_TRY(load_best_checkpoint(t));
    t->has_best = true;
    return RK_OK;
}

static rk_status handle_control_message(rk_trainer *t, int64_t word) {
    if (word == RK_CONTROL_LOAD) return load_best_checkpoint(t);
    if (word == RK_CONTROL_SAVE) {
        RK_AUTOFREE char *path = NULL;
        return rk_trainer_write_checkpoint(t, &path);
    }
    RK_FAIL_IF(word != RK_CONTROL_FACTOR, RK_INTERNAL, "trainers sent the unknown control message %lld",
               (long long)word);
    int64_t bits;
    double factor;
    RK_TRY(rk_model_serve_rows(t->model, &bits));
    memcpy(&factor, &bits, sizeof factor);
    rk_model_scale_learning_rate(t->model, factor);
    return RK_OK;
}

rk_status rk_trainer_run_embedding_server(rk_trainer *t) {
    for (;;) {
        int64_t word;
        RK_TRY(rk_model_serve_rows(t->model, &word));
        if (word == RK_CONTROL_END) return RK_OK;
        RK_TRY(handle_control_message(t, word));
    }
}
