/* A collection of one dynamic table, and what its keys, counts and rows are by definition: plain loops over
 * lists (docs/dynamic_tables.md). */
#ifndef RK_TESTS_DYNAMIC_FIXTURE_H
#define RK_TESTS_DYNAMIC_FIXTURE_H

#include "embedding/embedding_fixture.h"

enum { DIM = 4, MAX_KEYS = 6000, MAX_USES = 24000 };

/* Dense features of one id a sample, all of the table, summed. */
static inline rk_status try_make_dynamic(const rk_dynamic_config *dynamic, rk_optimizer_kind kind,
                                         int32_t n_features, rk_embeddings **out) {
    static const char *const names[] = {"a", "b"};
    rk_optimizer optimizer;
    RK_TRY(rk_optimizer_init(&optimizer, kind));
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    rk_feature_config features[2];
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    rk_table_part part = {.n_rows = dynamic->max_capacity, .dim = DIM, .dynamic = dynamic};
    table.name = "t";
    table.n_rows = dynamic->max_capacity;
    table.dim = DIM;
    table.optimizer = &optimizer;
    for (int f = 0; f < 2; f++)
        features[f] = (rk_feature_config){sizeof *features, names[f], "t", RK_COMBINER_SUM, 0, false, false};
    config.seed = 5;
    config.tables = &table;
    config.n_tables = 1;
    config.features = features;
    config.n_features = n_features;
    return rk_embeddings_create_with_parts(&config, &part, out);
}

static inline rk_embeddings *make_dynamic(const rk_dynamic_config *dynamic, rk_optimizer_kind kind,
                                          int32_t n_features) {
    rk_embeddings *e;
    OK(try_make_dynamic(dynamic, kind, n_features, &e));
    return e;
}

static inline rk_dynamic_table *dynamic_of(rk_embeddings *e) {
    return e->tables[0].dynamic;
}

/* What a batch looked up, and then its gradients: [n_features, n, DIM]. */
static float values[2 * MAX_USES * DIM];

static inline void place_values(int64_t n, rk_activation activations[2]) {
    for (int f = 0; f < 2; f++) activations[f] = (rk_activation){values + f * n * DIM, DIM, NULL};
}

/* The stream's time of the steps to come, in seconds; below 0: a batch has a second. */
static double stream_time = -1;

static inline void set_time_of_step(rk_embeddings *e) {
    double seconds = stream_time < 0 ? (double)dynamic_of(e)->n_batches : stream_time;
    int64_t timestamp;
    if (!dynamic_of(e)->config.ttl) return;
    assert_true(rk_timestamp_from_seconds(seconds, &timestamp));
    rk_embeddings_set_batch_timestamp(e, timestamp);
}

/* One step on n samples; keys [n_features, n]. Each gradient is a function of its place. */
static inline rk_status try_step(rk_embeddings *e, int64_t n, const int64_t *keys) {
    rk_ids ids[2];
    rk_activation activations[2];
    for (int f = 0; f < 2; f++) ids[f] = (rk_ids){NULL, 1, keys + f * n, NULL};
    place_values(n, activations);
    set_time_of_step(e);
    RK_TRY(look_up(e, n, ids, activations));
    for (int64_t i = 0; i < e->n_features * n * DIM; i++) values[i] = (float)(i % 7) * 0.25f - 0.5f;
    return apply_gradients(e, activations);
}

static inline void train_step(rk_embeddings *e, int64_t n, const int64_t *keys) {
    OK(try_step(e, n, keys));
}

/* The values that a key has when it is only looked up. */
static inline void look_up_key(rk_embeddings *e, int64_t key, float out[DIM]) {
    float other[DIM];
    rk_ids ids[2] = {{NULL, 1, &key, NULL}, {NULL, 1, &key, NULL}};
    rk_activation activations[2] = {{out, DIM, NULL}, {other, DIM, NULL}};
    OK(look_up_eval(e, 1, ids, activations));
}

static inline int64_t row_of(rk_embeddings *e, int64_t key) {
    int64_t row;
    rk_dynamic_find_rows(dynamic_of(e), &key, 1, &row);
    return row;
}

/* What is known of a key. */
typedef struct known_key {
    int64_t key, last, count, candidate;
    bool has_row;
    int64_t uses, first; /* of the batch at hand; first: its first place */
    bool is_new;
} known_key;

