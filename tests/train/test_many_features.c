/* Thousands of features by patterns: configuration, tables, training steps, and that the cost does not grow
 * with their square. */
#include "testing.h"

#include <time.h>

#include <reckon/reckon.h>

#include "base/memory.h"
#include "embedding/local/collection.h"
#include "train/config/run_config.h"

enum { N_ROWS = 64 };

static void write_data(const char *path, int n_categorical, int n_numeric) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "click,weight");
    for (int f = 0; f < n_categorical; f++) fprintf(file, ",cat_%d", f);
    for (int f = 0; f < n_numeric; f++) fprintf(file, ",num_%d", f);
    for (int row = 0; row < N_ROWS; row++) {
        fprintf(file, "\n%d,1", row % 3 == 0);
        for (int f = 0; f < n_categorical; f++) fprintf(file, ",%d", (row * 7 + f) % 50);
        for (int f = 0; f < n_numeric; f++) fprintf(file, ",%.2f", (row * 13 + f) % 100 / 50.0);
    }
    fprintf(file, "\n");
    fclose(file);
}

static const char text[] =
    "data:\n"
    "  train: many.csv\n"
    "  shuffle: false\n"
    "  features:\n"
    "    - {match: 'num_*', dense: true, log1p: true}\n"
    "    - {name: cat_3, identity: 50}\n"
    "    - {match: '*_*', hash: 100}\n"
    "  labels: [{name: click}]\n"
    "  sample_weight: weight\n"
    "embedding:\n"
    "  dim: 4\n"
    "  features: [{match: 'cat_1?', table: shared}, {name: cat_11, table: cat_50}, {match: 'cat_2?', "
    "combiner: sum}]\n"
    "  tables: [{name: shared}, {match: 'cat_4*', dim: 8}, {name: cat_41, dim: 2}]\n"
    "model: {kind: dnn, deep: [16]}\n"
    "train: {batch_size: 32}\n";

typedef struct built {
    rk_config *config;
    rk_dataset *dataset;
    rk_model *model;
} built;

static void build(const char *run, built *out) {
    OK(rk_config_parse(run, "run.yaml", NULL, NULL, 0, &out->config));
    OK(rk_config_expand_patterns(out->config));
    OK(rk_dataset_open(out->config, "train", &out->dataset));
    OK(rk_model_create(out->config, out->dataset, &out->model));
}

static double train(built *b) {
    const rk_batch *batch;
    double loss = 0;
    while (rk_dataset_next(b->dataset, &batch) == RK_OK) OK(rk_model_train(b->model, batch, &loss));
    return loss;
}

static void release(built *b) {
    rk_model_free(b->model);
    rk_dataset_free(b->dataset);
    rk_config_free(b->config);
}

static int32_t dim_of(const built *b, const char *table) {
    rk_embeddings *e = rk_model_embeddings(b->model);
    for (int32_t t = 0; t < rk_embeddings_n_tables(e); t++)
        if (strcmp(rk_embeddings_table_config(e, t)->name, table) == 0)
            return rk_embeddings_table_config(e, t)->dim;
    return 0;
}

/* Explicit entries before patterns, patterns in the file's order, features in the columns'; the written
 * configuration means the same. */
