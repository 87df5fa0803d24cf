/* The bodies of rk_fused_update and rk_sum_row_gradients (kernels/fused_update.h), compiled once for each
 * instruction set. */
#include <string.h>

#include "base/tree_sum.h"
#include "kernels/kernel_list.h"
#include "kernels/inline/flush_denormals.h"
#include "kernels/inline/row_load_store.h"
#include "kernels/inline/row_sum.h"
#include "kernels/inline/optimizer_rules.h"

#define RANDOM_BLOCKS 16
#include "kernels/inline/random_words.h"

enum { LINE_BYTES = 64, LINES_AHEAD = 256, LINES_AHEAD_NEAR = 128 };

/* Constants after inlining, in all of these: dim, where it is a common one, and plain: all uses are of one
 * feature's bags, and none has a weight of its own. */

/* near: to the first cache, else to the second. */
ROW_INLINE void prefetch_cache_lines(const void *data, int64_t n_bytes, bool near) {
    for (int64_t at = 0; at < n_bytes; at += LINE_BYTES) {
        const char *line = (const char *)data + at;
        if (near)
            __builtin_prefetch(line, 0, 3);
        else
            __builtin_prefetch(line, 0, 2);
    }
}

/* The gradient of a bag; *source moves on to the feature that it is of. */
ROW_INLINE const float *gradient_of_bag(const rk_fused_update_args *a, uint32_t bag, int32_t *source,
                                        bool plain, int32_t dim) {
    if (plain) return a->sources[0].data + (int64_t)bag * a->sources[0].stride;
    while (*source > 0 && bag < a->sources[*source].first_bag) --*source;
    while (*source + 1 < a->n_sources && bag >= a->sources[*source + 1].first_bag) ++*source;
    const rk_gradient_source *s = &a->sources[*source];
    int64_t local = bag - s->first_bag;
    if (s->length == 1) return s->data + local * s->stride;
    return s->data + local / s->length * s->stride + local % s->length * dim;
}

ROW_INLINE uint32_t bag_of_use(const rk_fused_update_args *a, rk_row_use use, bool plain) {
    return !plain && a->bags ? a->bags[(uint32_t)use] : (uint32_t)use;
}

/* NULL: 1. */
ROW_INLINE const float *coefficient_of_use(const rk_fused_update_args *a, rk_row_use use, int32_t source,
                                           bool plain) {
    if (!plain && a->coefficients) return &a->coefficients[(uint32_t)use];
    const rk_gradient_source *s = &a->sources[plain ? 0 : source];
    return s->scales ? &s->scales[(uint32_t)use - s->first_bag] : NULL;
}

ROW_INLINE void prefetch_row(const rk_fused_update_args *a, int64_t row, int32_t dim) {
    int64_t row_bytes = (int64_t)dim * (a->rows.dtype == RK_F32 ? 4 : 2);
    prefetch_cache_lines((const char *)a->rows.data + row * row_bytes, row_bytes, true);
    for (int s = 0; s < 2; s++) {
        if (!a->slots[s]) continue;
        if (a->slot_widths[s] == 1)
            prefetch_cache_lines(a->slots[s] + row, 4, true);
        else
            prefetch_cache_lines(a->slots[s] + row * dim, (int64_t)dim * 4, true);
    }
}

/* How many uses ahead keeps about so many cache lines on their way: fewer to the first cache, which loses
 * what comes too early. */
ROW_INLINE int64_t prefetch_distance(const rk_fused_update_args *a, bool near, int32_t dim) {
    const int64_t lines_ahead = near ? LINES_AHEAD_NEAR : LINES_AHEAD;
    int64_t row_lines = ((int64_t)dim * 4 + LINE_BYTES - 1) / LINE_BYTES, lines = 2 * row_lines;
    for (int s = 0; s < 2; s++)
        if (a->slots[s]) lines += a->slot_widths[s] == 1 ? 1 : row_lines;
    return lines >= lines_ahead / 2 ? 2 : lines_ahead / lines;
}

/* Uses on their way. */
typedef struct use_reader {
    int64_t ahead;
    int32_t source, source_ahead; /* of the use at hand, of the one that is prefetched */
    int64_t place_ahead;          /* of the use that was prefetched last; -1: none was */
} use_reader;

