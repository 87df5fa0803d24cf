/* Many reads of files at once, into places of the caller's. By io_uring (async_page_reads_uring.c, where the
 * build has liburing and the system lets it), or by pread on threads (async_page_reads_threads.c).
 *
 * Thread rule: one thread at a time. */
#ifndef RK_EMBEDDING_TIERED_ASYNC_PAGE_READS_H
#define RK_EMBEDDING_TIERED_ASYNC_PAGE_READS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* n_bytes at `offset` into `to`; n_read: as many as there were, or -errno. */
typedef struct rk_page_read {
    int descriptor;
    uint32_t n_bytes;
    uint64_t offset;
    void *to;
    int64_t n_read; /* out */
} rk_page_read;

typedef struct rk_page_reads rk_page_reads;

typedef struct rk_page_reads_ops {
    /* Read reads[slot], which stays as it is until finish has named it. */
    void (*start)(rk_page_reads *reads, size_t slot);
    /* Waits for one of those that were started. An error: nothing more can be read here. */
    rk_status (*finish)(rk_page_reads *reads, size_t *slot);
    void (*free)(rk_page_reads *reads); /* nothing is under way */
} rk_page_reads_ops;

struct rk_page_reads {
    const rk_page_reads_ops *ops;
    rk_page_read *reads; /* [n] */
    size_t n;
};

/* RK_UNSUPPORTED: this build or system has no io_uring; the last error says why. */
rk_status rk_page_reads_create_uring(size_t n, rk_page_reads **out);
rk_status rk_page_reads_create_threads(size_t n, rk_page_reads **out);

#endif
