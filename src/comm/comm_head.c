/* What every kind of communicator has. */
#include "base/memory.h"
#include "comm/comm.h"

rk_status rk_comm_head_init(rk_comm *comm, const rk_comm_functions *functions, rk_comm_shared *shared,
                            int32_t rank, int32_t size, double timeout_s) {
    RK_TRY(rk_alloc((size_t)size, sizeof *comm->peers, &comm->peers));
    comm->functions = functions;
    comm->shared = shared;
    comm->rank = rank;
    comm->size = size;
    comm->timeout_s = timeout_s;
    for (int32_t r = 0; r < size; r++) comm->peers[r].rank = r;
    pthread_mutex_init(&comm->sums_mutex, NULL);
    pthread_cond_init(&comm->sums_begun, NULL);
    return RK_OK;
}

void rk_comm_head_release(rk_comm *comm) {
    for (rk_all_to_all *e = comm->idle, *next; e; e = next) {
        next = e->next;
        rk_all_to_all_release(e);
    }
    rk_sums_release(comm);
    pthread_cond_destroy(&comm->sums_begun);
    pthread_mutex_destroy(&comm->sums_mutex);
    rk_free(comm->peers);
}
