/* Tables larger than their share of the device: results are those of the collection, bit by bit. */
#include "cuda/device_tables_testing.h"

#include "base/memory.h"

#define TABLE(name_, rows_, dim_, dtype_)                                                          \
    {                                                                                              \
        .struct_size = sizeof(rk_table_config), .name = (name_), .n_rows = (rows_), .dim = (dim_), \
        .dtype = (dtype_)                                                                          \
    }
#define FEATURE(name_, table_, combiner_, length_)                                    \
    {                                                                                 \
        .struct_size = sizeof(rk_feature_config), .name = (name_), .table = (table_), \
        .combiner = RK_COMBINER_##combiner_, .max_sequence_length = (length_)         \
    }

/* "large", "half" and "frozen" are cached in a budget of BUDGET bytes, the others are there as a whole. */
static const rk_table_config tables[] = {
    TABLE("large", 3000, 16, RK_F32),
    TABLE("small", 20, 16, RK_F32),
    TABLE("half", 2000, 10, RK_BF16),
    {.struct_size = sizeof(rk_table_config), .name = "frozen", .n_rows = 2500, .dim = 5, .frozen = true},
};
static const rk_feature_config features[] = {
    FEATURE("a", "large", SUM, 0), FEATURE("b", "large", MEAN, 3),   FEATURE("c", "small", SUM, 0),
    FEATURE("d", "half", MEAN, 0), FEATURE("e", "frozen", SQRTN, 0),
};
static const shape shapes[] = {{.most = 3, .n_hot = 9},
                               {.most = 4, .negatives = true},
                               {.ids_per_sample = 1},
                               {.most = 4, .weighted = true},
                               {.most = 3, .n_hot = 40}};
enum { SAMPLES = 20, BUDGET = 96 * 1024 };

static rk_embeddings_config config_of(const rk_optimizer *optimizer) {
    return (rk_embeddings_config){sizeof(rk_embeddings_config),
                                  3,
                                  tables,
                                  sizeof tables / sizeof *tables,
                                  features,
                                  sizeof features / sizeof *features,
                                  optimizer,
                                  NULL,
                                  NULL};
}

static void check_steps(rk_optimizer_kind kind, uint64_t budget) {
    rk_optimizer o;
    twins w;
    OK(rk_optimizer_init(&o, kind));
    rk_embeddings_config config = config_of(&o);
    open_twins(&w, &config, shapes, SAMPLES, budget);
    for (int i = 0; i < 12; i++) {
        step_twins(&w, i % 5 ? SAMPLES : 3, true);
        if (i != 6) continue;
        draw_ids(&w, SAMPLES); /* a prediction between */
        route_twins(&w, false);
        look_up_twins(&w, true, false);
        rk_device_tables_end_batch(w.tables, false);
        compare_tables(&w, true);
    }
    compare_tables(&w, true);
    close_twins(&w);
}

static void test_steps(void **state) {
    (void)state;
    check_steps(RK_OPTIMIZER_ADAGRAD, BUDGET);
    check_steps(RK_OPTIMIZER_ROWWISE_ADAM, BUDGET + 7777);
    check_steps(RK_OPTIMIZER_SGD, BUDGET / 2);
}

/* The rows of a batch are brought while the one before it is at work. */
static void test_batches_ahead(void **state) {
    (void)state;
    rk_optimizer o;
    twins w;
    OK(rk_optimizer_init(&o, RK_OPTIMIZER_ADAM));
    rk_embeddings_config config = config_of(&o);
    open_twins(&w, &config, shapes, SAMPLES, 2 * BUDGET);
    for (int i = 0; i < 10; i++) {
        draw_ids(&w, SAMPLES);
        route_twins(&w, true);
        if (i) apply_twins(&w);                                      /* of the batch before */
        if (i % 3 == 2) rk_device_tables_end_batch(w.tables, false); /* given up */
        if (i % 3 == 2) draw_ids(&w, SAMPLES);
        if (i % 3 == 2) route_twins(&w, true);
        look_up_twins(&w, true, true);
    }
    apply_twins(&w);
    compare_tables(&w, true);
    close_twins(&w);
}

