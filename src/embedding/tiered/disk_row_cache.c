#include "embedding/tiered/disk_row_cache.h"

#include <string.h>
#include <unistd.h>

#include "base/integers.h"
#include "base/memory.h"
#include "embedding/tiered/row_log_internal.h"

#define NOWHERE UINT64_MAX
#define PENDING RK_TIER_NOT_IN_MEMORY /* the batch at hand has it among those that are missing */
enum { APPENDED_AT_ONCE = 1024 };

/* A place's mark: its row was used again since the hand came by; it has a row; the batch that used it last.
 */
#define USED_AGAIN ((uint32_t)1 << 31)
#define TAKEN      ((uint32_t)1 << 30)
#define BATCH      (TAKEN - 1)

static rk_status reserve_cached_rows(rk_disk_row_cache *t, int64_t n) {
    RK_TRY(rk_realloc((size_t)n, sizeof *t->keys, &t->keys));
    RK_TRY(rk_realloc((size_t)n, sizeof *t->on_disk, &t->on_disk));
    RK_TRY(rk_realloc((size_t)n, sizeof *t->marks, &t->marks));
    return RK_OK;
}

/* Shared rows are at their places, which never leave: they have no mark. */
static void place_shared_rows(rk_disk_row_cache *t) {
    for (int64_t row = 0; row < t->table->n_shared; row++) {
        t->keys[row] = rk_dynamic_key_of_row(t->table, row);
        t->on_disk[row] = NOWHERE;
        t->marks[row] = 0;
    }
    t->n_used = t->table->n_shared;
}

static rk_status init_cache(rk_disk_row_cache *t, int64_t n_places) {
    RK_TRY(reserve_cached_rows(t, n_places));
    t->n_places = n_places;
    place_shared_rows(t);
    RK_TRY(rk_disk_row_cache_create_background(t));
    RK_TRY(rk_row_log_create(&t->options, &t->log));
    return rk_row_log_reader_create(t->log, 0, &t->reader);
}

rk_status rk_disk_row_cache_create(rk_dynamic_table *table, const char *directory, uint32_t number,
                                   uint64_t max_bytes, int64_t n_places, const rk_cached_array *arrays,
                                   size_t n_arrays, rk_disk_row_cache **out) {
    rk_disk_row_cache *t;
    RK_TRY(rk_alloc(1, sizeof *t, &t));
    t->table = table;
    t->record_bytes = sizeof(int64_t);
    t->n_arrays = n_arrays;
    for (size_t i = 0; i < n_arrays; i++) {
        t->arrays[i] = arrays[i];
        t->record_bytes += arrays[i].row_bytes;
    }
    t->record_bits = rk_page_shape_for_record(number, (uint32_t)t->record_bytes).record_bits;
    t->options = (rk_row_log_options){
        .table = number, .record_bytes = (uint32_t)t->record_bytes, .max_bytes = max_bytes};
    rk_status status = rk_strdup(directory, &t->directory);
    t->options.directory = t->directory;
    if (status == RK_OK) status = init_cache(t, n_places);
    if (status == RK_OK)
        *out = t;
    else
        rk_disk_row_cache_free(t);
    return status;
}

/* Its files are nobody's: a run that goes on does so from a checkpoint. */
static void close_log(rk_disk_row_cache *t) {
    rk_disk_row_cache_finish_background(t);
    t->ahead.n = 0; /* which the next log may have other records at */
    t->compact_failed = false;
    if (t->log) (void)rk_row_files_remove_all(t->directory);
    rk_row_log_reader_free(t->reader);
    rk_row_log_free(t->log);
    t->reader = NULL;
    t->log = NULL;
}

rk_status rk_disk_row_cache_remove_files(const char *directory) {
    rk_directory_lock *lock;
    rk_status status = rk_directory_lock_acquire(directory, &lock);
    if (status != RK_OK) return status == RK_BUSY ? RK_OK : status;
    status = rk_row_files_remove_all(directory);
    rk_directory_lock_free(lock);
    (void)rmdir(directory); /* which fails where somebody else begins there */
    return status;
}

void rk_disk_row_cache_free(rk_disk_row_cache *t) {
    if (!t) return;
    close_log(t);
    rk_disk_row_cache_free_background(t);
    RK_FREE_ALL(t->directory, t->keys, t->on_disk, t->marks, t->missing, t->missing_places, t->stored,
                t->leaving, t->records, t);
}

static bool is_used_by_batch(const rk_disk_row_cache *t, int64_t place) {
    return (((uint32_t)t->batch - t->marks[place]) & BATCH) == 0;
}

