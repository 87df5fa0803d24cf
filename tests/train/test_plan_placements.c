/* Where plans put tables: every one is placed whatever the run and the cluster, about evenly; files that read
 * back; memory that runs out. */
#include "train/plan_testing.h"

#include <math.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/rng.h"

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
    OK(rk_cluster_file_list_ranks(&file, 0, &machines, &roles));
    assert_true(roles.n_trainers == 3 && roles.n_owners == 4); /* who trains comes first */
    assert_true(machines[0].group == 1 && machines[2].host == 0 && machines[3].group == 0 &&
                machines[4].host == 1 && machines[6].host == 2);
    near(machines[3].capacity.memory_bytes, 4e9, 0);
    near(machines[3].capacity.network_speed, 0.5e9, 0);
    assert_true(rk_cluster_file_needs_measuring(&file));
    FAILS(rk_cluster_file_missing_error(&file), RK_CONFIG,
          "c.yaml:3: key 'gflops': is missing\nhint: set it, or use --measure for what this machine reaches");
    rk_free(machines);
    FAILS(rk_cluster_file_list_ranks(&file, 8, &machines, &roles), RK_INVALID_ARGUMENT,
          "--ranks 8 is more than the cluster's 7 ranks");
    FAILS(rk_cluster_file_list_ranks(&file, 5, &machines, &roles), RK_INVALID_ARGUMENT,
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
    rk_buffer_append_text(run,
                          "data:\n  train: a.csv\n  cache_bytes: 0\n  labels: [{name: y}]\n  features:\n");
    for (int64_t i = 0; i < n; i++)
        rk_buffer_printf(run, "    - {name: f%lld, hash: %lld, max_length: %lld}\n", (long long)i,
                         (long long)(exp(rk_rng_uniform(rng) * 25) + 1), (long long)rk_rng_below(rng, 40));
    rk_buffer_printf(run,
                     "embedding: {dim: %d, optimizer: {kind: adagrad}}\nmodel: {kind: wide_deep, deep: "
                     "[8]}\ntrain: {batch_size: %d, staleness: %d}\ncluster: {replicate_below: %d}\n",
                     1 + (int)rk_rng_below(rng, 64), 1 + (int)rk_rng_below(rng, 5000),
                     (int)rk_rng_below(rng, 2), (int)rk_rng_below(rng, 20000));
    rk_buffer_append_text(cluster, "groups:\n");
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
        OK(rk_plan_check_coverage(plan));
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
    rk_buffer_append_text(&csv, "u,v,w,y\n");
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

/* A table that lost its owner is seen. */
static void test_assertion(void **state) {
    (void)state;
    rk_config *config;
    rk_plan *plan;
    OK(plan_of(RUN(2000, ""), CLUSTER(2, 100), usual, &config, &plan));
    plan->placements[0].owners[1] = 2;
    FAILS(rk_plan_check_coverage(plan), RK_INTERNAL, "the plan does not cover all of table 'u'");
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
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_cluster_files),
        cmocka_unit_test(test_anything),      cmocka_unit_test(test_even),
        cmocka_unit_test(test_even_when_hot), cmocka_unit_test(test_assertion),
        cmocka_unit_test(test_no_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rk_remove_tree(directory);
    return failed;
}
