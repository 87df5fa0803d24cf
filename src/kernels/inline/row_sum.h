/* Sums of rows of f32 values, and copies of rows, by the widest vectors of the instruction set that the
 * includer is compiled for. Compilers' own loops over the values of a row move 16 bytes at a time, or lose
 * the sum to memory: loads and stores, not rows' bytes, were then what lookups waited for.
 *
 * Each value is summed by itself, in the order of the calls, so all widths give the same bits. */
#ifndef RK_KERNELS_INLINE_ROW_SUM_H
#define RK_KERNELS_INLINE_ROW_SUM_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__AVX512F__)
enum { ROW_VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
enum { ROW_VECTOR_BYTES = 32 };
#else
enum { ROW_VECTOR_BYTES = 16 };
#endif
enum { ROW_VECTOR = ROW_VECTOR_BYTES / 4, ROW_SUM_VALUES = 128 };

typedef float row_vector __attribute__((vector_size(ROW_VECTOR_BYTES), aligned(4), may_alias));

/* A sum on its way: of up to ROW_SUM_VALUES values here (in registers, where dim is a constant), of more in
 * the row `out` that it is for. */
typedef struct row_sum {
    row_vector vectors[ROW_SUM_VALUES / ROW_VECTOR];
} row_sum;

#define ROW_INLINE static inline __attribute__((always_inline))

/* A function for each common dim, in which dim is a constant, and one for all others: DEFINE(name, dim)
 * defines function_<name>, which ROW_CALL_BY_DIM calls. Functions of their own, as each has the registers to
 * itself and compilers take longer over one that has them all. */
#define ROW_COMMON_DIMS(DEFINE) \
    DEFINE(1, 1) DEFINE(8, 8) DEFINE(16, 16) DEFINE(32, 32) DEFINE(64, 64) DEFINE(128, 128)
#define ROW_DEFINE_BY_DIM(DEFINE, any_dim) ROW_COMMON_DIMS(DEFINE) DEFINE(any, any_dim)
#define ROW_CALL_BY_DIM(dim, function, ...) \
    switch (dim) {                          \
        case 1:                             \
            function##_1(__VA_ARGS__);      \
            break;                          \
        case 8:                             \
            function##_8(__VA_ARGS__);      \
            break;                          \
        case 16:                            \
            function##_16(__VA_ARGS__);     \
            break;                          \
        case 32:                            \
            function##_32(__VA_ARGS__);     \
            break;                          \
        case 64:                            \
            function##_64(__VA_ARGS__);     \
            break;                          \
        case 128:                           \
            function##_128(__VA_ARGS__);    \
            break;                          \
        default:                            \
            function##_any(__VA_ARGS__);    \
    }

/* Whether rows are whole vectors, few enough for a row_sum: decided while compiling. */
ROW_INLINE bool row_is_whole_vectors(int32_t dim) {
    return __builtin_constant_p(dim) && dim <= ROW_SUM_VALUES && dim % ROW_VECTOR == 0;
}

ROW_INLINE float *row_sum_values(row_sum *sum, float *out, int32_t dim) {
    return dim <= ROW_SUM_VALUES ? (float *)sum->vectors : out;
}

ROW_INLINE void row_sum_begin(row_sum *sum, float *out, int32_t dim) {
    if (row_is_whole_vectors(dim)) {
#pragma GCC unroll 32
        for (int32_t v = 0; v < dim / ROW_VECTOR; v++) sum->vectors[v] = (row_vector){0};
        return;
    }
    float *to = row_sum_values(sum, out, dim);
    for (int32_t k = 0; k < dim; k++) to[k] = 0;
}

/* sum += c * row */
ROW_INLINE void row_sum_add_scaled(row_sum *sum, float *out, float c, const float *row, int32_t dim) {
    if (row_is_whole_vectors(dim)) {
#pragma GCC unroll 32
        for (int32_t v = 0; v < dim / ROW_VECTOR; v++)
            sum->vectors[v] += c * *(const row_vector *)(row + v * ROW_VECTOR);
        return;
    }
    float *to = row_sum_values(sum, out, dim);
    for (int32_t k = 0; k < dim; k++) to[k] += c * row[k];
}

/* sum += row */
ROW_INLINE void row_sum_add(row_sum *sum, float *out, const float *row, int32_t dim) {
    if (row_is_whole_vectors(dim)) {
#pragma GCC unroll 32
        for (int32_t v = 0; v < dim / ROW_VECTOR; v++)
            sum->vectors[v] += *(const row_vector *)(row + v * ROW_VECTOR);
        return;
    }
    float *to = row_sum_values(sum, out, dim);
    for (int32_t k = 0; k < dim; k++) to[k] += row[k];
}

/* out = scale * sum */
ROW_INLINE void row_sum_end(row_sum *sum, float scale, float *out, int32_t dim) {
    if (row_is_whole_vectors(dim)) {
#pragma GCC unroll 32
        for (int32_t v = 0; v < dim / ROW_VECTOR; v++)
            *(row_vector *)(out + v * ROW_VECTOR) = scale * sum->vectors[v];
        return;
    }
    const float *from = row_sum_values(sum, out, dim);
    for (int32_t k = 0; k < dim; k++) out[k] = scale * from[k];
}

typedef float row_eight_values __attribute__((vector_size(32), aligned(4), may_alias));
typedef float row_four_values __attribute__((vector_size(16), aligned(4), may_alias));

/* sum_of_squares (kernels/inline/optimizer_rules.h) of a row of whole vectors. */
ROW_INLINE float row_sum_squares(const float *row, int32_t dim) {
    enum { LANES = 16 };
    row_vector lanes[LANES / ROW_VECTOR] = {{0}};
#pragma GCC unroll 32
    for (int32_t v = 0; v < dim / ROW_VECTOR; v++) {
        row_vector values = *(const row_vector *)(row + v * ROW_VECTOR);
        lanes[v % (LANES / ROW_VECTOR)] += values * values;
    }
    const float *lane = (const float *)lanes;
    row_eight_values eight = *(const row_eight_values *)lane + *(const row_eight_values *)(lane + 8);
    const float *half = (const float *)&eight;
    row_four_values four = *(const row_four_values *)half + *(const row_four_values *)(half + 4);
    return (four[0] + four[2]) + (four[1] + four[3]);
}

#endif
