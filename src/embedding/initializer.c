#include "embedding/initializer.h"

#include <math.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/rng.h"

/* Two columns share a block of random words; a block is set aside for each of their redraws. A row's counters are
 * RK_MAX_DIM / 2 pairs of DRAWS blocks, whatever its dim, so that column k is the same in a wider table. */
enum { DRAWS = 32 };

rk_status rk_initializer_validate(const rk_initializer *i) {
    RK_FAIL_IF((unsigned)i->kind >= RK_INIT_COUNT, RK_INVALID_ARGUMENT, "there is no initializer number %d", (int)i->kind);
    RK_FAIL_IF(!(i->stddev >= 0) || !isfinite(i->stddev), RK_INVALID_ARGUMENT, "an initializer's stddev must be 0 or more, not %g", i->stddev);
    RK_FAIL_IF(!isfinite(i->mean) || !isfinite(i->value) || !isfinite(i->min) || !isfinite(i->max), RK_INVALID_ARGUMENT,
               "an initializer's numbers must be finite");
    RK_FAIL_IF(i->min > i->max, RK_INVALID_ARGUMENT, "an initializer's min %g is above its max %g", i->min, i->max);
    return RK_OK;
}

/* Two numbers in [0, 1) of 53 bits. */
static void draw_uniforms(uint64_t seed, uint64_t table, uint64_t counter, double out[2]) {
    uint32_t words[4];
    rk_rng_block(seed, table, counter, words);
    for (int k = 0; k < 2; k++) out[k] = (double)(((uint64_t)words[2 * k + 1] << 32 | words[2 * k]) >> 11) * 0x1p-53;
}

/* Two normal numbers (Box-Muller). Truncated, each is the first of its draws within two deviations; one that is refused
 * DRAWS times (once in 10^43) is 0. */
static void draw_normals(uint64_t seed, uint64_t table, uint64_t counter, bool truncated, double out[2]) {
    bool taken[2] = {false, false};
    out[0] = out[1] = 0;
    for (uint64_t d = 0; d < DRAWS && !(taken[0] && taken[1]); d++) {
        double u[2];
        draw_uniforms(seed, table, counter + d, u);
        double radius = sqrt(-2 * log(1 - u[0])), angle = 6.283185307179586476925 * u[1];
        double z[2] = {radius * cos(angle), radius * sin(angle)};
        for (int k = 0; k < 2; k++) {
            if (taken[k] || (truncated && fabs(z[k]) > 2)) continue;
            out[k] = z[k];
            taken[k] = true;
        }
    }
}

void rk_initialize_row(const rk_initializer *i, uint64_t seed, uint64_t table, int64_t id, int32_t dim, float *out) {
    double stddev = i->stddev > 0 ? i->stddev : 1 / sqrt((double)dim);
    float value = i->kind == RK_INIT_ONES ? 1.0f : i->kind == RK_INIT_CONSTANT ? (float)i->value : 0.0f;
    for (int32_t k = 0; k < dim; k += 2) {
        uint64_t counter = ((uint64_t)id * (RK_MAX_DIM / 2) + (uint64_t)k / 2) * DRAWS;
        double x[2] = {value, value};
        if (i->kind == RK_INIT_UNIFORM) {
            draw_uniforms(seed, table, counter, x);
            for (int c = 0; c < 2; c++) x[c] = i->min + (i->max - i->min) * x[c];
        } else if (i->kind == RK_INIT_NORMAL || i->kind == RK_INIT_TRUNCATED_NORMAL) {
            draw_normals(seed, table, counter, i->kind == RK_INIT_TRUNCATED_NORMAL, x);
            for (int c = 0; c < 2; c++) x[c] = i->mean + stddev * x[c];
        }
        out[k] = (float)x[0];
        if (k + 1 < dim) out[k + 1] = (float)x[1];
    }
}
