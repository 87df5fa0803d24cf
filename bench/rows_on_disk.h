/* What keeps rows on a disk, as bench_rows_on_disk compares it: keys 0 .. n-1, whose records begin with the
 * key. */
#ifndef RK_BENCH_ROWS_ON_DISK_H
#define RK_BENCH_ROWS_ON_DISK_H

#include <stddef.h>
#include <stdint.h>

typedef struct disk_rows disk_rows;
typedef struct disk_rows_ops {
    const char *name;
    disk_rows *(*open)(const char *folder, size_t n_keys, size_t record_bytes, size_t depth);
    void (*put)(disk_rows *rows, size_t n, const uint64_t *keys, const uint8_t *records); /* new or anew */
    void (*loaded)(disk_rows *rows); /* all keys were put once */
    void (*get)(disk_rows *rows, size_t n, const uint64_t *keys, uint8_t *records);
    double (*written_bytes)(const disk_rows *rows); /* to the disk so far; below 0: not known */
    void (*close)(disk_rows *rows);
} disk_rows_ops;

extern const disk_rows_ops rows_in_log, rows_in_rocksdb;
extern const disk_rows_ops rocksdb_alone; /* what rows_in_rocksdb opened; it only gets */

/* Pages at random from the log's files, so many under way, none of them looked at: the seconds of it. */
double read_by_uring_alone(const char *folder, size_t n, const uint64_t *places, size_t depth);
const uint64_t *places_of_log(const disk_rows *rows); /* [n_keys] */

#endif
