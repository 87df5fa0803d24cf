/* The bits of dynamic tables: those of a static table with the same ids, of any number of threads, and of a
 * run that goes on from its state. */
#include "embedding/dynamic_fixture.h"

#include "base/thread/parallel.h"

static drawn batches[2];
static int64_t many[MAX_USES];

static const rk_dynamic_config roomy = {
    .max_capacity = 400, .n_buckets = 3, .policy = RK_EVICTION_NONE, .min_count = 1, .probability = 1};

/* Padding is dropped from a static table's ids, but is a key. */
static void draw_ids(drawn *b, uint64_t seed) {
    draw(b, seed, 200);
    for (int f = 0; f < N_FEATURES; f++)
        for (int64_t i = 0; i < b->offsets[f][b->n]; i++)
            if (b->values[f][i] < 0) b->values[f][i] = 1;
}

static void assert_same_rows(rk_embeddings *e, rk_embeddings *plain, int t) {
    const rk_table *have = &e->tables[t], *want = &plain->tables[t];
    size_t row_bytes = (size_t)table_dims[t] * rk_dtype_bytes(have->config.dtype);
    int64_t n = 0;
    assert_int_equal(have->step, want->step);
    for (int64_t id = 0; id < table_rows[t]; id++) {
        int64_t row;
        rk_dynamic_find_rows(have->dynamic, &id, 1, &row);
        if (!row) continue;
        n++;
        assert_memory_equal((char *)have->rows.data + (size_t)row * row_bytes,
                            (char *)want->rows.data + (size_t)id * row_bytes, row_bytes);
        for (int s = 0; s < have->n_slots; s++) {
            int64_t width = have->slots[s].per_row ? 1 : table_dims[t];
            assert_memory_equal(have->slot_values[s] + row * width, want->slot_values[s] + id * width,
                                (size_t)width * sizeof(float));
        }
    }
    assert_true(n > table_rows[t] / 2);
}

static void assert_same_outputs(const drawn *a, const drawn *b) {
    for (int f = 0; f < N_FEATURES; f++)
        for (int64_t s = 0, stride = a->activations[f].stride; s < a->n; s++)
            assert_memory_equal(&a->out[f][s * stride], &b->out[f][s * stride],
                                (size_t)width_of(f) * sizeof(float));
}

static void compare_with_static(const rk_optimizer *optimizer, rk_dtype dtype, int64_t leaf) {
    rk_embeddings *e, *plain = make_usual(optimizer, dtype);
    OK(try_make_usual_dynamic(optimizer, dtype, &roomy, &e));
    rk_embeddings *both[2] = {e, plain};
    for (int i = 0; i < 2; i++) OK(rk_embeddings_set_l2(both[i], "user", 0.01, 0));
    for (int i = 0; i < 2 && leaf; i++)
        for (int32_t f = 0; f < N_FEATURES; f++)
            rk_embeddings_set_micro_batches(both[i], f, (rk_micro_batches){0, leaf});
    for (uint64_t step = 0; step < 4; step++) {
        for (int i = 0; i < 2; i++) {
            draw_ids(&batches[i], step);
            OK(look_up(both[i], batches[i].n, batches[i].ids, batches[i].activations));
        }
        assert_same_outputs(&batches[0], &batches[1]);
        for (int i = 0; i < 2; i++) {
            draw_gradients(&batches[i], step);
            OK(apply_gradients(both[i], batches[i].activations));
        }
    }
    for (int t = 0; t < N_TABLES - 1; t++) assert_same_rows(e, plain, t);
    rk_embeddings_free(e);
    rk_embeddings_free(plain);
}

static void test_bits_of_static_tables(void **state) {
    (void)state;
    rk_optimizer o;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++)
        for (int dtype = 0; dtype < RK_ROW_DTYPE_COUNT; dtype++) {
            OK(rk_optimizer_init(&o, (rk_optimizer_kind)kind));
            o.weight_decay = 0.01;
            compare_with_static(&o, (rk_dtype)dtype, kind % 2 ? 50 : 0);
        }
}

