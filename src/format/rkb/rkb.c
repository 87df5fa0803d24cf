#include "format/rkb/rkb.h"

#include <zstd.h>

#include "base/hash.h"
#include "base/memory.h"
#include "format/rkb/rkb_internal.h"

/* One column of one block, in the file. */
typedef struct chunk {
    uint64_t begin, stored_bytes, raw_bytes;
    uint32_t crc32c, compression;
} chunk;

struct rk_rkb {
    char *path;
    rk_mapped_file map;  /* held by rk_rkb_open */
    const uint8_t *data; /* [n_bytes] */
    uint64_t n_bytes;
    int64_t n_rows, n_blocks;
    int32_t n_columns;
    char **names;          /* [n_columns] */
    rk_column_type *types; /* [n_columns] */
    int64_t *block_rows;   /* [n_blocks] */
    chunk *chunks;         /* [n_blocks, n_columns] */
};

static rk_status damaged_error(const rk_rkb *rkb, uint64_t byte, const char *what) {
    return rk_error(RK_BAD_DATA, "'%s': byte %llu: %s", rkb->path, (unsigned long long)byte, what);
}

/* The footer being read: at[0..left) */
typedef struct cursor {
    const uint8_t *at, *end;
} cursor;

static rk_status read_footer_column_entries(rk_rkb *rkb, cursor *c) {
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)rkb->n_columns, rkb->names),
                        RK_ARRAY((size_t)rkb->n_columns, rkb->types)));
    for (int32_t i = 0; i < rkb->n_columns; i++) {
        uint64_t byte = (uint64_t)(c->at - rkb->data);
        if (c->end - c->at < 5) return damaged_error(rkb, byte, "the footer's list of columns is cut");
        uint32_t type = c->at[0], n_bytes = rk_rkb_read_u32(c->at + 1);
        c->at += 5;
        if (type > RK_COLUMN_F32) return damaged_error(rkb, byte, "a column of no known type");
        if (n_bytes > (uint64_t)(c->end - c->at) || memchr(c->at, 0, n_bytes))
            return damaged_error(rkb, byte, "a column's name that cannot be");
        RK_TRY(rk_strndup((const char *)c->at, n_bytes, &rkb->names[i]));
        rkb->types[i] = (rk_column_type)type;
        c->at += n_bytes;
    }
    return RK_OK;
}

/* zstd's densest block turns 4 bytes into 128 KiB. */
static bool is_plausible_compressed_size(const chunk *k) {
    if (k->compression == RK_RKB_PLAIN) return k->raw_bytes == k->stored_bytes;
    return k->compression == RK_RKB_ZSTD && k->raw_bytes / (1 << 15) <= k->stored_bytes;
}

/* The blocks' entries fill the footer's rest exactly; their chunks lie one after another from the head to the
 * footer. */
static rk_status read_footer_block_entries(rk_rkb *rkb, cursor *c, uint64_t footer_begin) {
    uint64_t at = RK_RKB_HEAD_BYTES, entry_bytes = 8 + (uint64_t)rkb->n_columns * RK_RKB_CHUNK_ENTRY_BYTES;
    uint64_t left = (uint64_t)(c->end - c->at), n_rows = 0;
    if (left % entry_bytes || left / entry_bytes != (uint64_t)rkb->n_blocks)
        return damaged_error(rkb, footer_begin, "the footer's list of blocks is not as long as it says");
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)rkb->n_blocks, rkb->block_rows),
                        RK_ARRAY((size_t)rkb->n_blocks * (size_t)rkb->n_columns, rkb->chunks)));
    for (int64_t b = 0; b < rkb->n_blocks; b++) {
        uint64_t rows = rk_rkb_read_u64(c->at);
        if (rows > RK_RKB_MAX_ROWS)
            return damaged_error(rkb, (uint64_t)(c->at - rkb->data), "a block of too many rows");
        rkb->block_rows[b] = (int64_t)rows;
        n_rows += rows;
        c->at += 8;
        for (int32_t i = 0; i < rkb->n_columns; i++, c->at += RK_RKB_CHUNK_ENTRY_BYTES) {
            chunk *k = &rkb->chunks[b * rkb->n_columns + i];
            *k = (chunk){at, rk_rkb_read_u64(c->at), rk_rkb_read_u64(c->at + 8), rk_rkb_read_u32(c->at + 16),
                         rk_rkb_read_u32(c->at + 20)};
            if (k->stored_bytes > footer_begin - at || !is_plausible_compressed_size(k))
                return damaged_error(rkb, (uint64_t)(c->at - rkb->data), "a column's place that cannot be");
            at += k->stored_bytes;
        }
    }
    if (at != footer_begin) return damaged_error(rkb, at, "bytes that belong to no column");
    if (n_rows != (uint64_t)rkb->n_rows)
        return damaged_error(rkb, footer_begin, "the blocks' rows do not add up");
    return RK_OK;
}

