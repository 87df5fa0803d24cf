/* Checkpoints whose parameters are no numbers, with checksums that fit: what uses them says so and gives no
 * such number away. */
#include "testing.h"

#include <math.h>
#include <unistd.h>

#include <inttypes.h>
#include <reckon/reckon.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"

static char directory[] = "/tmp/reckon-finite-XXXXXX";

static char *path_of(const char *name) {
    static char paths[4][400];
    static int at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static void make_run(void) {
    static const char *const run =
        "data: {train: data.csv, valid: data.csv, labels: [{name: y}], features: [{name: w, identity: 10}, "
        "{name: x, dense: true}]}\n"
        "embedding: {dim: 2}\nmodel: fm\ntrain: {batch_size: 10, epochs: 1, output: %s/run}\n";
    char text[800], rows[2000] = "w,x,y\n";
    rk_config *config;
    rk_trainer *trainer;
    for (int i = 0; i < 50; i++) sprintf(rows + strlen(rows), "%d,%d.5,%d\n", i % 10, i % 3, i % 2);
    OK(rk_file_write(path_of("data.csv"), rows, strlen(rows)));
    snprintf(text, sizeof text, run, directory);
    OK(rk_config_parse(text, "run.yaml", directory, NULL, 0, &config));
    OK(rk_trainer_create(config, NULL, &trainer));
    OK(rk_trainer_run(trainer));
    rk_trainer_free(trainer);
    rk_config_free(config);
}

/* The number behind the first `key` after `from`, and where it stands. */
static char *number_after(char *from, const char *key) {
    char *at = strstr(from, key);
    assert_non_null(at);
    at += strlen(key);
    return at + strspn(at, " :[");
}

/* All of a tensor's numbers become x, and the checksums fit. */
static void spoil(const char *checkpoint, const char *tensor, float x) {
    char path[600], manifest_path[600], *data, *manifest, *text;
    size_t n, n_manifest;
    snprintf(path, sizeof path, "%s/model-00001.safetensors", checkpoint);
    snprintf(manifest_path, sizeof manifest_path, "%s/manifest.json", checkpoint);
    OK(rk_file_read(path, &data, &n));
    uint64_t n_header;
    memcpy(&n_header, data, sizeof n_header);
    char *offsets = number_after(number_after(data + 8, tensor), "\"data_offsets\"");
    size_t begin = strtoull(offsets, &offsets, 10),
           end = strtoull(offsets + 1 + strspn(offsets + 1, " "), NULL, 10);
    assert_true(begin < end);
    for (char *at = data + 8 + n_header + begin; at < data + 8 + n_header + end; at += sizeof x)
        memcpy(at, &x, sizeof x);
    OK(rk_file_write(path, data, n));
    OK(rk_file_read(manifest_path, &manifest, &n_manifest));
    char *crc = number_after(number_after(manifest, "\"model-00001.safetensors\""), "\"crc32c\""), *rest;
    strtoull(crc, &rest, 10);
    *strstr(rest, "\ncrc32c ") = 0;
    assert_true(asprintf(&text, "%.*s%" PRIu32 "%s", (int)(crc - manifest), manifest, rk_crc32c(0, data, n),
                         rest) > 0);
    rk_free(manifest);
    assert_true(asprintf(&manifest, "%s\ncrc32c %08" PRIx32 "\n", text, rk_crc32c(0, text, strlen(text))) >
                0);
    OK(rk_file_write(manifest_path, manifest, strlen(manifest)));
    free(text);
    free(manifest);
    rk_free(data);
}

static rk_status count_row(void *user, int64_t row, const float *predictions, const float *labels) {
    (void)row;
    (void)labels;
    assert_true(isfinite(predictions[0]));
    ++*(int *)user;
    return RK_OK;
}

static void check_refused(const char *tensor, float x) {
    rk_predictor *predictor;
    const rk_metric *metrics;
    int32_t n_metrics;
    int64_t n_rows;
    char *checkpoint;
    int n_shown = 0;
    make_run();
    OK(rk_checkpoint_find(path_of("run"), &checkpoint));
    spoil(checkpoint, tensor, x);
    OK(rk_checkpoint_verify(checkpoint));
    OK(rk_predictor_open(path_of("run"), NULL, &predictor));
    assert_int_equal(rk_predictor_evaluate(predictor, "valid", &metrics, &n_metrics, &n_rows), RK_NOT_FINITE);
    assert_non_null(strstr(rk_last_error(), "'valid': 'y': row 0: the prediction is "));
    FAILS(rk_predictor_file(predictor, path_of("data.csv"), count_row, &n_shown), RK_NOT_FINITE,
          "row 0: the prediction of 'y' is not finite\nhint: parameters of the checkpoint or values of the "
          "row are too large, or not finite");
    assert_int_equal(n_shown, 0);
    rk_session *session;
    float predictions[] = {-1, -1};
    const int64_t ids[] = {0, 1};
    const rk_ids w = {.ids_per_sample = 1, .ids = ids};
    const float numbers[] = {0.5, 1.5};
    const rk_batch batch = {
        .n = 2, .n_dense = 1, .n_features = 1, .dense = numbers, .features = &w, .first_row = 7};
    OK(rk_session_create(predictor, NULL, &session));
    assert_int_equal(rk_session_run_batch(session, &batch, predictions), RK_NOT_FINITE);
    assert_non_null(strstr(rk_last_error(), "row 7: the prediction of 'y' is not finite"));
    assert_true(predictions[0] == -1 && predictions[1] == -1);
    rk_session_free(session);
    rk_predictor_free(predictor);
    rk_text_free(checkpoint);
    char command[500];
    snprintf(command, sizeof command, "rm -rf '%s'", path_of("run"));
    assert_int_equal(system(command), 0);
}

static void test_tensors(void **state) {
    (void)state;
    check_refused("\"table/w/rows", NAN);
    check_refused("\"table/w/rows", INFINITY);
    check_refused("\"dense/", NAN);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tensors)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
