/* Who used which row of a table in a batch, sorted: what an update reads. */
#ifndef RK_EMBEDDING_LOCAL_ROW_USES_H
#define RK_EMBEDDING_LOCAL_ROW_USES_H

#include <reckon/embeddings.h>

#include "kernels/kernels.h"

typedef struct rk_batch_context rk_batch_context;

/* Some of the bags of one feature: what is counted and scattered in one task. */
typedef struct rk_use_chunk {
    int32_t source;
    int64_t first_bag, last_bag;
    int64_t first_occurrence; /* number of the first bag's first id among all of the table */
} rk_use_chunk;

/* The uses of a table's rows, scattered to parts of the table (ranges of 2^shift rows, so that a part's rows
 * are near each other in memory), each part then sorted by itself. Memory is kept from batch to batch. */
typedef struct rk_row_uses {
    int64_t n;        /* uses, of all features of the table */
    int shift;        /* a row is in part row >> shift */
    bool passes_over; /* ids may be `none`: the table is dynamic */
    int64_t none; /* whose uses are passed over: a row that is never updated, or -1, of keys without one */
    uint32_t n_parts;
    bool in_order;         /* all uses go to one part, none is passed over */
    bool at_once;          /* made by one task */
    int64_t piece_uses;    /* that a piece has, about */
    rk_row_use *uses;      /* [n], and some to spare; part p has uses part_begins[p] .. part_begins[p+1]-1 */
    rk_row_use *scratch;   /* [n] if n > RK_USES_SCRATCH, for the sorting of such parts */
    uint32_t *part_begins; /* [n_parts + 1] */
    rk_gradient_source *sources; /* [n_sources], a feature each */
    int32_t n_sources;
    rk_use_chunk *chunks; /* [n_chunks] */
    size_t n_chunks;
    uint32_t *piece_begins; /* [n_parts + 1]: part p has pieces piece_begins[p] .. piece_begins[p+1]-1 */
    uint32_t *counts;       /* [n_chunks, n_parts]: uses by part, then where each chunk's go */
    uint32_t *bags;         /* [n] and, */
    float *coefficients;    /* [n] where an id has a weight; else not looked at */
    bool weighted;
    bool has_leaves;  /* sums have more than one leaf */
    bool whole_parts; /* a piece is a part: every row of it takes a step (l2_full) */
    size_t uses_capacity, scratch_capacity, parts_capacity, pieces_capacity, sources_capacity,
        chunks_capacity, counts_capacity, bags_capacity, coefficients_capacity;
} rk_row_uses;

/* Room for table t's part of a batch, cut into chunks. */
rk_status rk_row_uses_prepare(const rk_embeddings *embeddings, rk_batch_context *batch_context, int32_t t);

/* Uses that a thread has room for beside those of the part that it sorts. */
enum { RK_USES_SCRATCH = 32768 };

/* Chunk by chunk: count the uses of each part; once all are counted, find by prefix sums where each chunk's
 * uses go; then scatter them chunk by chunk, and sort part by part. Chunks, and parts, in any order, by any
 * thread. scratch: [RK_USES_SCRATCH], the thread's. */
void rk_row_uses_count_chunk(const rk_embeddings *embeddings, const rk_batch_context *batch_context,
                             int32_t t, size_t chunk);
void rk_row_uses_prefix_sum(rk_row_uses *plan);
void rk_row_uses_scatter_chunk(const rk_embeddings *embeddings, const rk_batch_context *batch_context,
                               int32_t t, size_t chunk);
void rk_row_uses_sort_part(rk_row_uses *plan, uint32_t part, rk_row_use *scratch);
/* All of that. */
void rk_row_uses_sort_all(const rk_embeddings *embeddings, rk_batch_context *batch_context, int32_t t,
                          rk_row_use *scratch);

/* Where the bags' gradients are, [n_features]; not read yet. */
void rk_row_uses_set_gradients(const rk_embeddings *embeddings, rk_row_uses *plan, int32_t t,
                               const rk_activation *gradients);

/* Pieces of about equal numbers of uses, none of which ends within a row's: a piece is of one part. */
size_t rk_row_uses_n_pieces(const rk_row_uses *plan);
typedef struct rk_use_piece {
    uint32_t part;
    int64_t first, last; /* uses */
} rk_use_piece;
rk_use_piece rk_row_uses_piece(const rk_row_uses *plan, size_t piece);

void rk_row_uses_release(rk_row_uses *plan);

#endif
