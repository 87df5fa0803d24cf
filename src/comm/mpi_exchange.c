/* Exchanges over MPI: a tag tells which exchange a message belongs to, so messages of any size may arrive in any order and are received when they do. */
#include <string.h>

#include "comm/mpi_world.h"

static rk_comm_of_mpi *comm_of(const rk_exchange *e) {
    return (rk_comm_of_mpi *)e->comm;
}

static int tag_of(const rk_exchange *e) {
    return (int)((uint32_t)comm_of(e)->context << RK_TAG_CONTEXT_SHIFT | e->sequence % RK_MAX_UNDER_WAY << RK_TAG_LANE_BITS | (uint32_t)e->lane);
}

static rk_status check(const rk_exchange *e, int code, const char *doing, int32_t rank) {
    if (code == MPI_SUCCESS) return RK_OK;
    const rk_peer *peer = &e->comm->peers[rank];
    return rk_mpi_error(RK_PEER_LOST, code, "%s rank %d (host %s)", doing, (int)peer->rank, peer->host);
}

static rk_status send_piece(rk_exchange *e, int32_t r) {
    rk_mpi_part *part = (rk_mpi_part *)e->parts + r;
    size_t most = e->comm->shared->piece_bytes, n = part->n_left < most ? part->n_left : most;
    RK_TRY(check(e, MPI_Isend(part->data, (int)n, MPI_BYTE, e->comm->peers[r].rank, tag_of(e), comm_of(e)->world->mpi, &part->sending), "sending to", r));
    part->data = part->data ? part->data + n : NULL;
    part->n_left -= n;
    part->sends_last = n < most;
    return RK_OK;
}

static rk_status advance_sending(rk_exchange *e, int32_t r) {
    rk_mpi_part *part = (rk_mpi_part *)e->parts + r;
    while (!e->taken[r]) {
        int sent;
        RK_TRY(check(e, MPI_Test(&part->sending, &sent, MPI_STATUS_IGNORE), "sending to", r));
        if (!sent) return RK_OK;
        e->taken[r] = part->sends_last;
        if (!e->taken[r]) RK_TRY(send_piece(e, r));
    }
    return RK_OK;
}

/* Room for n more bytes after those of the parcel. What was cut doubles, so that it is copied seldom. */
static rk_status make_room(rk_exchange *e, rk_parcel *parcel, size_t n) {
    rk_parcel_pool *pool = &e->comm->shared->pool;
    if (n == 0 || (parcel->data && rk_parcel_capacity(parcel->data) - parcel->n_bytes >= n)) return RK_OK;
    void *larger;
    RK_TRY(rk_parcel_pool_take(pool, parcel->n_bytes + (parcel->n_bytes > n ? parcel->n_bytes : n), &larger));
    if (parcel->n_bytes) memcpy(larger, parcel->data, parcel->n_bytes);
    rk_parcel_pool_give(pool, parcel->data);
    parcel->data = larger;
    return RK_OK;
}

static rk_status begin_receiving(rk_exchange *e, int32_t r, MPI_Message *message, const MPI_Status *found) {
    rk_mpi_part *part = (rk_mpi_part *)e->parts + r;
    rk_parcel *parcel = &e->received[r];
    int n;
    RK_TRY(check(e, MPI_Get_count(found, MPI_BYTE, &n), "receiving from", r));
    RK_TRY(make_room(e, parcel, (size_t)n));
    char *to = parcel->data ? (char *)parcel->data + parcel->n_bytes : NULL;
    RK_TRY(check(e, MPI_Imrecv(to, n, MPI_BYTE, message, &part->receiving), "receiving from", r));
    parcel->n_bytes += (size_t)n;
    part->receives_last = (size_t)n < e->comm->shared->piece_bytes;
    return RK_OK;
}

/* There is a message that no receive was begun for. */
static rk_status look_for_messages(rk_mpi_world *world, bool *found) {
    int flag;
    int code = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world->mpi, &flag, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return rk_mpi_error(RK_PEER_LOST, code, "waiting for messages");
    *found = flag != 0;
    return RK_OK;
}

static rk_status advance_receiving(rk_exchange *e, int32_t r, bool has_messages) {
    rk_mpi_part *part = (rk_mpi_part *)e->parts + r;
    while (!e->arrived[r]) {
        int flag;
        if (part->receiving == MPI_REQUEST_NULL) {
            if (!has_messages) return RK_OK;
            MPI_Message message;
            MPI_Status found;
            RK_TRY(check(e, MPI_Improbe(e->comm->peers[r].rank, tag_of(e), comm_of(e)->world->mpi, &flag, &message, &found), "waiting for", r));
            if (!flag) return RK_OK;
            RK_TRY(begin_receiving(e, r, &message, &found));
        }
        RK_TRY(check(e, MPI_Test(&part->receiving, &flag, MPI_STATUS_IGNORE), "receiving from", r));
        if (!flag) return RK_OK;
        e->arrived[r] = part->receives_last;
    }
    return RK_OK;
}

