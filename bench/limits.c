/* What this machine can do, by the smallest loops that reach it: the floor that a workload is held against.
 *
 *     bench_limits gather DIRECTORY [--threads 2] [--repeat 5]     a workload's lookups with everything known beforehand: fixed pooling, ids as
 *                                                                  row addresses, nothing checked; the best of several prefetch distances
 *     bench_limits gemm M N K [--threads 2] [--repeat 5]           y = x W, dx = dy W', dW = x' dy by oneDNN's matmul over the whole batch, each in the
 *                                                                  layout that oneDNN likes best, f32 and bf16
 * One line of JSON. */
#include <dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "workload.h"

extern void omp_set_num_threads(int n_threads);

typedef struct gather {
    const workload *w;
    float **tables, *out;
    int64_t width;
    int threads, thread, ahead;
} gather;

/* dim: a constant after inlining. */
static inline __attribute__((always_inline)) void gather_feature(const gather *g, int64_t f, int64_t at, int64_t dim) {
    const workload_feature *from = &g->w->features[f];
    const float *table = g->tables[f];
    int64_t n = g->w->n, hotness = from->hotness, first = n * g->thread / g->threads, last = n * (g->thread + 1) / g->threads;
    const int64_t *ids = from->ids + first * hotness, *end = from->ids + last * hotness - g->ahead;
    for (int64_t s = first; s < last; s++) {
        float sum[128] = {0};
        for (int64_t k = 0; k < hotness; k++, ids++) {
            if (ids < end)
                for (int64_t c = 0; c < dim; c += 16) __builtin_prefetch(table + ids[g->ahead] * dim + c);
            const float *row = table + *ids * dim;
            for (int64_t c = 0; c < dim; c++) sum[c] += row[c];
        }
        float *out = g->out + s * g->width + at;
        for (int64_t c = 0; c < dim; c++) out[c] = sum[c];
    }
}

static void *gather_thread(void *context) {
    const gather *g = context;
    for (int64_t f = 0, at = 0; f < g->w->n_features; at += g->w->features[f++].dim) switch (g->w->features[f].dim) {
            case 16: gather_feature(g, f, at, 16); break;
            case 32: gather_feature(g, f, at, 32); break;
            case 64: gather_feature(g, f, at, 64); break;
            case 128: gather_feature(g, f, at, 128); break;
            default: die("gather knows dims 16, 32, 64 and 128");
        }
    return NULL;
}

static double gather_once(const gather *g) {
    double begin = seconds_now();
    gather parts[256];
    pthread_t threads[256];
    for (int t = 0; t < g->threads; t++) {
        parts[t] = *g;
        parts[t].thread = t;
        if (t) pthread_create(&threads[t], NULL, gather_thread, &parts[t]);
    }
    gather_thread(&parts[0]);
    for (int t = 1; t < g->threads; t++) pthread_join(threads[t], NULL);
    return seconds_now() - begin;
}

static float *huge_floats(int64_t n) {
    size_t bytes = (size_t)n * sizeof(float);
    float *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) die("no memory for %lld floats", (long long)n);
    madvise(data, bytes, MADV_HUGEPAGE);
    for (int64_t i = 0; i < n; i++) data[i] = 0.01f;
    return data;
}

static void run_gather(const char *directory, int threads, int repeat) {
    workload w;
    workload_load(directory, &w);
    gather g = {.w = &w, .threads = threads, .tables = calloc((size_t)w.n_features, sizeof *g.tables)};
    int64_t bytes = 0;
    for (int64_t f = 0; f < w.n_features; f++) {
        g.tables[f] = huge_floats(w.features[f].n_rows * w.features[f].dim);
        g.width += w.features[f].dim;
        bytes += w.n * (w.features[f].hotness + 1) * w.features[f].dim * 4;
    }
    g.out = huge_floats(w.n * g.width);
    static const int distances[] = {4, 8, 16, 32, 64};
    int best = 0;
    double best_seconds = 1e30;
    for (size_t d = 0; d < sizeof distances / sizeof distances[0]; d++) {
        g.ahead = distances[d];
        double seconds = gather_once(&g);
        if (seconds < best_seconds) best_seconds = seconds, best = distances[d];
    }
    g.ahead = best;
    printf("{\"bytes\": %lld, \"ahead\": %d, \"seconds\": [", (long long)bytes, best);
    for (int r = 0; r < repeat; r++) printf("%s%.6f", r ? ", " : "", gather_once(&g));
    printf("]}\n");
}

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void check_dnnl(dnnl_status_t status) {
    if (status != dnnl_success) die("oneDNN failed with status %d", (int)status);
}

