/* Rows of a column of a row group. */
#include <string.h>
#include <zstd.h>

#include "base/memory.h"
#include "format/parquet/parquet_internal.h"

typedef struct taker {
    const rk_parquet *file;
    const rk_parquet_chunk *chunk;
    const rk_parquet_leaf *leaf;
    const rk_parquet_rows *rows;
    rk_parquet_memory *memory;
    rk_column *out;
    bool has_dictionary;
    bool are_single; /* every row so far has one value */
    int64_t row;     /* of the row group: the next one to begin */
    rk_parquet_page page;
    rk_parquet_rle levels, repetitions;
    rk_parquet_values values;
} taker;

static int count_bits_of_level(int32_t most) {
    int bits = 0;
    for (; most >> bits; bits++) {
    }
    return bits;
}

/* The dictionary's texts become the column's, before any other. */
static rk_status move_dictionary_texts_to_column(const rk_column *out_of, rk_column *out) {
    const size_t base = out->n_text_bytes, n = out_of->n_text_bytes;
    RK_TRY(rk_parquet_reserve_text(out, n));
    if (n) memcpy(out->text_memory + base, out_of->text_memory, n);
    for (int64_t i = 0; i < out_of->n_values; i++) out_of->places[i].begin += (uint32_t)base;
    out->n_text_bytes = base + n;
    return RK_OK;
}

static rk_status fill_dictionary(taker *t, const rk_parquet_page *page, rk_column *dictionary) {
    RK_TRY(rk_parquet_values_open(&t->values, t->leaf, t->memory, RK_PARQUET_PLAIN, page->values, page->end));
    for (int64_t left = page->n_values, n; left > 0; left -= n) {
        n = left < RK_PARQUET_BATCH ? left : RK_PARQUET_BATCH;
        RK_TRY(rk_parquet_values_read(&t->values, n));
        RK_TRY(rk_parquet_append_values(t->leaf, t->memory, n, t->rows, true, dictionary));
    }
    return RK_OK;
}

/* The chunk's first page. */
static rk_status read_dictionary(taker *t) {
    rk_parquet_memory *m = t->memory;
    rk_parquet_page page;
    const char *const names[] = {""};
    if (t->has_dictionary) return RK_OK;
    RK_TRY(rk_parquet_read_page_header(t->file, t->chunk, t->chunk->begin, &page));
    RK_FAIL_IF(page.type != RK_PARQUET_DICTIONARY_PAGE, RK_BAD_DATA, "indices without a dictionary");
    RK_FAIL_IF(page.n_values > page.raw_bytes, RK_BAD_DATA, "a dictionary of more values than bytes");
    RK_FAIL_IF(page.encoding != RK_PARQUET_PLAIN && page.encoding != RK_PARQUET_PLAIN_DICTIONARY,
               RK_UNSUPPORTED, "a dictionary of an encoding (%lld) that this program does not know",
               (long long)page.encoding);
    RK_TRY(rk_parquet_open_page(t->file, t->chunk, t->leaf, m, &page));
    if (!m->dictionary.columns) RK_TRY(rk_columns_init(&m->dictionary, 1, names, &t->out->type));
    rk_column *dictionary = m->dictionary.columns;
    rk_columns_clear(&m->dictionary);
    rk_column_set_type(dictionary, t->out->type);
    RK_TRY(rk_column_reserve(dictionary, 0, page.n_values, 0));
    RK_TRY(fill_dictionary(t, &page, dictionary));
    if (t->out->type == RK_COLUMN_TEXT) RK_TRY(move_dictionary_texts_to_column(dictionary, t->out));
    t->has_dictionary = true;
    return RK_OK;
}

static rk_status open_page(taker *t, uint64_t begin) {
    rk_parquet_page *p = &t->page;
    RK_TRY(rk_parquet_read_page_header(t->file, t->chunk, begin, p));
    if (rk_parquet_is_dictionary_encoding(p->encoding)) RK_TRY(read_dictionary(t));
    RK_TRY(rk_parquet_open_page(t->file, t->chunk, t->leaf, t->memory, p));
    if (t->leaf->max_level)
        rk_parquet_rle_open(&t->levels, p->levels, p->end, count_bits_of_level(t->leaf->max_level));
    if (t->leaf->max_repetition) rk_parquet_rle_open(&t->repetitions, p->repetitions, p->end, 1);
    return rk_parquet_values_open(&t->values, t->leaf, t->memory, p->encoding, p->values, p->end);
}

