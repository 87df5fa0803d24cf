/* One process: what it sends, it receives. */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/comm.h"

static void self_free(rk_comm *comm) {
    rk_free(comm);
}

static rk_status self_barrier(rk_comm *comm) {
    (void)comm;
    return RK_OK;
}

static rk_status self_all_reduce_f32(rk_comm *comm, float *values, size_t n) {
    (void)comm, (void)values, (void)n;
    return RK_OK;
}

static rk_status self_all_to_all(rk_comm *comm, const void *send, const size_t *send_bytes, const size_t *send_offsets, void *receive,
                                 const size_t *receive_bytes, const size_t *receive_offsets) {
    (void)comm;
    RK_FAIL_IF(send_bytes[0] != receive_bytes[0], RK_INVALID_ARGUMENT, "all-to-all: rank 0 sends itself %zu bytes and receives %zu", send_bytes[0],
               receive_bytes[0]);
    if (send_bytes[0]) memmove((char *)receive + receive_offsets[0], (const char *)send + send_offsets[0], send_bytes[0]);
    return RK_OK;
}

/* There is no other rank to stop, and the library never exits: the caller's own error ends the run. */
static void self_abort(rk_comm *comm, const char *reason) {
    (void)comm;
    rk_log(RK_LOG_ERROR, "rank 0: %s", reason ? reason : "aborted");
}

static const rk_comm_functions functions = {self_free, self_barrier, self_all_reduce_f32, self_all_to_all, self_abort};

rk_status rk_comm_self(rk_comm **out) {
    rk_comm *comm;
    RK_TRY(rk_alloc(1, sizeof *comm, &comm));
    *comm = (rk_comm){&functions, 0, 1};
    *out = comm;
    return RK_OK;
}
