/* Nearest neighbours by the largest inner product: an index of vectors with ids, built, searched, changed,
 * written as a file that FAISS reads too, and opened by mapping it. docs/index.md.
 *
 * Scores are inner products in f32; of equal ones the smaller id comes first. An exact index finds the k best
 * of all vectors; an ivf index finds the k best of the lists that it looks at. In both the answer has the
 * same bits with codes or without, for any number of threads, on any processor. Vectors of length 1 make it
 * cosine.
 *
 * Thread rule: any number of threads at once search one index, save it or ask for its info, while nobody
 * changes it (add, remove, tune, free). Experimental: it may change in any release (docs/api.md). */
#ifndef RECKON_EXPERIMENTAL_INDEX_H
#define RECKON_EXPERIMENTAL_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/batch.h>
#include <reckon/pool.h>
#include <reckon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_index rk_index;

typedef enum rk_index_kind {
    RK_INDEX_EXACT = 0, /* looks at every vector */
    RK_INDEX_IVF = 1    /* looks at the vectors of some lists, those whose centroids score best */
} rk_index_kind;

/* What a search reads first. */
typedef enum rk_index_codes {
    RK_INDEX_INT8 = 0, /* a code of 8 bits for each number: a quarter of the bytes. Vectors whose codes may
                          stand for one of the k best are then scored in f32: the answer is as without */
    RK_INDEX_F32 = 1   /* the vectors themselves; of exact indexes alone */
} rk_index_codes;

typedef struct rk_index_options {
    size_t struct_size;
    rk_index_kind kind;
    rk_index_codes codes;
    int64_t n_lists; /* of ivf, 1 to the number of vectors; 0: two and a half times its square root */
    int64_t n_probe; /* lists that a search looks at; 0: a sixteenth of them, at least one. rk_index_tune sets
                        it by the recall that is wanted */
    uint64_t seed;   /* of k-means */
    rk_pool *pool;   /* of build, add and tune; NULL: the process's. Must outlive the index */
} rk_index_options;
#define RK_INDEX_OPTIONS_INIT \
    { sizeof(rk_index_options), RK_INDEX_EXACT, RK_INDEX_INT8, 0, 0, 1, 0 }

/* vectors [n, dim], copied; ids [n], distinct and 0 or more, or NULL: 0 .. n-1. dim: 1 to 4096. options may
 * be NULL. Errors: RK_INVALID_ARGUMENT, RK_NOT_FINITE (a vector that is not finite or longer than 1e19,
 * naming it), RK_NO_MEMORY. */
RK_API rk_status rk_index_build(const float *vectors, const int64_t *ids, int64_t n, int32_t dim,
                                const rk_index_options *options, rk_index **out);
RK_API void rk_index_free(rk_index *index);

/* What rk_index_save wrote. Only what leads to the vectors is read; they are mapped, and come from the file
 * as searches need them. The file must not be changed meanwhile, but may be replaced or removed. */
typedef struct rk_index_open_options {
    size_t struct_size;
    bool verify;   /* read all of the file and compare its checksum */
    rk_pool *pool; /* as rk_index_options.pool */
} rk_index_open_options;
#define RK_INDEX_OPEN_OPTIONS_INIT \
    { sizeof(rk_index_open_options), false, 0 }
/* options may be NULL. Errors: RK_NOT_FOUND, RK_IO, RK_BAD_DATA (no index, a part of one, or a damaged one,
 * naming the byte), RK_NO_MEMORY. */
RK_API rk_status rk_index_open(const char *path, const rk_index_open_options *options, rk_index **out);

/* The whole file or none. What was added and removed is in it as if the index had been built so, which takes
 * memory for all vectors once more. Errors: RK_IO, RK_NO_MEMORY. */
RK_API rk_status rk_index_save(const rk_index *index, const char *path);

/* More vectors [n, dim] and ids [n], which the index must not have yet. All or none. They are found by the
 * next search. Errors as rk_index_build. */
