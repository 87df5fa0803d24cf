/* Rows that do not fit in memory: records of one length, appended to files in a folder of their own, and read
 * again by their places. docs/formats/row_log.md has the format, what is promised, and what happens after a
 * crash.
 *
 * Who owns what. The log knows files and counts; which key has which place, and which records are live, is
 * the caller's. A record is never changed: a row that changed is appended anew, and its old place dropped.
 *
 * Errors name file and page. After one of append, compact, sync or link the log is as it was, but for records
 * that nobody has a place of: the same call may be tried again. A read that failed has left any bytes in the
 * caller's records: check it before anything is applied.
 *
 * Thread rule: readers, each on a thread of its own, beside one thread that appends; they read places that
 * append has returned and that stay live meanwhile. All else alone. */
#ifndef RK_EMBEDDING_TIERED_ROW_LOG_H
#define RK_EMBEDDING_TIERED_ROW_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "embedding/tiered/row_page.h"
#include "base/error.h"

typedef struct rk_row_log rk_row_log;

#define RK_ROW_LOG_LIST "rows.list" /* of a checkpoint's folder, what else is there */

typedef struct rk_row_log_options {
    const char *directory; /* made if need be; of its own, one log at a time */
    uint32_t table;        /* which; pages and checkpoints of others are refused */
    uint32_t record_bytes; /* the key's 8 bytes first */
    uint64_t max_bytes;    /* of the files in the folder, 4 files at least; 0: no limit */
    /* 0: the defaults. Tests have small files and high numbers. */
    uint32_t file_pages;  /* RK_FILE_PAGES */
    uint32_t write_pages; /* written at once: 1,024, 4 MiB */
    uint64_t first_file;  /* the number of the first file */
    int open_files;       /* at once; a share of half of what the process may have open */
    bool buffered;        /* through the system's cache, not O_DIRECT */
    bool without_uring;   /* reads by threads */
    bool any_table;       /* restore takes that of the checkpoint */
} rk_row_log_options;

/* An empty log: what one before left in the folder is removed, its checkpoints are not. */
rk_status rk_row_log_create(const rk_row_log_options *options, rk_row_log **out);
/* The log as rk_row_log_link_files left it in the folder `from`; what is in options->directory is removed, as
 * in create. RK_NOT_FOUND: `from` is no checkpoint of a log. directory NULL: only read, where it is, and
 * record_bytes may be 0: as many as records have. Before
 * anything else each record is to be visited by rk_row_log_scan. */
rk_status rk_row_log_restore(const rk_row_log_options *options, const char *from, rk_row_log **out);
void rk_row_log_free(rk_row_log *log); /* its files stay */
/* Whether all of it can be read that rk_row_log_link_files left in the folder, whichever table's it is: each
 * length and checksum. */
rk_status rk_row_log_verify(const char *from);
uint32_t rk_row_log_record_bytes(const rk_row_log *log);

/* Each record, in the order in which they were appended: of a key's records the last one is its newest. All
 * are live until dropped, which visit may do. Every length and checksum is checked before a record is shown;
 * an error of visit ends it. */
typedef rk_status (*rk_row_visit)(void *context, uint64_t place, const void *record);
rk_status rk_row_log_scan(rk_row_log *log, rk_row_visit visit, void *context);

/* records [n, record_bytes] at step `step`, which never goes back. places [n] may be read at once. */
rk_status rk_row_log_append_records(rk_row_log *log, uint64_t step, size_t n, const void *records,
                                    uint64_t *places);
/* Records that are live no longer. */
void rk_row_log_drop_records(rk_row_log *log, size_t n, const uint64_t *places);

/* Files of which less than half is live give their live records to the end of the log, and are removed; where
 * max_bytes is near, others too, those with the least first. To be called again and again: it does nothing
 * most of the time. is_live: whether the place is still that of its record; moved: it is at `to` now. */
typedef struct rk_row_mover {
    void *context;
    bool (*is_live)(void *context, uint64_t place, const void *record);
    void (*moved)(void *context, const void *record, uint64_t from, uint64_t to);
} rk_row_mover;
rk_status rk_row_log_compact(rk_row_log *log, const rk_row_mover *mover);
/* Whether max_bytes is near, so that records should be appended only after compact. */
bool rk_row_log_is_short(const rk_row_log *log);

/* All records are on the disk, in files that will not change. */
rk_status rk_row_log_sync(rk_row_log *log);
/* A checkpoint: sync, a hard link of each file in the folder `to`, which exists on the same file system and
 * has none of them, and the list of them. */
rk_status rk_row_log_link_files(rk_row_log *log, const char *to);

typedef struct rk_row_log_counts {
    uint64_t n_files, n_bytes; /* in the folder */
    uint64_t n_records, n_live;
    uint64_t n_written_bytes, n_moved; /* so far, by append and compact; records moved */
} rk_row_log_counts;
rk_row_log_counts rk_row_log_read_counts(const rk_row_log *log);

/* Closes the files that nobody reads or writes; who reads them again opens them. */
void rk_row_log_close_files(rk_row_log *log);

/* Reads records, many at once: at most `depth` reads of the disk are under way (0: 128). Records of one page
 * are read once. */
typedef struct rk_row_log_reader rk_row_log_reader;
rk_status rk_row_log_reader_create(rk_row_log *log, size_t depth, rk_row_log_reader **out);
void rk_row_log_reader_free(rk_row_log_reader *reader); /* before its log */
bool rk_row_log_reader_has_uring(const rk_row_log_reader *reader);
/* From now on it reads another log, whose records have as many bytes. */
void rk_row_log_reader_set_log(rk_row_log_reader *reader, rk_row_log *log);
/* records [n, record_bytes] */
rk_status rk_row_log_reader_read_records(rk_row_log_reader *reader, size_t n, const uint64_t *places,
                                         void *records);

#endif
