/* Connections to Redis, against a server in this test that is all nodes of a cluster: it hears all of 127/8,
 * and knows by the address it was asked at which node it is. */
#include "testing.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "embedding/redis/redis_client.h"
#include "embedding/redis/redis_slot_map.h"

enum { CONNECTIONS = 200, QUESTION_BYTES = 4096, FILES = 1024, N_KEYS = 40 };
static const rk_redis_limits limits = {.timeout = 20};

typedef struct fake_server {
    /* What it says to CLUSTER SLOTS: an error, */
    const char *no_slots;
    /* or two nodes, of which one is another each time; */
    bool moves[2];
    /* and whether the first node sends each key on to a node of its own. */
    bool sends_on;
    /* Whether it is silent to GET, and sets this one. */
    atomic_bool *is_asked;
    bool has_password, logged_in[FILES]; /* by descriptor */
    int port, n_asked;
    struct pollfd polled[1 + CONNECTIONS]; /* the listening socket; then, -1: free */
    char questions[CONNECTIONS][QUESTION_BYTES];
    size_t n_bytes[CONNECTIONS];
    atomic_bool stops;
    pthread_t thread;
} fake_server;

static void say(int fd, const char *text) {
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void say_slots(fake_server *f, int fd) {
    f->n_asked++;
    say(fd, "*2\r\n");
    for (int half = 0; half < 2; half++) {
        char host[20], text[200];
        int node = f->moves[half] ? 250 + f->n_asked : half, first = half * 8192;
        int n = snprintf(host, sizeof host, "127.0.%d.%d", node / 250, node % 250 + 1);
        snprintf(text, sizeof text, "*3\r\n:%d\r\n:%d\r\n*2\r\n$%d\r\n%s\r\n:%d\r\n", first, first + 8191, n,
                 host, f->port);
        say(fd, text);
    }
}

/* "k7" is sent on to 127.0.0.107, which says "k7". */
static void say_value(const fake_server *f, int fd, const char *key) {
    char text[100];
    struct sockaddr_in here;
    socklen_t n = sizeof here;
    int number = atoi(key + 1);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &n), 0);
    if (f->sends_on && ntohl(here.sin_addr.s_addr) % 256 < 100)
        snprintf(text, sizeof text, "-MOVED %d 127.0.0.%d:%d\r\n", rk_redis_slot_of_key(key, strlen(key)),
                 100 + number, f->port);
    else
        snprintf(text, sizeof text, "$%zu\r\n%s\r\n", strlen(key), key);
    say(fd, text);
}

static void answer(fake_server *f, int fd, char words[4][100]) {
    char text[200];
    bool logs_in = strcmp(words[0], "AUTH") == 0;
    if (!logs_in && f->has_password && !f->logged_in[fd]) {
        say(fd, "-NOAUTH Authentication required.\r\n");
        return;
    }
    f->logged_in[fd] |= logs_in;
    if (logs_in) say(fd, "+OK\r\n");
    if (strcmp(words[0], "PING") == 0) say(fd, "$4\r\nPONG\r\n"); /* who took it for a value would see it */
    bool is_get = strcmp(words[0], "GET") == 0;
    if (is_get && f->is_asked) atomic_store(f->is_asked, true);
    if (is_get && !f->is_asked) say_value(f, fd, words[1]);
    if (strcmp(words[0], "CLUSTER") != 0) return;
    snprintf(text, sizeof text, "-%s\r\n", f->no_slots ? f->no_slots : "");
    if (f->no_slots)
        say(fd, text);
    else
        say_slots(f, fd);
}

/* Commands are here in whole lines, or their end is still to come. Returns what is behind them. */
static char *answer_all(fake_server *f, int fd, char *text) {
    for (int n_words; sscanf(text, "*%d", &n_words) == 1;) {
        char words[4][100], *at = text;
        for (int line = 0; line < 1 + 2 * n_words; line++) {
            char *line_end = strstr(at, "\r\n");
            if (!line_end) return text;
            if (line > 0 && line % 2 == 0)
                snprintf(words[line / 2 - 1], sizeof *words, "%.*s", (int)(line_end - at), at);
            at = line_end + 2;
        }
        answer(f, fd, words);
        text = at;
    }
    return text;
}

