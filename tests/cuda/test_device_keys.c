/* Dynamic tables on the device against the collection's own: keys are found on the host, rows are on the
 * device. */
#include "cuda/device_tables_testing.h"
#include "state_bytes.h"

enum { N_TABLES = 5, N_FEATURES = 7, N_SAMPLES = 30, STILL = 4 };

/* n_rows: keys that are drawn. Rows of 14 bytes come before such of f32. */
static const rk_table_config tables[N_TABLES] = {
    {.struct_size = sizeof *tables, .name = "crowded", .n_rows = 200, .dim = 7, .dtype = RK_BF16},
    {.struct_size = sizeof *tables, .name = "shared", .n_rows = 90, .dim = 5, .dtype = RK_F32},
    {.struct_size = sizeof *tables, .name = "static", .n_rows = 40, .dim = 4, .dtype = RK_F32},
    {.struct_size = sizeof *tables, .name = "cold", .n_rows = 150, .dim = 8, .dtype = RK_BF16},
    {.struct_size = sizeof *tables, .name = "wide cold", .n_rows = 80, .dim = 6, .dtype = RK_F32},
};
static const rk_feature_config features[N_FEATURES] = {
    {sizeof *features, "weighted", "crowded", RK_COMBINER_MEAN, 0, false, false},
    {sizeof *features, "cut", "crowded", RK_COMBINER_SUM, 3, false, false},
    {sizeof *features, "one", "shared", RK_COMBINER_SUM, 0, false, false},
    {sizeof *features, "bag", "shared", RK_COMBINER_SQRTN, 0, false, false},
    {sizeof *features, "still", "static", RK_COMBINER_MEAN, 0, false, false},
    {sizeof *features, "rare", "cold", RK_COMBINER_MEAN, 0, false, false},
    {sizeof *features, "rare one", "wide cold", RK_COMBINER_SUM, 0, false, false},
};
/* Ids below 0 are keys like others, but rows of no static table. */
static const shape shapes[N_FEATURES] = {
    {.most = 4, .weighted = true, .negatives = true},
    {.most = 6, .negatives = true},
    {.ids_per_sample = 1},
    {.most = 5},
    {.ids_per_sample = 2},
    {.most = 4, .negatives = true},
    {.ids_per_sample = 1},
};

static void open_dynamic(twins *w, rk_optimizer *optimizer, rk_optimizer_kind kind) {
    static const rk_dynamic_config crowded = {.max_capacity = 60,
                                              .n_buckets = 2,
                                              .policy = RK_EVICTION_LFU,
                                              .evict_to = 0.8,
                                              .ttl_steps = 4,
                                              .ttl = 3,
                                              .min_count = 1,
                                              .probability = 1},
                                   shared = {.max_capacity = 30,
                                             .n_buckets = 1,
                                             .evict_to = 0.9,
                                             .min_count = 2,
                                             .probability = 1,
                                             .oov = true},
                                   cold = {.max_capacity = 40,
                                           .n_buckets = 2,
                                           .evict_to = 0.8,
                                           .min_count = 2,
                                           .probability = 1,
                                           .n_cold = 14},
                                   wide_cold = {.max_capacity = 20,
                                                .n_buckets = 1,
                                                .policy = RK_EVICTION_LFU,
                                                .evict_to = 0.9,
                                                .min_count = 3,
                                                .probability = 1,
                                                .n_cold = 5};
    static const rk_table_part parts[N_TABLES] = {{.n_rows = 60, .dim = 7, .dynamic = &crowded},
                                                  {.n_rows = 30, .dim = 5, .dynamic = &shared},
                                                  {.n_rows = 40, .dim = 4},
                                                  {.n_rows = 40, .dim = 8, .dynamic = &cold},
                                                  {.n_rows = 20, .dim = 6, .dynamic = &wide_cold}};
    static rk_embeddings_config config;
    OK(rk_optimizer_init(optimizer, kind));
    config = (rk_embeddings_config)RK_EMBEDDINGS_CONFIG_INIT;
    config.seed = 3;
    config.tables = tables;
    config.n_tables = N_TABLES;
    config.features = features;
    config.n_features = N_FEATURES;
    config.optimizer = optimizer;
    open_twins_of(w, &config, parts, shapes, N_SAMPLES, 0);
}

static char *state_of(rk_embeddings *e, size_t *n_bytes) {
    rk_state_dict state = {0};
    OK(rk_embeddings_state_dict(e, &state));
    return bytes_of_state(&state, n_bytes);
}

/* Rows, slots, keys and counts, to the bit. */
static void assert_same(twins *w) {
    size_t a_bytes, b_bytes;
    OK(rk_device_tables_flush(w->tables));
    char *a = state_of(w->host, &a_bytes), *b = state_of(w->home, &b_bytes);
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(a, b, a_bytes);
    rk_free(a);
    rk_free(b);
}

