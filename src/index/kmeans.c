/* Spherical k-means over a sample, by matrix products: centroids have length 1, and a vector belongs to the
 * one with the largest product, as queries choose their lists. Sums run over a list's members in their order,
 * so the centroids have the same bits for any number of threads. */
#include <math.h>
#include <string.h>

#include "base/thread/parallel_failure.h"
#include "base/integers.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/thread/parallel.h"
#include "gemm/gemm.h"
#include "index/index_internal.h"

enum { BLOCK = 128, LISTS = 16, ITERATIONS = 10, SAMPLES_PER_LIST = 128 };

typedef struct nearest {
    const rk_index_rows *rows;
    const uint32_t *order; /* [n] rows; NULL: from `first` on */
    int64_t first, n, n_lists;
    uint32_t *best; /* [n] */
    rk_packed_matrix *centroids;
    unsigned char *memory; /* [n_threads, thread_bytes] */
    size_t thread_bytes;
    rk_parallel_failure failure;
} nearest;

static int64_t row_of_vector(const nearest *a, int64_t i) {
    return a->order ? (int64_t)a->order[i] : a->first + i;
}

static void assign_vectors_to_centroids(void *context, size_t task, int thread) {
    nearest *a = context;
    int32_t dim = a->rows->dim;
    int64_t first = (int64_t)task * BLOCK, n = a->n - first < BLOCK ? a->n - first : BLOCK;
    unsigned char *memory = a->memory + (size_t)thread * a->thread_bytes;
    float *x = (float *)memory, *scores = x + (int64_t)BLOCK * dim;
    void *workspace = memory + (a->thread_bytes - rk_packed_matrix_workspace_bytes(a->centroids));
    for (int64_t i = 0; i < n; i++)
        memcpy(x + i * dim, a->rows->vectors[row_of_vector(a, first + i)], (size_t)dim * sizeof *x);
    rk_status status = rk_packed_matrix_forward(a->centroids, n, x, NULL, false, scores, workspace);
    if (status == RK_OK) rk_rows_argmax(scores, n, a->n_lists, a->best + first);
    rk_parallel_failure_record(&a->failure, first, status);
}

static rk_status find_nearest_centroids(nearest *a, const rk_loose_f32 *centroids) {
    enum { CACHE_LINE = 64 };
    int32_t dim = a->rows->dim;
    RK_AUTOFREE float *columns = NULL;
    RK_AUTOFREE unsigned char *memory = NULL;
    rk_status status;
    a->failure = (rk_parallel_failure)RK_FAILURE_INIT;
    RK_GOTO(rk_alloc((size_t)(a->n_lists * dim), sizeof *columns, &columns));
    RK_GOTO(rk_packed_matrix_create(dim, a->n_lists, RK_F32, BLOCK, &a->centroids));
    for (int64_t l = 0; l < a->n_lists; l++)
        for (int32_t d = 0; d < dim; d++) columns[d * a->n_lists + l] = centroids[l * dim + d];
    RK_GOTO(rk_packed_matrix_set_weights(a->centroids, columns, false));
    size_t products = (size_t)BLOCK * (size_t)(dim + a->n_lists) * sizeof(float),
           workspace = rk_round_up(rk_packed_matrix_workspace_bytes(a->centroids), CACHE_LINE);
    a->thread_bytes = rk_round_up(products, CACHE_LINE) + workspace;
    RK_GOTO(rk_alloc((size_t)rk_parallel_threads(), a->thread_bytes, &memory));
    a->memory = memory;
    rk_parallel_for(rk_block_count((size_t)a->n, BLOCK), assign_vectors_to_centroids, a);
    status = rk_parallel_failure_status(&a->failure);
done:
    rk_packed_matrix_free(a->centroids);
    return status;
}

rk_status rk_index_assign_to_lists(const rk_index_rows *rows, int64_t first, const rk_loose_f32 *centroids,
                                   int64_t n_lists) {
    nearest a = {
        .rows = rows, .first = first, .n = rows->n - first, .n_lists = n_lists, .best = rows->lists + first};
    return a.n ? find_nearest_centroids(&a, centroids) : RK_OK;
}

/* To length 1; one of length 0 stays. */
static void normalize_centroid(float *centroid, int32_t dim) {
    double square = 0;
    for (int32_t d = 0; d < dim; d++) square += (double)centroid[d] * (double)centroid[d];
    for (int32_t d = 0; square > 0 && d < dim; d++) centroid[d] = (float)((double)centroid[d] / sqrt(square));
}

