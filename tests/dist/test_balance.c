/* Started by an MPI launcher: a model of twelve features, one of a hundred ids a sample by Zipf's law, placed
 * by itself. Owners have about as much to do. */
#include "dist/world.h"

#include <math.h>
#include <time.h>

#include <reckon/trainer.h>

#include "base/buffer.h"
#include "base/rng.h"
#include "embedding/sharded/sharded_internal.h"
#include "model/model_internal.h"

enum { N_FEATURES = 12, LONG = 100, ROWS = 200000, SAMPLES = 2048 };
static int n_steps = 8;

/* Hot ids are the lowest, so next to one another: exponent 1.05 by inverting the continuous law. */
static long zipf(rk_rng *rng) {
    double power = -0.05;
    long id = (long)pow(1 - rk_rng_uniform(rng) * (1 - pow(ROWS + 1.0, power)), 1 / power) - 1;
    return id < ROWS ? id : ROWS - 1;
}

static void write_data(const char *path) {
    rk_buffer text = {0};
    rk_rng rng = {17, 0, 0};
    for (int f = 0; f < N_FEATURES; f++) rk_buffer_printf(&text, "f%d,", f);
    rk_buffer_append_text(&text, "y\n");
    for (int i = 0; i < SAMPLES; i++) {
        for (int f = 0; f < N_FEATURES; f++)
            for (int k = 0; k < (f ? 1 : LONG); k++)
                rk_buffer_printf(&text, "%s%ld", k ? "|" : f ? "," : "", zipf(&rng));
        rk_buffer_printf(&text, ",%d\n", i % 2);
    }
    OK(text.status);
    OK(rk_file_write(path, text.data, text.n_bytes));
    rk_buffer_release(&text);
}

static void make_run(const char *data, rk_buffer *out) {
    rk_buffer_printf(out,
                     "data:\n  train: %s\n  labels: [{name: y}]\n  features:\n    - {name: f0, identity: %d, "
                     "separator: '|'}\n",
                     data, ROWS);
    for (int f = 1; f < N_FEATURES; f++) rk_buffer_printf(out, "    - {name: f%d, identity: %d}\n", f, ROWS);
    rk_buffer_printf(
        out,
        "embedding: {dim: 16, optimizer: {kind: adagrad}}\nmodel: {kind: dnn, deep: [16]}\ncluster: "
        "{replicate_below: 100, timeout_s: 60}\n"
        "train: {batch_size: 1024, steps: %d, threads: 1, checkpoint: {every_epochs: 0}, output: %s/out}\n",
        n_steps, directory);
}

/* The most of a rank over the least. */
static double spread_of(const double *values, int32_t n) {
    double most = values[0], least = values[0];
    for (int32_t r = 1; r < n; r++) {
        most = fmax(most, values[r]);
        least = fmin(least, values[r]);
    }
    return most / least;
}

enum {
    N_HELD = 5,
    N_MEASURES = 7
}; /* the others are shown: memory is to be enough, not even, and other programs change times */
static const char *const names[N_MEASURES] = {"rows served",
                                              "bytes served",
                                              "bytes sent",
                                              "gradients taken",
                                              "rows updated in the last step",
                                              "bytes of rows",
                                              "processor microseconds"};

static void run(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/rows.csv", directory);
    if (rk_comm_rank(world) == 0) write_data(path);
    OK(rk_comm_barrier(world));
    rk_buffer text = {0};
    make_run(path, &text);
    rk_config *config;
    OK(rk_config_parse(text.data, "run.yaml", directory, NULL, 0, &config));
    rk_buffer_release(&text);
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    options.comm = world;
    rk_trainer *trainer;
    OK(rk_trainer_create(config, &options, &trainer));
    OK(rk_trainer_run(trainer));
    const rk_sharded *sharded = rk_trainer_model(trainer)->sharded;
    rk_sharded_counts counts = rk_sharded_read_counts(sharded);
    double mine[N_MEASURES] = {(double)counts.rows_served,
                               (double)counts.bytes_served,
                               (double)rk_comm_bytes_sent(world),
                               (double)counts.gradients_taken,
                               (double)rk_embeddings_memory_traffic(sharded->store).n_rows,
                               (double)rk_embeddings_bytes(sharded->store),
                               (double)clock() * 1e6 / CLOCKS_PER_SEC};
    rk_all_to_all *all_to_all;
    OK(rk_comm_all_gather(world, RK_CHANNEL_SUMS, mine, sizeof mine, &all_to_all));
    int32_t n = rk_comm_size(world);
    for (int m = 0; m < N_MEASURES; m++) {
        double values[64];
        for (int32_t r = 0; r < n; r++)
            values[r] = ((const double *)rk_all_to_all_received_messages(all_to_all)[r].data)[m];
        double spread = spread_of(values, n);
        if (rk_comm_rank(world) == 0)
            printf("%s: %.0f on rank 0, most / least %.3f\n", names[m], values[0], spread);
        if (m < N_HELD && !(spread <= 1.15)) fail_msg("%s: a rank has %g of another", names[m], spread);
    }
    rk_all_to_all_free(all_to_all);
    rk_trainer_free(trainer);
    rk_config_free(config);
}

int main(int argc, char **argv) {
    if (argc > 1) n_steps = atoi(argv[1]);
    open_world();
    const struct CMUnitTest tests[] = {cmocka_unit_test(run)};
    return cmocka_run_group_tests(tests, NULL, close_world);
}
