/* A collection over ranks, which are threads here: what one collection does with all their samples, to the
 * bit; and calls that one rank refuses. */
#include <math.h>

#include "testing.h"

#include "base/rng.h"
#include "comm/thread_ranks.h"
#include "embedding/local/collection.h"
#include "embedding/sharded/sharded_internal.h"

enum {
    N_TABLES = 6,
    N_FEATURES = 7,
    SAMPLES = 90, /* a rank's */
    ALL = SAMPLES * MAX_RANKS,
    LOOKUPS = 2, /* alive at once */
    STEPS = 3,
    MOST_IDS = 4,
    LENGTH = 3,
    MOST_WIDTH = 24,
    WRITTEN = 500
};

static const struct {
    const char *name;
    int64_t rows;
    int32_t dim;
    rk_dtype dtype;
    rk_optimizer_kind optimizer;
    bool frozen;
} tables[N_TABLES] = {
    {"small", 90, 3, RK_F32, RK_OPTIMIZER_ADAGRAD, false},
    {"users", 20011, 8, RK_F32, RK_OPTIMIZER_ADAM, false},
    {"items", 10001, 16, RK_F32, RK_OPTIMIZER_SGD, false},
    {"half", 30000, 4, RK_BF16, RK_OPTIMIZER_ROWWISE_ADAGRAD, false},
    {"frozen", 12000, 5, RK_F32, RK_OPTIMIZER_SGD, true},
    {"unused", 11000, 2, RK_F32, RK_OPTIMIZER_SGD, false},
};
static const struct {
    const char *name;
    int table;
    rk_combiner combiner;
    int32_t length;
    bool weighted;
} features[N_FEATURES] = {
    {"small", 0, RK_COMBINER_MEAN, 0, false},   {"user", 1, RK_COMBINER_SUM, 0, false},
    {"item", 2, RK_COMBINER_SQRTN, 0, true},    {"history", 1, RK_COMBINER_SUM, LENGTH, false},
    {"half", 3, RK_COMBINER_MEAN, 0, false},    {"frozen", 4, RK_COMBINER_SUM, 0, false},
    {"item too", 2, RK_COMBINER_MEAN, 0, true},
};

typedef struct described {
    rk_optimizer optimizers[N_TABLES];
    rk_table_config tables[N_TABLES];
    rk_feature_config features[N_FEATURES];
    rk_embeddings_config config;
} described;

static rk_status describe(rk_comm *comm, described *d) {
    for (int t = 0; t < N_TABLES; t++) {
        RK_TRY(rk_optimizer_init(&d->optimizers[t], tables[t].optimizer));
        d->tables[t] = (rk_table_config)RK_TABLE_CONFIG_INIT;
        d->tables[t].name = tables[t].name;
        d->tables[t].n_rows = tables[t].rows;
        d->tables[t].dim = tables[t].dim;
        d->tables[t].dtype = tables[t].dtype;
        d->tables[t].frozen = tables[t].frozen;
        d->tables[t].optimizer = &d->optimizers[t];
    }
    for (int f = 0; f < N_FEATURES; f++) {
        d->features[f] = (rk_feature_config)RK_FEATURE_CONFIG_INIT;
        d->features[f].name = features[f].name;
        d->features[f].table = tables[features[f].table].name;
        d->features[f].combiner = features[f].combiner;
        d->features[f].max_sequence_length = features[f].length;
        d->features[f].weighted = features[f].weighted;
    }
    d->config = (rk_embeddings_config)RK_EMBEDDINGS_CONFIG_INIT;
    d->config.seed = 4;
    d->config.tables = d->tables;
    d->config.n_tables = N_TABLES;
    d->config.features = d->features;
    d->config.n_features = N_FEATURES;
    d->config.comm = comm;
    return RK_OK;
}

static int32_t width_of(int f) {
    return tables[features[f].table].dim * (features[f].length ? features[f].length : 1);
}

