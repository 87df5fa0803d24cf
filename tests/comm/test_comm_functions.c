/* rk_comm_from_functions, with threads as ranks. */
#include <math.h>

#include "testing.h"

#include "base/memory.h"
#include "comm/comm.h"
#include "comm/progress_thread.h"
#include "thread_ranks.h"

/* ---- Messages: their bytes depend on who sends them to whom and when. */

static size_t n_bytes_of(int from, int to, int channel, int k) {
    return (size_t)((from * 31 + to * 17 + channel * 7 + k * 1013) % 5 * (k % 3) * 401);
}

static rk_status fill(rk_comm *comm, int channel, int k, rk_message *send) {
    for (int to = 0; to < comm->size; to++) {
        send[to].n_bytes = n_bytes_of(comm->rank, to, channel, k);
        RK_TRY(rk_alloc(send[to].n_bytes, 1, &send[to].data));
        memset(send[to].data, comm->rank * 64 + to * 16 + k % 16, send[to].n_bytes);
    }
    return RK_OK;
}

static bool is_right(const rk_all_to_all *e, int channel, int k, const bool *from) {
    for (int r = 0; r < e->comm->size; r++) {
        const rk_message *m = &rk_all_to_all_received_messages(e)[r];
        if (from && !from[r]) {
            if (m->n_bytes) return false;
            continue;
        }
        if (m->n_bytes != n_bytes_of(r, e->comm->rank, channel, k)) return false;
        for (size_t i = 0; i < m->n_bytes; i++)
            if (((const char *)m->data)[i] != (char)(r * 64 + e->comm->rank * 16 + k % 16)) return false;
    }
    return true;
}

/* Channels are begun and waited for in another order on each rank, several all_to_alls of each at once, and
 * on one of them only the odd ranks receive. */
static rk_status exchange(rk_comm *comm) {
    enum { CHANNELS = 3, EACH = 4, ROUNDS = 5 };
    static const rk_channel channels[CHANNELS] = {RK_CHANNEL_IDS, RK_CHANNEL_ROWS, RK_CHANNEL_VALUES};
    rk_all_to_all *e[CHANNELS][EACH] = {{0}};
    rk_message send[CHANNELS][EACH][MAX_RANKS] = {{{{0}}}};
    bool odd[MAX_RANKS] = {false, true, false, true}, all[MAX_RANKS] = {true, true, true, true},
         none[MAX_RANKS] = {0};
    rk_status status = RK_OK;
    for (int round = 0; round < ROUNDS && status == RK_OK; round++) {
        for (int i = 0; i < CHANNELS; i++) {
            int c = (i + comm->rank) % CHANNELS;
            const bool *to = c == 2 ? odd : NULL, *from = c == 2 ? comm->rank % 2 ? all : none : NULL;
            for (int k = 0; k < EACH; k++) {
                RK_GOTO(fill(comm, c, round * EACH + k, send[c][k]));
                RK_GOTO(rk_all_to_all_begin(comm, channels[c], send[c][k], to, from, &e[c][k]));
            }
            if (comm->rank == 1) RK_GOTO(rk_all_to_all_wait(e[c][0])); /* sends before others have begun */
        }
        for (int i = 0; i < CHANNELS * EACH; i++) {
            int c = (i + 2 * comm->rank) % CHANNELS, k = i / CHANNELS;
            RK_GOTO(rk_all_to_all_wait(e[c][k]));
            EXPECT(is_right(e[c][k], c, round * EACH + k, c == 2 ? comm->rank % 2 ? all : none : NULL));
            rk_all_to_all_free(e[c][k]);
            e[c][k] = NULL;
            for (int r = 0; r < comm->size; r++) {
                rk_free(send[c][k][r].data);
                send[c][k][r].data = NULL;
            }
        }
    }
done:
    for (int i = 0; i < CHANNELS * EACH; i++) {
        rk_all_to_all_free(e[i / EACH][i % EACH]);
        for (int r = 0; r < comm->size; r++) rk_free(send[i / EACH][i % EACH][r].data);
    }
    return status;
}

static void exchanges(thread_rank *t) {
    rk_comm *comm = NULL;
    keep(t, open_rank(t, 60, &comm));
    if (comm) keep(t, exchange(comm));
    rk_comm_free(comm);
}

