/* Which rank holds which part of which table: set by hand, read from a plan, or chosen so that all owners
 * have about as much to do and to hold. */
#ifndef RK_EMBEDDING_PLANNER_SHARDING_PLANNER_H
#define RK_EMBEDDING_PLANNER_SHARDING_PLANNER_H

#include "embedding/planner/planner_request.h"

/* A placement for every table, out [n_tables]; rk_table_placement_release each. The same request gives the
 * same placements on every rank. It takes no look at whether they fit into memory. Errors: RK_CONFIG with
 * file and line for a constraint that cannot be (unknown table or rank, column slices under an optimizer that
 * couples a row's values, ...), RK_INVALID_ARGUMENT for a bad request. */
rk_status rk_sharding_plan_choose(const rk_planner_request *request, rk_table_placement *out);

#endif