/* A batch of all ranks, and what is looked up for it. */
typedef struct drawn {
    int64_t offsets[N_FEATURES][ALL + 1], values[N_FEATURES][ALL * MOST_IDS];
    float weights[N_FEATURES][ALL * MOST_IDS];
    float gradients[N_FEATURES][ALL * MOST_WIDTH], out[N_FEATURES][ALL * MOST_WIDTH];
    int32_t lengths[N_FEATURES][ALL];
} drawn;

/* Some ids are drawn by all ranks, some are missing. */
static void draw(drawn *b, uint64_t seed) {
    rk_rng rng = {seed, 5, 0};
    for (int f = 0; f < N_FEATURES; f++) {
        int64_t at = 0, rows = tables[features[f].table].rows;
        for (int64_t s = 0; s < ALL; s++) {
            b->offsets[f][s] = at;
            for (uint64_t i = rk_rng_below(&rng, MOST_IDS); i > 0; i--, at++) {
                uint64_t hot = rk_rng_below(&rng, 2);
                b->values[f][at] =
                    (int64_t)rk_rng_below(&rng, hot ? 20 : (uint64_t)rows) - (hot && s % 9 == 0);
                b->weights[f][at] = (float)rk_rng_uniform(&rng) + 0.1f;
            }
        }
        b->offsets[f][ALL] = at;
        for (int64_t i = 0; i < ALL * width_of(f); i++) b->gradients[f][i] = (float)rk_rng_normal(&rng);
    }
}

/* Samples first .. first+n-1: ids with offsets of their own, and where activations and gradients are. */
typedef struct share {
    int64_t offsets[N_FEATURES][ALL + 1];
    rk_ids ids[N_FEATURES];
    rk_activation to[N_FEATURES], from[N_FEATURES];
} share;

static void take_share(drawn *b, int64_t first, int64_t n, float (*out)[ALL * MOST_WIDTH], share *s) {
    for (int f = 0; f < N_FEATURES; f++) {
        int64_t begin = b->offsets[f][first], width = width_of(f);
        for (int64_t i = 0; i <= n; i++) s->offsets[f][i] = b->offsets[f][first + i] - begin;
        s->ids[f] = (rk_ids){s->offsets[f], 0, b->values[f] + begin,
                             features[f].weighted ? b->weights[f] + begin : NULL};
        s->to[f] =
            (rk_activation){out[f] + first * width, width, features[f].length ? b->lengths[f] + first : NULL};
        s->from[f] = (rk_activation){b->gradients[f] + first * width, width, NULL};
    }
}

/* What one collection made of it: activations of every step's lookups, rows of every table in the end. */
static drawn batches[STEPS][LOOKUPS], peeked;
static float *rows[N_TABLES], *slots[N_TABLES][2];
static float written[WRITTEN * 8];

static rk_status train_alone(rk_embeddings *e, int64_t n) {
    static share s;
    rk_lookup *lookups[LOOKUPS];
    for (int i = 0; i < LOOKUPS; i++) RK_TRY(rk_lookup_create(e, &lookups[i]));
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < LOOKUPS; i++) {
            take_share(&batches[step][i], 0, n, batches[step][i].out, &s);
            RK_TRY(rk_embeddings_lookup(e, n, s.ids, lookups[i], s.to));
        }
        for (int i = LOOKUPS - 1; i >= 0; i--) {
            take_share(&batches[step][i], 0, n, batches[step][i].out, &s);
            RK_TRY(rk_lookup_backward(lookups[i], s.from));
        }
        if (step == 1) RK_TRY(rk_embeddings_scale_learning_rate(e, 0.5));
        RK_TRY(rk_embeddings_step(e));
    }
    RK_TRY(rk_embeddings_write_rows(e, "users", 1001, WRITTEN, written));
    take_share(&peeked, 0, n, peeked.out, &s);
    RK_TRY(rk_embeddings_lookup_eval(e, n, s.ids, lookups[0], s.to));
    for (int i = 0; i < LOOKUPS; i++) rk_lookup_free(lookups[i]);
    return RK_OK;
}

