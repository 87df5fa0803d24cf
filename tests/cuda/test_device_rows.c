/* Updates of rows on the device against the collection's own: every optimizer, every dtype, regularization,
 * clipping, rounding. */
#include <math.h>

#include "cuda/device_tables_testing.h"

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

static const rk_table_config usual_tables[] = {
    TABLE("wide", 24, 132, RK_F32), TABLE("one", 100, 1, RK_F32),   TABLE("sixteen", 80, 16, RK_F32),
    TABLE("odd", 30, 7, RK_F32),    TABLE("half", 40, 32, RK_BF16), TABLE("f16", 20, 70, RK_F16),
    TABLE("eight", 30, 8, RK_F32),
};
static const rk_feature_config usual_features[] = {
    FEATURE("a", "sixteen", SUM, 0), FEATURE("b", "wide", MEAN, 0),  FEATURE("c", "one", SQRTN, 0),
    FEATURE("d", "odd", MEAN, 0),    FEATURE("e", "half", SQRTN, 0), FEATURE("f", "f16", MEAN, 3),
    FEATURE("g", "sixteen", SUM, 2), FEATURE("h", "eight", MEAN, 0),
};
static const shape usual_shapes[] = {{.most = 4},
                                     {.ids_per_sample = 1},
                                     {.most = 5, .negatives = true},
                                     {.most = 4, .weighted = true, .negatives = true},
                                     {.ids_per_sample = 2},
                                     {.most = 5},
                                     {.most = 3, .negatives = true},
                                     {.most = 3, .n_hot = 3}};

static rk_embeddings_config usual(const rk_optimizer *optimizer) {
    return (rk_embeddings_config){sizeof(rk_embeddings_config),
                                  5,
                                  usual_tables,
                                  sizeof usual_tables / sizeof *usual_tables,
                                  usual_features,
                                  sizeof usual_features / sizeof *usual_features,
                                  optimizer,
                                  NULL,
                                  NULL};
}

enum { STEPS = 3, SAMPLES = 30 };

static void check_updates(const rk_embeddings_config *config, const shape *shapes, bool exact, double l2,
                          double l2_full) {
    twins w;
    open_twins(&w, config, shapes, SAMPLES, 0);
    for (int32_t t = 0; t < config->n_tables; t++) {
        OK(rk_embeddings_set_l2(w.host, config->tables[t].name, l2, t % 2 ? l2_full : 0));
        OK(rk_embeddings_set_l2(w.home, config->tables[t].name, l2, t % 2 ? l2_full : 0));
    }
    for (int i = 0; i < STEPS; i++) step_twins(&w, i == 1 ? 7 : SAMPLES, exact);
    compare_tables(&w, exact);
    close_twins(&w);
}

static rk_optimizer of_kind(rk_optimizer_kind kind) {
    rk_optimizer o;
    OK(rk_optimizer_init(&o, kind));
    o.learning_rate = 0.05;
    return o;
}

/* The same bits, but for lamb, whose steps' norm the collection sums in another order. */
static void test_optimizers(void **state) {
    (void)state;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++) {
        rk_optimizer o = of_kind((rk_optimizer_kind)kind);
        rk_embeddings_config config = usual(&o);
        check_updates(&config, usual_shapes, kind != RK_OPTIMIZER_LAMB, 0, 0);
    }
}

static void test_options(void **state) {
    (void)state;
    rk_optimizer o = of_kind(RK_OPTIMIZER_ROWWISE_ADAM);
    o.clip_gradient_min = -0.5;
    o.clip_gradient_max = 0.4;
    o.weight_decay = 0.1;
    o.weight_decay_by_learning_rate = true;
    o.schedule = (rk_schedule){RK_SCHEDULE_COSINE, 2, 5, 0.1, 1, 0.1};
    rk_embeddings_config config = usual(&o);
    check_updates(&config, usual_shapes, true, 0.02, 0);
    o = of_kind(RK_OPTIMIZER_ADAGRAD);
    o.clip_weight_min = -0.1;
    o.clip_weight_max = 0.1;
    check_updates(&config, usual_shapes, true, 0, 0.01);
    o = of_kind(RK_OPTIMIZER_LARS);
    o.weight_decay = 0.1;
    check_updates(&config, usual_shapes, true, 0.3, 0.01);
    o = of_kind(RK_OPTIMIZER_MOMENTUM);
    o.nesterov = true;
    check_updates(&config, usual_shapes, true, 0.3, 0.2);
}

