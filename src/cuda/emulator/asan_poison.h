/* Memory that must not be touched, as far as the address sanitizer is there to see it. */
#ifndef RK_CUDA_EMULATOR_ASAN_POISON_H
#define RK_CUDA_EMULATOR_ASAN_POISON_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif

#ifdef ASAN_POISON_MEMORY_REGION
static inline void rk_asan_poison(void *memory, size_t n_bytes) {
    ASAN_POISON_MEMORY_REGION(memory, n_bytes);
}
static inline void rk_asan_unpoison(void *memory, size_t n_bytes) {
    ASAN_UNPOISON_MEMORY_REGION(memory, n_bytes);
}
#else
static inline void rk_asan_poison(void *memory, size_t n_bytes) {
    (void)memory, (void)n_bytes;
}
static inline void rk_asan_unpoison(void *memory, size_t n_bytes) {
    (void)memory, (void)n_bytes;
}
#endif

#endif
