/* rk_cuda_hash_ids: out[i] = rk_hash_bucket(rk_hash_i64(in[i], seed), n_buckets) (base/hash.h): XXH64 of the
 * number's decimal text, by its specification for texts below 32 bytes
 * (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md). Read and written: 8 bytes an id each. */
#include "cuda/tables/table_kernel_helpers.h"

enum { TEXT_BYTES = 24 }; /* of 20 digits and signs at most, in whole words */

__device__ static const uint64_t prime1 = 0x9E3779B185EBCA87ull, prime2 = 0xC2B2AE3D27D4EB4Full,
                                 prime3 = 0x165667B19E3779F9ull, prime4 = 0x85EBCA77C2B2AE63ull,
                                 prime5 = 0x27D4EB2F165667C5ull;

/* A number's decimal text, its first byte lowest in words[0]. */
typedef struct decimal {
    uint64_t words[TEXT_BYTES / 8];
    uint32_t n_bytes;
} decimal;

/* Puts a byte before the text. */
__device__ static inline void prepend_byte(decimal *text, uint32_t byte) {
    text->words[2] = text->words[2] << 8 | text->words[1] >> 56;
    text->words[1] = text->words[1] << 8 | text->words[0] >> 56;
    text->words[0] = text->words[0] << 8 | byte;
    text->n_bytes++;
}

__device__ static inline decimal format_decimal(int64_t value) {
    decimal text = {{0, 0, 0}, 0};
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        prepend_byte(&text, (uint32_t)('0' + magnitude % 10));
        magnitude /= 10;
    } while (magnitude);
    if (value < 0) prepend_byte(&text, '-');
    return text;
}

__device__ static inline uint64_t rotate_left(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

__device__ static inline uint64_t hash_decimal(decimal text, uint64_t seed) {
    uint64_t hash = seed + prime5 + text.n_bytes;
    uint32_t left = text.n_bytes;
    uint64_t words[4] = {text.words[0], text.words[1], text.words[2], 0};
    for (; left >= 8; left -= 8) {
        hash ^= rotate_left(words[0] * prime2, 31) * prime1;
        hash = rotate_left(hash, 27) * prime1 + prime4;
        for (int w = 0; w < 3; w++) words[w] = words[w + 1];
    }
    uint64_t rest = words[0];
    if (left >= 4) {
        hash ^= (rest & 0xFFFFFFFFull) * prime1;
        hash = rotate_left(hash, 23) * prime2 + prime3;
        rest >>= 32;
        left -= 4;
    }
    for (; left; left--, rest >>= 8) {
        hash ^= (rest & 0xFF) * prime5;
        hash = rotate_left(hash, 11) * prime1;
    }
    hash = (hash ^ hash >> 33) * prime2;
    hash = (hash ^ hash >> 29) * prime3;
    return hash ^ hash >> 32;
}

__global__ static void hash_ids_kernel(int64_t n, const int64_t *in, int64_t *out, uint64_t seed,
                                       uint64_t n_buckets) {
    for (int64_t i = rk_table_thread(); i < n; i += rk_table_n_threads())
        out[i] = (int64_t)__umul64hi(hash_decimal(format_decimal(in[i]), seed), n_buckets);
}

extern "C" void rk_cuda_hash_ids(rk_stream *stream, int64_t n, const int64_t *in, int64_t *out, uint64_t seed,
                                 uint64_t n_buckets) {
    RK_LAUNCH(hash_ids_kernel, rk_table_grid_size((uint64_t)n, RK_TABLE_THREADS), RK_TABLE_THREADS, 0, stream,
              n, in, out, seed, n_buckets);
}
