/* What a training batch does to a dynamic table: keys counted and admitted, rows taken and given up. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/thread/parallel.h"
#include "embedding/dynamic/dynamic_table.h"

enum {
    GROUP_USES = 4096, /* about, so that a group is worth a task */
    CHUNK_USES = 4096,
    CHUNKS_A_THREAD = 4
};

static size_t n_buckets_here(const rk_dynamic_table *t) {
    return (size_t)(t->end_bucket - t->first_bucket);
}

size_t rk_dynamic_group_of(const rk_dynamic_table *t, uint64_t hash) {
    return (size_t)(rk_dynamic_bucket_of(&t->config, hash) - t->first_bucket) * t->n_groups /
           n_buckets_here(t);
}

/* Of a group, or behind the last one's. */
static int64_t group_begin(const rk_dynamic_table *t, size_t group) {
    return t->first_bucket + (int64_t)((group * n_buckets_here(t) + t->n_groups - 1) / t->n_groups);
}

static rk_status reserve_uses(rk_dynamic_table *t, size_t n, size_t n_chunks) {
    RK_TRY(rk_reserve(&t->chunks, &t->chunks_capacity, n_chunks, sizeof *t->chunks));
    RK_TRY(rk_reserve(&t->found, &t->found_capacity, n + n_chunks, sizeof *t->found));
    RK_TRY(rk_reserve(&t->absent, &t->absent_capacity, n, sizeof *t->absent));
    return rk_reserve(&t->dealt, &t->dealt_capacity, n, sizeof *t->dealt);
}

/* As few as keep all threads at work: a key that two chunks use is looked for twice. Nothing that is decided
 * depends on it. */
static size_t choose_n_chunks(size_t n) {
    size_t n_threads = (size_t)rk_parallel_threads(), most = n_threads > 1 ? CHUNKS_A_THREAD * n_threads : 1,
           wanted = rk_block_count(n, CHUNK_USES);
    return wanted < most ? wanted : most;
}

static void cut_into_chunks(rk_dynamic_table *t, int64_t n, size_t n_chunks) {
    for (size_t c = 0; c < n_chunks; c++)
        t->chunks[c] = (rk_key_chunk){.number = (uint32_t)c,
                                      .first = (uint32_t)rk_partition_begin(n, c, n_chunks),
                                      .last = (uint32_t)rk_partition_begin(n, c + 1, n_chunks)};
    t->n_chunks = n_chunks;
}

rk_status rk_dynamic_begin(rk_dynamic_table *t, const rk_key_uses *uses, int32_t n_uses) {
    t->n_chunks = 0;
    RK_TRY(rk_reserve(&t->use_begins, &t->use_begins_capacity, (size_t)n_uses + 1, sizeof *t->use_begins));
    t->use_begins[0] = 0;
    for (int32_t u = 0; u < n_uses; u++) t->use_begins[u + 1] = t->use_begins[u] + (size_t)uses[u].n;
    size_t n = t->use_begins[n_uses], n_chunks = choose_n_chunks(n);
    RK_FAIL_IF(n > INT32_MAX, RK_INVALID_ARGUMENT, "2^31 keys or more in one batch");
    t->uses = uses;
    t->n_uses = (size_t)n_uses;
    RK_TRY(reserve_uses(t, n, n_chunks));
    size_t groups = n / GROUP_USES + 1;
    if (groups > RK_MAX_KEY_GROUPS) groups = RK_MAX_KEY_GROUPS;
    t->n_groups = groups < n_buckets_here(t) ? groups : n_buckets_here(t);
    cut_into_chunks(t, (int64_t)n, n_chunks);
    return RK_OK;
}

rk_dynamic_use rk_dynamic_find_use(const rk_dynamic_table *t, uint32_t number) {
    size_t u = rk_partition_find_item(t->use_begins, t->n_uses, number);
    return (rk_dynamic_use){&t->uses[u], (int64_t)(number - t->use_begins[u])};
}

static uint32_t bucket_number(const rk_dynamic_table *t, int64_t key) {
    return rk_dynamic_bucket_of_key(&t->config, key);
}

static rk_key_bucket *bucket_of(const rk_dynamic_table *t, int64_t key) {
    return &t->buckets[bucket_number(t, key)];
}

static uint32_t n_of_group(const rk_key_chunk *chunk, size_t group) {
    if (!chunk->n_absent) return 0;
    return chunk->absent_ends[group] - (group ? chunk->absent_ends[group - 1] : 0);
}

