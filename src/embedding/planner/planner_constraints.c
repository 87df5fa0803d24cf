/* Constraints of the planner, checked against the tables and ranks. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "base/text/name_index.h"
#include "embedding/planner/planner_constraints.h"
#include "embedding/planner/table_traffic.h"

typedef rk_planner_constraint constraint;

static rk_status constraint_error(const constraint *w, const char *key, const char *message) {
    if (!w->path) return rk_error(RK_CONFIG, "table '%s': %s", w->table, message);
    if (w->line < 0) return rk_error(RK_CONFIG, "--set: key '%s': table '%s': %s", key, w->table, message);
    return rk_error(RK_CONFIG, "%s:%d: key '%s': table '%s': %s", w->path, w->line, key, w->table, message);
}

static rk_status unknown_table_error(const constraint *w, const rk_table_config *tables, int32_t n_tables) {
    const char *nearest = rk_nearest_name_of(w->table, tables, sizeof *tables,
                                             offsetof(rk_table_config, name), (size_t)n_tables);
    rk_status status = constraint_error(w, "name", "there is no such table");
    return nearest ? rk_error_hint(status, "did you mean '%s'?", nearest)
                   : rk_error_hint(status, "'reckon inspect' lists the tables");
}

static rk_status check_same_table(const constraint *w, const rk_table_config *table) {
    if ((w->n_rows == 0 || w->n_rows == table->n_rows) && (w->dim == 0 || w->dim == table->dim)) return RK_OK;
    char message[160];
    snprintf(message, sizeof message, "planned with %lld rows of dim %d, but it has %lld of dim %d",
             (long long)w->n_rows, w->dim, (long long)table->n_rows, table->dim);
    return rk_error_hint(constraint_error(w, "rows", message), "make a new plan with 'reckon plan'");
}

static rk_status check_owner_ranks(const rk_planner_request *request, const constraint *w) {
    int64_t first = rk_roles_owner_rank(&request->roles, 0), n = rk_roles_owner_count(&request->roles);
    for (int32_t i = 0; i < w->n_ranks; i++) {
        if (w->ranks[i] >= first && w->ranks[i] < first + n) continue;
        char message[96];
        snprintf(message, sizeof message, "rank %lld holds no rows; ranks %lld to %lld do",
                 (long long)w->ranks[i], (long long)first, (long long)(first + n - 1));
        return constraint_error(w, "ranks", message);
    }
    return RK_OK;
}

/* Whether the numbers of ranks and slices go with the sharding and the table. */
static rk_status check_part_counts(const rk_planner_request *request, const constraint *w, int32_t t) {
    const rk_table_config *table = &request->tables[t];
    int64_t most_parts = rk_planner_request_max_parts(request, t);
    int32_t n_slices = w->n_slices                                         ? w->n_slices
                       : w->sharding == RK_SHARD_COLUMN_WISE && w->n_ranks ? w->n_ranks
                                                                           : 1;
    char message[128];
    if (w->sharding == RK_SHARD_TABLE_WISE && w->n_ranks > 1)
        return constraint_error(w, "ranks", "table_wise takes one rank");
    if (w->sharding == RK_SHARD_COLUMN_WISE && w->n_ranks && w->n_ranks != n_slices)
        return constraint_error(w, "ranks", "column_wise takes one rank for each slice");
    if (w->n_ranks % n_slices)
        return constraint_error(w, "ranks", "a grid takes the same number of ranks for each slice");
    if (table->dim % n_slices) {
        snprintf(message, sizeof message, "dim %d cannot be cut into %d slices of the same size", table->dim,
                 n_slices);
        return constraint_error(w, "slices", message);
    }
    if (w->sharding != RK_SHARD_ROW_WISE && w->sharding != RK_SHARD_GRID) return RK_OK;
    if (w->n_ranks / n_slices <= most_parts) return RK_OK;
    snprintf(message, sizeof message, "%lld %s cannot be cut into %d parts", (long long)most_parts,
             rk_planner_request_dynamic_config(request, t) ? "buckets" : "rows", w->n_ranks / n_slices);
    return constraint_error(w, "ranks", message);
}

