/* Started by an MPI launcher with any number of ranks: what each sends, all can compute, so every rank checks
 * what it receives. `test_comm_mpi missing`: the last rank takes no part. `test_comm_mpi bucket`: it begins
 * the first of two sums only. */
#include "testing.h"

#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <reckon/comm.h>

#include "base/thread/clock.h"
#include "base/error.h"
#include "base/float16.h"
#include "base/memory.h"
#include "comm/progress_thread.h"

enum { N_CHANNELS = RK_CHANNEL_COUNT, DEPTH = 4, N_ROUNDS = 12, STRIDE = 5 };
_Static_assert(N_CHANNELS *DEPTH % STRIDE, "strides of a prime come to every flight");

static rk_comm *world;

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t h =
        (a + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u ^ (b + 0x94D049BB133111EBu) * 0xD6E8FEB86659FD93u;
    h ^= h >> 29;
    h *= 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

static uint64_t key_of(int round, int channel, int turn, int from, int to) {
    return mix(mix((uint64_t)round * 64 + (uint64_t)channel * 8 + (uint64_t)turn, (uint64_t)from),
               (uint64_t)to);
}

static size_t bytes_of(uint64_t key) {
    switch (key % 8) {
        case 0:
            return 0;
        case 1:
            return 1 + key / 8 % 100;
        case 2:
            return 65536 * (1 + key / 8 % 3); /* whole pieces, where messages are cut */
        case 3:
            return key / 8 % 64 ? key / 8 % 200000 : 3000000 + key % 1000;
        default:
            return key / 8 % 20000;
    }
}

/* Lane GRADIENTS goes around in a ring only. */
static bool goes(int channel, int from, int to, int size) {
    return channel != RK_CHANNEL_GRADIENTS || to == (from + 1) % size;
}

static void fill(unsigned char *data, size_t n, uint64_t key) {
    for (size_t i = 0; i < n; i++) data[i] = (unsigned char)(key >> i % 8 * 8) + (unsigned char)(i >> 3);
}

static bool is_filled(const unsigned char *data, size_t n, uint64_t key) {
    for (size_t i = 0; i < n; i++) {
        if (data[i] != (unsigned char)((unsigned char)(key >> i % 8 * 8) + (unsigned char)(i >> 3)))
            return false;
    }
    return true;
}

typedef struct batch_context {
    rk_all_to_all *all_to_all;
    rk_message *send;
    bool *to, *from;
} batch_context;

static batch_context take_off(rk_comm *comm, int round, int channel, int turn) {
    int size = rk_comm_size(comm), rank = rk_comm_rank(comm);
    batch_context f = {.send = test_calloc((size_t)size, sizeof *f.send),
                       .to = test_calloc((size_t)size, 1),
                       .from = test_calloc((size_t)size, 1)};
    for (int r = 0; r < size; r++) {
        uint64_t key = key_of(round, channel, turn, rank, r);
        f.to[r] = goes(channel, rank, r, size);
        f.from[r] = goes(channel, r, rank, size);
        f.send[r].n_bytes = bytes_of(key);
        f.send[r].data = test_malloc(f.send[r].n_bytes + 1);
        fill(f.send[r].data, f.send[r].n_bytes, key);
    }
    bool all = channel != RK_CHANNEL_GRADIENTS;
    OK(rk_all_to_all_begin(comm, (rk_channel)channel, f.send, all ? NULL : f.to, all ? NULL : f.from,
                           &f.all_to_all));
    return f;
}

static void land(rk_comm *comm, batch_context *f, int round, int channel, int turn) {
    int size = rk_comm_size(comm), rank = rk_comm_rank(comm);
    OK(rk_all_to_all_wait(f->all_to_all));
    const rk_message *received = rk_all_to_all_received_messages(f->all_to_all);
    for (int r = 0; r < size; r++) {
        uint64_t key = key_of(round, channel, turn, r, rank);
        assert_int_equal(received[r].n_bytes, f->from[r] ? bytes_of(key) : 0);
        assert_int_equal((uintptr_t)received[r].data % 64, 0);
        assert_true(is_filled(received[r].data, received[r].n_bytes, key));
        test_free(f->send[r].data);
    }
    rk_all_to_all_free(f->all_to_all);
    test_free(f->send);
    test_free(f->to);
    test_free(f->from);
}

/* Lanes are begun in another order on each rank, and waited for in yet another. */
static void fly(rk_comm *comm, int first_round, int n_rounds) {
    int rank = rk_comm_rank(comm);
    batch_context batch_contexts[N_CHANNELS][DEPTH];
    for (int round = first_round; round < first_round + n_rounds; round++) {
        for (int turn = 0; turn < DEPTH; turn++) {
            for (int i = 0; i < N_CHANNELS; i++) {
                int channel = (i + rank) % N_CHANNELS;
                batch_contexts[channel][turn] = take_off(comm, round, channel, turn);
            }
        }
        int start = (int)(mix((uint64_t)round, (uint64_t)rank) % (N_CHANNELS * DEPTH));
        for (int i = 0; i < N_CHANNELS * DEPTH; i++) {
            int at = (start + i * STRIDE) % (N_CHANNELS * DEPTH);
            land(comm, &batch_contexts[at % N_CHANNELS][at / N_CHANNELS], round, at % N_CHANNELS,
                 at / N_CHANNELS);
        }
    }
}

static void test_exchanges(void **state) {
    (void)state;
    fly(world, 0, N_ROUNDS);
}

static void test_cut(void **state) {
    (void)state;
    size_t whole = world->shared->piece_bytes;
    world->shared->piece_bytes = 65536;
    fly(world, 100, N_ROUNDS);
    OK(rk_comm_barrier(world));
    world->shared->piece_bytes = whole;
    OK(rk_comm_barrier(world));
}

static float value_of(int sum, int rank, size_t i) {
    uint64_t h = mix((uint64_t)sum * 1000 + (uint64_t)rank, i);
    return ldexpf((float)(int32_t)(h >> 32), (int)(h % 40) - 50);
}

/* Sums that travel as bf16 have values of it for parts and results. */
static bool is_narrow(int sum) {
    return sum >= 1000;
}

static float on_the_wire(int sum, float value) {
    return is_narrow(sum) ? rk_bf16_to_f32(rk_bf16_from_f32(value)) : value;
}

/* The definition, written another way than the library's: halves of an aligned tree. */
static float tree(int sum, int first, int width, int size, size_t i) {
    if (width == 1) return on_the_wire(sum, value_of(sum, first, i));
    float left = tree(sum, first, width / 2, size, i);
    return first + width / 2 < size ? left + tree(sum, first + width / 2, width / 2, size, i) : left;
}

static void check_sum(const float *values, size_t n, int sum, int size) {
    int width = 1;
    while (width < size) width *= 2;
    for (size_t i = 0; i < n; i++) {
        float expected = size > 1 ? on_the_wire(sum, tree(sum, 0, width, size, i)) : value_of(sum, 0, i);
        if (memcmp(&values[i], &expected, sizeof expected) != 0)
            print_error("sum %d, value %zu of %zu: %a, not %a\n", sum, i, n, (double)values[i],
                        (double)expected);
        assert_memory_equal(&values[i], &expected, sizeof expected);
    }
}

static float *values_of(int sum, int rank, size_t n) {
    float *values = test_malloc((n + 1) * sizeof *values);
    for (size_t i = 0; i < n; i++) values[i] = value_of(sum, rank, i);
    return values;
}

static void sum_all(int first) {
    static const size_t sizes[] = {0, 1, 3, 100, 1024, 1025, 4099, 300001};
    enum { N = sizeof sizes / sizeof *sizes };
    int rank = rk_comm_rank(world), size = rk_comm_size(world);
    rk_all_reduce *sums[N];
    float *values[N];
    for (int s = 0; s < N; s++) {
        values[s] = values_of(first + s, rank, sizes[s]);
        rk_sum_rounding rounding = {.wire = is_narrow(first) ? RK_SUM_BF16 : RK_SUM_F32};
        OK(rk_all_reduce_begin_rounded(world, s % 2 ? RK_CHANNEL_DENSE : RK_CHANNEL_SUMS, &rounding,
                                       values[s], sizes[s], &sums[s]));
    }
    batch_context other = take_off(world, 200, RK_CHANNEL_DENSE, 0);
    for (int i = 0; i < N; i++) {
        int s = (i * 3 + rank * 5) % N;
        OK(rk_all_reduce_wait(sums[s]));
        check_sum(values[s], sizes[s], first + s, size);
        rk_all_reduce_free(sums[s]);
        test_free(values[s]);
    }
    land(world, &other, 200, RK_CHANNEL_DENSE, 0);
}

static void test_sums(void **state) {
    (void)state;
    int rank = rk_comm_rank(world), size = rk_comm_size(world);
    sum_all(0);
    sum_all(1000);
    float few[] = {(float)rank};
    OK(rk_comm_all_reduce_f32(world, few, 1));
    assert_true(few[0] == (float)(size * (size - 1) / 2));
}

/* A rank that waits for a sum only after what another rank begins after that sum. */
static void test_sums_go_on_beside_exchanges(void **state) {
    (void)state;
    enum { N = 5000 };
    int rank = rk_comm_rank(world), size = rk_comm_size(world);
    float *values = values_of(50, rank, N);
    rk_all_reduce *sum;
    OK(rk_all_reduce_begin(world, RK_CHANNEL_DENSE, values, N, &sum));
    if (rank % 2) OK(rk_all_reduce_wait(sum));
    batch_context other = take_off(world, 201, RK_CHANNEL_IDS, 0);
    land(world, &other, 201, RK_CHANNEL_IDS, 0);
    if (rank % 2 == 0) OK(rk_all_reduce_wait(sum));
    check_sum(values, N, 50, size);
    rk_all_reduce_free(sum);
    test_free(values);
}

static bool is_moving(void) {
    pthread_mutex_lock(&world->sums_mutex);
    bool moves = world->sums != NULL;
    pthread_mutex_unlock(&world->sums_mutex);
    return moves;
}

/* Sums come to their end while nobody waits, time after time; and an progress thread may leave while some are
 * under way. */
static void test_sums_go_on_alone(void **state) {
    (void)state;
    enum { N = 300001, TIMES = 3 };
    int rank = rk_comm_rank(world), size = rk_comm_size(world);
    rk_progress_thread progress, none = {0};
    OK(rk_progress_thread_init(&progress, world));
    for (int i = 0; i < 2 * TIMES; i += 2) {
        float *values[2];
        rk_all_reduce *sums[2];
        for (int k = 0; k < 2; k++) {
            values[k] = values_of(60 + i + k, rank, N);
            OK(rk_all_reduce_begin(world, RK_CHANNEL_DENSE, values[k], N, &sums[k]));
        }
        if (i == 2 * (TIMES - 1)) rk_progress_thread_release(&progress);
        for (double began = rk_clock_seconds();
             progress.runs && is_moving() && rk_clock_seconds() < began + 60;)
            usleep(100);
        assert_true(!progress.runs || !is_moving());
        for (int k = 0; k < 2; k++) {
            OK(rk_all_reduce_wait(sums[k]));
            check_sum(values[k], N, 60 + i + k, size);
            rk_all_reduce_free(sums[k]);
            test_free(values[k]);
        }
    }
    rk_progress_thread_release(&none);
}

static void test_gather(void **state) {
    (void)state;
    char text[20];
    int n = snprintf(text, sizeof text, "from %*d", rk_comm_rank(world) + 1, rk_comm_rank(world));
    rk_all_to_all *all_to_all;
    OK(rk_comm_all_gather(world, RK_CHANNEL_VALUES, text, (size_t)n, &all_to_all));
    for (int r = 0; r < rk_comm_size(world); r++) {
        n = snprintf(text, sizeof text, "from %*d", r + 1, r);
        assert_int_equal(rk_all_to_all_received_messages(all_to_all)[r].n_bytes, n);
        assert_memory_equal(rk_all_to_all_received_messages(all_to_all)[r].data, text, n);
    }
    rk_all_to_all_free(all_to_all);
}

static void test_agree(void **state) {
    (void)state;
    int rank = rk_comm_rank(world), size = rk_comm_size(world);
    if (size == 1) return;
    OK(rk_comm_agree_on_status(world, RK_OK));
    bool fails = rank == 1 || rank == size - 1;
    rk_status status =
        fails ? rk_error_hint(rk_error(RK_BAD_DATA, "line %d of 'x'", rank), "mend it") : RK_OK;
    FAILS(rk_comm_agree_on_status(world, status), RK_BAD_DATA, "rank 1: line 1 of 'x'\nhint: mend it");
    char text[4000];
    memset(text, 'a', sizeof text);
    for (size_t i = 1; i + 1 < sizeof text; i += 2) memcpy(text + i, "\xC3\xA4", 2);
    text[sizeof text - 1] = 0;
    status = rank == 0 ? rk_error(RK_IO, "%s", text) : RK_OK;
    assert_int_equal(rk_comm_agree_on_status(world, status), RK_IO);
    const char *said = rk_last_error();
    size_t n = strlen(said);
    assert_true(n > 2000 && n < 2100);
    assert_string_equal(said + n - 6, " [cut]");
    assert_int_equal((unsigned char)said[n - 7], 0xA4);
    assert_memory_equal(said, "rank 0: a\xC3\xA4", 11);
}

static void in_group(const int32_t *members, int32_t n, int round) {
    rk_comm *group;
    OK(rk_comm_create_group(world, members, n, &group));
    int rank = rk_comm_rank(group);
    assert_int_equal(rk_comm_size(group), n);
    assert_int_equal(members[rank], rk_comm_rank(world));
    fly(group, round, 2);
    float *values = values_of(round, rank, 3000);
    OK(rk_comm_all_reduce_f32(group, values, 3000));
    check_sum(values, 3000, round, n);
    test_free(values);
    rk_status status = rank == n - 1 ? rk_error(RK_IO, "no") : RK_OK;
    char expected[50];
    snprintf(expected, sizeof expected, n == 1 ? "no" : "rank %d: no", (int)members[n - 1]);
    FAILS(rk_comm_agree_on_status(group, status), RK_IO, expected);
    rk_comm_free(group);
}

static void test_members(void **state) {
    (void)state;
    int rank = rk_comm_rank(world), size = rk_comm_size(world);
    int32_t half[64], all[64], n = 0;
    for (int r = 0; r < size; r++) {
        if (r % 2 == rank % 2) half[n++] = r;
        all[r] = r;
    }
    in_group(half, n, 300);
    if (rank < 2 && size > 1) in_group((int32_t[]){0, 1}, 2, 310);
    in_group(all, size, 320);
    in_group(&(int32_t){rank}, 1, 330);
    rk_comm *none;
    if (size > 1)
        assert_int_equal(rk_comm_create_group(world, (int32_t[]){1, 0}, 2, &none), RK_INVALID_ARGUMENT);
}

/* Their sequence numbers are the same, so what is begun on one must not arrive on the other. */
static void test_two_groups_of_the_same_ranks(void **state) {
    (void)state;
    int32_t all[64];
    rk_comm *groups[2];
    batch_context batch_contexts[2];
    int rank = rk_comm_rank(world), size = rk_comm_size(world);
    for (int r = 0; r < size; r++) all[r] = r;
    for (int g = 0; g < 2; g++) OK(rk_comm_create_group(world, all, size, &groups[g]));
    for (int i = 0; i < 2; i++) {
        int g = (i + rank) % 2;
        batch_contexts[g] = take_off(groups[g], 340 + g, RK_CHANNEL_IDS, 0);
    }
    for (int g = 0; g < 2; g++) land(groups[g], &batch_contexts[g], 340 + g, RK_CHANNEL_IDS, 0);
    for (int g = 0; g < 2; g++) rk_comm_free(groups[g]);
}

static void *dense_thread(void *unused) {
    (void)unused;
    for (int s = 0; s < 30; s++) {
        float *values = values_of(s, rk_comm_rank(world), 2000);
        rk_all_reduce *sum;
        OK(rk_all_reduce_begin(world, RK_CHANNEL_DENSE, values, 2000, &sum));
        OK(rk_all_reduce_wait(sum));
        check_sum(values, 2000, s, rk_comm_size(world));
        rk_all_reduce_free(sum);
        test_free(values);
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, dense_thread, NULL), 0);
    for (int round = 400; round < 430; round++) {
        batch_context f = take_off(world, round, RK_CHANNEL_IDS, 0);
        land(world, &f, round, RK_CHANNEL_IDS, 0);
    }
    pthread_join(thread, NULL);
}

