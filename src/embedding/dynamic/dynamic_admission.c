/* What a training batch does to a dynamic table: keys counted and admitted, and rows taken for them. */
#include <stdlib.h>
#include <string.h>

#include "base/integers.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/thread/parallel.h"
#include "embedding/dynamic/dynamic_table.h"

enum {
    GROUP_USES = 4096, /* about, so that a group is worth a task */
    CHUNK_USES = 4096,
    CHUNKS_A_THREAD = 4,
    INSERTED_AHEAD = 4 /* keys */
};

static size_t count_local_buckets(const rk_dynamic_table *t) {
    return (size_t)(t->end_bucket - t->first_bucket);
}

size_t rk_dynamic_group_of_hash(const rk_dynamic_table *t, uint64_t hash) {
    return (size_t)(rk_dynamic_bucket_of_hash(&t->config, hash) - t->first_bucket) * t->n_groups /
           count_local_buckets(t);
}

/* Of a group, or behind the last one's. */
static int64_t first_bucket_of_group(const rk_dynamic_table *t, size_t group) {
    return t->first_bucket + (int64_t)((group * count_local_buckets(t) + t->n_groups - 1) / t->n_groups);
}

/* A quarter to a half as many as a chunk has uses. */
static int choose_recent_bits(size_t n, size_t n_chunks) {
    int bits = rk_bit_width(n_chunks ? n / n_chunks / 4 : 0);
    return bits < RK_LEAST_RECENT_BITS  ? RK_LEAST_RECENT_BITS
           : bits > RK_MOST_RECENT_BITS ? RK_MOST_RECENT_BITS
                                        : bits;
}

static rk_status reserve_batch_arrays(rk_dynamic_table *t, size_t n, size_t n_chunks) {
    t->recent_bits = choose_recent_bits(n, n_chunks);
    RK_TRY(rk_reserve(&t->recent, &t->recent_capacity, n_chunks << t->recent_bits, sizeof *t->recent));
    RK_TRY(rk_reserve(&t->chunks, &t->chunks_capacity, n_chunks, sizeof *t->chunks));
    RK_TRY(rk_reserve(&t->found, &t->found_capacity, n + n_chunks, sizeof *t->found));
    RK_TRY(rk_reserve(&t->absent, &t->absent_capacity, n, sizeof *t->absent));
    return rk_reserve(&t->dealt, &t->dealt_capacity, n, sizeof *t->dealt);
}

/* As few as keep all threads at work: a key that two chunks use is looked for twice. Nothing that is decided
 * depends on it. */
static size_t choose_chunk_count(size_t n) {
    size_t n_threads = (size_t)rk_parallel_threads(), most = n_threads > 1 ? CHUNKS_A_THREAD * n_threads : 1,
           wanted = rk_block_count(n, CHUNK_USES);
    return wanted < most ? wanted : most;
}

static void split_uses_into_chunks(rk_dynamic_table *t, int64_t n, size_t n_chunks) {
    for (size_t c = 0; c < n_chunks; c++)
        t->chunks[c] = (rk_key_chunk){.number = (uint32_t)c,
                                      .first = (uint32_t)rk_partition_begin(n, c, n_chunks),
                                      .last = (uint32_t)rk_partition_begin(n, c + 1, n_chunks)};
    t->n_chunks = n_chunks;
}

/* What a checkpoint was written from is given back, as rows get other numbers. */
static rk_status begin_batch_on_disk(rk_dynamic_table *t) {
    rk_free(t->order);
    t->order = NULL;
    t->order_capacity = 0;
    return rk_dynamic_rebuild_stale_buckets(t);
}

rk_status rk_dynamic_begin_batch(rk_dynamic_table *t, const rk_key_uses *uses, int32_t n_uses,
                                 int64_t timestamp) {
    t->n_chunks = 0;
    if (t->disk_keys) RK_TRY(begin_batch_on_disk(t));
    rk_dynamic_begin_time_of_batch(t, timestamp);
    RK_TRY(rk_reserve(&t->use_begins, &t->use_begins_capacity, (size_t)n_uses + 1, sizeof *t->use_begins));
    t->use_begins[0] = 0;
    for (int32_t u = 0; u < n_uses; u++) t->use_begins[u + 1] = t->use_begins[u] + (size_t)uses[u].n;
    size_t n = t->use_begins[n_uses], n_chunks = choose_chunk_count(n);
    RK_FAIL_IF(n > INT32_MAX, RK_INVALID_ARGUMENT, "2^31 keys or more in one batch");
    t->uses = uses;
    t->n_uses = (size_t)n_uses;
    RK_TRY(reserve_batch_arrays(t, n, n_chunks));
    size_t groups = n / GROUP_USES + 1;
    if (groups > RK_MAX_KEY_GROUPS) groups = RK_MAX_KEY_GROUPS;
    t->n_groups = groups < count_local_buckets(t) ? groups : count_local_buckets(t);
    split_uses_into_chunks(t, (int64_t)n, n_chunks);
    return RK_OK;
}

