#include "index/id_set.h"

#include <stdlib.h>

#include "base/integers.h"
#include "base/memory.h"

rk_status rk_id_set_create(const int64_t *ids, int64_t n, rk_id_set *out) {
    rk_id_set set = {.n = n};
    RK_TRY(rk_alloc((size_t)n, sizeof *set.ids, &set.ids));
    bool sorted = true;
    for (int64_t i = 0; i < n; i++) {
        set.ids[i] = ids[i];
        sorted = sorted && (i == 0 || ids[i] >= ids[i - 1]);
    }
    if (!sorted) qsort(set.ids, (size_t)n, sizeof *set.ids, rk_compare_i64);
    *out = set;
    return RK_OK;
}

void rk_id_set_release(rk_id_set *set) {
    rk_free(set->ids);
}

rk_status rk_id_set_check_unique(const rk_id_set *set) {
    RK_FAIL_IF(set->n && set->ids[0] < 0, RK_INVALID_ARGUMENT, "id %lld is below 0", (long long)set->ids[0]);
    for (int64_t i = 1; i < set->n; i++)
        RK_FAIL_IF(set->ids[i] == set->ids[i - 1], RK_INVALID_ARGUMENT, "id %lld is there twice",
                   (long long)set->ids[i]);
    return RK_OK;
}
