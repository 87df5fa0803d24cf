#include <zstd.h>
#include <zstd_errors.h>

#include "base/hash.h"
#include "base/memory.h"
#include "format/rkb/rkb.h"
#include "format/rkb/rkb_internal.h"

struct rk_rkb_writer {
    rk_writer file;
    int level;
    ZSTD_CCtx *zstd;
    rk_columns schema; /* names and types of the first block; no rows */
    bool has_schema;
    bool failed; /* in the middle of a block: what is written is of no use */
    int64_t n_rows, n_blocks;
    rk_buffer index;             /* the footer's entries of the blocks so far */
    rk_buffer raw, packed, bits; /* one column: in bytes, those compressed, and in bits */
};

static rk_status write_file_head(rk_rkb_writer *w) {
    RK_AUTO(rk_buffer_release) rk_buffer head = {0};
    rk_buffer_append(&head, RK_RKB_HEAD_MAGIC, RK_RKB_MAGIC_BYTES);
    rk_buffer_append_u32le(&head, RK_RKB_VERSION);
    if (head.status == RK_OK) rk_buffer_append_u32le(&head, rk_crc32c(0, head.data, head.n_bytes));
    RK_TRY(head.status);
    return rk_writer_append(&w->file, head.data, head.n_bytes);
}

rk_status rk_rkb_writer_open(const char *path, int level, rk_rkb_writer **out) {
    RK_FAIL_IF(level < 0 || level > ZSTD_maxCLevel(), RK_INVALID_ARGUMENT,
               "a compression level of %d; it is 0 (none) to %d", level, ZSTD_maxCLevel());
    rk_rkb_writer *w;
    RK_TRY(rk_alloc(1, sizeof *w, &w));
    w->level = level;
    rk_status status;
    RK_GOTO(rk_writer_open(path, &w->file));
    if (level) {
        w->zstd = ZSTD_createCCtx();
        if (!w->zstd) RK_GOTO(RK_NO_MEMORY_ERROR(0));
    }
    RK_GOTO(write_file_head(w));
    *out = w;
    return RK_OK;
done:
    rk_rkb_writer_free(w);
    return status;
}

void rk_rkb_writer_free(rk_rkb_writer *w) {
    if (!w) return;
    rk_writer_release(&w->file);
    ZSTD_freeCCtx(w->zstd);
    rk_columns_release(&w->schema);
    rk_buffer_release(&w->index);
    rk_buffer_release(&w->raw);
    rk_buffer_release(&w->packed);
    rk_buffer_release(&w->bits);
    rk_free(w);
}

/* Compress w->raw into w->packed. */
static rk_status compress_chunk(rk_rkb_writer *w) {
    size_t bound = ZSTD_compressBound(w->raw.n_bytes);
    if (bound > w->packed.capacity) {
        RK_TRY(rk_realloc(bound, 1, &w->packed.data));
        w->packed.capacity = bound;
    }
    size_t n = ZSTD_compressCCtx(w->zstd, w->packed.data, bound, w->raw.data, w->raw.n_bytes, w->level);
    RK_FAIL_IF(ZSTD_isError(n),
               ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation ? RK_NO_MEMORY : RK_INTERNAL, "zstd: %s",
               ZSTD_getErrorName(n));
    w->packed.n_bytes = n;
    return RK_OK;
}

/* Bits are unpacked many times faster than zstd: it must save an eighth of them to be worth it. */
static rk_status encode_chunk(rk_rkb_writer *w, const rk_column *column, int64_t n_rows,
                              const rk_buffer **out, bool *compressed) {
    rk_buffer_clear(&w->bits);
    rk_rkb_encode(column, n_rows, true, &w->bits);
    RK_TRY(w->bits.status);
    *out = &w->bits;
    *compressed = false;
    if (w->level == 0) return RK_OK;
    rk_buffer_clear(&w->raw);
    rk_rkb_encode(column, n_rows, false, &w->raw);
    RK_TRY(w->raw.status);
    RK_TRY(compress_chunk(w));
    *compressed = w->packed.n_bytes < w->bits.n_bytes - w->bits.n_bytes / 8;
    if (*compressed) *out = &w->packed;
    return RK_OK;
}

/* What a block takes in the file, and of its room in memory. */
typedef struct block_bytes {
    uint64_t stored, room;
} block_bytes;

static rk_status write_column_chunk(rk_rkb_writer *w, const rk_column *column, int64_t n_rows,
                                    block_bytes *bytes) {
    bool compressed;
    const rk_buffer *stored;
    RK_TRY(encode_chunk(w, column, n_rows, &stored, &compressed));
    bytes->stored += stored->n_bytes;
    bytes->room += (uint64_t)(n_rows + column->n_values) * sizeof *column->i64 +
                   (compressed ? w->raw.n_bytes : stored->n_bytes);
    RK_TRY(rk_writer_append(&w->file, stored->data, stored->n_bytes));
    rk_buffer_append_u64le(&w->index, stored->n_bytes);
    rk_buffer_append_u64le(&w->index, compressed ? w->raw.n_bytes : stored->n_bytes);
    rk_buffer_append_u32le(&w->index, rk_crc32c(0, stored->data, stored->n_bytes));
    rk_buffer_append_u32le(&w->index, compressed ? RK_RKB_ZSTD : RK_RKB_PLAIN);
    return w->index.status;
}

