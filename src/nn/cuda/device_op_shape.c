/* Operations that move or add up rows and columns: concat, slice, transpose, sum_rows, sum_all,
 * number_vectors, target_pairs. */
#include "nn/cuda/device_op.h"

static void concat_forward(const rk_device_run *run, const rk_node *node) {
    int64_t stride = rk_device_node_stride(run, node), padding = stride - rk_shape_size(node->shape);
    float *y = rk_device_node_output(run, node);
    for (int32_t k = 0; k < node->n_inputs; k++) {
        int64_t part = rk_shape_size(rk_device_node_input_shape(run, node, k));
        if (!rk_device_input_is_part_of_node(run, node, k))
            rk_cuda_copy_columns(run->stream, run->n, part, rk_device_node_input(run, node, k), part, y,
                                 stride, true);
        y += part;
    }
    if (padding) rk_cuda_zero_columns(run->stream, run->n, padding, y, stride);
}

static void concat_backward(const rk_device_run *run, const rk_node *node) {
    int64_t stride = rk_device_node_stride(run, node);
    const float *dy = rk_device_node_output_gradient(run, node);
    for (int32_t k = 0; k < node->n_inputs; k++) {
        int64_t part = rk_shape_size(rk_device_node_input_shape(run, node, k));
        if (!rk_device_input_is_part_of_node(run, node, k) && rk_device_input_needs_gradient(run, node, k))
            rk_cuda_copy_columns(run->stream, run->n, part, dy, stride,
                                 rk_device_node_input_gradient(run, node, k), part,
                                 rk_node_writes_gradient_first(node, k));
        dy += part;
    }
}

const rk_device_op rk_device_op_concat = {
    .name = "concat", .forward = concat_forward, .backward = concat_backward};

static void slice_forward(const rk_device_run *run, const rk_node *node) {
    int64_t from = rk_shape_size(rk_device_node_input_shape(run, node, 0)), to = node->options.count;
    rk_cuda_copy_columns(run->stream, run->n, to, rk_device_node_input(run, node, 0) + node->options.first,
                         from, rk_device_node_output(run, node), to, true);
}

static void slice_backward(const rk_device_run *run, const rk_node *node) {
    int64_t from = rk_shape_size(rk_device_node_input_shape(run, node, 0)), begin = node->options.first,
            count = node->options.count;
    const float *dy = rk_device_node_output_gradient(run, node);
    float *dx = rk_device_node_input_gradient(run, node, 0);
    if (rk_node_writes_gradient_first(node, 0))
        rk_cuda_scatter_columns(run->stream, run->n, from, begin, count, dy, dx);
    else
        rk_cuda_copy_columns(run->stream, run->n, count, dy, count, dx + begin, from, false);
}

const rk_device_op rk_device_op_slice = {
    .name = "slice", .forward = slice_forward, .backward = slice_backward};

static void transpose_forward(const rk_device_run *run, const rk_node *node) {
    rk_shape from = rk_device_node_input_shape(run, node, 0);
    rk_cuda_transpose(run->stream, run->n, from.rows, from.cols, rk_device_node_input(run, node, 0),
                      rk_device_node_output(run, node), true);
}

static void transpose_backward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_transpose(run->stream, run->n, node->shape.rows, node->shape.cols,
                      rk_device_node_output_gradient(run, node), rk_device_node_input_gradient(run, node, 0),
                      rk_node_writes_gradient_first(node, 0));
}

const rk_device_op rk_device_op_transpose = {
    .name = "transpose", .forward = transpose_forward, .backward = transpose_backward};

static void sum_rows_forward(const rk_device_run *run, const rk_node *node) {
    rk_shape from = rk_device_node_input_shape(run, node, 0);
    rk_cuda_sum_rows(run->stream, run->n, from.rows, from.cols, rk_device_node_input(run, node, 0),
                     rk_device_node_output(run, node));
}

static void sum_all_forward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_rowwise_dot(run->stream, run->n, rk_shape_size(rk_device_node_input_shape(run, node, 0)),
                        rk_device_node_input(run, node, 0), NULL, 1, rk_device_node_output(run, node), true);
}

/* Each value of the output goes to all that it is the sum of. */
static void sum_backward(const rk_device_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(rk_device_node_input_shape(run, node, 0)), cols = node->shape.cols;
    rk_cuda_broadcast_rows(run->stream, run->n, width / cols, cols, rk_device_node_output_gradient(run, node),
                           rk_device_node_input_gradient(run, node, 0),
                           rk_node_writes_gradient_first(node, 0));
}

const rk_device_op rk_device_op_sum_rows = {
    .name = "sum_rows", .forward = sum_rows_forward, .backward = sum_backward};
const rk_device_op rk_device_op_sum_all = {
    .name = "sum_all", .forward = sum_all_forward, .backward = sum_backward};

static void number_vectors_forward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_rowwise_scale(run->stream, run->n * node->shape.rows, node->shape.cols,
                          rk_device_node_input(run, node, 0), rk_device_parameter(run, node, 0),
                          node->shape.rows, rk_device_node_output(run, node), true);
}

static void number_vectors_backward(const rk_device_run *run, const rk_node *node) {
    int64_t rows = node->shape.rows, units = node->shape.cols;
    float *dy = rk_device_node_output_gradient(run, node);
    rk_cuda_rowwise_dot(run->stream, run->n * rows, units, dy, rk_device_parameter(run, node, 0), rows,
                        rk_device_node_input_gradient(run, node, 0), rk_node_writes_gradient_first(node, 0));
    rk_cuda_sum_args sum = {.kind = RK_CUDA_SCALED,
                            .rows = run->n,
                            .cols = rows * units,
                            .span = units,
                            .x = dy,
                            .y = rk_device_node_input(run, node, 0),
                            .out = rk_device_parameter_gradient(run, node, 0),
                            .partials = rk_device_scratch(run)};
    rk_cuda_column_sums(run->stream, &sum);
}

const rk_device_op rk_device_op_number_vectors = {.name = "number_vectors",
                                                  .scratch = rk_device_sum_scratch,
                                                  .forward = number_vectors_forward,
                                                  .backward = number_vectors_backward};

static void target_pairs_forward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_target_pairs(run->stream, run->n, node->shape.rows, node->shape.cols / 4,
                         rk_device_node_input(run, node, 0), rk_device_node_input(run, node, 1),
                         rk_device_node_output(run, node));
}

static void target_pairs_backward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_target_pairs_backward(
        run->stream, run->n, node->shape.rows, node->shape.cols / 4, rk_device_node_input(run, node, 0),
        rk_device_node_input(run, node, 1), rk_device_node_output_gradient(run, node),
        rk_device_node_input_gradient(run, node, 0), rk_node_writes_gradient_first(node, 0),
        rk_device_node_input_gradient(run, node, 1), rk_node_writes_gradient_first(node, 1));
}

const rk_device_op rk_device_op_target_pairs = {
    .name = "target_pairs", .forward = target_pairs_forward, .backward = target_pairs_backward};