static void test_exchanges(void **state) {
    (void)state;
    for (int size = 1; size <= MAX_RANKS; size++) {
        thread_rank ranks[MAX_RANKS] = {{0}};
        run_ranks(size, ranks, exchanges);
        assert_all_went_well(size, ranks);
    }
}

/* ---- What is built of them. */

static float value_of(int rank, size_t i) {
    return sinf((float)i * 1.7f + (float)rank) * expf((float)(i % 7) - 3);
}

/* What the ranks' values with this shift are together, by the tree. */
static void sum_by_definition(int size, size_t n, size_t shift, float *parts) {
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < n; i++) parts[(size_t)r * n + i] = value_of(r, i + shift);
    for (int step = 1; step < size; step *= 2)
        for (int r = 0; r + step < size; r += 2 * step)
            for (size_t i = 0; i < n; i++) parts[(size_t)r * n + i] += parts[(size_t)(r + step) * n + i];
}

/* Two sums: odd ranks wait for the first before they begin the second, so that each rank's parts and results
 * are begun in another order. */
static rk_status sum(rk_comm *comm, size_t n) {
    rk_status status;
    rk_all_reduce *sums[2] = {NULL, NULL};
    float *values = NULL, *parts = NULL;
    RK_GOTO(rk_alloc(2 * n, sizeof *values, &values));
    RK_GOTO(rk_alloc(n * (size_t)comm->size, sizeof *parts, &parts));
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < n; i++) values[(size_t)k * n + i] = value_of(comm->rank, i + (size_t)k);
        RK_GOTO(rk_all_reduce_begin(comm, RK_CHANNEL_DENSE, values + (size_t)k * n, n, &sums[k]));
        if (comm->rank % 2) RK_GOTO(rk_all_reduce_wait(sums[k]));
    }
    for (int k = 0; k < 2; k++) {
        RK_GOTO(rk_all_reduce_wait(sums[k]));
        sum_by_definition(comm->size, n, (size_t)k, parts);
        EXPECT(memcmp(values + (size_t)k * n, parts, n * sizeof *values) == 0);
    }
done:
    for (int k = 0; k < 2; k++) rk_all_reduce_free(sums[k]);
    rk_free(values);
    rk_free(parts);
    return status;
}

/* Members 0 and 2, and then 0 and 1, with messages that go beside those of all. */
static rk_status use_members(rk_comm *comm) {
    static const int32_t pairs[2][2] = {{0, 2}, {0, 1}};
    rk_comm *made[2] = {NULL, NULL};
    rk_status status = RK_OK;
    for (int i = 0; i < 2; i++)
        if (comm->rank == pairs[i][0] || comm->rank == pairs[i][1])
            RK_GOTO(rk_comm_create_group(comm, pairs[i], 2, &made[i]));
    for (int i = 2; i-- > 0;)
        if (made[i]) RK_GOTO(exchange(made[i]));
    RK_GOTO(exchange(comm));
done:
    for (int i = 0; i < 2; i++) rk_comm_free(made[i]);
    return status;
}

static rk_status collective(rk_comm *comm) {
    rk_status status;
    char *text = NULL;
    rk_progress_thread progress;
    static const size_t sizes[] = {0, 1, 1000, 1025, 10000};
    for (int i = 0; i < 5; i++) RK_GOTO(sum(comm, sizes[i]));
    RK_GOTO(rk_progress_thread_init(&progress, comm));
    status = sum(comm, 20000);
    if (status == RK_OK) status = exchange(comm);
    if (status == RK_OK) status = sum(comm, 3000);
    rk_progress_thread_release(&progress);
    if (status != RK_OK) goto done;
    RK_GOTO(rk_comm_barrier(comm));
    float values[2] = {1, (float)comm->rank};
    RK_GOTO(rk_comm_all_reduce_f32(comm, values, 2));
    EXPECT(values[0] == (float)comm->size && values[1] == (float)(comm->size * (comm->size - 1) / 2));
    RK_GOTO(rk_comm_agree_on_status(comm, RK_OK));
    status = rk_comm_agree_on_status(comm, comm->rank == 1 ? rk_error(RK_BAD_DATA, "no such row") : RK_OK);
    EXPECT(status == RK_BAD_DATA && strcmp(rk_last_error(), "rank 1: no such row") == 0);
    if (comm->rank == 0) RK_GOTO(rk_strdup("of the first", &text));
    RK_GOTO(rk_comm_broadcast_text(comm, &text));
    EXPECT(text && strcmp(text, "of the first") == 0);
    RK_GOTO(use_members(comm));
    EXPECT(strncmp(rk_comm_describe(comm), "functions of the caller's, rank ", 32) == 0);
done:
    rk_free(text);
    return status;
}

