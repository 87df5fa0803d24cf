/* W2 to W4, W6 and W7, our side: training steps of a run file's model on a workload's batches, which are in
 * memory already.
 *
 *     bench_model RUN.yaml DIRECTORY [--steps 5] [--warm 1] [--threads 0] [--from memory|rows] [--dump
 *     DIRECTORY] [--dtype f32|bf16] [--staleness N] [--device cpu|cuda] [--memory BYTES] [--trace FILE]
 *
 * One line of JSON: seconds and loss of each step; the first ones (--warm), which touch the memory first and
 * fill what is stale, are told apart. Started by mpirun, its ranks share every batch as the run file's
 * `cluster` says, and the first one tells what a timed step exchanged. --from rows takes the batches from the
 * run file's training data instead, read and transformed (hashed) within the time. --dump writes the dense
 * parameters' first values, dense/<name> with '/' as '.', as raw f32, and stops: the peers begin with them.
 * --device cuda: on a GPU, of whose memory tables may take so much. --trace: a timeline of the timed steps,
 * for Perfetto. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reckon/reckon.h>

#include "base/thread/trace.h"
#include "comm/comm.h"
#include "train/config/run_config.h"
#include "workload.h"

/* The next batch of the file, over and over. */
static const rk_batch *read_next_batch(rk_dataset *rows) {
    const rk_batch *batch;
    rk_status status = rk_dataset_next(rows, &batch);
    check(status == RK_END ? rk_dataset_next(rows, &batch) : status);
    return batch;
}

/* Over ranks, as a run does it. */
static rk_status build_model(rk_config *config, rk_model_options *options, rk_comm *comm,
                             const rk_batch *sample, rk_model **out) {
    rk_model_cluster cluster = {
        .comm = comm, .dense_wire = rk_cluster_dense_wire(&config->cluster), .sample = sample};
    if (rk_comm_size(comm) > 1) {
        RK_TRY(rk_config_planner_request(config, rk_comm_size(comm), &cluster.request));
        options->cluster = &cluster;
        options->max_batch = config->train.batch_size;
    }
    return rk_model_build(options, out);
}

/* The losses of batches that were begun and not yet trained on; NaN stands where one was only begun. */
static int64_t finish_begun_batches(rk_model *model, double *losses) {
    bool left;
    int64_t n = 0;
    for (check(rk_model_finish_oldest_batch(model, &losses[n], &left)); left;
         check(rk_model_finish_oldest_batch(model, &losses[n], &left)))
        n++;
    return n;
}

/* A rank that only holds rows, until the trainers are done. */
static int run_embedding_server(rk_model *model, rk_comm *comm) {
    int64_t word;
    check(rk_model_serve_rows(model, &word));
    rk_model_free(model);
    rk_comm_free(comm);
    return 0;
}

static void print_comm_traffic(const rk_model_comm_traffic *was, const rk_model_comm_traffic *now) {
    double n = (double)(now->n_batches - was->n_batches);
    printf(
        ", \"bytes_sent\": %.0f, \"bytes_sent_most\": %.0f, \"rows_wait_s\": %.6f, \"sum_wait_s\": %.6f, "
        "\"staleness\": %.3f",
        (now->bytes_sent - was->bytes_sent) / n, (now->bytes_sent_most - was->bytes_sent_most) / n,
        (now->rows_wait_s - was->rows_wait_s) / n, (now->sum_wait_s - was->sum_wait_s) / n,
        (double)(now->staleness_sum - was->staleness_sum) / n);
}

