/* Dynamic tables of a collection of a caller's own: lookups that train, several of them alive at once, and
 * their state, in one process and over ranks, which are threads here. */
#include "testing.h"

#include "base/rng.h"
#include "collection_steps.h"
#include "comm/thread_ranks.h"
#include "small_dynamic_table.h"

enum {
    SAMPLES = 40, /* a rank's */
    ALL = SAMPLES * MAX_RANKS,
    STEPS = 6,
    N_FEATURES = 3,
    N_TABLES = 2
};

static const char *const table_names[N_TABLES] = {"keys", "shared"};

typedef struct described {
    rk_optimizer optimizer;
    rk_dynamic_options dynamic[N_TABLES];
    rk_table_config tables[N_TABLES];
    rk_feature_config features[N_FEATURES];
    rk_embeddings_config config;
} described;

/* Two features of one crowded table, one of another one whose keys without a row share one, or several. */
static rk_status describe(rk_comm *comm, rk_key_counter counter, described *d) {
    static const char *const names[N_FEATURES] = {"a", "b", "c"};
    RK_TRY(rk_optimizer_init(&d->optimizer, RK_OPTIMIZER_ADAM));
    for (int t = 0; t < N_TABLES; t++) {
        d->dynamic[t] = (rk_dynamic_options)RK_DYNAMIC_OPTIONS_INIT;
        d->tables[t] = (rk_table_config)RK_TABLE_CONFIG_INIT;
        d->tables[t].name = table_names[t];
        d->tables[t].dim = DIM;
        d->tables[t].dynamic = &d->dynamic[t];
    }
    d->dynamic[0].max_capacity = 150;
    d->dynamic[0].buckets = 5;
    d->dynamic[0].eviction = RK_EVICTION_LFU;
    d->tables[0].dtype = RK_BF16;
    d->dynamic[1].max_capacity = 90;
    d->dynamic[1].buckets = 4;
    d->dynamic[1].min_count = 2;
    d->dynamic[1].counter = counter;
    d->dynamic[1].ttl = 5;
    d->dynamic[1].oov = counter != RK_COUNTER_BLOOM;
    if (!d->dynamic[1].oov) d->dynamic[1].cold_rows = 10; /* of 4 buckets, so 12 */
    for (int f = 0; f < N_FEATURES; f++) {
        d->features[f] = (rk_feature_config)RK_FEATURE_CONFIG_INIT;
        d->features[f].name = names[f];
        d->features[f].table = table_names[f / 2];
        d->features[f].combiner = RK_COMBINER_SUM;
    }
    d->config = (rk_embeddings_config)RK_EMBEDDINGS_CONFIG_INIT;
    d->config.seed = 6;
    d->config.tables = d->tables;
    d->config.n_tables = N_TABLES;
    d->config.features = d->features;
    d->config.n_features = N_FEATURES;
    d->config.optimizer = &d->optimizer;
    d->config.comm = comm;
    return RK_OK;
}

/* A step's keys, of which a third are common, and gradients; one id a sample. */
typedef struct drawn {
    int64_t keys[N_FEATURES][ALL];
    float gradients[N_FEATURES][ALL * DIM], out[N_FEATURES][ALL * DIM];
} drawn;

static void draw(drawn *b, int step) {
    rk_rng rng = {(uint64_t)step, 21, 0};
    for (int f = 0; f < N_FEATURES; f++)
        for (int64_t i = 0; i < ALL; i++) {
            b->keys[f][i] =
                (int64_t)(rk_rng_below(&rng, 3) ? rk_rng_below(&rng, 300) << 55 | 7 : rk_rng_below(&rng, 12));
            for (int k = 0; k < DIM; k++) b->gradients[f][i * DIM + k] = (float)rk_rng_normal(&rng);
        }
}

/* The latest time of samples first .. first+n-1 of a step, of which a third of the ranks' have none. */
static double latest_time(int step, int64_t first, int64_t n) {
    double latest = NAN;
    for (int64_t i = first; i < first + n; i += SAMPLES) {
        int64_t part = (i / SAMPLES + step) % 3;
        if (part) latest = fmax(latest, 1.7e9 + 3 * step + (double)part);
    }
    return latest;
}

