#include "embedding/redis/redis_client.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread/clock.h"
#include "embedding/redis/redis_node.h"
#include "embedding/redis/redis_slot_map.h"

enum {
    ONCE = 16384,          /* commands that are under way at once, */
    ONCE_BYTES = 16 << 20, /* and bytes of values that they bring */
    MAX_KEY_BYTES = 1024,
    MAX_ROUNDS = 16, /* a slot that moves sends a command on */
    MAX_NODES = 1000
};

struct rk_redis {
    rk_redis_node *nodes[MAX_NODES]; /* [n_nodes]; the first is the one that the URL names; an exchange that
                                      * goes through them may add some */
    size_t n_nodes;
    rk_redis_address_cache *known;
    bool is_cluster, knows_slots;
    rk_slot_map slots;
    /* of the commands under way: */
    const rk_redis_command *commands;
    size_t *pending, *later; /* [n_pending], [n_later]: those to be sent now, and in the next round */
    int32_t *asked;          /* [commands]: the node that a slot which moves has them at; else -1 */
    size_t n_pending, n_later, pending_capacity, later_capacity, asked_capacity;
};

static rk_status find_or_add_node(rk_redis *r, const char *host, size_t host_bytes, int port, int32_t *out) {
    for (size_t i = 0; i < r->n_nodes; i++)
        if (r->nodes[i]->port == port && strlen(r->nodes[i]->host) == host_bytes &&
            memcmp(r->nodes[i]->host, host, host_bytes) == 0) {
            *out = (int32_t)i;
            return RK_OK;
        }
    RK_FAIL_IF(host_bytes == 0 || host_bytes >= RK_REDIS_HOST_BYTES || port < 1 || port > 65535,
               RK_UNAVAILABLE, "Redis named a node that cannot be one");
    r->knows_slots &= r->n_nodes < MAX_NODES; /* who learns them anew drops the nodes that are gone */
    RK_FAIL_IF(r->n_nodes == MAX_NODES, RK_UNAVAILABLE, "the Redis cluster has more than %d nodes",
               MAX_NODES);
    rk_redis_node *node;
    RK_TRY(rk_alloc(1, sizeof *node, &node));
    memcpy(node->host, host, host_bytes);
    node->port = port;
    node->known = r->known;
    node->descriptor = -1;
    *out = (int32_t)r->n_nodes;
    r->nodes[r->n_nodes++] = node;
    return RK_OK;
}

static void free_node(rk_redis_node *node) {
    rk_redis_node_release(node);
    rk_free(node);
}

rk_status rk_redis_create(const rk_redis_url *url, rk_redis_address_cache *known, rk_redis **out) {
    rk_redis *r;
    int32_t first;
    RK_TRY(rk_alloc(1, sizeof *r, &r));
    r->known = known;
    rk_status status = find_or_add_node(r, url->host, strlen(url->host), url->port, &first);
    if (status == RK_OK)
        *out = r;
    else
        rk_redis_free(r);
    return status;
}

void rk_redis_free(rk_redis *r) {
    if (!r) return;
    for (size_t i = 0; i < r->n_nodes; i++) free_node(r->nodes[i]);
    RK_FREE_ALL(r->pending, r->later, r->asked, r);
}

static rk_status node_error(const rk_redis_node *node) {
    return rk_error(RK_UNAVAILABLE, "Redis at %s:%d: %s", node->host, node->port, node->reason);
}

/* One line of CLUSTER SLOTS: first slot, last slot, [host, port, ...] of the master, then of replicas. */
static rk_status read_slot_range(rk_redis *r, const rk_redis_node *from, const redisReply *line) {
    const redisReply *master =
        line->type == REDIS_REPLY_ARRAY && line->elements >= 3 ? line->element[2] : NULL;
    bool is = master && line->element[0]->type == REDIS_REPLY_INTEGER &&
              line->element[1]->type == REDIS_REPLY_INTEGER && master->type == REDIS_REPLY_ARRAY &&
              master->elements >= 2 && master->element[1]->type == REDIS_REPLY_INTEGER;
    RK_FAIL_IF(!is, RK_UNAVAILABLE, "Redis at %s:%d: its slots are not such", from->host, from->port);
    const redisReply *name = master->element[0];
    bool named = name->type == REDIS_REPLY_STRING && name->len > 0; /* else: the one that was asked */
    long long port = master->element[1]->integer;
    int32_t node;
    RK_TRY(find_or_add_node(r, named ? name->str : from->host, named ? (size_t)name->len : strlen(from->host),
                            port > 0 && port < 65536 ? (int)port : 0, &node));
    rk_redis_slot_map_set_range(&r->slots, line->element[0]->integer, line->element[1]->integer, node);
    return RK_OK;
}

