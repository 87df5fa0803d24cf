/* Ranks as threads of one process: an all_to_all of theirs for rk_comm_from_functions, and what may go wrong
 * in it. */
#ifndef RK_TESTS_THREAD_RANKS_H
#define RK_TESTS_THREAD_RANKS_H

#include <pthread.h>
#include <stdbool.h>

#include "testing.h"

#include <reckon/comm.h>

#include "base/memory.h"

/* In threads of ranks, cmocka's macros may not fail: what is wrong is an error of the rank. */
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) RK_GOTO(rk_error(RK_INTERNAL, "line %d: not %s", __LINE__, #condition)); \
    } while (0)

enum { MAX_RANKS = 4 };

/* What all share. */
typedef struct rank_group {
    int size;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int n_here;
    int64_t n_meetings;
    bool is_broken; /* a rank has failed: nobody waits for it */
    const char *send[MAX_RANKS];
    const size_t *send_bytes[MAX_RANKS];
} rank_group;

typedef struct thread_rank {
    rank_group *group;
    int rank;
    int64_t n_calls, fails_at; /* 0: never */
    int rotates;               /* gives back this many ranks further */
    int64_t flips;             /* 0, or about one byte in so many is changed */
    uint64_t random;
    void (*work)(struct thread_rank *rank);
    rk_status status;
    char error[1024];
    const char *aborted;
} thread_rank;

static inline int meet(rank_group *g) {
    pthread_mutex_lock(&g->mutex);
    int64_t meeting = g->n_meetings;
    if (++g->n_here == g->size) {
        g->n_here = 0;
        g->n_meetings++;
        pthread_cond_broadcast(&g->changed);
    }
    while (meeting == g->n_meetings && !g->is_broken) pthread_cond_wait(&g->changed, &g->mutex);
    int status = meeting == g->n_meetings ? 9 : 0;
    pthread_mutex_unlock(&g->mutex);
    return status;
}

static inline void break_group(rank_group *g) {
    pthread_mutex_lock(&g->mutex);
    g->is_broken = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
}

static inline void flip_bytes(thread_rank *t, char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        t->random = t->random * 6364136223846793005u + 1442695040888963407u;
        if ((int64_t)((t->random >> 33) % (uint64_t)t->flips) == 0) bytes[i] ^= (char)(t->random >> 20);
    }
}

static inline void copy_messages(thread_rank *t, char *to, const size_t *receive_bytes) {
    rank_group *g = t->group;
    for (int r = 0; r < g->size; r++) {
        int source = (r + t->rotates) % g->size;
        const char *from = g->send[source];
        for (int before = 0; before < t->rank; before++)
            if (from) from += g->send_bytes[source][before];
        size_t n = g->send_bytes[source][t->rank];
        if (n > receive_bytes[r]) n = receive_bytes[r];
        if (n) memcpy(to, from, n);
        if (t->flips) flip_bytes(t, to, n);
        if (receive_bytes[r]) to += receive_bytes[r];
    }
}

static inline int thread_all_to_all(void *user, const void *send, const size_t *send_bytes, void *receive,
                                    const size_t *receive_bytes) {
    thread_rank *t = user;
    rank_group *g = t->group;
    if (++t->n_calls == t->fails_at) {
        break_group(g);
        return 7;
    }
    g->send[t->rank] = send;
    g->send_bytes[t->rank] = send_bytes;
    if (meet(g)) return 9;
    pthread_mutex_lock(&g->mutex); /* a rank that fails frees what it sends */
    bool is_broken = g->is_broken;
    if (!is_broken) copy_messages(t, receive, receive_bytes);
    pthread_mutex_unlock(&g->mutex);
    return is_broken || meet(g) ? 9 : 0;
}

static inline void thread_abort(void *user, const char *reason) {
    thread_rank *t = user;
    t->aborted = reason;
    break_group(t->group);
}

static inline rk_status open_rank(thread_rank *t, double timeout_s, rk_comm **out) {
    rk_comm_functions functions = RK_COMM_FUNCTIONS_INIT;
    rk_comm_options options = RK_COMM_OPTIONS_INIT;
    functions.rank = t->rank;
    functions.size = t->group->size;
    functions.user = t;
    functions.all_to_all = thread_all_to_all;
    functions.abort = thread_abort;
    options.timeout_s = timeout_s;
    return rk_comm_from_functions(&functions, &options, out);
}

/* Keeps a failure, for the thread that looks at the results; a failed rank leaves the others alone. */
static inline void keep(thread_rank *t, rk_status status) {
    if (status == RK_OK || t->status != RK_OK) return;
    t->status = status;
    snprintf(t->error, sizeof t->error, "%s", rk_last_error());
    break_group(t->group);
}

static inline void *run_rank(void *context) {
    thread_rank *t = context;
    t->work(t);
    return NULL;
}

/* ranks [size], whose faults are set. */
static inline void run_ranks(int size, thread_rank *ranks, void (*work)(thread_rank *rank)) {
    rank_group group = {.size = size};
    pthread_t threads[MAX_RANKS];
    pthread_mutex_init(&group.mutex, NULL);
    pthread_cond_init(&group.changed, NULL);
    for (int r = 0; r < size; r++) {
        ranks[r].group = &group;
        ranks[r].rank = r;
        ranks[r].work = work;
        ranks[r].random = (uint64_t)r + 1;
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < size; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
    pthread_cond_destroy(&group.changed);
    pthread_mutex_destroy(&group.mutex);
}

static inline void assert_all_went_well(int size, const thread_rank *ranks) {
    for (int r = 0; r < size; r++)
        if (ranks[r].status != RK_OK) fail_msg("rank %d: %s", r, ranks[r].error);
    assert_int_equal(rk_alloc_live(), 0);
}

#endif
