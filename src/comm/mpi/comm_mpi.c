/* Ranks as processes that an MPI launcher started. One mutex is held for every call of MPI, so that any build
 * of it will do. */
#include "comm/comm.h"

#include <ctype.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/thread/clock.h"
#include "comm/mpi/mpi_liveness.h"
#include "comm/mpi/mpi_watchdog.h"

enum { PIECE_BYTES = 1 << 30, ABORT_SECONDS = 5 };

static const rk_comm_ops ops;

static rk_status create_comm(rk_mpi_world *world, int32_t rank, int32_t size, double timeout_s,
                             int32_t context, rk_comm_of_mpi **out) {
    RK_TRY(rk_comm_create(sizeof **out, &ops, world->shared, rank, size, timeout_s, out));
    (*out)->world = world;
    (*out)->context = context;
    return RK_OK;
}

static void release_world(rk_mpi_world *world) {
    if (!world) return;
    rk_comm_shared_free(world->shared);
    rk_mpi_liveness_release(&world->liveness);
    RK_FREE_ALL(world->arrivals, world->pending_requests, world->requests, world->statuses, world->indices,
                world);
}

static void mpi_comm_free(rk_comm *comm) {
    rk_comm_of_mpi *own = (rk_comm_of_mpi *)comm;
    rk_mpi_world *world = own->world;
    bool is_world = own->context == 0;
    if (is_world) {
        /* All ranks come here, so MPI_Finalize, which waits for them, will not wait long. */
        rk_status status = rk_comm_final_barrier(comm);
        if (status != RK_OK) {
            rk_log(RK_LOG_ERROR, "rank %d stops without the other ranks: %s", (int)comm->rank,
                   rk_last_error());
        } else {
            rk_mpi_watchdog watchdog;
            rk_mpi_watchdog_begin(&watchdog, comm->timeout_s, "end");
            MPI_Comm_free(&world->mpi);
            if (world->started_mpi) MPI_Finalize();
            rk_mpi_watchdog_end(&watchdog);
        }
    }
    rk_comm_release(&own->head);
    if (is_world) release_world(world);
}

static void *exit_after_timeout(void *unused) {
    nanosleep(&(struct timespec){ABORT_SECONDS, 0}, NULL);
    _exit(1);
    return unused;
}

/* MPI_Abort may wait for a launcher that cannot be reached any more, and the mutex for a thread that waits
 * likewise. */
static void mpi_comm_abort(rk_comm *comm, const char *reason) {
    rk_log(RK_LOG_ERROR, "rank %d: %s", (int)comm->peers[comm->rank].rank, reason);
    pthread_t thread;
    if (pthread_create(&thread, NULL, exit_after_timeout, NULL) != 0) _exit(1);
    struct timespec until = rk_clock_deadline(CLOCK_REALTIME, 1);
    (void)pthread_mutex_timedlock(&comm->shared->mutex, &until);
    MPI_Abort(MPI_COMM_WORLD, 1);
    pthread_join(thread, NULL);
}

static int32_t max_contexts(rk_mpi_world *world) {
    int *tag_most, known;
    pthread_mutex_lock(&world->shared->mutex);
    int code = MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_most, &known);
    pthread_mutex_unlock(&world->shared->mutex);
    return code == MPI_SUCCESS && known ? (*tag_most >> RK_TAG_CONTEXT_SHIFT) + 1 : 1;
}

static rk_status mpi_create_group(rk_comm *comm, const int32_t *members, int32_t n_members, rk_comm **out) {
    rk_mpi_world *world = ((rk_comm_of_mpi *)comm)->world;
    int32_t context, rank = 0, most = max_contexts(world);
    RK_TRY(rk_comm_agree_on_context(comm, members, n_members, &context));
    RK_FAIL_IF(context >= most, RK_UNSUPPORTED, "this MPI's range of tags allows only %d communicators",
               (int)most);
    while (members[rank] != comm->rank) rank++;
    rk_comm_of_mpi *made;
    RK_TRY(create_comm(world, rank, n_members, comm->timeout_s, context, &made));
    rk_comm_set_group_description(&made->head, comm, members);
    *out = &made->head;
    return RK_OK;
}

static const rk_comm_ops ops = {sizeof(rk_mpi_part),
                                mpi_comm_free,
                                rk_mpi_all_to_all_begin,
                                rk_mpi_all_to_all_test,
                                rk_mpi_all_to_all_abandon,
                                mpi_create_group,
                                mpi_comm_abort,
                                rk_mpi_find_lost_ranks,
                                false};

/* "Open MPI v4.1.4, package: ..." and "MPICH Version:      4.0.2\n..." as "Open MPI 4.1.4", "MPICH 4.0.2". */
static void shorten_mpi_version(char *text) {
    char full[MPI_MAX_LIBRARY_VERSION_STRING];
    int n;
    MPI_Get_library_version(full, &n);
    full[strcspn(full, ",\n")] = 0;
    char *version = strstr(full, "Version:");
    if (version) memset(version, ' ', strlen("Version:"));
    char *to = text;
    for (const char *at = full; *at && to < text + 40; at++) {
        bool space = isspace((unsigned char)*at), last_space = to > text && to[-1] == ' ';
        if (space && last_space) continue;
        if (*at == 'v' && last_space && isdigit((unsigned char)at[1])) continue;
        *to++ = space ? ' ' : *at;
    }
    *to = 0;
}