typedef struct reference {
    rk_dynamic_config config;
    const rk_dynamic_table *table; /* for the buckets of keys */
    known_key keys[MAX_KEYS];
    int n;
    int64_t now, n_admitted, n_evicted, n_refused;
} reference;

static inline uint32_t bucket_number_of(const reference *r, int64_t key) {
    return rk_dynamic_bucket_of_key(&r->table->config, key);
}

static inline known_key *know(reference *r, int64_t key) {
    for (int i = 0; i < r->n; i++)
        if (r->keys[i].key == key) return &r->keys[i];
    assert_true(r->n < MAX_KEYS);
    r->keys[r->n] = (known_key){.key = key};
    return &r->keys[r->n++];
}

/* Whether a goes before b. */
static inline bool goes_first(int policy, const known_key *a, const known_key *b) {
    if (policy == RK_EVICTION_LFU && a->count != b->count) return a->count < b->count;
    if (a->last != b->last) return a->last < b->last;
    return (uint64_t)a->key < (uint64_t)b->key;
}

/* The key of a bucket that is next: a new one that the batch uses last, or one with a row that goes first. */
static inline known_key *next_of(reference *r, uint32_t bucket, bool is_new, int policy) {
    known_key *best = NULL;
    for (int i = 0; i < r->n; i++) {
        known_key *k = &r->keys[i];
        if (bucket_number_of(r, k->key) != bucket) continue;
        if (is_new && k->is_new && (!best || k->first > best->first)) best = k;
        if (!is_new && k->has_row && k->uses == 0 && (!best || goes_first(policy, k, best))) best = k;
    }
    return best;
}

static inline void lose_row(reference *r, known_key *k) {
    k->has_row = false;
    k->count = k->last = 0;
    r->n_evicted++;
}

/* Rows of a bucket without a use in so many batches, when it has its turn; returns how many went. */
static inline int64_t expire_reference(reference *r, uint32_t bucket, int64_t n, int64_t kept) {
    int64_t ttl = r->config.ttl_steps, turn = ttl / 8 > 1 ? ttl / 8 : 1, n_gone = 0;
    if (!ttl || r->now % turn != bucket % turn) return 0;
    for (known_key *k; n - n_gone > kept && (k = next_of(r, bucket, false, RK_EVICTION_LRU)); n_gone++) {
        if (r->now - k->last < ttl) break;
        lose_row(r, k);
    }
    return n_gone;
}

static inline void fit_reference(reference *r, uint32_t bucket) {
    int64_t kept = r->config.keep / r->config.n_buckets + (bucket < r->config.keep % r->config.n_buckets);
    int64_t n = 0, n_new = 0, capacity = rk_dynamic_bucket_capacity(r->table, bucket);
    for (int i = 0; i < r->n; i++)
        if (bucket_number_of(r, r->keys[i].key) == bucket)
            n += r->keys[i].has_row, n_new += r->keys[i].is_new;
    n -= expire_reference(r, bucket, n + n_new, kept);
    if (n_new == 0 || n + n_new <= capacity) return;
    if (r->config.policy == RK_EVICTION_NONE) {
        for (; n + n_new > capacity && n_new > 0; n_new--) next_of(r, bucket, true, 0)->is_new = false;
        return;
    }
    int64_t most = (int64_t)((double)capacity * r->config.evict_to + 1e-9);
    if (most < kept) most = kept;
    for (known_key *k; n + n_new > most && (k = next_of(r, bucket, false, r->config.policy)); n--)
        lose_row(r, k);
}

static inline int64_t count_candidates_above(const reference *r, uint32_t bucket, int64_t least) {
    int64_t n = 0;
    for (int i = 0; i < r->n; i++)
        n += bucket_number_of(r, r->keys[i].key) == bucket && r->keys[i].candidate > least;
    return n;
}

static inline void lower_reference(reference *r, uint32_t bucket) {
    int64_t least = 0;
    while (count_candidates_above(r, bucket, least) > 2 * rk_dynamic_bucket_capacity(r->table, bucket))
        least++;
    for (int i = 0; i < r->n; i++) {
        int64_t *count = &r->keys[i].candidate;
        if (bucket_number_of(r, r->keys[i].key) == bucket) *count = *count > least ? *count - least : 0;
    }
}