static void expect(int size) {
    described d;
    rk_embeddings *e;
    OK(describe(NULL, &d));
    OK(rk_embeddings_create(&d.config, &e));
    for (int32_t f = 0; f < N_FEATURES; f++)
        rk_embeddings_set_micro_batches(e, f, (rk_micro_batches){0, SAMPLES});
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < LOOKUPS; i++) draw(&batches[step][i], (uint64_t)(step * LOOKUPS + i));
    draw(&peeked, 99);
    rk_rng rng = {3, 3, 0};
    for (int i = 0; i < WRITTEN * 8; i++) written[i] = (float)rk_rng_normal(&rng);
    OK(train_alone(e, size * SAMPLES));
    for (int t = 0; t < N_TABLES; t++) {
        OK(rk_alloc((size_t)(tables[t].rows * tables[t].dim), sizeof(float), &rows[t]));
        OK(rk_embeddings_read_rows(e, tables[t].name, 0, tables[t].rows, rows[t]));
        int32_t width;
        for (int32_t s = 0; rk_embeddings_slot_name(e, tables[t].name, s, &width); s++) {
            OK(rk_alloc((size_t)(tables[t].rows * width), sizeof(float), &slots[t][s]));
            OK(rk_embeddings_read_slot(e, tables[t].name, s, 0, tables[t].rows, slots[t][s]));
        }
    }
    rk_embeddings_free(e);
}

static void forget(void) {
    for (int t = 0; t < N_TABLES; t++) RK_FREE_ALL(rows[t], slots[t][0], slots[t][1]);
}

/* A rank's own memory. */
typedef struct own_memory {
    share s;
    float out[N_FEATURES][ALL * MOST_WIDTH];
} own_memory;

static rk_status expect_same(const drawn *b, const own_memory *m, int64_t first) {
    for (int f = 0; f < N_FEATURES; f++) {
        int64_t at = first * width_of(f);
        if (memcmp(m->out[f] + at, b->out[f] + at, (size_t)(SAMPLES * width_of(f)) * sizeof(float)) != 0)
            return rk_error(RK_INTERNAL, "feature '%s' is not what one process looks up", features[f].name);
    }
    return RK_OK;
}

static rk_status read_all(rk_embeddings *e) {
    for (int t = 0; t < N_TABLES; t++) {
        static const int64_t begins[] = {0, 1, 37, 5000};
        for (int i = 0; i < 4; i++) {
            int64_t first = begins[i] < tables[t].rows ? begins[i] : tables[t].rows,
                    n = tables[t].rows - first;
            size_t n_values = (size_t)(n * tables[t].dim);
            float *have;
            if (i % 2 && n > 3) n_values = (size_t)((n = 3) * tables[t].dim);
            RK_TRY(rk_alloc(n_values, sizeof *have, &have));
            rk_status status = rk_embeddings_read_rows(e, tables[t].name, first, n, have);
            bool same = memcmp(have, rows[t] + first * tables[t].dim, n_values * sizeof *have) == 0;
            rk_free(have);
            RK_TRY(status);
            RK_FAIL_IF(!same, RK_INTERNAL, "table '%s' has other rows than in one process", tables[t].name);
        }
    }
    return RK_OK;
}