static void mark_place_used(rk_disk_row_cache *t, int64_t place, uint32_t again) {
    t->marks[place] = TAKEN | again | ((uint32_t)t->batch & BATCH);
}

static void drop_record_on_disk(rk_disk_row_cache *t, int64_t place) {
    if (t->on_disk[place] == NOWHERE) return;
    rk_row_log_drop_records(t->log, 1, &t->on_disk[place]);
    t->on_disk[place] = NOWHERE;
}

static void release_place(rk_disk_row_cache *t, int64_t place) {
    t->marks[place] = 0;
    t->keys[place] = t->first_free;
    t->first_free = place;
    t->n_free++;
}

static int64_t allocate_place(rk_disk_row_cache *t) {
    if (!t->n_free) return t->n_used++;
    int64_t place = t->first_free;
    t->first_free = t->keys[place];
    t->n_free--;
    return place;
}

static void drop_row(rk_disk_row_cache *t, int64_t row) {
    uint64_t where = rk_dynamic_read_where(t->table, row);
    if (rk_disk_row_cache_is_in_memory(where)) {
        drop_record_on_disk(t, (int64_t)where);
        release_place(t, (int64_t)where);
    } else if (where) {
        uint64_t place = rk_disk_row_cache_log_place(t, where);
        rk_row_log_drop_records(t->log, 1, &place);
    }
    rk_dynamic_write_where(t->table, row, 0);
}

void rk_disk_row_cache_drop_evicted(rk_disk_row_cache *t) {
    for (size_t g = 0; g < t->table->n_groups; g++)
        for (size_t i = 0; i < t->table->groups[g].n_evicted; i++)
            drop_row(t, t->table->groups[g].evicted[i]);
}

static rk_status add_missing_row(rk_disk_row_cache *t, int64_t row) {
    size_t n = (size_t)t->n_missing;
    RK_TRY(rk_reserve_one_more(&t->missing, n, &t->missing_capacity, sizeof *t->missing));
    RK_TRY(
        rk_reserve_one_more(&t->missing_places, n, &t->missing_places_capacity, sizeof *t->missing_places));
    t->missing[n] = row;
    t->missing_places[n] = rk_dynamic_read_where(t->table, row);
    rk_dynamic_write_where(t->table, row, PENDING);
    t->n_missing++;
    return RK_OK;
}

static rk_status find_missing_rows(rk_disk_row_cache *t, const rk_key_uses *uses, int32_t n_uses) {
    for (int32_t u = 0; u < n_uses; u++)
        for (int64_t i = 0; i < uses[u].n; i++) {
            int64_t row = uses[u].rows[i];
            if (row < t->table->n_shared) continue;
            uint64_t where = rk_dynamic_read_where(t->table, row);
            if (!rk_disk_row_cache_is_in_memory(where)) {
                if (where != PENDING) RK_TRY(add_missing_row(t, row));
            } else if (!is_used_by_batch(t, (int64_t)where)) {
                mark_place_used(t, (int64_t)where, USED_AGAIN);
            }
        }
    return RK_OK;
}

static void swap_missing_rows(rk_disk_row_cache *t, int64_t a, int64_t b) {
    int64_t row = t->missing[a];
    uint64_t place = t->missing_places[a];
    t->missing[a] = t->missing[b];
    t->missing_places[a] = t->missing_places[b];
    t->missing[b] = row;
    t->missing_places[b] = place;
}

/* Rows on the disk first; their places there without the mark. */
static void sort_stored_rows_first(rk_disk_row_cache *t) {
    for (int64_t i = 0; i < t->n_missing; i++) {
        if (!t->missing_places[i]) continue;
        t->missing_places[i] = rk_disk_row_cache_log_place(t, t->missing_places[i]);
        swap_missing_rows(t, i, t->n_stored++);
    }
}

/* Rows of the batch, or of one before it whose update may be still to come, stay. */
static bool is_place_pinned(const rk_disk_row_cache *t, int64_t place) {
    return (((uint32_t)t->batch - t->marks[place]) & BATCH) < t->n_pinned;
}

static bool advance_clock_hand(rk_disk_row_cache *t) {
    t->hand = t->hand + 1 < t->n_used ? t->hand + 1 : t->table->n_shared;
    uint32_t mark = t->marks[t->hand];
    if (!mark || is_place_pinned(t, t->hand)) return false;
    t->marks[t->hand] &= ~USED_AGAIN;
    return !(mark & USED_AGAIN);
}

