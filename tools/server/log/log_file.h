/* A TFRecord file that grows, and whose old parts get numbers until they are deleted. Whatever happens, each
 * file ends with a whole record: a write that fails is taken back, and what a killed program left is cut off.
 */
#ifndef RK_SERVER_LOG_FILE_H
#define RK_SERVER_LOG_FILE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

typedef struct rk_log_file {
    const char *path; /* the caller's */
    int lock;         /* the descriptor of ".log.tfrecord.lock" beside "log.tfrecord", or -1 */
    int descriptor;   /* -1: none */
    dev_t device;     /* of the file that is open, */
    ino_t inode;
    uint64_t n_bytes, max_bytes;
    int64_t max_files;   /* with those that were put aside; 0: any number */
    int64_t next_number; /* of the next file that is put aside */
} rk_log_file;

/* Goes on with the file that is there, if it is one. The path stays the caller's. max_files as in
 * rk_log_file: beyond it the files with the least numbers are deleted, now and whenever one is put aside.
 * Errors: RK_NOT_FOUND (its folder), RK_IO, RK_BAD_DATA (it is there and no TFRecord file), RK_BUSY (another
 * program has it, from here to close). Close after a failure too. */
rk_status rk_log_file_open(const char *path, uint64_t max_bytes, int64_t max_files, rk_log_file *out);
/* Whole records, all or none of them. Where they would make the file larger than max_bytes, it is put aside
 * first as "log-000001.tfrecord" beside "log.tfrecord"; where it was moved away, a new one begins. */
rk_status rk_log_file_append(rk_log_file *file, const void *records, size_t n_bytes);
/* All that was written is on the disk. */
void rk_log_file_close(rk_log_file *file);

#endif
