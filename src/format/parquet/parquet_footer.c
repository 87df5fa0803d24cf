/* The footer: schema and row groups. */
#include <string.h>

#include "base/memory.h"
#include "format/parquet/parquet_internal.h"

enum {
    MAGIC_BYTES = 4,
    TAIL_BYTES = 8,
    /* A file of fewer bytes than this part of its rows is a hoax that would fill memory with pieces. */
    MOST_ROWS_A_BYTE = 1 << 20
};
static const int64_t MOST_ROWS = (int64_t)1 << 40;

static void read_decimal_type(rk_thrift *t, rk_parquet_element *e) {
    for (rk_thrift_field f = {0}; rk_thrift_next_field(t, &f);) {
        if (f.id == 1)
            e->scale = rk_thrift_read_int(t, &f);
        else
            rk_thrift_skip_field(t, &f);
    }
}

static void read_integer_type(rk_thrift *t, rk_parquet_element *e) {
    for (rk_thrift_field f = {0}; rk_thrift_next_field(t, &f);) {
        if (f.id == 2)
            e->is_unsigned = !rk_thrift_read_bool(t, &f);
        else
            rk_thrift_skip_field(t, &f);
    }
}

static void read_logical_type(rk_thrift *t, rk_parquet_element *e) {
    enum { DECIMAL = 5, INTEGER = 10 };
    for (rk_thrift_field f = {0}; rk_thrift_next_field(t, &f);) {
        e->logical = f.id;
        if (f.id == DECIMAL && rk_thrift_begin_struct(t, &f))
            read_decimal_type(t, e);
        else if (f.id == INTEGER && rk_thrift_begin_struct(t, &f))
            read_integer_type(t, e);
        else
            rk_thrift_skip_field(t, &f);
    }
}

static void read_schema_element(rk_thrift *t, rk_parquet_element *e) {
    enum { UINT_8 = 11, UINT_64 = 14 };
    *e = (rk_parquet_element){.physical = -1, .converted = -1, .name = {"", 0}};
    for (rk_thrift_field f = {0}; rk_thrift_next_field(t, &f);) {
        switch (f.id) {
            case 1:
                e->physical = rk_thrift_read_int(t, &f);
                break;
            case 2:
                e->n_bytes = rk_thrift_read_int(t, &f);
                break;
            case 3:
                e->repetition = rk_thrift_read_int(t, &f);
                break;
            case 4:
                e->name = rk_thrift_read_binary(t, &f);
                break;
            case 5:
                e->n_children = rk_thrift_read_int(t, &f);
                break;
            case 6:
                e->converted = rk_thrift_read_int(t, &f);
                if (e->converted >= UINT_8 && e->converted <= UINT_64) e->is_unsigned = true;
                break;
            case 7:
                e->scale = rk_thrift_read_int(t, &f);
                break;
            case 10:
                if (rk_thrift_begin_struct(t, &f)) read_logical_type(t, e);
                break;
            default:
                rk_thrift_skip_field(t, &f);
        }
    }
}

static rk_status read_schema_elements(rk_parquet *file, rk_thrift *t, const rk_thrift_field *f) {
    RK_AUTOFREE rk_parquet_element *elements = NULL;
    int64_t n = rk_thrift_begin_list(t, f, RK_THRIFT_STRUCT);
    RK_TRY(rk_alloc((size_t)n, sizeof *elements, &elements));
    for (int64_t i = 0; i < n && !t->failed; i++) read_schema_element(t, &elements[i]);
    if (t->failed || n == 0) return rk_parquet_bad_footer_error(file, "its schema");
    return rk_parquet_read_schema(file, elements, n);
}

typedef struct chunk_head {
    int64_t physical, codec, n_values, raw_bytes, stored_bytes, data_begin, dictionary_begin;
    bool is_elsewhere, is_encrypted, has_head;
} chunk_head;

static void read_column_chunk_metadata(rk_thrift *t, chunk_head *h) {
    int64_t *const numbers[] = {
        [1] = &h->physical,     [4] = &h->codec,      [5] = &h->n_values,         [6] = &h->raw_bytes,
        [7] = &h->stored_bytes, [9] = &h->data_begin, [11] = &h->dictionary_begin};
    const int32_t n = sizeof numbers / sizeof numbers[0];
    h->has_head = true;
    for (rk_thrift_field f = {0}; rk_thrift_next_field(t, &f);) {
        if (f.id < n && numbers[f.id])
            *numbers[f.id] = rk_thrift_read_int(t, &f);
        else
            rk_thrift_skip_field(t, &f);
    }
}

