#include "gather.h"

#include <stdlib.h>

#include "base/thread/parallel.h"

typedef struct gather_task {
    const gather *g;
    int64_t batch;
} gather_task;

/* dim, near: constants after inlining. */
static inline __attribute__((always_inline)) void gather_feature(const gather *g, int64_t batch, int64_t f,
                                                                 int64_t at, int64_t dim, bool near) {
    const workload_feature *from = &g->w->features[f];
    const float *table = g->tables[f];
    const int64_t n = g->w->n, hotness = from->hotness, stride = g->stride ? g->stride : dim;
    const int64_t *ids = from->ids + batch * n * hotness, *end = ids + n * hotness - g->ahead;
    for (int64_t s = 0; s < n; s++) {
        float sum[128] = {0};
        for (int64_t k = 0; k < hotness; k++, ids++) {
            if (ids < end)
                for (int64_t c = 0; c < dim; c += 16) {
                    const float *line = table + ids[g->ahead] * stride + c;
                    if (near)
                        __builtin_prefetch(line);
                    else
                        __builtin_prefetch(line, 0, 2);
                }
            const float *row = table + *ids * stride;
            for (int64_t c = 0; c < dim; c++) sum[c] += row[c];
        }
        float *out = g->out + s * g->width + at;
        for (int64_t c = 0; c < dim; c++) out[c] = sum[c];
    }
}

static inline __attribute__((always_inline)) void gather_feature_of_dim(const gather *g, int64_t batch,
                                                                        int64_t f, bool near) {
    int64_t at = 0;
    for (int64_t before = 0; before < f; before++) at += g->w->features[before].dim;
    switch (g->w->features[f].dim) {
        case 16:
            gather_feature(g, batch, f, at, 16, near);
            break;
        case 32:
            gather_feature(g, batch, f, at, 32, near);
            break;
        case 64:
            gather_feature(g, batch, f, at, 64, near);
            break;
        case 128:
            gather_feature(g, batch, f, at, 128, near);
            break;
        default:
            die("gather knows dims 16, 32, 64 and 128");
    }
}

static void run_gather_feature(void *context, size_t task, int thread) {
    (void)thread;
    const gather_task *t = context;
    if (t->g->near)
        gather_feature_of_dim(t->g, t->batch, (int64_t)task, true);
    else
        gather_feature_of_dim(t->g, t->batch, (int64_t)task, false);
}

double gather_batch(const gather *g, int64_t b) {
    gather_task task = {g, b};
    double begin = seconds_now();
    rk_parallel_for((size_t)g->w->n_features, run_gather_feature, &task);
    return seconds_now() - begin;
}

static int compare_uses(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort_samples_of_feature(void *context, size_t f, int thread) {
    (void)thread;
    const workload *w = context;
    workload_feature *feature = &w->features[f];
    const int64_t n = w->n * feature->hotness;
    int64_t *samples = malloc((size_t)(w->n_batches * n) * sizeof *samples);
    uint64_t *uses = malloc((size_t)n * sizeof *uses);
    if (!samples || !uses) die("no memory for sorted uses");
    for (int64_t b = 0; b < w->n_batches; b++) {
        for (int64_t i = 0; i < n; i++) uses[i] = (uint64_t)feature->ids[b * n + i] << 32 | (uint64_t)i;
        qsort(uses, (size_t)n, sizeof *uses, compare_uses);
        for (int64_t i = 0; i < n; i++) samples[b * n + i] = (int64_t)(uint32_t)uses[i] / feature->hotness;
    }
    free(uses);
    feature->ids = samples;
}

workload gradients_by_row(const workload *w) {
    workload sorted = *w;
    sorted.features = malloc((size_t)w->n_features * sizeof *w->features);
    if (!sorted.features) die("no memory for sorted uses");
    for (int64_t f = 0; f < w->n_features; f++) sorted.features[f] = w->features[f];
    rk_parallel_for((size_t)w->n_features, sort_samples_of_feature, &sorted);
    return sorted;
}

void gather_tune(gather *g) {
    static const int distances[] = {4, 8, 16, 32, 64, 128, 256};
    double best_seconds = 1e30;
    gather best = *g;
    for (size_t d = 0; d < 2 * sizeof distances / sizeof distances[0]; d++) {
        g->ahead = distances[d / 2];
        g->near = d % 2;
        double seconds = gather_batch(g, 0);
        if (seconds < best_seconds) best_seconds = seconds, best = *g;
    }
    *g = best;
}