/* MPI writes to the sockets of ranks that are lost: that must be its error and our time limit, not the end of
 * this rank too. */
static void ignore_broken_pipes(void) {
    struct sigaction now;
    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
}

/* Open MPI over TCP asks the receiver before it sends more than 64 kB, and by default has the receiver put
 * the data into its memory. Either answer waits in the socket behind data that goes the other way, so that of
 * two ranks that send to each other one is idle meanwhile. Messages are sent as they are (flags 1), and those
 * of up to 4 MB, as nearly all here are, unasked; that takes some buffers of that size. Between ranks of a
 * host, where one may not read the other's memory (in containers), three pieces of 32 kB are on their way
 * until the sender looks again, and ranks that wait look seldom: pieces are of 128 kB. What the environment
 * (and so mpirun --mca) says stays. */
static void choose_mpi_transports(void) {
    setenv("OMPI_MCA_btl_tcp_flags", "1", 0);
    setenv("OMPI_MCA_btl_tcp_eager_limit", "4194304", 0);
    setenv("OMPI_MCA_btl_vader_max_send_size", "131072", 0);
}

static rk_status init_mpi(rk_mpi_world *world) {
    int flag, level;
    ignore_broken_pipes();
    MPI_Initialized(&flag);
    world->started_mpi = !flag;
    if (!flag) choose_mpi_transports();
    int code = flag ? MPI_Query_thread(&level) : MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (code != MPI_SUCCESS) return rk_mpi_error(RK_IO, code, "could not start MPI");
    RK_FAIL_IF(
        level < MPI_THREAD_SERIALIZED, RK_UNSUPPORTED,
        "MPI was initialized without MPI_THREAD_SERIALIZED, and libreckon calls it from several threads");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Comm_dup(MPI_COMM_WORLD, &world->mpi);
    return code == MPI_SUCCESS ? RK_OK : rk_mpi_error(RK_IO, code, "could not make a communicator");
}

static rk_status start_mpi(rk_mpi_world *world, double timeout_s) {
    static atomic_flag called = ATOMIC_FLAG_INIT; /* a process has one MPI, and its mutex */
    RK_FAIL_IF(atomic_flag_test_and_set(&called), RK_INVALID_ARGUMENT,
               "rk_comm_world was called before in this process");
    rk_mpi_watchdog watchdog;
    rk_mpi_watchdog_begin(&watchdog, timeout_s, "start");
    rk_status status = init_mpi(world);
    rk_mpi_watchdog_end(&watchdog);
    return status;
}

/* A launcher of another MPI starts n processes each of which sees itself alone. */
static rk_status check_world_size(int size) {
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (int i = 0; i < 2; i++) {
        const char *told = getenv(variables[i]);
        if (!told || atoi(told) <= 1 || size > 1) continue;
        char version[64];
        shorten_mpi_version(version);
        return rk_error_hint(
            rk_error(RK_UNSUPPORTED, "the launcher started %s processes, but MPI sees only this one", told),
            "libreckon was built with %s; use the mpirun of that MPI", version);
    }
    return RK_OK;
}

static rk_status open_world(rk_mpi_world *world, double timeout_s, rk_comm_of_mpi **out) {
    int rank, size;
    MPI_Comm_set_errhandler(world->mpi, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world->mpi, &rank);
    MPI_Comm_size(world->mpi, &size);
    RK_TRY(check_world_size(size));
    RK_TRY(create_comm(world, rank, size, timeout_s, 0, out));
    world->all = world->shared->all = &(*out)->head;
    rk_status status = rk_comm_gather_hosts(&(*out)->head);
    if (status != RK_OK) rk_comm_release(&(*out)->head);
    return status;
}

rk_status rk_comm_mpi(double timeout_s, rk_comm **out) {
    rk_mpi_world *world;
    rk_comm_of_mpi *comm;
    RK_TRY(rk_alloc(1, sizeof *world, &world));
    world->end = &world->first;
    rk_status status = rk_comm_shared_create(&world->shared);
    if (status == RK_OK) world->shared->piece_bytes = PIECE_BYTES;
    if (status == RK_OK) status = start_mpi(world, timeout_s);
    if (status == RK_OK) status = open_world(world, timeout_s, &comm);
    if (status != RK_OK) {
        release_world(world);
        return status;
    }
    char version[64];
    shorten_mpi_version(version);
    const rk_peer *self = &comm->head.peers[comm->head.rank];
    snprintf(comm->head.description, sizeof comm->head.description, "mpi: %.40s, rank %d of %d on host %s",
             version, (int)self->rank, (int)comm->head.size, self->host);
    *out = &comm->head;
    return RK_OK;
}

rk_status rk_mpi_error(rk_status status, int code, const char *format, ...) {
    char text[512], reason[MPI_MAX_ERROR_STRING] = "unknown error of MPI";
    int n;
    MPI_Error_string(code, reason, &n);
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return rk_error(status, "%s: %s", text, reason);
}
