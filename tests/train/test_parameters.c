/* The named parameters of a model are those of its checkpoint, and of what `reckon inspect` says. */
#include "testing.h"

#include <unistd.h>

#include <reckon/checkpoint.h>
#include <reckon/trainer.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "format/safetensors.h"
#include "train/clicks.h"

static char directory[] = "/tmp/reckon-parameters-XXXXXX";

static const char run_text[] = CLICKS_AND_MODEL
    "train:\n"
    "  batch_size: 64\n"
    "  steps: 12\n"
    "  tensorboard: false\n"
    "  optimizer: {kind: adam, learning_rate: 0.03}\n"
    "  evaluate: {every_epochs: 0}\n";

static rk_config *config_with(const char *setting) {
    rk_config *config;
    char output[256];
    const char *overrides[] = {output, setting};
    snprintf(output, sizeof output, "train.output=%s/run", directory);
    OK(rk_config_parse(run_text, "run.yaml", directory, overrides, setting ? 2 : 1, &config));
    return config;
}

/* Slots of optimizers, counters, and rows of before have other names. */
static bool is_parameter(const char *name) {
    static const char *const others[] = {"step",
                                         "steps_not_finite",
                                         "accumulator",
                                         "momentum",
                                         "m",
                                         "v",
                                         "n",
                                         "z",
                                         "oov_accumulator",
                                         "oov_m",
                                         "oov_v",
                                         "last_batches",
                                         "counts",
                                         "batches",
                                         "totals",
                                         "candidate_keys",
                                         "candidate_counts"};
    const char *last = strrchr(name, '/');
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(last ? last + 1 : name, others[i]) == 0) return false;
    return strncmp(name, "before/", 7) != 0;
}

/* The model's parameters against the bytes of a safetensors file that has all of it. */
static void assert_same_as_file(rk_model *model, const char *path) {
    char *bytes;
    size_t n_bytes;
    rk_safetensors file;
    const rk_model_parameter *parameters;
    int32_t n, n_in_file = 0;
    OK(rk_file_read(path, &bytes, &n_bytes));
    OK(rk_safetensors_parse(bytes, n_bytes, n_bytes, &file));
    OK(rk_model_parameters(model, &parameters, &n));
    assert_true(n > 8);
    for (int32_t i = 0; i < n; i++) {
        const rk_tensor *t = &parameters[i].tensor;
        const rk_safetensors_entry *e = rk_safetensors_find(&file, parameters[i].name);
        if (!e) fail_msg("%s is not in the checkpoint", parameters[i].name);
        OK(rk_tensor_check(t));
        assert_true(t->read_only && t->device == RK_DEVICE_CPU && rk_tensor_is_contiguous(t));
        assert_true(t->dtype == e->type && t->n_dims == e->n_dims);
        assert_memory_equal(t->shape, e->dims, (size_t)t->n_dims * sizeof *e->dims);
        assert_int_equal((uint64_t)rk_tensor_n_values(t) * rk_dtype_bytes(t->dtype), e->n_bytes);
        assert_memory_equal(t->data, bytes + e->begin, e->n_bytes);
        bool table = strncmp(e->name, "table/", 6) == 0, statistic = strstr(e->name, "/running_") != NULL;
        bool keys = table && strstr(e->name, "/keys");
        assert_int_equal(parameters[i].kind, keys        ? RK_PARAMETER_KEYS
                                             : table     ? RK_PARAMETER_TABLE
                                             : statistic ? RK_PARAMETER_STATISTIC
                                                         : RK_PARAMETER_DENSE);
    }
    for (size_t i = 0; i < file.n; i++) n_in_file += is_parameter(file.entries[i].name);
    assert_int_equal(n, n_in_file);
    rk_safetensors_release(&file);
    rk_free(bytes);
}

