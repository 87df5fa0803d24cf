/* linear and cin: products of matrices, with bias and relu in the same pass.
 *
 * A linear's x has zeros behind its columns where it is rounded to bf16, or where its samples' stride is more
 * than its columns. Its weight has rows of zeros then, so a product counts these columns too (`in`), and
 * cuBLASLt's fast kernels take it. The rows' gradients are not read. */
#include "nn/cuda/device_op.h"

static rk_cuda_gemm_args make_gemm_args(const rk_device_run *run, const rk_node *node, int64_t m, int64_t n,
                                        int64_t k) {
    return (rk_cuda_gemm_args){
        .m = m, .n = n, .k = k, .alpha = 1, .math = rk_device_math_mode(run, node->options.dtype)};
}

/* x or dy as products get it. */
typedef struct operand {
    const void *values;
    int64_t ld;
    bool rounded;
} operand;

static operand make_f32_operand(const float *values, int64_t cols) {
    return (operand){values, cols, false};
}

static operand make_bf16_operand(const void *values, int64_t cols) {
    return (operand){values, rk_cuda_aligned_ld(cols), true};
}

/* y = x W + b */
static void multiply_by_weight_and_add_bias(const rk_device_run *run, const rk_node *node, int64_t rows,
                                            int64_t in, operand x, float *y) {
    int64_t out = node->shape.cols;
    rk_cuda_gemm_args args = make_gemm_args(run, node, rows, out, in);
    args.a = x.values, args.lda = x.ld, args.a_rounded = x.rounded;
    args.b = rk_device_parameter(run, node, 0), args.ldb = out;
    args.c = y, args.ldc = out;
    args.bias = node->n_parameters > 1 ? rk_device_parameter(run, node, 1) : NULL;
    args.relu = node->options.relu;
    rk_cuda_gemm(run->stream, &args);
}

/* dW = x^T dy, added to it if `add` */
static void compute_weight_gradient(const rk_device_run *run, const rk_node *node, int64_t rows, int64_t in,
                                    operand x, operand dy, bool add) {
    int64_t out = node->shape.cols;
    rk_cuda_gemm_args args = make_gemm_args(run, node, in, out, rows);
    args.a = x.values, args.lda = x.ld, args.a_rounded = x.rounded, args.a_transposed = true;
    args.b = dy.values, args.ldb = dy.ld, args.b_rounded = dy.rounded;
    args.c = rk_device_parameter_gradient(run, node, 0), args.ldc = out;
    args.beta = add ? 1 : 0;
    rk_cuda_gemm(run->stream, &args);
}

/* dx = dy W^T, added to it if `add` */
static void compute_input_gradient(const rk_device_run *run, const rk_node *node, int64_t rows, int64_t in,
                                   operand dy, float *dx, bool add) {
    int64_t out = node->shape.cols;
    rk_cuda_gemm_args args = make_gemm_args(run, node, rows, in, out);
    args.a = dy.values, args.lda = dy.ld, args.a_rounded = dy.rounded;
    args.b = rk_device_parameter(run, node, 0), args.ldb = out, args.b_transposed = true;
    args.c = dx, args.ldc = in;
    args.beta = add ? 1 : 0;
    rk_cuda_gemm(run->stream, &args);
}

static int64_t count_input_units(const rk_graph *graph, const rk_node *node) {
    rk_shape from = rk_node_input_shape(graph, node, 0);
    return node->options.by_row ? from.cols : rk_shape_size(from);
}

/* Columns of x from one row to the next, where it is f32. */
static int64_t input_row_stride(const rk_device_run *run, const rk_node *node) {
    return node->options.by_row ? rk_device_node_input_shape(run, node, 0).cols
                                : rk_device_node_input_stride(run, node, 0);
}

/* Those that products count. */
static int64_t count_input_columns(const rk_device_run *run, const rk_node *node) {
    int64_t stride = input_row_stride(run, node);
    return node->options.dtype == RK_BF16 ? rk_cuda_aligned_ld(stride) : stride;
}

/* A layer of bf16 rounds x once, for y and dW, and dy once, for dW and dx. Floats that a rounded matrix
 * takes; a multiple of 4, so what stands behind it is aligned too. */
static int64_t floats_for_rounded_matrix(const rk_node *node, int64_t rows, int64_t cols) {
    return node->options.dtype == RK_BF16 ? rows * rk_cuda_aligned_ld(cols) / 2 : 0;
}

static int64_t linear_saved(const rk_graph *graph, const rk_node *node) {
    return floats_for_rounded_matrix(node, node->shape.rows, count_input_units(graph, node));
}

/* Scratch of backward: dy rounded, then the columns' sums. */
static int64_t linear_scratch(const rk_graph *graph, const rk_node *node, int64_t n) {
    int64_t rows = n * node->shape.rows, cols = node->shape.cols;
    return graph->training
               ? floats_for_rounded_matrix(node, rows, cols) + rk_cuda_sum_scratch_floats(rows, cols)
               : 0;
}

static operand input_operand(const rk_device_run *run, const rk_node *node, int64_t in) {
    return node->options.dtype == RK_BF16 ? make_bf16_operand(rk_device_node_saved(run, node), in)
                                          : make_f32_operand(rk_device_node_input(run, node, 0), in);
}

static void linear_forward(const rk_device_run *run, const rk_node *node) {
    int64_t rows = run->n * node->shape.rows, in = count_input_columns(run, node);
    if (node->options.dtype == RK_BF16)
        rk_cuda_round_bf16(run->stream, rows, count_input_units(rk_device_host_graph(run), node),
                           rk_device_node_input(run, node, 0), input_row_stride(run, node),
                           (uint16_t *)rk_device_node_saved(run, node));
    multiply_by_weight_and_add_bias(run, node, rows, in, input_operand(run, node, in),
                                    rk_device_node_output(run, node));
}

