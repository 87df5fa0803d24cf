/* Lookups on the device against the collection's own. */
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

static const rk_table_config tables[] = {
    TABLE("wide", 40, 132, RK_F32), TABLE("one", 300, 1, RK_F32),   TABLE("sixteen", 200, 16, RK_F32),
    TABLE("odd", 70, 7, RK_F32),    TABLE("half", 90, 32, RK_BF16), TABLE("small", 50, 6, RK_F16),
    TABLE("f16", 33, 64, RK_F16),   TABLE("frozen", 60, 8, RK_F32),
};
static const rk_feature_config features[] = {
    FEATURE("a", "sixteen", SUM, 0), FEATURE("b", "wide", MEAN, 0),    FEATURE("c", "one", SQRTN, 0),
    FEATURE("d", "odd", MEAN, 0),    FEATURE("e", "half", SQRTN, 0),   FEATURE("f", "small", SUM, 0),
    FEATURE("g", "f16", MEAN, 5),    FEATURE("h", "sixteen", SUM, 40), FEATURE("i", "frozen", MEAN, 0),
    FEATURE("j", "wide", SUM, 0),
};
static const rk_embeddings_config config = {sizeof(rk_embeddings_config),
                                            11,
                                            tables,
                                            sizeof tables / sizeof *tables,
                                            features,
                                            sizeof features / sizeof *features,
                                            NULL,
                                            NULL,
                                            NULL};

static void check_lookups(const shape *shapes, bool exact) {
    twins w;
    open_twins(&w, &config, shapes, 70, 0);
    int64_t sizes[] = {70, 1, 0, 33};
    for (int i = 0; i < 4; i++)
        for (int training = 0; training < 2; training++) {
            draw_ids(&w, sizes[i]);
            route_twins(&w, training);
            look_up_twins(&w, exact, training);
            rk_device_tables_end_batch(w.tables, false);
        }
    close_twins(&w);
}

static void test_dense_ids(void **state) {
    (void)state;
    shape shapes[MAX_FEATURES];
    for (int f = 0; f < MAX_FEATURES; f++)
        shapes[f] = (shape){.ids_per_sample = f % 3 ? 1 : 3, .negatives = f % 2};
    check_lookups(shapes, true);
}

static void test_bags(void **state) {
    (void)state;
    shape shapes[MAX_FEATURES];
    for (int f = 0; f < MAX_FEATURES; f++) shapes[f] = (shape){.most = 3 + 3 * f, .negatives = f % 2};
    check_lookups(shapes, true);
}

static void test_weights(void **state) {
    (void)state;
    shape shapes[MAX_FEATURES];
    for (int f = 0; f < MAX_FEATURES; f++)
        shapes[f] = (shape){.most = 8, .weighted = f != 6 && f != 7 && f != 2, .negatives = f % 2};
    shapes[9].ids_per_sample = 1;
    check_lookups(shapes, true);
}

/* A warp takes a long bag's or sequence's ids together, and its sum is cut into chunks: the order of the sums
 * is another. */
static void test_long_bags(void **state) {
    (void)state;
    shape shapes[MAX_FEATURES];
    for (int f = 0; f < MAX_FEATURES; f++)
        shapes[f] = (shape){
            .most = 6, .long_bag = 100 + 59 * f, .weighted = f % 3 == 0 && f != 6, .negatives = f % 2};
    check_lookups(shapes, false);
}

/* Messages are the collection's. */
static void check_refusal(twins *w, rk_status status, const char *message) {
    FAILS(look_up(w->host, w->n, w->ids, w->on_host), status, message);
    rk_status early = rk_device_tables_dedup(w->tables, w->upload, w->dedup, w->n, NULL, w->ids, true);
    if (early == RK_OK) {
        FAILS(rk_device_tables_check_ids(w->tables), status, message);
        rk_device_tables_end_batch(w->tables, false);
    } else {
        assert_int_equal(early, status);
        assert_string_equal(rk_last_error(), message);
    }
}