/* Segments of more than RK_CUDA_CHUNK uses are cut into chunks, so that their sums' order is another. */
static void test_frequent_rows(void **state) {
    (void)state;
    rk_table_config tables[] = {TABLE("sixteen", 50, 16, RK_F32), TABLE("wide", 9, 140, RK_F32),
                                TABLE("three", 12, 3, RK_F32)};
    rk_feature_config features[] = {FEATURE("a", "sixteen", SUM, 0), FEATURE("b", "wide", MEAN, 0),
                                    FEATURE("c", "three", SUM, 0), FEATURE("d", "sixteen", MEAN, 0)};
    shape shapes[] = {{.ids_per_sample = 40, .n_hot = 2},
                      {.ids_per_sample = 30, .n_hot = 1},
                      {.most = 60, .weighted = true},
                      {.ids_per_sample = 1, .n_hot = 1}};
    rk_optimizer o = of_kind(RK_OPTIMIZER_ROWWISE_ADAGRAD);
    rk_embeddings_config config = {sizeof config, 5, tables, 3, features, 4, &o, NULL, NULL};
    check_updates(&config, shapes, false, 0, 0);
    check_updates(&config, shapes, false, 0, 0.01);
}

static void test_frozen_tables(void **state) {
    (void)state;
    rk_table_config tables[] = {TABLE("a", 20, 8, RK_F32), TABLE("b", 20, 8, RK_F32),
                                TABLE("unused", 20, 8, RK_F32)};
    tables[0].frozen = true;
    rk_feature_config features[] = {FEATURE("a", "a", SUM, 0), FEATURE("b", "b", MEAN, 0)};
    shape shapes[] = {{.most = 4}, {.most = 4}};
    rk_embeddings_config config = {sizeof config, 5, tables, 3, features, 2, NULL, NULL, NULL};
    check_updates(&config, shapes, true, 0, 0);
}

/* Two batches under way; a batch that is stopped, one that is refused and one for prediction between them
 * leave no trace. */
static void test_batches_under_way(void **state) {
    (void)state;
    rk_optimizer o = of_kind(RK_OPTIMIZER_ADAM);
    rk_embeddings_config config = usual(&o);
    twins w;
    open_twins(&w, &config, usual_shapes, SAMPLES, 0);
    for (int i = 0; i < 4; i++) {
        draw_ids(&w, SAMPLES);
        route_twins(&w, true);
        if (i) apply_twins(&w); /* of the batch before, which has been looked up */
        look_up_twins(&w, true, true);
    }
    OK(rk_device_tables_check_gradients_finite(w.tables));
    apply_twins(&w);

    draw_ids(&w, SAMPLES);
    route_twins(&w, true);
    look_up_twins(&w, true, true);
    draw_gradients(&w);
    w.gradients[3].data[12 * w.gradients[3].stride + 6] = INFINITY;
    OK(rk_device_upload(device, w.device_gradients[3].data, w.gradients[3].data,
                        (size_t)(13 * w.gradients[3].stride) * sizeof(float)));
    OK(rk_device_tables_flag_not_finite(w.tables, stream, w.device_gradients, w.stop));
    OK(rk_device_tables_apply_gradients(w.tables, stream, w.device_gradients, w.stop));
    uint32_t stop;
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, &stop, w.stop, sizeof stop));
    assert_int_equal(stop, RK_CUDA_STOP_ROWS);
    FAILS(rk_device_tables_check_gradients_finite(w.tables), RK_NOT_FINITE,
          "feature 'd': sample 12: the gradient is not a finite number");
    rk_device_tables_end_batch(w.tables, false);
    rk_stream_fill(stream, w.stop, 0, sizeof stop);
    OK(rk_stream_sync(stream));

    draw_ids(&w, SAMPLES);
    ((int64_t *)(size_t)w.ids[1].ids)[4] = 24;
    route_twins(&w, true);
    OK(rk_device_tables_prepare_batch(w.tables, stream)); /* although it is refused */
    OK(rk_device_tables_apply_gradients(w.tables, stream, w.device_gradients, w.stop));
    assert_int_equal(rk_device_tables_check_ids(w.tables), RK_BAD_DATA);
    rk_device_tables_end_batch(w.tables, false);

    draw_ids(&w, SAMPLES);
    route_twins(&w, false);
    look_up_twins(&w, true, false);
    rk_device_tables_end_batch(w.tables, false);
    step_twins(&w, SAMPLES, true);
    compare_tables(&w, true);
    close_twins(&w);
}