rk_dynamic_use rk_dynamic_locate_use(const rk_dynamic_table *t, uint32_t number) {
    size_t u = rk_partition_find_item(t->use_begins, t->n_uses, number);
    return (rk_dynamic_use){&t->uses[u], (int64_t)(number - t->use_begins[u])};
}

static uint32_t bucket_number_of_key(const rk_dynamic_table *t, int64_t key) {
    return rk_dynamic_bucket_of_key(&t->config, key);
}

static uint32_t count_absent_uses_of_group(const rk_key_chunk *chunk, size_t group) {
    if (!chunk->n_absent) return 0;
    return chunk->absent_ends[group] - (group ? chunk->absent_ends[group - 1] : 0);
}

/* Uses of keys without rows, of all chunks. */
static rk_status gather_absent_uses(const rk_dynamic_table *t, rk_key_group *group, size_t number) {
    size_t n = 0;
    for (size_t c = 0; c < t->n_chunks; c++) n += count_absent_uses_of_group(&t->chunks[c], number);
    RK_TRY(rk_reserve(&group->absent, &group->absent_capacity, n, sizeof *group->absent));
    for (size_t c = 0; c < t->n_chunks; c++) {
        const rk_key_chunk *chunk = &t->chunks[c];
        uint32_t n_here = count_absent_uses_of_group(chunk, number);
        if (!n_here) continue;
        memcpy(group->absent + group->n_absent, t->dealt + chunk->first + chunk->absent_ends[number] - n_here,
               n_here * sizeof *group->absent);
        group->n_absent += n_here;
    }
    return RK_OK;
}

static int compare_by_hash(const void *a, const void *b) {
    const rk_absent_use *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return x->use < y->use ? -1 : x->use > y->use;
}

static bool passes_probability_filter(const rk_dynamic_table *t, int64_t key) {
    if (t->config.probability >= 1) return true;
    uint64_t bits = rk_rng_u64(t->stream, (uint64_t)t->n_batches + 1, (uint64_t)key);
    return rk_uniform_from_bits(bits) < t->config.probability;
}

static uint32_t read_earlier_count(const rk_dynamic_table *t, const rk_absent_use *use) {
    uint32_t bucket = rk_dynamic_bucket_of_hash(&t->config, use->hash);
    if (!t->sketches) return rk_key_bucket_read_count(&t->buckets[bucket], use->key);
    rk_key_sketch sketch = rk_dynamic_sketch_of_bucket(t, bucket);
    return rk_key_sketch_estimate(&sketch, use->hash);
}

/* uses: of the key, in this batch. */
static bool is_key_admitted(const rk_dynamic_table *t, const rk_absent_use *use, uint32_t uses) {
    bool enough =
        uses >= t->config.min_count || uses + (int64_t)read_earlier_count(t, use) >= t->config.min_count;
    return enough && passes_probability_filter(t, use->key);
}

static rk_status add_candidate_count(const rk_dynamic_table *t, rk_key_group *group, int64_t key,
                                     uint32_t uses) {
    group->n_refused += uses;
    if (t->config.min_count <= 1) return RK_OK;
    RK_TRY(rk_reserve_one_more(&group->counted, group->n_counted, &group->counted_capacity,
                               sizeof *group->counted));
    group->counted[group->n_counted++] = (rk_counted_key){key, uses};
    return RK_OK;
}

/* The bits of a mix are a bucket's highest first, so keys of a bucket are together. */
static rk_status admit_keys(rk_dynamic_table *t, rk_key_group *group) {
    rk_absent_use *absent = group->absent;
    if (group->n_absent) qsort(absent, group->n_absent, sizeof *absent, compare_by_hash);
    for (uint32_t first = 0, last; first < group->n_absent; first = last) {
        int64_t key = absent[first].key;
        uint32_t uses = 0;
        for (last = first; last < group->n_absent && absent[last].hash == absent[first].hash; last++)
            uses = rk_add_uses_saturating(uses, absent[last].uses);
        if (!is_key_admitted(t, &absent[first], uses)) {
            RK_TRY(add_candidate_count(t, group, key, uses));
            continue;
        }
        RK_TRY(rk_reserve_one_more(&group->created, group->n_created, &group->created_capacity,
                                   sizeof *group->created));
        group->created[group->n_created++] = (rk_new_key){key, -1, first, last, uses, absent[first].use};
    }
    return RK_OK;
}

