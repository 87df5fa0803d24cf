#include "optim/optimizer_slots.h"

#include <math.h>

int rk_optimizer_list_slots(const rk_optimizer *o, rk_slot out[RK_MAX_SLOTS]) {
    float initial = (float)o->initial_accumulator;
    switch (o->kind) {
        case RK_OPTIMIZER_MOMENTUM:
        case RK_OPTIMIZER_LARS:
            out[0] = (rk_slot){"momentum", false, 0};
            return 1;
        case RK_OPTIMIZER_ADAGRAD:
            out[0] = (rk_slot){"accumulator", false, initial};
            return 1;
        case RK_OPTIMIZER_ROWWISE_ADAGRAD:
            out[0] = (rk_slot){"accumulator", true, initial};
            return 1;
        case RK_OPTIMIZER_ADAM:
        case RK_OPTIMIZER_ADAMW:
        case RK_OPTIMIZER_LAMB:
            out[0] = (rk_slot){"m", false, 0};
            out[1] = (rk_slot){"v", false, 0};
            return 2;
        case RK_OPTIMIZER_ROWWISE_ADAM:
            out[0] = (rk_slot){"m", false, 0};
            out[1] = (rk_slot){"v", true, 0};
            return 2;
        case RK_OPTIMIZER_FTRL:
            out[0] = (rk_slot){"n", false, initial};
            out[1] = (rk_slot){"z", false, 0};
            return 2;
        case RK_OPTIMIZER_ADAGRAD_MOMENTUM:
            out[0] = (rk_slot){"accumulator", false, initial};
            out[1] = (rk_slot){"momentum", false, 0};
            return 2;
        case RK_OPTIMIZER_SGD:
        case RK_OPTIMIZER_COUNT:
            break;
    }
    return 0;
}

void rk_optimizer_set_step_coefficients(const rk_optimizer *o, int64_t step, double factor, rk_update *out) {
    double rate = o->learning_rate * rk_schedule_factor(&o->schedule, step) * factor;
    bool inside =
        o->kind == RK_OPTIMIZER_LAMB || o->kind == RK_OPTIMIZER_LARS; /* their decay is part of the step */
    double t = (double)step + 1;
    *out = (rk_update){
        .kind = o->kind,
        .learning_rate = (float)rate,
        .epsilon = (float)o->epsilon,
        .momentum = (float)o->momentum,
        .beta1 = (float)o->beta1,
        .beta2 = (float)o->beta2,
        .m_scale = o->bias_correction ? (float)(1 / (1 - pow(o->beta1, t))) : 1,
        .v_scale = o->bias_correction ? (float)(1 / (1 - pow(o->beta2, t))) : 1,
        .l1 = (float)o->l1,
        .l2 = (float)o->l2,
        .beta = (float)o->beta,
        .power = (float)o->learning_rate_power,
        .exponent = (float)o->exponent,
        .trust_coefficient = (float)o->trust_coefficient,
        .weight_decay = (float)o->weight_decay,
        .decay = inside ? 0 : (float)(o->weight_decay * (o->weight_decay_by_learning_rate ? rate : 1)),
        .clip_gradient_min = (float)o->clip_gradient_min,
        .clip_gradient_max = (float)o->clip_gradient_max,
        .clip_weight_min = (float)o->clip_weight_min,
        .clip_weight_max = (float)o->clip_weight_max,
        .nesterov = o->nesterov,
        .sum_inside_sqrt = o->sum_inside_sqrt,
        .clips_gradient = isfinite(o->clip_gradient_min) || isfinite(o->clip_gradient_max),
        .clips_weight = isfinite(o->clip_weight_min) || isfinite(o->clip_weight_max),
    };
}