static void read_column_chunk(rk_thrift *t, chunk_head *h) {
    *h = (chunk_head){.physical = -1};
    for (rk_thrift_field f = {0}; rk_thrift_next_field(t, &f);) {
        if (f.id == 1) h->is_elsewhere = true;
        if (f.id == 8 || f.id == 9) h->is_encrypted = true;
        if (f.id == 3 && rk_thrift_begin_struct(t, &f))
            read_column_chunk_metadata(t, h);
        else
            rk_thrift_skip_field(t, &f);
    }
}

/* A chunk's pages begin with the dictionary, where it has one. */
static rk_status check_and_store_column_chunk(const rk_parquet *file, const rk_parquet_leaf *leaf,
                                              const chunk_head *h, rk_parquet_chunk *out) {
    bool has_dictionary = h->dictionary_begin > 0 && h->dictionary_begin < h->data_begin;
    uint64_t begin = (uint64_t)(has_dictionary ? h->dictionary_begin : h->data_begin);
    RK_FAIL_IF(h->is_encrypted, RK_UNSUPPORTED, "'%s': column '%s' is encrypted", file->path,
               leaf->column.name);
    RK_FAIL_IF(h->is_elsewhere, RK_UNSUPPORTED, "'%s': column '%s' stands in another file", file->path,
               leaf->column.name);
    const bool fits = begin >= MAGIC_BYTES && begin <= file->footer_begin &&
                      (uint64_t)h->stored_bytes <= file->footer_begin - begin;
    if (!h->has_head || h->physical != (int64_t)leaf->physical || h->n_values < 0 || h->raw_bytes < 0 ||
        h->stored_bytes < 0 || h->codec < 0 || h->codec > INT32_MAX || (h->n_values > 0 && !fits))
        return rk_error_context(rk_parquet_bad_footer_error(file, "a column's place that cannot be"),
                                "column '%s'", leaf->column.name);
    *out = (rk_parquet_chunk){.begin = begin,
                              .n_bytes = (uint64_t)h->stored_bytes,
                              .n_values = (uint64_t)h->n_values,
                              .raw_bytes = (uint64_t)h->raw_bytes,
                              .codec = (int32_t)h->codec};
    return RK_OK;
}

static rk_status read_row_group(rk_parquet *file, rk_thrift *t, int64_t group) {
    int64_t n_rows = -1, n_chunks = 0;
    for (rk_thrift_field f = {0}; rk_thrift_next_field(t, &f);) {
        if (f.id == 1) {
            n_chunks = rk_thrift_begin_list(t, &f, RK_THRIFT_STRUCT);
            if (n_chunks != file->n_leaves)
                return rk_parquet_bad_footer_error(file, "a row group without some columns");
            for (int32_t c = 0; c < file->n_leaves && !t->failed; c++) {
                chunk_head head;
                read_column_chunk(t, &head);
                if (t->failed) break;
                RK_TRY(check_and_store_column_chunk(file, &file->leaves[c], &head,
                                                    &file->chunks[group * file->n_leaves + c]));
            }
        } else if (f.id == 3) {
            n_rows = rk_thrift_read_int(t, &f);
        } else {
            rk_thrift_skip_field(t, &f);
        }
    }
    if (t->failed || n_rows < 0 || n_rows > MOST_ROWS || n_chunks != file->n_leaves)
        return rk_parquet_bad_footer_error(file, "a row group");
    file->group_rows[group] = n_rows;
    file->n_rows += n_rows;
    if (file->n_rows > MOST_ROWS || (uint64_t)file->n_rows / MOST_ROWS_A_BYTE > file->n_bytes)
        return rk_parquet_bad_footer_error(file, "more rows than a file of its size can have");
    return RK_OK;
}

static rk_status read_row_groups(rk_parquet *file, rk_thrift *t, const rk_thrift_field *f) {
    int64_t n = rk_thrift_begin_list(t, f, RK_THRIFT_STRUCT);
    if (!file->leaves) return rk_parquet_bad_footer_error(file, "row groups before the schema");
    if (file->chunks) return rk_parquet_bad_footer_error(file, "two lists of row groups");
    if (n && file->n_leaves > (int64_t)(file->n_bytes - file->footer_begin) / n)
        return rk_parquet_bad_footer_error(file, "row groups without some columns");
    file->n_groups = n;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)n, file->group_rows),
                        RK_ARRAY((size_t)n * (size_t)file->n_leaves, file->chunks)));
    for (int64_t g = 0; g < n; g++) RK_TRY(read_row_group(file, t, g));
    return RK_OK;
}

static rk_status encrypted_file_error(const rk_parquet *file) {
    return rk_error(RK_UNSUPPORTED, "'%s': encrypted Parquet files are not supported", file->path);
}