static int compare_by_first_use(const void *a, const void *b) {
    const rk_new_key *x = a, *y = b;
    return x->first_use < y->first_use ? -1 : x->first_use > y->first_use;
}

/* As many of a full bucket's new keys as it has room for, those that the batch uses first. */
static rk_status refuse_keys_without_room(const rk_dynamic_table *t, rk_key_group *group, rk_new_key *keys,
                                          size_t n, size_t room) {
    qsort(keys, n, sizeof *keys, compare_by_first_use);
    for (size_t i = room; i < n; i++) {
        keys[i].row = 0;
        RK_TRY(add_candidate_count(t, group, keys[i].key, keys[i].uses));
    }
    return RK_OK;
}

/* Room for a bucket's new keys, if it has any. */
static rk_status make_room_in_bucket(rk_dynamic_table *t, rk_key_group *group, uint32_t number, size_t first,
                                     size_t last) {
    const rk_key_bucket *bucket = &t->buckets[number];
    bool has_turn = rk_dynamic_next_bucket_to_scan(t, number) == number;
    int64_t capacity = rk_dynamic_bucket_capacity(t, number), n_new = (int64_t)(last - first), n = bucket->n;
    size_t n_before = group->n_evicted;
    if (has_turn || n + n_new > capacity) {
        RK_TRY(rk_dynamic_choose_evictions(t, group, number, has_turn, n_new));
        n -= (int64_t)(group->n_evicted - n_before);
    }
    if (n_new && n + n_new > capacity && t->config.policy == RK_EVICTION_NONE) {
        int64_t room = n < capacity ? capacity - n : 0;
        RK_TRY(refuse_keys_without_room(t, group, group->created + first, last - first, (size_t)room));
        n_new = room;
    }
    return n_new ? rk_dynamic_reserve_bucket(t, number, (uint32_t)(n + n_new)) : RK_OK;
}

/* The buckets up to this one whose turn it is and that have no new keys. */
static rk_status expire_rows_of_scanned_buckets(rk_dynamic_table *t, rk_key_group *group, int64_t *next,
                                                int64_t bucket) {
    for (; *next < bucket; *next = rk_dynamic_next_bucket_to_scan(t, *next + 1))
        RK_TRY(make_room_in_bucket(t, group, (uint32_t)*next, 0, 0));
    if (*next == bucket) *next = rk_dynamic_next_bucket_to_scan(t, bucket + 1);
    return RK_OK;
}

static rk_status make_room_in_group(rk_dynamic_table *t, rk_key_group *group, size_t number) {
    int64_t next = rk_dynamic_next_bucket_to_scan(t, first_bucket_of_group(t, number));
    for (size_t first = 0, last; first < group->n_created; first = last) {
        uint32_t bucket = bucket_number_of_key(t, group->created[first].key);
        for (last = first + 1;
             last < group->n_created && bucket_number_of_key(t, group->created[last].key) == bucket;)
            last++;
        RK_TRY(expire_rows_of_scanned_buckets(t, group, &next, bucket));
        RK_TRY(make_room_in_bucket(t, group, bucket, first, last));
    }
    RK_TRY(expire_rows_of_scanned_buckets(t, group, &next, first_bucket_of_group(t, number + 1)));
    for (size_t i = 0; i < group->n_created; i++) group->n_admitted += group->created[i].row != 0;
    return RK_OK;
}

static int compare_counted_by_hash(const void *a, const void *b) {
    uint64_t x = rk_key_hash(((const rk_counted_key *)a)->key),
             y = rk_key_hash(((const rk_counted_key *)b)->key);
    return x < y ? -1 : x > y;
}

/* Keys of a bucket are together, but for those that were refused, which came last. */
static rk_status reserve_candidate_counts(rk_dynamic_table *t, rk_key_group *group) {
    if (group->n_admitted < group->n_created && group->n_counted)
        qsort(group->counted, group->n_counted, sizeof *group->counted, compare_counted_by_hash);
    for (size_t first = 0, last; first < group->n_counted && !t->sketches; first = last) {
        const rk_key_bucket *bucket = rk_dynamic_bucket_with_key(t, group->counted[first].key);
        for (last = first + 1;
             last < group->n_counted && rk_dynamic_bucket_with_key(t, group->counted[last].key) == bucket;)
            last++;
        RK_TRY(rk_dynamic_reserve_counts(t, (uint32_t)(bucket - t->buckets),
                                         bucket->n_counted + (uint32_t)(last - first)));
    }
    return RK_OK;
}

