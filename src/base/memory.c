#include "base/memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A block's size stands in the 64 bytes before it, which also keep it aligned to a cache line. */
enum { HEADER_BYTES = 64 };
/* From here on blocks ask for huge pages: what is scattered over them (rows' uses, gradients) misses the TLB
 * less. */
enum { HUGE_BLOCK_BYTES = 1 << 22, HUGE_PAGE_BYTES = 1 << 21 };

static atomic_long live;
static atomic_long countdown; /* 0: off */
static atomic_bool sticky_failure;

void rk_alloc_fail_after(long n, bool sticky) {
    atomic_store(&sticky_failure, sticky);
    atomic_store(&countdown, n);
}

long rk_alloc_live(void) {
    return atomic_load(&live);
}

static bool should_inject_failure(void) {
    if (atomic_load_explicit(&countdown, memory_order_relaxed) == 0) return false;
    long before = atomic_fetch_sub(&countdown, 1);
    if (before > 1) return false;
    /* Stay at 1 to fail from now on, or go back to off. */
    atomic_store(&countdown, atomic_load(&sticky_failure) ? 1 : 0);
    return before == 1;
}

static bool multiply_sizes_checked(size_t n, size_t bytes, size_t *out) {
    return !__builtin_mul_overflow(n, bytes, out) && *out <= SIZE_MAX - HEADER_BYTES;
}