static rk_status advance(rk_exchange *e, bool has_messages) {
    bool done = true;
    for (int32_t r = 0; r < e->comm->size; r++) {
        RK_TRY(advance_sending(e, r));
        RK_TRY(advance_receiving(e, r, has_messages));
        done = done && e->taken[r] && e->arrived[r];
    }
    e->done = done;
    return RK_OK;
}

static void unlink_from(rk_mpi_world *world, rk_exchange **at) {
    rk_exchange *e = *at;
    *at = e->next;
    if (world->end == &e->next) world->end = at;
}

/* One look at all messages first: to ask for each that is waited for takes a system call or two, time and again. */
static rk_status advance_all(rk_mpi_world *world) {
    bool has_messages;
    RK_TRY(look_for_messages(world, &has_messages));
    for (rk_exchange **at = &world->first; *at;) {
        RK_TRY(advance(*at, has_messages));
        if ((*at)->done) unlink_from(world, at);
        else at = &(*at)->next;
    }
    return RK_OK;
}

rk_status rk_mpi_test(rk_exchange *exchange, bool *done) {
    rk_comm *comm = exchange->comm;
    RK_TRY(rk_comm_failed(comm));
    pthread_mutex_lock(&comm->shared->mutex);
    rk_status status = exchange->done ? RK_OK : advance_all(comm_of(exchange)->world);
    bool now_done = exchange->done;
    pthread_mutex_unlock(&comm->shared->mutex);
    if (status != RK_OK) return rk_comm_fail(comm, status);
    *done = now_done;
    return RK_OK;
}

static rk_status give_self(rk_exchange *e, const rk_parcel *send) {
    rk_comm *comm = e->comm;
    rk_parcel *received = &e->received[comm->rank];
    RK_FAIL_IF(e->taken[comm->rank] != e->arrived[comm->rank], RK_INVALID_ARGUMENT, "exchange: rank %d is to %s itself alone", (int)comm->rank,
               e->arrived[comm->rank] ? "send to" : "receive from");
    if (!e->taken[comm->rank] && send->n_bytes) {
        pthread_mutex_lock(&comm->shared->mutex);
        rk_status status = rk_parcel_pool_take(&comm->shared->pool, send->n_bytes, &received->data);
        pthread_mutex_unlock(&comm->shared->mutex);
        RK_TRY(status);
        memcpy(received->data, send->data, send->n_bytes);
        received->n_bytes = send->n_bytes;
    }
    e->taken[comm->rank] = e->arrived[comm->rank] = true;
    return RK_OK;
}

static rk_status check_tag_is_free(const rk_exchange *e) {
    for (const rk_exchange *other = comm_of(e)->world->first; other; other = other->next) {
        RK_FAIL_IF(other->comm == e->comm && tag_of(other) == tag_of(e), RK_INVALID_ARGUMENT, "exchange: more than %d of one lane are under way",
                   RK_MAX_UNDER_WAY);
    }
    return RK_OK;
}

/* The first message goes to the next rank, so that not all send to rank 0 at once. */
static rk_status send_all(rk_exchange *e, const rk_parcel *send) {
    RK_TRY(check_tag_is_free(e));
    for (int32_t i = 1; i < e->comm->size; i++) {
        int32_t r = (e->comm->rank + i) % e->comm->size;
        rk_mpi_part *part = (rk_mpi_part *)e->parts + r;
        *part = (rk_mpi_part){.sending = MPI_REQUEST_NULL, .receiving = MPI_REQUEST_NULL};
        if (e->taken[r]) continue;
        part->data = send[r].data;
        part->n_left = send[r].n_bytes;
        RK_TRY(send_piece(e, r));
    }
    return RK_OK;
}

rk_status rk_mpi_begin(rk_exchange *exchange, const rk_parcel *send, const bool *to, const bool *from) {
    (void)to, (void)from;
    rk_mpi_world *world = comm_of(exchange)->world;
    RK_TRY(give_self(exchange, &send[exchange->comm->rank]));
    pthread_mutex_lock(&world->shared->mutex);
    rk_status status = send_all(exchange, send);
    exchange->next = NULL;
    *world->end = exchange;
    world->end = &exchange->next;
    pthread_mutex_unlock(&world->shared->mutex);
    return status;
}

/* After an error: MPI may still write to buffers of what was under way, so they are never used again. The mutex is held. */
void rk_mpi_abandon(rk_exchange *exchange) {
    rk_mpi_world *world = comm_of(exchange)->world;
    for (rk_exchange **at = &world->first; *at; at = &(*at)->next) {
        if (*at != exchange) continue;
        unlink_from(world, at);
        break;
    }
    const rk_mpi_part *parts = exchange->parts;
    for (int32_t r = 0; r < exchange->comm->size; r++) {
        if (r != exchange->comm->rank && parts[r].receiving != MPI_REQUEST_NULL) exchange->received[r] = (rk_parcel){0};
    }
}
