/* A layer of a compressed interaction network (Lian et al. 2018, equation 6), inputs x0 [dim, fields] and x
 * [dim, maps], to [dim, units]:
 *     y_du = b_u + sum_h sum_j W_(h fields + j)u x_dh x0_dj
 * which is a linear layer over the products of each d. They would be dim * maps * fields numbers a sample, so
 * they exist for a few samples at a time, in the thread's workspace, and are computed again in backward.
 * options: units, dtype. */
#include <math.h>

#include "base/memory.h"
#include "kernels/inline/lane_sum.h"
#include "gemm/gemm.h"
#include "nn/graph/graph_internal.h"
#include "base/integers.h"

enum {
    PIECE_REALS = 1 << 15, /* products at a time, about: for the second cache */
    PIECE_ROWS = 64        /* but not fewer rows, so that W is worth fetching */
};

typedef struct cin {
    rk_packed_matrix *matrix;
    int64_t samples;       /* of a piece */
    size_t products_bytes; /* of a piece */
} cin;

static rk_status cin_build(rk_graph *graph, rk_node *node) {
    rk_shape x0 = rk_node_input_shape(graph, node, 0), x = rk_node_input_shape(graph, node, 1);
    int32_t units = node->options.units;
    RK_FAIL_IF(units < 1, RK_INVALID_ARGUMENT, "'units' must be 1 or more, not %d", units);
    RK_FAIL_IF(x0.rows != x.rows, RK_INVALID_ARGUMENT,
               "the inputs must have the same number of rows, not %d and %d", x0.rows, x.rows);
    int64_t in = (int64_t)x.cols * x0.cols;
    node->shape = (rk_shape){x.rows, units};
    double bound = sqrt(6.0 / (double)(in + units)); /* Glorot and Bengio 2010 */
    rk_initializer uniform = {.kind = RK_INIT_UNIFORM, .min = -bound, .max = bound},
                   zeros = {.kind = RK_INIT_ZEROS};
    RK_TRY(rk_node_add_parameter(graph, node, "weight", in, units, &uniform, false));
    return rk_node_add_parameter(graph, node, "bias", 1, units, &zeros, true);
}

static rk_status cin_finish(const rk_graph *graph, rk_node *node, int64_t max_rows) {
    const rk_parameter *w = &graph->parameters[node->parameters[0]];
    int64_t dim = node->shape.rows;
    cin *own;
    RK_TRY(rk_alloc(1, sizeof *own, &own));
    node->own = own;
    own->samples = rk_max_i64(1, rk_max_i64(PIECE_REALS / (dim * w->rows), PIECE_ROWS / dim));
    if (own->samples > max_rows) own->samples = max_rows;
    own->products_bytes = ((size_t)(own->samples * dim * w->rows) * sizeof(rk_real) + 63) / 64 * 64;
    RK_TRY(rk_packed_matrix_create(w->rows, w->cols, node->options.dtype, own->samples * dim, &own->matrix));
    node->workspace_bytes = 2 * own->products_bytes + rk_packed_matrix_workspace_bytes(own->matrix);
    return RK_OK;
}

static void cin_release(rk_node *node) {
    cin *own = node->own;
    if (own) rk_packed_matrix_free(own->matrix);
    rk_free(own);
}

static rk_status cin_prepare(const rk_graph *graph, rk_node *node, bool training) {
    return rk_packed_matrix_set_weights(((cin *)node->own)->matrix,
                                        graph->parameters[node->parameters[0]].value, training);
}

/* A piece of the block: rows of dim, `first` rows into it. */
typedef struct piece {
    int64_t first, n;
} piece;

static piece piece_beginning_at_sample(const rk_run *run, const rk_node *node, int64_t sample) {
    int64_t samples = ((const cin *)node->own)->samples, left = run->n - sample;
    return (piece){sample * node->shape.rows, (left < samples ? left : samples) * node->shape.rows};
}

