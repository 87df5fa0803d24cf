/* The blocks of a kernel, one after the other, and the threads of a block: one after the other on one fiber,
 * until one waits; then the next goes on on another. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cuda/emulator/emulator.h"
#include "cuda/emulator/emulator_fiber.h"
#include "cuda/emulator/emulator_order.h"
#include "cuda/emulator/asan_poison.h"

enum { WARP = 32, MOST_THREADS = 1024 };
enum thread_state { NEW, READY, AT_BARRIER, AT_WARP, DONE };

struct emulated_thread {
    thread_state state;
    uint3 index;
    rk_fiber *fiber;         /* NULL before it runs */
    rk_emulator_place place; /* where it waits */
};
struct emulated_warp {
    uint64_t values[2][WARP];      /* of this meeting and of the last, which slow lanes still read */
    int n_arrived, first, meeting; /* first: the thread that arrived first */
};

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
uint64_t rk_emulator_block;

static const rk_emulator_kernel *kernel; /* NULL: none runs */
static const std::function<void()> *body;
static emulated_thread threads[MOST_THREADS];
static emulated_warp warps[MOST_THREADS / WARP];
static int n_threads, n_at_barrier, first_at_barrier, n_done, current;
static bool backwards; /* this block's threads */
static rk_fiber *idle[MOST_THREADS], *fibers[MOST_THREADS + 1];
static int n_idle;

static int ordered_index(int i, int n) {
    return backwards ? n - 1 - i : i;
}

void rk_emulator_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fputs("emulator: ", stderr);
    if (kernel)
        fprintf(stderr, "kernel '%s', block (%u, %u, %u), thread (%u, %u, %u): ", kernel->name, blockIdx.x,
                blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

/* Shared memory: a block's arrays one behind the other with gaps, full of garbage. */
enum { SHARED_BYTES = 48 << 10, GAP = 64 };
static unsigned char __align__(256) shared_memory[SHARED_BYTES + 64 * GAP];
static size_t shared_end, shared_used;

static void *alloc_shared(size_t n_bytes) {
    shared_used += n_bytes;
    void *memory = shared_memory + shared_end;
    shared_end += (n_bytes + GAP - 1) / GAP * GAP + GAP;
    if (shared_used > SHARED_BYTES || shared_end > sizeof shared_memory)
        rk_emulator_fail("more than %d bytes of shared memory", SHARED_BYTES);
    rk_asan_unpoison(memory, n_bytes);
    memset(memory, 0xCD, n_bytes);
    return memory;
}

void *rk_emulator_new_shared_array(rk_emulator_shared *shared, size_t n_bytes) {
    if (!kernel) rk_emulator_fail("shared memory outside of a kernel");
    shared->memory = alloc_shared(n_bytes);
    shared->block = rk_emulator_block;
    return shared->memory;
}

static void *shared_dynamic;
void *rk_emulator_dynamic_shared_memory() {
    return shared_dynamic;
}

/* The next thread in order that has not begun, or -1. Only of the warp that is being run. */
static int warp_first, warp_n;
static int next_thread_to_begin() {
    for (int i = 0; i < warp_n; i++) {
        int t = warp_first + ordered_index(i, warp_n);
        if (threads[t].state == NEW) return t;
    }
    return -1;
}

static void set_current_thread(int t) {
    current = t;
    threadIdx = threads[t].index;
}

/* A fiber runs thread after thread, as long as none of them waits. */
static void run_threads_on_fiber(rk_fiber *self) {
    for (;;) {
        for (int t = current; t >= 0; t = next_thread_to_begin()) {
            set_current_thread(t);
            threads[t].state = READY;
            threads[t].fiber = self;
            (*body)();
            threads[t].state = DONE;
            n_done++;
        }
        idle[n_idle++] = self;
        rk_fiber_switch(self, rk_fiber_of_program());
    }
}

static rk_fiber *take_idle_or_new_fiber() {
    static int n_fibers;
    if (!n_idle) idle[n_idle++] = fibers[n_fibers++] = rk_fiber_create(run_threads_on_fiber);
    return idle[--n_idle];
}

static void wait_in_state(thread_state state, const rk_emulator_place &place) {
    emulated_thread *mine = &threads[current];
    mine->state = state;
    mine->place = place;
    rk_fiber_switch(mine->fiber, rk_fiber_of_program());
}

static void check_same_place(const rk_emulator_place &here, int other) {
    const rk_emulator_place &there = threads[other].place;
    if (here.line == there.line && strcmp(here.file, there.file) == 0) return;
    rk_emulator_fail("is at %s (%s:%d), thread %d of the same %s at %s (%s:%d)", here.what, here.file,
                     here.line, other, threads[other].state == AT_WARP ? "warp" : "block", there.what,
                     there.file, there.line);
}

void rk_emulator_barrier(rk_emulator_place place) {
    if (!kernel) rk_emulator_fail("%s outside of a kernel (%s:%d)", place.what, place.file, place.line);
    if (!n_at_barrier)
        first_at_barrier = current;
    else
        check_same_place(place, first_at_barrier);
    if (++n_at_barrier < n_threads) {
        wait_in_state(AT_BARRIER, place);
        return;
    }
    n_at_barrier = 0;
    for (int t = 0; t < n_threads; t++)
        if (t != current) threads[t].state = READY;
}

const uint64_t *rk_emulator_warp_exchange(rk_emulator_place place, unsigned mask, uint64_t value) {
    if (!kernel) rk_emulator_fail("%s outside of a kernel (%s:%d)", place.what, place.file, place.line);
    if (mask != 0xFFFFFFFFu)
        rk_emulator_fail("%s with the mask %#x; only the full warp is emulated (%s:%d)", place.what, mask,
                         place.file, place.line);
    if (n_threads % WARP)
        rk_emulator_fail("%s in a block of %d threads, which is not whole warps (%s:%d)", place.what,
                         n_threads, place.file, place.line);
    emulated_warp *warp = &warps[current / WARP];
    const uint64_t *values = warp->values[warp->meeting % 2];
    warp->values[warp->meeting % 2][current % WARP] = value;
    if (!warp->n_arrived)
        warp->first = current;
    else
        check_same_place(place, warp->first);
    if (++warp->n_arrived < WARP) {
        wait_in_state(AT_WARP, place);
        return values;
    }
    warp->n_arrived = 0;
    warp->meeting++;
    for (int t = current / WARP * WARP, lane = 0; lane < WARP; lane++, t++)
        if (t != current) threads[t].state = READY;
    return values;
}

/* Runs a warp's threads until each waits for others or is done; false: none could run. */
static bool run_warp(int warp) {
    bool any = false;
    warp_first = warp * WARP;
    warp_n = n_threads - warp_first < WARP ? n_threads - warp_first : WARP;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < warp_n; i++) {
            int t = warp_first + ordered_index(i, warp_n);
            if (threads[t].state != NEW && threads[t].state != READY) continue;
            set_current_thread(t);
            rk_fiber_switch(rk_fiber_of_program(),
                            threads[t].state == NEW ? take_idle_or_new_fiber() : threads[t].fiber);
            more = any = true;
        }
    }
    return any;
}

