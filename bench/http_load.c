/* bench_http_load PORT REQUESTS [--connections 16] [--seconds 2] [--least 20]
 *     [--warm 0.2] [--rate N] [--seed 1] [--pid N]
 *
 * Sends requests to a server on this machine over connections that are kept, in turn, and checks each answer.
 * Without --rate a connection sends its next request when the last one was answered (closed loop), until
 * --seconds have passed and --least requests were answered. With it,
 * requests are due at times that do not depend on answers (open loop, exponential pauses, --rate a second): a
 * latency counts from when a request was due, also where all connections were still busy then, so that a
 * server that stands still is charged for all who would have come ("coordinated omission").
 *
 * REQUESTS: records of little-endian words and bytes, written by bench/http_requests.py: [n request bytes]
 * [request] [n accepted answers] and for each [n bytes] [body]. Of a request without accepted answers, any
 * body with status 200 will do.
 *
 * One line of JSON: requests, those that failed and why the first one did, latencies, how often which
 * accepted answer came, and with --pid the processor seconds that the process took meanwhile. What happens in
 * the first --warm seconds counts only where it fails. */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "workload.h"

enum { MOST_ANSWERS = 8, MOST_HEAD_BYTES = 16384, MOST_BODY_BYTES = 64 << 20 };
#define LAST_ANSWERS_SECONDS 10.0

typedef struct bytes {
    const char *data;
    size_t n;
} bytes;

typedef struct request {
    bytes text;
    uint32_t n_answers;
    bytes answers[MOST_ANSWERS];
} request;

typedef struct connection {
    int socket; /* -1: not connected yet, or no longer */
    bool busy;
    const request *request;
    double due;
    size_t n_sent, n_got, capacity;
    char *got;
} connection;

typedef struct load {
    int port, n_connections, poll;
    double warm_until, until, rate;
    long least;
    request *requests;
    size_t n_requests, next_request;
    connection *connections;
    double *due; /* a queue of times that no connection was free for: [first_due, n_due) */
    size_t first_due, n_due, due_capacity;
    float *latencies;
    size_t n_latencies, latencies_capacity;
    long n_answered, n_failed, by_answer[MOST_ANSWERS];
    char why[300];
} load;

static void *grow_array(void *array, size_t *capacity, size_t n, size_t size) {
    if (n <= *capacity) return array;
    *capacity = n + n / 2 + 64;
    array = realloc(array, *capacity * size);
    if (!array) die("memory ran out");
    return array;
}

/* --- requests ------------------------------------------------------------------------------------------ */

static uint32_t parse_word(bytes *file) {
    uint32_t word;
    if (file->n < sizeof word) die("the requests' file ends within a record");
    memcpy(&word, file->data, sizeof word);
    *file = (bytes){file->data + sizeof word, file->n - sizeof word};
    return word;
}

static bytes parse_bytes(bytes *file) {
    uint32_t n = parse_word(file);
    if (n > file->n) die("the requests' file ends within a record");
    bytes taken = {file->data, n};
    *file = (bytes){file->data + n, file->n - n};
    return taken;
}

static bytes read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) die("'%s' cannot be read", path);
    long n = ftell(file);
    char *data = malloc((size_t)n + 1);
    rewind(file);
    if (!data || n < 1 || fread(data, 1, (size_t)n, file) != (size_t)n) die("'%s' cannot be read", path);
    fclose(file);
    return (bytes){data, (size_t)n};
}

static void read_requests(load *l, const char *path) {
    size_t capacity = 0;
    for (bytes file = read_file(path); file.n > 0; l->n_requests++) {
        l->requests = grow_array(l->requests, &capacity, l->n_requests + 1, sizeof *l->requests);
        request *r = &l->requests[l->n_requests];
        r->text = parse_bytes(&file);
        r->n_answers = parse_word(&file);
        if (r->n_answers > MOST_ANSWERS) die("'%s': a request has more than %d answers", path, MOST_ANSWERS);
        for (uint32_t a = 0; a < r->n_answers; a++) r->answers[a] = parse_bytes(&file);
    }
}

/* --- one connection ------------------------------------------------------------------------------------ */

static void connect_to(const load *l, connection *c) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)l->port)};
    int one = 1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (c->socket < 0 || connect(c->socket, (struct sockaddr *)&to, sizeof to) != 0)
        die("cannot connect to port %d: %s", l->port, strerror(errno));
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(l->poll, EPOLL_CTL_ADD, c->socket, &event);
}

static void disconnect(connection *c) {
    if (c->socket >= 0) close(c->socket);
    c->socket = -1;
    c->busy = false;
}

static void set_epoll_events(const load *l, connection *c, bool writes) {
    struct epoll_event event = {.events = writes ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};
    epoll_ctl(l->poll, EPOLL_CTL_MOD, c->socket, &event);
}

