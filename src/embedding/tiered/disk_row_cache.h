/* Which rows of a dynamic table are in memory, and where the others are on a disk. Rows in memory have places
 * in the table's arrays, which are smaller than the table. Rows that keys share, the first ones, are always
 * in memory, at places of their own numbers. Rows on the disk are records of a row log: key, row, slots.
 *
 * A batch: begin takes its rows, which become places; what is not in memory is read. Rows that the batch does
 * not use leave the memory for them. A hand goes round the places: what was used again since it came by stays
 * for another round, the rest leaves. Rows of training batches before it whose updates may be still to come
 * (config.n_pinned of them) keep their places; a batch that is not for training begins when all updates are
 * done. After trained, the log has no record of a row that the batch used. Which rows leave and when decides
 * no bit of any row.
 *
 * Beside whatever is done with a batch once it has begun, a thread of the tier's own (disk_row_background.c)
 * compacts the log, and reads rows of the batch to come.
 *
 * Errors leave all rows where they were, but for some that left the memory. Thread rule: one thread. */
#ifndef RK_EMBEDDING_TIERED_DISK_ROW_CACHE_H
#define RK_EMBEDDING_TIERED_DISK_ROW_CACHE_H

#include "base/integers.h"
#include "base/text/text_list.h"
#include "base/thread/worker_pool.h"
#include "embedding/dynamic/unique_keys.h"
#include "embedding/tiered/row_log.h"

/* The table's arrays, which the tier reads and writes. They may move as they grow. */
typedef struct rk_cached_array {
    void *const *data; /* [places, row_bytes] */
    size_t row_bytes;
} rk_cached_array;
/* How many of them; bytes of the tier's own arrays for a place. */
enum { RK_TIER_ARRAYS = 8, RK_TIER_PLACE_BYTES = 20 };
/* Where a row is, in the 48 bits that the table keeps for it: of one in memory, its place; of one on the
 * disk, RK_TIER_ON_DISK and the log's place; 0: it is new. From NOT_IN_MEMORY on it is no place in memory. */
#define RK_TIER_NOT_IN_MEMORY ((uint64_t)1 << 46)
#define RK_TIER_ON_DISK       ((uint64_t)1 << 47)

/* Rows of the batch to come. */
typedef struct rk_row_prefetch {
    rk_key_list keys; /* those of the batch; once they are looked up, their rows */
    uint64_t *places; /* [n] of the log, ascending; */
    uint8_t *records; /* what is there */
    size_t n, places_capacity, records_capacity;
} rk_row_prefetch;

typedef struct rk_disk_row_cache {
    rk_dynamic_table *table;
    rk_cached_array arrays[RK_TIER_ARRAYS];
    size_t n_arrays, record_bytes;
    uint32_t record_bits; /* of a record's number in a page */
    char *directory;
    rk_row_log_options options;
    rk_row_log *log;
    rk_row_log_reader *reader;
    /* [n_places]: */
    int64_t *keys;            /* those of rows.keys; of a free place, the next free one, 0: none */
    uint64_t *on_disk;        /* the log's places of rows that are the same there; else NOWHERE */
    uint32_t *marks;          /* which batch used it last, and more (disk_row_cache.c); 0: it is free */
    int64_t n_places, n_used; /* shared rows' are all used; those of others begin behind them */
    int64_t hand;
    int64_t first_free, n_free;
    int64_t batch;     /* the number of the one at hand */
    int64_t last_peek; /* that of the last one that was not for training */
    uint32_t n_pinned; /* so many batches, the one at hand the last, keep their places */
    /* Of a batch: */
    int64_t *missing;                    /* [n_missing] rows that are not in memory, */
    uint64_t *missing_places;            /* where they are on the disk: those with records first, n_stored */
    const uint8_t **stored;              /* [n_stored] the records */
    int64_t n_missing, n_stored, n_read; /* n_read: of those stored, which nobody had read ahead */
    int64_t *leaving;                    /* places of rows that leave */
    uint8_t *records;
    size_t missing_capacity, missing_places_capacity, stored_capacity, leaving_capacity, records_capacity;
    /* Beside a batch: */
    rk_worker_pool *background;
    bool is_busy;        /* till then nothing else uses the log, and keys and rows stay where they are */
    bool compact_failed; /* the next batch for training tries it again, whose error it then is */
    rk_row_prefetch ahead;
} rk_disk_row_cache;

/* The first places of the arrays are there, more than the table has shared rows; nothing is on the disk. The
 * arrays outlive it. */
rk_status rk_disk_row_cache_create(rk_dynamic_table *table, const char *directory, uint32_t number,
                                   uint64_t max_bytes, int64_t n_places, const rk_cached_array *arrays,
                                   size_t n_arrays, rk_disk_row_cache **out);