/* rows: whether they will be visited too, also a constant. */
ROW_INLINE void prefetch_use(const rk_fused_update_args *a, int64_t i, use_reader *r, bool rows, bool plain,
                             int32_t dim) {
    rk_row_use use = a->uses[i];
    const uint32_t place = rk_row_use_place(use);
    prefetch_cache_lines(gradient_of_bag(a, bag_of_use(a, use, plain), &r->source_ahead, plain, dim),
                         (int64_t)dim * 4, rows);
    /* Rows of one line without the test: it would be a branch that processors foresee badly. */
    if (rows && (dim * 4 <= LINE_BYTES || place != r->place_ahead))
        prefetch_row(a, a->first_row + place, dim);
    r->place_ahead = place;
}

ROW_INLINE use_reader begin_reading_uses(const rk_fused_update_args *a, bool rows, bool plain, int32_t dim) {
    use_reader r = {.ahead = prefetch_distance(a, rows, dim), .place_ahead = -1};
    for (int64_t i = 0; i < r.ahead && i < a->n_uses; i++) prefetch_use(a, i, &r, rows, plain, dim);
    return r;
}

ROW_INLINE uint32_t summation_leaf_of_bag(const rk_fused_update_args *a, uint32_t bag, int32_t source) {
    const rk_gradient_source *s = &a->sources[source];
    return s->first_leaf + (s->leaf_bags ? (uint32_t)((bag - s->first_bag) / s->leaf_bags) : 0);
}

/* The uses of one place, and if leaf is not NULL of one leaf, from i on, summed into g; returns where they
 * end. */
ROW_INLINE int64_t sum_gradients_of_uses(const rk_fused_update_args *a, int64_t i, use_reader *r, float *g,
                                         bool rows, bool plain, int32_t dim, uint32_t *leaf) {
    const uint32_t place = rk_row_use_place(a->uses[i]);
    const int64_t n_uses = a->n_uses, ahead = r->ahead;
    row_sum sum;
    row_sum_begin(&sum, g, dim);
    for (bool first = true; i < n_uses && rk_row_use_place(a->uses[i]) == place; i++, first = false) {
        if (i + ahead < n_uses) prefetch_use(a, i + ahead, r, rows, plain, dim);
        rk_row_use use = a->uses[i];
        uint32_t bag = bag_of_use(a, use, plain);
        const float *from = gradient_of_bag(a, bag, &r->source, plain, dim);
        if (leaf && first) *leaf = summation_leaf_of_bag(a, bag, r->source);
        if (leaf && !first && summation_leaf_of_bag(a, bag, r->source) != *leaf) break;
        const float *coefficient = coefficient_of_use(a, use, r->source, plain);
        if (coefficient)
            row_sum_add_scaled(&sum, g, *coefficient, from, dim);
        else
            row_sum_add(&sum, g, from, dim);
    }
    row_sum_end(&sum, 1.0f, g, dim);
    return i;
}

static void add_two_subtree_sums(rk_tree_sum *tree, float *sums, int32_t dim) {
    rk_tree_sum_join(tree);
    float *to = sums + (int64_t)(tree->depth - 1) * dim, *from = to + dim;
    for (int32_t k = 0; k < dim; k++) to[k] += from[k];
}

/* The uses of one place, leaf by leaf. */
ROW_INLINE int64_t sum_gradients_by_leaf(const rk_fused_update_args *a, int64_t i, use_reader *r, float *g,
                                         bool rows, int32_t dim) {
    enum { HEIGHT = 12 }; /* of a tree of RK_MAX_LEAVES, one sum that begins and one below it */
    float sums[HEIGHT * RK_MAX_DIM], next[RK_MAX_DIM];
    rk_tree_sum tree;
    tree.depth = 0;
    uint32_t place = rk_row_use_place(a->uses[i]), leaf;
    while (i < a->n_uses && rk_row_use_place(a->uses[i]) == place) {
        i = sum_gradients_of_uses(a, i, r, next, rows, false, dim, &leaf);
        while (rk_tree_sum_must_join(&tree, leaf)) add_two_subtree_sums(&tree, sums, dim);
        memcpy(sums + (int64_t)tree.depth * dim, next, (size_t)dim * sizeof *next);
        rk_tree_sum_push(&tree, leaf);
    }
    while (tree.depth > 1) add_two_subtree_sums(&tree, sums, dim);
    memcpy(g, sums, (size_t)dim * sizeof *g);
    return i;
}

