#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/thread/clock.h"
#include "comm/comm.h"

const char *rk_channel_name(int channel) {
    static const char *const names[RK_ALL_CHANNELS] = {[RK_CHANNEL_SUMS] = "sums",
                                                       [RK_CHANNEL_DENSE] = "dense",
                                                       [RK_CHANNEL_IDS] = "ids",
                                                       [RK_CHANNEL_ROWS] = "rows",
                                                       [RK_CHANNEL_GRADIENTS] = "gradients",
                                                       [RK_CHANNEL_STEP_STATUS] = "step statuses",
                                                       [RK_CHANNEL_VALUES] = "values",
                                                       [RK_CHANNEL_BATCHES] = "batches",
                                                       [RK_CHANNEL_MEMBERS] = "members",
                                                       [RK_CHANNEL_FAREWELL] = "farewell",
                                                       [RK_CHANNEL_LIVENESS] = "roll"};
    return names[channel];
}

void rk_all_to_all_release(rk_all_to_all *e) {
    RK_FREE_ALL(e->parts, e->arrived, e->received, e);
}

static rk_status allocate_all_to_all(rk_comm *comm, rk_all_to_all **out) {
    rk_all_to_all *e;
    RK_TRY(rk_alloc(1, sizeof *e, &e));
    size_t n = (size_t)comm->size;
    rk_status status = rk_alloc(n, sizeof *e->received, &e->received);
    if (status == RK_OK) status = rk_alloc(2 * n, sizeof *e->arrived, &e->arrived);
    if (status == RK_OK) status = rk_alloc(n, comm->ops->part_bytes, &e->parts);
    e->taken = e->arrived + n;
    e->comm = comm;
    if (status == RK_OK)
        *out = e;
    else
        rk_all_to_all_release(e);
    return status;
}

static rk_status reuse_or_create_all_to_all(rk_comm *comm, rk_all_to_all **out) {
    pthread_mutex_lock(&comm->shared->mutex);
    rk_all_to_all *e = comm->idle;
    if (e) comm->idle = e->next;
    pthread_mutex_unlock(&comm->shared->mutex);
    if (!e) return allocate_all_to_all(comm, out);
    *out = e;
    return RK_OK;
}

/* Back among the idle, its buffers to the pool. The mutex is held. */
static void return_to_idle_list(rk_all_to_all *e) {
    for (int32_t r = 0; r < e->comm->size; r++) {
        rk_message_pool_return(&e->comm->shared->pool, e->received[r].data);
        e->received[r] = (rk_message){0};
    }
    e->done = false;
    e->next = e->comm->idle;
    e->comm->idle = e;
}

rk_status rk_all_to_all_begin_with_sequence(rk_comm *comm, int channel, uint32_t sequence,
                                            const rk_message *send, const bool *to, const bool *from,
                                            rk_all_to_all **out) {
    RK_TRY(rk_comm_check_failure(comm));
    rk_all_to_all *e;
    rk_status status = reuse_or_create_all_to_all(comm, &e);
    if (status != RK_OK)
        return rk_comm_record_failure(comm, status); /* the others will wait for this rank's part in vain */
    e->channel = channel;
    e->sequence = sequence;
    e->late_since = e->asked_last = 0;
    atomic_store(&e->awaited, false);
    for (int32_t r = 0; r < comm->size; r++) {
        e->taken[r] = to && !to[r];
        e->arrived[r] = from && !from[r];
        if (!e->taken[r] && r != comm->rank) atomic_fetch_add(&comm->shared->bytes_sent, send[r].n_bytes);
    }
    status = comm->ops->begin(e, send, to, from);
    if (status != RK_OK) {
        rk_comm_record_failure(comm, status);
        rk_all_to_all_free(e);
        return status;
    }
    *out = e;
    return RK_OK;
}

