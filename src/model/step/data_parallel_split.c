/* Which samples are which trainer's, and what each made of its own, together. */
#include <string.h>

#include "model/step/data_parallel.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t rk_data_parallel_split(const rk_data_parallel *sp, int32_t r, int64_t n) {
    return least(sp->cuts[r], n);
}

rk_status rk_data_parallel_gather(const rk_data_parallel *sp, const float *mine, int64_t n, int64_t total,
                                  int64_t width, float *out) {
    rk_all_to_all *all_to_all;
    int64_t begin = least(rk_data_parallel_split(sp, sp->rank, total), n),
            end = least(rk_data_parallel_split(sp, sp->rank + 1, total), n);
    RK_TRY(rk_comm_gather(sp->trainers, RK_LANE_VALUES, mine, (size_t)((end - begin) * width) * sizeof *mine,
                          &all_to_all));
    rk_status status = RK_OK;
    for (int32_t t = 0; t < sp->roles.n_trainers && status == RK_OK; t++) {
        const void *from;
        int64_t first = least(rk_data_parallel_split(sp, t, total), n),
                last = least(rk_data_parallel_split(sp, t + 1, total), n);
        size_t n_bytes = (size_t)((last - first) * width) * sizeof *out;
        status = rk_all_to_all_take(all_to_all, t, n_bytes, &from);
        if (status == RK_OK && n_bytes) memcpy(out + first * width, from, n_bytes);
    }
    rk_all_to_all_free(all_to_all);
    return status;
}
