/* Room again, where records are live no longer. */
#include <string.h>

#include "base/memory.h"
#include "embedding/tiered/row_log_internal.h"

enum {
    MOVED_BYTES = 1 << 20,
    MERGED_FILES = 8, /* small files, which checkpoints leave, become one where there are so many */
    DEAD_SHARE = 16   /* what makes a file worth its while where room is short: a 16th */
};

/* Live records on their way to the end of the log. */
typedef struct move {
    rk_row_log *log;
    const rk_row_mover *mover;
    uint8_t *records;    /* [n of room, record_bytes] */
    uint64_t *from, *to; /* [room] */
    size_t n, room;
} move;

static rk_status append_moved_records(move *m) {
    size_t record_bytes = m->log->shape.record_bytes;
    RK_TRY(rk_row_log_append_records(m->log, m->log->step, m->n, m->records, m->to));
    rk_row_log_drop_records(m->log, m->n, m->from);
    for (size_t i = 0; i < m->n; i++)
        m->mover->moved(m->mover->context, m->records + i * record_bytes, m->from[i], m->to[i]);
    m->log->n_moved += m->n;
    m->n = 0;
    return RK_OK;
}

static rk_status collect_live_record(void *context, uint64_t place, const void *record) {
    move *m = context;
    size_t record_bytes = m->log->shape.record_bytes;
    if (!m->mover->is_live(m->mover->context, place, record)) return RK_OK;
    memcpy(m->records + m->n * record_bytes, record, record_bytes);
    m->from[m->n++] = place;
    return m->n == m->room ? append_moved_records(m) : RK_OK;
}

/* Memory for them, from the first file on that has any: most calls find none. */
static rk_status reserve_moved_records(move *m) {
    size_t record_bytes = m->log->shape.record_bytes, room = MOVED_BYTES / record_bytes + 1;
    if (m->room) return RK_OK;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(room * record_bytes, m->records), RK_ARRAY(room, m->from),
                        RK_ARRAY(room, m->to)));
    m->room = room;
    return RK_OK;
}

static rk_status move_live_records(move *m, uint64_t number) {
    m->n = 0;
    if (rk_row_log_find_file(m->log, number)->n_live) {
        RK_TRY(reserve_moved_records(m));
        RK_TRY(rk_row_file_scan(m->log, number, collect_live_record, m));
        RK_TRY(append_moved_records(m));
    }
    RK_FAIL_IF(rk_row_log_find_file(m->log, number)->n_live, RK_INTERNAL,
               "'%s': file %llu has rows that nobody knows", m->log->directory, (unsigned long long)number);
    return rk_row_file_remove(m->log, number);
}

static size_t count_sealed_files(const rk_row_log *log) {
    return log->n_files - log->is_writing;
}

/* Whether a's share of live records is below b's. */
static bool has_fewer_live_records(const rk_row_file *a, const rk_row_file *b) {
    return a->n_live * b->n_records < b->n_live * a->n_records;
}

static const rk_row_file *find_emptiest_file(const rk_row_log *log) {
    const rk_row_file *least = NULL;
    for (size_t i = 0; i < count_sealed_files(log); i++)
        if (!least || has_fewer_live_records(&log->files[i], least)) least = &log->files[i];
    return least;
}

bool rk_row_log_is_short(const rk_row_log *log) {
    uint64_t most = log->options.max_bytes;
    return most && rk_row_log_bytes(log) + 3 * rk_row_log_file_bytes(log) > most;
}

static bool is_worth_compacting(const rk_row_file *file, bool is_short) {
    uint64_t dead = file->n_records - file->n_live;
    return file->n_live < dead || (is_short && dead > 0 && dead >= file->n_records / DEAD_SHARE);
}

static rk_status compact_emptiest_files(move *m) {
    const rk_row_file *file;
    while ((file = find_emptiest_file(m->log)) != NULL &&
           is_worth_compacting(file, rk_row_log_is_short(m->log)))
        RK_TRY(move_live_records(m, file->number));
    return RK_OK;
}

/* A file with fewer live records is small. */
static uint64_t small_file_limit(const rk_row_log *log) {
    uint64_t units = log->options.file_pages / log->shape.unit_pages;
    return units * log->shape.unit_records / 2;
}

static bool is_small_file(const rk_row_log *log, const rk_row_file *file) {
    return file->n_live < small_file_limit(log);
}

static rk_status merge_small_files(move *m) {
    size_t n = 0;
    for (size_t i = 0; i < count_sealed_files(m->log); i++) n += is_small_file(m->log, &m->log->files[i]);
    if (n < MERGED_FILES) return RK_OK;
    uint64_t next = m->log->next_file; /* those that are there now */
    for (size_t i = 0; i < count_sealed_files(m->log) && m->log->files[i].number < next;) {
        if (is_small_file(m->log, &m->log->files[i]))
            RK_TRY(move_live_records(m, m->log->files[i].number)); /* and i is the file behind it */
        else
            i++;
    }
    return RK_OK;
}

static rk_status compact_files(move *m) {
    RK_TRY(compact_emptiest_files(m));
    return merge_small_files(m);
}

/* The file that is being written is looked at when it is whole. */
void rk_row_file_note_dropped_record(rk_row_log *log, const rk_row_file *file) {
    if (log->is_writing && file == &log->files[log->n_files - 1]) return;
    if (is_worth_compacting(file, log->is_short) || file->n_live + 1 == small_file_limit(log))
        log->may_compact = true;
}

rk_status rk_row_log_compact(rk_row_log *log, const rk_row_mover *mover) {
    move m = {.log = log, .mover = mover};
    RK_FAIL_IF(log->only_read, RK_INVALID_ARGUMENT, "'%s' is only read", log->directory);
    if (!log->may_compact) return RK_OK;
    log->may_compact = false; /* unless what is moved gives work again */
    log->is_compacting = true;
    rk_status status = compact_files(&m);
    log->is_compacting = false;
    log->is_short = rk_row_log_is_short(log);
    if (status != RK_OK) log->may_compact = true;
    RK_FREE_ALL(m.records, m.from, m.to);
    return status;
}
