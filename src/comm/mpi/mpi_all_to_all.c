/* All_to_alls over MPI. A tag says which all_to_all a message belongs to. So messages of any size may arrive
 * in any order, and are received when they do. */
#include <string.h>

#include "base/memory.h"
#include "comm/mpi/mpi_liveness.h"

static rk_comm_of_mpi *mpi_comm_of(const rk_all_to_all *e) {
    return (rk_comm_of_mpi *)e->comm;
}

static int mpi_tag_of(const rk_all_to_all *e) {
    return (int)((uint32_t)mpi_comm_of(e)->context << RK_TAG_CONTEXT_SHIFT |
                 e->sequence % RK_MAX_UNDER_WAY << RK_TAG_CHANNEL_BITS | (uint32_t)e->channel);
}

static rk_status check_mpi_call(const rk_all_to_all *e, int code, const char *doing, int32_t rank) {
    if (code == MPI_SUCCESS) return RK_OK;
    const rk_peer *peer = &e->comm->peers[rank];
    return rk_mpi_error(RK_PEER_LOST, code, "%s rank %d (host %s)", doing, (int)peer->rank, peer->host);
}

static rk_status send_next_piece(rk_all_to_all *e, int32_t r) {
    rk_mpi_part *part = (rk_mpi_part *)e->parts + r;
    size_t most = e->comm->shared->piece_bytes, n = part->n_left < most ? part->n_left : most;
    RK_TRY(check_mpi_call(e,
                          MPI_Isend(part->data, (int)n, MPI_BYTE, e->comm->peers[r].rank, mpi_tag_of(e),
                                    mpi_comm_of(e)->world->mpi, &part->sending),
                          "sending to", r));
    part->data = part->data ? part->data + n : NULL;
    part->n_left -= n;
    part->sends_last = n < most;
    return RK_OK;
}

static rk_status advance_sending(rk_all_to_all *e, int32_t r) {
    rk_mpi_part *part = (rk_mpi_part *)e->parts + r;
    if (e->taken[r] || part->sending != MPI_REQUEST_NULL) return RK_OK;
    e->taken[r] = part->sends_last;
    return e->taken[r] ? RK_OK : send_next_piece(e, r);
}

/* Room for n more bytes after those of the message. What was cut doubles, so that it is copied seldom. */
static rk_status reserve_message(rk_all_to_all *e, rk_message *message, size_t n) {
    rk_message_pool *pool = &e->comm->shared->pool;
    if (n == 0 || (message->data && rk_message_capacity(message->data) - message->n_bytes >= n)) return RK_OK;
    void *larger;
    RK_TRY(rk_message_pool_acquire(pool, message->n_bytes + (message->n_bytes > n ? message->n_bytes : n),
                                   &larger));
    if (message->n_bytes) memcpy(larger, message->data, message->n_bytes);
    rk_message_pool_return(pool, message->data);
    message->data = larger;
    return RK_OK;
}

/* What came first with this tag from this rank is taken out of the arrivals. */
static bool pop_arrived_message(rk_mpi_world *world, int source, int tag, rk_mpi_arrival *out) {
    size_t i = 0;
    while (i < world->n_arrivals && (world->arrivals[i].source != source || world->arrivals[i].tag != tag))
        i++;
    if (i == world->n_arrivals) return false;
    *out = world->arrivals[i];
    world->n_arrivals--;
    memmove(&world->arrivals[i], &world->arrivals[i + 1], (world->n_arrivals - i) * sizeof *world->arrivals);
    return true;
}

/* Short messages are there at once, so this one request is asked about. */
static rk_status begin_receiving(rk_all_to_all *e, int32_t r, rk_mpi_arrival *arrival) {
    rk_mpi_part *part = (rk_mpi_part *)e->parts + r;
    rk_message *message = &e->received[r];
    size_t n = (size_t)arrival->n_bytes;
    int is_there;
    RK_TRY(reserve_message(e, message, n));
    char *to = message->data ? (char *)message->data + message->n_bytes : NULL;
    RK_TRY(check_mpi_call(e, MPI_Imrecv(to, arrival->n_bytes, MPI_BYTE, &arrival->message, &part->receiving),
                          "receiving from", r));
    message->n_bytes += n;
    part->receives = true;
    part->receives_last = n < e->comm->shared->piece_bytes;
    return check_mpi_call(e, MPI_Test(&part->receiving, &is_there, MPI_STATUS_IGNORE), "receiving from", r);
}

