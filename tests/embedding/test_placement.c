/* Where tables go: every table somewhere, owners about even, hand-set placements as they were set, and
 * refusals word by word. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "base/rng.h"
#include "embedding/planner/sharding_planner.h"
#include "embedding/planner/table_traffic.h"

enum { MOST_TABLES = 40, MOST_RANKS = 40 };

typedef struct setup {
    rk_table_config tables[MOST_TABLES];
    rk_feature_config features[MOST_TABLES];
    rk_table_statistics loads[MOST_TABLES];
    rk_table_placement out[MOST_TABLES];
    char names[MOST_TABLES][8];
    rk_planner_request request;
} setup;

/* One feature a table. */
static void set_up(setup *s, int32_t n_tables, rk_roles roles) {
    memset(s, 0, sizeof *s);
    s->request = (rk_planner_request){.tables = s->tables,
                                      .n_tables = n_tables,
                                      .features = s->features,
                                      .n_features = n_tables,
                                      .roles = roles,
                                      .batch_size = 8192,
                                      .replicate_below = 10000};
    for (int32_t t = 0; t < n_tables; t++) {
        snprintf(s->names[t], sizeof s->names[t], "t%d", t);
        s->tables[t] = (rk_table_config){
            .struct_size = sizeof *s->tables, .name = s->names[t], .n_rows = 1000000, .dim = 16};
        s->features[t] = (rk_feature_config){
            .struct_size = sizeof *s->features, .name = s->names[t], .table = s->names[t]};
    }
}

static void release(setup *s) {
    for (int32_t t = 0; t < s->request.n_tables; t++) rk_table_placement_release(&s->out[t]);
    assert_int_equal(rk_alloc_live(), 0);
}

