/* Tables whose rows are partly on a disk: the bits of those whose rows are all in memory, whatever the
 * memory, the threads and the moments at which they are saved and go on. */
#include <fcntl.h>
#include <unistd.h>

#include "embedding/dynamic_fixture.h"

#include "base/file/file.h"
#include "base/thread/parallel.h"

enum { N = 300 };
static char folder[64];
static int64_t keys[2 * N];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/reckon-tier-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return rk_remove_tree(folder) == RK_OK ? 0 : -1;
}

static const char *rows_folder(void) {
    static char path[128];
    snprintf(path, sizeof path, "%s/rows", folder);
    return path;
}

static const char *saved_folder(void) {
    static char path[128];
    snprintf(path, sizeof path, "%s/saved", folder);
    return path;
}

/* Some keys are used often, others come again after long. */
static void draw_keys(uint64_t batch) {
    rk_rng rng = {batch, 47, 0};
    for (int64_t i = 0; i < 2 * N; i++) {
        double u = rk_rng_uniform(&rng);
        keys[i] = (int64_t)(u * u * u * 1500) * 0x9E3779B97F4A7 + (int64_t)(batch / 5);
    }
}

static void prefetch(rk_embeddings *e, const int64_t *next) {
    rk_ids ids[2] = {{NULL, 1, next, NULL}, {NULL, 1, next + N, NULL}};
    rk_embeddings_prefetch(e, 0, N, ids);
}

/* Before batch b: the batch that comes after it, another one, or nothing. */
static bool foresee_after(rk_embeddings *e, int b) {
    int64_t now[2 * N];
    memcpy(now, keys, sizeof now);
    draw_keys((uint64_t)(b % 3 == 0 ? b + 1 : b + 9));
    if (b % 3 < 2) prefetch(e, keys);
    memcpy(keys, now, sizeof keys);
    return b % 3 == 0;
}

/* As once a batch has begun. */
static void read_ahead(rk_disk_row_cache *t) {
    rk_disk_row_cache_start_background(t);
    rk_disk_row_cache_finish_background(t);
}

static void train(rk_embeddings *e, int first, int last) {
    for (int b = first; b < last; b++) {
        draw_keys((uint64_t)b);
        train_step(e, N, keys);
    }
}

/* Row and slots of a key, as a lookup finds it. */
static size_t record_of(rk_embeddings *e, int64_t key, uint8_t *out) {
    rk_ids ids[2] = {{NULL, 1, &key, NULL}, {NULL, 1, &key, NULL}};
    const rk_table *t = &e->tables[0];
    OK(rk_embeddings_dedup(e, 1, ids, false));
    int64_t row = e->eval_batch.uses[0].rows[0];
    size_t row_bytes = DIM * rk_dtype_bytes(t->config.dtype), n = row_bytes;
    memcpy(out, (const char *)t->rows.data + (size_t)row * row_bytes, row_bytes);
    for (int s = 0; s < t->n_slots; s++) {
        size_t width = t->slots[s].per_row ? 1 : DIM;
        memcpy(out + n, t->slot_values[s] + (size_t)row * width, width * sizeof(float));
        n += width * sizeof(float);
    }
    return n;
}

static void assert_same_tables(rk_embeddings *a, rk_embeddings *b) {
    const rk_dynamic_table *t = dynamic_of(a);
    uint8_t one[256], other[256];
    assert_int_equal(dynamic_of(a)->n_keys, dynamic_of(b)->n_keys);
    assert_int_equal(a->tables[0].step, b->tables[0].step);
    for (int64_t row = 0; row < t->n_used; row++) {
        int64_t key = t->info[row].key;
        if (row && rk_dynamic_find_row(t, key) != row) continue; /* it was evicted */
        assert_int_equal(rk_dynamic_find_row(dynamic_of(b), key) > 0, rk_dynamic_find_row(t, key) > 0);
        size_t n = record_of(a, key, one);
        assert_int_equal(record_of(b, key, other), n);
        assert_memory_equal(one, other, n);
    }
}

static const rk_dynamic_config usual = {.max_capacity = 700,
                                        .n_buckets = 7,
                                        .policy = RK_EVICTION_LRU,
                                        .evict_to = 0.9,
                                        .min_count = 1,
                                        .probability = 1};

