/* y = x W + b over the flattened sample: x [n, in], W [in, out], b [out]. options: units = out, no_bias, dtype.
 *
 * bf16: x, W and dy are rounded to bf16 (nearest even) and their products are summed in f32. A product of two bf16 values is exact in f32, so
 * rounded values multiplied in f32 give what a bf16 unit would; processors without such a unit lose no speed by it, and gain none. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/float16.h"
#include "nn/gemm.h"
#include "nn/op.h"

enum { ROWS_TILE = 256, IN_TILE = 64, OUT_TILE = 256 };

static rk_status build(rk_graph *graph, rk_node *node) {
    const rk_op_options *o = &node->options;
    RK_FAIL_IF(o->units < 1, RK_INVALID_ARGUMENT, "needs 1 unit or more, not %d", o->units);
    RK_FAIL_IF(o->dtype != RK_F32 && o->dtype != RK_BF16, RK_INVALID_ARGUMENT, "computes in f32 or bf16");
    int64_t in = rk_width(rk_in_shape(graph, node, 0));
    node->shape = (rk_shape){1, o->units};
    node->partial_width = o->units;
    if (o->dtype == RK_BF16) {
        node->saved_width = in;            /* x, rounded */
        node->scratch_width = o->units;    /* dy, rounded */
        node->fixed_width = in * o->units; /* W, rounded */
    }
    double bound = sqrt(6.0 / (double)(in + o->units)); /* Glorot and Bengio 2010 */
    rk_initializer uniform = {.kind = RK_INIT_UNIFORM, .min = -bound, .max = bound}, zeros = {.kind = RK_INIT_ZEROS};
    RK_TRY(rk_node_add_parameter(graph, node, "weight", in, o->units, o->has_initializer ? &o->initializer : &uniform, false));
    return o->no_bias ? RK_OK : rk_node_add_parameter(graph, node, "bias", 1, o->units, &zeros, true);
}

static void round_to_bf16(const rk_real *from, rk_real *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = (rk_real)rk_bf16_to_f32(rk_bf16_from_f32((float)from[i]));
}

static void round_input(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t in = rk_width(rk_in_shape(run->graph, node, 0));
    round_to_bf16(rk_in(run, node, 0) + first * in, node->saved + first * in, (last - first) * in);
}

static void round_gradient(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    (void)run;
    int64_t out = node->shape.cols;
    round_to_bf16(node->gradient + first * out, node->scratch + first * out, (last - first) * out);
}

/* The operands of one run's products. */
typedef struct products {
    const rk_run *run;
    const rk_node *node;
    int64_t in, out, n_out_tiles;
    const rk_real *x, *w, *dy;
    rk_real *dw;
    _Atomic int failed; /* an rk_status */
} products;

static void keep_failure(products *p, rk_status status) {
    if (status != RK_OK) atomic_store(&p->failed, (int)status);
}

static void forward_tile(void *context, size_t task, int thread) {
    (void)thread;
    products *p = context;
    int64_t first = (int64_t)task * ROWS_TILE, m = p->run->n - first < ROWS_TILE ? p->run->n - first : ROWS_TILE;
    rk_real *y = p->node->data + first * p->out;
    keep_failure(p, rk_gemm_run(&(rk_gemm){.m = m, .n = p->out, .k = p->in, .a = p->x + first * p->in, .lda = p->in, .b = p->w, .ldb = p->out, .c = y, .ldc = p->out}));
    if (p->node->options.no_bias) return;
    const rk_real *b = rk_node_parameter(p->run, p->node, 1)->value;
    for (int64_t s = 0; s < m; s++)
        for (int64_t c = 0; c < p->out; c++) y[s * p->out + c] += b[c];
}

static rk_status forward(const rk_run *run, rk_node *node) {
    products p = {.run = run, .node = node, .in = rk_width(rk_in_shape(run->graph, node, 0)), .out = node->shape.cols, .x = rk_in(run, node, 0),
                  .w = rk_node_parameter(run, node, 0)->value};
    if (node->options.dtype == RK_BF16) {
        rk_for_blocks(run, node, round_input);
        round_to_bf16(p.w, node->fixed, p.in * p.out);
        p.x = node->saved;
        p.w = node->fixed;
    }
    rk_parallel_for(rk_blocks((size_t)run->n, ROWS_TILE), forward_tile, &p);
    return (rk_status)atomic_load(&p.failed);
}

static void input_gradient_tile(void *context, size_t task, int thread) {
    (void)thread;
    products *p = context;
    int64_t first = (int64_t)task * ROWS_TILE, m = p->run->n - first < ROWS_TILE ? p->run->n - first : ROWS_TILE;
    keep_failure(p, rk_gemm_run(&(rk_gemm){.transpose_b = true, .accumulate = true, .m = m, .n = p->in, .k = p->out, .a = p->dy + first * p->out, .lda = p->out,
                                           .b = p->w, .ldb = p->out, .c = rk_in_gradient(p->run, p->node, 0) + first * p->in, .ldc = p->in}));
}

/* A tile of W sums over the whole batch: no sums of different threads meet. */
static void weight_gradient_tile(void *context, size_t task, int thread) {
    (void)thread;
    products *p = context;
    int64_t i = (int64_t)task / p->n_out_tiles * IN_TILE, o = (int64_t)task % p->n_out_tiles * OUT_TILE;
    int64_t m = p->in - i < IN_TILE ? p->in - i : IN_TILE, n = p->out - o < OUT_TILE ? p->out - o : OUT_TILE;
    keep_failure(p, rk_gemm_run(&(rk_gemm){.transpose_a = true, .m = m, .n = n, .k = p->run->n, .a = p->x + i, .lda = p->in, .b = p->dy + o, .ldb = p->out,
                                           .c = p->dw + i * p->out + o, .ldc = p->out}));
}

static void add_bias(const rk_run *run, const rk_node *node, int64_t first, int64_t last, rk_real *partial) {
    (void)run;
    int64_t out = node->shape.cols;
    for (int64_t s = first; s < last; s++)
        for (int64_t c = 0; c < out; c++) partial[c] += node->gradient[s * out + c];
}

static rk_status backward(const rk_run *run, rk_node *node) {
    products p = {.run = run, .node = node, .in = rk_width(rk_in_shape(run->graph, node, 0)), .out = node->shape.cols, .x = rk_in(run, node, 0),
                  .w = rk_node_parameter(run, node, 0)->value, .dy = node->gradient, .dw = rk_node_parameter(run, node, 0)->gradient};
    if (node->options.dtype == RK_BF16) {
        rk_for_blocks(run, node, round_gradient);
        p.x = node->saved;
        p.w = node->fixed;
        p.dy = node->scratch;
    }
    p.n_out_tiles = (int64_t)rk_blocks((size_t)p.out, OUT_TILE);
    rk_parallel_for(rk_blocks((size_t)run->n, ROWS_TILE), input_gradient_tile, &p);
    rk_parallel_for(rk_blocks((size_t)p.in, IN_TILE) * (size_t)p.n_out_tiles, weight_gradient_tile, &p);
    if (!node->options.no_bias) rk_sum_blocks(run, node, add_bias, p.out, rk_node_parameter(run, node, 1)->gradient);
    return (rk_status)atomic_load(&p.failed);
}

const rk_op rk_op_linear = {.name = "linear", .min_inputs = 1, .max_inputs = 1, .build = build, .forward = forward, .backward = backward};
