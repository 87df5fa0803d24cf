#include "index/index_internal.h"

static bool answer_ranks_before(const rk_index_answer *a, const rk_index_answer *b) {
    return a->score != b->score ? a->score > b->score : a->id < b->id;
}

static void sift_down(rk_index_answer *a, size_t n, size_t at) {
    rk_index_answer moved = a[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && answer_ranks_before(&a[child], &a[child + 1])) child++;
        if (!answer_ranks_before(&moved, &a[child])) break;
        a[at] = a[child];
    }
    a[at] = moved;
}

/* A heap of the k best, its root the last of them; then they leave it from the last to the first. */
void rk_index_sort_top_k_answers(rk_index_answer *a, size_t n, size_t k) {
    if (k == 0) return;
    for (size_t i = k / 2; i-- > 0;) sift_down(a, k, i);
    for (size_t i = k; i < n; i++)
        if (answer_ranks_before(&a[i], &a[0])) {
            a[0] = a[i];
            sift_down(a, k, 0);
        }
    for (size_t i = k - 1; i > 0; i--) {
        rk_index_answer last = a[0];
        a[0] = a[i];
        a[i] = last;
        sift_down(a, i, 0);
    }
}