static void collectives(thread_rank *t) {
    rk_comm *comm = NULL;
    keep(t, open_rank(t, 60, &comm));
    if (comm) keep(t, collective(comm));
    rk_comm_free(comm);
}

static void test_collectives(void **state) {
    (void)state;
    for (int size = 3; size <= MAX_RANKS; size++) {
        thread_rank ranks[MAX_RANKS] = {{0}};
        run_ranks(size, ranks, collectives);
        assert_all_went_well(size, ranks);
    }
}

/* ---- Ends. */

static void assert_failed(const thread_rank *t, rk_status status, const char *message) {
    if (t->status != status || !strstr(t->error, message))
        fail_msg("rank %d: %s: %s", t->rank, rk_status_name(t->status), t->error);
}

static void test_functions_that_fail(void **state) {
    (void)state;
    for (int at = 1; at < 20; at++) {
        thread_rank ranks[3] = {{0}};
        ranks[1].fails_at = at;
        run_ranks(3, ranks, exchanges);
        assert_int_equal(rk_alloc_live(), 0);
        assert_failed(&ranks[1], RK_PEER_LOST, "all_to_all, a function of the caller's, returned 7");
        assert_failed(&ranks[0], RK_PEER_LOST, "all_to_all, a function of the caller's, returned 9");
        assert_failed(&ranks[2], RK_PEER_LOST, "all_to_all, a function of the caller's, returned 9");
    }
}

/* Bytes that are not what was sent: an error, or a message's content alone, which nobody can know. */
static void test_functions_that_lie(void **state) {
    (void)state;
    thread_rank rotated[2] = {{.rotates = 1}, {0}};
    run_ranks(2, rotated, exchanges);
    assert_failed(&rotated[0], RK_BAD_DATA, "all_to_all gave back rank 1's message as rank 0's");
    int n_refused = 0;
    for (int i = 0; i < 60; i++) {
        thread_rank ranks[2] = {{.flips = 30 << i % 12}, {0}};
        run_ranks(2, ranks, exchanges);
        assert_int_equal(rk_alloc_live(), 0);
        assert_true(ranks[0].status == RK_OK || ranks[0].status == RK_BAD_DATA ||
                    ranks[0].status == RK_INTERNAL || ranks[0].status == RK_NO_MEMORY ||
                    ranks[0].status == RK_PEER_LOST);
        n_refused += ranks[0].status == RK_BAD_DATA;
    }
    assert_true(n_refused > 10);
}

/* Rank 1 frees its communicator, or waits for something else, while the others wait for it. */
static void leaves(thread_rank *t) {
    rk_comm *comm = NULL;
    keep(t, open_rank(t, 60, &comm));
    if (comm && t->rank != 1) keep(t, rk_comm_barrier(comm));
    rk_comm_free(comm);
}

static void waits_for_something_else(thread_rank *t) {
    rk_comm *comm = NULL;
    rk_all_to_all *e = NULL;
    keep(t, open_rank(t, 0.2, &comm));
    if (comm && t->rank == 1) {
        keep(t, rk_comm_all_gather(comm, RK_CHANNEL_VALUES, "x", 1, &e));
        rk_all_to_all_free(e);
    }
    if (comm && t->rank == 0) keep(t, rk_comm_barrier(comm));
    rk_comm_free(comm);
}