static rk_status read_file_head(const rk_rkb *rkb) {
    const uint8_t *head = rkb->data;
    if (rkb->n_bytes < RK_RKB_HEAD_BYTES)
        return damaged_error(rkb, rkb->n_bytes, "the file is truncated: it ends in its header");
    if (memcmp(head, RK_RKB_HEAD_MAGIC, RK_RKB_MAGIC_BYTES) != 0)
        return damaged_error(rkb, 0, "not an rkb file");
    if (rk_crc32c(0, head, 12) != rk_rkb_read_u32(head + 12))
        return damaged_error(rkb, 0, "the head's checksum does not match");
    if (rk_rkb_read_u32(head + 8) != RK_RKB_VERSION)
        return rk_error_hint(rk_error(RK_UNSUPPORTED, "'%s': rkb version %u; this program reads version %d",
                                      rkb->path, rk_rkb_read_u32(head + 8), RK_RKB_VERSION),
                             "convert the file again with this version of reckon");
    return RK_OK;
}

static rk_status read_footer(rk_rkb *rkb) {
    enum { FIXED_BYTES = 20 };
    RK_TRY(read_file_head(rkb));
    uint64_t tail = rkb->n_bytes - RK_RKB_TAIL_BYTES;
    if (rkb->n_bytes < RK_RKB_HEAD_BYTES + RK_RKB_TAIL_BYTES + FIXED_BYTES ||
        memcmp(rkb->data + tail + 16, RK_RKB_TAIL_MAGIC, RK_RKB_MAGIC_BYTES) != 0)
        return damaged_error(rkb, rkb->n_bytes, "the file is truncated: it does not end as rkb files do");
    uint64_t footer_bytes = rk_rkb_read_u64(rkb->data + tail);
    if (footer_bytes < FIXED_BYTES || footer_bytes > tail - RK_RKB_HEAD_BYTES)
        return damaged_error(rkb, tail, "a footer that does not fit the file");
    uint64_t begin = tail - footer_bytes;
    const uint8_t *footer = rkb->data + begin;
    if (rk_crc32c(0, footer, (size_t)footer_bytes + 8) != rk_rkb_read_u32(rkb->data + tail + 8))
        return damaged_error(rkb, begin, "the footer's checksum does not match");
    if (rk_rkb_read_u32(rkb->data + tail + 12) != RK_RKB_VERSION)
        return damaged_error(rkb, tail + 12, "the head and the tail are of two versions");
    uint64_t n_rows = rk_rkb_read_u64(footer), n_blocks = rk_rkb_read_u64(footer + 8);
    uint32_t n_columns = rk_rkb_read_u32(footer + 16);
    if (n_rows > INT64_MAX || n_blocks > footer_bytes / 8 || n_columns > INT32_MAX ||
        n_columns > footer_bytes / 5)
        return damaged_error(rkb, begin, "a footer that cannot be");
    rkb->n_rows = (int64_t)n_rows;
    rkb->n_blocks = (int64_t)n_blocks;
    rkb->n_columns = (int32_t)n_columns;
    cursor c = {footer + FIXED_BYTES, footer + footer_bytes};
    RK_TRY(read_footer_column_entries(rkb, &c));
    return read_footer_block_entries(rkb, &c, begin);
}

rk_status rk_rkb_open_memory(const char *path, const void *data, size_t n_bytes, rk_rkb **out) {
    rk_rkb *rkb;
    RK_TRY(rk_alloc(1, sizeof *rkb, &rkb));
    rkb->data = data;
    rkb->n_bytes = n_bytes;
    rk_status status = rk_strdup(path, &rkb->path);
    if (status == RK_OK) status = read_footer(rkb);
    if (status == RK_OK)
        *out = rkb;
    else
        rk_rkb_free(rkb);
    return status;
}

