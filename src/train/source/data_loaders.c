#include "train/source/data_loaders.h"

#include "base/memory.h"

static rk_status allocate_loaders(rk_data_loaders *r) {
    size_t n = (size_t)r->n_trainers + 1;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)r->n, r->comms), RK_ARRAY(n, r->cuts), RK_ARRAY(n, r->messages),
                        RK_ARRAY(4 * n, r->trainers)));
    r->reader = r->trainers + n;
    r->first = r->reader + n;
    r->nobody = r->first + n;
    for (int32_t t = 0; t < r->n_trainers; t++) r->trainers[t] = true;
    r->reader[r->n_trainers] = r->first[0] = true;
    return RK_OK;
}

/* The trainers and one more rank. */
static rk_status create_group_with_trainers(rk_comm *world, int32_t n_trainers, int32_t rank, rk_comm **out) {
    RK_AUTOFREE int32_t *members = NULL;
    RK_TRY(rk_alloc((size_t)n_trainers + 1, sizeof *members, &members));
    for (int32_t t = 0; t < n_trainers; t++) members[t] = t;
    members[n_trainers] = rank;
    return rk_comm_create_group(world, members, n_trainers + 1, out);
}

rk_status rk_data_loaders_create(rk_comm *world, int32_t n_trainers, int32_t n_readers,
                                 rk_data_loaders **out) {
    rk_data_loaders *r;
    int32_t rank = rk_comm_rank(world), first = rk_comm_size(world) - n_readers;
    RK_TRY(rk_alloc(1, sizeof *r, &r));
    *r = (rk_data_loaders){.n = n_readers, .n_trainers = n_trainers, .asks = rank == 0};
    rk_status status = allocate_loaders(r);
    for (int32_t i = 0; i < n_readers && status == RK_OK; i++) {
        if (rank < n_trainers)
            status = create_group_with_trainers(world, n_trainers, first + i, &r->comms[i]);
        if (rank == first + i) status = create_group_with_trainers(world, n_trainers, rank, &r->comms[0]);
    }
    if (status == RK_OK)
        *out = r;
    else
        rk_data_loaders_free(r);
    return status;
}

void rk_data_loaders_free(rk_data_loaders *r) {
    if (!r) return;
    for (int32_t i = 0; i < r->n && r->comms; i++) rk_comm_free(r->comms[i]);
    RK_FREE_ALL(r->comms, r->cuts, r->messages, r->trainers, r);
}

rk_status rk_data_loaders_send_request(rk_data_loaders *r, int32_t reader, const rk_read_request *word,
                                       size_t n_bytes, rk_all_to_all **out) {
    r->messages[r->n_trainers] = (rk_message){(void *)(size_t)word, n_bytes};
    return rk_all_to_all_begin(r->comms[reader], RK_CHANNEL_VALUES, r->messages, r->reader, r->nobody, out);
}

rk_status rk_data_loaders_send_leave(rk_data_loaders *r) {
    static const rk_read_request word = {.kind = RK_READ_LEAVE};
    for (int32_t i = 0; r->asks && i < r->n; i++) {
        RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
        RK_TRY(rk_data_loaders_send_request(r, i, &word, sizeof word, &all_to_all));
        RK_TRY(rk_all_to_all_wait(all_to_all));
    }
    return RK_OK;
}

int32_t rk_data_loaders_rank_of_loader(const rk_data_loaders *r, int32_t reader) {
    return r->comms[reader]->peers[r->n_trainers].rank;
}
