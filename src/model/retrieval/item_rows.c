/* Which items that are keys have rows. */
#include <string.h>

#include "base/memory.h"
#include "comm/comm.h"
#include "model/retrieval/retrieval.h"

/* What any rank has found to all. */
static rk_status merge_found(rk_comm *comm, int64_t n, bool *found) {
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    RK_TRY(rk_comm_all_gather(comm, RK_CHANNEL_VALUES, found, (size_t)n * sizeof *found, &all_to_all));
    for (int32_t rank = 0; rank < rk_comm_size(comm); rank++) {
        const void *message;
        RK_TRY(rk_all_to_all_get_message(all_to_all, rank, (size_t)n * sizeof *found, &message));
        const bool *theirs = message;
        for (int64_t i = 0; i < n; i++) found[i] |= theirs[i];
    }
    return RK_OK;
}

rk_status rk_model_find_item_rows(rk_model *model, const int64_t *keys, int64_t n, bool *has_row) {
    rk_comm *trainers = rk_model_trainer_comm(model);
    RK_FAIL_IF(!rk_model_is_two_tower(model), RK_INVALID_ARGUMENT, "only a two_tower has items");
    memset(has_row, 0, (size_t)n * sizeof *has_row);
    model->store->ops->find_keys(model->store, rk_retrieval_item_table(model->retrieval), keys, n, has_row);
    return rk_comm_size(trainers) > 1 ? merge_found(trainers, n, has_row) : RK_OK;
}
