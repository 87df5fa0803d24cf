/* From keys to rows. Finding a key reads a line of its bucket and then what is known of the row's key, each
 * of which is mostly not in the caches. So keys wait in a queue, and each step takes them some keys after the
 * step before it, which fetches what the step reads. A key that is not in the line where it belongs waits
 * again, for the next one. */
#include <string.h>

#include "embedding/dynamic/dynamic_table.h"

enum {
    AHEAD = 48,                                 /* keys that a step is ahead of the next one */
    CHECKED_AT_ONCE = 64,                       /* keys, whether they are recent */
    QUEUE_SIZE = 256,                           /* a power of two */
    MOST_QUEUED = QUEUE_SIZE - CHECKED_AT_ONCE, /* 2 AHEAD, and those that wait again */
    KEYS_A_LINE = 8,                            /* of a cache */
    COUNTED_AHEAD = 48                          /* rows */
};

/* Keys of a feature, and how many have been through each step; key i is at i % QUEUE_SIZE. */
typedef struct key_queue {
    int64_t keys[QUEUE_SIZE];
    int64_t uses[QUEUE_SIZE]; /* which of the feature's uses each is */
    uint64_t hashes[QUEUE_SIZE];
    const rk_index_line *lines[QUEUE_SIZE]; /* of a table whose rows are all in memory */
    int64_t rows[QUEUE_SIZE];
    uint32_t n_added, n_located, n_guessed, n_taken;
} key_queue;

static void locate_keys_in_memory(const rk_dynamic_table *t, key_queue *q, uint32_t end) {
    static const rk_index_line no_line;
    const rk_key_bucket *buckets = t->buckets;
    uint64_t n_buckets = (uint64_t)t->config.n_buckets;
    for (uint32_t i = q->n_located; i != end; i++) {
        uint64_t hash = rk_key_hash(q->keys[i % QUEUE_SIZE]);
        const rk_key_bucket *bucket = &buckets[rk_hash_bucket(hash, n_buckets)];
        const rk_index_line *line = bucket->lines ? rk_key_bucket_first_line(bucket, hash) : &no_line;
        __builtin_prefetch(line, 0, 2);
        q->hashes[i % QUEUE_SIZE] = hash;
        q->lines[i % QUEUE_SIZE] = line;
    }
}

/* Lower bits of 32 hashes, and when their rows were used last: two lines of a cache each. */
static void prefetch_disk_keys(const rk_disk_keys *bucket, uint64_t hash) {
    const char *block = rk_disk_keys_first_block(bucket, hash);
    for (int line = 0; line < 4; line++) __builtin_prefetch(block + 64 * line);
}

static void locate_keys(const rk_dynamic_table *t, key_queue *q) {
    uint32_t end = q->n_added;
    if (!t->disk_keys) locate_keys_in_memory(t, q, end);
    for (uint32_t i = q->n_located; i != end && t->disk_keys; i++) {
        uint64_t hash = q->hashes[i % QUEUE_SIZE] = rk_key_hash(q->keys[i % QUEUE_SIZE]);
        uint32_t bucket = rk_dynamic_bucket_of_hash(&t->config, hash);
        if (t->buckets[bucket].n) prefetch_disk_keys(&t->disk_keys[bucket], hash);
    }
    q->n_located = end;
}

/* In place of the row of a key that is in the queue again. */
enum { WAITS_AGAIN = -1 };

/* A key that is not in its line, but may be in the next one, goes to the end of the queue while there is
 * room. */
static int64_t wait_for_next_line(const rk_dynamic_table *t, key_queue *q, uint32_t i) {
    uint64_t hash = q->hashes[i % QUEUE_SIZE];
    const rk_key_bucket *bucket = &t->buckets[rk_dynamic_bucket_of_hash(&t->config, hash)];
    if (q->n_added - q->n_taken >= MOST_QUEUED) return rk_key_bucket_guess_row(bucket, hash);
    const rk_index_line *line = rk_key_bucket_next_line(bucket, q->lines[i % QUEUE_SIZE]);
    __builtin_prefetch(line, 0, 2);
    uint32_t last = q->n_added++ % QUEUE_SIZE;
    q->n_located = q->n_added;
    q->keys[last] = q->keys[i % QUEUE_SIZE];
    q->uses[last] = q->uses[i % QUEUE_SIZE];
    q->hashes[last] = hash;
    q->lines[last] = line;
    return WAITS_AGAIN;
}

