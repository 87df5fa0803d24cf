/* One optimizer step of a row whose values are divided among the lanes of a group, by the rules of
 * kernels/inline/optimizer_rules.h. */
#ifndef RK_CUDA_TABLES_ROW_STRIP_UPDATE_H
#define RK_CUDA_TABLES_ROW_STRIP_UPDATE_H

#include "cuda/tables/table_kernel_helpers.h"

extern "C" {
#include "base/rng.h"
#include "kernels/inline/column_random_bits.h"
#include "kernels/inline/optimizer_rules.h"
}

enum { RK_STRIP = 4 };

/* What a lane has of a row: four columns. */
typedef struct rk_strip {
    int32_t column, n; /* the first; how many of them the row has */
    float w[RK_STRIP], g[RK_STRIP];
    float slots[2][RK_STRIP]; /* of a value each */
} rk_strip;

/* What follows from a whole row. */
typedef struct rk_row_sums {
    float w, g, steps; /* squares */
} rk_row_sums;

/* Which slot has one value a row, or -1. */
__device__ static inline int rk_find_rowwise_slot(const rk_update *u) {
    return u->kind == RK_OPTIMIZER_ROWWISE_ADAGRAD ? 0 : u->kind == RK_OPTIMIZER_ROWWISE_ADAM ? 1 : -1;
}

__device__ static inline void rk_strip_load(const rk_cuda_table *t, const rk_update *u, uint64_t place,
                                            int32_t column, rk_strip *s) {
    int32_t left = t->dim - column;
    s->column = column;
    s->n = left < 0 ? 0 : left < 4 ? left : 4;
    rk_load_strip(t, t->rows, place, column, s->w);
    for (int i = 0; i < 2; i++)
        if (t->slots[i] && i != rk_find_rowwise_slot(u))
            rk_load_floats(t->slots[i] + place * (uint64_t)t->dim, column, t->dim, t->dim % 4 == 0,
                           s->slots[i]);
        else
            s->slots[i][0] = s->slots[i][1] = s->slots[i][2] = s->slots[i][3] = 0;
}

/* Once g is there. */
__device__ static inline void rk_strip_decay_and_clip(const rk_update *u, float l2, rk_strip *s) {
    if (l2 != 0)
        for (int j = 0; j < 4; j++) s->g[j] += l2 * s->w[j];
    if (rk_cuda_needs_sums(u->kind)) clip_gradient_and_decay(u, s->w, s->g, RK_STRIP);
}

/* The sixteen lanes of sum_of_squares (kernels/inline/optimizer_rules.h): column k is added to lane k % 16,
 * in ascending order. Lanes of the group that are alike in number modulo 4 keep the same four of the sixteen.
 * All lanes of the warp take part; class_ is the same in all. */
__device__ static inline void rk_add_to_lane_sums(float sixteen[4], const float squares[4], uint32_t class_) {
    uint32_t lane = rk_table_lane_number(), first = lane >> class_ << class_;
    uint32_t n = class_ > 2 ? 1u << (class_ - 2) : 1, own = class_ > 2 ? first + (lane - first) % 4 : lane;
    for (uint32_t r = 0; r < n; r++)
        for (int j = 0; j < 4; j++) sixteen[j] += __shfl_sync(RK_FULL_WARP, squares[j], (int)(own + 4 * r));
}

__device__ static inline float rk_reduce_lane_sums(float sixteen[4], uint32_t class_) {
    for (uint32_t width = class_ > 1 ? 2 : class_; width; width /= 2)
        for (int j = 0; j < 4; j++) sixteen[j] += __shfl_xor_sync(RK_FULL_WARP, sixteen[j], (int)width);
    return (sixteen[0] + sixteen[2]) + (sixteen[1] + sixteen[3]);
}