static const rk_dynamic_config crowded = {.max_capacity = 900,
                                          .n_buckets = 19,
                                          .policy = RK_EVICTION_LFU,
                                          .evict_to = 0.9,
                                          .min_count = 2,
                                          .probability = 0.7,
                                          .oov = true};

/* 20,000 keys, several groups; they drift on. */
static void draw_many(uint64_t batch) {
    rk_rng rng = {batch, 43, 0};
    for (int64_t i = 0; i < 20000; i++) {
        double u = rk_rng_uniform(&rng);
        many[i] = (int64_t)(u * u * u * 3000) * 0x9E3779B97F4A7 + (int64_t)(batch / 3);
    }
}

static void train_many(rk_embeddings *e, int first, int last) {
    for (int b = first; b < last; b++) {
        draw_many((uint64_t)b);
        train_step(e, 10000, many);
    }
}

/* The same with other counters, and with rows that expire; keys that are counted in sketches share several
 * rows. */
static rk_dynamic_config variant(int counter) {
    rk_dynamic_config config = crowded;
    config.oov = counter == RK_COUNTER_EXACT;
    config.n_cold = config.oov ? 0 : 5 * config.n_buckets;
    config.counter = counter;
    config.ttl_steps = counter == RK_COUNTER_BLOOM ? 2 : 0;
    config.ttl = counter == RK_COUNTER_COUNT_MIN ? 2 : 0; /* a batch has a second */
    config.keep = counter == RK_COUNTER_BLOOM ? 300 : 0;
    return config;
}

static void compare_thread_counts(const rk_dynamic_config *config) {
    static const int counts[] = {1, 2, 8};
    rk_embeddings *of[3];
    for (int i = 0; i < 3; i++) {
        OK(rk_parallel_set_threads(counts[i]));
        of[i] = make_dynamic(config, RK_OPTIMIZER_ADAM, 2);
        train_many(of[i], 0, 6);
        assert_true(dynamic_of(of[i])->n_groups > 1 && dynamic_of(of[i])->totals.n_evicted > 0);
    }
    for (int i = 1; i < 3; i++) assert_same_state(of[0], of[i], true);
    for (int i = 0; i < 3; i++) rk_embeddings_free(of[i]);
}

static void test_any_thread_count(void **state) {
    (void)state;
    for (int counter = RK_COUNTER_EXACT; counter <= RK_COUNTER_BLOOM; counter++) {
        rk_dynamic_config config = variant(counter);
        compare_thread_counts(&config);
    }
}

static void go_on_from_a_state(const rk_dynamic_config *config) {
    rk_embeddings *e = make_dynamic(config, RK_OPTIMIZER_ADAM, 2),
                  *resumed = make_dynamic(config, RK_OPTIMIZER_ADAM, 2);
    train_many(e, 0, 5);
    train_many(resumed, 3, 5); /* what it knew is forgotten */
    OK(take_state(resumed, e));
    assert_same_state(e, resumed, true);
    train_many(e, 5, 9);
    train_many(resumed, 5, 9);
    assert_same_state(e, resumed, true);
    rk_embeddings_free(e);
    rk_embeddings_free(resumed);
}

static void test_going_on_from_a_state(void **state) {
    (void)state;
    for (int counter = RK_COUNTER_EXACT; counter <= RK_COUNTER_BLOOM; counter++) {
        rk_dynamic_config config = variant(counter);
        go_on_from_a_state(&config);
    }
}

/* Keys in any order, as another program may list them, have the rows that a sorted list gives them. */
static void test_keys_in_any_order(void **state) {
    (void)state;
    enum { N = 700 };
    rk_embeddings *e = make_dynamic(&crowded, RK_OPTIMIZER_ADAM, 2);
    for (int threads = 1; threads <= 8; threads += 7) {
        OK(rk_parallel_set_threads(threads));
        for (int64_t i = 0; i < N; i++) many[i] = i * 7919 % N;
        const rk_stored_keys keys = {"table/t/keys", 0, N, N, many};
        OK(rk_embeddings_load_keys(e, NULL));
        OK(rk_embeddings_load_keys(e, &keys));
        assert_int_equal(dynamic_of(e)->n_keys, N);
        for (int64_t i = 0; i < N; i++) assert_int_equal(row_of(e, many[i]), i + 1);
        many[600] = many[10];
        many[650] = many[500];
        OK(rk_embeddings_load_keys(e, NULL));
        FAILS(rk_embeddings_load_keys(e, &keys), RK_BAD_DATA,
              "tensor 'table/t/keys': the key 90 is there twice");
        assert_int_equal(dynamic_of(e)->n_keys, 0);
        assert_int_equal(row_of(e, many[1]), 0);
    }
    rk_embeddings_free(e);
}

