/* Vectors sorted into lists, with their codes. */
#include <string.h>

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "index/index_internal.h"
#include "base/integers.h"

enum { BLOCK = 4096, ALIGNMENT = 64 };

rk_status rk_index_rows_create(int64_t n, int32_t dim, rk_index_rows *out) {
    rk_index_rows rows = {.n = n, .dim = dim};
    rk_status status = RK_ALLOC_ALL(RK_ARRAY((size_t)n, rows.vectors), RK_ARRAY((size_t)n, rows.ids),
                                    RK_ARRAY((size_t)n, rows.lists));
    if (status == RK_OK)
        *out = rows;
    else
        rk_index_rows_release(&rows);
    return status;
}

void rk_index_rows_release(rk_index_rows *rows) {
    RK_FREE_ALL(rows->vectors, rows->ids, rows->lists);
}

void rk_index_base_release(rk_index_base *base) {
    RK_FREE_ALL(base->offsets, base->low, base->width);
    if (base->memory) rk_pages_free(base->memory, base->memory_bytes);
    if (base->map.data) rk_mapped_file_release(&base->map);
    *base = (rk_index_base){0};
}

typedef struct layout {
    const rk_index_rows *rows;
    const uint32_t *order; /* [n] rows by position */
    float *vectors;
    int64_t *ids;
    uint8_t *codes;
    float *ranges; /* [n_blocks, 2, dim]: the least and the largest value of each column */
    const rk_index_base *base;
} layout;

static void copy_vector_block(void *context, size_t task, int thread) {
    (void)thread;
    const layout *l = context;
    int32_t dim = l->rows->dim;
    int64_t first = (int64_t)task * BLOCK, end = first + BLOCK < l->rows->n ? first + BLOCK : l->rows->n;
    float *least = l->ranges + (int64_t)task * 2 * dim, *most = least + dim;
    for (int64_t p = first; p < end; p++) {
        float *vector = l->vectors + p * dim;
        memcpy(vector, l->rows->vectors[l->order[p]], (size_t)dim * sizeof *vector);
        l->ids[p] = l->rows->ids[l->order[p]];
        for (int32_t d = 0; d < dim; d++) {
            least[d] = p == first || vector[d] < least[d] ? vector[d] : least[d];
            most[d] = p == first || vector[d] > most[d] ? vector[d] : most[d];
        }
    }
}

static void encode_vector_block(void *context, size_t task, int thread) {
    (void)thread;
    const layout *l = context;
    int32_t dim = l->rows->dim;
    int64_t first = (int64_t)task * BLOCK, end = first + BLOCK < l->rows->n ? first + BLOCK : l->rows->n;
    const float *low = l->base->low, *width = l->base->width;
    for (int64_t p = first; p < end; p++)
        for (int32_t d = 0; d < dim; d++) {
            float part = width[d] > 0 ? (l->vectors[p * dim + d] - low[d]) / width[d] : 0;
            l->codes[p * dim + d] = (uint8_t)(255 * (part < 1 ? part : 1));
        }
}

static void set_code_ranges(const layout *l, size_t n_blocks, rk_index_base *base) {
    int32_t dim = l->rows->dim;
    for (size_t b = 0; b < n_blocks; b++)
        for (int32_t d = 0; d < dim; d++) {
            float least = l->ranges[(int64_t)b * 2 * dim + d],
                  most = l->ranges[((int64_t)b * 2 + 1) * dim + d];
            base->low[d] = b == 0 || least < base->low[d] ? least : base->low[d];
            base->width[d] = b == 0 || most > base->width[d] ? most : base->width[d]; /* the largest so far */
        }
    for (int32_t d = 0; d < dim; d++) base->width[d] -= base->low[d];
}

void rk_index_sort_by_list(const uint32_t *lists, int64_t n, int64_t n_lists, int64_t *offsets, int64_t *next,
                           uint32_t *order) {
    memset(offsets, 0, (size_t)(n_lists + 1) * sizeof *offsets);
    for (int64_t i = 0; i < n; i++) offsets[lists[i] + 1]++;
    for (int64_t l = 0; l < n_lists; l++) {
        offsets[l + 1] += offsets[l];
        next[l] = offsets[l];
    }
    for (int64_t i = 0; i < n; i++) order[next[lists[i]]++] = (uint32_t)i;
}

/* The arrays, one behind the other in memory of the base. */
static rk_status allocate_base(const rk_index_rows *rows, const rk_loose_f32 *centroids, rk_index_base *base,
                               layout *l, bool with_codes) {
    size_t n = (size_t)rows->n, dim = (size_t)rows->dim,
           vectors = rk_round_up(n * dim * sizeof(float), ALIGNMENT),
           ids = rk_round_up(n * sizeof(int64_t), ALIGNMENT),
           codes = with_codes ? rk_round_up(n * dim, ALIGNMENT) : 0,
           of_lists = centroids ? (size_t)base->n_lists * dim * sizeof(float) : 0;
    base->memory_bytes = vectors + ids + codes + of_lists;
    RK_TRY(rk_pages_alloc(base->memory_bytes, &base->memory));
    l->vectors = (float *)base->memory;
    l->ids = (int64_t *)(base->memory + vectors);
    l->codes = with_codes ? base->memory + vectors + ids : NULL;
    if (centroids) memcpy(base->memory + vectors + ids + codes, centroids, of_lists);
    base->vectors = l->vectors;
    base->ids = l->ids;
    base->codes = l->codes;
    base->code_stride = rows->dim;
    base->centroids = centroids ? (rk_loose_f32 *)(base->memory + vectors + ids + codes) : NULL;
    return RK_OK;
}

rk_status rk_index_lay_out_lists(const rk_index_rows *rows, const rk_loose_f32 *centroids, int64_t n_lists,
                                 bool with_codes, rk_index_base *out) {
    rk_index_base base = {.n = rows->n, .n_lists = n_lists};
    layout l = {.rows = rows, .base = &base};
    size_t n_blocks = rk_block_count((size_t)rows->n, BLOCK), dim = (size_t)rows->dim;
    RK_AUTOFREE uint32_t *order = NULL;
    RK_AUTOFREE int64_t *next = NULL;
    rk_status status;
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY((size_t)rows->n, order), RK_ARRAY((size_t)n_lists, next),
                         RK_ARRAY((size_t)n_lists + 1, base.offsets), RK_ARRAY(dim, base.low),
                         RK_ARRAY(dim, base.width), RK_ARRAY(n_blocks * 2 * dim, l.ranges)));
    RK_GOTO(allocate_base(rows, centroids, &base, &l, with_codes));
    rk_index_sort_by_list(rows->lists, rows->n, n_lists, base.offsets, next, order);
    l.order = order;
    rk_parallel_for(n_blocks, copy_vector_block, &l);
    set_code_ranges(&l, n_blocks, &base);
    if (with_codes) rk_parallel_for(n_blocks, encode_vector_block, &l);
    *out = base;
    base = (rk_index_base){0};
done:
    rk_free(l.ranges);
    rk_index_base_release(&base);
    return status;
}
