/* Sums over ranks. Each rank sums one part of the values and sends the result to all. Few values are summed
 * by every rank, which saves the time of a message. */
#include <string.h>

#include "base/thread/clock.h"
#include "base/float16.h"
#include "base/memory.h"
#include "comm/comm.h"

enum { FEW_VALUES = 1024, BLOCK = 4096 };

struct rk_all_reduce {
    rk_comm *comm;
    rk_channel channel;
    uint32_t sequence; /* of the parts' all_to_all; that of the results is the next */
    float *values;     /* [n] */
    size_t n;
    bool few;         /* every rank adds all */
    bool returning;   /* `all_to_all` is that of the results */
    bool narrow;      /* values travel as bf16, */
    uint16_t *halves; /* [n] of [n_halves]: packed here, */
    size_t n_halves;
    float *block; /* [size, BLOCK]: and added here */
    bool awaited; /* a thread does nothing but wait for it */
    atomic_bool done;
    rk_all_to_all *all_to_all; /* NULL: none is under way */
    rk_message *send;          /* [size] */
    float **parts;             /* [size] */
    bool *others;              /* [size]: all but this rank */
    rk_all_reduce *next;       /* among those under way, or idle */
};

static void part_of_rank(const rk_all_reduce *sum, int32_t rank, size_t *first, size_t *n) {
    size_t size = (size_t)sum->comm->size, r = (size_t)rank, more = sum->n % size;
    *first = sum->few ? 0 : sum->n / size * r + (more < r ? more : r);
    *n = sum->few ? sum->n : sum->n / size + (r < more);
}

/* parts[r] [n] of each rank, added as ((0 + 1) + (2 + 3)) + (4 + 5) into parts[0], a block at a time while it
 * is in the cache. */
static void add_in_tree_order(float *const *parts, int32_t size, size_t n) {
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t end = first + BLOCK < n ? first + BLOCK : n;
        for (int32_t step = 1; step < size; step *= 2) {
            for (int32_t r = 0; r + step < size; r += 2 * step) {
                float *restrict left = parts[r];
                const float *restrict right = parts[r + step];
                for (size_t i = first; i < end; i++) left[i] += right[i];
            }
        }
    }
}

static size_t value_bytes(const rk_all_reduce *sum) {
    return sum->narrow ? sizeof *sum->halves : sizeof *sum->values;
}

/* What is sent of the values from `first` on. */
static rk_message message_of_values(const rk_all_reduce *sum, size_t first, size_t n) {
    void *data = sum->narrow ? (void *)(sum->halves + first) : (void *)(sum->values + first);
    return (rk_message){data, n * value_bytes(sum)};
}

static void pack_bf16(uint16_t *to, const float *from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = rk_bf16_from_f32_finite(from[i]);
}

static void unpack_bf16(float *to, const uint16_t *from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = rk_bf16_to_f32(from[i]);
}

static rk_status check_sizes(const rk_all_reduce *sum) {
    const rk_message *received = rk_all_to_all_received(sum->all_to_all);
    for (int32_t r = 0; r < sum->comm->size; r++) {
        if (r == sum->comm->rank) continue;
        size_t first, n;
        part_of_rank(sum, sum->returning ? r : sum->comm->rank, &first, &n);
        RK_FAIL_IF(received[r].n_bytes != n * value_bytes(sum), RK_INVALID_ARGUMENT,
                   "all_reduce of %zu values: rank %d sent %zu bytes, this rank expects %zu; the ranks do "
                   "not reduce the same values",
                   sum->n, (int)sum->comm->peers[r].rank, received[r].n_bytes, n * value_bytes(sum));
    }
    return RK_OK;
}

static rk_status begin_all_to_all(rk_all_reduce *sum, bool returning) {
    sum->returning = returning;
    RK_TRY(rk_all_to_all_begin_at(sum->comm, (int)sum->channel, sum->sequence + returning, sum->send,
                                  sum->others, sum->others, &sum->all_to_all));
    atomic_store(&sum->all_to_all->awaited, sum->awaited);
    return RK_OK;
}

static void finish_all_to_all(rk_all_reduce *sum) {
    rk_all_to_all_free(sum->all_to_all);
    sum->all_to_all = NULL;
}

static void add_parts_f32(rk_all_reduce *sum, size_t first, size_t n) {
    float *own = sum->values + first;
    for (int32_t r = 0; r < sum->comm->size; r++)
        sum->parts[r] = r == sum->comm->rank ? own : rk_all_to_all_received(sum->all_to_all)[r].data;
    add_in_tree_order(sum->parts, sum->comm->size, n);
    if (n && sum->parts[0] != own) memcpy(own, sum->parts[0], n * sizeof *own);
}