/* Slots and steps: read whole, and written into a second collection of the same ranks. */
static rk_status copy_state(const rk_embeddings *from, rk_embeddings *to) {
    for (int t = 0; t < N_TABLES; t++) {
        int32_t width;
        int64_t step, copied;
        RK_TRY(rk_embeddings_read_step(from, tables[t].name, &step));
        RK_FAIL_IF(step != (tables[t].frozen || t == N_TABLES - 1 ? 0 : STEPS), RK_INTERNAL,
                   "table '%s' has taken %lld steps", tables[t].name, (long long)step);
        RK_TRY(rk_embeddings_write_step(to, tables[t].name, step));
        RK_TRY(rk_embeddings_read_step(to, tables[t].name, &copied));
        RK_FAIL_IF(copied != step, RK_INTERNAL, "table '%s' forgets its steps", tables[t].name);
        for (int32_t s = 0; rk_embeddings_slot_name(from, tables[t].name, s, &width); s++) {
            RK_AUTOFREE float *have = NULL;
            RK_AUTOFREE float *again = NULL;
            size_t n = (size_t)(tables[t].rows * width);
            RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n, have), RK_ARRAY(n, again)));
            RK_TRY(rk_embeddings_read_slot(from, tables[t].name, s, 0, tables[t].rows, have));
            RK_TRY(rk_embeddings_write_slot(to, tables[t].name, s, 0, tables[t].rows, have));
            RK_TRY(rk_embeddings_read_slot(to, tables[t].name, s, 0, tables[t].rows, again));
            bool same = memcmp(have, again, n * sizeof *have) == 0 &&
                        (!slots[t][s] || memcmp(have, slots[t][s], n * sizeof *have) == 0);
            RK_FAIL_IF(!same, RK_INTERNAL, "slot %d of table '%s' is not that of one process", (int)s,
                       tables[t].name);
        }
    }
    return RK_OK;
}

static rk_status train_as_one_of_many(rk_comm *comm, own_memory *m) {
    described d;
    rk_status status;
    rk_embeddings *e = NULL, *copy = NULL;
    rk_lookup *lookups[LOOKUPS] = {NULL, NULL};
    int64_t first = (int64_t)rk_comm_rank(comm) * SAMPLES;
    RK_GOTO(describe(comm, &d));
    RK_GOTO(rk_embeddings_create(&d.config, &e));
    for (int i = 0; i < LOOKUPS; i++) RK_GOTO(rk_lookup_create(e, &lookups[i]));
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < LOOKUPS; i++) {
            take_share(&batches[step][i], first, SAMPLES, m->out, &m->s);
            RK_GOTO(rk_embeddings_lookup(e, SAMPLES, m->s.ids, lookups[i], m->s.to));
            RK_GOTO(expect_same(&batches[step][i], m, first));
        }
        for (int i = LOOKUPS - 1; i >= 0; i--) {
            take_share(&batches[step][i], first, SAMPLES, m->out, &m->s);
            RK_GOTO(rk_lookup_backward(lookups[i], m->s.from));
        }
        if (step == 1) RK_GOTO(rk_embeddings_scale_learning_rate(e, 0.5));
        RK_GOTO(rk_embeddings_step(e));
    }
    EXPECT(rk_embeddings_step(e) == RK_INVALID_ARGUMENT);
    RK_GOTO(rk_embeddings_write_rows(e, "users", 1001, WRITTEN, written));
    take_share(&peeked, first, SAMPLES, m->out, &m->s);
    RK_GOTO(rk_embeddings_lookup_eval(e, SAMPLES, m->s.ids, lookups[0], m->s.to));
    RK_GOTO(expect_same(&peeked, m, first));
    RK_GOTO(read_all(e));
    RK_GOTO(rk_embeddings_create(&d.config, &copy));
    RK_GOTO(copy_state(e, copy));
    EXPECT(rk_embeddings_read_rows(e, "items", 10000, 2, NULL) == RK_INVALID_ARGUMENT);
    EXPECT(rk_embeddings_width(e, 3) == 24 && rk_embeddings_n_features(e) == N_FEATURES);
    EXPECT(rk_embeddings_bytes(e) > 0);
done:
    for (int i = 0; i < LOOKUPS; i++) rk_lookup_free(lookups[i]);
    rk_embeddings_free(e);
    rk_embeddings_free(copy);
    return status;
}

static void train(thread_rank *t) {
    rk_comm *comm = NULL;
    own_memory *m = NULL;
    keep(t, open_rank(t, 60, &comm));
    keep(t, rk_alloc(1, sizeof *m, &m));
    if (t->status == RK_OK) keep(t, train_as_one_of_many(comm, m));
    rk_free(m);
    rk_comm_free(comm);
}

