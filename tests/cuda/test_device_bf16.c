/* Layers of bf16 round x and dy once for two products each: a chain of them has the bits of products that are
 * given f32 and round it anew. */
#include "cuda/device_testing.h"

#include "cuda/launch_list.h"
#include "nn/cuda/device_graph.h"
#include "nn/graph/layers.h"

enum { MAX_BATCH = 40, ROWS = 3, IN = 5, N_LAYERS = 4, OUT = 11 };
#ifdef RK_EMULATED
static const double TOLERANCE = 0;
#else
static const double TOLERANCE = 1e-6; /* another algorithm multiplies, where matrices are aligned otherwise */
#endif

/* Odd sizes; all pairs of relu and bias. The first layer is of rows, the others of whole samples. */
static const rk_op_options options[N_LAYERS] = {{.units = 7, .dtype = RK_BF16, .relu = true, .by_row = true},
                                                {.units = 13, .dtype = RK_BF16},
                                                {.units = 9, .dtype = RK_BF16, .relu = true, .no_bias = true},
                                                {.units = OUT, .dtype = RK_BF16, .no_bias = true}};

/* A layer, and its values of MAX_BATCH samples as separate products make them. */
typedef struct layer {
    int64_t rows, in, out; /* rows: of a sample */
    bool relu;
    float *w, *bias, *x, *y, *dx, *dy, *dw, *dbias; /* device memory; a layer's y is the next one's x */
} layer;

typedef struct chain {
    rk_graph *graph;
    rk_device_graph *on_device;
    rk_value input, output;
    layer layers[N_LAYERS];
    float *partials;
} chain;

static float *floats_on_device(int64_t n) {
    return on_device(NULL, (size_t)n * sizeof(float));
}

/* A parameter off its first values, since those of a bias are zeros. */
static float *parameter_on_device(rk_graph *graph, int32_t number, rk_rng *rng) {
    const rk_parameter *p = rk_graph_parameter(graph, number);
    for (int64_t i = 0; i < p->rows * p->cols; i++) p->value[i] += (float)(0.3 * rk_rng_normal(rng));
    return on_device(p->value, (size_t)(p->rows * p->cols) * sizeof(float));
}

static void add_layer(chain *c, int k, int32_t *parameter, rk_rng *rng) {
    layer *l = &c->layers[k];
    rk_shape from = rk_graph_shape(c->graph, c->output);
    bool by_row = options[k].by_row;
    char name[8];
    snprintf(name, sizeof name, "l%d", k);
    c->output = rk_graph_add_op(c->graph, "linear", name, &options[k], &c->output, 1);
    *l = (layer){.rows = by_row ? from.rows : 1,
                 .in = by_row ? from.cols : (int64_t)from.rows * from.cols,
                 .out = options[k].units,
                 .relu = options[k].relu};
    l->w = parameter_on_device(c->graph, (*parameter)++, rng);
    l->bias = options[k].no_bias ? NULL : parameter_on_device(c->graph, (*parameter)++, rng);
    l->x = k ? l[-1].y : floats_on_device(MAX_BATCH * l->rows * l->in);
    l->dx = k ? l[-1].dy : floats_on_device(MAX_BATCH * l->rows * l->in);
    l->y = floats_on_device(MAX_BATCH * l->rows * l->out);
    l->dy = floats_on_device(MAX_BATCH * l->rows * l->out);
    l->dw = floats_on_device(l->in * l->out);
    l->dbias = floats_on_device(l->out);
}

static void chain_init(chain *c) {
    int32_t parameter = 0;
    rk_rng rng = {5, 2, 0};
    memset(c, 0, sizeof *c);
    OK(rk_graph_create(5, &c->graph));
    c->output = c->input = rk_graph_add_input(c->graph, "x", (rk_shape){ROWS, IN});
    for (int k = 0; k < N_LAYERS; k++) add_layer(c, k, &parameter, &rng);
    rk_graph_mark_output(c->graph, c->output);
    OK(rk_graph_finish(c->graph, MAX_BATCH, true));
    OK(rk_device_graph_create(c->graph, NULL, device,
                              &(rk_device_graph_options){.max_batch = MAX_BATCH, .training = true},
                              &c->on_device));
    c->partials = floats_on_device(rk_cuda_sum_scratch_floats(MAX_BATCH * ROWS, 32));
}

static void chain_release(chain *c) {
    for (int k = 0; k < N_LAYERS; k++) {
        layer *l = &c->layers[k];
        float *const memory[] = {
            l->w, l->bias, l->y, l->dy, l->dw, l->dbias, k ? NULL : l->x, k ? NULL : l->dx};
        for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) rk_device_free(device, memory[i]);
    }
    rk_device_free(device, c->partials);
    rk_device_graph_free(c->on_device);
    rk_graph_free(c->graph);
}

static rk_cuda_gemm_args product(int64_t m, int64_t n, int64_t k) {
    return (rk_cuda_gemm_args){.m = m, .n = n, .k = k, .ldc = n, .alpha = 1, .math = RK_CUDA_BF16};
}

static void multiply(const layer *l, int64_t n) {
    rk_cuda_gemm_args y = product(n * l->rows, l->out, l->in);
    y.a = l->x, y.lda = l->in, y.b = l->w, y.ldb = l->out, y.c = l->y, y.bias = l->bias, y.relu = l->relu;
    rk_cuda_gemm(stream, &y);
}