/* Lookup and update kept in a launch graph serve batches of other sizes, other steps, and after memory has
 * grown. */
static void test_launch_graph(void **state) {
    (void)state;
    rk_optimizer o = of_kind(RK_OPTIMIZER_ADAM);
    rk_embeddings_config config = usual(&o);
    twins w;
    rk_launch_graph *graph;
    open_twins(&w, &config, usual_shapes, 4 * SAMPLES, 0);
    step_twins(&w, 3, true);
    OK(rk_stream_sync(stream));
    OK(rk_stream_capture_begin(stream));
    OK(rk_device_tables_lookup(w.tables, stream, w.on_device));
    OK(rk_device_tables_flag_not_finite(w.tables, stream, w.device_gradients, w.stop));
    OK(rk_device_tables_apply_gradients(w.tables, stream, w.device_gradients, w.stop));
    OK(rk_stream_capture_end(stream, &graph));
    for (int i = 0; i < 4; i++) {
        draw_ids(&w, (i + 1) * SAMPLES);
        route_twins(&w, true);
        OK(look_up(w.host, w.n, w.ids, w.on_host));
        OK(rk_device_tables_check_ids(w.tables));
        draw_gradients(&w);
        OK(rk_device_tables_prepare_batch(w.tables, stream));
        rk_launch_graph_run(graph, stream);
        OK(rk_stream_sync(stream));
        compare_activations(&w, true);
        OK(apply_gradients(w.host, w.gradients));
        rk_device_tables_end_batch(w.tables, true);
    }
    compare_tables(&w, true);
    rk_launch_graph_free(graph);
    close_twins(&w);
}

/* Rows changed by others, and back. */
static void test_refresh(void **state) {
    (void)state;
    rk_embeddings_config config = usual(NULL);
    twins w;
    float rows[2 * 16];
    open_twins(&w, &config, usual_shapes, SAMPLES, 0);
    step_twins(&w, SAMPLES, true);
    OK(rk_device_tables_flush(w.tables));
    for (int i = 0; i < 32; i++) rows[i] = (float)i;
    OK(rk_embeddings_write_rows(w.host, "sixteen", 3, 2, rows));
    OK(rk_embeddings_write_rows(w.home, "sixteen", 3, 2, rows));
    OK(rk_device_tables_reload(w.tables));
    OK(rk_embeddings_scale_learning_rate(w.host, 0.5));
    OK(rk_embeddings_scale_learning_rate(w.home, 0.5));
    step_twins(&w, SAMPLES, true);
    compare_tables(&w, true);
    close_twins(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizers),        cmocka_unit_test(test_options),
        cmocka_unit_test(test_frequent_rows),     cmocka_unit_test(test_frozen_tables),
        cmocka_unit_test(test_batches_under_way), cmocka_unit_test(test_launch_graph),
        cmocka_unit_test(test_refresh),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
