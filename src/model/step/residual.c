#include "model/step/residual.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

rk_status rk_residual_init(rk_residual *residual, size_t n, int32_t trainer, int32_t n_trainers) {
    *residual = (rk_residual){.n = n, .trainer = trainer, .n_trainers = n_trainers};
    RK_TRY(rk_alloc(n, sizeof *residual->values, &residual->values));
    return rk_alloc(n, sizeof *residual->next, &residual->next);
}

void rk_residual_release(rk_residual *residual) {
    RK_FREE_ALL(residual->values, residual->next);
    *residual = (rk_residual){0};
}

void rk_residual_accept(rk_residual *residual) {
    float *values = residual->values;
    residual->values = residual->next;
    residual->next = values;
}

rk_status rk_residual_state_dict(rk_residual *residual, rk_state_dict *state) {
    char name[sizeof RK_RESIDUAL_PREFIX + 24];
    if (residual->n == 0) return RK_OK;
    snprintf(name, sizeof name, RK_RESIDUAL_PREFIX "%d:%d", (int)residual->trainer,
             (int)residual->n_trainers);
    return rk_state_dict_add(state, name, RK_F32, (int64_t)residual->n, 0, residual->values);
}

static void add_values(rk_residual *residual, const char *values) {
    for (size_t i = 0; i < residual->n; i++) {
        float value;
        memcpy(&value, values + i * sizeof value, sizeof value);
        residual->values[i] += value;
    }
}

rk_status rk_residual_read(rk_residual *residual, const char *name, size_t n, const void *values) {
    int trainer, n_trainers, end = 0;
    if (residual->n == 0) return RK_OK;
    RK_FAIL_IF(sscanf(name, RK_RESIDUAL_PREFIX "%9d:%9d%n", &trainer, &n_trainers, &end) < 2 || name[end] ||
                   trainer < 0 || trainer >= n_trainers,
               RK_BAD_DATA, "tensor '%s' names no trainer", name);
    RK_FAIL_IF(n != residual->n, RK_CONFIG,
               "tensor '%s' has %zu values, but the dense part has %zu parameters\nhint: the configuration "
               "changed since the checkpoint was saved",
               name, n, residual->n);
    if (n_trainers != residual->n_trainers && residual->trainer == 0) add_values(residual, values);
    if (n_trainers == residual->n_trainers && residual->trainer == trainer)
        memcpy(residual->values, values, n * sizeof *residual->values);
    return RK_OK;
}
