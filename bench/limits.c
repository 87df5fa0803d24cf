/* What this machine can do, by the smallest loops that reach it: the floor that a workload is held against.
 *
 *     bench_limits gather DIRECTORY [--threads 2] [--repeat 5]     a workload's rows read by the smallest
 *     loop (gather.h), its ids sorted by the smallest sort (sort.h)
 *     bench_limits gemm M N K [--threads 2] [--repeat 5]           y = x W, dx = dy W', dW = x' dy by
 *     oneDNN's matmul over the whole batch, each in the
 *                                                                  layout that oneDNN likes best, f32 and
 *                                                                  bf16
 *     bench_limits sweep BYTES [--threads 2] [--repeat 5]          so many bytes of floats read, changed and
 *     written by the smallest loop
 *     bench_limits predict M N K [--repeat 5]                      y = x W in f32 on one thread, as training
 *     has it (oneDNN) and as predictions have it
 *     bench_limits pages SPAN [--repeat 5]                         W7's rows, spread over so many bytes on
 *     small pages: nanoseconds a row, read and written, with rows prefetched so far ahead
 * One line of JSON. */
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/thread/parallel.h"
#include "gather.h"
#include "gemm/gemm.h"
#include "sort.h"
#include "workload.h"

extern void omp_set_num_threads(int n_threads);

static void measure_gather(const char *directory, int threads, int repeat) {
    workload w;
    workload_load(directory, &w);
    check(rk_set_threads(threads));
    const float **tables = calloc((size_t)w.n_features, sizeof *tables);
    for (int64_t f = 0; f < w.n_features; f++)
        tables[f] = huge_floats(w.features[f].n_rows * w.features[f].dim, 0.01f);
    int64_t width = workload_width(&w);
    gather g = {.w = &w, .tables = tables, .out = huge_floats(w.n * width, 0), .width = width};
    gather_tune(&g);
    printf("{\"bytes\": %lld, \"ahead\": %d, \"seconds\": [", (long long)workload_lookup_bytes(&w), g.ahead);
    for (int r = 0; r < repeat; r++) printf("%s%.9f", r ? ", " : "", gather_batch(&g, 0));
    sorter sorts = sorter_of(&w);
    printf("], \"sort_seconds\": [");
    for (int r = 0; r < repeat; r++) printf("%s%.9f", r ? ", " : "", sort_batch(&sorts, 0));
    printf("]}\n");
}

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void check_dnnl(dnnl_status_t status) {
    if (status != dnnl_success) die("oneDNN failed with status %d", (int)status);
}

static dnnl_memory_t allocate_dnnl_memory(const dnnl_memory_desc_t *d) {
    size_t bytes = (dnnl_memory_desc_get_size(d) + 63) / 64 * 64;
    void *data = aligned_alloc(64, bytes);
    if (!data) die("no memory for a gemm");
    memset(data, 0, bytes);
    dnnl_memory_t memory;
    check_dnnl(dnnl_memory_create(&memory, d, engine, data));
    return memory;
}

/* [m, k] x [k, n] in the layouts that oneDNN picks; < 0 where it has no such product. */
static double measure_best_matmul(int64_t m, int64_t n, int64_t k, dnnl_data_type_t type, int repeat) {
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
    dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, allocate_dnnl_memory(&s)},
                                   {DNNL_ARG_WEIGHTS, allocate_dnnl_memory(dnnl_primitive_desc_query_md(
                                                          described, dnnl_query_weights_md, 0))},
                                   {DNNL_ARG_DST, allocate_dnnl_memory(&d)}};
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

