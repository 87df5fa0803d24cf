/* What all communicators of a process share: the first failure, buffers, the lock. */
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
