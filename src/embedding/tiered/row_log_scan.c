/* Goes through files of a row log from front to back: after a restore, and to compact. */
#include <stdio.h>
#include <string.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "embedding/tiered/row_log_internal.h"

enum { SCANNED_PAGES = 1024 };

typedef struct scan {
    rk_row_log *log;
    rk_row_file file; /* as it was at first: what visit does may move it in memory */
    uint8_t *pages;   /* [room] */
    uint32_t room;
    uint8_t *record;
    uint32_t digest;
    uint64_t step, n_records;
    rk_row_visit visit;
    void *context;
} scan;

static rk_status read_pages(const scan *s, uint32_t first, uint32_t n) {
    size_t n_bytes = (size_t)n * RK_PAGE_BYTES, done;
    int code = rk_file_read_at(s->file.descriptor, (uint64_t)first * RK_PAGE_BYTES, s->pages, n_bytes, &done);
    if (done == n_bytes) return RK_OK;
    char reason[96];
    snprintf(reason, sizeof reason, "%s%s", code ? "could not read it: " : "",
             code ? strerror(code) : "the file ends before it");
    return rk_row_file_error(s->log, s->file.number, first + (uint32_t)(done / RK_PAGE_BYTES),
                             code ? RK_IO : RK_BAD_DATA, reason);
}

static rk_status check_page(scan *s, rk_page_at at, const uint8_t *page) {
    const char *fault = rk_page_find_fault(&s->log->shape, at, page);
    if (!fault && (rk_page_step(page) < s->step || rk_page_step(page) > s->log->step))
        fault = "its step is wrong";
    if (fault) return rk_row_file_error(s->log, at.file, at.page, RK_BAD_DATA, fault);
    uint32_t crc = rk_page_crc(page);
    s->step = rk_page_step(page);
    s->digest = rk_crc32c(s->digest, &crc, sizeof crc);
    return RK_OK;
}

/* Pages first .. first+n-1, whole units of them. */
static rk_status check_pages(scan *s, uint32_t first, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        rk_page_at at = {s->file.number, first + i, i % s->log->shape.unit_pages};
        RK_TRY(check_page(s, at, s->pages + (size_t)i * RK_PAGE_BYTES));
    }
    return RK_OK;
}

static rk_status visit_records_of_pages(scan *s, uint32_t first, uint32_t n) {
    const rk_page_shape *shape = &s->log->shape;
    for (uint32_t i = 0; i < n; i += shape->unit_pages) {
        const uint8_t *unit = s->pages + (size_t)i * RK_PAGE_BYTES;
        for (uint32_t k = 0; k < rk_page_n_records(shape, unit); k++) {
            rk_unit_read_record(shape, unit, k, s->record);
            s->n_records++;
            RK_TRY(s->visit(s->context, rk_place_make(s->file.number, first + i, k), s->record));
        }
    }
    return RK_OK;
}

static rk_status scan_all_pages(scan *s) {
    for (uint32_t first = 0; first < s->file.n_pages; first += s->room) {
        uint32_t left = s->file.n_pages - first, n = left < s->room ? left : s->room;
        RK_TRY(read_pages(s, first, n));
        RK_TRY(check_pages(s, first, n));
        RK_TRY(visit_records_of_pages(s, first, n));
    }
    RK_FAIL_IF(s->file.digest != s->digest, RK_BAD_DATA,
               "'%s': file %llu is another one than the log wrote: its pages have other checksums",
               s->log->directory, (unsigned long long)s->file.number);
    return RK_OK;
}

static rk_status scan_pinned_file(scan *s) {
    const rk_page_shape *shape = &s->log->shape;
    uint32_t most = SCANNED_PAGES < s->file.n_pages ? SCANNED_PAGES : s->file.n_pages;
    s->room = most < shape->unit_pages ? shape->unit_pages : most / shape->unit_pages * shape->unit_pages;
    rk_status status = rk_pages_alloc((size_t)s->room * RK_PAGE_BYTES, &s->pages);
    if (status == RK_OK) status = rk_alloc(shape->record_bytes, 1, &s->record);
    if (status == RK_OK) status = scan_all_pages(s);
    rk_pages_free(s->pages, (size_t)s->room * RK_PAGE_BYTES);
    rk_free(s->record);
    return status;
}

rk_status rk_row_file_scan(rk_row_log *log, uint64_t number, rk_row_visit visit, void *context) {
    pthread_mutex_lock(&log->mutex);
    rk_row_file *file = rk_row_log_find_file(log, number);
    rk_status status = rk_row_file_pin(log, file);
    scan s = {.log = log, .file = *file, .visit = visit, .context = context};
    pthread_mutex_unlock(&log->mutex);
    RK_TRY(status);
    status = scan_pinned_file(&s);
    rk_row_file_unpin(rk_row_log_find_file(log, number));
    return status;
}

/* Counts, and passes on. */
typedef struct counting {
    rk_row_log *log;
    rk_row_visit visit;
    void *context;
} counting;

static rk_status count_record(void *context, uint64_t place, const void *record) {
    const counting *c = context;
    rk_row_file *file = rk_row_log_find_file(c->log, rk_place_file(place));
    file->n_records++;
    file->n_live++;
    return c->visit(c->context, place, record);
}

rk_status rk_row_log_scan(rk_row_log *log, rk_row_visit visit, void *context) {
    counting c = {log, visit, context};
    for (size_t i = 0; i < log->n_files; i++) log->files[i].n_records = log->files[i].n_live = 0;
    log->may_compact = true;
    for (size_t i = 0; i < log->n_files; i++)
        RK_TRY(rk_row_file_scan(log, log->files[i].number, count_record, &c));
    rk_row_log_close_files(log); /* other logs may have to be gone through as well */
    return RK_OK;
}