/* What the next rows are rounded by: two words for each use, of which a row takes its first use's, or, where
 * all rows take a step, for each place; a block of them ahead, so that no row waits for its own. */
typedef struct row_words {
    const rk_fused_update_args *of;
    uint32_t words[2][2 * RANDOM_BLOCKS]; /* of the last two of n_blocks, each at its number % 2 */
    uint64_t n_blocks;
} row_words;

/* A row whose sum is in g. */
typedef struct summed_row {
    int64_t row;
    uint64_t draw; /* its first use, or its place, as row_words are drawn */
    bool used;
    row_words *random;
} summed_row;

/* counters[n] = the ids of the rows that the uses, or places, from `first` on are of. */
ROW_INLINE void list_row_ids(const rk_fused_update_args *a, int64_t first, int64_t n, uint64_t *counters) {
    for (int64_t i = 0; i < n; i++) {
        int64_t place = a->l2_full != 0 ? first + i : (int64_t)rk_row_use_place(a->uses[first + i]);
        counters[i] = (uint64_t)rk_id_of_row(&a->rows, a->first_row + place);
    }
}

/* Many at a time cost little more than one, and less than to find out which uses begin a row. */
static __attribute__((noinline)) void draw_row_words(row_words *random, uint64_t block) {
    const rk_fused_update_args *a = random->of;
    const int64_t n_draws = a->l2_full != 0 ? a->n_places : a->n_uses;
    for (uint64_t b = block < random->n_blocks ? block + 1 : block; b <= block + 1; b++) {
        uint64_t counters[RANDOM_BLOCKS] = {0};
        const int64_t first = (int64_t)b * RANDOM_BLOCKS, n = n_draws - first;
        if (n >= RANDOM_BLOCKS)
            list_row_ids(a, first, RANDOM_BLOCKS, counters);
        else
            list_row_ids(a, first, n, counters);
        fill_word_pairs_of(a->seed, 0, counters, random->words[b % 2]);
    }
    random->n_blocks = block + 2;
}

ROW_INLINE const uint32_t *words_of_row(row_words *random, uint64_t draw) {
    const uint64_t block = draw / RANDOM_BLOCKS;
    if (block + 2 > random->n_blocks) draw_row_words(random, block);
    return random->words[block % 2] + 2 * (draw % RANDOM_BLOCKS);
}

/* Rules that few tables have are for any dim. */
static __attribute__((noinline, flatten)) void apply_rare_rule_to_row(const rk_update *restrict update,
                                                                      float *w, float *slot0, float *slot1,
                                                                      float *restrict g, int64_t dim) {
    apply_rare_rule(update, w, slot0, slot1, g, dim);
}

ROW_INLINE void update_row_of_dim(const rk_fused_update_args *a, const rk_update *update,
                                  const summed_row *at, float *g, int32_t dim) {
    float copy[RK_MAX_DIM], *slots[2];
    const int64_t row = at->row;
    bool in_place = a->rows.dtype == RK_F32;
    float *w = in_place ? (float *)a->rows.data + row * dim : copy;
    row_layout layout = a->rows.dtype == RK_BF16 ? ROW_BF16 : ROW_F16;
    if (!in_place) row_decode(row_locate_values(&a->rows, row, layout, dim), layout, w, dim);
    float l2 = a->l2_full + (at->used ? a->l2 : 0);
    if (l2 != 0)
        for (int32_t k = 0; k < dim; k++) g[k] += l2 * w[k];
    for (int s = 0; s < 2; s++) slots[s] = a->slots[s] ? a->slots[s] + row * a->slot_widths[s] : NULL;
    clip_gradient_and_decay(update, w, g, dim);
    if (update->kind == RK_OPTIMIZER_ROWWISE_ADAGRAD && row_is_whole_vectors(dim))
        apply_rowwise_adagrad_of_squares(update, w, slots[0], row_sum_squares(g, dim), g, dim);
    else if (!apply_usual_rule(update, w, slots[0], slots[1], g, dim))
        apply_rare_rule_to_row(update, w, slots[0], slots[1], g, dim);
    clip_weights(update, w, dim);
    if (!in_place) store_row(&a->rows, row, w, words_of_row(at->random, at->draw), dim);
}

/* The usual rules, for each of the dims. */
#define UPDATE_ROW(name, dim)                                                                  \
    static __attribute__((noinline, flatten)) void update_row_##name(                          \
        const rk_fused_update_args *a, const rk_update *restrict update, const summed_row *at, \
        float *restrict g) {                                                                   \
        update_row_of_dim(a, update, at, g, dim);                                              \
    }