/* Fetches what is known of the rows that it may be, of which the first one is the guess. */
static inline int64_t guess_row_in_memory(const rk_dynamic_table *t, key_queue *q, uint32_t i,
                                          const rk_key_info *info) {
    const rk_index_line *line = q->lines[i % QUEUE_SIZE];
    unsigned matches = rk_line_match_tag(line, rk_key_tag_of_hash(q->hashes[i % QUEUE_SIZE]));
    if (!matches) return line->is_passed ? wait_for_next_line(t, q, i) : 0;
    for (unsigned left = matches; left; left &= left - 1)
        __builtin_prefetch(&info[rk_line_read_row(line, rk_lowest_place(left))], 0, 2);
    return rk_line_read_row(line, rk_lowest_place(matches));
}

static void guess_rows_in_memory(const rk_dynamic_table *t, key_queue *q, uint32_t end) {
    const rk_key_info *info = t->info;
    for (uint32_t i = q->n_guessed; i != end; i++)
        q->rows[i % QUEUE_SIZE] = guess_row_in_memory(t, q, i, info);
}

/* The number of a step's last key, so many behind the last one of the step before it. */
static uint32_t end_of_step(uint32_t done_before, uint32_t done, uint32_t ahead) {
    return done_before - done > ahead ? done_before - ahead : done;
}

/* Of rows in memory these are guesses: another key may have the same tag. */
static void guess_rows(const rk_dynamic_table *t, key_queue *q, uint32_t ahead) {
    uint32_t end = end_of_step(q->n_located, q->n_guessed, ahead);
    if (!t->disk_keys) guess_rows_in_memory(t, q, end);
    for (uint32_t i = q->n_guessed; i != end && t->disk_keys; i++) {
        uint64_t hash = q->hashes[i % QUEUE_SIZE];
        q->rows[i % QUEUE_SIZE] =
            rk_dynamic_find_disk_row(t, rk_dynamic_bucket_of_hash(&t->config, hash), hash);
    }
    q->n_guessed = end;
}

/* info: of a table whose rows are all in memory; or NULL. */
static inline int64_t confirm_row(const rk_dynamic_table *t, const rk_key_info *info, int64_t key,
                                  int64_t row) {
    return row > 0 && info && info[row].key != key ? rk_dynamic_find_row(t, key) : row;
}

/* Keys go on to the next steps, those that are not `ahead` of others. Returns how many were guessed that may
 * be taken. */
static uint32_t advance_queue(const rk_dynamic_table *t, key_queue *q, uint32_t ahead) {
    locate_keys(t, q);
    do guess_rows(t, q, ahead);
    while (!ahead && q->n_guessed != q->n_located);
    return end_of_step(q->n_guessed, q->n_taken, ahead);
}

int64_t rk_dynamic_find_row(const rk_dynamic_table *t, int64_t key) {
    uint64_t hash = rk_key_hash(key);
    uint32_t bucket = rk_dynamic_bucket_of_hash(&t->config, hash);
    return t->disk_keys ? rk_dynamic_find_disk_row(t, bucket, hash)
                        : rk_key_bucket_find(&t->buckets[bucket], t->info, key);
}

/* Returns how many uses share a row. */
static int64_t write_found_rows(const rk_dynamic_table *t, const rk_key_uses *uses, key_queue *q,
                                uint32_t ahead) {
    const rk_key_info *info = t->disk_keys ? NULL : t->info;
    int64_t n_missing = 0;
    uint32_t end = advance_queue(t, q, ahead);
    for (uint32_t i = q->n_taken; i != end; i++) {
        int64_t key = q->keys[i % QUEUE_SIZE], row = confirm_row(t, info, key, q->rows[i % QUEUE_SIZE]);
        int64_t use = q->uses[i % QUEUE_SIZE];
        if (row == WAITS_AGAIN) continue;
        if (!row) n_missing += uses->uses ? uses->uses[use] : 1;
        uses->rows[use] = row ? row : rk_dynamic_shared_row(t, key);
    }
    q->n_taken = end;
    return n_missing;
}

int64_t rk_dynamic_find_rows_of_uses(const rk_dynamic_table *t, const rk_key_uses *uses) {
    key_queue q;
    q.n_added = q.n_located = q.n_guessed = q.n_taken = 0;
    int64_t n_missing = 0;
    for (int64_t i = 0; i < uses->n; i++) {
        q.keys[q.n_added % QUEUE_SIZE] = uses->keys[i];
        q.uses[q.n_added++ % QUEUE_SIZE] = i;
        if (q.n_added % CHECKED_AT_ONCE == 0) n_missing += write_found_rows(t, uses, &q, AHEAD);
    }
    return n_missing + write_found_rows(t, uses, &q, 0);
}

void rk_dynamic_find_rows_and_count(rk_dynamic_table *t, const rk_key_uses *uses) {
    int64_t n_missing = rk_dynamic_find_rows_of_uses(t, uses);
    if (n_missing) atomic_fetch_add_explicit(&t->n_missing, n_missing, memory_order_relaxed);
}

