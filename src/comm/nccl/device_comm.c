#include "comm/nccl/device_comm.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

/* Pinned memory of the host. */
typedef struct pinned {
    char *data;
    size_t n_bytes;
} pinned;

struct rk_device_comm {
    rk_comm *comm;
    rk_device *device;
    rk_nccl *nccl; /* NULL: through the host */
    pinned outgoing, incoming;
    rk_message *messages; /* [size] */
    uint64_t bytes_sent;  /* by NCCL */
    int32_t n_sharers;
    rk_status failed; /* not RK_OK: of no more use, because of `failure` */
    char failure[1024];
};

/* What ranks tell each other before NCCL is tried, so that all come to the same end. */
typedef struct offer {
    char gpu[16]; /* rk_device_info.id */
    bool has_nccl;
    char id[RK_NCCL_ID_BYTES];
} offer;

/* One id is made, by the first rank. */
static offer make_nccl_offer(const rk_device_comm *dc) {
    offer mine = {0};
    rk_device_info info;
    const char *wanted = getenv("RK_NCCL");
    if (rk_device_query(dc->device, &info) != RK_OK) return mine;
    memcpy(mine.gpu, info.id, sizeof mine.gpu); /* who shares a GPU shares its memory, with NCCL or without */
    if (wanted && strcmp(wanted, "off") == 0) return mine;
    mine.has_nccl = rk_nccl_load() == RK_OK && (dc->comm->rank > 0 || rk_nccl_new_id(mine.id) == RK_OK);
    return mine;
}

/* NCCL on every rank, each with a GPU of its own. */
static bool can_use_nccl(const rk_device_comm *dc, const rk_message *offers) {
    const char *why = NULL;
    int32_t who = 0;
    for (int32_t a = 0; a < dc->comm->size && !why; a++) {
        const offer *one = offers[a].data;
        who = a;
        if (!one->has_nccl) why = "has no NCCL";
        for (int32_t b = 0; b < a && !why; b++)
            if (memcmp(one->gpu, ((const offer *)offers[b].data)->gpu, sizeof one->gpu) == 0)
                why = "shares its GPU with another";
    }
    if (why && dc->comm->rank == 0)
        rk_log(RK_LOG_WARNING, "GPUs exchange data through host memory, which is slower: rank %d %s",
               (int)dc->comm->peers[who].rank, why);
    return !why;
}

static rk_status join_nccl(rk_device_comm *dc) {
    offer mine = make_nccl_offer(dc);
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *offers = NULL;
    RK_TRY(rk_comm_all_gather(dc->comm, RK_CHANNEL_ROWS, &mine, sizeof mine, &offers));
    const rk_message *received = rk_all_to_all_received_messages(offers);
    rk_status status = RK_OK;
    for (int32_t r = 0; r < dc->comm->size && status == RK_OK; r++) {
        offer theirs = {0};
        status = rk_all_to_all_copy_message(offers, r, sizeof theirs, &theirs);
        dc->n_sharers += status == RK_OK && memcmp(theirs.gpu, mine.gpu, sizeof mine.gpu) == 0;
    }
    if (status == RK_OK && can_use_nccl(dc, received))
        status = rk_nccl_create(dc->device, ((const offer *)received[0].data)->id, dc->comm->rank,
                                dc->comm->size, &dc->nccl);
    return rk_comm_agree_on_status(dc->comm, status);
}

rk_status rk_device_comm_create(rk_comm *comm, rk_device *device, rk_device_comm **out) {
    rk_device_comm *dc;
    rk_status status;
    RK_TRY(rk_alloc(1, sizeof *dc, &dc));
    dc->comm = comm;
    dc->device = device;
    RK_GOTO(rk_alloc((size_t)comm->size, sizeof *dc->messages, &dc->messages));
    RK_GOTO(join_nccl(dc));
    *out = dc;
    return RK_OK;
done:
    rk_device_comm_free(dc);
    return status;
}

void rk_device_comm_free(rk_device_comm *dc) {
    if (!dc) return;
    rk_nccl_free(dc->nccl);
    rk_device_free_host(dc->device, dc->outgoing.data);
    rk_device_free_host(dc->device, dc->incoming.data);
    RK_FREE_ALL(dc->messages, dc);
}

