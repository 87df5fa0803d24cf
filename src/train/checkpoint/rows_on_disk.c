#include "train/checkpoint/rows_on_disk.h"

#include <stdlib.h>
#include <string.h>

#include "base/integers.h"
#include "base/memory.h"
#include "embedding/local/collection.h"
#include "embedding/tiered/row_log.h"

/* A row's place: in its log, and above that the number of the log. */
#define NOWHERE UINT64_MAX
enum { LOG_SHIFT = 49, MOST_LOGS = 1 << 14, READ_BYTES = 4 << 20 };

struct rk_rows_on_disk {
    uint64_t *places; /* [n] */
    int64_t n;
    size_t record_bytes;
    rk_row_log **logs; /* [n_logs] */
    size_t n_logs;
    rk_row_log_reader *reader; /* of one of them after the other; NULL: there is none */
    /* Of a read: [at_once] */
    int64_t at_once;
    uint64_t *wanted;
    int64_t *positions; /* of those wanted, in what is read */
    uint8_t *records;   /* [at_once, record_bytes] */
};

typedef struct placed_key {
    int64_t key, row;
} placed_key;

/* A log on its way through the keys, [rows.n] ascending. */
typedef struct search {
    rk_rows_on_disk *rows;
    placed_key *keys;
    uint64_t log;
} search;

/* Of a key's records the last is the one. */
static rk_status note_newest_record(void *context, uint64_t place, const void *record) {
    const search *s = context;
    placed_key wanted = {.key = (int64_t)rk_load_u64(record)};
    const placed_key *found =
        s->rows->n ? bsearch(&wanted, s->keys, (size_t)s->rows->n, sizeof wanted, rk_compare_i64) : NULL;
    if (found) s->rows->places[found->row] = s->log << LOG_SHIFT | place;
    return RK_OK;
}

static rk_status sort_placed_keys(const int64_t *keys, int64_t n, placed_key *out) {
    for (int64_t i = 0; i < n; i++) out[i] = (placed_key){keys[i], i};
    if (n) qsort(out, (size_t)n, sizeof *out, rk_compare_i64);
    for (int64_t i = 1; i < n; i++)
        RK_FAIL_IF(out[i].key == out[i - 1].key, RK_BAD_DATA, "the key %lld is there twice",
                   (long long)out[i].key);
    return RK_OK;
}

static rk_status open_row_log(search *s, const char *folder, const rk_row_log_options *options) {
    rk_rows_on_disk *rows = s->rows;
    s->log = rows->n_logs;
    RK_TRY(rk_row_log_restore(options, folder, &rows->logs[rows->n_logs]));
    rows->n_logs++;
    return rk_row_log_scan(rows->logs[s->log], note_newest_record, s);
}

static rk_status open_row_logs(search *s, const char *directory, const char *table) {
    RK_AUTO(rk_text_list_release) rk_text_list folders = {0};
    rk_rows_on_disk *rows = s->rows;
    rk_row_log_options options = {.table = rk_table_row_log_id(table),
                                  .record_bytes = (uint32_t)rows->record_bytes};
    RK_TRY(rk_list_row_folders(directory, table, &folders));
    RK_FAIL_IF(!folders.n, RK_NOT_FOUND, "'%s' has no rows of it", directory);
    RK_FAIL_IF(folders.n > MOST_LOGS, RK_BAD_DATA, "'%s' has %zu parts of it", directory, folders.n);
    RK_TRY(rk_alloc(folders.n, sizeof *rows->logs, &rows->logs));
    for (size_t i = 0; i < folders.n; i++) RK_TRY(open_row_log(s, folders.texts[i], &options));
    return rk_row_log_reader_create(rows->logs[0], 0, &rows->reader);
}