static void test_as_in_a_checkpoint(void **state) {
    (void)state;
    static const char *const settings[] = {
        NULL, "embedding.dtype=bf16", "train.staleness=1",
        "embedding.tables=[{name: u, max_capacity: 30}, {name: v, max_capacity: 35, missing: oov, eviction: "
        "lfu, "
        "dtype: bf16, buckets: 3, admission: {min_count: 2}}]", /* rows that have changed hands */
        "embedding.tables=[{name: v, max_capacity: 35, missing: {hash: 8}, buckets: 3, admission: "
        "{min_count: "
        "3}}]"};
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        rk_config *config = config_with(settings[s]);
        rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
        rk_trainer *trainer;
        rk_model *model;
        char *checkpoint, *path, place[256];
        options.overwrite = true;
        OK(rk_trainer_create(config, &options, &trainer));
        OK(rk_trainer_run(trainer));
        snprintf(place, sizeof place, "%s/run", directory);
        OK(rk_checkpoint_find(place, &checkpoint));
        OK(rk_path_join(checkpoint, "model-00001.safetensors", &path));
        assert_same_as_file(rk_trainer_model(trainer), path);
        rk_trainer_free(trainer);
        OK(rk_checkpoint_load_model(checkpoint, &model)); /* without what only training needs */
        assert_same_as_file(model, path);
        rk_model_free(model);
        rk_free(path);
        rk_text_free(checkpoint);
        rk_config_free(config);
    }
}

static void test_views_of_the_model(void **state) {
    (void)state;
    rk_config *config = config_with(NULL);
    rk_dataset *dataset;
    rk_model *model, *outline;
    const rk_model_parameter *parameters, *again;
    int32_t n, n_again;
    const rk_batch *batch;
    double loss;
    OK(rk_dataset_open(config, "train", &dataset));
    OK(rk_model_create(config, dataset, &model));
    OK(rk_model_parameters(model, &parameters, &n));
    char *description;
    OK(rk_model_describe(model, &description));
    for (int32_t i = 0; i < n; i++) {
        const char *name = strchr(parameters[i].name, '/') + 1;
        char part[100];
        snprintf(part, sizeof part, "%.*s", (int)strcspn(name, "/"), name);
        if (!strstr(description, part)) fail_msg("'%s' is not in\n%s", part, description);
    }
    rk_text_free(description);
    const rk_tensor before = parameters[0].tensor;
    float first[8], rows[8];
    assert_true(parameters[0].kind == RK_PARAMETER_TABLE && before.n_dims == 2 && before.shape[1] == 8);
    memcpy(first, before.data, sizeof first);
    OK(rk_embeddings_read_rows(rk_model_embeddings(model), "u", 0, 1, rows));
    assert_memory_equal(first, rows, sizeof first);
    for (int i = 0; i < 5; i++) {
        OK(rk_dataset_next(dataset, &batch));
        OK(rk_model_train(model, batch, &loss));
    }
    OK(rk_model_parameters(model, &again, &n_again));
    assert_true(n == n_again && again[0].tensor.data == before.data);
    rk_dataset_free(dataset);
    OK(rk_dataset_open(config, "train", &dataset));
    OK(rk_model_outline(config, dataset, &outline));
    FAILS(rk_model_parameters(outline, &again, &n_again), RK_INVALID_ARGUMENT,
          "an outline of a model has no parameters\nhint: rk_model_create makes the model itself");
    rk_model_free(outline);
    rk_dataset_free(dataset);
    rk_model_free(model);
    rk_config_free(config);
}

static void test_no_memory(void **state) {
    (void)state;
    rk_config *config = config_with(NULL);
    rk_dataset *dataset;
    rk_model *model;
    OK(rk_dataset_open(config, "train", &dataset));
    OK(rk_model_create(config, dataset, &model));
    const rk_model_parameter *parameters = NULL;
    int32_t n = 0, n_failed = 0;
    rk_status status = RK_NO_MEMORY;
    for (long countdown = 1; status != RK_OK && countdown < 1000; countdown++) {
        rk_alloc_fail_after(countdown, false);
        status = rk_model_parameters(model, &parameters, &n);
        rk_alloc_fail_after(0, false);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
        assert_true(!parameters && n == 0);
        n_failed++;
    }
    assert_true(status == RK_OK && n > 8 && n_failed > n);
    rk_model_free(model);
    rk_dataset_free(dataset);
    rk_config_free(config);
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(directory)) return 1;
    write_clicks(directory, 1500);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return rk_remove_tree(directory) != RK_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_in_a_checkpoint),
        cmocka_unit_test(test_views_of_the_model),
        cmocka_unit_test(test_no_memory),
    };
    long live = rk_alloc_live();
    int failed = cmocka_run_group_tests(tests, set_up, tear_down);
    return failed ? failed : rk_alloc_live() != live;
}
