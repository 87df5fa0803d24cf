#include "embedding/local/row_uses.h"

#include <string.h>

#include "base/thread/parallel.h"
#include "embedding/local/collection_internal.h"
#include "base/memory.h"
#include "base/integers.h"

enum {
    CHUNK_USES = 32768,
    PART_USES = 8192, /* that a part has, about: sorted in the second cache, and few enough parts to scatter
                         out to from the first */
    MAX_USUAL_BITS = 11, /* more parts than this at once are scattered slowly */
    FETCH_AHEAD = 16,    /* uses, two cache lines: processors do not see where each part goes on */
    COUNT_WAYS = 4,
    COUNTED_SIDE_BY_SIDE = 256, /* parts, at most */
    FULL_PARTS_BITS = 8,        /* at most, where every row takes a step (l2_full) */
    FULL_PART_VALUES = 1 << 12  /* that such a part has, about: a task that is worth its start */
};

static const rk_feature_bags *bags_of_source(const rk_embeddings *e, const rk_batch_context *batch_context,
                                             int32_t t, int32_t source) {
    return &batch_context->uses[e->by_table[e->table_begins[t] + source]];
}

/* As many parts as give each PART_USES, no more than rows, and so many that a place in a part is 32 bits. */
static int choose_part_shift(const rk_table *table, int64_t n_uses) {
    int wanted = rk_bit_width((uint64_t)(n_uses / PART_USES)),
        row_bits = rk_bit_width((uint64_t)(table->config.n_rows - 1));
    if (table->l2_full != 0) {
        int64_t n_values = table->config.n_rows * table->config.dim;
        int full = rk_bit_width((uint64_t)(n_values / FULL_PART_VALUES));
        if (full > FULL_PARTS_BITS) full = FULL_PARTS_BITS;
        if (wanted < full) wanted = full;
    }
    if (wanted > MAX_USUAL_BITS) wanted = MAX_USUAL_BITS;
    int shift = wanted > row_bits ? 0 : row_bits - wanted;
    return shift > 32 ? 32 : shift;
}

/* A source's bags of one leaf. */
typedef struct leaf_bags {
    int64_t first, last;
} leaf_bags;

static leaf_bags bags_of_leaf(const rk_feature_bags *use, const rk_gradient_source *source, uint32_t leaf) {
    if (!source->leaf_bags)
        return source->first_leaf == leaf ? (leaf_bags){0, use->n_bags} : (leaf_bags){0, 0};
    int64_t first = ((int64_t)leaf - source->first_leaf) * source->leaf_bags,
            last = first + source->leaf_bags;
    if (first < 0 || first >= use->n_bags) return (leaf_bags){0, 0};
    return (leaf_bags){first, last < use->n_bags ? last : use->n_bags};
}

static size_t count_chunks_of_bags(const rk_feature_bags *use, leaf_bags bags) {
    int64_t n_bags = bags.last - bags.first;
    size_t n =
        rk_block_count((size_t)(use->offsets[bags.last] - use->offsets[bags.first] + n_bags), 2 * CHUNK_USES);
    return n < (size_t)n_bags ? n : (size_t)n_bags;
}

static uint32_t count_leaves_of_source(const rk_feature_bags *use, const rk_gradient_source *source) {
    return source->first_leaf +
           (source->leaf_bags ? (uint32_t)rk_block_count((size_t)use->n_bags, (size_t)source->leaf_bags) : 1);
}

/* In the order of leaves, so that a part's uses come leaf by leaf. chunks NULL: only counted. */
static size_t split_bags_into_chunks(const rk_embeddings *e, const rk_batch_context *batch_context, int32_t t,
                                     const rk_row_uses *plan, rk_use_chunk *chunks) {
    size_t at = 0;
    uint32_t n_leaves = 0;
    for (int32_t s = 0; s < plan->n_sources; s++) {
        uint32_t n = count_leaves_of_source(bags_of_source(e, batch_context, t, s), &plan->sources[s]);
        if (n > n_leaves) n_leaves = n;
    }
    for (uint32_t leaf = 0; leaf < n_leaves; leaf++) {
        int64_t occurrence = 0;
        for (int32_t s = 0; s < plan->n_sources; s++) {
            const rk_feature_bags *use = bags_of_source(e, batch_context, t, s);
            leaf_bags bags = bags_of_leaf(use, &plan->sources[s], leaf);
            size_t n = count_chunks_of_bags(use, bags);
            for (size_t c = 0; c < n && chunks; c++) {
                int64_t first = bags.first + rk_partition_begin(bags.last - bags.first, c, n),
                        last = bags.first + rk_partition_begin(bags.last - bags.first, c + 1, n);
                chunks[at + c] = (rk_use_chunk){s, first, last, occurrence + use->offsets[first]};
            }
            at += n;
            occurrence += use->n_ids;
        }
    }
    return at;
}

