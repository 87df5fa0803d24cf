/* Moves the batches of a sharded collection through their states: ids sent, served, ready, returned, free.
 * Batches are served and updated in their order, so that what a lookup sees depends on staleness alone. */
#include <time.h>

#include "base/thread/clock.h"
#include "base/thread/parallel.h"
#include "base/thread/trace.h"
#include "embedding/sharded/sharded_internal.h"

static rk_in_flight_batch_state batch_state(const rk_in_flight_batch *j) {
    return (rk_in_flight_batch_state)atomic_load_explicit(&j->state, memory_order_acquire);
}
static void set_batch_state(rk_in_flight_batch *j, rk_in_flight_batch_state state) {
    atomic_store_explicit(&j->state, state, memory_order_release);
}

static int64_t count_begun_batches(const rk_sharded *s) {
    return atomic_load_explicit(&s->begun, memory_order_acquire);
}

/* An owner serves a batch when all updates that it is to see are done. */
static bool can_serve_batch(const rk_sharded *s, const rk_in_flight_batch *j, int64_t number) {
    return !s->owns || s->next_updated >= number - (j->kind == RK_IN_FLIGHT_TRAIN ? s->staleness : 0);
}

static rk_status test_all_to_all(rk_all_to_all *all_to_all, bool *done) {
    *done = true;
    return all_to_all ? rk_all_to_all_test(all_to_all, done) : RK_OK;
}

static void count_staleness(rk_sharded *s, const rk_in_flight_batch *j, int64_t number) {
    if (j->kind != RK_IN_FLIGHT_TRAIN) return;
    int64_t missing = number - s->next_updated + (int64_t)s->before_images.n;
    atomic_fetch_add(&s->staleness_sum, missing);
    if (missing > atomic_load(&s->staleness_most)) atomic_store(&s->staleness_most, missing);
}

static rk_status serve_next_batch(rk_sharded *s, bool *moved) {
    int64_t number = s->next_served;
    rk_in_flight_batch *j = rk_sharded_batch_at(s, number);
    if (number >= count_begun_batches(s) || batch_state(j) != RK_IN_FLIGHT_IDS_SENT) return RK_OK;
    bool done;
    RK_TRY(test_all_to_all(j->ids, &done));
    if (!done) return RK_OK;
    if (!j->is_read && s->owns) RK_TRY(rk_in_flight_batch_read_ids(s, j));
    j->is_read = true;
    if (!can_serve_batch(s, j, number)) return RK_OK;
    uint64_t begin = rk_trace_begin();
    count_staleness(s, j, number);
    if (j->kind == RK_IN_FLIGHT_CONTROL)
        set_batch_state(j, RK_IN_FLIGHT_READY);
    else {
        RK_TRY(rk_in_flight_batch_serve_rows(s, j));
        set_batch_state(j, RK_IN_FLIGHT_SERVED);
    }
    rk_trace_end(begin, "serve rows");
    s->next_served++;
    *moved = true;
    return RK_OK;
}

/* Owners that do not train wait for gradients next, and for what becomes of them. */
static rk_status receive_rows_of_batch(rk_sharded *s, rk_in_flight_batch *j, bool *moved) {
    bool done;
    if (batch_state(j) != RK_IN_FLIGHT_SERVED) return RK_OK;
    RK_TRY(test_all_to_all(j->rows, &done));
    if (!done) return RK_OK;
    if (s->trains) RK_TRY(rk_in_flight_batch_output_dist(s, j));
    if (!s->trains && j->kind == RK_IN_FLIGHT_TRAIN) {
        RK_TRY(rk_all_to_all_begin(s->comm, RK_CHANNEL_GRADIENTS, s->answers, s->nobody, s->trainers,
                                   &j->gradients));
        RK_TRY(rk_all_to_all_begin(s->comm, RK_CHANNEL_STEP_STATUS, s->answers, s->nobody, s->first,
                                   &j->step_status));
    }
    set_batch_state(j, s->trains ? RK_IN_FLIGHT_READY : RK_IN_FLIGHT_RETURNED);
    *moved = true;
    return RK_OK;
}