/* Places of rows that leave, so many of them; what is found counts as used, so nothing is found twice. */
static rk_status choose_evicted_places(rk_disk_row_cache *t, int64_t n, int64_t *n_found) {
    RK_TRY(rk_reserve(&t->leaving, &t->leaving_capacity, (size_t)n, sizeof *t->leaving));
    *n_found = 0;
    for (int64_t tries = 2 * t->n_used; tries > 0 && *n_found < n && t->n_used > t->table->n_shared; tries--)
        if (advance_clock_hand(t)) {
            mark_place_used(t, t->hand, 0);
            t->leaving[(*n_found)++] = t->hand;
        }
    return RK_OK;
}

static void pack_record(const rk_disk_row_cache *t, int64_t place, uint8_t *to) {
    memcpy(to, &t->keys[place], sizeof *t->keys);
    to += sizeof *t->keys;
    for (size_t i = 0; i < t->n_arrays; to += t->arrays[i++].row_bytes)
        memcpy(to, (const uint8_t *)*t->arrays[i].data + (size_t)place * t->arrays[i].row_bytes,
               t->arrays[i].row_bytes);
}

static void unpack_record(const rk_disk_row_cache *t, int64_t place, const uint8_t *from) {
    from += sizeof *t->keys;
    for (size_t i = 0; i < t->n_arrays; from += t->arrays[i++].row_bytes)
        memcpy((uint8_t *)*t->arrays[i].data + (size_t)place * t->arrays[i].row_bytes, from,
               t->arrays[i].row_bytes);
}

static rk_status reserve_records(rk_disk_row_cache *t, int64_t n) {
    return rk_reserve(&t->records, &t->records_capacity, (size_t)n * t->record_bytes, 1);
}

/* The log has the rows at these places [n] as well. */
static rk_status write_rows_to_log(rk_disk_row_cache *t, const int64_t *places, size_t n) {
    uint64_t to[APPENDED_AT_ONCE];
    for (size_t i = 0; i < n; i++) pack_record(t, places[i], t->records + i * t->record_bytes);
    RK_TRY(rk_row_log_append_records(t->log, (uint64_t)t->table->n_batches, n, t->records, to));
    for (size_t i = 0; i < n; i++) t->on_disk[places[i]] = to[i];
    return RK_OK;
}

/* Of these places, those that the log does not have. */
static rk_status write_changed_rows_to_log(rk_disk_row_cache *t, const int64_t *places, int64_t n) {
    int64_t changed[APPENDED_AT_ONCE];
    size_t n_changed = 0;
    RK_TRY(reserve_records(t, APPENDED_AT_ONCE));
    for (int64_t i = 0; i < n; i++) {
        if (t->on_disk[places[i]] == NOWHERE) changed[n_changed++] = places[i];
        if (n_changed < APPENDED_AT_ONCE && i < n - 1) continue;
        RK_TRY(write_rows_to_log(t, changed, n_changed));
        n_changed = 0;
    }
    return RK_OK;
}

/* Places for all that is missing, of rows that then leave: they are on the disk, but not gone yet. */
static rk_status make_room_for_missing(rk_disk_row_cache *t, const rk_disk_row_cache_calls *calls,
                                       int64_t *n_leaving) {
    int64_t wanted = t->n_missing - t->n_free - (t->n_places - t->n_used);
    *n_leaving = 0;
    if (wanted <= 0) return RK_OK;
    RK_TRY(choose_evicted_places(t, wanted, n_leaving));
    if (*n_leaving < wanted) {
        int64_t n = t->n_places + (wanted - *n_leaving) + t->n_places / 4;
        RK_TRY(reserve_cached_rows(t, n));
        RK_TRY(calls->grow(calls->context, n));
        t->n_places = n;
    }
    return write_changed_rows_to_log(t, t->leaving, *n_leaving);
}

/* What was read ahead stands behind what is still to be read, n_to_read. */
static int64_t sort_prefetched_rows_last(rk_disk_row_cache *t) {
    int64_t n_to_read = t->n_stored;
    for (int64_t i = 0; i < n_to_read;) {
        const uint8_t *record = rk_disk_row_cache_prefetched_record(t, t->missing_places[i]);
        if (!record) {
            i++;
            continue;
        }
        swap_missing_rows(t, i, --n_to_read);
        t->stored[n_to_read] = record;
    }
    return n_to_read;
}

