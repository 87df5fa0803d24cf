/* Which keys of a dynamic table have which rows, and who decides that (docs/dynamic_tables.md). The rows
 * themselves are the table's (local/table_storage.h). Keys that have none share the first rows: row 0, or
 * the cold row that a key's hash gives.
 *
 * A training batch: begin_batch cuts its uses into chunks; find_rows_of_chunk finds the rows of their keys,
 * and marks them as used by the batch; decide_admissions finds out, a group of buckets at a time, what is to
 * become of keys without rows; reserve_new_rows takes the memory that this needs, and the caller makes room
 * for the rows. If one of these fails, cancel_batch leaves the table as it was. Then count_uses_of_chunk
 * counts uses of the rows that were found, and apply_admissions does what was decided for a group; they
 * cannot fail. Last, end_batch. Any thread may do any chunk or group of any table.
 *
 * What is known of a row, by its number: of a table whose rows are all in memory, `info` has it, and numbers
 * are those of the table's arrays. Of one with rows on a disk, `disk_keys` has it, and a number is that of a
 * bucket and an entry (dynamic_disk_rows.c), which begin_batch may change.
 *
 * Thread rule: find by any number of threads, while nothing else is called. */
#ifndef RK_EMBEDDING_DYNAMIC_DYNAMIC_TABLE_H
#define RK_EMBEDDING_DYNAMIC_DYNAMIC_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/hash.h"
#include "embedding/dynamic_config.h"
#include "embedding/dynamic/disk_keys.h"
#include "embedding/dynamic/key_bucket.h"
#include "embedding/dynamic/key_sketch.h"
#include "embedding/dynamic/stream_clock.h"

/* The keys of a feature in a batch, and their rows, [n]; over ranks, the different ones of a trainer. */
typedef struct rk_key_uses {
    const int64_t *keys;
    int64_t *rows; /* out; may be where the keys are */
    int64_t n;
    const uint32_t *uses; /* how often each is used; NULL: once */
} rk_key_uses;

/* One of a batch's uses: a feature's, and which. */
typedef struct rk_dynamic_use {
    const rk_key_uses *uses;
    int64_t number;
} rk_dynamic_use;

/* A row whose key was found. */
typedef struct rk_found_row {
    int64_t row;
    int32_t last_batch; /* that it had before */
    uint32_t uses;
} rk_found_row;

/* A key that was found a short while ago, and which of the chunk's rows it has; 0: there is no key. */
typedef struct rk_recent_key {
    int64_t key;
    uint32_t found;
} rk_recent_key;
enum { RK_LEAST_RECENT_BITS = 10, RK_MOST_RECENT_BITS = 14 };

/* A use of a key that has no row. */
typedef struct rk_absent_use {
    uint64_t hash;
    int64_t key;
    uint32_t use, uses; /* which of the batch's, and how often the key was used there */
} rk_absent_use;

/* A key without a row that is admitted: uses first .. last-1 of its group's absent ones. */
typedef struct rk_new_key {
    int64_t key, row; /* row 0: refused after all, as its bucket is full */
    uint32_t first, last;
    uint32_t uses, first_use; /* of the batch */
} rk_new_key;

/* A key that is only counted. */
typedef struct rk_counted_key {
    int64_t key;
    uint32_t uses;
} rk_counted_key;

enum { RK_MAX_KEY_GROUPS = 64 };

/* Uses of a batch that follow each other, whose keys are found by one thread. */
typedef struct rk_key_chunk {
    uint32_t number, first, last;
    uint32_t n_found;  /* rows, some of them several times */
    uint32_t n_absent; /* uses; group g's end at absent_ends[g] */
    uint32_t absent_ends[RK_MAX_KEY_GROUPS];
    uint64_t over_shares; /* of rows on a disk (rk_dynamic_share_of_passing) */
} rk_key_chunk;

/* Of some buckets, which are decided on by one thread. */
typedef struct rk_key_group {
    rk_absent_use *absent; /* by hash, then use */
    size_t n_absent, absent_capacity;
    rk_new_key *created;
    rk_counted_key *counted;
    int64_t *evicted;                                           /* rows, those of a bucket together, */
    int64_t *left;                                              /* and, for a bucket's rows, room, */
    uint64_t *ranks;                                            /* and which of those go first */
    size_t n_created, n_admitted, n_counted, n_evicted, n_left; /* n_admitted: those created that get a row */
    size_t created_capacity, counted_capacity, evicted_capacity, left_capacity, ranks_capacity;
    int64_t n_refused;              /* uses */
    int64_t first_free, first_used; /* rows to take: from the table's free ones, and behind those in use */
    int64_t n_free;
} rk_key_group;