RK_API rk_status rk_index_add(rk_index *index, const float *vectors, const int64_t *ids, int64_t n);
/* Ids [n] that no search finds any more; those that the index has not are passed over. *n_removed may be
 * NULL: how many there were. Errors: RK_NO_MEMORY. */
RK_API rk_status rk_index_remove(rk_index *index, const int64_t *ids, int64_t n, int64_t *n_removed);

/* Ids that may be found. Give ids or bits, not both; neither: all. */
typedef struct rk_index_search_options {
    size_t struct_size;
    const int64_t *ids; /* [n_ids], ascending */
    int64_t n_ids;
    const uint64_t *bits; /* [(n_bits + 63) / 64]: bit id % 64 of word id / 64; ids of n_bits and more: 0 */
    int64_t n_bits;
    bool deny;              /* the set is of ids that may not be found */
    const rk_ids *excluded; /* a bag of ids for each query, ascending, that it must not find; NULL: none */
    int64_t n_probe;        /* of ivf, in place of the index's own; 0: that one */
    rk_pool *pool;          /* for several queries; may be others' too. NULL: the calling thread alone */
} rk_index_search_options;
#define RK_INDEX_SEARCH_OPTIONS_INIT \
    { sizeof(rk_index_search_options), 0, 0, 0, 0, false, 0, 0, 0 }

/* The k best for each of the queries [n, dim]: ids [n, k], the best first, and scores [n, k] or NULL. Where
 * there are fewer, ids are -1 behind them and scores -infinity; an ivf index looks at more lists before it
 * gives fewer. Errors, with both arrays untouched: RK_INVALID_ARGUMENT, RK_NOT_FINITE (a query),
 * RK_NO_MEMORY.
 */
RK_API rk_status rk_index_search(const rk_index *index, const float *queries, int64_t n, int32_t k,
                                 const rk_index_search_options *options, int64_t *ids, float *scores);

/* How many of the true k best a search finds, and how fast. */
typedef struct rk_index_recall {
    size_t struct_size;
    int64_t n_probe;           /* the index's from now on */
    int64_t n_queries;         /* those that were measured */
    double recall;             /* of the k best, found on them */
    double queries_per_second; /* of one thread, a query at a time */
} rk_index_recall;
#define RK_INDEX_RECALL_INIT \
    { sizeof(rk_index_recall), 0, 0, 0, 0 }
/* Chooses the least n_probe with which the k best of half of the queries [n, dim] (the even ones) are found
 * to the part `recall`, 0 to 1, and measures the other half with it. The queries should be such as will come,
 * and not the vectors of the index. excluded: as in rk_index_search_options, a bag for each query, or NULL.
 * An exact index is only measured. result may be NULL. Errors: RK_INVALID_ARGUMENT (fewer than two queries),
 * RK_NOT_FINITE, RK_NO_MEMORY. */
RK_API rk_status rk_index_tune(rk_index *index, const float *queries, int64_t n, int32_t k, double recall,
                               const rk_ids *excluded, rk_index_recall *result);

typedef struct rk_index_info {
    size_t struct_size;
    rk_index_kind kind;
    rk_index_codes codes;
    int32_t dim;
    int64_t n;                   /* vectors that searches find */
    int64_t n_lists, n_probe;    /* of exact: 1, 1 */
    int64_t n_added, n_removed;  /* that are not yet laid out with the others */
    double asked_recall, recall; /* by rk_index_tune; 0: it was not tuned */
    int64_t tuned_k, tuned_queries;
} rk_index_info;
#define RK_INDEX_INFO_INIT \
    { sizeof(rk_index_info), RK_INDEX_EXACT, RK_INDEX_INT8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
RK_API rk_status rk_index_get_info(const rk_index *index, rk_index_info *out);

#ifdef __cplusplus
}
#endif
#endif