static void place(drawn *b, int64_t first, rk_ids *ids, rk_activation *to, rk_activation *from) {
    for (int f = 0; f < N_FEATURES; f++) {
        ids[f] = (rk_ids){.ids_per_sample = 1, .ids = b->keys[f] + first};
        to[f] = (rk_activation){b->out[f] + first * DIM, DIM, NULL};
        from[f] = (rk_activation){b->gradients[f] + first * DIM, DIM, NULL};
    }
}

/* Samples first .. first+n-1 of a step; at_once: without a step of its own. */
static rk_status train_step(rk_embeddings *e, rk_lookup *lookup, drawn *b, int64_t first, int64_t n,
                            bool at_once) {
    rk_ids ids[N_FEATURES];
    rk_activation to[N_FEATURES], from[N_FEATURES];
    place(b, first, ids, to, from);
    RK_TRY(rk_embeddings_lookup(e, n, ids, lookup, to));
    if (at_once) return rk_lookup_apply_gradients(lookup, from);
    RK_TRY(rk_lookup_backward(lookup, from));
    return rk_embeddings_step(e);
}

static rk_status train_steps(rk_embeddings *e, drawn *b, int begin, int end, int64_t first, int64_t n) {
    rk_lookup *lookup;
    RK_TRY(rk_lookup_create(e, &lookup));
    rk_status status = RK_OK;
    for (int step = begin; step < end && status == RK_OK; step++) {
        draw(b, step);
        status = rk_embeddings_set_timestamp(e, latest_time(step, first, n));
        if (status == RK_OK) status = train_step(e, lookup, b, first, n, step % 2);
    }
    rk_lookup_free(lookup);
    return status;
}

static rk_status expect_state(rk_embeddings *e, rk_table_state *const wanted[N_TABLES]) {
    for (int t = 0; t < N_TABLES; t++) {
        rk_table_state *state;
        RK_TRY(rk_embeddings_read_state(e, table_names[t], &state));
        rk_status status = same_states(state, wanted[t]);
        rk_table_state_free(state);
        if (status != RK_OK) return rk_error_context(status, "table '%s'", table_names[t]);
    }
    return RK_OK;
}

static rk_embeddings *make(rk_key_counter counter) {
    described d;
    rk_embeddings *e;
    OK(describe(NULL, counter, &d));
    OK(rk_embeddings_create(&d.config, &e));
    return e;
}

static void read_states(rk_embeddings *e, rk_table_state *out[N_TABLES]) {
    for (int t = 0; t < N_TABLES; t++) OK(rk_embeddings_read_state(e, table_names[t], &out[t]));
}

static void free_states(rk_table_state *states[N_TABLES]) {
    for (int t = 0; t < N_TABLES; t++) rk_table_state_free(states[t]);
}

static drawn batch;

/* As a model's step does it. */
static void test_the_bits_of_a_model(void **state) {
    (void)state;
    rk_embeddings *e = make(RK_COUNTER_EXACT), *plain = make(RK_COUNTER_EXACT);
    rk_table_state *wanted[N_TABLES];
    rk_key_totals totals = RK_KEY_TOTALS_INIT;
    OK(train_steps(e, &batch, 0, STEPS, 0, ALL));
    for (int step = 0; step < STEPS; step++) {
        rk_ids ids[N_FEATURES];
        rk_activation to[N_FEATURES], from[N_FEATURES];
        draw(&batch, step);
        place(&batch, 0, ids, to, from);
        rk_embeddings_set_batch_timestamp(plain, (int64_t)latest_time(step, 0, ALL) * 1000000);
        OK(look_up(plain, ALL, ids, to));
        OK(apply_gradients(plain, from));
    }
    read_states(plain, wanted);
    OK(expect_state(e, wanted));
    free_states(wanted);
    OK(rk_embeddings_count_keys(e, "keys", &totals));
    assert_true(totals.n_rows > 100 && totals.n_evicted > 0 && totals.n_refused == 0);
    assert_int_equal(totals.n_rows, totals.n_admitted - totals.n_evicted);
    OK(rk_embeddings_count_keys(e, "shared", &totals));
    assert_true(totals.n_refused > 0 && totals.n_missing == 0);
    rk_embeddings_free(e);
    rk_embeddings_free(plain);
}

