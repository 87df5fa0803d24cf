/* Rankings as files: the best items of each user of a two_tower, the best of the candidates that any other
 * model scores, and vectors for an index of one's own. docs/retrieval.md.
 * Experimental: it may change in any release (docs/api.md). */
#ifndef RECKON_EXPERIMENTAL_RECOMMEND_H
#define RECKON_EXPERIMENTAL_RECOMMEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/predictor.h>
#include <reckon/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rk_recommend_format { RK_RECOMMEND_CSV = 0, RK_RECOMMEND_JSONL = 1 } rk_recommend_format;

typedef struct rk_recommend_options {
    size_t struct_size;
    const char *users; /* "train" (NULL), "valid", "test", or a file in the columns of the run's data, the
                          item's and labels of which may be missing: each of its users once */
    const char *items; /* a file of items, one a line: no others are recommended. NULL: those of the training
                          data */
    const char *without_items; /* a file of items that are not. NULL: none */
    bool
        with_known; /* items that the run's training and validation data have of a user are recommended too */
    int32_t k;      /* items of a user, at most; 0: 100 */
    rk_recommend_format format;
    const char *output; /* written whole or not at all, and compressed by its name (.gz, .zst). NULL or "-":
                           standard output */
    const char *index;  /* a file of rk_predictor_build_index, which finds the best in place of a look at all
                           items;  NULL: none. Scores may differ in their last digits */
    double *index_recall; /* the part of the best items that the index found, measured on the first 1,000
                             users (of this rank); may be NULL */
} rk_recommend_options;
#define RK_RECOMMEND_OPTIONS_INIT \
    { sizeof(rk_recommend_options), 0, 0, 0, false, 0, RK_RECOMMEND_CSV, 0, 0, 0 }

/* Of a two_tower: of each user, in the order in which they first stand in the data, the k items with the
 * highest scores, of equal ones the smaller id; by looking at all items, or by an index. csv: a line each,
 * `user,rank,item,score`, ranks from 1; jsonl: a line a user, {"user":...,"items":[...],"scores":[...]}.
 * Users and items are named as the data does. Users of whom the training data says nothing, and of whom the
 * model sees nothing but who they are, are left out and warned of. Over ranks all make the call, and the
 * first one writes. *n_users (may be NULL): those written. Errors: RK_UNSUPPORTED (another kind of model),
 * RK_INVALID_ARGUMENT, RK_NOT_FOUND, RK_BAD_DATA (a row, named; no user or no item is left), RK_NOT_FINITE,
 * RK_IO, RK_NO_MEMORY. */
RK_API rk_status rk_predictor_recommend(rk_predictor *predictor, const rk_recommend_options *options,
                                        int64_t *n_users);

/* Vectors of the items, or of the users, that rk_predictor_recommend would have with these options: [n, dim]
 * of f32 at options->output, whose name ends in .npy (NumPy) or .safetensors (a tensor "vectors"), and their
 * names, one a line, beside it: of items.npy, items.ids.txt. *n (may be NULL): how many. Errors as there. */
RK_API rk_status rk_predictor_write_vectors(rk_predictor *predictor, bool of_items,
                                            const rk_recommend_options *options, int64_t *n);

/* The items that rk_predictor_recommend would find with these options, in memory, for sessions: numbered 0 ..
 * n_items-1, their vectors computed once, or an index file mapped. Never changed, so that any number of
 * threads share it. */
typedef struct rk_item_catalog rk_item_catalog;
/* Of the options, items, without_items, with_known and index are heeded. The predictor outlives the catalog.
 * Errors as rk_predictor_recommend; RK_UNSUPPORTED over ranks too. */
RK_API rk_status rk_item_catalog_create(rk_predictor *predictor, const rk_recommend_options *options,
                                        rk_item_catalog **out);
RK_API void rk_item_catalog_free(rk_item_catalog *catalog);
RK_API int64_t rk_item_catalog_n_items(const rk_item_catalog *catalog);
/* Columns of the data that name users and items; the catalog's own. */
RK_API const char *rk_item_catalog_user_column(const rk_item_catalog *catalog);
RK_API const char *rk_item_catalog_item_column(const rk_item_catalog *catalog);
/* What the data calls an item, [*n_bytes] without a NUL: the catalog's own, or in room. */
RK_API const char *rk_item_catalog_name(const rk_item_catalog *catalog, int64_t item, char room[24],
                                        size_t *n_bytes);
/* The item with a name; -1: none of the catalog's. */
RK_API int64_t rk_item_catalog_find(const rk_item_catalog *catalog, const char *name, size_t n_bytes);
/* items [*n], the catalog's own: what the user is known to have and rk_predictor_recommend leaves out,
 * ascending as rk_item_search takes it. Returns false for a user whom rk_predictor_recommend leaves out as
 * unknown. */
RK_API bool rk_item_catalog_knows_user(const rk_item_catalog *catalog, const char *name, size_t n_bytes,
                                       const int64_t **items, int64_t *n);

/* Which items of a catalog are found. */
typedef struct rk_item_search {
    size_t struct_size;
    int32_t k;              /* items of a user, 1 to the catalog's */
    const rk_ids *excluded; /* a bag of items for each user, ascending, that are not; NULL: none */
    const int64_t *only;    /* [n_only] items, ascending: no others are; NULL: all of the catalog's */
    int64_t n_only;
} rk_item_search;
#define RK_ITEM_SEARCH_INIT \
    { sizeof(rk_item_search), 0, 0, 0, 0 }
/* As rk_session_retrieve, among the catalog's items, by its index where it has one: with what users are known
 * to have as `excluded`, what rk_predictor_recommend finds for them, bit for bit. The session is of the
 * catalog's predictor. Errors as rk_session_retrieve. */
RK_API rk_status rk_item_catalog_retrieve(const rk_item_catalog *catalog, rk_session *session,
                                          const struct ArrowSchema *schema, const struct ArrowArray *columns,
                                          const rk_item_search *search, int64_t *items, float *scores);

typedef struct rk_rerank_options {
    size_t struct_size;
    const char *group; /* column of users or queries, whose candidates belong together; NULL: data.group */
    const char *item;  /* column that names a candidate beside its row; NULL: none */
    const char *task;  /* whose predictions rank; NULL: the only one */
    int32_t k;         /* candidates of a group, at most; 0: 100 */
    rk_recommend_format format;
    const char *output; /* as rk_recommend_options */
} rk_rerank_options;
#define RK_RERANK_OPTIONS_INIT \
    { sizeof(rk_rerank_options), 0, 0, 0, 0, RK_RECOMMEND_CSV, 0 }

/* Of any model that scores rows: the k best rows of each group, by their predictions, of equal ones the
 * first. candidates: "valid", "test" or a file in the columns of the run's data, whose labels may be missing;
 * rows of a group stand anywhere in it. Groups are written in the order in which they first come, as
 * rk_predictor_recommend writes users: `group,rank,row,score` or `group,rank,row,item,score`, rows counted
 * from 0; {"group":...,"rows":[...],"items":[...],"scores":[...]}. *n_groups (may be NULL): how many. Errors
 * as there. */
RK_API rk_status rk_predictor_rerank(rk_predictor *predictor, const char *candidates,
                                     const rk_rerank_options *options, int64_t *n_groups);

#ifdef __cplusplus
}
#endif
#endif