/* By another way than the balance's own: bytes and seconds of each owner from the placements alone. */
static double most_over_mean(const setup *s, bool of_bytes) {
    const rk_planner_request *r = &s->request;
    int32_t n = rk_roles_owner_count(&r->roles);
    double sums[MOST_RANKS] = {0}, total = 0, most = 0;
    for (int32_t t = 0; t < r->n_tables; t++) {
        const rk_table_placement *p = &s->out[t];
        if (p->replicated) continue;
        rk_table_statistics load =
            r->loads
                ? r->loads[t]
                : rk_table_statistics_assume(
                      s->tables[t].n_rows, rk_assumed_ids_per_sample(s->names[t], r->features, r->n_features),
                      r->batch_size, r->roles.n_trainers);
        rk_table_traffic w = rk_table_traffic_estimate(r, t, &load, p);
        for (int32_t i = 0; i < p->n_slices * p->n_parts; i++) {
            int32_t part = i % p->n_parts;
            double bytes = (double)((s->tables[t].n_rows + p->n_parts - 1 - part) / p->n_parts) *
                           s->tables[t].dim * 8 / p->n_slices;
            double seconds = ((w.id_bytes + w.row_bytes + w.gradient_bytes) / 2e9 +
                              (w.lookup_bytes + w.update_bytes) / 20e9) /
                             p->n_slices * rk_table_part_load_share(r, &load, part, p->n_parts);
            sums[p->owners[i] - rk_roles_owner_rank(&r->roles, 0)] += of_bytes ? bytes : seconds;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        total += sums[i];
        most = fmax(most, sums[i]);
    }
    return total > 0 ? most * n / total : 1;
}

static void check_whole(const setup *s) {
    const rk_planner_request *r = &s->request;
    for (int32_t t = 0; t < r->n_tables; t++) {
        const rk_table_placement *p = &s->out[t];
        if (p->replicated) continue;
        assert_true(p->n_slices >= 1 && p->n_parts >= 1 && p->owners);
        assert_true(s->tables[t].dim % p->n_slices == 0 && p->n_parts <= s->tables[t].n_rows);
        assert_true(!p->owner_pooling || p->n_parts == 1);
        for (int32_t i = 0; i < p->n_slices * p->n_parts; i++) {
            int32_t first = r->roles.n_owners ? r->roles.n_trainers : 0,
                    n = r->roles.n_owners ? r->roles.n_owners : r->roles.n_trainers;
            assert_true(p->owners[i] >= first && p->owners[i] < first + n);
        }
    }
}

static void test_small_large_and_tiny(void **state) {
    (void)state;
    setup s;
    set_up(&s, 34, (rk_roles){4, 0});
    s.tables[0].n_rows = 9999;      /* replicated */
    s.tables[1].n_rows = 100000000; /* cut */
    OK(rk_sharding_plan_choose(&s.request, s.out));
    check_whole(&s);
    assert_true(s.out[0].replicated);
    assert_int_equal(rk_table_placement_sharding(&s.out[1]), RK_SHARD_ROW_WISE);
    assert_int_equal(s.out[1].n_parts, 4);
    for (int32_t t = 2; t < 34; t++)
        assert_int_equal(rk_table_placement_sharding(&s.out[t]), RK_SHARD_TABLE_WISE);
    assert_true(most_over_mean(&s, true) < 1.15 && most_over_mean(&s, false) < 1.15);
    release(&s);
    set_up(&s, 2, (rk_roles){1, 0}); /* one rank holds everything whole */
    OK(rk_sharding_plan_choose(&s.request, s.out));
    for (int32_t t = 0; t < 2; t++)
        assert_true(rk_table_placement_sharding(&s.out[t]) == RK_SHARD_TABLE_WISE &&
                    s.out[t].owners[0] == 0 && !s.out[t].owner_pooling);
    release(&s);
    set_up(&s, 3, (rk_roles){2, 3}); /* rows only on the ranks behind the trainers */
    OK(rk_sharding_plan_choose(&s.request, s.out));
    check_whole(&s);
    release(&s);
}

/* A table of few rows that all ask for is hot, not large. */
static void test_hot(void **state) {
    (void)state;
    setup s;
    set_up(&s, 17, (rk_roles){4, 0});
    s.request.loads = s.loads;
    for (int32_t t = 0; t < 17; t++)
        s.loads[t] = (rk_table_statistics){.measured = true, .ids = 1, .batch_rows = 500, .local_rows = 200};
    s.loads[5] = (rk_table_statistics){.measured = true, .ids = 30, .batch_rows = 20000, .local_rows = 6000};
    OK(rk_sharding_plan_choose(&s.request, s.out));
    check_whole(&s);
    assert_int_equal(rk_table_placement_sharding(&s.out[5]), RK_SHARD_ROW_WISE);
    assert_true(most_over_mean(&s, false) < 1.15);
    release(&s);
}

static void test_pools(void **state) {
    (void)state;
    setup s;
    set_up(&s, 16, (rk_roles){4, 0});
    s.request.loads = s.loads;
    for (int32_t t = 0; t < 16; t++)
        s.loads[t] = (rk_table_statistics){.measured = true,
                                           .ids = t % 2 ? 20 : 1,
                                           .batch_rows = t % 2 ? 150000 : 7000,
                                           .local_rows = t % 2 ? 40000 : 2000};
    s.features[3].max_sequence_length = 20;
    s.features[5].weighted = true;
    OK(rk_sharding_plan_choose(&s.request, s.out));
    for (int32_t t = 0; t < 16; t++) assert_true(s.out[t].owner_pooling == (t % 2 == 1 && t != 3 && t != 5));
    release(&s);
    for (int32_t t = 0; t < 16; t++) s.loads[t].measured = false;
    OK(rk_sharding_plan_choose(&s.request, s.out));
    for (int32_t t = 0; t < 16; t++) assert_false(s.out[t].owner_pooling);
    release(&s);
}

/* A hot table whose owners combine bags is cut by columns, all of whose owners combine them; where rows are
 * stepped whole, or have one column, it stays whole, unless it is too large for that. */
static void test_pools_by_columns(void **state) {
    (void)state;
    rk_optimizer rowwise;
    OK(rk_optimizer_init(&rowwise, RK_OPTIMIZER_ROWWISE_ADAGRAD));
    enum { COLUMNS, COUPLES, LARGE, SINGLE, HOWS };
    static const rk_sharding expected[SINGLE] = {RK_SHARD_COLUMN_WISE, RK_SHARD_TABLE_WISE,
                                                 RK_SHARD_ROW_WISE};
    for (int how = 0; how < HOWS; how++) {
        setup s;
        set_up(&s, 8, (rk_roles){4, 0});
        s.request.loads = s.loads;
        for (int32_t t = 0; t < 8; t++) {
            s.tables[t].dim = 128;
            s.loads[t] =
                (rk_table_statistics){.measured = true, .ids = 1, .batch_rows = 7000, .local_rows = 2000};
        }
        s.loads[2] =
            (rk_table_statistics){.measured = true, .ids = 100, .batch_rows = 400000, .local_rows = 150000};
        if (how == COUPLES || how == LARGE) s.tables[2].optimizer = &rowwise;
        if (how == LARGE) s.tables[2].n_rows = 100000000;
        if (how == SINGLE) {
            s.tables[2].dim = 1;
            s.loads[2] =
                (rk_table_statistics){.measured = true, .ids = 20, .batch_rows = 100000, .local_rows = 40000};
        }
        OK(rk_sharding_plan_choose(&s.request, s.out));
        check_whole(&s);
        if (how != SINGLE) assert_int_equal(rk_table_placement_sharding(&s.out[2]), expected[how]);
        assert_true(how == SINGLE || s.out[2].owner_pooling == (how == COLUMNS || how == COUPLES));
        assert_true(how != COLUMNS || s.out[2].n_slices == 4);
        if (how != COUPLES && most_over_mean(&s, how == LARGE) > 1.15)
            fail_msg("%d: an owner has %g of the mean", how, most_over_mean(&s, how == LARGE));
        release(&s);
    }
}

static double wire_bytes(const setup *s, int32_t t, const rk_table_placement *p) {
    rk_table_traffic w = rk_table_traffic_estimate(&s->request, t, &s->loads[t], p);
    return w.id_bytes + w.row_bytes + w.gradient_bytes;
}

/* What owners send one trainer all goes through its link: hot tables are not cut by rows to make owners even,
 * as more rows than bags would travel. */
static void test_few_trainers(void **state) {
    (void)state;
    setup s;
    set_up(&s, 13, (rk_roles){1, 3});
    s.request.loads = s.loads;
    double sent = 0, least = 0;
    for (int32_t t = 0; t < 13; t++) {
        double ids = t == 0 ? 100 : 1 + t, rows = t == 0 ? 55000 : 900 + 900 * t;
        s.tables[t].n_rows = 100000;
        s.tables[t].dim = 128;
        s.loads[t] =
            (rk_table_statistics){.measured = true, .ids = ids, .batch_rows = rows, .local_rows = rows};
    }
    OK(rk_sharding_plan_choose(&s.request, s.out));
    check_whole(&s);
    for (int32_t t = 0; t < 13; t++) {
        sent += wire_bytes(&s, t, &s.out[t]);
        least +=
            fmin(wire_bytes(&s, t, &(rk_table_placement){.n_slices = 1, .n_parts = 1, .owner_pooling = true}),
                 wire_bytes(&s, t, &(rk_table_placement){.n_slices = 1, .n_parts = 1}));
    }
    if (sent > 1.1 * least) fail_msg("%g MB travel where %g would do", sent / 1e6, least / 1e6);
    release(&s);
}

/* A part of few hot rows goes where others are not. */
static void test_hot_rows_are_spread(void **state) {
    (void)state;
    setup s;
    set_up(&s, 8, (rk_roles){4, 0});
    static const rk_hot_row hot[] = {{2, 0.9}, {3, 0.04}};
    s.request.loads = s.loads;
    for (int32_t t = 0; t < 8; t++) {
        s.tables[t].n_rows = 20000000;
        s.loads[t] = (rk_table_statistics){
            .measured = true, .ids = 1, .batch_rows = 8, .local_rows = 4, .hot = hot, .n_hot = 2};
    }
    rk_planner_constraint constraints[8];
    for (int32_t t = 0; t < 8; t++)
        constraints[t] = (rk_planner_constraint){.table = s.names[t], .sharding = RK_SHARD_ROW_WISE};
    s.request.constraints = constraints;
    s.request.n_constraints = 8;
    OK(rk_sharding_plan_choose(&s.request, s.out));
    for (int32_t t = 0; t < 8; t++) assert_int_equal(s.out[t].n_parts, 4);
    assert_true(most_over_mean(&s, false) < 1.15);
    release(&s);
}

/* Small or large, they are on one rank or cut by their buckets; their keys take memory, too. */
static void test_dynamic_tables(void **state) {
    (void)state;
    setup s;
    rk_dynamic_config dynamic[4] = {{.max_capacity = 5000, .n_buckets = 1},
                                    {.max_capacity = 40000000, .n_buckets = 3},
                                    {.max_capacity = 40000000, .n_buckets = 9765}};
    set_up(&s, 4, (rk_roles){4, 0});
    s.request.dynamic = dynamic;
    for (int32_t t = 0; t < 3; t++) s.tables[t].n_rows = dynamic[t].max_capacity;
    OK(rk_sharding_plan_choose(&s.request, s.out));
    for (int32_t t = 0; t < 3; t++)
        assert_true(!s.out[t].replicated && s.out[t].n_slices == 1 && !s.out[t].owner_pooling &&
                    s.out[t].n_parts <= dynamic[t].n_buckets);
    assert_int_equal(s.out[2].n_parts, 4);
    int64_t rows = 0;
    for (int32_t p = 0; p < 3; p++) rows += rk_planner_request_part_rows(&s.request, 1, p, 3);
    assert_int_equal(rows, 40000000);
    assert_true(rk_planner_request_bytes_of_rows(&s.request, 2, 10) ==
                rk_planner_request_bytes_of_rows(&s.request, 3, 10) + 10 * RK_KEY_BYTES);
    double in_memory = rk_planner_request_bytes_of_rows(&s.request, 2, 1000),
           few = rk_planner_request_bytes_of_rows(&s.request, 2, 1);
    assert_true(rk_planner_request_disk_bytes(&s.request, 2, 1000) == 0);
    enum { DISK_BYTES = RK_DISK_KEY_BYTES + 7 }; /* of the 64 bits of a hash 9,765 buckets say 13 */
    dynamic[2].storage = "disk";                 /* of which some rows are in memory, or all */
    dynamic[2].memory_bytes = 5000;
    assert_true(rk_planner_request_bytes_of_rows(&s.request, 2, 1000) == 5000 + 1000 * DISK_BYTES);
    assert_true(rk_planner_request_bytes_of_rows(&s.request, 2, 1) == few - RK_KEY_BYTES + DISK_BYTES + 20);
    assert_true(rk_planner_request_disk_bytes(&s.request, 2, 1000) == in_memory - 1000 * (RK_KEY_BYTES - 8));
    rk_table_statistics load = {.ids = 1, .batch_rows = 8, .local_rows = 4};
    assert_true(rk_table_traffic_estimate(&s.request, 2, &load, &s.out[2]).id_bytes ==
                4 * 4 * (12 + 8)); /* 4 keys of each of 4 trainers, and once more ahead */
    dynamic[2].storage = NULL;
    assert_true(rk_table_traffic_estimate(&s.request, 2, &load, &s.out[2]).id_bytes == 4 * 4 * 12);
    static const int64_t ranks[] = {0, 1, 2, 3};
    const struct {
        rk_planner_constraint constraint;
        const char *message;
    } cases[] = {
        {{.table = "t2", .sharding = RK_SHARD_REPLICATED},
         "table 't2': a dynamic table (max_capacity) cannot be replicated\nhint: use table_wise or row_wise"},
        {{.table = "t2", .sharding = RK_SHARD_COLUMN_WISE},
         "table 't2': a dynamic table (max_capacity) cannot be column_wise\nhint: use table_wise or "
         "row_wise"},
        {{.table = "t2", .sharding = RK_SHARD_GRID, .n_slices = 2},
         "table 't2': a dynamic table (max_capacity) cannot be a grid\nhint: use table_wise or row_wise"},
        {{.table = "t2", .pooling = RK_POOLING_ON},
         "table 't2': not supported by dynamic tables (max_capacity)"},
        {{.table = "t1", .sharding = RK_SHARD_ROW_WISE, .ranks = ranks, .n_ranks = 4},
         "table 't1': 3 buckets cannot be cut into 4 parts"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s.request.constraints = &cases[i].constraint;
        s.request.n_constraints = 1;
        rk_table_placement out[MOST_TABLES] = {{0}};
        FAILS(rk_sharding_plan_choose(&s.request, out), RK_CONFIG, cases[i].message);
    }
    release(&s);
}

/* A part has fewer than 2^34 rows of keys, also where more fit in memory. */
static void test_rows_of_a_part(void **state) {
    (void)state;
    setup s;
    rk_dynamic_config dynamic = {.max_capacity = ((int64_t)1 << 35) - 2, .n_buckets = 2};
    set_up(&s, 1, (rk_roles){4, 0});
    s.request.dynamic = &dynamic;
    s.tables[0].n_rows = dynamic.max_capacity;
    OK(rk_sharding_plan_choose(&s.request, s.out));
    release(&s);
    dynamic.max_capacity++;
    rk_table_placement out[1] = {{0}};
    FAILS(rk_sharding_plan_choose(&s.request, out), RK_CONFIG,
          "table 't0': one of its 2 parts has 17179869184 rows of keys, and may have 17179869183 at most\n"
          "hint: let it have more parts, of more ranks, or a smaller max_capacity");
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_part_shares(void **state) {
    (void)state;
    static const rk_hot_row hot[] = {{2, 0.9}, {3, 0.04}};
    rk_planner_request request = {.roles = {4, 0}, .batch_size = 8192};
    rk_table_statistics load = {.ids = 1, .batch_rows = 8, .local_rows = 4, .hot = hot, .n_hot = 2};
    static const double expected[] = {0.125, 0.125, 0.375,
                                      0.375}; /* each trainer asks for either once: two of its four rows */
    for (int32_t p = 0; p < 4; p++)
        assert_true(fabs(rk_table_part_load_share(&request, &load, p, 4) - expected[p]) < 1e-9);
    int64_t rows = 0;
    for (int32_t p = 0; p < 7; p++) rows += rk_table_part_rows(100, p, 7);
    assert_true(rows == 100 && rk_table_part_rows(100, 1, 7) == 15 && rk_table_part_rows(100, 2, 7) == 14);
}

/* What is on one owner by hand, the others make up for. */
static void test_even_beside_hand(void **state) {
    (void)state;
    setup s;
    set_up(&s, 9, (rk_roles){4, 0});
    static const int64_t ranks[] = {2};
    const rk_planner_constraint constraints[] = {
        {.table = "t0", .sharding = RK_SHARD_TABLE_WISE, .ranks = ranks, .n_ranks = 1}};
    s.request.constraints = constraints;
    s.request.n_constraints = 1;
    s.tables[1].n_rows = 5000000;
    for (int32_t t = 2; t < 9; t++) s.tables[t].n_rows = 20000;
    OK(rk_sharding_plan_choose(&s.request, s.out));
    check_whole(&s);
    assert_true(s.out[0].owners[0] == 2);
    if (most_over_mean(&s, true) > 1.15 || most_over_mean(&s, false) > 1.15)
        fail_msg("%g of the mean bytes, %g of the mean seconds", most_over_mean(&s, true),
                 most_over_mean(&s, false));
    release(&s);
}

static void test_owners_that_differ(void **state) {
    (void)state;
    setup s;
    set_up(&s, 1, (rk_roles){1, 3});
    s.tables[0].n_rows = 1000000000;
    const rk_rank_capacity capacities[4] = {
        {1e9, 1e10, 1e9}, {120e9, 1e10, 1e9}, {30e9, 1e10, 1e9}, {30e9, 1e10, 1e9}};
    s.request.capacities = capacities; /* 128 GB do not fit in equal parts, but by the owners' memory */
    OK(rk_sharding_plan_choose(&s.request, s.out));
    check_whole(&s);
    double bytes[4] = {0};
    for (int32_t p = 0; p < s.out[0].n_parts; p++) bytes[s.out[0].owners[p]] += 128e9 / s.out[0].n_parts;
    for (int r = 1; r < 4; r++) assert_true(bytes[r] > 0 && bytes[r] <= capacities[r].memory_bytes);
    release(&s);
}

static void test_by_hand(void **state) {
    (void)state;
    setup s;
    set_up(&s, 8, (rk_roles){4, 0});
    static const int64_t ranks[] = {3, 1, 0, 2};
    const rk_planner_constraint constraints[] = {
        {.table = "t0", .sharding = RK_SHARD_REPLICATED},
        {.table = "t1",
         .sharding = RK_SHARD_TABLE_WISE,
         .ranks = ranks,
         .n_ranks = 1,
         .pooling = RK_POOLING_ON},
        {.table = "t2", .sharding = RK_SHARD_ROW_WISE, .ranks = ranks, .n_ranks = 3},
        {.table = "t3", .sharding = RK_SHARD_COLUMN_WISE, .ranks = ranks, .n_ranks = 4},
        {.table = "t4", .sharding = RK_SHARD_GRID, .ranks = ranks, .n_ranks = 4, .n_slices = 2},
        {.table = "t5", .sharding = RK_SHARD_COLUMN_WISE},
        {.table = "t6", .pooling = RK_POOLING_ON},
        {.table = "t7", .sharding = RK_SHARD_GRID, .n_slices = 4},
    };
    s.request.constraints = constraints;
    s.request.n_constraints = 8;
    OK(rk_sharding_plan_choose(&s.request, s.out));
    check_whole(&s);
    for (int32_t t = 0; t < 6; t++)
        assert_int_equal(rk_table_placement_sharding(&s.out[t]), constraints[t].sharding);
    assert_true(s.out[1].owners[0] == 3 && s.out[1].owner_pooling);
    for (int i = 0; i < 3; i++) assert_int_equal(s.out[2].owners[i], ranks[i]);
    assert_true(s.out[3].n_slices == 4 && s.out[4].n_slices == 2 && s.out[4].n_parts == 2 &&
                s.out[5].n_slices == 4);
    for (int i = 0; i < 4; i++) assert_int_equal(s.out[4].owners[i], ranks[i]);
    assert_true(s.out[6].owner_pooling && s.out[6].n_parts == 1);
    assert_true(s.out[7].n_slices == 4 && s.out[7].n_parts == 1);
    release(&s);
}

static void test_refusals(void **state) {
    (void)state;
    setup s;
    set_up(&s, 3, (rk_roles){4, 0});
    rk_optimizer rowwise;
    OK(rk_optimizer_init(&rowwise, RK_OPTIMIZER_ROWWISE_ADAGRAD));
    s.tables[1].optimizer = &rowwise;
    s.tables[2].n_rows = 2;
    s.features[2].max_sequence_length = 4;
    s.features[1].weighted = true;
    static const int64_t ranks[] = {0, 1, 2, 4};
    const struct {
        rk_planner_constraint constraint;
        const char *message;
    } cases[] = {
        {{.table = "tt0", .path = "run.yaml", .line = 7},
         "run.yaml:7: key 'name': table 'tt0': there is no such table\nhint: did you mean 't0'?"},
        {{.table = "t9", .path = "run.yaml", .line = -1},
         "--set: key 'name': table 't9': there is no such table\nhint: 'reckon inspect' lists the tables"},
        {{.table = "t0", .ranks = ranks, .n_ranks = 1},
         "table 't0': 'ranks' needs a 'sharding'\nhint: add sharding: table_wise, row_wise, column_wise or "
         "grid"},
        {{.table = "t0", .sharding = RK_SHARD_TABLE_WISE, .ranks = ranks, .n_ranks = 2},
         "table 't0': table_wise takes one rank"},
        {{.table = "t0", .sharding = RK_SHARD_ROW_WISE, .ranks = ranks, .n_ranks = 4},
         "table 't0': rank 4 holds no rows; ranks 0 to 3 do"},
        {{.table = "t0", .sharding = RK_SHARD_ROW_WISE, .n_slices = 2},
         "table 't0': only column_wise and grid have slices"},
        {{.table = "t0", .sharding = RK_SHARD_GRID}, "table 't0': a grid needs its number of slices"},
        {{.table = "t0", .sharding = RK_SHARD_GRID, .n_slices = 2, .ranks = ranks, .n_ranks = 3},
         "table 't0': a grid takes the same number of ranks for each slice"},
        {{.table = "t0", .sharding = RK_SHARD_COLUMN_WISE, .n_slices = 4, .ranks = ranks, .n_ranks = 2},
         "table 't0': column_wise takes one rank for each slice"},
        {{.table = "t0", .sharding = RK_SHARD_COLUMN_WISE, .n_slices = 3},
         "table 't0': dim 16 cannot be cut into 3 slices of the same size"},
        {{.table = "t1", .sharding = RK_SHARD_COLUMN_WISE},
         "table 't1': the optimizer 'rowwise_adagrad' needs whole rows: no column sharding\nhint: use "
         "row_wise, or another optimizer"},
        {{.table = "t2", .sharding = RK_SHARD_ROW_WISE, .ranks = ranks, .n_ranks = 3},
         "table 't2': 2 rows cannot be cut into 3 parts"},
        {{.table = "t0", .sharding = RK_SHARD_ROW_WISE, .pooling = RK_POOLING_ON},
         "table 't0': owner pooling needs all rows of a bag on one rank: use table_wise or column_wise"},
        {{.table = "t0", .sharding = RK_SHARD_REPLICATED, .pooling = RK_POOLING_ON},
         "table 't0': a replicated table is on every rank: there is nothing to pool"},
        {{.table = "t2", .pooling = RK_POOLING_ON},
         "table 't2': a feature of it keeps rows apart (a sequence, or compose: multiply or concat)"},
        {{.table = "t1", .pooling = RK_POOLING_ON}, "table 't1': a feature of it has weights"},
        {{.table = "t0", .path = "plan.yaml", .line = 3, .n_rows = 5, .dim = 16},
         "plan.yaml:3: key 'rows': table 't0': planned with 5 rows of dim 16, but it has 1000000 of dim "
         "16\nhint: make a new plan with 'reckon plan'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        s.request.constraints = &cases[i].constraint;
        s.request.n_constraints = 1;
        FAILS(rk_sharding_plan_choose(&s.request, s.out), RK_CONFIG, cases[i].message);
        assert_int_equal(rk_alloc_live(), 0);
    }
    const rk_planner_constraint twice[] = {{.table = "t0", .path = "p", .line = 1},
                                           {.table = "t0", .path = "p", .line = 2}};
    s.request.constraints = twice;
    s.request.n_constraints = 2;
    FAILS(rk_sharding_plan_choose(&s.request, s.out), RK_CONFIG,
          "p:2: key 'name': table 't0': a second entry for this table");
    s.request.n_constraints = 1;
    s.request.constraints_are_whole = true;
    FAILS(rk_sharding_plan_choose(&s.request, s.out), RK_CONFIG,
          "the plan 'p' has no table 't1'\nhint: make a new plan with 'reckon plan'");
    s.request.roles.n_trainers = 0;
    FAILS(rk_sharding_plan_choose(&s.request, s.out), RK_INVALID_ARGUMENT,
          "a plan for 0 trainers and 0 embedding servers; at least 1 trainer is needed");
    rk_table_placement p;
    FAILS(rk_table_placement_init(&p, 1, 0), RK_INVALID_ARGUMENT,
          "a sharding of 1 column slices and 0 row parts; at least 1 of each is needed");
    assert_int_equal(rk_alloc_live(), 0);
}

/* Any tables, on any ranks: each is placed whole, and owners are even wherever rows can be cut and no bags
 * combined. */
static void test_anything(void **state) {
    (void)state;
    rk_rng rng = {7, 7, 0};
    for (int round = 0; round < 300; round++) {
        setup s;
        rk_roles roles = {1 + (int32_t)rk_rng_below(&rng, 20),
                          (int32_t)rk_rng_below(&rng, 2) * (int32_t)rk_rng_below(&rng, 20)};
        set_up(&s, (int32_t)rk_rng_below(&rng, MOST_TABLES), roles);
        for (int32_t t = 0; t < s.request.n_tables; t++) {
            s.tables[t].n_rows = (int64_t)exp(rk_rng_uniform(&rng) * 20) + 1;
            s.tables[t].dim = 1 + (int32_t)rk_rng_below(&rng, 200);
            s.features[t].max_sequence_length = rk_rng_below(&rng, 10) == 0 ? 50 : 0;
            s.tables[t].frozen = rk_rng_below(&rng, 10) == 0;
            double ids = 1 + (double)rk_rng_below(&rng, 50);
            s.loads[t] =
                rk_table_statistics_assume(s.tables[t].n_rows, ids, s.request.batch_size, roles.n_trainers);
            s.loads[t].measured = true;
        }
        s.request.loads = round % 2 ? s.loads : NULL;
        OK(rk_sharding_plan_choose(&s.request, s.out));
        check_whole(&s);
        if (!s.request.loads && most_over_mean(&s, false) > 1.15)
            fail_msg("round %d: an owner has %g of the mean", round, most_over_mean(&s, false));
        release(&s);
    }
}

static void test_zipf(void **state) {
    (void)state;
    for (int64_t n = 10; n <= 100000; n *= 100) { /* beside the plain sum */
        double total = 0, distinct = 0;
        for (int64_t k = 1; k <= n; k++) total += pow((double)k, -1.05);
        for (int64_t k = 1; k <= n; k++) distinct += 1 - pow(1 - pow((double)k, -1.05) / total, 5000);
        assert_true(fabs(rk_zipf_expected_distinct(n, 1.05, 5000) / distinct - 1) < 0.02);
    }
    double far = rk_zipf_expected_distinct((int64_t)1e14, 1.05, 1e6);
    assert_true(far > 1e5 && far < 1e6);
    assert_true(rk_zipf_expected_distinct(3, 1.05, 1e9) <= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_large_and_tiny),
        cmocka_unit_test(test_hot),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_hot_rows_are_spread),
        cmocka_unit_test(test_owners_that_differ),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_anything),
        cmocka_unit_test(test_zipf),
        cmocka_unit_test(test_dynamic_tables),
        cmocka_unit_test(test_rows_of_a_part),
        cmocka_unit_test(test_part_shares),
        cmocka_unit_test(test_pools_by_columns),
        cmocka_unit_test(test_even_beside_hand),
        cmocka_unit_test(test_few_trainers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