static void hear(fake_server *f, size_t i) {
    int fd = f->polled[1 + i].fd;
    char *text = f->questions[i];
    ssize_t n = recv(fd, text + f->n_bytes[i], QUESTION_BYTES - 1 - f->n_bytes[i], 0);
    if (n <= 0) {
        close(fd);
        f->polled[1 + i].fd = -1;
        return;
    }
    text[f->n_bytes[i] + (size_t)n] = 0;
    char *rest = answer_all(f, fd, text);
    f->n_bytes[i] = strlen(rest);
    memmove(text, rest, f->n_bytes[i] + 1);
}

static void let_in(fake_server *f) {
    int one = 1, fd = accept(f->polled[0].fd, NULL, NULL);
    size_t i = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while (f->polled[1 + i].fd >= 0) i++;
    assert_true(i < CONNECTIONS && fd >= 0 && fd < FILES);
    f->logged_in[fd] = false;
    f->n_bytes[i] = 0;
    f->polled[1 + i] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void *serve(void *context) {
    fake_server *f = context;
    while (!atomic_load(&f->stops)) {
        if (poll(f->polled, 1 + CONNECTIONS, 20) <= 0) continue;
        for (size_t i = 0; i < CONNECTIONS; i++)
            if (f->polled[1 + i].fd >= 0 && f->polled[1 + i].revents) hear(f, i);
        if (f->polled[0].revents) let_in(f);
    }
    return NULL;
}

static void start(fake_server *f) {
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t n = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(listen(fd, CONNECTIONS), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &n), 0);
    f->port = ntohs(any.sin_port);
    f->polled[0] = (struct pollfd){.fd = fd, .events = POLLIN};
    for (size_t i = 0; i < CONNECTIONS; i++) f->polled[1 + i].fd = -1;
    assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

static void stop(fake_server *f) {
    atomic_store(&f->stops, true);
    pthread_join(f->thread, NULL);
    for (size_t i = 0; i < 1 + CONNECTIONS; i++)
        if (f->polled[i].fd >= 0) close(f->polled[i].fd);
}

/* In place of the system's: a host without digits has two addresses, and nobody hears at the first. */
static int n_resolved;

int getaddrinfo(const char *host, const char *port, const struct addrinfo *wanted, struct addrinfo **out) {
    static struct addrinfo found[2];
    static struct sockaddr_in at[2];
    (void)wanted;
    n_resolved++;
    bool is_name = strcmp(host, "two.test") == 0;
    for (int i = 0; i < 2; i++) {
        at[i] = (struct sockaddr_in){.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)(is_name && i == 0 ? 1 : atoi(port)))};
        if (inet_pton(AF_INET, is_name ? "127.0.0.1" : host, &at[i].sin_addr) != 1) return EAI_NONAME;
        found[i] = (struct addrinfo){.ai_family = AF_INET,
                                     .ai_addr = (struct sockaddr *)&at[i],
                                     .ai_addrlen = sizeof at[i],
                                     .ai_next = is_name && i == 0 ? &found[1] : NULL};
    }
    *out = found;
    return 0;
}

void freeaddrinfo(struct addrinfo *found) {
    (void)found;
}

static rk_redis_address_cache *addresses;

static rk_redis *connect_by(const fake_server *f, const char *name) {
    char host[20], prefix[] = "p";
    rk_redis *redis;
    snprintf(host, sizeof host, "%s", name);
    OK(rk_redis_address_cache_create(&addresses));
    OK(rk_redis_create(&(rk_redis_url){.host = host, .prefix = prefix, .port = f->port}, addresses, &redis));
    return redis;
}

static rk_redis *connect_to(const fake_server *f) {
    return connect_by(f, "127.0.0.1");
}

static void disconnect(rk_redis *redis) {
    rk_redis_free(redis);
    rk_redis_address_cache_free(addresses);
}

static void get_all(rk_redis *redis) {
    rk_buffer texts[N_KEYS] = {{0}};
    rk_redis_command gets[N_KEYS];
    char key[10];
    for (int i = 0; i < N_KEYS; i++)
        gets[i] = (rk_redis_command){.verb = RK_REDIS_GET, .key = "k", .number = i, .text = &texts[i]};
    OK(rk_redis_run_commands(redis, gets, N_KEYS, &limits));
    for (int i = 0; i < N_KEYS; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_string_equal(texts[i].data, key);
        rk_buffer_release(&texts[i]);
    }
}

