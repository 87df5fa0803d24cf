#include "base/hash.h"

#include <pthread.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/text/text.h"
#include "base/integers.h"

uint64_t rk_hash_bytes(const void *data, size_t n_bytes, uint64_t seed) {
    return XXH64(data, n_bytes, seed);
}

uint64_t rk_hash_i64(int64_t value, uint64_t seed) {
    char room[RK_I64_BYTES];
    rk_span text = rk_format_i64(value, room);
    return rk_hash_bytes(text.data, text.n_bytes, seed);
}

uint64_t rk_hash_combine(uint64_t a, uint64_t b) {
    uint64_t pair[2] = {a, b};
    return XXH64(pair, sizeof pair, 0);
}

/* Castagnoli, reflected polynomial 0x82F63B78; eight bytes a step by eight tables. */
static uint32_t table[8][256];

static void fill_crc_byte_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
        table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++) table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
}

static void init_crc_tables_once(void);

static uint32_t crc32c_by_table(uint32_t crc, const uint8_t *data, size_t n_bytes) {
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

/* The instruction takes three cycles and starts one in each: so three stretches are summed side by side, and
 * the first two are then moved over the bytes that follow them, by tables of what one stretch of zero bytes
 * does to each byte of a crc. Long stretches for long data, short ones for what is left. */
enum { LONG_STRETCH = 1024, SHORT_STRETCH = 128 };
typedef uint32_t shift_table[4][256];
static shift_table long_shifts, short_shifts;

static void fill_crc_shift_table(shift_table shifts, size_t stretch) {
    static const uint8_t zeros[LONG_STRETCH];
    for (int byte = 0; byte < 4; byte++)
        for (uint32_t value = 0; value < 256; value++)
            shifts[byte][value] = crc32c_by_table(value << (8 * byte), zeros, stretch);
}

static inline uint32_t append_zeros_to_crc(shift_table shifts, uint32_t crc) {
    return shifts[0][crc & 255] ^ shifts[1][crc >> 8 & 255] ^ shifts[2][crc >> 16 & 255] ^
           shifts[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static inline uint32_t crc32c_of_three_stretches(uint32_t crc,
                                                                                   const uint8_t *data,
                                                                                   size_t stretch,
                                                                                   shift_table shifts) {
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < stretch; i += 8) {
        a = _mm_crc32_u64(a, rk_load_u64(data + i));
        b = _mm_crc32_u64(b, rk_load_u64(data + stretch + i));
        c = _mm_crc32_u64(c, rk_load_u64(data + 2 * stretch + i));
    }
    return append_zeros_to_crc(shifts, append_zeros_to_crc(shifts, (uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_by_sse42(uint32_t crc, const uint8_t *data,
                                                                  size_t n_bytes) {
    if (n_bytes >= 3 * SHORT_STRETCH) init_crc_tables_once();
    for (; n_bytes >= 3 * LONG_STRETCH; data += 3 * LONG_STRETCH, n_bytes -= 3 * LONG_STRETCH)
        crc = crc32c_of_three_stretches(crc, data, LONG_STRETCH, long_shifts);
    for (; n_bytes >= 3 * SHORT_STRETCH; data += 3 * SHORT_STRETCH, n_bytes -= 3 * SHORT_STRETCH)
        crc = crc32c_of_three_stretches(crc, data, SHORT_STRETCH, short_shifts);
    uint64_t a = crc;
    for (; n_bytes >= 8; data += 8, n_bytes -= 8) a = _mm_crc32_u64(a, rk_load_u64(data));
    crc = (uint32_t)a;
    for (; n_bytes; data++, n_bytes--) crc = _mm_crc32_u8(crc, *data);
    return crc;
}
#endif

static void fill_all_crc_tables(void) {
    fill_crc_byte_tables();
#ifdef __x86_64__
    fill_crc_shift_table(long_shifts, LONG_STRETCH);
    fill_crc_shift_table(short_shifts, SHORT_STRETCH);
#endif
}

static void init_crc_tables_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_all_crc_tables);
}

uint32_t rk_crc32c(uint32_t crc, const void *data, size_t n_bytes) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2")) return ~crc32c_by_sse42(~crc, data, n_bytes);
#endif
    init_crc_tables_once();
    return ~crc32c_by_table(~crc, data, n_bytes);
}
