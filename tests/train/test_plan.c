/* What plans say: figures by hand, what a sample of the data and steps of the run change in them, refusals
 * with what would fit. */
#include "train/plan_testing.h"

#include <math.h>

#include "base/buffer.h"
#include "base/memory.h"

/* The same by hand: two hosts, one table in two parts and one replicated. */
static void test_figures(void **state) {
    (void)state;
    rk_config *config;
    rk_plan *plan;
    OK(plan_of(RUN(2000, ""), CLUSTER(2, 100), usual, &config, &plan));
    assert_int_equal(rk_table_placement_sharding(&plan->placements[0]), RK_SHARD_ROW_WISE);
    assert_true(plan->placements[0].n_parts == 2 && plan->placements[1].replicated);
    const rk_plan_rank *rank = &plan->ranks[1];
    double u = plan->loads[0].local_rows, v = plan->loads[1].local_rows, all_v = plan->loads[1].batch_rows,
           all_u = plan->loads[0].batch_rows;
    assert_true(u > 500 && u <= 1000 && v < 400 && all_u > u);
    near(rank->bytes[RK_PLAN_MEMORY_OWNED], 50000000.0 * 16 * 8, 1);
    near(rank->bytes[RK_PLAN_MEMORY_REPLICATED], 500.0 * 16 * 8, 1);
    double parameters = 32 * 8 + 8 + 8 + 1;
    near(rank->parts[RK_PLAN_PART_DEDUP], 2 * 2 * 1000 * 8 / 20e9, 1e-12);
    near(rank->parts[RK_PLAN_PART_READ], 2 * 2000 * (2 * 8 + 4) / 20e9, 1e-12);
    near(plan->dense.parameters, parameters, 0);
    /* 1e9 bytes a second each way; half of what is asked stays on the rank */
    near(rank->parts[RK_PLAN_PART_IDS], u / 2 * 4 / 1e9 + 10e-6, 1e-12);
    near(rank->parts[RK_PLAN_PART_ROWS], u / 2 * 64 / 1e9 + 10e-6, 1e-12);
    near(rank->parts[RK_PLAN_PART_GRADIENTS], u / 2 * 64 / 1e9 + 10e-6 + v * 68 / 1e9 + 10e-6, 1e-12);
    near(rank->parts[RK_PLAN_PART_ALL_REDUCE], parameters * 4 / 1e9 + 20e-6, 1e-12);
    near(rank->parts[RK_PLAN_PART_DENSE], 3 * 2 * (32 * 8 + 8) * 1000 / 100e9, 1e-12);
    double lookup = u * 16 * 8 + 2 * 1000 * 16 * 4 + 1000 * 32 * 4;
    near(rank->parts[RK_PLAN_PART_LOOKUP], lookup / 20e9, 1e-12);
    double update = u * 64 + 2 * all_u / 2 * 128 + 2 * v * 64 + 2 * all_v * 128 + 2 * 1000 * 64 +
                    (u + v) * 64 + 1000 * 32 * 4 + parameters * 16;
    near(rank->parts[RK_PLAN_PART_UPDATE], update / 20e9, 1e-12);
    double sum = 0;
    for (int i = 1; i < RK_PLAN_PART_COUNT; i++) sum += plan->step.parts[i];
    near(plan->step.seconds, sum, 1e-12);
    near(plan->step.price_per_hour, 6, 0);
    rk_plan_free(plan);
    rk_config_free(config);
    /* a third host that only reads changes nothing of the step, and is shown */
    double seconds[2];
    for (int readers = 0; readers < 2; readers++) {
        char *text;
        OK(plan_of(readers ? RUN(2000, "cluster: {reader_ranks: 1}\n") : RUN(2000, ""),
                   readers ? CLUSTER(3, 100) : CLUSTER(2, 100), usual, &config, &plan));
        assert_true(plan->n_ranks == 2 && plan->n_readers == readers && plan->request.roles.n_trainers == 2);
        OK(rk_plan_to_text(plan, &text));
        assert_true((strstr(text, "  2 ranks, which train and hold rows\n  1 more, which only read\n") !=
                     NULL) == readers);
        seconds[readers] = plan->step.seconds;
        rk_text_free(text);
        rk_plan_free(plan);
        rk_config_free(config);
    }
    near(seconds[1], seconds[0], 0);
    /* with stale rows the longer of two ways counts; the all-reduce is on the network in both, and on the
     * other way too where it is not asynchronous */
    for (int asynchronous = 0; asynchronous < 2; asynchronous++) {
        OK(plan_of(
            asynchronous ? STALE_RUN(2000, 1, "cluster: {asynchronous: true}\n") : STALE_RUN(2000, 1, ""),
            asynchronous ? CLUSTER(2, 100) : SLOW_CLUSTER, usual, &config, &plan));
        const double *parts = plan->step.parts;
        double own = parts[RK_PLAN_PART_DEDUP] + parts[RK_PLAN_PART_LOOKUP] + parts[RK_PLAN_PART_DENSE] +
                     parts[RK_PLAN_PART_UPDATE];
        double network = parts[RK_PLAN_PART_IDS] + parts[RK_PLAN_PART_ROWS] + parts[RK_PLAN_PART_GRADIENTS] +
                         parts[RK_PLAN_PART_ALL_REDUCE];
        assert_true((own > network) == !asynchronous);
        near(plan->step.seconds, asynchronous ? network : own + parts[RK_PLAN_PART_ALL_REDUCE], 1e-12);
        rk_plan_free(plan);
        rk_config_free(config);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* Two ranks of one host: what would travel is read and written in memory, twice each; a sum's halves are also
 * added (2 read, 1 written) and copied. */
static void test_ranks_of_one_host(void **state) {
    (void)state;
    static const char host[] =
        "groups: [{name: a, count: 1, ranks: 2, memory_gb: 100, memory_bandwidth_gbs: 20, gflops: 100, "
        "network_gbps: 8, latency_us: 10}]\n";
    rk_config *config;
    rk_plan *plan;
    static const struct {
        const char *run;
        double value, dense; /* bytes of a value, and of dense gradients by their number */
    } wires[] = {
        {RUN(2000, ""), 4, 4},
        {RUN(2000, "cluster: {wire: bf16}\n"), 2, 2},
        {RUN(2000, "cluster: {wire_dense: bf16}\n"), 4, 2},
        {RUN(2000, "cluster: {wire_dense: int8}\n"), 4, 1 + 2 * 4 / 273.0},
        {RUN(2000, "cluster: {wire_dense: powersgd, powersgd_rank: 1}\n"), 4, 4 * (32 + 8 + 17) / 273.0},
        {RUN(2000, "cluster: {wire: bf16, wire_dense: f32}\n"), 2, 4},
        {RUN(2000, "device: cuda\ncluster: {wire: bf16}\n"), 2, 4}};
    double dense_bytes = 0;
    for (size_t i = 0; i < sizeof wires / sizeof *wires; i++) {
        OK(plan_of(wires[i].run, host, usual, &config, &plan));
        double *parts = plan->ranks[1].parts, memory = 20e9 / 2, value = wires[i].value,
               u = plan->loads[0].local_rows, v = plan->loads[1].local_rows, parameters = 32 * 8 + 8 + 8 + 1,
               dense = plan->ranks[1].bytes[RK_PLAN_MEMORY_DENSE];
        bool is_powersgd = strstr(wires[i].run, "powersgd"),
             has_residual = is_powersgd || strstr(wires[i].run, "int8");
        if (i == 0) dense_bytes = dense;
        near(dense, dense_bytes + (has_residual ? 2 * sizeof(float) * parameters : 0), 1e-6);
        assert_true(plan->placements[0].n_parts == 2 && plan->placements[1].replicated);
        near(parts[RK_PLAN_PART_IDS], u / 2 * 4 * 4 / memory + 10e-6, 1e-12);
        near(parts[RK_PLAN_PART_ROWS], u / 2 * 16 * value * 4 / memory + 10e-6, 1e-12);
        near(parts[RK_PLAN_PART_GRADIENTS],
             u / 2 * 16 * value * 4 / memory + 10e-6 + v * (16 * value + 4) * 4 / memory + 10e-6, 1e-12);
        near(parts[RK_PLAN_PART_ALL_REDUCE],
             parameters * wires[i].dense * (4 + 2.5) / memory + (is_powersgd ? 40e-6 : 20e-6), 1e-12);
        rk_plan_free(plan);
        rk_config_free(config);
    }
}

/* Four ranks of one host: what only some of them do, only those share the host for. */
static void test_ranks_that_wait(void **state) {
    (void)state;
    static const char host[] =
        "groups: [{name: a, count: 1, ranks: 4, memory_gb: 100, memory_bandwidth_gbs: 20, gflops: 100, "
        "network_gbps: 8, latency_us: 10}]\n";
    static const struct {
        const char *cluster, *threads;
        int n_trainers, train_beside, hold_beside;
    } cases[] = {{"", "", 4, 4, 0},
                 {"cluster: {reader_ranks: 1}\n", "", 3, 3, 0},
                 {"cluster: {embedding_ranks: 1}\n", "", 3, 3, 1},
                 {"cluster: {embedding_ranks: 1}\n", ", threads: 1", 3, 3,
                  3}, /* one that holds rows has no more than a thread */
                 {"cluster: {embedding_ranks: 2, reader_ranks: 1}\n", "", 1, 1, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rk_config *config;
        rk_plan *plan;
        char run[512];
        snprintf(run, sizeof run,
                 "data: {train: a.csv, labels: [{name: y}], features: [{name: u, hash: 100000}]}\nmodel: "
                 "{kind: dnn, deep: [8]}\ntrain: {batch_size: 2000%s}\n%s",
                 cases[i].threads, cases[i].cluster);
        OK(plan_of(run, host, usual, &config, &plan));
        assert_int_equal(plan->request.roles.n_trainers, cases[i].n_trainers);
        for (int32_t r = 0; r < plan->n_ranks; r++) {
            int beside = rk_plan_trains(plan, r) ? cases[i].train_beside : cases[i].hold_beside;
            assert_int_equal(plan->machines[r].ranks_beside, beside);
            near(plan->machines[r].flops, 100e9 / beside, 1);
            near(plan->machines[r].capacity.memory_speed, 20e9 / beside, 1);
            near(plan->machines[r].capacity.memory_bytes, 25e9, 1);
        }
        rk_plan_free(plan);
        rk_config_free(config);
    }
}

/* Several buckets: what backward hides is bounded by the layer that is whole last, or by the time of a
 * block. */
static void test_all_reduce_beside_backward(void **state) {
    (void)state;
    static const char run[] =
        "data: {train: a.csv, cache_bytes: 0, labels: [{name: y}], features: [{name: u, hash: 100000000}, "
        "{name: v, hash: 500}]}\n"
        "embedding: {dim: 16, optimizer: {kind: adagrad}}\nmodel: {kind: dnn, deep: [800, 700]}\ntrain: "
        "{batch_size: 2000, staleness: %d}\n";
    static const char cluster[] =
        "groups: [{name: a, count: 2, cores: %d, memory_gb: 100, memory_bandwidth_gbs: 20, gflops: %d, "
        "network_gbps: 8, latency_us: 10}]\n";
    double weights = 32 * 800 + 800 * 700 + 700, parameters = weights + 800 + 700 + 1,
           reduce = parameters * 4 / 1e9 + 20e-6, backward = 4 * weights;
    const struct {
        int cores, gflops, stale;
        double beside;
    } cases[] = {{0, 100, 0, reduce * (1 - 800 * 700 / parameters)},
                 {0, 20000, 0, backward * 256 / 2e13},
                 {2, 20000, 0, backward * 512 / 2e13},
                 {16, 100000, 1, backward * 1000 / 1e14}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char run_text[600], cluster_text[300], *text;
        rk_config *config;
        rk_plan *plan;
        snprintf(run_text, sizeof run_text, run, cases[i].stale);
        snprintf(cluster_text, sizeof cluster_text, cluster, cases[i].cores, cases[i].gflops);
        OK(plan_of(run_text, cluster_text, usual, &config, &plan));
        near(plan->step.parts[RK_PLAN_PART_ALL_REDUCE], reduce, 1e-12);
        near(plan->step.reduce_beside, cases[i].beside, 1e-12);
        double sum = -cases[i].beside;
        for (int k = 1; k < RK_PLAN_PART_COUNT; k++) sum += plan->step.parts[k];
        if (!cases[i].stale) near(plan->step.seconds, sum, 1e-12);
        OK(rk_plan_to_text(plan, &text));
        assert_non_null(strstr(text, " ms of the all-reduce go on beside the dense part\n"));
        rk_text_free(text);
        rk_plan_free(plan);
        rk_config_free(config);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* Counted by hand: batches of 4, two trainers, ids in the order of the file. */
static void test_sample(void **state) {
    (void)state;
    write_text("a.csv", "u,v,y\n0,1,0\n0,1,1\n1,1,0\n2,1,1\n3,2,0\n3,2,0\n3,2,1\n3,3,0\n7,7,1\n");
    rk_config *config;
    rk_plan *plan;
    rk_plan_options options = usual;
    options.sample = true;
    static const char run[] =
        "data: {train: a.csv, shuffle: false, cache_bytes: 0, labels: [{name: y}], features: [{name: u, "
        "identity: 10}, {name: v, identity: 10}]}\n"
        "model: dnn\ntrain: {batch_size: 4}\ncluster: {replicate_below: 0}\n";
    OK(plan_of(run, CLUSTER(2, 100), options, &config, &plan));
    const rk_table_statistics *u = &plan->loads[0], *v = &plan->loads[1];
    assert_int_equal(plan->sampled_rows, 8); /* the last batch is not whole */
    assert_true(u->measured && u->ids == 1 && u->batch_rows == (3 + 1) / 2.0 &&
                u->local_rows == (1 + 2 + 1 + 1) / 4.0);
    assert_true(v->batch_rows == (1 + 2) / 2.0 && v->local_rows == (1 + 1 + 1 + 2) / 4.0);
    assert_true(plan->train_rows == 9 &&
                plan->data_bytes ==
                    9 * (4 + 2 * 8)); /* a label and two ids a row, no more rows than there are */
    assert_true(u->n_hot == 4 && u->hot[0].id == 3 && u->hot[0].share == 0.5 && u->hot[1].id == 0 &&
                u->hot[1].share == 0.25 && u->hot[2].id == 1);
    rk_plan_free(plan);
    rk_config_free(config);
    options.sample_rows = 1; /* in whole batches */
    OK(plan_of(run, CLUSTER(2, 100), options, &config, &plan));
    assert_int_equal(plan->sampled_rows, 4);
    assert_true(plan->train_rows == -1 &&
                plan->data_bytes == 1048576 * (4 + 2 * 8)); /* the window that is shuffled */
    rk_plan_free(plan);
    rk_config_free(config);
    write_text("a.csv", "u,v,y\n");
    assert_int_equal(plan_of(run, CLUSTER(2, 100), options, &config, &plan), RK_BAD_DATA);
    rk_config_free(config);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_refused(void **state) {
    (void)state;
    rk_config *config;
    rk_plan *plan;
    char *text;
    OK(plan_of(RUN(2000, ""), CLUSTER(2, 6), usual, &config, &plan)); /* 6.4 GB a rank */
    assert_false(rk_plan_fits(plan));
    assert_int_equal(rk_plan_check(plan), RK_NO_MEMORY);
    static const char message[] =
        "the run does not fit: rank 0 needs 6.4 GB of 6.0 GB\n"
        "hint: with 3 hosts of 'a' it fits: tables of 12.8 GB, 4.3 GB of 6.0 GB on the fullest rank\n"
        "with rows in bf16 (embedding.dtype) it fits: tables of 9.6 GB, 4.8 GB of 6.0 GB on the fullest "
        "rank\n"
        "with a rowwise optimizer (embedding.optimizer: rowwise_adagrad) it fits: tables of 6.8 GB, 3.4 GB "
        "of 6.0 GB on the fullest rank\n"
        "with both it fits: tables of 3.6 GB, 1.8 GB of 6.0 GB on the fullest rank";
    assert_string_equal(rk_last_error(), message);
    assert_int_equal(rk_plan_write(plan, path_of("plan.yaml")), RK_NO_MEMORY);
    assert_false(rk_file_exists(path_of("plan.yaml")));
    OK(rk_plan_to_text(plan, &text));
    assert_non_null(strstr(text,
                           "it does not fit: rank 0 would hold 6.4 GB of 6.0 GB\n  u        12.8 GB, of "
                           "which     6.4 GB on rank 0: more than that rank has\n"));
    assert_true(plan->n_ranks == 2 && plan->tables.tables[0].dtype == RK_F32 &&
                plan->tables.optimizers[0].kind == RK_OPTIMIZER_ADAGRAD);
    rk_text_free(text);
    rk_plan_free(plan);
    rk_config_free(config);
    static const char cached[] =
        "data: {train: a.csv, cache_bytes: 3_000_000_000, labels: [{name: y}], features: [{name: u, hash: "
        "100000000}]}\n"
        "embedding: {dim: 16, optimizer: {kind: adagrad}}\nmodel: {kind: dnn, deep: [8]}\ncluster: {tables: "
        "[{name: u, sharding: row_wise, ranks: [0, 1]}]}\n"
        "train: {epochs: 2}\n";
    OK(plan_of(cached, CLUSTER(2, 2), usual, &config, &plan));
    assert_non_null(strstr(plan->advice, "with both it still does not fit"));
    assert_non_null(strstr(plan->advice,
                           "with all three it fits: tables of 3.6 GB, 1.8 GB of 2.0 GB on the fullest rank"));
    rk_plan_free(plan);
    rk_config_free(config);
    OK(plan_of(RUN(2000, "cluster: {tables: [{name: u, sharding: table_wise, ranks: [1]}]}\n"), CLUSTER(2, 1),
               usual, &config, &plan));
    assert_non_null(strstr(plan->advice, "with both it still does not fit"));
    assert_null(strstr(plan->advice, "hosts"));
    assert_null(strstr(plan->advice, "by hand")); /* nor would it fit without */
    rk_plan_free(plan);
    rk_config_free(config);
    OK(plan_of(RUN(2000, "cluster: {tables: [{name: u, sharding: table_wise, ranks: [1]}]}\n"), CLUSTER(2, 7),
               usual, &config, &plan));
    assert_non_null(strstr(plan->advice,
                           "with no tables placed by hand (cluster.tables) it fits: tables of 12.8 GB, 6.4 "
                           "GB of 7.0 GB on the fullest rank"));
    assert_int_equal(plan->placements[0].n_parts, 1);
    rk_plan_free(plan);
    rk_config_free(config);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Steps of the run itself: of one rank, of several on this machine, of hosts that are described; and data
 * that is not there. */
static void test_rehearsed(void **state) {
    (void)state;
    rk_buffer csv = {0};
    rk_buffer_append_text(&csv, "u,v,y\n");
    for (int i = 0; i < 500; i++) rk_buffer_printf(&csv, "%d,%d,%d\n", i * 7919 % 100000, i % 40, i % 2);
    write_text("a.csv", csv.data);
    rk_buffer_release(&csv);
    for (int32_t n_ranks = 1; n_ranks <= 3; n_ranks++) {
        rk_config *config;
        rk_plan *plan;
        rk_plan_options options = usual;
        options.n_ranks = n_ranks;
        options.measure = true;
        if (n_ranks == 2)
            OK(plan_of(RUN_OF(100000, 200, 0, ""), CLUSTER(2, 100), options, &config, &plan));
        else {
            OK(parse(RUN_OF(100000, 200, 0, ""), &config));
            OK(rk_plan_make(config, &options, &plan));
        }
        assert_true(plan->calibration.n_steps > 0 && plan->calibration.rest >= 0 && plan->step.seconds > 0 &&
                    isfinite(plan->step.seconds));
        static const rk_plan_part own[] = {RK_PLAN_PART_DEDUP, RK_PLAN_PART_LOOKUP, RK_PLAN_PART_DENSE,
                                           RK_PLAN_PART_UPDATE};
        for (int i = 0; i < 4; i++)
            assert_true(plan->calibration.factors[own[i]] > 0 && plan->step.parts[own[i]] > 0);
        double sum = 0;
        for (int i = 0; i < RK_PLAN_PART_COUNT; i++) sum += plan->step.parts[i];
        near(plan->step.seconds, sum, 1e-12);
        char *text;
        OK(rk_plan_to_text(plan, &text));
        assert_non_null(strstr(text, "steps of the run on this machine"));
        rk_text_free(text);
        rk_plan_free(plan);
        rk_config_free(config);
    }
    rk_config *config;
    rk_plan *plan;
    OK(rk_remove_tree(path_of("a.csv")));
    OK(parse(RUN_OF(100000, 200, 0, ""), &config));
    rk_plan_options several = usual;
    several.n_ranks = 3;
    several.measure = true;
    assert_int_not_equal(rk_plan_make(config, &several, &plan), RK_OK);
    assert_non_null(strstr(rk_last_error(), "a.csv"));
    rk_config_free(config);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    if (!mkdtemp(directory)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),         cmocka_unit_test(test_ranks_of_one_host),
        cmocka_unit_test(test_ranks_that_wait), cmocka_unit_test(test_all_reduce_beside_backward),
        cmocka_unit_test(test_sample),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_rehearsed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rk_remove_tree(directory);
    return failed;
}
