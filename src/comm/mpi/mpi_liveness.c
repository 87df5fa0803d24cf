#include "comm/mpi/mpi_liveness.h"

#include <string.h>

#include "base/thread/clock.h"
#include "base/memory.h"

/* How long an answer may take: a part of the time limit, and no more than this. Whoever waits looks for messages thousands of times a second. */
static const double most_grace_s = 10, grace_part = 0.25;

void rk_mpi_roll_release(rk_mpi_roll *roll) {
    rk_free(roll->asked);
    rk_free(roll->asking);
    rk_free(roll->answers);
    rk_free(roll->suspects);
    *roll = (rk_mpi_roll){0};
}

/* Memory is taken once there is trouble. */
static rk_status reserve(rk_mpi_world *world) {
    rk_mpi_roll *roll = &world->roll;
    size_t n = (size_t)world->all->size;
    if (!roll->asked) RK_TRY(rk_alloc(2 * n, sizeof *roll->asked, &roll->asked));
    if (!roll->suspects) RK_TRY(rk_alloc(n, sizeof *roll->suspects, &roll->suspects));
    if (!roll->answers) RK_TRY(rk_alloc(2 * n * n + 2 * n, sizeof *roll->answers, &roll->answers));
    if (roll->asking) return RK_OK;
    RK_TRY(rk_alloc(2 * n, sizeof *roll->asking, &roll->asking));
    for (size_t i = 0; i < 2 * n; i++) roll->asking[i] = MPI_REQUEST_NULL;
    roll->answered = roll->asked + n;
    roll->answering = roll->asking + n;
    roll->replies = roll->answers + n * n;
    roll->well = roll->replies + n * n;
    roll->reached = roll->well + n;
    return RK_OK;
}

/* Whether the last such message has left. One to a rank that is not to be reached fails or stays: no error of this rank, that one does not answer. */
static bool has_left(MPI_Request *request) {
    int flag = 0;
    if (MPI_Test(request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS) return flag;
    *request = MPI_REQUEST_NULL;
    return true;
}

static void send(rk_mpi_world *world, int32_t rank, const bool *data, int n_bytes, MPI_Request *request) {
    if (MPI_Isend(data, n_bytes, MPI_BYTE, rank, RK_LANE_ROLL, world->mpi, request) != MPI_SUCCESS) *request = MPI_REQUEST_NULL;
}

/* The ranks that this exchange waits for: those that have not sent their parts, or else not taken theirs. */
static void add_awaited(const rk_exchange *e, bool *awaited) {
    const rk_comm *comm = e->comm;
    bool all_arrived = true;
    for (int32_t r = 0; r < comm->size; r++) all_arrived = all_arrived && e->arrived[r];
    for (int32_t r = 0; r < comm->size; r++)
        if (all_arrived ? !e->taken[r] : !e->arrived[r]) awaited[comm->peers[r].rank] = true;
}

/* What this rank would answer that one. */
static const bool *own_answer(rk_mpi_world *world, int32_t rank) {
    size_t n = (size_t)world->all->size;
    bool *reply = world->roll.replies + (size_t)rank * n;
    memset(reply, 0, n);
    for (const rk_exchange *e = world->first; e; e = e->next)
        if (atomic_load(&e->awaited)) add_awaited(e, reply);
    return reply;
}

rk_status rk_mpi_roll_take(rk_mpi_world *world, rk_mpi_arrival *arrival) {
    RK_TRY(reserve(world));
    rk_mpi_roll *roll = &world->roll;
    bool *to = roll->answers + (size_t)arrival->source * (size_t)world->all->size;
    RK_FAIL_IF(arrival->n_bytes > world->all->size, RK_INTERNAL, "rank %d told of %d ranks, of which there are %d", arrival->source, arrival->n_bytes, (int)world->all->size);
    int code = MPI_Mrecv(to, arrival->n_bytes, MPI_BYTE, &arrival->message, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return rk_mpi_error(RK_PEER_LOST, code, "hearing of rank %d who waits for whom", arrival->source);
    if (arrival->n_bytes > 0)
        roll->answered[arrival->source] = rk_clock_seconds();
    else if (has_left(&roll->answering[arrival->source])) /* and so its buffer may be written to */
        send(world, arrival->source, own_answer(world, arrival->source), world->all->size, &roll->answering[arrival->source]);
    return RK_OK;
}

/* Those of `ranks` that were not reached yet are suspects too. */
static int32_t add_suspects(rk_mpi_world *world, const bool *ranks, int32_t n_suspects) {
    rk_mpi_roll *roll = &world->roll;
    for (int32_t r = 0; r < world->all->size; r++) {
        if (!ranks[r] || roll->reached[r]) continue;
        roll->reached[r] = true;
        roll->suspects[n_suspects++] = r;
    }
    return n_suspects;
}

/* What that rank answered since `exchange` is late, or NULL; asks it unless a question is under way. Of this rank itself: all that its threads wait for. */
static const bool *ask(rk_mpi_world *world, rk_exchange *exchange, int32_t rank) {
    rk_mpi_roll *roll = &world->roll;
    if (rank == world->all->rank) return own_answer(world, rank);
    if (roll->answered[rank] >= exchange->late_since) return roll->answers + (size_t)rank * (size_t)world->all->size;
    if (roll->asked[rank] <= roll->answered[rank]) {
        if (has_left(&roll->asking[rank])) send(world, rank, NULL, 0, &roll->asking[rank]);
        roll->asked[rank] = rk_clock_seconds();
    }
    if (roll->asked[rank] > exchange->asked_last) exchange->asked_last = roll->asked[rank];
    return NULL;
}

/* From those that are waited for to those that do not wait themselves, as far as is known: whether there are any. */
static bool follow(rk_mpi_world *world, rk_exchange *exchange) {
    rk_mpi_roll *roll = &world->roll;
    size_t n = (size_t)world->all->size;
    memset(roll->reached, false, n);
    memset(roll->well, false, n); /* first: those that are waited for */
    add_awaited(exchange, roll->well);
    int32_t n_suspects = add_suspects(world, roll->well, 0);
    memset(roll->well, true, n);
    bool found = false;
    for (int32_t i = 0; i < n_suspects; i++) {
        int32_t r = roll->suspects[i];
        const bool *answer = ask(world, exchange, r);
        roll->well[r] = answer && memchr(answer, true, n);
        if (roll->well[r]) n_suspects = add_suspects(world, answer, n_suspects);
        else found = true;
    }
    return found;
}

rk_status rk_mpi_find_lost(rk_exchange *exchange, const bool **well) {
    rk_mpi_world *world = ((rk_comm_of_mpi *)exchange->comm)->world;
    double grace_s = exchange->comm->timeout_s * grace_part, now = rk_clock_seconds();
    if (grace_s > most_grace_s) grace_s = most_grace_s;
    bool found = false;
    *well = NULL;
    RK_TRY(reserve(world));
    if (exchange->late_since == 0) exchange->late_since = exchange->asked_last = now;
    /* Who says farewell waits for all, and those who have said it may end: there would be nobody to answer. */
    if (exchange->lane != RK_LANE_FAREWELL) found = follow(world, exchange);
    if (now - exchange->asked_last < grace_s) return RK_OK;
    *well = world->roll.well;
    if (found) return RK_OK;
    bool *awaited = world->roll.reached; /* all wait, for each other: those that this rank waits for */
    memset(awaited, false, (size_t)world->all->size);
    add_awaited(exchange, awaited);
    for (int32_t r = 0; r < world->all->size; r++) world->roll.well[r] = !awaited[r];
    return RK_OK;
}
