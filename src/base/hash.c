#include "base/hash.h"

#include <stdatomic.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t rk_hash_bytes(const void *data, size_t n_bytes, uint64_t seed) {
    return XXH64(data, n_bytes, seed);
}

uint64_t rk_hash_i64(int64_t value, uint64_t seed) {
    char text[20];
    char *at = text + sizeof text;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) *--at = '-';
    return XXH64(at, (size_t)(text + sizeof text - at), seed);
}

__extension__ typedef unsigned __int128 uint128;

uint64_t rk_hash_bucket(uint64_t hash, uint64_t n_buckets) {
    return (uint64_t)((uint128)hash * n_buckets >> 64);
}

uint64_t rk_hash_combine(uint64_t a, uint64_t b) {
    uint64_t pair[2] = {a, b};
    return XXH64(pair, sizeof pair, 0);
}

/* Castagnoli, reflected polynomial 0x82F63B78; eight bytes a step by eight tables. */
static uint32_t table[8][256];
static _Atomic int table_state; /* 0 none, 2 ready; filling twice writes the same values, but only one thread does */

static void fill_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
        table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++) table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
}

static void need_tables(void) {
    int none = 0;
    if (atomic_load_explicit(&table_state, memory_order_acquire) == 2) return;
    if (atomic_compare_exchange_strong(&table_state, &none, 1)) {
        fill_tables();
        atomic_store_explicit(&table_state, 2, memory_order_release);
    }
    while (atomic_load_explicit(&table_state, memory_order_acquire) != 2) {
    }
}

static uint32_t crc_by_table(uint32_t crc, const uint8_t *data, size_t n_bytes) {
    need_tables();
    for (; n_bytes >= 8; data += 8, n_bytes -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        word ^= crc;
        crc = 0;
        for (int i = 0; i < 8; i++) crc ^= table[7 - i][word >> (8 * i) & 255];
    }
    for (; n_bytes; data++, n_bytes--) crc = crc >> 8 ^ table[0][(crc ^ *data) & 255];
    return crc;
}

#ifdef __x86_64__
#include <nmmintrin.h>
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *data, size_t n_bytes) {
    uint64_t wide = crc;
    for (; n_bytes >= 8; data += 8, n_bytes -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    for (; n_bytes; data++, n_bytes--) crc = _mm_crc32_u8(crc, *data);
    return crc;
}
#endif

uint32_t rk_crc32c(uint32_t crc, const void *data, size_t n_bytes) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2")) return ~crc_by_instruction(~crc, data, n_bytes);
#endif
    return ~crc_by_table(~crc, data, n_bytes);
}