rk_status rk_all_to_all_begin(rk_comm *comm, rk_channel channel, const rk_message *send, const bool *to,
                              const bool *from, rk_all_to_all **out) {
    for (int32_t r = 0; r < comm->size; r++) {
        if (to && !to[r]) continue;
        RK_FAIL_IF(send[r].n_bytes && !send[r].data, RK_INVALID_ARGUMENT,
                   "all_to_all '%s': no data for rank %d", rk_channel_name(channel), (int)r);
    }
    return rk_all_to_all_begin_with_sequence(comm, channel, atomic_fetch_add(&comm->begun[channel], 1), send,
                                             to, from, out);
}

rk_status rk_all_to_all_deliver_to_self(rk_all_to_all *e, const rk_message *send) {
    rk_comm *comm = e->comm;
    rk_message *received = &e->received[comm->rank];
    const rk_message *own = &send[comm->rank];
    RK_FAIL_IF(e->taken[comm->rank] != e->arrived[comm->rank], RK_INVALID_ARGUMENT,
               "all_to_all: rank %d must both send to and receive from itself, not only %s itself",
               (int)comm->rank, e->arrived[comm->rank] ? "send to" : "receive from");
    if (!e->taken[comm->rank] && own->n_bytes) {
        pthread_mutex_lock(&comm->shared->mutex);
        rk_status status = rk_message_pool_acquire(&comm->shared->pool, own->n_bytes, &received->data);
        pthread_mutex_unlock(&comm->shared->mutex);
        RK_TRY(status);
        memcpy(received->data, own->data, own->n_bytes);
        received->n_bytes = own->n_bytes;
    }
    e->taken[comm->rank] = e->arrived[comm->rank] = true;
    return RK_OK;
}

void rk_comm_spin_or_sleep(unsigned *n_pauses) {
    enum { N_SPINS = 50, LEAST_NS = 20000, MOST_NS = 100000 };
    unsigned n = (*n_pauses)++;
    if (n < N_SPINS) {
        sched_yield();
        return;
    }
    long ns = LEAST_NS + (long)(n - N_SPINS) * 1000;
    nanosleep(&(struct timespec){0, ns < MOST_NS ? ns : MOST_NS}, NULL);
}

/* "rank 3 (host b)", "ranks 1 (host a), 3 (host b) and 12 more": those of whom `have` is not yet true, but
 * that are not well. well [ranks of the world]; NULL: none is. */
static int list_missing_ranks(const rk_comm *comm, const bool *have, const bool *well, char *text,
                              size_t text_bytes) {
    enum { MAX_NAMED = 16 };
    int n_missing = 0, n = 0;
    char names[1600] = "";
    for (int32_t r = 0; r < comm->size; r++) {
        const rk_peer *peer = &comm->peers[r];
        if (have[r] || (well && well[peer->rank])) continue;
        if (n_missing++ >= MAX_NAMED) continue;
        n += snprintf(names + n, sizeof names - (size_t)n, "%s %d", n ? "," : "", (int)peer->rank);
        if (peer->host[0]) n += snprintf(names + n, sizeof names - (size_t)n, " (host %s)", peer->host);
    }
    n = snprintf(text, text_bytes, "rank%s%s", n_missing > 1 ? "s" : "", names);
    if (n_missing > MAX_NAMED)
        snprintf(text + n, text_bytes - (size_t)n, " and %d more", n_missing - MAX_NAMED);
    return n_missing;
}

/* Of those whose parts are missing, who is lost; or if all of them wait for others, who of those is. */
static rk_status lost_ranks_error(const rk_all_to_all *e, const bool *well) {
    const rk_comm *comm = e->comm;
    char who[1700], whose[1700];
    bool sends = list_missing_ranks(comm, e->arrived, NULL, who, sizeof who) > 0;
    const bool *have = sends ? e->arrived : e->taken;
    int n = list_missing_ranks(comm, have, well, who, sizeof who);
    if (n > 0)
        return rk_error(RK_PEER_LOST, "%s did not %s %s of '%s' within %g s", who, sends ? "send" : "take",
                        n > 1 ? "their parts" : "its part", rk_channel_name(e->channel), comm->timeout_s);
    n = list_missing_ranks(comm->shared->all, well, NULL, who, sizeof who);
    bool waits = list_missing_ranks(comm, have, NULL, whose, sizeof whose) == 1;
    return rk_error(RK_PEER_LOST,
                    "%s did not go on within %g s: this rank waits for '%s' of %s, which %s for %s", who,
                    comm->timeout_s, rk_channel_name(e->channel), whose, waits ? "waits" : "wait",
                    n > 1 ? "those" : "that one");
}

