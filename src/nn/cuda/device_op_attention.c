/* Small matrix products of each sample: batch_matmul, attention, attention_pool; and mask, which is for
 * attention. */
#include "nn/cuda/device_op.h"

/* A product a sample. */
static void multiply_matrix_per_sample(const rk_device_run *run, rk_cuda_gemm_args args) {
    args.batch = run->n;
    if (run->n > 0) rk_cuda_gemm(run->stream, &args); /* which takes a batch of 0 for one product */
}

static void batch_matmul_forward(const rk_device_run *run, const rk_node *node) {
    int64_t m = node->shape.rows, cols = node->shape.cols, e = rk_device_node_input_shape(run, node, 1).rows;
    rk_cuda_gemm_args y = {.m = m,
                           .n = cols,
                           .k = e,
                           .a = rk_device_node_input(run, node, 0),
                           .lda = e,
                           .stride_a = m * e,
                           .b = rk_device_node_input(run, node, 1),
                           .ldb = cols,
                           .stride_b = e * cols,
                           .c = rk_device_node_output(run, node),
                           .ldc = cols,
                           .stride_c = m * cols,
                           .alpha = 1};
    multiply_matrix_per_sample(run, y);
}

/* dgates = dy rows^T;  drows = gates^T dy */
static void batch_matmul_backward(const rk_device_run *run, const rk_node *node) {
    int64_t m = node->shape.rows, cols = node->shape.cols, e = rk_device_node_input_shape(run, node, 1).rows;
    const float *dy = rk_device_node_output_gradient(run, node);
    rk_cuda_gemm_args gates = {.m = m,
                               .n = e,
                               .k = cols,
                               .a = dy,
                               .lda = cols,
                               .stride_a = m * cols,
                               .b = rk_device_node_input(run, node, 1),
                               .ldb = cols,
                               .stride_b = e * cols,
                               .b_transposed = true,
                               .c = rk_device_node_input_gradient(run, node, 0),
                               .ldc = e,
                               .stride_c = m * e,
                               .alpha = 1,
                               .beta = rk_node_writes_gradient_first(node, 0) ? 0 : 1};
    rk_cuda_gemm_args rows = {.m = e,
                              .n = cols,
                              .k = m,
                              .a = rk_device_node_input(run, node, 0),
                              .lda = e,
                              .stride_a = m * e,
                              .a_transposed = true,
                              .b = dy,
                              .ldb = cols,
                              .stride_b = m * cols,
                              .c = rk_device_node_input_gradient(run, node, 1),
                              .ldc = cols,
                              .stride_c = e * cols,
                              .alpha = 1,
                              .beta = rk_node_writes_gradient_first(node, 1) ? 0 : 1};
    multiply_matrix_per_sample(run, gates);
    multiply_matrix_per_sample(run, rows);
}

const rk_device_op rk_device_op_batch_matmul = {
    .name = "batch_matmul", .forward = batch_matmul_forward, .backward = batch_matmul_backward};

/* A head's columns of q, k, v or y, or its square of weights: a matrix a sample. */
typedef struct matrices {
    float *data;
    int64_t ld, stride;
} matrices;

static matrices matrix_of_head_columns(const rk_node *node, const float *data, int32_t head) {
    int64_t dim = node->shape.cols / node->options.count;
    return (matrices){(float *)(size_t)data + head * dim, node->shape.cols, rk_shape_size(node->shape)};
}

static matrices matrix_of_head_weights(const rk_node *node, float *data, int32_t head) {
    int64_t rows = node->shape.rows;
    return (matrices){data + head * rows * rows, rows, node->options.count * rows * rows};
}

/* c [rows, n] = op(a) op(b), one a sample */
static void multiply_strided_matrices(const rk_device_run *run, const rk_node *node, int64_t n, int64_t k,
                                      matrices a, bool a_transposed, matrices b, bool b_transposed,
                                      matrices c, bool first) {
    rk_cuda_gemm_args args = {.m = node->shape.rows,
                              .n = n,
                              .k = k,
                              .a = a.data,
                              .lda = a.ld,
                              .stride_a = a.stride,
                              .a_transposed = a_transposed,
                              .b = b.data,
                              .ldb = b.ld,
                              .stride_b = b.stride,
                              .b_transposed = b_transposed,
                              .c = c.data,
                              .ldc = c.ld,
                              .stride_c = c.stride,
                              .alpha = 1,
                              .beta = first ? 0 : 1};
    multiply_matrix_per_sample(run, args);
}

static void attention_forward(const rk_device_run *run, const rk_node *node) {
    int64_t rows = node->shape.rows, dim = node->shape.cols / node->options.count;
    float *a = rk_device_node_saved(run, node);
    for (int32_t h = 0; h < node->options.count; h++)
        multiply_strided_matrices(run, node, rows, dim,
                                  matrix_of_head_columns(node, rk_device_node_input(run, node, 0), h), false,
                                  matrix_of_head_columns(node, rk_device_node_input(run, node, 1), h), true,
                                  matrix_of_head_weights(node, a, h), true);
    if (node->n_inputs > 3)
        rk_cuda_masked_softmax(run->stream, run->n, node->options.count, rows,
                               rk_device_node_input(run, node, 3), a);
    else
        rk_cuda_softmax(run->stream, run->n * node->options.count * rows, rows, a, a);
    for (int32_t h = 0; h < node->options.count; h++)
        multiply_strided_matrices(run, node, dim, rows, matrix_of_head_weights(node, a, h), false,
                                  matrix_of_head_columns(node, rk_device_node_input(run, node, 2), h), false,
                                  matrix_of_head_columns(node, rk_device_node_output(run, node), h), true);
}