/* The levels of the next n values, or over them: how many are there. */
static rk_status read_levels(taker *t, int64_t n, int64_t *out, int64_t *n_there) {
    *n_there = t->leaf->max_level ? 0 : n;
    return t->leaf->max_level ? rk_parquet_rle_read(&t->levels, n, out, t->leaf->max_level, n_there) : RK_OK;
}

static rk_status append_page_values(taker *t, int64_t n) {
    RK_FAIL_IF(n > RK_PARQUET_MAX_VALUES - t->out->n_values, RK_UNSUPPORTED, "more than %d values at once",
               RK_PARQUET_MAX_VALUES);
    RK_TRY(rk_column_reserve(t->out, 0, t->out->n_values + n, 0));
    RK_TRY(rk_parquet_values_read(&t->values, n));
    if (rk_parquet_is_dictionary_encoding(t->page.encoding))
        return rk_parquet_append_dictionary_values(t->memory, n, t->out);
    return rk_parquet_append_values(t->leaf, t->memory, n, t->rows, false, t->out);
}

/* Ends n rows of at most one value each, after n_there of them were appended. */
static void end_flat_rows(taker *t, int64_t n, int64_t n_there, int64_t n_before) {
    const rk_parquet_batch *batch = t->memory->batch;
    int64_t *offsets = t->out->offsets + 1 + (t->row - t->rows->first), v = n_before;
    const bool are_single = n_there == n && t->out->n_values == n_before + n;
    for (int64_t i = 0; i < n && are_single; i++) offsets[i] = n_before + i + 1;
    for (int64_t i = 0, k = 0; i < n && !are_single; i++) {
        if (n_there == n || batch->levels[i] == t->leaf->max_level) v += batch->kept[k++];
        offsets[i] = v;
    }
    t->are_single &= are_single;
    t->row += n;
}

/* Values are rows. */
static rk_status read_flat_page(taker *t) {
    const int64_t end = t->rows->first + t->rows->n;
    int64_t left = t->page.n_values, n_there;
    if (t->row < t->rows->first) {
        int64_t n = t->rows->first - t->row;
        n = n < left ? n : left;
        RK_TRY(read_levels(t, n, NULL, &n_there));
        RK_TRY(rk_parquet_values_skip(&t->values, n_there));
        left -= n;
        t->row += n;
    }
    while (left > 0 && t->row < end) {
        int64_t n = left < RK_PARQUET_BATCH ? left : RK_PARQUET_BATCH, n_before = t->out->n_values;
        n = n < end - t->row ? n : end - t->row;
        RK_TRY(read_levels(t, n, t->memory->batch->levels, &n_there));
        RK_TRY(append_page_values(t, n_there));
        end_flat_rows(t, n, n_there, n_before);
        left -= n;
    }
    return RK_OK;
}

/* Values first .. last-1 of a batch's levels and repetitions. */
typedef struct run {
    int64_t first, last, n_before, n_there; /* values that are there: before them, and of them */
} run;

/* Those of the rows that are wanted, of n; *row, the next to begin, goes on to the first that is not wanted,
 * or to the batch's end. */
static run find_wanted_rows(const taker *t, int64_t n, int64_t *row) {
    const rk_parquet_batch *batch = t->memory->batch;
    const bool all = t->leaf->max_level == 0;
    run r = {n, n, 0, 0};
    bool is_inside = *row > t->rows->first;
    if (is_inside) r.first = 0;
    for (int64_t i = 0; i < n; i++) {
        if (batch->repetitions[i] == 0) {
            if (*row == t->rows->first + t->rows->n) {
                r.last = i;
                (*row)++;
                break;
            }
            if (*row == t->rows->first) r.first = i;
            is_inside |= *row == t->rows->first;
            (*row)++;
        }
        const bool there = all || batch->levels[i] == t->leaf->max_level;
        r.n_before += there && !is_inside;
        r.n_there += there && is_inside;
    }
    return r;
}

static void set_row_offsets(taker *t, run r, int64_t n_before) {
    const rk_parquet_batch *batch = t->memory->batch;
    int64_t v = n_before;
    for (int64_t i = r.first, k = 0; i < r.last; i++) {
        if (batch->repetitions[i] == 0) t->out->offsets[t->row++ - t->rows->first] = v;
        if (t->leaf->max_level == 0 || batch->levels[i] == t->leaf->max_level) v += batch->kept[k++];
    }
}

/* Rows are runs of values; the page may begin and end within one. t->row goes beyond the rows when the first
 * one behind them has begun. */
