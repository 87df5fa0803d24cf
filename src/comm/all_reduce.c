/* Sums over ranks. Each rank sums one part of the values and sends the result to all. Few values are summed
 * by every rank, which saves the time of a message. */
#include <string.h>

#include "base/thread/clock.h"
#include "base/float16.h"
#include "base/integers.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "comm/int8_pieces.h"

enum { FEW_VALUES = 1024, BLOCK = 4096, FEW_PAUSES = 100 }; /* so many take some milliseconds */
static const double MOST_SLEEP_S = 0.05;                    /* then time limits are looked at */

struct rk_all_reduce {
    rk_comm *comm;
    rk_channel channel;
    uint32_t sequence; /* of the parts' all_to_all; that of the results is the next */
    float *values;     /* [n] */
    size_t n;
    bool few;                 /* every rank adds all */
    bool returning;           /* `all_to_all` is that of the results */
    rk_sum_rounding rounding; /* how values travel; unless as f32, */
    char *packed;             /* each rank's part is packed here, packed_stride apart, */
    size_t packed_stride, packed_bytes;
    float *block; /* [size, BLOCK]: and added here */
    bool awaited; /* a thread does nothing but wait for it */
    atomic_bool done;
    rk_all_to_all *all_to_all; /* NULL: none is under way */
    rk_message *send;          /* [size] */
    float **parts;             /* [size] */
    bool *others;              /* [size]: all but this rank */
    rk_all_reduce *next;       /* among those under way, or idle */
};

