#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/struct_size.h"

enum { DEFAULT_TIMEOUT_S = 300 };

/* The variable by which a launcher says that it started this process; NULL: none did. */
static const char *find_launcher(void) {
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (getenv(variables[i])) return variables[i];
    }
    return NULL;
}

rk_status rk_comm_resolve_timeout(const rk_comm_options *options, double *out) {
    rk_comm_options o = RK_COMM_OPTIONS_INIT;
    RK_TRY(rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_comm_options, timeout_s),
                              "rk_comm_options"));
    double timeout_s = o.timeout_s != 0 ? o.timeout_s : DEFAULT_TIMEOUT_S;
    RK_FAIL_IF(!(timeout_s > 0), RK_INVALID_ARGUMENT, "'timeout_s' must be positive, not %g", timeout_s);
    *out = timeout_s;
    return RK_OK;
}

rk_status rk_comm_world(const rk_comm_options *options, rk_comm **out) {
    double timeout_s;
    RK_TRY(rk_comm_resolve_timeout(options, &timeout_s));
    if (find_launcher()) return rk_comm_mpi(timeout_s, out);
    const char *n_tasks = getenv("SLURM_STEP_NUM_TASKS");
    if (n_tasks && atoi(n_tasks) > 1) {
        return rk_error_hint(
            rk_error(RK_UNSUPPORTED, "srun started %s tasks that are not connected by MPI", n_tasks),
            "start them with srun --mpi=pmix or srun --mpi=pmi2");
    }
    return rk_comm_self(out);
}

void rk_comm_free(rk_comm *comm) {
    if (comm) comm->ops->free(comm);
}

int32_t rk_comm_rank(const rk_comm *comm) {
    return comm->rank;
}

int32_t rk_comm_size(const rk_comm *comm) {
    return comm->size;
}

const char *rk_comm_describe(const rk_comm *comm) {
    return comm->description;
}

uint64_t rk_comm_bytes_sent(const rk_comm *comm) {
    return atomic_load(&comm->shared->bytes_sent);
}

rk_status rk_comm_all_gather(rk_comm *comm, rk_channel channel, const void *data, size_t n_bytes,
                             rk_all_to_all **out) {
    RK_FAIL_IF(n_bytes && !data, RK_INVALID_ARGUMENT, "all_gather: no data");
    RK_AUTOFREE rk_message *send = NULL;
    rk_status status = rk_alloc((size_t)comm->size, sizeof *send, &send);
    if (status != RK_OK) return rk_comm_record_failure(comm, status);
    for (int32_t r = 0; r < comm->size; r++) send[r] = (rk_message){(void *)(size_t)data, n_bytes};
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    RK_TRY(rk_all_to_all_begin(comm, channel, send, NULL, NULL, &all_to_all));
    RK_TRY(rk_all_to_all_wait(all_to_all));
    *out = all_to_all;
    all_to_all = NULL;
    return RK_OK;
}

rk_status rk_comm_barrier(rk_comm *comm) {
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    RK_TRY(rk_comm_all_gather(comm, RK_CHANNEL_SUMS, NULL, 0, &all_to_all));
    return RK_OK;
}

rk_status rk_comm_all_reduce_f32(rk_comm *comm, float *values, size_t n) {
    RK_FAIL_IF(n && !values, RK_INVALID_ARGUMENT, "all_reduce: no values");
    rk_all_reduce *sum;
    RK_TRY(rk_all_reduce_begin(comm, RK_CHANNEL_SUMS, values, n, &sum));
    rk_status status = rk_all_reduce_wait(sum);
    rk_all_reduce_free(sum);
    return status;
}

/* What a rank says to the others of its failure. Longer reasons are cut, at a whole character of UTF-8. */
typedef struct rank_status {
    int32_t status;
    char reason[2044];
} rank_status;

static size_t fill_rank_status(rk_status status, rank_status *out) {
    static const char cut[] = " [cut]";
    const char *reason = status == RK_OK ? "" : rk_last_error();
    size_t n = strlen(reason), most = sizeof out->reason - sizeof cut;
    bool whole = n < sizeof out->reason;
    if (!whole) n = most;
    while (!whole && n && ((unsigned char)reason[n] & 0xC0) == 0x80) n--;
    out->status = (int32_t)status;
    memcpy(out->reason, reason, n);
    if (!whole) {
        memcpy(out->reason + n, cut, sizeof cut - 1);
        n += sizeof cut - 1;
    }
    return offsetof(rank_status, reason) + n;
}