static rk_status advance_receiving(rk_all_to_all *e, int32_t r) {
    rk_mpi_part *part = (rk_mpi_part *)e->parts + r;
    while (!e->arrived[r]) {
        rk_mpi_arrival arrival;
        if (part->receives && part->receiving != MPI_REQUEST_NULL) return RK_OK;
        if (part->receives) {
            part->receives = false;
            e->arrived[r] = part->receives_last;
        } else if (pop_arrived_message(mpi_comm_of(e)->world, e->comm->peers[r].rank, mpi_tag_of(e),
                                       &arrival))
            RK_TRY(begin_receiving(e, r, &arrival));
        else
            return RK_OK;
    }
    return RK_OK;
}

static rk_status advance_all_to_all(rk_all_to_all *e) {
    bool done = true;
    for (int32_t r = 0; r < e->comm->size; r++) {
        RK_TRY(advance_sending(e, r));
        RK_TRY(advance_receiving(e, r));
        done = done && e->taken[r] && e->arrived[r];
    }
    e->done = done;
    return RK_OK;
}

static void unlink_all_to_all(rk_mpi_world *world, rk_all_to_all **at) {
    rk_all_to_all *e = *at;
    *at = e->next;
    if (world->end == &e->next) world->end = at;
}

/* Keeps all messages since the last look as arrivals, so that MPI is never asked for one that has not come.
 */
static rk_status probe_messages(rk_mpi_world *world) {
    for (;;) {
        rk_mpi_arrival arrival;
        MPI_Status found;
        int flag;
        if (world->n_arrivals == world->max_arrivals) {
            size_t n = world->max_arrivals ? 2 * world->max_arrivals : 64;
            RK_TRY(rk_realloc(n, sizeof *world->arrivals, &world->arrivals));
            world->max_arrivals = n;
        }
        int code = MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, world->mpi, &flag, &arrival.message, &found);
        if (code == MPI_SUCCESS && flag) code = MPI_Get_count(&found, MPI_BYTE, &arrival.n_bytes);
        if (code != MPI_SUCCESS) return rk_mpi_error(RK_PEER_LOST, code, "waiting for messages");
        if (!flag) return RK_OK;
        arrival.source = found.MPI_SOURCE;
        arrival.tag = found.MPI_TAG;
        if (arrival.tag == RK_CHANNEL_LIVENESS)
            RK_TRY(rk_mpi_liveness_handle_message(world, &arrival));
        else
            world->arrivals[world->n_arrivals++] = arrival;
    }
}

static rk_status reserve_pending_requests(rk_mpi_world *world, size_t n) {
    if (n <= world->max_pending_requests) return RK_OK;
    world->max_pending_requests = 0;
    RK_TRY(rk_realloc(2 * n, sizeof *world->pending_requests, &world->pending_requests));
    RK_TRY(rk_realloc(2 * n, sizeof *world->requests, &world->requests));
    RK_TRY(rk_realloc(2 * n, sizeof *world->statuses, &world->statuses));
    RK_TRY(rk_realloc(2 * n, sizeof *world->indices, &world->indices));
    world->max_pending_requests = 2 * n;
    return RK_OK;
}

static size_t add_pending_request(rk_mpi_world *world, size_t n, rk_mpi_pending_request pending) {
    if (*pending.request == MPI_REQUEST_NULL) return n;
    world->pending_requests[n] = pending;
    world->requests[n] = *pending.request;
    return n + 1;
}

static rk_status collect_pending_requests(rk_mpi_world *world, size_t *out) {
    size_t n = 0;
    for (rk_all_to_all *e = world->first; e; e = e->next) {
        RK_TRY(reserve_pending_requests(world, n + 2 * (size_t)e->comm->size));
        for (int32_t r = 0; r < e->comm->size; r++) {
            rk_mpi_part *part = (rk_mpi_part *)e->parts + r;
            if (!e->taken[r])
                n = add_pending_request(world, n, (rk_mpi_pending_request){&part->sending, e, r, true});
            if (!e->arrived[r])
                n = add_pending_request(world, n, (rk_mpi_pending_request){&part->receiving, e, r, false});
        }
    }
    *out = n;
    return RK_OK;
}

/* What is over is marked so, by MPI_REQUEST_NULL. One call for all requests: each call looks at all sockets,
 * which takes system calls. */
