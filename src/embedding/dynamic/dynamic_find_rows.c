/* From keys to rows. Finding a key reads a line of its bucket and then what is known of the row's key, each
 * of which is mostly not in the caches. So keys are found in three stages, a few at a time, and what a stage
 * reads is fetched while other keys are in the stages before it. */
#include <string.h>

#include "embedding/dynamic/dynamic_table.h"

enum {
    AT_ONCE = 8, /* keys in a stage */
    N_STAGES = 3,
    CHECKED_AT_ONCE = 64, /* keys, whether they are recent */
    KEYS_A_LINE = 8,      /* of a cache */
    COUNTED_AHEAD = 16    /* rows */
};

typedef struct sought_key {
    int64_t key;
    uint64_t hash;
    const rk_key_bucket *bucket;
    int64_t row, *out; /* the row, and where it is to be written */
    uint32_t use, uses;
} sought_key;

typedef struct stage {
    sought_key keys[AT_ONCE];
    int n;
} stage;

/* Stages take turns: the one that is filled is the first. */
typedef struct pipeline {
    stage stages[N_STAGES];
    int filled;
} pipeline;

/* Lower bits of 32 hashes, and when their rows were used last: two lines of a cache each. */
static void prefetch_disk_keys(const rk_disk_keys *bucket, uint64_t hash) {
    const char *block = rk_disk_keys_first_block(bucket, hash);
    for (int line = 0; line < 4; line++) __builtin_prefetch(block + 64 * line);
}

/* The bucket is kept, as a compiler may leave out a function that only fetches. */
static void prefetch_bucket_lines(const rk_dynamic_table *t, stage *s) {
    for (int i = 0; i < s->n; i++) {
        sought_key *sought = &s->keys[i];
        uint32_t number = rk_dynamic_bucket_of_hash(&t->config, sought->hash);
        sought->bucket = &t->buckets[number];
        if (!sought->bucket->n) continue;
        if (t->disk_keys)
            prefetch_disk_keys(&t->disk_keys[number], sought->hash);
        else
            __builtin_prefetch(rk_key_bucket_first_line(sought->bucket, sought->hash));
    }
}

static void guess_rows_by_tag(const rk_dynamic_table *t, stage *s) {
    for (int i = 0; i < s->n; i++) {
        sought_key *sought = &s->keys[i];
        if (t->disk_keys) { /* which is no guess */
            sought->row = rk_dynamic_find_disk_row(t, (uint32_t)(sought->bucket - t->buckets), sought->hash);
            continue;
        }
        sought->row = rk_key_bucket_guess_row(sought->bucket, sought->hash);
        __builtin_prefetch(&t->info[sought->row], 1);
    }
}

/* Another key may have the same bits in its entry. */
static void confirm_guessed_rows(const rk_dynamic_table *t, stage *s) {
    if (t->disk_keys) return; /* which were no guesses */
    for (int i = 0; i < s->n; i++) {
        sought_key *sought = &s->keys[i];
        if (sought->row && t->info[sought->row].key != sought->key)
            sought->row = rk_key_bucket_find(sought->bucket, t->info, sought->key);
    }
}

static stage *stage_being_filled(pipeline *p) {
    return &p->stages[p->filled];
}

/* All stages go on; returns the one whose keys have rows, which is filled next. */
static stage *advance_pipeline(const rk_dynamic_table *t, pipeline *p) {
    stage *last = &p->stages[(p->filled + 1) % N_STAGES];
    prefetch_bucket_lines(t, &p->stages[p->filled]);
    guess_rows_by_tag(t, &p->stages[(p->filled + 2) % N_STAGES]);
    confirm_guessed_rows(t, last);
    p->filled = (p->filled + 1) % N_STAGES;
    return last;
}

int64_t rk_dynamic_find_row(const rk_dynamic_table *t, int64_t key) {
    uint64_t hash = rk_key_hash(key);
    uint32_t bucket = rk_dynamic_bucket_of_hash(&t->config, hash);
    return t->disk_keys ? rk_dynamic_find_disk_row(t, bucket, hash)
                        : rk_key_bucket_find(&t->buckets[bucket], t->info, key);
}

static void write_found_row(const rk_dynamic_table *t, const sought_key *sought) {
    *sought->out = sought->row ? sought->row : rk_dynamic_shared_row(t, sought->key);
}

/* Returns how many uses share a row. */
static int64_t write_found_rows(const rk_dynamic_table *t, stage *s) {
    int64_t n_missing = 0;
    for (int i = 0; i < s->n; i++) {
        write_found_row(t, &s->keys[i]);
        if (!s->keys[i].row) n_missing += s->keys[i].uses;
    }
    s->n = 0;
    return n_missing;
}

int64_t rk_dynamic_find_rows_of_uses(const rk_dynamic_table *t, const rk_key_uses *uses) {
    pipeline p = {.filled = 0};
    int64_t n_missing = 0;
    for (int64_t i = 0; i < uses->n; i++) {
        stage *s = stage_being_filled(&p);
        s->keys[s->n++] = (sought_key){.key = uses->keys[i],
                                       .hash = rk_key_hash(uses->keys[i]),
                                       .out = &uses->rows[i],
                                       .uses = uses->uses ? uses->uses[i] : 1};
        if (s->n == AT_ONCE) n_missing += write_found_rows(t, advance_pipeline(t, &p));
    }
    for (int i = 0; i < N_STAGES; i++) n_missing += write_found_rows(t, advance_pipeline(t, &p));
    return n_missing;
}