static void test_nothing_is_allocated_anew(void **state) {
    (void)state;
    long live = 0;
    int size = rk_comm_size(world);
    static char data[5000];
    static float values[5000];
    rk_message *send = test_calloc((size_t)size, sizeof *send);
    for (int i = 0; i < 40; i++) {
        rk_all_to_all *all_to_all;
        rk_all_reduce *sum;
        for (int r = 0; r < size; r++) send[r] = (rk_message){data, 4000 + (size_t)(i * 37 + r * 311) % 1000};
        OK(rk_all_to_all_begin(world, RK_CHANNEL_ROWS, send, NULL, NULL, &all_to_all));
        OK(rk_all_reduce_begin(world, RK_CHANNEL_DENSE, values, 5000, &sum));
        OK(rk_all_to_all_wait(all_to_all));
        OK(rk_all_reduce_wait(sum));
        rk_all_to_all_free(all_to_all);
        rk_all_reduce_free(sum);
        if (i == 20) live = rk_alloc_live();
    }
    assert_int_equal(rk_alloc_live(), live);
    test_free(send);
}

static int end(void **state) {
    (void)state;
    rk_comm_free(world);
    assert_int_equal(rk_alloc_live(), 0);
    return 0;
}

/* Whether a wait ended as it should, and all after it says the same. */
static bool says(rk_status status, double began, const char *expected, double timeout_s) {
    double took = rk_clock_seconds() - began;
    bool right = status == RK_PEER_LOST && strcmp(rk_last_error(), expected) == 0 && took >= timeout_s &&
                 took < 10 * timeout_s; /* a busy machine is slow to look again */
    right = right && rk_comm_barrier(world) == RK_PEER_LOST && strcmp(rk_last_error(), expected) == 0;
    printf("rank %d after %.2f s: %s\n", rk_comm_rank(world), took, rk_last_error());
    return right;
}