/* A constraint: without it pages are only smaller. */
static void request_huge_pages(void *data, size_t bytes) {
    uintptr_t begin =
                  (uintptr_t)data + (HUGE_PAGE_BYTES - (uintptr_t)data % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES,
              end = (uintptr_t)data + bytes;
    if (end > begin) (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

static rk_status allocate_block(size_t total, char **out) {
    void *block = NULL;
    if (should_inject_failure() || posix_memalign(&block, HEADER_BYTES, total + HEADER_BYTES) != 0)
        return RK_NO_MEMORY_ERROR(total);
    if (total >= HUGE_BLOCK_BYTES) request_huge_pages(block, total + HEADER_BYTES);
    memcpy(block, &total, sizeof total);
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    *out = (char *)block + HEADER_BYTES;
    return RK_OK;
}

rk_status rk_alloc(size_t n, size_t bytes, void *out) {
    size_t total;
    RK_FAIL_IF(!multiply_sizes_checked(n, bytes, &total), RK_NO_MEMORY, "could not allocate %zu x %zu bytes",
               n, bytes);
    char *block;
    RK_TRY(allocate_block(total, &block));
    memset(block, 0, total);
    memcpy(out, &block, sizeof block);
    return RK_OK;
}

rk_status rk_alloc_each(size_t n_arrays, const rk_new_array *arrays) {
    for (size_t i = 0; i < n_arrays; i++) RK_TRY(rk_alloc(arrays[i].n, arrays[i].bytes, arrays[i].out));
    return RK_OK;
}

void rk_free_each(size_t n_pointers, void *const *pointers) {
    for (size_t i = 0; i < n_pointers; i++) rk_free(pointers[i]);
}

rk_status rk_realloc(size_t n, size_t bytes, void *inout) {
    size_t total, old_total;
    RK_FAIL_IF(!multiply_sizes_checked(n, bytes, &total), RK_NO_MEMORY, "could not allocate %zu x %zu bytes",
               n, bytes);
    char *old, *block;
    memcpy(&old, inout, sizeof old);
    RK_TRY(allocate_block(total, &block));
    if (old) {
        memcpy(&old_total, old - HEADER_BYTES, sizeof old_total);
        memcpy(block, old, old_total < total ? old_total : total);
        rk_free(old);
    }
    memcpy(inout, &block, sizeof block);
    return RK_OK;
}

rk_status rk_strndup(const char *text, size_t n, char **out) {
    char *copy;
    RK_TRY(rk_alloc(n + 1, 1, &copy));
    memcpy(copy, text, n);
    *out = copy;
    return RK_OK;
}

rk_status rk_strdup(const char *text, char **out) {
    return rk_strndup(text, strlen(text), out);
}

void rk_free(void *pointer) {
    if (!pointer) return;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free((char *)pointer - HEADER_BYTES);
}

void rk_memory_auto_free(void *variable) {
    void *pointer;
    memcpy(&pointer, variable, sizeof pointer);
    rk_free(pointer);
}

/* All of them or none: the kernel moves only what is of one kind. */
static void request_huge_pages_for_mapping(void *pages, size_t bytes) {
    if (bytes >= HUGE_PAGE_BYTES) (void)madvise(pages, bytes, MADV_HUGEPAGE);
}

rk_status rk_pages_alloc(size_t bytes, void *out) {
    if (should_inject_failure()) return RK_NO_MEMORY_ERROR(bytes);
    size_t length = bytes ? bytes : 1;
    void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return RK_NO_MEMORY_ERROR(bytes);
    request_huge_pages_for_mapping(pages, length);
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    memcpy(out, &pages, sizeof pages);
    return RK_OK;
}

void rk_pages_free(void *pages, size_t bytes) {
    if (!pages) return;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    munmap(pages, bytes ? bytes : 1);
}

static rk_status grow_pages(void *inout, size_t bytes, size_t wanted) {
    void *pages;
    if (should_inject_failure()) return RK_NO_MEMORY_ERROR(wanted);
    memcpy(&pages, inout, sizeof pages);
    pages = mremap(pages, bytes, wanted, MREMAP_MAYMOVE);
    if (pages == MAP_FAILED) return RK_NO_MEMORY_ERROR(wanted);
    request_huge_pages_for_mapping(pages, wanted);
    memcpy(inout, &pages, sizeof pages);
    return RK_OK;
}

rk_status rk_pages_reserve(void *inout, size_t *bytes, size_t wanted) {
    if (wanted <= *bytes) return RK_OK;
    RK_TRY(*bytes ? grow_pages(inout, *bytes, wanted) : rk_pages_alloc(wanted, inout));
    *bytes = wanted;
    return RK_OK;
}

/* The number behind `key` in a file of lines; UINT64_MAX: there is none. key "": the file's first number. */
static uint64_t read_number_of_key(const char *path, const char *key) {
    char line[256];
    unsigned long long value = UINT64_MAX;
    FILE *file = fopen(path, "r");
    if (!file) return UINT64_MAX;
    while (fgets(line, sizeof line, file) &&
           (strncmp(line, key, strlen(key)) != 0 || sscanf(line + strlen(key), "%llu", &value) != 1)) {
    }
    fclose(file);
    return value;
}

uint64_t rk_memory_available(void) {
    uint64_t free = read_number_of_key("/proc/meminfo", "MemAvailable:"),
             most = read_number_of_key("/sys/fs/cgroup/memory.max", ""),
             used = read_number_of_key("/sys/fs/cgroup/memory.current", "");
    if (free == UINT64_MAX) return 0;
    free *= 1024;
    if (most == UINT64_MAX || used == UINT64_MAX) return free; /* no limit */
    uint64_t cached =
        read_number_of_key("/sys/fs/cgroup/memory.stat", "inactive_file "); /* files' pages, which go first */
    if (cached < used) used -= cached;
    uint64_t left = most > used ? most - used : 1;
    return left < free ? left : free;
}

static rk_status resize_array(void *array, size_t *capacity, size_t wanted, size_t bytes) {
    RK_TRY(rk_realloc(wanted, bytes, array));
    *capacity = wanted;
    return RK_OK;
}

rk_status rk_array_grow_to(void *array, size_t *capacity, size_t n, size_t bytes) {
    return resize_array(array, capacity, *capacity ? n + n / 4 : n, bytes);
}

rk_status rk_reserve_one_more(void *array, size_t n, size_t *capacity, size_t bytes) {
    if (n < *capacity) return RK_OK;
    return resize_array(array, capacity, *capacity < 8 ? 8 : *capacity + *capacity / 2, bytes);
}
