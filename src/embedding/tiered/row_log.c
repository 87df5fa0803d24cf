#include "embedding/tiered/row_log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/hash.h"
#include "embedding/tiered/row_log_internal.h"

enum { WRITE_PAGES = 1024, MAX_FILES_KEPT_OPEN = 1 << 16, MIN_OPEN_FILES = 8, KEPT_FILES = 4 };

static atomic_int n_logs; /* of this process */

static int default_open_file_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return MIN_OPEN_FILES;
    uint64_t half = limit.rlim_cur / 2;
    return half > MAX_FILES_KEPT_OPEN ? MAX_FILES_KEPT_OPEN : (int)half;
}

int rk_row_log_max_open_files(const rk_row_log *log) {
    if (log->options.open_files) return log->options.open_files;
    int share = log->most_open / atomic_load_explicit(&n_logs, memory_order_relaxed);
    return share < MIN_OPEN_FILES ? MIN_OPEN_FILES : share;
}

static void set_default_options(rk_row_log_options *o) {
    if (!o->file_pages) o->file_pages = RK_FILE_PAGES;
    if (!o->write_pages) o->write_pages = WRITE_PAGES;
}

rk_status rk_row_log_set_record_bytes(rk_row_log *log, uint32_t record_bytes) {
    rk_row_log_options *o = &log->options;
    o->record_bytes = record_bytes;
    RK_FAIL_IF(o->file_pages > RK_FILE_PAGES, RK_INVALID_ARGUMENT, "files of %u pages; they have %d at most",
               o->file_pages, RK_FILE_PAGES);
    RK_FAIL_IF(record_bytes < sizeof(uint64_t) || record_bytes > o->file_pages * (uint64_t)RK_PAGE_ROOM,
               RK_INVALID_ARGUMENT, "rows of %u bytes on a disk; they have 8 to %llu", record_bytes,
               (unsigned long long)o->file_pages * RK_PAGE_ROOM);
    log->shape = rk_page_shape_for_record(o->table, record_bytes);
    uint32_t unit = log->shape.unit_pages,
             pages = o->write_pages < o->file_pages ? o->write_pages : o->file_pages;
    log->buffer_pages = pages < unit ? unit : pages / unit * unit;
    return RK_OK;
}

static rk_status set_options(rk_row_log *log, const rk_row_log_options *given) {
    rk_row_log_options *o = &log->options;
    *o = *given;
    set_default_options(o);
    if (o->directory || o->record_bytes) RK_TRY(rk_row_log_set_record_bytes(log, o->record_bytes));
    log->most_open = default_open_file_limit();
    log->direct = !o->buffered;
    log->next_file = o->first_file;
    RK_FAIL_IF(o->max_bytes && o->max_bytes < KEPT_FILES * rk_row_log_file_bytes(log), RK_CONFIG,
               "storage.max_bytes: %llu is too little; at least %llu, four files",
               (unsigned long long)o->max_bytes,
               (unsigned long long)(KEPT_FILES * rk_row_log_file_bytes(log)));
    return RK_OK;
}

rk_status rk_row_log_allocate(const rk_row_log_options *options, rk_row_log **out) {
    rk_row_log *log;
    RK_TRY(rk_alloc(1, sizeof *log, &log));
    pthread_mutex_init(&log->mutex, NULL);
    atomic_fetch_add_explicit(&n_logs, 1, memory_order_relaxed);
    rk_status status = set_options(log, options);
    if (status == RK_OK)
        *out = log;
    else
        rk_row_log_free(log);
    return status;
}

uint32_t rk_row_log_record_bytes(const rk_row_log *log) {
    return log->shape.record_bytes;
}

void rk_row_log_free(rk_row_log *log) {
    if (!log) return;
    rk_worker_pool_free(log->writer);
    for (size_t i = 0; i < log->n_files; i++)
        if (log->files[i].descriptor >= 0) close(log->files[i].descriptor);
    rk_directory_lock_free(log->lock);
    rk_pages_free(log->buffer, (size_t)log->buffer_pages * RK_PAGE_BYTES);
    rk_pages_free(log->leaving, (size_t)log->buffer_pages * RK_PAGE_BYTES);
    pthread_mutex_destroy(&log->mutex);
    atomic_fetch_sub_explicit(&n_logs, 1, memory_order_relaxed);
    RK_FREE_ALL(log->files, log->directory, log);
}

