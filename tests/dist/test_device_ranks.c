/* Started by an MPI launcher: runs whose ranks compute on GPUs (over the emulator: on one each) beside the
 * same runs on processors, placement by placement. */
#include "dist/device_rank_trials.h"
#include "dist/world.h"

#include <math.h>
#include <unistd.h>

#include <reckon/export.h>
#include <reckon/trainer.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/rng.h"
#include "cuda/device/device.h"
#include "model/model.h"
#include "serve/predictor_internal.h"
#include "state_bytes.h"
#include "train/pairs.h"
#include "train/run/trainer_internal.h"

/* An epoch's last batch is short, for the last rank perhaps none. */
enum { ROWS = 420, STEPS = 7, RANDOM_TRIALS = 5 };

static void write_ids(rk_buffer *text, rk_rng *rng, uint64_t most, uint64_t below) {
    for (uint64_t n = rk_rng_below(rng, most + 1), i = 0; i < n; i++)
        rk_buffer_printf(text, "%s%llu", i ? "|" : "",
                         (unsigned long long)rk_rng_below(rng, rk_rng_below(rng, below) + 1));
}

/* huge: the row whose number is. */
static void write_data(const char *name, int huge) {
    char path[300];
    rk_buffer text = {0};
    rk_rng rng = {5, 1, 0};
    rk_buffer_append_text(&text, "small,bag,other,clicks,item,none,x,y,z,time\n");
    for (int i = 0; i < ROWS; i++) {
        uint64_t item = rk_rng_below(&rng, 500);
        double x = i == huge ? 3e38 : rk_rng_normal(&rng);
        rk_buffer_printf(&text, "%llu,", (unsigned long long)rk_rng_below(&rng, 40));
        write_ids(&text, &rng, 6, 3000);
        rk_buffer_printf(&text, ",%llu,", (unsigned long long)rk_rng_below(&rng, 3000));
        write_ids(&text, &rng, 7, 500);
        rk_buffer_printf(&text, ",%llu,,%.4f,%d,%s,%d\n", (unsigned long long)item, x,
                         (item % 3 == 0) + x > 0.5,
                         i % 4 == 0 ? ""
                         : i % 3    ? "1"
                                    : "0",
                         i);
    }
    snprintf(path, sizeof path, "%s/%s", directory, name);
    OK(rk_file_write(path, text.data, text.n_bytes));
    rk_buffer_release(&text);
}

static bool learns_pairs(const trial *t) {
    return strstr(t->model, "two_tower") != NULL;
}

/* Goes on where the folder has a checkpoint. */
static rk_trainer *new_trainer(const trial *t, const char *where, int steps, rk_config **config) {
    char on[64], output[300], model[400], cluster[400], until[64];
    snprintf(on, sizeof on, "device=%s", where);
    snprintf(output, sizeof output, "train.output=%s/%s", directory, where);
    snprintf(model, sizeof model, "model=%s", t->model);
    snprintf(cluster, sizeof cluster, "cluster=%s", t->cluster);
    snprintf(until, sizeof until, "train.steps=%d", steps);
    const char *overrides[] = {on,         output,     model,      cluster,   until,
                               t->more[0], t->more[1], t->more[2], t->more[3]};
    rk_trainer *trainer;
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    options.comm = world;
    options.resume = true;
    OK(rk_config_parse(
        learns_pairs(t) ? PAIRS_RUN : data_and_train, "run.yaml", directory, overrides,
        5 + (t->more[0] != NULL) + (t->more[1] != NULL) + (t->more[2] != NULL) + (t->more[3] != NULL),
        config));
    OK(rk_trainer_create(*config, &options, &trainer));
    return trainer;
}

static void remove_runs(void) {
    char path[300];
    OK(rk_comm_barrier(world));
    for (int i = 0; i < 2 && rk_comm_rank(world) == 0; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, i ? "cpu" : "cuda");
        rk_remove_tree(path);
    }
    OK(rk_comm_barrier(world));
}

static void end_trainer(rk_trainer *trainer, rk_config *config) {
    rk_trainer_free(trainer);
    rk_config_free(config);
    remove_runs();
}

static double off_by(const float *got, const float *wanted, size_t n) {
    double error = 0, power = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)got[i] - (double)wanted[i]) * ((double)got[i] - (double)wanted[i]);
        power += (double)wanted[i] * (double)wanted[i];
    }
    return error / (power + 1e-6 * (double)n);
}

/* What a run has come to on this rank: its parts of tables, their slots, the dense part; nothing on one that
 * only reads. And its metrics, which are everybody's. */