rk_status rk_dynamic_decide_admissions(rk_dynamic_table *t, size_t number) {
    rk_key_group *group = &t->groups[number];
    group->n_created = group->n_admitted = group->n_counted = group->n_evicted = 0;
    group->n_absent = 0;
    group->n_refused = 0;
    RK_TRY(gather_absent_uses(t, group, number));
    RK_TRY(admit_keys(t, group));
    RK_TRY(make_room_in_group(t, group, number));
    return reserve_candidate_counts(t, group);
}

/* Buckets have made room for their new rows; what is left are counts. */
static rk_status reserve_counts_of_disk_rows(rk_dynamic_table *t) {
    uint64_t shares = 0;
    for (size_t c = 0; c < t->n_chunks; c++) shares += t->chunks[c].over_shares;
    uint64_t n = shares >> 16;
    for (size_t g = 0; g < t->n_groups; g++)
        for (size_t i = 0; i < t->groups[g].n_created; i++) n += t->groups[g].created[i].uses > UINT16_MAX;
    return rk_dynamic_reserve_counts_over(t, n);
}

/* A group takes the rows that it gives up, then free ones, then such as were never in use. */
rk_status rk_dynamic_reserve_new_rows(rk_dynamic_table *t, int64_t *n_places) {
    *n_places = 0;
    if (t->disk_keys) return reserve_counts_of_disk_rows(t);
    int64_t n_free = t->n_free, n_used = t->n_used, n_evicted = 0;
    for (size_t g = 0; g < t->n_groups; g++) {
        rk_key_group *group = &t->groups[g];
        int64_t wanted = (int64_t)group->n_admitted - (int64_t)group->n_evicted;
        if (wanted < 0) wanted = 0;
        group->n_free = wanted < n_free ? wanted : n_free;
        n_free -= group->n_free;
        group->first_free = n_free;
        group->first_used = n_used;
        n_used += wanted - group->n_free;
        n_evicted += (int64_t)group->n_evicted;
    }
    RK_TRY(
        rk_reserve(&t->free_rows, &t->free_capacity, (size_t)(t->n_free + n_evicted), sizeof *t->free_rows));
    *n_places = n_used;
    return RK_OK;
}

static int64_t row_for_new_key(const rk_dynamic_table *t, const rk_key_group *group, size_t number) {
    if (number < group->n_evicted) return group->evicted[number];
    int64_t k = (int64_t)(number - group->n_evicted);
    return k < group->n_free ? t->free_rows[group->first_free + k] : group->first_used + k - group->n_free;
}

static void insert_disk_row(rk_dynamic_table *t, uint32_t bucket, rk_new_key *new_key) {
    new_key->row = rk_dynamic_insert_disk_row(t, bucket, new_key->key, rk_dynamic_current_batch(t));
    rk_dynamic_add_to_disk_row(t, new_key->row, new_key->uses, false);
}

static void insert_row(rk_dynamic_table *t, rk_key_bucket *bucket, const rk_new_key *new_key) {
    t->info[new_key->row] = (rk_key_info){new_key->key, rk_dynamic_current_batch(t), (int32_t)new_key->uses};
    rk_key_bucket_insert(bucket, new_key->key, new_key->row);
}

static void insert_new_keys(rk_dynamic_table *t, rk_key_group *group) {
    size_t n = 0;
    for (size_t i = 0; i < group->n_created; i++) {
        rk_new_key *new_key = &group->created[i];
        if (t->disk_keys && i + INSERTED_AHEAD < group->n_created)
            rk_dynamic_prefetch_new_disk_row(t, group->created[i + INSERTED_AHEAD].key);
        if (!new_key->row) continue;
        rk_key_bucket *bucket = rk_dynamic_bucket_with_key(t, new_key->key);
        if (t->disk_keys) {
            insert_disk_row(t, (uint32_t)(bucket - t->buckets), new_key);
        } else {
            new_key->row = row_for_new_key(t, group, n++);
            insert_row(t, bucket, new_key);
        }
        if (!t->sketches) rk_key_bucket_remove_count(bucket, new_key->key);
    }
}