/* Batches that were begun before these gradients were given are not to see them. */
static rk_status can_update_batch(const rk_sharded *s, const rk_in_flight_batch *j, bool *may) {
    *may = true;
    if (!j->gradients || !s->owns) return RK_OK;
    rk_gradients_header header;
    RK_TRY(rk_in_flight_batch_read_gradients_header(j, 0, &header));
    RK_FAIL_IF(header.begun > s->next_updated + s->staleness + 1, RK_INTERNAL,
               "rank 0 started %lld batches when %lld are finished", (long long)header.begun,
               (long long)s->next_updated);
    *may = s->next_served >= header.begun;
    return RK_OK;
}

static rk_status update_next_batch(rk_sharded *s, bool *moved) {
    rk_in_flight_batch *j = rk_sharded_batch_at(s, s->next_updated);
    bool done;
    if (s->next_updated >= count_begun_batches(s) || batch_state(j) != RK_IN_FLIGHT_RETURNED) return RK_OK;
    RK_TRY(test_all_to_all(j->gradients, &done));
    if (done) RK_TRY(test_all_to_all(j->step_status, &done));
    if (done) RK_TRY(can_update_batch(s, j, &done));
    if (!done) return RK_OK;
    uint64_t begin = rk_trace_begin();
    if (j->gradients && s->owns) RK_TRY(rk_in_flight_batch_update_rows(s, j));
    s->n_trained += j->kind == RK_IN_FLIGHT_TRAIN;
    rk_trace_end(begin, "update rows");
    rk_all_to_all_free(j->ids);
    rk_all_to_all_free(j->rows);
    rk_all_to_all_free(j->gradients);
    rk_all_to_all_free(j->step_status);
    j->ids = j->rows = j->gradients = j->step_status = NULL;
    set_batch_state(j, RK_IN_FLIGHT_FREE);
    s->next_updated++;
    *moved = true;
    return RK_OK;
}

static rk_status advance_pipeline(rk_sharded *s, bool *moved) {
    *moved = false;
    RK_TRY(update_next_batch(s, moved));
    RK_TRY(serve_next_batch(s, moved));
    for (int64_t i = s->next_updated; i < s->next_served;
         i++) { /* in order, since gradients' all_to_alls begin here */
        RK_TRY(receive_rows_of_batch(s, rk_sharded_batch_at(s, i), moved));
        if (batch_state(rk_sharded_batch_at(s, i)) == RK_IN_FLIGHT_SERVED) break;
    }
    return RK_OK;
}

/* What the oldest batch that is not ready waits for: first its own ids, or gradients that it is to see, then
 * its rows; later ones do not hold it up. */
static rk_all_to_all *blocking_all_to_all(const rk_sharded *s) {
    int64_t next = s->next_served;
    const rk_in_flight_batch *oldest = rk_sharded_batch_at(s, s->next_updated),
                             *j = rk_sharded_batch_at(s, next);
    for (int64_t i = s->next_updated; i < next; i++)
        if (batch_state(rk_sharded_batch_at(s, i)) == RK_IN_FLIGHT_SERVED)
            return rk_sharded_batch_at(s, i)->rows;
    if (next < count_begun_batches(s) && batch_state(j) == RK_IN_FLIGHT_IDS_SENT && !j->is_read && j->ids)
        return j->ids;
    if (batch_state(oldest) != RK_IN_FLIGHT_RETURNED) return NULL;
    return oldest->step_status && rk_all_to_all_is_done(oldest->gradients) ? oldest->step_status
                                                                           : oldest->gradients;
}

/* One step by this thread, or a wait for what blocks all batches. */
static rk_status advance_pipeline_or_wait(rk_sharded *s) {
    bool moved;
    RK_TRY(advance_pipeline(s, &moved));
    if (moved) return RK_OK;
    rk_all_to_all *all_to_all = blocking_all_to_all(s);
    RK_FAIL_IF(!all_to_all, RK_INTERNAL, "a batch has no all_to_all to wait for");
    return rk_all_to_all_wait(all_to_all);
}

static rk_status advance_pipeline_until(rk_sharded *s, const rk_in_flight_batch *j,
                                        rk_in_flight_batch_state state) {
    while (batch_state(j) != state) RK_TRY(advance_pipeline_or_wait(s));
    return RK_OK;
}

rk_status rk_sharded_wait_until_all_served(rk_sharded *s) {
    while (s->next_served < count_begun_batches(s)) RK_TRY(advance_pipeline_or_wait(s));
    return RK_OK;
}

/* The communication thread sleeps until there is something to do. */
static void wake_comm_thread(rk_sharded *s) {
    if (!s->has_comm_thread) return;
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->woken);
    pthread_mutex_unlock(&s->lock);
}