static void test_refused_ids(void **state) {
    (void)state;
    twins w;
    shape shapes[MAX_FEATURES];
    for (int f = 0; f < MAX_FEATURES; f++) shapes[f] = (shape){.most = 20, .weighted = f == 4};
    shapes[1].ids_per_sample = 2;
    open_twins(&w, &config, shapes, 40, 0);
    draw_ids(&w, 40);
    int64_t *b = (int64_t *)(size_t)w.ids[1].ids, *h = (int64_t *)(size_t)w.ids[7].ids,
            *offsets = (int64_t *)(size_t)w.ids[3].offsets;
    h[w.ids[7].offsets[20]] = 200;
    check_refusal(&w, RK_BAD_DATA,
                  "feature 'h': sample 20: id 200 is beyond the last row 199 of table 'sixteen'\nhint: give "
                  "the table more rows, or hash the feature");
    b[2 * 39 + 1] = 40;
    b[2 * 38] = 41;
    check_refusal(&w, RK_BAD_DATA,
                  "feature 'b': sample 38: id 41 is beyond the last row 39 of table 'wide'\nhint: give the "
                  "table more rows, or hash the feature");
    b[2 * 5] = (int64_t)1 << 32; /* as 32 bits it would be a row */
    check_refusal(&w, RK_BAD_DATA,
                  "feature 'b': sample 5: id 4294967296 is beyond the last row 39 of table 'wide'\nhint: "
                  "give the table more rows, or hash the feature");
    draw_ids(&w, 40);
    float *weights = (float *)(size_t)w.ids[4].weights;
    int64_t sample = 0;
    weights[3] = NAN;
    while (w.ids[4].offsets[sample + 1] <= 3) sample++;
    char message[200];
    snprintf(message, sizeof message,
             "feature 'e': sample %lld: the weight of id %lld is not a finite number", (long long)sample,
             (long long)w.ids[4].ids[3]);
    check_refusal(&w, RK_BAD_DATA, message);
    offsets = (int64_t *)(size_t)w.ids[3].offsets;
    offsets[7] = offsets[8] + 1;
    check_refusal(&w, RK_INVALID_ARGUMENT, "feature 'd': offsets must start at 0 and must not decrease");
    step_twins(&w, 40, true); /* and goes on */
    close_twins(&w);
}

/* Ids that two features have in common, of tables of unequal size, in every batch but one. */
static void test_shared_ids(void **state) {
    (void)state;
    twins w;
    shape shapes[MAX_FEATURES];
    for (int f = 0; f < MAX_FEATURES; f++) shapes[f] = (shape){.ids_per_sample = f % 9 ? 1 : 2};
    open_twins(&w, &config, shapes, 40, 0);
    for (int batch = 0; batch < 4; batch++) {
        draw_ids(&w, 40);
        int64_t *shared = (int64_t *)(size_t)w.ids[0].ids;
        const int64_t *own = w.ids[9].ids;
        for (int64_t i = 0; i < 80; i++) shared[i] %= 40;
        if (batch != 2) w.ids[9].ids = shared;
        route_twins(&w, true);
        look_up_twins(&w, true, true);
        apply_twins(&w);
        shared[2 * 30 + 1] = 50; /* a row of 'sixteen' */
        if (batch == 3)
            check_refusal(
                &w, RK_BAD_DATA,
                "feature 'j': sample 30: id 50 is beyond the last row 39 of table 'wide'\nhint: give "
                "the table more rows, or hash the feature");
        w.ids[9].ids = own;
    }
    close_twins(&w);
}

