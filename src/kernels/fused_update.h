/* Rows of a part of a table that a batch used: each one's gradients summed and one optimizer step, in one
 * visit. */
#ifndef RK_KERNELS_FUSED_UPDATE_H
#define RK_KERNELS_FUSED_UPDATE_H

#include "kernels/optimizer_step.h"
#include "kernels/rows.h"

/* A place where a batch used a row: the row's place in its part of the table, and the number of the bag. */
typedef uint64_t rk_row_use;
static inline rk_row_use rk_row_use_make(uint32_t place, uint32_t bag) {
    return (uint64_t)place << 32 | bag;
}
static inline uint32_t rk_row_use_place(rk_row_use use) {
    return (uint32_t)(use >> 32);
}

/* The gradients of one feature's bags, which are numbered from first_bag on among all bags of the table's
 * features. Bag b - first_bag = s * length + p has its own at data + s * stride + p * dim; length is 1 but
 * for sequences. */
typedef struct rk_gradient_source {
    const float *data;
    int64_t stride, length;
    uint32_t first_bag;
    const float *scales; /* [n_bags] or NULL: 1 */
    /* Which leaf of the tree of sums a bag is: first_leaf + (b - first_bag) / leaf_bags; leaf_bags 0:
     * first_leaf. */
    uint32_t first_leaf;
    int64_t leaf_bags;
} rk_gradient_source;

enum { RK_MAX_LEAVES = 1024 };

/*     for each place that has uses, ascending (or all places below n_places, if l2_full != 0), of row
 *     first_row + place:
 *         for each leaf that has uses of the place, ascending:
 *             g of the leaf = 0;  for each use of the place in it, in order: g += coefficient * gradient of
 *             the bag
 *         g = the sum of the leaves' in the order of their tree (base/tree_sum.h)
 *         g += (l2 if used + l2_full) * row
 *         rk_optimizer_step(row, its slots, g)
 * bf16 and f16 rows are rounded stochastically with bits drawn from (seed, row). Where rows are f32 denormal
 * values count as zeros, also in rk_sum_row_gradients (kernels/inline/flush_denormals.h). */
typedef struct rk_fused_update_args {
    rk_rows rows;
    int64_t first_row, n_places;
    float *slots[2];        /* [rows of the table, slot_widths[s]], or NULL */
    int32_t slot_widths[2]; /* dim or 1 */
    const rk_update *update;
    const rk_row_use *uses; /* [n_uses], ascending by place, then by leaf, else in the order of the batch */
    int64_t n_uses;
    const rk_gradient_source *sources; /* [n_sources], first_bag ascending */
    int32_t n_sources;
    bool has_leaves; /* more than one */
    /* where ids have weights, a use names its occurrence instead of its bag: */
    const uint32_t *bags;      /* [n_occurrences] or NULL: uses name bags */
    const float *coefficients; /* [n_occurrences] or NULL: the sources' scales */
    float l2, l2_full;
    uint64_t seed;
} rk_fused_update_args;
void rk_fused_update(const rk_fused_update_args *args);

/* The sums alone, of the places that have uses: g goes to out + targets[occurrence of the place's first use]
 * * dim, where uses name occurrences; or, with targets NULL, one after another. */
typedef struct rk_sum_row_gradients_args {
    rk_fused_update_args from; /* rows.dtype and .dim, and from `uses` to `coefficients` */
    const int64_t *targets;    /* [n_occurrences] or NULL */
    float *out;                /* [n_targets, dim] */
} rk_sum_row_gradients_args;
void rk_sum_row_gradients(const rk_sum_row_gradients_args *args);

#endif
