/* Plans: every table is placed whatever the run and the cluster, figures by hand, refusals with what would
 * fit, and files that read back. */
#include "testing.h"

#include <math.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "train/plan/plan_internal.h"

static char directory[] = "/tmp/reckon-plan-XXXXXX";

static const char *path_of(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void near(double value, double wanted, double tolerance) {
    if (!(fabs(value - wanted) <= tolerance)) fail_msg("%.17g, not %.17g", value, wanted);
}

static void write_text(const char *name, const char *text) {
    OK(rk_file_write(path_of(name), text, strlen(text)));
}

static rk_status parse(const char *text, rk_config **out) {
    return rk_config_parse(text, "run.yaml", directory, NULL, 0, out);
}

/* A plan of texts; the config is the caller's to free. */
static rk_status plan_of(const char *run, const char *cluster, rk_plan_options options, rk_config **config,
                         rk_plan **out) {
    char path[256];
    write_text("cluster.yaml", cluster);
    snprintf(path, sizeof path, "%s", path_of("cluster.yaml"));
    options.cluster = path;
    OK(parse(run, config));
    return rk_plan_make(*config, &options, out);
}

static const rk_plan_options usual = RK_PLAN_OPTIONS_INIT;

#define RUN(batch, rest)              RUN_OF(100000000, batch, 0, rest)
#define STALE_RUN(batch, stale, rest) RUN_OF(100000000, batch, stale, rest)
#define RUN_OF(rows, batch, stale, rest)                                                          \
    "data: {train: a.csv, cache_bytes: 0, labels: [{name: y}], features: [{name: u, hash: " #rows \
    "}, {name: v, hash: 500}]}\n"                                                                 \
    "embedding: {dim: 16, optimizer: {kind: adagrad}}\nmodel: {kind: dnn, deep: [8]}\ntrain: "    \
    "{batch_size: " #batch ", staleness: " #stale "}\n" rest
#define CLUSTER(count, memory)                                  \
    "groups: [{name: a, count: " #count ", memory_gb: " #memory \
    ", memory_bandwidth_gbs: 20, gflops: 100, network_gbps: 8, latency_us: 10, price_per_hour: 3}]\n"

#define SLOW_CLUSTER \
    "groups: [{name: a, count: 2, memory_gb: 100, memory_bandwidth_gbs: 0.1, gflops: 1, network_gbps: 8}]\n"

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
    for (int narrow = 0; narrow < 2; narrow++) { /* gradients and sums travel as bf16 */
        OK(plan_of(narrow ? RUN(2000, "cluster: {wire: bf16}\n") : RUN(2000, ""), host, usual, &config,
                   &plan));
        double *parts = plan->ranks[1].parts, memory = 20e9 / 2, value = narrow ? 2 : 4,
               u = plan->loads[0].local_rows, v = plan->loads[1].local_rows, parameters = 32 * 8 + 8 + 8 + 1;
        assert_true(plan->placements[0].n_parts == 2 && plan->placements[1].replicated);
        near(parts[RK_PLAN_PART_IDS], u / 2 * 4 * 4 / memory + 10e-6, 1e-12);
        near(parts[RK_PLAN_PART_ROWS], u / 2 * 16 * value * 4 / memory + 10e-6, 1e-12);
        near(parts[RK_PLAN_PART_GRADIENTS],
             u / 2 * 16 * value * 4 / memory + 10e-6 + v * (16 * value + 4) * 4 / memory + 10e-6, 1e-12);
        near(parts[RK_PLAN_PART_ALL_REDUCE], parameters * value * (4 + 2.5) / memory + 20e-6, 1e-12);
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
        "[{name: u, sharding: row_wise, ranks: [0, 1]}]}\n";
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

static void assert_same_placements(const rk_plan *plan, const rk_table_placement *again) {
    for (int32_t t = 0; t < plan->tables.n_tables; t++) {
        const rk_table_placement *a = &plan->placements[t], *b = &again[t];
        assert_true(a->replicated == b->replicated);
        if (a->replicated) continue;
        assert_true(a->n_slices == b->n_slices && a->n_parts == b->n_parts &&
                    a->owner_pooling == b->owner_pooling);
        assert_memory_equal(a->owners, b->owners, (size_t)(a->n_slices * a->n_parts) * sizeof *a->owners);
    }
}

/* Written, and read back by a run file. */
static void test_round_trip(void **state) {
    (void)state;
    static const char tables[] =
        "cluster: {tables: [{name: u, sharding: grid, slices: 2}, {name: v, sharding: table_wise, "
        "owner_pooling: true}]}\n";
    rk_config *config, *again;
    rk_plan *plan;
    rk_table_placement placements[2];
    rk_planner_request request;
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        char run[1024];
        snprintf(run, sizeof run, "%s%s", RUN(2000, ""), by_hand ? tables : "");
        OK(plan_of(run, CLUSTER(4, 100), usual, &config, &plan));
        OK(rk_plan_write(plan, path_of("plan.yaml")));
        OK(parse(RUN(2000, "cluster: {plan: plan.yaml}\n"), &again));
        for (int twice = 0; twice < 2; twice++) {
            OK(rk_config_planner_request(again, 4, &request));
            request.tables = plan->tables.tables;
            request.n_tables = plan->tables.n_tables;
            request.features = plan->tables.features;
            request.n_features = plan->tables.n_features;
            OK(rk_sharding_plan_choose(&request, placements));
            assert_same_placements(plan, placements);
            for (int t = 0; t < 2; t++) rk_table_placement_release(&placements[t]);
        }
        char expected[512];
        snprintf(expected, sizeof expected,
                 "the plan '%s' is for 4 trainers and 0 embedding servers, but the run has 3 and 0\n"
                 "hint: start 4 ranks with cluster.embedding_ranks: 0, or make a new plan with 'reckon plan'",
                 path_of("plan.yaml"));
        FAILS(rk_config_planner_request(again, 3, &request), RK_CONFIG, expected);
        plan->tables.tables[0].n_rows++;
        OK(rk_config_planner_request(again, 4, &request));
        request.tables = plan->tables.tables;
        request.n_tables = 2;
        assert_int_equal(rk_sharding_plan_choose(&request, placements), RK_CONFIG);
        assert_non_null(
            strstr(rk_last_error(),
                   "table 'u': planned with 100000000 rows of dim 16, but it has 100000001 of dim 16"));
        rk_plan_free(plan);
        rk_config_free(config);
        rk_config_free(again);
    }
    static const char *const bad[] = {
        "trainers: 2\ntables: [{name: u, rows: 5, dim: 4, sharding: auto}]\n",
        "plan.yaml:2: key 'tables': table 'u': 'sharding' must not be auto in a plan",
        "trainers: 2\ntables: [{name: u, rows: 5, dim: 4, sharding: row_wise}]\n",
        "plan.yaml:2: key 'tables': table 'u': needs the key 'ranks'",
        "trainers: 2\ntables: [{name: u, rows: 5, dim: 4, sharding: replicated, ranks: [1]}]\n",
        "plan.yaml:2: key 'tables': table 'u': a replicated table cannot have 'ranks'",
        "trainers: 2\ntables: [{name: u, rows: 5, dim: 4, sharding: grid, slices: 2, ranks: [1]}]\n",
        "the number of ranks must be a multiple of 'slices'",
        "tables: [{name: u, rows: 5, dim: 4, sharding: row_wise}]\n",
        "'plan' needs the key 'trainers'",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i += 2) {
        rk_plan_file file;
        write_text("plan.yaml", bad[i]);
        assert_int_equal(rk_plan_file_load(path_of("plan.yaml"), &file), RK_CONFIG);
        if (!strstr(rk_last_error(), bad[i + 1])) fail_msg("%s", rk_last_error());
    }
    assert_int_equal(rk_alloc_live(), 0);
}

#define GROUP(rest) "groups:\n  - {name: a, memory_gb: 1" rest "}\n"
static void test_cluster_files(void **state) {
    (void)state;
    static const char *const bad[] = {
        "groups: []\n",
        "c.yaml: a cluster needs at least one group of hosts",
        "groups: [{name: a}]\n",
        "c.yaml:1: key 'memory_gb': is missing",
        "hosts: []\n",
        "c.yaml:1: key 'hosts': unknown key in 'cluster file'",
        GROUP(", memroy_gb: 1"),
        "c.yaml:2: key 'memroy_gb': unknown key in 'groups'\nhint: did you mean 'memory_gb'?",
        GROUP(", count: 2"),
        "c.yaml:2: key 'network_gbps': is missing; it is needed for several hosts",
        GROUP(", count: 0"),
        "c.yaml:2: key 'count': must be between 1 and 65536, not '0'",
        GROUP(", count: 65536, ranks: 2, network_gbps: 1"),
        "c.yaml:2: key 'count': more than 65536 ranks",
        GROUP(", gflops: -1"),
        "c.yaml:2: key 'gflops': must be between 0.001 and 1000000000000, not '-1'",
        GROUP(", gflops: nan"),
        "c.yaml:2: key 'gflops': must be a number, not 'nan'",
        GROUP(", role: trainer"),
        "c.yaml:2: key 'role': there is no 'trainer'\nhint: did you mean 'train'?",
        GROUP(", role: train"),
        "c.yaml:2: key 'role': no group holds rows: one needs 'role: embedding'",
        GROUP(", role: embedding"),
        "c.yaml:2: key 'role': no group trains: one needs 'role: train'",
        GROUP(", network_gbps: 1") "  - {name: a, memory_gb: 1, network_gbps: 1}\n",
        "c.yaml:3: key 'name': duplicate group name",
        GROUP(", network_gbps: 1") "  - {name: b, memory_gb: 1, network_gbps: 1, role: embedding}\n",
        ("c.yaml:3: key 'role': 'role: both' cannot be mixed with 'role: train' and 'role: embedding'\nhint: "
         "give every group 'role: train' or 'role: embedding', or leave all roles out"),
    };
    rk_cluster_file file;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i += 2) {
        assert_int_equal(rk_cluster_file_parse("c.yaml", bad[i], strlen(bad[i]), &file), RK_CONFIG);
        if (strncmp(rk_last_error(), bad[i + 1], strlen(bad[i + 1])) != 0)
            fail_msg("%s\nwanted: %s", rk_last_error(), bad[i + 1]);
    }
    static const char parted[] =
        "groups:\n  - {name: rows, count: 2, ranks: 2, memory_gb: 8, network_gbps: 8, role: embedding, "
        "memory_bandwidth_gbs: 4, gflops: 2}\n"
        "  - {name: work, count: 1, ranks: 3, memory_gb: 3, network_gbps: 3, role: train, "
        "memory_bandwidth_gbs: 3}\n";
    rk_machine *machines;
    rk_roles roles;
    OK(rk_cluster_file_parse("c.yaml", parted, strlen(parted), &file));
    OK(rk_cluster_file_ranks(&file, 0, &machines, &roles));
    assert_true(roles.n_trainers == 3 && roles.n_owners == 4); /* who trains comes first */
    assert_true(machines[0].group == 1 && machines[2].host == 0 && machines[3].group == 0 &&
                machines[4].host == 1 && machines[6].host == 2);
    near(machines[3].capacity.memory_bytes, 4e9, 0);
    near(machines[3].capacity.network_speed, 0.5e9, 0);
    assert_true(rk_cluster_file_lacks(&file));
    FAILS(rk_cluster_file_error_lacking(&file), RK_CONFIG,
          "c.yaml:3: key 'gflops': is missing\nhint: set it, or use --measure for what this machine reaches");
    rk_free(machines);
    FAILS(rk_cluster_file_ranks(&file, 8, &machines, &roles), RK_INVALID_ARGUMENT,
          "--ranks 8 is more than the cluster's 7 ranks");
    FAILS(rk_cluster_file_ranks(&file, 5, &machines, &roles), RK_INVALID_ARGUMENT,
          "--ranks 5 cannot be used with a cluster file that gives ranks roles\nhint: change the counts in "
          "'c.yaml'");
    rk_cluster_file_release(&file);
    assert_int_equal(rk_alloc_live(), 0);
}