/* The sums are rounded here too, as they are where they are sent to. */
static void add_parts_bf16(rk_all_reduce *sum, size_t first, size_t n) {
    int32_t size = sum->comm->size;
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t m = n - at < BLOCK ? n - at : BLOCK;
        for (int32_t r = 0; r < size; r++) {
            sum->parts[r] = sum->block + (size_t)r * BLOCK;
            const uint16_t *from =
                r == sum->comm->rank ? sum->halves + first : rk_all_to_all_received(sum->all_to_all)[r].data;
            unpack_bf16(sum->parts[r], from + at, m);
        }
        add_in_tree_order(sum->parts, size, m);
        pack_bf16(sum->halves + first + at, sum->parts[0], m);
    }
    unpack_bf16(sum->values + first, sum->halves + first, n);
}

static rk_status add_parts(rk_all_reduce *sum) {
    int32_t size = sum->comm->size;
    size_t first, n;
    part_of_rank(sum, sum->comm->rank, &first, &n);
    if (sum->narrow)
        add_parts_bf16(sum, first, n);
    else
        add_parts_f32(sum, first, n);
    finish_all_to_all(sum);
    if (sum->few) {
        atomic_store(&sum->done, true);
        return RK_OK;
    }
    for (int32_t r = 0; r < size; r++) sum->send[r] = message_of_values(sum, first, n);
    return begin_all_to_all(sum, true);
}

static void collect_sums(rk_all_reduce *sum) {
    for (int32_t r = 0; r < sum->comm->size; r++) {
        const rk_message *part = &rk_all_to_all_received(sum->all_to_all)[r];
        size_t first, n;
        part_of_rank(sum, r, &first, &n);
        if (part->n_bytes && sum->narrow)
            unpack_bf16(sum->values + first, part->data, n);
        else if (part->n_bytes)
            memcpy(sum->values + first, part->data, part->n_bytes);
    }
    finish_all_to_all(sum);
    atomic_store(&sum->done, true);
}

static rk_status advance_all_reduce(rk_all_reduce *sum) {
    while (!sum->done && rk_all_to_all_is_done(sum->all_to_all)) {
        rk_status status = check_sizes(sum);
        if (status != RK_OK) return rk_comm_fail(sum->comm, status);
        if (sum->returning)
            collect_sums(sum);
        else
            RK_TRY(add_parts(sum));
    }
    return RK_OK;
}