typedef struct rk_dynamic_totals {
    int64_t n_admitted, n_evicted; /* keys */
    int64_t n_refused;             /* uses in training that found no row */
} rk_dynamic_totals;

/* Keys that follow each other in a checkpoint: first .. first+n-1 of all, at these places here. */
typedef struct rk_key_range {
    int64_t first, n, at;
} rk_key_range;

/* What has been read of a tensor of keys: the ranges of those that belong here; n_read of `total` were seen.
 */
typedef struct rk_key_ranges {
    rk_key_range *list; /* [n] */
    size_t n, capacity;
    int64_t n_read, total;
} rk_key_ranges;

/* Of a table that is cut into parts: those of the parts before this one, and of all. */
typedef struct rk_key_share {
    int64_t keys_before, n_keys, candidates_before, n_candidates;
    rk_dynamic_totals totals;
} rk_key_share;

typedef struct rk_dynamic_table {
    rk_dynamic_config config;
    int64_t first_bucket, end_bucket; /* those that are here */
    int64_t n_shared;                 /* rows 0 .. n_shared-1 are no key's */
    int64_t first_cold;               /* row 0's number among all cold rows */
    uint64_t stream;                  /* of admission's random numbers */
    rk_key_bucket *buckets;
    rk_index_line *rooms; /* [end_bucket - first_bucket, room_lines] for buckets that are full or nearly so:
                             in huge pages, as a processor finds pages of random lines slowly where they are
                             many. With rows on a disk, or too many of them: NULL */
    uint64_t room_lines;
    uint8_t *sketches;     /* [end_bucket - first_bucket, sketch_bytes]; NULL: keys without a row are counted
                              exactly, if at all */
    int64_t *sketch_loads; /* [end_bucket - first_bucket] */
    uint64_t sketch_width, sketch_bytes;
    rk_key_info *info; /* [n_places]; the key of a shared row is its number in the whole table. With rows on a
                          disk: NULL, but while it is loading, what is read of the keys */
    size_t info_bytes;
    rk_disk_keys *disk_keys; /* [config.n_buckets]; NULL: all rows are in memory */
    rk_disk_key_pool *pool;  /* of disk_keys */
    uint32_t *stale_buckets; /* [n_stale] those of disk_keys that are to be rebuilt */
    atomic_uint n_stale;
    rk_key_bucket counts_over; /* what counts of keys with rows on a disk have beyond UINT16_MAX */
    pthread_mutex_t over_mutex;
    int64_t first_batch; /* follows from n_batches */
    int64_t n_places;    /* rows that there is memory for */
    int64_t n_used;      /* rows that were ever in use, shared ones among them: all before it */
    int64_t n_keys;
    int64_t *free_rows; /* [n_free] of those */
    int64_t n_free;
    size_t free_capacity;
    int64_t n_batches;     /* for training, so far */
    rk_stream_clock clock; /* of tables with a `ttl` */
    rk_dynamic_totals totals;
    atomic_llong n_missing; /* uses that a find had no row for */
    /* A batch on its way. */
    const rk_key_uses *uses; /* [n_uses], a feature each */
    size_t n_uses;
    rk_stream_clock next_clock;
    int64_t expired;                  /* rows whose last batch is this one or before it are past their time */
    int64_t first_scanned, n_scanned; /* buckets whose turn it is by the clock, from the first one on and
                                         round */
    size_t *use_begins;               /* [n_uses + 1] the number of a feature's first use in the batch */
    rk_key_chunk *chunks;             /* [n_chunks] */
    size_t n_chunks;
    rk_found_row *found;   /* a chunk's n_found after one that is none, from first + number on */
    rk_absent_use *absent; /* a chunk's from first on, as its search met them; */
    rk_absent_use *dealt;  /* and by groups */
    rk_recent_key *recent; /* [n_chunks, 1 << recent_bits] */
    int recent_bits;
    size_t use_begins_capacity, chunks_capacity, found_capacity, absent_capacity, dealt_capacity,
        recent_capacity;
    rk_key_group *groups; /* [RK_MAX_KEY_GROUPS], n_groups of them in use */
    size_t n_groups;
    /* What a checkpoint is written from, or being read into. */
    bool is_loading;
    rk_key_ranges loaded, loaded_candidates;
    rk_key_share share; /* of a part, when it was last told */
    int64_t *order;     /* [n_keys] rows, by bucket, then key */
    int64_t *candidate_keys;
    int32_t *candidate_counts;
    int64_t n_candidates;
    size_t order_capacity, candidate_keys_capacity, candidate_counts_capacity;
} rk_dynamic_table;

