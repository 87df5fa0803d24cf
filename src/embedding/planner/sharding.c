#include "embedding/planner/sharding.h"

#include "base/error.h"
#include "base/memory.h"

rk_status rk_table_placement_init(rk_table_placement *placement, int32_t n_slices, int32_t n_parts) {
    RK_FAIL_IF(n_slices < 1 || n_parts < 1, RK_INVALID_ARGUMENT,
               "a placement of %d slices and %d parts; it needs at least one of each", n_slices, n_parts);
    int32_t *owners;
    RK_TRY(rk_alloc((size_t)n_slices * (size_t)n_parts, sizeof *owners, &owners));
    *placement = (rk_table_placement){.n_slices = n_slices, .n_parts = n_parts, .owners = owners};
    return RK_OK;
}

void rk_table_placement_release(rk_table_placement *placement) {
    rk_free(placement->owners);
    *placement = (rk_table_placement){0};
}