static void count_failure(load *l, connection *c, const char *why, bytes answer) {
    if (l->n_failed++ == 0)
        snprintf(l->why, sizeof l->why, "%s: %.*s", why, (int)(answer.n < 200 ? answer.n : 200), answer.data);
    disconnect(c);
}

/* As much as the socket takes. */
static void send_request_bytes(load *l, connection *c) {
    const bytes *text = &c->request->text;
    ssize_t n = send(c->socket, text->data + c->n_sent, text->n - c->n_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) {
        count_failure(l, c, "could not be sent", (bytes){"", 0});
        return;
    }
    bool was_waiting = c->n_sent > 0;
    c->n_sent += n > 0 ? (size_t)n : 0;
    if (c->n_sent < text->n || was_waiting) set_epoll_events(l, c, c->n_sent < text->n);
}

static void begin_request(load *l, connection *c, double due) {
    if (c->socket < 0) connect_to(l, c);
    c->request = &l->requests[l->next_request++ % l->n_requests];
    c->due = due;
    c->busy = true;
    c->n_sent = c->n_got = 0;
    send_request_bytes(l, c);
}

/* The body's length from the headers at `head`, which end in an empty line; -1: it has none. */
static long parse_content_length(const char *head) {
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, "content-length:", 15) == 0) return atol(line + 17);
    return -1;
}

static void check_answer(load *l, connection *c, bytes body) {
    const request *r = c->request;
    uint32_t a = 0;
    while (a < r->n_answers && (r->answers[a].n != body.n || memcmp(r->answers[a].data, body.data, body.n)))
        a++;
    if (memcmp(c->got, "HTTP/1.1 200", 12) != 0) {
        count_failure(l, c, "was refused", (bytes){c->got, c->n_got});
        return;
    }
    if (r->n_answers > 0 && a == r->n_answers) {
        count_failure(l, c, "another answer", body);
        return;
    }
    c->busy = false;
    double now = seconds_now();
    if (c->due < l->warm_until) return;
    l->n_answered++;
    if (r->n_answers > 0) l->by_answer[a]++;
    l->latencies = grow_array(l->latencies, &l->latencies_capacity, l->n_latencies + 1, sizeof *l->latencies);
    l->latencies[l->n_latencies++] = (float)(now - c->due);
}

/* What came; a whole answer ends the request. */
static void receive_answer(load *l, connection *c) {
    c->got = grow_array(c->got, &c->capacity, c->n_got + 65536, 1);
    ssize_t n = recv(c->socket, c->got + c->n_got, c->capacity - c->n_got - 1, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0 && !c->busy) { /* as a server may, where nothing was asked for long */
        disconnect(c);
        return;
    }
    if (n <= 0 || !c->busy) {
        count_failure(l, c, c->busy ? "the connection was closed" : "an answer without a request",
                      (bytes){"", 0});
        return;
    }
    c->n_got += (size_t)n;
    c->got[c->n_got] = 0;
    char *end = strstr(c->got, "\r\n\r\n");
    if (!end && c->n_got < MOST_HEAD_BYTES) return;
    if (end) end[2] = 0;
    long length = end ? parse_content_length(c->got) : -1;
    if (end) end[2] = '\r';
    size_t head = end ? (size_t)(end + 4 - c->got) : 0;
    if (length < 0 || length > MOST_BODY_BYTES || c->n_got > head + (size_t)length)
        count_failure(l, c, "no answer with a length", (bytes){c->got, c->n_got});
    else if (c->n_got == head + (size_t)length)
        check_answer(l, c, (bytes){c->got + head, (size_t)length});
}

/* --- the loop ------------------------------------------------------------------------------------------ */

static connection *find_idle_connection(load *l) {
    for (int i = 0; i < l->n_connections; i++)
        if (!l->connections[i].busy) return &l->connections[i];
    return NULL;
}

/* Whether no further request is to begin. */
static bool is_load_over(const load *l, double now) {
    bool enough = l->rate > 0 || l->n_answered >= l->least;
    return now >= (enough ? l->until : l->until + LAST_ANSWERS_SECONDS);
}

static bool is_any_connection_busy(const load *l) {
    for (int i = 0; i < l->n_connections; i++)
        if (l->connections[i].busy) return true;
    return false;
}

/* Whatever is due goes to connections that are free. Returns when the next request is due. */
static double begin_due_requests(load *l, rk_rng *rng, double next, double now) {
    for (; l->rate > 0 && next <= now && next < l->until; next -= log(1 - rk_rng_uniform(rng)) / l->rate) {
        l->due = grow_array(l->due, &l->due_capacity, l->n_due + 1, sizeof *l->due);
        l->due[l->n_due++] = next;
    }
    for (connection *c; l->first_due < l->n_due && (c = find_idle_connection(l));)
        begin_request(l, c, l->due[l->first_due++]);
    for (int i = 0; l->rate == 0 && !is_load_over(l, now) && i < l->n_connections; i++)
        if (!l->connections[i].busy) begin_request(l, &l->connections[i], now);
    return next;
}

