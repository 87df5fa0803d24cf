/* Which keys of a dynamic table have rows: held against lists that are kept by the definition. */
#include "embedding/reference_run.h"

#include <math.h>

#include "base/thread/parallel.h"

static void test_decisions(void **state) {
    (void)state;
    for (int policy = RK_EVICTION_LRU; policy <= RK_EVICTION_NONE; policy++)
        for (int64_t n_buckets = 1; n_buckets <= 5; n_buckets += 4)
            for (int64_t min_count = 1; min_count <= 3; min_count++) {
                rk_dynamic_config config = {.max_capacity = 120,
                                            .n_buckets = n_buckets,
                                            .policy = policy,
                                            .evict_to = 0.8,
                                            .min_count = min_count,
                                            .probability = 1};
                run_against_reference(config, min_count == 2 ? 2 : 1, 60, 20);
            }
}

/* Batches are counted on beyond 2^31, and rows keep their order. */
static void test_batches_beyond_31_bits(void **state) {
    (void)state;
    static const int64_t firsts[] = {INT32_MAX - 4, ((int64_t)1 << 32) - 4, ((int64_t)1 << 40) + 7};
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        rk_dynamic_config config = {.max_capacity = 6,
                                    .n_buckets = 1,
                                    .evict_to = 1,
                                    .ttl_steps = 5,
                                    .min_count = 1,
                                    .probability = 1};
        rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
        rk_dynamic_table *t = dynamic_of(e);
        t->n_batches = firsts[i];
        t->first_batch = rk_dynamic_base_batch_number(firsts[i]);
        for (int64_t key = 0; key < 200; key++) {
            train_step(e, 1, &key);
            assert_int_equal(t->n_keys, key < 4 ? key + 1 : 5);
            for (int64_t k = key - 4 > 0 ? key - 4 : 0; k <= key; k++) assert_true(row_of(e, k) > 0);
            assert_true(t->n_batches - t->first_batch < INT32_MAX);
        }
        rk_embeddings_free(e);
    }
}

/* One use of a key in each batch, among keys that come once: it has its row when its count, which is too low
 * by a 201st of all uses at most, is enough. */
static void test_hot_key_in_a_flood(void **state) {
    (void)state;
    enum { FLOOD = 60, MIN_COUNT = 30, MOST = 2 * 100 };
    rk_dynamic_config config = {
        .max_capacity = MOST / 2, .n_buckets = 1, .evict_to = 1, .min_count = MIN_COUNT, .probability = 1};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    int64_t batches = 0, next = 1;
    for (keys[0] = 0; row_of(e, 0) == 0 && batches < 1000; batches++) {
        for (int i = 1; i <= FLOOD; i++) keys[i] = next++;
        train_step(e, FLOOD + 1, keys);
    }
    assert_in_range(batches, MIN_COUNT, MIN_COUNT * (MOST + 1) / (MOST - FLOOD) + 1);
    rk_embeddings_free(e);
}

/* Counts are never too high, and too low by N / (most + 1) at most, N uses having been counted. */
static void test_error_of_exact_counts(void **state) {
    (void)state;
    enum { BATCH = 50, MOST = 2 * 20, RANGE = 3000 };
    rk_dynamic_config config = {
        .max_capacity = MOST / 2, .n_buckets = 1, .evict_to = 1, .min_count = 1 << 30, .probability = 1};
    static int64_t counts[RANGE];
    for (int skew = 1; skew <= 4; skew++) {
        rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
        rk_rng rng = {(uint64_t)skew, 3, 0};
        int64_t n_uses = 0, worst = 0;
        memset(counts, 0, sizeof counts);
        for (int b = 0; b < 100; b++) {
            for (int i = 0; i < BATCH; i++) {
                keys[i] = (int64_t)(pow(rk_rng_uniform(&rng), skew) * RANGE);
                counts[keys[i]]++;
            }
            train_step(e, BATCH, keys);
            n_uses += BATCH;
            const rk_key_bucket *bucket = &dynamic_of(e)->buckets[0];
            assert_true(bucket->n_counted <= MOST);
            for (int64_t key = 0; key < RANGE; key++) {
                int64_t missed = counts[key] - rk_key_bucket_read_count(bucket, key);
                assert_true(missed >= 0 && missed <= n_uses / (MOST + 1));
                if (missed > worst) worst = missed;
            }
        }
        assert_true(worst > 0);
        rk_embeddings_free(e);
    }
}