static void find_part_of_rank(const rk_all_reduce *sum, int32_t rank, size_t *first, size_t *n) {
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

size_t rk_sum_wire_bytes(rk_sum_wire wire, size_t n) {
    switch (wire) {
        case RK_SUM_BF16:
            return n * sizeof(uint16_t);
        case RK_SUM_INT8:
            return rk_int8_piece_bytes(n);
        default:
            return n * sizeof(float);
    }
}

/* Rank r's part as it travels. */
static rk_message message_of_part(const rk_all_reduce *sum, int32_t r) {
    size_t first, n;
    find_part_of_rank(sum, r, &first, &n);
    bool is_rounded = sum->rounding.wire != RK_SUM_F32;
    void *data = is_rounded ? (void *)(sum->packed + (size_t)r * sum->packed_stride) : sum->values + first;
    return (rk_message){data, rk_sum_wire_bytes(sum->rounding.wire, n)};
}

static void pack_bf16(uint16_t *to, const float *from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = rk_bf16_from_f32_finite(from[i]);
}

static void unpack_bf16(float *to, const uint16_t *from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = rk_bf16_to_f32(from[i]);
}

/* Values at .. at+n-1 of rank r's part, to where the part is packed. */
static void pack(rk_all_reduce *sum, int32_t r, size_t at, size_t n, const float *from) {
    const rk_sum_rounding *rounding = &sum->rounding;
    void *part = message_of_part(sum, r).data;
    size_t first, total;
    find_part_of_rank(sum, r, &first, &total);
    if (rounding->wire == RK_SUM_BF16)
        pack_bf16((uint16_t *)part + at, from, n);
    else
        rk_int8_encode(from, rounding->residual + first + at, total, at, n, part,
                       rounding->next + first + at);
}

/* The same of a packed part of `total` values. */
static void unpack(rk_sum_wire wire, const void *part, size_t total, size_t at, size_t n, float *to) {
    if (wire == RK_SUM_BF16)
        unpack_bf16(to, (const uint16_t *)part + at, n);
    else
        rk_int8_decode(part, total, at, n, to);
}

static rk_status check_received_sizes(const rk_all_reduce *sum) {
    const rk_message *received = rk_all_to_all_received_messages(sum->all_to_all);
    for (int32_t r = 0; r < sum->comm->size; r++) {
        if (r == sum->comm->rank) continue;
        size_t first, n;
        find_part_of_rank(sum, sum->returning ? r : sum->comm->rank, &first, &n);
        size_t expected = rk_sum_wire_bytes(sum->rounding.wire, n);
        RK_FAIL_IF(received[r].n_bytes != expected, RK_INVALID_ARGUMENT,
                   "all_reduce of %zu values: rank %d sent %zu bytes, this rank expects %zu; the ranks do "
                   "not reduce the same values",
                   sum->n, (int)sum->comm->peers[r].rank, received[r].n_bytes, expected);
    }
    return RK_OK;
}

static rk_status begin_all_to_all(rk_all_reduce *sum, bool returning) {
    sum->returning = returning;
    RK_TRY(rk_all_to_all_begin_with_sequence(sum->comm, (int)sum->channel, sum->sequence + returning,
                                             sum->send, sum->others, sum->others, &sum->all_to_all));
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
        sum->parts[r] = r == sum->comm->rank ? own : rk_all_to_all_received_messages(sum->all_to_all)[r].data;
    add_in_tree_order(sum->parts, sum->comm->size, n);
    if (n && sum->parts[0] != own) memcpy(own, sum->parts[0], n * sizeof *own);
}

/* Values at .. at+n-1 of rank r's copy of this rank's part. Its own is rounded only to bf16: what an int8
 * leaves of it would be one residual more. */
static void unpack_to_block(const rk_all_reduce *sum, int32_t r, size_t at, size_t n, float *to) {
    int32_t own = sum->comm->rank;
    rk_sum_wire wire = sum->rounding.wire;
    size_t first, total;
    find_part_of_rank(sum, own, &first, &total);
    if (r != own)
        unpack(wire, rk_all_to_all_received_messages(sum->all_to_all)[r].data, total, at, n, to);
    else if (wire == RK_SUM_BF16)
        unpack(wire, message_of_part(sum, own).data, total, at, n, to);
    else
        memcpy(to, sum->values + first + at, n * sizeof *to);
}

/* The sums are rounded here too, as they are where they are sent to. */
static void add_rounded_parts(rk_all_reduce *sum, size_t first, size_t n) {
    int32_t size = sum->comm->size, own = sum->comm->rank;
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t m = n - at < BLOCK ? n - at : BLOCK;
        for (int32_t r = 0; r < size; r++) {
            sum->parts[r] = sum->block + (size_t)r * BLOCK;
            unpack_to_block(sum, r, at, m, sum->parts[r]);
        }
        add_in_tree_order(sum->parts, size, m);
        pack(sum, own, at, m, sum->parts[0]);
    }
    unpack(sum->rounding.wire, message_of_part(sum, own).data, n, 0, n, sum->values + first);
}

static rk_status add_parts_of_ranks(rk_all_reduce *sum) {
    size_t first, n;
    find_part_of_rank(sum, sum->comm->rank, &first, &n);
    if (sum->rounding.wire == RK_SUM_F32)
        add_parts_f32(sum, first, n);
    else
        add_rounded_parts(sum, first, n);
    finish_all_to_all(sum);
    if (sum->few) {
        atomic_store(&sum->done, true);
        return RK_OK;
    }
    for (int32_t r = 0; r < sum->comm->size; r++) sum->send[r] = message_of_part(sum, sum->comm->rank);
    return begin_all_to_all(sum, true);
}

static void copy_received_sums(rk_all_reduce *sum) {
    for (int32_t r = 0; r < sum->comm->size; r++) {
        const rk_message *part = &rk_all_to_all_received_messages(sum->all_to_all)[r];
        size_t first, n;
        find_part_of_rank(sum, r, &first, &n);
        if (part->n_bytes && sum->rounding.wire != RK_SUM_F32)
            unpack(sum->rounding.wire, part->data, n, 0, n, sum->values + first);
        else if (part->n_bytes)
            memcpy(sum->values + first, part->data, part->n_bytes);
    }
    finish_all_to_all(sum);
    atomic_store(&sum->done, true);
}

