/* What the readers of a Parquet file's parts share. */
#ifndef RK_FORMAT_PARQUET_PARQUET_INTERNAL_H
#define RK_FORMAT_PARQUET_PARQUET_INTERNAL_H

#include <pthread.h>

#include "base/file/file.h"
#include "format/parquet/parquet.h"
#include "format/parquet/thrift.h"

/* The numbers of these lists are the format's own. */
typedef enum rk_parquet_physical {
    RK_PARQUET_BOOLEAN,
    RK_PARQUET_INT32,
    RK_PARQUET_INT64,
    RK_PARQUET_INT96,
    RK_PARQUET_FLOAT,
    RK_PARQUET_DOUBLE,
    RK_PARQUET_BYTE_ARRAY,
    RK_PARQUET_FIXED, /* FIXED_LEN_BYTE_ARRAY */
    RK_PARQUET_N_PHYSICAL
} rk_parquet_physical;

typedef enum rk_parquet_encoding {
    RK_PARQUET_PLAIN = 0,
    RK_PARQUET_PLAIN_DICTIONARY = 2,
    RK_PARQUET_RLE = 3,
    RK_PARQUET_DELTA_BINARY_PACKED = 5,
    RK_PARQUET_DELTA_LENGTH_BYTE_ARRAY = 6,
    RK_PARQUET_DELTA_BYTE_ARRAY = 7,
    RK_PARQUET_RLE_DICTIONARY = 8,
    RK_PARQUET_BYTE_STREAM_SPLIT = 9
} rk_parquet_encoding;

/* What a physical value becomes. */
typedef enum rk_parquet_meaning {
    RK_PARQUET_AS_IT_IS,
    RK_PARQUET_UNSIGNED,
    RK_PARQUET_DECIMAL,   /* text */
    RK_PARQUET_HALF,      /* f32 of two bytes */
    RK_PARQUET_TIMESTAMP, /* of INT96: nanoseconds since 1970 */
    RK_PARQUET_NOTHING    /* a column of nulls */
} rk_parquet_meaning;

typedef struct rk_parquet_leaf {
    rk_parquet_column column;
    rk_parquet_physical physical;
    rk_parquet_meaning meaning;
    int32_t n_bytes;   /* of a FIXED value */
    int32_t scale;     /* of a decimal */
    int32_t max_level; /* the definition level of a value that is there */
    bool is_repeated;  /* there are repetition levels, 0 or 1 */
    int32_t max_repetition;
    bool is_time; /* a date or a time, as a number of units of the file's */
} rk_parquet_leaf;

/* Rows of a page of data begin with first_row; a page may begin within the row before. */
typedef struct rk_parquet_page_place {
    uint64_t begin; /* of its header, in the file */
    int64_t first_row;
} rk_parquet_page_place;

/* One column of one row group. */
typedef struct rk_parquet_chunk {
    uint64_t begin, n_bytes; /* of its pages */
    uint64_t n_values, raw_bytes;
    int32_t codec;
    /* found when it is first read; `lock` of the file */
    rk_parquet_page_place *pages; /* [n_pages+1], a last one where the rows end; or NULL */
    int64_t n_pages;
} rk_parquet_chunk;

struct rk_parquet {
    char *path;
    rk_mapped_file map; /* held by rk_parquet_open */
    const uint8_t *data;
    uint64_t n_bytes, footer_begin;
    int32_t n_leaves;
    rk_parquet_leaf *leaves; /* [n_leaves] */
    size_t leaves_capacity;
    int64_t n_rows, n_groups;
    int64_t *group_rows;      /* [n_groups] */
    rk_parquet_chunk *chunks; /* [n_groups, n_leaves] */
    pthread_mutex_t lock;
};

/* What is wrong with the footer. */
static inline rk_status rk_parquet_bad_footer_error(const rk_parquet *file, const char *what) {
    return rk_error(RK_BAD_DATA, "'%s': byte %llu: the footer is damaged: %s", file->path,
                    (unsigned long long)file->footer_begin, what);
}

/* A number of four bytes, the lowest first. */
static inline uint32_t rk_parquet_read_u32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The leaves of a schema of n elements, of which the first is the root. */
typedef struct rk_parquet_element {
    int64_t physical, n_bytes, repetition, n_children, converted, scale; /* -1: not given */
    rk_span name;
    int32_t logical; /* the field of the union LogicalType, or 0 */
    bool is_unsigned;
} rk_parquet_element;
rk_status rk_parquet_read_schema(rk_parquet *file, const rk_parquet_element *elements, int64_t n);

typedef enum rk_parquet_page_type {
    RK_PARQUET_DATA_PAGE,
    RK_PARQUET_INDEX_PAGE,
    RK_PARQUET_DICTIONARY_PAGE,
    RK_PARQUET_DATA_PAGE_V2
} rk_parquet_page_type;

typedef struct rk_parquet_page {
    int64_t type, raw_bytes, stored_bytes, n_values, encoding;
    int64_t level_encoding, repetition_encoding;   /* of v1 */
    int64_t n_rows, level_bytes, repetition_bytes; /* of v2 */
    bool is_compressed, has_crc;
    uint32_t crc;
    uint64_t begin;                                     /* of its bytes, in the file */
    const uint8_t *levels, *repetitions, *values, *end; /* once it is opened */
} rk_parquet_page;

/* The page whose header begins there. Errors name the byte. */
rk_status rk_parquet_read_page_header(const rk_parquet *file, const rk_parquet_chunk *chunk, uint64_t at,
                                      rk_parquet_page *out);
/* Its bytes, of the file or decompressed into the memory's. */
rk_status rk_parquet_open_page(const rk_parquet *file, const rk_parquet_chunk *chunk,
                               const rk_parquet_leaf *leaf, rk_parquet_memory *memory, rk_parquet_page *page);