static rk_status reserve_row_uses(const rk_embeddings *e, const rk_batch_context *batch_context, int32_t t,
                                  rk_row_uses *plan) {
    size_t n = (size_t)plan->n, n_parts = plan->n_parts;
    RK_TRY(rk_reserve(&plan->uses, &plan->uses_capacity, n + FETCH_AHEAD, sizeof *plan->uses));
    if (n > plan->scratch_capacity) { /* not copied as it grows: pages that are not needed stay untouched */
        rk_free(plan->scratch);
        plan->scratch = NULL;
        plan->scratch_capacity = 0;
    }
    if (n > RK_USES_SCRATCH)
        RK_TRY(rk_reserve(&plan->scratch, &plan->scratch_capacity, n, sizeof *plan->scratch));
    RK_TRY(rk_reserve(&plan->part_begins, &plan->parts_capacity, n_parts + 1, sizeof *plan->part_begins));
    RK_TRY(rk_reserve(&plan->piece_begins, &plan->pieces_capacity, n_parts + 1, sizeof *plan->piece_begins));
    plan->n_chunks = split_bags_into_chunks(e, batch_context, t, plan, NULL);
    RK_TRY(rk_reserve(&plan->chunks, &plan->chunks_capacity, plan->n_chunks, sizeof *plan->chunks));
    RK_TRY(rk_reserve(&plan->counts, &plan->counts_capacity, plan->n_chunks * n_parts, sizeof *plan->counts));
    if (!plan->weighted) return RK_OK;
    RK_TRY(rk_reserve(&plan->bags, &plan->bags_capacity, n, sizeof *plan->bags));
    return rk_reserve(&plan->coefficients, &plan->coefficients_capacity, n, sizeof *plan->coefficients);
}

rk_status rk_row_uses_prepare(const rk_embeddings *e, rk_batch_context *batch_context, int32_t t) {
    rk_row_uses *plan = &batch_context->plans[t];
    int64_t n_bags = 0;
    plan->n = 0;
    plan->n_sources = e->table_begins[t + 1] - e->table_begins[t];
    plan->weighted = e->tables[t].part.absent;
    plan->has_leaves = false;
    plan->whole_parts = e->tables[t].l2_full != 0;
    const rk_dynamic_config *dynamic = &e->tables[t].dynamic_config;
    plan->none = e->tables[t].dynamic && !dynamic->oov && !dynamic->n_cold ? 0 : -1;
    for (int32_t s = 0; s < plan->n_sources; s++) {
        plan->n += bags_of_source(e, batch_context, t, s)->n_ids;
        plan->weighted |= bags_of_source(e, batch_context, t, s)->coefficients != NULL;
        n_bags += bags_of_source(e, batch_context, t, s)->n_bags;
    }
    RK_FAIL_IF(plan->n > INT32_MAX || n_bags > INT32_MAX, RK_INVALID_ARGUMENT,
               "table '%s': 2^31 ids or bags or more in one batch", e->tables[t].config.name);
    plan->shift = choose_part_shift(&e->tables[t], plan->n);
    plan->n_parts = (uint32_t)((e->tables[t].config.n_rows - 1) >> plan->shift) + 1;
    plan->passes_over = rk_table_is_dynamic(&e->tables[t]);
    plan->in_order = plan->n_parts == 1 && !plan->passes_over;
    RK_TRY(
        rk_reserve(&plan->sources, &plan->sources_capacity, (size_t)plan->n_sources, sizeof *plan->sources));
    n_bags = 0;
    for (int32_t s = 0; s < plan->n_sources; s++) {
        const rk_feature_bags *use = bags_of_source(e, batch_context, t, s);
        int32_t f = e->by_table[e->table_begins[t] + s], length = e->features[f].max_sequence_length;
        rk_micro_batches micro_batches = e->micro_batches[f];
        plan->sources[s] = (rk_gradient_source){.length = length ? length : 1,
                                                .first_bag = (uint32_t)n_bags,
                                                .scales = use->scales,
                                                .first_leaf = micro_batches.first,
                                                .leaf_bags = micro_batches.samples * (length ? length : 1)};
        plan->has_leaves |= micro_batches.first != plan->sources[0].first_leaf ||
                            (micro_batches.samples && use->n > micro_batches.samples);
        n_bags += use->n_bags;
    }
    RK_TRY(reserve_row_uses(e, batch_context, t, plan));
    split_bags_into_chunks(e, batch_context, t, plan, plan->chunks);
    return RK_OK;
}

#define INLINE static inline __attribute__((always_inline))

/* Counters side by side, for quarters of the ids: one is read right after it was written where many ids are
 * of one part. passes_over: a constant, whether ids may be `none`. */