/* What is written back goes on to the same bits, exact counts and sketches alike. */
static void test_state(void **state) {
    (void)state;
    for (rk_key_counter counter = RK_COUNTER_EXACT; counter <= RK_COUNTER_BLOOM; counter++) {
        rk_embeddings *e = make(counter), *copy = make(counter);
        rk_table_state *half[N_TABLES], *whole[N_TABLES];
        OK(train_steps(e, &batch, 0, STEPS / 2, 0, ALL));
        read_states(e, half);
        OK(train_steps(e, &batch, STEPS / 2, STEPS, 0, ALL));
        read_states(e, whole);
        OK(train_steps(copy, &batch, 40, 42, 0, ALL)); /* which is forgotten */
        for (int t = 0; t < N_TABLES; t++) OK(write_state(copy, table_names[t], half[t]));
        OK(expect_state(copy, half));
        OK(train_steps(copy, &batch, STEPS / 2, STEPS, 0, ALL));
        OK(expect_state(copy, whole));
        free_states(half);
        free_states(whole);
        rk_embeddings_free(e);
        rk_embeddings_free(copy);
    }
}

static void refuses(void (*change)(described *), const char *message) {
    described d;
    rk_embeddings *e;
    OK(describe(NULL, RK_COUNTER_EXACT, &d));
    change(&d);
    FAILS(rk_embeddings_create(&d.config, &e), RK_INVALID_ARGUMENT, message);
}

static void no_rows(described *d) {
    d->dynamic[0].max_capacity = 0;
}
static void fixed_rows(described *d) {
    d->tables[0].n_rows = 10;
}
static void frozen(described *d) {
    d->tables[0].frozen = true;
}
static void buckets(described *d) {
    d->dynamic[0].buckets = 151;
}
static void keep_all(described *d) {
    d->dynamic[0].keep = 151;
}
static void never(described *d) {
    d->dynamic[0].probability = 0;
}
static void many(described *d) {
    d->dynamic[1].counter = RK_COUNTER_BLOOM;
    d->dynamic[1].min_count = 16;
}
static void too_many_buckets(described *d) {
    d->dynamic[0].max_capacity = (int64_t)1 << 45;
    d->dynamic[0].buckets = 0;
}
static void both_rows(described *d) {
    d->dynamic[1].cold_rows = 3;
}
static void fewer_cold_rows(described *d) {
    d->dynamic[0].cold_rows = -1;
}
static void endless(described *d) {
    d->dynamic[0].ttl = 10000000001;
}
static void counts_nothing(described *d) {
    d->dynamic[0].counter = RK_COUNTER_BLOOM;
}

static void test_refusals(void **state) {
    (void)state;
    refuses(no_rows, "table 'keys': max_capacity must be 1 or more, not 0");
    refuses(fixed_rows,
            "table 'keys': n_rows must be 0 of a dynamic table, not 10\n"
            "hint: its rows are max_capacity at most");
    refuses(frozen, "table 'keys': a dynamic table gets its rows in training, and cannot be frozen");
    refuses(buckets, "table 'keys': buckets (151) must be 0 to max_capacity (150)");
    refuses(keep_all, "table 'keys': keep (151) must be 0 to max_capacity (150)");
    refuses(never, "table 'keys': probability must be above 0 and at most 1, not 0");
    refuses(many, "table 'shared': min_count must be 1 to 15 with the counter bloom, not 16");
    refuses(too_many_buckets,
            "table 'keys': a table of 35184372088832 rows has more than 4294967295 buckets\n"
            "hint: give 4294967295 'buckets' at most");
    refuses(both_rows,
            "table 'shared': keys without a row share one row (oov), or several (cold_rows), not both");
    refuses(endless, "table 'keys': ttl must be 0 to 10000000000, not 10000000001");
    refuses(fewer_cold_rows, "table 'keys': cold_rows must be 0 to 100000000000000, not -1");
    refuses(counts_nothing,
            "table 'keys': with a min_count of 1 nothing is counted: the counter bloom has no "
            "use\nhint: give a larger min_count, or leave the counter out");
}