/* A value of a table, found by its id and column: exactly one owner, which holds rows. */
static void check_values(const rk_plan *plan, rk_rng *rng) {
    for (int32_t t = 0; t < plan->tables.n_tables; t++) {
        const rk_table_placement *p = &plan->placements[t];
        if (p->replicated) continue;
        for (int i = 0; i < 20; i++) {
            int64_t id = (int64_t)rk_rng_below(rng, (uint64_t)plan->tables.tables[t].n_rows);
            int32_t column = (int32_t)rk_rng_below(rng, (uint64_t)plan->tables.tables[t].dim);
            int64_t slice = column / (plan->tables.tables[t].dim / p->n_slices);
            int32_t owner = p->owners[slice * p->n_parts + id % p->n_parts];
            assert_true(slice < p->n_slices && owner >= 0 && owner < plan->n_ranks &&
                        rk_plan_owns(plan, owner));
        }
    }
}

/* Bytes of tables over all ranks are the tables' own. */
static void check_bytes(const rk_plan *plan) {
    double held = 0, tables = 0;
    for (int32_t r = 0; r < plan->n_ranks; r++) held += plan->ranks[r].bytes[RK_PLAN_MEMORY_OWNED];
    for (int32_t t = 0; t < plan->tables.n_tables; t++)
        if (!plan->placements[t].replicated) tables += rk_plan_table_bytes(plan, t);
    assert_true(fabs(held - tables) <= 1e-9 * tables);
}