/* memory: of so many rows, about. */
static rk_dynamic_config on_disk(const rk_dynamic_config *config, int rows) {
    rk_dynamic_config tiered = *config;
    tiered.storage = rows_folder();
    tiered.memory_bytes = (uint64_t)rows * (DIM * 12 + RK_TIER_PLACE_BYTES);
    return tiered;
}

static void compare(const rk_dynamic_config *config, rk_optimizer_kind kind, int rows) {
    rk_dynamic_config tiered = on_disk(config, rows);
    rk_embeddings *e = make_dynamic(config, kind, 2), *other = make_dynamic(&tiered, kind, 2);
    const rk_disk_row_cache *t = other->tables[0].tier;
    assert_non_null(t);
    bool is_known = false;
    int64_t n_ahead = 0;
    for (int b = 0; b < 30; b++) {
        static float before[2 * N * DIM];
        train(e, b, b + 1);
        memcpy(before, values, sizeof before);
        bool is_next_known = foresee_after(other, b);
        train(other, b, b + 1);
        assert_memory_equal(values, before, sizeof before);
        if (is_known) {
            assert_int_equal(t->n_read, 0);
            n_ahead += t->n_stored;
        }
        is_known = is_next_known && b % 10 != 4;
        if (b % 10 == 4) assert_same_tables(e, other); /* whose lookups bring other rows */
    }
    assert_same_tables(e, other);
    assert_true(n_ahead > 0 || rows > 100);
    rk_disk_row_cache_finish_background(other->tables[0].tier);
    rk_row_log_counts counts = rk_row_log_read_counts(t->log);
    int64_t n_there = 0;
    for (int64_t row = 0; (row = rk_dynamic_next_disk_row(t->table, row)); row++)
        n_there += rk_dynamic_read_where(t->table, row) != 0;
    assert_int_equal(n_there, dynamic_of(other)->n_keys);
    if (rows < 400) assert_true(counts.n_written_bytes > 0 || counts.n_records > 0);
    rk_embeddings_free(e);
    rk_embeddings_free(other);
}

static void test_bits_of_rows_in_memory(void **state) {
    (void)state;
    static const int rows[] = {1, 100, 350, 2000};
    rk_dynamic_config config = usual;
    for (int i = 0; i < 4; i++)
        for (int policy = RK_EVICTION_LRU; policy <= RK_EVICTION_NONE; policy++) {
            config.policy = policy;
            config.oov = policy == RK_EVICTION_LFU;
            config.min_count = 1 + policy;
            config.ttl_steps = i == 1 ? 4 : 0;
            config.counter = i == 2 ? RK_COUNTER_COUNT_MIN : RK_COUNTER_EXACT;
            OK(rk_parallel_set_threads(1 + i));
            compare(&config, i % 2 ? RK_OPTIMIZER_ADAM : RK_OPTIMIZER_ADAGRAD, rows[i]);
        }
}

/* Keys of one bucket, of hashes that differ in a few bits, and in none of those that are looked at first. */
static int64_t key_alike(int64_t i) {
    return rk_key_of_hash(((uint64_t)(i / 2) << 33) + (uint64_t)(i % 2) * UINT32_MAX);
}

/* What is decided is what the reference has, and rows are those of a table in memory. */
static void test_keys_alike(void **state) {
    (void)state;
    enum { USES = 200 };
    static reference known;
    rk_dynamic_config config = usual;
    config.n_buckets = 2;
    config.max_capacity = 500;
    for (int policy = RK_EVICTION_LRU; policy <= RK_EVICTION_NONE; policy++) {
        config.policy = policy;
        config.min_count = 1 + policy % 2;
        config.ttl_steps = policy == RK_EVICTION_NONE ? 20 : 0;
        rk_dynamic_config tiered = on_disk(&config, 60);
        rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_ADAM, 2),
                      *other = make_dynamic(&tiered, RK_OPTIMIZER_ADAM, 2);
        known = (reference){.config = tiered, .table = dynamic_of(other)};
        for (int b = 0; b < 40; b++) {
            static float before[2 * N * DIM];
            rk_rng rng = {(uint64_t)b, 48, 0};
            for (int64_t i = 0; i < USES; i++) keys[i] = key_alike((int64_t)rk_rng_below(&rng, 700) + 10 * b);
            train_step(e, USES / 2, keys);
            memcpy(before, values, sizeof before);
            train_step(other, USES / 2, keys);
            assert_memory_equal(values, before, USES * DIM * sizeof *values);
            step_reference(&known, USES, keys);
            assert_as_reference(&known, other);
        }
        assert_int_equal(rk_dynamic_bucket_of_key(&config, key_alike(1089)), 0);
        assert_true(known.n_evicted > 100 || policy == RK_EVICTION_NONE);
        assert_same_tables(e, other);
        rk_embeddings_free(e);
        rk_embeddings_free(other);
    }
}

