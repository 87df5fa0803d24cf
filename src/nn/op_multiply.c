/* y = a * b, elementwise; b may be [1, 1] (one factor a sample) or [rows, 1] (one a row). */
#include "nn/op.h"

static rk_status build(rk_graph *graph, rk_node *node) {
    rk_shape a = rk_in_shape(graph, node, 0), b = rk_in_shape(graph, node, 1);
    bool fits = (b.rows == a.rows || b.rows == 1) && (b.cols == a.cols || b.cols == 1) && !(b.rows == 1 && a.rows > 1 && b.cols > 1);
    RK_FAIL_IF(!fits, RK_INVALID_ARGUMENT, "[%d, %d] times [%d, %d]", a.rows, a.cols, b.rows, b.cols);
    node->shape = a;
    return RK_OK;
}

/* Columns of a that one value of b serves. */
static int64_t span_of(const rk_run *run, const rk_node *node) {
    return rk_width(node->shape) / rk_width(rk_in_shape(run->graph, node, 1));
}

static void forward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(node->shape), span = span_of(run, node);
    const rk_real *a = rk_in(run, node, 0), *b = rk_in(run, node, 1);
    for (int64_t i = first * width / span; i < last * width / span; i++)
        for (int64_t k = 0; k < span; k++) node->data[i * span + k] = a[i * span + k] * b[i];
}

static void backward_block(const rk_run *run, const rk_node *node, int64_t first, int64_t last) {
    int64_t width = rk_width(node->shape), span = span_of(run, node);
    const rk_real *a = rk_in(run, node, 0), *b = rk_in(run, node, 1), *dy = node->gradient;
    rk_real *da = rk_in_gradient(run, node, 0), *db = rk_in_gradient(run, node, 1);
    for (int64_t i = first * width / span; i < last * width / span; i++) {
        rk_real sum = 0;
        for (int64_t k = 0; k < span; k++) sum += dy[i * span + k] * a[i * span + k];
        for (int64_t k = 0; k < span; k++) da[i * span + k] += dy[i * span + k] * b[i];
        db[i] += sum;
    }
}

const rk_op rk_op_multiply = {.name = "multiply", .min_inputs = 2, .max_inputs = 2, .build = build, .forward_block = forward_block, .backward_block = backward_block};