/* Uses of keys without rows, of all chunks. */
static rk_status gather_absent(const rk_dynamic_table *t, rk_key_group *group, size_t number) {
    size_t n = 0;
    for (size_t c = 0; c < t->n_chunks; c++) n += n_of_group(&t->chunks[c], number);
    RK_TRY(rk_reserve(&group->absent, &group->absent_capacity, n, sizeof *group->absent));
    for (size_t c = 0; c < t->n_chunks; c++) {
        const rk_key_chunk *chunk = &t->chunks[c];
        uint32_t n_here = n_of_group(chunk, number);
        if (!n_here) continue;
        memcpy(group->absent + group->n_absent, t->dealt + chunk->first + chunk->absent_ends[number] - n_here,
               n_here * sizeof *group->absent);
        group->n_absent += n_here;
    }
    return RK_OK;
}

static int by_hash(const void *a, const void *b) {
    const rk_absent_use *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return x->use < y->use ? -1 : x->use > y->use;
}

static bool is_drawn(const rk_dynamic_table *t, int64_t key) {
    if (t->config.probability >= 1) return true;
    uint64_t bits = rk_rng_u64(t->stream, (uint64_t)t->n_batches + 1, (uint64_t)key);
    return rk_rng_unit(bits) < t->config.probability;
}

static uint32_t earlier_uses_of(const rk_dynamic_table *t, const rk_absent_use *use) {
    uint32_t bucket = rk_dynamic_bucket_of(&t->config, use->hash);
    if (!t->sketches) return rk_key_bucket_uses(&t->buckets[bucket], use->key);
    rk_key_sketch sketch = rk_dynamic_sketch_of(t, bucket);
    return rk_key_sketch_uses(&sketch, use->hash);
}

/* uses: of the key, in this batch. */
static bool is_admitted(const rk_dynamic_table *t, const rk_absent_use *use, uint32_t uses) {
    bool enough =
        uses >= t->config.min_count || uses + (int64_t)earlier_uses_of(t, use) >= t->config.min_count;
    return enough && is_drawn(t, use->key);
}

static rk_status add_counted(const rk_dynamic_table *t, rk_key_group *group, int64_t key, uint32_t uses) {
    group->n_refused += uses;
    if (t->config.min_count <= 1) return RK_OK;
    RK_TRY(rk_grow(&group->counted, group->n_counted, &group->counted_capacity, sizeof *group->counted));
    group->counted[group->n_counted++] = (rk_counted_key){key, uses};
    return RK_OK;
}

/* The bits of a mix are a bucket's highest first, so keys of a bucket are together. */
static rk_status admit(rk_dynamic_table *t, rk_key_group *group) {
    rk_absent_use *absent = group->absent;
    if (group->n_absent) qsort(absent, group->n_absent, sizeof *absent, by_hash);
    for (uint32_t first = 0, last; first < group->n_absent; first = last) {
        int64_t key = absent[first].key;
        uint32_t uses = 0;
        for (last = first; last < group->n_absent && absent[last].hash == absent[first].hash; last++)
            uses = rk_add_uses(uses, absent[last].uses);
        if (!is_admitted(t, &absent[first], uses)) {
            RK_TRY(add_counted(t, group, key, uses));
            continue;
        }
        RK_TRY(rk_grow(&group->created, group->n_created, &group->created_capacity, sizeof *group->created));
        group->created[group->n_created++] = (rk_new_key){key, -1, first, last, uses, absent[first].use};
    }
    return RK_OK;
}

static int by_first_use(const void *a, const void *b) {
    const rk_new_key *x = a, *y = b;
    return x->first_use < y->first_use ? -1 : x->first_use > y->first_use;
}

/* As many of a full bucket's new keys as it has room for, those that the batch uses first. */
static rk_status refuse(const rk_dynamic_table *t, rk_key_group *group, rk_new_key *keys, size_t n,
                        size_t room) {
    qsort(keys, n, sizeof *keys, by_first_use);
    for (size_t i = room; i < n; i++) {
        keys[i].row = 0;
        RK_TRY(add_counted(t, group, keys[i].key, keys[i].uses));
    }
    return RK_OK;
}

/* Whether row a is to go after row b. */
static bool goes_later_by_batch(const rk_dynamic_table *t, int64_t a, int64_t b) {
    return t->info[a].last_batch != t->info[b].last_batch ? t->info[a].last_batch > t->info[b].last_batch
                                                          : rk_dynamic_goes_before_by_key(t, b, a);
}

static bool goes_later_by_count(const rk_dynamic_table *t, int64_t a, int64_t b) {
    return t->info[a].count != t->info[b].count ? t->info[a].count > t->info[b].count
                                                : goes_later_by_batch(t, a, b);
}