/* seed, name_hash: as a table has them. */
rk_status rk_dynamic_create(const rk_dynamic_config *config, uint64_t seed, uint64_t name_hash,
                            rk_dynamic_table **out);
void rk_dynamic_free(rk_dynamic_table *table);
/* Memory for keys of so many rows, which is more than there is. With rows on a disk it comes with the keys.
 */
rk_status rk_dynamic_grow_rows(rk_dynamic_table *table, int64_t n_places);

int64_t rk_dynamic_find_row(const rk_dynamic_table *table, int64_t key); /* 0: it has none; not counted */
bool rk_dynamic_has_row(const rk_dynamic_table *table, int64_t key); /* of any key, also of another part */
/* The rows that keys have or share; returns how many uses share one. */
int64_t rk_dynamic_find_rows_of_uses(const rk_dynamic_table *table, const rk_key_uses *uses);
/* The same; uses that share a row are counted. */
void rk_dynamic_find_rows(rk_dynamic_table *table, const int64_t *keys, int64_t n, int64_t *rows);
void rk_dynamic_find_rows_and_count(rk_dynamic_table *table, const rk_key_uses *uses);

/* Any thread may rebuild any stale bucket before a batch begins, which rebuilds those that are left. */
size_t rk_dynamic_count_stale_buckets(const rk_dynamic_table *table);
rk_status rk_dynamic_rebuild_stale_bucket(rk_dynamic_table *table, size_t number);
/* timestamp: the batch's largest, in microseconds, or RK_NO_TIMESTAMP. */
rk_status rk_dynamic_begin_batch(rk_dynamic_table *table, const rk_key_uses *uses, int32_t n_uses,
                                 int64_t timestamp);
void rk_dynamic_find_rows_of_chunk(rk_dynamic_table *table, size_t chunk);
rk_status rk_dynamic_decide_admissions(rk_dynamic_table *table, size_t group);
rk_status rk_dynamic_reserve_new_rows(rk_dynamic_table *table, int64_t *n_places); /* that the batch needs */
void rk_dynamic_cancel_batch(rk_dynamic_table *table);
void rk_dynamic_count_uses_of_chunk(rk_dynamic_table *table, size_t chunk);
void rk_dynamic_apply_admissions(rk_dynamic_table *table, size_t group);
void rk_dynamic_end_batch(rk_dynamic_table *table);

/* Order and candidates as they are now (dynamic_state.c). */
rk_status rk_dynamic_list_keys(rk_dynamic_table *table);
/* Empties the table; then those of the keys that belong here get the next rows, for which there is memory, or
 * the next places of candidates. Their counts are then written to where the state says, and loaded checks
 * them. first, total: as rk_stored_keys has them. RK_BAD_DATA: a key is there twice. */
void rk_dynamic_begin_loading(rk_dynamic_table *table);
int64_t rk_dynamic_count_local_keys(const rk_dynamic_table *table, const int64_t *keys, int64_t n);
rk_status rk_dynamic_load_keys(rk_dynamic_table *table, int64_t first, int64_t total, const int64_t *keys,
                               int64_t n);
rk_status rk_dynamic_load_candidates(rk_dynamic_table *table, int64_t first, int64_t total,
                                     const int64_t *keys, int64_t n);
rk_status rk_dynamic_finish_loading(rk_dynamic_table *table);
int64_t rk_dynamic_count_candidates(const rk_dynamic_table *table);

/* Rows into the order that a checkpoint has them in: by bucket, then key. Keys a and b stand in this order.
 */
void rk_dynamic_sort_by_key(const rk_dynamic_table *table, int64_t *rows, size_t n);
bool rk_dynamic_key_comes_before(const rk_dynamic_table *table, int64_t a, int64_t b);

/* Rows on a disk (dynamic_disk_rows.c): what a row's number stands for, and the rows of all keys, one after
 * the other: the first one from this number on; 0: there is none. `where` is the caller's: 48 bits, 0 of a
 * new row. An evicted row's stays, though a new row may have its number, until the caller has written
 * another. */
