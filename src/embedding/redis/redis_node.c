#include "embedding/redis/redis_node.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread/clock.h"

enum {
    MAX_UNREAD_BYTES = 64 << 20, /* of an answer that has not ended: no row is longer */
    READ_BYTES = 64 << 10,
    MAX_NODES = 1024
};

static const double cancel_seconds = 0.1;

static void close_descriptor(rk_redis_node *node) {
    if (node->descriptor >= 0) close(node->descriptor);
    node->descriptor = -1;
}

static void disconnect(rk_redis_node *node) {
    if (!node->reader) return;
    close_descriptor(node);
    redisReaderFree(node->reader);
    node->reader = NULL;
    node->n_sent = 0;
    rk_buffer_clear(&node->output);
}

void rk_redis_node_close(rk_redis_node *node) {
    disconnect(node);
    node->n_queued = node->n_answered = 0;
}

void rk_redis_node_release(rk_redis_node *node) {
    rk_redis_node_close(node);
    rk_buffer_release(&node->output);
    rk_free(node->queue);
    *node = (rk_redis_node){0};
}

static void mark_node_failed(rk_redis_node *node, const char *reason) {
    if (!node->failed) snprintf(node->reason, sizeof node->reason, "%s", reason);
    node->failed = true;
    if (!node->connected)
        node->first += node->n_tried; /* an address that says nothing is the last next time */
    disconnect(node);
}

/* A command is an array of strings, each behind its length. */
static rk_status append_command(rk_redis_node *node, int n_words, const rk_span *words, size_t number) {
    RK_TRY(rk_reserve_one_more(&node->queue, node->n_queued, &node->capacity, sizeof *node->queue));
    node->queue[node->n_queued++] = number;
    if (!node->reader) return RK_OK;
    rk_buffer_printf(&node->output, "*%d\r\n", n_words);
    for (int i = 0; i < n_words; i++) {
        rk_buffer_printf(&node->output, "$%zu\r\n", words[i].n_bytes);
        rk_buffer_append(&node->output, words[i].data, words[i].n_bytes);
        rk_buffer_append(&node->output, "\r\n", 2);
    }
    return node->output.status;
}

static rk_span span_of_text(const char *text) {
    return (rk_span){text, strlen(text)};
}

static rk_status authenticate(rk_redis_node *node) {
    const char *user = getenv("RK_REDIS_USER"), *password = getenv("RK_REDIS_PASSWORD");
    if (!password) return RK_OK;
    const rk_span words[] = {span_of_text("AUTH"), span_of_text(user ? user : password),
                             span_of_text(password)};
    return append_command(node, user ? 3 : 2, words, RK_REDIS_OWN_COMMAND);
}

/* A socket whose connection is made, or under way. */
static int start_connecting(const rk_redis_address *address) {
    int one = 1, fd = socket(address->bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    if (connect(fd, (const struct sockaddr *)&address->bytes, address->n_bytes) == 0 || errno == EINPROGRESS)
        return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

/* To the next address of its host, where there is one; what is to be sent stays. */
static bool connect_to_next_address(rk_redis_node *node) {
    close_descriptor(node);
    while (node->descriptor < 0 && node->n_tried < node->n_addresses)
        node->descriptor =
            start_connecting(&node->addresses[(node->first + node->n_tried++) % node->n_addresses]);
    return node->descriptor >= 0;
}

static rk_status open_connection(rk_redis_node *node) {
    node->reused = node->connected = false;
    node->descriptor = -1;
    node->n_tried = 0;
    rk_status status =
        rk_redis_address_cache_get(node->known, node->host, node->port, node->addresses, &node->n_addresses);
    if (status == RK_UNAVAILABLE) {
        mark_node_failed(node, rk_last_error());
        return RK_OK;
    }
    RK_TRY(status);
    if (!connect_to_next_address(node)) {
        mark_node_failed(node, strerror(errno));
        return RK_OK;
    }
    node->reader = redisReaderCreate();
    if (!node->reader) {
        close_descriptor(node);
        return RK_NO_MEMORY_ERROR(sizeof *node->reader);
    }
    return authenticate(node);
}

rk_status rk_redis_node_queue_command(rk_redis_node *node, int n_words, const rk_span *words, size_t number) {
    rk_status status = node->reader || node->failed ? RK_OK : open_connection(node);
    if (status == RK_OK) status = append_command(node, n_words, words, number);
    if (status != RK_OK) rk_redis_node_close(node); /* half a command may be in its output */
    return status;
}

static bool is_awaiting_replies(const rk_redis_node *node) {
    return !node->failed && node->n_answered < node->n_queued;
}

static rk_status handle_auth_reply(rk_redis_node *node, const redisReply *reply) {
    if (reply->type == REDIS_REPLY_ERROR) mark_node_failed(node, reply->str);
    return RK_OK;
}

static rk_status handle_replies(rk_redis_node *node, rk_redis_reply_handler take, void *context) {
    rk_status status = RK_OK;
    while (status == RK_OK && is_awaiting_replies(node)) {
        void *reply = NULL;
        if (redisReaderGetReply(node->reader, &reply) != REDIS_OK) {
            mark_node_failed(node, node->reader->errstr);
            return RK_OK;
        }
        if (!reply) return RK_OK;
        size_t number = node->queue[node->n_answered++];
        node->reused = true;
        status = number == RK_REDIS_OWN_COMMAND ? handle_auth_reply(node, reply)
                                                : take(context, node, number, reply);
        freeReplyObject(reply);
    }
    return status;
}

static rk_status receive_replies(rk_redis_node *node, rk_redis_reply_handler take, void *context) {
    char bytes[READ_BYTES];
    ssize_t n = recv(node->descriptor, bytes, sizeof bytes, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return RK_OK;
    if (n <= 0 || redisReaderFeed(node->reader, bytes, (size_t)n) != REDIS_OK) {
        mark_node_failed(node, n == 0  ? "it closed the connection"
                               : n < 0 ? strerror(errno)
                                       : "memory ran out");
        return RK_OK;
    }
    RK_TRY(handle_replies(node, take, context));
    if (node->reader && node->reader->len - node->reader->pos > MAX_UNREAD_BYTES)
        mark_node_failed(node, "its answer is too long");
    return RK_OK;
}

static void send_pending_output(rk_redis_node *node) {
    rk_buffer *output = &node->output;
    ssize_t n =
        send(node->descriptor, output->data + node->n_sent, output->n_bytes - node->n_sent, MSG_NOSIGNAL);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) mark_node_failed(node, strerror(errno));
        return;
    }
    node->n_sent += (size_t)n;
    if (node->n_sent < output->n_bytes) return;
    node->n_sent = 0;
    rk_buffer_clear(output);
}

static bool has_unsent_output(const rk_redis_node *node) {
    return node->output.n_bytes > 0;
}

/* Those that wait for something into `polled`. */
static size_t list_nodes_to_poll(rk_redis_node **nodes, size_t n, struct pollfd *polled,
                                 rk_redis_node **waiting) {
    size_t n_waiting = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_awaiting_replies(nodes[i])) continue;
        waiting[n_waiting] = nodes[i];
        polled[n_waiting++] =
            (struct pollfd){.fd = nodes[i]->descriptor,
                            .events = (short)(POLLIN | (has_unsent_output(nodes[i]) ? POLLOUT : 0))};
    }
    return n_waiting;
}

