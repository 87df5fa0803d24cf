/* In training a value is zeroed with probability options.rate, else divided by 1 - rate; with by_row a whole
 * row is. The mask is a function of (seed, the node's name, step, place); forward keeps it for
 * backward, a byte a value, but that of rows. In prediction y = x. */
#include <string.h>

#include "base/hash.h"
#include "kernels/kernels.h"
#include "nn/graph/graph_internal.h"

static rk_status dropout_build(rk_graph *graph, rk_node *node) {
    RK_FAIL_IF(!(node->options.rate >= 0 && node->options.rate < 1), RK_INVALID_ARGUMENT,
               "'rate' must be at least 0 and below 1, not %g", node->options.rate);
    node->shape = rk_node_input_shape(graph, node, 0);
    int64_t width = node->options.by_row ? 0 : rk_shape_size(node->shape), real = sizeof(rk_real);
    node->saved_width = (width + real - 1) / real;
    return RK_OK;
}

rk_dropout_rule rk_dropout_rule_of(const rk_graph *graph, const rk_node *node) {
    double rate = node->options.rate;
    uint64_t seed = graph->seed ^ rk_hash_bytes(node->name, strlen(node->name), 0xd409u);
    return (rk_dropout_rule){seed, (uint32_t)(rate * 4294967296.0), (rk_real)(1 / (1 - rate))};
}

/* PIECE rows' factors at a time. */
static void apply_mask_to_rows(const rk_run *run, const rk_node *node, const rk_dropout_rule *rule,
                               const rk_real *from, rk_real *to, bool add) {
    enum { PIECE = 256 };
    rk_real factors[PIECE];
    int64_t n_rows = run->n * node->shape.rows, cols = node->shape.cols,
            place = (run->base + run->first) * node->shape.rows;
    for (int64_t first = 0; first < n_rows; first += PIECE) {
        int64_t n = n_rows - first < PIECE ? n_rows - first : PIECE;
        for (int64_t r = 0; r < n; r++) factors[r] = 1;
        rk_dropout_mask(&(rk_dropout_mask_args){.seed = rule->seed,
                                                .step = (uint64_t)run->step,
                                                .place = place + first,
                                                .n = n,
                                                .limit = rule->limit,
                                                .keep = rule->keep,
                                                .from = factors,
                                                .to = factors});
        for (int64_t r = 0; r < n; r++) {
            const rk_real *x = from + (first + r) * cols;
            rk_real *y = to + (first + r) * cols;
            for (int64_t c = 0; c < cols; c++) y[c] = (add ? y[c] : 0) + factors[r] * x[c];
        }
    }
}

/* A byte stands where its value does in the batch, whichever samples run together: forward and backward may
 * take other pieces of a block. */
uint8_t *rk_dropout_kept_values(const rk_run *run, const rk_node *node) {
    return (uint8_t *)(run->memory + node->place.saved) + run->skip * rk_shape_size(node->shape);
}

/* The mask is by the sample's number in the batch. */
static void draw_mask_of_values(const rk_run *run, const rk_node *node, const rk_dropout_rule *rule,
                                const rk_real *from, rk_real *to) {
    int64_t width = rk_shape_size(node->shape);
    rk_dropout_mask(&(rk_dropout_mask_args){.seed = rule->seed,
                                            .step = (uint64_t)run->step,
                                            .place = (run->base + run->first) * width,
                                            .n = run->n * width,
                                            .limit = rule->limit,
                                            .keep = rule->keep,
                                            .from = from,
                                            .to = to,
                                            .kept = rk_dropout_kept_values(run, node)});
}

void rk_dropout_draw_kept_values(const rk_run *run, const rk_node *node) {
    const rk_dropout_rule rule = rk_dropout_rule_of(run->graph, node);
    draw_mask_of_values(run, node, &rule, NULL, NULL);
}

static rk_status dropout_forward(const rk_run *run, const rk_node *node) {
    const rk_dropout_rule rule = rk_dropout_rule_of(run->graph, node);
    if (!run->training)
        memcpy(rk_node_output(run, node), rk_node_input(run, node, 0),
               (size_t)(run->n * rk_shape_size(node->shape)) * sizeof(rk_real));
    else if (node->options.by_row)
        apply_mask_to_rows(run, node, &rule, rk_node_input(run, node, 0), rk_node_output(run, node), false);
    else
        draw_mask_of_values(run, node, &rule, rk_node_input(run, node, 0), rk_node_output(run, node));
    return RK_OK;
}

static rk_status dropout_backward(const rk_run *run, const rk_node *node) {
    const rk_dropout_rule rule = rk_dropout_rule_of(run->graph, node);
    const rk_real *dy = rk_node_output_gradient(run, node);
    rk_real *dx = rk_node_input_gradient(run, node, 0);
    bool add = !rk_node_writes_gradient_first(node, 0);
    if (node->options.by_row)
        apply_mask_to_rows(run, node, &rule, dy, dx, add);
    else
        rk_dropout_apply_mask(dy, rk_dropout_kept_values(run, node), run->n * rk_shape_size(node->shape),
                              rule.keep, add, dx);
    return RK_OK;
}

const rk_op rk_op_dropout = {.name = "dropout",
                             .min_inputs = 1,
                             .max_inputs = 1,
                             .is_elementwise = true,
                             .options = RK_OPTION_rate | RK_OPTION_by_row,
                             .writes_gradient = true,
                             .build = dropout_build,
                             .forward = dropout_forward,
                             .backward = dropout_backward};
