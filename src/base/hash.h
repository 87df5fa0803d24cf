/* Hashes that files and models depend on: they never change. XXH64 (libxxhash) over bytes. */
#ifndef RK_BASE_HASH_H
#define RK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t rk_hash_bytes(const void *data, size_t n_bytes, uint64_t seed);
/* An integer hashes as its decimal text, so that the same value read from CSV or from rkb lands in the same
 * bucket. */
uint64_t rk_hash_i64(int64_t value, uint64_t seed);
/* A bucket in [0, n_buckets) from a hash, by multiply-shift on the high bits. */
static inline uint64_t rk_hash_bucket(uint64_t hash, uint64_t n_buckets) {
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)hash * n_buckets >> 64);
}
uint64_t rk_hash_combine(uint64_t a, uint64_t b);

uint32_t rk_crc32c(uint32_t crc, const void *data, size_t n_bytes); /* start with 0 */

#endif