/* A feature's ids in other bags: those of another feature, or so many a sample, with fewer ids in all. */
static rk_ids rearrange_ids(const twins *w, const rk_ids *ids, bool fewer) {
    int64_t n_ids = ids->offsets ? ids->offsets[w->n] : w->n * ids->ids_per_sample;
    return fewer ? (rk_ids){.ids = ids->ids, .ids_per_sample = n_ids / w->n - 1}
                 : (rk_ids){.ids = ids->ids, .offsets = ids->offsets, .ids_per_sample = ids->ids_per_sample};
}

/* Features of all kinds with the same ids, or the first ones of them, weighted or not; others between. One id
 * is no int32_t, and dropped. The first batch has no samples. */
static void test_shared_ids_in_other_bags(void **state) {
    (void)state;
    twins w;
    shape shapes[MAX_FEATURES];
    for (int f = 0; f < MAX_FEATURES; f++) shapes[f] = (shape){.most = 8, .negatives = true};
    shapes[1] = (shape){.most = 8, .weighted = true};
    shapes[3] = (shape){.ids_per_sample = 3};
    open_twins(&w, &config, shapes, 70, 0);
    for (int batch = 0; batch < 6; batch++) {
        rk_ids own[MAX_FEATURES];
        draw_ids(&w, batch ? 60 + batch : 0);
        memcpy(own, w.ids, sizeof own);
        for (int f = 1; f < config.n_features && batch; f++) {
            const rk_ids *of = f % 2 ? &own[1] : &own[3];
            int64_t n_ids = of->offsets ? of->offsets[w.n] : w.n * of->ids_per_sample;
            int64_t *ids = (int64_t *)(size_t)of->ids;
            for (int64_t i = 0; i < n_ids; i++) ids[i] %= 33; /* the least rows of all tables */
            if (batch % 2) ids[n_ids / 2] = INT64_MIN;
            if (f != 1 && f != 3 && f != 5) w.ids[f] = rearrange_ids(&w, of, (f + batch) % 4 < 2);
        }
        route_twins(&w, true);
        look_up_twins(&w, true, true);
        apply_twins(&w);
        memcpy(w.ids, own, sizeof own);
    }
    compare_tables(&w, true);
    close_twins(&w);
}

static void test_strict_features(void **state) {
    (void)state;
    rk_feature_config strict[] = {FEATURE("a", "sixteen", MEAN, 0), FEATURE("b", "sixteen", SUM, 3)};
    strict[0].skip_validation = strict[1].skip_validation = true;
    rk_embeddings_config c = config;
    c.features = strict;
    c.n_features = 2;
    shape shapes[2] = {{.most = 4, .weighted = true}, {.most = 6}};
    twins w;
    open_twins(&w, &c, shapes, 30, 0);
    step_twins(&w, 30, true);
    draw_ids(&w, 30);
    int64_t *ids = (int64_t *)(size_t)w.ids[1].ids;
    ids[w.ids[1].offsets[10]] = -2;
    int64_t first = 10;
    while (w.ids[1].offsets[first] == w.ids[1].offsets[first + 1]) first++;
    char message[200];
    snprintf(
        message, sizeof message,
        "feature 'b': sample %lld: id -2 is negative\nhint: to drop negative ids instead, turn validation on",
        (long long)first);
    check_refusal(&w, RK_BAD_DATA, message);
    ((float *)(size_t)w.ids[0].weights)[0] = 0;
    first = 0;
    while (w.ids[0].offsets[first + 1] == 0) first++;
    snprintf(message, sizeof message,
             "feature 'a': sample %lld: the weight 0 of id %lld is not above 0\nhint: to drop such ids "
             "instead, turn validation on",
             (long long)first, (long long)w.ids[0].ids[0]);
    check_refusal(&w, RK_BAD_DATA, message);
    close_twins(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense_ids),
        cmocka_unit_test(test_bags),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_long_bags),
        cmocka_unit_test(test_refused_ids),
        cmocka_unit_test(test_shared_ids),
        cmocka_unit_test(test_shared_ids_in_other_bags),
        cmocka_unit_test(test_strict_features),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