/* A table counts its batches itself. If that starts over, no row is older than the batches that follow. */
static void test_batches_that_start_over(void **state) {
    (void)state;
    rk_dynamic_config config = {
        .max_capacity = 900, .n_buckets = 3, .evict_to = 1, .ttl_steps = 4, .min_count = 1, .probability = 1};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    for (int64_t b = 0; b < 6; b++) {
        for (int64_t i = 0; i < 50; i++) many[i] = b * 50 + i;
        train_step(e, 50, many);
    }
    rk_dynamic_table *t = dynamic_of(e);
    int64_t n = t->n_keys;
    assert_int_equal(n, 200);
    t->is_loading = true;
    t->n_batches = 0;
    OK(rk_embeddings_finish_loading(e));
    for (int i = 0; i < 3; i++) train_step(e, 0, many);
    assert_int_equal(t->n_keys, n);
    train_step(e, 0, many);
    assert_int_equal(t->n_keys, 0);
    rk_embeddings_free(e);
}

/* Batches beyond max_capacity: rows, slots and keys stay as they were where memory for more is taken. */
static void test_memory_that_grows(void **state) {
    (void)state;
    rk_dynamic_config small = {.max_capacity = 50,
                               .n_buckets = 1,
                               .evict_to = 1,
                               .min_count = 1,
                               .probability = 1},
                      large = small;
    large.max_capacity = 100000;
    rk_embeddings *of[2] = {make_dynamic(&small, RK_OPTIMIZER_ADAM, 1),
                            make_dynamic(&large, RK_OPTIMIZER_ADAM, 1)};
    for (int64_t n = 10; n <= 20000; n *= 5) {
        for (int64_t i = 0; i < n; i++) many[i] = i;
        for (int i = 0; i < 2; i++) train_step(of[i], n, many);
        assert_same_state(of[0], of[1], true);
    }
    assert_true(dynamic_of(of[0])->n_places > 6000);
    for (int i = 0; i < 2; i++) rk_embeddings_free(of[i]);
}

/* One rank may have several parts of a table: each gets its keys, and their tensors have names of their own.
 */
static void test_parts_of_one_table(void **state) {
    (void)state;
    rk_embeddings *e = make_dynamic(&crowded, RK_OPTIMIZER_ADAM, 2), *both;
    rk_table_config tables[2] = {RK_TABLE_CONFIG_INIT, RK_TABLE_CONFIG_INIT};
    rk_table_part parts[2];
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    rk_state_dict whole = {0}, read = {0};
    for (int i = 0; i < 2; i++) {
        tables[i].name = i ? "1" : "0";
        tables[i].n_rows = rk_dynamic_part_capacity(&crowded, i, 2);
        tables[i].dim = DIM;
        parts[i] = (rk_table_part){.name = "t",
                                   .n_rows = crowded.max_capacity,
                                   .dim = DIM,
                                   .n_parts = 2,
                                   .part = i,
                                   .dynamic = &crowded};
    }
    config.tables = tables;
    config.n_tables = 2;
    OK(rk_embeddings_create_with_parts(&config, parts, &both));
    train_many(e, 0, 3);
    OK(rk_embeddings_state_dict(e, &whole));
    const rk_state_dict_entry *entry = rk_state_dict_find(&whole, "table/t/keys");
    int64_t n = entry->dims[0], *keys;
    OK(rk_alloc((size_t)n, sizeof *keys, &keys));
    rk_state_dict_copy_rows(entry, 0, entry->dims[0], keys);
    OK(rk_embeddings_load_keys(both, &(rk_stored_keys){"table/t/keys", 0, n, n, keys}));
    OK(rk_embeddings_state_dict(both, &read));
    int64_t n_first = both->tables[0].dynamic->n_keys, n_second = both->tables[1].dynamic->n_keys;
    assert_true(n_first > 0 && n_second > 0 && n_first + n_second == n);
    for (int64_t i = 0; i < n; i++)
        assert_true(rk_dynamic_find_row(both->tables[i >= n_first].dynamic, keys[i]) > 0);
    rk_free(keys);
    rk_state_dict_release(&whole);
    rk_state_dict_release(&read);
    rk_embeddings_free(e);
    rk_embeddings_free(both);
}

