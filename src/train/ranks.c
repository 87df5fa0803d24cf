/* What a training run does because it is spread over ranks. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/trainer_parts.h"

static rk_status share_bytes(rk_trainer *t, const void *data, size_t n_bytes, rk_exchange **out) {
    return rk_comm_gather(t->comm, RK_LANE_SUMS, data, t->is_first ? n_bytes : 0, out);
}

rk_status rk_trainer_share_text(rk_trainer *t, char **text) {
    rk_exchange *exchange;
    RK_TRY(share_bytes(t, *text ? *text : "", *text ? strlen(*text) + 1 : 0, &exchange));
    const rk_parcel *first = &rk_exchange_received(exchange)[0];
    char *copy = NULL;
    rk_status status = first->n_bytes ? rk_strdup(first->data, &copy) : RK_OK;
    rk_exchange_free(exchange);
    RK_TRY(status);
    rk_free(*text);
    *text = copy;
    return RK_OK;
}

bool rk_trainer_asked_to_stop(const rk_trainer *t) {
    bool asked = atomic_load(&t->stop) != 0;
    if (rk_comm_size(t->comm) == 1) return asked;
    if (asked) rk_model_ask_to_stop(t->model);
    return rk_model_heard_stop(t->model);
}

rk_status rk_trainer_scale_learning_rate(rk_trainer *t) {
    double factor = t->progress.policy.learning_rate_factor;
    int64_t bits;
    memcpy(&bits, &factor, sizeof bits);
    RK_TRY(rk_model_tell(t->model, RK_WORD_FACTOR));
    RK_TRY(rk_model_tell(t->model, bits));
    rk_model_scale_learning_rate(t->model, factor);
    return RK_OK;
}

/* All ranks take the tensors of a checkpoint, which the first one names. */
static rk_status load(rk_trainer *t, const char *path) {
    char *shared = NULL;
    if (path) RK_TRY(rk_strdup(path, &shared));
    rk_status status = rk_trainer_share_text(t, &shared);
    if (status == RK_OK) status = rk_comm_agree(t->comm, rk_checkpoint_read(shared, &t->state));
    rk_free(shared);
    return status;
}

rk_status rk_trainer_load(rk_trainer *t, const char *path) {
    RK_TRY(rk_model_tell(t->model, RK_WORD_LOAD));
    return load(t, path);
}

static rk_status obey(rk_trainer *t, int64_t word) {
    if (word == RK_WORD_LOAD) return load(t, NULL);
    if (word == RK_WORD_SAVE) {
        char *path;
        RK_TRY(rk_checkpoint_write(t->config, t->comm, &t->state, &t->progress, &path));
        rk_free(path);
        return RK_OK;
    }
    RK_FAIL_IF(word != RK_WORD_FACTOR, RK_INTERNAL, "trainers said the word %lld", (long long)word);
    int64_t bits;
    double factor;
    RK_TRY(rk_model_serve(t->model, &bits));
    memcpy(&factor, &bits, sizeof factor);
    rk_model_scale_learning_rate(t->model, factor);
    return RK_OK;
}

rk_status rk_trainer_serve(rk_trainer *t) {
    for (;;) {
        int64_t word;
        RK_TRY(rk_model_serve(t->model, &word));
        if (word == RK_WORD_END) return RK_OK;
        RK_TRY(obey(t, word));
    }
}