/* Of a wait for a part of `channel`: the last rank did not send it. */
static bool names_missing(rk_status status, double began, const char *channel, double timeout_s) {
    char expected[200];
    int last = rk_comm_size(world) - 1;
    snprintf(expected, sizeof expected, "rank %d (host %s) did not send its part of '%s' within %g s", last,
             world->peers[last].host, channel, timeout_s);
    return says(status, began, expected, timeout_s);
}

/* Waits for that rank's part alone. */
static rk_status wait_for(int rank, rk_channel channel) {
    enum { MOST = 8 };
    bool to[MOST] = {false}, from[MOST] = {false};
    rk_message send[MOST] = {{NULL, 0}};
    rk_all_to_all *all_to_all;
    from[rank] = true;
    rk_status status = rk_all_to_all_begin(world, channel, send, to, from, &all_to_all);
    if (status != RK_OK) return status;
    status = rk_all_to_all_wait(all_to_all);
    rk_all_to_all_free(all_to_all);
    return status;
}

static void *wait_for_last(void *timeout_s) {
    usleep((useconds_t)(1e5 * *(double *)timeout_s));
    (void)wait_for(rk_comm_size(world) - 1, RK_CHANNEL_GRADIENTS);
    return NULL;
}

/* The last rank hangs; another thread of rank 0 waits for it, from somewhat later on. Rank 0 and the one
 * before the last wait for each other, the others for the latter: all name the last. */
