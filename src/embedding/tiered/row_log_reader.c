/* Reads records by their places: pages from the disk, many at once; from memory those that are not there
 * yet. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "embedding/tiered/async_page_reads.h"
#include "embedding/tiered/row_log_internal.h"

enum { DEPTH = 128, MAX_BUFFER_BYTES = 64 << 20 };

/* A record that is asked for, and which of the caller's it is. */
typedef struct wanted {
    uint64_t place;
    size_t index;
} wanted;

/* Records of one unit: first .. last-1 of those wanted. */
typedef struct unit_read {
    size_t first, last;
} unit_read;

struct rk_row_log_reader {
    rk_row_log *log;
    rk_page_reads *reads;
    bool has_uring;
    size_t unit_bytes;
    uint8_t *buffers; /* [reads->n, unit_bytes] */
    unit_read *units; /* [reads->n] what each slot reads */
    size_t *idle;     /* [n_idle] slots */
    size_t n_idle;
    wanted *wanted; /* in the order of places */
    size_t wanted_capacity;
};

static rk_status create_page_reads(rk_row_log_reader *r, size_t n) {
    rk_status status = RK_UNSUPPORTED;
    if (!r->log->options.without_uring) {
        status = rk_page_reads_create_uring(n, &r->reads);
        if (status == RK_UNSUPPORTED)
            rk_log(RK_LOG_WARNING, "'%s': rows are read by threads, which is slower: %s", r->log->directory,
                   rk_last_error());
    }
    r->has_uring = status == RK_OK;
    return status == RK_UNSUPPORTED ? rk_page_reads_create_threads(n, &r->reads) : status;
}

rk_status rk_row_log_reader_create(rk_row_log *log, size_t depth, rk_row_log_reader **out) {
    rk_row_log_reader *r;
    RK_TRY(rk_alloc(1, sizeof *r, &r));
    r->log = log;
    r->unit_bytes = (size_t)log->shape.unit_pages * RK_PAGE_BYTES;
    size_t n = depth ? depth : DEPTH, most = MAX_BUFFER_BYTES / r->unit_bytes;
    if (n > most) n = most ? most : 1;
    rk_status status;
    RK_GOTO(create_page_reads(r, n));
    RK_GOTO(rk_pages_alloc(n * r->unit_bytes, &r->buffers));
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY(n, r->units), RK_ARRAY(n, r->idle)));
    for (size_t slot = 0; slot < n; slot++) {
        r->reads->reads[slot].to = r->buffers + slot * r->unit_bytes;
        r->reads->reads[slot].n_bytes = (uint32_t)r->unit_bytes;
        r->idle[r->n_idle++] = slot;
    }
    *out = r;
    return RK_OK;
done:
    rk_row_log_reader_free(r);
    return status;
}

void rk_row_log_reader_free(rk_row_log_reader *r) {
    if (!r) return;
    if (r->buffers) rk_pages_free(r->buffers, r->reads->n * r->unit_bytes);
    if (r->reads) r->reads->ops->free(r->reads);
    RK_FREE_ALL(r->units, r->idle, r->wanted, r);
}

bool rk_row_log_reader_has_uring(const rk_row_log_reader *r) {
    return r->has_uring;
}

void rk_row_log_reader_set_log(rk_row_log_reader *r, rk_row_log *log) {
    r->log = log;
}

