/* Started by an MPI launcher with any number of ranks: a collection spread over them against one that every
 * rank holds whole, to the bit, or with numbers that travel as 16 bits as near as those are. Arguments:
 * staleness, ranks that only hold rows, f32, bf16 or f16. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "collection_steps.h"
#include "embedding/sharded/sharded_internal.h"

enum {
    N_TABLES = 8,
    N_FEATURES = 10,
    BATCH = 1024,
    N_SHARDS = 4,
    SHARD = BATCH / N_SHARDS,
    STEPS = 9,
    MAX_IDS = 12
};

static rk_comm *world;
static rk_roles roles;
static int64_t staleness;
static rk_dtype wire;
static int64_t first_shards[N_SHARDS + 8];

static const struct {
    int64_t rows;
    int32_t dim;
    rk_dtype dtype;
    rk_optimizer_kind optimizer;
    bool frozen;
    enum { REPLICATED, TABLE, ROWS, COLUMNS, GRID, POOLED } how;
} tables[N_TABLES] = {
    {50, 4, RK_F32, RK_OPTIMIZER_ADAM, false, REPLICATED},
    {1000, 16, RK_F32, RK_OPTIMIZER_ROWWISE_ADAGRAD, false, ROWS},
    {700000, 8, RK_BF16, RK_OPTIMIZER_ADAGRAD, false, ROWS},
    {300, 12, RK_F32, RK_OPTIMIZER_SGD, false, COLUMNS},
    {200, 8, RK_F16, RK_OPTIMIZER_MOMENTUM, false, GRID},
    {400, 5, RK_F32, RK_OPTIMIZER_ADAGRAD, false, POOLED},
    {90, 3, RK_F32, RK_OPTIMIZER_SGD, true, TABLE},
    {5500000000, 1, RK_BF16, RK_OPTIMIZER_SGD, false, TABLE},
}; /* ids of 2, 4 and, of the last one, 8 bytes on their way */
static const struct {
    int table;
    rk_combiner combiner;
    int32_t length; /* of a sequence */
    bool weighted;
} features[N_FEATURES] = {{0, RK_COMBINER_MEAN, 0, false},  {1, RK_COMBINER_SUM, 0, true},
                          {1, RK_COMBINER_SQRTN, 0, false}, {2, RK_COMBINER_SUM, 3, false},
                          {3, RK_COMBINER_MEAN, 0, false},  {4, RK_COMBINER_SUM, 0, false},
                          {5, RK_COMBINER_MEAN, 0, false},  {5, RK_COMBINER_SUM, 0, false},
                          {6, RK_COMBINER_MEAN, 0, false},  {7, RK_COMBINER_SUM, 0, false}};

/* So large that its rows are zeros at first, and few of them are ever touched. */
static bool is_vast(int t) {
    return tables[t].rows > UINT32_MAX;
}

static int64_t draw_id(rk_rng *rng, int t) {
    if (is_vast(t)) return tables[t].rows - 1 - (int64_t)rk_rng_below(rng, 12) * 499999999;
    return (int64_t)(rk_rng_uniform(rng) * rk_rng_uniform(rng) * (double)tables[t].rows);
}

static int32_t width(int f) {
    return tables[features[f].table].dim * (features[f].length ? features[f].length : 1);
}

typedef struct data {
    int64_t offsets[N_FEATURES][BATCH + 1], ids[N_FEATURES][BATCH * MAX_IDS];
    float weights[N_FEATURES][BATCH * MAX_IDS];
    rk_ids batch[N_FEATURES], share[N_FEATURES];
    float *gradients[N_FEATURES];
    int64_t n, first, here;
} data;

/* The same on every rank. The last step's batch is short; the first one too, so that memory grows by pages
 * while it is under way. */