/* Candidates beyond twice the rows: their counts are lowered. */
static void test_candidates_are_bounded(void **state) {
    (void)state;
    rk_dynamic_config config = {
        .max_capacity = 8, .n_buckets = 2, .evict_to = 0.9, .min_count = 9, .probability = 1};
    run_against_reference(config, 1, 60, 20);
}

/* Batches with more keys of a bucket than it holds: each has a row, as long as it is used. */
static void test_more_keys_than_rows(void **state) {
    (void)state;
    rk_dynamic_config config = {
        .max_capacity = 10, .n_buckets = 1, .evict_to = 0.5, .min_count = 1, .probability = 1};
    run_against_reference(config, 1, 200, 6);
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    for (int64_t i = 0; i < 100; i++) keys[i] = i;
    train_step(e, 100, keys);
    assert_int_equal(dynamic_of(e)->n_keys, 100);
    for (int64_t i = 0; i < 100; i++) assert_true(row_of(e, i) > 0);
    keys[0] = 1000;
    train_step(e, 1, keys); /* then the bucket gets back to its share */
    assert_int_equal(dynamic_of(e)->n_keys, 5);
    rk_embeddings_free(e);
}

static const int64_t odd_keys[] = {0,
                                   -1,
                                   -2,
                                   INT64_MIN,
                                   INT64_MAX,
                                   (int64_t)1 << 47,
                                   ((int64_t)1 << 47) - 1,
                                   ((int64_t)1 << 47) + 1,
                                   (int64_t)1 << 52,
                                   ((int64_t)1 << 52) + 1,
                                   (int64_t)1 << 56,
                                   (int64_t)1 << 62};
enum { N_ODD = sizeof odd_keys / sizeof odd_keys[0] };

/* All 64 bits count: no key is another's, or stands for none. */
static void test_every_key_is_legal(void **state) {
    (void)state;
    rk_dynamic_config config = {.max_capacity = 100, .n_buckets = 3, .min_count = 1, .probability = 1};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_ADAM, 1);
    float rows[N_ODD][DIM], zeros[DIM] = {0};
    rk_ids ids = {NULL, 1, odd_keys, NULL};
    rk_activation activation = {values, DIM, NULL};
    look_up_key(e, 0, rows[0]);
    assert_memory_equal(rows[0], zeros, sizeof zeros);
    OK(look_up(e, N_ODD, &ids, &activation));
    for (int i = 0; i < N_ODD; i++) {
        look_up_key(e, odd_keys[i], rows[i]);
        assert_memory_equal(rows[i], values + i * DIM, sizeof rows[i]);
        for (int k = 0; k <= i; k++)
            assert_int_equal(memcmp(rows[i], k < i ? rows[k] : zeros, sizeof rows[i]) == 0, false);
    }
    assert_int_equal(dynamic_of(e)->n_keys, N_ODD);
    rk_embeddings_free(e);
}

/* Shares that are no numbers of the processor's: 0.7 of 90 rows are 63, as one says. */
static void test_share_that_is_left(void **state) {
    (void)state;
    static const struct {
        int64_t capacity;
        double evict_to;
        int64_t left;
    } cases[] = {{90, 0.7, 63}, {100, 0.29, 29}, {100, 0.58, 58}, {7, 0.5, 3}, {20, 0.95, 19}, {3, 1, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rk_dynamic_config config = {.max_capacity = cases[i].capacity,
                                    .n_buckets = 1,
                                    .evict_to = cases[i].evict_to,
                                    .min_count = 1,
                                    .probability = 1};
        rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
        for (int64_t key = 0; key <= cases[i].capacity; key++) train_step(e, 1, &key);
        assert_int_equal(dynamic_of(e)->n_keys, cases[i].left);
        rk_embeddings_free(e);
    }
}

/* A key that is not admitted has zeros, and its gradient goes nowhere. */
static void test_refused_keys_move_nothing(void **state) {
    (void)state;
    rk_dynamic_config config = {
        .max_capacity = 2, .n_buckets = 1, .policy = RK_EVICTION_NONE, .min_count = 1, .probability = 1};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_ADAGRAD, 1),
                  *alone = make_dynamic(&config, RK_OPTIMIZER_ADAGRAD, 1);
    const int64_t two[] = {7, 8}, many[] = {7, 90, 91, 8, 92, 7, 93}, without[] = {7, 8, 7};
    const float gradients[] = {1, 9, 8, 2, 7, 3, 6}, of_two[] = {1, 2, 3};
    float zeros[DIM] = {0}, a[DIM], b[DIM];
    train_step(e, 2, two);
    train_step(alone, 2, two);
    rk_ids ids = {NULL, 1, many, NULL}, ids_alone = {NULL, 1, without, NULL};
    rk_activation activation = {values, DIM, NULL};
    OK(look_up(e, 7, &ids, &activation));
    assert_memory_equal(values + DIM, zeros, sizeof zeros);
    for (int i = 0; i < 7 * DIM; i++) values[i] = gradients[i / DIM];
    OK(apply_gradients(e, &activation));
    OK(look_up(alone, 3, &ids_alone, &activation));
    for (int i = 0; i < 3 * DIM; i++) values[i] = of_two[i / DIM];
    OK(apply_gradients(alone, &activation));
    for (int64_t key = 7; key <= 8; key++) {
        look_up_key(e, key, a);
        look_up_key(alone, key, b);
        assert_memory_equal(a, b, sizeof a);
    }
    look_up_key(e, 90, a);
    assert_memory_equal(a, zeros, sizeof a);
    assert_int_equal(dynamic_of(e)->totals.n_refused, 4);
    rk_embeddings_free(e);
    rk_embeddings_free(alone);
}