static void check_steps(rk_optimizer_kind kind) {
    twins w;
    rk_optimizer optimizer;
    open_dynamic(&w, &optimizer, kind);
    for (int step = 0; step < 12; step++) {
        rk_embeddings_set_batch_timestamp(w.host, step * (int64_t)RK_MICROSECONDS);
        rk_embeddings_set_batch_timestamp(w.home, step * (int64_t)RK_MICROSECONDS);
        step_twins(&w, N_SAMPLES, true);
        if (step % 4 == 3) assert_same(&w);
    }
    draw_ids(&w, N_SAMPLES);
    route_twins(&w, false);
    look_up_twins(&w, true, false);
    rk_device_tables_end_batch(w.tables, false);
    assert_same(&w);
    rk_key_counts counts = rk_embeddings_sum_key_counts(w.home);
    assert_true(counts.n_evicted > 0 && counts.n_refused > 0 && counts.n_missing > 0);
    assert_int_equal(counts.n_missing, rk_embeddings_sum_key_counts(w.host).n_missing);
    close_twins(&w);
}

static void test_steps(void **state) {
    (void)state;
    check_steps(RK_OPTIMIZER_ADAGRAD);
    check_steps(RK_OPTIMIZER_ROWWISE_ADAM);
}

/* The next batch is on its way while a step is under way: its new keys take places that the step trains. */
static void test_overlapping_batches(void **state) {
    (void)state;
    twins w;
    rk_optimizer optimizer;
    open_dynamic(&w, &optimizer, RK_OPTIMIZER_ADAM);
    rk_ids ids[2][N_FEATURES];
    for (int step = 0; step < 8; step++) {
        w.n = N_SAMPLES;
        memset(w.ids, 0, sizeof w.ids);
        draw_ids(&w, N_SAMPLES);
        memcpy(ids[step % 2], w.ids, sizeof ids[0]);
        route_twins(&w, true);
        if (step) { /* the step before, which has been looked up and not trained on */
            draw_gradients(&w);
            OK(apply_gradients(w.host, w.gradients));
            OK(rk_device_tables_apply_gradients(w.tables, stream, w.device_gradients, NULL));
            rk_device_tables_end_batch(w.tables, true);
            memcpy(w.ids, ids[(step - 1) % 2], sizeof ids[0]);
            free_ids(&w);
            memcpy(w.ids, ids[step % 2], sizeof ids[0]);
        }
        look_up_twins(&w, true, true);
    }
    rk_device_tables_end_batch(w.tables, false);
    assert_same(&w);
    close_twins(&w);
}

/* A batch that is refused changes nothing; one that is given up has given its keys rows. */
static void test_batches_without_a_step(void **state) {
    (void)state;
    twins w;
    rk_optimizer optimizer;
    open_dynamic(&w, &optimizer, RK_OPTIMIZER_ADAGRAD);
    for (int step = 0; step < 6; step++) {
        draw_ids(&w, N_SAMPLES);
        ((int64_t *)(size_t)w.ids[STILL].ids)[7] = 40;
        assert_int_equal(rk_device_tables_dedup(w.tables, w.upload, w.dedup, w.n, NULL, w.ids, true),
                         RK_BAD_DATA);
        assert_non_null(strstr(rk_last_error(), "feature 'still': sample 3: id 40"));
        draw_ids(&w, N_SAMPLES);
        route_twins(&w, true);
        OK(rk_device_tables_check_ids(w.tables));
        rk_device_tables_end_batch(w.tables, false);
        OK(look_up(w.host, w.n, w.ids, w.on_host));
        assert_same(&w);
        step_twins(&w, N_SAMPLES, true);
    }
    assert_same(&w);
    close_twins(&w);
}

/* What the host's memory has is on the device again, with the keys. */
static void test_reload(void **state) {
    (void)state;
    twins w;
    rk_optimizer optimizer;
    open_dynamic(&w, &optimizer, RK_OPTIMIZER_FTRL);
    step_twins(&w, N_SAMPLES, true);
    assert_same(&w);
    OK(rk_device_tables_reload(w.tables));
    for (int step = 0; step < 3; step++) step_twins(&w, N_SAMPLES, true);
    assert_same(&w);
    close_twins(&w);
}

/* Rows that come and go are in no cache. */
static void test_too_little_memory(void **state) {
    (void)state;
    twins w;
    rk_optimizer optimizer;
    rk_device_tables *tables_of_little;
    open_dynamic(&w, &optimizer, RK_OPTIMIZER_ADAGRAD);
    const rk_device_tables_options little = {.max_batch = N_SAMPLES, .budget_bytes = 1000};
    assert_int_equal(rk_device_tables_create(w.host, device, &little, &tables_of_little),
                     RK_INVALID_ARGUMENT);
    assert_non_null(strstr(rk_last_error(), "hint: give them at least"));
    close_twins(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_overlapping_batches),
        cmocka_unit_test(test_batches_without_a_step),
        cmocka_unit_test(test_reload),
        cmocka_unit_test(test_too_little_memory),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
