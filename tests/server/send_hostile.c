/* send_hostile PORT REQUESTS N [SEED [THREADS]]
 *
 * Sends N hostile requests (hostile_shapes.h) to a server on this machine, by several clients at once, each
 * of which sends a good one after some of them and wants the answer that is known to be right. REQUESTS: as
 * bench_http_load reads them; of each the first accepted answer counts.
 *
 * What the server may not do: answer a good request wrongly or not at all, answer what stands behind a
 * request whose framing is doubtful, answer anything with 500, or keep a connection open beyond its time. One
 * line of JSON in the end; the request that came before a failure goes to standard error, and the exit status
 * is 1. The requests of a client depend on the seed and its number alone. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/thread/clock.h"
#include "hostile_shapes.h"

enum {
    MOST_CLIENTS = 64,
    HOSTILE_A_GOOD_ONE = 25,
    MOST_PIECES = 20,
    PIECE_MS = 20,
    SOON_MS = 4,
    PATIENT_OF = 1000,
    MOST_STATUS = 600
};
#define FRESH_SECONDS 1
#define WAIT_SECONDS  30 /* longer than the server may take, on a machine that does other work too */

typedef struct test {
    int port, n_clients;
    long n;
    uint64_t seed;
    rk_span *good, *answers; /* [n_good] */
    size_t n_good;
    atomic_bool failed;
} test;

typedef struct connection {
    int socket; /* -1: none */
    double used_at;
} connection;

typedef struct client {
    test *t;
    pthread_t thread;
    rk_rng rng;
    connection kept, own; /* of hostile requests that are whole, and of good ones */
    hostile h;
    rk_buffer got;
    long n_good, by_kind[N_HOSTILE_KINDS], by_status[MOST_STATUS];
} client;

/* --- what went wrong ----------------------------------------------------------------------------------- */

static void print_escaped(FILE *to, const char *data, size_t n) {
    for (size_t i = 0; i < n && i < 1500; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c == '\n' || (c >= ' ' && c < 127))
            fputc(c, to);
        else
            fprintf(to, "\\x%02x", c);
    }
    fputc('\n', to);
}

static void fail(client *c, const char *why) {
    static const char *const names[] = {
#define KIND_NAME(name, what) #name,
        HOSTILE_KINDS(KIND_NAME)
#undef KIND_NAME
    };
    if (atomic_exchange(&c->t->failed, true)) return;
    fprintf(stderr, "%s, after a request of kind %s:\n", why, names[c->h.kind]);
    print_escaped(stderr, c->h.bytes.data, c->h.bytes.n_bytes);
    fprintf(stderr, "the answer:\n");
    print_escaped(stderr, c->got.n_bytes ? c->got.data : "", c->got.n_bytes);
}

/* --- connections --------------------------------------------------------------------------------------- */

static int open_socket(client *c) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)c->t->port)};
    struct timeval wait = {WAIT_SECONDS, 0};
    struct linger none = {1, 0}; /* an end by reset leaves no port behind that waits for a minute */
    int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (s < 0 || connect(s, (struct sockaddr *)&to, sizeof to) != 0) {
        fprintf(stderr, "cannot connect: %s\n", strerror(errno));
        fail(c, "the server is gone");
        if (s >= 0) close(s);
        return -1;
    }
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    setsockopt(s, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return s;
}

static void shut(connection *s) {
    if (s->socket >= 0) close(s->socket);
    s->socket = -1;
}

/* One that the server may be about to end, since nothing was asked for long, is left. */
static bool keep_open(client *c, connection *s) {
    double now = rk_clock_seconds();
    if (s->socket >= 0 && now - s->used_at > FRESH_SECONDS) shut(s);
    if (s->socket < 0) s->socket = open_socket(c);
    s->used_at = now;
    return s->socket >= 0;
}

/* Whether all could be sent. A server may close before it has read what it refuses. */
static bool send_all(int s, const char *data, size_t n) {
    for (ssize_t sent; n > 0; data += sent, n -= (size_t)sent) {
        sent = send(s, data, n, MSG_NOSIGNAL);
        if (sent <= 0) return false;
    }
    return true;
}

static bool send_slowly(client *c, int s, const rk_buffer *bytes) {
    struct timespec pause = {0, PIECE_MS * 1000000L};
    size_t at = 0;
    for (int piece = 0; piece < MOST_PIECES && at < bytes->n_bytes; piece++) {
        size_t n = 1 + rk_rng_below(&c->rng, 20), left = bytes->n_bytes - at;
        if (n > left) n = left;
        if (!send_all(s, bytes->data + at, n)) return false;
        at += n;
        nanosleep(&pause, NULL);
    }
    return send_all(s, bytes->data + at, bytes->n_bytes - at);
}

/* Receives once more: what recv says. */
static ssize_t receive(client *c, int s) {
    char *to = rk_buffer_extend(&c->got, 65536);
    if (!to) return -1;
    ssize_t n = recv(s, to, 65536, 0);
    c->got.n_bytes -= 65536 - (n > 0 ? (size_t)n : 0);
    return n;
}