static void test_patterns(void **state) {
    (void)state;
    built b, again;
    char *resolved, *twice;
    write_data("many.csv", 60, 5);
    build(strstr(text, "data:"), &b);
    const rk_data_section *data = &b.config->data;
    assert_int_equal(data->n_features, 65);
    for (int f = 0; f < 5; f++)
        assert_true(data->features[f].dense && data->features[f].log1p &&
                    data->features[f].name[4] == '0' + f);
    assert_string_equal(data->features[5].name, "cat_3");
    assert_int_equal(data->features[5].identity, 50);
    assert_string_equal(data->features[6].name, "cat_0");
    assert_string_equal(data->features[9].name, "cat_4");
    assert_int_equal(data->features[9].hash, 100);
    assert_int_equal(dim_of(&b, "cat_0"), 4);
    assert_int_equal(dim_of(&b, "cat_4"), 8);
    assert_int_equal(dim_of(&b, "cat_45"), 8);
    assert_int_equal(dim_of(&b, "cat_41"), 2);
    assert_int_equal(dim_of(&b, "shared"), 4);
    assert_int_equal(dim_of(&b, "cat_13"), 0); /* in shared */
    OK(rk_config_to_yaml(b.config, &resolved));
    assert_null(strstr(resolved, "num_*"));
    build(resolved, &again);
    OK(rk_config_to_yaml(again.config, &twice));
    assert_string_equal(twice, resolved);
    assert_true(train(&b) == train(&again));
    rk_text_free(resolved);
    rk_text_free(twice);
    release(&b);
    release(&again);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_refusals(void **state) {
    (void)state;
    write_data("many.csv", 6, 2);
    static const struct {
        const char *features, *embedding, *message;
    } cases[] = {
        {"{match: 'cat-0', hash: 10}", "",
         "run.yaml:1: key 'match': no column matches 'cat-0'\nhint: the nearest column is 'cat_0'"},
        {"{match: 'nothing*', hash: 10}", "",
         "run.yaml:1: key 'match': no column matches 'nothing*'\nhint: the first of 10 columns is 'click'"},
        {"{match: 'cat_*', name: x, hash: 10}", "",
         "run.yaml:1: 'x': a feature has a 'name' or a 'match', not both\nhint: a feature of a pattern has "
         "its column's name"},
        {"{hash: 10}", "",
         "run.yaml:1: 'features': a feature needs a 'name', or 'match' for a pattern of columns"},
        {"{match: 'cat_*', column: x, hash: 10}", "",
         "run.yaml:1: 'cat_*': column and cross belong to features with a name"},
        {"{match: 'cat_*'}", "",
         "run.yaml:1: 'cat_*': a feature needs a kind\nhint: give one of hash, identity, vocabulary, key, "
         "bucketize, quantiles, cross (with hash), dense"},
        {"{match: 'cat_*', hash: 10}, {name: x, cross: [cat_1, cat_9], hash: 10}", "",
         "run.yaml:1: 'x': there is no feature 'cat_9' to cross\nhint: did you mean 'cat_0'?"},
        {"{match: 'cat_*', hash: 10}", "features: [{match: 'dog_*', combiner: sum}]",
         "run.yaml:2: key 'match': no categorical feature matches 'dog_*'"},
        {"{match: 'cat_*', hash: 10}", "features: [{combiner: sum}]",
         "run.yaml:2: key 'name': an entry needs a 'name', or 'match' for a pattern of names"},
        {"{match: 'cat_*', hash: 10}", "tables: [{match: 'cat_9*', dim: 3}]",
         "run.yaml:2: key 'match': no feature uses a table like 'cat_9*'\nhint: did you mean 'cat_0'?"},
        {"{match: 'cat_*', hash: 10}", "tables: [{match: 'cat_*', name: cat_1}]",
         "run.yaml:2: key 'match': an entry has a 'name' or a 'match', not both"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char run[1024];
        snprintf(run, sizeof run,
                 "data: {train: many.csv, features: [%s], labels: [{name: click}], sample_weight: "
                 "weight}\nembedding: {dim: 2, %s}\nmodel: dnn\n",
                 cases[i].features, cases[i].embedding);
        built b = {0};
        rk_status status = rk_config_parse(run, "run.yaml", NULL, NULL, 0, &b.config);
        if (status == RK_OK) status = rk_dataset_open(b.config, "train", &b.dataset);
        if (status == RK_OK) status = rk_model_create(b.config, b.dataset, &b.model);
        FAILS(status, RK_CONFIG, cases[i].message);
        release(&b);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

static char warnings[2000];

static void keep_warning(void *user, rk_log_level level, const char *message) {
    (void)user;
    if (level == RK_LOG_WARNING)
        snprintf(warnings + strlen(warnings), sizeof warnings - strlen(warnings), "%s;", message);
}

/* What a pattern leaves out is said, but for a column with an entry of its own. */
static void test_left_out(void **state) {
    (void)state;
    static const struct {
        const char *features, *warnings;
    } cases[] = {
        {"{match: 'cat_*', hash: 10}, {name: cat_1, hash: 5}, {name: x, column: num_1, dense: true}", ""},
        {"{match: 'cat_*', hash: 10}, {name: cat_1, hash: 5}, {name: x, column: cat_1, hash: 5}", ""},
        {"{match: 'cat_*', hash: 10}, {name: x, column: cat_1, hash: 5}",
         "match: 'cat_*' skips the column 'cat_1', because of the feature 'x'\nhint: to make it "
         "a feature too, add an entry: {name: ..., column: cat_1, ...};"},
        {"{match: 'cat_*', hash: 10}, {name: cat_1, column: cat_0, hash: 5}, {name: cat_0, hash: 5}",
         "match: 'cat_*' skips the column 'cat_1', because of the feature 'cat_1'\nhint: to "
         "make it a feature too, add an entry: {name: ..., column: cat_1, ...};"},
    };
    write_data("many.csv", 6, 2);
    rk_log_set(keep_warning, NULL, RK_LOG_WARNING);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char run[1024];
        rk_config *config;
        warnings[0] = 0;
        snprintf(run, sizeof run,
                 "data: {train: many.csv, features: [%s], labels: [{name: click}], sample_weight: "
                 "weight}\nmodel: dnn\n",
                 cases[i].features);
        OK(rk_config_parse(run, "run.yaml", NULL, NULL, 0, &config));
        OK(rk_config_expand_patterns(config));
        rk_config_free(config);
        assert_string_equal(warnings, cases[i].warnings);
    }
    rk_log_set(NULL, NULL, RK_LOG_WARNING);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Times are told, not judged: they are for who looks. */
static void test_many(void **state) {
    (void)state;
    for (int n = 500; n <= 2000; n *= 2) {
        built b;
        write_data("many.csv", n * 3 / 4, n / 4);
        double begin = seconds();
        build(text, &b);
        double made = seconds();
        double loss = train(&b);
        double trained = seconds(), bytes = (double)rk_embeddings_bytes(rk_model_embeddings(b.model));
        assert_true(loss > 0 && loss < 10);
        assert_int_equal(b.config->data.n_features, n);
        print_message(
            "%d features: built in %.3f s of processor time, %d steps in %.3f s, %.1f MB of tables\n", n,
            made - begin, N_ROWS / 32, trained - made, bytes / 1e6);
        release(&b);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

static rk_status expand_and_free(void) {
    rk_config *config;
    RK_TRY(rk_config_parse(text, "run.yaml", NULL, NULL, 0, &config));
    rk_status status = rk_config_expand_patterns(config);
    rk_config_free(config);
    return status;
}

static void test_no_memory(void **state) {
    (void)state;
    write_data("many.csv", 6, 2);
    long before = rk_alloc_live();
    rk_status status;
    int n = 0;
    do {
        rk_alloc_fail_after(++n, true);
        status = expand_and_free();
        rk_alloc_fail_after(0, false);
        if (status != RK_OK && status != RK_NO_MEMORY) fail_msg("allocation %d: %s", n, rk_last_error());
        assert_int_equal(rk_alloc_live(), before);
    } while (status != RK_OK);
    assert_true(n > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_patterns), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_left_out), cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