/* Whether a connection that was under way is made; if not, another may be under way now. */
static bool finish_connecting(rk_redis_node *node) {
    int code = 0;
    socklen_t n_bytes = sizeof code;
    if (getsockopt(node->descriptor, SOL_SOCKET, SO_ERROR, &code, &n_bytes) != 0) code = errno;
    if (code == 0) {
        node->connected = true;
        node->first = (node->first + node->n_tried - 1) % node->n_addresses;
    } else if (!connect_to_next_address(node)) {
        mark_node_failed(node, strerror(code));
    }
    return code == 0;
}

static rk_status handle_poll_events(rk_redis_node *node, short events, rk_redis_reply_handler take,
                                    void *context) {
    if (!node->connected && !finish_connecting(node)) return RK_OK;
    if (events & (POLLOUT | POLLERR) && has_unsent_output(node))
        send_pending_output(node); /* a connection that failed says so */
    return node->reader && events & (POLLIN | POLLERR | POLLHUP) ? receive_replies(node, take, context)
                                                                 : RK_OK;
}

static void mark_nodes_failed(rk_redis_node **waiting, size_t n, const char *reason) {
    for (size_t i = 0; i < n; i++) mark_node_failed(waiting[i], reason);
}

static int poll_nodes(struct pollfd *polled, size_t n, const rk_redis_wait *wait) {
    double left = wait->until - rk_clock_seconds();
    if (wait->cancel && left > cancel_seconds) left = cancel_seconds;
    return left > 0 ? poll(polled, (nfds_t)n, (int)(left * 1e3) + 1) : 0;
}

static rk_status exchange_commands(rk_redis_node **nodes, size_t n, const rk_redis_wait *wait,
                                   rk_redis_reply_handler take, void *context) {
    struct pollfd polled[MAX_NODES];
    rk_redis_node *waiting[MAX_NODES];
    for (size_t n_waiting; (n_waiting = list_nodes_to_poll(nodes, n, polled, waiting)) > 0;) {
        RK_FAIL_IF(wait->cancel && atomic_load(wait->cancel), RK_INTERRUPTED, "the run was cancelled");
        int code = poll_nodes(polled, n_waiting, wait);
        if (code < 0 && errno == EINTR) continue;
        if (code == 0 && rk_clock_seconds() < wait->until) continue;
        if (code <= 0)
            mark_nodes_failed(waiting, n_waiting, code < 0 ? strerror(errno) : "no answer in time");
        for (size_t i = 0; code > 0 && i < n_waiting; i++)
            if (polled[i].revents) RK_TRY(handle_poll_events(waiting[i], polled[i].revents, take, context));
    }
    return RK_OK;
}

rk_status rk_redis_nodes_exchange_commands(rk_redis_node **nodes, size_t n, const rk_redis_wait *wait,
                                           rk_redis_reply_handler take, void *context) {
    RK_FAIL_IF(n > MAX_NODES, RK_UNSUPPORTED, "more than %d nodes of Redis", MAX_NODES);
    rk_status status = exchange_commands(nodes, n, wait, take, context);
    for (size_t i = 0; i < n; i++) {
        if (status != RK_OK && is_awaiting_replies(nodes[i])) rk_redis_node_close(nodes[i]);
        if (!nodes[i]->failed) nodes[i]->n_queued = nodes[i]->n_answered = 0;
    }
    return status;
}
