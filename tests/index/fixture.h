/* Vectors for tests of indexes, and a plain search over all of them. */
#ifndef RK_TESTS_INDEX_FIXTURE_H
#define RK_TESTS_INDEX_FIXTURE_H

#include "testing.h"

#include <math.h>

#include <reckon/experimental/index.h>
#include <reckon/runtime.h>

#include "base/memory.h"
#include "base/rng.h"
#include "kernels/inline/lane_sum.h"

enum { N = 1200, DIM = 19, N_QUERIES = 37, K = 10 };

typedef struct vectors {
    float x[N * DIM], q[N_QUERIES * DIM];
    int64_t ids[N]; /* in no order */
} vectors;

/* Around 30 centres; every fifth vector is the one before it once more, so that scores tie. */
static inline void make_vectors(vectors *v) {
    rk_rng rng = {7, 1, 0};
    static float centres[30 * DIM];
    for (int i = 0; i < 30 * DIM; i++) centres[i] = (float)rk_rng_normal(&rng);
    for (int i = 0; i < N; i++)
        for (int d = 0; d < DIM; d++)
            v->x[i * DIM + d] = i % 5 == 4 ? v->x[(i - 1) * DIM + d]
                                           : centres[i % 30 * DIM + d] + .5f * (float)rk_rng_normal(&rng);
    for (int i = 0; i < N_QUERIES; i++)
        for (int d = 0; d < DIM; d++)
            v->q[i * DIM + d] = centres[i % 30 * DIM + d] + .5f * (float)rk_rng_normal(&rng);
    for (int i = 0; i < N; i++) v->ids[i] = 3 + 7 * (int64_t)((i * 611) % N);
}

/* The k best of the vectors first, first + step ... that `wanted` lets pass (NULL: all). */
static inline void plain_search(const vectors *v, int n, const float *query, int k, const bool *wanted,
                                int64_t *ids, float *scores) {
    static bool used[N];
    memset(used, 0, sizeof used);
    for (int place = 0; place < k; place++) {
        int best = -1;
        float most = 0;
        for (int i = 0; i < n; i++) {
            if (used[i] || (wanted && !wanted[i])) continue;
            float score = rk_dot_product_by_lanes(v->x + i * DIM, query, DIM);
            if (best < 0 || score > most || (score == most && v->ids[i] < v->ids[best])) {
                best = i;
                most = score;
            }
        }
        if (best >= 0) used[best] = true;
        ids[place] = best < 0 ? -1 : v->ids[best];
        scores[place] = best < 0 ? -INFINITY : most;
    }
}

/* That a search finds what the plain one does, to the bit. */
static inline void check_search(const rk_index *index, const vectors *v, int n, int k, const bool *wanted,
                                const rk_index_search_options *options) {
    int64_t *ids = malloc((size_t)(N_QUERIES * k) * sizeof *ids), *best = malloc((size_t)k * sizeof *best);
    float *scores = malloc((size_t)(N_QUERIES * k) * sizeof *scores),
          *best_scores = malloc((size_t)k * sizeof *best_scores);
    OK(rk_index_search(index, v->q, N_QUERIES, k, options, ids, scores));
    for (int q = 0; q < N_QUERIES; q++) {
        plain_search(v, n, v->q + q * DIM, k, wanted, best, best_scores);
        assert_memory_equal(ids + q * k, best, (size_t)k * sizeof *ids);
        assert_memory_equal(scores + q * k, best_scores, (size_t)k * sizeof *scores);
    }
    free(ids);
    free(best);
    free(scores);
    free(best_scores);
}

static inline rk_index *build(const vectors *v, int n, rk_index_kind kind, rk_index_codes codes) {
    rk_index_options o = RK_INDEX_OPTIONS_INIT;
    rk_index *index;
    o.kind = kind;
    o.codes = codes;
    OK(rk_index_build(v->x, v->ids, n, DIM, &o, &index));
    return index;
}

static inline char *read_all(const char *path, size_t *n_bytes) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *n_bytes = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*n_bytes);
    assert_int_equal(fread(data, 1, *n_bytes, file), *n_bytes);
    fclose(file);
    return data;
}

static inline void write_all(const char *path, const char *data, size_t n_bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n_bytes, file), n_bytes);
    fclose(file);
}

#endif