void rk_dynamic_find_rows(rk_dynamic_table *t, const int64_t *keys, int64_t n, int64_t *rows) {
    rk_dynamic_find_rows_and_count(t, &(rk_key_uses){.keys = keys, .rows = rows, .n = n});
}

/* A chunk on its way. Uses of keys that were found a short while ago are counted where these are. */
typedef struct search {
    rk_dynamic_table *table;
    rk_key_chunk *chunk;
    rk_found_row *found; /* from 1 on */
    rk_absent_use *absent;
    rk_recent_key *recent;
    int recent_shift;
    key_queue queue;
} search;

/* Row 0 of the chunk takes uses of keys that are not known yet. */
static rk_found_row *found_rows_of_chunk(const rk_dynamic_table *t, const rk_key_chunk *chunk) {
    return t->found + chunk->first + chunk->number;
}

/* Its upper recent_bits say where a key is kept. It takes less time than rk_key_hash. */
static inline uint64_t recent_hash(int64_t key) {
    return (uint64_t)key * 0xD6E8FEB86659FD93u;
}

static void note_absent_use(search *s, const rk_key_uses *uses, uint32_t first_use, uint32_t i) {
    int64_t use = s->queue.uses[i];
    uses->rows[use] = rk_dynamic_shared_row(s->table, s->queue.keys[i]);
    s->absent[s->chunk->n_absent++] = (rk_absent_use){s->queue.hashes[i], s->queue.keys[i], first_use + use,
                                                      uses->uses ? uses->uses[use] : 1};
}

/* Rows that are found are marked as used by this batch, so that they stay. Other chunks may do the same.
 * first_use: the batch's number of the feature's first use. */
static void resolve_queued_keys(search *s, const rk_key_uses *uses, uint32_t first_use, uint32_t ahead) {
    const rk_dynamic_table *t = s->table;
    key_queue *q = &s->queue;
    rk_key_info *info = t->disk_keys ? NULL : t->info;
    rk_found_row *found = s->found;
    rk_recent_key *recents = s->recent;
    uint32_t n_found = s->chunk->n_found, end = advance_queue(t, q, ahead);
    int32_t now = rk_dynamic_current_batch(t);
    int shift = s->recent_shift;
    for (uint32_t i = q->n_taken; i != end; i++) {
        int64_t key = q->keys[i % QUEUE_SIZE], row = confirm_row(t, info, key, q->rows[i % QUEUE_SIZE]);
        if (row <= 0) {
            if (!row) note_absent_use(s, uses, first_use, i % QUEUE_SIZE);
            continue;
        }
        int64_t use = q->uses[i % QUEUE_SIZE];
        int32_t *last_batch = info ? &info[row].last_batch : rk_dynamic_last_batch(t, row);
        uses->rows[use] = row;
        found[++n_found] = (rk_found_row){row, __atomic_load_n(last_batch, __ATOMIC_RELAXED),
                                          uses->uses ? uses->uses[use] : 1};
        __atomic_store_n(last_batch, now, __ATOMIC_RELAXED);
        recents[recent_hash(key) >> shift] = (rk_recent_key){key, n_found};
    }
    s->chunk->n_found = n_found;
    q->n_taken = end;
}

/* Counts uses i .. i+n-1 of a feature where their keys are known, and writes their rows; the others join the
 * queue. Nothing branches on whether a key is known, which no processor could foresee. What is searched for
 * in between keeps a processor from fetching the keys and rows after these by itself. */
static inline void resolve_recent_keys(search *s, const rk_key_uses *uses, int64_t i, int n,
                                       const uint32_t *counts) {
    const int64_t *keys = uses->keys + i;
    int64_t *rows = uses->rows + i; /* may be where the keys are */
    rk_found_row *none = s->found;
    const rk_recent_key *recents = s->recent;
    key_queue *q = &s->queue;
    uint32_t n_added = q->n_added;
    int shift = s->recent_shift;
    for (int k = 0; k < CHECKED_AT_ONCE && k < uses->n - i - n; k += KEYS_A_LINE) {
        __builtin_prefetch(keys + n + k);
        __builtin_prefetch(rows + n + k, 1);
    }
    for (int k = 0; k < n; k++) {
        int64_t key = keys[k];
        const rk_recent_key *recent = &recents[recent_hash(key) >> shift];
        rk_found_row *found = none + (recent->found & -(uint32_t)(recent->key == key));
        found->uses = counts ? rk_add_uses_saturating(found->uses, counts[i + k]) : found->uses + 1;
        rows[k] = found->row;
        q->keys[n_added % QUEUE_SIZE] = key;
        q->uses[n_added % QUEUE_SIZE] = i + k;
        n_added += found == none;
    }
    q->n_added = n_added;
}