/* Of a bucket, those that are not pinned: into `left`. */
static rk_status list_unpinned(const rk_dynamic_table *t, rk_key_group *group, const rk_key_bucket *bucket) {
    RK_TRY(rk_reserve(&group->left, &group->left_capacity, bucket->n, sizeof *group->left));
    group->n_left = 0;
    rk_key_bucket_list(bucket, group->left);
    for (uint32_t i = 0; i < bucket->n; i++)
        if (!rk_dynamic_is_pinned(t, group->left[i])) group->left[group->n_left++] = group->left[i];
    return RK_OK;
}

/* The first n of what is left, or all of it. */
static rk_status evict(const rk_dynamic_table *t, rk_key_group *group, int64_t wanted, rk_row_less less) {
    size_t n = wanted < 0 ? 0 : (size_t)wanted < group->n_left ? (size_t)wanted : group->n_left;
    rk_dynamic_sort_last(t, group->left, group->n_left, n, less);
    RK_TRY(
        rk_reserve(&group->evicted, &group->evicted_capacity, group->n_evicted + n, sizeof *group->evicted));
    for (size_t i = 0; i < n; i++) group->evicted[group->n_evicted++] = group->left[--group->n_left];
    return RK_OK;
}

/* Buckets take turns with the search for rows past their time: each has one in so many batches. */
static int64_t batches_a_turn(const rk_dynamic_table *t) {
    return t->config.ttl_steps / 8 > 1 ? t->config.ttl_steps / 8 : 1;
}

/* The first bucket from this one on whose turn it is. */
static int64_t next_in_turn(const rk_dynamic_table *t, int64_t bucket) {
    int64_t n = batches_a_turn(t), ahead = (t->n_batches + 1 - bucket) % n;
    return t->config.ttl_steps ? bucket + (ahead < 0 ? ahead + n : ahead) : t->config.n_buckets;
}

/* Rows that were unused for ttl_steps batches, the last of which is this one. */
static int64_t count_expired(const rk_dynamic_table *t, const rk_key_group *group) {
    int64_t n = 0;
    for (size_t i = 0; i < group->n_left; i++)
        n += rk_dynamic_now(t) - t->info[group->left[i]].last_batch >= t->config.ttl_steps;
    return n;
}

/* A bucket's share of `keep`, and the rows that eviction leaves it. A product that ends a rounding or two
 * below a whole number is that number. */
static int64_t rows_kept(const rk_dynamic_table *t, uint32_t bucket) {
    int64_t n = t->config.n_buckets;
    return t->config.keep / n + (bucket < t->config.keep % n);
}

static int64_t rows_left(const rk_dynamic_table *t, uint32_t bucket) {
    double share = (double)rk_dynamic_bucket_capacity(t, bucket) * t->config.evict_to;
    int64_t left = (int64_t)(share * (1 + 0x1p-51)), kept = rows_kept(t, bucket);
    return left > kept ? left : kept;
}

/* What a bucket gives up: rows past their time, which are those that were used longest ago, and then what
 * makes room for the new keys. */
static rk_status evict_rows(const rk_dynamic_table *t, rk_key_group *group, uint32_t number, bool has_turn,
                            int64_t n_new) {
    const rk_key_bucket *bucket = &t->buckets[number];
    int64_t n = bucket->n + n_new, n_expired = has_turn ? count_expired(t, group) : 0;
    if (n_expired > n - rows_kept(t, number)) n_expired = n - rows_kept(t, number);
    size_t n_before = group->n_evicted;
    RK_TRY(evict(t, group, n_expired, goes_later_by_batch));
    n -= (int64_t)(group->n_evicted - n_before);
    if (n <= rk_dynamic_bucket_capacity(t, number) || t->config.policy == RK_EVICTION_NONE) return RK_OK;
    return evict(t, group, n - rows_left(t, number),
                 t->config.policy == RK_EVICTION_LFU ? goes_later_by_count : goes_later_by_batch);
}

/* Room for a bucket's new keys, if it has any. */
static rk_status fit_bucket(rk_dynamic_table *t, rk_key_group *group, uint32_t number, size_t first,
                            size_t last) {
    const rk_key_bucket *bucket = &t->buckets[number];
    bool has_turn = next_in_turn(t, number) == number;
    int64_t capacity = rk_dynamic_bucket_capacity(t, number), n_new = (int64_t)(last - first), n = bucket->n;
    size_t n_before = group->n_evicted;
    if (has_turn || n + n_new > capacity) {
        RK_TRY(list_unpinned(t, group, bucket));
        RK_TRY(evict_rows(t, group, number, has_turn, n_new));
        n -= (int64_t)(group->n_evicted - n_before);
    }
    if (n_new && n + n_new > capacity && t->config.policy == RK_EVICTION_NONE) {
        int64_t room = n < capacity ? capacity - n : 0;
        RK_TRY(refuse(t, group, group->created + first, last - first, (size_t)room));
        n_new = room;
    }
    return n_new ? rk_dynamic_reserve_bucket(t, number, (uint32_t)(n + n_new)) : RK_OK;
}