/* What comes soon. Of doubtful framing, and now and then of others, all until the server ends the connection,
 * as it must in time: libmicrohttpd waits for more where a client's end came together with half a request. */
static void receive_all(client *c, int s) {
    struct pollfd readable = {.fd = s, .events = POLLIN};
    bool patient = c->h.refused || rk_rng_below(&c->rng, PATIENT_OF) == 0;
    int wait = patient ? WAIT_SECONDS * 1000 : SOON_MS;
    rk_buffer_clear(&c->got);
    while (poll(&readable, 1, wait) > 0) {
        if (receive(c, s) <= 0) return;
    }
    if (patient) fail(c, "the server keeps a connection beyond its time");
}

typedef struct answer {
    int status; /* 0: the connection ended before there was one */
    bool closes;
    rk_span body;
} answer;

static const char *find(rk_span in, const char *what) {
    return in.n_bytes ? memmem(in.data, in.n_bytes, what, strlen(what)) : NULL;
}

static int status_of(rk_span got) {
    bool is_http = got.n_bytes >= 12 && strncmp(got.data, "HTTP/1.", 7) == 0;
    return is_http ? atoi(got.data + 9) : 0;
}

/* One answer with a length, on a connection that stays. False: it was told what is wrong. */
static bool receive_answer(client *c, int s, answer *out) {
    const char *end, *length;
    *out = (answer){0};
    rk_buffer_clear(&c->got);
    while (!(end = find((rk_span){c->got.data, c->got.n_bytes}, "\r\n\r\n"))) {
        ssize_t n = receive(c, s);
        if (n < 0 && errno == EAGAIN) {
            fail(c, "no answer came");
            return false;
        }
        if (n <= 0) return true;
    }
    rk_span head = {c->got.data, (size_t)(end + 4 - c->got.data)};
    size_t n_head = head.n_bytes;
    out->status = status_of(head);
    out->closes = find(head, "Connection: close") || find(head, "Connection: Close");
    length = find(head, "Content-Length: ");
    size_t n_body = length ? strtoull(length + 16, NULL, 10) : 0;
    while (c->got.n_bytes < n_head + n_body)
        if (receive(c, s) <= 0) {
            fail(c, "an answer ends before its length");
            return false;
        }
    out->body = (rk_span){c->got.data + n_head, c->got.n_bytes - n_head};
    if (out->body.n_bytes > n_body) {
        fail(c, "two answers to one request");
        return false;
    }
    return true;
}

static void count_status(client *c, int status) {
    if (status >= 0 && status < MOST_STATUS) c->by_status[status]++;
    if (status == 500) fail(c, "an internal error");
}

/* --- requests ------------------------------------------------------------------------------------------ */

/* A whole request: it has one answer, and others may follow on the connection. */
static void send_framed(client *c) {
    answer a;
    if (!keep_open(c, &c->kept)) return;
    send_all(c->kept.socket, c->h.bytes.data, c->h.bytes.n_bytes);
    if (!receive_answer(c, c->kept.socket, &a)) return;
    count_status(c, a.status);
    if (a.status == 0) fail(c, "a whole request has no answer");
    if (a.closes || a.status == 0) shut(&c->kept);
}

/* What the server may take for anything: a connection of its own. Behind doubtful framing the client does not
 * say that it has ended, and it is the server that must end. */
static void send_loose(client *c) {
    connection own = {open_socket(c), 0};
    int s = own.socket;
    if (s < 0) return;
    bool slow = c->h.kind == HOSTILE_SLOW;
    bool sent = slow ? send_slowly(c, s, &c->h.bytes) : send_all(s, c->h.bytes.data, c->h.bytes.n_bytes);
    if (sent && !c->h.refused) shutdown(s, SHUT_WR);
    if (!c->h.reset) {
        receive_all(c, s);
        rk_span got = {c->got.data, c->got.n_bytes};
        int status = status_of(got);
        count_status(c, status);
        if (find(got, "HTTP/1.1 500")) fail(c, "an internal error");
        if (c->h.refused && (find(got, "reckon_requests_total") || (got.n_bytes && status < 400)))
            fail(c, "doubtful framing was taken");
    }
    shut(&own);
}

static void send_good(client *c) {
    size_t which = rk_rng_below(&c->rng, c->t->n_good);
    rk_span request = c->t->good[which], wanted = c->t->answers[which];
    answer a;
    if (!keep_open(c, &c->own)) return;
    if (!send_all(c->own.socket, request.data, request.n_bytes)) fail(c, "a good request could not be sent");
    if (!receive_answer(c, c->own.socket, &a)) return;
    bool same = a.body.n_bytes == wanted.n_bytes && memcmp(a.body.data, wanted.data, wanted.n_bytes) == 0;
    if (a.status != 200 || !same) fail(c, "a good request was answered wrongly");
    c->n_good++;
}

