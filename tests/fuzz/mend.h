/* Mutators that put checksums right again: without, a changed file is refused before what reads it is
 * reached. */
#ifndef RK_FUZZ_MEND_H
#define RK_FUZZ_MEND_H

#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "format/rkb/rkb_internal.h"
#include "format/protobuf/tfrecord.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t n_bytes, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t most, unsigned seed);

static inline void put_u32(uint8_t *at, uint32_t value) {
    memcpy(at, &value, sizeof value);
}

/* A change of any kind, or, that a file's places stay where they are, of a few bytes in place. */
static inline size_t mutate(uint8_t *data, size_t n_bytes, size_t most, unsigned seed) {
    enum { FEW = 32 };
    if (n_bytes == 0 || seed % 4 == 0) return LLVMFuzzerMutate(data, n_bytes, most);
    size_t at = (seed >> 2) % n_bytes, n = n_bytes - at < FEW ? n_bytes - at : FEW;
    uint8_t few[FEW];
    memcpy(few, data + at, n);
    memcpy(data + at, few, LLVMFuzzerMutate(few, n, n));
    return n_bytes;
}

/* The chunks' checksums, at the end of the footer where one block's entries follow the other's. */
static inline void mend_chunks(uint8_t *data, uint64_t begin, uint64_t end) {
    uint64_t n_blocks = rk_rkb_read_u64(data + begin + 8), n_columns = rk_rkb_read_u32(data + begin + 16),
             at = begin + 20;
    uint64_t chunk = RK_RKB_HEAD_BYTES;
    for (uint64_t c = 0; c < n_columns; c++) {
        if (end - at < 5 || rk_rkb_read_u32(data + at + 1) > end - at - 5) return;
        at += 5 + rk_rkb_read_u32(data + at + 1);
    }
    for (uint64_t b = 0; b < n_blocks; b++) {
        if (end - at < 8) return;
        at += 8;
        for (uint64_t c = 0; c < n_columns; c++, at += RK_RKB_CHUNK_ENTRY_BYTES) {
            if (end - at < RK_RKB_CHUNK_ENTRY_BYTES || rk_rkb_read_u64(data + at) > begin - chunk) return;
            uint64_t n_stored = rk_rkb_read_u64(data + at);
            put_u32(data + at + 16, rk_crc32c(0, data + chunk, n_stored));
            chunk += n_stored;
        }
    }
}

static inline void mend_rkb(uint8_t *data, size_t n_bytes) {
    enum { FIXED_BYTES = 20 };
    if (n_bytes < RK_RKB_HEAD_BYTES + FIXED_BYTES + RK_RKB_TAIL_BYTES) return;
    uint64_t tail = n_bytes - RK_RKB_TAIL_BYTES, n_footer = rk_rkb_read_u64(data + tail);
    put_u32(data + 12, rk_crc32c(0, data, 12));
    if (n_footer < FIXED_BYTES || n_footer > tail - RK_RKB_HEAD_BYTES) return;
    mend_chunks(data, tail - n_footer, tail);
    put_u32(data + tail + 8, rk_crc32c(0, data + tail - n_footer, n_footer + 8));
}

static inline uint32_t masked_crc(const uint8_t *data, size_t n_bytes) {
    uint32_t crc = rk_crc32c(0, data, n_bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Frames one after the other, as far as they are whole. */
static inline void mend_tfrecord(uint8_t *data, size_t n_bytes) {
    for (size_t at = 0; n_bytes - at >= RK_TFRECORD_OVERHEAD;) {
        uint64_t length = rk_rkb_read_u64(data + at), room = n_bytes - at - RK_TFRECORD_OVERHEAD;
        put_u32(data + at + 8, masked_crc(data + at, 8));
        if (length > room) return;
        put_u32(data + at + 12 + length, masked_crc(data + at + 12, length));
        at += length + RK_TFRECORD_OVERHEAD;
    }
}

#endif