typedef struct outcome {
    char *state;
    size_t n_bytes;
    rk_metric metrics[16];
    int32_t n_metrics;
} outcome;

/* A short batch too, and what follows it. */
static int steps_of(const trial *t) {
    return learns_pairs(t) ? STEPS + 3 : STEPS;
}

/* As it is now, with the keys that there are. */
static void refresh_state(rk_trainer *trainer) {
    OK(rk_model_flush(trainer->model));
    OK(rk_model_number_keys_over_ranks(trainer->model));
    rk_state_dict_release(&trainer->state);
    OK(rk_model_state_dict(trainer->model, &trainer->state));
}

static outcome take_outcome(rk_trainer *trainer) {
    outcome out = {0};
    const rk_metric *metrics;
    size_t at = 0;
    if (!trainer->model) return out;
    OK(rk_trainer_evaluate(trainer, "valid", &metrics, &out.n_metrics));
    memcpy(out.metrics, metrics, (size_t)out.n_metrics * sizeof *metrics);
    refresh_state(trainer);
    for (size_t i = 0; i < trainer->state.n; i++)
        out.n_bytes += rk_state_dict_entry_bytes(&trainer->state.entries[i]);
    OK(rk_alloc(out.n_bytes, 1, &out.state));
    for (size_t i = 0; i < trainer->state.n; at += rk_state_dict_entry_bytes(&trainer->state.entries[i++]))
        rk_state_dict_copy_rows(&trainer->state.entries[i], 0, trainer->state.entries[i].dims[0],
                                out.state + at);
    return out;
}

static void compare_states(const trial *t, const rk_state_dict *state, const char *gpu, const char *cpu) {
    double most = t->most > 0 ? t->most : 1e-9;
    for (size_t i = 0; i < state->n; i++) {
        const rk_state_dict_entry *entry = &state->entries[i];
        size_t n_bytes = rk_state_dict_entry_bytes(entry);
        double off = entry->type == RK_F32 ? off_by((const float *)(const void *)gpu,
                                                    (const float *)(const void *)cpu, n_bytes / sizeof(float))
                                           : 0;
        if (!(off <= most))
            fail_msg("%s: rank %d: '%s' is off by an NMSE of %g", t->name, rk_comm_rank(world), entry->name,
                     off);
        if (entry->type != RK_F32 && entry->type != RK_BF16 && memcmp(gpu, cpu, n_bytes) != 0)
            fail_msg("%s: rank %d: '%s' is another", t->name, rk_comm_rank(world), entry->name);
        gpu += n_bytes;
        cpu += n_bytes;
    }
}

static void compare_outcomes(const trial *t, const rk_state_dict *state, const outcome *gpu,
                             const outcome *cpu) {
    assert_int_equal(gpu->n_metrics, cpu->n_metrics);
    for (int32_t i = 0; i < gpu->n_metrics; i++)
        if (!(fabs(gpu->metrics[i].value - cpu->metrics[i].value) <= (t->most > 0 ? 1e-2 : 1e-4)))
            fail_msg("%s: metric %d is %.9g, not %.9g", t->name, (int)i, gpu->metrics[i].value,
                     cpu->metrics[i].value);
    assert_int_equal(gpu->n_bytes, cpu->n_bytes);
    if (gpu->state) compare_states(t, state, gpu->state, cpu->state);
}

/* The losses of the steps that a run has logged. */
static int read_losses(const char *where, double *out, int n) {
    char path[300], line[2000];
    int found = 0;
    snprintf(path, sizeof path, "%s/%s/metrics.jsonl", directory, where);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (found < n && fgets(line, sizeof line, file)) {
        const char *at = strstr(line, "\"loss\":");
        if (at) out[found++] = atof(at + strlen("\"loss\":"));
    }
    fclose(file);
    return found;
}

static void compare_losses(const trial *t) {
    double gpu[64], cpu[64];
    int n = read_losses("cuda", gpu, 64), n_cpu = read_losses("cpu", cpu, 64);
    assert_true(n >= 5 && n_cpu == n); /* the last one too, though a GPU may be a step late */
    for (int i = 0; i < n; i++)
        if (!(fabs(gpu[i] - cpu[i]) <= (t->most > 0 ? 1e-3 : 1e-5)))
            fail_msg("%s: loss %d is %.9g, not %.9g", t->name, i, gpu[i], cpu[i]);
}