/* In the order of their hashes, on which a sketch's counts depend. */
static void add_counts_to_sketches(const rk_dynamic_table *t, const rk_key_group *group) {
    for (size_t i = 0; i < group->n_counted; i++) {
        uint64_t hash = rk_key_hash(group->counted[i].key);
        rk_key_sketch sketch = rk_dynamic_sketch_of_bucket(t, rk_dynamic_bucket_of_hash(&t->config, hash));
        rk_key_sketch_add(&sketch, hash, group->counted[i].uses);
    }
    for (size_t i = 0; i < group->n_counted; i++) {
        rk_key_sketch sketch = rk_dynamic_sketch_of_bucket(t, bucket_number_of_key(t, group->counted[i].key));
        rk_key_sketch_halve_if_full(&sketch, t->config.min_count);
    }
}

static void add_candidate_counts(rk_dynamic_table *t, const rk_key_group *group) {
    if (t->sketches) {
        add_counts_to_sketches(t, group);
        return;
    }
    for (size_t i = 0; i < group->n_counted; i++)
        rk_key_bucket_add_count(rk_dynamic_bucket_with_key(t, group->counted[i].key), group->counted[i].key,
                                group->counted[i].uses);
    for (size_t i = 0; i < group->n_counted; i++) {
        uint32_t number = bucket_number_of_key(t, group->counted[i].key);
        rk_key_bucket_lower_counts(&t->buckets[number], rk_dynamic_most_counted_keys(t, number));
    }
}

/* Rows of new keys to where those of their uses are wanted. */
static void write_rows_of_new_keys(const rk_dynamic_table *t, const rk_key_group *group) {
    for (size_t k = 0; k < group->n_created; k++)
        for (uint32_t i = group->created[k].first; i < group->created[k].last && group->created[k].row; i++) {
            rk_dynamic_use use = rk_dynamic_locate_use(t, group->absent[i].use);
            use.uses->rows[use.number] = group->created[k].row;
        }
}

void rk_dynamic_apply_admissions(rk_dynamic_table *t, size_t number) {
    rk_key_group *group = &t->groups[number];
    rk_dynamic_apply_evictions(t, group);
    insert_new_keys(t, group);
    add_candidate_counts(t, group);
    write_rows_of_new_keys(t, group);
}

static void rebase_row(const rk_dynamic_table *t, int64_t row, int64_t moved) {
    int32_t *last_batch = rk_dynamic_last_batch(t, row);
    if (*last_batch) *last_batch = *last_batch > moved ? (int32_t)(*last_batch - moved) : 1;
}

/* Once in a billion batches. Rows that were not used for that long are equally old. */
static void rebase_batch_numbers(rk_dynamic_table *t) {
    int64_t moved = rk_dynamic_base_batch_number(t->n_batches) - t->first_batch;
    if (!moved) return;
    if (t->disk_keys)
        for (int64_t row = 0; (row = rk_dynamic_next_disk_row(t, row)); row++) rebase_row(t, row, moved);
    else
        for (int64_t row = t->n_shared; row < t->n_used; row++) rebase_row(t, row, moved);
    t->first_batch += moved;
}

/* What was free was taken from the end. */
static void take_and_free_rows(rk_dynamic_table *t) {
    for (size_t g = 0; g < t->n_groups; g++) {
        int64_t n_more = (int64_t)t->groups[g].n_admitted - (int64_t)t->groups[g].n_evicted;
        t->n_free -= t->groups[g].n_free;
        if (n_more > t->groups[g].n_free) t->n_used += n_more - t->groups[g].n_free;
    }
    for (size_t g = 0; g < t->n_groups; g++)
        for (size_t i = t->groups[g].n_admitted; i < t->groups[g].n_evicted; i++)
            t->free_rows[t->n_free++] = t->groups[g].evicted[i];
}

void rk_dynamic_end_batch(rk_dynamic_table *t) {
    for (size_t g = 0; g < t->n_groups; g++) {
        t->n_keys += (int64_t)t->groups[g].n_admitted - (int64_t)t->groups[g].n_evicted;
        t->totals.n_admitted += (int64_t)t->groups[g].n_admitted;
        t->totals.n_evicted += (int64_t)t->groups[g].n_evicted;
        t->totals.n_refused += t->groups[g].n_refused;
    }
    if (!t->disk_keys) take_and_free_rows(t);
    t->n_batches++;
    t->clock = t->next_clock;
    t->n_chunks = 0;
    rebase_batch_numbers(t);
}