static void test_states_that_do_not_fit(void **state) {
    (void)state;
    rk_embeddings *e = make_small(4, 0), *other = make(RK_COUNTER_EXACT);
    rk_lookup *lookup;
    rk_table_state *was;
    OK(rk_lookup_create(e, &lookup));
    OK(look_up_keys(e, lookup, 0));
    OK(backward_of(lookup, 1));
    OK(rk_embeddings_step(e));
    OK(rk_embeddings_read_state(e, "t", &was));
    enum { N = 8 };
    assert_int_equal(rk_table_state_n_tensors(was), N);
    const char *names[N];
    rk_tensor tensors[N];
    for (int i = 0; i < N; i++) {
        names[i] = rk_table_state_name(was, i);
        tensors[i] = *rk_table_state_tensor(was, i);
    }
    assert_string_equal(names[0], "keys");
    assert_string_equal(names[1], "rows");
    FAILS(rk_embeddings_write_state(e, "t", N - 1, names, tensors), RK_NOT_FOUND,
          "table 't': the state has no tensor 'step'");
    tensors[1].shape[0] = 3;
    FAILS(rk_embeddings_write_state(e, "t", N, names, tensors), RK_INVALID_ARGUMENT,
          "table 't': tensor 'rows': it has 3 rows of 5 values, not 4 of 5");
    tensors[1].shape[0] = 4;
    tensors[1].dtype = RK_I32;
    FAILS(rk_embeddings_write_state(e, "t", N, names, tensors), RK_INVALID_ARGUMENT,
          "table 't': tensor 'rows': it is of i32, not f32");
    tensors[1].dtype = RK_F32;
    names[1] = "lines";
    FAILS(rk_embeddings_write_state(e, "t", N, names, tensors), RK_INVALID_ARGUMENT,
          "table 't': the table has no tensor 'lines'");
    names[1] = "rows";
    int64_t *totals = tensors[N - 2].data;
    assert_string_equal(names[N - 2], "totals");
    totals[1]++;
    FAILS(rk_embeddings_write_state(e, "t", N, names, tensors), RK_INVALID_ARGUMENT,
          "table 't': the state has 4 keys, but by its totals 4 were admitted and 1 evicted");
    totals[1]--;
    assert_int_equal(n_rows_of(e), 4);
    ((int64_t *)tensors[0].data)[2] = ((int64_t *)tensors[0].data)[1];
    assert_int_equal(rk_embeddings_write_state(e, "t", N, names, tensors), RK_BAD_DATA);
    assert_non_null(strstr(rk_last_error(), "is there twice"));
    assert_int_equal(n_rows_of(e), 0);
    OK(look_up_keys(e, lookup, 0)); /* an empty table works */
    FAILS(rk_embeddings_read_state(e, "u", &was), RK_NOT_FOUND, "there is no table 'u'");
    rk_lookup_free(lookup);
    rk_table_state_free(was);
    rk_embeddings_free(e);
    rk_embeddings_free(other);
}

static const rk_tensor *tensor_of(const rk_table_state *state, const char *name) {
    for (int32_t i = 0; i < rk_table_state_n_tensors(state); i++)
        if (strcmp(rk_table_state_name(state, i), name) == 0) return rk_table_state_tensor(state, i);
    fail_msg("there is no tensor '%s'", name);
    return NULL;
}

/* Nothing is left of a state whose rows are right and whose counts are not. */
static void test_a_candidate_that_is_there_twice(void **state) {
    (void)state;
    rk_embeddings *e = make(RK_COUNTER_EXACT);
    rk_table_state *was;
    rk_key_totals totals = RK_KEY_TOTALS_INIT;
    OK(train_steps(e, &batch, 0, STEPS, 0, ALL));
    OK(rk_embeddings_read_state(e, "shared", &was));
    const rk_tensor *candidates = tensor_of(was, "candidate_keys");
    assert_true(candidates->shape[0] > 1 && tensor_of(was, "keys")->shape[0] > 0);
    int64_t *keys = candidates->data;
    keys[1] = keys[0];
    assert_int_equal(write_state(e, "shared", was), RK_BAD_DATA);
    assert_non_null(strstr(rk_last_error(), "is there twice"));
    OK(rk_embeddings_count_keys(e, "shared", &totals));
    assert_true(totals.n_rows == 0 && totals.n_admitted == 0);
    rk_table_state_free(was);
    OK(train_steps(e, &batch, 0, 1, 0, ALL)); /* an empty table works */
    OK(rk_embeddings_read_state(e, "shared", &was));
    assert_true(tensor_of(was, "candidate_keys")->shape[0] > 0);
    rk_table_state_free(was);
    rk_embeddings_free(e);
}