/* Ids that all fall into the same sets: every batch throws the rows of the one before out. */
static void test_one_set(void **state) {
    (void)state;
    rk_table_config table[] = {TABLE("t", 1000, 8, RK_F32)};
    rk_feature_config feature[] = {FEATURE("a", "t", SUM, 0)};
    rk_embeddings_config config = {sizeof config, 1, table, 1, feature, 1, NULL, NULL, NULL};
    shape one[] = {{.ids_per_sample = 1}};
    uint64_t place_bytes = 8 * 2 * sizeof(float) + sizeof(rk_cuda_frame);
    twins w;
    open_twins(&w, &config, one, 40, RK_CUDA_WAYS * place_bytes); /* one set */
    for (int i = 0; i < 6; i++) {
        draw_ids(&w, 20);
        for (int s = 0; s < 20; s++) ((int64_t *)(size_t)w.ids[0].ids)[s] = i * 17 + s;
        route_twins(&w, true);
        look_up_twins(&w, true, true);
        apply_twins(&w);
    }
    compare_tables(&w, true);

    draw_ids(
        &w,
        40); /* 33 different rows are one too many; they are counted, though some of them are in the cache */
    for (int s = 0; s < 40; s++) ((int64_t *)(size_t)w.ids[0].ids)[s] = 90 + s % 33;
    route_twins(&w, true);
    char message[300];
    snprintf(message, sizeof message,
             "table 't': the batches in flight use more rows than its GPU cache holds\n"
             "hint: set cuda.memory to at least %llu bytes, or use smaller batches",
             (unsigned long long)(33 * place_bytes));
    FAILS(rk_device_tables_check_ids(w.tables), RK_NO_MEMORY, message);
    OK(rk_device_tables_prepare_batch(w.tables, stream));
    OK(rk_device_tables_apply_gradients(w.tables, stream, w.device_gradients, NULL)); /* does nothing */
    rk_device_tables_end_batch(w.tables, false);
    compare_tables(&w, true);

    draw_ids(&w, 20); /* rows of the batch before, which is under way, stay: these two do not fit together */
    for (int s = 0; s < 20; s++) ((int64_t *)(size_t)w.ids[0].ids)[s] = s;
    route_twins(&w, true);
    OK(rk_device_tables_check_ids(w.tables));
    for (int s = 0; s < 20; s++) ((int64_t *)(size_t)w.ids[0].ids)[s] = 500 + s;
    route_twins(&w, true);
    rk_device_tables_end_batch(w.tables, false);
    assert_int_equal(rk_device_tables_check_ids(w.tables), RK_NO_MEMORY);
    rk_device_tables_end_batch(w.tables, false);
    compare_tables(&w, true);
    close_twins(&w);
}

static void test_budgets(void **state) {
    (void)state;
    rk_embeddings *e;
    rk_device_tables *d;
    rk_embeddings_config config = config_of(NULL);
    OK(rk_embeddings_create(&config, &e));
    uint64_t all = rk_embeddings_bytes(e), large = 16 * 2 * 4 + 16, small = 16 * 2 * 4 + 16,
             half = 10 * 2 + 10 * 4 + 16, frozen = 5 * 4 + 16;
    char message[200];
    snprintf(message, sizeof message,
             "the tables do not fit 1000 bytes of GPU memory, not even behind a cache\nhint: give them at "
             "least %llu",
             (unsigned long long)(RK_CUDA_WAYS * (large + small + half + frozen)));
    FAILS(rk_device_tables_create(e, device,
                                  &(rk_device_tables_options){.max_batch = 10, .budget_bytes = 1000}, &d),
          RK_INVALID_ARGUMENT, message);
    OK(rk_device_tables_create(e, device, &(rk_device_tables_options){.max_batch = 10, .budget_bytes = 0},
                               &d));
    uint64_t whole_bytes = rk_device_tables_bytes(d);
    assert_true(whole_bytes >= all);
    rk_device_tables_free(d);
    OK(rk_device_tables_create(e, device,
                               &(rk_device_tables_options){.max_batch = 10, .budget_bytes = BUDGET}, &d));
    uint64_t overhead = whole_bytes - all;
    assert_true(rk_device_tables_bytes(d) <= BUDGET + overhead && rk_device_tables_bytes(d) > BUDGET / 2);
    rk_device_tables_free(d);
    OK(rk_embeddings_set_l2(e, "large", 0, 0.1));
    OK(rk_device_tables_create(e, device,
                               &(rk_device_tables_options){.max_batch = 10, .budget_bytes = all - 1},
                               &d)); /* "half" makes room */
    OK(rk_embeddings_set_l2(e, "half", 0, 0.1));
    rk_stream *other;
    rk_ids ids[5] = {{0}, {0}, {0}, {0}, {0}};
    OK(rk_stream_create(device, &other));
    OK(rk_device_tables_dedup(d, other, other, 0, NULL, ids, true));
    FAILS(rk_device_tables_prepare_batch(d, stream), RK_INVALID_ARGUMENT,
          "table 'half': 'l2_full' updates every row at every step, so the whole table must fit on the "
          "GPU\nhint: "
          "set a larger cuda.memory, or use 'l2'");
    rk_device_tables_free(d);
    rk_stream_free(other);
    rk_embeddings_free(e);
}

/* Whichever allocation fails, nothing stays behind. */
static void test_no_memory(void **state) {
    (void)state;
    rk_embeddings *e;
    rk_device_tables *d = NULL;
    rk_embeddings_config config = config_of(NULL);
    OK(rk_embeddings_create(&config, &e));
    long live = rk_alloc_live(), countdown = 0;
    do {
        rk_alloc_fail_after(++countdown, false);
        rk_status status = rk_device_tables_create(
            e, device, &(rk_device_tables_options){.max_batch = 10, .budget_bytes = BUDGET}, &d);
        rk_alloc_fail_after(0, false);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
        assert_int_equal(rk_alloc_live(), live);
    } while (countdown < 1000);
    assert_true(countdown > 10 && countdown < 1000);
    rk_device_tables_free(d);
    assert_int_equal(rk_alloc_live(), live);
    rk_embeddings_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),   cmocka_unit_test(test_batches_ahead), cmocka_unit_test(test_one_set),
        cmocka_unit_test(test_budgets), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
