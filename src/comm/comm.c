#include "comm/comm.h"

#include "base/error.h"

void rk_comm_free(rk_comm *comm) {
    if (comm) comm->functions->free(comm);
}

int32_t rk_comm_rank(const rk_comm *comm) {
    return comm->rank;
}

int32_t rk_comm_size(const rk_comm *comm) {
    return comm->size;
}

rk_status rk_comm_barrier(rk_comm *comm) {
    return comm->functions->barrier(comm);
}

rk_status rk_comm_all_reduce_f32(rk_comm *comm, float *values, size_t n) {
    RK_FAIL_IF(n && !values, RK_INVALID_ARGUMENT, "all-reduce: no values");
    return comm->functions->all_reduce_f32(comm, values, n);
}

rk_status rk_comm_all_to_all(rk_comm *comm, const void *send, const size_t *send_bytes, const size_t *send_offsets, void *receive,
                             const size_t *receive_bytes, const size_t *receive_offsets) {
    RK_FAIL_IF(!send_bytes || !send_offsets || !receive_bytes || !receive_offsets, RK_INVALID_ARGUMENT, "all-to-all: an array of sizes or offsets is missing");
    size_t sent = 0, received = 0;
    for (int32_t r = 0; r < comm->size; r++) {
        sent += send_bytes[r];
        received += receive_bytes[r];
    }
    RK_FAIL_IF((sent && !send) || (received && !receive), RK_INVALID_ARGUMENT, "all-to-all: a buffer is missing");
    return comm->functions->all_to_all(comm, send, send_bytes, send_offsets, receive, receive_bytes, receive_offsets);
}

void rk_comm_abort(rk_comm *comm, const char *reason) {
    comm->functions->abort(comm, reason);
}
