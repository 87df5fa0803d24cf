/* The body of rk_fused_update (kernels/fused_update.h), compiled once for each instruction set. */
#include <string.h>

#include "base/tree_sum.h"
#include "kernels/kernel_list.h"
#include "kernels/inline/row_load_store.h"
#include "kernels/inline/row_sum.h"
#include "kernels/inline/optimizer_rules.h"

enum { LINE_BYTES = 64, LINES_AHEAD = 256 };

/* To the second cache: fewer lines may be on their way to the first. */
static inline void prefetch_to_read(const void *data, int64_t n_bytes) {
    for (int64_t at = 0; at < n_bytes; at += LINE_BYTES) __builtin_prefetch((const char *)data + at, 0, 2);
}

static inline void prefetch_to_write(const void *data, int64_t n_bytes) {
    for (int64_t at = 0; at < n_bytes; at += LINE_BYTES) __builtin_prefetch((const char *)data + at, 1);
}

/* The gradient of a bag; *source moves on to the feature that it is of. */
static inline const float *gradient_of(const rk_fused_update_args *a, uint32_t bag, int32_t *source) {
    while (*source > 0 && bag < a->sources[*source].first_bag) --*source;
    while (*source + 1 < a->n_sources && bag >= a->sources[*source + 1].first_bag) ++*source;
    const rk_gradient_source *s = &a->sources[*source];
    int64_t local = bag - s->first_bag;
    if (s->length == 1) return s->data + local * s->stride;
    return s->data + local / s->length * s->stride + local % s->length * a->rows.dim;
}

static inline uint32_t bag_of(const rk_fused_update_args *a, rk_row_use use) {
    return a->bags ? a->bags[(uint32_t)use] : (uint32_t)use;
}

static inline float coefficient_of(const rk_fused_update_args *a, rk_row_use use, int32_t source) {
    if (a->coefficients) return a->coefficients[(uint32_t)use];
    const rk_gradient_source *s = &a->sources[source];
    return s->scales ? s->scales[(uint32_t)use - s->first_bag] : 1.0f;
}

static inline void prefetch_use(const rk_fused_update_args *a, int64_t i, int32_t *source) {
    int64_t dim = a->rows.dim;
    prefetch_to_read(gradient_of(a, bag_of(a, a->uses[i]), source), dim * 4);
    uint32_t place = rk_row_use_place(a->uses[i]);
    if (i > 0 && place == rk_row_use_place(a->uses[i - 1])) return;
    int64_t row = a->first_row + place, row_bytes = dim * (a->rows.dtype == RK_F32 ? 4 : 2);
    prefetch_to_write((const char *)a->rows.data + row * row_bytes, row_bytes);
    for (int s = 0; s < 2; s++)
        if (a->slots[s]) prefetch_to_write(a->slots[s] + row * a->slot_widths[s], a->slot_widths[s] * 4);
}

/* How many uses ahead keeps about LINES_AHEAD cache lines on their way. */
static inline int64_t prefetch_distance(const rk_fused_update_args *a) {
    int64_t lines = 0, row_lines = ((int64_t)a->rows.dim * 4 + LINE_BYTES - 1) / LINE_BYTES;
    lines += 2 * row_lines;
    for (int s = 0; s < 2; s++)
        if (a->slots[s]) lines += a->slot_widths[s] == 1 ? 1 : row_lines;
    return lines >= LINES_AHEAD / 2 ? 2 : LINES_AHEAD / lines;
}

static inline void update_row(const rk_fused_update_args *a, int64_t row, float *g, bool used) {
    int32_t dim = a->rows.dim;
    float copy[RK_MAX_DIM], *slots[2];
    bool in_place = a->rows.dtype == RK_F32;
    float *w = in_place ? (float *)a->rows.data + row * dim : copy;
    if (!in_place) load_row(&a->rows, row, w);
    float l2 = a->l2_full + (used ? a->l2 : 0);
    if (l2 != 0)
        for (int32_t k = 0; k < dim; k++) g[k] += l2 * w[k];
    for (int s = 0; s < 2; s++) slots[s] = a->slots[s] ? a->slots[s] + row * a->slot_widths[s] : NULL;
    apply_rule_to_row(a->update, w, slots[0], slots[1], g, dim);
    if (!in_place) store_row(&a->rows, row, w, a->seed, (uint64_t)rk_rows_id(&a->rows, row));
}

static inline uint32_t leaf_of_bag(const rk_fused_update_args *a, uint32_t bag, int32_t source) {
    const rk_gradient_source *s = &a->sources[source];
    return s->first_leaf + (s->leaf_bags ? (uint32_t)((bag - s->first_bag) / s->leaf_bags) : 0);
}

/* The uses of one place and leaf, from i on, summed into g; returns where they end. dim, leaves: constants
 * where the caller knows them, which keeps the sum in registers. */
