#include "comm/mpi/mpi_liveness.h"

#include <string.h>

#include "base/thread/clock.h"
#include "base/memory.h"

/* How long an answer may take: a part of the time limit, and no more than this. Whoever waits looks for
 * messages thousands of times a second. */
static const double most_grace_s = 10, grace_part = 0.25;

void rk_mpi_liveness_release(rk_mpi_liveness *liveness) {
    RK_FREE_ALL(liveness->asked, liveness->asking, liveness->answers, liveness->suspects);
    *liveness = (rk_mpi_liveness){0};
}

/* Memory is taken once there is trouble. */
static rk_status allocate_liveness_memory(rk_mpi_world *world) {
    rk_mpi_liveness *liveness = &world->liveness;
    size_t n = (size_t)world->all->size;
    if (!liveness->asked) RK_TRY(rk_alloc(2 * n, sizeof *liveness->asked, &liveness->asked));
    if (!liveness->suspects) RK_TRY(rk_alloc(n, sizeof *liveness->suspects, &liveness->suspects));
    if (!liveness->answers)
        RK_TRY(rk_alloc(2 * n * n + 2 * n, sizeof *liveness->answers, &liveness->answers));
    if (liveness->asking) return RK_OK;
    RK_TRY(rk_alloc(2 * n, sizeof *liveness->asking, &liveness->asking));
    for (size_t i = 0; i < 2 * n; i++) liveness->asking[i] = MPI_REQUEST_NULL;
    liveness->answered = liveness->asked + n;
    liveness->answering = liveness->asking + n;
    liveness->replies = liveness->answers + n * n;
    liveness->well = liveness->replies + n * n;
    liveness->reached = liveness->well + n;
    return RK_OK;
}

/* Whether the last such message has left. One to a rank that is not to be reached fails or stays: no error of
 * this rank, that one does not answer. */
