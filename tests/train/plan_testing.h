/* For tests of plans: of a run and a cluster as texts. */
#ifndef RK_TESTS_TRAIN_PLAN_TESTING_H
#define RK_TESTS_TRAIN_PLAN_TESTING_H

#include "testing.h"

#include <math.h>

#include "base/file/file.h"
#include "train/plan/plan_internal.h"

static char directory[] = "/tmp/reckon-plan-XXXXXX";

static const char *path_of(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void near(double value, double wanted, double tolerance) {
    if (!(fabs(value - wanted) <= tolerance)) fail_msg("%.17g, not %.17g", value, wanted);
}

static void write_text(const char *name, const char *text) {
    OK(rk_file_write(path_of(name), text, strlen(text)));
}

static rk_status parse(const char *text, rk_config **out) {
    return rk_config_parse(text, "run.yaml", directory, NULL, 0, out);
}

/* A plan of texts; the config is the caller's to free. */
static rk_status plan_of(const char *run, const char *cluster, rk_plan_options options, rk_config **config,
                         rk_plan **out) {
    char path[256];
    write_text("cluster.yaml", cluster);
    snprintf(path, sizeof path, "%s", path_of("cluster.yaml"));
    options.cluster = path;
    OK(parse(run, config));
    return rk_plan_make(*config, &options, out);
}

static const rk_plan_options usual = RK_PLAN_OPTIONS_INIT;

#define RUN(batch, rest)              RUN_OF(100000000, batch, 0, rest)
#define STALE_RUN(batch, stale, rest) RUN_OF(100000000, batch, stale, rest)
#define RUN_OF(rows, batch, stale, rest)                                                          \
    "data: {train: a.csv, cache_bytes: 0, labels: [{name: y}], features: [{name: u, hash: " #rows \
    "}, {name: v, hash: 500}]}\n"                                                                 \
    "embedding: {dim: 16, optimizer: {kind: adagrad}}\nmodel: {kind: dnn, deep: [8]}\ntrain: "    \
    "{batch_size: " #batch ", staleness: " #stale "}\n" rest
#define CLUSTER(count, memory)                                  \
    "groups: [{name: a, count: " #count ", memory_gb: " #memory \
    ", memory_bandwidth_gbs: 20, gflops: 100, network_gbps: 8, latency_us: 10, price_per_hour: 3}]\n"

#define SLOW_CLUSTER \
    "groups: [{name: a, count: 2, memory_gb: 100, memory_bandwidth_gbs: 0.1, gflops: 1, network_gbps: 8}]\n"

#endif
