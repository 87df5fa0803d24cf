#include "embedding/initializer.h"

#include <math.h>

#include "base/error.h"
#include "base/rng.h"

enum { DRAWS_A_COLUMN = 64 }; /* counters set aside for one column, so that redraws never reach the next one's */

rk_status rk_initializer_validate(const rk_initializer *i) {
    RK_FAIL_IF((unsigned)i->kind >= RK_INIT_COUNT, RK_INVALID_ARGUMENT, "there is no initializer number %d", (int)i->kind);
    RK_FAIL_IF(!(i->stddev >= 0) || !isfinite(i->stddev), RK_INVALID_ARGUMENT, "an initializer's stddev must be 0 or more, not %g", i->stddev);
    RK_FAIL_IF(!isfinite(i->mean) || !isfinite(i->value), RK_INVALID_ARGUMENT, "an initializer's numbers must be finite");
    RK_FAIL_IF(i->kind == RK_INIT_UNIFORM && !(i->min <= i->max), RK_INVALID_ARGUMENT, "an initializer's min %g is above its max %g", i->min, i->max);
    return RK_OK;
}

static double draw(const rk_initializer *i, double stddev, rk_rng *rng) {
    if (i->kind == RK_INIT_UNIFORM) return i->min + (i->max - i->min) * rk_rng_uniform(rng);
    double z = rk_rng_normal(rng);
    for (int k = 2; i->kind == RK_INIT_TRUNCATED_NORMAL && fabs(z) > 2 && k < DRAWS_A_COLUMN; k += 2) z = rk_rng_normal(rng);
    return i->mean + stddev * z;
}

void rk_initialize_row(const rk_initializer *i, uint64_t seed, uint64_t table, int64_t id, int32_t dim, float *out) {
    bool drawn = i->kind <= RK_INIT_UNIFORM;
    double stddev = i->stddev > 0 ? i->stddev : 1 / sqrt((double)dim);
    float value = i->kind == RK_INIT_ONES ? 1.0f : i->kind == RK_INIT_CONSTANT ? (float)i->value : 0.0f;
    for (int32_t k = 0; k < dim; k++) {
        rk_rng rng = {seed, table, ((uint64_t)id * (uint64_t)dim + (uint64_t)k) * DRAWS_A_COLUMN};
        out[k] = drawn ? (float)draw(i, stddev, &rng) : value;
    }
}