static void run_trial(const trial *t) {
    rk_config *config;
    if (strstr(t->cluster, "reader_ranks") && rk_comm_size(world) < 3) return;
    rk_trainer *trainer = new_trainer(t, "cpu", steps_of(t), &config);
    OK(rk_trainer_run(trainer));
    outcome cpu = take_outcome(trainer);
    rk_trainer_free(trainer);
    rk_config_free(config);
    trainer = new_trainer(t, "cuda", steps_of(t), &config);
    OK(rk_trainer_run(trainer));
    outcome gpu = take_outcome(trainer);
    compare_outcomes(t, &trainer->state, &gpu, &cpu);
    if (rk_comm_rank(world) == 0) compare_losses(t);
    rk_free(cpu.state);
    rk_free(gpu.state);
    end_trainer(trainer, config);
}

static void test_as_on_processors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) run_trial(&trials[i]);
}

/* Settings of a dynamic table. */
static void draw_keyed_table(rk_buffer *text, rk_rng *rng, const char *name) {
    static const char *const missing[] = {"zeros", "oov", "{hash: 1}", "{hash: 17}"},
                             *const evictions[] = {"lru", "{policy: lfu, evict_to: 0.6}", "none",
                                                   "{ttl_steps: 2}"},
                             *const admissions[] = {"{min_count: 2}", "{min_count: 3, counter: count_min}",
                                                    "{min_count: 2, counter: bloom}", "{probability: 0.6}"};
    rk_buffer_printf(text, "{name: %s, max_capacity: %d, buckets: %d, missing: %s, ", name,
                     10 + (int)rk_rng_below(rng, 200), 3 + (int)rk_rng_below(rng, 6),
                     missing[rk_rng_below(rng, 4)]);
    rk_buffer_printf(text, "eviction: %s, admission: %s}", evictions[rk_rng_below(rng, 4)],
                     admissions[rk_rng_below(rng, 4)]);
}

/* Tables of keys by random settings, of which some share rows. */
static void test_random_keys(void **state) {
    (void)state;
    static const char *const shardings[] = {"table_wise", "row_wise"}, *const names[] = {"bag", "item",
                                                                                         "small"};
    static const char
        histories[] =
            "embedding.features=[{name: bag, combiner: mean}, {name: other, table: bag}, {name: "
            "clicks, table: item, max_sequence_length: 4}]",
        rowwise[] =
            "embedding.optimizer={kind: rowwise_adagrad, learning_rate: 0.05, initial_accumulator: "
            "0.1}";
    for (uint64_t seed = 0; seed < RANDOM_TRIALS; seed++) {
        rk_rng rng = {seed, 2, 0};
        rk_buffer tables = {0}, cluster = {0};
        char name[32];
        bool has_histories = rk_rng_below(&rng, 3) == 0;
        rk_buffer_append_text(&tables, "embedding.tables=[");
        rk_buffer_append_text(&cluster, "{replicate_below: 0, timeout_s: 60, tables: [");
        for (int i = 0; i < 3; i++) {
            rk_buffer_append_text(&tables, i ? ", " : "");
            draw_keyed_table(&tables, &rng, names[i]);
            rk_buffer_printf(&cluster, "%s{name: %s, sharding: %s}", i ? ", " : "", names[i],
                             shardings[rk_rng_below(&rng, 2)]);
        }
        rk_buffer_append_text(&tables, "]");
        rk_buffer_append_text(&cluster, "]}");
        snprintf(name, sizeof name, "random keys %d", (int)seed);
        const trial t = {name,
                         has_histories ? DIN : DNN,
                         cluster.data,
                         0,
                         {tables.data, "data.shuffle=false", has_histories ? histories : rowwise}};
        run_trial(&t);
        rk_buffer_release(&tables);
        rk_buffer_release(&cluster);
    }
}

/* The bytes of what this rank has. */
static uint64_t hash_state(rk_trainer *t) {
    uint64_t hash = 0;
    refresh_state(t);
    for (size_t i = 0; i < t->state.n; i++) {
        size_t n_bytes = rk_state_dict_entry_bytes(&t->state.entries[i]);
        RK_AUTOFREE char *bytes = NULL;
        OK(rk_alloc(n_bytes, 1, &bytes));
        rk_state_dict_copy_rows(&t->state.entries[i], 0, t->state.entries[i].dims[0], bytes);
        hash = rk_hash_bytes(bytes, n_bytes, hash);
    }
    return hash;
}

static uint64_t hash_of_run(const trial *t, int steps) {
    rk_config *config;
    rk_trainer *trainer = new_trainer(t, "cuda", steps, &config);
    OK(rk_trainer_run(trainer));
    uint64_t hash = hash_state(trainer);
    rk_trainer_free(trainer);
    rk_config_free(config);
    OK(rk_comm_barrier(world));
    return hash;
}