static void write_any(rk_rng *rng, rk_buffer *run, rk_buffer *cluster) {
    int64_t n = 1 + (int64_t)rk_rng_below(rng, 30), parted = (int64_t)rk_rng_below(rng, 2);
    rk_buffer_text(run, "data:\n  train: a.csv\n  cache_bytes: 0\n  labels: [{name: y}]\n  features:\n");
    for (int64_t i = 0; i < n; i++)
        rk_buffer_printf(run, "    - {name: f%lld, hash: %lld, max_length: %lld}\n", (long long)i,
                         (long long)(exp(rk_rng_uniform(rng) * 25) + 1), (long long)rk_rng_below(rng, 40));
    rk_buffer_printf(run,
                     "embedding: {dim: %d, optimizer: {kind: adagrad}}\nmodel: {kind: wide_deep, deep: "
                     "[8]}\ntrain: {batch_size: %d, staleness: %d}\ncluster: {replicate_below: %d}\n",
                     1 + (int)rk_rng_below(rng, 64), 1 + (int)rk_rng_below(rng, 5000),
                     (int)rk_rng_below(rng, 2), (int)rk_rng_below(rng, 20000));
    rk_buffer_text(cluster, "groups:\n");
    for (int64_t g = 0; g < 2 + (int64_t)rk_rng_below(rng, 2); g++)
        rk_buffer_printf(cluster,
                         "  - {name: g%lld, count: %d, ranks: %d, memory_gb: %g, memory_bandwidth_gbs: %g, "
                         "gflops: 50, network_gbps: %g%s}\n",
                         (long long)g, 1 + (int)rk_rng_below(rng, 4), 1 + (int)rk_rng_below(rng, 3),
                         exp(rk_rng_uniform(rng) * 12), 1 + rk_rng_uniform(rng) * 50,
                         1 + rk_rng_uniform(rng) * 50,
                         !parted ? ""
                         : g     ? ", role: embedding"
                                 : ", role: train");
}