/* With an oov row all of them share it, and it is trained. */
static void test_shared_row(void **state) {
    (void)state;
    rk_dynamic_config config = {.max_capacity = 2,
                                .n_buckets = 1,
                                .policy = RK_EVICTION_NONE,
                                .min_count = 1,
                                .probability = 1,
                                .oov = true};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    const int64_t batch[] = {1, 2, 3, 4, 3};
    float before[DIM], after[DIM], other[DIM], zeros[DIM] = {0};
    look_up_key(e, 3, before);
    assert_memory_not_equal(before, zeros, sizeof zeros);
    train_step(e, 5, batch);
    look_up_key(e, 3, after);
    look_up_key(e, 77, other);
    assert_memory_equal(after, other, sizeof after);
    double rate = e->tables[0].optimizer.learning_rate;
    for (int k = 0; k < DIM; k++) { /* samples 2, 3 and 4 */
        double sum = 0;
        for (int i = 2; i < 5; i++) sum += (double)((i * DIM + k) % 7) * 0.25 - 0.5;
        assert_float_equal(after[k], (double)before[k] - rate * sum, 1e-6);
    }
    rk_embeddings_free(e);
}

/* Keys without a row share the cold rows of their hashes, which learn from all of them. */
static void test_cold_rows(void **state) {
    (void)state;
    enum { N_COLD = 8, N_KEYS = 40 };
    rk_dynamic_config config = {.max_capacity = 50,
                                .n_buckets = 4,
                                .evict_to = 1,
                                .min_count = 2,
                                .probability = 1,
                                .n_cold = N_COLD};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    const rk_table *table = &e->tables[0];
    float before[N_COLD][DIM], after[DIM];
    double rate = table->optimizer.learning_rate, sums[N_COLD][DIM] = {{0}};
    memcpy(before, table->rows.data, sizeof before);
    for (int64_t i = 0; i < N_KEYS; i++) {
        keys[i] = i * 7919;
        int64_t cold = (int64_t)(rk_key_hash(keys[i]) >> 61); /* of 2^64, an eighth each */
        assert_int_equal(row_of(e, keys[i]), cold);
        for (int k = 0; k < DIM; k++) sums[cold][k] += (double)((i * DIM + k) % 7) * 0.25 - 0.5;
    }
    train_step(e, N_KEYS, keys);
    assert_int_equal(dynamic_of(e)->n_keys, 0);
    assert_int_equal(dynamic_of(e)->totals.n_refused, N_KEYS);
    for (int c = 0; c < N_COLD; c++)
        for (int k = 0; k < DIM; k++)
            assert_float_equal(((float *)table->rows.data)[c * DIM + k],
                               (double)before[c][k] - rate * sums[c][k], 1e-6);
    for (int64_t i = 0; i < N_KEYS; i++) {
        look_up_key(e, keys[i], after);
        assert_memory_equal(after, (float *)table->rows.data + row_of(e, keys[i]) * DIM, sizeof after);
    }
    rk_embeddings_free(e);
}