int32_t rk_device_comm_ranks_on_gpu(const rk_device_comm *dc) {
    return dc->n_sharers;
}

uint64_t rk_device_comm_bytes_sent(const rk_device_comm *dc) {
    return dc->bytes_sent;
}

static rk_status check_not_failed(const rk_device_comm *dc) {
    return dc->failed == RK_OK ? RK_OK : rk_error(dc->failed, "%s", dc->failure);
}

static rk_status record_failure(rk_device_comm *dc, rk_status status) {
    if (status == RK_OK || dc->failed != RK_OK) return status;
    dc->failed = status;
    rk_error_copy(dc->failure, sizeof dc->failure);
    return status;
}

/* Nothing of an earlier call is under way. */
static rk_status reserve_pinned_memory(rk_device_comm *dc, pinned *memory, size_t n_bytes) {
    if (n_bytes <= memory->n_bytes) return RK_OK;
    rk_device_free_host(dc->device, memory->data);
    *memory = (pinned){0};
    n_bytes += n_bytes / 4;
    RK_TRY(rk_device_alloc_host(dc->device, n_bytes, &memory->data));
    memory->n_bytes = n_bytes;
    return RK_OK;
}

static size_t total_message_bytes(const rk_device_message *messages, size_t n) {
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += messages[i].n_bytes;
    return bytes;
}

/* What is for one rank stands together, in the order of the list; this rank's own messages are copied from
 * place to place. */
static void download_messages(rk_device_comm *dc, rk_stream *stream, const rk_device_message *send,
                              size_t n_send) {
    size_t at = 0;
    for (int32_t r = 0; r < dc->comm->size; r++) {
        size_t begin = at;
        for (size_t i = 0; i < n_send; i++) {
            if (send[i].rank != r || r == dc->comm->rank) continue;
            rk_stream_download(stream, dc->outgoing.data + at, send[i].data, send[i].n_bytes);
            at += send[i].n_bytes;
        }
        dc->messages[r] = (rk_message){dc->outgoing.data + begin, at - begin};
    }
}

static rk_status upload_messages(rk_device_comm *dc, rk_stream *stream, const rk_device_message *receive,
                                 size_t n_receive, const rk_message *from) {
    char *to = dc->incoming.data;
    for (int32_t r = 0; r < dc->comm->size; r++) {
        size_t n_bytes = 0;
        for (size_t i = 0; i < n_receive; i++)
            n_bytes += receive[i].rank == r && r != dc->comm->rank ? receive[i].n_bytes : 0;
        RK_FAIL_IF(n_bytes != from[r].n_bytes, RK_INTERNAL, "rank %d sent %zu bytes of a GPU, not %zu",
                   (int)r, from[r].n_bytes, n_bytes);
        if (n_bytes) memcpy(to, from[r].data, n_bytes);
        for (size_t i = 0; i < n_receive; i++) {
            if (receive[i].rank != r || r == dc->comm->rank) continue;
            rk_stream_upload(stream, receive[i].data, to, receive[i].n_bytes);
            to += receive[i].n_bytes;
        }
    }
    return RK_OK;
}

static rk_status all_to_all_by_host(rk_device_comm *dc, rk_stream *stream, const rk_device_message *send,
                                    size_t n_send, const rk_device_message *receive, size_t n_receive) {
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    RK_TRY(rk_stream_sync(stream)); /* the last call's copies too */
    RK_TRY(reserve_pinned_memory(dc, &dc->outgoing, total_message_bytes(send, n_send)));
    RK_TRY(reserve_pinned_memory(dc, &dc->incoming, total_message_bytes(receive, n_receive)));
    download_messages(dc, stream, send, n_send);
    RK_TRY(rk_stream_sync(stream));
    RK_TRY(rk_all_to_all_begin(dc->comm, RK_CHANNEL_ROWS, dc->messages, NULL, NULL, &all_to_all));
    RK_TRY(rk_all_to_all_wait(all_to_all));
    return upload_messages(dc, stream, receive, n_receive, rk_all_to_all_received_messages(all_to_all));
}

