/* Inside an index: its vectors, list after list, and what was added and removed since they were laid out. */
#ifndef RK_INDEX_INDEX_INTERNAL_H
#define RK_INDEX_INDEX_INTERNAL_H

#include <reckon/experimental/index.h>

#include "base/file/file.h"
#include "kernels/index_scan.h"

enum { RK_INDEX_MAX_DIM = 4096 };

/* Vectors that never change, in memory or in a mapped file: position p has the vector, the id and the code of
 * one. Those of list l stand at positions offsets[l] .. offsets[l+1]-1; an exact index has one list. */
typedef struct rk_index_base {
    int64_t n;
    const rk_loose_f32 *vectors; /* [n, dim] */
    const rk_loose_i64 *ids;     /* [n] */
    const uint8_t *codes;        /* of list l at offsets[l] * code_stride, dim bytes each; NULL: no codes */
    int64_t code_stride;
    int64_t n_lists;
    int64_t *offsets;              /* [n_lists+1] */
    const rk_loose_f32 *centroids; /* [n_lists, dim]; NULL: exact */
    float *low, *width;    /* [dim] each: code c of column d stands for low + width * (c + 1/2) / 255 */
    unsigned char *memory; /* pages with the above; NULL: in `map` */
    size_t memory_bytes;
    rk_mapped_file map;
} rk_index_base;

struct rk_index {
    rk_index_kind kind;
    rk_index_codes codes;
    int32_t dim;
    int64_t n_probe;
    uint64_t seed;
    rk_pool *pool;
    rk_index_base base;
    float *added;       /* [n_added, dim]: positions base.n and on, in no list */
    int64_t *added_ids; /* [n_added] */
    int64_t n_added;
    size_t added_capacity, added_ids_capacity;
    uint64_t *removed; /* a bit a position; behind removed_words all are there */
    int64_t n_removed;
    size_t removed_words;
    double asked_recall, recall, queries_per_second;
    int64_t tuned_k, tuned_queries;
};

static inline bool rk_index_is_removed(const rk_index *x, int64_t position) {
    return (size_t)position / 64 < x->removed_words && x->removed[position / 64] >> (position % 64) & 1;
}
static inline int64_t rk_index_count(const rk_index *x) {
    return x->base.n + x->n_added - x->n_removed;
}
static inline int64_t rk_index_id(const rk_index *x, int64_t position) {
    return position < x->base.n ? x->base.ids[position] : x->added_ids[position - x->base.n];
}
static inline const rk_loose_f32 *rk_index_vector(const rk_index *x, int64_t position) {
    return position < x->base.n ? x->base.vectors + position * x->dim
                                : (const rk_loose_f32 *)x->added + (position - x->base.n) * x->dim;
}

/* Vectors on their way into a base. */
typedef struct rk_index_rows {
    int64_t n;
    int32_t dim;
    const rk_loose_f32 **vectors; /* [n], each [dim] */
    int64_t *ids;                 /* [n] */
    uint32_t *lists;              /* [n] */
} rk_index_rows;
rk_status rk_index_rows_create(int64_t n, int32_t dim, rk_index_rows *out);
void rk_index_rows_release(rk_index_rows *rows);

/* Rows 0 .. n-1 by their lists, in their order within each: order [n], of which list l has offsets[l] ..
 * offsets[l+1]-1. next [n_lists] is memory that it needs. */
void rk_index_sort_by_list(const uint32_t *lists, int64_t n, int64_t n_lists, int64_t *offsets, int64_t *next,
                           uint32_t *order);
/* Rows by their lists, in their order within each; centroids [n_lists, dim] are copied, NULL: one list. */
rk_status rk_index_lay_out_lists(const rk_index_rows *rows, const rk_loose_f32 *centroids, int64_t n_lists,
                                 bool with_codes, rk_index_base *out);
void rk_index_base_release(rk_index_base *base);
/* What is there of an index, laid out anew, with the same centroids. */
rk_status rk_index_make_compacted_base(const rk_index *index, rk_index_base *out);

/* spherical k-means: centroids [n_lists, dim] of the rows. The same bits for any number of threads. */
rk_status rk_index_train_centroids(const rk_index_rows *rows, int64_t n_lists, uint64_t seed,
                                   float *centroids);
/* rows->lists from row `first` on: the centroid of each with the largest product. */
rk_status rk_index_assign_to_lists(const rk_index_rows *rows, int64_t first, const rk_loose_f32 *centroids,
                                   int64_t n_lists);

/* Of a query [dim], for rk_code_products. Vectors whose product lies more than the result below another's
 * have the smaller score in f32. */
int32_t rk_index_quantize_query(const rk_index_base *base, int32_t dim, const float *query, int16_t *codes);

/* A key, the larger the better, and the position or list that has it, as one number: the larger, the earlier
 * in the order; of equal keys the smaller place. */
static inline uint64_t rk_candidate_from_key_and_place(int32_t key, uint32_t place) {
    return (uint64_t)((uint32_t)key ^ 0x80000000u) << 32 | (UINT32_MAX - place);
}
static inline int32_t rk_candidate_key(uint64_t candidate) {
    return (int32_t)((uint32_t)(candidate >> 32) ^ 0x80000000u);
}
static inline int64_t rk_candidate_place(uint64_t candidate) {
    return UINT32_MAX - (uint32_t)candidate;
}
/* An answer. */
typedef struct rk_index_answer {
    int64_t id;
    float score;
    uint32_t position;
} rk_index_answer;
/* The k best to the front, the best first; of equal scores the smaller id. 0 <= k <= n. */
void rk_index_sort_top_k_answers(rk_index_answer *answers, size_t n, size_t k);

/* A search of which all was checked but the queries' numbers. */
typedef struct rk_index_search_call {
    const rk_index *index;
    const rk_index_search_options *options;
    const float *queries; /* [n, dim] */
    int64_t n;
    int32_t k;
    int64_t *ids;       /* [n, k] */
    float *scores;      /* [n, k] */
    int64_t *positions; /* [n, k] or NULL */
} rk_index_search_call;
/* On the threads that loops of the caller run on. */
rk_status rk_index_search_all_queries(const rk_index_search_call *call);
/* Scores of all lists for a query: lists [n_lists], in their order; scores [n_lists] is scratch. */
void rk_index_score_lists(const rk_index *index, const float *query, float *scores, uint64_t *lists);

/* All numbers of vectors [n, dim] can be used; `what` names them in the error. */
rk_status rk_index_check_vectors(const float *vectors, int64_t n, int32_t dim, const char *what);
/* A bag of ids for each of n queries, ascending. */
rk_status rk_index_check_excluded_ids(const rk_ids *excluded, int64_t n);

rk_status rk_index_file_write(const rk_index *index, const rk_index_base *base, const char *path);
/* Everything but the pool; `name` is for messages. The map is the index's if it succeeds. */
rk_status rk_index_file_parse(const char *name, const rk_mapped_file *map, bool verify, rk_index **out);

#endif