rk_status rk_row_log_open_directory(rk_row_log *log) {
    RK_TRY(rk_strdup(log->options.directory, &log->directory));
    RK_TRY(rk_pages_alloc((size_t)log->buffer_pages * RK_PAGE_BYTES, &log->buffer));
    RK_TRY(rk_pages_alloc((size_t)log->buffer_pages * RK_PAGE_BYTES, &log->leaving));
    RK_TRY(rk_directory_lock_acquire(log->directory, &log->lock));
    return rk_row_files_remove_all(log->directory);
}

rk_status rk_row_log_create(const rk_row_log_options *options, rk_row_log **out) {
    rk_row_log *log;
    RK_TRY(rk_row_log_allocate(options, &log));
    rk_status status = rk_row_log_open_directory(log);
    if (status == RK_OK)
        *out = log;
    else
        rk_row_log_free(log);
    return status;
}

static rk_row_file *last_file(const rk_row_log *log) {
    return &log->files[log->n_files - 1];
}

/* The unit that records are put into has those that it will have. */
static void finish_unit(rk_row_log *log) {
    const rk_row_file *file = last_file(log);
    uint8_t *unit = log->buffer + (size_t)log->n_buffered * RK_PAGE_BYTES;
    for (uint32_t part = 0; part < log->shape.unit_pages; part++) {
        rk_page_at at = {file->number, rk_row_log_first_buffered_page(log) + log->n_buffered + part, part};
        rk_page_seal(&log->shape, at, log->n_in_unit, log->step, unit + (size_t)part * RK_PAGE_BYTES);
    }
    log->n_buffered += log->shape.unit_pages;
    log->n_in_unit = 0;
}

static rk_status write_pages(const rk_row_log *log) {
    const rk_row_file *file = &log->written_to;
    uint64_t begin = (uint64_t)file->n_pages * RK_PAGE_BYTES;
    size_t n_bytes = (size_t)log->n_leaving * RK_PAGE_BYTES, n = 0;
    while (n < n_bytes) {
        ssize_t written = pwrite(file->descriptor, log->leaving + n, n_bytes - n, (off_t)(begin + n));
        if (written < 0 && errno == EINTR) continue;
        if (written >= RK_PAGE_BYTES) {
            n += (size_t)written / RK_PAGE_BYTES * RK_PAGE_BYTES;
            continue;
        }
        char reason[96];
        snprintf(reason, sizeof reason, "could not write it: %s",
                 written < 0 ? strerror(errno) : "the disk took a part of it only");
        return rk_row_file_error(log, file->number, file->n_pages + (uint32_t)(n / RK_PAGE_BYTES), RK_IO,
                                 reason);
    }
    return RK_OK;
}

/* The file stays pinned until the write was waited for. What fails is written again by who waits, whose error
 * it then is. */
static void write_full_buffer(void *context, size_t task) {
    (void)task;
    rk_row_log *log = context;
    log->is_written = write_pages(log) == RK_OK;
}

/* Waits for the write that is under way. Readers find its pages in memory until then. */
static rk_status wait_for_write(rk_row_log *log) {
    if (!log->n_leaving) return RK_OK;
    rk_row_file *file = last_file(log);
    rk_worker_pool_wait_for_task(log->writer, 0);
    if (!log->is_written) RK_TRY(write_pages(log));
    for (uint32_t i = 0; i < log->n_leaving; i++) {
        uint32_t crc = rk_page_crc(log->leaving + (size_t)i * RK_PAGE_BYTES);
        file->digest = rk_crc32c(file->digest, &crc, sizeof crc);
    }
    log->n_written_bytes += (uint64_t)log->n_leaving * RK_PAGE_BYTES;
    pthread_mutex_lock(&log->mutex);
    file->n_pages += log->n_leaving;
    log->n_leaving = 0;
    pthread_mutex_unlock(&log->mutex);
    return RK_OK;
}

