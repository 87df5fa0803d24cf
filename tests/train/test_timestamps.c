/* A training loop of one's own that tells the model its batches' times. */
#include "testing.h"

#include <math.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "model/model.h"

#include <reckon/dataset.h>
#include <reckon/trainer.h>

enum { N_ROWS = 600, BATCH = 20 };

static char directory[] = "/tmp/reckon_timestamps_XXXXXX";
static const char run_text[] =
    "data: {train: a.csv, shuffle: false, timestamp: time, labels: [{name: y}],\n"
    "  features: [{name: key, key: true}]}\n"
    "embedding: {dim: 2, tables: [{name: key, max_capacity: 1000, buckets: 4, eviction: {ttl: 50}}]}\n"
    "model: {kind: dnn, deep: [2]}\n"
    "train: {batch_size: 20}\n";

/* Each row has a key of its own and a second of the stream. */
static int open_directory(void **state) {
    (void)state;
    char path[300];
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    if (!mkdtemp(directory)) return 1;
    rk_buffer_append_text(&text, "time,key,y\n");
    for (int i = 0; i < N_ROWS; i++) rk_buffer_printf(&text, "%d,%d,%d\n", 1700000000 + i, i, i % 2);
    snprintf(path, sizeof path, "%s/a.csv", directory);
    return text.status != RK_OK || rk_file_write(path, text.data, text.n_bytes) != RK_OK;
}

static int remove_directory(void **state) {
    (void)state;
    return rk_remove_tree(directory) != RK_OK;
}

static int64_t rows_after_training(bool tells_times) {
    rk_config *config;
    rk_dataset *dataset;
    rk_model *model;
    const rk_batch *batch;
    double loss;
    OK(rk_config_parse(run_text, "run.yaml", directory, NULL, 0, &config));
    OK(rk_dataset_open(config, "train", &dataset));
    OK(rk_model_create(config, dataset, &model));
    OK(rk_model_set_timestamp(model, rk_dataset_timestamp(dataset))); /* there is none yet */
    for (int64_t n = BATCH; rk_dataset_next(dataset, &batch) == RK_OK; n += BATCH) {
        assert_true(rk_dataset_timestamp(dataset) == (double)(1700000000 + n - 1));
        if (tells_times) OK(rk_model_set_timestamp(model, rk_dataset_timestamp(dataset)));
        FAILS(rk_model_set_timestamp(model, 1.7e12), RK_INVALID_ARGUMENT,
              "1.7e+12 is no time in seconds since the epoch\n"
              "hint: give seconds, not milliseconds"); /* it has the former one still */
        OK(rk_model_train(model, batch, &loss));
    }
    int64_t n_rows = rk_model_key_counts(model).n_rows;
    rk_model_free(model);
    rk_dataset_free(dataset);
    rk_config_free(config);
    return n_rows;
}

static void test_own_loop(void **state) {
    (void)state;
    assert_int_equal(rows_after_training(false), N_ROWS);
    assert_in_range(rows_after_training(true), 50, 50 * 9 / 8 + 2 * BATCH);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_own_loop)};
    return cmocka_run_group_tests(tests, open_directory, remove_directory);
}
