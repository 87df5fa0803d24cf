/* Shardings that are set by hand or by a plan, checked against the tables and ranks. */
#ifndef RK_EMBEDDING_PLANNER_PLANNER_CONSTRAINTS_H
#define RK_EMBEDDING_PLANNER_PLANNER_CONSTRAINTS_H

#include "embedding/planner/planner_request.h"

/* Which constraint is whose: out [n_tables], -1 without one. Each is of a table that there is, and the only
 * one of it. */
rk_status rk_planner_constraints_match_tables(const rk_planner_constraint *constraints, int32_t n_constraints,
                                              const rk_table_config *tables, int32_t n_tables, int32_t *out);
/* The same, and every constraint is checked. */
rk_status rk_planner_constraints_check(const rk_planner_request *request, int32_t *out);

#endif
