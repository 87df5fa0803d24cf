/* Started by an MPI launcher: the contract of the stores over ranks; in a build over the emulator, of the
 * GPU's too. */
#include "embedding/sharded/sharded_internal.h"
#ifdef RK_EMULATED
#include "embedding/device_kinds.h"
#define OPEN  open_device
#define CLOSE close_device
#else
#define OPEN  NULL
#define CLOSE NULL
#include "embedding/sharded_kind.h"
#endif

enum { AHEAD_STEPS = 12, AHEAD_N = 64, AHEAD_KEYS = 3000 };

/* One table of two parts, whose rows are on a disk but for a batch's. */
static rk_sharded *make_on_disk(int32_t n_servers) {
    int32_t n = rk_comm_size(comm), n_trainers = n - n_servers, first = n_servers ? n_trainers : 0;
    int64_t first_micro_batches[64];
    static int n_made;
    char name[16];
    rk_dynamic_config dynamic = {.max_capacity = AHEAD_KEYS,
                                 .n_buckets = 8,
                                 .min_count = 1,
                                 .probability = 1,
                                 .storage = rows_folder(),
                                 .memory_bytes = 1};
    rk_optimizer optimizer;
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    rk_feature_config feature = RK_FEATURE_CONFIG_INIT;
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    rk_table_placement placement;
    rk_sharded *sharded;
    OK(rk_optimizer_init(&optimizer, RK_OPTIMIZER_ADAGRAD));
    OK(rk_table_placement_init(&placement, 1, 2));
    for (int32_t i = 0; i < 2; i++) placement.owners[i] = first + i % (n - first);
    for (int32_t r = 0; r <= n_trainers; r++) first_micro_batches[r] = r;
    snprintf(name, sizeof name, "ahead%d", ++n_made); /* another rank may still have the last one */
    table.name = feature.name = feature.table = name;
    table.n_rows = AHEAD_KEYS;
    table.dim = 4;
    table.optimizer = &optimizer;
    config.tables = &table;
    config.features = &feature;
    config.n_tables = config.n_features = 1;
    OK(rk_sharded_create(&(rk_sharded_options){.config = &config,
                                               .placements = &placement,
                                               .comm = comm,
                                               .roles = {n_trainers, n_servers},
                                               .first_micro_batches = first_micro_batches,
                                               .micro_batch_samples = AHEAD_N,
                                               .dynamic = &dynamic},
                         &sharded));
    rk_table_placement_release(&placement);
    return sharded;
}

/* This rank's keys of a step: each comes again after a while. */
static void draw_step(int step, int64_t keys[AHEAD_N]) {
    for (int64_t i = 0; i < AHEAD_N; i++)
        keys[i] = (step % 3 * 100 + rk_comm_rank(comm)) * 1000 + i % (AHEAD_N - 7);
}

/* Of the batch at hand, rows that were on the disk; all of them were read beside the batch before it. */
static int64_t check_read_ahead(const rk_sharded *s, int step) {
    int64_t n = 0;
    for (int32_t t = 0; t < s->store->n_tables && step > 2; t++) {
        assert_int_equal(s->store->tables[t].tier->n_read, 0);
        n += s->store->tables[t].tier->n_stored;
    }
    return n;
}

static void train_ahead(rk_sharded *s) {
    static float values[AHEAD_N * 4];
    rk_store *store = rk_sharded_as_store(s);
    int64_t keys[AHEAD_N], next[AHEAD_N + 5], n_stored = 0;
    const rk_activation activation = {values, 4, NULL};
    for (int step = 0; step < AHEAD_STEPS; step++) {
        draw_step(step, keys);
        draw_step(step + 1, next + 5);
        store->ops->prefetch(store, 5, AHEAD_N, &(rk_ids){.ids = next, .ids_per_sample = 1});
        OK(store->ops->begin(store, AHEAD_N, &(rk_ids){.ids = keys, .ids_per_sample = 1}, true));
        OK(store->ops->wait(store));
        n_stored += check_read_ahead(s, step);
        store->ops->lookup(store, true, 0, 0, AHEAD_N, &activation);
        OK(store->ops->backward(store, &activation, true));
        OK(store->ops->end(store, true));
    }
    OK(store->ops->send_to_servers(store, 1));
    if (s->store->n_tables) assert_true(n_stored > 0);
}

/* Keys of the batch to come travel with those of the batch before it, and their rows are read by then. */
static void test_read_ahead(void **state) {
    (void)state;
    for (int32_t i = 0; i < 2; i++) {
        rk_sharded *s = make_on_disk(i * rk_comm_size(comm) / 2);
        rk_store *store = rk_sharded_as_store(s);
        int64_t word;
        if (s->trains) {
            train_ahead(s);
        } else {
            OK(store->ops->serve(store, &word));
            if (s->store->n_tables) assert_true(check_read_ahead(s, AHEAD_STEPS - 1) > 0);
        }
        store->ops->free(store);
    }
}

int main(void) {
    const struct CMUnitTest ahead[] = {cmocka_unit_test(test_read_ahead)};
    static const store_kind over_ranks[] = {
        SHARDED_KINDS,
#ifdef RK_EMULATED
        {"cuda_sharded", make_device_sharded, RK_F32, .of_ranks = true, .nmse = 1e-10},
        {"cuda_sharded, dynamic", make_device_sharded, RK_F32, .keys = true, .of_ranks = true, .nmse = 1e-10},
        {"cuda_sharded, dynamic, shared row", make_device_sharded, RK_F32, .keys = true, .oov = true,
         .of_ranks = true, .nmse = 1e-10},
        {"cuda_sharded, dynamic, cold rows", make_device_sharded, RK_F32, .keys = true, .cold = true,
         .of_ranks = true, .nmse = 1e-10},
#endif
        {.name = NULL}};
    rk_comm_options options = RK_COMM_OPTIONS_INIT;
    options.timeout_s = 60;
    if (rk_comm_world(&options, &comm) != RK_OK) {
        fprintf(stderr, "%s\n", rk_last_error());
        return 1;
    }
    int n_failed = cmocka_run_group_tests(ahead, NULL, NULL);
    return run_store_contract(over_ranks, OPEN, CLOSE) || n_failed;
}
