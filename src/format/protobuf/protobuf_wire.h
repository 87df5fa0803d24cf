/* The protocol-buffer wire format: varints and length-delimited fields. All that tf.train.Example,
 * TensorBoard's Event and ONNX's ModelProto need. */
#ifndef RK_FORMAT_PROTOBUF_PROTOBUF_WIRE_H
#define RK_FORMAT_PROTOBUF_PROTOBUF_WIRE_H

#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"
#include "base/text/text.h"

enum { RK_WIRE_VARINT = 0, RK_WIRE_FIXED64 = 1, RK_WIRE_BYTES = 2, RK_WIRE_FIXED32 = 5 };

/* What is left of a message. */
typedef struct rk_wire {
    const uint8_t *at, *end;
} rk_wire;

static inline rk_wire rk_wire_from_bytes(rk_span bytes) {
    return (rk_wire){(const uint8_t *)bytes.data, (const uint8_t *)bytes.data + bytes.n_bytes};
}

/* The next bytes, up to 8, the first lowest; none beyond the end is read. At least one must be left. */
static inline uint64_t rk_wire_peek_word(const rk_wire *wire) {
    size_t left = (size_t)(wire->end - wire->at);
    uint64_t word = 0;
    uint32_t low, high;
    if (left >= 8) {
        memcpy(&word, wire->at, 8);
        return word;
    }
    if (left >= 4) {
        memcpy(&low, wire->at, 4);
        memcpy(&high, wire->end - 4, 4);
        return low | (uint64_t)high << (8 * (left - 4));
    }
    return wire->at[0] | (uint64_t)wire->at[left >> 1] << (8 * (left >> 1)) |
           (uint64_t)wire->at[left - 1] << (8 * (left - 1));
}

static inline bool rk_wire_read_long_varint(rk_wire *wire, uint64_t *out) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && wire->at < wire->end; shift += 7) {
        uint8_t byte = *wire->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* Eight groups of seven bits, moved together in pairs, fours and eights. */
static inline uint64_t rk_wire_join_7bit_groups(uint64_t word) {
    word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
    word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
    return (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
}

/* Up to 8 bytes of it at once. */
static inline bool rk_wire_read_varint(rk_wire *wire, uint64_t *out) {
    if (wire->at == wire->end) return false;
    if (*wire->at < 128) {
        *out = *wire->at++;
        return true;
    }
    uint64_t word = rk_wire_peek_word(wire), last = ~word & 0x8080808080808080u;
    if (!last) return rk_wire_read_long_varint(wire, out);
    size_t n_bytes = (size_t)__builtin_ctzll(last) / 8 + 1;
    if (n_bytes > (size_t)(wire->end - wire->at)) return false;
    wire->at += n_bytes;
    *out = rk_wire_join_7bit_groups(word & (last ^ (last - 1)) & 0x7f7f7f7f7f7f7f7fu);
    return true;
}

/* Varints that fill n_bytes, into out [n_bytes]; returns how many. 0: one is longer than 8 bytes, or cut.
 * RK_WIRE_BEYOND bytes after them may be read. */
enum { RK_WIRE_BEYOND = 7 };
static inline size_t rk_wire_read_short_varints(const uint8_t *at, size_t n_bytes, int64_t *out) {
    const uint8_t *end = at + n_bytes;
    size_t n = 0;
    uint64_t word, last;
    memcpy(&word, at, sizeof word);
    last = ~word & 0x8080808080808080u;
    if (n_bytes - 1 < 8 && (last & -last) == (uint64_t)128 << (8 * n_bytes - 8)) { /* most lists have one */
        *out = (int64_t)rk_wire_join_7bit_groups(word & (last ^ (last - 1)) & 0x7f7f7f7f7f7f7f7fu);
        return 1;
    }
    while (at < end) {
        memcpy(&word, at, sizeof word);
        last = ~word & 0x8080808080808080u;
        if (!last) return 0;
        out[n++] = (int64_t)rk_wire_join_7bit_groups(word & (last ^ (last - 1)) & 0x7f7f7f7f7f7f7f7fu);
        at += (size_t)__builtin_ctzll(last) / 8 + 1;
    }
    return at == end ? n : 0;
}

/* One field: its number and type, and its value: a varint or fixed number in *number, bytes in *bytes. false:
 * damaged. */
static inline bool rk_wire_read_field(rk_wire *wire, uint32_t *field, uint32_t *type, uint64_t *number,
                                      rk_span *bytes) {
    uint64_t key, length;
    if (!rk_wire_read_varint(wire, &key) || key >> 32 || key >> 3 == 0) return false;
    *field = (uint32_t)(key >> 3);
    *type = (uint32_t)(key & 7);
    *bytes = (rk_span){(const char *)wire->at, 0};
    size_t left = (size_t)(wire->end - wire->at), fixed = *type == RK_WIRE_FIXED64 ? 8 : 4;
    switch (*type) {
        case RK_WIRE_VARINT:
            return rk_wire_read_varint(wire, number);
        case RK_WIRE_BYTES:
            if (!rk_wire_read_varint(wire, &length) || length > (uint64_t)(wire->end - wire->at))
                return false;
            *bytes = (rk_span){(const char *)wire->at, (size_t)length};
            wire->at += length;
            return true;
        case RK_WIRE_FIXED64:
        case RK_WIRE_FIXED32:
            if (left < fixed) return false;
            *number = 0;
            for (size_t i = 0; i < fixed; i++) *number |= (uint64_t)wire->at[i] << (8 * i);
            wire->at += fixed;
            return true;
        default:
            return false;
    }
}

static inline void rk_wire_write_varint(rk_buffer *out, uint64_t value) {
    for (; value >= 128; value >>= 7) rk_buffer_append_u8(out, (uint8_t)(value | 128));
    rk_buffer_append_u8(out, (uint8_t)value);
}

static inline void rk_wire_write_number(rk_buffer *out, uint32_t field, uint64_t value) {
    rk_wire_write_varint(out, (uint64_t)field << 3 | RK_WIRE_VARINT);
    rk_wire_write_varint(out, value);
}

/* What stands before n_bytes that are put next. */
static inline void rk_wire_write_bytes_header(rk_buffer *out, uint32_t field, size_t n_bytes) {
    rk_wire_write_varint(out, (uint64_t)field << 3 | RK_WIRE_BYTES);
    rk_wire_write_varint(out, n_bytes);
}

static inline void rk_wire_write_bytes(rk_buffer *out, uint32_t field, const void *data, size_t n_bytes) {
    rk_wire_write_bytes_header(out, field, n_bytes);
    rk_buffer_append(out, data, n_bytes);
}

#endif
