/* Every kernel that has a version an instruction set, once: prototypes, dispatch and tests all read this
 * list, so that no kernel escapes its test. X(name, parameters, arguments)
 *
 * A kernel is one body, src/kernels/<name>.c, which cmake/layers.cmake compiles once for each instruction
 * set, named by RK_KERNEL_ISA. No contraction is allowed (-ffp-contract=off) and sums of many terms run in
 * fixed lanes, so all versions give the same bits. */
#ifndef RK_KERNELS_KERNEL_LIST_H
#define RK_KERNELS_KERNEL_LIST_H

#include "kernels/kernels.h"

/* A body's own name for the version that is being compiled: rk_x_scalar, rk_x_avx2 or rk_x_avx512. */
#define RK_KERNEL_NAME(name)        RK_KERNEL_EXPAND(name, RK_KERNEL_ISA)
#define RK_KERNEL_EXPAND(name, isa) RK_KERNEL_JOIN(name, isa)
#define RK_KERNEL_JOIN(name, isa)   name##_##isa

// clang-format off
#define RK_KERNEL_LIST(X)                                                                                    \
    X(rk_ids_check, (const int64_t *ids, int64_t n, int64_t n_rows, bool *strays), (ids, n, n_rows, strays)) \
    X(rk_finite_check, (const float *values, int64_t n, bool *finite), (values, n, finite))                  \
    X(rk_bag_forward, (const rk_bag_forward_args *args), (args))                                             \
    X(rk_fused_update, (const rk_fused_update_args *args), (args))                                           \
    X(rk_sum_row_gradients, (const rk_sum_row_gradients_args *args), (args))                                 \
    X(rk_optimizer_step,                                                                                     \
      (const rk_update *update, float *w, float *slot0, float *slot1, float *g, int64_t dim),                \
      (update, w, slot0, slot1, g, dim))                                                                     \
    X(rk_random_init_row, (const rk_random_init_row_args *args, int64_t id, int32_t dim, float *out),        \
      (args, id, dim, out))                                                                                  \
    X(rk_row_load, (const rk_rows *rows, int64_t row, float *out), (rows, row, out))                         \
    X(rk_row_store,                                                                                          \
      (const rk_rows *rows, int64_t row, const float *values, uint64_t seed, uint64_t counter),              \
      (rows, row, values, seed, counter))                                                                    \
    X(rk_bf16_round, (const float *from, void *to, int64_t n, bool wide), (from, to, n, wide))               \
    X(rk_f32_to_16_bits, (const float *from, int64_t n, bool bf16, uint16_t *out), (from, n, bf16, out))     \
    X(rk_f32_from_16_bits, (const uint16_t *from, int64_t n, bool bf16, float *out), (from, n, bf16, out))   \
    X(rk_rows_quantize,                                                                                      \
      (const float *from, int64_t n, int64_t dim, int bits, uint8_t *out, int64_t stride, int64_t *failed),  \
      (from, n, dim, bits, out, stride, failed))                                                             \
    X(rk_interaction_forward, (const rk_real *x, int64_t n, int32_t n_vectors, int32_t dim, rk_real *out),   \
      (x, n, n_vectors, dim, out))                                                                           \
    X(rk_interaction_backward,                                                                               \
      (const rk_real *x, const rk_real *dout, int64_t n, int32_t n_vectors, int32_t dim, rk_real *dx),       \
      (x, dout, n, n_vectors, dim, dx))                                                                      \
    X(rk_dropout_mask, (const rk_dropout_mask_args *args), (args))                                           \
    X(rk_dropout_apply_mask,                                                                                 \
      (const rk_real *from, const uint8_t *kept, int64_t n, rk_real keep, bool add, rk_real *to),            \
      (from, kept, n, keep, add, to))                                                                        \
    X(rk_column_sums, (const rk_real *x, int64_t n, int64_t width, rk_real *sums), (x, n, width, sums))      \
    X(rk_batch_norm_squares, (const rk_batch_norm_args *args), (args))                                       \
    X(rk_batch_norm_forward, (const rk_batch_norm_args *args), (args))                                       \
    X(rk_batch_norm_gradient_sums, (const rk_batch_norm_args *args), (args))                                 \
    X(rk_batch_norm_backward, (const rk_batch_norm_args *args), (args))                                      \
    X(rk_relu_forward, (const rk_real *x, int64_t n, rk_real *y), (x, n, y))                                 \
    X(rk_relu_backward, (const rk_real *x, const rk_real *dy, int64_t n, bool add, rk_real *dx),             \
      (x, dy, n, add, dx))                                                                                   \
    X(rk_relu_mask_gradient, (const rk_real *y, int64_t n, rk_real *dy), (y, n, dy))                         \
    X(rk_values_add, (const rk_real *from, int64_t n, rk_real *to), (from, n, to))                           \
    X(rk_values_multiply, (const rk_real *a, const rk_real *b, int64_t n, bool add, rk_real *to),            \
      (a, b, n, add, to))                                                                                    \
    X(rk_values_multiply_add,                                                                                \
      (const rk_real *a, const rk_real *b, const rk_real *c, int64_t n, rk_real *out), (a, b, c, n, out))    \
    X(rk_values_transpose,                                                                                   \
      (const rk_real *x, int64_t rows, int64_t cols, int64_t x_stride, rk_real *out, int64_t out_stride),    \
      (x, rows, cols, x_stride, out, out_stride))                                                            \
    X(rk_squares_sum, (const float *values, int64_t n, double *sum), (values, n, sum))                       \
    X(rk_low_rank_times_columns, (const rk_low_rank_args *args), (args))                                     \
    X(rk_low_rank_times_rows, (const rk_low_rank_args *args), (args))                                        \
    X(rk_low_rank_add, (const rk_low_rank_args *args), (args))                                               \
    X(rk_panel_product, (const rk_panel_product_args *args), (args))                                         \
    X(rk_weight_gradient, (const rk_weight_gradient_args *args), (args))                                     \
    X(rk_sample_candidate_loss, (rk_sample_candidate_loss_args *args), (args))                               \
    X(rk_code_products,                                                                                      \
      (const uint8_t *codes, int64_t n, int32_t dim, const int16_t *query, int32_t *out),                    \
      (codes, n, dim, query, out))                                                                           \
    X(rk_row_products,                                                                                       \
      (const rk_loose_f32 *rows, int64_t n, int32_t dim, const float *query, float *out),                    \
      (rows, n, dim, query, out))                                                                            \
    X(rk_floats_to_ordered_keys, (const float *values, int64_t n, int32_t *keys), (values, n, keys))         \
    X(rk_find_keys_above, (const int32_t *keys, int64_t n, int32_t least, int32_t *found, int64_t *n_found), \
      (keys, n, least, found, n_found))                                                                      \
    X(rk_rows_argmax, (const float *scores, int64_t n_rows, int64_t n, uint32_t *best),                      \
      (scores, n_rows, n, best))
// clang-format on

#define RK_KERNEL_PROTOTYPES(name, parameters, arguments) \
    void name##_scalar parameters;                        \
    void name##_avx2 parameters;                          \
    void name##_avx512 parameters;
RK_KERNEL_LIST(RK_KERNEL_PROTOTYPES)
#undef RK_KERNEL_PROTOTYPES

#endif
