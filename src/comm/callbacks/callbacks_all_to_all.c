/* Messages in rounds: all that has been begun since the last round goes to its ranks by two calls of the
 * caller's all_to_all, one for the sizes and one for the bytes. A rank that waits, or looks whether something
 * is done, makes rounds, each of which waits for every rank. So no rank waits for another for ever: the other
 * comes to its next wait, or to the end, where it makes rounds until all have come. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread/clock.h"
#include "comm/callbacks/callbacks_world.h"
#include "base/integers.h"

static const uint64_t magic = 0x3130646e756f726bu; /* "kround01" */
static const double most_idle_s = 1; /* that a round counts: a longer one waited for a rank that works */

static rk_callbacks_world *callbacks_world_of(const rk_all_to_all *e) {
    return ((rk_comm_of_callbacks *)e->comm)->world;
}

static int32_t world_size(const rk_callbacks_world *world) {
    return world->functions.size;
}

/* ---- What goes out. */

static void count_outgoing_bytes(rk_callbacks_world *world) {
    uint64_t n_messages = 0;
    memset(world->send_bytes, 0, (size_t)world_size(world) * sizeof *world->send_bytes);
    for (const rk_all_to_all *e = world->first; e; e = e->next)
        for (int32_t r = 0; r < e->comm->size; r++) {
            if (e->taken[r]) continue;
            const rk_message *part = (const rk_message *)e->parts + r;
            world->send_bytes[e->comm->peers[r].rank] +=
                sizeof(rk_round_message) + rk_round_up(part->n_bytes, 8);
            n_messages++;
        }
    for (int32_t r = 0; r < world_size(world); r++)
        world->told[r] = (rk_round_head){magic, world->functions.rank, world_size(world),
                                         world->send_bytes[r], n_messages};
}

static void write_message_with_head(const rk_all_to_all *e, const rk_message *part, char *to) {
    rk_round_message head = {((rk_comm_of_callbacks *)e->comm)->context, e->channel, e->sequence, 0,
                             part->n_bytes};
    memcpy(to, &head, sizeof head);
    if (part->n_bytes) memcpy(to + sizeof head, part->data, part->n_bytes);
    memset(to + sizeof head + part->n_bytes, 0, rk_round_up(part->n_bytes, 8) - part->n_bytes);
}

static void update_done_flag(rk_all_to_all *e) {
    bool done = true;
    for (int32_t r = 0; r < e->comm->size && done; r++) done = e->taken[r] && e->arrived[r];
    e->done = done;
}

static void unlink_done_all_to_alls(rk_callbacks_world *world) {
    for (rk_all_to_all **at = &world->first; *at;) {
        rk_all_to_all *e = *at;
        update_done_flag(e);
        if (!e->done) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        if (world->end == &e->next) world->end = at;
    }
}

/* In the order of ranks, and for a rank in that in which they were begun. Data is copied, so the caller has
 * it back at once. */
static rk_status pack_outgoing_messages(rk_callbacks_world *world) {
    count_outgoing_bytes(world);
    size_t total = 0;
    for (int32_t r = 0; r < world_size(world); r++) total += world->send_bytes[r];
    RK_TRY(rk_reserve(&world->send, &world->send_capacity, total, 1));
    size_t at = 0;
    for (int32_t to = 0; to < world_size(world); to++)
        for (rk_all_to_all *e = world->first; e && world->send_bytes[to]; e = e->next)
            for (int32_t r = 0; r < e->comm->size; r++) {
                if (e->taken[r] || e->comm->peers[r].rank != to) continue;
                const rk_message *part = (const rk_message *)e->parts + r;
                write_message_with_head(e, part, world->send + at);
                at += sizeof(rk_round_message) + rk_round_up(part->n_bytes, 8);
                e->taken[r] = true;
            }
    return RK_OK;
}

/* ---- What comes in. */

static rk_status invalid_answer_error(int32_t source, const char *what) {
    return rk_error_hint(rk_error(RK_BAD_DATA, "all_to_all gave back %s from rank %d", what, (int)source),
                         "receive takes each rank's message in the order of ranks, of receive_bytes[r]");
}

