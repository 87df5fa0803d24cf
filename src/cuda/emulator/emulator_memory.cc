/* Allocations are maps of their own with a page behind them that nobody may touch. Freed ones stay so, and
 * are not given again. */
#include "cuda/emulator/emulator_memory.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <map>

#include "cuda/emulator/emulator.h"
#include "cuda/emulator/emulator_control.h"
#include "cuda/emulator/asan_poison.h"
#include "cuda/emulator/emulator_queue.h"

enum { PAGE = 4096, ALIGN = 256 };
static const size_t DEVICE_BYTES = (size_t)4 << 30; /* of the emulated card */

struct allocation {
    size_t n_bytes, map_bytes; /* without the guard */
    char *map;                 /* NULL: the host's own memory, registered */
    rk_memory_kind kind;
};
static std::map<uintptr_t, allocation> allocations;
static size_t device_used;
static int n_open;
static int64_t allocations_until_failure = -1;

void rk_emulator_fail_allocation(int64_t n) {
    allocations_until_failure = n;
}

static const allocation *find_allocation(const void *memory, uintptr_t *base) {
    auto after = allocations.upper_bound((uintptr_t)memory);
    if (after == allocations.begin()) return NULL;
    --after;
    *base = after->first;
    return (uintptr_t)memory - after->first <= after->second.n_bytes ? &after->second : NULL;
}

void rk_emulator_check_range(const char *what, const void *memory, size_t n_bytes, rk_memory_kind kind) {
    uintptr_t base;
    const allocation *found = find_allocation(memory, &base);
    const char *wanted = kind == RK_MEMORY_DEVICE ? "device memory" : "pinned memory";
    if (!found || found->kind != kind) rk_emulator_fail("%s: %p is no %s", what, memory, wanted);
    size_t left = found->n_bytes - ((uintptr_t)memory - base);
    if (n_bytes > left)
        rk_emulator_fail("%s: %zu bytes at %p, where only %zu are allocated", what, n_bytes, memory, left);
}

void rk_emulator_check_pointer(const char *kernel, const void *pointer) {
    uintptr_t base;
    if (pointer && !find_allocation(pointer, &base))
        rk_emulator_fail(
            "launch of '%s': the argument %p points neither to device memory nor to pinned memory", kernel,
            pointer);
}

static void set_access_of_device_memory(int access) {
    for (auto &each : allocations)
        if (each.second.kind == RK_MEMORY_DEVICE &&
            mprotect(each.second.map, each.second.map_bytes, access) != 0)
            rk_emulator_fail("mprotect failed");
}
void rk_emulator_open_device_memory() {
    if (n_open++ == 0) set_access_of_device_memory(PROT_READ | PROT_WRITE);
}
void rk_emulator_close_device_memory() {
    if (--n_open == 0) set_access_of_device_memory(PROT_NONE);
}

/* Says why before others, the test framework's or nobody's, handle the fault. */
static struct sigaction others;
static void explain_fault(int signal_number, siginfo_t *info, void *) {
    uintptr_t base;
    if (signal_number != SIGSEGV)
        rk_emulator_fail("an access to memory that is not aligned to its size"); /* what the compiler checks:
                                                                                    CMakeLists.txt; under
                                                                                    RK_SANITIZE, more */
    const allocation *found = find_allocation(info->si_addr, &base);
    if (found && found->kind == RK_MEMORY_DEVICE && !n_open)
        fprintf(stderr, "emulator: code of the host touches device memory (%p)\n", info->si_addr);
    sigaction(signal_number, &others, NULL);
}
static void install_fault_handler() {
    struct sigaction now, action = {};
    if (sigaction(SIGSEGV, NULL, &now) != 0 || now.sa_sigaction == explain_fault) return;
    others = now;
    action.sa_sigaction = explain_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGILL, &action, NULL);  /* a trap, on x86 */
    sigaction(SIGTRAP, &action, NULL); /* and on ARM */
}

static cudaError_t allocate_memory(void **memory, size_t n_bytes, rk_memory_kind kind) {
    bool is_device = kind == RK_MEMORY_DEVICE;
    if (rk_n_captures) return cudaErrorStreamCaptureUnsupported;
    if (allocations_until_failure >= 0 && allocations_until_failure-- == 0) return cudaErrorMemoryAllocation;
    if (!n_bytes || (is_device && n_bytes > DEVICE_BYTES - device_used))
        return n_bytes ? cudaErrorMemoryAllocation : cudaErrorInvalidValue;
    install_fault_handler();
    size_t aligned = (n_bytes + ALIGN - 1) / ALIGN * ALIGN, map_bytes = (aligned + PAGE - 1) / PAGE * PAGE;
    char *map = (char *)mmap(NULL, map_bytes + PAGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return cudaErrorMemoryAllocation;
    char *start = map + map_bytes - aligned;
    memset(start, 0xA5, n_bytes);
    rk_asan_poison(map, map_bytes);
    rk_asan_unpoison(start, n_bytes);
    if (mprotect(map + map_bytes, PAGE, PROT_NONE) != 0 ||
        (is_device && !n_open && mprotect(map, map_bytes, PROT_NONE) != 0))
        return cudaErrorMemoryAllocation;
    allocations[(uintptr_t)start] = {n_bytes, map_bytes, map, kind};
    if (is_device) device_used += n_bytes;
    *memory = start;
    return cudaSuccess;
}

static cudaError_t free_memory(void *memory, rk_memory_kind kind) {
    auto found = allocations.find((uintptr_t)memory);
    if (!memory) return cudaSuccess;
    if (found == allocations.end() || found->second.kind != kind || !found->second.map)
        rk_emulator_fail("free of %p, which is not allocated", memory);
    if (kind == RK_MEMORY_DEVICE) device_used -= found->second.n_bytes;
    mprotect(found->second.map, found->second.map_bytes, PROT_NONE);
    madvise(found->second.map, found->second.map_bytes, MADV_DONTNEED);
    rk_asan_poison(found->second.map, found->second.map_bytes);
    allocations.erase(found);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t n_bytes) {
    return rk_emulator_keep_error(allocate_memory(memory, n_bytes, RK_MEMORY_DEVICE));
}
cudaError_t cudaFree(void *memory) {
    return free_memory(memory, RK_MEMORY_DEVICE);
}
cudaError_t cudaHostAlloc(void **memory, size_t n_bytes, unsigned) {
    return rk_emulator_keep_error(allocate_memory(memory, n_bytes, RK_MEMORY_PINNED));
}
cudaError_t cudaFreeHost(void *memory) {
    return free_memory(memory, RK_MEMORY_PINNED);
}

cudaError_t cudaHostRegister(void *memory, size_t n_bytes, unsigned) {
    uintptr_t base;
    if (!memory || !n_bytes || find_allocation(memory, &base))
        return rk_emulator_keep_error(cudaErrorInvalidValue);
    allocations[(uintptr_t)memory] = {n_bytes, 0, NULL, RK_MEMORY_PINNED};
    return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *memory) {
    auto found = allocations.find((uintptr_t)memory);
    if (found == allocations.end() || found->second.map)
        rk_emulator_fail("unpinning %p, which is not pinned", memory);
    allocations.erase(found);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **device_pointer, void *memory, unsigned) {
    uintptr_t base;
    const allocation *found = find_allocation(memory, &base);
    if (!found || found->kind != RK_MEMORY_PINNED) return rk_emulator_keep_error(cudaErrorInvalidValue);
    *device_pointer = memory;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = DEVICE_BYTES - device_used;
    *total_bytes = DEVICE_BYTES;
    return cudaSuccess;
}