static void wait_for_events(load *l, double seconds) {
    struct epoll_event events[64];
    if (seconds < 0) seconds = 0;
    struct timespec most = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    int n = epoll_pwait2(l->poll, events, 64, &most, NULL);
    for (int i = 0; i < n; i++) {
        connection *c = events[i].data.ptr;
        if ((events[i].events & EPOLLOUT) && c->busy) send_request_bytes(l, c);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive_answer(l, c);
    }
}

static double read_cpu_seconds(clockid_t clock) {
    struct timespec t = {0};
    if (clock != CLOCK_REALTIME) clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Sends until the end, and waits for the last answers. Returns processor seconds of the server's process. */
static double run_load(load *l, uint64_t seed, clockid_t clock) {
    rk_rng rng = {seed, 1, 0};
    double next = seconds_now(), cpu = 0, now;
    bool warm = true;
    while (!is_load_over(l, now = seconds_now()) || ((is_any_connection_busy(l) || l->first_due < l->n_due) &&
                                                     now < l->until + 2 * LAST_ANSWERS_SECONDS)) {
        if (warm && now >= l->warm_until) {
            warm = false;
            cpu = read_cpu_seconds(clock);
        }
        next = begin_due_requests(l, &rng, next, now);
        double at = l->rate > 0 && next < l->until ? next : now < l->until ? l->until : now + 0.1;
        if (warm && at > l->warm_until) at = l->warm_until;
        wait_for_events(l, at - now);
    }
    cpu = read_cpu_seconds(clock) - cpu;
    long unanswered = (long)(l->n_due - l->first_due);
    for (int i = 0; i < l->n_connections; i++) unanswered += l->connections[i].busy;
    if (unanswered > 0 && l->n_failed == 0) snprintf(l->why, sizeof l->why, "no answer came");
    l->n_failed += unanswered;
    return cpu;
}

static int compare_latencies(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double latency_percentile(const load *l, double part) {
    return l->n_latencies ? l->latencies[(size_t)(part * (double)(l->n_latencies - 1) + 0.5)] : 0;
}

static void print_result(load *l, double seconds, double cpu) {
    qsort(l->latencies, l->n_latencies, sizeof *l->latencies, compare_latencies);
    printf("{\"requests\": %ld, \"seconds\": %.4f, \"cpu_seconds\": %.6f, \"failed\": %ld, \"why\": \"",
           l->n_answered, seconds, cpu, l->n_failed);
    for (const char *at = l->why; *at; at++)
        if (*at >= ' ' && *at != '"' && *at != '\\' && *at < 127) putchar(*at);
    printf("\", \"p50\": %.7f, \"p90\": %.7f, \"p99\": %.7f, \"p999\": %.7f, \"max\": %.7f, \"answers\": [",
           latency_percentile(l, 0.5), latency_percentile(l, 0.9), latency_percentile(l, 0.99),
           latency_percentile(l, 0.999), latency_percentile(l, 1));
    for (int a = 0; a < MOST_ANSWERS; a++) printf("%s%ld", a ? ", " : "", l->by_answer[a]);
    printf("]}\n");
}

int main(int argc, char **argv) {
    if (argc < 3) die("usage: bench_http_load PORT REQUESTS [options]");
    load l = {.port = atoi(argv[1]), .n_connections = atoi(option(argc, argv, "--connections", "16"))};
    double seconds = atof(option(argc, argv, "--seconds", "2")),
           warm = atof(option(argc, argv, "--warm", "0.2"));
    int pid = atoi(option(argc, argv, "--pid", "0"));
    l.least = atol(option(argc, argv, "--least", "20"));
    l.rate = atof(option(argc, argv, "--rate", "0"));
    clockid_t clock = CLOCK_REALTIME; /* none */
    if (pid > 0 && clock_getcpuclockid(pid, &clock) != 0) die("process %d has no clock", pid);
    read_requests(&l, argv[2]);
    prctl(PR_SET_TIMERSLACK, 1UL);
    l.poll = epoll_create1(0);
    l.connections = calloc((size_t)l.n_connections, sizeof *l.connections);
    if (l.poll < 0 || !l.connections || l.n_connections < 1) die("no connections");
    for (int i = 0; i < l.n_connections; i++) l.connections[i].socket = -1;
    l.warm_until = seconds_now() + warm;
    l.until = l.warm_until + seconds;
    double cpu = run_load(&l, (uint64_t)atoll(option(argc, argv, "--seed", "1")), clock);
    print_result(&l, seconds_now() - l.warm_until, cpu);
    for (int i = 0; i < l.n_connections; i++) {
        disconnect(&l.connections[i]);
        free(l.connections[i].got);
    }
    return 0;
}
