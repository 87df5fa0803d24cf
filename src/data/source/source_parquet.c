/* Row groups of a Parquet file, cut into pieces of so many rows that a piece's columns take little memory. */

#include "base/log.h"
#include "base/memory.h"
#include "data/source/source_internal.h"
#include "format/parquet/parquet.h"
#include "base/integers.h"

/* A piece opens every page that has rows of it, so many small ones would open the same page many times; large
 * ones of many columns fill memory. A file has as many pieces as a window mixes, if it has rows for them. */
enum { MOST_PIECE_ROWS = 1 << 16, LEAST_PIECE_ROWS = 1 << 12, PIECES_OF_FILE = 32 };
enum { MOST_PIECE_VALUES = 1 << 20, MOST_PIECE_BYTES = 1 << 24 };

typedef struct parquet_state {
    rk_parquet *file;
    int32_t *leaves;      /* of the file, for each of the source's columns; -1: the file has not got it */
    bool *are_keys;       /* which of those columns features with `key` alone read */
    int64_t *piece_rows;  /* [n_groups] of each piece of the row group but the last */
    int64_t *first_piece; /* [n_groups+1] of the row group */
    int64_t piece;        /* the next one */
} parquet_state;

static int64_t count_row_groups(const parquet_state *p) {
    return rk_parquet_n_groups(p->file);
}

/* The row group of a piece, and its rows there. */
static rk_parquet_rows row_range_of_piece(const parquet_state *p, int64_t piece) {
    int64_t group = rk_sorted_lower_bound(p->first_piece, count_row_groups(p), piece + 1) - 1,
            first = (piece - p->first_piece[group]) * p->piece_rows[group],
            left = rk_parquet_group_rows(p->file, group) - first;
    return (rk_parquet_rows){
        .group = group, .first = first, .n = left < p->piece_rows[group] ? left : p->piece_rows[group]};
}

static rk_status next_parquet_chunk(rk_source *s, rk_chunk *chunk, bool *found) {
    parquet_state *p = s->state;
    *found = p->piece < p->first_piece[count_row_groups(p)];
    if (!*found) return RK_OK;
    chunk->known_rows = row_range_of_piece(p, p->piece).n;
    chunk->block = p->piece++;
    return RK_OK;
}

static rk_status parse_parquet(const rk_source *s, rk_chunk *chunk) {
    const parquet_state *p = s->state;
    const rk_data_section *section = s->options.section;
    rk_parquet_rows rows = row_range_of_piece(p, chunk->block);
    if (section) rows.missing = section->missing;
    if (section) rows.n_missing = section->n_missing;
    RK_TRY(rk_chunk_reserve(chunk, rows.n));
    for (int32_t c = 0; c < chunk->columns.n_columns; c++) {
        rk_column *column = &chunk->columns.columns[c];
        rows.any_bits = p->are_keys[c];
        RK_TRY(p->leaves[c] < 0 ? rk_column_set_empty_rows(column, rows.n)
                                : rk_parquet_read(p->file, p->leaves[c], &rows, &chunk->parquet, column));
    }
    for (int64_t row = 0; row < rows.n; row++) chunk->lines[row] = row;
    chunk->columns.n_rows = chunk->n_lines = rows.n;
    return RK_OK;
}

static void close_parquet(rk_source *s) {
    parquet_state *p = s->state;
    rk_parquet_free(p->file);
    RK_FREE_ALL(p->leaves, p->are_keys, p->piece_rows, p->first_piece, p);
}