static rk_status advance_all_reduce(rk_all_reduce *sum) {
    while (!sum->done && rk_all_to_all_is_done(sum->all_to_all)) {
        rk_status status = check_received_sizes(sum);
        if (status != RK_OK) return rk_comm_record_failure(sum->comm, status);
        atomic_fetch_add(&sum->comm->n_sum_moves, 1);
        if (sum->returning)
            copy_received_sums(sum);
        else
            RK_TRY(add_parts_of_ranks(sum));
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
        if ((*at)->done) {
            *at = (*at)->next;
            pthread_cond_broadcast(&comm->sums_ended);
        } else {
            at = &(*at)->next;
        }
    }
    pthread_mutex_unlock(&comm->sums_mutex);
    return status;
}

static void release_all_reduce(rk_all_reduce *sum) {
    RK_FREE_ALL(sum->send, sum->parts, sum->others, sum->packed, sum->block, sum);
}

static rk_status allocate_all_reduce(rk_comm *comm, rk_all_reduce **out) {
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

static rk_status reuse_or_create_all_reduce(rk_comm *comm, rk_all_reduce **out) {
    pthread_mutex_lock(&comm->sums_mutex);
    rk_all_reduce *sum = comm->idle_sums;
    if (sum) comm->idle_sums = sum->next;
    pthread_mutex_unlock(&comm->sums_mutex);
    if (!sum) return allocate_all_reduce(comm, out);
    *out = sum;
    return RK_OK;
}

void rk_all_reduces_release(rk_comm *comm) {
    for (rk_all_reduce *sum = comm->idle_sums, *next; sum; sum = next) {
        next = sum->next;
        release_all_reduce(sum);
    }
}

static void append_to_running_sums(rk_all_reduce *sum) {
    pthread_mutex_lock(&sum->comm->sums_mutex);
    rk_all_reduce **at = &sum->comm->sums;
    while (*at) at = &(*at)->next;
    *at = sum;
    pthread_cond_signal(&sum->comm->sums_begun);
    pthread_mutex_unlock(&sum->comm->sums_mutex);
}

/* Memory for packed parts grows and stays. Where there are few values, all ranks' parts are one and the same.
 */
static rk_status reserve_packed(rk_all_reduce *sum) {
    size_t size = (size_t)sum->comm->size, most = sum->few ? sum->n : (sum->n + size - 1) / size,
           stride = rk_round_up(rk_sum_wire_bytes(sum->rounding.wire, most), sizeof(float)),
           n_bytes = sum->few ? stride : size * stride;
    if (!sum->block) RK_TRY(rk_alloc(size, BLOCK * sizeof *sum->block, &sum->block));
    if (sum->packed_bytes < n_bytes) {
        sum->packed_bytes = 0;
        RK_TRY(rk_realloc(n_bytes, 1, &sum->packed));
        sum->packed_bytes = n_bytes;
    }
    sum->packed_stride = sum->few ? 0 : stride;
    return RK_OK;
}

static rk_status pack_parts(rk_all_reduce *sum) {
    RK_TRY(reserve_packed(sum));
    for (int32_t r = 0; r < (sum->few ? 1 : sum->comm->size); r++) {
        size_t first, n;
        if (sum->rounding.wire == RK_SUM_INT8 && r == sum->comm->rank) continue;
        find_part_of_rank(sum, r, &first, &n);
        pack(sum, r, 0, n, sum->values + first);
    }
    return RK_OK;
}

static rk_status send_parts(rk_all_reduce *sum) {
    rk_status status = sum->rounding.wire == RK_SUM_F32 ? RK_OK : pack_parts(sum);
    if (status != RK_OK) return rk_comm_record_failure(sum->comm, status);
    for (int32_t r = 0; r < sum->comm->size; r++) sum->send[r] = message_of_part(sum, r);
    return begin_all_to_all(sum, false);
}

/* Few values, and those of one rank, travel as they are, with all that was kept back of them. */
static void send_residual(rk_all_reduce *sum) {
    const rk_sum_rounding *rounding = &sum->rounding;
    for (size_t i = 0; i < sum->n; i++) {
        sum->values[i] += rounding->residual[i];
        rounding->next[i] = 0;
    }
    sum->rounding = (rk_sum_rounding){.wire = RK_SUM_F32};
}

rk_status rk_all_reduce_begin_rounded(rk_comm *comm, rk_channel channel, const rk_sum_rounding *rounding,
                                      float *values, size_t n, rk_all_reduce **out) {
    RK_FAIL_IF(n && !values, RK_INVALID_ARGUMENT, "all_reduce: no values");
    rk_all_reduce *sum;
    uint32_t sequence = atomic_fetch_add(&comm->begun[channel], 2);
    rk_status status = reuse_or_create_all_reduce(comm, &sum);
    if (status != RK_OK) return rk_comm_record_failure(comm, status);
    sum->channel = channel;
    sum->sequence = sequence;
    sum->values = values;
    sum->n = n;
    sum->few = n <= FEW_VALUES;
    sum->rounding = *rounding;
    sum->awaited = false;
    sum->next = NULL;
    if (rounding->wire == RK_SUM_INT8 && (sum->few || comm->size == 1)) send_residual(sum);
    atomic_store(&sum->done, n == 0 || comm->size == 1);
    if (!sum->done) {
        status = send_parts(sum);
        if (status == RK_OK) append_to_running_sums(sum);
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
    return rk_all_reduce_begin_rounded(comm, channel, &(rk_sum_rounding){.wire = RK_SUM_F32}, values, n, out);
}

static rk_status check_whether_all_reduce_is_done(rk_all_reduce *sum, bool *done) {
    RK_TRY(rk_comm_check_failure(sum->comm));
    RK_TRY(rk_all_reduces_advance(sum->comm, true));
    *done = sum->done;
    return RK_OK;
}

static rk_status check_all_reduce_timeout(rk_all_reduce *sum) {
    pthread_mutex_lock(&sum->comm->sums_mutex);
    rk_status status = sum->done ? RK_OK : rk_all_to_all_check_timeout(sum->all_to_all);
    pthread_mutex_unlock(&sum->comm->sums_mutex);
    return status;
}

static void mark_all_reduce_awaited(rk_all_reduce *sum) {
    pthread_mutex_lock(&sum->comm->sums_mutex);
    sum->awaited = true;
    if (sum->all_to_all) atomic_store(&sum->all_to_all->awaited, true);
    pthread_mutex_unlock(&sum->comm->sums_mutex);
}

/* A long wait where a progress thread looks at messages is left to it, since each look takes system calls.
 * False: there is none. */
static bool sleep_beside_progress_thread(rk_all_reduce *sum) {
    rk_comm *comm = sum->comm;
    struct timespec until = rk_clock_deadline(CLOCK_MONOTONIC, MOST_SLEEP_S);
    pthread_mutex_lock(&comm->sums_mutex);
    bool sleeps = comm->has_progress_thread;
    for (int code = 0; code == 0 && comm->has_progress_thread && !sum->done;)
        code = pthread_cond_timedwait(&comm->sums_ended, &comm->sums_mutex, &until);
    pthread_mutex_unlock(&comm->sums_mutex);
    return sleeps;
}

rk_status rk_all_reduce_wait(rk_all_reduce *sum) {
    double deadline = rk_clock_seconds() + sum->comm->timeout_s;
    mark_all_reduce_awaited(sum);
    for (unsigned n_pauses = 0;;) {
        bool done;
        RK_TRY(check_whether_all_reduce_is_done(sum, &done));
        if (done) return RK_OK;
        if (rk_clock_seconds() > deadline) RK_TRY(check_all_reduce_timeout(sum));
        if (n_pauses < FEW_PAUSES || !sleep_beside_progress_thread(sum)) rk_comm_spin_or_sleep(&n_pauses);
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