static rk_status test_requests(rk_mpi_world *world) {
    size_t n;
    int n_over;
    RK_TRY(collect_pending_requests(world, &n));
    if (n == 0) return RK_OK;
    int code = MPI_Testsome((int)n, world->requests, &n_over, world->indices, world->statuses);
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)
        return rk_mpi_error(RK_PEER_LOST, code, "sending and receiving");
    rk_status status = RK_OK;
    for (int i = 0; i < n_over; i++) {
        const rk_mpi_pending_request *pending = &world->pending_requests[world->indices[i]];
        *pending->request = world->requests[world->indices[i]];
        if (code == MPI_ERR_IN_STATUS && status == RK_OK)
            status = check_mpi_call(pending->all_to_all, world->statuses[i].MPI_ERROR,
                                    pending->sends ? "sending to" : "receiving from", pending->rank);
    }
    return status;
}

static rk_status advance_pending_all_to_alls(rk_mpi_world *world) {
    RK_TRY(probe_messages(world));
    RK_TRY(test_requests(world));
    for (rk_all_to_all **at = &world->first; *at;) {
        RK_TRY(advance_all_to_all(*at));
        if ((*at)->done)
            unlink_all_to_all(world, at);
        else
            at = &(*at)->next;
    }
    return RK_OK;
}

rk_status rk_mpi_all_to_all_test(rk_all_to_all *all_to_all, bool *done) {
    rk_comm *comm = all_to_all->comm;
    RK_TRY(rk_comm_check_failure(comm));
    pthread_mutex_lock(&comm->shared->mutex);
    rk_status status = all_to_all->done ? RK_OK : advance_pending_all_to_alls(mpi_comm_of(all_to_all)->world);
    bool now_done = all_to_all->done;
    pthread_mutex_unlock(&comm->shared->mutex);
    if (status != RK_OK) return rk_comm_record_failure(comm, status);
    *done = now_done;
    return RK_OK;
}

static rk_status check_tag_is_free(const rk_all_to_all *e) {
    for (const rk_all_to_all *other = mpi_comm_of(e)->world->first; other; other = other->next) {
        RK_FAIL_IF(other->comm == e->comm && mpi_tag_of(other) == mpi_tag_of(e), RK_INVALID_ARGUMENT,
                   "all_to_all: more than %d of one channel are in flight", RK_MAX_UNDER_WAY);
    }
    return RK_OK;
}

/* The first message goes to the next rank, so that not all send to rank 0 at once. */
static rk_status send_messages(rk_all_to_all *e, const rk_message *send) {
    RK_TRY(check_tag_is_free(e));
    for (int32_t i = 1; i < e->comm->size; i++) {
        int32_t r = (e->comm->rank + i) % e->comm->size;
        rk_mpi_part *part = (rk_mpi_part *)e->parts + r;
        *part = (rk_mpi_part){.sending = MPI_REQUEST_NULL, .receiving = MPI_REQUEST_NULL};
        if (e->taken[r]) continue;
        part->data = send[r].data;
        part->n_left = send[r].n_bytes;
        RK_TRY(send_next_piece(e, r));
    }
    return RK_OK;
}

rk_status rk_mpi_all_to_all_begin(rk_all_to_all *all_to_all, const rk_message *send, const bool *to,
                                  const bool *from) {
    (void)to, (void)from;
    rk_mpi_world *world = mpi_comm_of(all_to_all)->world;
    RK_TRY(rk_all_to_all_deliver_to_self(all_to_all, send));
    pthread_mutex_lock(&world->shared->mutex);
    rk_status status = send_messages(all_to_all, send);
    all_to_all->next = NULL;
    *world->end = all_to_all;
    world->end = &all_to_all->next;
    pthread_mutex_unlock(&world->shared->mutex);
    return status;
}

/* After an error: MPI may still write to buffers of what was under way, so they are never used again. The
 * mutex is held. */
void rk_mpi_all_to_all_abandon(rk_all_to_all *all_to_all) {
    rk_mpi_world *world = mpi_comm_of(all_to_all)->world;
    for (rk_all_to_all **at = &world->first; *at; at = &(*at)->next) {
        if (*at != all_to_all) continue;
        unlink_all_to_all(world, at);
        break;
    }
    const rk_mpi_part *parts = all_to_all->parts;
    for (int32_t r = 0; r < all_to_all->comm->size; r++) {
        if (r != all_to_all->comm->rank && parts[r].receiving != MPI_REQUEST_NULL)
            all_to_all->received[r] = (rk_message){0};
    }
}
