/* Rows that stay in an export's files: the bits of rows in memory, in every format and layout, for bags with
 * weights, sequences, shared tables and a two_tower; in less memory than the rows would take; files that are
 * cut, renamed and removed. */
#include "serve/session_files.h"

#include "memory_limit.h"
#include "model/model.h"

#define ONE_LABEL "labels: [{name: rating, loss: mse}]"
#define BAGS \
    ONE_LABEL ", features: [" FEATURES ", {name: tags_twice, column: tags, identity: 30, separator: ' '}]"
#define TABLES                                                                                               \
    "embedding: {dim: 16, tables: [{name: user, dim: 12}, {name: tags, dim: 33, dtype: bf16}, {name: item, " \
    "dim: 32}], features: [{name: history, table: item, max_sequence_length: 3}, {name: tags, combiner: "    \
    "sqrtn}, {name: tags_twice, table: tags, combiner: mean}, {name: item, combiner: sum}]}"
#define WIDE_DEEP "model: {kind: wide_deep, deep: [8]}\n" TABLES
#define PAIR      PAIRS_OF("50")

/* Tables that met more keys than they hold, and keys that they did not admit; one with a row for those; ids
 * of another kind as keys; and the tables of single weights. */
#define KEYS                                                                                      \
    ONE_LABEL                                                                                     \
    ", features: [{name: user, key: true}, {name: tags, key: true, separator: ' ', weights: w}, " \
    "{name: item, key: true, separator: ' '}, {name: history, key: true, separator: ' '}, "       \
    "{name: target, identity: 50}, {name: x0, dense: true}]"
#define KEY_TABLES                                                                                       \
    "model: {kind: wide_deep, deep: [8]}\nembedding: {dim: 16, tables: ["                                \
    "{name: user, max_capacity: 25, dim: 12, missing: oov, admission: {min_count: 3}}, "                 \
    "{name: tags, max_capacity: 40, buckets: 3, dim: 33, dtype: bf16}, "                                 \
    "{name: item, max_capacity: 30, buckets: 4, eviction: lfu}, "                                        \
    "{name: target, max_capacity: 50, admission: {probability: 0.5}}], features: ["                      \
    "{name: history, table: item, max_sequence_length: 3}, {name: tags, combiner: sqrtn}, {name: item, " \
    "combiner: mean}]}"

typedef rk_status export_function(const char *path, const rk_export_options *options, const char *directory);

static void export_run(export_function *export, rk_export_rows rows, uint64_t shard_bytes) {
    rk_export_options options = RK_EXPORT_OPTIONS_INIT;
    char run[340];
    options.rows = rows;
    options.shard_bytes = shard_bytes;
    OK(rk_remove_tree(path_of("export")));
    snprintf(run, sizeof run, "%s", path_of("run"));
    OK(export(run, &options, path_of("export")));
}

static rk_status try_open(const char *name, rk_export_rows rows, rk_rows_in rows_in, rk_predictor **out) {
    rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
    options.rows = rows;
    options.rows_in = rows_in;
    return rk_predictor_open(path_of(name), &options, out);
}

static rk_predictor *open_as(const char *name, rk_export_rows rows) {
    rk_predictor *predictor;
    OK(try_open(name, rows, RK_ROWS_IN_FILES, &predictor));
    return predictor;
}

/* Whether this process has mapped a file of the export. */
static bool is_mapped(void) {
    char line[1000], name[400];
    bool found = false;
    FILE *file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    snprintf(name, sizeof name, "%s", path_of("export/model"));
    while (fgets(line, sizeof line, file)) found |= strstr(line, name) != NULL;
    fclose(file);
    return found;
}

/* Of a file, and of rows in memory by a session. */
static void predict(rk_predictor *predictor, file_predictions *out) {
    static file_predictions by_session;
    rk_session *session;
    memory_rows rows;
    predict_file(predictor, out);
    take_rows(&rows, 0, N_ROWS);
    OK(rk_session_create(predictor, NULL, &session));
    OK(rk_session_run(session, &rows.table.schema, &rows.table.array, by_session.values));
    assert_memory_equal(by_session.values, out->values, N_ROWS * sizeof(float));
    rk_session_free(session);
}

/* An export's rows where they are, and the run's as such an export rounds them, in memory. */
static void check_same(rk_export_rows rows) {
    static file_predictions here, there;
    rk_predictor *mapped = open_as("export", RK_EXPORT_ROWS_TRAINED), *run = open_as("run", rows);
    assert_true(is_mapped());
    predict(mapped, &here);
    predict(run, &there);
    assert_memory_equal(here.values, there.values, sizeof here.values);
    rk_predictor_free(mapped);
    OK(try_open("export", RK_EXPORT_ROWS_TRAINED, RK_ROWS_IN_MEMORY, &mapped));
    assert_false(is_mapped());
    predict(mapped, &there);
    assert_memory_equal(here.values, there.values, sizeof here.values);
    rk_predictor_free(mapped);
    rk_predictor_free(run);
}

