/* Inside rkb: what its reader and writer share. The layout is drawn in docs/formats/rkb.md. */
#ifndef RK_FORMAT_RKB_RKB_INTERNAL_H
#define RK_FORMAT_RKB_RKB_INTERNAL_H

#include <string.h>

#include "base/buffer.h"
#include "format/columns.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "rkb copies its little-endian numbers as they are"
#endif

#define RK_RKB_HEAD_MAGIC "\x89RKB\r\n\x1a\n"
#define RK_RKB_TAIL_MAGIC "RKBend\r\n"

enum {
    RK_RKB_VERSION = 1,
    RK_RKB_MAGIC_BYTES = 8,
    RK_RKB_HEAD_BYTES = 16,
    RK_RKB_TAIL_BYTES = 24,
    RK_RKB_CHUNK_ENTRY_BYTES = 24,
    RK_RKB_INTS_HEAD_BYTES = 9, /* width, least */
    RK_RKB_BITS = 128,          /* this and a number of bits up to RK_RKB_MAX_BITS is a width, too */
    RK_RKB_MAX_BITS = 56,       /* so that a word read at any byte holds the whole number */
    /* What a block may hold, so that a damaged file cannot ask for any amount of memory. */
    RK_RKB_MAX_ROWS = 1 << 26,
    RK_RKB_MAX_VALUES = 1 << 26,     /* of a column */
    RK_RKB_MAX_TEXT_BYTES = 1 << 30, /* of all columns */
    RK_RKB_MAX_ROOM = 1 << 30,
    RK_RKB_LEAST_ROOM =
        1 << 24, /* whatever the block's bytes in the file are, and so much more for each of them: */
    RK_RKB_ROOM_PER_BYTE = 2048 /* constant columns of a few thousand rows need it */
};

/* What is left of a block's room in memory while its columns are read or written one after the other. */
typedef struct rk_rkb_budget {
    uint64_t bytes, text_bytes;
} rk_rkb_budget;
rk_rkb_budget rk_rkb_decode_budget(uint64_t stored_bytes, int32_t n_columns);
/* Rows, in one more column or (once) as such, values, or bytes before compression. false: they are too many.
 */
static inline bool rk_rkb_decode_budget_spend(rk_rkb_budget *room, uint64_t n, uint64_t bytes) {
    if (n > room->bytes / bytes) return false;
    room->bytes -= n * bytes;
    return true;
}

typedef enum rk_rkb_compression { RK_RKB_PLAIN, RK_RKB_ZSTD } rk_rkb_compression;
typedef enum rk_rkb_text { RK_RKB_TEXT_PLAIN, RK_RKB_TEXT_DICTIONARY } rk_rkb_text;

/* One column of one block, before compression: in whole bytes, which zstd packs further, or in bits, which
 * are quicker to read. */
void rk_rkb_encode(const rk_column *column, int64_t n_rows, bool in_bits, rk_buffer *out);
/* The same back into a column without rows. RK_BAD_DATA with what is wrong; the caller says where. may_pack:
 * whole numbers may be left where they are. */
rk_status rk_rkb_decode(const uint8_t *data, size_t n_bytes, int64_t n_rows, bool may_pack,
                        rk_rkb_budget *room, rk_column *out);

static inline uint32_t rk_rkb_read_u32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
static inline uint64_t rk_rkb_read_u64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

#endif