rk_status rk_rkb_open(const char *path, rk_rkb **out) {
    RK_AUTO(rk_mapped_file_release) rk_mapped_file map = {0};
    RK_TRY(rk_mapped_file_open(path, &map));
    RK_TRY(rk_rkb_open_memory(path, map.data, map.n_bytes, out));
    (*out)->map = map;
    map = (rk_mapped_file){0};
    return RK_OK;
}

void rk_rkb_free(rk_rkb *rkb) {
    if (!rkb) return;
    for (int32_t i = 0; rkb->names && i < rkb->n_columns; i++) rk_free(rkb->names[i]);
    RK_FREE_ALL(rkb->names, rkb->types, rkb->block_rows, rkb->chunks, rkb->path);
    rk_mapped_file_release(&rkb->map);
    rk_free(rkb);
}

int64_t rk_rkb_n_blocks(const rk_rkb *rkb) {
    return rkb->n_blocks;
}
int64_t rk_rkb_block_rows(const rk_rkb *rkb, int64_t block) {
    return rkb->block_rows[block];
}
int32_t rk_rkb_n_columns(const rk_rkb *rkb) {
    return rkb->n_columns;
}
const char *rk_rkb_column_name(const rk_rkb *rkb, int32_t column) {
    return rkb->names[column];
}
rk_column_type rk_rkb_column_type(const rk_rkb *rkb, int32_t column) {
    return rkb->types[column];
}

void rk_rkb_memory_release(rk_rkb_memory *memory) {
    ZSTD_freeDCtx(memory->zstd);
    rk_free(memory->raw);
    *memory = (rk_rkb_memory){0};
}

/* The chunk's bytes before compression, in *out: of the file itself, or of m->raw. */
static rk_status decompress_chunk(rk_rkb_memory *m, const chunk *k, const uint8_t *stored,
                                  const uint8_t **out) {
    RK_FAIL_IF(rk_crc32c(0, stored, (size_t)k->stored_bytes) != k->crc32c, RK_BAD_DATA,
               "the checksum does not match");
    *out = stored;
    if (k->compression == RK_RKB_PLAIN) return RK_OK;
    if (!m->zstd) m->zstd = ZSTD_createDCtx();
    RK_FAIL_IF(!m->zstd, RK_NO_MEMORY, "could not start decompression");
    if (k->raw_bytes > m->capacity) {
        rk_free(m->raw);
        m->raw = NULL;
        m->capacity = 0;
        RK_TRY(rk_realloc((size_t)k->raw_bytes, 1, &m->raw));
        m->capacity = (size_t)k->raw_bytes;
    }
    size_t n = ZSTD_decompressDCtx(m->zstd, m->raw, (size_t)k->raw_bytes, stored, (size_t)k->stored_bytes);
    RK_FAIL_IF(ZSTD_isError(n) || n != k->raw_bytes, RK_BAD_DATA, "the compressed data is corrupt: %s",
               ZSTD_isError(n) ? ZSTD_getErrorName(n) : "too short");
    *out = m->raw;
    return RK_OK;
}

rk_rkb_budget rk_rkb_decode_budget(uint64_t stored_bytes, int32_t n_columns) {
    uint64_t in_file = stored_bytes + (uint64_t)n_columns * RK_RKB_CHUNK_ENTRY_BYTES, most = RK_RKB_MAX_ROOM;
    bool is_large = in_file > (most - RK_RKB_LEAST_ROOM) / RK_RKB_ROOM_PER_BYTE;
    return (rk_rkb_budget){is_large ? most : RK_RKB_LEAST_ROOM + in_file * RK_RKB_ROOM_PER_BYTE,
                           RK_RKB_MAX_TEXT_BYTES};
}

static rk_rkb_budget decode_budget_of_block(const rk_rkb *rkb, int64_t block) {
    const chunk *chunks = rkb->chunks + block * rkb->n_columns;
    uint64_t stored = 0;
    for (int32_t i = 0; i < rkb->n_columns; i++) stored += chunks[i].stored_bytes;
    return rk_rkb_decode_budget(stored, rkb->n_columns);
}

