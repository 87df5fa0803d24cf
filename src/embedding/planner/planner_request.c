#include "embedding/planner/planner_request.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"

const char *const rk_sharding_names[RK_SHARD_COUNT] = {"auto",     "replicated",  "table_wise",
                                                       "row_wise", "column_wise", "grid"};

int32_t rk_roles_owner_count(const rk_roles *roles) {
    return roles->n_owners ? roles->n_owners : roles->n_trainers;
}

int32_t rk_roles_owner_rank(const rk_roles *roles, int32_t number) {
    return roles->n_owners ? roles->n_trainers + number : number;
}

bool rk_optimizer_needs_whole_rows(rk_optimizer_kind kind) {
    return kind == RK_OPTIMIZER_ROWWISE_ADAGRAD || kind == RK_OPTIMIZER_ROWWISE_ADAM ||
           kind == RK_OPTIMIZER_LAMB || kind == RK_OPTIMIZER_LARS;
}

const rk_optimizer *rk_planner_request_table_optimizer(const rk_planner_request *request, int32_t table,
                                                       rk_optimizer *usual) {
    if (request->tables[table].optimizer) return request->tables[table].optimizer;
    if (request->optimizer) return request->optimizer;
    rk_optimizer_init(usual, RK_OPTIMIZER_ADAGRAD);
    return usual;
}

const char *rk_reason_against_owner_pooling(const rk_feature_config *features, int32_t n_features,
                                            const char *table) {
    for (int32_t f = 0; f < n_features; f++) {
        const rk_feature_config *feature = &features[f];
        if ((!feature->max_sequence_length && !feature->weighted) || !feature->table ||
            strcmp(feature->table, table) != 0)
            continue;
        return feature->weighted
                   ? "a feature of it has weights"
                   : "a feature of it keeps rows apart (a sequence, or compose: multiply or concat)";
    }
    return NULL;
}

rk_sharding rk_table_placement_sharding(const rk_table_placement *p) {
    if (p->replicated) return RK_SHARD_REPLICATED;
    if (p->n_slices > 1) return p->n_parts > 1 ? RK_SHARD_GRID : RK_SHARD_COLUMN_WISE;
    return p->n_parts > 1 ? RK_SHARD_ROW_WISE : RK_SHARD_TABLE_WISE;
}

rk_status rk_table_placement_init(rk_table_placement *placement, int32_t n_slices, int32_t n_parts) {
    RK_FAIL_IF(n_slices < 1 || n_parts < 1, RK_INVALID_ARGUMENT,
               "a sharding of %d column slices and %d row parts; at least 1 of each is needed", n_slices,
               n_parts);
    int32_t *owners;
    RK_TRY(rk_alloc((size_t)n_slices * (size_t)n_parts, sizeof *owners, &owners));
    *placement = (rk_table_placement){.n_slices = n_slices, .n_parts = n_parts, .owners = owners};
    return RK_OK;
}

void rk_table_placement_release(rk_table_placement *placement) {
    rk_free(placement->owners);
    *placement = (rk_table_placement){0};
}