/* One that fails ends the communicator, so those after it need not be moved. */
rk_status rk_all_reduces_advance(rk_comm *comm, bool looks) {
    if (pthread_mutex_trylock(&comm->sums_mutex) != 0) return RK_OK;
    rk_status status = RK_OK;
    bool done;
    if (looks && comm->sums) status = comm->ops->test(comm->sums->all_to_all, &done);
    for (rk_all_reduce **at = &comm->sums; *at && status == RK_OK;) {
        status = advance_all_reduce(*at);
        if ((*at)->done)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
    pthread_mutex_unlock(&comm->sums_mutex);
    return status;
}

static void release_all_reduce(rk_all_reduce *sum) {
    RK_FREE_ALL(sum->send, sum->parts, sum->others, sum->halves, sum->block, sum);
}

static rk_status create_all_reduce(rk_comm *comm, rk_all_reduce **out) {
    rk_all_reduce *sum;
    RK_TRY(rk_alloc(1, sizeof *sum, &sum));
    size_t size = (size_t)comm->size;
    rk_status status = rk_alloc(size, sizeof *sum->send, &sum->send);
    if (status == RK_OK) status = rk_alloc(size, sizeof *sum->parts, &sum->parts);
    if (status == RK_OK) status = rk_alloc(size, sizeof *sum->others, &sum->others);
    if (status != RK_OK) {
        release_all_reduce(sum);
        return status;
    }
    sum->comm = comm;
    for (int32_t r = 0; r < comm->size; r++) sum->others[r] = r != comm->rank;
    *out = sum;
    return RK_OK;
}

static rk_status idle_or_new(rk_comm *comm, rk_all_reduce **out) {
    pthread_mutex_lock(&comm->sums_mutex);
    rk_all_reduce *sum = comm->idle_sums;
    if (sum) comm->idle_sums = sum->next;
    pthread_mutex_unlock(&comm->sums_mutex);
    if (!sum) return create_all_reduce(comm, out);
    *out = sum;
    return RK_OK;
}

void rk_all_reduces_release(rk_comm *comm) {
    for (rk_all_reduce *sum = comm->idle_sums, *next; sum; sum = next) {
        next = sum->next;
        release_all_reduce(sum);
    }
}

static void append_to_running(rk_all_reduce *sum) {
    pthread_mutex_lock(&sum->comm->sums_mutex);
    rk_all_reduce **at = &sum->comm->sums;
    while (*at) at = &(*at)->next;
    *at = sum;
    pthread_cond_signal(&sum->comm->sums_begun);
    pthread_mutex_unlock(&sum->comm->sums_mutex);
}

/* Memory for halves grows and stays. */
static rk_status reserve_bf16(rk_all_reduce *sum) {
    if (!sum->block) RK_TRY(rk_alloc((size_t)sum->comm->size, BLOCK * sizeof *sum->block, &sum->block));
    if (sum->n_halves < sum->n) {
        sum->n_halves = 0;
        RK_TRY(rk_realloc(sum->n, sizeof *sum->halves, &sum->halves));
        sum->n_halves = sum->n;
    }
    pack_bf16(sum->halves, sum->values, sum->n);
    return RK_OK;
}

static rk_status send_parts(rk_all_reduce *sum) {
    rk_status status = sum->narrow ? reserve_bf16(sum) : RK_OK;
    if (status != RK_OK) return rk_comm_fail(sum->comm, status);
    for (int32_t r = 0; r < sum->comm->size; r++) {
        size_t first, n;
        part_of_rank(sum, r, &first, &n);
        sum->send[r] = message_of_values(sum, first, n);
    }
    return begin_all_to_all(sum, false);
}

static rk_status begin_all_reduce(rk_comm *comm, rk_channel channel, bool is_narrow, float *values, size_t n,
                                  rk_all_reduce **out) {
    RK_FAIL_IF(n && !values, RK_INVALID_ARGUMENT, "all_reduce: no values");
    rk_all_reduce *sum;
    uint32_t sequence = atomic_fetch_add(&comm->begun[channel], 2);
    rk_status status = idle_or_new(comm, &sum);
    if (status != RK_OK) return rk_comm_fail(comm, status);
    sum->channel = channel;
    sum->sequence = sequence;
    sum->values = values;
    sum->n = n;
    sum->few = n <= FEW_VALUES;
    sum->narrow = is_narrow;
    sum->awaited = false;
    sum->next = NULL;
    atomic_store(&sum->done, n == 0 || comm->size == 1);
    if (!sum->done) {
        status = send_parts(sum);
        if (status == RK_OK) append_to_running(sum);
    }
    if (status != RK_OK) {
        rk_all_reduce_free(sum);
        return status;
    }
    *out = sum;
    return RK_OK;
}

rk_status rk_all_reduce_begin(rk_comm *comm, rk_channel channel, float *values, size_t n,
                              rk_all_reduce **out) {
    return begin_all_reduce(comm, channel, false, values, n, out);
}

rk_status rk_all_reduce_begin_bf16(rk_comm *comm, rk_channel channel, float *values, size_t n,
                                   rk_all_reduce **out) {
    return begin_all_reduce(comm, channel, true, values, n, out);
}

static rk_status test_all_reduce(rk_all_reduce *sum, bool *done) {
    RK_TRY(rk_comm_failed(sum->comm));
    RK_TRY(rk_all_reduces_advance(sum->comm, true));
    *done = sum->done;
    return RK_OK;
}

static rk_status late_error(rk_all_reduce *sum) {
    pthread_mutex_lock(&sum->comm->sums_mutex);
    rk_status status = sum->done ? RK_OK : rk_all_to_all_check_timeout(sum->all_to_all);
    pthread_mutex_unlock(&sum->comm->sums_mutex);
    return status;
}

static void await_all_reduce(rk_all_reduce *sum) {
    pthread_mutex_lock(&sum->comm->sums_mutex);
    sum->awaited = true;
    if (sum->all_to_all) atomic_store(&sum->all_to_all->awaited, true);
    pthread_mutex_unlock(&sum->comm->sums_mutex);
}

rk_status rk_all_reduce_wait(rk_all_reduce *sum) {
    double deadline = rk_clock_seconds() + sum->comm->timeout_s;
    await_all_reduce(sum);
    for (unsigned n_pauses = 0;;) {
        bool done;
        RK_TRY(test_all_reduce(sum, &done));
        if (done) return RK_OK;
        if (rk_clock_seconds() > deadline) RK_TRY(late_error(sum));
        rk_comm_pause(&n_pauses);
    }
}

void rk_all_reduce_free(rk_all_reduce *sum) {
    if (!sum) return;
    rk_comm *comm = sum->comm;
    pthread_mutex_lock(&comm->sums_mutex);
    for (rk_all_reduce **at = &comm->sums; *at; at = &(*at)->next) {
        if (*at != sum) continue;
        *at = sum->next;
        break;
    }
    finish_all_to_all(sum);
    sum->next = comm->idle_sums;
    comm->idle_sums = sum;
    pthread_mutex_unlock(&comm->sums_mutex);
}