static void test_anything(void **state) {
    (void)state;
    rk_rng rng = {11, 3, 0};
    int n_fit = 0;
    for (int round = 0; round < 60; round++) {
        rk_buffer run = {0}, cluster = {0};
        rk_config *config;
        rk_plan *plan;
        write_any(&rng, &run, &cluster);
        OK(plan_of(run.data, cluster.data, usual, &config, &plan));
        check_values(plan, &rng);
        check_bytes(plan);
        OK(rk_plan_check_whole(plan));
        n_fit += rk_plan_fits(plan);
        assert_true((plan->advice == NULL) == rk_plan_fits(plan));
        char *text;
        OK(rk_plan_to_text(plan, &text));
        for (int32_t t = 0; t < plan->tables.n_tables; t++)
            assert_non_null(strstr(text, plan->tables.tables[t].name));
        rk_text_free(text);
        rk_plan_free(plan);
        rk_config_free(config);
        rk_buffer_release(&run);
        rk_buffer_release(&cluster);
    }
    if (n_fit < 10 || n_fit > 50) fail_msg("%d of 60 fit", n_fit);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Hosts that are alike have about as much to do, whatever the tables. */
static void test_even(void **state) {
    (void)state;
    rk_rng rng = {5, 5, 0};
    double worst = 0;
    for (int round = 0; round < 40; round++) {
        rk_buffer run = {0}, ignored = {0};
        char cluster[256];
        rk_config *config;
        rk_plan *plan;
        write_any(&rng, &run, &ignored);
        snprintf(cluster, sizeof cluster,
                 "groups: [{name: a, count: %d, ranks: 2, memory_gb: 1e9, memory_bandwidth_gbs: 20, gflops: "
                 "100, network_gbps: 8}]\n",
                 1 + (int)rk_rng_below(&rng, 20));
        OK(plan_of(run.data, cluster, usual, &config, &plan));
        worst = fmax(worst, plan->step.balance);
        rk_plan_free(plan);
        rk_config_free(config);
        rk_buffer_release(&run);
        rk_buffer_release(&ignored);
    }
    if (worst > 1.15) fail_msg("a rank has %g of the mean", worst);
}

/* One id that half of the samples have, a column of three ids, and a plain one: counted, and about even all
 * the same. */
static void test_even_when_hot(void **state) {
    (void)state;
    rk_buffer csv = {0};
    rk_rng rng = {6, 6, 0};
    rk_buffer_text(&csv, "u,v,w,y\n");
    for (int i = 0; i < 8192; i++)
        rk_buffer_printf(&csv, "%d,%d,%d,%d\n", rk_rng_below(&rng, 2) ? 4 : (int)rk_rng_below(&rng, 1000000),
                         (int)rk_rng_below(&rng, 3) * 4, (int)rk_rng_below(&rng, 1000000), i % 2);
    write_text("a.csv", csv.data);
    rk_buffer_release(&csv);
    rk_config *config;
    rk_plan *plan;
    rk_plan_options options = usual;
    options.sample = true;
    OK(plan_of(
        "data: {train: a.csv, cache_bytes: 0, labels: [{name: y}], features: [{name: u, identity: 1000000}, "
        "{name: v, identity: 10}, {name: w, identity: 1000000}]}\n"
        "embedding: {dim: 512}\nmodel: dnn\ntrain: {batch_size: 4096}\ncluster: {replicate_below: 0}\n",
        CLUSTER(4, 100), options, &config, &plan));
    assert_true(plan->loads[0].hot[0].id == 4 && fabs(plan->loads[0].hot[0].share - 0.5) < 0.05);
    if (plan->step.balance > 1.15) fail_msg("a rank has %g of the mean", plan->step.balance);
    rk_plan_free(plan);
    rk_config_free(config);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Steps of the run itself: of one rank, of several on this machine, of hosts that are described; and data
 * that is not there. */
static void test_rehearsed(void **state) {
    (void)state;
    rk_buffer csv = {0};
    rk_buffer_text(&csv, "u,v,y\n");
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

/* A table that lost its owner is seen. */
static void test_assertion(void **state) {
    (void)state;
    rk_config *config;
    rk_plan *plan;
    OK(plan_of(RUN(2000, ""), CLUSTER(2, 100), usual, &config, &plan));
    plan->placements[0].owners[1] = 2;
    FAILS(rk_plan_check_whole(plan), RK_INTERNAL, "the plan does not cover all of table 'u'");
    rk_plan_free(plan);
    rk_config_free(config);
}

/* Any allocation of a plan that does not fit may fail. */
static void test_no_memory(void **state) {
    (void)state;
    long before = rk_alloc_live();
    for (long countdown = 1;; countdown += 7) {
        rk_config *config;
        rk_plan *plan = NULL;
        char path[256];
        rk_plan_options options = usual;
        snprintf(path, sizeof path, "%s", path_of("cluster.yaml"));
        write_text("cluster.yaml", CLUSTER(2, 6));
        options.cluster = path;
        OK(parse(RUN(2000, ""), &config));
        rk_alloc_fail_after(countdown, true);
        rk_status status = rk_plan_make(config, &options, &plan);
        rk_alloc_fail_after(0, false);
        rk_plan_free(plan);
        rk_config_free(config);
        assert_true(rk_alloc_live() == before);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
    }
}

int main(void) {
    if (!mkdtemp(directory)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),         cmocka_unit_test(test_ranks_of_one_host),
        cmocka_unit_test(test_ranks_that_wait), cmocka_unit_test(test_all_reduce_beside_backward),
        cmocka_unit_test(test_sample),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_cluster_files),
        cmocka_unit_test(test_anything),        cmocka_unit_test(test_assertion),
        cmocka_unit_test(test_no_memory),       cmocka_unit_test(test_even),
        cmocka_unit_test(test_even_when_hot),   cmocka_unit_test(test_rehearsed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rk_remove_tree(directory);
    return failed;
}