/* Saved, then read into a table with other memory, and into one that has all rows in it. */
static void test_going_on(void **state) {
    (void)state;
    rk_dynamic_config tiered = on_disk(&usual, 100), larger = on_disk(&usual, 300), read = tiered;
    rk_embeddings *e = make_dynamic(&usual, RK_OPTIMIZER_ADAM, 2),
                  *first = make_dynamic(&tiered, RK_OPTIMIZER_ADAM, 2), *second, *reader;
    train(e, 0, 20);
    train(first, 0, 20);
    OK(rk_make_directories(saved_folder()));
    OK(rk_embeddings_save_rows(first, saved_folder()));
    train(first, 20, 25); /* after which the folder is as it was */
    read.is_read = true;
    reader = make_dynamic(&read, RK_OPTIMIZER_ADAM, 2);
    OK(take_state(reader, e)); /* keys alone: the rows are read */
    OK(rk_embeddings_load_rows(reader, saved_folder()));
    uint8_t one[256], other[256];
    for (int64_t row = 1; row < dynamic_of(e)->n_used; row++) {
        int64_t key = dynamic_of(e)->info[row].key;
        record_of(e, key, one);
        record_of(reader, key, other);
        assert_memory_equal(one, other, DIM * sizeof(float));
    }
    rk_embeddings_free(reader);
    reader = make_dynamic(&usual, RK_OPTIMIZER_ADAM, 2);
    OK(take_state(reader, e));
    rk_embeddings_free(first);
    second = make_dynamic(&larger, RK_OPTIMIZER_ADAM, 2);
    train(second, 0, 3); /* what it knew is forgotten */
    OK(take_state(second, reader));
    OK(rk_embeddings_load_rows(second, saved_folder()));
    assert_same_tables(e, second);
    train(e, 20, 40);
    train(second, 20, 40);
    assert_same_tables(e, second);
    rk_embeddings_free(e);
    rk_embeddings_free(reader);
    rk_embeddings_free(second);
}

/* The two halves of the table, on one rank. */
static rk_embeddings *make_parts(const rk_dynamic_config *dynamic) {
    rk_embeddings *both;
    rk_optimizer optimizer;
    rk_table_config tables[2] = {RK_TABLE_CONFIG_INIT, RK_TABLE_CONFIG_INIT};
    rk_table_part parts[2];
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    OK(rk_optimizer_init(&optimizer, RK_OPTIMIZER_ADAM));
    for (int i = 0; i < 2; i++) {
        tables[i].name = i ? "1" : "0";
        tables[i].n_rows = rk_dynamic_part_capacity(dynamic, i, 2);
        tables[i].dim = DIM;
        tables[i].optimizer = &optimizer;
        parts[i] = (rk_table_part){.name = "t",
                                   .n_rows = dynamic->max_capacity,
                                   .dim = DIM,
                                   .n_parts = 2,
                                   .part = i,
                                   .n_here = 2,
                                   .dynamic = dynamic};
    }
    config.tables = tables;
    config.n_tables = 2;
    OK(rk_embeddings_create_with_parts(&config, parts, &both));
    return both;
}

static void give_keys(rk_embeddings *to, rk_embeddings *from) {
    rk_state_dict state = {0};
    int64_t *list;
    OK(rk_embeddings_state_dict(from, &state));
    const rk_state_dict_entry *entry = rk_state_dict_find(&state, "table/t/keys");
    OK(rk_alloc((size_t)entry->dims[0], sizeof *list, &list));
    rk_state_dict_copy_rows(entry, 0, entry->dims[0], list);
    OK(rk_embeddings_load_keys(to,
                               &(rk_stored_keys){"table/t/keys", 0, entry->dims[0], entry->dims[0], list}));
    OK(rk_embeddings_finish_loading(to));
    rk_free(list);
    rk_state_dict_release(&state);
}

