#include "server/http/connection_watchdog.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "base/thread/clock.h"

/* In what a connection is, since when: in one word, so that it is read without a lock. */
enum { WAITS_FOR_HEADERS, WAITS_FOR_ANSWER, IDLE, N_STATES };
#define LOOK_SECONDS 0.1

struct rk_watched_connection {
    int descriptor;
    atomic_uint_fast64_t since; /* 4 * microseconds + state */
    rk_watched_connection *before, *after;
};

struct rk_watchdog {
    uint64_t limits_us[N_STATES];
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows; none of the descriptors is closed while it is held */
    pthread_cond_t stopped;
    bool stop, started;
    rk_watched_connection all; /* the list's head */
};

static void set_connection_state(rk_watched_connection *w, uint64_t state) {
    if (w) atomic_store(&w->since, 4 * rk_clock_us() + state);
}

void rk_watched_connection_request_begin(rk_watched_connection *w) {
    set_connection_state(w, WAITS_FOR_HEADERS);
}
void rk_watched_connection_headers_received(rk_watched_connection *w) {
    set_connection_state(w, WAITS_FOR_ANSWER);
}
void rk_watched_connection_request_end(rk_watched_connection *w) {
    set_connection_state(w, IDLE);
}

static void shut_down_overdue_connections(rk_watchdog *dog) {
    uint64_t now = rk_clock_us();
    for (rk_watched_connection *w = dog->all.after; w; w = w->after) {
        uint64_t since = atomic_load(&w->since), limit = dog->limits_us[since % 4];
        if (now > since / 4 && now - since / 4 > limit) shutdown(w->descriptor, SHUT_RDWR);
    }
}

static void *run_watchdog(void *argument) {
    rk_watchdog *dog = argument;
    pthread_mutex_lock(&dog->mutex);
    while (!dog->stop) {
        struct timespec until = rk_clock_deadline(CLOCK_MONOTONIC, LOOK_SECONDS);
        pthread_cond_timedwait(&dog->stopped, &dog->mutex, &until);
        shut_down_overdue_connections(dog);
    }
    pthread_mutex_unlock(&dog->mutex);
    return NULL;
}

rk_status rk_watchdog_create(const rk_watchdog_limits *limits, rk_watchdog **out) {
    rk_watchdog *dog;
    RK_TRY(rk_alloc(1, sizeof *dog, &dog));
    /* A worker answers in time by itself; a second more, and a client that does not read its answer is cut.
     */
    const double seconds[N_STATES] = {limits->headers, limits->request + 1, limits->idle};
    for (int s = 0; s < N_STATES; s++) dog->limits_us[s] = (uint64_t)(seconds[s] * 1e6);
    pthread_mutex_init(&dog->mutex, NULL);
    rk_cond_init_monotonic(&dog->stopped);
    int code = pthread_create(&dog->thread, NULL, run_watchdog, dog);
    dog->started = code == 0;
    if (code == 0)
        *out = dog;
    else
        rk_watchdog_free(dog);
    return code == 0 ? RK_OK : rk_error_errno(RK_NO_MEMORY, code, "could not start the watchdog");
}

void rk_watchdog_free(rk_watchdog *dog) {
    if (!dog) return;
    pthread_mutex_lock(&dog->mutex);
    dog->stop = true;
    pthread_cond_signal(&dog->stopped);
    pthread_mutex_unlock(&dog->mutex);
    if (dog->started) pthread_join(dog->thread, NULL);
    pthread_mutex_destroy(&dog->mutex);
    pthread_cond_destroy(&dog->stopped);
    rk_free(dog);
}

rk_watched_connection *rk_watchdog_add(rk_watchdog *dog, int descriptor) {
    rk_watched_connection *w;
    if (rk_alloc(1, sizeof *w, &w) != RK_OK) return NULL;
    w->descriptor = descriptor;
    set_connection_state(w, WAITS_FOR_HEADERS);
    pthread_mutex_lock(&dog->mutex);
    w->before = &dog->all;
    w->after = dog->all.after;
    if (w->after) w->after->before = w;
    dog->all.after = w;
    pthread_mutex_unlock(&dog->mutex);
    return w;
}

void rk_watchdog_remove(rk_watchdog *dog, rk_watched_connection *w) {
    if (!w) return;
    pthread_mutex_lock(&dog->mutex);
    w->before->after = w->after;
    if (w->after) w->after->before = w->before;
    pthread_mutex_unlock(&dog->mutex);
    rk_free(w);
}

rk_watched_connection *rk_watchdog_find(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}
