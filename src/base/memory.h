/* The library takes all memory here, so that tests can make any allocation fail. */
#ifndef RK_BASE_MEMORY_H
#define RK_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Zeroed memory for n elements of `bytes` each, 64-byte aligned; sets *out, or fails with RK_NO_MEMORY
 * (overflow too). n == 0 gives a valid pointer that must be freed. Free with rk_free. */
rk_status rk_alloc(size_t n, size_t bytes, void *out); /* out: pointer to any object pointer */

/* Grow or shrink *inout to n elements, keeping the old content; new bytes are undefined. On failure *inout
 * stays valid. */
rk_status rk_realloc(size_t n, size_t bytes, void *inout);

/* A copy of a string (n bytes of it, NUL added). */
rk_status rk_strdup(const char *text, char **out);
rk_status rk_strndup(const char *text, size_t n, char **out);

void rk_free(void *pointer); /* NULL is fine */

/* The arrays of an object, each a block of its own: RK_ALLOC_ALL(RK_ARRAY(n, x->ids), ...) takes them
 * as rk_alloc does, in that order, up to the first that fails; RK_FREE_ALL(x->ids, ...) frees them. */
typedef struct rk_new_array {
    size_t n, bytes;
    void *out;
} rk_new_array;
rk_status rk_alloc_each(size_t n_arrays, const rk_new_array *arrays);
void rk_free_each(size_t n_pointers, void *const *pointers);
#define RK_ARRAY(n, pointer) \
    { (n), sizeof *(pointer), &(pointer) }
#define RK_ALLOC_ALL(...)                                                             \
    rk_alloc_each(sizeof((const rk_new_array[]){__VA_ARGS__}) / sizeof(rk_new_array), \
                  (const rk_new_array[]){__VA_ARGS__})
#define RK_FREE_ALL(...) \
    rk_free_each(sizeof((void *const[]){__VA_ARGS__}) / sizeof(void *), (void *const[]){__VA_ARGS__})

/* Zeroed pages for large arrays, with transparent huge pages asked for. The kernel zeroes them at first
 * touch, so nothing is touched here. Free with the same size. */
rk_status rk_pages_alloc(size_t bytes, void *out); /* out: a pointer to the pointer, as rk_alloc has it */
void rk_pages_free(void *pages, size_t bytes);
/* Pages for `wanted` bytes, if *bytes are fewer. They may move to other addresses, but are not copied; what
 * is new is zeros. inout: a pointer to the pointer; with 0 bytes there are none yet. On failure all stays. */
rk_status rk_pages_reserve(void *inout, size_t *bytes, size_t wanted);

/* Bytes that the machine, or the control group that the process is in, has to give without swapping; 0:
 * unknown. */
uint64_t rk_memory_available(void);

/* What a function needs only while it runs. A variable with RK_AUTOFREE is given to rk_free, one with
 * RK_AUTO(release) to its type's function by its address, where its block is left, however that is. It has a
 * value from its declaration on, which stands before any RK_GOTO. */
#define RK_AUTO(release) __attribute__((cleanup(release)))
#define RK_AUTOFREE      RK_AUTO(rk_memory_auto_free)
void rk_memory_auto_free(void *variable); /* a pointer to any object pointer */

/* A growable array is a pointer and the number of places that it has, both 0 at first; `array` is a pointer
 * to the pointer, `bytes` the size of an element. What is there stays. */

/* Room for n elements: exactly so many at first, with a quarter to spare where it grows. n == 0 may leave the
 * array NULL. */
rk_status rk_array_grow_to(void *array, size_t *capacity, size_t n, size_t bytes);
static inline rk_status rk_reserve(void *array, size_t *capacity, size_t n, size_t bytes) {
    return n <= *capacity ? RK_OK : rk_array_grow_to(array, capacity, n, bytes);
}
/* Room for one more element than the n that are there, with half as many to spare. */
rk_status rk_reserve_one_more(void *array, size_t n, size_t *capacity, size_t bytes);

/* Test hook: the `countdown`-th allocation from now (1 = the next) fails, and all after it if `sticky`; 0
 * turns it off. */
void rk_alloc_fail_after(long countdown, bool sticky);
/* Allocations live now, for leak checks in tests. */
long rk_alloc_live(void);

#endif