/* The log of a whole table becomes those of its parts, and those become one again. */
static void test_other_parts(void **state) {
    (void)state;
    char parted[200], left[200], late[200];
    rk_dynamic_config tiered = on_disk(&usual, 100);
    rk_embeddings *e = make_dynamic(&usual, RK_OPTIMIZER_ADAM, 2),
                  *whole = make_dynamic(&tiered, RK_OPTIMIZER_ADAM, 2);
    train(e, 0, 20);
    train(whole, 0, 20);
    OK(rk_make_directories(saved_folder()));
    OK(rk_embeddings_save_rows(whole, saved_folder()));
    rk_embeddings *both = make_parts(&tiered); /* beside it */
    assert_int_equal(both->tables[1].dynamic_config.memory_bytes, tiered.memory_bytes / 2);
    give_keys(both, whole);
    OK(rk_embeddings_load_rows(both, saved_folder()));
    snprintf(parted, sizeof parted, "%s/parted", folder);
    OK(rk_make_directories(parted));
    OK(rk_embeddings_save_rows(both, parted));
    rk_embeddings_free(both);
    rk_embeddings_free(whole);
    snprintf(left, sizeof left, "%s/t.1-of-3", rows_folder()); /* by a run that was killed */
    OK(rk_make_directories(left));
    snprintf(left, sizeof left, "%s/t.1-of-3/rows-00000000.log", rows_folder());
    OK(rk_file_write(left, "", 0));
    whole = make_dynamic(&tiered, RK_OPTIMIZER_ADAM, 2);
    assert_false(rk_file_exists(left));
    snprintf(late, sizeof late, "%s/t.2-of-3", rows_folder());
    OK(rk_make_directories(late)); /* by one of its ranks that ends after this run has begun */
    snprintf(late, sizeof late, "%s/t.2-of-3/rows-00000000.log", rows_folder());
    OK(rk_file_write(late, "", 0));
    OK(take_state(whole, e));
    OK(rk_embeddings_load_rows(whole, parted));
    assert_same_tables(e, whole);
    train(e, 20, 25);
    train(whole, 20, 25);
    assert_same_tables(e, whole);
    rk_embeddings_free(e);
    rk_embeddings_free(whole);
    assert_false(rk_file_exists(late));
}

/* Bytes of all files of rows that there are become others. */
static int damage(const char *where) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    int n = 0;
    OK(rk_list_directory(where, &names));
    for (size_t i = 0; i < names.n; i++) {
        char path[300];
        if (!strstr(names.texts[i], ".log")) continue;
        snprintf(path, sizeof path, "%s/%s", where, names.texts[i]);
        int file = open(path, O_RDWR);
        for (off_t at = 2000, end = lseek(file, 0, SEEK_END); at < end; at += 4096) {
            char byte;
            assert_int_equal(pread(file, &byte, 1, at), 1);
            byte ^= 8;
            assert_int_equal(pwrite(file, &byte, 1, at), 1);
            n++;
        }
        close(file);
    }
    return n;
}

/* What a page has lost ends the batch before an update: rows, slots and steps are as they were. */
static void test_damage_ends_the_batch(void **state) {
    (void)state;
    char where[200];
    rk_dynamic_config tiered = on_disk(&usual, 150);
    rk_embeddings *e = make_dynamic(&tiered, RK_OPTIMIZER_ADAM, 2);
    const rk_table *t = &e->tables[0];
    train(e, 0, 20);
    OK(rk_make_directories(saved_folder()));
    OK(rk_embeddings_save_rows(e, saved_folder())); /* so that pages are on the disk */
    snprintf(where, sizeof where, "%s/t", rows_folder());
    assert_true(damage(where) > 0);
    size_t n_bytes = (size_t)t->tier->n_places * DIM * sizeof(float);
    int64_t step = t->step, n_places = t->tier->n_places;
    void *before;
    OK(rk_alloc(n_bytes, 1, &before));
    memcpy(before, t->rows.data, n_bytes);
    draw_keys(20);
    prefetch(e, keys);
    read_ahead(t->tier); /* whose error nobody hears */
    assert_int_equal(try_step(e, N, keys), RK_BAD_DATA);
    assert_non_null(strstr(rk_last_error(), ".log': page "));
    assert_non_null(strstr(rk_last_error(), "its checksum is wrong"));
    assert_int_equal(t->step, step);
    assert_int_equal(t->tier->n_places, n_places);
    assert_memory_equal(before, t->rows.data, n_bytes);
    rk_free(before);
    rk_embeddings_free(e);
    e = make_dynamic(&tiered, RK_OPTIMIZER_ADAM, 2);
    assert_int_equal(rk_embeddings_load_rows(e, saved_folder()), RK_BAD_DATA); /* they are links of these */
    assert_non_null(strstr(rk_last_error(), "table 't': '"));
    rk_embeddings_free(e);
}