static void make_batch(data *d, int step) {
    rk_rng rng = {7, (uint64_t)step, 0};
    int32_t rank = rk_comm_rank(world);
    d->n = step == 0 ? 9 : step == STEPS - 1 ? BATCH / 2 + 5 : BATCH;
    d->first = first_shards[rank] * SHARD < d->n ? first_shards[rank] * SHARD : d->n;
    int64_t last = rank < roles.n_trainers ? first_shards[rank + 1] * SHARD : 0;
    d->here = (last < d->n ? last : d->n) - d->first;
    for (int f = 0; f < N_FEATURES; f++) {
        int64_t at = 0;
        for (int64_t s = 0; s <= d->n; s++) {
            d->offsets[f][s] = at;
            for (uint64_t k = rk_rng_below(&rng, MAX_IDS); s < d->n && k > 0; k--, at++) {
                d->ids[f][at] = rk_rng_below(&rng, 20) ? draw_id(&rng, features[f].table) : -1;
                d->weights[f][at] = (float)rk_rng_uniform(&rng) + 0.1f;
            }
        }
        d->batch[f] = (rk_ids){.offsets = d->offsets[f],
                               .ids = d->ids[f],
                               .weights = features[f].weighted ? d->weights[f] : NULL};
        for (int64_t i = 0; i < d->n * width(f); i++) d->gradients[f][i] = (float)rk_rng_normal(&rng);
    }
}

static rk_ids share_of(const data *d, int f, int64_t *offsets) {
    int64_t skip = d->offsets[f][d->first];
    for (int64_t s = 0; s <= d->here; s++) offsets[s] = d->offsets[f][d->first + s] - skip;
    return (rk_ids){.offsets = offsets,
                    .ids = d->ids[f] + skip,
                    .weights = features[f].weighted ? d->weights[f] + skip : NULL};
}

static void place(rk_table_placement *p, int t) {
    int32_t first = roles.n_owners ? roles.n_trainers : 0,
            n = roles.n_owners ? roles.n_owners : roles.n_trainers;
    int how = tables[t].how,
        slices = how == COLUMNS ? 3
                 : how == GRID  ? 2
                                : 1,
        parts = how == ROWS   ? n + 1
                : how == GRID ? 3
                              : 1;
    OK(rk_table_placement_init(p, slices, parts));
    p->replicated = how == REPLICATED;
    p->owner_pooling = how == POOLED;
    for (int i = 0; i < slices * parts; i++) p->owners[i] = first + (t + i) % n;
}

/* Squares of differences, and of what was wanted. */
typedef struct difference {
    double squares, of;
} difference;

static void add_difference(difference *d, const float *have, const float *want, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        d->squares += ((double)have[i] - want[i]) * ((double)have[i] - want[i]);
        d->of += (double)want[i] * want[i];
    }
}

/* Numbers of 8 or 11 bits are off by 2^-9 or 2^-12 of themselves at most: up to 4e-6 or 6e-8 of the squares,
 * and some of what they are added to cancels. The vast table's rows are kept in bf16 and few: some come out a
 * step of that apart, of which up to 4e-5 was seen. */
static void check_difference(difference d, const char *what, int t) {
    double bound = is_vast(t) ? 1e-4 : wire == RK_BF16 ? 2e-5 : 4e-7;
    if (d.squares > bound * d.of) fail_msg("%s of table %d: %g of the squares", what, t, d.squares / d.of);
}

/* A vast table's rows are looked up, and so compared, by the batch after the last. */
static void compare_rows(const rk_sharded *s, const rk_embeddings *reference) {
    for (int32_t h = 0; h < s->n_shards; h++) {
        const rk_table_shard *shard = &s->shards[h];
        difference found = {0};
        if (shard->stored < 0 || is_vast(shard->table)) continue;
        const rk_table *part = &s->store->tables[shard->stored], *whole = &reference->tables[shard->table];
        assert_int_equal(part->step, whole->step);
        for (int64_t r = 0; r < shard->n_rows; r++) {
            float have[64], want[64];
            int64_t id = r * shard->n_parts + shard->part;
            rk_row_load(&part->rows, r, have);
            rk_row_load(&whole->rows, id, want);
            if (wire != RK_F32) {
                add_difference(&found, have, want + shard->first_column, shard->dim);
                continue;
            }
            if (memcmp(have, want + shard->first_column, (size_t)shard->dim * sizeof *have) != 0)
                fail_msg("table %d, row %lld, columns from %d: %g is not %g", shard->table, (long long)id,
                         shard->first_column, (double)have[0], (double)want[shard->first_column]);
            for (int k = 0; k < part->n_slots; k++) {
                bool per_row = part->slots[k].per_row;
                const float *a = part->slot_values[k] + r * (per_row ? 1 : shard->dim);
                const float *b =
                    whole->slot_values[k] + (per_row ? id : id * whole->config.dim + shard->first_column);
                assert_memory_equal(a, b, (per_row ? 1 : (size_t)shard->dim) * sizeof *a);
            }
        }
        check_difference(found, "rows", shard->table);
    }
}