/* A column that cannot be read is no matter while nothing asks for it. */
static rk_status map_parquet_columns(rk_source *s) {
    parquet_state *p = s->state;
    RK_AUTOFREE rk_file_column *columns = NULL;
    RK_AUTOFREE int32_t *leaves = NULL;
    const int32_t n_leaves = rk_parquet_n_columns(p->file);
    size_t n = 0;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)n_leaves, columns), RK_ARRAY((size_t)n_leaves, leaves)));
    for (int32_t c = 0; c < n_leaves; c++) {
        const rk_parquet_column *column = rk_parquet_column_at(p->file, c);
        RK_FAIL_IF(column->refused && rk_source_wants_column(s, column->name), RK_UNSUPPORTED,
                   "'%s': column '%s': %s", rk_source_path(s), column->name, column->refused);
        if (column->refused && !s->options.wanted)
            rk_log(RK_LOG_WARNING, "'%s': column '%s' is left out: %s", rk_source_path(s), column->name,
                   column->refused);
        if (column->refused) continue;
        columns[n] = (rk_file_column){column->name, column->type, 0};
        leaves[n++] = c;
    }
    RK_TRY(rk_source_map_columns(s, columns, n));
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)s->columns.n_columns, p->leaves),
                        RK_ARRAY((size_t)s->columns.n_columns, p->are_keys)));
    for (int32_t c = 0; c < s->columns.n_columns; c++) {
        p->leaves[c] = -1;
        p->are_keys[c] = s->options.any_bits &&
                         rk_data_section_reads_keys_alone(s->options.section, s->columns.columns[c].name);
    }
    for (size_t i = 0; i < n; i++)
        if (columns[i].place >= 0) p->leaves[columns[i].place] = leaves[i];
    return RK_OK;
}

/* Of n rows that take so much in all: how many take no more than `most`. */
static int64_t rows_within_budget(int64_t n_rows, uint64_t all, int64_t most) {
    if (all <= (uint64_t)most) return n_rows;
    int64_t n = (int64_t)((double)n_rows * (double)most / (double)all);
    return n < 1 ? 1 : n;
}

/* Rows of a piece of the row group, by its own rows, values and bytes. */
static int64_t choose_rows_per_piece(const rk_source *s, int64_t group) {
    const parquet_state *p = s->state;
    const int64_t n_rows = rk_parquet_group_rows(p->file, group);
    uint64_t n_values = 0, n_bytes = 0;
    for (int32_t c = 0; c < s->columns.n_columns; c++) {
        if (p->leaves[c] < 0) continue;
        rk_parquet_size size = rk_parquet_column_chunk_size(p->file, group, p->leaves[c]);
        if (size.n_values > n_values) n_values = size.n_values;
        n_bytes = size.n_bytes > UINT64_MAX - n_bytes ? UINT64_MAX : n_bytes + size.n_bytes;
    }
    int64_t n = rk_parquet_n_rows(p->file) / PIECES_OF_FILE;
    n = n < LEAST_PIECE_ROWS ? LEAST_PIECE_ROWS : rk_min_i64(n, MOST_PIECE_ROWS);
    n = rk_min_i64(n, RK_MAX_PIECE_CELLS / (s->columns.n_columns + 1) + 1);
    n = rk_min_i64(n, rows_within_budget(n_rows, n_values, MOST_PIECE_VALUES));
    n = rk_min_i64(n, rows_within_budget(n_rows, n_bytes, MOST_PIECE_BYTES));
    return n < 1 ? 1 : n;
}

static rk_status split_row_groups_into_pieces(rk_source *s) {
    parquet_state *p = s->state;
    const size_t n = (size_t)count_row_groups(p);
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n, p->piece_rows), RK_ARRAY(n + 1, p->first_piece)));
    for (size_t g = 0; g < n; g++) {
        const int64_t n_rows = rk_parquet_group_rows(p->file, (int64_t)g),
                      each = choose_rows_per_piece(s, (int64_t)g);
        p->piece_rows[g] = each;
        p->first_piece[g + 1] = p->first_piece[g] + (n_rows + each - 1) / each;
    }
    return RK_OK;
}

static const rk_file_reader reader = {
    .next = next_parquet_chunk, .parse = parse_parquet, .close = close_parquet, .counts_rows = true};

rk_status rk_parquet_reader_open(rk_source *s) {
    parquet_state *p;
    RK_TRY(rk_alloc(1, sizeof *p, &p));
    s->state = p;
    s->reader = &reader;
    RK_TRY(rk_parquet_open(rk_source_path(s), &p->file));
    RK_TRY(map_parquet_columns(s));
    return split_row_groups_into_pieces(s);
}