/* Rows that could not be read are where they were: also the first that went to the disk, whose place is 0. */
static void test_rows_after_a_failure(void **state) {
    (void)state;
    enum { KEY = 5, OTHERS = 120 };
    char where[200];
    uint8_t before[256], after[256];
    int64_t some[2] = {KEY, KEY}, others[2 * OTHERS];
    rk_dynamic_config tiered = on_disk(&usual, 1);
    rk_embeddings *e = make_dynamic(&tiered, RK_OPTIMIZER_ADAM, 2);
    const rk_disk_row_cache *t = e->tables[0].tier;
    train_step(e, 1, some);
    size_t n = record_of(e, KEY, before);
    for (int b = 0; b < 2; b++) {
        for (int i = 0; i < 2 * OTHERS; i++) others[i] = 1000 * (b + 1) + i;
        train_step(e, OTHERS, others);
    }
    assert_true(rk_dynamic_read_where(t->table, row_of(e, KEY)) == RK_TIER_ON_DISK);
    OK(rk_make_directories(saved_folder()));
    OK(rk_embeddings_save_rows(e, saved_folder()));
    snprintf(where, sizeof where, "%s/t", rows_folder());
    assert_true(damage(where) > 0);
    assert_int_equal(try_step(e, 1, some), RK_BAD_DATA);
    assert_true(damage(where) > 0); /* as it was */
    assert_int_equal(record_of(e, KEY, after), n);
    assert_memory_equal(before, after, n);
    rk_embeddings_free(e);
}

/* What cannot be done beside a batch is done by the next one. */
static void test_background_without_memory(void **state) {
    (void)state;
    enum { BATCHES = 12 };
    rk_dynamic_config tiered = on_disk(&usual, 100);
    rk_embeddings *e = make_dynamic(&usual, RK_OPTIMIZER_ADAM, 2),
                  *other = make_dynamic(&tiered, RK_OPTIMIZER_ADAM, 2);
    for (int b = 0; b < BATCHES; b++) {
        train(e, b, b + 1);
        train(other, b, b + 1);
        draw_keys((uint64_t)b + 1);
        rk_alloc_fail_after(1 + b, true);
        prefetch(other, keys);
        read_ahead(other->tables[0].tier);
        rk_alloc_fail_after(0, false);
    }
    assert_same_tables(e, other);
    rk_embeddings_free(e);
    rk_embeddings_free(other);
}

/* Of a batch that needs more memory than there is, keys stand where the tier has them. */
static void test_keys_without_memory(void **state) {
    (void)state;
    rk_dynamic_config tiered = on_disk(&usual, 1);
    rk_status status = RK_NO_MEMORY;
    long n = 0;
    draw_keys(0);
    while (status != RK_OK) {
        rk_embeddings *e = make_dynamic(&tiered, RK_OPTIMIZER_ADAM, 2);
        train_step(e, 1, keys);
        rk_alloc_fail_after(++n, false);
        status = try_step(e, N, keys);
        rk_alloc_fail_after(0, false);
        assert_ptr_equal(e->tables[0].rows.keys, e->tables[0].tier->keys);
        rk_embeddings_free(e);
    }
    assert_true(n > 20);
}

/* Files that could not be compacted beside a batch end the next one before an update, though that needs none
 * of their rows; once they can be read, it goes on. */