static rk_status check_keys_of_records(const rk_disk_row_cache *t) {
    for (int64_t i = 0; i < t->n_stored; i++) {
        int64_t key = rk_dynamic_key_of_row(t->table, t->missing[i]);
        RK_FAIL_IF(rk_load_u64(t->stored[i]) != (uint64_t)key, RK_BAD_DATA,
                   "'%s': file %llu, page %u: another key than %lld", t->options.directory,
                   (unsigned long long)rk_place_file(t->missing_places[i]),
                   rk_place_page(t->missing_places[i]), (long long)key);
    }
    return RK_OK;
}

static rk_status read_missing_rows(rk_disk_row_cache *t) {
    RK_TRY(rk_reserve(&t->stored, &t->stored_capacity, (size_t)t->n_stored, sizeof *t->stored));
    int64_t n = t->n_read = sort_prefetched_rows_last(t);
    RK_TRY(reserve_records(t, n));
    RK_TRY(rk_row_log_reader_read_records(t->reader, (size_t)n, t->missing_places, t->records));
    for (int64_t i = 0; i < n; i++) t->stored[i] = t->records + (size_t)i * t->record_bytes;
    return check_keys_of_records(t);
}

static void evict_rows(rk_disk_row_cache *t, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t place = t->leaving[i];
        rk_disk_row_cache_set_log_place(t, rk_dynamic_find_row(t->table, t->keys[place]), t->on_disk[place]);
        release_place(t, place);
    }
}

static void insert_missing_row(rk_disk_row_cache *t, int64_t number, const rk_disk_row_cache_calls *calls) {
    int64_t row = t->missing[number], place = allocate_place(t);
    bool is_stored = number < t->n_stored;
    t->keys[place] = rk_dynamic_key_of_row(t->table, row);
    rk_dynamic_write_where(t->table, row, (uint64_t)place);
    t->on_disk[place] = is_stored ? t->missing_places[number] : NOWHERE;
    mark_place_used(t, place, 0);
    if (is_stored)
        unpack_record(t, place, t->stored[number]);
    else
        calls->init(calls->context, place);
}

static rk_status load_missing_rows(rk_disk_row_cache *t, const rk_key_uses *uses, int32_t n_uses,
                                   const rk_disk_row_cache_calls *calls) {
    int64_t n_leaving;
    RK_TRY(find_missing_rows(t, uses, n_uses));
    sort_stored_rows_first(t);
    RK_TRY(make_room_for_missing(t, calls, &n_leaving));
    RK_TRY(read_missing_rows(t));
    evict_rows(t, n_leaving);
    for (int64_t i = 0; i < t->n_missing; i++) insert_missing_row(t, i, calls);
    return RK_OK;
}

/* Rows that were missing are where they were. */
static void undo_load(rk_disk_row_cache *t) {
    for (int64_t i = 0; i < t->n_missing; i++)
        if (i < t->n_stored)
            rk_disk_row_cache_set_log_place(t, t->missing[i], t->missing_places[i]);
        else
            rk_dynamic_write_where(t->table, t->missing[i], t->missing_places[i]);
}

static void begin_next_batch(rk_disk_row_cache *t, bool is_training) {
    t->batch++;
    if (!is_training) t->last_peek = t->batch;
    int64_t n = is_training ? rk_min_i64(t->table->config.n_pinned + 1, t->batch - t->last_peek) : 1;
    t->n_pinned = (uint32_t)rk_min_i64(n, BATCH);
}

rk_status rk_disk_row_cache_load_batch(rk_disk_row_cache *t, const rk_key_uses *uses, int32_t n_uses,
                                       bool is_training, const rk_disk_row_cache_calls *calls) {
    rk_disk_row_cache_finish_background(t);
    if (is_training && (t->compact_failed || rk_row_log_is_short(t->log)))
        RK_TRY(rk_disk_row_cache_compact(t));
    begin_next_batch(t, is_training);
    t->n_missing = t->n_stored = 0;
    rk_status status = load_missing_rows(t, uses, n_uses, calls);
    if (status != RK_OK) {
        undo_load(t);
        return status;
    }
    for (int32_t u = 0; u < n_uses; u++)
        for (int64_t i = 0; i < uses[u].n; i++) {
            int64_t place = rk_disk_row_cache_place_of_row(t, uses[u].rows[i]);
            uses[u].rows[i] = place;
            if (is_training) drop_record_on_disk(t, place);
        }
    if (is_training) rk_disk_row_cache_start_background(t);
    return RK_OK;
}