static void measure_gemm(int64_t m, int64_t n, int64_t k, int threads, int repeat) {
    omp_set_num_threads(threads);
    check_dnnl(dnnl_engine_create(&engine, dnnl_cpu, 0));
    check_dnnl(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    printf("{");
    for (int bf16 = 0; bf16 < 2; bf16++) {
        dnnl_data_type_t type = bf16 ? dnnl_bf16 : dnnl_f32;
        printf("%s\"%s\": {\"forward\": %.9f, \"input\": %.9f, \"weights\": %.9f}", bf16 ? ", " : "",
               bf16 ? "bf16" : "f32", measure_best_matmul(m, n, k, type, repeat),
               measure_best_matmul(m, k, n, type, repeat), measure_best_matmul(k, n, m, type, repeat));
    }
    printf("}\n");
}

enum { SWEEP_VALUES = 1 << 13 }; /* of a task */
typedef struct sweep {
    float *values;
    int64_t n;
} sweep;

static void sweep_values(void *context, size_t task, int thread) {
    (void)thread;
    const sweep *s = context;
    int64_t first = (int64_t)task * SWEEP_VALUES,
            last = first + SWEEP_VALUES < s->n ? first + SWEEP_VALUES : s->n;
    for (int64_t i = first; i < last; i++) s->values[i] = s->values[i] * 0.5f + 1;
}

static void measure_sweep(int64_t n_bytes, int threads, int repeat) {
    sweep s = {.n = n_bytes / (int64_t)sizeof *s.values};
    check(rk_set_threads(threads));
    s.values = huge_floats(s.n, 1);
    printf("{\"seconds\": [");
    for (int r = 0; r < repeat; r++) {
        double begin = seconds_now();
        rk_parallel_for(rk_block_count((size_t)s.n, SWEEP_VALUES), sweep_values, &s);
        printf("%s%.9f", r ? ", " : "", seconds_now() - begin);
    }
    printf("]}\n");
}

/* One layer's product by turns: seconds of training's and of predictions', the least of all rounds. */
static void measure_inference_gemm(int64_t m, int64_t n, int64_t k, int repeat) {
    enum { WORK = 200000000 };
    double best[2] = {1e30, 1e30};
    int times = 1 + (int)(WORK / (2.0 * (double)m * (double)n * (double)k));
    float *x = huge_floats(m * k, 0.5f), *w = huge_floats(k * n, 0.25f), *y = huge_floats(m * n, 0);
    rk_packed_matrix *matrix;
    void *workspace;
    check(rk_packed_matrix_create(k, n, RK_F32, m, &matrix));
    check(rk_pages_alloc(rk_packed_matrix_workspace_bytes(matrix) + 1, &workspace));
    for (int r = 0; r < 2 * repeat; r++) {
        bool training = r % 2 == 0;
        check(rk_packed_matrix_set_weights(matrix, w, training));
        check(rk_packed_matrix_forward(matrix, m, x, NULL, true, y, workspace));
        double begin = seconds_now();
        for (int t = 0; t < times; t++)
            check(rk_packed_matrix_forward(matrix, m, x, NULL, true, y, workspace));
        double passed = (seconds_now() - begin) / times;
        if (passed < best[training]) best[training] = passed;
    }
    printf("{\"training\": %.9f, \"predictions\": %.9f}\n", best[1], best[0]);
}

enum { PAGES_ROWS = 26 * 2048, PAGES_DIM = 32, PAGES_BATCHES = 2 };

/* One batch's rows, a sum or an update of each; seconds. */
static double time_row_accesses(float *rows, const int64_t *places, int ahead, bool writes, float *sum) {
    double begin = thread_seconds();
    for (int64_t i = 0; i < PAGES_ROWS; i++) {
        if (ahead && i + ahead < PAGES_ROWS)
            for (int64_t k = 0; k < PAGES_DIM; k += 16)
                __builtin_prefetch(rows + places[i + ahead] + k, 0, 2);
        float *row = rows + places[i];
        for (int64_t k = 0; k < PAGES_DIM; k++)
            if (writes)
                row[k] += 1;
            else
                sum[k] += row[k];
    }
    return thread_seconds() - begin;
}

static void measure_page_accesses(int64_t span, int repeat) {
    static const int distances[] = {0, 8, 32, 128};
    static int64_t places[PAGES_BATCHES][PAGES_ROWS];
    int64_t n_rows = span / (PAGES_DIM * (int64_t)sizeof(float));
    float *rows = mmap(NULL, (size_t)span, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
          sum[PAGES_DIM] = {0};
    if (n_rows < 1 || rows == MAP_FAILED || madvise(rows, (size_t)span, MADV_NOHUGEPAGE) != 0)
        die("no memory addresses for so many bytes");
    for (int b = 0; b < PAGES_BATCHES; b++)
        for (int64_t i = 0; i < PAGES_ROWS; i++)
            places[b][i] = (int64_t)(rk_rng_u64(1, (uint64_t)b, (uint64_t)i) % (uint64_t)n_rows) * PAGES_DIM;
    for (int b = 0; b < PAGES_BATCHES; b++) time_row_accesses(rows, places[b], 0, true, sum);
    printf("{");
    for (int d = 0; d < 4; d++) {
        double best[2] = {1e30, 1e30};
        for (int r = 0; r < repeat * PAGES_BATCHES; r++)
            for (int writes = 0; writes < 2; writes++) {
                double passed = time_row_accesses(rows, places[r % PAGES_BATCHES], distances[d], writes, sum);
                if (passed < best[writes]) best[writes] = passed;
            }
        printf("%s\"%d ahead\": {\"read_ns\": %.1f, \"write_ns\": %.1f}", d ? ", " : "", distances[d],
               best[0] / PAGES_ROWS * 1e9, best[1] / PAGES_ROWS * 1e9);
    }
    printf(", \"sum\": %g}\n", (double)sum[0]);
}

int main(int argc, char **argv) {
    int threads = atoi(option(argc, argv, "--threads", "2")),
        repeat = atoi(option(argc, argv, "--repeat", "5"));
    if (argc >= 3 && strcmp(argv[1], "gather") == 0)
        measure_gather(argv[2], threads, repeat);
    else if (argc >= 5 && strcmp(argv[1], "gemm") == 0)
        measure_gemm(atoll(argv[2]), atoll(argv[3]), atoll(argv[4]), threads, repeat);
    else if (argc >= 3 && strcmp(argv[1], "sweep") == 0)
        measure_sweep(atoll(argv[2]), threads, repeat);
    else if (argc >= 5 && strcmp(argv[1], "predict") == 0)
        measure_inference_gemm(atoll(argv[2]), atoll(argv[3]), atoll(argv[4]), repeat);
    else if (argc >= 3 && strcmp(argv[1], "pages") == 0)
        measure_page_accesses(atoll(argv[2]), repeat);
    else
        die("usage: bench_limits gather DIRECTORY | gemm M N K | sweep BYTES | predict M N K | pages SPAN "
            "[options]");
    return 0;
}