static void test_compaction_beside_a_batch(void **state) {
    (void)state;
    enum { OTHERS = 20 };
    char where[200];
    rk_dynamic_config tiered = on_disk(&usual, 1);
    rk_embeddings *e = make_dynamic(&tiered, RK_OPTIMIZER_ADAM, 2);
    rk_disk_row_cache *t = e->tables[0].tier;
    for (int64_t i = 0; i < 2 * N; i++) keys[i] = i / 2;
    train_step(e, OTHERS, keys);
    for (int64_t i = 0; i < 2 * N; i++) keys[i] += 1000;
    train_step(e, N, keys);
    OK(rk_make_directories(saved_folder()));
    OK(rk_embeddings_save_rows(e, saved_folder()));
    snprintf(where, sizeof where, "%s/t", rows_folder());
    assert_true(damage(where) > 0);
    train_step(e, N, keys); /* most records of the file are dropped */
    rk_disk_row_cache_finish_background(t);
    assert_true(t->compact_failed);
    int64_t step = e->tables[0].step;
    assert_int_equal(try_step(e, N, keys), RK_BAD_DATA);
    assert_non_null(strstr(rk_last_error(), "its checksum is wrong"));
    assert_int_equal(e->tables[0].step, step);
    assert_true(damage(where) > 0); /* as it was */
    train_step(e, N, keys);
    rk_disk_row_cache_finish_background(t);
    assert_int_equal(rk_row_log_read_counts(t->log).n_moved, OTHERS);
    rk_embeddings_free(e);
}

static void test_refusals(void **state) {
    (void)state;
    rk_dynamic_config tiered = on_disk(&usual, 150);
    rk_embeddings *e = make_dynamic(&tiered, RK_OPTIMIZER_ADAM, 2), *other;
    float out[DIM];
    int64_t key = 5;
    rk_ids ids[2] = {{NULL, 1, &key, NULL}, {NULL, 1, &key, NULL}};
    rk_activation activations[2] = {{out, DIM, NULL}, {out, DIM, NULL}};
    FAILS(
        look_up_eval(e, 1, ids, activations), RK_UNSUPPORTED,
        "table 't' has rows on a disk, which a model in training reads for its own steps only\nhint: open a "
        "checkpoint of it");
    assert_int_equal(try_make_dynamic(&tiered, RK_OPTIMIZER_ADAM, 2, &other), RK_BUSY);
    assert_int_equal(rk_embeddings_load_rows(e, saved_folder()), RK_NOT_FOUND);
    rk_embeddings_free(e);
    assert_false(rk_file_exists(rows_folder()) && rmdir(rows_folder()) != 0); /* which is empty */
}

static rk_status use_tier(void) {
    rk_embeddings *e = NULL, *other = NULL;
    rk_dynamic_config config = on_disk(&usual, 20);
    rk_status status;
    config.max_capacity = 60;
    config.n_buckets = 2;
    RK_GOTO(try_make_dynamic(&config, RK_OPTIMIZER_ADAM, 1, &e));
    for (uint64_t b = 0; b < 8; b++) {
        for (int64_t i = 0; i < 60; i++) keys[i] = (int64_t)(b * 7) % 40 + i / 2;
        RK_GOTO(try_step(e, 60, keys));
    }
    RK_GOTO(rk_make_directories(saved_folder()));
    RK_GOTO(rk_embeddings_save_rows(e, saved_folder()));
    config.is_read = true;
    RK_GOTO(try_make_dynamic(&config, RK_OPTIMIZER_ADAM, 1, &other));
    RK_GOTO(take_state(other, e));
    RK_GOTO(rk_embeddings_load_rows(other, saved_folder()));
done:
    rk_embeddings_free(e);
    rk_embeddings_free(other);
    return status;
}

static void test_out_of_memory(void **state) {
    (void)state;
    OK(rk_parallel_set_threads(1));
    long before = rk_alloc_live(), n = 0;
    rk_status status = RK_NO_MEMORY;
    while (status != RK_OK) {
        OK(rk_remove_tree(saved_folder()));
        rk_alloc_fail_after(++n, false);
        status = use_tier();
        rk_alloc_fail_after(0, false);
        assert_int_equal(rk_alloc_live(), before);
        if (status != RK_OK) assert_int_equal(status, RK_NO_MEMORY);
    }
    assert_true(n > 80);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bits_of_rows_in_memory, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_keys_alike, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_going_on, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_other_parts, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_damage_ends_the_batch, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_rows_after_a_failure, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_background_without_memory, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_keys_without_memory, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_compaction_beside_a_batch, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_refusals, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_out_of_memory, make_folder, remove_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