typedef struct rk_disk_row {
    rk_disk_keys *bucket;
    uint32_t entry;
} rk_disk_row;
enum { RK_ENTRY_BITS = 31 };
static inline rk_disk_row rk_dynamic_disk_row(const rk_dynamic_table *table, int64_t row) {
    uint64_t number = (uint64_t)(row - table->n_shared);
    return (rk_disk_row){&table->disk_keys[(uint64_t)table->first_bucket + (number >> RK_ENTRY_BITS)],
                         (uint32_t)(number & (((uint64_t)1 << RK_ENTRY_BITS) - 1))};
}
int64_t rk_dynamic_next_disk_row(const rk_dynamic_table *table, int64_t row);
static inline uint64_t rk_dynamic_read_where(const rk_dynamic_table *table, int64_t row) {
    rk_disk_row at = rk_dynamic_disk_row(table, row);
    return rk_disk_keys_read_where(at.bucket, at.entry);
}
static inline void rk_dynamic_write_where(const rk_dynamic_table *table, int64_t row, uint64_t where) {
    rk_disk_row at = rk_dynamic_disk_row(table, row);
    rk_disk_keys_write_where(at.bucket, at.entry, where);
}

/* What is known of a row, wherever it is: its key, when a batch used it last, and its uses. */
int64_t rk_dynamic_key_of_disk_row(const rk_dynamic_table *table, int64_t row);
int32_t rk_dynamic_count_of_disk_row(const rk_dynamic_table *table, int64_t row);
static inline int64_t rk_dynamic_key_of_row(const rk_dynamic_table *table, int64_t row) {
    return table->disk_keys ? rk_dynamic_key_of_disk_row(table, row) : table->info[row].key;
}
static inline int32_t *rk_dynamic_last_batch(const rk_dynamic_table *table, int64_t row) {
    if (!table->disk_keys) return &table->info[row].last_batch;
    rk_disk_row at = rk_dynamic_disk_row(table, row);
    return &rk_disk_keys_block_of(at.bucket, at.entry)->last_batches[at.entry % RK_BLOCK_ENTRIES];
}
static inline int32_t rk_dynamic_count_of_row(const rk_dynamic_table *table, int64_t row) {
    return table->disk_keys ? rk_dynamic_count_of_disk_row(table, row) : table->info[row].count;
}

/* Inside (dynamic_disk_rows.c). A bucket's keys, by their hashes; counts, of any thread once reserve has made
 * room for so many that pass UINT16_MAX. */
rk_status rk_dynamic_create_disk_keys(rk_dynamic_table *table);
void rk_dynamic_free_disk_keys(rk_dynamic_table *table);
rk_status rk_dynamic_reserve_disk_keys(rk_dynamic_table *table, uint32_t bucket, uint32_t n, uint32_t most);
rk_status rk_dynamic_rebuild_stale_buckets(rk_dynamic_table *table);
int64_t rk_dynamic_find_disk_row(const rk_dynamic_table *table, uint32_t bucket, uint64_t hash);
void rk_dynamic_prefetch_new_disk_row(const rk_dynamic_table *table, int64_t key); /* what insert touches */
int64_t rk_dynamic_insert_disk_row(rk_dynamic_table *table, uint32_t bucket, int64_t key, int32_t last_batch);
void rk_dynamic_remove_disk_row(rk_dynamic_table *table, int64_t row);
void rk_dynamic_clear_disk_rows(rk_dynamic_table *table, uint32_t bucket);
void rk_dynamic_list_disk_rows(const rk_dynamic_table *table, uint32_t bucket, int64_t *rows);
rk_status rk_dynamic_reserve_counts_over(rk_dynamic_table *table, uint64_t n_more);
/* Of what a row's count lacks to pass UINT16_MAX, the share that so many uses are, rounded up: all is 2^16.
 * So no more rows pass it than the sum of their uses' shares has times 2^16. */
uint32_t rk_dynamic_share_of_passing(const rk_dynamic_table *table, int64_t row, uint32_t uses);
/* is_shared: other threads may add to the same row. */
void rk_dynamic_add_to_disk_row(rk_dynamic_table *table, int64_t row, uint32_t uses, bool is_shared);