static void check_formats(void) {
    for (int rows = RK_EXPORT_ROWS_TRAINED; rows <= RK_EXPORT_ROWS_INT4; rows++) {
        export_run(rk_export_safetensors, (rk_export_rows)rows, 0);
        check_same((rk_export_rows)rows);
        export_run(rk_export_safetensors, (rk_export_rows)rows, 3000);
        check_same((rk_export_rows)rows);
        export_run(rk_export_onnx, (rk_export_rows)rows, 0); /* codes, scales and least values apart */
        check_same((rk_export_rows)rows);
    }
}

static void test_formats(void **state) {
    (void)state;
    train(BAGS, WIDE_DEEP);
    check_formats();
}

/* Keys that have rows, and those that have none. */
static void test_keys(void **state) {
    (void)state;
    static file_predictions trained;
    rk_predictor *run;
    train(KEYS, KEY_TABLES);
    check_formats();
    run = open_as("run", RK_EXPORT_ROWS_TRAINED);
    predict_file(run, &trained);
    rk_key_counts counts = rk_model_key_counts(rk_predictor_model(run));
    assert_true(counts.n_missing > 0 && counts.n_rows > 100);
    rk_predictor_free(run);
}

/* Rows that keys share by their hash. */
static void test_cold_rows(void **state) {
    (void)state;
    train(KEYS,
          "model: {kind: wide_deep, deep: [8]}\nembedding: {dim: 16, tables: ["
          "{name: user, max_capacity: 25, missing: {hash: 9}, admission: {min_count: 3}}, "
          "{name: tags, max_capacity: 40, buckets: 3, missing: {hash: 7}, dtype: bf16, admission: "
          "{min_count: 2}}, {name: item, max_capacity: 1, missing: {hash: 1}}], "
          "features: [{name: history, table: item}]}");
    check_formats();
}

typedef struct vectors {
    float users[N_ROWS * 8], items[50 * 8];
} vectors;

static void take_vectors(rk_predictor *predictor, vectors *out) {
    rk_session *session;
    memory_rows rows;
    OK(rk_session_create(predictor, NULL, &session));
    assert_int_equal(rk_session_vector_dim(session), 8);
    take_rows(&rows, 0, N_ROWS);
    OK(rk_session_user_vectors(session, &rows.table.schema, &rows.table.array, out->users));
    OK(rk_session_item_vectors(session, 0, 50, out->items));
    rk_session_free(session);
    rk_predictor_free(predictor);
}

static void test_two_tower(void **state) {
    (void)state;
    static vectors here, there;
    assert_int_equal(chdir(directory), 0); /* where an export's run file finds the pairs */
    train(PAIR, TWO_TOWER("16"));
    for (int rows = RK_EXPORT_ROWS_TRAINED; rows <= RK_EXPORT_ROWS_INT4; rows++) {
        export_run(rk_export_safetensors, (rk_export_rows)rows, 0);
        take_vectors(open_as("export", RK_EXPORT_ROWS_TRAINED), &here);
        take_vectors(open_as("run", (rk_export_rows)rows), &there);
        assert_memory_equal(&here, &there, sizeof here);
    }
}

/* Rows read one by one are those of the lookups; nobody writes to them, and parameters show them. */
static void test_only_read(void **state) {
    (void)state;
    static float rows[50 * 32], expected[50 * 32];
    const rk_model_parameter *parameters;
    int32_t n;
    train(BAGS, WIDE_DEEP);
    export_run(rk_export_safetensors, RK_EXPORT_ROWS_INT8, 0);
    rk_predictor *mapped = open_as("export", RK_EXPORT_ROWS_TRAINED),
                 *run = open_as("run", RK_EXPORT_ROWS_INT8);
    rk_embeddings *e = rk_model_embeddings(rk_predictor_model(mapped));
    OK(rk_embeddings_read_rows(e, "item", 0, 50, rows));
    OK(rk_embeddings_read_rows(rk_model_embeddings(rk_predictor_model(run)), "item", 0, 50, expected));
    assert_memory_equal(rows, expected, sizeof rows);
    assert_int_equal(rk_embeddings_write_rows(e, "item", 0, 1, rows), RK_UNSUPPORTED);
    assert_non_null(strstr(rk_last_error(), "table 'item'"));
    OK(rk_model_parameters(rk_predictor_model(mapped), &parameters, &n));
    int32_t found = 0;
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(parameters[i].name, "table/item/rows") != 0) continue;
        found++;
        assert_int_equal(parameters[i].kind, RK_PARAMETER_TABLE);
        assert_int_equal(parameters[i].tensor.dtype, RK_U8);
        assert_int_equal(parameters[i].tensor.shape[1], 32 + 8);
    }
    assert_int_equal(found, 1);
    rk_predictor_free(mapped);
    rk_predictor_free(run);
}