static rk_status read_cluster_slots(void *context, rk_redis_node *node, size_t number,
                                    const redisReply *reply) {
    rk_redis *r = context;
    (void)number;
    r->is_cluster = reply->type == REDIS_REPLY_ARRAY;
    if (reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "cluster support disabled")) {
        r->knows_slots = true;
        return RK_OK;
    }
    RK_FAIL_IF(!r->is_cluster, RK_UNAVAILABLE, "Redis at %s:%d: %s", node->host, node->port,
               reply->type == REDIS_REPLY_ERROR ? reply->str : "it does not say its slots");
    rk_redis_slot_map_clear(&r->slots);
    for (size_t i = 0; i < reply->elements; i++) RK_TRY(read_slot_range(r, node, reply->element[i]));
    r->knows_slots = true;
    return RK_OK;
}

static bool node_has_slots(const rk_redis *r, size_t node) {
    if (!r->is_cluster) return node == 0;
    for (int32_t s = 0; s < RK_REDIS_SLOTS; s++)
        if (r->slots.nodes[s] == (int32_t)node) return true;
    return false;
}

/* A failover leaves a node behind: what no longer has slots goes, but for the one that the URL names.
 * Commands that a slot on its way had sent elsewhere ask anew. */
static void drop_nodes_without_slots(rk_redis *r) {
    size_t n = 1;
    for (size_t i = 0; i < r->n_pending; i++) r->asked[r->pending[i]] = -1;
    for (size_t i = 1; i < r->n_nodes; i++) {
        if (!node_has_slots(r, i)) {
            free_node(r->nodes[i]);
            continue;
        }
        for (int32_t s = 0; s < RK_REDIS_SLOTS; s++)
            if (r->slots.nodes[s] == (int32_t)i) r->slots.nodes[s] = (int32_t)n;
        r->nodes[n++] = r->nodes[i];
    }
    r->n_nodes = n;
}

/* Asks the nodes for their slots, one after another, until one says. */
static rk_status fetch_cluster_slots(rk_redis *r, const rk_redis_wait *wait) {
    static const rk_span words[] = {{"CLUSTER", 7}, {"SLOTS", 5}};
    rk_status status = RK_OK;
    size_t n_nodes = r->n_nodes;
    for (size_t i = 0; i < n_nodes && !r->knows_slots; i++) {
        rk_redis_node *node = r->nodes[i];
        double now = rk_clock_seconds(), share = (wait->until - now) / (double)(n_nodes - i);
        const rk_redis_wait one = {now + share, wait->cancel};
        node->failed = false;
        status = rk_redis_node_queue_command(node, 2, words, 0);
        if (status == RK_OK) status = rk_redis_nodes_exchange_commands(&node, 1, &one, read_cluster_slots, r);
        if (status == RK_OK && node->failed) status = node_error(node);
        if (node->n_queued) rk_redis_node_close(node);
        if (status != RK_OK && status != RK_UNAVAILABLE) return status;
    }
    if (!r->knows_slots) return status;
    drop_nodes_without_slots(r);
    return RK_OK;
}

static rk_status format_redis_key(const rk_redis_command *c, char out[MAX_KEY_BYTES], rk_span *key) {
    int n = c->number < 0 ? snprintf(out, MAX_KEY_BYTES, "%s", c->key)
                          : snprintf(out, MAX_KEY_BYTES, "%s%lld", c->key, (long long)c->number);
    RK_FAIL_IF(n < 0 || n >= MAX_KEY_BYTES, RK_INVALID_ARGUMENT, "the key '%.100s...' is too long for Redis",
               c->key);
    *key = (rk_span){out, (size_t)n};
    return RK_OK;
}

static rk_span format_number(int64_t number, char out[32]) {
    return (rk_span){out, (size_t)snprintf(out, 32, "%lld", (long long)number)};
}

