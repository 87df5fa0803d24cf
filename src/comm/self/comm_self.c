/* One process: what it sends, it receives. */
#include <stdio.h>

#include "base/log.h"
#include "base/memory.h"
#include "comm/comm.h"

static void self_comm_free(rk_comm *comm) {
    rk_comm_shared *shared = comm->shared;
    rk_comm_release(comm);
    rk_comm_shared_free(shared);
}

static rk_status self_all_to_all_begin(rk_all_to_all *all_to_all, const rk_message *send, const bool *to,
                                       const bool *from) {
    (void)to, (void)from;
    RK_TRY(rk_all_to_all_deliver_to_self(all_to_all, send));
    all_to_all->done = true;
    return RK_OK;
}

static rk_status self_all_to_all_test(rk_all_to_all *all_to_all, bool *done) {
    *done = all_to_all->done;
    return RK_OK;
}

static void self_all_to_all_abandon(rk_all_to_all *all_to_all) {
    (void)all_to_all;
}

static rk_status self_create_group(rk_comm *comm, const int32_t *members, int32_t n_members, rk_comm **out) {
    (void)comm, (void)members, (void)n_members;
    return rk_comm_self(out);
}

/* There is no other rank to stop, and the library never exits: the caller's own error ends the run. */
static void self_comm_abort(rk_comm *comm, const char *reason) {
    (void)comm;
    rk_log(RK_LOG_ERROR, "rank 0: %s", reason);
}

static const rk_comm_ops ops = {.is_alone = true, /* and no all_to_all is ever late */
                                .free = self_comm_free,
                                .begin = self_all_to_all_begin,
                                .test = self_all_to_all_test,
                                .abandon = self_all_to_all_abandon,
                                .members = self_create_group,
                                .abort = self_comm_abort};

rk_status rk_comm_self(rk_comm **out) {
    rk_comm *comm = NULL;
    rk_comm_shared *shared;
    RK_TRY(rk_comm_shared_create(&shared));
    rk_status status = rk_comm_create(sizeof *comm, &ops, shared, 0, 1, 1, &comm);
    if (status != RK_OK) {
        rk_comm_shared_free(shared);
        return status;
    }
    snprintf(comm->description, sizeof comm->description, "one process");
    *out = comm;
    return RK_OK;
}
