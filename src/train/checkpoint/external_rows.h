/* rows.json of an export whose tables' rows are elsewhere: where, and which version of them. */
#ifndef RK_TRAIN_CHECKPOINT_EXTERNAL_ROWS_H
#define RK_TRAIN_CHECKPOINT_EXTERNAL_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct rk_external_rows {
    char *url, *version;
} rk_external_rows;

/* How an export's rows are read. */
typedef struct rk_row_reading {
    bool in_memory;       /* those of its files are loaded, and not mapped */
    uint64_t cache_bytes; /* of rows elsewhere */
    double timeout;       /* likewise: seconds that a request waits for its rows */
} rk_row_reading;

rk_status rk_external_rows_write(const char *directory, const char *url, const char *version);
/* Both NULL where the directory has no rows.json. Errors: RK_BAD_DATA, naming the file; RK_UNSUPPORTED, where
 * rows are in a place that this library does not know. */
rk_status rk_external_rows_read(const char *directory, rk_external_rows *out);
void rk_external_rows_release(rk_external_rows *pointer);

#endif