/* Inside: this batch's number, as rk_key_info has it; a use of the batch; the group of a hash. */
static inline int32_t rk_dynamic_current_batch(const rk_dynamic_table *table) {
    return (int32_t)(table->n_batches + 1 - table->first_batch);
}
rk_dynamic_use rk_dynamic_locate_use(const rk_dynamic_table *table, uint32_t number);
size_t rk_dynamic_group_of_hash(const rk_dynamic_table *table, uint64_t hash);
/* At most INT32_MAX, which a is, too. */
static inline uint32_t rk_add_uses_saturating(uint32_t a, uint32_t b) {
    return b > INT32_MAX - a ? INT32_MAX : a + b;
}
/* The bucket of a hash, and of a key, of all of the table's; rows that it may have. */
static inline uint32_t rk_dynamic_bucket_of_hash(const rk_dynamic_config *config, uint64_t hash) {
    return (uint32_t)rk_hash_bucket(hash, (uint64_t)config->n_buckets);
}
static inline uint32_t rk_dynamic_bucket_of_key(const rk_dynamic_config *config, int64_t key) {
    return rk_dynamic_bucket_of_hash(config, rk_key_hash(key));
}
/* The cold row of a hash, of all of the table's. */
static inline int64_t rk_dynamic_cold_row_of_hash(const rk_dynamic_config *config, uint64_t hash) {
    return (int64_t)rk_hash_bucket(hash, (uint64_t)config->n_cold);
}
/* The row that a key shares while it has none. */
static inline int64_t rk_dynamic_shared_row(const rk_dynamic_table *table, int64_t key) {
    return table->config.n_cold
               ? rk_dynamic_cold_row_of_hash(&table->config, rk_key_hash(key)) - table->first_cold
               : 0;
}
static inline rk_key_bucket *rk_dynamic_bucket_with_key(const rk_dynamic_table *table, int64_t key) {
    return &table->buckets[rk_dynamic_bucket_of_key(&table->config, key)];
}
int64_t rk_dynamic_bucket_capacity(const rk_dynamic_table *table, uint32_t bucket);
rk_key_sketch rk_dynamic_sketch_of_bucket(const rk_dynamic_table *table, uint32_t bucket);
rk_status rk_dynamic_reserve_bucket(rk_dynamic_table *table, uint32_t bucket, uint32_t n_rows);
/* Keys without a row that a bucket counts: with more, all counts are lowered until there are no more. */
uint32_t rk_dynamic_most_counted_keys(const rk_dynamic_table *table, uint32_t bucket);
/* The rows of a bucket's keys, in no order, into rows [n]. */
void rk_dynamic_list_rows(const rk_dynamic_table *table, uint32_t bucket, int64_t *rows);
rk_status rk_dynamic_reserve_counts(rk_dynamic_table *table, uint32_t bucket, uint32_t n_counted);
/* What first_batch is after so many batches: 0, and from 2^31 on such that the difference stays below. */
int64_t rk_dynamic_base_batch_number(int64_t n_batches);
/* Whether a row must stay: the batch at hand uses it, or one before it whose update may be still to come. */
static inline bool rk_dynamic_is_pinned(const rk_dynamic_table *table, int64_t row) {
    return *rk_dynamic_last_batch(table, row) >
           table->n_batches - table->first_batch - table->config.n_pinned;
}
/* Rows into the order of less, in place. */
typedef bool (*rk_row_less)(const rk_dynamic_table *table, int64_t a, int64_t b);
static inline bool rk_dynamic_row_has_smaller_key(const rk_dynamic_table *table, int64_t a, int64_t b) {
    return (uint64_t)rk_dynamic_key_of_row(table, a) < (uint64_t)rk_dynamic_key_of_row(table, b);
}
/* So many of the last ones alone, at the end; the others stand before them in any order. */
void rk_dynamic_sort_last_rows(const rk_dynamic_table *table, int64_t *rows, size_t n, size_t n_sorted,
                               rk_row_less less);
void rk_dynamic_sort_rows(const rk_dynamic_table *table, int64_t *rows, size_t n, rk_row_less less);

/* Inside (dynamic_eviction.c): what the clock is when the batch has ended, and so which rows are past their
 * time; the first bucket from this one on whose turn it is with the search for these; which rows a bucket
 * gives up, and that they are given up. */
void rk_dynamic_begin_time_of_batch(rk_dynamic_table *table, int64_t timestamp);
int64_t rk_dynamic_next_bucket_to_scan(const rk_dynamic_table *table, int64_t bucket);
rk_status rk_dynamic_choose_evictions(const rk_dynamic_table *table, rk_key_group *group, uint32_t bucket,
                                      bool has_turn, int64_t n_new);
void rk_dynamic_apply_evictions(rk_dynamic_table *table, rk_key_group *group);

#endif