/* An admitted key goes on from what it had learned with others; its slots begin anew, and the cold row stays.
 */
static void test_a_row_begins_as_its_cold_row(void **state) {
    (void)state;
    rk_dynamic_config config = {
        .max_capacity = 50, .n_buckets = 1, .evict_to = 1, .min_count = 3, .probability = 1, .n_cold = 1};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_ADAGRAD, 1);
    const rk_table *table = &e->tables[0];
    const int64_t key = 4, other = 5;
    float cold[DIM], initial = table->slots[0].initial;
    rk_ids ids = {NULL, 1, &key, NULL};
    rk_activation activation = {values, DIM, NULL};
    train_step(e, 1, &key);
    train_step(e, 1, &key);
    look_up_key(e, other, cold);
    assert_true(table->slot_values[0][0] > initial);
    OK(look_up(e, 1, &ids, &activation));
    int64_t row = row_of(e, key);
    assert_int_equal(row, 1);
    assert_memory_equal(values, cold, sizeof cold);
    for (int k = 0; k < DIM; k++) assert_true(table->slot_values[0][row * DIM + k] == initial);
    OK(apply_gradients(e, &activation));
    look_up_key(e, other, values);
    assert_memory_equal(values, cold, sizeof cold);
    rk_embeddings_free(e);
}

/* A row that changes hands keeps nothing of its former key: first values, slots, count. */
static void test_returning_key_starts_anew(void **state) {
    (void)state;
    rk_dynamic_config config = {
        .max_capacity = 2, .n_buckets = 1, .evict_to = 1, .min_count = 1, .probability = 1};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_ADAM, 1),
                  *fresh = make_dynamic(&config, RK_OPTIMIZER_ADAM, 1);
    const int64_t a = 1, others[] = {2, 3};
    rk_ids ids = {NULL, 1, &a, NULL};
    rk_activation activation = {values, DIM, NULL};
    for (int i = 0; i < 5; i++) train_step(e, 1, &a);
    int64_t former = row_of(e, a);
    train_step(e, 2, others);
    assert_int_equal(row_of(e, a), 0);
    OK(look_up(e, 1, &ids, &activation)); /* which takes the place of one of the others */
    float again[DIM], first[DIM];
    memcpy(again, values, sizeof again);
    OK(look_up(fresh, 1, &ids, &activation));
    memcpy(first, values, sizeof first);
    assert_memory_equal(again, first, sizeof first);
    int64_t row = row_of(e, a);
    assert_true(former > 0 && row > 0);
    for (int s = 0; s < e->tables[0].n_slots; s++)
        for (int k = 0; k < DIM; k++) assert_true(e->tables[0].slot_values[s][row * DIM + k] == 0);
    assert_int_equal(dynamic_of(e)->info[row].count, 1);
    rk_embeddings_free(e);
    rk_embeddings_free(fresh);
}

/* About the share that is asked for, the same one each time, and a key may succeed later. */
static void test_probability(void **state) {
    (void)state;
    rk_dynamic_config config = {.max_capacity = 4000, .n_buckets = 1, .min_count = 1, .probability = 0.25};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1),
                  *twin = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    for (int64_t i = 0; i < 2000; i++) keys[i] = i * 7919;
    train_step(e, 2000, keys);
    train_step(twin, 2000, keys);
    int64_t n = dynamic_of(e)->n_keys;
    assert_in_range(n, 500 - 80, 500 + 80); /* more than four deviations of sqrt(2000 / 4 * 3 / 4) */
    assert_same_state(e, twin, true);
    train_step(e, 2000, keys);
    assert_in_range(dynamic_of(e)->n_keys, n + 375 - 70, n + 375 + 70);
    rk_embeddings_free(e);
    rk_embeddings_free(twin);
}

/* Looking up without training creates, counts and marks nothing. */
static void test_lookup_eval_changes_nothing(void **state) {
    (void)state;
    rk_dynamic_config config = {
        .max_capacity = 20, .n_buckets = 1, .evict_to = 0.9, .min_count = 2, .probability = 1};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    draw_keys(1, 60, 50);
    train_step(e, 60, keys);
    size_t n_before, n_after;
    char *before = copy_state(e, &n_before);
    rk_ids ids = {NULL, 1, keys, NULL};
    rk_activation activation = {values, DIM, NULL};
    draw_keys(2, 60, 500);
    OK(look_up_eval(e, 60, &ids, &activation));
    OK(rk_embeddings_dedup(e, 60, &ids, false));
    char *after = copy_state(e, &n_after);
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, n_after);
    assert_true(rk_embeddings_sum_key_counts(e).n_missing > 0);
    rk_free(before);
    rk_free(after);
    rk_embeddings_free(e);
}