static void multiply_feature_maps(const rk_run *run, const rk_node *node, piece p, rk_real *products) {
    int32_t fields = rk_node_input_shape(run->graph, node, 0).cols,
            maps = rk_node_input_shape(run->graph, node, 1).cols;
    const rk_real *x0 = rk_node_input(run, node, 0) + p.first * fields,
                  *x = rk_node_input(run, node, 1) + p.first * maps;
    for (int64_t d = 0; d < p.n; d++, x0 += fields, x += maps)
        for (int32_t h = 0; h < maps; h++, products += fields)
            for (int32_t j = 0; j < fields; j++) products[j] = x[h] * x0[j];
}

static void multiply_feature_maps_backward(const rk_run *run, const rk_node *node, piece p,
                                           const rk_real *dproducts) {
    int32_t fields = rk_node_input_shape(run->graph, node, 0).cols,
            maps = rk_node_input_shape(run->graph, node, 1).cols;
    const rk_real *x0 = rk_node_input(run, node, 0) + p.first * fields,
                  *x = rk_node_input(run, node, 1) + p.first * maps;
    rk_real *dx0 = rk_node_input_gradient(run, node, 0) + p.first * fields,
            *dx = rk_node_input_gradient(run, node, 1) + p.first * maps;
    for (int64_t d = 0; d < p.n; d++, x0 += fields, dx0 += fields, x += maps, dx += maps)
        for (int32_t h = 0; h < maps; h++, dproducts += fields) {
            dx[h] += rk_dot_product_by_lanes(dproducts, x0, fields);
            for (int32_t j = 0; j < fields; j++) dx0[j] += dproducts[j] * x[h];
        }
}

static rk_status cin_forward(const rk_run *run, const rk_node *node) {
    const cin *own = node->own;
    rk_real *products = run->workspace;
    void *workspace = (char *)run->workspace + 2 * own->products_bytes;
    for (int64_t s = 0; s < run->n; s += own->samples) {
        piece p = piece_beginning_at_sample(run, node, s);
        multiply_feature_maps(run, node, p, products);
        rk_real *y = rk_node_output(run, node) + p.first * node->shape.cols;
        RK_TRY(rk_packed_matrix_forward(own->matrix, p.n, products, rk_node_parameter(run, node, 1), false, y,
                                        workspace));
    }
    return RK_OK;
}

static rk_status cin_backward(const rk_run *run, const rk_node *node) {
    const cin *own = node->own;
    int32_t units = node->shape.cols;
    rk_real *products = run->workspace,
            *dproducts = (rk_real *)(void *)((char *)run->workspace + own->products_bytes);
    rk_real *dw = rk_node_parameter_gradient(run, node, 0), *db = rk_node_parameter_gradient(run, node, 1);
    void *workspace = (char *)run->workspace + 2 * own->products_bytes;
    for (int64_t s = 0; s < run->n; s += own->samples) {
        piece p = piece_beginning_at_sample(run, node, s);
        const rk_real *dy = rk_node_output_gradient(run, node) + p.first * units;
        for (int64_t d = 0; d < p.n; d++)
            for (int32_t u = 0; u < units; u++) db[u] += dy[d * units + u];
        multiply_feature_maps(run, node, p, products);
        RK_TRY(
            rk_packed_matrix_backward(own->matrix, p.n, products, dy, true, dw, false, dproducts, workspace));
        multiply_feature_maps_backward(run, node, p, dproducts);
    }
    return RK_OK;
}

const rk_op rk_op_cin = {.name = "cin",
                         .min_inputs = 2,
                         .max_inputs = 2,
                         .options = RK_OPTION_units | RK_OPTION_dtype,
                         .build = cin_build,
                         .finish = cin_finish,
                         .release = cin_release,
                         .prepare = cin_prepare,
                         .forward = cin_forward,
                         .backward = cin_backward};