static rk_status open_rows_of_table(rk_rows_on_disk *rows, const char *directory, const char *table,
                                    const int64_t *keys) {
    RK_AUTOFREE placed_key *sorted = NULL;
    size_t n = (size_t)rows->n, at_once;
    rows->at_once = (int64_t)(READ_BYTES / rows->record_bytes + 1);
    at_once = (size_t)rows->at_once;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n, sorted), RK_ARRAY(n, rows->places), RK_ARRAY(at_once, rows->wanted),
                        RK_ARRAY(at_once, rows->positions)));
    RK_TRY(rk_alloc(at_once, rows->record_bytes, &rows->records));
    RK_TRY(sort_placed_keys(keys, rows->n, sorted));
    for (size_t i = 0; i < n; i++) rows->places[i] = NOWHERE;
    search s = {.rows = rows, .keys = sorted};
    RK_TRY(open_row_logs(&s, directory, table));
    for (size_t i = 0; i < n; i++)
        RK_FAIL_IF(rows->places[i] == NOWHERE, RK_BAD_DATA, "'%s': the row of key %lld is missing", directory,
                   (long long)keys[i]);
    return RK_OK;
}

rk_status rk_rows_on_disk_open(const char *directory, const char *table, uint32_t record_bytes,
                               const int64_t *keys, int64_t n, rk_rows_on_disk **out) {
    rk_rows_on_disk *rows;
    RK_TRY(rk_alloc(1, sizeof *rows, &rows));
    rows->n = n;
    rows->record_bytes = record_bytes;
    rk_status status = open_rows_of_table(rows, directory, table, keys);
    if (status == RK_OK) {
        *out = rows;
        return RK_OK;
    }
    rk_rows_on_disk_close(rows);
    return rk_error_context(status, "table '%s'", table);
}

void rk_rows_on_disk_close(rk_rows_on_disk *rows) {
    if (!rows) return;
    rk_row_log_reader_free(rows->reader);
    for (size_t i = 0; i < rows->n_logs; i++) rk_row_log_free(rows->logs[i]);
    RK_FREE_ALL(rows->places, rows->logs, rows->wanted, rows->positions, rows->records, rows);
}

/* Those of the numbers [n] whose rows are in this log. */
static size_t choose_rows_of_log(rk_rows_on_disk *rows, size_t log, const int64_t *numbers, int64_t n) {
    size_t n_wanted = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t place = rows->places[numbers[i]];
        if (place >> LOG_SHIFT != log) continue;
        rows->positions[n_wanted] = i;
        rows->wanted[n_wanted++] = place & (((uint64_t)1 << LOG_SHIFT) - 1);
    }
    return n_wanted;
}

/* Logs may be more than the files that may be open: each closes its own. */
static rk_status read_log(rk_rows_on_disk *rows, size_t log, size_t n_wanted) {
    rk_row_log_reader_set_log(rows->reader, rows->logs[log]);
    rk_status status = rk_row_log_reader_read_records(rows->reader, n_wanted, rows->wanted, rows->records);
    rk_row_log_close_files(rows->logs[log]);
    return status;
}

static rk_status read_block_of_rows(rk_rows_on_disk *rows, const int64_t *numbers, int64_t n, size_t first,
                                    size_t width, uint8_t *out) {
    for (size_t log = 0; log < rows->n_logs; log++) {
        size_t n_wanted = choose_rows_of_log(rows, log, numbers, n);
        if (!n_wanted) continue;
        RK_TRY(read_log(rows, log, n_wanted));
        for (size_t i = 0; i < n_wanted; i++)
            memcpy(out + (size_t)rows->positions[i] * width, rows->records + i * rows->record_bytes + first,
                   width);
    }
    return RK_OK;
}

rk_status rk_rows_on_disk_read(rk_rows_on_disk *rows, const int64_t *numbers, int64_t n, size_t first,
                               size_t width, void *out) {
    for (int64_t done = 0, some; done < n; done += some) {
        some = rk_min_i64(n - done, rows->at_once);
        RK_TRY(read_block_of_rows(rows, numbers + done, some, first, width,
                                  (uint8_t *)out + (size_t)done * width));
    }
    return RK_OK;
}