static void go_back(const layer *l, int64_t n, float *partials) {
    int64_t rows = n * l->rows;
    rk_cuda_sum_args sum = {.kind = l->relu ? RK_CUDA_RELU_SUM : RK_CUDA_PLAIN,
                            .rows = rows,
                            .cols = l->out,
                            .x = l->dy,
                            .y = l->y,
                            .masked = l->dy,
                            .out = l->dbias,
                            .partials = partials};
    rk_cuda_column_sums(stream, &sum);
    rk_cuda_gemm_args dw = product(l->in, l->out, rows), dx = product(rows, l->in, l->out);
    dw.a = l->x, dw.lda = l->in, dw.a_transposed = true, dw.b = l->dy, dw.ldb = l->out, dw.c = l->dw;
    dx.a = l->dy, dx.lda = l->out, dx.b = l->w, dx.ldb = l->out, dx.b_transposed = true, dx.c = l->dx;
    rk_cuda_gemm(stream, &dw);
    rk_cuda_gemm(stream, &dx);
}

static void expect(const char *what, int k, int64_t n_samples, const float *device_values,
                   const float *wanted_values, int64_t n) {
    float *got = malloc((size_t)n * sizeof *got), *wanted = malloc((size_t)n * sizeof *wanted);
    double error = 0, size = 0;
    OK(rk_device_download(device, got, device_values, (size_t)n * sizeof *got));
    OK(rk_device_download(device, wanted, wanted_values, (size_t)n * sizeof *wanted));
    for (int64_t i = 0; i < n; i++) {
        error += ((double)got[i] - (double)wanted[i]) * ((double)got[i] - (double)wanted[i]);
        size += (double)wanted[i] * (double)wanted[i];
    }
    if (!(size > 0 && error <= TOLERANCE * size))
        fail_msg("%d samples, layer %d: %s: error %g of %g", (int)n_samples, k, what, error, size);
    free(got);
    free(wanted);
}

/* The same random values to both. */
static void draw(rk_rng *rng, float *one, float *other, int64_t n) {
    float *values = malloc((size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = (float)rk_rng_normal(rng);
    OK(rk_device_upload(device, one, values, (size_t)n * sizeof *values));
    OK(rk_device_upload(device, other, values, (size_t)n * sizeof *values));
    free(values);
}

static void expect_parameters(const chain *c, int64_t n) {
    int32_t parameter = 0;
    for (int k = 0; k < N_LAYERS; k++) {
        const layer *l = &c->layers[k];
        expect("weight", k, n, rk_device_graph_parameter_gradient(c->on_device, parameter++), l->dw,
               l->in * l->out);
        if (l->bias)
            expect("bias", k, n, rk_device_graph_parameter_gradient(c->on_device, parameter++), l->dbias,
                   l->out);
    }
}

static void train(const chain *c, int64_t n, rk_rng *rng) {
    const layer *first = &c->layers[0], *last = &c->layers[N_LAYERS - 1];
    draw(rng, rk_device_graph_data(c->on_device, c->input), first->x, n * ROWS * IN);
    rk_device_graph_forward(c->on_device, stream, n, 0, n, true, NULL);
    for (int k = 0; k < N_LAYERS; k++) multiply(&c->layers[k], n);
    OK(rk_stream_sync(stream));
    expect("y", N_LAYERS - 1, n, rk_device_graph_data(c->on_device, c->output), last->y, n * OUT);
    draw(rng, rk_device_graph_gradient(c->on_device, c->output), last->dy, n * OUT);
    rk_device_graph_backward(c->on_device, stream, n);
    for (int k = N_LAYERS; k-- > 0;) go_back(&c->layers[k], n, c->partials);
    OK(rk_stream_sync(stream));
    expect_parameters(c, n);
    expect("dx", 0, n, rk_device_graph_gradient(c->on_device, c->input), first->dx, n * ROWS * IN);
}

/* The largest batch, which fills what is kept, a shorter one, as an epoch ends, and one sample. */
static void test_batches(void **state) {
    (void)state;
    static const int64_t sizes[] = {MAX_BATCH, 37, MAX_BATCH, 1};
    rk_rng rng = {3, 9, 0};
    chain c;
    chain_init(&c);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) train(&c, sizes[i], &rng);
    chain_release(&c);
}

/* A graph without backward keeps nothing for it. */
static void test_prediction(void **state) {
    (void)state;
    rk_rng rng = {3, 9, 0};
    chain c;
    chain_init(&c);
    rk_device_graph *predicts;
    OK(rk_device_graph_create(c.graph, NULL, device, &(rk_device_graph_options){.max_batch = MAX_BATCH},
                              &predicts));
    draw(&rng, rk_device_graph_data(predicts, c.input), c.layers[0].x, 37 * ROWS * IN);
    rk_device_graph_forward(predicts, stream, 37, 0, 37, false, NULL);
    for (int k = 0; k < N_LAYERS; k++) multiply(&c.layers[k], 37);
    OK(rk_stream_sync(stream));
    expect("y", N_LAYERS - 1, 37, rk_device_graph_data(predicts, c.output), c.layers[N_LAYERS - 1].y,
           37 * OUT);
    rk_device_graph_free(predicts);
    chain_release(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_batches), cmocka_unit_test(test_prediction)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