/* dy as it is before the relu, and the bias's gradient: one pass. */
static operand prepare_output_gradient(const rk_device_run *run, const rk_node *node, int64_t rows) {
    int64_t cols = node->shape.cols;
    float *dy = rk_device_node_output_gradient(run, node), *scratch = rk_device_scratch(run);
    bool is_bf16 = node->options.dtype == RK_BF16, relu = node->options.relu;
    rk_cuda_sum_args sum = {.kind = relu ? RK_CUDA_RELU_SUM : RK_CUDA_PLAIN,
                            .rows = rows,
                            .cols = cols,
                            .x = dy,
                            .partials = scratch + floats_for_rounded_matrix(node, rows, cols)};
    if (relu) sum.y = rk_device_node_output(run, node);
    if (is_bf16)
        sum.rounded = (uint16_t *)scratch;
    else if (relu)
        sum.masked = dy;
    if (!node->options.no_bias) sum.out = rk_device_parameter_gradient(run, node, 1);
    if (relu || is_bf16 || sum.out) rk_cuda_column_sums(run->stream, &sum);
    return is_bf16 ? make_bf16_operand(scratch, cols) : make_f32_operand(dy, cols);
}

static void linear_backward(const rk_device_run *run, const rk_node *node) {
    int64_t rows = run->n * node->shape.rows, in = count_input_columns(run, node);
    operand dy = prepare_output_gradient(run, node, rows);
    compute_weight_gradient(run, node, rows, in, input_operand(run, node, in), dy, false);
    if (rk_device_input_needs_gradient(run, node, 0))
        compute_input_gradient(run, node, rows, input_row_stride(run, node), dy,
                               rk_device_node_input_gradient(run, node, 0),
                               !rk_node_writes_gradient_first(node, 0));
}

const rk_device_op rk_device_op_linear = {.name = "linear",
                                          .saved = linear_saved,
                                          .scratch = linear_scratch,
                                          .forward = linear_forward,
                                          .backward = linear_backward};

/* cin: the products x_h x0_j exist for a piece of the batch at a time, of so many floats. */
enum { PIECE_FLOATS = 1 << 24 };

static int64_t rows_per_piece(int64_t rows, int64_t in) {
    int64_t piece = PIECE_FLOATS / in;
    return piece < 1 ? 1 : piece < rows ? piece : rows;
}

static void cin_forward(const rk_device_run *run, const rk_node *node) {
    rk_shape x0 = rk_device_node_input_shape(run, node, 0), x = rk_device_node_input_shape(run, node, 1);
    int64_t rows = run->n * node->shape.rows, in = (int64_t)x0.cols * x.cols,
            piece = rows_per_piece(rows, in);
    float *products = rk_device_scratch(run);
    for (int64_t first = 0; first < rows; first += piece) {
        int64_t count = rows - first < piece ? rows - first : piece;
        rk_cuda_cin_products(run->stream, count, x0.cols, x.cols,
                             rk_device_node_input(run, node, 0) + first * x0.cols,
                             rk_device_node_input(run, node, 1) + first * x.cols, products);
        multiply_by_weight_and_add_bias(run, node, count, in, make_f32_operand(products, in),
                                        rk_device_node_output(run, node) + first * node->shape.cols);
    }
}

static void cin_backward(const rk_device_run *run, const rk_node *node) {
    rk_shape x0 = rk_device_node_input_shape(run, node, 0), x = rk_device_node_input_shape(run, node, 1);
    int64_t rows = run->n * node->shape.rows, in = (int64_t)x0.cols * x.cols, out = node->shape.cols,
            piece = rows_per_piece(rows, in);
    float *products = rk_device_scratch(run), *dproducts = products + piece * in,
          *dy = rk_device_node_output_gradient(run, node);
    rk_device_sum_rows_to_columns(run, rows, out, dy, rk_device_parameter_gradient(run, node, 1));
    if (rows == 0)
        compute_weight_gradient(run, node, 0, in, make_f32_operand(products, in), make_f32_operand(dy, out),
                                false); /* zeros */
    for (int64_t first = 0; first < rows; first += piece) {
        int64_t count = rows - first < piece ? rows - first : piece;
        const float *at0 = rk_device_node_input(run, node, 0) + first * x0.cols,
                    *at = rk_device_node_input(run, node, 1) + first * x.cols;
        operand d = make_f32_operand(dy + first * out, out);
        rk_cuda_cin_products(run->stream, count, x0.cols, x.cols, at0, at, products);
        compute_weight_gradient(run, node, count, in, make_f32_operand(products, in), d, first > 0);
        compute_input_gradient(run, node, count, in, d, dproducts, false);
        rk_cuda_cin_products_backward(run->stream, count, x0.cols, x.cols, at0, at, dproducts,
                                      rk_device_node_input_gradient(run, node, 0) + first * x0.cols,
                                      rk_node_writes_gradient_first(node, 0),
                                      rk_device_node_input_gradient(run, node, 1) + first * x.cols,
                                      rk_node_writes_gradient_first(node, 1));
    }
}

static int64_t cin_scratch(const rk_graph *graph, const rk_node *node, int64_t n) {
    int64_t rows = n * node->shape.rows,
            in = (int64_t)rk_node_input_shape(graph, node, 0).cols * rk_node_input_shape(graph, node, 1).cols;
    int64_t products = 2 * rows_per_piece(rows, in) * in,
            sums = rk_cuda_sum_scratch_floats(rows, node->shape.cols);
    return products > sums ? products : sums;
}

const rk_device_op rk_device_op_cin = {
    .name = "cin", .scratch = cin_scratch, .forward = cin_forward, .backward = cin_backward};
