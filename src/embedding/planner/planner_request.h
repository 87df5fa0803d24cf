/* The planner's input: tables and features, ranks, constraints, loads. */
#ifndef RK_EMBEDDING_PLANNER_PLANNER_REQUEST_H
#define RK_EMBEDDING_PLANNER_PLANNER_REQUEST_H

#include "embedding/dynamic_config.h"
#include "embedding/planner/sharding.h"
#include "embedding/planner/table_statistics.h"

typedef enum rk_sharding {
    RK_SHARD_AUTO,
    RK_SHARD_REPLICATED,
    RK_SHARD_TABLE_WISE,
    RK_SHARD_ROW_WISE,
    RK_SHARD_COLUMN_WISE,
    RK_SHARD_GRID,
    RK_SHARD_COUNT
} rk_sharding;
extern const char *const rk_sharding_names[RK_SHARD_COUNT]; /* "auto", "replicated", "table_wise", ... */
/* Why owners cannot combine the bags of a table with such features (a sequence, weights), or NULL. */
const char *rk_reason_against_owner_pooling(const rk_feature_config *features, int32_t n_features,
                                            const char *table);
rk_sharding rk_table_placement_sharding(const rk_table_placement *placement); /* what a placement is */

typedef enum rk_pooling { RK_POOLING_AUTO, RK_POOLING_ON, RK_POOLING_OFF } rk_pooling;

/* What is asked of one table's placement. */
typedef struct rk_planner_constraint {
    const char *table;
    const char *path; /* file and line that messages name; NULL: none */
    int line;
    rk_sharding sharding;
    rk_pooling pooling;
    const int64_t *ranks; /* [n_ranks]: owners, slice after slice; 0 of them: as the balance says */
    int32_t n_ranks;
    int32_t n_slices; /* 0: as many as ranks or owners there are */
    int64_t n_rows;   /* what the table was when this was written, 0 and 0 if that is not known: another table
                         is refused */
    int32_t dim;
} rk_planner_constraint;

/* What one rank has; for owners that differ. */
typedef struct rk_rank_capacity {
    double memory_bytes;  /* INFINITY: enough */
    double memory_speed;  /* bytes a second */
    double network_speed; /* bytes a second, each way */
} rk_rank_capacity;

typedef struct rk_planner_request {
    const rk_table_config *tables; /* [n_tables] */
    int32_t n_tables;
    const rk_dynamic_config *dynamic;  /* [n_tables], max_capacity 0 of static tables; NULL: all are static */
    const rk_feature_config *features; /* [n_features] */
    int32_t n_features;
    const rk_optimizer *optimizer; /* of tables without one of their own; NULL: adagrad */
    rk_roles roles;
    int64_t batch_size;      /* of all trainers together */
    int64_t replicate_below; /* tables of fewer rows are replicated */
    rk_dtype wire;
    const rk_planner_constraint
        *constraints; /* [n_constraints]; tables that none names are placed automatically */
    int32_t n_constraints;
    bool constraints_are_whole;         /* a plan: a table that none names is an error */
    const rk_table_statistics *loads;   /* [n_tables] or NULL: assumed */
    const rk_rank_capacity *capacities; /* [n_trainers + n_owners] or NULL: all are alike */
} rk_planner_request;

/* NULL: the table is static. */
static inline const rk_dynamic_config *rk_planner_request_dynamic_config(const rk_planner_request *request,
                                                                         int32_t table) {
    return request->dynamic && request->dynamic[table].max_capacity ? &request->dynamic[table] : NULL;
}
/* All rows of a table, of a full one that is dynamic with its cold ones. */
static inline int64_t rk_planner_request_table_rows(const rk_planner_request *request, int32_t table) {
    const rk_dynamic_config *dynamic = rk_planner_request_dynamic_config(request, table);
    return request->tables[table].n_rows + (dynamic ? dynamic->n_cold : 0);
}
bool rk_optimizer_needs_whole_rows(
    rk_optimizer_kind kind); /* its step uses more of a row than the value that it changes */
const rk_optimizer *rk_planner_request_table_optimizer(const rk_planner_request *request, int32_t table,
                                                       rk_optimizer *usual);
int32_t rk_roles_owner_count(const rk_roles *roles);
int32_t rk_roles_owner_rank(const rk_roles *roles, int32_t owner); /* owner: 0 .. count-1 */

#endif