/* The squares that this strip adds to the row's sums: of w, of g, of lamb's steps. */
__device__ static inline void rk_strip_compute_squares(const rk_update *u, const rk_strip *s, float w[4],
                                                       float g[4], float steps[4]) {
    for (int j = 0; j < 4; j++) {
        float m = s->slots[0][j], v = s->slots[1][j];
        bool here = j < s->n;
        w[j] = here ? s->w[j] * s->w[j] : 0;
        g[j] = here ? s->g[j] * s->g[j] : 0;
        steps[j] =
            here && u->kind == RK_OPTIMIZER_LAMB ? lamb_update_moments(u, &s->w[j], &m, &v, &s->g[j], 1) : 0;
    }
}

/* Of a rule that needs sums. row_slot: the row's own slot, before; returns it after. Rules take all four
 * columns, which keeps them in registers; those beyond the row's last are not stored. */
__device__ static inline float rk_strip_apply_rule_with_sums(const rk_update *u, const rk_row_sums *sums,
                                                             float row_slot, int32_t dim, rk_strip *s) {
    float *w = s->w, *m = s->slots[0], *v = s->slots[1];
    if (u->kind == RK_OPTIMIZER_ROWWISE_ADAGRAD) {
        row_slot += sums->g / (float)dim;
        rowwise_adagrad_update_values(u, w, row_slot, s->g, RK_STRIP);
    } else if (u->kind == RK_OPTIMIZER_ROWWISE_ADAM) {
        row_slot = rowwise_adam_next_v(u, row_slot, sums->g / (float)dim);
        rowwise_adam_update_values(u, w, m, row_slot, s->g, RK_STRIP);
    } else if (u->kind == RK_OPTIMIZER_LAMB) {
        lamb_update_moments(u, w, m, v, s->g, RK_STRIP);
        lamb_update_values(u, sums->w, sums->steps, w, m, v, RK_STRIP);
    } else {
        lars_update_values(u, sums->w, sums->g, w, m, s->g, RK_STRIP);
    }
    clip_weights(u, w, RK_STRIP);
    return row_slot;
}

/* The number, in the whole table, of a row at a place; of a dynamic table its key. */
__device__ static inline uint64_t rk_row_number_or_key(const rk_cuda_table *t, uint64_t place) {
    if (t->is_dynamic) return (uint64_t)t->keys[place];
    return (t->frames ? t->frames[place].row - 1 : place) * t->n_parts + t->part;
}

__device__ static inline void rk_store_strip_as_halves(const rk_cuda_table *t, uint64_t place, uint64_t row,
                                                       uint64_t seed, const rk_strip *s) {
    uint16_t *to = (uint16_t *)t->rows + place * (uint64_t)t->dim + s->column, halves[4];
    uint32_t words[4];
    rk_rng_draw_four_words(seed, 0, row, words);
    for (int j = 0; j < 4; j++) {
        uint32_t bits = column_random_bits(words, t->first_column + s->column + j);
        halves[j] = t->dtype == RK_BF16 ? rk_bf16_from_f32_stochastic(s->w[j], bits)
                                        : rk_f16_from_f32_stochastic(s->w[j], bits);
    }
    if (t->dim % 4 == 0)
        *(uint2 *)to =
            make_uint2((uint32_t)halves[1] << 16 | halves[0], (uint32_t)halves[3] << 16 | halves[2]);
    else
        for (int j = 0; j < s->n; j++) to[j] = halves[j];
}

/* row: its number, by which it is rounded. */
__device__ static inline void rk_strip_store(const rk_cuda_table *t, const rk_update *u, uint64_t place,
                                             uint64_t row, uint64_t seed, const rk_strip *s) {
    if (!s->n) return;
    if (t->dtype == RK_F32)
        rk_store_floats((float *)t->rows + place * (uint64_t)t->dim, s->column, t->dim, t->dim % 4 == 0,
                        s->w);
    else
        rk_store_strip_as_halves(t, place, row, seed, s);
    for (int i = 0; i < 2; i++)
        if (t->slots[i] && i != rk_find_rowwise_slot(u))
            rk_store_floats(t->slots[i] + place * (uint64_t)t->dim, s->column, t->dim, t->dim % 4 == 0,
                            s->slots[i]);
}

#endif