static rk_status queue_command(rk_redis *r, size_t number) {
    static const rk_span verbs[] = {{"GET", 3}, {"GETRANGE", 8}, {"SET", 3}}, asking = {"ASKING", 6};
    const rk_redis_command *c = &r->commands[number];
    char text[MAX_KEY_BYTES], first[32], last[32];
    rk_span words[4] = {verbs[c->verb]};
    int n_words = 2;
    RK_TRY(format_redis_key(c, text, &words[1]));
    if (c->verb == RK_REDIS_SET) words[n_words++] = (rk_span){c->data, (size_t)c->n_bytes};
    if (c->verb == RK_REDIS_GET_RANGE) {
        words[n_words++] = format_number(c->first, first);
        words[n_words++] = format_number(c->first + c->n_bytes - 1, last);
    }
    int32_t node = r->asked[number];
    if (node >= 0) RK_TRY(rk_redis_node_queue_command(r->nodes[node], 1, &asking, RK_REDIS_OWN_COMMAND));
    if (node < 0)
        node = r->is_cluster ? r->slots.nodes[rk_redis_slot_of_key(words[1].data, words[1].n_bytes)] : 0;
    RK_FAIL_IF(node < 0, RK_UNAVAILABLE, "no node of the Redis cluster has the slot of key '%s'", text);
    r->asked[number] = -1;
    return rk_redis_node_queue_command(r->nodes[node], n_words, words, number);
}

static rk_status follow_redirect(rk_redis *r, const rk_redis_node *from, size_t number, const char *error) {
    const char *address = NULL;
    int32_t slot = rk_redis_parse_redirect(error, &address), node;
    const char *colon = slot >= 0 && r->is_cluster ? strrchr(address, ':') : NULL;
    RK_FAIL_IF(!colon, RK_UNAVAILABLE, "Redis at %s:%d: %s", from->host, from->port, error);
    bool named = colon > address;
    RK_TRY(find_or_add_node(r, named ? address : from->host,
                            named ? (size_t)(colon - address) : strlen(from->host), atoi(colon + 1), &node));
    if (error[0] == 'A')
        r->asked[number] = node;
    else
        r->slots.nodes[slot] = node;
    r->later[r->n_later++] = number;
    return RK_OK;
}

static rk_status store_reply_value(const rk_redis_command *c, const redisReply *reply) {
    bool is_text = reply->type == REDIS_REPLY_STRING;
    if (c->verb == RK_REDIS_SET) return RK_OK;
    if (c->verb == RK_REDIS_GET) {
        if (is_text) rk_buffer_append(c->text, reply->str, (size_t)reply->len);
        return c->text->status;
    }
    RK_FAIL_IF(
        !is_text || (int64_t)reply->len != c->n_bytes, RK_UNAVAILABLE,
        "Redis has %lld bytes from byte %lld of '%s%lld' on, where %lld should be\nhint: rows are lost where "
        "maxmemory-policy is not noeviction, or keys were removed; export them again",
        is_text ? (long long)reply->len : 0LL, (long long)c->first, c->key, (long long)c->number,
        (long long)c->n_bytes);
    memcpy(c->out, reply->str, (size_t)c->n_bytes);
    return RK_OK;
}

static rk_status handle_reply(void *context, rk_redis_node *node, size_t number, const redisReply *reply) {
    rk_redis *r = context;
    if (reply->type == REDIS_REPLY_ERROR) return follow_redirect(r, node, number, reply->str);
    return store_reply_value(&r->commands[number], reply);
}

/* What a lost node did not answer is for the next round. A connection that had been idle may just have been
 * closed; a cluster may have another node for the slots; else that is all. */
static rk_status requeue_unanswered(rk_redis *r, rk_redis_node *node, int *n_lost) {
    bool again = node->reused || r->is_cluster;
    rk_status status = again && ++*n_lost <= 2 ? RK_OK : node_error(node);
    for (size_t i = node->n_answered; status == RK_OK && i < node->n_queued; i++)
        if (node->queue[i] != RK_REDIS_OWN_COMMAND) r->later[r->n_later++] = node->queue[i];
    rk_redis_node_close(node);
    node->failed = false;
    r->knows_slots &= !r->is_cluster;
    return status;
}