rk_status rk_disk_row_cache_save(rk_disk_row_cache *t, const char *directory) {
    rk_disk_row_cache_finish_background(t);
    int64_t places[APPENDED_AT_ONCE], n = 0;
    for (int64_t place = t->table->n_shared; place < t->n_used; place++) {
        if (t->marks[place]) places[n++] = place;
        if (n < APPENDED_AT_ONCE && place + 1 < t->n_used) continue;
        RK_TRY(write_changed_rows_to_log(t, places, n));
        n = 0;
    }
    return rk_row_log_link_files(t->log, directory);
}

/* Of a key's records the last is the one. */
static rk_status note_newest_record(void *context, uint64_t place, const void *record) {
    rk_disk_row_cache *t = context;
    int64_t row = rk_disk_row_cache_row_of_record(t, record);
    uint64_t where = row ? rk_dynamic_read_where(t->table, row) : 0,
             before = where ? rk_disk_row_cache_log_place(t, where) : place;
    if (!row || where) rk_row_log_drop_records(t->log, 1, &before);
    if (row) rk_disk_row_cache_set_log_place(t, row, place);
    return RK_OK;
}

/* No row is anywhere; the log is the caller's to make. */
static void drop_all_rows(rk_disk_row_cache *t) {
    close_log(t);
    for (int64_t row = 0; (row = rk_dynamic_next_disk_row(t->table, row)); row++)
        rk_dynamic_write_where(t->table, row, 0);
    t->hand = t->first_free = t->n_free = 0;
    place_shared_rows(t);
}

static rk_status check_all_rows_found(const rk_disk_row_cache *t, const char *directory) {
    for (int64_t row = 0; (row = rk_dynamic_next_disk_row(t->table, row)); row++)
        RK_FAIL_IF(!rk_dynamic_read_where(t->table, row), RK_BAD_DATA, "'%s': the row of key %lld is missing",
                   directory, (long long)rk_dynamic_key_of_row(t->table, row));
    return RK_OK;
}

rk_status rk_disk_row_cache_restore(rk_disk_row_cache *t, const char *directory) {
    drop_all_rows(t);
    RK_TRY(rk_row_log_restore(&t->options, directory, &t->log));
    RK_TRY(rk_row_log_reader_create(t->log, 0, &t->reader));
    RK_TRY(rk_row_log_scan(t->log, note_newest_record, t));
    return check_all_rows_found(t, directory);
}

rk_status rk_disk_row_cache_append_records(rk_disk_row_cache *t, int64_t n, const void *records) {
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *record = (const uint8_t *)records + (size_t)i * t->record_bytes;
        int64_t row = rk_disk_row_cache_row_of_record(t, record);
        uint64_t to;
        if (!row) continue;
        RK_TRY(rk_row_log_append_records(t->log, (uint64_t)t->table->n_batches, 1, record, &to));
        rk_disk_row_cache_set_log_place(t, row, to);
    }
    return RK_OK;
}

/* Where a key's newest record is in another log. */
static rk_status note_newest_record_in_other_log(void *context, uint64_t place, const void *record) {
    rk_disk_row_cache *t = context;
    int64_t row = rk_disk_row_cache_row_of_record(t, record);
    if (row) rk_disk_row_cache_set_log_place(t, row, place);
    return RK_OK;
}

static rk_status copy_newest_record(void *context, uint64_t place, const void *record) {
    rk_disk_row_cache *t = context;
    int64_t row = rk_disk_row_cache_row_of_record(t, record);
    return row && rk_disk_row_cache_is_at(t, row, place) ? rk_disk_row_cache_append_records(t, 1, record)
                                                         : RK_OK;
}

static rk_status copy_newest_records_of_log(rk_disk_row_cache *t, const char *directory) {
    rk_row_log *log;
    const rk_row_log_options options = {.table = t->options.table, .record_bytes = t->options.record_bytes};
    RK_TRY(rk_row_log_restore(&options, directory, &log));
    rk_status status = rk_row_log_scan(log, note_newest_record_in_other_log, t);
    if (status == RK_OK) status = rk_row_log_scan(log, copy_newest_record, t);
    rk_row_log_free(log);
    return status;
}

rk_status rk_disk_row_cache_restore_from_parts(rk_disk_row_cache *t, const rk_text_list *directories) {
    drop_all_rows(t);
    RK_TRY(rk_row_log_create(&t->options, &t->log));
    RK_TRY(rk_row_log_reader_create(t->log, 0, &t->reader));
    for (size_t i = 0; i < directories->n; i++) RK_TRY(copy_newest_records_of_log(t, directories->texts[i]));
    return check_all_rows_found(t, directories->n ? directories->texts[0] : t->options.directory);
}