static rk_status read_nested_page(taker *t) {
    const int64_t end = t->rows->first + t->rows->n;
    for (int64_t left = t->page.n_values, n; left > 0 && t->row <= end; left -= n) {
        rk_parquet_batch *batch = t->memory->batch;
        int64_t n_there, n_rows = 0, n_before = t->out->n_values, row = t->row;
        n = left < RK_PARQUET_BATCH ? left : RK_PARQUET_BATCH;
        RK_TRY(rk_parquet_rle_read(&t->repetitions, n, batch->repetitions, 0, &n_rows));
        RK_TRY(read_levels(t, n, batch->levels, &n_there));
        run r = find_wanted_rows(t, n, &row);
        RK_TRY(rk_parquet_values_skip(&t->values, r.n_before));
        RK_TRY(append_page_values(t, r.n_there));
        if (t->row < t->rows->first) t->row = row < t->rows->first ? row : t->rows->first;
        set_row_offsets(t, r, n_before);
        t->row = row;
    }
    return RK_OK;
}

/* The last page that begins with the first row or one before it. */
static int64_t find_page_of_row(const rk_parquet_chunk *chunk, int64_t row) {
    int64_t low = 0, high = chunk->n_pages; /* it is one of low .. high-1 */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (chunk->pages[middle].first_row <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static rk_status read_wanted_rows(taker *t) {
    const rk_parquet_rows *rows = t->rows;
    const rk_parquet_chunk *chunk = t->chunk;
    const bool is_nested = t->leaf->max_repetition > 0;
    const int64_t end = rows->first + rows->n;
    int64_t page = find_page_of_row(chunk, rows->first);
    t->row = chunk->pages[page].first_row;
    for (; page < chunk->n_pages && (is_nested ? t->row <= end : t->row < end); page++) {
        const uint64_t begin = chunk->pages[page].begin;
        rk_status status = open_page(t, begin);
        if (status == RK_OK) status = is_nested ? read_nested_page(t) : read_flat_page(t);
        if (status != RK_OK)
            return rk_error_context(status, "the page at byte %llu", (unsigned long long)begin);
        if (t->row < end && t->row != chunk->pages[page + 1].first_row)
            return rk_error(RK_BAD_DATA, "the page at byte %llu has other rows than it says",
                            (unsigned long long)begin);
    }
    t->out->offsets[rows->n] = t->out->n_values;
    if (!is_nested && t->are_single) t->out->per_row = 1;
    return RK_OK;
}

static rk_status read_column_rows(const rk_parquet *file, int32_t column, const rk_parquet_rows *rows,
                                  rk_parquet_memory *memory, rk_column *out) {
    const rk_parquet_leaf *leaf = &file->leaves[column];
    rk_parquet_chunk *chunk = &file->chunks[rows->group * file->n_leaves + column];
    const char *refused =
        leaf->column.refused ? leaf->column.refused : rk_parquet_codec_unsupported_reason(chunk->codec);
    RK_FAIL_IF(refused, RK_UNSUPPORTED, "%s", refused);
    RK_FAIL_IF(out->type != leaf->column.type, RK_INTERNAL, "it is to be read into another type");
    RK_TRY(rk_column_set_empty_rows(out, rows->n));
    out->n_text_bytes = 0;
    out->is_time = leaf->is_time;
    out->is_unsigned =
        rows->any_bits && leaf->meaning == RK_PARQUET_UNSIGNED && leaf->physical == RK_PARQUET_INT64;
    if (rows->n == 0) return RK_OK;
    if (!memory->batch) RK_TRY(rk_alloc(1, sizeof *memory->batch, &memory->batch));
    RK_TRY(rk_parquet_find_pages(file, chunk, leaf, file->group_rows[rows->group], memory));
    taker t = {.file = file,
               .chunk = chunk,
               .leaf = leaf,
               .rows = rows,
               .memory = memory,
               .out = out,
               .are_single = true};
    return read_wanted_rows(&t);
}

rk_status rk_parquet_read(const rk_parquet *file, int32_t column, const rk_parquet_rows *rows,
                          rk_parquet_memory *memory, rk_column *out) {
    rk_status status = read_column_rows(file, column, rows, memory, out);
    return status == RK_OK ? RK_OK
                           : rk_error_context(status, "'%s': row group %lld, column '%s'", file->path,
                                              (long long)rows->group, file->leaves[column].column.name);
}

void rk_parquet_memory_release(rk_parquet_memory *m) {
    ZSTD_freeDCtx(m->zstd);
    RK_FREE_ALL(m->page, m->bytes, m->batch);
    rk_columns_release(&m->dictionary);
    *m = (rk_parquet_memory){0};
}
