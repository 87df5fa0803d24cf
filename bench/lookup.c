/* W1, our side: lookups of a workload's batches, with or without backward and update, through the public API alone.
 *
 *     bench_lookup DIRECTORY [--mode forward|train] [--optimizer rowwise_adagrad|sgd|adagrad] [--rate 0.1] [--dtype f32|bf16] [--steps 5] [--threads 0]
 *
 * One line of JSON: seconds of each step after a first that is not counted, and sums of the activations by which both sides are compared. Rows begin at 0.01. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reckon/reckon.h>

#include "workload.h"

int main(int argc, char **argv) {
    if (argc < 2) die("usage: bench_lookup DIRECTORY [options]");
    workload w;
    workload_load(argv[1], &w);
    bool train = strcmp(option(argc, argv, "--mode", "forward"), "train") == 0;
    int64_t steps = atoll(option(argc, argv, "--steps", "5")), width = 0;
    check(rk_set_threads(atoi(option(argc, argv, "--threads", "0"))));
    const char *kind = option(argc, argv, "--optimizer", "rowwise_adagrad");
    rk_optimizer optimizer;
    check(rk_optimizer_init(&optimizer, strcmp(kind, "sgd") == 0 ? RK_OPTIMIZER_SGD : strcmp(kind, "adagrad") == 0 ? RK_OPTIMIZER_ADAGRAD : RK_OPTIMIZER_ROWWISE_ADAGRAD));
    optimizer.learning_rate = atof(option(argc, argv, "--rate", "0.1"));
    const rk_initializer constant = {.kind = RK_INIT_CONSTANT, .value = 0.01};
    rk_dtype dtype = strcmp(option(argc, argv, "--dtype", "f32"), "bf16") == 0 ? RK_BF16 : RK_F32;
    rk_embeddings *embeddings = workload_embeddings(&w, dtype, &constant, &optimizer);
    for (int64_t f = 0; f < w.n_features; f++) width += w.features[f].dim;
    float *out = aligned_alloc(64, (size_t)((w.n * width * 4 + 63) / 64 * 64)), *gradient = load_array(argv[1], "gradient", ".f32", w.n * width * 4);
    if (!out || (train && !gradient)) die("no memory, or no gradient.f32");
    rk_activation *activations = workload_columns(&w, out, width), *gradients = workload_columns(&w, gradient, width);
    rk_ids *ids = calloc((size_t)w.n_features, sizeof *ids);
    printf("{\"seconds\": [");
    for (int64_t s = 0; s <= steps; s++) {
        rk_batch batch = workload_batch(&w, s % w.n_batches, ids);
        double begin = seconds_now();
        check((train ? rk_embeddings_lookup : rk_embeddings_peek)(embeddings, w.n, batch.features, activations));
        if (train) check(rk_embeddings_apply_gradients(embeddings, gradients));
        if (s > 0) printf("%s%.6f", s > 1 ? ", " : "", seconds_now() - begin);
    }
    check(rk_embeddings_peek(embeddings, w.n, workload_batch(&w, 0, ids).features, activations));
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < w.n * width; i++) sum += out[i], squares += (double)out[i] * out[i];
    printf("], \"sum\": %.9g, \"squares\": %.9g, \"peak_bytes\": %lld, \"isa\": \"%s\", \"threads\": %d}\n", sum, squares, (long long)peak_bytes(), rk_runtime_isa(), rk_threads());
    return 0;
}