ROW_INLINE int64_t sum_uses(const rk_fused_update_args *a, int64_t i, int64_t ahead, int32_t sources[2],
                            float *g, int32_t dim, bool leaves, uint32_t *leaf) {
    uint32_t place = rk_row_use_place(a->uses[i]);
    row_sum sum;
    row_sum_begin(&sum, g, dim);
    for (bool first = true; i < a->n_uses && rk_row_use_place(a->uses[i]) == place; i++, first = false) {
        if (i + ahead < a->n_uses) prefetch_use(a, i + ahead, &sources[1]);
        uint32_t bag = bag_of(a, a->uses[i]);
        const float *from = gradient_of(a, bag, &sources[0]);
        if (leaves && first) *leaf = leaf_of_bag(a, bag, sources[0]);
        if (leaves && !first && leaf_of_bag(a, bag, sources[0]) != *leaf) break;
        row_sum_add_times(&sum, g, coefficient_of(a, a->uses[i], sources[0]), from, dim);
    }
    row_sum_end(&sum, 1.0f, g, dim);
    return i;
}

static int64_t sum_single_use(const rk_fused_update_args *a, int64_t i, int64_t ahead, int32_t sources[2],
                              float *g) {
    switch (a->rows.dim) {
        case 1:
            return sum_uses(a, i, ahead, sources, g, 1, false, NULL);
        case 16:
            return sum_uses(a, i, ahead, sources, g, 16, false, NULL);
        case 32:
            return sum_uses(a, i, ahead, sources, g, 32, false, NULL);
        case 64:
            return sum_uses(a, i, ahead, sources, g, 64, false, NULL);
        case 128:
            return sum_uses(a, i, ahead, sources, g, 128, false, NULL);
        default:
            return sum_uses(a, i, ahead, sources, g, a->rows.dim, false, NULL);
    }
}

static void join_leaves(rk_tree_sum *tree, float *sums, int32_t dim) {
    rk_tree_sum_join(tree);
    float *to = sums + (int64_t)(tree->depth - 1) * dim, *from = to + dim;
    for (int32_t k = 0; k < dim; k++) to[k] += from[k];
}

/* The uses of one place, leaf by leaf. */
static int64_t sum_leaves(const rk_fused_update_args *a, int64_t i, int64_t ahead, int32_t sources[2],
                          float *g) {
    enum { HEIGHT = 12 }; /* of a tree of RK_MAX_LEAVES, one sum that begins and one below it */
    float sums[HEIGHT * RK_MAX_DIM], next[RK_MAX_DIM];
    rk_tree_sum tree;
    tree.depth = 0;
    uint32_t place = rk_row_use_place(a->uses[i]), leaf;
    int32_t dim = a->rows.dim;
    while (i < a->n_uses && rk_row_use_place(a->uses[i]) == place) {
        i = sum_uses(a, i, ahead, sources, next, dim, true, &leaf);
        while (rk_tree_sum_must_join(&tree, leaf)) join_leaves(&tree, sums, dim);
        memcpy(sums + (int64_t)tree.depth * dim, next, (size_t)dim * sizeof *next);
        rk_tree_sum_push(&tree, leaf);
    }
    while (tree.depth > 1) join_leaves(&tree, sums, dim);
    memcpy(g, sums, (size_t)dim * sizeof *g);
    return i;
}

static inline int64_t sum_row_gradient(const rk_fused_update_args *a, int64_t i, int64_t ahead,
                                       int32_t sources[2], float *g) {
    return a->has_leaves ? sum_leaves(a, i, ahead, sources, g) : sum_single_use(a, i, ahead, sources, g);
}

void RK_KERNEL_NAME(rk_fused_update)(const rk_fused_update_args *args) {
    const rk_fused_update_args own = *args, *a = &own; /* its own: stores of rows cannot change it */
    float g[RK_MAX_DIM];
    int64_t ahead = prefetch_distance(a);
    int32_t sources[2] = {0, 0}; /* of the use at hand, of the one that is prefetched */
    for (int64_t k = 0; k < ahead && k < a->n_uses; k++) prefetch_use(a, k, &sources[1]);
    int64_t place = 0, i = 0;
    while (a->l2_full != 0 ? place < a->n_places : i < a->n_uses) {
        if (a->l2_full == 0) place = rk_row_use_place(a->uses[i]);
        bool used = i < a->n_uses && rk_row_use_place(a->uses[i]) == place;
        if (used)
            i = sum_row_gradient(a, i, ahead, sources, g);
        else
            memset(g, 0, (size_t)a->rows.dim * sizeof *g);
        update_row(a, a->first_row + place, g, used);
        place++;
    }
}

/* Nothing of rows is fetched ahead: prefetch_use would touch them. */
void RK_KERNEL_NAME(rk_rows_sum)(const rk_rows_sum_args *args) {
    const rk_fused_update_args *a = &args->from;
    int32_t sources[2] = {0, 0};
    for (int64_t i = 0, n = 0; i < a->n_uses; n++) {
        int64_t target = args->targets ? args->targets[(uint32_t)a->uses[i]] : n;
        i = sum_row_gradient(a, i, INT32_MAX, sources, args->out + target * a->rows.dim);
    }
}