static void *run_client(void *argument) {
    client *c = argument;
    for (long i = 0; i < c->t->n / c->t->n_clients && !atomic_load(&c->t->failed); i++) {
        hostile_draw(&c->rng, c->t->good, c->t->n_good, &c->h);
        if (c->h.bytes.status != RK_OK) fail(c, "memory ran out");
        c->by_kind[c->h.kind]++;
        (c->h.framed ? send_framed : send_loose)(c);
        if (i % HOSTILE_A_GOOD_ONE == 0) send_good(c);
    }
    shut(&c->kept);
    shut(&c->own);
    rk_buffer_release(&c->h.bytes);
    rk_buffer_release(&c->got);
    return NULL;
}

/* --- the whole ----------------------------------------------------------------------------------------- */

static rk_span take(rk_span *file) {
    uint32_t n = 0;
    if (file->n_bytes >= sizeof n) memcpy(&n, file->data, sizeof n);
    if (file->n_bytes < sizeof n || n > file->n_bytes - sizeof n) {
        fprintf(stderr, "the requests' file ends within a record\n");
        exit(2);
    }
    rk_span taken = {file->data + sizeof n, n};
    *file = (rk_span){taken.data + n, file->n_bytes - sizeof n - n};
    return taken;
}

/* Of each record the request and the first accepted answer. */
static void read_good(test *t, rk_span file) {
    enum { MOST_GOOD = 1000 };
    t->good = calloc(MOST_GOOD, sizeof *t->good);
    t->answers = calloc(MOST_GOOD, sizeof *t->answers);
    if (!t->good || !t->answers) exit(2);
    while (file.n_bytes > 0 && t->n_good < MOST_GOOD) {
        uint32_t n_answers = 0;
        t->good[t->n_good] = take(&file);
        if (file.n_bytes >= sizeof n_answers) memcpy(&n_answers, file.data, sizeof n_answers);
        file = (rk_span){file.data + sizeof n_answers, file.n_bytes - sizeof n_answers};
        for (uint32_t a = 0; a < n_answers; a++) {
            rk_span text = take(&file);
            if (a == 0) t->answers[t->n_good] = text;
        }
        t->n_good++;
    }
}

static void print_result(const client *clients, const test *t, double seconds) {
    static const char *const kinds[] = {
#define KIND_WHAT(name, what) what,
        HOSTILE_KINDS(KIND_WHAT)
#undef KIND_WHAT
    };
    long n = 0, n_good = 0;
    const char *comma = "";
    for (int c = 0; c < t->n_clients; c++) n_good += clients[c].n_good;
    printf("{\"kinds\": {");
    for (int k = 0; k < N_HOSTILE_KINDS; k++) {
        long sum = 0;
        for (int c = 0; c < t->n_clients; c++) sum += clients[c].by_kind[k];
        printf("%s\"%s\": %ld", k ? ", " : "", kinds[k], sum);
        n += sum;
    }
    printf("}, \"statuses\": {");
    for (int s = 0; s < MOST_STATUS; s++) {
        long sum = 0;
        for (int c = 0; c < t->n_clients; c++) sum += clients[c].by_status[s];
        if (sum == 0) continue;
        printf("%s\"%d\": %ld", comma, s, sum);
        comma = ", ";
    }
    printf("}, \"hostile\": %ld, \"good\": %ld, \"seconds\": %.1f}\n", n, n_good, seconds);
}

int main(int argc, char **argv) {
    static client clients[MOST_CLIENTS];
    if (argc < 4) {
        fprintf(stderr, "usage: send_hostile PORT REQUESTS N [SEED [THREADS]]\n");
        return 2;
    }
    test t = {.port = atoi(argv[1]), .n = atol(argv[3]), .n_clients = argc > 5 ? atoi(argv[5]) : 32};
    t.seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    char *file;
    size_t n_bytes;
    if (t.n_clients < 1 || t.n_clients > MOST_CLIENTS || rk_file_read(argv[2], &file, &n_bytes) != RK_OK) {
        fprintf(stderr, "'%s' cannot be read, or %d clients are too many\n", argv[2], t.n_clients);
        return 2;
    }
    read_good(&t, (rk_span){file, n_bytes});
    double began = rk_clock_seconds();
    for (int i = 0; i < t.n_clients; i++) {
        clients[i] = (client){.t = &t, .rng = {t.seed, (uint64_t)i, 0}, .kept = {-1, 0}, .own = {-1, 0}};
        if (pthread_create(&clients[i].thread, NULL, run_client, &clients[i]) != 0) return 2;
    }
    for (int i = 0; i < t.n_clients; i++) pthread_join(clients[i].thread, NULL);
    print_result(clients, &t, rk_clock_seconds() - began);
    rk_free(file);
    free(t.good);
    free(t.answers);
    return atomic_load(&t.failed);
}