INLINE void count_ids(const int64_t *ids, int64_t n, int shift, bool passes_over, int64_t none,
                      uint32_t counters[COUNT_WAYS][COUNTED_SIDE_BY_SIDE]) {
    const int64_t quarter = n / COUNT_WAYS;
    for (int64_t i = 0; i < quarter; i++)
#pragma GCC unroll 4
        for (int w = 0; w < COUNT_WAYS; w++) {
            int64_t id = ids[w * quarter + i];
            if (!passes_over || id != none) counters[w][id >> shift]++;
        }
    for (int64_t i = COUNT_WAYS * quarter; i < n; i++)
        if (!passes_over || ids[i] != none) counters[0][ids[i] >> shift]++;
}

static void count_ids_side_by_side(const rk_row_uses *plan, const int64_t *ids, int64_t n, uint32_t *counts) {
    uint32_t counters[COUNT_WAYS][COUNTED_SIDE_BY_SIDE];
    for (int w = 0; w < COUNT_WAYS; w++) memset(counters[w], 0, plan->n_parts * sizeof **counters);
    if (plan->passes_over)
        count_ids(ids, n, plan->shift, true, plan->none, counters);
    else
        count_ids(ids, n, plan->shift, false, 0, counters);
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        counts[p] = 0;
        for (int w = 0; w < COUNT_WAYS; w++) counts[p] += counters[w][p];
    }
}

void rk_row_uses_count_chunk(const rk_embeddings *e, const rk_batch_context *batch_context, int32_t t,
                             size_t chunk) {
    const rk_row_uses *plan = &batch_context->plans[t];
    const rk_use_chunk *c = &plan->chunks[chunk];
    const rk_feature_bags *use = bags_of_source(e, batch_context, t, c->source);
    uint32_t *counts = plan->counts + chunk * plan->n_parts;
    const int64_t first = use->offsets[c->first_bag], n = use->offsets[c->last_bag] - first;
    if (plan->in_order) {
        counts[0] = (uint32_t)n;
        return;
    }
    if (plan->n_parts <= COUNTED_SIDE_BY_SIDE) {
        count_ids_side_by_side(plan, use->ids + first, n, counts);
        return;
    }
    for (uint32_t p = 0; p < plan->n_parts; p++) counts[p] = 0;
    for (int64_t i = first; i < first + n; i++)
        if (use->ids[i] != plan->none) counts[use->ids[i] >> plan->shift]++;
}

/* Counts become the places of each chunk's first use in each part: by part, then chunk, so that a part keeps
 * the order of the batch. */
void rk_row_uses_prefix_sum(rk_row_uses *plan) {
    uint32_t at = 0, pieces = 0;
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        plan->part_begins[p] = at;
        plan->piece_begins[p] = pieces;
        for (size_t c = 0; c < plan->n_chunks; c++) {
            uint32_t *place = &plan->counts[c * plan->n_parts + p], count = *place;
            *place = at;
            at += count;
        }
        pieces += plan->whole_parts
                      ? 1
                      : (uint32_t)rk_block_count(at - plan->part_begins[p], (size_t)plan->piece_uses);
    }
    plan->part_begins[plan->n_parts] = at;
    plan->piece_begins[plan->n_parts] = pieces;
}

static void write_bags_and_coefficients(const rk_row_uses *plan, const rk_feature_bags *use, int64_t bag,
                                        uint32_t number, int64_t occurrence) {
    for (int64_t i = use->offsets[bag]; i < use->offsets[bag + 1]; i++, occurrence++) {
        plan->bags[occurrence] = number;
        plan->coefficients[occurrence] = use->coefficients ? use->coefficients[i]
                                         : use->scales     ? use->scales[bag]
                                                           : 1.0f;
    }
}

/* In order, bags of one id each. */
static void list_single_uses(const rk_row_uses *plan, const rk_feature_bags *use, size_t chunk) {
    const rk_use_chunk *c = &plan->chunks[chunk];
    const int64_t *ids = use->ids + c->first_bag, n = c->last_bag - c->first_bag;
    rk_row_use *uses = plan->uses + plan->counts[chunk];
    uint32_t first = plan->sources[c->source].first_bag + (uint32_t)c->first_bag;
    for (int64_t i = 0; i < n; i++) uses[i] = rk_row_use_make((uint32_t)ids[i], first + (uint32_t)i);
}