/* The buckets up to this one whose turn it is and that have no new keys. */
static rk_status take_turns(rk_dynamic_table *t, rk_key_group *group, int64_t *next, int64_t bucket) {
    for (; *next < bucket; *next = next_in_turn(t, *next + 1))
        RK_TRY(fit_bucket(t, group, (uint32_t)*next, 0, 0));
    if (*next == bucket) *next = next_in_turn(t, bucket + 1);
    return RK_OK;
}

static rk_status fit(rk_dynamic_table *t, rk_key_group *group, size_t number) {
    int64_t next = next_in_turn(t, group_begin(t, number));
    for (size_t first = 0, last; first < group->n_created; first = last) {
        uint32_t bucket = bucket_number(t, group->created[first].key);
        for (last = first + 1;
             last < group->n_created && bucket_number(t, group->created[last].key) == bucket;)
            last++;
        RK_TRY(take_turns(t, group, &next, bucket));
        RK_TRY(fit_bucket(t, group, bucket, first, last));
    }
    RK_TRY(take_turns(t, group, &next, group_begin(t, number + 1)));
    for (size_t i = 0; i < group->n_created; i++) group->n_admitted += group->created[i].row != 0;
    return RK_OK;
}

static int by_hash_of_key(const void *a, const void *b) {
    uint64_t x = rk_key_hash(((const rk_counted_key *)a)->key),
             y = rk_key_hash(((const rk_counted_key *)b)->key);
    return x < y ? -1 : x > y;
}

/* Keys of a bucket are together, but for those that were refused, which came last. */
static rk_status reserve_counts(rk_dynamic_table *t, rk_key_group *group) {
    if (group->n_admitted < group->n_created && group->n_counted)
        qsort(group->counted, group->n_counted, sizeof *group->counted, by_hash_of_key);
    for (size_t first = 0, last; first < group->n_counted && !t->sketches; first = last) {
        const rk_key_bucket *bucket = bucket_of(t, group->counted[first].key);
        for (last = first + 1; last < group->n_counted && bucket_of(t, group->counted[last].key) == bucket;)
            last++;
        RK_TRY(rk_dynamic_reserve_counts(t, (uint32_t)(bucket - t->buckets),
                                         bucket->n_counted + (uint32_t)(last - first)));
    }
    return RK_OK;
}

rk_status rk_dynamic_decide(rk_dynamic_table *t, size_t number) {
    rk_key_group *group = &t->groups[number];
    group->n_created = group->n_admitted = group->n_counted = group->n_evicted = 0;
    group->n_absent = 0;
    group->n_refused = 0;
    RK_TRY(gather_absent(t, group, number));
    RK_TRY(admit(t, group));
    RK_TRY(fit(t, group, number));
    return reserve_counts(t, group);
}