static rk_status run_round_trip(rk_redis *r, const rk_redis_wait *wait, int *n_lost) {
    rk_status status = r->knows_slots ? RK_OK : fetch_cluster_slots(r, wait);
    r->n_later = 0;
    for (size_t i = 0; i < r->n_nodes; i++) r->nodes[i]->failed = false;
    for (size_t i = 0; status == RK_OK && i < r->n_pending; i++) status = queue_command(r, r->pending[i]);
    if (status == RK_OK)
        status = rk_redis_nodes_exchange_commands(r->nodes, r->n_nodes, wait, handle_reply, r);
    for (size_t i = 0; i < r->n_nodes; i++) {
        if (status != RK_OK && r->nodes[i]->n_queued) rk_redis_node_close(r->nodes[i]);
        if (status == RK_OK && r->nodes[i]->failed) status = requeue_unanswered(r, r->nodes[i], n_lost);
    }
    return status;
}

static rk_status run_commands(rk_redis *r, size_t n, const rk_redis_wait *wait) {
    int n_lost = 0;
    RK_TRY(rk_reserve(&r->pending, &r->pending_capacity, n, sizeof *r->pending));
    RK_TRY(rk_reserve(&r->later, &r->later_capacity, n, sizeof *r->later));
    RK_TRY(rk_reserve(&r->asked, &r->asked_capacity, n, sizeof *r->asked));
    for (size_t i = 0; i < n; i++) {
        r->pending[i] = i;
        r->asked[i] = -1;
    }
    r->n_pending = n;
    for (int round = 0; r->n_pending; round++) {
        RK_FAIL_IF(round == MAX_ROUNDS, RK_UNAVAILABLE, "the Redis cluster sends commands round and round");
        RK_TRY(run_round_trip(r, wait, &n_lost));
        memcpy(r->pending, r->later, r->n_later * sizeof *r->pending);
        r->n_pending = r->n_later;
    }
    return RK_OK;
}

static rk_redis_wait make_deadline(const rk_redis_limits *limits) {
    return (rk_redis_wait){rk_clock_seconds() + limits->timeout, limits->cancel};
}

rk_status rk_redis_run_commands(rk_redis *r, const rk_redis_command *commands, size_t n,
                                const rk_redis_limits *limits) {
    const rk_redis_wait wait = make_deadline(limits);
    for (size_t done = 0, some; done < n; done += some) {
        int64_t n_bytes = 0;
        for (some = 0; done + some < n && some < ONCE && n_bytes < ONCE_BYTES; some++)
            n_bytes += commands[done + some].n_bytes;
        r->commands = commands + done;
        RK_TRY(run_commands(r, some, &wait));
    }
    return RK_OK;
}

static rk_status handle_pong(void *context, rk_redis_node *node, size_t number, const redisReply *reply) {
    (void)context, (void)number;
    RK_FAIL_IF(reply->type == REDIS_REPLY_ERROR, RK_UNAVAILABLE, "Redis at %s:%d: %s", node->host, node->port,
               reply->str);
    return RK_OK;
}

static rk_status queue_pings(rk_redis *r) {
    static const rk_span ping = {"PING", 4};
    for (size_t i = 0; i < r->n_nodes; i++) {
        r->nodes[i]->failed = false;
        if (node_has_slots(r, i)) RK_TRY(rk_redis_node_queue_command(r->nodes[i], 1, &ping, 0));
    }
    return RK_OK;
}

rk_status rk_redis_ping(rk_redis *r, const rk_redis_limits *limits) {
    const rk_redis_wait wait = make_deadline(limits);
    r->knows_slots = false;
    RK_TRY(fetch_cluster_slots(r, &wait));
    for (int32_t s = 0; r->is_cluster && s < RK_REDIS_SLOTS; s++)
        RK_FAIL_IF(r->slots.nodes[s] < 0, RK_UNAVAILABLE, "no node of the Redis cluster has slot %d", (int)s);
    rk_status status = queue_pings(r);
    if (status == RK_OK)
        status = rk_redis_nodes_exchange_commands(r->nodes, r->n_nodes, &wait, handle_pong, r);
    for (size_t i = 0; i < r->n_nodes; i++) {
        if (status == RK_OK && r->nodes[i]->failed) status = node_error(r->nodes[i]);
        if (r->nodes[i]->n_queued) rk_redis_node_close(r->nodes[i]);
    }
    return status;
}