void rk_disk_row_cache_free(rk_disk_row_cache *tier);
/* Removes what a tier that is no more has left in its folder. Where one is there, nothing happens. */
rk_status rk_disk_row_cache_remove_files(const char *directory);

static inline bool rk_disk_row_cache_is_in_memory(uint64_t where) {
    return where && where < RK_TIER_NOT_IN_MEMORY;
}
/* Where a row on the disk is, there. */
static inline uint64_t rk_disk_row_cache_log_place(const rk_disk_row_cache *tier, uint64_t where) {
    return rk_place_unpack(where & ~RK_TIER_ON_DISK, tier->record_bits);
}
static inline void rk_disk_row_cache_set_log_place(const rk_disk_row_cache *tier, int64_t row,
                                                   uint64_t place) {
    rk_dynamic_write_where(tier->table, row, RK_TIER_ON_DISK | rk_place_pack(place, tier->record_bits));
}
static inline bool rk_disk_row_cache_is_at(const rk_disk_row_cache *tier, int64_t row, uint64_t place) {
    return rk_dynamic_read_where(tier->table, row) ==
           (RK_TIER_ON_DISK | rk_place_pack(place, tier->record_bits));
}
/* A row's place in memory; -1: it is on the disk, where it may be moved meanwhile. A place's row. */
static inline int64_t rk_disk_row_cache_place_of_row(const rk_disk_row_cache *tier, int64_t row) {
    if (row < tier->table->n_shared) return row;
    uint64_t where = rk_dynamic_read_where(tier->table, row);
    return rk_disk_row_cache_is_in_memory(where) ? (int64_t)where : -1;
}
static inline int64_t rk_disk_row_cache_row_of_place(const rk_disk_row_cache *tier, int64_t place) {
    return place < tier->table->n_shared ? place : rk_dynamic_find_row(tier->table, tier->keys[place]);
}
static inline int64_t rk_disk_row_cache_row_of_record(const rk_disk_row_cache *tier, const void *record) {
    return rk_dynamic_find_row(tier->table, (int64_t)rk_load_u64(record));
}

/* What the last decisions of the table gave and took: evicted rows are nowhere, and created ones new. */
void rk_disk_row_cache_drop_evicted(rk_disk_row_cache *tier);
/* Rows of uses [n] become places; new rows get some, and their first values by init. More places than there
 * are: grow makes room for so many in the arrays first. is_training: the rows will be changed. */
typedef struct rk_disk_row_cache_calls {
    void *context;
    rk_status (*grow)(void *context, int64_t n_places);
    void (*init)(void *context, int64_t place);
} rk_disk_row_cache_calls;
rk_status rk_disk_row_cache_load_batch(rk_disk_row_cache *tier, const rk_key_uses *uses, int32_t n_uses,
                                       bool is_training, const rk_disk_row_cache_calls *calls);

/* Before a batch for training begins, the keys of the one that will most likely begin after it, which the
 * caller adds to the list. Once the first has begun, their rows that are on the disk are read. A batch that
 * does not come costs its reads, nothing else. */
rk_key_list *rk_disk_row_cache_prefetch_keys(rk_disk_row_cache *tier);
/* Waits for what is done beside a batch. Begin, save and load do so, and who changes the table otherwise. */
void rk_disk_row_cache_finish_background(rk_disk_row_cache *tier);

/* Inside (disk_row_background.c). Creates and frees what is needed for it. */
rk_status rk_disk_row_cache_create_background(rk_disk_row_cache *tier);
void rk_disk_row_cache_free_background(rk_disk_row_cache *tier);
void rk_disk_row_cache_start_background(rk_disk_row_cache *tier);
rk_status rk_disk_row_cache_compact(rk_disk_row_cache *tier);
/* The record at a place of the log, if it was read ahead; else NULL. */
const uint8_t *rk_disk_row_cache_prefetched_record(const rk_disk_row_cache *tier, uint64_t place);

/* All rows of keys, in a checkpoint's folder, and from there. */
rk_status rk_disk_row_cache_save(rk_disk_row_cache *tier, const char *directory);
rk_status rk_disk_row_cache_restore(rk_disk_row_cache *tier, const char *directory);
/* All rows of keys, from logs that other parts of the table, or all of it, have left: their newest records go
 * to the end of the tier's own log. */
rk_status rk_disk_row_cache_restore_from_parts(rk_disk_row_cache *tier, const rk_text_list *directories);
/* Rows that are nowhere yet, as records [n]; those of keys without a row are passed over. */
rk_status rk_disk_row_cache_append_records(rk_disk_row_cache *tier, int64_t n, const void *records);

#endif