static bool is_request_done(MPI_Request *request) {
    int flag = 0;
    if (MPI_Test(request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS) return flag;
    *request = MPI_REQUEST_NULL;
    return true;
}

static void send_control_message(rk_mpi_world *world, int32_t rank, const bool *data, int n_bytes,
                                 MPI_Request *request) {
    if (MPI_Isend(data, n_bytes, MPI_BYTE, rank, RK_CHANNEL_LIVENESS, world->mpi, request) != MPI_SUCCESS)
        *request = MPI_REQUEST_NULL;
}

/* The ranks that this all_to_all waits for: those that have not sent their parts, or else not taken theirs.
 */
static void add_awaited_ranks(const rk_all_to_all *e, bool *awaited) {
    const rk_comm *comm = e->comm;
    bool all_arrived = true;
    for (int32_t r = 0; r < comm->size; r++) all_arrived = all_arrived && e->arrived[r];
    for (int32_t r = 0; r < comm->size; r++)
        if (all_arrived ? !e->taken[r] : !e->arrived[r]) awaited[comm->peers[r].rank] = true;
}

/* What this rank would answer that one. */
static const bool *make_liveness_answer(rk_mpi_world *world, int32_t rank) {
    size_t n = (size_t)world->all->size;
    bool *reply = world->liveness.replies + (size_t)rank * n;
    memset(reply, 0, n);
    for (const rk_all_to_all *e = world->first; e; e = e->next)
        if (atomic_load(&e->awaited)) add_awaited_ranks(e, reply);
    return reply;
}

rk_status rk_mpi_liveness_handle_message(rk_mpi_world *world, rk_mpi_arrival *arrival) {
    RK_TRY(allocate_liveness_memory(world));
    rk_mpi_liveness *liveness = &world->liveness;
    bool *to = liveness->answers + (size_t)arrival->source * (size_t)world->all->size;
    RK_FAIL_IF(arrival->n_bytes > world->all->size, RK_INTERNAL,
               "rank %d reported on %d ranks, but there are %d", arrival->source, arrival->n_bytes,
               (int)world->all->size);
    int code = MPI_Mrecv(to, arrival->n_bytes, MPI_BYTE, &arrival->message, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS)
        return rk_mpi_error(RK_PEER_LOST, code, "hearing of rank %d who waits for whom", arrival->source);
    if (arrival->n_bytes > 0)
        liveness->answered[arrival->source] = rk_clock_seconds();
    else if (is_request_done(&liveness->answering[arrival->source])) /* and so its buffer may be written to */
        send_control_message(world, arrival->source, make_liveness_answer(world, arrival->source),
                             world->all->size, &liveness->answering[arrival->source]);
    return RK_OK;
}

/* Those of `ranks` that were not reached yet are suspects too. */
static int32_t add_suspects(rk_mpi_world *world, const bool *ranks, int32_t n_suspects) {
    rk_mpi_liveness *liveness = &world->liveness;
    for (int32_t r = 0; r < world->all->size; r++) {
        if (!ranks[r] || liveness->reached[r]) continue;
        liveness->reached[r] = true;
        liveness->suspects[n_suspects++] = r;
    }
    return n_suspects;
}

/* What that rank answered since `all_to_all` is late, or NULL; asks it unless a question is under way. Of
 * this rank itself: all that its threads wait for. */
static const bool *ask_rank_for_awaited(rk_mpi_world *world, rk_all_to_all *all_to_all, int32_t rank) {
    rk_mpi_liveness *liveness = &world->liveness;
    if (rank == world->all->rank) return make_liveness_answer(world, rank);
    if (liveness->answered[rank] >= all_to_all->late_since)
        return liveness->answers + (size_t)rank * (size_t)world->all->size;
    if (liveness->asked[rank] <= liveness->answered[rank]) {
        if (is_request_done(&liveness->asking[rank]))
            send_control_message(world, rank, NULL, 0, &liveness->asking[rank]);
        liveness->asked[rank] = rk_clock_seconds();
    }
    if (liveness->asked[rank] > all_to_all->asked_last) all_to_all->asked_last = liveness->asked[rank];
    return NULL;
}

/* From those that are waited for to those that do not wait themselves, as far as is known: whether there are
 * any. */
static bool find_lost_ranks(rk_mpi_world *world, rk_all_to_all *all_to_all) {
    rk_mpi_liveness *liveness = &world->liveness;
    size_t n = (size_t)world->all->size;
    memset(liveness->reached, false, n);
    memset(liveness->well, false, n); /* first: those that are waited for */
    add_awaited_ranks(all_to_all, liveness->well);
    int32_t n_suspects = add_suspects(world, liveness->well, 0);
    memset(liveness->well, true, n);
    bool found = false;
    for (int32_t i = 0; i < n_suspects; i++) {
        int32_t r = liveness->suspects[i];
        const bool *answer = ask_rank_for_awaited(world, all_to_all, r);
        liveness->well[r] = answer && memchr(answer, true, n);
        if (liveness->well[r])
            n_suspects = add_suspects(world, answer, n_suspects);
        else
            found = true;
    }
    return found;
}

rk_status rk_mpi_find_lost_ranks(rk_all_to_all *all_to_all, const bool **well) {
    rk_mpi_world *world = ((rk_comm_of_mpi *)all_to_all->comm)->world;
    double grace_s = all_to_all->comm->timeout_s * grace_part, now = rk_clock_seconds();
    if (grace_s > most_grace_s) grace_s = most_grace_s;
    bool found = false;
    *well = NULL;
    RK_TRY(allocate_liveness_memory(world));
    if (all_to_all->late_since == 0) all_to_all->late_since = all_to_all->asked_last = now;
    /* A rank that says farewell waits for all, and ranks that have said it may have ended: none would
     * answer. */
    if (all_to_all->channel != RK_CHANNEL_FAREWELL) found = find_lost_ranks(world, all_to_all);
    if (now - all_to_all->asked_last < grace_s) return RK_OK;
    *well = world->liveness.well;
    if (found) return RK_OK;
    bool *awaited = world->liveness.reached; /* all wait, for each other: those that this rank waits for */
    memset(awaited, false, (size_t)world->all->size);
    add_awaited_ranks(all_to_all, awaited);
    for (int32_t r = 0; r < world->all->size; r++) world->liveness.well[r] = !awaited[r];
    return RK_OK;
}