/* A group takes the rows that it gives up, then free ones, then such as were never in use. */
rk_status rk_dynamic_reserve(rk_dynamic_table *t, int64_t *n_places) {
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

/* The rest of a bucket's rows go into it again. */
static void give_up(rk_dynamic_table *t, rk_key_group *group, size_t first, size_t last) {
    rk_key_bucket *bucket = bucket_of(t, t->info[group->evicted[first]].key);
    uint32_t n = bucket->n;
    for (size_t i = first; i < last; i++) t->info[group->evicted[i]].last_batch = 0;
    rk_key_bucket_list(bucket, group->left);
    rk_key_bucket_clear(bucket);
    for (uint32_t i = 0; i < n; i++)
        if (t->info[group->left[i]].last_batch)
            rk_key_bucket_insert(bucket, t->info[group->left[i]].key, group->left[i]);
}

static void give_up_all(rk_dynamic_table *t, rk_key_group *group) {
    for (size_t first = 0, last; first < group->n_evicted; first = last) {
        const rk_key_bucket *bucket = bucket_of(t, t->info[group->evicted[first]].key);
        for (last = first + 1;
             last < group->n_evicted && bucket_of(t, t->info[group->evicted[last]].key) == bucket;)
            last++;
        give_up(t, group, first, last);
    }
}

static int64_t take_row(const rk_dynamic_table *t, const rk_key_group *group, size_t number) {
    if (number < group->n_evicted) return group->evicted[number];
    int64_t k = (int64_t)(number - group->n_evicted);
    return k < group->n_free ? t->free_rows[group->first_free + k] : group->first_used + k - group->n_free;
}

static void create(rk_dynamic_table *t, rk_key_group *group) {
    size_t n = 0;
    for (size_t i = 0; i < group->n_created; i++) {
        rk_new_key *new_key = &group->created[i];
        if (!new_key->row) continue;
        rk_key_bucket *bucket = bucket_of(t, new_key->key);
        new_key->row = take_row(t, group, n++);
        t->info[new_key->row].key = new_key->key;
        t->info[new_key->row].last_batch = rk_dynamic_now(t);
        t->info[new_key->row].count = (int32_t)new_key->uses;
        rk_key_bucket_insert(bucket, new_key->key, new_key->row);
        if (!t->sketches) rk_key_bucket_forget(bucket, new_key->key);
    }
}

/* In the order of their hashes, on which a sketch's counts depend. */
static void count_in_sketches(const rk_dynamic_table *t, const rk_key_group *group) {
    for (size_t i = 0; i < group->n_counted; i++) {
        uint64_t hash = rk_key_hash(group->counted[i].key);
        rk_key_sketch sketch = rk_dynamic_sketch_of(t, rk_dynamic_bucket_of(&t->config, hash));
        rk_key_sketch_count(&sketch, hash, group->counted[i].uses);
    }
    for (size_t i = 0; i < group->n_counted; i++) {
        rk_key_sketch sketch = rk_dynamic_sketch_of(t, bucket_number(t, group->counted[i].key));
        rk_key_sketch_age(&sketch, t->config.min_count);
    }
}

static void count(rk_dynamic_table *t, const rk_key_group *group) {
    if (t->sketches) {
        count_in_sketches(t, group);
        return;
    }
    for (size_t i = 0; i < group->n_counted; i++)
        rk_key_bucket_count(bucket_of(t, group->counted[i].key), group->counted[i].key,
                            group->counted[i].uses);
    for (size_t i = 0; i < group->n_counted; i++) {
        uint32_t number = bucket_number(t, group->counted[i].key);
        while (t->buckets[number].n_counted > 2 * rk_dynamic_bucket_capacity(t, number))
            rk_key_bucket_halve(&t->buckets[number]);
    }
}

/* Rows of new keys to where those of their uses are wanted. */
static void hand_out(const rk_dynamic_table *t, const rk_key_group *group) {
    for (size_t k = 0; k < group->n_created; k++)
        for (uint32_t i = group->created[k].first; i < group->created[k].last && group->created[k].row; i++) {
            rk_dynamic_use use = rk_dynamic_find_use(t, group->absent[i].use);
            use.uses->rows[use.number] = group->created[k].row;
        }
}

void rk_dynamic_apply(rk_dynamic_table *t, size_t number) {
    rk_key_group *group = &t->groups[number];
    give_up_all(t, group);
    create(t, group);
    count(t, group);
    hand_out(t, group);
}

/* Once in a billion batches. Rows that were not used for that long are equally old. */
static void move_first_batch(rk_dynamic_table *t) {
    int64_t moved = rk_dynamic_first_batch(t->n_batches) - t->first_batch;
    if (!moved) return;
    for (int64_t row = t->n_shared; row < t->n_used; row++)
        if (t->info[row].last_batch)
            t->info[row].last_batch =
                t->info[row].last_batch > moved ? (int32_t)(t->info[row].last_batch - moved) : 1;
    t->first_batch += moved;
}

void rk_dynamic_end(rk_dynamic_table *t) {
    for (size_t g = 0; g < t->n_groups; g++) { /* what was free was taken from the end */
        t->n_free -= t->groups[g].n_free;
        int64_t n_more = (int64_t)t->groups[g].n_admitted - (int64_t)t->groups[g].n_evicted;
        t->n_keys += n_more;
        if (n_more > t->groups[g].n_free) t->n_used += n_more - t->groups[g].n_free;
        t->totals.n_admitted += (int64_t)t->groups[g].n_admitted;
        t->totals.n_evicted += (int64_t)t->groups[g].n_evicted;
        t->totals.n_refused += t->groups[g].n_refused;
    }
    for (size_t g = 0; g < t->n_groups; g++)
        for (size_t i = t->groups[g].n_admitted; i < t->groups[g].n_evicted; i++)
            t->free_rows[t->n_free++] = t->groups[g].evicted[i];
    t->n_batches++;
    t->n_chunks = 0;
    move_first_batch(t);
}