static void compare_lookup(const rk_store *store, rk_embeddings *reference, const data *d) {
    for (int f = 0; f < N_FEATURES; f++) {
        float *have = calloc((size_t)(BATCH * width(f)), sizeof *have),
              *want = calloc((size_t)(BATCH * width(f)), sizeof *want);
        rk_activation to = {have, width(f), NULL}, out = {want, width(f), NULL};
        store->ops->lookup(store, false, f, 0, d->here / 2, &to);
        to.data += d->here / 2 * width(f);
        store->ops->lookup(store, false, f, d->here / 2, d->here, &to);
        rk_embeddings_lookup_samples(reference, false, f, 0, d->n, &out);
        difference found = {0};
        add_difference(&found, have, want + d->first * width(f), d->here * width(f));
        check_difference(found, "lookups", features[f].table);
        if (wire == RK_F32)
            assert_memory_equal(have, want + d->first * width(f),
                                (size_t)(d->here * width(f)) * sizeof *have);
        free(have);
        free(want);
    }
}

static void run(void **state) {
    (void)state;
    int32_t rank = rk_comm_rank(world);
    rk_optimizer optimizers[N_TABLES];
    rk_table_config table_configs[N_TABLES];
    rk_feature_config feature_configs[N_FEATURES];
    static const char *const table_names[] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"},
                             *const feature_names[] = {"f0", "f1", "f2", "f3", "f4",
                                                       "f5", "f6", "f7", "f8", "f9"};
    rk_table_placement placements[N_TABLES];
    for (int t = 0; t < N_TABLES; t++) {
        OK(rk_optimizer_init(&optimizers[t], tables[t].optimizer));
        table_configs[t] = (rk_table_config)RK_TABLE_CONFIG_INIT;
        table_configs[t].name = table_names[t];
        table_configs[t].n_rows = tables[t].rows;
        table_configs[t].dim = tables[t].dim;
        table_configs[t].dtype = tables[t].dtype;
        table_configs[t].frozen = tables[t].frozen;
        if (is_vast(t)) table_configs[t].initializer.kind = RK_INIT_ZEROS;
        table_configs[t].optimizer = &optimizers[t];
        place(&placements[t], t);
    }
    for (int f = 0; f < N_FEATURES; f++) {
        feature_configs[f] = (rk_feature_config)RK_FEATURE_CONFIG_INIT;
        feature_configs[f].name = feature_names[f];
        feature_configs[f].table = table_names[features[f].table];
        feature_configs[f].combiner = features[f].combiner;
        feature_configs[f].max_sequence_length = features[f].length;
    }
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    config.seed = 5;
    config.tables = table_configs;
    config.n_tables = N_TABLES;
    config.features = feature_configs;
    config.n_features = N_FEATURES;
    rk_embeddings *reference;
    rk_status created = rk_embeddings_create(&config, &reference);
    if (created == RK_NO_MEMORY) skip(); /* a system that does not overcommit */
    OK(created);
    for (int f = 0; f < N_FEATURES; f++)
        rk_embeddings_set_micro_batches(reference, f, (rk_micro_batches){0, SHARD});
    rk_sharded *s;
    OK(rk_sharded_create(
        &(rk_sharded_options){&config, placements, world, roles, first_shards, SHARD, wire, staleness, NULL},
        &s));
    rk_store *store = rk_sharded_as_store(s);
    for (int t = 0; t < 2; t++) {
        OK(rk_embeddings_set_l2(reference, table_names[t], 0.01, t ? 0 : 0.001));
        OK(rk_sharded_set_l2(s, table_names[t], 0.01, t ? 0 : 0.001));
    }
    compare_rows(s, reference);

    data *d = calloc((size_t)STEPS, sizeof *d);
    int64_t(*offsets)[N_FEATURES][BATCH + 1] = calloc((size_t)STEPS, sizeof *offsets);
    rk_ids shares[STEPS][N_FEATURES];
    for (int step = 0; step < STEPS; step++) {
        for (int f = 0; f < N_FEATURES; f++)
            d[step].gradients[f] = calloc((size_t)(BATCH * width(f)), sizeof(float));
        make_batch(&d[step], step);
        for (int f = 0; f < N_FEATURES && rank < roles.n_trainers; f++)
            shares[step][f] = share_of(&d[step], f, offsets[step][f]);
    }
    enum { SKIPPED = 3 };
    if (rank < roles.n_trainers) {
        int begun = 0;
        for (int step = 0; step < STEPS; step++) {
            for (; begun <= step + staleness && begun < STEPS; begun++)
                OK(store->ops->begin(store, d[begun].here, shares[begun], true));
            OK(store->ops->wait(store));
            OK(rk_embeddings_dedup(reference, d[step].n, d[step].batch, false));
            compare_lookup(store, reference, &d[step]);
            rk_activation gradients[N_FEATURES], mine[N_FEATURES];
            for (int f = 0; f < N_FEATURES; f++) {
                mine[f] = (rk_activation){d[step].gradients[f] + d[step].first * width(f), width(f), NULL};
            }
            if (step != SKIPPED || rank % 2)
                OK(store->ops->backward(store, mine, true)); /* what is not applied may be given or not */
            OK(store->ops->end(store, step != SKIPPED));
            int due = step - (int)staleness; /* the next lookup but `staleness` ones sees this */
            for (int u = due; u >= 0 && u <= due; u++) {
                for (int f = 0; f < N_FEATURES; f++)
                    gradients[f] = (rk_activation){d[u].gradients[f], width(f), NULL};
                OK(rk_embeddings_dedup(reference, d[u].n, d[u].batch, true));
                if (u != SKIPPED) OK(apply_gradients(reference, gradients));
            }
        }
        OK(store->ops->flush(store));
        OK(store->ops->send_to_servers(store, 42));
    } else {
        int64_t word;
        OK(store->ops->serve(store, &word));
        assert_int_equal(word, 42);
    }
    for (int u = rank < roles.n_trainers ? STEPS - (int)staleness : 0; u < STEPS; u++) {
        rk_activation gradients[N_FEATURES];
        for (int f = 0; f < N_FEATURES; f++)
            gradients[f] = (rk_activation){d[u].gradients[f], width(f), NULL};
        OK(rk_embeddings_dedup(reference, d[u].n, d[u].batch, true));
        if (u != SKIPPED) OK(apply_gradients(reference, gradients));
    }
    compare_rows(s, reference);
    if (rank < roles.n_trainers) { /* an evaluation sees every update, and changes nothing */
        OK(store->ops->begin(store, d[1].here, shares[1], false));
        OK(store->ops->wait(store));
        OK(rk_embeddings_dedup(reference, d[1].n, d[1].batch, false));
        compare_lookup(store, reference, &d[1]);
        OK(store->ops->end(store, false));
        OK(store->ops->flush(store));
        OK(store->ops->send_to_servers(store, 43));
    } else {
        int64_t word;
        OK(store->ops->serve(store, &word));
        assert_int_equal(word, 43);
    }
    compare_rows(s, reference);
    rk_sharded_counts counts = rk_sharded_read_counts(s);
    if (rank < roles.n_trainers) assert_int_equal(counts.n_batches, STEPS + 1);
    assert_true(counts.staleness_most <= staleness);
    for (int step = 0; step < STEPS; step++)
        for (int f = 0; f < N_FEATURES; f++) free(d[step].gradients[f]);
    free(d);
    free(offsets);
    for (int t = 0; t < N_TABLES; t++) rk_table_placement_release(&placements[t]);
    store->ops->free(store);
    rk_embeddings_free(reference);
}

static int end(void **state) {
    (void)state;
    rk_comm_free(world);
    assert_int_equal(rk_alloc_live(), 0);
    return 0;
}

int main(int argc, char **argv) {
    rk_comm_options options = RK_COMM_OPTIONS_INIT;
    options.timeout_s = 30;
    if (rk_comm_world(&options, &world) != RK_OK) {
        fprintf(stderr, "%s\n", rk_last_error());
        return 1;
    }
    staleness = argc > 1 ? atoi(argv[1]) : 0;
    roles.n_owners = argc > 2 ? atoi(argv[2]) : 0;
    wire = argc > 3 && strcmp(argv[3], "bf16") == 0  ? RK_BF16
           : argc > 3 && strcmp(argv[3], "f16") == 0 ? RK_F16
                                                     : RK_F32;
    roles.n_trainers = rk_comm_size(world) - roles.n_owners;
    for (int r = 0; r <= roles.n_trainers; r++) first_shards[r] = N_SHARDS * r / roles.n_trainers;
    const struct CMUnitTest tests[] = {cmocka_unit_test(run)};
    return cmocka_run_group_tests(tests, NULL, end);
}