/* 38 MB in f32, 12 MB as codes. */
static void test_memory(void **state) {
    (void)state;
    static file_predictions here, there;
    rk_predictor *predictor;
    train(ONE_LABEL ", features: [{name: user, identity: 300000}]",
          "model: {kind: dnn, deep: [8]}\nembedding: {dim: 32, optimizer: {kind: sgd}}");
    export_run(rk_export_safetensors, RK_EXPORT_ROWS_INT8, 0);
    limit_memory(24 << 20);
    assert_int_equal(try_open("export", RK_EXPORT_ROWS_TRAINED, RK_ROWS_IN_MEMORY, &predictor),
                     LIMITS_MEMORY ? RK_NO_MEMORY : RK_OK);
    if (!LIMITS_MEMORY) rk_predictor_free(predictor);
    predictor = open_as("export", RK_EXPORT_ROWS_TRAINED);
    predict(predictor, &here);
    rk_predictor_free(predictor);
    unlimit_memory();
    predictor = open_as("run", RK_EXPORT_ROWS_INT8);
    predict(predictor, &there);
    rk_predictor_free(predictor);
    assert_memory_equal(here.values, there.values, sizeof here.values);
}

static void cut_file(const char *name, long by) {
    char file[400];
    uint64_t n_bytes;
    snprintf(file, sizeof file, "%s", path_of(name));
    OK(rk_file_size(file, &n_bytes));
    assert_int_equal(truncate(file, (off_t)n_bytes - by), 0);
}

/* The header a byte longer: no value is aligned. */
static void shift_file(const char *name) {
    char file[400], *text, *longer;
    size_t n_bytes;
    uint64_t n_header;
    snprintf(file, sizeof file, "%s", path_of(name));
    OK(rk_file_read(file, &text, &n_bytes));
    OK(rk_alloc(n_bytes + 1, 1, &longer));
    memcpy(&n_header, text, 8);
    size_t end = 8 + (size_t)n_header++;
    memcpy(longer, &n_header, 8);
    memcpy(longer + 8, text + 8, end - 8);
    longer[end] = ' ';
    memcpy(longer + end + 1, text + end, n_bytes - end);
    OK(rk_file_write(file, longer, n_bytes + 1));
    rk_free(text);
    rk_free(longer);
}

static void test_files(void **state) {
    (void)state;
    static file_predictions before, after;
    rk_predictor *predictor;
    train(BAGS, WIDE_DEEP);
    export_run(rk_export_safetensors, RK_EXPORT_ROWS_F32, 0);
    predictor = open_as("export", RK_EXPORT_ROWS_TRAINED);
    predict(predictor, &before);
    shift_file("export/model.safetensors"); /* by a rename: the predictor has the old one */
    predict(predictor, &after);
    assert_memory_equal(before.values, after.values, sizeof before.values);
    OK(rk_remove_tree(path_of("export")));
    predict(predictor, &after);
    assert_memory_equal(before.values, after.values, sizeof before.values);
    rk_predictor_free(predictor);

    export_run(rk_export_safetensors, RK_EXPORT_ROWS_F32, 0);
    shift_file("export/model.safetensors");
    predictor = open_as("export", RK_EXPORT_ROWS_TRAINED);
    assert_false(is_mapped());
    predict(predictor, &after);
    assert_memory_equal(before.values, after.values, sizeof before.values);
    rk_predictor_free(predictor);

    cut_file("export/model.safetensors", 1);
    assert_int_equal(try_open("export", RK_EXPORT_ROWS_TRAINED, RK_ROWS_IN_FILES, &predictor), RK_BAD_DATA);
}

/* Wherever memory is out, nothing is kept. */
static void test_no_memory(void **state) {
    (void)state;
    rk_predictor *predictor;
    rk_status status = RK_NO_MEMORY;
    train(BAGS, WIDE_DEEP);
    export_run(rk_export_onnx, RK_EXPORT_ROWS_INT8, 3000);
    long live = rk_alloc_live();
    for (long countdown = 1; status != RK_OK; countdown++) {
        rk_alloc_fail_after(countdown, false);
        status = try_open("export", RK_EXPORT_ROWS_TRAINED, RK_ROWS_IN_FILES, &predictor);
        rk_alloc_fail_after(0, false);
        assert_true(status == RK_OK || status == RK_NO_MEMORY);
        if (status != RK_OK) assert_int_equal(rk_alloc_live(), live);
    }
    rk_predictor_free(predictor);
    assert_int_equal(rk_alloc_live(), live);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formats),   cmocka_unit_test(test_keys),
                                       cmocka_unit_test(test_cold_rows), cmocka_unit_test(test_two_tower),
                                       cmocka_unit_test(test_only_read), cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_files),     cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
