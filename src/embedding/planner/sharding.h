/* Which rank holds which part of a table. */
#ifndef RK_EMBEDDING_PLANNER_SHARDING_H
#define RK_EMBEDDING_PLANNER_SHARDING_H

#include <stdbool.h>
#include <stdint.h>

#include <reckon/status.h>

/* A table is cut into slices of columns (of dim / n_slices each) and each slice into parts of rows: row `id`
 * is row id / n_parts of part id % n_parts. table-wise: 1 slice of 1 part; row-wise: 1 slice of several;
 * column-wise: several of 1; or both. A dynamic table has one slice, whose parts are
 * ranges of its buckets. */
typedef struct rk_table_placement {
    bool replicated; /* every rank that looks rows up holds the whole table; the rest is then not looked at */
    int32_t n_slices, n_parts;
    int32_t *owners; /* [n_slices, n_parts]: ranks, of which one may own several parts; the placement's own */
    bool owner_pooling; /* where n_parts is 1: the owner combines the rows of a bag before they travel */
} rk_table_placement;

/* Whose ranks are what: ranks 0 .. n_trainers-1 train; where n_owners is 0 they hold the rows too, else the
 * n_owners ranks after them hold all rows that are not replicated. */
typedef struct rk_roles {
    int32_t n_trainers, n_owners;
} rk_roles;

rk_status rk_table_placement_init(rk_table_placement *placement, int32_t n_slices,
                                  int32_t n_parts); /* owners are all 0 */
void rk_table_placement_release(rk_table_placement *placement);

#endif