/* Runs of the same ranks end with the same bits, one that was stopped and went on among them. */
static void test_same_bits(void **state) {
    (void)state;
    const trial all[] = {
        {"same bits",
         "{kind: dcn_v2, deep: [16, 8], batch_norm: true, dropout: 0.3}",
         "{replicate_below: 100, timeout_s: 60}",
         0,
         {"train.checkpoint.every_steps=2"}},
        {"same bits of pairs",
         TWO_TOWER("history: true, similarity: cosine, negatives: 100", "dropout: 0.3"),
         "{replicate_below: 0, timeout_s: 60}",
         0,
         {"train.checkpoint.every_steps=2"}},
        {"same bits of keys", DNN, "{timeout_s: 60}", 0, {KEYS, "train.checkpoint.every_steps=2"}},
    };
    for (int i = 0; i < 3; i++) {
        uint64_t whole = hash_of_run(&all[i], STEPS);
        remove_runs();
        (void)hash_of_run(&all[i], 4);
        assert_true(hash_of_run(&all[i], STEPS) == whole);
        remove_runs();
    }
}

/* What a trained model says of its validation data. */
typedef struct said {
    float predictions[2 * ROWS];
    int64_t n;
    rk_metric metrics[16];
    int32_t n_metrics, n_tasks;
} said;

static rk_status keep_row(void *user, int64_t row, const float *predictions, const float *labels) {
    (void)row, (void)labels;
    said *to = user;
    for (int32_t t = 0; t < to->n_tasks; t++) to->predictions[to->n++] = predictions[t];
    return RK_OK;
}

static said ask(const char *model, const char *where, bool has_predictions) {
    said found = {.n = 0};
    char path[300];
    rk_predictor *predictor;
    rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
    const rk_metric *metrics;
    int64_t n_rows;
    options.device = where;
    options.comm = world;
    snprintf(path, sizeof path, "%s/%s", directory, model);
    OK(rk_predictor_open(path, &options, &predictor));
    assert_int_equal(rk_model_has_device(predictor->model), strcmp(where, "cuda") == 0);
    found.n_tasks = rk_predictor_n_tasks(predictor);
    OK(rk_predictor_evaluate(predictor, "valid", &metrics, &found.n_metrics, &n_rows));
    for (int32_t i = 0; i < found.n_metrics; i++) found.metrics[i] = (rk_metric){NULL, metrics[i].value};
    if (has_predictions) OK(rk_predictor_file(predictor, "valid", keep_row, &found));
    if (has_predictions) assert_int_equal(found.n, n_rows * found.n_tasks);
    rk_predictor_free(predictor);
    return found;
}

/* A model over ranks with a GPU each beside the same ranks' processors. */
static void compare_predictions(const trial *t, const char *model, bool has_predictions) {
    said gpu = ask(model, "cuda", has_predictions), cpu = ask(model, "cpu", has_predictions);
    assert_true(gpu.n == cpu.n && gpu.n_metrics == cpu.n_metrics && gpu.n_metrics > 2);
    for (int64_t i = 0; i < gpu.n; i++)
        if (!(fabsf(gpu.predictions[i] - cpu.predictions[i]) <= 1e-5f))
            fail_msg("%s: prediction %d is %.9g, not %.9g", t->name, (int)i, (double)gpu.predictions[i],
                     (double)cpu.predictions[i]);
    for (int32_t i = 0; i < gpu.n_metrics; i++)
        if (!(fabs(gpu.metrics[i].value - cpu.metrics[i].value) <= 1e-4))
            fail_msg("%s: metric %d is %.9g, not %.9g", t->name, (int)i, gpu.metrics[i].value,
                     cpu.metrics[i].value);
}

/* Its run file has paths that are relative to where the program runs. */
static void export_run(void) {
    char run[300], out[300];
    assert_int_equal(chdir(directory), 0);
    snprintf(run, sizeof run, "%s/cpu", directory);
    snprintf(out, sizeof out, "%s/export", directory);
    if (rk_comm_rank(world) == 0) rk_remove_tree(out);
    if (rk_comm_rank(world) == 0) OK(rk_export_safetensors(run, NULL, out));
    OK(rk_comm_barrier(world));
}

/* Of a trained model, and of its export. */
static void check_predictions(const trial *t, bool has_predictions) {
    rk_config *config;
    rk_trainer *trainer = new_trainer(t, "cpu", STEPS, &config);
    OK(rk_trainer_run(trainer));
    rk_trainer_free(trainer);
    rk_config_free(config);
    compare_predictions(t, "cpu", has_predictions);
    export_run();
    compare_predictions(t, "export", has_predictions);
    remove_runs();
}