static int chain(double timeout_s) {
    char expected[300];
    int last = rk_comm_size(world) - 1, rank = rk_comm_rank(world), awaited = rank == last - 1 ? 0 : last - 1;
    bool right = true;
    if (rank == last) {
        usleep((useconds_t)(2e6 * timeout_s));
    } else {
        pthread_t thread;
        if (rank == 0) pthread_create(&thread, NULL, wait_for_last, &timeout_s);
        snprintf(expected, sizeof expected,
                 "rank %d (host %s) did not go on within %g s: this rank waits for 'rows' of rank %d (host "
                 "%s), which waits for that one",
                 last, world->peers[last].host, timeout_s, awaited, world->peers[awaited].host);
        double began = rk_clock_seconds();
        right = says(wait_for(awaited, RK_CHANNEL_ROWS), began, expected, timeout_s);
        if (rank == 0) pthread_join(thread, NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return right ? 0 : 1;
}

/* As MPI does to the socket of a rank that was killed. */
static void test_a_closed_connection_does_not_end_the_rank(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[0]);
    assert_int_equal(write(ends[1], "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    close(ends[1]);
}

/* The last rank begins a bucket and then hangs, but that its progress thread goes on: the others get that
 * bucket's sum, and not the next one's. */
static int bucket(double timeout_s) {
    enum { N = 300001 };
    int last = rk_comm_size(world) - 1, rank = rk_comm_rank(world);
    float *values[2] = {values_of(70, rank, N), values_of(71, rank, N)};
    rk_all_reduce *sums[2];
    rk_progress_thread progress;
    bool right = rk_progress_thread_init(&progress, world) == RK_OK &&
                 rk_all_reduce_begin(world, RK_CHANNEL_DENSE, values[0], N, &sums[0]) == RK_OK;
    if (rank == last) {
        usleep((useconds_t)(3e6 * timeout_s));
    } else {
        right = right && rk_all_reduce_begin(world, RK_CHANNEL_DENSE, values[1], N, &sums[1]) == RK_OK &&
                rk_all_reduce_wait(sums[0]) == RK_OK;
        if (right) check_sum(values[0], N, 70, rk_comm_size(world));
        double began = rk_clock_seconds();
        right = right && names_missing(rk_all_reduce_wait(sums[1]), began, "dense", timeout_s);
        rk_all_reduce_free(sums[1]);
    }
    rk_all_reduce_free(sums[0]);
    rk_progress_thread_release(&progress);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return right ? 0 : 1;
}

/* MPI itself is well, so the test ends in order. */
static int missing(double timeout_s) {
    int last = rk_comm_size(world) - 1;
    bool right = true;
    if (rk_comm_rank(world) == last) {
        usleep((useconds_t)(2e6 * timeout_s));
    } else {
        rk_all_to_all *all_to_all;
        double began = rk_clock_seconds();
        right = names_missing(rk_comm_all_gather(world, RK_CHANNEL_IDS, "x", 1, &all_to_all), began, "ids",
                              timeout_s);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return right ? 0 : 1;
}

int main(int argc, char **argv) {
    rk_comm_options options = RK_COMM_OPTIONS_INIT;
    const char *harm = argc > 1 ? argv[1] : "";
    options.timeout_s =
        *harm ? 4 : 60; /* long enough for what ranks do on a busy machine before one of them hangs */
    if (rk_comm_world(&options, &world) != RK_OK) {
        fprintf(stderr, "%s\n", rk_last_error());
        return 1;
    }
    if (rk_comm_rank(world) == 0) printf("%s\n", rk_comm_describe(world));
    rk_comm *again;
    if (rk_comm_world(&options, &again) != RK_INVALID_ARGUMENT) return 1;
    if (strcmp(harm, "missing") == 0) return missing(options.timeout_s);
    if (strcmp(harm, "chain") == 0) return chain(options.timeout_s);
    if (strcmp(harm, "bucket") == 0) return bucket(options.timeout_s);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_sums_go_on_beside_exchanges),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_agree),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_two_groups_of_the_same_ranks),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_sums_go_on_alone),
        cmocka_unit_test(test_nothing_is_allocated_anew),
        cmocka_unit_test(test_a_closed_connection_does_not_end_the_rank),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