static void test_keys_that_are_twice(void **state) {
    (void)state;
    static const int64_t keys[] = {5, -1, 7, -1};
    rk_embeddings *e = make_dynamic(&crowded, RK_OPTIMIZER_ADAM, 2);
    FAILS(rk_embeddings_load_keys(e, &(rk_stored_keys){"table/t/keys", 0, 4, 4, keys}), RK_BAD_DATA,
          "tensor 'table/t/keys': the key -1 is there twice");
    FAILS(rk_embeddings_load_keys(e, &(rk_stored_keys){"table/t/candidate_keys", 0, 4, 4, keys}), RK_BAD_DATA,
          "tensor 'table/t/candidate_keys': the key -1 is there twice");
    OK(rk_embeddings_load_keys(e, &(rk_stored_keys){"table/other/keys", 0, 4, 4, keys}));
    rk_embeddings_free(e);
}

/* Every allocation may fail, none leaks. */
static rk_status use(int counter) {
    rk_embeddings *e = NULL, *other = NULL;
    rk_dynamic_config config = variant(counter);
    rk_status status;
    config.max_capacity = 20;
    config.keep = 5;
    config.n_buckets = 2;
    if (config.n_cold) config.n_cold = 6;
    RK_GOTO(try_make_dynamic(&config, RK_OPTIMIZER_ADAM, 1, &e));
    for (uint64_t b = 0; b < 6; b++) {
        for (int64_t i = 0; i < 60; i++) many[i] = (int64_t)(b * 7) + i / 2;
        RK_GOTO(try_step(e, 60, many));
    }
    RK_GOTO(try_make_dynamic(&config, RK_OPTIMIZER_ADAM, 1, &other));
    RK_GOTO(take_state(other, e));
    RK_GOTO(try_step(other, 60, many));
done:
    rk_embeddings_free(e);
    rk_embeddings_free(other);
    return status;
}

static rk_status use_without(int counter, long n, bool and_all_after) {
    long before = rk_alloc_live();
    rk_alloc_fail_after(n, and_all_after);
    rk_status status = use(counter);
    rk_alloc_fail_after(0, false);
    assert_int_equal(rk_alloc_live(), before);
    if (status != RK_OK) assert_int_equal(status, RK_NO_MEMORY);
    return status;
}

/* A table does without memory in huge pages for its keys, so that one failure alone may be none; both tables
 * have keys in memory. */
static void fail_each(int counter) {
    OK(use(counter));
    long n = 0, n_done_without = 0;
    do {
        n++;
        n_done_without += use_without(counter, n, false) == RK_OK;
    } while (use_without(counter, n, true) != RK_OK);
    assert_true(n > 50 && n_done_without == 1 + 2);
}

static void test_out_of_memory(void **state) {
    (void)state;
    OK(rk_parallel_set_threads(1));
    for (int counter = RK_COUNTER_EXACT; counter <= RK_COUNTER_BLOOM; counter++) fail_each(counter);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_of_static_tables),   cmocka_unit_test(test_any_thread_count),
        cmocka_unit_test(test_going_on_from_a_state),   cmocka_unit_test(test_parts_of_one_table),
        cmocka_unit_test(test_keys_that_are_twice),     cmocka_unit_test(test_keys_in_any_order),
        cmocka_unit_test(test_batches_that_start_over), cmocka_unit_test(test_memory_that_grows),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
