#include "embedding/tiered/row_page.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "base/integers.h"

/* As it is on the disk, where numbers are little-endian. */
typedef struct head {
    uint32_t magic, crc;
    uint32_t table;
    uint16_t n;     /* records; of a large one: PART and which page of it this is */
    uint16_t bytes; /* of a record; of a large one: what of it is here */
    uint64_t file, step;
} head;
_Static_assert(sizeof(head) == RK_PAGE_HEAD_BYTES, "a page's head");

#define MAGIC 0x314C4B52u /* "RKL1" */
enum { PART = 0x8000, AFTER_CRC = 8 };

rk_page_shape rk_page_shape_for_record(uint32_t table, uint32_t record_bytes) {
    rk_page_shape shape = {table, record_bytes, 1, 1, 0};
    if (record_bytes <= RK_PAGE_ROOM)
        shape.unit_records = RK_PAGE_ROOM / record_bytes;
    else
        shape.unit_pages = (record_bytes + RK_PAGE_ROOM - 1) / RK_PAGE_ROOM;
    shape.record_bits = (uint32_t)rk_bit_width(shape.unit_records - 1);
    return shape;
}

/* Of the whole page, with its number in the file where the checksum is to be: so a page at the place of
 * another one is found out. */
static uint32_t compute_page_checksum(const uint8_t *page, uint32_t number) {
    uint32_t crc = rk_crc32c(0, page, offsetof(head, crc));
    crc = rk_crc32c(crc, &number, sizeof number);
    return rk_crc32c(crc, page + AFTER_CRC, RK_PAGE_BYTES - AFTER_CRC);
}

static head read_page_header(const uint8_t *page) {
    head h;
    memcpy(&h, page, sizeof h);
    return h;
}

/* Of the record or records, in this page. */
static uint32_t record_bytes_in_page(const rk_page_shape *shape, uint32_t part) {
    uint32_t left = shape->record_bytes - part * RK_PAGE_ROOM;
    return left < RK_PAGE_ROOM ? left : RK_PAGE_ROOM;
}

void rk_page_seal(const rk_page_shape *shape, rk_page_at at, uint32_t n, uint64_t step, uint8_t *page) {
    bool large = shape->unit_pages > 1;
    uint32_t bytes = record_bytes_in_page(shape, at.part),
             end = RK_PAGE_HEAD_BYTES + (large ? bytes : n * bytes);
    head h = {MAGIC, 0, shape->table, (uint16_t)(large ? PART | at.part : n), (uint16_t)bytes, at.file, step};
    memset(page + end, 0, RK_PAGE_BYTES - end);
    memcpy(page, &h, sizeof h);
    h.crc = compute_page_checksum(page, at.page);
    memcpy(page, &h, sizeof h);
}

const char *rk_page_find_fault(const rk_page_shape *shape, rk_page_at at, const uint8_t *page) {
    head h = read_page_header(page);
    if (h.magic != MAGIC) return "it is no page of rows";
    if (h.crc != compute_page_checksum(page, at.page)) return "its checksum is wrong";
    if (h.table != shape->table) return "it is another table's";
    if (h.file != at.file) return "it is another file's";
    if (h.bytes != record_bytes_in_page(shape, at.part)) return "its records have another length";
    if (shape->unit_pages > 1 ? h.n != (PART | at.part) : h.n < 1 || h.n > shape->unit_records)
        return "its number of records is wrong";
    return NULL;
}

uint32_t rk_page_n_records(const rk_page_shape *shape, const uint8_t *page) {
    return shape->unit_pages > 1 ? 1 : read_page_header(page).n;
}

uint64_t rk_page_step(const uint8_t *page) {
    return read_page_header(page).step;
}

uint32_t rk_page_crc(const uint8_t *page) {
    return read_page_header(page).crc;
}

void rk_unit_write_record(const rk_page_shape *shape, uint8_t *unit, uint32_t record, const void *from) {
    if (shape->unit_pages == 1) {
        memcpy(unit + RK_PAGE_HEAD_BYTES + (size_t)record * shape->record_bytes, from, shape->record_bytes);
        return;
    }
    for (uint32_t part = 0; part < shape->unit_pages; part++)
        memcpy(unit + (size_t)part * RK_PAGE_BYTES + RK_PAGE_HEAD_BYTES,
               (const uint8_t *)from + (size_t)part * RK_PAGE_ROOM, record_bytes_in_page(shape, part));
}

void rk_unit_read_record(const rk_page_shape *shape, const uint8_t *unit, uint32_t record, void *to) {
    if (shape->unit_pages == 1) {
        memcpy(to, unit + RK_PAGE_HEAD_BYTES + (size_t)record * shape->record_bytes, shape->record_bytes);
        return;
    }
    for (uint32_t part = 0; part < shape->unit_pages; part++)
        memcpy((uint8_t *)to + (size_t)part * RK_PAGE_ROOM,
               unit + (size_t)part * RK_PAGE_BYTES + RK_PAGE_HEAD_BYTES, record_bytes_in_page(shape, part));
}