static void test_predictions(void **state) {
    (void)state;
    const trial rows = {"predictions",
                        DNN,
                        BY_HAND("{name: bag, sharding: grid, slices: 2}, {name: item, sharding: row_wise}"),
                        0,
                        {NULL}};
    const trial pairs = {"rankings",
                         TWO_TOWER("history: true, similarity: cosine, negatives: 32", "dropout: 0.2"),
                         "{replicate_below: 0, timeout_s: 60}",
                         0,
                         {"train.log_every=1"}};
    const trial keys = {"keys", DNN, "{timeout_s: 60}", 0, {KEYS}};
    check_predictions(&rows, true);
    check_predictions(&keys, true);
    check_predictions(&pairs, false);
}

static void check_end(const trial *t, const char *device, const char *words) {
    rk_config *config;
    rk_trainer *trainer = new_trainer(t, device, STEPS, &config);
    assert_int_equal(rk_trainer_run(trainer), RK_NOT_FINITE);
    rk_all_to_all *all_to_all;
    char mine[200] = {0};
    snprintf(mine, sizeof mine, "%s", rk_last_error());
    if (!strstr(mine, words)) fail_msg("%s: %s", t->name, mine);
    OK(rk_comm_all_gather(world, RK_CHANNEL_SUMS, mine, sizeof mine, &all_to_all));
    for (int32_t r = 0; r < rk_comm_size(world); r++)
        assert_string_equal(mine, rk_all_to_all_received_messages(all_to_all)[r].data);
    rk_all_to_all_free(all_to_all);
    end_trainer(trainer, config);
}

/* What one rank finds ends the run on all, in the same words; or the step is left out on all. */
static void test_not_finite(void **state) {
    (void)state;
    const trial ends[] = {
        {"ends", DNN, "{replicate_below: 100, timeout_s: 60}", 0, {"train.optimizer.learning_rate=1e30"}},
        {"ends pairs",
         TWO_TOWER("history: true, negatives: 100", "dropout: 0"),
         "{replicate_below: 0, timeout_s: 60}",
         0,
         {"train.optimizer.learning_rate=1e30"}},
    };
    char huge[300];
    snprintf(huge, sizeof huge, "data.train=%s/huge.csv", directory);
    const trial one = {"one of them finds it",
                       "{kind: dcn_v2, deep: [8]}",
                       "{replicate_below: 100, timeout_s: 60}",
                       0,
                       {huge, "data.shuffle=false", "data.valid="}}; /* the last one */
    const trial goes_on = {"goes on",
                           DNN,
                           "{replicate_below: 100, timeout_s: 60}",
                           0,
                           {"train.optimizer.learning_rate=1e30", "train.on_not_finite=skip", "data.valid="}};
    rk_config *config;
    for (int i = 0; i < 2; i++) {
        const char *device = i ? "cpu" : "cuda";
        check_end(&ends[0], device, i ? "" : "rank ");
        check_end(&ends[1], device, "the loss is ");
        check_end(&one, device, "");
        rk_trainer *trainer = new_trainer(&goes_on, device, STEPS, &config);
        OK(rk_trainer_run(trainer));
        assert_int_equal(rk_model_n_steps(trainer->model) + rk_model_n_skipped_steps(trainer->model), STEPS);
        assert_true(rk_model_n_skipped_steps(trainer->model) >= 3);
        end_trainer(trainer, config);
    }
}

static void test_what_is_refused(void **state) {
    (void)state;
    static const char *const overrides[] = {"device=cuda", "model={kind: dnn}",
                                            "cluster={embedding_ranks: 1}"};
    rk_config *config;
    rk_trainer *trainer;
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    options.comm = world;
    OK(rk_config_parse(data_and_train, "run.yaml", directory, overrides, 3, &config));
    FAILS(rk_trainer_create(config, &options, &trainer), RK_CONFIG,
          "rank 0: --set: key 'device': cluster.embedding_ranks is not supported with device: cuda\nhint: "
          "remove 'cluster.embedding_ranks'");
    rk_config_free(config);
}

static int begin(void **state) {
    (void)state;
    if (rk_comm_rank(world) == 0) write_data("rows.csv", -1), write_data("huge.csv", 190);
    if (rk_comm_rank(world) == 0) write_pairs(directory);
    OK(rk_comm_barrier(world));
    return 0;
}

int main(void) {
    open_world();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_on_processors), cmocka_unit_test(test_random_keys),
        cmocka_unit_test(test_same_bits),        cmocka_unit_test(test_predictions),
        cmocka_unit_test(test_not_finite),       cmocka_unit_test(test_what_is_refused)};
    return cmocka_run_group_tests(tests, begin, close_world);
}
