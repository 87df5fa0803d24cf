#ifndef RK_EMBEDDING_TIERED_ROW_LOG_INTERNAL_H
#define RK_EMBEDDING_TIERED_ROW_LOG_INTERNAL_H

#include <pthread.h>

#include "base/file/directory_lock.h"
#include "base/thread/worker_pool.h"
#include "embedding/tiered/row_log.h"

enum { RK_ROW_FILE_NAME_BYTES = 32 };

typedef struct rk_row_file {
    uint64_t number;
    uint32_t n_pages;           /* that are known to be on the disk */
    uint32_t digest;            /* crc32c of their checksums */
    uint64_t n_records, n_live; /* those that wait in the buffer among them */
    int descriptor;             /* -1: closed */
    uint32_t n_pins;            /* reads of it that are under way */
    bool recent;                /* read since the hand came by */
    bool synced;
} rk_row_file;

struct rk_row_log {
    rk_row_log_options options;
    char *directory; /* where its files are */
    rk_directory_lock *lock;
    rk_page_shape shape;
    bool only_read;
    uint32_t buffer_pages;  /* whole units */
    uint8_t *buffer;        /* [buffer_pages] the last pages of the last file, which nobody writes yet */
    uint8_t *leaving;       /* [buffer_pages] those before them, which the writer writes */
    rk_worker_pool *writer; /* one thread, from the first write on */
    uint32_t n_leaving;     /* pages; 0: there is no write under way, and none that failed */
    rk_row_file written_to; /* the last file as it was when the write began */
    bool is_written;        /* the writer's, until it is waited for */
    uint64_t step;
    uint64_t next_file;
    uint64_t n_written_bytes, n_moved;
    uint32_t n_buffered;   /* pages that have all their records, */
    uint32_t n_in_unit;    /* and records of the unit behind them */
    bool is_writing;       /* the last of the files */
    bool is_compacting;    /* into the room that is kept for that */
    bool may_compact;      /* something happened that may give compact work; else it looks at no file */
    bool is_short;         /* of room, when compact looked last */
    bool sync_failed;      /* what the disk has is not known from then on */
    int most_open;         /* half of the files that the process may have open, which its logs share */
    pthread_mutex_t mutex; /* of all below, where readers come: */
    rk_row_file *files;    /* [n_files] by number */
    size_t n_files, files_capacity;
    size_t hand; /* of the files, which to close next */
    int n_open;
    bool direct; /* O_DIRECT, as long as the file system takes it */
};

/* A file's path, into a string that is the caller's. */
rk_status rk_row_file_path(const char *directory, uint64_t number, char **out);
/* In front of the error: the file's path, and the page. */
rk_status rk_row_file_error(const rk_row_log *log, uint64_t number, uint32_t page, rk_status status,
                            const char *reason);

/* The file of that number; NULL: the log has none. */
rk_row_file *rk_row_log_find_file(const rk_row_log *log, uint64_t number);
/* Files that it may have open. */
int rk_row_log_max_open_files(const rk_row_log *log);
/* Under the mutex: the file is open until unpin. */
rk_status rk_row_file_pin(rk_row_log *log, rk_row_file *file);
void rk_row_file_unpin(rk_row_file *file);
/* A new last file, empty. */
rk_status rk_row_file_create(rk_row_log *log);
rk_status rk_row_file_remove(rk_row_log *log, uint64_t number);
/* Removes what a log left in the folder. */
rk_status rk_row_files_remove_all(const char *directory);
rk_status rk_row_file_sync(rk_row_log *log, rk_row_file *file);
/* Bytes of the files, the last one at the length that it may have. */
uint64_t rk_row_log_bytes(const rk_row_log *log);
uint64_t rk_row_log_file_bytes(const rk_row_log *log);

/* A record of the file was dropped: notes whether that gives compact work. */
void rk_row_file_note_dropped_record(rk_row_log *log, const rk_row_file *file);
/* The page of the last file that the buffer begins with. */
static inline uint32_t rk_row_log_first_buffered_page(const rk_row_log *log) {
    return log->files[log->n_files - 1].n_pages + log->n_leaving;
}
/* Writes what waits, and begins a new file next. */
rk_status rk_row_log_seal(rk_row_log *log);
/* The records of a file that is written to no longer. */
rk_status rk_row_file_scan(rk_row_log *log, uint64_t number, rk_row_visit visit, void *context);

/* Records of so many bytes. */
rk_status rk_row_log_set_record_bytes(rk_row_log *log, uint32_t record_bytes);
rk_status rk_row_log_allocate(const rk_row_log_options *options, rk_row_log **out);
/* The folder of the options, locked and without files of a log, and the buffer for what is written there. */
rk_status rk_row_log_open_directory(rk_row_log *log);

#endif