ROW_DEFINE_BY_DIM(UPDATE_ROW, a->rows.dim)

/* inlines: whether the step is compiled into the loop, also a constant. */
ROW_INLINE void update_rows(const rk_fused_update_args *a, row_words *random, bool plain, bool leaves,
                            bool inlines, int32_t dim) {
    float g[RK_MAX_DIM];
    use_reader r = begin_reading_uses(a, true, plain, dim);
    int64_t place = 0, i = 0;
    while (a->l2_full != 0 ? place < a->n_places : i < a->n_uses) {
        if (a->l2_full == 0)
            place = rk_row_use_place(a->uses[i]);
        else if (place + r.ahead < a->n_places)
            prefetch_row(a, a->first_row + place + r.ahead, dim);
        bool used = a->l2_full == 0 || (i < a->n_uses && rk_row_use_place(a->uses[i]) == place);
        const summed_row at = {a->first_row + place, (uint64_t)(a->l2_full == 0 ? i : place), used, random};
        if (!used)
            memset(g, 0, (size_t)dim * sizeof *g);
        else if (leaves)
            i = sum_gradients_by_leaf(a, i, &r, g, true, dim);
        else
            i = sum_gradients_of_uses(a, i, &r, g, true, plain, dim, NULL);
        if (inlines) {
            update_row_of_dim(a, a->update, &at, g, dim);
        } else {
            ROW_CALL_BY_DIM(dim, update_row, a, a->update, &at, g);
        }
        place++;
    }
}

enum {
    CHUNK_VALUES = 256,
    CHUNKS_AHEAD = 8,
    SUMMED_VALUES = 2048 /* of rows whose gradients are summed before they take a step */
};

/* A step of rows beside each other, whose values do not depend on one another. */
static __attribute__((noinline, flatten)) void update_values(const rk_update *restrict update, float *w,
                                                             float *slot0, float *slot1, float *restrict g,
                                                             int64_t n, float l2) {
    for (int64_t at = 0; at < n; at += CHUNK_VALUES) {
        const int64_t count = n - at < CHUNK_VALUES ? n - at : CHUNK_VALUES;
        float *arrays[3] = {w + at, slot0 ? slot0 + at : NULL, slot1 ? slot1 + at : NULL};
        for (int i = 0; i < 3 && arrays[i]; i++)
            prefetch_cache_lines(arrays[i] + CHUNKS_AHEAD * CHUNK_VALUES, 4 * CHUNK_VALUES, false);
        for (int64_t k = at; k < at + count; k++) g[k] += l2 * w[k];
        clip_gradient_and_decay(update, arrays[0], g + at, count);
        apply_usual_rule(update, arrays[0], arrays[1], arrays[2], g + at, count);
        clip_weights(update, arrays[0], count);
    }
}

/* Every row takes a step: the sums of some rows, then one loop over their values. */
ROW_INLINE void update_all_rows(const rk_fused_update_args *a, bool plain, int32_t dim) {
    float g[SUMMED_VALUES];
    const int64_t at_once = SUMMED_VALUES / dim;
    use_reader r = begin_reading_uses(a, false, plain, dim);
    for (int64_t first = 0, i = 0; first < a->n_places; first += at_once) {
        const int64_t n = a->n_places - first < at_once ? a->n_places - first : at_once,
                      value = (a->first_row + first) * dim;
        memset(g, 0, (size_t)(n * dim) * sizeof *g);
        while (i < a->n_uses && rk_row_use_place(a->uses[i]) < first + n) {
            float *sum = g + (rk_row_use_place(a->uses[i]) - first) * dim;
            i = sum_gradients_of_uses(a, i, &r, sum, false, plain, dim, NULL);
        }
        update_values(a->update, (float *)a->rows.data + value, a->slots[0] ? a->slots[0] + value : NULL,
                      a->slots[1] ? a->slots[1] + value : NULL, g, n * dim, a->l2_full);
    }
}

/* Plain uses, and a step that is this rule and nothing else. The copies tell compilers what is constant, and
 * that stores of rows change none of it. halves: the rows are bf16 or f16. */
