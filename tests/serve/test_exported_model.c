/* An export as a model that predicts, and a run whose rows are rounded as an export's: the same bits. */
#include "export/export_directory.h"

#include <reckon/reckon.h>

enum { N = 100 };

static rk_status take(void *user, int64_t row, const float *predictions, const float *labels) {
    (void)labels;
    ((float *)user)[row] = predictions[0];
    return RK_OK;
}

/* Predictions for the training data, and the metrics' first. */
static void predict(const char *path, rk_export_rows rows, float predictions[N], double *metric) {
    rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
    rk_predictor *predictor;
    const rk_metric *metrics;
    int32_t n_metrics;
    int64_t n_rows;
    options.rows = rows;
    OK(rk_predictor_open(path_of(path), &options, &predictor));
    OK(rk_predictor_file(predictor, path_of("data.csv"), take, predictions));
    OK(rk_predictor_evaluate(predictor, path_of("data.csv"), &metrics, &n_metrics, &n_rows));
    assert_int_equal(n_rows, N);
    assert_true(n_metrics > 0);
    *metric = metrics[0].value;
    rk_predictor_free(predictor);
}

static void check_same(const char *path, rk_export_rows rows, const char *other, rk_export_rows other_rows) {
    float a[N], b[N];
    double x, y;
    predict(path, rows, a, &x);
    predict(other, other_rows, b, &y);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(&x, &y, sizeof x);
}

static void export_as(rk_export_rows rows, uint64_t shard_bytes, const char *name) {
    rk_export_options options = RK_EXPORT_OPTIONS_INIT;
    options.rows = rows;
    options.shard_bytes = shard_bytes;
    OK(rk_export_safetensors(path_of("run"), &options, path_of(name)));
}

static void test_exports(void **state) {
    (void)state;
    export_as(RK_EXPORT_ROWS_TRAINED, 0, "whole");
    export_as(RK_EXPORT_ROWS_TRAINED, 2000, "files");
    check_same("run", RK_EXPORT_ROWS_TRAINED, "whole", RK_EXPORT_ROWS_TRAINED);
    check_same("run", RK_EXPORT_ROWS_TRAINED, "files", RK_EXPORT_ROWS_TRAINED);
    check_same("run", RK_EXPORT_ROWS_TRAINED, "run", RK_EXPORT_ROWS_F32);
    check_same("run", RK_EXPORT_ROWS_INT4, "files", RK_EXPORT_ROWS_INT4);
}

static void test_rows(void **state) {
    (void)state;
    static const char *const names[] = {"f32", "f16", "bf16", "int8", "int4"};
    float trained[N], rounded[N];
    double metric;
    predict("run", RK_EXPORT_ROWS_TRAINED, trained, &metric);
    for (int rows = RK_EXPORT_ROWS_F32; rows <= RK_EXPORT_ROWS_INT4; rows++) {
        const char *name = names[rows - RK_EXPORT_ROWS_F32];
        export_as((rk_export_rows)rows, 0, name);
        check_same("run", (rk_export_rows)rows, name, RK_EXPORT_ROWS_TRAINED);
        predict(name, RK_EXPORT_ROWS_TRAINED, rounded, &metric);
        assert_int_equal(memcmp(trained, rounded, sizeof trained) == 0, rows == RK_EXPORT_ROWS_F32);
    }
}

static void fails(const char *path, rk_status status, const char *message) {
    rk_predictor *predictor;
    assert_int_equal(rk_predictor_open(path_of(path), NULL, &predictor), status);
    if (!strstr(rk_last_error(), message)) fail_msg("%s: %s", path, rk_last_error());
}

/* A file of an export, changed: every `from` is `to`, of the same length. */
static void change(const char *path, const char *from, const char *to) {
    char *text;
    size_t n_bytes, n = strlen(from);
    OK(rk_file_read(path_of(path), &text, &n_bytes));
    assert_int_equal(n, strlen(to));
    size_t found = 0;
    for (char *at = text; (at = memmem(at, n_bytes - (size_t)(at - text), from, n)); found++)
        memcpy(at, to, n);
    assert_true(found > 0);
    OK(rk_file_write(path_of(path), text, n_bytes));
    rk_free(text);
}

static void test_damaged(void **state) {
    (void)state;
    rk_export_options options = RK_EXPORT_OPTIONS_INIT;
    rk_text_list names = {0};
    char file[100];
    options.no_tables = true;
    OK(rk_export_safetensors(path_of("run"), &options, path_of("dense")));
    fails("dense", RK_CONFIG, "there is no tensor 'table/");
    export_as(RK_EXPORT_ROWS_INT8, 0, "damaged");
    change("damaged/model.safetensors", "fbgemm_fused_8bit_rowwise", "fbgemm_fused_9bit_rowwise");
    fails("damaged", RK_UNSUPPORTED, "unknown format of rows 'fbgemm_fused_9bit_rowwise'");
    change("damaged/model.safetensors", "fbgemm_fused_9bit_rowwise", "fbgemm_fused_4bit_rowwise");
    fails("damaged", RK_BAD_DATA, "do not have this shape");
    export_as(RK_EXPORT_ROWS_TRAINED, 0, "renamed");
    change("renamed/model.safetensors", "embeddings.w.weight", "embeddings.u.weight");
    fails("renamed", RK_CONFIG, "there is no tensor 'table/w/rows'");
    change("renamed/model.safetensors", "embeddings.u.weight", "embeddings.w.height");
    fails("renamed", RK_CONFIG, "there is no tensor 'table/w/rows'");
    export_as(RK_EXPORT_ROWS_TRAINED, 2000, "index");
    OK(rk_list_directory(path_of("index"), &names));
    size_t second = 0;
    while (second < names.n && !strstr(names.texts[second], "model-00002-of-")) second++;
    assert_true(second < names.n);
    snprintf(file, sizeof file, "index/%s", names.texts[second]);
    OK(rk_remove_tree(path_of(file)));
    fails("index", RK_NOT_FOUND, "' could not be opened");
    rk_text_list_release(&names);
    change("index/model.safetensors.index.json", "\"model-00002", "\"/odel-00002");
    fails("index", RK_BAD_DATA, "is not the name of one");
    change("index/model.safetensors.index.json", "weight_map", "weight_mop");
    fails("index", RK_BAD_DATA, "has no object 'weight_map'");
}

/* Wherever memory is out, nothing is kept. */
static void test_failures(void **state) {
    (void)state;
    long live = rk_alloc_live();
    export_as(RK_EXPORT_ROWS_INT8, 2000, "codes");
    for (const char *const *path = (const char *const[]){"run", "codes", NULL}; *path; path++) {
        rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
        rk_predictor *predictor;
        rk_status status = RK_NO_MEMORY;
        options.rows = RK_EXPORT_ROWS_INT4;
        for (long countdown = 1; status != RK_OK; countdown++) {
            rk_alloc_fail_after(countdown, false);
            status = rk_predictor_open(path_of(*path), &options, &predictor);
            rk_alloc_fail_after(0, false);
        }
        rk_predictor_free(predictor);
        assert_int_equal(rk_alloc_live(), live);
    }
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(directory)) return -1;
    make_usual_run();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    OK(rk_remove_tree(directory));
    return rk_alloc_live() == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exports), cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_damaged), cmocka_unit_test(test_failures)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