/* An input without a gradient: lengths, or a mask. */
static void zero_unused_input_gradient(const rk_device_run *run, const rk_node *node, int32_t input) {
    size_t n_bytes =
        (size_t)(run->n * rk_shape_size(rk_device_node_input_shape(run, node, input))) * sizeof(float);
    if (rk_node_writes_gradient_first(node, input))
        rk_stream_fill(run->stream, rk_device_node_input_gradient(run, node, input), 0, n_bytes);
}

/* In the order of the inputs, so that the first gradient of a value comes first. What is masked has weights
 * of 0, and so gets and gives none. */
static void attention_backward(const rk_device_run *run, const rk_node *node) {
    int64_t rows = node->shape.rows, dim = node->shape.cols / node->options.count;
    float *a = rk_device_node_saved(run, node), *d = rk_device_scratch(run),
          *dy = rk_device_node_output_gradient(run, node);
    int32_t heads = node->options.count;
    for (int32_t h = 0; h < heads; h++)
        multiply_strided_matrices(run, node, rows, dim, matrix_of_head_columns(node, dy, h), false,
                                  matrix_of_head_columns(node, rk_device_node_input(run, node, 2), h), true,
                                  matrix_of_head_weights(node, d, h), true);
    rk_cuda_softmax_backward(run->stream, run->n * heads * rows, rows, a, d, d, true);
    for (int32_t h = 0; h < heads; h++)
        multiply_strided_matrices(
            run, node, dim, rows, matrix_of_head_weights(node, d, h), false,
            matrix_of_head_columns(node, rk_device_node_input(run, node, 1), h), false,
            matrix_of_head_columns(node, rk_device_node_input_gradient(run, node, 0), h),
            rk_node_writes_gradient_first(node, 0));
    for (int32_t h = 0; h < heads; h++)
        multiply_strided_matrices(
            run, node, dim, rows, matrix_of_head_weights(node, d, h), true,
            matrix_of_head_columns(node, rk_device_node_input(run, node, 0), h), false,
            matrix_of_head_columns(node, rk_device_node_input_gradient(run, node, 1), h),
            rk_node_writes_gradient_first(node, 1));
    for (int32_t h = 0; h < heads; h++)
        multiply_strided_matrices(
            run, node, dim, rows, matrix_of_head_weights(node, a, h), true,
            matrix_of_head_columns(node, dy, h), false,
            matrix_of_head_columns(node, rk_device_node_input_gradient(run, node, 2), h),
            rk_node_writes_gradient_first(node, 2));
    if (node->n_inputs > 3) zero_unused_input_gradient(run, node, 3);
}

/* What forward keeps, once more: a head's gradients of the weights. */
static int64_t attention_scratch(const rk_graph *graph, const rk_node *node, int64_t n) {
    (void)graph;
    return n * node->saved_width;
}

const rk_device_op rk_device_op_attention = {.name = "attention",
                                             .scratch = attention_scratch,
                                             .forward = attention_forward,
                                             .backward = attention_backward};

static void attention_pool_forward(const rk_device_run *run, const rk_node *node) {
    rk_cuda_attention_pool(run->stream, run->n, node->saved_width, node->shape.cols, node->options.softmax,
                           rk_device_node_input(run, node, 0), rk_device_node_input(run, node, 1),
                           rk_device_node_input(run, node, 2) + node->options.first,
                           rk_shape_size(rk_device_node_input_shape(run, node, 2)),
                           rk_device_node_output(run, node), rk_device_node_saved(run, node));
}

static void attention_pool_backward(const rk_device_run *run, const rk_node *node) {
    int64_t width = rk_shape_size(rk_device_node_input_shape(run, node, 2));
    rk_cuda_attention_pool_backward(
        run->stream, run->n, node->saved_width, node->shape.cols, node->options.softmax,
        rk_device_node_saved(run, node), rk_device_node_input(run, node, 1),
        rk_device_node_input(run, node, 2) + node->options.first, width,
        rk_device_node_output_gradient(run, node), rk_device_scratch(run),
        rk_device_node_input_gradient(run, node, 0), rk_node_writes_gradient_first(node, 0),
        rk_device_node_input_gradient(run, node, 1), rk_node_writes_gradient_first(node, 1));
    zero_unused_input_gradient(run, node, 2);
}

const rk_device_op rk_device_op_attention_pool = {.name = "attention_pool",
                                                  .scratch = attention_scratch,
                                                  .forward = attention_pool_forward,
                                                  .backward = attention_pool_backward};

static void mask_forward(const rk_device_run *run, const rk_node *node) {
    const float *lengths = rk_device_node_input(run, node, 0) + node->options.first;
    rk_cuda_length_mask(run->stream, run->n, node->shape.rows, node->options.count, lengths,
                        rk_shape_size(rk_device_node_input_shape(run, node, 0)),
                        rk_device_node_output(run, node));
}

static void mask_backward(const rk_device_run *run, const rk_node *node) {
    zero_unused_input_gradient(run, node, 0);
}

const rk_device_op rk_device_op_mask = {.name = "mask", .forward = mask_forward, .backward = mask_backward};