static void test_refusals(void **state) {
    (void)state;
    rk_dynamic_config config = {.max_capacity = 20, .n_buckets = 1, .min_count = 1, .probability = 1};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    rk_lookup *lookup;
    const int64_t key = 3;
    rk_ids ids = {NULL, 1, &key, NULL};
    rk_activation activation = {values, DIM, NULL};
    OK(rk_lookup_create(e, &lookup));
    FAILS(rk_embeddings_lookup(e, 1, &ids, lookup, &activation), RK_UNSUPPORTED,
          "table 't' is dynamic, and such tables are trained by a model's steps only\nhint: "
          "rk_embeddings_lookup_eval looks up without training");
    FAILS(rk_embeddings_read_rows(e, "t", 0, 1, values), RK_UNSUPPORTED,
          "table 't' is dynamic: its rows have keys, and no numbers\nhint: rk_embeddings_read_state gives "
          "them with their keys");
    FAILS(rk_embeddings_read_state(e, "t", &(rk_table_state *){NULL}), RK_UNSUPPORTED,
          "the state of table 't' is a model's");
    rk_lookup_free(lookup);
    rk_embeddings_free(e);
}

/* Wherever memory runs out before a batch is decided, all is as it was before; then the batch goes well. */
static void test_no_memory_changes_nothing(void **state) {
    (void)state;
    rk_dynamic_config config = {
        .max_capacity = 120, .n_buckets = 3, .evict_to = 0.8, .min_count = 2, .probability = 1};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 2);
    begin_reference(&config, e);
    long n_failed = 0;
    for (int b = 0; b < 6; b++) {
        int64_t n = 20 + 30 * b; /* more memory than the batch before took */
        draw_keys((uint64_t)b, 2 * n, 400);
        for (long n_allocations = 1; known.table->n_batches == b; n_allocations++) {
            rk_alloc_fail_after(n_allocations, false);
            (void)try_step(e, n, keys);
            rk_alloc_fail_after(0, false);
            if (known.table->n_batches > b) break; /* what fails now is beyond the table */
            assert_as_reference(&known, e);
            n_failed++;
        }
        step_reference(&known, 2 * n, keys);
        assert_as_reference(&known, e);
    }
    assert_true(n_failed > 20);
    rk_embeddings_free(e);
}

/* One chunk or several, which count uses of the same rows at the same time. */
static void test_large_batches(void **state) {
    (void)state;
    enum { N = 20000 };
    static int64_t many[N], rows[2][N];
    rk_dynamic_config config = {
        .max_capacity = 3000, .n_buckets = 4, .evict_to = 0.8, .min_count = 1, .probability = 1};
    rk_embeddings *e[2];
    for (int i = 0; i < 2; i++) e[i] = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    rk_dynamic_table *one = dynamic_of(e[0]), *other = dynamic_of(e[1]);
    for (int b = 0; b < 3; b++) {
        rk_rng rng = {(uint64_t)b, 43, 0};
        for (int64_t i = 0; i < N; i++) {
            double u = rk_rng_uniform(&rng);
            many[i] = (int64_t)(u * u * u * 4000) + b * 500;
        }
        for (int i = 0; i < 2; i++) {
            rk_key_uses uses = {.keys = many, .rows = rows[i], .n = N};
            size_t task_begins[2] = {0};
            OK(rk_parallel_set_threads(i ? 4 : 1));
            OK(rk_dynamic_rows_assign_uses(e[i], &uses, (int32_t[]){0, 1}, task_begins));
        }
        assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
        assert_int_equal(one->n_used, other->n_used);
        assert_memory_equal(one->info, other->info, (size_t)one->n_used * sizeof *one->info);
    }
    assert_true(one->totals.n_evicted > 0);
    int64_t n_uses = 0;
    for (int64_t i = 0; i < N; i++) n_uses += many[i] == 1003;
    assert_true(one->info[row_of(e[0], 1003)].count >= n_uses && n_uses > 50);
    for (int i = 0; i < 2; i++) rk_embeddings_free(e[i]);
}

