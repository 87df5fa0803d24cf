/* Pages of a row log, byte by byte (docs/formats/row_log.md). A unit is what is read and written together: a
 * page of small records, or the pages of one record that is larger than a page's room. */
#ifndef RK_EMBEDDING_TIERED_ROW_PAGE_H
#define RK_EMBEDDING_TIERED_ROW_PAGE_H

#include <stdint.h>

enum {
    RK_PAGE_BYTES = 4096,
    RK_PAGE_HEAD_BYTES = 32,
    RK_PAGE_ROOM = RK_PAGE_BYTES - RK_PAGE_HEAD_BYTES,
    RK_FILE_PAGES = 1 << 14,  /* of a file, at most: 64 MiB */
    RK_PLACE_RECORD_BITS = 9, /* a record begins with its key, so a page has no more than RK_PAGE_ROOM / 8 */
    RK_PLACE_PAGE_BITS = 14,
    RK_PLACE_FILE_BITS = 26
};

typedef struct rk_page_shape {
    uint32_t table, record_bytes;
    uint32_t unit_pages, unit_records; /* one of them is 1 */
    uint32_t record_bits;              /* of a record's number in its unit */
} rk_page_shape;

/* record_bytes: 8 .. RK_PAGE_ROOM * RK_FILE_PAGES */
rk_page_shape rk_page_shape_for_record(uint32_t table, uint32_t record_bytes);

/* Which page: its number in its file. part: of a large record's pages; else 0. */
typedef struct rk_page_at {
    uint64_t file;
    uint32_t page, part;
} rk_page_at;

/* Head and checksum of a page that has its records, n of them; what is behind them becomes 0. */
void rk_page_seal(const rk_page_shape *shape, rk_page_at at, uint32_t n, uint64_t step, uint8_t *page);
/* What is wrong with a page that was read, in words; NULL: nothing. */
const char *rk_page_find_fault(const rk_page_shape *shape, rk_page_at at, const uint8_t *page);
/* Of a page without fault: */
uint32_t rk_page_n_records(const rk_page_shape *shape, const uint8_t *page); /* of a large record's: 1 */
uint64_t rk_page_step(const uint8_t *page);
uint32_t rk_page_crc(const uint8_t *page);

/* Between a unit and records [record_bytes] outside. */
void rk_unit_write_record(const rk_page_shape *shape, uint8_t *unit, uint32_t record, const void *from);
void rk_unit_read_record(const rk_page_shape *shape, const uint8_t *unit, uint32_t record, void *to);

/* Where a record is, in 49 bits: file 26, page 14, record 9. Later ones are greater. */
static inline uint64_t rk_place_make(uint64_t file, uint32_t page, uint32_t record) {
    return (file << RK_PLACE_PAGE_BITS | page) << RK_PLACE_RECORD_BITS | record;
}
/* The same in 47 bits, of which the record has no more than a page needs: there are so many numbers of files,
 * in bits. */
enum { RK_PACKED_PLACE_BITS = 47 };
static inline uint64_t rk_place_pack(uint64_t place, uint32_t record_bits) {
    uint64_t record = place & ((1u << RK_PLACE_RECORD_BITS) - 1);
    return place >> RK_PLACE_RECORD_BITS << record_bits | record;
}
static inline uint64_t rk_place_unpack(uint64_t packed, uint32_t record_bits) {
    uint64_t record = packed & ((1u << record_bits) - 1);
    return packed >> record_bits << RK_PLACE_RECORD_BITS | record;
}
static inline int rk_page_shape_file_bits(const rk_page_shape *shape) {
    int left = RK_PACKED_PLACE_BITS - RK_PLACE_PAGE_BITS - (int)shape->record_bits;
    return left < RK_PLACE_FILE_BITS ? left : RK_PLACE_FILE_BITS;
}
static inline uint64_t rk_place_file(uint64_t place) {
    return place >> (RK_PLACE_PAGE_BITS + RK_PLACE_RECORD_BITS);
}
static inline uint32_t rk_place_page(uint64_t place) {
    return (uint32_t)(place >> RK_PLACE_RECORD_BITS) & (RK_FILE_PAGES - 1);
}
static inline uint32_t rk_place_record(uint64_t place) {
    return (uint32_t)place & ((1u << RK_PLACE_RECORD_BITS) - 1);
}

#endif
