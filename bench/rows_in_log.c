/* The row log and, from its files, io_uring alone. */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/integers.h"
#include "embedding/tiered/row_log.h"
#include "rows_on_disk.h"
#include "workload.h"

struct disk_rows {
    rk_row_log *log;
    rk_row_log_reader *reader;
    size_t n_keys, record_bytes;
    uint64_t *places, *news; /* [n_keys]; of a batch */
    size_t news_capacity;
    uint64_t step;
};

enum { NOWHERE = 0xFF };

static disk_rows *open_log(const char *folder, size_t n_keys, size_t record_bytes, size_t depth) {
    disk_rows *r = calloc(1, sizeof *r);
    rk_row_log_options options = {.directory = folder, .table = 1, .record_bytes = (uint32_t)record_bytes};
    check(rk_row_log_create(&options, &r->log));
    check(rk_row_log_reader_create(r->log, depth, &r->reader));
    if (!rk_row_log_reader_has_uring(r->reader)) fprintf(stderr, "rows are read by threads here\n");
    r->n_keys = n_keys;
    r->record_bytes = record_bytes;
    r->places = malloc(n_keys * sizeof *r->places);
    memset(r->places, NOWHERE, n_keys * sizeof *r->places);
    return r;
}

static bool is_record_live(void *context, uint64_t place, const void *record) {
    return ((const disk_rows *)context)->places[rk_load_u64(record)] == place;
}

static void update_moved_record(void *context, const void *record, uint64_t from, uint64_t to) {
    (void)from;
    ((disk_rows *)context)->places[rk_load_u64(record)] = to;
}

static void put_records(disk_rows *r, size_t n, const uint64_t *keys, const uint8_t *records) {
    if (r->news_capacity < n) r->news = realloc(r->news, (r->news_capacity = n) * sizeof *r->news);
    check(rk_row_log_append_records(r->log, ++r->step, n, records, r->news));
    for (size_t i = 0; i < n; i++) {
        if (r->places[keys[i]] != UINT64_MAX) rk_row_log_drop_records(r->log, 1, &r->places[keys[i]]);
        r->places[keys[i]] = r->news[i];
    }
    check(rk_row_log_compact(r->log, &(rk_row_mover){r, is_record_live, update_moved_record}));
}

static void finish_loading(disk_rows *r) {
    check(rk_row_log_sync(r->log));
}

static void get_records(disk_rows *r, size_t n, const uint64_t *keys, uint8_t *records) {
    if (r->news_capacity < n) r->news = realloc(r->news, (r->news_capacity = n) * sizeof *r->news);
    for (size_t i = 0; i < n; i++) r->news[i] = r->places[keys[i]];
    check(rk_row_log_reader_read_records(r->reader, n, r->news, records));
}

static double written_bytes(const disk_rows *r) {
    return (double)rk_row_log_read_counts(r->log).n_written_bytes;
}

static void close_log(disk_rows *r) {
    rk_row_log_reader_free(r->reader);
    rk_row_log_free(r->log);
    free(r->places);
    free(r->news);
    free(r);
}

const disk_rows_ops rows_in_log = {"row log",   open_log,      put_records, finish_loading,
                                   get_records, written_bytes, close_log};

const uint64_t *places_of_log(const disk_rows *r) {
    return r->places;
}

enum { MOST_FILES = 1 << 16 };

static int open_log_file(const char *folder, uint64_t file, int *descriptors) {
    char path[700];
    if (file >= MOST_FILES) die("too many files");
    if (descriptors[file]) return descriptors[file];
    snprintf(path, sizeof path, "%s/rows-%08llx.log", folder, (unsigned long long)file);
    descriptors[file] = open(path, O_RDONLY | O_DIRECT);
    if (descriptors[file] < 0) die("could not open %s", path);
    return descriptors[file];
}

double read_by_uring_alone(const char *folder, size_t n, const uint64_t *places, size_t depth) {
    struct io_uring ring;
    int *descriptors = calloc(MOST_FILES, sizeof *descriptors);
    uint8_t *buffers = aligned_alloc(RK_PAGE_BYTES, depth * RK_PAGE_BYTES);
    if (io_uring_queue_init((unsigned)depth, &ring, IORING_SETUP_COOP_TASKRUN) != 0) die("no io_uring");
    for (size_t i = 0; i < n; i++) open_log_file(folder, rk_place_file(places[i]), descriptors);
    memset(buffers, 0, depth * RK_PAGE_BYTES);
    double begin = seconds_now();
    size_t n_begun = 0, n_done = 0;
    while (n_done < n) {
        while (n_begun < n && n_begun - n_done < depth) {
            struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
            uint64_t place = places[n_begun];
            /* Buffers are shared by reads that are under way: nobody looks at what comes. */
            io_uring_prep_read(sqe, descriptors[rk_place_file(place)],
                               buffers + n_begun++ % depth * RK_PAGE_BYTES, RK_PAGE_BYTES,
                               (uint64_t)rk_place_page(place) * RK_PAGE_BYTES);
        }
        struct io_uring_cqe *cqe;
        if (io_uring_submit_and_wait(&ring, 1) < 0) die("io_uring failed");
        for (; io_uring_peek_cqe(&ring, &cqe) == 0; n_done++) {
            if (cqe->res != RK_PAGE_BYTES) die("a read failed: %s", strerror(-cqe->res));
            io_uring_cqe_seen(&ring, cqe);
        }
    }
    double seconds = seconds_now() - begin;
    io_uring_queue_exit(&ring);
    for (size_t i = 0; i < MOST_FILES; i++)
        if (descriptors[i]) close(descriptors[i]);
    free(descriptors);
    free(buffers);
    return seconds;
}