static void test_ranks_that_do_not_come(void **state) {
    (void)state;
    thread_rank left[3] = {{0}}, stuck[2] = {{0}};
    run_ranks(3, left, leaves);
    for (int r = 0; r < 3; r += 2) {
        assert_int_equal(left[r].status, RK_PEER_LOST);
        if (strstr(left[r].error, "returned 9")) continue; /* the other one has broken off before */
        assert_failed(&left[r], RK_PEER_LOST, "rank 1 (host ");
        assert_failed(&left[r], RK_PEER_LOST, ") ended before it sent its part of 'sums'");
    }
    run_ranks(2, stuck, waits_for_something_else);
    bool first = strstr(stuck[0].error, "rank 1 (host ") && strstr(stuck[0].error, "of 'sums' within 0.2 s"),
         second =
             strstr(stuck[1].error, "rank 0 (host ") && strstr(stuck[1].error, "of 'values' within 0.2 s");
    assert_true(first || second);
    assert_true(stuck[0].status == RK_PEER_LOST && stuck[1].status == RK_PEER_LOST);
    assert_int_equal(rk_alloc_live(), 0);
}

static void aborts(thread_rank *t) {
    rk_comm *comm = NULL;
    keep(t, open_rank(t, 60, &comm));
    if (comm && t->rank == 1)
        rk_comm_abort(comm, "the disk is full");
    else if (comm)
        keep(t, rk_comm_barrier(comm));
    rk_comm_free(comm);
}

static void test_abort(void **state) {
    (void)state;
    thread_rank ranks[2] = {{0}};
    run_ranks(2, ranks, aborts);
    assert_string_equal(ranks[1].aborted, "the disk is full");
    assert_int_equal(ranks[0].status, RK_PEER_LOST);
}

static int never(void *user, const void *send, const size_t *send_bytes, void *receive,
                 const size_t *receive_bytes) {
    (void)user, (void)send, (void)send_bytes, (void)receive, (void)receive_bytes;
    return 1;
}

static void test_refused(void **state) {
    (void)state;
    rk_comm *comm;
    rk_comm_functions f = RK_COMM_FUNCTIONS_INIT;
    FAILS(rk_comm_from_functions(NULL, NULL, &comm), RK_INVALID_ARGUMENT,
          "rk_comm_from_functions needs functions");
    FAILS(rk_comm_from_functions(&f, NULL, &comm), RK_INVALID_ARGUMENT,
          "rk_comm_functions: 'size' must be at least 1, not 0");
    f.size = 2;
    f.rank = 2;
    FAILS(rk_comm_from_functions(&f, NULL, &comm), RK_INVALID_ARGUMENT,
          "rk_comm_functions: 'rank' must be 0 to 1, not 2");
    f.rank = 1;
    FAILS(rk_comm_from_functions(&f, NULL, &comm), RK_INVALID_ARGUMENT,
          "rk_comm_functions: 'all_to_all' is missing");
    f.all_to_all = never;
    rk_comm_options options = RK_COMM_OPTIONS_INIT;
    options.timeout_s = -1;
    FAILS(rk_comm_from_functions(&f, &options, &comm), RK_INVALID_ARGUMENT,
          "'timeout_s' must be positive, not -1");
    FAILS(rk_comm_from_functions(&f, NULL, &comm), RK_PEER_LOST,
          "all_to_all, a function of the caller's, returned 1");
    assert_int_equal(rk_alloc_live(), 0);
}

/* Memory that runs out anywhere, on a rank that is alone. */
static void test_out_of_memory(void **state) {
    (void)state;
    rank_group group = {.size = 1};
    thread_rank alone = {.group = &group};
    pthread_mutex_init(&group.mutex, NULL);
    pthread_cond_init(&group.changed, NULL);
    bool went_well = false;
    for (long n = 1; !went_well; n++) {
        rk_comm *comm = NULL;
        assert_true(n < 1000);
        rk_alloc_fail_after(n, n % 2);
        rk_status status = open_rank(&alone, 60, &comm);
        if (status == RK_OK) status = rk_comm_barrier(comm);
        if (status != RK_OK) assert_int_equal(status, RK_NO_MEMORY);
        rk_comm_free(comm);
        went_well = status == RK_OK;
        rk_alloc_fail_after(0, false);
        assert_int_equal(rk_alloc_live(), 0);
    }
    pthread_cond_destroy(&group.changed);
    pthread_mutex_destroy(&group.mutex);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_functions_that_fail),
        cmocka_unit_test(test_functions_that_lie),
        cmocka_unit_test(test_ranks_that_do_not_come),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
