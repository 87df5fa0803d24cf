#include "model/step/reducer.h"

#include <string.h>

static void free_reducer_none(rk_reducer *reducer) {
    (void)reducer;
}

rk_reducer *rk_reducer_none(void) {
    static const rk_reducer_ops ops = {.free = free_reducer_none};
    static rk_reducer none = {.ops = &ops};
    return &none;
}

rk_status rk_reducer_check_dense_gradients(const rk_reducer *reducer) {
    const rk_model *model = reducer->model;
    return rk_model_name_step(model->step, rk_dense_optimizer_check_gradients(model->optimizer));
}

const char *rk_dense_wire_name(rk_dense_wire wire) {
    static const char *const names[] = {[RK_SUM_F32] = "f32", [RK_SUM_BF16] = "bf16", [RK_SUM_INT8] = "int8"};
    return wire.n_vectors ? "powersgd" : names[wire.rounding];
}

size_t rk_model_dense_wire_bytes(const rk_model *model, rk_dense_wire wire) {
    size_t n = rk_powersgd_count_values(model->graph, wire.n_vectors);
    return wire.n_vectors ? n * sizeof(float) : rk_sum_wire_bytes(wire.rounding, n);
}

void rk_reducer_accept(rk_reducer *reducer) {
    rk_residual_accept(&reducer->residual);
    rk_powersgd_accept(&reducer->powersgd);
}

rk_status rk_reducer_state_dict(rk_reducer *reducer, rk_state_dict *state) {
    RK_TRY(rk_residual_state_dict(&reducer->residual, state));
    return rk_powersgd_state_dict(&reducer->powersgd, state);
}

rk_status rk_reducer_read(rk_reducer *reducer, const char *name, size_t n, const void *values) {
    if (strcmp(name, RK_POWERSGD_Q) != 0) return rk_residual_read(&reducer->residual, name, n, values);
    rk_powersgd_read(&reducer->powersgd, n, values);
    return RK_OK;
}