static dnnl_memory_t memory_of(const dnnl_memory_desc_t *d) {
    size_t bytes = (dnnl_memory_desc_get_size(d) + 63) / 64 * 64;
    void *data = aligned_alloc(64, bytes);
    if (!data) die("no memory for a gemm");
    memset(data, 0, bytes);
    dnnl_memory_t memory;
    check_dnnl(dnnl_memory_create(&memory, d, engine, data));
    return memory;
}

/* [m, k] x [k, n] in the layouts that oneDNN picks; < 0 where it has no such product. */
static double best_product(int64_t m, int64_t n, int64_t k, dnnl_data_type_t type, int repeat) {
    dnnl_dims_t sd = {m, k}, wd = {k, n}, dd = {m, n};
    dnnl_memory_desc_t s, w, d;
    check_dnnl(dnnl_memory_desc_init_by_tag(&s, 2, sd, type, dnnl_ab));
    check_dnnl(dnnl_memory_desc_init_by_tag(&w, 2, wd, type, dnnl_format_tag_any));
    check_dnnl(dnnl_memory_desc_init_by_tag(&d, 2, dd, dnnl_f32, dnnl_ab));
    dnnl_matmul_desc_t product;
    dnnl_primitive_desc_t described;
    check_dnnl(dnnl_matmul_desc_init(&product, &s, &w, NULL, &d));
    if (dnnl_primitive_desc_create(&described, &product, NULL, engine, NULL) != dnnl_success) return -1;
    dnnl_primitive_t primitive;
    check_dnnl(dnnl_primitive_create(&primitive, described));
    dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, memory_of(&s)},
                                   {DNNL_ARG_WEIGHTS, memory_of(dnnl_primitive_desc_query_md(described, dnnl_query_weights_md, 0))},
                                   {DNNL_ARG_DST, memory_of(&d)}};
    double best = 1e30;
    for (int r = 0; r <= repeat; r++) {
        double begin = seconds_now();
        check_dnnl(dnnl_primitive_execute(primitive, stream, 3, arguments));
        check_dnnl(dnnl_stream_wait(stream));
        double passed = seconds_now() - begin;
        if (r && passed < best) best = passed;
    }
    for (int i = 0; i < 3; i++) {
        void *data;
        dnnl_memory_get_data_handle(arguments[i].memory, &data);
        dnnl_memory_destroy(arguments[i].memory);
        free(data);
    }
    dnnl_primitive_destroy(primitive);
    dnnl_primitive_desc_destroy(described);
    return best;
}

static void run_gemm(int64_t m, int64_t n, int64_t k, int threads, int repeat) {
    omp_set_num_threads(threads);
    check_dnnl(dnnl_engine_create(&engine, dnnl_cpu, 0));
    check_dnnl(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    printf("{");
    for (int bf16 = 0; bf16 < 2; bf16++) {
        dnnl_data_type_t type = bf16 ? dnnl_bf16 : dnnl_f32;
        printf("%s\"%s\": {\"forward\": %.6f, \"input\": %.6f, \"weights\": %.6f}", bf16 ? ", " : "", bf16 ? "bf16" : "f32", best_product(m, n, k, type, repeat),
               best_product(m, k, n, type, repeat), best_product(k, n, m, type, repeat));
    }
    printf("}\n");
}

int main(int argc, char **argv) {
    int threads = atoi(option(argc, argv, "--threads", "2")), repeat = atoi(option(argc, argv, "--repeat", "5"));
    if (argc >= 3 && strcmp(argv[1], "gather") == 0)
        run_gather(argv[2], threads, repeat);
    else if (argc >= 5 && strcmp(argv[1], "gemm") == 0)
        run_gemm(atoll(argv[2]), atoll(argv[3]), atoll(argv[4]), threads, repeat);
    else
        die("usage: bench_limits gather DIRECTORY | gemm M N K [options]");
    return 0;
}