/* No thread can go on: some wait for ones that have left, or that wait elsewhere. */
static void fail_with_reason_of_deadlock() {
    for (int t = 0; t < n_threads; t++) {
        if (threads[t].state == DONE) continue;
        set_current_thread(t);
        const rk_emulator_place &place = threads[t].place;
        bool at_warp = threads[t].state == AT_WARP;
        int first = at_warp ? t / WARP * WARP : 0, end = at_warp ? first + WARP : n_threads;
        for (int other = first; other < end; other++) {
            if (threads[other].state == threads[t].state) continue;
            if (threads[other].state != DONE) check_same_place(place, other);
            rk_emulator_fail("waits at %s (%s:%d) for thread %d, which has left the kernel", place.what,
                             place.file, place.line, other);
        }
    }
    rk_emulator_fail("the block is stuck"); /* not reached: somebody waits for another */
}

static void run_block() {
    rk_emulator_block++;
    n_threads = (int)(blockDim.x * blockDim.y * blockDim.z);
    n_at_barrier = n_done = 0;
    backwards = rk_emulator_random_below(2);
    shared_end = shared_used = 0;
    rk_asan_poison(shared_memory, sizeof shared_memory);
    shared_dynamic = kernel->shared_bytes ? alloc_shared(kernel->shared_bytes) : NULL;
    for (int t = 0; t < n_threads; t++) {
        unsigned u = (unsigned)t;
        threads[t] = {
            NEW, {u % blockDim.x, u / blockDim.x % blockDim.y, u / (blockDim.x * blockDim.y)}, NULL, {}};
    }
    int n_warps = (n_threads + WARP - 1) / WARP;
    for (int w = 0; w < n_warps; w++) warps[w].n_arrived = warps[w].meeting = 0;
    while (n_done < n_threads) {
        bool any = false;
        for (int w = 0; w < n_warps; w++) any |= run_warp(ordered_index(w, n_warps));
        if (!any) fail_with_reason_of_deadlock();
    }
}

void rk_emulator_run_kernel(const rk_emulator_kernel &run, const std::function<void()> &thread) {
    kernel = &run;
    body = &thread;
    gridDim = run.blocks;
    blockDim = run.threads;
    uint64_t n_blocks = (uint64_t)gridDim.x * gridDim.y * gridDim.z;
    bool last_first = rk_emulator_random_below(2);
    for (uint64_t i = 0; i < n_blocks; i++) {
        uint64_t b = last_first ? n_blocks - 1 - i : i;
        blockIdx = {(unsigned)(b % gridDim.x), (unsigned)(b / gridDim.x % gridDim.y),
                    (unsigned)(b / gridDim.x / gridDim.y)};
        run_block();
    }
    kernel = NULL;
}
