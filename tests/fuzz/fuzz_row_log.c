/* What a folder may have as a checkpoint of rows on a disk: any list, and any pages. The first byte: the
 * length of rows; the second: 1, all after it is the list; else it is two pages, 2: whose checksums are put
 * right. Rows that a scan shows are those that a reader reads. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "embedding/tiered/row_log.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { PAGES = 2, LIST_BYTES = 40 + 16, MOST_ROWS = 1024, MOST_BYTES = 5000 };

static void put_u32(uint8_t *at, uint32_t value) {
    memcpy(at, &value, sizeof value);
}

static void write_list(uint8_t *list, size_t n_bytes) {
    if (n_bytes >= 8) put_u32(list + 4, rk_crc32c(0, list + 8, n_bytes - 8));
    scratch_file("rows.list", list, n_bytes);
}

/* A list that the pages belong to. */
static void write_own_list(uint32_t record_bytes, const uint8_t *pages) {
    uint8_t list[LIST_BYTES] = {0};
    uint32_t digest = 0;
    for (int i = 0; i < PAGES; i++) digest = rk_crc32c(digest, pages + i * RK_PAGE_BYTES + 4, 4);
    memcpy(list, "RKL2", 4);
    put_u32(list + 8, 7);
    put_u32(list + 12, record_bytes);
    list[16] = list[24] = 1; /* files; the number of the next */
    memset(list + 32, 0xFF, 8);
    put_u32(list + 48, PAGES);
    put_u32(list + 52, digest);
    write_list(list, sizeof list);
}

static void mend(uint8_t *page, uint32_t number) {
    put_u32(page + 4, number);
    put_u32(page + 4, rk_crc32c(0, page, RK_PAGE_BYTES));
}

typedef struct seen {
    size_t n;
    uint32_t record_bytes;
    uint64_t places[MOST_ROWS];
    uint8_t records[MOST_ROWS * 508];
} seen;

static rk_status see(void *context, uint64_t place, const void *record) {
    seen *s = context;
    if (s->n == MOST_ROWS) abort();
    s->places[s->n] = place;
    memcpy(s->records + s->n++ * s->record_bytes, record, s->record_bytes);
    return RK_OK;
}

static void compare(rk_row_log *log, const seen *s) {
    static uint8_t records[sizeof s->records];
    rk_row_log_reader *reader;
    if (rk_row_log_reader_create(log, 4, &reader) != RK_OK) abort();
    if (rk_row_log_reader_read_records(reader, s->n, s->places, records) != RK_OK) abort();
    if (memcmp(records, s->records, s->n * s->record_bytes) != 0) abort();
    rk_row_log_reader_free(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    static const uint32_t lengths[] = {8, 12, 264, 4064, 4065, MOST_BYTES};
    static uint8_t pages[PAGES * RK_PAGE_BYTES], list[1 << 14];
    static seen s;
    if (n_bytes < 2) return 0;
    uint32_t record_bytes = lengths[data[0] % 6];
    uint8_t how = data[1];
    data += 2;
    n_bytes -= 2;
    size_t n = n_bytes < sizeof pages ? n_bytes : sizeof pages;
    memset(pages, 0, sizeof pages);
    memcpy(pages, data, n);
    for (uint32_t i = 0; i < PAGES && how & 2; i++) mend(pages + i * RK_PAGE_BYTES, i);
    scratch_file("rows-00000000.log", pages, sizeof pages);
    write_own_list(record_bytes, pages);
    if (how & 1 && n_bytes < sizeof list) {
        memcpy(list, data, n_bytes);
        write_list(list, n_bytes);
    }
    rk_row_log_options options = {
        .table = 7, .record_bytes = record_bytes, .buffered = true, .without_uring = true};
    rk_row_log *log;
    if (rk_row_log_restore(&options, scratch_folder(), &log) != RK_OK) return 0;
    s.n = 0;
    s.record_bytes = record_bytes;
    if (rk_row_log_scan(log, see, &s) == RK_OK) compare(log, &s);
    rk_row_log_free(log);
    return 0;
}