ROW_INLINE void update_rows_by_rule(const rk_fused_update_args *a, bool halves, rk_optimizer_kind kind,
                                    int32_t dim) {
    rk_fused_update_args own = *a;
    rk_update update = *a->update;
    const rk_gradient_source source = a->sources[0];
    row_words random = {.of = a};
    const bool slots[2] = {kind != RK_OPTIMIZER_SGD, kind == RK_OPTIMIZER_ADAM};
    if (!halves)
        own.rows.dtype = RK_F32;
    else if (own.rows.dtype == RK_F32)
        __builtin_unreachable();
    own.l2 = own.l2_full = 0;
    own.sources = &source;
    own.update = &update;
    update.kind = kind;
    update.decay = 0;
    update.clips_gradient = update.clips_weight = false;
    for (int s = 0; s < 2; s++) {
        own.slot_widths[s] = kind == RK_OPTIMIZER_ROWWISE_ADAGRAD ? 1 : dim;
        if (slots[s] != (own.slots[s] != NULL)) __builtin_unreachable();
    }
    update_rows(&own, &random, true, false, true, dim);
}

ROW_INLINE void update_rows_by_usual_rule(const rk_fused_update_args *a, bool halves, int32_t dim) {
    switch (a->update->kind) {
        case RK_OPTIMIZER_SGD:
            update_rows_by_rule(a, halves, RK_OPTIMIZER_SGD, dim);
            break;
        case RK_OPTIMIZER_ADAGRAD:
            update_rows_by_rule(a, halves, RK_OPTIMIZER_ADAGRAD, dim);
            break;
        case RK_OPTIMIZER_ROWWISE_ADAGRAD:
            update_rows_by_rule(a, halves, RK_OPTIMIZER_ROWWISE_ADAGRAD, dim);
            break;
        default:
            update_rows_by_rule(a, halves, RK_OPTIMIZER_ADAM, dim);
    }
}

#define UPDATE_ROWS(name, dim)                                                                          \
    static __attribute__((noinline)) void update_f32_by_rule_##name(const rk_fused_update_args *a) {    \
        update_rows_by_usual_rule(a, false, dim);                                                       \
    }                                                                                                   \
    static __attribute__((noinline)) void update_halves_by_rule_##name(const rk_fused_update_args *a) { \
        update_rows_by_usual_rule(a, true, dim);                                                        \
    }                                                                                                   \
    static __attribute__((noinline)) void update_plain_rows_##name(const rk_fused_update_args *a) {     \
        row_words random = {.of = a};                                                                   \
        update_rows(a, &random, true, false, false, dim);                                               \
    }                                                                                                   \
    static __attribute__((noinline)) void update_rows_##name(const rk_fused_update_args *a) {           \
        row_words random = {.of = a};                                                                   \
        update_rows(a, &random, false, false, false, dim);                                              \
    }                                                                                                   \
    static __attribute__((noinline)) void update_all_plain_rows_##name(const rk_fused_update_args *a) { \
        update_all_rows(a, true, dim);                                                                  \
    }                                                                                                   \
    static __attribute__((noinline)) void update_all_rows_##name(const rk_fused_update_args *a) {       \
        update_all_rows(a, false, dim);                                                                 \
    }
ROW_DEFINE_BY_DIM(UPDATE_ROWS, a->rows.dim)

static __attribute__((noinline)) void update_rows_by_leaves(const rk_fused_update_args *a) {
    row_words random = {.of = a};
    update_rows(a, &random, false, true, false, a->rows.dim);
}

/* Whether the step of a row is a rule that most tables have, and nothing else. */
static bool is_step_a_usual_rule(const rk_fused_update_args *a) {
    const rk_update *u = a->update;
    return (u->kind == RK_OPTIMIZER_SGD || u->kind == RK_OPTIMIZER_ADAGRAD ||
            u->kind == RK_OPTIMIZER_ROWWISE_ADAGRAD || u->kind == RK_OPTIMIZER_ADAM) &&
           a->l2 == 0 && a->l2_full == 0 && u->decay == 0 && !u->clips_gradient && !u->clips_weight;
}

/* Whether every row takes a step, and values do not depend on one another. */
static bool takes_all_values(const rk_fused_update_args *a) {
    rk_optimizer_kind kind = a->update->kind;
    return a->l2_full != 0 && a->l2 == 0 && a->rows.dtype == RK_F32 && a->rows.dim <= SUMMED_VALUES &&
           (kind == RK_OPTIMIZER_SGD || kind == RK_OPTIMIZER_ADAGRAD || kind == RK_OPTIMIZER_ADAM ||
            kind == RK_OPTIMIZER_ADAMW);
}