/* A key may stand for several uses, as one that came from another rank does: each that finds no row counts.
 * More keys than wait in the queue of a search, in any order. */
static void test_uses_without_a_row(void **state) {
    (void)state;
    enum { TRAINED = 50, SOUGHT = 700 };
    rk_dynamic_config config = {
        .max_capacity = TRAINED, .n_buckets = 3, .evict_to = 1, .min_count = 1, .probability = 1};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    rk_dynamic_table *t = dynamic_of(e);
    static int64_t sought[SOUGHT], rows[SOUGHT];
    static uint32_t uses[SOUGHT];
    for (int64_t i = 0; i < TRAINED; i++) keys[i] = i;
    train_step(e, TRAINED, keys);
    int64_t wanted = atomic_load(&t->n_missing);
    for (int64_t i = 0; i < SOUGHT; i++) {
        sought[i] = i * 37 % 101;
        uses[i] = (uint32_t)(i % 5);
        if (rk_dynamic_find_row(t, sought[i]) == 0) wanted += uses[i];
    }
    rk_dynamic_find_rows_and_count(t,
                                   &(rk_key_uses){.keys = sought, .rows = rows, .n = SOUGHT, .uses = uses});
    assert_int_equal(atomic_load(&t->n_missing), wanted);
    for (int64_t i = 0; i < SOUGHT; i++) assert_int_equal(rows[i], rk_dynamic_find_row(t, sought[i]));
    rk_embeddings_free(e);
}

/* Keys that all belong to one line of a bucket's index stand in many lines behind it; and many of them have
 * one tag. More than wait in the queue of a search; the batch has each key twice. */
static void test_keys_of_one_line(void **state) {
    (void)state;
    enum { N = 1200, SKIPPED = 5 };
    rk_dynamic_config config = {
        .max_capacity = 2 * N, .n_buckets = 1, .evict_to = 1, .min_count = 1, .probability = 1};
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, 1);
    rk_dynamic_table *t = dynamic_of(e);
    static int64_t rows[2 * N];
    for (int64_t i = 0; i < N; i++)
        keys[i] = keys[2 * N - 1 - i] = rk_key_of_hash((uint64_t)i << 40 | (uint64_t)(i % 30) << 32);
    train_step(e, N / 2, keys);
    rk_dynamic_find_rows(t, keys, 2 * N, rows);
    for (int64_t i = 0; i < N; i++) {
        assert_int_equal(rows[i], rk_dynamic_find_row(t, keys[i]));
        assert_int_equal(rows[i], rows[2 * N - 1 - i]);
        assert_true(i < N / 2 ? rows[i] > 0 && rk_dynamic_key_of_row(t, rows[i]) == keys[i] : rows[i] == 0);
    }
    assert_int_equal(atomic_load(&t->n_missing), N);
    train_step(e, 2 * N - SKIPPED, keys);
    assert_int_equal(t->n_keys, N);
    for (int64_t i = 0; i < N; i++) {
        int64_t row = rk_dynamic_find_row(t, keys[i]), uses = i < SKIPPED ? 1 : 2;
        assert_int_equal(rk_dynamic_key_of_row(t, row), keys[i]);
        assert_int_equal(*rk_dynamic_last_batch(t, row), 2);
        assert_int_equal(rk_dynamic_count_of_row(t, row), i < N / 2 ? 1 + uses : uses);
    }
    rk_embeddings_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_of_one_line),
        cmocka_unit_test(test_uses_without_a_row),
        cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_batches_beyond_31_bits),
        cmocka_unit_test(test_hot_key_in_a_flood),
        cmocka_unit_test(test_error_of_exact_counts),
        cmocka_unit_test(test_candidates_are_bounded),
        cmocka_unit_test(test_more_keys_than_rows),
        cmocka_unit_test(test_every_key_is_legal),
        cmocka_unit_test(test_share_that_is_left),
        cmocka_unit_test(test_refused_keys_move_nothing),
        cmocka_unit_test(test_shared_row),
        cmocka_unit_test(test_cold_rows),
        cmocka_unit_test(test_a_row_begins_as_its_cold_row),
        cmocka_unit_test(test_returning_key_starts_anew),
        cmocka_unit_test(test_probability),
        cmocka_unit_test(test_lookup_eval_changes_nothing),
        cmocka_unit_test(test_no_memory_changes_nothing),
        cmocka_unit_test(test_large_batches),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
