/* Sums over numbered leaves in the order of a binary tree, ((0 + 1) + (2 + 3)) + (4 + 5). Whoever has the
 * leaves of a subtree can sum them alone, and the bits of the total stay the same. Leaves come in ascending
 * order, some may be missing; partial sums wait on a stack. */
#ifndef RK_BASE_TREE_SUM_H
#define RK_BASE_TREE_SUM_H

#include <stdbool.h>
#include <stdint.h>

/* The height at which two leaves meet. */
static inline int rk_tree_sum_level(uint32_t a, uint32_t b) {
    return a == b ? 0 : 32 - __builtin_clz(a ^ b);
}

enum { RK_TREE_DEPTH = 33 };

/* Which leaves stand for the partial sums on the stack. */
typedef struct rk_tree_sum {
    uint32_t leaves[RK_TREE_DEPTH];
    int depth;
} rk_tree_sum;

/* Whether the two topmost sums are to be added (the top to the one below it, then rk_tree_sum_join) before
 * `next` is pushed. */
static inline bool rk_tree_sum_must_join(const rk_tree_sum *tree, uint32_t next) {
    int d = tree->depth;
    return d > 1 && rk_tree_sum_level(tree->leaves[d - 2], tree->leaves[d - 1]) <
                        rk_tree_sum_level(tree->leaves[d - 1], next);
}
static inline void rk_tree_sum_join(rk_tree_sum *tree) {
    tree->depth--;
}
static inline void rk_tree_sum_push(rk_tree_sum *tree, uint32_t leaf) {
    tree->leaves[tree->depth++] = leaf;
}

#endif