static rk_status check_message_heads(rk_callbacks_world *world, uint64_t *n_messages, size_t *total) {
    *n_messages = *total = 0;
    for (int32_t r = 0; r < world_size(world); r++) {
        const rk_round_head *head = &world->heard[r];
        if (head->magic != magic) return invalid_answer_error(r, "bytes that no rank sent");
        RK_FAIL_IF(head->size != world_size(world), RK_BAD_DATA, "rank %d is of %d ranks, this rank of %d",
                   (int)r, (int)head->size, (int)world_size(world));
        RK_FAIL_IF(head->rank != r, RK_BAD_DATA, "all_to_all gave back rank %d's message as rank %d's",
                   (int)head->rank, (int)r);
        if (head->n_bytes > PTRDIFF_MAX - *total || head->n_messages > UINT32_MAX)
            return invalid_answer_error(r, "an impossible size");
        world->receive_bytes[r] = (size_t)head->n_bytes;
        *total += (size_t)head->n_bytes;
        *n_messages += head->n_messages;
    }
    return RK_OK;
}

/* The first all_to_all that waits for this message; its number of the sender. */
static rk_all_to_all *find_receiving_all_to_all(const rk_callbacks_world *world, const rk_round_message *head,
                                                int32_t source, int32_t *member) {
    for (rk_all_to_all *e = world->first; e; e = e->next) {
        if (((rk_comm_of_callbacks *)e->comm)->context != head->context || e->channel != head->channel ||
            e->sequence != head->sequence)
            continue;
        for (int32_t r = 0; r < e->comm->size; r++)
            if (e->comm->peers[r].rank == source && !e->arrived[r]) {
                *member = r;
                return e;
            }
    }
    return NULL;
}

static void store_received_message(rk_all_to_all *e, int32_t member, void *data, size_t n_bytes) {
    e->received[member] = (rk_message){data, n_bytes};
    e->arrived[member] = true;
}

static rk_status queue_early_message(rk_callbacks_world *world, const rk_round_message *head, int32_t source,
                                     void *data) {
    rk_early_message *early;
    RK_TRY(rk_alloc(1, sizeof *early, &early));
    *early = (rk_early_message){*head, source, data, NULL};
    *world->early_end = early;
    world->early_end = &early->next;
    return RK_OK;
}

static rk_status deliver_message(rk_callbacks_world *world, const rk_round_message *head, int32_t source,
                                 const char *from) {
    void *data = NULL;
    int32_t member;
    if (head->n_bytes) {
        RK_TRY(rk_message_pool_acquire(&world->shared->pool, head->n_bytes, &data));
        memcpy(data, from, head->n_bytes);
    }
    if (head->channel == RK_CHANNEL_FAREWELL) world->left[source] = true;
    rk_all_to_all *e = find_receiving_all_to_all(world, head, source, &member);
    if (e) {
        store_received_message(e, member, data, head->n_bytes);
        return RK_OK;
    }
    rk_status status = queue_early_message(world, head, source, data);
    if (status != RK_OK) rk_message_pool_return(&world->shared->pool, data);
    return status;
}

static rk_status unpack_received_messages(rk_callbacks_world *world) {
    const char *from = world->receive;
    for (int32_t r = 0; r < world_size(world); r++) {
        size_t left = world->receive_bytes[r];
        while (left) {
            rk_round_message head;
            if (left < sizeof head) return invalid_answer_error(r, "half a message");
            memcpy(&head, from, sizeof head);
            left -= sizeof head;
            if (head.n_bytes > left || rk_round_up(head.n_bytes, 8) > left || head.zero || head.channel < 0 ||
                head.channel >= RK_ALL_CHANNELS)
                return invalid_answer_error(r, "bytes that are no message");
            RK_TRY(deliver_message(world, &head, r, from + sizeof head));
            from += sizeof head + rk_round_up(head.n_bytes, 8);
            left -= rk_round_up(head.n_bytes, 8);
        }
    }
    return RK_OK;
}

/* ---- A round. */

static rk_status call_all_to_all(const rk_callbacks_world *world, const void *send, const size_t *send_bytes,
                                 void *receive, const size_t *receive_bytes) {
    int code = world->functions.all_to_all(world->functions.user, send, send_bytes, receive, receive_bytes);
    RK_FAIL_IF(code != 0, RK_PEER_LOST, "all_to_all, a function of the caller's, returned %d", code);
    return RK_OK;
}

static rk_status run_under_mutex(rk_callbacks_world *world, rk_status (*work)(rk_callbacks_world *world)) {
    pthread_mutex_lock(&world->shared->mutex);
    rk_status status = work(world);
    unlink_done_all_to_alls(world);
    pthread_mutex_unlock(&world->shared->mutex);
    return status;
}

