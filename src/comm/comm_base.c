/* What every kind of communicator has, and what the communicators of a process share: the first failure,
 * buffers, the lock. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread/clock.h"
#include "comm/comm.h"

rk_status rk_comm_shared_create(rk_comm_shared **out) {
    rk_comm_shared *shared;
    RK_TRY(rk_alloc(1, sizeof *shared, &shared));
    pthread_mutex_init(&shared->mutex, NULL);
    shared->next_context = 1;
    *out = shared;
    return RK_OK;
}

void rk_comm_shared_free(rk_comm_shared *shared) {
    if (!shared) return;
    rk_message_pool_release(&shared->pool);
    pthread_mutex_destroy(&shared->mutex);
    rk_free(shared);
}

rk_status rk_comm_record_failure(rk_comm *comm, rk_status status) {
    if (comm->ops->is_alone && status == RK_NO_MEMORY) return status;
    pthread_mutex_lock(&comm->shared->mutex);
    if (comm->shared->failed == RK_OK) {
        rk_error_copy(comm->shared->failure, sizeof comm->shared->failure);
        comm->shared->failed = status;
    }
    pthread_mutex_unlock(&comm->shared->mutex);
    return status;
}

rk_status rk_comm_check_failure(rk_comm *comm) {
    pthread_mutex_lock(&comm->shared->mutex);
    rk_status status = comm->shared->failed;
    if (status != RK_OK) rk_error(status, "%s", comm->shared->failure);
    pthread_mutex_unlock(&comm->shared->mutex);
    return status;
}

rk_status rk_comm_create(size_t bytes, const rk_comm_ops *ops, rk_comm_shared *shared, int32_t rank,
                         int32_t size, double timeout_s, void *out) {
    RK_AUTOFREE rk_comm *comm = NULL;
    RK_TRY(rk_alloc(1, bytes, &comm));
    RK_TRY(rk_alloc((size_t)size, sizeof *comm->peers, &comm->peers));
    comm->ops = ops;
    comm->shared = shared;
    comm->rank = rank;
    comm->size = size;
    comm->timeout_s = timeout_s;
    for (int32_t r = 0; r < size; r++) comm->peers[r].rank = r;
    pthread_mutex_init(&comm->sums_mutex, NULL);
    pthread_cond_init(&comm->sums_begun, NULL);
    rk_cond_init_monotonic(&comm->sums_ended);
    memcpy(out, &comm, sizeof comm);
    comm = NULL;
    return RK_OK;
}

void rk_comm_release(rk_comm *comm) {
    for (rk_all_to_all *e = comm->idle, *next; e; e = next) {
        next = e->next;
        rk_all_to_all_release(e);
    }
    rk_all_reduces_release(comm);
    pthread_cond_destroy(&comm->sums_begun);
    pthread_cond_destroy(&comm->sums_ended);
    pthread_mutex_destroy(&comm->sums_mutex);
    RK_FREE_ALL(comm->peers, comm);
}

rk_status rk_comm_final_barrier(rk_comm *comm) {
    RK_AUTOFREE rk_message *nothing = NULL;
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    RK_TRY(rk_alloc((size_t)comm->size, sizeof *nothing, &nothing));
    RK_TRY(rk_all_to_all_begin_with_sequence(comm, RK_CHANNEL_FAREWELL, 0, nothing, NULL, NULL, &all_to_all));
    return rk_all_to_all_wait(all_to_all);
}

rk_status rk_comm_agree_on_context(rk_comm *comm, const int32_t *members, int32_t n_members, int32_t *out) {
    rk_comm_shared *shared = comm->shared;
    RK_AUTOFREE rk_message *send = NULL;
    RK_AUTOFREE bool *with = NULL;
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    pthread_mutex_lock(&shared->mutex);
    int32_t next = shared->next_context, most = next;
    pthread_mutex_unlock(&shared->mutex);
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)comm->size, send), RK_ARRAY((size_t)comm->size, with)));
    for (int32_t i = 0; i < n_members; i++) {
        with[members[i]] = true;
        send[members[i]] = (rk_message){&next, sizeof next};
    }
    RK_TRY(rk_all_to_all_begin_with_sequence(comm, RK_CHANNEL_MEMBERS, 0, send, with, with, &all_to_all));
    RK_TRY(rk_all_to_all_wait(all_to_all));
    for (int32_t i = 0; i < n_members; i++) {
        RK_TRY(rk_all_to_all_copy_message(all_to_all, members[i], sizeof next, &next));
        if (next > most) most = next;
    }
    pthread_mutex_lock(&shared->mutex);
    shared->next_context = most + 1;
    pthread_mutex_unlock(&shared->mutex);
    *out = most;
    return RK_OK;
}

rk_status rk_comm_gather_hosts(rk_comm *comm) {
    char *host = comm->peers[comm->rank].host;
    if (gethostname(host, sizeof comm->peers->host) != 0) snprintf(host, sizeof comm->peers->host, "unknown");
    host[sizeof comm->peers->host - 1] = 0;
    rk_all_to_all *all_to_all;
    RK_TRY(rk_comm_all_gather(comm, RK_CHANNEL_SUMS, host, strlen(host) + 1, &all_to_all));
    for (int32_t r = 0; r < comm->size; r++) {
        const rk_message *theirs = &rk_all_to_all_received_messages(all_to_all)[r];
        snprintf(comm->peers[r].host, sizeof comm->peers[r].host, "%.*s", (int)theirs->n_bytes,
                 theirs->n_bytes ? (const char *)theirs->data : "");
    }
    rk_all_to_all_free(all_to_all);
    return RK_OK;
}