void rk_dynamic_find_rows_and_count(rk_dynamic_table *t, const rk_key_uses *uses) {
    int64_t n_missing = rk_dynamic_find_rows_of_uses(t, uses);
    if (n_missing) atomic_fetch_add_explicit(&t->n_missing, n_missing, memory_order_relaxed);
}

void rk_dynamic_find_rows(rk_dynamic_table *t, const int64_t *keys, int64_t n, int64_t *rows) {
    rk_dynamic_find_rows_and_count(t, &(rk_key_uses){.keys = keys, .rows = rows, .n = n});
}

/* One of some uses. */
typedef struct unknown_key {
    int64_t key;
    int64_t at;
} unknown_key;

/* A chunk on its way. Uses of keys that were found a short while ago are counted where these are. */
typedef struct search {
    rk_dynamic_table *table;
    rk_key_chunk *chunk;
    rk_found_row *found; /* from 1 on */
    rk_absent_use *absent;
    rk_recent_key *recent;
    int32_t now;
    pipeline pipeline;
} search;

/* Row 0 of the chunk takes uses of keys that are not known yet. */
static rk_found_row *found_rows_of_chunk(const rk_dynamic_table *t, const rk_key_chunk *chunk) {
    return t->found + chunk->first + chunk->number;
}

/* Its upper recent_bits say where a key is kept. It takes less time than rk_key_hash. */
static uint64_t recent_hash(int64_t key) {
    return (uint64_t)key * 0xD6E8FEB86659FD93u;
}

/* The row is marked as used by this batch, so that it stays. Other chunks may do the same. */
static void mark_row_used(search *s, const sought_key *sought) {
    int32_t *last_batch = rk_dynamic_last_batch(s->table, sought->row);
    uint32_t number = ++s->chunk->n_found;
    s->found[number] =
        (rk_found_row){sought->row, __atomic_load_n(last_batch, __ATOMIC_RELAXED), sought->uses};
    __atomic_store_n(last_batch, s->now, __ATOMIC_RELAXED);
    s->recent[recent_hash(sought->key) >> (64 - s->table->recent_bits)] =
        (rk_recent_key){sought->key, number};
}

static void resolve_found_keys(search *s, stage *found) {
    for (int i = 0; i < found->n; i++) {
        const sought_key *sought = &found->keys[i];
        write_found_row(s->table, sought);
        if (sought->row)
            mark_row_used(s, sought);
        else
            s->absent[s->chunk->n_absent++] =
                (rk_absent_use){sought->hash, sought->key, sought->use, sought->uses};
    }
    found->n = 0;
}

/* Counts uses i .. i+n-1 of a feature where their keys are known, and writes their rows; lists the others.
 * Returns how many. Nothing branches on whether a key is known, which no processor could foresee. What is
 * searched for in between keeps a processor from fetching the keys after these by itself. */
static int resolve_recent_keys(const search *s, const rk_key_uses *uses, int64_t i, int n,
                               unknown_key *unknown) {
    const int64_t *keys = uses->keys + i;
    const rk_recent_key *recents = s->recent;
    rk_found_row *none = s->found;
    int n_unknown = 0, shift = 64 - s->table->recent_bits;
    for (int k = 0; k < CHECKED_AT_ONCE && k < uses->n - i - n; k += KEYS_A_LINE)
        __builtin_prefetch(keys + n + k);
    for (int k = 0; k < n; k++) {
        int64_t key = keys[k]; /* rows may be written over keys */
        const rk_recent_key *recent = &recents[recent_hash(key) >> shift];
        uint32_t is_known = recent->key == key;
        rk_found_row *found = none + (recent->found & -is_known);
        found->uses = rk_add_uses_saturating(found->uses, uses->uses ? uses->uses[i + k] : is_known);
        uses->rows[i + k] = found->row;
        unknown[n_unknown] = (unknown_key){key, k};
        n_unknown += found == none;
    }
    return n_unknown;
}

/* Uses first .. last-1 of a feature, the first of which is the batch's `number`. */
static void find_rows_of_feature(search *s, const rk_key_uses *uses, int64_t first, int64_t last,
                                 uint32_t number) {
    for (int64_t i = first; i < last; i += CHECKED_AT_ONCE) {
        unknown_key unknown[CHECKED_AT_ONCE];
        int n = last - i < CHECKED_AT_ONCE ? (int)(last - i) : CHECKED_AT_ONCE,
            n_unknown = resolve_recent_keys(s, uses, i, n, unknown);
        for (int k = 0; k < n_unknown; k++) {
            stage *to = stage_being_filled(&s->pipeline);
            int64_t use = i + unknown[k].at;
            to->keys[to->n++] = (sought_key){.key = unknown[k].key,
                                             .hash = rk_key_hash(unknown[k].key),
                                             .out = &uses->rows[use],
                                             .use = number + (uint32_t)(use - first),
                                             .uses = uses->uses ? uses->uses[use] : 1};
            if (to->n == AT_ONCE) resolve_found_keys(s, advance_pipeline(s->table, &s->pipeline));
        }
    }
}

/* Uses of a group together, each in the order of the batch. */
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
                .now = rk_dynamic_current_batch(t)};
    s.found[0] = (rk_found_row){0};
    memset(s.recent, 0, sizeof *s.recent << t->recent_bits);
    for (uint32_t at = chunk->first; at < chunk->last;) {
        rk_dynamic_use use = rk_dynamic_locate_use(t, at);
        int64_t n = use.uses->n - use.number, left = chunk->last - at;
        if (n > left) n = left;
        find_rows_of_feature(&s, use.uses, use.number, use.number + n, at);
        at += (uint32_t)n;
    }
    for (int i = 0; i < N_STAGES; i++) resolve_found_keys(&s, advance_pipeline(t, &s.pipeline));
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