/* One node sends its keys to forty that nobody has heard of, in the midst of an exchange over all nodes. */
static void test_many_redirects(void **state) {
    static fake_server f = {.sends_on = true};
    (void)state;
    start(&f);
    rk_redis *redis = connect_to(&f);
    get_all(redis);
    get_all(redis);
    disconnect(redis);
    stop(&f);
}

/* More failovers than there may be nodes. */
static void test_many_failovers(void **state) {
    static fake_server f = {.moves = {false, true}};
    (void)state;
    start(&f);
    rk_redis *redis = connect_to(&f);
    for (int i = 0; i < 1100; i++) OK(rk_redis_ping(redis, &limits));
    get_all(redis);
    disconnect(redis);
    stop(&f);
}

static void refused(fake_server *f, const char *words) {
    rk_buffer text = {0};
    const rk_redis_command get = {.verb = RK_REDIS_GET, .key = "k", .number = 1, .text = &text};
    start(f);
    rk_redis *redis = connect_to(f);
    assert_int_equal(rk_redis_run_commands(redis, &get, 1, &limits), RK_UNAVAILABLE);
    if (!strstr(rk_last_error(), words)) fail_msg("%s", rk_last_error());
    disconnect(redis);
    stop(f);
}

/* Who may not ask for slots is told so, and not taken for a server alone; which sends nobody on. */
static void test_refusals(void **state) {
    static fake_server denies = {.no_slots = "NOPERM this user may not run 'cluster|slots'"},
                       alone = {.no_slots = "ERR This instance has cluster support disabled",
                                .sends_on = true};
    (void)state;
    refused(&denies, "NOPERM");
    refused(&alone, "MOVED 12706 127.0.0.101");
}

/* A run that waits for a node that does not answer gives up once another thread says so. */
static void test_cancel(void **state) {
    static fake_server f;
    atomic_bool cancel;
    const rk_redis_limits for_ever = {.timeout = 1e6, .cancel = &cancel};
    const rk_redis_command get = {.verb = RK_REDIS_GET, .key = "k", .number = 1};
    (void)state;
    atomic_init(&cancel, false);
    f.is_asked = &cancel;
    start(&f);
    rk_redis *redis = connect_to(&f);
    assert_int_equal(rk_redis_run_commands(redis, &get, 1, &for_ever), RK_INTERRUPTED);
    disconnect(redis);
    stop(&f);
}

/* Where nobody hears at a host's first address, the next one is tried; the host is asked for but once, and
 * when it is said to. */
static void test_addresses(void **state) {
    static fake_server f = {.no_slots = "ERR This instance has cluster support disabled"};
    (void)state;
    start(&f);
    rk_redis *first = connect_by(&f, "two.test"), *second;
    char host[] = "two.test", prefix[] = "p";
    OK(rk_redis_create(&(rk_redis_url){.host = host, .prefix = prefix, .port = f.port}, addresses, &second));
    n_resolved = 0;
    get_all(first);
    get_all(second);
    assert_int_equal(n_resolved, 1);
    rk_redis_address_cache_refresh(addresses);
    assert_int_equal(n_resolved, 2);
    rk_redis_free(second);
    disconnect(first);
    stop(&f);
}

/* Wherever memory runs out, what is asked next gets its own answer. */
static void test_memory(void **state) {
    static fake_server f = {.has_password = true};
    (void)state;
    setenv("RK_REDIS_PASSWORD", "secret", 1);
    start(&f);
    long live = rk_alloc_live();
    rk_status status = RK_NO_MEMORY;
    for (long countdown = 1; status != RK_OK; countdown++) {
        rk_redis *redis = connect_to(&f);
        rk_alloc_fail_after(countdown, false);
        status = rk_redis_ping(redis, &limits);
        rk_alloc_fail_after(0, false);
        assert_true(status == RK_OK || status == RK_NO_MEMORY);
        get_all(redis);
        disconnect(redis);
        assert_int_equal(rk_alloc_live(), live);
    }
    stop(&f);
    unsetenv("RK_REDIS_PASSWORD");
}

static bool knows_redis(void) {
    char host[] = "127.0.0.1", prefix[] = "p";
    rk_redis *redis = NULL;
    rk_status status =
        rk_redis_create(&(rk_redis_url){.host = host, .prefix = prefix, .port = 1}, NULL, &redis);
    if (status == RK_OK) rk_redis_free(redis);
    return status != RK_UNSUPPORTED;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_redirects), cmocka_unit_test(test_many_failovers),
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_addresses),      cmocka_unit_test(test_memory)};
    return knows_redis() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
