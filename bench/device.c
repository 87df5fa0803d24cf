/* W1 on a GPU: how fast a workload's rows are looked up there, beside how fast the GPU copies its own memory.
 *
 *     bench_device DIRECTORY [--steps 5] [--repeat 20] [--number 0] [--memory BYTES]
 *
 * One line of JSON: seconds of one lookup of all features in each step (ids are on the device, checked and
 * sorted; the mean of --repeat lookups that follow each other), the bytes that it moves by the algorithm
 * (rows and outputs), the bytes a second of a copy (read and written), and sums of the activations by which
 * they are compared with the CPU engine's, which are printed too. --memory: of the tables' rows on the GPU,
 * the rest behind the cache. Rows begin with random numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reckon/reckon.h>

#include "cuda/device/device_copy.h"
#include "cuda/device/device.h"
#include "embedding/cuda/device_tables.h"
#include "workload.h"

enum { COPY_BYTES = 1 << 28, N_COPIES = 20 };

/* Bytes a second, read and written: by the driver's copy, or by a kernel, whichever is faster. */
static double measure_copy_rate(rk_device *device, rk_stream *stream) {
    void *from, *to;
    double best = 0;
    check(rk_device_alloc(device, COPY_BYTES, &from));
    check(rk_device_alloc(device, COPY_BYTES, &to));
    for (int by_kernel = 0; by_kernel < 2; by_kernel++) {
        double begin = 0;
        for (int i = -1; i < N_COPIES; i++) {
            if (i <= 0) check(rk_stream_sync(stream));
            if (i == 0) begin = seconds_now();
            if (by_kernel)
                rk_cuda_copy(stream, COPY_BYTES, from, to);
            else
                rk_stream_copy(stream, to, from, COPY_BYTES);
        }
        check(rk_stream_sync(stream));
        double rate = 2.0 * COPY_BYTES * N_COPIES / (seconds_now() - begin);
        if (rate > best) best = rate;
    }
    rk_device_free(device, from);
    rk_device_free(device, to);
    return best;
}

static void print_sums(const char *name, const float *values, int64_t n) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += values[i], squares += (double)values[i] * values[i];
    printf(", \"%ssum\": %.9g, \"%ssquares\": %.9g", name, sum, name, squares);
}

int main(int argc, char **argv) {
    if (argc < 2) die("usage: bench_device DIRECTORY [options]");
    workload w;
    workload_load(argv[1], &w);
    int64_t steps = atoll(option(argc, argv, "--steps", "5")),
            repeat = atoll(option(argc, argv, "--repeat", "20")), width = 0, n_bytes = 0;
    for (int64_t f = 0; f < w.n_features; f++) {
        width += w.features[f].dim;
        n_bytes += w.n * (w.features[f].hotness + 1) * w.features[f].dim * (int64_t)sizeof(float);
    }
    rk_device *device;
    rk_stream *upload, *stream;
    rk_device_tables *tables;
    rk_device_info info;
    void *out;
    rk_optimizer optimizer;
    check(rk_optimizer_init(&optimizer, RK_OPTIMIZER_SGD));
    const rk_initializer spread = {.kind = RK_INIT_UNIFORM, .min = -0.01, .max = 0.03};
    rk_embeddings *embeddings = workload_embeddings(&w, RK_F32, &spread, &optimizer);
    check(rk_device_open(atoi(option(argc, argv, "--number", "0")), &device));
    check(rk_device_query(device, &info));
    check(rk_stream_create(device, &upload));
    check(rk_stream_create(device, &stream));
    double rate = measure_copy_rate(device, stream), began = seconds_now();
    rk_device_tables_options options = {.max_batch = w.n,
                                        .budget_bytes = (uint64_t)atoll(option(argc, argv, "--memory", "0"))};
    check(rk_device_tables_create(embeddings, device, &options, &tables));
    double create_seconds = seconds_now() - began;
    check(rk_device_alloc(device, (size_t)(w.n * width) * sizeof(float), &out));
    rk_activation *activations = workload_columns(&w, out, width);
    rk_ids *ids = calloc((size_t)w.n_features, sizeof *ids);
    printf("{\"seconds\": [");
    for (int64_t s = 0; s <= steps; s++) {
        rk_batch batch = workload_batch(&w, s == steps ? 0 : s % w.n_batches, ids);
        check(rk_device_tables_dedup(tables, upload, upload, w.n, NULL, batch.features, false));
        check(rk_device_tables_check_ids(tables));
        check(rk_device_tables_prepare_batch(tables, stream));
        check(rk_device_tables_lookup(tables, stream, activations));
        check(rk_stream_sync(stream));
        double begin = seconds_now();
        for (int64_t i = 0; i < repeat; i++) check(rk_device_tables_lookup(tables, stream, activations));
        check(rk_stream_sync(stream));
        if (s < steps) printf("%s%.9f", s ? ", " : "", (seconds_now() - begin) / (double)repeat);
        rk_device_tables_end_batch(tables, false);
    }
    float *values = malloc((size_t)(w.n * width) * sizeof *values);
    if (!values) die("no memory");
    check(rk_device_download(device, values, out, (size_t)(w.n * width) * sizeof *values));
    printf("], \"bytes\": %lld, \"copy_bytes_per_second\": %.6g, \"create_seconds\": %.3f",
           (long long)n_bytes, rate, create_seconds);
    print_sums("", values, w.n * width);
    rk_activation *reference = workload_columns(&w, values, width);
    rk_lookup *lookup;
    check(rk_lookup_create(embeddings, &lookup));
    check(rk_embeddings_lookup_eval(embeddings, w.n, workload_batch(&w, 0, ids).features, lookup, reference));
    rk_lookup_free(lookup);
    print_sums("cpu_", values, w.n * width);
    printf(
        ", \"gpu\": \"%s\", \"capability\": \"%d.%d\", \"processors\": %d, \"memory_bytes\": %llu, "
        "\"is_emulated\": %s, \"peak_bytes\": %lld}\n",
        info.name, info.major, info.minor, info.n_processors, (unsigned long long)info.memory_bytes,
        info.is_emulated ? "true" : "false", (long long)peak_bytes());
    rk_device_tables_free(tables);
    rk_device_free(device, out);
    rk_stream_free(upload);
    rk_stream_free(stream);
    rk_device_close(device);
    return 0;
}