/* Where the chunk's pages of data are; the first caller finds them. */
rk_status rk_parquet_find_pages(const rk_parquet *file, rk_parquet_chunk *chunk, const rk_parquet_leaf *leaf,
                                int64_t n_rows, rk_parquet_memory *memory);

/* The stored bytes as raw_bytes others; what does not give exactly so many fails. */
rk_status rk_parquet_decompress(int32_t codec, void **zstd, const uint8_t *stored, size_t stored_bytes,
                                uint8_t *out, size_t raw_bytes);
const char *rk_parquet_codec_unsupported_reason(int32_t codec); /* why, or NULL */

/* Numbers of a few bits, repeated or packed: levels, indices of a dictionary, booleans. */
enum { RK_PARQUET_BATCH = 1024 };
typedef struct rk_parquet_rle {
    rk_thrift bytes; /* its numbers are written like Thrift's */
    int bits;
    int64_t value, n_repeats; /* of `value` that are left, */
    int64_t n_packed;         /* or numbers in the bytes that are left, a multiple of 8; before them */
    int64_t unpacked[256];
    int64_t n_unpacked, next; /* those from `next` on */
} rk_parquet_rle;
void rk_parquet_rle_open(rk_parquet_rle *rle, const uint8_t *data, const uint8_t *end, int bits);
/* The next n numbers; out NULL: over them. Adds to *n_equal how many of them are `which`. */
rk_status rk_parquet_rle_read(rk_parquet_rle *rle, int64_t n, int64_t *out, int64_t which, int64_t *n_equal);

/* Whole numbers by their differences. Zeroed before. */
typedef struct rk_parquet_delta {
    rk_thrift bytes;
    uint64_t n_left, value, least;  /* numbers not yet taken; the one to come; of the block's differences */
    uint32_t n_mini, n_mini_values; /* mini-blocks of a block, and numbers of one */
    const uint8_t *widths;          /* [n_mini] of the block */
    uint32_t mini, n_mini_left; /* of these, the next one; of the one before, differences that are left, */
    const uint8_t *differences; /* which stand here, from `bit` on */
    uint64_t bit;
    int bits;
} rk_parquet_delta;
rk_status rk_parquet_delta_open(rk_parquet_delta *delta, const uint8_t *data, const uint8_t *end);
rk_status rk_parquet_delta_read(rk_parquet_delta *delta, int64_t n, int64_t *out); /* out NULL: over them */
/* Where the numbers end. */
rk_status rk_parquet_delta_end(const rk_parquet_delta *delta, const uint8_t **out);

/* Values of a page. */
typedef struct rk_parquet_batch {
    union {
        int64_t i64[RK_PARQUET_BATCH];
        float f32[RK_PARQUET_BATCH];
        double f64[RK_PARQUET_BATCH];
        rk_span bytes[RK_PARQUET_BATCH];
    } values;
    int64_t lengths[RK_PARQUET_BATCH], prefixes[RK_PARQUET_BATCH];
    int64_t levels[RK_PARQUET_BATCH], repetitions[RK_PARQUET_BATCH];
    bool kept[RK_PARQUET_BATCH]; /* by rk_parquet_append_values: empty and missing texts are no values */
} rk_parquet_batch;

typedef struct rk_parquet_values {
    const rk_parquet_leaf *leaf;
    rk_parquet_memory *memory;
    rk_parquet_encoding encoding;
    const uint8_t *at, *end;
    uint64_t bit;            /* of PLAIN booleans */
    rk_parquet_rle rle;      /* booleans, indices */
    rk_parquet_delta delta;  /* numbers, lengths */
    rk_parquet_delta prefix; /* of DELTA_BYTE_ARRAY: lengths of what a value begins with of the one before */
    size_t before, n_before; /* where that one stands in memory->bytes, and its bytes */
    int64_t n_split, next;   /* of BYTE_STREAM_SPLIT: values, and the next one */
} rk_parquet_values;
rk_status rk_parquet_values_open(rk_parquet_values *values, const rk_parquet_leaf *leaf,
                                 rk_parquet_memory *memory, int64_t encoding, const uint8_t *data,
                                 const uint8_t *end);
/* The next n <= RK_PARQUET_BATCH values, into memory->batch; over the next n. Of a dictionary: its indices.
 */
rk_status rk_parquet_values_read(rk_parquet_values *values, int64_t n);
rk_status rk_parquet_values_skip(rk_parquet_values *values, int64_t n);
static inline bool rk_parquet_is_dictionary_encoding(int64_t encoding) {
    return encoding == RK_PARQUET_PLAIN_DICTIONARY || encoding == RK_PARQUET_RLE_DICTIONARY;
}

/* The batch's n values behind those that the column has, which has room for them but for their texts; which
 * of them are values is then in batch->kept. with_empty: empty and missing texts stay, as texts of no bytes,
 * since a dictionary's values are counted. */
rk_status rk_parquet_append_values(const rk_parquet_leaf *leaf, rk_parquet_memory *memory, int64_t n,
                                   const rk_parquet_rows *rows, bool with_empty, rk_column *out);
/* The same of the batch's indices into the memory's dictionary, whose texts stand among the column's. */
rk_status rk_parquet_append_dictionary_values(rk_parquet_memory *memory, int64_t n, rk_column *out);

/* RK_UNSUPPORTED: more text than a column may have. */
rk_status rk_parquet_check_text(size_t n_bytes);
/* Room for n_bytes more of text in the column. */
rk_status rk_parquet_reserve_text(rk_column *out, size_t n_bytes);

#endif