void rk_sharded_enqueue_batch(rk_sharded *s, rk_in_flight_batch *j) {
    set_batch_state(j, RK_IN_FLIGHT_IDS_SENT);
    atomic_fetch_add_explicit(&s->begun, 1, memory_order_release);
    wake_comm_thread(s);
}

void rk_sharded_mark_gradients_sent(rk_sharded *s, rk_in_flight_batch *j) {
    set_batch_state(j, RK_IN_FLIGHT_RETURNED);
    wake_comm_thread(s);
}

static rk_status comm_thread_status(rk_sharded *s) {
    return s->status == RK_OK ? RK_OK : rk_error(s->status, "%s", s->error);
}

/* Waits until the communication thread has reached the state, and wakes that thread. */
static rk_status wait_for_comm_thread(rk_sharded *s, const rk_in_flight_batch *j,
                                      rk_in_flight_batch_state state) {
    pthread_mutex_lock(&s->lock);
    s->n_waiting++;
    pthread_cond_broadcast(&s->woken);
    while (batch_state(j) != state && s->status == RK_OK) pthread_cond_wait(&s->moved, &s->lock);
    s->n_waiting--;
    rk_status status = batch_state(j) == state ? RK_OK : comm_thread_status(s);
    pthread_mutex_unlock(&s->lock);
    return status;
}

rk_status rk_sharded_wait_for_batch_state(rk_sharded *s, const rk_in_flight_batch *j,
                                          rk_in_flight_batch_state state) {
    double begin = rk_clock_seconds();
    rk_status status =
        s->has_comm_thread ? wait_for_comm_thread(s, j, state) : advance_pipeline_until(s, j, state);
    s->seen.wait_s += rk_clock_seconds() - begin;
    return status;
}

enum { LEAST_NAP_NS = 50000, MOST_NAP_NS = 1000000 };

/* Sleeps where nothing is under way, naps ever longer where nothing moves; where somebody waits, it waits for
 * what holds them up, whose time limit then counts. */
static rk_status sleep_or_wait(rk_sharded *s, long *nap_ns) {
    pthread_mutex_lock(&s->lock);
    while (!s->stops && s->next_updated == count_begun_batches(s)) pthread_cond_wait(&s->woken, &s->lock);
    bool awaited = s->n_waiting > 0;
    pthread_mutex_unlock(&s->lock);
    rk_all_to_all *all_to_all = awaited ? blocking_all_to_all(s) : NULL;
    if (all_to_all) return rk_all_to_all_wait(all_to_all);
    nanosleep(&(struct timespec){0, *nap_ns}, NULL);
    *nap_ns = *nap_ns < MOST_NAP_NS ? *nap_ns + *nap_ns / 8 : MOST_NAP_NS;
    return RK_OK;
}

static void *run_comm_thread(void *context) {
    rk_sharded *s = context;
    (void)rk_parallel_set_serial(true);
    for (long nap_ns = LEAST_NAP_NS;;) {
        bool moved = false;
        rk_status status = advance_pipeline(s, &moved);
        if (moved)
            nap_ns = LEAST_NAP_NS;
        else if (status == RK_OK)
            status = sleep_or_wait(s, &nap_ns);
        pthread_mutex_lock(&s->lock);
        if (status != RK_OK) {
            s->status = status;
            rk_error_copy(s->error, sizeof s->error);
        }
        bool ends = s->stops || status != RK_OK;
        if (moved || ends) pthread_cond_broadcast(&s->moved);
        pthread_mutex_unlock(&s->lock);
        if (ends) return NULL;
    }
}

rk_status rk_sharded_start_comm_thread(rk_sharded *s) {
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->moved, NULL);
    pthread_cond_init(&s->woken, NULL);
    RK_FAIL_IF(pthread_create(&s->comm_thread, NULL, run_comm_thread, s) != 0, RK_NO_MEMORY,
               "could not start a thread");
    s->has_comm_thread = true;
    return RK_OK;
}

void rk_sharded_stop_comm_thread(rk_sharded *s) {
    if (!s->has_comm_thread) return;
    pthread_mutex_lock(&s->lock);
    s->stops = true;
    pthread_cond_broadcast(&s->woken);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->comm_thread, NULL);
    s->has_comm_thread = false;
}