/* Uses first .. last-1 of a feature. */
static void find_rows_of_feature(search *s, const rk_key_uses *uses, int64_t first, int64_t last,
                                 uint32_t first_use) {
    for (int64_t i = first; i < last; i += CHECKED_AT_ONCE) {
        int n = last - i < CHECKED_AT_ONCE ? (int)(last - i) : CHECKED_AT_ONCE;
        if (uses->uses)
            resolve_recent_keys(s, uses, i, n, uses->uses);
        else
            resolve_recent_keys(s, uses, i, n, NULL);
        resolve_queued_keys(s, uses, first_use, AHEAD);
    }
    resolve_queued_keys(s, uses, first_use, 0);
}

/* Uses of a group together. */
static void sort_absent_uses_by_group(const rk_dynamic_table *t, rk_key_chunk *chunk) {
    const rk_absent_use *absent = t->absent + chunk->first;
    rk_absent_use *dealt = t->dealt + chunk->first;
    uint32_t next[RK_MAX_KEY_GROUPS] = {0}, at = 0;
    for (uint32_t i = 0; i < chunk->n_absent; i++) next[rk_dynamic_group_of_hash(t, absent[i].hash)]++;
    for (size_t g = 0; g < t->n_groups; g++) {
        uint32_t n = next[g];
        next[g] = at;
        at += n;
        chunk->absent_ends[g] = at;
    }
    for (uint32_t i = 0; i < chunk->n_absent; i++)
        dealt[next[rk_dynamic_group_of_hash(t, absent[i].hash)]++] = absent[i];
}

/* A row may be found several times, in several chunks: none of them knows all its uses. */
static uint64_t add_shares_of_rows_that_pass(const rk_dynamic_table *t, const rk_key_chunk *chunk) {
    const rk_found_row *found = found_rows_of_chunk(t, chunk);
    uint64_t shares = 0;
    for (uint32_t i = 1; i <= chunk->n_found; i++)
        shares += rk_dynamic_share_of_passing(t, found[i].row, found[i].uses);
    return shares;
}

void rk_dynamic_find_rows_of_chunk(rk_dynamic_table *t, size_t number) {
    rk_key_chunk *chunk = &t->chunks[number];
    search s = {.table = t,
                .chunk = chunk,
                .found = found_rows_of_chunk(t, chunk),
                .absent = t->absent + chunk->first,
                .recent = t->recent + ((size_t)chunk->number << t->recent_bits),
                .recent_shift = 64 - t->recent_bits};
    s.found[0] = (rk_found_row){0};
    memset(s.recent, 0, sizeof *s.recent << t->recent_bits);
    for (uint32_t at = chunk->first; at < chunk->last;) {
        rk_dynamic_use use = rk_dynamic_locate_use(t, at);
        int64_t n = use.uses->n - use.number, left = chunk->last - at;
        if (n > left) n = left;
        find_rows_of_feature(&s, use.uses, use.number, use.number + n, at - (uint32_t)use.number);
        at += (uint32_t)n;
    }
    if (chunk->n_absent) sort_absent_uses_by_group(t, chunk);
    if (t->disk_keys) chunk->over_shares = add_shares_of_rows_that_pass(t, chunk);
}

static void add_uses_atomically(const rk_dynamic_table *t, int32_t *count, uint32_t uses) {
    int32_t before = __atomic_load_n(count, __ATOMIC_RELAXED), after;
    do {
        after = (int32_t)rk_add_uses_saturating((uint32_t)before, uses);
        if (t->n_chunks == 1) {
            *count = after;
            return;
        }
    } while (!__atomic_compare_exchange_n(count, &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

void rk_dynamic_count_uses_of_chunk(rk_dynamic_table *t, size_t number) {
    const rk_key_chunk *chunk = &t->chunks[number];
    const rk_found_row *found = found_rows_of_chunk(t, chunk);
    for (uint32_t i = 1; i <= chunk->n_found; i++) {
        if (i + COUNTED_AHEAD <= chunk->n_found)
            __builtin_prefetch(rk_dynamic_last_batch(t, found[i + COUNTED_AHEAD].row), 1);
        if (t->disk_keys)
            rk_dynamic_add_to_disk_row(t, found[i].row, found[i].uses, t->n_chunks > 1);
        else
            add_uses_atomically(t, &t->info[found[i].row].count, found[i].uses);
    }
}

/* A row that was found twice was marked already when it was found again. */
void rk_dynamic_cancel_batch(rk_dynamic_table *t) {
    int32_t now = rk_dynamic_current_batch(t);
    for (size_t c = 0; c < t->n_chunks; c++) {
        const rk_found_row *found = found_rows_of_chunk(t, &t->chunks[c]);
        for (uint32_t i = 1; i <= t->chunks[c].n_found; i++)
            if (found[i].last_batch != now) *rk_dynamic_last_batch(t, found[i].row) = found[i].last_batch;
    }
    t->n_chunks = 0;
}
