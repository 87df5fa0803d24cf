/* Rows of a table that a checkpoint has in row logs, read by the numbers that their keys have in it, many at
 * once: memory holds 8 bytes a row, and 24 while they are looked for. Thread rule: one thread at a time. */
#ifndef RK_TRAIN_CHECKPOINT_ROWS_ON_DISK_H
#define RK_TRAIN_CHECKPOINT_ROWS_ON_DISK_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct rk_rows_on_disk rk_rows_on_disk;

/* directory: the checkpoint's folder of logs, of which those of the table are read once. keys [n]: row i is
 * that of key i. record_bytes: the key and all values behind it. Errors: RK_BAD_DATA, where a key is there
 * twice or has no record, or a page is damaged; RK_NOT_FOUND. */
rk_status rk_rows_on_disk_open(const char *directory, const char *table, uint32_t record_bytes,
                               const int64_t *keys, int64_t n, rk_rows_on_disk **out);
void rk_rows_on_disk_close(rk_rows_on_disk *rows);
/* Of these rows' records, the `width` bytes from `first` on: out [n, width]. */
rk_status rk_rows_on_disk_read(rk_rows_on_disk *rows, const int64_t *numbers, int64_t n, size_t first,
                               size_t width, void *out);

#endif