static bool are_uses_plain_bags(const rk_fused_update_args *a) {
    return a->n_sources == 1 && !a->bags && !a->coefficients && a->sources[0].length == 1 &&
           a->sources[0].first_bag == 0;
}

static __attribute__((noinline)) void update_rows_of_part(const rk_fused_update_args *a) {
    if (a->has_leaves) {
        update_rows_by_leaves(a);
    } else if (are_uses_plain_bags(a) && is_step_a_usual_rule(a)) {
        if (a->rows.dtype == RK_F32) {
            ROW_CALL_BY_DIM(a->rows.dim, update_f32_by_rule, a);
        } else {
            ROW_CALL_BY_DIM(a->rows.dim, update_halves_by_rule, a);
        }
    } else if (takes_all_values(a)) {
        if (are_uses_plain_bags(a)) {
            ROW_CALL_BY_DIM(a->rows.dim, update_all_plain_rows, a);
        } else {
            ROW_CALL_BY_DIM(a->rows.dim, update_all_rows, a);
        }
    } else if (are_uses_plain_bags(a)) {
        ROW_CALL_BY_DIM(a->rows.dim, update_plain_rows, a);
    } else {
        ROW_CALL_BY_DIM(a->rows.dim, update_rows, a);
    }
}

/* Not of narrow rows: f16 values are decoded by way of denormal ones. */
static unsigned begin_flushing_denormals_of_rows(const rk_fused_update_args *a) {
    return begin_flushing_denormals(a->rows.dtype == RK_F32);
}

void RK_KERNEL_NAME(rk_fused_update)(const rk_fused_update_args *args) {
    const rk_fused_update_args own = *args; /* its own: stores of rows cannot change it */
    unsigned mode = begin_flushing_denormals_of_rows(&own);
    update_rows_of_part(&own);
    end_flushing_denormals(mode);
}

ROW_INLINE void sum_gradients_of_rows(const rk_sum_row_gradients_args *args, const rk_fused_update_args *a,
                                      bool plain, bool leaves, int32_t dim) {
    use_reader r = begin_reading_uses(a, false, plain, dim);
    for (int64_t i = 0, n = 0; i < a->n_uses; n++) {
        float *out = args->out + (args->targets ? args->targets[(uint32_t)a->uses[i]] : n) * dim;
        i = leaves ? sum_gradients_by_leaf(a, i, &r, out, false, dim)
                   : sum_gradients_of_uses(a, i, &r, out, false, plain, dim, NULL);
    }
}

#define SUM_ROWS(name, dim)                                                     \
    static __attribute__((noinline)) void sum_gradients_of_plain_rows_##name(   \
        const rk_sum_row_gradients_args *args, const rk_fused_update_args *a) { \
        sum_gradients_of_rows(args, a, true, false, dim);                       \
    }                                                                           \
    static __attribute__((noinline)) void sum_gradients_of_rows_##name(         \
        const rk_sum_row_gradients_args *args, const rk_fused_update_args *a) { \
        sum_gradients_of_rows(args, a, false, false, dim);                      \
    }
ROW_DEFINE_BY_DIM(SUM_ROWS, a->rows.dim)

static __attribute__((noinline)) void sum_gradients_of_rows_by_leaf(const rk_sum_row_gradients_args *args,
                                                                    const rk_fused_update_args *a) {
    sum_gradients_of_rows(args, a, false, true, a->rows.dim);
}

static __attribute__((noinline)) void sum_gradients_of_all_rows(const rk_sum_row_gradients_args *args,
                                                                const rk_fused_update_args *a) {
    if (a->has_leaves) {
        sum_gradients_of_rows_by_leaf(args, a);
    } else if (are_uses_plain_bags(a)) {
        ROW_CALL_BY_DIM(a->rows.dim, sum_gradients_of_plain_rows, args, a);
    } else {
        ROW_CALL_BY_DIM(a->rows.dim, sum_gradients_of_rows, args, a);
    }
}

void RK_KERNEL_NAME(rk_sum_row_gradients)(const rk_sum_row_gradients_args *args) {
    const rk_fused_update_args own = args->from;
    unsigned mode = begin_flushing_denormals_of_rows(&own);
    sum_gradients_of_all_rows(args, &own);
    end_flushing_denormals(mode);
}