/* weighted, passes_over: constants. */
INLINE void scatter_uses(const rk_row_uses *plan, const rk_feature_bags *use, size_t chunk, bool weighted,
                         bool passes_over) {
    const rk_use_chunk *c = &plan->chunks[chunk];
    uint32_t *places = plan->counts + chunk * plan->n_parts, first_bag = plan->sources[c->source].first_bag;
    int64_t occurrence = c->first_occurrence;
    const int64_t *offsets = use->offsets, *ids = use->ids;
    rk_row_use *uses = plan->uses;
    const int shift = plan->shift;
    const int64_t mask = ((int64_t)1 << shift) - 1, none = plan->none, last_bag = c->last_bag;
    for (int64_t b = c->first_bag, i = offsets[b]; b < last_bag; b++) {
        uint32_t number = first_bag + (uint32_t)b;
        if (weighted) write_bags_and_coefficients(plan, use, b, number, occurrence);
        for (const int64_t last = offsets[b + 1]; i < last; i++, occurrence++) {
            if (passes_over && ids[i] == none) continue;
            uint32_t place = places[ids[i] >> shift]++;
            __builtin_prefetch(&uses[place + FETCH_AHEAD], 1);
            uses[place] =
                rk_row_use_make((uint32_t)(ids[i] & mask), weighted ? (uint32_t)occurrence : number);
        }
    }
}

void rk_row_uses_scatter_chunk(const rk_embeddings *e, const rk_batch_context *batch_context, int32_t t,
                               size_t chunk) {
    const rk_row_uses *plan = &batch_context->plans[t];
    const rk_feature_bags *use = bags_of_source(e, batch_context, t, plan->chunks[chunk].source);
    if (plan->in_order && use->single && !plan->weighted)
        list_single_uses(plan, use, chunk);
    else if (plan->weighted)
        scatter_uses(plan, use, chunk, true, true);
    else if (plan->passes_over)
        scatter_uses(plan, use, chunk, false, true);
    else
        scatter_uses(plan, use, chunk, false, false);
}

void rk_row_uses_set_gradients(const rk_embeddings *e, rk_row_uses *plan, int32_t t,
                               const rk_activation *gradients) {
    for (int32_t s = 0; s < plan->n_sources; s++) {
        const rk_activation *from = &gradients[e->by_table[e->table_begins[t] + s]];
        plan->sources[s].data = from->data;
        plan->sources[s].stride = from->stride;
    }
}

void rk_row_uses_sort_part(rk_row_uses *plan, uint32_t part, rk_row_use *scratch) {
    uint32_t begin = plan->part_begins[part], n = plan->part_begins[part + 1] - begin;
    rk_sort_row_uses(plan->uses + begin, n, plan->shift,
                     n > RK_USES_SCRATCH ? plan->scratch + begin : scratch);
}

void rk_row_uses_sort_all(const rk_embeddings *e, rk_batch_context *batch_context, int32_t t,
                          rk_row_use *scratch) {
    rk_row_uses *plan = &batch_context->plans[t];
    for (size_t c = 0; c < plan->n_chunks; c++) rk_row_uses_count_chunk(e, batch_context, t, c);
    rk_row_uses_prefix_sum(plan);
    for (size_t c = 0; c < plan->n_chunks; c++) rk_row_uses_scatter_chunk(e, batch_context, t, c);
    for (uint32_t part = 0; part < plan->n_parts; part++) rk_row_uses_sort_part(plan, part, scratch);
}

size_t rk_row_uses_n_pieces(const rk_row_uses *plan) {
    return plan->piece_begins[plan->n_parts];
}

/* The first of a part's uses from `at` on that is of another row than the one before it. */
static int64_t find_row_boundary(const rk_row_uses *plan, uint32_t part, int64_t at) {
    int64_t low = plan->part_begins[part], high = plan->part_begins[part + 1];
    if (at <= low || at >= high) return at <= low ? low : high;
    uint32_t place = rk_row_use_place(plan->uses[at - 1]);
    low = at;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (rk_row_use_place(plan->uses[middle]) > place)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

rk_use_piece rk_row_uses_piece(const rk_row_uses *plan, size_t piece) {
    uint32_t low = 0, high = plan->n_parts;
    while (high - low > 1) { /* the part whose pieces begin at or before it */
        uint32_t middle = low + (high - low) / 2;
        if (plan->piece_begins[middle] <= piece)
            low = middle;
        else
            high = middle;
    }
    if (plan->whole_parts) return (rk_use_piece){low, plan->part_begins[low], plan->part_begins[low + 1]};
    int64_t first = plan->part_begins[low] + (int64_t)(piece - plan->piece_begins[low]) * plan->piece_uses;
    return (rk_use_piece){low, find_row_boundary(plan, low, first),
                          find_row_boundary(plan, low, first + plan->piece_uses)};
}

void rk_row_uses_release(rk_row_uses *plan) {
    RK_FREE_ALL(plan->uses, plan->scratch, plan->part_begins, plan->piece_begins, plan->sources, plan->chunks,
                plan->counts, plan->bags, plan->coefficients);
    *plan = (rk_row_uses){0};
}
