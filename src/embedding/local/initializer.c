#include "embedding/local/initializer.h"

#include <math.h>

#include "base/error.h"
#include "kernels/kernels.h"

rk_status rk_initializer_validate(const rk_initializer *i) {
    RK_FAIL_IF((unsigned)i->kind >= RK_INIT_COUNT, RK_INVALID_ARGUMENT, "invalid initializer kind %d",
               (int)i->kind);
    RK_FAIL_IF(!(i->stddev >= 0) || !isfinite(i->stddev), RK_INVALID_ARGUMENT,
               "an initializer's stddev must be 0 or more, not %g", i->stddev);
    RK_FAIL_IF(!isfinite(i->mean) || !isfinite(i->value) || !isfinite(i->min) || !isfinite(i->max),
               RK_INVALID_ARGUMENT, "an initializer's numbers must be finite");
    RK_FAIL_IF(i->min > i->max, RK_INVALID_ARGUMENT, "an initializer's min %g is above its max %g", i->min,
               i->max);
    return RK_OK;
}

void rk_initialize_row(const rk_initializer *i, uint64_t seed, uint64_t table, int64_t id, int32_t dim,
                       float *out) {
    static const double below_2 =
        0.97724986805182079; /* of a normal number: the probability to be less than 2 */
    double stddev = i->stddev > 0 ? i->stddev : 1 / sqrt((double)dim);
    rk_random_init_row_args args = {.seed = seed,
                                    .table = table,
                                    .normal = true,
                                    .range = 1,
                                    .shift = (float)i->mean,
                                    .scale = (float)stddev};
    float value = i->kind == RK_INIT_ONES ? 1.0f : i->kind == RK_INIT_CONSTANT ? (float)i->value : 0.0f;
    if (i->kind == RK_INIT_UNIFORM) {
        args.normal = false;
        args.shift = (float)i->min;
        args.scale = (float)(i->max - i->min);
    } else if (i->kind == RK_INIT_TRUNCATED_NORMAL) {
        args.low = args.rest_low = (float)(1 - below_2);
        args.range = (float)(2 * below_2 - 1);
    } else if (i->kind != RK_INIT_NORMAL) {
        for (int32_t k = 0; k < dim; k++) out[k] = value;
        return;
    }
    rk_random_init_row(&args, id, dim, out);
}