static void test_the_bits_of_one_collection(void **state) {
    (void)state;
    for (int size = 1; size <= MAX_RANKS; size++) {
        thread_rank ranks[MAX_RANKS] = {{0}};
        expect(size);
        run_ranks(size, ranks, train);
        forget();
        assert_all_went_well(size, ranks);
    }
}

/* ---- What a rank refuses. */

static bool failed_as(rk_status status, rk_status wanted, const char *message) {
    if (status == wanted && strcmp(rk_last_error(), message) == 0) return true;
    rk_error(RK_INTERNAL, "%s: %s", rk_status_name(status), rk_last_error());
    return false;
}
#define EXPECT_FAILURE(call, status_wanted, message)                                                   \
    do {                                                                                               \
        if (!failed_as((call), status_wanted, message)) RK_GOTO(rk_error_context(RK_INTERNAL, #call)); \
    } while (0)

static rk_status refuse(rk_comm *comm, own_memory *m, drawn *b) {
    described d;
    rk_status status;
    rk_embeddings *e = NULL;
    rk_lookup *lookup = NULL;
    int rank = rk_comm_rank(comm);
    int64_t first = (int64_t)rank * SAMPLES, n = rank == 1 ? 0 : SAMPLES; /* batches are of any size */
    RK_GOTO(describe(comm, &d));
    if (rank == 1) d.tables[2].n_rows = 10002;
    EXPECT_FAILURE(rk_embeddings_create(&d.config, &e), RK_CONFIG,
                   "the ranks' embeddings have different tables, features or seeds");
    d.tables[2].n_rows = rank == 1 ? 0 : 10001;
    EXPECT_FAILURE(rk_embeddings_create(&d.config, &e), RK_INVALID_ARGUMENT,
                   "rank 1: table 'items': n_rows must be 1 or more, not 0");
    d.tables[2].n_rows = 10001;
    d.tables[0].struct_size = rank == 1 ? 3 : sizeof d.tables[0];
    EXPECT(rk_embeddings_create(&d.config, &e) == RK_INVALID_ARGUMENT);
    d.tables[0].struct_size = sizeof d.tables[0];
    RK_GOTO(rk_embeddings_create(&d.config, &e));
    RK_GOTO(rk_lookup_create(e, &lookup));
    take_share(b, first, SAMPLES, m->out, &m->s);
    static const int64_t stray[] = {20011}, stray_offsets[] = {0, 0, 0, 1};
    if (rank == 2) m->s.ids[1] = (rk_ids){stray_offsets, 0, stray, NULL};
    EXPECT_FAILURE(
        rk_embeddings_lookup(e, rank == 2 ? 3 : n, m->s.ids, lookup, m->s.to), RK_BAD_DATA,
        "rank 2: feature 'user': sample 2: id 20011 is beyond the last row 20010 of table 'users'\n"
        "hint: give the table more rows, or hash the feature");
    EXPECT_FAILURE(rk_lookup_backward(lookup, m->s.from), RK_INVALID_ARGUMENT,
                   "a backward must follow an rk_embeddings_lookup, once for each");
    take_share(b, first, SAMPLES, m->out, &m->s);
    RK_GOTO(rk_embeddings_lookup(e, n, m->s.ids, lookup, m->s.to));
    float *bad = &b->gradients[1][5], kept = rank == 0 ? *bad : 0;
    if (rank == 0) *bad = NAN;
    status = rk_lookup_backward(lookup, m->s.from);
    if (rank == 0) *bad = kept;
    EXPECT_FAILURE(status, RK_NOT_FINITE,
                   "rank 0: feature 'user': sample 0: the gradient is not a finite number");
    EXPECT_FAILURE(rk_embeddings_step(e), RK_INVALID_ARGUMENT,
                   "rk_embeddings_step must follow an rk_lookup_backward");
    RK_GOTO(rk_lookup_apply_gradients(lookup, m->s.from)); /* set right, it goes on */
    RK_GOTO(rk_embeddings_lookup(e, n, m->s.ids, lookup, m->s.to));
    RK_GOTO(rk_lookup_backward(lookup, m->s.from));
    rk_embeddings_zero_gradients(e);
    EXPECT(rk_embeddings_step(e) == RK_INVALID_ARGUMENT);
done:
    rk_lookup_free(lookup);
    rk_embeddings_free(e);
    return status;
}

static drawn refused;
static void refuses(thread_rank *t) {
    rk_comm *comm = NULL;
    own_memory *m = NULL;
    keep(t, open_rank(t, 60, &comm));
    keep(t, rk_alloc(1, sizeof *m, &m));
    if (t->status == RK_OK) keep(t, refuse(comm, m, &refused));
    rk_free(m);
    rk_comm_free(comm);
}

static void test_refused(void **state) {
    (void)state;
    thread_rank ranks[MAX_RANKS] = {{0}};
    draw(&refused, 8);
    run_ranks(3, ranks, refuses);
    assert_all_went_well(3, ranks);
}

/* Memory that runs out anywhere, on either rank: an error on both, and nothing is left. */
static void test_out_of_memory(void **state) {
    (void)state;
    bool went_well = false;
    expect(2);
    long n_kept = rk_alloc_live();
    for (long n = 1; !went_well; n += 1 + n / 16) {
        thread_rank ranks[MAX_RANKS] = {{0}};
        assert_true(n < 100000);
        rk_alloc_fail_after(n, n % 2);
        run_ranks(2, ranks, train);
        rk_alloc_fail_after(0, false);
        went_well = ranks[0].status == RK_OK && ranks[1].status == RK_OK;
        if (!went_well) assert_true(ranks[0].status == RK_NO_MEMORY || ranks[1].status == RK_NO_MEMORY);
        for (int r = 0; r < 2 && !went_well; r++)
            assert_true(ranks[r].status == RK_NO_MEMORY || ranks[r].status == RK_PEER_LOST);
        assert_int_equal(rk_alloc_live(), n_kept);
    }
    forget();
}

/* Writing takes no memory; reading that has none on one rank fails on all, and they go on. */
static rk_status write_and_read_without_memory(thread_rank *t, rk_comm *comm, float *have) {
    static const float row[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    described d;
    rk_status status;
    rk_embeddings *e = NULL;
    RK_GOTO(describe(comm, &d));
    RK_GOTO(rk_embeddings_create(&d.config, &e));
    if (t->rank == 0) rk_alloc_fail_after(1, true);
    meet(t->group);
    status = rk_embeddings_write_rows(e, "users", 20000, 1, row);
    meet(t->group);
    if (t->rank == 0) rk_alloc_fail_after(1, false);
    meet(t->group);
    RK_GOTO(status);
    EXPECT(rk_embeddings_read_rows(e, "users", 0, 20011, have) == RK_NO_MEMORY);
    RK_GOTO(rk_embeddings_read_rows(e, "users", 0, 20011, have));
    EXPECT(memcmp(have + 20000 * 8, row, sizeof row) == 0);
done:
    rk_embeddings_free(e);
    return status;
}

static void lacks_memory(thread_rank *t) {
    rk_comm *comm = NULL;
    float *have = NULL;
    keep(t, open_rank(t, 60, &comm));
    keep(t, rk_alloc(20011 * 8, sizeof *have, &have));
    if (t->status == RK_OK) keep(t, write_and_read_without_memory(t, comm, have));
    rk_free(have);
    rk_comm_free(comm);
}

static void test_rows_without_memory(void **state) {
    (void)state;
    thread_rank ranks[MAX_RANKS] = {{0}};
    run_ranks(3, ranks, lacks_memory);
    rk_alloc_fail_after(0, false);
    assert_all_went_well(3, ranks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bits_of_one_collection),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_rows_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