static rk_status read_footer(rk_parquet *file, rk_thrift *t) {
    bool is_encrypted = false;
    for (rk_thrift_field f = {0}; rk_thrift_next_field(t, &f);) {
        if (f.id == 2) {
            if (file->leaves) return rk_parquet_bad_footer_error(file, "two schemas");
            RK_TRY(read_schema_elements(file, t, &f));
        } else if (f.id == 4) {
            RK_TRY(read_row_groups(file, t, &f));
        } else {
            is_encrypted |= f.id == 8;
            rk_thrift_skip_field(t, &f);
        }
    }
    if (is_encrypted) return encrypted_file_error(file);
    if (t->failed || !file->chunks)
        return rk_parquet_bad_footer_error(file, "it is cut or no Parquet file's");
    return RK_OK;
}

static rk_status find_footer(rk_parquet *file) {
    RK_FAIL_IF(file->n_bytes < MAGIC_BYTES + TAIL_BYTES, RK_BAD_DATA, "'%s': too short for a Parquet file",
               file->path);
    const uint8_t *data = file->data, *tail = data + file->n_bytes - TAIL_BYTES;
    if (memcmp(tail + 4, "PARE", MAGIC_BYTES) == 0) return encrypted_file_error(file);
    RK_FAIL_IF(memcmp(data, "PAR1", MAGIC_BYTES) != 0, RK_BAD_DATA, "'%s': not a Parquet file", file->path);
    RK_FAIL_IF(memcmp(tail + 4, "PAR1", MAGIC_BYTES) != 0, RK_BAD_DATA,
               "'%s': the file is truncated: it does not end as Parquet files do", file->path);
    const uint64_t n = rk_parquet_read_u32(tail);
    RK_FAIL_IF(n > file->n_bytes - TAIL_BYTES - MAGIC_BYTES, RK_BAD_DATA,
               "'%s': byte %llu: a footer that does not fit the file", file->path,
               (unsigned long long)(file->n_bytes - TAIL_BYTES));
    file->footer_begin = file->n_bytes - TAIL_BYTES - n;
    rk_thrift t = {data + file->footer_begin, tail, false};
    return read_footer(file, &t);
}

rk_status rk_parquet_open_memory(const char *path, const void *data, size_t n_bytes, rk_parquet **out) {
    rk_parquet *file;
    RK_TRY(rk_alloc(1, sizeof *file, &file));
    pthread_mutex_init(&file->lock, NULL);
    file->data = data;
    file->n_bytes = n_bytes;
    rk_status status = rk_strdup(path, &file->path);
    if (status == RK_OK) status = find_footer(file);
    if (status == RK_OK)
        *out = file;
    else
        rk_parquet_free(file);
    return status;
}

rk_status rk_parquet_open(const char *path, rk_parquet **out) {
    RK_AUTO(rk_mapped_file_release) rk_mapped_file map = {0};
    RK_TRY(rk_mapped_file_open(path, &map));
    RK_TRY(rk_parquet_open_memory(path, map.data, map.n_bytes, out));
    (*out)->map = map;
    map = (rk_mapped_file){0};
    return RK_OK;
}

void rk_parquet_free(rk_parquet *file) {
    if (!file) return;
    for (int64_t i = 0; file->chunks && i < file->n_groups * file->n_leaves; i++)
        rk_free(file->chunks[i].pages);
    for (int32_t i = 0; i < file->n_leaves; i++) rk_free(file->leaves[i].column.name);
    RK_FREE_ALL(file->chunks, file->group_rows, file->leaves, file->path);
    rk_mapped_file_release(&file->map);
    pthread_mutex_destroy(&file->lock);
    rk_free(file);
}

int32_t rk_parquet_n_columns(const rk_parquet *file) {
    return file->n_leaves;
}
const rk_parquet_column *rk_parquet_column_at(const rk_parquet *file, int32_t column) {
    return &file->leaves[column].column;
}
int64_t rk_parquet_n_rows(const rk_parquet *file) {
    return file->n_rows;
}
int64_t rk_parquet_n_groups(const rk_parquet *file) {
    return file->n_groups;
}
int64_t rk_parquet_group_rows(const rk_parquet *file, int64_t group) {
    return file->group_rows[group];
}
rk_parquet_size rk_parquet_column_chunk_size(const rk_parquet *file, int64_t group, int32_t column) {
    const rk_parquet_chunk *chunk = &file->chunks[group * file->n_leaves + column];
    return (rk_parquet_size){chunk->n_values, chunk->raw_bytes};
}
