#include "base/file/file.h"
#include "base/memory.h"
#include "base/thread/worker_pool.h"
#include "embedding/tiered/async_page_reads.h"

enum { MAX_THREADS = 32 };

typedef struct thread_reads {
    rk_page_reads reads;
    rk_worker_pool *pool;
    size_t *started; /* [n] slots, n_started of them from `first` on, around the end: the oldest first */
    size_t first, n_started;
} thread_reads;

static void read_page_of_slot(void *context, size_t slot) {
    rk_page_read *read = &((rk_page_reads *)context)->reads[slot];
    size_t n;
    int code = rk_file_read_at(read->descriptor, read->offset, read->to, read->n_bytes, &n);
    read->n_read = code ? -code : (int64_t)n;
}

static void start_read(rk_page_reads *reads, size_t slot) {
    thread_reads *t = (thread_reads *)reads;
    t->started[(t->first + t->n_started++) % reads->n] = slot;
    rk_worker_pool_start_task(t->pool, slot);
}

static rk_status finish_read(rk_page_reads *reads, size_t *slot) {
    thread_reads *t = (thread_reads *)reads;
    *slot = t->started[t->first];
    rk_worker_pool_wait_for_task(t->pool, *slot);
    t->first = (t->first + 1) % reads->n;
    t->n_started--;
    return RK_OK;
}

static void free_reads(rk_page_reads *reads) {
    thread_reads *t = (thread_reads *)reads;
    rk_worker_pool_free(t->pool);
    RK_FREE_ALL(t->started, reads->reads, t);
}

static const rk_page_reads_ops thread_ops = {start_read, finish_read, free_reads};

rk_status rk_page_reads_create_threads(size_t n, rk_page_reads **out) {
    thread_reads *t;
    RK_TRY(rk_alloc(1, sizeof *t, &t));
    t->reads.ops = &thread_ops;
    t->reads.n = n;
    rk_status status;
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY(n, t->reads.reads), RK_ARRAY(n, t->started)));
    RK_GOTO(rk_worker_pool_create(n < MAX_THREADS ? (int)n + 1 : MAX_THREADS, n, read_page_of_slot, &t->reads,
                                  &t->pool));
    *out = &t->reads;
    return RK_OK;
done:
    free_reads(&t->reads);
    return status;
}
