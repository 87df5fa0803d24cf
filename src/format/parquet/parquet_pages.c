/* The pages of a column of a row group: headers, bytes, and where each one's rows begin. */
#include <zlib.h>

#include "base/memory.h"
#include "format/parquet/parquet_internal.h"

/* Of a page of data, or a dictionary's, which has no levels. */
static void read_data_page_header_v1(rk_thrift *t, bool has_levels, rk_parquet_page *p) {
    for (rk_thrift_field f = {0}; rk_thrift_next_field(t, &f);) {
        if (f.id == 1)
            p->n_values = rk_thrift_read_int(t, &f);
        else if (f.id == 2)
            p->encoding = rk_thrift_read_int(t, &f);
        else if (f.id == 3 && has_levels)
            p->level_encoding = rk_thrift_read_int(t, &f);
        else if (f.id == 4 && has_levels)
            p->repetition_encoding = rk_thrift_read_int(t, &f);
        else
            rk_thrift_skip_field(t, &f);
    }
}

static void read_data_page_header_v2(rk_thrift *t, rk_parquet_page *p) {
    int64_t n_nulls, *const numbers[] = {
                         &n_nulls,        &p->n_values,        &n_nulls, &p->n_rows, &p->encoding,
                         &p->level_bytes, &p->repetition_bytes};
    const int32_t n = sizeof numbers / sizeof numbers[0];
    for (rk_thrift_field f = {0}; rk_thrift_next_field(t, &f);) {
        if (f.id < n)
            *numbers[f.id] = rk_thrift_read_int(t, &f);
        else if (f.id == 7)
            p->is_compressed = rk_thrift_read_bool(t, &f);
        else
            rk_thrift_skip_field(t, &f);
    }
}

static void read_page_header(rk_thrift *t, rk_parquet_page *p) {
    for (rk_thrift_field f = {0}; rk_thrift_next_field(t, &f);) {
        switch (f.id) {
            case 1:
                p->type = rk_thrift_read_int(t, &f);
                break;
            case 2:
                p->raw_bytes = rk_thrift_read_int(t, &f);
                break;
            case 3:
                p->stored_bytes = rk_thrift_read_int(t, &f);
                break;
            case 4:
                p->crc = (uint32_t)rk_thrift_read_int(t, &f);
                p->has_crc = true;
                break;
            case 5:
            case 7:
                if (rk_thrift_begin_struct(t, &f)) read_data_page_header_v1(t, f.id == 5, p);
                break;
            case 8:
                if (rk_thrift_begin_struct(t, &f)) read_data_page_header_v2(t, p);
                break;
            default:
                rk_thrift_skip_field(t, &f);
        }
    }
}

static rk_status damaged_page_error(uint64_t at, const char *what) {
    return rk_error(RK_BAD_DATA, "byte %llu: %s", (unsigned long long)at, what);
}

rk_status rk_parquet_read_page_header(const rk_parquet *file, const rk_parquet_chunk *chunk, uint64_t at,
                                      rk_parquet_page *out) {
    const uint64_t end = chunk->begin + chunk->n_bytes;
    rk_parquet_page p = {.type = -1,
                         .n_values = -1,
                         .encoding = -1,
                         .level_encoding = RK_PARQUET_RLE,
                         .repetition_encoding = RK_PARQUET_RLE,
                         .is_compressed = true};
    rk_thrift t = {file->data + at, file->data + end, false};
    read_page_header(&t, &p);
    const bool has_values = p.type != RK_PARQUET_INDEX_PAGE;
    if (t.failed || p.type < 0 || p.raw_bytes < 0 || p.stored_bytes < 0 || p.stored_bytes > t.end - t.at ||
        (has_values && (p.n_values < 0 || p.n_values > INT32_MAX)) || p.n_rows < 0 ||
        p.n_rows > p.n_values + !has_values || p.level_bytes < 0 || p.level_bytes > INT32_MAX ||
        p.repetition_bytes < 0 || p.repetition_bytes > INT32_MAX)
        return damaged_page_error(at, "a page's header that cannot be, or is cut");
    if (p.raw_bytes > RK_PARQUET_MAX_PAGE_BYTES)
        return rk_error_hint(rk_error(RK_UNSUPPORTED, "byte %llu: a page of more than %d MiB",
                                      (unsigned long long)at, RK_PARQUET_MAX_PAGE_BYTES >> 20),
                             "write the file with smaller pages");
    p.begin = (uint64_t)(t.at - file->data);
    *out = p;
    return RK_OK;
}

static rk_status check_page_crc(const rk_parquet *file, const rk_parquet_page *p) {
    if (!p->has_crc) return RK_OK;
    uLong crc = crc32_z(0, file->data + p->begin, (size_t)p->stored_bytes);
    return (uint32_t)crc == p->crc ? RK_OK
                                   : damaged_page_error(p->begin, "the page's checksum does not match");
}

/* Levels and values, of which v2 leaves the levels as they are. */
static rk_status decompress_page(const rk_parquet *file, const rk_parquet_chunk *chunk, rk_parquet_memory *m,
                                 const rk_parquet_page *p, const uint8_t **out) {
    const uint8_t *stored = file->data + p->begin;
    const int64_t n_levels = p->level_bytes + p->repetition_bytes;
    if (n_levels > p->stored_bytes || n_levels > p->raw_bytes)
        return damaged_page_error(p->begin, "levels beyond the page's end");
    if (chunk->codec == 0 || !p->is_compressed) {
        if (p->stored_bytes != p->raw_bytes) return damaged_page_error(p->begin, "a page of two sizes");
        *out = stored;
        return RK_OK;
    }
    RK_TRY(rk_reserve(&m->page, &m->page_capacity, (size_t)p->raw_bytes + 1, 1));
    for (int64_t i = 0; i < n_levels; i++) m->page[i] = stored[i];
    rk_status status = RK_OK;
    if (p->raw_bytes > n_levels || p->type != RK_PARQUET_DATA_PAGE_V2) /* v2 may leave out nothing, packed */
        status = rk_parquet_decompress(chunk->codec, &m->zstd, stored + n_levels,
                                       (size_t)(p->stored_bytes - n_levels), m->page + n_levels,
                                       (size_t)(p->raw_bytes - n_levels));
    *out = m->page;
    return status == RK_OK ? RK_OK : rk_error_context(status, "byte %llu", (unsigned long long)p->begin);
}