/* A reader refuses what is larger than the format's limits, so the writer does. */
static rk_status check_block_size(const rk_columns *block) {
    int64_t n_text = 0;
    RK_FAIL_IF(block->n_rows > RK_RKB_MAX_ROWS, RK_INVALID_ARGUMENT, "a block of %lld rows; at most %d",
               (long long)block->n_rows, RK_RKB_MAX_ROWS);
    for (int32_t c = 0; c < block->n_columns; c++) {
        const rk_column *column = &block->columns[c];
        for (int64_t v = 0; column->type == RK_COLUMN_TEXT && v < column->n_values; v++)
            n_text += column->places[v].n_bytes;
        RK_FAIL_IF(column->n_values > RK_RKB_MAX_VALUES || n_text > RK_RKB_MAX_TEXT_BYTES,
                   RK_INVALID_ARGUMENT,
                   "column '%s': %lld values, %lld bytes of text in a block up to it; at most %d and %d",
                   column->name, (long long)column->n_values, (long long)n_text, RK_RKB_MAX_VALUES,
                   RK_RKB_MAX_TEXT_BYTES);
    }
    return RK_OK;
}

rk_status rk_rkb_writer_add(rk_rkb_writer *w, const rk_columns *block) {
    RK_FAIL_IF(w->failed, RK_INVALID_ARGUMENT, "'%s': an earlier block could not be written", w->file.path);
    if (!w->has_schema) RK_TRY(rk_columns_init_like(&w->schema, block));
    w->has_schema = true;
    RK_FAIL_IF(!rk_columns_have_same_types(&w->schema, block), RK_INVALID_ARGUMENT,
               "'%s': a block of other columns than the first", w->file.path);
    rk_status status = check_block_size(block);
    if (status != RK_OK) return rk_error_context(status, "'%s'", w->file.path);
    if (block->n_rows == 0) return RK_OK;
    rk_buffer_append_u64le(&w->index, (uint64_t)block->n_rows);
    status = w->index.status;
    block_bytes bytes = {.room = (uint64_t)block->n_rows * sizeof(int64_t)};
    for (int32_t c = 0; status == RK_OK && c < block->n_columns; c++)
        status = write_column_chunk(w, &block->columns[c], block->n_rows, &bytes);
    if (status == RK_OK && bytes.room > rk_rkb_decode_budget(bytes.stored, block->n_columns).bytes)
        status = rk_error_hint(rk_error(RK_INVALID_ARGUMENT,
                                        "'%s': a block of %lld rows and %d columns, %llu bytes in the file "
                                        "and %llu in memory, is too large",
                                        w->file.path, (long long)block->n_rows, block->n_columns,
                                        (unsigned long long)bytes.stored, (unsigned long long)bytes.room),
                               "write blocks of fewer rows");
    w->failed = status != RK_OK;
    w->n_rows += block->n_rows;
    w->n_blocks++;
    return status;
}

/* The columns, the blocks' entries, then the tail: how long the footer is, and a checksum over both. */
static void make_footer(const rk_rkb_writer *w, rk_buffer *out) {
    rk_buffer_append_u64le(out, (uint64_t)w->n_rows);
    rk_buffer_append_u64le(out, (uint64_t)w->n_blocks);
    rk_buffer_append_u32le(out, (uint32_t)w->schema.n_columns);
    for (int32_t c = 0; c < w->schema.n_columns; c++) {
        const rk_column *column = &w->schema.columns[c];
        rk_buffer_append_u8(out, (uint8_t)column->type);
        rk_buffer_append_u32le(out, (uint32_t)strlen(column->name));
        rk_buffer_append_text(out, column->name);
    }
    rk_buffer_append(out, w->index.data, w->index.n_bytes);
    rk_buffer_append_u64le(out, out->n_bytes);
    if (out->status == RK_OK) rk_buffer_append_u32le(out, rk_crc32c(0, out->data, out->n_bytes));
    rk_buffer_append_u32le(out, RK_RKB_VERSION);
    rk_buffer_append(out, RK_RKB_TAIL_MAGIC, RK_RKB_MAGIC_BYTES);
}

rk_status rk_rkb_writer_commit(rk_rkb_writer *w) {
    RK_FAIL_IF(w->failed, RK_INVALID_ARGUMENT, "'%s': a block could not be written", w->file.path);
    RK_AUTO(rk_buffer_release) rk_buffer footer = {0};
    make_footer(w, &footer);
    RK_TRY(footer.status);
    RK_TRY(rk_writer_append(&w->file, footer.data, footer.n_bytes));
    return rk_writer_commit(&w->file);
}