static rk_status read_chunk(const rk_rkb *rkb, const chunk *k, int64_t n_rows, bool may_pack,
                            rk_rkb_budget *room, rk_rkb_memory *memory, rk_column *out) {
    const uint8_t *raw;
    RK_FAIL_IF(!rk_rkb_decode_budget_spend(room, (uint64_t)n_rows, sizeof *out->offsets) ||
                   !rk_rkb_decode_budget_spend(room, k->raw_bytes, 1),
               RK_BAD_DATA, "more rows and bytes than a block of its size may have");
    RK_TRY(decompress_chunk(memory, k, rkb->data + k->begin, &raw));
    return rk_rkb_decode(raw, (size_t)k->raw_bytes, n_rows, may_pack && k->compression == RK_RKB_PLAIN, room,
                         out);
}

static rk_status read_column(const rk_rkb *rkb, int64_t block, int32_t column, bool may_pack,
                             rk_rkb_budget *room, rk_rkb_memory *memory, rk_column *out) {
    const chunk *k = &rkb->chunks[block * rkb->n_columns + column];
    rk_status status = read_chunk(rkb, k, rkb->block_rows[block], may_pack, room, memory, out);
    if (status == RK_OK) return RK_OK;
    return rk_error_context(status, "'%s': block %lld, column '%s', byte %llu", rkb->path, (long long)block,
                            rkb->names[column], (unsigned long long)k->begin);
}

rk_status rk_rkb_read_block(const rk_rkb *rkb, int64_t block, const bool *wanted, rk_columns *out) {
    RK_AUTO(rk_rkb_memory_release) rk_rkb_memory memory = {0};
    return rk_rkb_read_block_columns(rkb, block, (rk_rkb_choice){.wanted = wanted}, &memory, out);
}

static void drop_pages_of_last_block(const rk_rkb *rkb, const rk_rkb_memory *memory) {
    if (memory->last != rkb || memory->last_block >= rkb->n_blocks || rkb->n_columns == 0) return;
    const chunk *first = &rkb->chunks[memory->last_block * rkb->n_columns],
                *last = first + rkb->n_columns - 1;
    rk_mapped_file_drop(&rkb->map, first->begin, last->begin + last->stored_bytes);
}

rk_status rk_rkb_read_block_columns(const rk_rkb *rkb, int64_t block, rk_rkb_choice choice,
                                    rk_rkb_memory *memory, rk_columns *out) {
    RK_FAIL_IF(block < 0 || block >= rkb->n_blocks, RK_INVALID_ARGUMENT, "'%s': block %lld of %lld",
               rkb->path, (long long)block, (long long)rkb->n_blocks);
    if (!out->columns)
        RK_TRY(rk_columns_init(out, rkb->n_columns, (const char *const *)rkb->names, rkb->types));
    RK_FAIL_IF(out->n_columns != rkb->n_columns, RK_INVALID_ARGUMENT, "'%s': %d columns to be read into %d",
               rkb->path, rkb->n_columns, out->n_columns);
    drop_pages_of_last_block(rkb, memory);
    memory->last = rkb;
    memory->last_block = block;
    rk_columns_clear(out);
    rk_rkb_budget room = decode_budget_of_block(rkb, block);
    rk_status status = RK_OK;
    if (!rk_rkb_decode_budget_spend(&room, (uint64_t)rkb->block_rows[block], sizeof(int64_t)))
        status = rk_error(RK_BAD_DATA, "'%s': block %lld: more rows than a block of its size may have",
                          rkb->path, (long long)block);
    for (int32_t i = 0; status == RK_OK && i < rkb->n_columns; i++) {
        rk_column *column = &out->columns[i];
        if (column->type != rkb->types[i])
            status = rk_error(RK_INVALID_ARGUMENT, "'%s': column '%s' is to be read into another type",
                              rkb->path, rkb->names[i]);
        else if (!choice.wanted || choice.wanted[i])
            status = read_column(rkb, block, i, choice.packed && choice.packed[i], &room, memory, column);
    }
    if (status != RK_OK) {
        rk_columns_clear(out);
        return status;
    }
    out->n_rows = rkb->block_rows[block];
    return RK_OK;
}
