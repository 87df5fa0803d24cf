#include "format/protobuf/tfrecord.h"

#include <string.h>

#include "base/hash.h"

/* TFRecord stores crc32c rotated and offset, so that a checksum of data that holds checksums stays good. */
static uint32_t masked_crc32c(const void *data, size_t n_bytes) {
    uint32_t crc = rk_crc32c(0, data, n_bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static uint64_t read_little_endian(const uint8_t *at, int n_bytes) {
    uint64_t value = 0;
    for (int i = 0; i < n_bytes; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

size_t rk_tfrecord_frame_bytes(const void *data, size_t n_bytes) {
    const uint8_t *at = data;
    if (n_bytes < 12 || masked_crc32c(at, 8) != (uint32_t)read_little_endian(at + 8, 4)) return 0;
    uint64_t length = read_little_endian(at, 8);
    return length > RK_TFRECORD_MAX_BYTES ? 0 : (size_t)length + RK_TFRECORD_OVERHEAD;
}

rk_status rk_tfrecord_parse(const void *data, size_t n_bytes, bool at_end, rk_span *payload,
                            size_t *consumed) {
    const uint8_t *at = data;
    *consumed = 0;
    if (n_bytes < 12) {
        RK_FAIL_IF(at_end && n_bytes, RK_BAD_DATA, "the record is truncated: %zu bytes of its 12-byte head",
                   n_bytes);
        return RK_OK;
    }
    RK_FAIL_IF(masked_crc32c(at, 8) != (uint32_t)read_little_endian(at + 8, 4), RK_BAD_DATA,
               "the checksum of a record's length does not match");
    uint64_t length = read_little_endian(at, 8);
    RK_FAIL_IF(length > RK_TFRECORD_MAX_BYTES, RK_BAD_DATA, "a record of %llu bytes; the limit is %d",
               (unsigned long long)length, RK_TFRECORD_MAX_BYTES);
    if (n_bytes < length + RK_TFRECORD_OVERHEAD) {
        RK_FAIL_IF(at_end, RK_BAD_DATA, "the record is truncated: %zu of its %llu bytes", n_bytes,
                   (unsigned long long)length + RK_TFRECORD_OVERHEAD);
        return RK_OK;
    }
    RK_FAIL_IF(masked_crc32c(at + 12, (size_t)length) != (uint32_t)read_little_endian(at + 12 + length, 4),
               RK_BAD_DATA, "the checksum of a record does not match");
    *payload = (rk_span){(const char *)at + 12, (size_t)length};
    *consumed = (size_t)length + RK_TFRECORD_OVERHEAD;
    return RK_OK;
}

void rk_tfrecord_write(const void *payload, size_t n_bytes, rk_buffer *out) {
    uint8_t head[8];
    for (int i = 0; i < 8; i++) head[i] = (uint8_t)((uint64_t)n_bytes >> (8 * i));
    rk_buffer_append(out, head, 8);
    rk_buffer_append_u32le(out, masked_crc32c(head, 8));
    rk_buffer_append(out, payload, n_bytes);
    rk_buffer_append_u32le(out, masked_crc32c(payload, n_bytes));
}