/* This rank's own: the first of the one list is the first of the other. */
static void copy_own_messages(const rk_device_comm *dc, rk_stream *stream, const rk_device_message *send,
                              size_t n_send, const rk_device_message *receive, size_t n_receive) {
    size_t to = 0;
    for (size_t i = 0; i < n_send; i++) {
        if (send[i].rank != dc->comm->rank) continue;
        while (to < n_receive && receive[to].rank != dc->comm->rank) to++;
        if (to < n_receive && receive[to].data != send[i].data)
            rk_stream_copy(stream, receive[to].data, send[i].data, send[i].n_bytes);
        to++;
    }
}

rk_status rk_device_comm_all_to_all(rk_device_comm *dc, rk_stream *stream, const rk_device_message *send,
                                    size_t n_send, const rk_device_message *receive, size_t n_receive) {
    RK_TRY(check_not_failed(dc));
    copy_own_messages(dc, stream, send, n_send, receive, n_receive);
    if (!dc->nccl)
        return record_failure(dc, all_to_all_by_host(dc, stream, send, n_send, receive, n_receive));
    for (size_t i = 0; i < n_send; i++)
        dc->bytes_sent += send[i].rank == dc->comm->rank ? 0 : send[i].n_bytes;
    rk_nccl_all_to_all(dc->nccl, stream, send, n_send, receive, n_receive);
    return RK_OK;
}

static rk_status all_reduce_by_host(rk_device_comm *dc, rk_stream *stream, float *values, size_t n) {
    size_t n_bytes = n * sizeof *values;
    RK_TRY(rk_stream_sync(stream));
    RK_TRY(reserve_pinned_memory(dc, &dc->outgoing, n_bytes));
    rk_stream_download(stream, dc->outgoing.data, values, n_bytes);
    RK_TRY(rk_stream_sync(stream));
    RK_TRY(rk_comm_all_reduce_f32(dc->comm, (float *)(void *)dc->outgoing.data, n));
    rk_stream_upload(stream, values, dc->outgoing.data, n_bytes);
    return RK_OK;
}

rk_status rk_device_comm_all_reduce(rk_device_comm *dc, rk_stream *stream, float *values, size_t n) {
    RK_TRY(check_not_failed(dc));
    if (!n) return RK_OK;
    if (!dc->nccl) return record_failure(dc, all_reduce_by_host(dc, stream, values, n));
    dc->bytes_sent +=
        2 * n * sizeof *values * (size_t)(dc->comm->size - 1) / (size_t)dc->comm->size; /* of a ring's rank */
    rk_nccl_all_reduce(dc->nccl, stream, values, n);
    return RK_OK;
}

static rk_status all_gather_by_host(rk_device_comm *dc, rk_stream *stream, const void *mine, size_t n_bytes,
                                    char *all) {
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    RK_TRY(rk_stream_sync(stream));
    RK_TRY(reserve_pinned_memory(dc, &dc->outgoing, n_bytes));
    RK_TRY(reserve_pinned_memory(dc, &dc->incoming, (size_t)dc->comm->size * n_bytes));
    rk_stream_download(stream, dc->outgoing.data, mine, n_bytes);
    RK_TRY(rk_stream_sync(stream));
    RK_TRY(rk_comm_all_gather(dc->comm, RK_CHANNEL_ROWS, dc->outgoing.data, n_bytes, &all_to_all));
    for (int32_t r = 0; r < dc->comm->size; r++)
        RK_TRY(rk_all_to_all_copy_message(all_to_all, r, n_bytes, dc->incoming.data + (size_t)r * n_bytes));
    rk_stream_upload(stream, all, dc->incoming.data, (size_t)dc->comm->size * n_bytes);
    return RK_OK;
}

rk_status rk_device_comm_all_gather(rk_device_comm *dc, rk_stream *stream, const void *mine, size_t n_bytes,
                                    void *all) {
    RK_TRY(check_not_failed(dc));
    if (!dc->nccl) return record_failure(dc, all_gather_by_host(dc, stream, mine, n_bytes, all));
    dc->bytes_sent += n_bytes * (size_t)(dc->comm->size - 1);
    rk_nccl_all_gather(dc->nccl, stream, mine, n_bytes, all);
    return RK_OK;
}

rk_status rk_device_comm_wait(rk_device_comm *dc, rk_stream *stream) {
    RK_TRY(check_not_failed(dc));
    return record_failure(
        dc, dc->nccl ? rk_nccl_wait(dc->nccl, stream, dc->comm->timeout_s) : rk_stream_sync(stream));
}
