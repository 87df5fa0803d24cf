#include <errno.h>
#include <liburing.h>

#include "base/memory.h"
#include "embedding/tiered/async_page_reads.h"

enum { SUBMITTED_AT_ONCE = 16 /* a call of the system for so many, while others finish */ };

typedef struct uring_reads {
    rk_page_reads reads;
    struct io_uring ring;
    size_t n_prepared; /* and not yet submitted */
} uring_reads;

static void prepare_read(uring_reads *u, size_t slot) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring); /* there is one for each slot */
    const rk_page_read *read = &u->reads.reads[slot];
    io_uring_prep_read(sqe, read->descriptor, read->to, read->n_bytes, read->offset);
    io_uring_sqe_set_data64(sqe, slot);
    u->n_prepared++;
}

static rk_status submit_reads(uring_reads *u, unsigned n_to_wait_for) {
    int n = io_uring_submit_and_wait(&u->ring, n_to_wait_for);
    if (n >= 0) u->n_prepared -= (size_t)n;
    if (n >= 0 || n == -EINTR || n == -EAGAIN || n == -EBUSY) return RK_OK; /* called again */
    return rk_error_errno(RK_IO, -n, "io_uring");
}

static void start_read(rk_page_reads *reads, size_t slot) {
    prepare_read((uring_reads *)reads, slot);
}

/* The next that has ended and need not be begun again. */
static rk_status finish_read(rk_page_reads *reads, size_t *slot) {
    uring_reads *u = (uring_reads *)reads;
    for (;;) {
        struct io_uring_cqe *cqe;
        if (u->n_prepared >= SUBMITTED_AT_ONCE) RK_TRY(submit_reads(u, 0));
        if (io_uring_peek_cqe(&u->ring, &cqe) != 0) {
            RK_TRY(submit_reads(u, 1));
            continue;
        }
        size_t done = (size_t)io_uring_cqe_get_data64(cqe);
        int result = cqe->res;
        io_uring_cqe_seen(&u->ring, cqe);
        if (result == -EINTR || result == -EAGAIN) {
            prepare_read(u, done);
            continue;
        }
        reads->reads[done].n_read = result;
        *slot = done;
        return RK_OK;
    }
}

static void free_reads(rk_page_reads *reads) {
    uring_reads *u = (uring_reads *)reads;
    io_uring_queue_exit(&u->ring);
    RK_FREE_ALL(reads->reads, u);
}

static const rk_page_reads_ops uring_ops = {start_read, finish_read, free_reads};

/* Without interrupts of the thread where the system knows that; older ones do not. */
static int open_ring(unsigned n, struct io_uring *ring) {
    int code = io_uring_queue_init(n, ring, IORING_SETUP_COOP_TASKRUN);
    return code == -EINVAL ? io_uring_queue_init(n, ring, 0) : code;
}

rk_status rk_page_reads_create_uring(size_t n, rk_page_reads **out) {
    uring_reads *u;
    RK_TRY(rk_alloc(1, sizeof *u, &u));
    u->reads.ops = &uring_ops;
    u->reads.n = n;
    rk_status status = rk_alloc(n, sizeof *u->reads.reads, &u->reads.reads);
    int code = status == RK_OK ? open_ring((unsigned)n, &u->ring) : 0;
    if (code != 0) status = rk_error_errno(RK_UNSUPPORTED, -code, "the system refuses io_uring");
    if (status != RK_OK) {
        RK_FREE_ALL(u->reads.reads, u);
        return status;
    }
    *out = &u->reads;
    return RK_OK;
}