/* What one process has of all ranks' samples, after half and all of the steps. */
static rk_table_state *half[N_TABLES], *whole[N_TABLES];
static float looked_up[STEPS][N_FEATURES][ALL * DIM];
static rk_key_counter counter_over_ranks;

static void expect(int size) {
    rk_embeddings *e = make(counter_over_ranks);
    for (int32_t f = 0; f < N_FEATURES; f++)
        rk_embeddings_set_micro_batches(e, f, (rk_micro_batches){0, SAMPLES});
    for (int step = 0; step < STEPS; step++) {
        if (step == STEPS / 2) read_states(e, half);
        OK(train_steps(e, &batch, step, step + 1, 0, size * SAMPLES));
        memcpy(looked_up[step], batch.out, sizeof batch.out);
    }
    read_states(e, whole);
    rk_embeddings_free(e);
}

static rk_status train_as_one_of_many(rk_comm *comm, drawn *b) {
    described d;
    rk_status status;
    rk_embeddings *e = NULL, *copy = NULL;
    rk_key_totals totals = RK_KEY_TOTALS_INIT;
    int64_t first = (int64_t)rk_comm_rank(comm) * SAMPLES;
    RK_GOTO(describe(comm, counter_over_ranks, &d));
    RK_GOTO(rk_embeddings_create(&d.config, &e));
    for (int step = 0; step < STEPS; step++) {
        if (step == STEPS / 2) RK_GOTO(expect_state(e, half));
        RK_GOTO(train_steps(e, b, step, step + 1, first, SAMPLES));
        for (int f = 0; f < N_FEATURES; f++)
            EXPECT(memcmp(b->out[f] + first * DIM, looked_up[step][f] + first * DIM,
                          SAMPLES * DIM * sizeof(float)) == 0);
    }
    RK_GOTO(expect_state(e, whole));
    RK_GOTO(rk_embeddings_count_keys(e, "keys", &totals));
    EXPECT(totals.n_rows == rk_table_state_tensor(whole[0], 0)->shape[0] && totals.n_evicted > 0);
    RK_GOTO(rk_embeddings_create(&d.config, &copy));
    for (int t = 0; t < N_TABLES; t++) RK_GOTO(write_state(copy, table_names[t], half[t]));
    RK_GOTO(expect_state(copy, half));
    RK_GOTO(train_steps(copy, b, STEPS / 2, STEPS, first, SAMPLES));
    RK_GOTO(expect_state(copy, whole));
done:
    rk_embeddings_free(e);
    rk_embeddings_free(copy);
    return status;
}

static void train(thread_rank *t) {
    rk_comm *comm = NULL;
    drawn *b = NULL;
    keep(t, open_rank(t, 60, &comm));
    keep(t, rk_alloc(1, sizeof *b, &b));
    if (t->status == RK_OK) keep(t, train_as_one_of_many(comm, b));
    rk_free(b);
    rk_comm_free(comm);
}

static void test_the_bits_of_one_process(void **state) {
    (void)state;
    for (int trial = 2; trial <= 2 * MAX_RANKS - 1; trial++) {
        thread_rank ranks[MAX_RANKS] = {{0}};
        int size = trial <= MAX_RANKS ? trial : trial - MAX_RANKS + 1;
        counter_over_ranks = trial <= MAX_RANKS ? RK_COUNTER_COUNT_MIN : RK_COUNTER_BLOOM;
        expect(size);
        run_ranks(size, ranks, train);
        free_states(half);
        free_states(whole);
        assert_all_went_well(size, ranks);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bits_of_a_model),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_states_that_do_not_fit),
        cmocka_unit_test(test_a_candidate_that_is_there_twice),
        cmocka_unit_test(test_the_bits_of_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
