/* Pieces of files that may be read in any order, so that rows from many places stand in one window. */
#ifndef RK_DATA_SOURCE_SOURCE_INDEX_H
#define RK_DATA_SOURCE_SOURCE_INDEX_H

#include "data/source/source.h"

/* Where a piece is: bytes of a file, or rows of a block of an rkb file. */
typedef struct rk_piece_location {
    size_t file;
    uint64_t begin;
    size_t n_bytes;
    int64_t block, first_row; /* of rkb */
    int64_t n_rows;           /* or about so many, where the index is not exact */
    int64_t file_row;         /* rows of all files before it, likewise */
    int64_t first_line;
} rk_piece_location;

typedef struct rk_source_index {
    rk_source **files;         /* [n_files], each open */
    struct file_stamp *stamps; /* [n_files] */
    size_t n_files;
    rk_piece_location *places; /* [n_places] in the files' order */
    size_t n_places, capacity;
    int64_t n_rows; /* of all pieces */
    bool is_exact;  /* the numbers of rows are; else they are those of lines */
} rk_source_index;

/* The pieces of a source's files, by a pass over those that are text; the source must outlive it. exact:
 * numbers of rows are needed as they are, and text is parsed for them. *out = NULL: there are no more rows
 * than are enough, or *cannot is not -1 but the number of a file that can only be read from its beginning on.
 */
rk_status rk_source_index_create(const rk_source *source, bool exact, int64_t n_rows_enough,
                                 rk_source_index **out, int64_t *cannot);
void rk_source_index_free(rk_source_index *index);
static inline void rk_source_index_auto_free(rk_source_index **index) { /* for RK_AUTO */
    rk_source_index_free(*index);
}
/* The source of a piece's file: for rk_source_parse_chunk and rk_source_format_location. */
rk_source *rk_source_index_source_of_piece(const rk_source_index *index, size_t place);
/* A piece into the chunk, in any order, and as rk_source_finish_chunk. */
rk_status rk_source_index_read_piece(const rk_source_index *index, size_t place, rk_chunk *chunk);
rk_status rk_source_index_finish_piece(const rk_source_index *index, size_t place, rk_chunk *chunk);

/* An order of the pieces, from the seed, in which any window_rows rows that follow one another are from all
 * over the files. Within a window's pieces it is the files' own, unless they are to be open together
 * (by_turns). order: [n_places] */
enum { RK_INDEX_LANES = 32 };
rk_status rk_source_index_shuffle_pieces(const rk_source_index *index, uint64_t seed, int64_t window_rows,
                                         bool by_turns, uint32_t *order);

#endif