static inline void step_reference(reference *r, int64_t n, const int64_t *keys) {
    r->now++;
    for (int i = 0; i < r->n; i++) r->keys[i].uses = 0, r->keys[i].is_new = false;
    for (int64_t i = 0; i < n; i++) {
        known_key *k = know(r, keys[i]);
        if (k->uses++ == 0) k->first = i;
    }
    for (int i = 0; i < r->n; i++) {
        known_key *k = &r->keys[i];
        if (k->uses == 0) continue;
        if (k->has_row) {
            k->last = r->now;
            k->count += k->uses;
        } else {
            k->is_new = k->candidate + k->uses >= r->config.min_count;
        }
    }
    for (uint32_t b = 0; b < r->config.n_buckets; b++) fit_reference(r, b);
    for (int i = 0; i < r->n; i++) {
        known_key *k = &r->keys[i];
        if (k->is_new) {
            k->has_row = true;
            k->last = r->now;
            k->count = k->uses;
            k->candidate = 0;
            r->n_admitted++;
        } else if (k->uses && !k->has_row) {
            r->n_refused += k->uses;
            if (r->config.min_count > 1) k->candidate += k->uses;
        }
    }
    for (uint32_t b = 0; b < r->config.n_buckets; b++) lower_reference(r, b);
}

static inline void assert_as_reference(const reference *r, rk_embeddings *e) {
    rk_dynamic_table *t = dynamic_of(e);
    int64_t n = 0;
    for (int i = 0; i < r->n; i++) {
        const known_key *k = &r->keys[i];
        int64_t row = row_of(e, k->key);
        assert_int_equal(row > 0, k->has_row);
        n += k->has_row;
        uint32_t uses = rk_key_bucket_read_count(&t->buckets[bucket_number_of(r, k->key)], k->key);
        assert_int_equal(uses, k->has_row ? 0 : k->candidate);
        if (!row) continue;
        assert_int_equal(rk_dynamic_key_of_row(t, row), k->key);
        assert_int_equal(*rk_dynamic_last_batch(t, row), k->last);
        assert_int_equal(rk_dynamic_count_of_row(t, row), k->count);
    }
    assert_int_equal(t->n_keys, n);
    assert_int_equal(t->totals.n_admitted, r->n_admitted);
    assert_int_equal(t->totals.n_evicted, r->n_evicted);
    assert_int_equal(t->totals.n_refused, r->n_refused);
}

static inline void take_entry(const rk_state_dict_entry *to, const rk_state_dict_entry *from) {
    for (int64_t r = 0; r < from->dims[0]; r++)
        rk_state_dict_copy_rows(from, r, 1, (char *)to->data + (size_t)r * rk_state_dict_stride(to));
}

/* As a checkpoint does it: keys, then values where the state says, then what is made of both. */
static inline rk_status take_state(rk_embeddings *to, rk_embeddings *from) {
    rk_state_dict state = {0}, read = {0};
    rk_status status;
    RK_GOTO(rk_embeddings_state_dict(from, &state));
    for (size_t i = state.n; i-- > 0;) { /* in any order */
        const rk_state_dict_entry *entry = &state.entries[i];
        RK_AUTOFREE int64_t *keys = NULL;
        if (entry->type != RK_I64) continue;
        RK_GOTO(rk_alloc((size_t)entry->dims[0], sizeof *keys, &keys));
        rk_state_dict_copy_rows(entry, 0, entry->dims[0], keys);
        rk_stored_keys stored = {entry->name, 0, entry->dims[0], entry->dims[0], keys};
        RK_GOTO(rk_embeddings_load_keys(to, &stored));
    }
    RK_GOTO(rk_embeddings_state_dict(to, &read));
    assert_true(read.n == state.n || dynamic_of(to)->config.storage); /* whose rows are no tensors */
    for (size_t i = 0; i < read.n; i++) {
        if (strstr(read.entries[i].name, "/" RK_DISK_PREFIX)) continue; /* what records have */
        const rk_state_dict_entry *entry = rk_state_dict_find(&state, read.entries[i].name);
        assert_non_null(entry);
        assert_int_equal(rk_state_dict_entry_bytes(&read.entries[i]), rk_state_dict_entry_bytes(entry));
        assert_null(read.entries[i].order);
        take_entry(&read.entries[i], entry);
    }
    RK_GOTO(rk_embeddings_finish_loading(to));
done:
    rk_state_dict_release(&state);
    rk_state_dict_release(&read);
    return status;
}

#endif