static int compare_places(const void *a, const void *b) {
    const wanted *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

static rk_status sort_wanted_places(rk_row_log_reader *r, size_t n, const uint64_t *places) {
    RK_TRY(rk_reserve(&r->wanted, &r->wanted_capacity, n, sizeof *r->wanted));
    for (size_t i = 0; i < n; i++) r->wanted[i] = (wanted){places[i], i};
    if (n) qsort(r->wanted, n, sizeof *r->wanted, compare_places);
    return RK_OK;
}

static size_t find_end_of_unit(const rk_row_log_reader *r, size_t first, size_t n) {
    size_t last = first + 1;
    while (last < n &&
           r->wanted[last].place >> RK_PLACE_RECORD_BITS == r->wanted[first].place >> RK_PLACE_RECORD_BITS)
        last++;
    return last;
}

static void copy_wanted_records(const rk_row_log_reader *r, unit_read unit, const uint8_t *from,
                                void *records) {
    const rk_page_shape *shape = &r->log->shape;
    for (size_t i = unit.first; i < unit.last; i++)
        rk_unit_read_record(shape, from, rk_place_record(r->wanted[i].place),
                            (uint8_t *)records + r->wanted[i].index * shape->record_bytes);
}

static rk_status row_log_read_error(const rk_row_log_reader *r, uint64_t place, rk_status status,
                                    const char *reason) {
    return rk_row_file_error(r->log, rk_place_file(place), rk_place_page(place), status, reason);
}

/* Under the log's mutex: from memory, at once, or the file's descriptor for a read of the disk. */
static rk_status find_unit_in_memory(rk_row_log_reader *r, unit_read unit, void *records, int *descriptor) {
    rk_row_log *log = r->log;
    uint64_t place = r->wanted[unit.first].place;
    uint32_t page = rk_place_page(place);
    rk_row_file *file = rk_row_log_find_file(log, rk_place_file(place));
    *descriptor = -1;
    if (!file) return row_log_read_error(r, place, RK_BAD_DATA, "the file is none of the log's");
    if (log->is_writing && file == &log->files[log->n_files - 1] && page >= file->n_pages) {
        uint32_t first = rk_row_log_first_buffered_page(log), in_buffer = page - first;
        bool is_leaving = page < first;
        if (!is_leaving && in_buffer + log->shape.unit_pages > log->buffer_pages)
            return row_log_read_error(r, place, RK_BAD_DATA, "the file ends before it");
        const uint8_t *pages = is_leaving ? log->leaving + (size_t)(page - file->n_pages) * RK_PAGE_BYTES
                                          : log->buffer + (size_t)in_buffer * RK_PAGE_BYTES;
        copy_wanted_records(r, unit, pages, records);
        return RK_OK;
    }
    RK_TRY(rk_row_file_pin(log, file));
    *descriptor = file->descriptor;
    return RK_OK;
}

static rk_status begin_unit_read(rk_row_log_reader *r, unit_read unit, void *records) {
    int descriptor;
    pthread_mutex_lock(&r->log->mutex);
    rk_status status = find_unit_in_memory(r, unit, records, &descriptor);
    pthread_mutex_unlock(&r->log->mutex);
    if (status != RK_OK || descriptor < 0) return status;
    size_t slot = r->idle[--r->n_idle];
    rk_page_read *read = &r->reads->reads[slot];
    r->units[slot] = unit;
    read->descriptor = descriptor;
    read->offset = (uint64_t)rk_place_page(r->wanted[unit.first].place) * RK_PAGE_BYTES;
    r->reads->ops->start(r->reads, slot);
    return RK_OK;
}

/* Whether the pages that came are those that were asked for, and have the records. */
static rk_status check_unit_pages(const rk_row_log_reader *r, size_t slot) {
    const rk_page_read *read = &r->reads->reads[slot];
    const rk_page_shape *shape = &r->log->shape;
    unit_read unit = r->units[slot];
    uint64_t place = r->wanted[unit.first].place;
    if (read->n_read < 0) {
        char text[96];
        snprintf(text, sizeof text, "could not read it: %s", strerror((int)-read->n_read));
        return row_log_read_error(r, place, RK_IO, text);
    }
    uint32_t n_pages = (uint32_t)(read->n_read / RK_PAGE_BYTES);
    for (uint32_t part = 0; part < shape->unit_pages; part++) {
        rk_page_at at = {rk_place_file(place), rk_place_page(place) + part, part};
        const char *fault =
            part < n_pages
                ? rk_page_find_fault(shape, at, (const uint8_t *)read->to + (size_t)part * RK_PAGE_BYTES)
                : "the file ends before it";
        if (fault) return rk_row_file_error(r->log, at.file, at.page, RK_BAD_DATA, fault);
    }
    uint64_t last = r->wanted[unit.last - 1].place;
    return rk_place_record(last) < rk_page_n_records(shape, read->to)
               ? RK_OK
               : row_log_read_error(r, last, RK_BAD_DATA, "it has fewer records");
}

static rk_status finish_unit_read(rk_row_log_reader *r, void *records) {
    size_t slot;
    RK_TRY(r->reads->ops->finish(r->reads, &slot));
    r->idle[r->n_idle++] = slot;
    pthread_mutex_lock(&r->log->mutex);
    rk_row_file_unpin(rk_row_log_find_file(r->log, rk_place_file(r->wanted[r->units[slot].first].place)));
    pthread_mutex_unlock(&r->log->mutex);
    RK_TRY(check_unit_pages(r, slot));
    copy_wanted_records(r, r->units[slot], r->reads->reads[slot].to, records);
    return RK_OK;
}

/* What is under way is waited for, after an error too. */
rk_status rk_row_log_reader_read_records(rk_row_log_reader *r, size_t n, const uint64_t *places,
                                         void *records) {
    RK_TRY(sort_wanted_places(r, n, places));
    char message[1024];
    rk_status status = RK_OK;
    for (size_t next = 0; (status == RK_OK && next < n) || r->n_idle < r->reads->n;) {
        rk_status now;
        if (status == RK_OK && next < n && r->n_idle) {
            unit_read unit = {next, find_end_of_unit(r, next, n)};
            next = unit.last;
            now = begin_unit_read(r, unit, records);
        } else {
            size_t n_idle = r->n_idle;
            now = finish_unit_read(r, records);
            if (now != RK_OK && r->n_idle == n_idle) return now; /* nothing more can be waited for */
        }
        if (status == RK_OK && now != RK_OK) rk_error_copy(message, sizeof message);
        if (status == RK_OK) status = now;
    }
    return status == RK_OK ? RK_OK : rk_error(status, "%s", message);
}