static rk_status run_all_to_all_round(rk_callbacks_world *world) {
    double begin = rk_clock_seconds();
    uint64_t n_messages;
    size_t total;
    RK_TRY(run_under_mutex(world, pack_outgoing_messages));
    RK_TRY(call_all_to_all(world, world->told, world->head_bytes, world->heard, world->head_bytes));
    RK_TRY(check_message_heads(world, &n_messages, &total));
    if (n_messages == 0) { /* every rank knows so */
        double s = rk_clock_seconds() - begin;
        world->idle_s += s < most_idle_s ? s : most_idle_s;
        return RK_OK;
    }
    world->idle_s = 0;
    RK_TRY(rk_reserve(&world->receive, &world->receive_capacity, total, 1));
    RK_TRY(call_all_to_all(world, world->send, world->send_bytes, world->receive, world->receive_bytes));
    return run_under_mutex(world, unpack_received_messages);
}

/* A rank that has freed its communicator sends no more; and where all ranks have looked for messages for as
 * long as the time limit and nobody had any, nobody will. */
static rk_status check_ranks_not_lost(rk_callbacks_world *world, const rk_all_to_all *e) {
    const char *name = rk_channel_name(e->channel);
    for (int32_t r = 0; r < e->comm->size && !e->done; r++) {
        int32_t rank = e->comm->peers[r].rank;
        if (e->arrived[r]) continue;
        RK_FAIL_IF(world->left[rank], RK_PEER_LOST, "rank %d (host %s) ended before it sent its part of '%s'",
                   (int)rank, e->comm->peers[r].host, name);
        RK_FAIL_IF(world->idle_s > e->comm->timeout_s, RK_PEER_LOST,
                   "rank %d (host %s) did not send its part of '%s' within %g s", (int)rank,
                   e->comm->peers[r].host, name, e->comm->timeout_s);
    }
    return RK_OK;
}

static rk_status run_round_unless_done(rk_all_to_all *e) {
    rk_callbacks_world *world = callbacks_world_of(e);
    RK_TRY(rk_comm_check_failure(e->comm)); /* by another thread meanwhile */
    if (rk_all_to_all_is_done(e)) return RK_OK;
    rk_status status = run_all_to_all_round(world);
    pthread_mutex_lock(&world->shared->mutex);
    if (status == RK_OK) status = check_ranks_not_lost(world, e);
    pthread_mutex_unlock(&world->shared->mutex);
    return status == RK_OK ? RK_OK : rk_comm_record_failure(e->comm, status);
}

rk_status rk_callbacks_all_to_all_test(rk_all_to_all *e, bool *done) {
    rk_callbacks_world *world = callbacks_world_of(e);
    RK_TRY(rk_comm_check_failure(e->comm));
    *done = rk_all_to_all_is_done(e);
    if (*done) return RK_OK;
    pthread_mutex_lock(&world->round_mutex);
    rk_status status = run_round_unless_done(e);
    pthread_mutex_unlock(&world->round_mutex);
    *done = status == RK_OK && rk_all_to_all_is_done(e);
    return status;
}

static void deliver_early_messages(rk_callbacks_world *world) {
    for (rk_early_message **at = &world->early; *at;) {
        rk_early_message *early = *at;
        int32_t member;
        rk_all_to_all *e = find_receiving_all_to_all(world, &early->head, early->source, &member);
        if (!e) {
            at = &early->next;
            continue;
        }
        store_received_message(e, member, early->data, early->head.n_bytes);
        *at = early->next;
        if (world->early_end == &early->next) world->early_end = at;
        rk_free(early);
    }
}

rk_status rk_callbacks_all_to_all_begin(rk_all_to_all *e, const rk_message *send, const bool *to,
                                        const bool *from) {
    (void)to, (void)from;
    rk_callbacks_world *world = callbacks_world_of(e);
    RK_TRY(rk_all_to_all_deliver_to_self(e, send));
    memcpy(e->parts, send, (size_t)e->comm->size * sizeof *send);
    pthread_mutex_lock(&world->shared->mutex);
    e->next = NULL;
    *world->end = e;
    world->end = &e->next;
    deliver_early_messages(world);
    unlink_done_all_to_alls(world);
    pthread_mutex_unlock(&world->shared->mutex);
    return RK_OK;
}

/* The mutex is held. */
void rk_callbacks_all_to_all_abandon(rk_all_to_all *e) {
    rk_callbacks_world *world = callbacks_world_of(e);
    for (rk_all_to_all **at = &world->first; *at; at = &(*at)->next) {
        if (*at != e) continue;
        *at = e->next;
        if (world->end == &e->next) world->end = at;
        return;
    }
}