static rk_status check_column_slices(const rk_planner_request *request, const constraint *w, int32_t t) {
    if (w->sharding != RK_SHARD_COLUMN_WISE && w->sharding != RK_SHARD_GRID)
        return w->n_slices > 1 ? constraint_error(w, "slices", "only column_wise and grid have slices")
                               : RK_OK;
    if (w->sharding == RK_SHARD_GRID && w->n_slices == 0)
        return constraint_error(w, "slices", "a grid needs its number of slices");
    rk_optimizer usual;
    const rk_optimizer *optimizer = rk_planner_request_table_optimizer(request, t, &usual);
    if (request->tables[t].frozen || !rk_optimizer_needs_whole_rows(optimizer->kind)) return RK_OK;
    char message[96];
    snprintf(message, sizeof message, "the optimizer '%s' needs whole rows: no column sharding",
             rk_optimizer_name(optimizer->kind));
    return rk_error_hint(constraint_error(w, "sharding", message), "use row_wise, or another optimizer");
}

static rk_status check_owner_pooling(const rk_planner_request *request, const constraint *w) {
    if (w->pooling != RK_POOLING_ON) return RK_OK;
    if (w->sharding == RK_SHARD_REPLICATED)
        return constraint_error(w, "owner_pooling",
                                "a replicated table is on every rank: there is nothing to pool");
    if (w->sharding == RK_SHARD_ROW_WISE || w->sharding == RK_SHARD_GRID)
        return constraint_error(
            w, "owner_pooling",
            "owner pooling needs all rows of a bag on one rank: use table_wise or column_wise");
    const char *reason = rk_reason_against_owner_pooling(request->features, request->n_features, w->table);
    return reason ? constraint_error(w, "owner_pooling", reason) : RK_OK;
}

/* Rows of keys are in one place, and whole: which one it is depends on the batches so far. */
static rk_status check_dynamic_table(const constraint *w) {
    const char *what = w->sharding == RK_SHARD_REPLICATED    ? "replicated"
                       : w->sharding == RK_SHARD_COLUMN_WISE ? "column_wise"
                       : w->sharding == RK_SHARD_GRID        ? "a grid"
                                                             : NULL;
    char message[96];
    if (w->pooling == RK_POOLING_ON)
        return constraint_error(w, "owner_pooling", "not supported by dynamic tables (max_capacity)");
    if (!what) return RK_OK;
    snprintf(message, sizeof message, "a dynamic table (max_capacity) cannot be %s", what);
    return rk_error_hint(constraint_error(w, "sharding", message), "use table_wise or row_wise");
}

static rk_status check_constraint(const rk_planner_request *request, const constraint *w, int32_t t) {
    if ((w->sharding == RK_SHARD_AUTO || w->sharding == RK_SHARD_REPLICATED) && w->n_ranks)
        return rk_error_hint(constraint_error(w, "ranks", "'ranks' needs a 'sharding'"),
                             "add sharding: table_wise, row_wise, column_wise or grid");
    RK_TRY(check_same_table(w, &request->tables[t]));
    if (rk_planner_request_dynamic_config(request, t)) RK_TRY(check_dynamic_table(w));
    RK_TRY(check_owner_ranks(request, w));
    RK_TRY(check_column_slices(request, w, t));
    RK_TRY(check_part_counts(request, w, t));
    return check_owner_pooling(request, w);
}

rk_status rk_planner_constraints_match_tables(const constraint *constraints, int32_t n_constraints,
                                              const rk_table_config *tables, int32_t n_tables, int32_t *out) {
    RK_AUTO(rk_name_index_release) rk_name_index names = {0};
    RK_TRY(rk_name_index_init(&names, tables, sizeof *tables, offsetof(rk_table_config, name), n_tables));
    for (int32_t t = 0; t < n_tables; t++) out[t] = -1;
    for (int32_t i = 0; i < n_constraints; i++) {
        int32_t t = rk_name_index_find(&names, constraints[i].table);
        if (t < 0) return unknown_table_error(&constraints[i], tables, n_tables);
        if (out[t] >= 0) return constraint_error(&constraints[i], "name", "a second entry for this table");
        out[t] = i;
    }
    return RK_OK;
}

rk_status rk_planner_constraints_check(const rk_planner_request *request, int32_t *out) {
    RK_TRY(rk_planner_constraints_match_tables(request->constraints, request->n_constraints, request->tables,
                                               request->n_tables, out));
    for (int32_t t = 0; t < request->n_tables; t++)
        if (out[t] >= 0) RK_TRY(check_constraint(request, &request->constraints[out[t]], t));
    for (int32_t t = 0; request->constraints_are_whole && t < request->n_tables; t++) {
        if (out[t] >= 0) continue;
        rk_status status =
            rk_error(RK_CONFIG, "the plan '%s' has no table '%s'",
                     request->n_constraints ? request->constraints[0].path : "", request->tables[t].name);
        return rk_error_hint(status, "make a new plan with 'reckon plan'");
    }
    return RK_OK;
}