/* The levels of v1, with their length before them. */
static rk_status find_level_bytes(rk_parquet_page *p, int64_t encoding, const uint8_t **levels) {
    if (encoding != RK_PARQUET_RLE)
        return rk_error(RK_UNSUPPORTED,
                        "byte %llu: levels of an encoding (%lld) that the format has given up",
                        (unsigned long long)p->begin, (long long)encoding);
    if (p->end - p->values < 4) return damaged_page_error(p->begin, "levels beyond the page's end");
    const uint8_t *at = p->values;
    const uint32_t n = rk_parquet_read_u32(at);
    if (n > (size_t)(p->end - at) - 4) return damaged_page_error(p->begin, "levels beyond the page's end");
    *levels = at + 4;
    p->values = at + 4 + n;
    return RK_OK;
}

rk_status rk_parquet_open_page(const rk_parquet *file, const rk_parquet_chunk *chunk,
                               const rk_parquet_leaf *leaf, rk_parquet_memory *memory, rk_parquet_page *p) {
    const uint8_t *bytes;
    RK_TRY(check_page_crc(file, p));
    RK_TRY(decompress_page(file, chunk, memory, p, &bytes));
    p->values = bytes;
    p->end = bytes + p->raw_bytes;
    if (p->type == RK_PARQUET_DATA_PAGE_V2) {
        p->repetitions = bytes;
        p->levels = bytes + p->repetition_bytes;
        p->values = p->levels + p->level_bytes;
    }
    if (p->type == RK_PARQUET_DATA_PAGE && leaf->max_repetition)
        RK_TRY(find_level_bytes(p, p->repetition_encoding, &p->repetitions));
    if (p->type == RK_PARQUET_DATA_PAGE && leaf->max_level)
        RK_TRY(find_level_bytes(p, p->level_encoding, &p->levels));
    return RK_OK;
}

/* Rows that begin in the page. */
static rk_status count_page_rows(const rk_parquet *file, const rk_parquet_chunk *chunk,
                                 const rk_parquet_leaf *leaf, rk_parquet_memory *memory, rk_parquet_page *p,
                                 int64_t *out) {
    *out = p->n_values;
    if (leaf->max_repetition == 0) return RK_OK;
    *out = p->n_rows;
    if (p->type == RK_PARQUET_DATA_PAGE_V2) return RK_OK;
    rk_parquet_rle repetitions;
    *out = 0;
    RK_TRY(rk_parquet_open_page(file, chunk, leaf, memory, p));
    rk_parquet_rle_open(&repetitions, p->repetitions, p->end, 1);
    return rk_parquet_rle_read(&repetitions, p->n_values, NULL, 0, out);
}

static rk_status list_pages(const rk_parquet *file, const rk_parquet_chunk *chunk,
                            const rk_parquet_leaf *leaf, int64_t n_rows, rk_parquet_memory *memory,
                            rk_parquet_page_place **places, int64_t *n_places) {
    size_t capacity = 0, n = 0;
    int64_t row = 0;
    uint64_t at = chunk->begin, n_values = 0;
    while (n_values < chunk->n_values) {
        rk_parquet_page page;
        int64_t n_page_rows;
        RK_TRY(rk_parquet_read_page_header(file, chunk, at, &page));
        if (page.type == RK_PARQUET_DATA_PAGE || page.type == RK_PARQUET_DATA_PAGE_V2) {
            RK_TRY(count_page_rows(file, chunk, leaf, memory, &page, &n_page_rows));
            RK_TRY(rk_reserve_one_more(places, n, &capacity, sizeof **places));
            (*places)[n++] = (rk_parquet_page_place){at, row};
            row += n_page_rows;
            n_values += (uint64_t)page.n_values;
        }
        at = page.begin + (uint64_t)page.stored_bytes;
    }
    if (row != n_rows)
        return rk_error(RK_BAD_DATA, "its pages have %lld rows, and the row group %lld", (long long)row,
                        (long long)n_rows);
    RK_TRY(rk_reserve_one_more(places, n, &capacity, sizeof **places));
    (*places)[n] = (rk_parquet_page_place){at, row};
    *n_places = (int64_t)n;
    return RK_OK;
}

rk_status rk_parquet_find_pages(const rk_parquet *file, rk_parquet_chunk *chunk, const rk_parquet_leaf *leaf,
                                int64_t n_rows, rk_parquet_memory *memory) {
    pthread_mutex_t *lock = (pthread_mutex_t *)(size_t)&file->lock;
    RK_AUTOFREE rk_parquet_page_place *places = NULL;
    int64_t n_places = 0;
    pthread_mutex_lock(lock);
    const bool is_known = chunk->pages != NULL;
    pthread_mutex_unlock(lock);
    if (is_known) return RK_OK;
    RK_TRY(list_pages(file, chunk, leaf, n_rows, memory, &places, &n_places));
    pthread_mutex_lock(lock);
    if (!chunk->pages) { /* another thread may have been faster */
        chunk->pages = places;
        chunk->n_pages = n_places;
        places = NULL;
    }
    pthread_mutex_unlock(lock);
    return RK_OK;
}