static rk_status error_of_first_failed_rank(const rk_all_to_all *all_to_all) {
    const rk_comm *comm = all_to_all->comm;
    for (int32_t r = 0; r < comm->size; r++) {
        const rank_status *v;
        size_t n;
        RK_TRY(rk_all_to_all_split_message(all_to_all, r, offsetof(rank_status, reason), &v, &n));
        if (v->status != RK_OK)
            return rk_error((rk_status)v->status, "rank %d: %.*s", (int)comm->peers[r].rank,
                            (int)(n < sizeof v->reason ? n : sizeof v->reason), v->reason);
    }
    return RK_OK;
}

rk_status rk_comm_agree_on_status(rk_comm *comm, rk_status status) {
    if (comm->size == 1) return status;
    rank_status own;
    size_t n_bytes = fill_rank_status(status, &own);
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    rk_status passed = rk_comm_all_gather(comm, RK_CHANNEL_SUMS, &own, n_bytes, &all_to_all);
    /* This rank's own failure says more than that the others did not wait to hear of it. */
    if (passed != RK_OK)
        return status == RK_OK
                   ? passed
                   : rk_error(status, "%.*s", (int)(n_bytes - offsetof(rank_status, reason)), own.reason);
    return error_of_first_failed_rank(all_to_all);
}

rk_status rk_comm_all_equal(rk_comm *comm, const void *data, size_t n_bytes, bool *same) {
    rk_all_to_all *all_to_all;
    RK_TRY(rk_comm_all_gather(comm, RK_CHANNEL_SUMS, data, n_bytes, &all_to_all));
    *same = true;
    for (int32_t r = 0; r < comm->size; r++) {
        const rk_message *theirs = &rk_all_to_all_received_messages(all_to_all)[r];
        *same = *same && theirs->n_bytes == n_bytes && (!n_bytes || memcmp(theirs->data, data, n_bytes) == 0);
    }
    rk_all_to_all_free(all_to_all);
    return RK_OK;
}

rk_status rk_comm_broadcast_text(rk_comm *comm, char **text) {
    if (comm->size == 1) return RK_OK;
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    bool tells = comm->rank == 0 && *text;
    RK_TRY(rk_comm_all_gather(comm, RK_CHANNEL_SUMS, tells ? *text : "", tells ? strlen(*text) + 1 : 0,
                              &all_to_all));
    const rk_message *first = &rk_all_to_all_received_messages(all_to_all)[0];
    char *copy = NULL;
    if (first->n_bytes) RK_TRY(rk_strndup(first->data, first->n_bytes - 1, &copy));
    rk_free(*text);
    *text = copy;
    return RK_OK;
}

rk_status rk_comm_create_group(rk_comm *comm, const int32_t *members, int32_t n_members, rk_comm **out) {
    bool among = false;
    for (int32_t i = 0; i < n_members; i++) {
        RK_FAIL_IF(members[i] < 0 || members[i] >= comm->size, RK_INVALID_ARGUMENT,
                   "members: there is no rank %d of %d", (int)members[i], (int)comm->size);
        RK_FAIL_IF(i && members[i] <= members[i - 1], RK_INVALID_ARGUMENT,
                   "members: rank %d is listed after rank %d; ranks must be ascending", (int)members[i],
                   (int)members[i - 1]);
        among |= members[i] == comm->rank;
    }
    RK_FAIL_IF(!among, RK_INVALID_ARGUMENT, "members: this rank, %d, is not one of them", (int)comm->rank);
    return comm->ops->members(comm, members, n_members, out);
}

rk_status rk_comm_create_group_of_first_ranks(rk_comm *comm, int32_t n, rk_comm **out) {
    RK_AUTOFREE int32_t *members = NULL;
    RK_TRY(rk_alloc((size_t)n, sizeof *members, &members));
    for (int32_t r = 0; r < n; r++) members[r] = r;
    return rk_comm_create_group(comm, members, n, out);
}

void rk_comm_set_group_description(rk_comm *made, const rk_comm *of, const int32_t *members) {
    for (int32_t i = 0; i < made->size; i++) made->peers[i] = of->peers[members[i]];
    snprintf(made->description, sizeof made->description, "%.90s, member %d of %d", of->description,
             (int)made->rank, (int)made->size);
}

void rk_comm_abort(rk_comm *comm, const char *reason) {
    comm->ops->abort(comm, reason ? reason : "aborted");
}
