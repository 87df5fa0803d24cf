/* rkb: our columnar, prebatched file. docs/formats/rkb.md holds the layout. Blocks of rows; in a block each
 * column stands alone, packed to the bytes its values need, compressed by zstd, with a crc32c; a footer
 * indexes the blocks. */
#ifndef RK_FORMAT_RKB_RKB_H
#define RK_FORMAT_RKB_RKB_H

#include <stdint.h>

#include "base/file/file.h"
#include "format/columns.h"

typedef struct rk_rkb_writer rk_rkb_writer;
/* level: zstd's, 0 = stored plain. The schema is that of the first block. */
rk_status rk_rkb_writer_open(const char *path, int level, rk_rkb_writer **out);
rk_status rk_rkb_writer_add(rk_rkb_writer *writer, const rk_columns *block);
rk_status rk_rkb_writer_commit(rk_rkb_writer *writer);
void rk_rkb_writer_free(rk_rkb_writer *writer); /* without commit: no file appears */

typedef struct rk_rkb rk_rkb; /* an open file; blocks may be read by several threads at once */
rk_status rk_rkb_open(const char *path, rk_rkb **out);
void rk_rkb_free(rk_rkb *rkb);
/* The same over bytes in memory, which must outlive it: what the fuzz target calls. `path` is for
 * messages. */
rk_status rk_rkb_open_memory(const char *path, const void *data, size_t n_bytes, rk_rkb **out);
int64_t rk_rkb_n_blocks(const rk_rkb *rkb);
int64_t rk_rkb_block_rows(const rk_rkb *rkb, int64_t block);
int32_t rk_rkb_n_columns(const rk_rkb *rkb);
const char *rk_rkb_column_name(const rk_rkb *rkb, int32_t column);
rk_column_type rk_rkb_column_type(const rk_rkb *rkb, int32_t column);
/* Read the wanted columns (wanted[n_columns], NULL = all) of a block into *out (initialized by this call the
 * first time: zeroed before; reused after). Unwanted columns cost nothing: they get neither values nor
 * offsets, and must not be looked at. */
rk_status rk_rkb_read_block(const rk_rkb *rkb, int64_t block, const bool *wanted, rk_columns *out);

/* The same for who reads many blocks: in memory that stays between them (zeroed before, released after), with
 * whole numbers of packed[n_columns] (NULL: none) left in the file, as rk_column.packed, where they can
 * be. */
typedef struct rk_rkb_memory {
    void *zstd;
    uint8_t *raw; /* [capacity] */
    size_t capacity;
    const rk_rkb *last; /* what was read into it, */
    int64_t last_block; /* whose pages are not needed once another block is */
} rk_rkb_memory;
typedef struct rk_rkb_choice {
    const bool *wanted, *packed;
} rk_rkb_choice;
rk_status rk_rkb_read_block_columns(const rk_rkb *rkb, int64_t block, rk_rkb_choice choice,
                                    rk_rkb_memory *memory, rk_columns *out);
void rk_rkb_memory_release(rk_rkb_memory *memory);

#endif