rk_status rk_all_to_all_check_timeout(rk_all_to_all *all_to_all) {
    rk_comm *comm = all_to_all->comm;
    const bool *well = NULL;
    pthread_mutex_lock(&comm->shared->mutex);
    rk_status status = all_to_all->done ? RK_OK : comm->ops->find_lost(all_to_all, &well);
    if (well) status = lost_ranks_error(all_to_all, well);
    pthread_mutex_unlock(&comm->shared->mutex);
    return status == RK_OK ? RK_OK : rk_comm_record_failure(comm, status);
}

bool rk_all_to_all_is_done(rk_all_to_all *all_to_all) {
    pthread_mutex_lock(&all_to_all->comm->shared->mutex);
    bool done = all_to_all->done;
    pthread_mutex_unlock(&all_to_all->comm->shared->mutex);
    return done;
}

const rk_message *rk_all_to_all_received_messages(const rk_all_to_all *all_to_all) {
    return all_to_all->received;
}

rk_status rk_all_to_all_split_message(const rk_all_to_all *e, int32_t rank, size_t n_bytes, void *out,
                                      size_t *left) {
    const rk_message *message = &e->received[rank];
    RK_FAIL_IF(message->n_bytes < n_bytes, RK_INTERNAL, "rank %d sent %zu bytes of '%s', not %zu or more",
               (int)e->comm->peers[rank].rank, message->n_bytes, rk_channel_name(e->channel), n_bytes);
    memcpy(out, &message->data, sizeof message->data);
    *left = message->n_bytes - n_bytes;
    return RK_OK;
}

rk_status rk_all_to_all_get_message(const rk_all_to_all *e, int32_t rank, size_t n_bytes, void *out) {
    const rk_message *message = &e->received[rank];
    RK_FAIL_IF(message->n_bytes != n_bytes, RK_INTERNAL, "rank %d sent %zu bytes of '%s', not %zu",
               (int)e->comm->peers[rank].rank, message->n_bytes, rk_channel_name(e->channel), n_bytes);
    memcpy(out, &message->data, sizeof message->data);
    return RK_OK;
}

rk_status rk_all_to_all_copy_message(const rk_all_to_all *e, int32_t rank, size_t n_bytes, void *to) {
    const void *data;
    RK_TRY(rk_all_to_all_get_message(e, rank, n_bytes, &data));
    if (n_bytes) memcpy(to, data, n_bytes);
    return RK_OK;
}

void rk_all_to_all_free(rk_all_to_all *all_to_all) {
    if (!all_to_all) return;
    pthread_mutex_lock(&all_to_all->comm->shared->mutex);
    if (!all_to_all->done) all_to_all->comm->ops->abandon(all_to_all);
    return_to_idle_list(all_to_all);
    pthread_mutex_unlock(&all_to_all->comm->shared->mutex);
}

/* Waiting moves the sums on too. */
rk_status rk_all_to_all_test(rk_all_to_all *all_to_all, bool *done) {
    RK_TRY(all_to_all->comm->ops->test(all_to_all, done));
    return rk_all_reduces_advance(all_to_all->comm, false);
}

rk_status rk_all_to_all_wait(rk_all_to_all *all_to_all) {
    double deadline = rk_clock_seconds() + all_to_all->comm->timeout_s;
    atomic_store(&all_to_all->awaited, true);
    for (unsigned n_pauses = 0;;) {
        bool done;
        RK_TRY(rk_all_to_all_test(all_to_all, &done));
        if (done) return RK_OK;
        if (rk_clock_seconds() > deadline) RK_TRY(rk_all_to_all_check_timeout(all_to_all));
        rk_comm_spin_or_sleep(&n_pauses);
    }
}