typedef struct means {
    const rk_index_rows *rows;
    const uint32_t *members; /* rows, list after list */
    const int64_t *offsets;  /* [n_lists+1] */
    int64_t n_lists;
    float *centroids;
} means;

static void average_members_of_lists(void *context, size_t task, int thread) {
    (void)thread;
    const means *m = context;
    int32_t dim = m->rows->dim;
    int64_t end = ((int64_t)task + 1) * LISTS < m->n_lists ? ((int64_t)task + 1) * LISTS : m->n_lists;
    double sums[RK_INDEX_MAX_DIM];
    for (int64_t l = (int64_t)task * LISTS; l < end; l++) {
        int64_t n = m->offsets[l + 1] - m->offsets[l];
        memset(sums, 0, (size_t)dim * sizeof *sums);
        for (int64_t i = m->offsets[l]; i < m->offsets[l + 1]; i++)
            for (int32_t d = 0; d < dim; d++) sums[d] += (double)m->rows->vectors[m->members[i]][d];
        for (int32_t d = 0; n && d < dim; d++) m->centroids[l * dim + d] = (float)(sums[d] / (double)n);
        normalize_centroid(m->centroids + l * dim, dim);
    }
}

/* An empty list takes half of the largest one's members: both centroids move apart by a little. */
static void split_largest_list(const means *m, int64_t *counts) {
    const float apart = 1.0f / 1024;
    int32_t dim = m->rows->dim;
    for (int64_t l = 0; l < m->n_lists; l++) {
        int64_t largest = 0;
        if (counts[l]) continue;
        for (int64_t o = 1; o < m->n_lists; o++) largest = counts[o] > counts[largest] ? o : largest;
        float *to = m->centroids + l * dim, *from = m->centroids + largest * dim;
        for (int32_t d = 0; d < dim; d++) {
            to[d] = from[d] * (d % 2 ? 1 - apart : 1 + apart);
            from[d] *= d % 2 ? 1 + apart : 1 - apart;
        }
        counts[l] = counts[largest] / 2;
        counts[largest] -= counts[l];
    }
}

/* The sample's rows sorted by list; then their means. */
static void move_centroids(const uint32_t *sample, const uint32_t *best, int64_t n, means *m,
                           uint32_t *members, int64_t *offsets, int64_t *counts) {
    rk_index_sort_by_list(best, n, m->n_lists, offsets, counts, members);
    for (int64_t i = 0; i < n; i++) members[i] = sample[members[i]];
    rk_parallel_for(rk_block_count((size_t)m->n_lists, LISTS), average_members_of_lists, m);
    for (int64_t l = 0; l < m->n_lists; l++) counts[l] = offsets[l + 1] - offsets[l];
    split_largest_list(m, counts);
}

rk_status rk_index_train_centroids(const rk_index_rows *rows, int64_t n_lists, uint64_t seed,
                                   float *centroids) {
    int64_t n = rows->n / n_lists > SAMPLES_PER_LIST ? n_lists * SAMPLES_PER_LIST : rows->n;
    RK_AUTOFREE uint32_t *sample = NULL, *best = NULL, *members = NULL;
    RK_AUTOFREE int64_t *offsets = NULL, *counts = NULL;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)rows->n, sample), RK_ARRAY((size_t)n, best),
                        RK_ARRAY((size_t)n, members), RK_ARRAY((size_t)n_lists + 1, offsets),
                        RK_ARRAY((size_t)n_lists, counts)));
    rk_rng_permutation(seed, 0, sample, (uint32_t)rows->n);
    for (int64_t l = 0; l < n_lists; l++) {
        memcpy(centroids + l * rows->dim, rows->vectors[sample[l]], (size_t)rows->dim * sizeof *centroids);
        normalize_centroid(centroids + l * rows->dim, rows->dim);
    }
    means m = {rows, members, offsets, n_lists, centroids};
    for (int i = 0; i < ITERATIONS; i++) {
        nearest a = {.rows = rows, .order = sample, .n = n, .n_lists = n_lists, .best = best};
        RK_TRY(find_nearest_centroids(&a, centroids));
        move_centroids(sample, best, n, &m, members, offsets, counts);
    }
    return RK_OK;
}
