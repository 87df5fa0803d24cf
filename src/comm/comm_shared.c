/* What every kind of communicator has, and what all of a process share: the first failure, buffers, the lock.
 */
#include "base/memory.h"
#include "comm/comm.h"

rk_status rk_comm_shared_create(rk_comm_shared **out) {
    rk_comm_shared *shared;
    RK_TRY(rk_alloc(1, sizeof *shared, &shared));
    pthread_mutex_init(&shared->mutex, NULL);
    *out = shared;
    return RK_OK;
}

void rk_comm_shared_free(rk_comm_shared *shared) {
    if (!shared) return;
    rk_message_pool_release(&shared->pool);
    pthread_mutex_destroy(&shared->mutex);
    rk_free(shared);
}

rk_status rk_comm_fail(rk_comm *comm, rk_status status) {
    pthread_mutex_lock(&comm->shared->mutex);
    if (comm->shared->failed == RK_OK) {
        rk_error_copy(comm->shared->failure, sizeof comm->shared->failure);
        comm->shared->failed = status;
    }
    pthread_mutex_unlock(&comm->shared->mutex);
    return status;
}

rk_status rk_comm_failed(rk_comm *comm) {
    pthread_mutex_lock(&comm->shared->mutex);
    rk_status status = comm->shared->failed;
    if (status != RK_OK) rk_error(status, "%s", comm->shared->failure);
    pthread_mutex_unlock(&comm->shared->mutex);
    return status;
}

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