int main(int argc, char **argv) {
    if (argc < 3) die("usage: bench_model RUN.yaml DIRECTORY [options]");
    workload w;
    workload_load(argv[2], &w);
    rk_config *config;
    check(rk_config_load(argv[1], NULL, 0, &config));
    check(rk_set_threads(atoi(option(argc, argv, "--threads", "0"))));
    const rk_transforms *transforms;
    check(rk_config_transforms(config, NULL, NULL, &transforms));
    rk_model_options options;
    check(rk_config_model_options(config, rk_transforms_schema(transforms), true, &options));
    check(rk_config_set_interactions(config, &options));
    if (strcmp(option(argc, argv, "--dtype", "f32"), "bf16") == 0) options.dtype = RK_BF16;
    const char *staleness = option(argc, argv, "--staleness", NULL);
    if (staleness) options.staleness = atoll(staleness);
    rk_model_device device = {.memory_bytes = (uint64_t)atoll(option(argc, argv, "--memory", "0")),
                              .late = true};
    if (strcmp(option(argc, argv, "--device", "cpu"), "cuda") == 0) options.device = &device;
    rk_comm *comm;
    check(rk_comm_world(NULL, &comm));
    rk_model *model;
    rk_ids *ids = calloc((size_t)w.n_features, sizeof *ids);
    rk_batch sample = workload_batch(&w, 0, ids);
    double began = seconds_now();
    check(build_model(config, &options, comm, &sample, &model));
    double build_seconds = seconds_now() - began;
    const char *to = option(argc, argv, "--dump", NULL);
    if (to) {
        dump_parameters(model, "dense/", to);
        return 0;
    }
    int64_t steps = atoll(option(argc, argv, "--steps", "5")),
            warm = atoll(option(argc, argv, "--warm", "1"));
    if (!rk_model_is_trainer_rank(model)) return run_embedding_server(model, comm);
    rk_dataset *rows = NULL;
    if (strcmp(option(argc, argv, "--from", "memory"), "rows") == 0)
        check(rk_dataset_open(config, "train", &rows));
    double *losses = calloc((size_t)(steps + warm + options.staleness + 2), sizeof *losses);
    if (rk_comm_rank(comm) > 0 && !freopen("/dev/null", "w", stdout)) die("cannot write to /dev/null");
    printf("{\"seconds\": [");
    double first = 0, cpu = 0;
    const char *trace = option(argc, argv, "--trace", NULL);
    rk_model_comm_traffic exchanged = {0};
    for (int64_t s = 0; s < warm + steps; s++) {
        if (s == warm) exchanged = rk_model_count_comm_traffic(model), cpu = cpu_seconds();
        if (s == warm && trace) check(rk_trace_start(trace));
        rk_batch batch = workload_batch(&w, s % w.n_batches, ids);
        double begin = seconds_now();
        check(rk_model_train(model, rows ? read_next_batch(rows) : &batch, &losses[s]));
        double passed = seconds_now() - begin;
        if (s == 0) first = passed;
        if (s >= warm) printf("%s%.6f", s > warm ? ", " : "", passed);
    }
    check(rk_trace_stop());
    rk_dataset_free(rows);
    rk_model_comm_traffic now = rk_model_count_comm_traffic(model);
    cpu = (cpu_seconds() - cpu) / (double)steps;
    printf("]");
    if (rk_comm_size(comm) > 1) print_comm_traffic(&exchanged, &now);
    printf(", \"cpu_s\": %.6f, \"first_seconds\": %.6f, \"build_seconds\": %.3f, \"losses\": [", cpu, first,
           build_seconds);
    int64_t n_losses = warm + steps + finish_begun_batches(model, losses + warm + steps);
    check(rk_model_flush(model));
    check(rk_model_send_control_to_servers(model, 0));
    for (int64_t s = 0, n = 0; s < n_losses; s++)
        if (!isnan(losses[s])) printf("%s%.17g", n++ ? ", " : "", losses[s]);
    printf("], \"peak_bytes\": %lld, \"isa\": \"%s\", \"threads\": %d}\n", (long long)peak_bytes(),
           rk_runtime_isa(), rk_threads());
    fflush(stdout);
    rk_model_free(model);
    rk_comm_free(comm);
    return 0;
}