/* Hands the buffer to the writer. */
static rk_status start_write(rk_row_log *log) {
    enum { THREADS = 2 /* the writer, and who waits for it */ };
    RK_TRY(wait_for_write(log));
    if (!log->n_buffered) return RK_OK;
    if (!log->writer) RK_TRY(rk_worker_pool_create(THREADS, 1, write_full_buffer, log, &log->writer));
    pthread_mutex_lock(&log->mutex);
    uint8_t *written = log->leaving;
    log->leaving = log->buffer;
    log->buffer = written;
    log->n_leaving = log->n_buffered;
    log->n_buffered = 0;
    log->written_to = *last_file(log);
    pthread_mutex_unlock(&log->mutex);
    rk_worker_pool_start_task(log->writer, 0);
    return RK_OK;
}

rk_status rk_row_log_seal(rk_row_log *log) {
    if (!log->is_writing) return RK_OK;
    rk_row_file *file = last_file(log);
    if (log->n_in_unit) finish_unit(log);
    RK_TRY(start_write(log));
    RK_TRY(wait_for_write(log));
    if (file->n_pages == 0) return RK_OK;        /* nothing was put into it so far */
    if (file->n_pages < log->options.file_pages) /* gives back what was kept for it */
        (void)!ftruncate(file->descriptor, (off_t)file->n_pages * RK_PAGE_BYTES);
    pthread_mutex_lock(&log->mutex);
    rk_row_file_unpin(file);
    log->is_writing = false;
    log->may_compact = true;
    pthread_mutex_unlock(&log->mutex);
    return RK_OK;
}

/* A unit that takes one more record. */
static rk_status make_room_for_record(rk_row_log *log) {
    const rk_page_shape *shape = &log->shape;
    if (log->n_in_unit == shape->unit_records) finish_unit(log);
    if (log->is_writing && log->n_in_unit == 0) {
        uint32_t unit = shape->unit_pages;
        if (rk_row_log_first_buffered_page(log) + log->n_buffered + unit > log->options.file_pages)
            RK_TRY(rk_row_log_seal(log));
        else if (log->n_buffered + unit > log->buffer_pages)
            RK_TRY(start_write(log));
    }
    return log->is_writing ? RK_OK : rk_row_file_create(log);
}

rk_status rk_row_log_append_records(rk_row_log *log, uint64_t step, size_t n, const void *records,
                                    uint64_t *places) {
    const rk_page_shape *shape = &log->shape;
    RK_FAIL_IF(log->only_read, RK_INVALID_ARGUMENT, "'%s' is only read", log->directory);
    RK_FAIL_IF(step < log->step, RK_INVALID_ARGUMENT, "'%s': step %llu after step %llu", log->directory,
               (unsigned long long)step, (unsigned long long)log->step);
    log->step = step;
    for (size_t i = 0; i < n; i++) {
        RK_TRY(make_room_for_record(log));
        rk_row_file *file = last_file(log);
        rk_unit_write_record(shape, log->buffer + (size_t)log->n_buffered * RK_PAGE_BYTES, log->n_in_unit,
                             (const uint8_t *)records + i * shape->record_bytes);
        places[i] = rk_place_make(file->number, rk_row_log_first_buffered_page(log) + log->n_buffered,
                                  log->n_in_unit);
        log->n_in_unit++;
        file->n_records++;
    }
    for (size_t i = 0; i < n; i++) rk_row_log_find_file(log, rk_place_file(places[i]))->n_live++;
    return RK_OK;
}

void rk_row_log_drop_records(rk_row_log *log, size_t n, const uint64_t *places) {
    for (size_t i = 0; i < n; i++) {
        rk_row_file *file = rk_row_log_find_file(log, rk_place_file(places[i]));
        file->n_live--;
        rk_row_file_note_dropped_record(log, file);
    }
}

rk_status rk_row_log_sync(rk_row_log *log) {
    RK_TRY(rk_row_log_seal(log));
    for (size_t i = 0; i < log->n_files - log->is_writing; i++) RK_TRY(rk_row_file_sync(log, &log->files[i]));
    return RK_OK;
}

rk_row_log_counts rk_row_log_read_counts(const rk_row_log *log) {
    rk_row_log_counts counts = {.n_files = log->n_files,
                                .n_bytes = rk_row_log_bytes(log),
                                .n_written_bytes = log->n_written_bytes,
                                .n_moved = log->n_moved};
    for (size_t i = 0; i < log->n_files; i++) {
        counts.n_records += log->files[i].n_records;
        counts.n_live += log->files[i].n_live;
    }
    return counts;
}
